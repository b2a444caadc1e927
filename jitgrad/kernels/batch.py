"""One launch of a kernel over many rows of operands, such as all parameters of an optimizer.

A row is one call of an elementwise operation: so many operands, the same number in every row, whose
elements lie without gaps. The elements of all rows, laid end to end, are cut into tasks of one
size, so threads share the work evenly whatever the sizes of the rows. Operands may also be single
elements (``wide`` false), which kernels of their own may write before and after.

The drivers take ``(spec, buffers, offsets, numbers)``: a tuple of all rows' buffers in a row, their
offsets in bytes, and an array of numbers that the kernel gets as its last operand. Of a fold, whose
kernels add to a number, the array has one number for each task.

=====================  =========================================================================
``spec[0:3]``          addresses of the kernel, and of those run on every row before and after it
                       (0 for none)
``spec[3]``            number of rows r
``spec[4], spec[5]``   elements of all rows; elements per task of the parallel driver
``spec[6:]``           bytes from one element to the next of the k operands (0 for single ones);
                       then where each row's operands begin in ``buffers``; then where its elements
                       begin among those of all rows, and where they all end
=====================  =========================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from . import cache, threads
from .abi import BUFFER, BUFFER_TUPLE
from .drivers import GRAIN

Driver = Callable[..., None]
_ALIGN = 64  # elements; tasks that begin anywhere would share cache lines

_SOURCE = """
from numba import njit, prange
from jitgrad.kernels.abi import address, call_kernel_{arity} as call_kernel, item_address, p_int64

@njit(error_model="numpy")
def call(fn, spec_address, items, offsets_address, numbers, row, first, n):
    spec, offsets = p_int64(spec_address), p_int64(offsets_address)
    at = spec[6 + {k} + row]
    call_kernel(fn, ({pointers}, numbers, {strides}, 0, n, 0))

@njit(error_model="numpy")
def every_row(fn, spec_address, items, offsets_address, numbers):
    if fn != 0:
        for row in range(p_int64(spec_address)[3]):
            call(fn, spec_address, items, offsets_address, numbers, row, 0, 1)

@njit(error_model="numpy")
def elements(spec_address, items, offsets_address, numbers, lo, hi):
    spec = p_int64(spec_address)
    rows = spec[3]
    begins = 6 + {k} + rows
    row, above = 0, rows
    while above - row > 1:
        middle = (row + above) // 2
        if spec[begins + middle] <= lo:
            row = middle
        else:
            above = middle
    while lo < hi:
        first = lo - spec[begins + row]
        n = min(hi, spec[begins + row + 1]) - lo
        if n > 0:
            call(spec[0], spec_address, items, offsets_address, numbers, row, first, n)
        lo += n
        row += 1

{drivers}
"""

_UPDATE = """
def serial(spec_buffer, items, offsets_buffer, numbers_buffer):
    at, offsets, numbers = address(spec_buffer), address(offsets_buffer), address(numbers_buffer)
    spec = p_int64(at)
    every_row(spec[1], at, items, offsets, numbers)
    elements(at, items, offsets, numbers, 0, spec[4])
    every_row(spec[2], at, items, offsets, numbers)

def parallel(spec_buffer, items, offsets_buffer, numbers_buffer):
    at, offsets, numbers = address(spec_buffer), address(offsets_buffer), address(numbers_buffer)
    spec = p_int64(at)
    total, size = spec[4], spec[5]
    every_row(spec[1], at, items, offsets, numbers)
    for task in prange((total + size - 1) // size):
        elements(at, items, offsets, numbers, task * size, min(task * size + size, total))
    every_row(spec[2], at, items, offsets, numbers)
"""

_FOLD = """
@njit(error_model="numpy")
def task_of(spec_address, items, offsets, numbers, task):
    spec = p_int64(spec_address)
    lo = task * spec[5]
    elements(spec_address, items, offsets, numbers + 8 * task, lo, min(lo + spec[5], spec[4]))

def serial(spec_buffer, items, offsets_buffer, numbers_buffer):
    at, offsets, numbers = address(spec_buffer), address(offsets_buffer), address(numbers_buffer)
    spec = p_int64(at)
    for task in range((spec[4] + spec[5] - 1) // spec[5]):
        task_of(at, items, offsets, numbers, task)

def parallel(spec_buffer, items, offsets_buffer, numbers_buffer):
    at, offsets, numbers = address(spec_buffer), address(offsets_buffer), address(numbers_buffer)
    spec = p_int64(at)
    for task in prange((spec[4] + spec[5] - 1) // spec[5]):
        task_of(at, items, offsets, numbers, task)
"""


def _source(wide: Sequence[bool], fold: bool) -> str:
    pointer = "item_address(items, at + {i}) + offsets[at + {i}] + first * spec[6 + {i}]"
    return _SOURCE.format(
        arity=len(wide) + 1,
        k=len(wide),
        pointers=", ".join(pointer.format(i=i) for i in range(len(wide))),
        strides=", ".join(str(int(x)) for x in wide),
        drivers=_FOLD if fold else _UPDATE,
    )


_ARGUMENTS = (BUFFER, BUFFER_TUPLE, BUFFER, BUFFER)


@functools.cache
def _serial(wide: tuple[bool, ...], fold: bool) -> Driver:
    return cache.function(_source(wide, fold), "serial", _ARGUMENTS)


@functools.cache
def _parallel(wide: tuple[bool, ...], fold: bool) -> Driver:
    def load() -> Driver:
        return cache.function(_source(wide, fold), "parallel", _ARGUMENTS, parallel=True)

    return threads.guarded(load, _serial(wide, fold))


def plan(
    addresses: tuple[int, int, int],
    wide: tuple[bool, ...],
    itemsizes: Sequence[int],
    places: Sequence[int],
    lengths: Sequence[int],
    *,
    work: int = 1,
    fold: bool = False,
) -> tuple[Driver, np.ndarray]:
    """The driver and the spec of a launch.

    Args:
        addresses: the kernel, and what runs on every row before and after it (0 for nothing).
        wide: for each operand whether it has an element for each of the row's.
        itemsizes: bytes per element of each operand.
        places: for each row, which of the buffers is its first.
        lengths: for each row, its elements.
        work: cost of an element relative to a load, an addition and a store.
        fold: whether the kernel adds to its last operand (see :func:`tasks`).
    """
    total = sum(lengths)
    grain = max(1, GRAIN // work)
    size = grain * max(1, total // (64 * grain))
    size = -(-size // _ALIGN) * _ALIGN
    steps = [size * w for size, w in zip(itemsizes, wide, strict=True)]
    begins = accumulate(lengths, initial=0)
    spec = [*addresses, len(places), total, size, *steps, *places, *begins]
    pays = total > 2 * grain and threads.available() > 1
    driver = _parallel(wide, fold) if pays else _serial(wide, fold)
    return driver, np.array(spec, np.int64)


def tasks(spec: np.ndarray) -> int:
    """Into how many tasks the elements of a launch are cut, whatever the number of threads."""
    return -(-int(spec[4]) // int(spec[5]))
