"""Sampling at positions that a grid names, and everything its derivatives of two orders need.

A sample is a weighted sum of a few inputs around a position, the same for all channels. So each
kernel first writes down, for a tile of positions, where these inputs lie and their weights; then it
goes through the channels::

    take   samples = sum of weights * inputs
    add    inputs += weights * samples           the transpose
    dot    slopes[d] = sum over channels of samples * sum of (derivative of weights by d) * inputs

The weights may be replaced by their derivative in a direction: with it the same three are the
derivatives of the last two.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from ..dtypes import dtype
from ..layout import Layout
from . import cache, drivers
from .elementwise import numpy_name

TILE = 64  # positions whose inputs and weights are written down together
TAPS = {"bilinear": 2, "nearest": 1, "bicubic": 4}  # along each dimension
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}

NOWHERE = -(1 << 60)  # in place of an offset: a sum with it is negative

_SOURCE = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import {pointers}
T = {compute}

@njit(error_model="numpy")
def fold(at, size, aligned, padding):
    '''A position brought into a dimension, and its derivative.'''
    slope = T(1)
    if padding == 2:
        low, span = (T(0), T(size - 1)) if aligned else (T(-0.5), T(size))
        if span == 0:
            return T(0), T(0)
        at = at - low
        if at < 0:
            at, slope = -at, -slope
        flips = np.floor(at / span)
        at = at - flips * span
        if flips % T(2) == 0:
            at = at + low
        else:
            at, slope = span - at + low, -slope
    if padding:
        if not at > 0:
            at, slope = T(0), T(0)
        elif at >= size - 1:
            at, slope = T(size - 1), T(0)
    return at, slope

@njit(error_model="numpy")
def offset(i, size, step):
    return i * step if 0 <= i < size else {nowhere}

@njit(error_model="numpy")
def folded(i, size, step, aligned, padding):
    if padding and not 0 <= i < size:
        at, _ = fold(T(i), size, aligned, padding)
        i = np.int64(at)
    return offset(i, size, step)

@njit(error_model="numpy", forceinline=True)
def taps(g, size, step, aligned, padding):
    '''Of the inputs around a position along a dimension: offsets, weights, two derivatives.'''
    chain = T(0.5) * T(size - 1 if aligned else size)
    at = g + T(1)
    at = at * chain if aligned else (at * T(size) - T(1)) * T(0.5)
    {along}

def kernel({arguments}, n, extras):
    x, grid, y, e = p_{x}(p0), p_{x}(p1), p_{x}(p2), p_int64(extras)
    direction, slopes = p_{x}(p3), p_{x}(p4)
    channels, outputs, aligned, padding = e[0], e[1], e[2], e[3]
    xc, x0, x1, x2, n0, n1, n2 = e[4], e[5], e[6], e[7], e[8], e[9], e[10]
    off, weight, sums = scratch_int64({slots}), scratch_{t}({weights}), scratch_{t}({sums})
    for first in range((p5 - p6) * {tile}, min((p5 - p6 + n) * {tile}, outputs), {tile}):
        m = min({tile}, outputs - first)
        for j in range(m):
            o = first + j
            {tables}
        {work}
"""

_ALONG = {
    # `bad` is zero, or NaN where the position is not finite.
    "bilinear": """bad = T(0) if padding else at - at
    at, slope = fold(at, size, aligned, padding)
    chain *= slope
    if not (at > -2 and at < size + 1):
        at = T(-2)
    whole = np.floor(at)
    low, part = np.int64(whole), at - whole
    return (
        offset(low, size, step), offset(low + 1, size, step),
        T(1) - part + bad, part + bad, -chain, chain, T(0), T(0),
    )""",
    "nearest": """at, _ = fold(at, size, aligned, padding)
    if not (at > -2 and at < size + 1):
        at = T(-2)
    return offset(np.int64(np.rint(at)), size, step), T(1), T(0), T(0)""",
    # The cubic convolution (Keys 1981, a = -0.75), whose inputs are brought in one by one.
    "bicubic": """bad = at - at
    if not abs(at) < T(1e15):
        at = T(1e15) if at > 0 else T(-1e15)
    whole = np.floor(at)
    low = np.int64(whole)
    t = at - whole + bad
    t0, t2, t3 = t + T(1), T(1) - t, T(2) - t
    square = chain * chain
    return (
        folded(low - 1, size, step, aligned, padding),
        folded(low, size, step, aligned, padding),
        folded(low + 1, size, step, aligned, padding),
        folded(low + 2, size, step, aligned, padding),
        ((T(-0.75) * t0 + T(3.75)) * t0 - T(6)) * t0 + T(3),
        (T(1.25) * t - T(2.25)) * t * t + T(1),
        (T(1.25) * t2 - T(2.25)) * t2 * t2 + T(1),
        ((T(-0.75) * t3 + T(3.75)) * t3 - T(6)) * t3 + T(3),
        ((T(-2.25) * t0 + T(7.5)) * t0 - T(6)) * chain,
        (T(3.75) * t - T(4.5)) * t * chain,
        (T(4.5) - T(3.75) * t2) * t2 * chain,
        ((T(2.25) * t3 - T(7.5)) * t3 + T(6)) * chain,
        (T(-4.5) * t0 + T(7.5)) * square,
        (T(7.5) * t - T(4.5)) * square,
        (T(7.5) * t2 - T(4.5)) * square,
        (T(-4.5) * t3 + T(7.5)) * square,
    )""",
}

_WORK = {
    "take": """for ch in range(channels):
            for j in range(m):
                sums[j] = 0
            base = ch * xc
            for t in range({taps}):
                for j in range(m):
                    o = off[t * {tile} + j]
                    v = T(x[base + max(o, 0)])
                    sums[j] += weight[t * {tile} + j] * (v if o >= 0 else T(0))
            for j in range(m):
                y[ch * outputs + first + j] = sums[j]""",
    "add": """for ch in range(channels):
            base = ch * xc
            for t in range({taps}):
                for j in range(m):
                    o = off[t * {tile} + j]
                    if o >= 0:
                        v = weight[t * {tile} + j] * T(y[ch * outputs + first + j])
                        x[base + o] = T(x[base + o]) + v""",
    "dot": """for j in range({rank} * {tile}):
            sums[j] = 0
        for ch in range(channels):
            base = ch * xc
            for t in range({taps}):
                for j in range(m):
                    o = off[t * {tile} + j]
                    v = T(x[base + max(o, 0)]) * T(y[ch * outputs + first + j])
                    v = v if o >= 0 else T(0)
                    for d in range({rank}):
                        sums[d * {tile} + j] += weight[(d * {taps} + t) * {tile} + j] * v
        for j in range(m):
            for d in range({rank}):
                slopes[(first + j) * {rank} + d] = sums[d * {tile} + j]""",
}


def _product(taps: Sequence[tuple[int, int]], orders: dict[int, int]) -> str:
    """The product of a tap's weights along each dimension, some of them differentiated."""
    return " * ".join(f"{'abc'[orders.get(d, 0)]}{d}_{k}" for d, k in taps)


def _weight(taps: Sequence[tuple[int, int]], by: int | None, directed: bool) -> str:
    """A tap's weight, or its derivative in the direction, or that of either by a dimension."""
    orders = {} if by is None else {by: 1}
    if not directed:
        return _product(taps, orders)
    return " + ".join(
        f"v{e} * {_product(taps, {**orders, e: orders.get(e, 0) + 1})}" for e, _ in taps
    )


def _tables(how: str, rank: int, taps: int, directed: bool) -> str:
    """Statements that write down the offsets and weights of position ``o``, number ``j``."""
    dims = range(3 - rank, 3)  # the slowest first; a grid names the fastest first
    lines = []
    for d in dims:
        names = ", ".join(f"{letter}{d}_{k}" for letter in "qabc" for k in range(taps))
        at = f"o * {rank} + {2 - d}"
        lines.append(f"{names} = taps(T(grid[{at}]), n{d}, x{d}, aligned, padding)")
        if directed:
            lines.append(f"v{d} = T(direction[{at}])")
    for t, numbers in enumerate(itertools.product(range(taps), repeat=rank)):
        chosen = list(zip(dims, numbers, strict=True))
        lines.append(f"off[{t * TILE} + j] = {' + '.join(f'q{d}_{k}' for d, k in chosen)}")
        for index, by in enumerate(reversed(dims) if how == "dot" else [None]):
            slot = (index * taps**rank + t) * TILE
            lines.append(f"weight[{slot} + j] = {_weight(chosen, by, directed)}")
    return "\n            ".join(lines)


@functools.cache
def kernel(how: str, d: dtype, rank: int, mode: str, directed: bool) -> int:
    """The address of a kernel: ``take``, ``add`` or ``dot``."""
    t, k = d.compute.name, TAPS[mode]
    count = k**rank
    sets = rank if how == "dot" else 1
    common = {"tile": TILE, "taps": count, "rank": rank, "x": d.name}
    text = _SOURCE.format(
        pointers=", ".join(sorted({f"p_{d.name}", "p_int64", f"scratch_{t}", "scratch_int64"})),
        compute=numpy_name(d),
        arguments=", ".join(f"{a}{i}" for a in "ps" for i in range(7)),
        along=_ALONG[mode],
        t=t,
        slots=count * TILE,
        weights=sets * count * TILE,
        sums=sets * TILE,
        tables=_tables(how, rank, k, directed),
        work=_WORK[how].format(**common),
        tile=TILE,
        x=d.name,
        nowhere=NOWHERE,
    )
    return cache.kernel(text, 7)


def plan(
    how: str, mode: str, padding: str, aligned: bool, directed: bool, x: Layout, grid: Layout
) -> tuple[drivers.Driver, np.ndarray]:
    """The driver and spec.

    Operands: inputs [n, channels, ...]; the grid [n, ..., rank], samples [n, channels, ...] and
    the direction and slopes (of the shape of the grid), all row-major; any buffer twice. What a
    kernel does not use may be any buffer.
    """
    rank, d = x.ndim - 2, x.dtype
    samples, channels = x.shape[:2]
    outputs = int(np.prod(grid.shape[1:-1]))
    missing = 3 - rank
    extras = [channels, outputs, int(aligned), PADDINGS[padding], x.strides[1]]
    extras += [*(0,) * missing, *x.strides[2:], *(1,) * missing, *x.shape[2:]]
    tiles = -(-outputs // TILE)
    of_grid, of_samples = outputs * rank, channels * outputs
    address = kernel(how, d, rank, mode, directed)
    steps = [x.strides[0], of_grid, of_samples, of_grid, of_grid]
    itemsizes = (*(d.itemsize,) * 5, 1, 1)
    work = max(1, TILE * (channels + 8) * TAPS[mode] ** rank)
    driver, spec = drivers.plan_lines(
        address,
        [samples, tiles],
        [*([s, 0] for s in steps), [0, 1], [0, 0]],
        itemsizes,
        extras=extras,
        work=work,
    )
    if how == "add":  # the positions of a sample may share inputs: they are one task's
        spec[5] = max(tiles, 1)
    return driver, spec
