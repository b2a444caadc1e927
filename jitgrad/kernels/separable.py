"""Linear maps that act on each dimension by itself: padding, averages of windows, resampling.

Along one dimension output ``j`` is the sum of a few inputs, its *taps*, each with a weight. A map
of up to three dimensions is a product of such: a row of its output is made of the rows that the
slower dimensions name, added up into one line, and of that line's taps. The transpose of a map has
the same form, with taps and outputs exchanged, so one template runs a map and its derivative, and
every element is written by one task alone: no atomics, the same bits for any number of threads.

Maps without weights that have one tap for each output (padding by reflection, the nearest
neighbour) move elements without looking at them, by size, for all dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import BY_NAME, FLOATING, INTEGER, dtype
from ..layout import Layout
from . import cache, drivers
from .elementwise import numpy_name, store
from .index import BY_SIZE
from .launch import Nest

Plan = tuple[drivers.Driver, np.ndarray]


class Taps:
    """A linear map along one dimension.

    Attributes:
        size: the number of inputs.
        first: int64[outputs + 1]: output ``j`` has the taps ``first[j] .. first[j + 1]``.
        index: int64[taps]: the input of each.
        weight: float64[taps], or None where all are one.
        divisor: float64[outputs]: what each sum is divided by, or None.
    """

    def __init__(
        self,
        size: int,
        first: Any,
        index: Any,
        weight: np.ndarray | None = None,
        divisor: np.ndarray | None = None,
    ) -> None:
        self.size = size
        self.first = np.ascontiguousarray(first, np.int64)
        self.index = np.ascontiguousarray(index, np.int64)
        self.weight = weight
        self.divisor = divisor

    @classmethod
    def picking(cls, size: int, index: Any) -> Taps:
        """The map that takes one input for each output."""
        return cls(size, np.arange(len(index) + 1), index)

    @classmethod
    def windows(cls, size: int, starts: Any, ends: Any, divisor: np.ndarray | None = None) -> Taps:
        """The map that adds up the inputs ``starts[j] .. ends[j]``, and may divide the sum."""
        counts = np.maximum(np.asarray(ends) - starts, 0)
        first = np.concatenate([[0], np.cumsum(counts)])
        index = np.arange(first[-1]) + np.repeat(starts - first[:-1], counts)
        return cls(size, first, index, None, divisor)

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def picks(self) -> bool:
        """Whether every output is one input as it is."""
        return (
            self.weight is None
            and self.divisor is None
            and len(self.index) == len(self)
            and bool((np.diff(self.first) == 1).all())
        )

    def transposed(self) -> Taps:
        """The map whose matrix is the transpose of this one's."""
        outputs = np.repeat(np.arange(len(self)), np.diff(self.first))
        weight = self.weight
        if self.divisor is not None:
            weight = (1.0 if weight is None else weight) / self.divisor[outputs]
        order = np.argsort(self.index, kind="stable")
        first = np.searchsorted(self.index[order], np.arange(self.size + 1))
        return Taps(len(self), first, outputs[order], None if weight is None else weight[order])


_ALONE = Taps.picking(1, [0])


class Separable:
    """A linear map of the last dimensions (at most three) of a tensor.

    Attributes:
        taps: of each dimension.
        adjoint: the transpose, whose adjoint is this map.
    """

    def __init__(self, taps: Sequence[Taps]) -> None:
        self.taps = tuple(taps)

    @functools.cached_property
    def adjoint(self) -> Separable:
        transposed = Separable([t.transposed() for t in self.taps])
        transposed.__dict__["adjoint"] = self
        return transposed

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the output."""
        return tuple(len(t) for t in self.taps)


_HEAD = """
import numpy as np
from jitgrad.kernels.abi import {pointers}
T = {compute}

def kernel(p0, p1, p2, p3, s0, s1, s2, s3, n, extras):
    x, y, e = p_{x}(p0), p_{y}(p1), p_int64(extras)
    height, columns, width = e[0], e[1], e[2]
    xd, xh, xw, yd, yh, yw = e[3], e[4], e[5], e[6], e[7], e[8]
    {tables}
    for row in range(p2 - p3, p2 - p3 + n):
        d, h = row // height, row % height
        to = d * yd + h * yh
"""

# e[9:12]: where a run of neighbouring inputs begins and ends, and its distance from the outputs.
_TAKE = """
        at = index0[d] * xd + index1[h] * xh
        if xw == 1 and yw == 1:
            for j in range(e[9]):
                y[to + j] = x[at + index2[j]]
            near = at + e[11]
            for j in range(e[9], e[10]):
                y[to + j] = x[near + j]
            for j in range(e[10], width):
                y[to + j] = x[at + index2[j]]
        else:
            for j in range(width):
                y[to + j * yw] = x[at + index2[j] * xw]
"""

# e[9]: the number of taps in a row's line, if it is the same for every output.
_SUM = """
        same = e[9]
        for j in range(columns):
            line[j] = T(0)
        for a in range(first0[d], first0[d + 1]):
            for b in range(first1[h], first1[h + 1]):
                at = index0[a] * xd + index1[b] * xh
                {row_weight}
                if xw == 1:
                    for j in range(columns):
                        line[j] += {row_term}
                else:
                    for j in range(columns):
                        line[j] += {strided_term}
        {row_divisor}
        if same == 1:
            for j in range(width):
                total = {one_term}
                {divisor}
                y[to + j * yw] = {value}
        elif same == 2:
            for j in range(width):
                c = 2 * j
                total = {term}
                c += 1
                total += {term}
                {divisor}
                y[to + j * yw] = {value}
        else:
            for j in range(width):
                total = T(0)
                for c in range(first2[j], first2[j + 1]):
                    total += {term}
                {divisor}
                y[to + j * yw] = {value}
"""


def _source(d: dtype, kind: str) -> str:
    """The text of a kernel.

    ``kind`` is ``take``, or the letters of what its sums have: ``w`` weights, ``d`` divisors.
    """
    if kind == "take":
        element = BY_SIZE.get(d.itemsize, d.name)
        names = ["index0", "index1", "index2"]
        head = _HEAD.format(
            pointers=", ".join(sorted({"p_int64", f"p_{element}"})),
            compute="np.int64", x=element, y=element, tables=_tables(names, "int64"),
        )  # fmt: skip
        return head + _TAKE
    weighted, divided = "w" in kind, "d" in kind
    compute = _compute(d, weighted)
    names = [f"{name}{i}" for i in range(3) for name in ("first", "index")]
    numbers = [f"weight{i}" for i in range(3) if weighted]
    numbers += [f"divisor{i}" for i in range(3) if divided]
    tables = _tables(names, "int64") + "; " + _tables(numbers, compute.name, len(names))
    tables = f"{tables}\n    line = np.empty(columns, T)".replace("; \n", "\n")
    value = "total"
    if divided:
        value = "total / by"
        if compute.category != FLOATING:  # towards zero, as C divides
            value = "abs(total) // abs(by) * (1 if (total < 0) == (by < 0) else -1)"
    times, times2 = ("w * ", "weight2[j] * ") if weighted else ("", "")
    pointers = {f"p_{name}" for name in (d.name, compute.name, "int64")}
    return _HEAD.format(
        pointers=", ".join(sorted(pointers)), compute=numpy_name(compute), x=d.name, y=d.name,
        tables=tables,
    ) + _SUM.format(
        row_weight="w = weight0[a] * weight1[b]" if weighted else "pass",
        row_term=f"{times}T(x[at + j])",
        strided_term=f"{times}T(x[at + j * xw])",
        one_term=f"{times2}line[index2[j]]",
        row_divisor="part = divisor0[d] * divisor1[h]" if divided else "pass",
        divisor="by = part * divisor2[j]" if divided else "pass",
        term="weight2[c] * line[index2[c]]" if weighted else "line[index2[c]]",
        value=store(value, compute) if compute is d.compute else _ROUNDED,
    )  # fmt: skip


# Weighted bytes are rounded half up, and stay bytes.
_ROUNDED = "np.uint8(min(max(np.floor(total + T(0.5)), T(0)), T(255)))"


def _compute(d: dtype, weighted: bool) -> dtype:
    """The dtype of sums: that of the elements, but integers with weights are summed as floats."""
    return BY_NAME["float32"] if weighted and d.category == INTEGER else d.compute


_FIXED = 12  # extras before the offsets of tables


def _tables(names: Sequence[str], element: str, before: int = 0) -> str:
    return "; ".join(
        f"{name} = p_{element}(extras + 8 * e[{_FIXED + before + i}])"
        for i, name in enumerate(names)
    )


@functools.cache
def kernel(d: dtype, kind: str) -> int:
    """The address of a kernel; see :func:`_source`."""
    return cache.kernel(_source(d, kind), 4)


def _packed(numbers: np.ndarray, d: dtype) -> np.ndarray:
    """Numbers of a dtype as whole int64 words."""
    data = np.asarray(numbers).astype(d.np).tobytes()
    return np.frombuffer(data + bytes(-len(data) % 8), np.int64)


def _taps_of_each(taps: Taps) -> int:
    """The number of taps of every output; 0 where it differs, or there are none."""
    counts = np.diff(taps.first)
    return int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0


def _longest_run(index: np.ndarray) -> tuple[int, int, int]:
    """The first longest stretch where each input follows the one before: its start, end, offset."""
    if not len(index):
        return 0, 0, 0
    cuts = np.flatnonzero(np.diff(index) != 1) + 1
    bounds = np.concatenate([[0], cuts, [len(index)]])
    k = int(np.argmax(np.diff(bounds)))
    start, end = int(bounds[k]), int(bounds[k + 1])
    return start, end, int(index[start]) - start


def plan(mapping: Separable, x: Layout, y: Layout) -> Plan:
    """The driver and spec that apply a map; operands: input, output, any buffer twice."""
    rank, d = len(mapping.taps), x.dtype
    taps = [_ALONE] * (3 - rank) + list(mapping.taps)
    missing = (0,) * (3 - rank)
    split = x.ndim - rank
    planes = Nest(x.shape[:split], (x.strides[:split], y.strides[:split])).merged()
    tables: list[np.ndarray]
    if all(t.picks for t in taps):
        kind = "take"
        tables = [t.index for t in taps]
        run = _longest_run(taps[2].index)
        work = 2 * len(taps[2])
    else:
        weighted = any(t.weight is not None for t in taps)
        divided = any(t.divisor is not None for t in taps)
        kind = "sum" + "w" * weighted + "d" * divided
        kind = kind.removeprefix("sum") or "sum"
        tables = [part for t in taps for part in (t.first, t.index)]
        if weighted:
            ones = [np.ones(len(t.index)) if t.weight is None else t.weight for t in taps]
            tables += [_packed(w, _compute(d, weighted)) for w in ones]
        if divided:
            ones = [np.ones(len(t)) if t.divisor is None else t.divisor for t in taps]
            tables += [_packed(w, d.compute) for w in ones]
        run = (_taps_of_each(taps[2]), 0, 0)
        rows = np.mean([len(t.index) / max(len(t), 1) for t in taps[:2]])
        work = int(taps[2].size * rows + 4 * len(taps[2].index))
    fixed = [len(taps[1]), taps[2].size, len(taps[2])]
    fixed += [*missing, *x.strides[split:], *missing, *y.strides[split:], *run]
    at = len(fixed) + len(tables)
    for table in tables:
        fixed.append(at)
        at += len(table)
    extras = [*fixed, *np.concatenate(tables).tolist()]
    rows_of = len(taps[0]) * len(taps[1])
    itemsizes = (d.itemsize, d.itemsize, 1, 1)
    still = [0] * len(planes.sizes)
    return drivers.plan_lines(
        kernel(d, kind),
        [*planes.sizes, rows_of],
        [[*planes.strides[0], 0], [*planes.strides[1], 0], [*still, 1], [*still, 0]],
        itemsizes,
        extras=extras,
        work=max(1, work),
    )
