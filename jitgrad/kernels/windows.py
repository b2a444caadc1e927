"""The largest element of each window, and where it lies: every kind of max pooling.

Windows are given dimension by dimension: where each begins, how many elements it has, and how far
these are apart. A row of results is made at once. Where its windows follow one another in equal
steps (but for those at the edges), their elements are compared one tap for all windows at a time,
which vectorises; the others window by window.

The first of equal elements counts, and the last NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..dtypes import FLOATING, INTEGER, dtype
from ..layout import Layout
from . import cache, drivers
from .elementwise import numpy_name
from .launch import Nest

FEW = 8  # windows in a row that are not worth comparing together
TILE = 256  # windows compared together: their state fits into a cache


class Windows(NamedTuple):
    """The windows along one dimension.

    Attributes:
        size: of the dimension.
        taps: int64[windows]: the number of elements of each.
        start: int64[windows]: their first elements; None where each plane has its own.
        step: the distance of a window's elements.
    """

    size: int
    taps: np.ndarray
    start: np.ndarray | None
    step: int = 1


_HEAD = """
import numpy as np
from jitgrad.kernels.abi import {pointers}
T = {compute}
lowest = {lowest}

def kernel(p0, p1, p2, p3, p4, p5, s0, s1, s2, s3, s4, s5, n, extras):
    x, y, indices, e = p_{x}(p0), p_{x}(p1), p_int64(p2), p_int64(extras)
    height, width, columns, rows = e[0], e[1], e[2], e[3]
    xd, xh, xw, yd, yh, yw = e[4], e[5], e[6], e[7], e[8], e[9]
    step0, step1, step2 = e[10], e[11], e[12]
    {more}
    start0, count0 = p_int64(p3), p_int64(extras + 8 * e[16])
    start1, count1 = p_int64(p3 + 8 * e[19]), p_int64(extras + 8 * e[17])
    start2, count2 = p_int64(p3 + 8 * (e[19] + height)), p_int64(extras + 8 * e[18])
    best, chosen = scratch_{t}({tile}), scratch_{tap}({tile})
    places = np.empty(e[20], np.int64)  # of a window's taps
    for row in range(p4 - p5, p4 - p5 + n):
        d, h = row // height, row % height
        to = d * yd + h * yh
"""

_ROWS = """
        for j in range(width):
            if lo <= j < hi:
                continue
            # A place is kept as a float, which is chosen without a jump.
            top = lowest
            at = np.float64((start0[d] * rows + start1[h]) * columns + start2[j])
            for a in range(start0[d], start0[d] + count0[d] * step0, step0):
                for b in range(start1[h], start1[h] + count1[h] * step1, step1):
                    for c in range(start2[j], start2[j] + count2[j] * step2, step2):
                        v = T(x[a * xd + b * xh + c * xw])
                        better = (v > top) | (v != v)
                        top = v if better else top
                        at = np.float64((a * rows + b) * columns + c) if better else at
            y[to + j * yw], indices[to + j * yw] = top, np.int64(at)
        for first in range(lo, hi, {tile}):
            m = min({tile}, hi - first)
            for j in range(m):
                best[j], chosen[j] = lowest, 0
            tap = np.{tap}(0)
            places[0] = (start0[d] * rows + start1[h]) * columns + start2[first]
            for a in range(start0[d], start0[d] + count0[d] * step0, step0):
                for b in range(start1[h], start1[h] + count1[h] * step1, step1):
                    for k in range(count2[first]):
                        c = start2[first] + k * step2
                        near = a * xd + b * xh + c * xw
                        places[tap] = (a * rows + b) * columns + c
                        if xw * stride == 1:
                            for j in range(m):
                                v, old = T(x[near + j]), best[j]
                                better = (v > old) | (v != v)
                                best[j] = v if better else old
                                chosen[j] = tap if better else chosen[j]
                        elif xw * stride == 2:
                            for j in range(m):
                                v, old = T(x[near + 2 * j]), best[j]
                                better = (v > old) | (v != v)
                                best[j] = v if better else old
                                chosen[j] = tap if better else chosen[j]
                        else:
                            for j in range(m):
                                v, old = T(x[near + j * xw * stride]), best[j]
                                better = (v > old) | (v != v)
                                best[j] = v if better else old
                                chosen[j] = tap if better else chosen[j]
                        tap = np.{tap}(tap + 1)
            for j in range(m):
                t = to + (first + j) * yw
                y[t], indices[t] = best[j], places[chosen[j]] + j * stride
"""


# Where channels are neighbours in memory, all of them are compared together, window by window.
_CHANNELS = """
        for j in range(width):
            places[0] = (start0[d] * rows + start1[h]) * columns + start2[j]
            taps = 0
            for a in range(start0[d], start0[d] + count0[d] * step0, step0):
                for b in range(start1[h], start1[h] + count1[h] * step1, step1):
                    for c in range(start2[j], start2[j] + count2[j] * step2, step2):
                        near[taps] = a * xd + b * xh + c * xw
                        places[taps] = (a * rows + b) * columns + c
                        taps += 1
            for first in range(0, channels, {tile}):
                m = min({tile}, channels - first)
                for i in range(m):
                    best[i], chosen[i] = lowest, 0
                for k in range(taps):
                    tap, at = np.{tap}(k), near[k] + first
                    for i in range(m):
                        v, old = T(x[at + i]), best[i]
                        better = (v > old) | (v != v)
                        best[i] = v if better else old
                        chosen[i] = tap if better else chosen[i]
                t = to + j * yw + first
                for i in range(m):
                    y[t + i], indices[t + i] = best[i], places[chosen[i]]
"""


def _lowest(d: dtype) -> str:
    if d.category == FLOATING:
        return "T(-np.inf)"
    return f"T({np.iinfo(d.np).min if d.category == INTEGER else 0})"


@functools.cache
def kernel(d: dtype, channels: bool = False) -> int:
    """The address of the kernel for rows, or for neighbouring channels."""
    t = d.compute.name
    tap = "int64" if d.itemsize == 8 else "int32"  # as wide as what is compared beside it
    pointers = {f"p_{d.name}", "p_int64", f"scratch_{t}", f"scratch_{tap}"}
    more = "lo, hi, stride = e[13], e[14], e[15]"
    if channels:
        more = "channels, near = e[13], np.empty(e[20], np.int64)"
    text = (_HEAD + (_CHANNELS if channels else _ROWS)).format(
        more=more, pointers=", ".join(sorted(pointers)), compute=numpy_name(d), lowest=_lowest(d),
        t=t, x=d.name, tap=tap, tile=TILE,
    )  # fmt: skip
    return cache.kernel(text, 6)


def _alike(w: Windows) -> tuple[int, int, int]:
    """The first run of full windows in equal steps: where it begins and ends, and the step."""
    if w.start is None or not w.taps.any():
        return 0, 0, 1
    full = np.concatenate([w.taps == w.taps.max(), [False]])
    lo = int(np.argmax(full))
    hi = lo + int(np.argmin(full[lo:]))
    steps = np.diff(w.start[lo:hi])
    if len(steps) < FEW or (steps != steps[0]).any():
        return 0, 0, 1
    return lo, hi, int(steps[0])


_ALONE = Windows(1, np.ones(1, np.int64), np.zeros(1, np.int64))


def three(windows: Sequence[Windows]) -> list[Windows]:
    """Windows of three dimensions, those before the given ones of size one."""
    return [_ALONE] * (3 - len(windows)) + list(windows)


def plan(
    windows: Sequence[Windows], x: Layout, y: Layout, indices: Layout, starts: Sequence[int]
) -> tuple[drivers.Driver, np.ndarray]:
    """The driver and spec of the last dimensions' windows.

    Operands: input, results, their places (int64, with the strides of the results), the starts of
    the windows of all :func:`three` dimensions in a row (int64), any buffer twice.

    Args:
        starts: strides of the starts over the other dimensions.
    """
    rank, d = len(windows), x.dtype
    every, missing, split = three(windows), (0,) * (3 - rank), x.ndim - rank
    of = (x.strides[:split], y.strides[:split], indices.strides[:split], tuple(starts))
    # With the channels last in memory, they are no planes of their own.
    channels = bool(split) and x.strides[split - 1] == y.strides[split - 1] == 1 < x.strides[-1]
    channels = channels and not starts[-1]
    kept = split - channels
    planes = Nest(x.shape[:kept], tuple(s[:kept] for s in of)).merged()
    fixed = [len(every[1].taps), len(every[2].taps), every[2].size, every[1].size]
    fixed += [*missing, *x.strides[split:], *missing, *y.strides[split:]]
    fixed += [w.step for w in every]
    fixed += [x.shape[kept], 0, 0] if channels else _alike(every[2])
    at = len(fixed) + 5
    for w in every:
        fixed.append(at)
        at += len(w.taps)
    most = prod(int(w.taps.max(initial=0)) for w in every)
    fixed += [len(every[0].taps), max(most, 1)]
    still = [0] * len(planes.sizes)
    return drivers.plan_lines(
        kernel(d, channels),
        [*planes.sizes, len(every[0].taps) * len(every[1].taps)],
        [[*s, 0] for s in planes.strides] + [[*still, 1], [*still, 0]],
        (d.itemsize, d.itemsize, 8, 8, 1, 1),
        extras=[*fixed, *np.concatenate([w.taps for w in every]).tolist()],
        work=max(1, 2 * most * len(every[2].taps) * (x.shape[kept] if channels else 1)),
    )
