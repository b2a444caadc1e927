"""Kernels that find where the largest or smallest element is, and what it is, in one launch.

The first of equal elements is meant, and the first NaN, if there is one, as in PyTorch. Rows: the
extreme of each block of 1024 elements is folded (vectorised); a block is remembered only if it
beats what came before, and only the winner is searched at the end. Columns: a tile of best values
and their rows, updated row by row without branches. Long rows are cut into chunks whose winners,
pairs of value and index, a second launch compares in order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod

from .. import dtypes, errors
from ..dtypes import BOOL, dtype
from ..layout import contiguous_strides
from . import cache
from .launch import Builder, Nest, parts_of

KINDS = {
    # kind: the fold, the comparison, whether values are wanted
    "argmax": ("larger", ">", False),
    "argmin": ("smaller", "<", False),
    "max": ("larger", ">", True),
    "min": ("smaller", "<", True),
}

_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import p_{d}, p_int64, scratch_{d}, scratch_{i}
from jitgrad.kernels.extremes import larger, smaller
from jitgrad.kernels.scalar.bits import select
I = np.{i}
"""

_ROWS = """
@njit(error_model="numpy")
def extreme(p, step, n):
    a = p_{d}(p)
    best = a[0]
    for i in range(n):
        best = {fold}(best, a[i * step])
    return best

@njit(error_model="numpy")
def first_of(p, step, n, best):
    a = p_{d}(p)
    first = np.int32(n)
    for i in range(n):
        x = a[i * step]
        first = smaller(first, select({equal}, np.int32(i), np.int32(n)))
    return first

def kernel(p0, {outs}, s0, {steps}, n, extras):
    e = p_int64(extras)
    length, step = e[0], e[1]
    p0 += e[2]
    {views}
    for k in range(n):
        best, block = p_{d}(p0)[0], 0
        for start in range(0, length, 1024):
            x = extreme(p0 + start * step * {b}, step, min(1024, length - start))
            if {better}:
                best, block = x, start
        start = p0 + block * step * {b}
        at = block + first_of(start, step, min(1024, length - block), best)
        best = p_{d}(p0)[at * step]
        {store}
        p0 += s0 * {b}
"""

_COLUMNS = """
def kernel(p0, {outs}, s0, {steps}, n, extras):
    e = p_int64(extras)
    length, step = e[0], e[1]
    a = p_{d}(p0 + e[2])
    {views}
    bests, rows = scratch_{d}(1024), scratch_{i}(1024)
    for column in range(0, n, 1024):
        w = min(1024, n - column)
        for j in range(w):
            bests[j] = a[(column + j) * s0]
            rows[j] = I(0)
        for i in range(1, length):
            for j in range(w):
                x, best = a[i * step + (column + j) * s0], bests[j]
                take = {better}
                bests[j] = select(take, x, best)
                rows[j] = select(take, I(i), rows[j])
        for j in range(w):
            k = column + j
            best, at = bests[j], rows[j]
            {store}
"""

# Compares the winners of parts, each with its index inside the part; e[1] is the parts' length.
_PAIRS = """
def kernel(p0, p1, {outs}, s0, s1, {steps}, n, extras):
    e = p_int64(extras)
    a, index = p_{d}(p0), p_int64(p1)
    {views}
    for k in range(n):
        best, at = a[k * s0], index[k * s1]
        for i in range(1, e[0]):
            x = a[k * s0 + i * e[2]]
            if {better}:
                best, at = x, i * e[1] + index[k * s1 + i * e[2]]
        {store}
"""


@functools.cache
def _kernel(kind: str, d: dtype, valued: bool, body: str) -> int:
    fold, sign, _ = KINDS[kind]
    nan = d.is_floating_point
    base = 2 if body is _PAIRS else 1
    names = (["value"] if valued else []) + ["where"]
    text = (_HEAD + body).format(
        d=d.name,
        b=d.itemsize,
        i="int64" if d.itemsize == 8 else "int32",
        fold=fold,
        equal="(x == best) | (x != x)" if nan else "x == best",
        better=f"(x {sign} best) | ((x != x) & (best == best))" if nan else f"x {sign} best",
        outs=", ".join(f"p{base + i}" for i in range(len(names))),
        steps=", ".join(f"s{base + i}" for i in range(len(names))),
        views="; ".join(
            f"{name} = p_{d.name if name == 'value' else 'int64'}(p{base + i})"
            for i, name in enumerate(names)
        ),
        store="; ".join(
            f"{name}[k * s{base + i}] = {'best' if name == 'value' else 'at'}"
            for i, name in enumerate(names)
        ),
    )
    return cache.kernel(text, base + len(names))


def build(builder: Builder, kind: str, stored: dtype, kept: Nest, reduced: Nest) -> None:
    """Add the launches that find an extreme along ``reduced`` for each step of ``kept``.

    ``reduced`` is merged in logical order: its row-major flat index is the answer.
    """
    if stored.is_complex:
        raise errors.unsupported(kind, stored)
    d = dtypes.uint8 if stored.category == BOOL else stored
    valued = KINDS[kind][2]
    outs = builder.operands[1:]
    sizes = [d.itemsize, 8] if valued else [8]
    length, step = (reduced.sizes[-1], reduced.strides[0][-1]) if reduced.sizes else (1, 1)
    others = reduced.sizes[:-1]
    if 0 in reduced.sizes:
        raise ValueError(f"{kind}: the reduced dimensions are empty")
    steps = prod(kept.sizes)
    parts, size, rest = parts_of(length, steps) if not others else (1, length, 0)
    if parts == 1 and not others:
        nest = kept.merged()
        columns = nest.columnwise(step)
        builder.launch(
            _kernel(kind, d, valued, _COLUMNS if columns else _ROWS),
            nest,
            [d.itemsize, *sizes],
            builder.operands,
            extras=[length, step, 0],
            work=length,
            columns=columns,
        )
        return
    slots = others or (parts + bool(rest),)
    count = prod(slots)
    values = builder.temporary(count * steps * d.itemsize)
    indices = builder.temporary(count * steps * 8)
    inner = contiguous_strides(kept.sizes)
    outer = tuple(s * steps for s in contiguous_strides(slots))
    jobs: Sequence[tuple[tuple[int, ...], tuple[int, ...], int, int, int]]
    if others:
        jobs = [(others, reduced.strides[0][:-1], length, 0, 0)]
    else:
        jobs = [((parts,), (size * step,), size, 0, 0)]
        if rest:
            jobs.append(((1,), (0,), rest, parts * size * step * d.itemsize, parts))
    for lead, lead_strides, run_length, start, slot in jobs:
        nest = Nest(
            (*lead, *kept.sizes),
            ((*lead_strides, *kept.strides[0]), (*outer, *inner), (*outer, *inner)),
        ).merged()
        columns = nest.columnwise(step)
        builder.launch(
            _kernel(kind, d, True, _COLUMNS if columns else _ROWS),
            nest,
            [d.itemsize, d.itemsize, 8],
            [
                builder.operands[0],
                values.moved(slot * steps * d.itemsize),
                indices.moved(slot * steps * 8),
            ],
            extras=[run_length, step, start],
            work=run_length,
            columns=columns,
        )
    builder.launch(
        _kernel(kind, d, valued, _PAIRS),
        Nest(kept.sizes, (inner, inner, *kept.strides[1:])).merged(),
        [d.itemsize, 8, *sizes],
        [values, indices, *outs],
        extras=[count, length if others else size, steps],
        work=count,
    )
