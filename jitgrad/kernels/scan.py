"""Kernels of running sums, products and extremes along a line.

The running value has the accumulator's dtype (float64 for floats, int64 for integers), as in
PyTorch. Lines whose elements are neighbours are walked one by one, four elements at a time where
the accumulator is wider than they are: the prefixes of four are formed beside the running value,
which then waits for one addition instead of four. Otherwise a tile of neighbouring lines is walked
element by element, vectorised across the tile.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from .. import dtypes, errors
from ..dtypes import BOOL, dtype
from ..layout import Layout
from . import cache
from .elementwise import load, numpy_name, store
from .expression import imports
from .launch import Program, along

TILE = 256  # lines that are walked together

SCANS = {
    "cumsum": ("0", "A({a} + {b})"),
    "cumprod": ("1", "A({a} * {b})"),
    "logcumsumexp": ("-np.inf", "log_add({a}, {b})"),
}
EXTREMES = {"cummax": ">=", "cummin": "<="}

_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import {pointers}, p_int64, scratch_{a}
{functions}
A = {A}
identity = A({identity})
"""

_ROWS = """
def kernel(p0, p1, s0, s1, n, extras):
    e = p_int64(extras)
    length, r0, r1 = e[0], e[1], e[2]
    for k in range(n):
        a, out = p_{x}(p0), p_{o}(p1)
        total = identity
        for i in range({groups}):
            x0, x1 = {load0}, {load1}
            x2, x3 = {load2}, {load3}
            pair = {x0_x1}
            triple = {pair_x2}
            quad = {pair_pair}
            total0, total1 = {total_x0}, {total_pair}
            total2, total = {total_triple}, {total_quad}
            {store0}
            {store1}
            {store2}
            {store3}
        for i in range({groups} * 4, length):
            x = {load_row}
            total = {total_x}
            {store_row}
        p0 += s0 * {b0}
        p1 += s1 * {b1}
"""

_COLUMNS = """
def kernel(p0, p1, s0, s1, n, extras):
    e = p_int64(extras)
    length, r0, r1 = e[0], e[1], e[2]
    a, out = p_{x}(p0), p_{o}(p1)
    totals = scratch_{a}({tile})
    for first in range(0, n, {tile}):
        w = min({tile}, n - first)
        for j in range(w):
            totals[j] = identity
        for i in range(length):
            for j in range(w):
                x, total = {load_tile}, totals[j]
                total = {total_x}
                totals[j] = total
                {store_tile}
"""

_LOG_ADD = """
from jitgrad.kernels.scalar import exp, log1p

@njit(error_model="numpy")
def log_add(x, y):
    high, low = max(x, y), min(x, y)
    if x != x or y != y:
        return x + y
    return high if high == low and high - low != 0 else high + log1p(exp(low - high))
"""

_EXTREME_HEAD = """
import numpy as np
from jitgrad.kernels.abi import p_{x}, p_int64, scratch_{x}, scratch_int64
from jitgrad.kernels.scalar.bits import select
"""

_EXTREME_ROWS = """
def kernel(p0, p1, p2, s0, s1, s2, n, extras):
    e = p_int64(extras)
    length, r0, r1, r2 = e[0], e[1], e[2], e[3]
    for k in range(n):
        a, out, where = p_{x}(p0), p_{x}(p1), p_int64(p2)
        best, at = a[0], 0
        for i in range(length):
            x = a[i * r0]
            if {better}:
                best, at = x, i
            out[i * r1], where[i * r2] = best, at
        p0 += s0 * {b}
        p1 += s1 * {b}
        p2 += s2 * 8
"""

_EXTREME_COLUMNS = """
def kernel(p0, p1, p2, s0, s1, s2, n, extras):
    e = p_int64(extras)
    length, r0, r1, r2 = e[0], e[1], e[2], e[3]
    a, out, where = p_{x}(p0), p_{x}(p1), p_int64(p2)
    bests, rows = scratch_{x}({tile}), scratch_int64({tile})
    for first in range(0, n, {tile}):
        w = min({tile}, n - first)
        for j in range(w):
            bests[j], rows[j] = a[(first + j) * s0], 0
        for i in range(length):
            for j in range(w):
                x, best = a[i * r0 + (first + j) * s0], bests[j]
                take = {better}
                best, at = select(take, x, best), select(take, i, rows[j])
                bests[j], rows[j] = best, at
                out[i * r1 + (first + j) * s1] = best
                where[i * r2 + (first + j) * s2] = at
"""


def _total(out: dtype) -> dtype:
    """The dtype of a running total."""
    if out.is_complex:
        return dtypes.complex128
    return dtypes.float64 if out.is_floating_point else dtypes.int64


@functools.cache
def _kernel(kind: str, x: dtype, out: dtype, columns: bool) -> int:
    identity, combine = SCANS[kind]
    total = _total(out)
    functions = _LOG_ADD if "log_add" in combine else ""
    if functions and total.is_complex:
        functions, combine = imports(("logaddexp(a, b)",), total), "logaddexp({a}, {b})"
    raw = dtypes.uint8 if x.category == BOOL else x

    def read(index: str) -> str:
        # PyTorch casts to the result's dtype first.
        return f"A({load(f'a[{index}]', raw, raw)})"

    def write(index: str, value: str) -> str:
        return f"out[{index}] = {store(value, out, total)}"

    def joined(a: str, b: str) -> str:
        return combine.format(a=a, b=b)

    text = (_HEAD + (_COLUMNS if columns else _ROWS)).format(
        pointers=", ".join(sorted({f"p_{raw.name}", f"p_{out.name}"})),
        a=total.name,
        functions=functions,
        A=numpy_name(total),
        identity=identity,
        x=raw.name,
        o=out.name,
        b0=raw.itemsize,
        b1=out.itemsize,
        tile=TILE,
        # Sums of four float64 might overflow where the running sum does not.
        groups="length // 4" if raw is not dtypes.float64 and kind != "logcumsumexp" else "0",
        **{f"load{u}": read(f"(4 * i + {u}) * r0") for u in range(4)},
        x0_x1=joined("x0", "x1"),
        pair_x2=joined("pair", "x2"),
        pair_pair=joined("pair", joined("x2", "x3")),
        total_x0=joined("total", "x0"),
        total_pair=joined("total", "pair"),
        total_triple=joined("total", "triple"),
        total_quad=joined("total", "quad"),
        **{
            f"store{u}": write(f"(4 * i + {u}) * r1", f"total{u}" if u < 3 else "total")
            for u in range(4)
        },
        load_row=read("i * r0"),
        total_x=joined("total", "x"),
        store_row=write("i * r1", "total"),
        load_tile=read("i * r0 + (first + j) * s0"),
        store_tile=write("i * r1 + (first + j) * s1", "total"),
    )
    return cache.kernel(text, 2)


@functools.cache
def _extremes(kind: str, d: dtype, columns: bool) -> int:
    if d.is_complex:
        raise errors.unsupported(kind, d)
    sign = EXTREMES[kind]
    better = f"x {sign} best"
    if d.is_floating_point:
        better = f"({better}) | (x != x)"
    text = _EXTREME_HEAD + (_EXTREME_COLUMNS if columns else _EXTREME_ROWS)
    return cache.kernel(text.format(x=d.name, b=d.itemsize, better=better, tile=TILE), 3)


def plan(kind: str, x: Layout, dim: int, outs: Sequence[Layout]) -> Program:
    """The program of a scan along ``dim``: of SCANS to one result, of EXTREMES to two."""

    def kernel(columns: bool) -> int:
        if kind in EXTREMES:
            raw = dtypes.uint8 if x.dtype.category == BOOL else x.dtype
            return _extremes(kind, raw, columns)
        return _kernel(kind, x.dtype, outs[0].dtype, columns)

    return along(kernel, (x, *outs), dim, work=2)
