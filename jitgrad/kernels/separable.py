"""Linear maps that act on each dimension by itself: padding, averages of windows, resampling.

Along one dimension output ``j`` is the sum of a few inputs, its *taps*, each with a weight; where
these are neighbours without weights, it is enough to say where they begin and end. A map of up to
three dimensions is a product of such: a row of its output is made of the rows that the slower
dimensions name, added up into one line, and of that line's taps. The transpose of a map has the
same form, with inputs and outputs exchanged, so one template runs a map and its derivative, and
every element is written by one task alone: no atomics, the same bits for any number of threads.

Maps that take one input for each output as it is (padding by reflection, the nearest neighbour)
move elements by their size, for all dtypes. See docs/decisions/0010-maps-by-dimension.md.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import BY_NAME, FLOATING, INTEGER, dtype
from ..layout import Layout
from . import cache, drivers
from .elementwise import numpy_name, store
from .index import BY_SIZE
from .launch import Nest


# Maps ---------------------------------------------------------------------------------------------
class Taps:
    """A linear map along one dimension.

    Attributes:
        size: the number of inputs.
        first: int64[outputs + 1]: output ``j`` has the taps ``first[j] .. first[j + 1]``.
        index: int64[taps]: the input of each.
        weight: float64[taps], or None where all are one.
    """

    def __init__(self, size: int, first: Any, index: Any, weight: Any = None) -> None:
        self.size = size
        self.first = np.ascontiguousarray(first, np.int64)
        self.index = np.ascontiguousarray(index, np.int64)
        self.weight: np.ndarray | None = weight

    @classmethod
    def picking(cls, size: int, index: Any) -> Taps:
        """The map that takes one input for each output."""
        return cls(size, np.arange(len(index) + 1), index)

    @classmethod
    def of_runs(cls, size: int, start: np.ndarray, end: np.ndarray) -> Taps:
        """The map that adds up the inputs ``start[j] .. end[j]``."""
        counts = np.maximum(end - start, 0)
        first = np.concatenate([[0], np.cumsum(counts)])
        return cls(size, first, np.arange(first[-1]) + np.repeat(start - first[:-1], counts))

    def __len__(self) -> int:
        return len(self.first) - 1

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """The number of taps of each output."""
        return np.diff(self.first)

    @property
    def picks(self) -> bool:
        """Whether every output is one input as it is."""
        return self.weight is None and bool((self.counts == 1).all())

    def transposed(self) -> Taps:
        """The map whose matrix is the transpose of this one's."""
        outputs = np.repeat(np.arange(len(self)), self.counts)
        order = np.argsort(self.index, kind="stable")
        first = np.searchsorted(self.index[order], np.arange(self.size + 1))
        weight = None if self.weight is None else self.weight[order]
        return Taps(len(self), first, outputs[order], weight)


class Runs:
    """A map along one dimension that adds up neighbours: windows that never step back.

    Attributes:
        size: the number of inputs.
        start, end: int64[outputs]: the inputs of each.
        before: float64[inputs]: what inputs are multiplied with, or None.
        after: float64[outputs]: what sums are divided by, or None.
    """

    def __init__(
        self, size: int, start: Any, end: Any, after: Any = None, *, before: Any = None
    ) -> None:
        self.size = size
        self.start = np.ascontiguousarray(start, np.int64)
        self.end = np.ascontiguousarray(end, np.int64)
        self.before: np.ndarray | None = before
        self.after: np.ndarray | None = after

    def __len__(self) -> int:
        return len(self.start)

    @property
    def counts(self) -> np.ndarray:
        """The number of inputs of each output."""
        return np.maximum(self.end - self.start, 0)

    def transposed(self) -> Runs:
        """The map whose matrix is the transpose of this one's."""
        inputs = np.arange(self.size)
        start = np.searchsorted(self.end, inputs, "right")
        end = np.searchsorted(self.start, inputs, "right")
        before = None if self.after is None else 1.0 / self.after
        after = None if self.before is None else 1.0 / self.before
        return Runs(len(self), start, end, after, before=before)


Along = Taps | Runs


class Separable:
    """A linear map of the last dimensions (at most three) of a tensor.

    Attributes:
        along: the maps of each dimension: all taps, or all runs.
        adjoint: the transpose, whose adjoint is this map.
        tables: what kernels read, by their kinds and dtypes.
    """

    def __init__(self, along: Sequence[Taps] | Sequence[Runs]) -> None:
        self.along: tuple[Taps | Runs, ...] = tuple(along)
        self.tables: dict[Any, np.ndarray] = {}

    @functools.cached_property
    def adjoint(self) -> Separable:
        transposed = Separable([m.transposed() for m in self.along])  # type: ignore[arg-type]
        transposed.__dict__["adjoint"] = self
        return transposed

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the output."""
        return tuple(len(m) for m in self.along)


# Kernels ------------------------------------------------------------------------------------------
_HEAD = """
import numpy as np
from jitgrad.kernels.abi import {pointers}
T = {compute}

def kernel(p0, p1, p2, p3, p4, s0, s1, s2, s3, s4, n, extras):
    x, y, offsets, e = p_{x}(p0), p_{x}(p1), p_int64(p2), p_int64(extras)
    height, columns, width = e[0], e[1], e[2]
    xd, xh, xw, yd, yh, yw = e[3], e[4], e[5], e[6], e[7], e[8]
    {tables}
    for row in range(p3 - p4, p3 - p4 + n):
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
        for a in {span0}:
            for b in {span1}:
                at = {source0} * xd + {source1} * xh
                {row_weight}
                if xw == 1:
                    for j in range(columns):
                        line[j] += {row_weighted}T(x[at + j])
                else:
                    for j in range(columns):
                        line[j] += {row_weighted}T(x[at + j * xw])
        {before}
        {row_after}
        if same == 1:
            for j in range(width):
                c = {first}
                total = {term}
                {after}
                y[to + j * yw] = {value}
        elif same == 2:
            for j in range(width):
                c = {first_of_two}
                total = {term}
                c += 1
                total += {term}
                {after}
                y[to + j * yw] = {value}
        else:
            for j in range(width):
                total = T(0)
                for c in {span2}:
                    total += {term}
                {after}
                y[to + j * yw] = {value}
"""

# Where channels are neighbours in memory, each step is one for all of them.
_TAKE_CHANNELS = """
        at = index0[d] * xd + index1[h] * xh
        for j in range(width):
            near, there = at + index2[j] * xw, to + j * yw
            for k in range(channels):
                y[there + k] = x[near + k]
"""

_SUM_CHANNELS = """
        for j in range(columns * channels):
            line[j] = T(0)
        for a in {span0}:
            for b in {span1}:
                at = {source0} * xd + {source1} * xh
                {row_weight}
                for j in range(columns):
                    for k in range(channels):
                        line[j * channels + k] += {row_weighted}T(x[at + j * xw + k])
        {before}
        {row_after}
        for j in range(width):
            for k in range(channels):
                sums[k] = T(0)
            for c in {span2}:
                at = {source2} * channels
                for k in range(channels):
                    sums[k] += {weight}line[at + k]
            {after}
            for k in range(channels):
                total = sums[k]
                y[to + j * yw + k] = {value}
"""

# Weighted bytes are rounded half up, and stay bytes.
_ROUNDED = "np.uint8(min(max(np.floor(total + T(0.5)), T(0)), T(255)))"
# Integers are divided towards zero, as C does.
_QUOTIENT = "abs(total) // abs(by) * (1 if (total < 0) == (by < 0) else -1)"


class Kind(NamedTuple):
    """What a kernel does: ``take``, or sums of ``taps`` or ``runs``.

    Attributes:
        form: one of these.
        weighted: whether taps have weights, or what runs add up is multiplied with factors.
        divided: whether sums are divided.
        channels: whether channels are neighbours in memory.
    """

    form: str
    weighted: bool = False
    divided: bool = False
    channels: bool = False

    @property
    def tables(self) -> tuple[list[str], list[str]]:
        """The names of the tables of each dimension: of integers, and of numbers."""
        if self.form == "take":
            return ["index"], []
        integers = ["first", "index"] if self.form == "taps" else ["start", "end"]
        factors = ["weight"] if self.form == "taps" else ["before"]
        return integers, factors * self.weighted + ["after"] * self.divided

    def compute(self, d: dtype) -> dtype:
        """The dtype of sums: that of the elements, but weighted integers are summed as floats."""
        return BY_NAME["float32"] if self.weighted and d.category == INTEGER else d.compute


def _source(d: dtype, kind: Kind) -> str:
    compute = kind.compute(d)
    element = BY_SIZE.get(d.itemsize, d.name) if kind.form == "take" else d.name
    integers, numbers = kind.tables
    names = [(f"{name}{i}", "int64") for i in range(3) for name in integers]
    names += [(f"{name}{i}", compute.name) for i in range(3) for name in numbers]
    tables = [f"{name} = p_{t}(p2 + 8 * offsets[{i}])" for i, (name, t) in enumerate(names)]
    if kind.channels:
        tables.append("channels = e[12]")
    if kind.form != "take":
        size = "columns * channels" if kind.channels else "columns"
        tables.append(f"line = np.empty({size}, T)")
        tables += ["sums = np.empty(channels, T)"] * kind.channels
    head = _HEAD.format(
        pointers=", ".join(sorted({f"p_{t}" for t in (element, compute.name, "int64")})),
        compute=numpy_name(compute),
        x=element,
        tables="\n    ".join(tables),
    )
    if kind.form == "take":
        return head + (_TAKE_CHANNELS if kind.channels else _TAKE)
    taps, weighted, divided = kind.form == "taps", kind.weighted, kind.divided
    value = "total"
    if divided:
        value = "total / by" if compute.category == FLOATING else _QUOTIENT
    factor = "weight" if taps else "before"
    spans = [
        f"range(first{i}[{at}], first{i}[{at} + 1])"
        if taps
        else f"range(start{i}[{at}], end{i}[{at}])"
        for i, at in enumerate("dhj")
    ]
    rescale = "for j in range(columns):\n            line[j] *= before2[j]"
    if kind.channels:
        rescale = (
            "for j in range(columns):\n            for k in range(channels):\n"
            "                line[j * channels + k] *= before2[j]"
        )
    weight, source = "weight2[c] * " if weighted and taps else "", "index2[c]" if taps else "c"
    return head + (_SUM_CHANNELS if kind.channels else _SUM).format(
        span0=spans[0],
        span1=spans[1],
        span2=spans[2],
        source0="index0[a]" if taps else "a",
        source1="index1[b]" if taps else "b",
        row_weight=f"w = {factor}0[a] * {factor}1[b]" if weighted else "pass",
        row_weighted="w * " if weighted else "",
        before=rescale if weighted and not taps else "pass",
        row_after="part = after0[d] * after1[h]" if divided else "pass",
        after="by = part * after2[j]" if divided else "pass",
        first="j" if taps else "start2[j]",
        first_of_two="2 * j" if taps else "start2[j]",
        source2=source,
        weight=weight,
        term=f"{weight}line[{source}]",
        value=store(value, compute) if compute is d.compute else _ROUNDED,
    )


@functools.cache
def kernel(d: dtype, kind: Kind) -> int:
    """The address of a kernel."""
    return cache.kernel(_source(d, kind), 5)


# Plans --------------------------------------------------------------------------------------------
class Plan(NamedTuple):
    """A map bound to layouts.

    Attributes:
        run, spec: the driver and what it walks. Operands: the input, the output, the tables, any
            buffer twice.
        tables: of the maps along the dimensions.
    """

    run: drivers.Driver
    spec: np.ndarray
    tables: np.ndarray


def _packed(numbers: np.ndarray, d: dtype) -> np.ndarray:
    """Numbers of a dtype as whole int64 words."""
    data = np.asarray(numbers).astype(d.np).tobytes()
    return np.frombuffer(data + bytes(-len(data) % 8), np.int64)


def _longest_run(index: np.ndarray) -> tuple[int, int, int]:
    """The first longest stretch where each input follows the one before: its start, end, offset."""
    if not len(index):
        return 0, 0, 0
    cuts = np.flatnonzero(np.diff(index) != 1) + 1
    bounds = np.concatenate([[0], cuts, [len(index)]])
    k = int(np.argmax(np.diff(bounds)))
    start, end = int(bounds[k]), int(bounds[k + 1])
    return start, end, int(index[start]) - start


def _kind(along: Sequence[Along]) -> Kind:
    if all(isinstance(m, Runs) for m in along):
        every = [m for m in along if isinstance(m, Runs)]
        weighted = any(m.before is not None for m in every)
        return Kind("runs", weighted, any(m.after is not None for m in every))
    taps = [m for m in along if isinstance(m, Taps)]
    if all(m.picks for m in taps):
        return Kind("take")
    return Kind("taps", any(m.weight is not None for m in taps))


def _tables(along: Sequence[Along], kind: Kind, d: dtype) -> list[np.ndarray]:
    """The tables in the order of their names in the source."""
    integers, numbers = kind.tables
    tables = [getattr(m, name) for m in along for name in integers]
    lengths = {"weight": lambda m: len(m.index), "before": lambda m: m.size, "after": len}
    for m in along:
        for name in numbers:
            given = getattr(m, name)
            values = np.ones(lengths[name](m)) if given is None else given
            tables.append(_packed(values, kind.compute(d)))
    return tables


def plan(mapping: Separable, x: Layout, y: Layout) -> Plan:
    """The plan that applies a map to an input of layout ``x``."""
    rank, d = len(mapping.along), x.dtype
    runs = isinstance(mapping.along[0], Runs)
    alone: Along = Runs(1, [0], [1]) if runs else Taps.picking(1, [0])
    along: list[Along] = [alone] * (3 - rank) + list(mapping.along)
    kind = _kind(along)
    missing, split = (0,) * (3 - rank), x.ndim - rank
    # With the channels last in memory, they are no planes of their own.
    channels = bool(split) and x.strides[split - 1] == y.strides[split - 1] == 1 < x.strides[-1]
    kind = kind._replace(channels=channels)
    kept = split - channels
    planes = Nest(x.shape[:kept], (x.strides[:kept], y.strides[:kept])).merged()
    last = along[2]
    if isinstance(last, Taps) and kind.form == "take":
        run, work = _longest_run(last.index), 2 * len(last)
    else:
        counts = last.counts
        same = int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0
        run = (same, 0, 0)
        rows = np.prod([m.counts.mean() if len(m) else 0 for m in along[:2]])
        work = int(last.size * rows + 4 * counts.sum())
    # The offsets of the tables come first among them.
    numbers = kind._replace(channels=False)
    tables = mapping.tables.get((numbers, d))
    if tables is None:
        parts = _tables(along, kind, d)
        offsets = np.cumsum([len(parts), *(len(t) for t in parts)])[:-1]
        tables = mapping.tables[numbers, d] = np.concatenate([offsets, *parts])
    extras = [len(along[1]), last.size, len(last)]
    extras += [*missing, *x.strides[split:], *missing, *y.strides[split:], *run]
    if channels:
        extras.append(x.shape[kept])
        work *= x.shape[kept]
    still = [0] * len(planes.sizes)
    driver, spec = drivers.plan_lines(
        kernel(d, kind),
        [*planes.sizes, len(along[0]) * len(along[1])],
        [*([*s, 0] for s in planes.strides), [*still, 0], [*still, 1], [*still, 0]],
        (d.itemsize, d.itemsize, 8, 1, 1),
        extras=extras,
        work=max(1, work),
    )
    return Plan(driver, spec, tables)
