"""Kernels of matrix factorisations that NumPy does not have: LU with row interchanges, and LDL of
symmetric matrices with interchanges of rows and columns.

A kernel steps over a batch. Matrices lie column by column without gaps, and are overwritten by
their factors; pivots and ``info`` are LAPACK's (counted from 1; the first zero pivot, or 0).

==========  ====================================================================================
lu          operands: matrix, pivots, info; extras: rows, columns. Golub & Van Loan, "Matrix
            Computations", algorithm 3.4.1
ldl         operands: matrix (its lower triangle), pivots, info; extras: rows. Bunch & Kaufman,
            "Some stable methods for calculating inertia and solving symmetric linear systems"
            (1977): pivots of one row, or of two where the diagonal is too small
ldl_solve   operands: the factors, their pivots, right-hand sides (overwritten by the solutions);
            extras: rows, columns of the right-hand sides
==========  ====================================================================================

The last two are also there for Hermitian matrices, whose upper triangle is the conjugate of the
lower one: ``ldl_hermitian``, ``ldl_solve_hermitian``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..dtypes import dtype
from . import cache, drivers

_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import p_int64, p_int32, p_{T}

@njit(error_model="numpy")
def swap(a, i, j):
    a[i], a[j] = a[j], a[i]

@njit(error_model="numpy")
def size(x):
    return {size}

@njit(error_model="numpy")
def mirror(x):
    # An element of the upper triangle, of its counterpart below.
    return {mirror}

@njit(error_model="numpy")
def diagonal(x):
    return {diagonal}

@njit(error_model="numpy")
def scale_of(x):
    return {scale}

"""

_LU = """
def kernel(p0, p1, p2, s0, s1, s2, n, extras):
    e = p_int64(extras)
    rows, columns = e[0], e[1]
    count = min(rows, columns)
    for _ in range(n):
        a, pivots, info = p_{T}(p0), p_int32(p1), p_int32(p2)
        info[0] = 0
        for first in range(0, count, {width}):
            last = min(first + {width}, count)
            # A panel of columns, one after the other ...
            for j in range(first, last):
                at = j
                for i in range(j + 1, rows):
                    if size(a[i + j * rows]) > size(a[at + j * rows]):
                        at = i
                pivots[j] = at + 1
                pivot = a[at + j * rows]
                if pivot == 0:
                    if info[0] == 0:
                        info[0] = j + 1
                    continue
                for c in range(columns):
                    swap(a, j + c * rows, at + c * rows)
                for i in range(j + 1, rows):
                    a[i + j * rows] /= pivot
                for c in range(j + 1, last):
                    factor = a[j + c * rows]
                    for i in range(j + 1, rows):
                        a[i + c * rows] -= a[i + j * rows] * factor
            # ... and what it does to the columns behind, all at once.
            for c in range(last, columns):
                for j in range(first, last):
                    factor = a[j + c * rows]
                    for i in range(j + 1, last):
                        a[i + c * rows] -= a[i + j * rows] * factor
                if last - first < {width}:
                    for j in range(first, last):
                        factor = a[j + c * rows]
                        for i in range(last, rows):
                            a[i + c * rows] -= a[i + j * rows] * factor
                    continue
                {factors}
                for i in range(last, rows):
                    a[i + c * rows] -= {products}
        p0 += s0 * {bytes}
        p1 += s1 * 4
        p2 += s2 * 4
"""
WIDTH = 8  # columns of a panel

_LDL = """
ALPHA = (1 + 17 ** 0.5) / 8

@njit(error_model="numpy")
def choose(a, n, k):
    # The row that becomes the k-th pivot, and how many rows the pivot has.
    own, column, at = size(a[k + k * n]), size(a[k] * 0), k
    for i in range(k + 1, n):
        if size(a[i + k * n]) > column:
            column, at = size(a[i + k * n]), i
    if column == 0 or own >= ALPHA * column:
        return k, 1
    row = column * 0
    for j in range(k, at):
        row = max(row, size(a[at + j * n]))
    for i in range(at + 1, n):
        row = max(row, size(a[i + at * n]))
    if own * row >= ALPHA * column * column:
        return k, 1
    return at, 1 if size(a[at + at * n]) >= ALPHA * row else 2

def kernel(p0, p1, p2, s0, s1, s2, n, extras):
    rows = p_int64(extras)[0]
    for _ in range(n):
        a, pivots, info = p_{T}(p0), p_int32(p1), p_int32(p2)
        info[0] = 0
        for k in range(rows):
            a[k + k * rows] = diagonal(a[k + k * rows])
        k = 0
        while k < rows:
            at, width = choose(a, rows, k)
            last = k + width - 1
            if at != last:
                for i in range(at + 1, rows):
                    swap(a, i + last * rows, i + at * rows)
                for i in range(last + 1, at):
                    x, y = a[i + last * rows], a[at + i * rows]
                    a[i + last * rows], a[at + i * rows] = mirror(y), mirror(x)
                a[at + last * rows] = mirror(a[at + last * rows])
                swap(a, last + last * rows, at + at * rows)
                if width == 2:
                    swap(a, last + k * rows, at + k * rows)
            if width == 1:
                pivots[k] = at + 1
                pivot = a[k + k * rows]
                if pivot == 0:
                    if info[0] == 0:
                        info[0] = k + 1
                else:
                    for j in range(k + 1, rows):
                        factor = mirror(a[j + k * rows] / pivot)
                        for i in range(j, rows):
                            a[i + j * rows] -= a[i + k * rows] * factor
                        a[j + j * rows] = diagonal(a[j + j * rows])
                    for i in range(k + 1, rows):
                        a[i + k * rows] /= pivot
            else:
                pivots[k] = pivots[k + 1] = -(at + 1)
                off = a[k + 1 + k * rows]
                unit = scale_of(off)
                d1, d2 = a[k + 1 + (k + 1) * rows] / unit, a[k + k * rows] / unit
                below, above = off / unit, mirror(off) / unit
                scale = 1 / (d1 * d2 - 1) / unit
                for j in range(k + 2, rows):
                    x, y = a[j + k * rows], a[j + (k + 1) * rows]
                    u, v = scale * (d1 * x - below * y), scale * (d2 * y - above * x)
                    p, q = mirror(u), mirror(v)
                    for i in range(j, rows):
                        a[i + j * rows] -= a[i + k * rows] * p + a[i + (k + 1) * rows] * q
                    a[j + k * rows], a[j + (k + 1) * rows] = u, v
                    a[j + j * rows] = diagonal(a[j + j * rows])
            k += width
        for j in range(rows):
            for i in range(j):
                a[i + j * rows] = 0
        p0 += s0 * {bytes}
        p1 += s1 * 4
        p2 += s2 * 4
"""

_LDL_SOLVE = """
def kernel(p0, p1, p2, s0, s1, s2, n, extras):
    e = p_int64(extras)
    rows, columns = e[0], e[1]
    for _ in range(n):
        a, pivots = p_{T}(p0), p_int32(p1)
        for c in range(columns):
            b = p_{T}(p2 + c * rows * {bytes})
            k = 0
            while k < rows:
                if pivots[k] > 0:
                    swap(b, k, pivots[k] - 1)
                    for i in range(k + 1, rows):
                        b[i] -= a[i + k * rows] * b[k]
                    b[k] /= a[k + k * rows]
                    k += 1
                    continue
                swap(b, k + 1, -pivots[k] - 1)
                for i in range(k + 2, rows):
                    b[i] -= a[i + k * rows] * b[k] + a[i + (k + 1) * rows] * b[k + 1]
                off = a[k + 1 + k * rows]
                unit = scale_of(off)
                d1, d2 = a[k + 1 + (k + 1) * rows] / unit, a[k + k * rows] / unit
                below, above = off / unit, mirror(off) / unit
                x, y = b[k] / unit, b[k + 1] / unit
                b[k] = (d1 * x - above * y) / (d1 * d2 - 1)
                b[k + 1] = (d2 * y - below * x) / (d1 * d2 - 1)
                k += 2
            k = rows - 1
            while k >= 0:
                width = 1 if pivots[k] > 0 else 2
                for j in range(width):
                    for i in range(k + 1, rows):
                        b[k - j] -= mirror(a[i + (k - j) * rows]) * b[i]
                swap(b, k, abs(pivots[k]) - 1)
                k -= width
        p0 += s0 * {bytes}
        p1 += s1 * 4
        p2 += s2 * {bytes}
"""

_BODIES = {"lu": _LU, "ldl": _LDL, "ldl_solve": _LDL_SOLVE}
_HERMITIAN = "_hermitian"


@functools.cache
def _kernel(kind: str, d: dtype) -> int:
    conjugate = kind.endswith(_HERMITIAN)
    text = (_HEAD + _BODIES[kind.removesuffix(_HERMITIAN)]).format(
        T=d.name,
        bytes=d.itemsize,
        size="abs(x.real) + abs(x.imag)" if d.is_complex else "abs(x)",
        mirror="np.conj(x)" if conjugate else "x",
        diagonal="x.real + x * 0" if conjugate else "x",
        scale="abs(x)" if conjugate else "x",
        width=WIDTH,
        factors="; ".join(f"f{q} = a[first + {q} + c * rows]" for q in range(WIDTH)),
        products=" + ".join(f"a[i + (first + {q}) * rows] * f{q}" for q in range(WIDTH)),
    )
    return cache.kernel(text, 3)


def run(
    kind: str, d: dtype, batch: int, steps: Sequence[int], extras: Sequence[int], buffers: list
) -> None:  # fmt: skip
    """Run a kernel over ``batch`` matrices, whose operands lie ``steps`` elements apart.

    Args:
        buffers: each operand's buffer and byte offset.
    """
    sizes = (d.itemsize, 4, d.itemsize if kind.startswith("ldl_solve") else 4)
    work = max(1, extras[0] * extras[-1])
    driver, spec = drivers.plan_lines(
        _kernel(kind, d), [batch], [[s] for s in steps], sizes, extras=extras, work=work
    )
    driver(spec, *buffers)
