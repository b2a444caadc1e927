"""The shared drivers: one serial and one parallel function per number of operands.

A driver walks the loop nest described by a spec and calls the kernel once per innermost line:

=====================  =========================================================================
``spec[0]``            address of the kernel
``spec[1]``            outer rank r
``spec[2]``            innermost size n
``spec[3]``            outer total (product of the outer sizes)
``spec[4], spec[5]``   outer lines and innermost elements per task of the parallel driver
``spec[6:]``           innermost strides of the k operands in elements, then in bytes; then for
                       each outer dimension, fastest first, its size and k byte strides; then the
                       kernel's extras
=====================  =========================================================================

Tasks are cut by size, never by the number of threads, and no two tasks write the same element, so
results are the same bits for any number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from ..layout import coalesce
from . import cache, threads
from .abi import BUFFER

Driver = Callable[..., None]
GRAIN = 32768  # elements of a cheap operation below which a second thread does not pay

_SOURCE = """
import numpy as np
from numba import njit, prange
from jitgrad.kernels.abi import address, call_kernel_{k} as call_kernel, p_int64

@njit(error_model="numpy")
def nest(spec_address, first, last, lo, hi, {pointers}):
    spec = p_int64(spec_address)
    fn, rank, n = spec[0], spec[1], hi - lo
    extras = spec_address + 8 * (6 + 2 * {k} + rank * (1 + {k}))
    {skip_inner}
    if rank == 0:
        call_kernel(fn, ({pointers}, {strides}, n, extras))
    elif rank == 1:
        {skip_first}
        for _ in range(first, last):
            call_kernel(fn, ({pointers}, {strides}, n, extras))
            {next_line}
    else:
        index = np.empty(rank, np.int64)
        rest = first
        for d in range(rank):
            at = 6 + 2 * {k} + d * (1 + {k})
            i = rest % spec[at]
            rest //= spec[at]
            index[d] = i
            {seek}
        for _ in range(first, last):
            call_kernel(fn, ({pointers}, {strides}, n, extras))
            for d in range(rank):
                at = 6 + 2 * {k} + d * (1 + {k})
                index[d] += 1
                {step}
                if index[d] < spec[at]:
                    break
                index[d] = 0
                {rewind}

def serial(spec_buffer, {buffers}):
    spec = p_int64(address(spec_buffer))
    nest(address(spec_buffer), 0, spec[3], 0, spec[2], {addresses})

def parallel(spec_buffer, {buffers}):
    spec_address = address(spec_buffer)
    spec = p_int64(spec_address)
    n, total, lines, elements = spec[2], spec[3], spec[4], spec[5]
    {bind}
    per_line = (n + elements - 1) // elements
    for task in prange(((total + lines - 1) // lines) * per_line):
        first = (task // per_line) * lines
        lo = (task % per_line) * elements
        nest(spec_address, first, min(first + lines, total), lo, min(lo + elements, n), {pointers})
"""


def _source(k: int) -> str:
    def each(pattern: str, separator: str) -> str:
        return separator.join(pattern.format(i=i, inner=6 + i, line=6 + k + i) for i in range(k))

    return _SOURCE.format(
        k=k,
        pointers=each("p{i}", ", "),
        strides=each("spec[{inner}]", ", "),
        buffers=each("b{i}, o{i}", ", "),
        addresses=each("address(b{i}) + o{i}", ", "),
        bind=each("p{i} = address(b{i}) + o{i}", "; "),
        skip_inner=each("p{i} += lo * spec[{line}]", "; "),
        skip_first="; ".join(f"p{i} += first * spec[{6 + 2 * k + 1 + i}]" for i in range(k)),
        next_line="; ".join(f"p{i} += spec[{6 + 2 * k + 1 + i}]" for i in range(k)),
        seek="; ".join(f"p{i} += i * spec[at + {1 + i}]" for i in range(k)),
        step="; ".join(f"p{i} += spec[at + {1 + i}]" for i in range(k)),
        rewind="; ".join(f"p{i} -= spec[at] * spec[at + {1 + i}]" for i in range(k)),
    )


@functools.cache
def serial(operands: int) -> Driver:
    """The serial driver for kernels of this many operands: ``(spec, buffer, offset, ...)``."""
    arguments = (BUFFER, *(BUFFER, cache.POINTER_SIZED) * operands)
    return cache.function(_source(operands), "serial", arguments)


@functools.cache
def parallel(operands: int) -> Driver:
    """The parallel driver, safe in threads and forked children; same arguments.

    It is loaded, and the threading layer started, by the first launch on several threads.
    """
    arguments = (BUFFER, *(BUFFER, cache.POINTER_SIZED) * operands)

    def load() -> Driver:
        return cache.function(_source(operands), "parallel", arguments, parallel=True)

    return threads.guarded(load, serial(operands))


def plan_loops(
    address: int,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    itemsizes: Sequence[int],
    *,
    extras: Sequence[int] = (),
    work: int = 1,
) -> tuple[Driver, np.ndarray]:
    """The driver and the spec that run a kernel over a loop nest.

    Args:
        address: the kernel.
        shape: loop sizes, slowest first; the last (after merging) becomes the innermost line.
        strides: for each operand its strides in elements, slowest first.
        itemsizes: bytes per element of each operand.
        extras: parameters handed through to the kernel.
        work: cost of one innermost step relative to a load, an addition and a store.
    """
    sizes, merged = coalesce(shape, strides)
    if not sizes:
        sizes, merged = [1], [[1] for _ in strides]
    return plan_lines(address, sizes, merged, itemsizes, extras=extras, work=work)


def plan_lines(
    address: int,
    sizes: Sequence[int],
    strides: Sequence[Sequence[int]],
    itemsizes: Sequence[int],
    *,
    extras: Sequence[int] = (),
    work: int = 1,
) -> tuple[Driver, np.ndarray]:
    """:func:`plan_loops` for a nest that is used as it is (at least one dimension)."""
    operands = len(strides)
    n = sizes[-1]
    outer = list(reversed(range(len(sizes) - 1)))
    total = 1
    for d in outer:
        total *= sizes[d]
    grain = max(1, GRAIN // work)
    elements = n if n <= 2 * grain else grain * max(1, n // (64 * grain))
    lines = max(1, -(-grain // max(n, 1)))
    spec = [address, len(outer), n, total, lines, elements]
    spec += [s[-1] for s in strides]
    spec += [s[-1] * b for s, b in zip(strides, itemsizes, strict=True)]
    for d in outer:
        spec.append(sizes[d])
        spec += [s[d] * b for s, b in zip(strides, itemsizes, strict=True)]
    spec += extras
    if total == 0:  # an empty nest must not call its kernel
        spec[1], spec[2], spec[3] = 0, 0, 0
    pays = n * total > 2 * grain and threads.available() > 1
    driver = parallel(operands) if pays else serial(operands)
    return driver, np.array(spec, np.int64)
