"""What an operation costs beside its arithmetic: 16x16 tensors, short and long chains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from benchmarks.workloads import array, uniform

SMALL = uniform(16, 16)


@pytest.mark.libraries("jitgrad", "torch")
def bench_recorded_add(race: Callable[..., None]) -> None:
    def build(lib: Any) -> Callable[[], object]:
        x, y = (array(lib, SMALL).requires_grad_() for _ in range(2))
        return partial(lib.add, x, y)

    race(build)


def bench_unrecorded_add(race: Callable[..., None]) -> None:
    race(lambda lib: partial(lib.add, array(lib, SMALL), array(lib, SMALL)))


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("length", [2, 200, 2000], ids="{} ops".format)
@pytest.mark.parametrize("part", ["forward", "forward and backward"])
def bench_chain(race: Callable[..., None], length: int, part: str) -> None:
    """mul and add in alternation, every operation recorded; the factors require no gradient."""

    def build(lib: Any) -> Callable[[], object]:
        leaf = array(lib, SMALL).requires_grad_()
        factor, shift = array(lib, 1 + 0.01 * SMALL), array(lib, SMALL)
        ones = array(lib, 1 + 0 * SMALL)

        def forward() -> Any:
            value = leaf
            for _ in range(length // 2):
                value = value * factor + shift
            return value

        def both() -> None:
            leaf.grad = None
            forward().backward(ones)

        return forward if part == "forward" else both

    race(build)
