"""Kernels of normalisation: lines brought to mean 0 and variance 1, then scaled and shifted.

layer_norm, rms_norm, group_norm, batch_norm and instance_norm differ in nothing but what a line is:
the input is seen in a canonical shape, some dimensions of which a line runs along, and some of
which (perhaps the same) a weight lies along. A :class:`Form` says which. Two kernels do the rest,
each in one launch, a line at a time:

=========  ======================================================================================
forward    x, weight, bias -> y, statistics
backward   grad, x, weight, statistics -> the gradient of x, and parts of those of weight and bias
=========  ======================================================================================

What is left of the gradient of a weight that many lines share is the sum of its parts: one for each
sample (group_norm), or for each ``ROWS`` lines (layer_norm).

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
ROWS = 128  # lines that add to one part of a weight's gradient, if all have the same weights
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
T, S, SIZE, AFFINE, WIDE, BLOCK, ROWS = {T}, {S}, {size}, {affine}, {wide}, 1024, 256
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
    x, w, b, y = p_{t}(p0), p_{v}(p1), p_{v}(p2), p_{t}(p3)
    if r1 == 0:
        scale, shift = w[0] * rstd, b[0]
        for i in range(n):
            y[i * r0] = (x[i * r0] - mean) * scale + shift
    else:
        for i in range(n):
            y[i * r0] = (x[i * r0] - mean) * rstd * w[i * r1] + b[i * r1]

def kernel({arguments}, n, extras):
    {unpack}
    # The sums know nothing of weights: to them a line may be one loop.
    rows, length = (1, outer * inner) if i0 == inner * j0 else (outer, inner)
    for k in range(n):
        means, rstds = p_{s}(p4), p_{s}(p4 + apart)
        if not given:
            mean, exact = T(0), 0.0
            if centered:
                for i in range(rows):
                    for j in range(0, length, BLOCK):
                        place = p0 + (i * i0 + j * j0) * SIZE
                        exact += np.float64(total(place, j0, min(BLOCK, length - j)))
                mean = T(exact / count)
            exact = 0.0
            for i in range(rows):
                for j in range(0, length, BLOCK):
                    place = p0 + (i * i0 + j * j0) * SIZE
                    exact += np.float64(squares(place, j0, mean, min(BLOCK, length - j)))
            means[0], rstds[0] = mean, T(1.0 / np.sqrt(exact / count + eps))
            p_{s}(p4 + 2 * apart)[0] = T(exact / (count - 1))
        mean, rstd = means[0], rstds[0]
        for i in range(outer):
            a, w, b = i * i0 * SIZE, i * i1 * AFFINE, i * i2 * AFFINE
            write(p0 + a, j0, p1 + w, p2 + b, j1, p3 + a, mean, rstd, inner)
        {advance}
"""

_FORWARD_COLUMNS = """
def kernel({arguments}, n, extras):
    {unpack}
    x, w, b, y = p_{t}(p0), p_{v}(p1), p_{v}(p2), p_{t}(p3)
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
    g, x, w = p_{t}(p0), p_{t}(p1), p_{v}(p2)
    plain, weighted = T(0), T(0)
    if r2 == 0:
        for i in range(n):
            v = g[i * r0]
            plain += v
            weighted += v * (x[i * r0] - mean)
    else:
        for i in range(n):
            v = g[i * r0] * w[i * r2]
            plain += v
            weighted += v * (x[i * r0] - mean)
    return plain, weighted

@njit(error_model="numpy", fastmath={{"contract"}})
def write(p0, p1, r0, p2, r2, p4, mean, rstd, c1, c2, n):
    g, x, w, y = p_{t}(p0), p_{t}(p1), p_{v}(p2), p_{t}(p4)
    if r2 == 0:
        scale = w[0]
        for i in range(n):
            y[i * r0] = (g[i * r0] * scale - c1 - (x[i * r0] - mean) * c2) * rstd
    else:
        for i in range(n):
            y[i * r0] = (g[i * r0] * w[i * r2] - c1 - (x[i * r0] - mean) * c2) * rstd

@njit(error_model="numpy", fastmath={{"contract"}})
def add(p0, p1, r0, p5, p6, r5, mean, rstd, anew, n):
    g, x, weights, biases = p_{t}(p0), p_{t}(p1), p_{s}(p5), p_{s}(p6)
    if anew:
        for i in range(n):
            weights[i * r5], biases[i * r5] = S(0), S(0)
    for i in range(n):
        v = g[i * r0]
        weights[i * r5] += v * ((x[i * r0] - mean) * rstd)
        biases[i * r5] += v

def kernel({arguments}, n, extras):
    {unpack}
    sums, skipped, slot = e[at + 5], e[at + 6], e[at + 7]
    p5 += slot * WIDE
    p6 += slot * WIDE
    {skip}
    for k in range(n):
        mean, rstd = p_{s}(p3)[0], p_{s}(p3 + apart)[0]
        plain, weighted = 0.0, 0.0
        anew = k == 0 or s5 != 0
        for i in range(outer if sums or not given else 0):
            v0, v1 = 0.0, 0.0
            for j in range(0, inner, BLOCK):
                a, w = (i * i0 + j * j0) * SIZE, (i * i2 + j * j2) * AFFINE
                t0, t1 = totals(p0 + a, p1 + a, j0, p2 + w, j2, mean, min(BLOCK, inner - j))
                v0 += np.float64(t0)
                v1 += np.float64(t1)
            if j2 == 0:
                if sums:
                    weights, biases = p_{s}(p5 + i * i5 * WIDE), p_{s}(p6 + i * i5 * WIDE)
                    if anew and (i == 0 or i5 != 0):
                        weights[0], biases[0] = S(0), S(0)
                    weights[0] += S(v1 * np.float64(rstd))
                    biases[0] += S(v0)
                scale = np.float64(p_{v}(p2 + i * i2 * AFFINE)[0])
                v0 *= scale
                v1 *= scale
            plain += v0
            weighted += v1
        c1 = T(plain / count) if centered and not given else T(0)
        c2 = T(weighted / count * np.float64(rstd) * np.float64(rstd)) if not given else T(0)
        for i in range(outer):
            a, w = i * i0 * SIZE, i * i2 * AFFINE
            write(p0 + a, p1 + a, j0, p2 + w, j2, p4 + a, mean, rstd, c1, c2, inner)
            if sums and j2 != 0:
                w = i * i5 * WIDE
                add(p0 + a, p1 + a, j0, p5 + w, p6 + w, j5, mean, rstd, anew, inner)
        {advance}
"""

_BACKWARD_COLUMNS = """
def kernel({arguments}, n, extras):
    {unpack}
    sums = e[at + 5]
    g, x, w, y = p_{t}(p0), p_{t}(p1), p_{v}(p2), p_{t}(p4)
    means, rstds, weights, biases = p_{s}(p3), p_{s}(p3 + apart), p_{s}(p5), p_{s}(p6)
    c1, c2 = scratch_{t}({tile}), scratch_{t}({tile})
    plain, weighted = scratch_float64({tile}), scratch_float64({tile})
    for first in range(0, n, {tile}):
        width = min({tile}, n - first)
        for j in range(width):
            plain[j], weighted[j] = 0.0, 0.0
        for start in range(0, inner if sums or not given else 0, ROWS):
            for j in range(width):
                c1[j], c2[j] = T(0), T(0)
            for i in range(start, min(start + ROWS, inner)):
                for j in range(width):
                    k = first + j
                    v = g[i * j0 + k * s0]
                    c1[j] += v
                    c2[j] += v * (x[i * j1 + k * s1] - means[k * s3])
            for j in range(width):
                plain[j] += np.float64(c1[j])
                weighted[j] += np.float64(c2[j])
        for j in range(width):
            k = first + j
            rstd, scale = np.float64(rstds[k * s3]), np.float64(w[k * s2])
            if sums:
                weights[k * s5], biases[k * s6] = S(weighted[j] * rstd), S(plain[j])
            if given:
                scale = 0.0
            c1[j] = T(plain[j] * scale / count) if centered else T(0)
            c2[j] = T(weighted[j] * scale / count * rstd * rstd)
        for i in range(inner):
            for j in range(width):
                k = first + j
                v = g[i * j0 + k * s0] * w[k * s2] - c1[j]
                y[i * j4 + k * s4] = (v - (x[i * j1 + k * s1] - means[k * s3]) * c2[j]) * (
                    rstds[k * s3])
"""

_SOURCES = {
    "forward": (_FORWARD_ROWS, _FORWARD_COLUMNS),
    "backward": (_BACKWARD_ROWS, _BACKWARD_COLUMNS),
}
# Of what size the elements of the operands are: those of the input, of weights, of statistics.
_OPERANDS = {
    "forward": ("SIZE", "AFFINE", "AFFINE", "SIZE", "WIDE"),
    "backward": ("SIZE", "SIZE", "AFFINE", "WIDE", "SIZE", "WIDE", "WIDE"),
}


@functools.cache
def _kernel(kind: str, t: dtype, v: dtype, columns: bool) -> int:
    operands = list(enumerate(_OPERANDS[kind]))
    steps = "; ".join(f"i{i}, j{i} = e[{2 + 2 * i}], e[{3 + 2 * i}]" for i, _ in operands)
    names = {
        "t": t.name,
        "s": t.compute.name,
        "v": v.name,
        "tile": TILE,
        "arguments": ", ".join(f"{a}{i}" for a in "ps" for i, _ in operands),
        "advance": "; ".join(f"p{i} += s{i} * {size}" for i, size in operands),
        "skip": "; ".join(f"p{i} += skipped * s{i} * {size}" for i, size in operands),
        "unpack": _UNPACK.format(steps=steps, at=2 + 2 * len(operands)),
    }
    pointers = ", ".join(sorted({f"p_{d.name}" for d in (t, t.compute, v)}))
    head = _HEAD.format(
        t=t.name, pointers=pointers, T=numpy_name(t), S=numpy_name(t.compute), size=t.itemsize,
        affine=v.itemsize, wide=t.compute.itemsize,
    )  # fmt: skip
    return cache.kernel(head + _SOURCES[kind][columns].format(**names), len(operands))


class _Loops(NamedTuple):
    """A form as a kernel walks it: the lines, and the extras that describe one."""

    lines: Nest
    columns: bool
    extras: list[int]
    work: int


def _loops(form: Form, t: dtype, strides: Sequence[Strides]) -> _Loops:
    shape, along = form.shape, form.along
    sizes, steps = coalesce([shape[d] for d in along], [[s[d] for d in along] for s in strides])
    kept = [d for d in range(len(shape)) if d not in along]
    lines = Nest(tuple(shape[d] for d in kept), tuple(tuple(s[d] for d in kept) for s in strides))
    columns = len(sizes) == 1 and lines.merged(in_order=True).columnwise(steps[0][-1])
    extras = [1] * (2 - len(sizes)) + sizes
    for step in steps:
        extras += [0] * (2 - len(step)) + step
    count = prod(shape[d] for d in along)
    apart = form.lines * t.compute.itemsize
    extras += [count, apart, int(form.centered), int(form.given), bits(form.eps)]
    return _Loops(lines, columns, extras, 4 * count)


def _itemsizes(kind: str, t: dtype, v: dtype) -> list[int]:
    sizes = {"SIZE": t.itemsize, "AFFINE": v.itemsize, "WIDE": t.compute.itemsize}
    return [sizes[size] for size in _OPERANDS[kind]]


def forward(form: Form, t: dtype, v: dtype, weighted: bool) -> Program:
    """The program of the forward kernel; all operands row-major, of dtype ``t`` (statistics: of its
    ``compute``).

    Args:
        v: the dtype of weight and bias: ``t`` or its ``compute``.
        weighted: whether weight and bias are there; else they are single numbers.
    """
    full, nothing = contiguous_strides(form.shape), (0,) * len(form.shape)
    weight = form.strides(form.affine) if weighted else nothing
    kept = [d for d in range(len(form.shape)) if d not in form.along]
    loops = _loops(form, t, (full, weight, weight, full, form.strides(kept)))
    builder = Builder(len(_OPERANDS["forward"]))
    if 0 not in form.shape:
        builder.launch(
            _kernel("forward", t, v, loops.columns),
            loops.lines.merged(in_order=True),
            _itemsizes("forward", t, v),
            builder.operands,
            extras=loops.extras,
            work=loops.work,
            columns=loops.columns,
        )
    return builder.program()


def slots(form: Form) -> int:
    """Of how many parts the gradients of weight and bias are the sum."""
    count = prod(n for d, n in enumerate(form.shape) if d not in {*form.along, *form.affine})
    return -(-count // ROWS) if _shared(form) else count


def _shared(form: Form) -> bool:
    """Whether all lines have the same weights."""
    return set(form.affine) <= set(form.along)


def backward(form: Form, t: dtype, v: dtype, weighted: bool, sums: bool) -> Program:
    """The program of the backward kernel; operands as for :func:`forward`.

    The parts of the gradients of weight and bias are [slots, 2, weights], in the dtype of
    statistics; the two operands are that of the weight and that of the bias.

    Args:
        sums: whether they are wanted.
    """
    full, nothing = contiguous_strides(form.shape), (0,) * len(form.shape)
    weight = form.strides(form.affine) if weighted else nothing
    kept = [d for d in range(len(form.shape)) if d not in form.along]
    others = [d for d in kept if d not in form.affine]
    weights = prod(form.shape[d] for d in form.affine)
    part = nothing
    if sums:
        by_slot = nothing if _shared(form) else form.strides(others)
        part = tuple(
            a + 2 * weights * b for a, b in zip(form.strides(form.affine), by_slot, strict=True)
        )
    loops = _loops(form, t, (full, full, weight, form.strides(kept), full, part, part))
    builder = Builder(len(_OPERANDS["backward"]))

    def launch(lines: Nest, skipped: int, slot: int, whole: bool) -> None:
        builder.launch(
            _kernel("backward", t, v, loops.columns),
            lines,
            _itemsizes("backward", t, v),
            builder.operands,
            extras=[*loops.extras, int(sums), skipped, slot],
            work=loops.work,
            columns=loops.columns,
            whole=whole,
        )

    if 0 in form.shape:
        return builder.program()
    lines = loops.lines.merged(in_order=True)
    if not sums or not _shared(form):
        launch(lines, 0, 0, False)
        return builder.program()
    # One loop of lines, cut into slots; what is left over has one of its own.
    count = form.lines
    steps = [s[0] if s else 0 for s in lines.strides]
    slot = 2 * weights
    many, rest = divmod(count, ROWS)
    if many:
        outer = [s * ROWS for s in steps[:5]] + [slot, slot]
        pairs = tuple(zip(outer, steps, strict=True))
        launch(Nest((many, ROWS), pairs), 0, 0, True)
    if rest:
        launch(Nest((rest,), tuple((s,) for s in steps)), count - rest, many * slot, True)
    return builder.program()
