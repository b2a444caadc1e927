"""10^6 float32 numbers through elementwise kernels and reductions, in several layouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from benchmarks.workloads import array, uniform

SQUARE, ROW, COLUMN = uniform(1000, 1000), uniform(1, 1000), uniform(1000, 1)


def operand(lib: Any, layout: str) -> Any:
    """A 1000x1000 operand, or one that broadcasts to it, of the layout that is measured."""
    if layout == "transposed":
        return array(lib, SQUARE).T
    return array(lib, {"contiguous": SQUARE, "row": ROW, "column": COLUMN}[layout])


@pytest.mark.parametrize("layout", ["contiguous", "row", "column", "transposed"])
def bench_add(race: Callable[..., None], threads: int, layout: str) -> None:
    race(lambda lib: partial(lib.add, array(lib, SQUARE), operand(lib, layout)))


@pytest.mark.parametrize("layout", ["contiguous", "row", "column", "transposed"])
def bench_exp(race: Callable[..., None], threads: int, layout: str) -> None:
    """exp of 10^6 numbers; of a row or column, of one expanded to the full shape with stride 0."""

    def build(lib: Any) -> Callable[[], object]:
        x = operand(lib, layout)
        expanded = lib.broadcast_to(x, (1000, 1000)) if layout in ("row", "column") else x
        return partial(lib.exp, expanded)

    race(build)


@pytest.mark.parametrize("over", ["all", "rows", "columns"])
def bench_sum(race: Callable[..., None], threads: int, over: str) -> None:
    dims = {"all": (), "rows": (0,), "columns": (1,)}[over]
    race(lambda lib: partial(array(lib, SQUARE).sum, *dims))
