"""Kernels of sorted order: a stable merge sort, the most frequent element, binary search.

Lines of at most 16 elements are sorted by insertion, longer ones merged from such runs, from one
buffer to the other and back. NaN counts as the largest number, as in PyTorch.
"""

from __future__ import annotations

import functools

from .. import dtypes, errors
from ..dtypes import BOOL, dtype
from ..layout import Layout, Strides, contiguous_strides, expand_strides
from . import cache, drivers
from .index import Plan
from .launch import Builder, Nest, Program

_SORT = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import p_{x}, p_int64

@njit(error_model="numpy")
def insertion(p, q, step, at_step, low, high):
    v, w = p_{x}(p), p_int64(q)
    for i in range(low + 1, high):
        x, at, j = v[i * step], w[i * at_step], i
        while j > low:
            y = v[(j - 1) * step]
            if not ({x_first}):
                break
            v[j * step], w[j * at_step] = y, w[(j - 1) * at_step]
            j -= 1
        v[j * step], w[j * at_step] = x, at

@njit(error_model="numpy")
def merge(p, q, step, at_step, p2, q2, step2, at_step2, low, middle, high):
    v, w, to, at = p_{x}(p), p_int64(q), p_{x}(p2), p_int64(q2)
    i, j = low, middle
    for k in range(low, high):
        take_left = j >= high
        if i < middle and j < high:
            x, y = v[j * step], v[i * step]
            take_left = not ({x_first})
        if take_left:
            to[k * step2], at[k * at_step2] = v[i * step], w[i * at_step]
            i += 1
        else:
            to[k * step2], at[k * at_step2] = v[j * step], w[j * at_step]
            j += 1

def kernel(p0, p1, p2, p3, p4, s0, s1, s2, s3, s4, n, extras):
    e = p_int64(extras)
    length, r0, r1, r2 = e[0], e[1], e[2], e[3]
    for k in range(n):
        a, out, where = p_{x}(p0), p_{x}(p1), p_int64(p2)
        for i in range(length):
            out[i * r1], where[i * r2] = a[i * r0], i
        for low in range(0, length, 16):
            insertion(p1, p2, r1, r2, low, min(low + 16, length))
        width, back = 16, False
        while width < length:
            for low in range(0, length, 2 * width):
                middle, high = min(low + width, length), min(low + 2 * width, length)
                if back:
                    merge(p3, p4, 1, 1, p1, p2, r1, r2, low, middle, high)
                else:
                    merge(p1, p2, r1, r2, p3, p4, 1, 1, low, middle, high)
            width, back = 2 * width, not back
        if back:
            spare, at = p_{x}(p3), p_int64(p4)
            for i in range(length):
                out[i * r1], where[i * r2] = spare[i], at[i]
        p0 += s0 * {b}
        p1 += s1 * {b}
        p2 += s2 * 8
        p3 += s3 * {b}
        p4 += s4 * 8
"""

_MODE = """
import numpy as np
from jitgrad.kernels.abi import p_{x}, p_int64

def kernel(p0, p1, p2, p3, s0, s1, s2, s3, n, extras):
    e = p_int64(extras)
    length, r0, r1 = e[0], e[1], e[2]
    values, indices = p_{x}(p2), p_int64(p3)
    for k in range(n):
        a, at = p_{x}(p0 + k * s0 * {b}), p_int64(p1 + k * s1 * 8)
        most, run = 0, 0
        for i in range(length):
            run += 1
            if i == length - 1 or a[i * r0] != a[(i + 1) * r0]:
                if run > most:
                    most = run
                    values[k * s2], indices[k * s3] = a[i * r0], at[i * r1]
                run = 0
"""

_SEARCH = """
import numpy as np
from jitgrad.kernels.abi import p_{x}, p_int64

def kernel(p0, p1, p2, p3, s0, s1, s2, s3, n, extras):
    e = p_int64(extras)
    length, step, sorter_step, sorted_by, right = e[0], e[1], e[2], e[3], e[4]
    values, out = p_{x}(p0), p_int64(p3)
    for k in range(n):
        a, order = p_{x}(p1 + k * s1 * {b}), p_int64(p2 + k * s2 * 8)
        x, low, high = values[k * s0], 0, length
        while low < high:
            middle = (low + high) // 2
            at = order[middle * sorter_step] if sorted_by else middle
            y = a[at * step]
            if (y > x) if right else (y >= x):
                high = middle
            else:
                low = middle + 1
        out[k * s3] = low
"""

_FIRST = {
    # Whether x, which comes later, belongs before y; for floats NaN last, or first.
    (False, False): "x < y",
    (False, True): "x > y",
    (True, False): "(x < y) | ((y != y) & (x == x))",
    (True, True): "(x > y) | ((x != x) & (y == y))",
}


def _raw(d: dtype) -> dtype:
    if d.is_complex:
        raise errors.unsupported("sort", d)
    return dtypes.uint8 if d.category == BOOL else d


@functools.cache
def _sorter(d: dtype, descending: bool) -> int:
    first = _FIRST[d.is_floating_point, descending]
    return cache.kernel(_SORT.format(x=d.name, b=d.itemsize, x_first=first), 5)


@functools.cache
def _most_frequent(d: dtype) -> int:
    return cache.kernel(_MODE.format(x=d.name, b=d.itemsize), 4)


@functools.cache
def _searcher(d: dtype) -> int:
    return cache.kernel(_SEARCH.format(x=d.name, b=d.itemsize), 4)


def _lines(of: Layout, dim: int) -> tuple[tuple[int, ...], int]:
    """The strides of a tensor's lines along ``dim``, and the stride along them."""
    strides = of.strides or (1,)
    return strides[:dim] + strides[dim + 1 :], strides[dim]


def plan_sort(x: Layout, dim: int, values: Layout, indices: Layout, descending: bool) -> Program:
    """The program that sorts every line along ``dim``: x -> values, indices (int64)."""
    builder = Builder(3)
    shape = x.shape or (1,)
    length, rest = shape[dim], shape[:dim] + shape[dim + 1 :]
    if 0 in shape:
        return builder.program()
    (s0, r0), (s1, r1), (s2, r2) = (_lines(of, dim) for of in (x, values, indices))
    spare = tuple(s * length for s in contiguous_strides(rest))
    count = x.numel
    d = _raw(x.dtype)
    builder.launch(
        _sorter(d, descending),
        Nest(rest, (s0, s1, s2, spare, spare)).merged(),
        [d.itemsize, d.itemsize, 8, d.itemsize, 8],
        [*builder.operands, builder.temporary(count * d.itemsize), builder.temporary(count * 8)],
        extras=[length, r0, r1, r2],
        work=8 * length,
    )
    return builder.program()


def plan_mode(values: Layout, indices: Layout, dim: int, outs: tuple[Layout, Layout]) -> Program:
    """The program that finds the most frequent element (the smallest of several) of sorted lines.

    Operands: sorted values, their indices -> value, index (of its last occurrence); the results
    have the kept dimensions only.
    """
    builder = Builder(4)
    (s0, r0), (s1, r1) = _lines(values, dim), _lines(indices, dim)
    shape = values.shape or (1,)
    d = _raw(values.dtype)
    builder.launch(
        _most_frequent(d),
        Nest(shape[:dim] + shape[dim + 1 :], (s0, s1, outs[0].strides, outs[1].strides)).merged(),
        [d.itemsize, 8, d.itemsize, 8],
        builder.operands,
        extras=[shape[dim], r0, r1],
        work=2 * shape[dim],
    )
    return builder.program()


def plan_search(
    values: Layout, lines: Layout, order: Layout | None, right: bool
) -> tuple[Plan, Strides]:
    """The plan that finds where values belong in sorted lines (along the last dimension).

    Operands: values, lines, the indices that sort them (or any buffer), int64 results laid out
    row-major. ``lines`` is one line, or one for each line of the values.
    """
    shape = values.shape
    to = contiguous_strides(shape)

    def repeated(of: Layout | None) -> Strides:
        if of is None:
            return (0,) * len(shape)
        if of.ndim == 1:
            return (0,) * len(shape)
        return (*expand_strides(of.shape[:-1], of.strides[:-1], shape[:-1]), 0)

    d = _raw(values.dtype)
    by = 0 if order is None else order.strides[-1]
    plan = drivers.plan_loops(
        _searcher(d),
        shape,
        [values.strides, repeated(lines), repeated(order), to],
        (d.itemsize, d.itemsize, 8, 8),
        extras=(lines.shape[-1], lines.strides[-1], by, int(order is not None), int(right)),
        work=8,
    )
    return plan, to
