"""Rows of one matrix, scaled, added to rows of another: bags of embeddings, and their gradient.

For each i: ``target[to[i]] += factor[i] * source[from[i]]``, one after the other on one thread,
since many may go to the same row. A factor of zero (padding) adds nothing, not even NaN. The target
is row-major, in the dtype that sums have.
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
