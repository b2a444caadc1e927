"""Rows of one matrix, scaled, added to rows of another: bags of embeddings, and their gradient.

For each i: ``target[to[i]] += factor[i] * source[from[i]]``, one after the other on one thread,
since many may go to the same row. A factor of zero (padding) adds nothing, not even NaN. The target
is row-major, in the dtype that sums have. Another kernel numbers the bags and finds the factors.
"""

from __future__ import annotations

import functools

import numpy as np

from ..dtypes import dtype
from ..layout import Layout
from . import cache, drivers
from .elementwise import numpy_name

_SOURCE = """
import numpy as np
from jitgrad.kernels.abi import {pointers}, p_int64
T = {T}

def kernel(p0, p1, p2, p3, p4, s0, s1, s2, s3, s4, n, extras):
    e = p_int64(extras)
    width, row, column = e[0], e[1], e[2]
    source, taken, factors, given, target = (
        p_{d}(p0), p_int64(p1), p_{d}(p2), p_int64(p3), p_{t}(p4))
    for i in range(n):
        a, b, factor = taken[i * s1] * row, given[i * s3] * width, T(factors[i * s2])
        for j in range(width if factor != 0 else 0):
            target[b + j] += factor * T(source[a + j * column])
"""


@functools.cache
def _kernel(d: dtype) -> int:
    t = d.compute
    pointers = ", ".join(sorted({f"p_{d.name}", f"p_{t.name}"}))
    return cache.kernel(_SOURCE.format(pointers=pointers, d=d.name, t=t.name, T=numpy_name(t)), 5)


def plan(
    source: Layout, taken: Layout, factors: Layout, given: Layout
) -> tuple[drivers.Driver, np.ndarray]:
    """The serial driver and the spec; operands are source, from, factor, to, target.

    ``from`` and ``to`` are int64 vectors; the factors a vector, or one number.
    """
    steps = [[0], [taken.strides[0]], [sum(factors.strides)], [given.strides[0]], [0]]
    d = source.dtype
    _, spec = drivers.plan_lines(
        _kernel(d),
        [taken.shape[0]],
        steps,
        [d.itemsize, 8, d.itemsize, 8, d.compute.itemsize],
        extras=[source.shape[1], *source.strides],
    )
    return drivers.serial(5), spec


# For each index the bag it is in, for each bag how many count (no padding), and for each index its
# share of a mean, or whether it counts.
_NUMBER = """
import numpy as np
from jitgrad.kernels.abi import p_int64, p_{t}

def kernel(p0, p1, p2, p3, p4, s0, s1, s2, s3, s4, n, extras):
    e = p_int64(extras)
    bags, padding, shared = e[0], e[1], e[2]
    indices, starts, bag, counts, factors = (
        p_int64(p0), p_int64(p1), p_int64(p2), p_int64(p3), p_{t}(p4))
    for i in range(n):
        bag[i] = 0
    for b in range(bags):
        counts[b] = 0
        if 0 <= starts[b * s1] < n:
            bag[starts[b * s1]] += 1
    at = -1
    for i in range(n):
        at += bag[i]
        bag[i] = at
        if at >= 0 and indices[i * s0] != padding:
            counts[at] += 1
    for i in range(n):
        kept = bag[i] >= 0 and indices[i * s0] != padding
        factors[i] = {T}((1.0 / counts[bag[i]] if shared else 1.0) if kept else 0.0)
"""


@functools.cache
def _numbering(t: dtype) -> int:
    return cache.kernel(_NUMBER.format(t=t.name, T=numpy_name(t)), 5)


def number_plan(
    indices: Layout, starts: Layout, bags: int, padding: int, shared: bool, d: dtype
) -> tuple[drivers.Driver, np.ndarray]:
    """The serial driver and the spec that number bags; operands are indices, the bags' starts, and
    the results: each index's bag, each bag's count, each index's factor (of the dtype ``d``).

    ``shared``: factors are shares of a mean.
    """
    _, spec = drivers.plan_lines(
        _numbering(d),
        [indices.shape[0]],
        [[indices.strides[0]], [starts.strides[0]], [1], [1], [1]],
        [8, 8, 8, 8, d.itemsize],
        extras=[bags, padding, shared],
    )
    return drivers.serial(5), spec
