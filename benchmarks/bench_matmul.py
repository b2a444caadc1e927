"""float32 matrix products, square."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from benchmarks.workloads import array, uniform


@pytest.mark.parametrize("size", [64, 256, 1024])
def bench_matmul(race: Callable[..., None], threads: int, size: int) -> None:
    a, b = uniform(size, size), uniform(size, size)
    race(lambda lib: partial(lib.matmul, array(lib, a), array(lib, b)))
