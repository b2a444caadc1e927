"""Moves between the elements of planes and values that name them: what follows a max pooling.

A plane is what the last dimensions hold for one channel of one sample; an index counts its
elements in row-major order. Values and indices have the same shape::

    take   values[o] = plane[indices[o]]
    put    plane[indices[o]] = values[o], the others zero; the last of several stays
    add    plane[indices[o]] += values[o], from zero

The last two write from one task for each plane, so they need no atomics, and give the same bits for
any number of threads.
"""

from __future__ import annotations

import functools

import numpy as np

from ..dtypes import dtype
from ..layout import Layout, coalesce
from . import cache, drivers
from .elementwise import numpy_name

_SOURCE = """
import numpy as np
from jitgrad.kernels.abi import p_int64, p_{x}
T = {compute}

def kernel(p0, p1, p2, s0, s1, s2, n, extras):
    values, indices, elements, e = p_{x}(p0), p_int64(p1), p_{x}(p2), p_int64(extras)
    depth, height, width, size, step = e[0], e[1], e[2], e[3], e[4]
    vd, vh, vw, td, th, tw = e[5], e[6], e[7], e[8], e[9], e[10]
    for i in range(n):
        plane = i * s2
        {clear}
        for d in range(depth):
            for h in range(height):
                v, t = i * s0 + d * vd + h * vh, i * s1 + d * td + h * th
                for w in range(width):
                    to = plane + indices[t] * step
                    {statement}
                    v, t = v + vw, t + tw
"""

_CLEAR = """for k in range(size):
            elements[plane + k * step] = T(0)"""
_STATEMENTS = {
    "take": "values[v] = elements[to]",
    "put": "elements[to] = values[v]",
    "add": "elements[to] = T(elements[to] + values[v])",
}


@functools.cache
def kernel(how: str, d: dtype) -> int:
    """The address of a kernel: ``take``, ``put`` or ``add``."""
    text = _SOURCE.format(
        x=d.name,
        compute=numpy_name(d),
        clear="pass" if how == "take" else _CLEAR,
        statement=_STATEMENTS[how],
    )
    return cache.kernel(text, 3)


def step_of(of: Layout, rank: int) -> int | None:
    """How far the elements of a plane of the last ``rank`` dimensions are apart, if evenly."""
    sizes, (strides,) = coalesce(of.shape[of.ndim - rank :], [of.strides[of.ndim - rank :]])
    return None if len(sizes) > 1 else strides[0] if sizes else 1


def plan(
    how: str, rank: int, values: Layout, indices: Layout, elements: Layout
) -> tuple[drivers.Driver, np.ndarray]:
    """The driver and spec; the planes are the last ``rank`` dimensions of ``elements``, evenly
    spaced."""
    split = values.ndim - rank
    step = step_of(elements, rank)
    assert step is not None
    sizes, (v, t) = coalesce(
        values.shape[split:], [values.strides[split:], indices.strides[split:]]
    )
    sizes, v, t = ([fill] * (3 - len(x)) + x for fill, x in ((1, sizes), (0, v), (0, t)))
    outer, strides = coalesce(
        values.shape[:split],
        [values.strides[:split], indices.strides[:split], elements.strides[:split]],
    )
    if not outer:
        outer, strides = [1], [[0], [0], [0]]
    size = int(np.prod(elements.shape[elements.ndim - rank :]))
    return drivers.plan_lines(
        kernel(how, values.dtype),
        outer,
        strides,
        (values.dtype.itemsize, 8, elements.dtype.itemsize),
        extras=[*sizes, size, step, *v, *t],
        work=max(1, 2 * int(np.prod(sizes)) + size // 8),
    )
