"""Kernels of normalisation: lines brought to mean 0 and variance 1, then scaled and shifted.

layer_norm, rms_norm, group_norm, batch_norm and instance_norm differ in nothing but what a line is:
the input is seen in a canonical shape, some dimensions of which a line runs along, and some of
which (perhaps the same) a weight lies along. A :class:`Form` says which. Three kernels do the rest:

===========  ======================================================================================
forward      x, weight, bias -> y, statistics;      one launch, a line at a time
backward     grad, x, weight, statistics -> the gradient of x
affine       grad, x, statistics -> the gradients of weight and bias: it walks the dimensions that
             the weight does *not* lie along
===========  ======================================================================================

Statistics are a buffer of three rows: means, reciprocal standard deviations, and unbiased variances
(for running estimates), float32 where the operands are 16-bit floats. Each is computed in two
passes over the line (mean first, then the squares of deviations), summed in blocks of at most 1024
elements whose totals are added in float64.

A line is up to two nested loops. Where its elements are farther apart than those of its neighbours
the kernel goes by columns instead: a tile of lines is walked together.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ..dtypes import dtype
from ..layout import Shape, Strides, coalesce, contiguous_strides
from . import cache
from .elementwise import numpy_name
from .launch import Builder, Nest, Program
from .reduction import bits

TILE = 256  # lines walked together
STATISTICS = 3


class Form(NamedTuple):
    """What is normalised, and how.

    Attributes:
        shape: the canonical shape of the (row-major) input.
        along: its dimensions that a line runs along.
        affine: its dimensions that weight and bias lie along.
        eps: what is added to the variance.
        centered: whether the mean is subtracted (rms_norm does not).
        given: whether the statistics are given (running estimates), and so do not depend on x.
        weight_shape: of weight and bias, as the caller knows them.
    """

    shape: Shape
    along: tuple[int, ...]
    affine: tuple[int, ...]
    eps: float
    centered: bool = True
    given: bool = False
    weight_shape: Shape = ()

    @property
    def lines(self) -> int:
        return prod(n for d, n in enumerate(self.shape) if d not in self.along)

    def strides(self, dims: Sequence[int]) -> Strides:
        """Strides over the whole shape of a row-major tensor that lies along some dimensions."""
        steps = iter(contiguous_strides(tuple(self.shape[d] for d in dims)))
        return tuple(next(steps) if d in dims else 0 for d in range(len(self.shape)))


_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import {pointers}, p_int64, p_float64, scratch_{t}, scratch_float64
T, SIZE, STATISTIC, BLOCK, ROWS = {T}, {size}, {statistic_size}, 1024, 256
fast = {{"reassoc", "contract", "nsz"}}
"""

# What every kernel finds among its extras: the two loops of a line, with the steps of the operands,
# then the number of elements of a line, the bytes between the rows of statistics, flags, eps.
_UNPACK = """
    e, q = p_int64(extras), p_float64(extras)
    outer, inner = e[0], e[1]
    {steps}
    at = {at}
    count, apart, centered, given, eps = e[at], e[at + 1], e[at + 2], e[at + 3], q[at + 4]
"""

_FORWARD_ROWS = """
@njit(error_model="numpy", fastmath=fast)
def total(p, step, n):
    x, s = p_{t}(p), T(0)
    for i in range(n):
        s += x[i * step]
    return s

@njit(error_model="numpy", fastmath=fast)
def squares(p, step, mean, n):
    x, s = p_{t}(p), T(0)
    for i in range(n):
        d = x[i * step] - mean
        s += d * d
    return s

@njit(error_model="numpy", fastmath={{"contract"}})
def write(p0, r0, p1, p2, r1, p3, mean, rstd, n):
    x, w, b, y = p_{t}(p0), p_{t}(p1), p_{t}(p2), p_{t}(p3)
    if r1 == 0:
        scale, shift = w[0] * rstd, b[0]
        for i in range(n):
            y[i * r0] = (x[i * r0] - mean) * scale + shift
    else:
        for i in range(n):
            y[i * r0] = (x[i * r0] - mean) * rstd * w[i * r1] + b[i * r1]

def kernel({arguments}, n, extras):
    {unpack}
    for k in range(n):
        means, rstds = p_{s}(p4), p_{s}(p4 + apart)
        if not given:
            mean, exact = T(0), 0.0
            if centered:
                for i in range(outer):
                    for j in range(0, inner, BLOCK):
                        place = p0 + (i * i0 + j * j0) * SIZE
                        exact += np.float64(total(place, j0, min(BLOCK, inner - j)))
                mean = T(exact / count)
            exact = 0.0
            for i in range(outer):
                for j in range(0, inner, BLOCK):
                    place = p0 + (i * i0 + j * j0) * SIZE
                    exact += np.float64(squares(place, j0, mean, min(BLOCK, inner - j)))
            means[0], rstds[0] = mean, T(1.0 / np.sqrt(exact / count + eps))
            p_{s}(p4 + 2 * apart)[0] = T(exact / (count - 1))
        mean, rstd = means[0], rstds[0]
        for i in range(outer):
            a, w = i * i0 * SIZE, i * i1 * SIZE
            write(p0 + a, j0, p1 + w, p2 + i * i2 * SIZE, j1, p3 + a, mean, rstd, inner)
        {advance}
"""

_FORWARD_COLUMNS = """
def kernel({arguments}, n, extras):
    {unpack}
    x, w, b, y = p_{t}(p0), p_{t}(p1), p_{t}(p2), p_{t}(p3)
    means, rstds, spreads = p_{s}(p4), p_{s}(p4 + apart), p_{s}(p4 + 2 * apart)
    part, exact = scratch_{t}({tile}), scratch_float64({tile})
    for first in range(0, n, {tile}):
        width = min({tile}, n - first)
        if not given:
            for j in range(width):
                means[(first + j) * s4] = T(0)
            for squared in range(1 - centered, 2):
                for j in range(width):
                    exact[j] = 0.0
                for start in range(0, inner, ROWS):
                    for j in range(width):
                        part[j] = T(0)
                    for i in range(start, min(start + ROWS, inner)):
                        if squared:
                            for j in range(width):
                                d = x[i * j0 + (first + j) * s0] - means[(first + j) * s4]
                                part[j] += d * d
                        else:
                            for j in range(width):
                                part[j] += x[i * j0 + (first + j) * s0]
                    for j in range(width):
                        exact[j] += np.float64(part[j])
                for j in range(width):
                    if squared:
                        rstds[(first + j) * s4] = T(1.0 / np.sqrt(exact[j] / count + eps))
                        spreads[(first + j) * s4] = T(exact[j] / (count - 1))
                    else:
                        means[(first + j) * s4] = T(exact[j] / count)
        for i in range(inner):
            for j in range(width):
                k = first + j
                scale = rstds[k * s4] * w[k * s1 + i * j1]
                y[i * j3 + k * s3] = (x[i * j0 + k * s0] - means[k * s4]) * scale + (
                    b[k * s2 + i * j2])
"""

_BACKWARD_ROWS = """
@njit(error_model="numpy", fastmath=fast)
def totals(p0, p1, r0, p2, r2, mean, n):
    g, x, w = p_{t}(p0), p_{t}(p1), p_{t}(p2)
    plain, weighted = T(0), T(0)
    if r2 == 0:
        for i in range(n):
            v = g[i * r0]
            plain += v
            weighted += v * (x[i * r0] - mean)
        return plain * w[0], weighted * w[0]
    for i in range(n):
        v = g[i * r0] * w[i * r2]
        plain += v
        weighted += v * (x[i * r0] - mean)
    return plain, weighted

@njit(error_model="numpy", fastmath={{"contract"}})
def write(p0, p1, r0, p2, r2, p4, mean, rstd, c1, c2, n):
    g, x, w, y = p_{t}(p0), p_{t}(p1), p_{t}(p2), p_{t}(p4)
    if r2 == 0:
        scale = w[0]
        for i in range(n):
            y[i * r0] = (g[i * r0] * scale - c1 - (x[i * r0] - mean) * c2) * rstd
    else:
        for i in range(n):
            y[i * r0] = (g[i * r0] * w[i * r2] - c1 - (x[i * r0] - mean) * c2) * rstd

def kernel({arguments}, n, extras):
    {unpack}
    for k in range(n):
        mean, rstd = p_{s}(p3)[0], p_{s}(p3 + apart)[0]
        plain, weighted = 0.0, 0.0
        if not given:
            for i in range(outer):
                for j in range(0, inner, BLOCK):
                    a, w = (i * i0 + j * j0) * SIZE, (i * i2 + j * j2) * SIZE
                    v0, v1 = totals(p0 + a, p1 + a, j0, p2 + w, j2, mean, min(BLOCK, inner - j))
                    plain += np.float64(v0)
                    weighted += np.float64(v1)
        c1 = T(plain / count) if centered else T(0)
        c2 = T(weighted / count * np.float64(rstd) * np.float64(rstd))
        for i in range(outer):
            a = i * i0 * SIZE
            write(p0 + a, p1 + a, j0, p2 + i * i2 * SIZE, j2, p4 + a, mean, rstd, c1, c2, inner)
        {advance}
"""

_BACKWARD_COLUMNS = """
def kernel({arguments}, n, extras):
    {unpack}
    g, x, w, y = p_{t}(p0), p_{t}(p1), p_{t}(p2), p_{t}(p4)
    means, rstds = p_{s}(p3), p_{s}(p3 + apart)
    c1, c2 = scratch_{t}({tile}), scratch_{t}({tile})
    plain, weighted = scratch_float64({tile}), scratch_float64({tile})
    for first in range(0, n, {tile}):
        width = min({tile}, n - first)
        for j in range(width):
            plain[j], weighted[j] = 0.0, 0.0
        if not given:
            for start in range(0, inner, ROWS):
                for j in range(width):
                    c1[j], c2[j] = T(0), T(0)
                for i in range(start, min(start + ROWS, inner)):
                    for j in range(width):
                        k = first + j
                        v = g[i * j0 + k * s0] * w[i * j2 + k * s2]
                        c1[j] += v
                        c2[j] += v * (x[i * j1 + k * s1] - means[k * s3])
                for j in range(width):
                    plain[j] += np.float64(c1[j])
                    weighted[j] += np.float64(c2[j])
        for j in range(width):
            rstd = np.float64(rstds[(first + j) * s3])
            c1[j] = T(plain[j] / count) if centered else T(0)
            c2[j] = T(weighted[j] / count * rstd * rstd)
        for i in range(inner):
            for j in range(width):
                k = first + j
                v = g[i * j0 + k * s0] * w[i * j2 + k * s2] - c1[j]
                y[i * j4 + k * s4] = (v - (x[i * j1 + k * s1] - means[k * s3]) * c2[j]) * (
                    rstds[k * s3])
"""

_AFFINE_ROWS = """
@njit(error_model="numpy", fastmath=fast)
def totals(p0, p1, r0, p2, r2, apart, n):
    g, x, means, rstds = p_{t}(p0), p_{t}(p1), p_{s}(p2), p_{s}(p2 + apart)
    plain, weighted = T(0), T(0)
    if r2 == 0:
        mean, rstd = means[0], rstds[0]
        for i in range(n):
            v = g[i * r0]
            plain += v
            weighted += v * (x[i * r0] - mean)
        return plain, weighted * rstd
    for i in range(n):
        v = g[i * r0]
        plain += v
        weighted += v * (x[i * r0] - means[i * r2]) * rstds[i * r2]
    return plain, weighted

def kernel({arguments}, n, extras):
    {unpack}
    for k in range(n):
        plain, weighted = 0.0, 0.0
        for i in range(outer):
            for j in range(0, inner, BLOCK):
                a, b = (i * i0 + j * j0) * SIZE, (i * i2 + j * j2) * STATISTIC
                v0, v1 = totals(p0 + a, p1 + a, j0, p2 + b, j2, apart, min(BLOCK, inner - j))
                plain += np.float64(v0)
                weighted += np.float64(v1)
        p_{t}(p3)[0], p_{t}(p4)[0] = T(weighted), T(plain)
        {advance}
"""

_AFFINE_COLUMNS = """
def kernel({arguments}, n, extras):
    {unpack}
    g, x, weights, biases = p_{t}(p0), p_{t}(p1), p_{t}(p3), p_{t}(p4)
    means, rstds = p_{s}(p2), p_{s}(p2 + apart)
    c1, c2 = scratch_{t}({tile}), scratch_{t}({tile})
    plain, weighted = scratch_float64({tile}), scratch_float64({tile})
    for first in range(0, n, {tile}):
        width = min({tile}, n - first)
        for j in range(width):
            plain[j], weighted[j] = 0.0, 0.0
        for start in range(0, inner, ROWS):
            for j in range(width):
                c1[j], c2[j] = T(0), T(0)
            for i in range(start, min(start + ROWS, inner)):
                if s2 == 0:
                    mean, rstd = means[i * j2], rstds[i * j2]
                    for j in range(width):
                        v = g[i * j0 + (first + j) * s0]
                        c1[j] += v
                        c2[j] += v * ((x[i * j1 + (first + j) * s1] - mean) * rstd)
                else:
                    for j in range(width):
                        k = first + j
                        v, d = g[i * j0 + k * s0], x[i * j1 + k * s1] - means[i * j2 + k * s2]
                        c1[j] += v
                        c2[j] += v * (d * rstds[i * j2 + k * s2])
            for j in range(width):
                plain[j] += np.float64(c1[j])
                weighted[j] += np.float64(c2[j])
        for j in range(width):
            weights[(first + j) * s3], biases[(first + j) * s4] = T(weighted[j]), T(plain[j])
"""

_SOURCES = {
    "forward": (_FORWARD_ROWS, _FORWARD_COLUMNS),
    "backward": (_BACKWARD_ROWS, _BACKWARD_COLUMNS),
    "affine": (_AFFINE_ROWS, _AFFINE_COLUMNS),
}
_OPERANDS = 5
_STATISTICS_AT = {"forward": 4, "backward": 3, "affine": 2}  # the operand that they are


@functools.cache
def _kernel(kind: str, t: dtype, columns: bool) -> int:
    k = range(_OPERANDS)
    steps = "; ".join(f"i{i}, j{i} = e[{2 + 2 * i}], e[{3 + 2 * i}]" for i in k)
    names = {
        "t": t.name,
        "s": t.compute.name,
        "tile": TILE,
        "arguments": ", ".join(f"{a}{i}" for a in "ps" for i in k),
        "advance": "; ".join(
            f"p{i} += s{i} * {'STATISTIC' if i == _STATISTICS_AT[kind] else 'SIZE'}" for i in k
        ),
        "unpack": _UNPACK.format(steps=steps, at=2 + 2 * _OPERANDS),
    }
    pointers = ", ".join(sorted({f"p_{t.name}", f"p_{t.compute.name}"}))
    head = _HEAD.format(
        t=t.name, pointers=pointers, T=numpy_name(t), size=t.itemsize,
        statistic_size=t.compute.itemsize,
    )  # fmt: skip
    return cache.kernel(head + _SOURCES[kind][columns].format(**names), _OPERANDS)


def plan(kind: str, form: Form, t: dtype, weighted: bool) -> Program:
    """The program of a kernel; operands as listed above, all row-major, of dtype ``t``
    (statistics: of its ``compute``).

    Args:
        weighted: whether weight and bias are there; else they are single numbers.
    """
    full = contiguous_strides(form.shape)
    weight = form.strides(form.affine) if weighted else (0,) * len(form.shape)
    kept = [d for d in range(len(form.shape)) if d not in form.along]
    statistics = form.strides(kept)
    strides = {
        "forward": (full, weight, weight, full, statistics),
        "backward": (full, full, weight, statistics, full),
        "affine": (full, full, statistics, weight, weight),
    }[kind]
    along = form.along
    if kind == "affine":
        along = tuple(d for d in range(len(form.shape)) if d not in form.affine)
    count = prod(form.shape[d] for d in along)
    sizes, steps = coalesce(
        [form.shape[d] for d in along], [[s[d] for d in along] for s in strides]
    )
    loops = [1] * (2 - len(sizes)) + sizes
    lines = [d for d in range(len(form.shape)) if d not in along]
    nest = Nest(
        tuple(form.shape[d] for d in lines), tuple(tuple(s[d] for d in lines) for s in strides)
    ).merged(in_order=True)
    columns = len(sizes) == 1 and nest.columnwise(steps[0][-1])
    extras = list(loops)
    for step in steps:
        extras += [0] * (2 - len(step)) + step
    apart = form.lines * t.compute.itemsize
    extras += [count, apart, int(form.centered), int(form.given), bits(form.eps)]
    sizes_in_bytes = [t.itemsize] * _OPERANDS
    sizes_in_bytes[_STATISTICS_AT[kind]] = t.compute.itemsize
    builder = Builder(_OPERANDS)
    if 0 not in form.shape:
        builder.launch(
            _kernel(kind, t, columns),
            nest,
            sizes_in_bytes,
            builder.operands,
            extras=extras,
            work=4 * count,
            columns=columns,
        )
    return builder.program()
