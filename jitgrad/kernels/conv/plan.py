"""From the layouts of a convolution to the specs of its launches.

Everything is brought to three spatial dimensions (missing ones in front have size one). A *view* of
a convolution is a set of results and the taps they see: a convolution has one, its adjoint one for
each remainder of a place by the strides, because results of one remainder see the same taps.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ...layout import Layout
from .. import cache, threads
from ..abi import BUFFER
from ..gemm import features
from ..gemm.template import PACK
from . import template

Triple = tuple[int, ...]  # one number for each of three spatial dimensions
Launch = Callable[..., None]

HEIGHTS = {"avx512": (12, 9, 8, 6, 4, 3, 2, 1), "avx2": (6, 4, 3, 2, 1), "narrow": (4, 3, 2, 1)}
BLOCK_BYTES = 256 << 10  # of a block of the input: a part of the second cache
PANEL_BYTES = 64 << 10  # of packed gradients
SUM_BYTES = 4 << 20  # of all parts of a gradient of weights
TASKS = 16
THREADS_PAY = 600_000  # multiply-adds


@dataclass(frozen=True)
class Geometry:
    """How a convolution walks: one number per spatial dimension, and the groups.

    Attributes:
        stride, dilation: as they are called.
        padding: zeros before the first element.
        groups: of channels that see only each other.
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


# The launch ---------------------------------------------------------------------------------------
_DRIVERS = """
from numba import njit, prange
from jitgrad.kernels.abi import address, p_int64
from jitgrad.kernels.gemm.micro import call_core

def serial(core, spec, {buffers}):
    for task in range(p_int64(address(spec))[0]):
        call_core(core, address(spec), {addresses}, task)

def parallel(core, spec, {buffers}):
    {bind}
    for task in prange(p_int64(address(spec))[0]):
        call_core(core, address(spec), {bound}, task)
"""
_OPERANDS = "abcd"
_LAUNCH = (types.intp, BUFFER, *(BUFFER, types.intp) * len(_OPERANDS))


def _source() -> str:
    return _DRIVERS.format(
        buffers=", ".join(f"{x}, {x}_offset" for x in _OPERANDS),
        addresses=", ".join(f"address({x}) + {x}_offset" for x in _OPERANDS),
        bind="; ".join(f"p{x} = address({x}) + {x}_offset" for x in _OPERANDS),
        bound=", ".join(f"p{x}" for x in _OPERANDS),
    )


@functools.cache
def _serial() -> Launch:
    return cache.function(_source(), "serial", _LAUNCH)


@functools.cache
def _parallel() -> Launch:
    def load() -> Launch:
        return cache.function(_source(), "parallel", _LAUNCH, parallel=True)

    return threads.guarded(load, _serial())


def _launcher(core: int, spec: np.ndarray, work: int) -> Launch:
    threaded = spec[0] > 1 and work >= THREADS_PAY and threads.available() > 1
    return partial(_parallel() if threaded else _serial(), core, spec)


# The kernels --------------------------------------------------------------------------------------
class Target(NamedTuple):
    """What of the machine a kernel depends on."""

    dtype: str
    size: int
    lanes: int
    masked: bool
    heights: tuple[int, ...]


@functools.cache
def target(dtype: str, of: features.Target | None = None) -> Target:
    of = of or features.host()
    name = dtype.removeprefix("u")  # wrapping arithmetic has the same bits signed and unsigned
    tile = features.tile(name, of)
    return Target(name, tile.size, tile.lanes, tile.masked, HEIGHTS[of.name])


@functools.cache
def core(kind: str, machine: Target) -> int:
    """The address of ``window``, ``outer``, ``inner`` or ``total``."""
    tall = [(h, v) for h in machine.heights for v in (2, 1)]
    flat = [(1, 8), (1, 4), (2, 4), (3, 4)]
    details: dict[str, Any] = {
        "dtype": machine.dtype,
        "size": machine.size,
        "lanes": machine.lanes,
        "masked": machine.masked,
        "transposable": machine.size >= 4,
        "sub_size": len(template.SUB_FIELDS),
        "fields": "\n".join(
            [f"{name.upper()} = {i}" for i, name in enumerate(template.FIELDS)]
            + [f"SUB_{name.upper()} = {i}" for i, name in enumerate(template.SUB_FIELDS)]
        ),
    }
    header = template.HEADER.format(**details)
    if kind == "total":
        text = header + template.TOTAL.format(**details)
    elif kind == "window":
        body = template.WINDOW.format(**details, shapes=tall + flat)
        text = header + template.FILL.format(**details) + body
    else:
        outer = kind == "outer"
        shapes = tall if outer else machine.heights
        tile = (template.OUTER_TILE if outer else template.INNER_TILE).format(
            **details, shapes=shapes
        )
        body = template.WEIGHTS.format(
            **details, tile=tile + (PACK if outer else ""),
            multiply=template.OUTER if outer else template.INNER,
        )  # fmt: skip
        text = header + template.FILL.format(**details) + body
    return cache.kernel(text, 2, fastmath=frozenset())


@functools.cache
def cut(rows: int, heights: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Rows cut into tiles, as (first row, height): those that take the least time."""
    # A tile of few rows waits for its own sums: it takes as long as one of four.
    best: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    whole = max(0, rows - 4 * heights[0]) // heights[0] * heights[0]
    for count in range(1, rows - whole + 1):
        best.append(
            min(
                (best[count - h][0] + max(h, 5) + 1, (*best[count - h][1], h))
                for h in heights
                if h <= count
            )
        )
    found = [heights[0]] * (whole // heights[0]) + sorted(best[-1][1], reverse=True)
    return tuple(zip(itertools.accumulate(found, initial=0), found, strict=False))


# The geometry -------------------------------------------------------------------------------------
def _three(values: Sequence[int], fill: int) -> Triple:
    return (*(fill,) * (3 - len(values)), *values)


def _bytes(of: Layout) -> list[int]:
    return [s * of.dtype.itemsize for s in of.strides]


class Tap(NamedTuple):
    """One place of a filter: which, and what it reads relative to a result, per dimension:
    elements of which remainder (by its number), how many of them ahead."""

    place: Triple
    residue: Triple
    shift: Triple


class View(NamedTuple):
    """Results first, first + step, ..: ``size`` many in each dimension, and the taps they see."""

    first: Triple
    step: Triple
    size: Triple
    taps: tuple[Tap, ...]


class Reading(NamedTuple):
    """How the taps of all views read an input: with ``low`` zeros in front, elements of the same
    remainder by ``stride`` together."""

    stride: Triple
    low: Triple
    residues: tuple[tuple[int, ...], ...]
    views: tuple[View, ...]


def forward_reading(kernel: Triple, out: Triple, of: Geometry) -> Reading:
    """What the results of a convolution read of its input."""
    stride, dilation = _three(of.stride, 1), _three(of.dilation, 1)
    residues = tuple(
        tuple(sorted({t * d % s for t in range(k)}))
        for k, d, s in zip(kernel, dilation, stride, strict=True)
    )
    taps = []
    for place in itertools.product(*(range(k) for k in kernel)):
        reads = [t * d for t, d in zip(place, dilation, strict=True)]
        which = [r.index(x % s) for r, x, s in zip(residues, reads, stride, strict=True)]
        shift = [x // s for x, s in zip(reads, stride, strict=True)]
        taps.append(Tap(place, (*which,), (*shift,)))
    view = View((0, 0, 0), (1, 1, 1), out, tuple(taps))
    return Reading(stride, _three(of.padding, 0), residues, (view,))


def adjoint_reading(kernel: Triple, out: Triple, of: Geometry) -> Reading:
    """What each element of a convolution's input (``out`` is its size) has been read by."""
    stride, dilation = _three(of.stride, 1), _three(of.dilation, 1)
    padding = _three(of.padding, 0)
    # Per dimension: the first element of each remainder, and its taps with what they read.
    seen: list[list[tuple[int, list[tuple[int, int]]]]] = []
    for k, d, s, p, n in zip(kernel, dilation, stride, padding, out, strict=True):
        seen.append(
            [
                (i, [(t, (i + p - t * d) // s) for t in range(k) if (i + p - t * d) % s == 0])
                for i in range(min(s, n))
            ]
        )
    low = [max([0, *(-shift for _, taps in dimension for _, shift in taps)]) for dimension in seen]
    views = []
    for dimensions in itertools.product(*seen):
        starts = tuple(i for i, _ in dimensions)
        size = tuple(-(-(n - i) // s) for n, i, s in zip(out, starts, stride, strict=True))
        taps = tuple(
            Tap(
                tuple(t for t, _ in pairs),
                (0, 0, 0),
                tuple(shift + x for (_, shift), x in zip(pairs, low, strict=True)),
            )
            for pairs in itertools.product(*(taps for _, taps in dimensions))
        )
        views.append(View(starts, stride, size, taps))
    return Reading((1, 1, 1), _three(low, 0), ((0,),) * 3, tuple(views))


class _Blocks:
    """An input's block in scratch memory (or in place): sizes in elements, strides in bytes."""

    def __init__(self, reading: Reading, x: Layout, channels: int, machine: Target,
                 positions: int) -> None:  # fmt: skip
        self.size = size = machine.size
        sizes = _three(x.shape[2:], 1)
        strides = _three(_bytes(x)[2:], 0)
        self.results = tuple(max(view.size[d] for view in reading.views) for d in range(3))
        self.span = [
            max([0, *(tap.shift[d] for view in reading.views for tap in view.taps)])
            for d in range(3)
        ]
        # In place, if no zero and no other order is needed, and loads can be kept inside.
        self.direct = (
            machine.masked
            and reading.stride == (1, 1, 1)
            and reading.low == (0, 0, 0)
            and strides[2] == size
            and all(n + a <= m for n, a, m in zip(self.results, self.span, sizes, strict=True))
            and (self.results[1] == 1 or strides[1] >= self.results[2] * size)
        )
        phases = prod(len(r) for r in reading.residues)
        self.block = list(self.results)
        for d in range(3):
            while self.block[d] > 1 and self._too_large(channels * phases * size, positions, d):
                smaller = -(-self.block[d] // 2)
                self.block[d] = smaller if d < 2 else -(-smaller // 64) * 64
                if d == 2 and self.block[d] <= 512:
                    break
        self.blocks = [-(-n // b) for n, b in zip(self.results, self.block, strict=True)]
        self.extent = [b + a for b, a in zip(self.block, self.span, strict=True)]
        line = self.extent[2]
        if self.blocks[2] == 1 and reading.stride[2] == 1:
            # The zeros behind one line serve as those in front of the next.
            low = reading.low[2]
            line = max(line - low, low + min(sizes[2], line - low), self.block[2])
        self.pitch = line
        if self.direct:
            self.pitch = self.block[2] if self.results[1] == 1 else strides[1] // size
            self.line, self.plane, self.phase = strides[1], strides[0], 0
            self.channel = _bytes(x)[1]
            self.scratch = 0
            return
        self.line = line * size
        self.plane = self.line * self.extent[1] + (self.extent[2] - line) * size
        self.phase = self.plane * self.extent[0]
        self.channel = self.phase * phases
        self.scratch = self.channel * channels + 8 * machine.lanes * size

    def _too_large(self, per_place: int, positions: int, dimension: int) -> bool:
        """Whether the block, or what else is kept for its results, does not fit its cache."""
        extent = prod(b + a for b, a in zip(self.block, self.span, strict=True))
        fits = extent * per_place <= BLOCK_BYTES or self.direct
        return not fits or prod(self.block) * positions > PANEL_BYTES

    def offset(self, reading: Reading, tap: Tap) -> int:
        """What a tap reads, in bytes from a result's own place."""
        phase = 0
        for residue, residues in zip(tap.residue, reading.residues, strict=True):
            phase = phase * len(residues) + residue
        d, h, w = tap.shift
        return phase * self.phase + d * self.plane + h * self.line + w * self.size


class _Spec:
    """The words of a spec: named ones, then tables."""

    def __init__(self) -> None:
        self.named = dict.fromkeys(template.FIELDS, 0)
        self.tables: list[int] = []

    def table(self, words: Sequence[int]) -> int:
        """Add a table; its place."""
        place = len(self.named) + len(self.tables)
        self.tables += words
        return place

    def set(self, **named: int) -> None:
        for name, value in named.items():
            assert name in self.named, name
            self.named[name] = value

    def triple(self, name: str, values: Sequence[int]) -> None:
        self.set(**{f"{name}_{d}": v for d, v in zip("dhw", values, strict=True)})

    def array(self) -> np.ndarray:
        return np.array([*self.named.values(), *self.tables], np.int64)


def _describe(spec: _Spec, reading: Reading, x: Layout, blocks: _Blocks, groups: int) -> None:
    """The fields that ``fill`` reads, and the walk over the blocks."""
    strides = _bytes(x)
    spec.set(
        batch=x.shape[0],
        groups=groups,
        x_n=strides[0],
        x_c=strides[1],
        x_g=strides[1] * (x.shape[1] // groups),
        line=blocks.line,
        pitch=blocks.pitch,
        plane=blocks.plane,
        phase=blocks.phase,
        channel=blocks.channel,
        direct=int(blocks.direct),
        residues=spec.table([r for residues in reading.residues for r in residues]),
    )
    spec.triple("x", _three(strides[2:], 0))
    spec.triple("size", _three(x.shape[2:], 1))
    spec.triple("stride", reading.stride)
    spec.triple("low", reading.low)
    spec.triple("phases", [len(r) for r in reading.residues])
    spec.triple("extent", blocks.extent)
    spec.triple("block", blocks.block)
    spec.triple("blocks", blocks.blocks)


def windows(
    x: Layout, weight: Layout, out: Layout, geometry: Geometry, *, adjoint: bool, bias: int
) -> Launch:
    """The launch ``(x, weight, bias, out)``, each a buffer and an offset, of a convolution or of
    its adjoint.

    Args:
        x: [n, channels, ...], of a convolution's input (its results, for the adjoint).
        weight: [rows, channels / groups, ...].
        out: [n, rows, ...] ([n, channels, ...]).
        bias: its stride; zero for one number for all rows.
    """
    machine = target(x.dtype.name)
    size = machine.size
    groups = geometry.groups
    kernel = _three(weight.shape[2:], 1)
    sizes = _three(out.shape[2:], 1)
    reading = (adjoint_reading if adjoint else forward_reading)(kernel, sizes, geometry)
    channels, rows = x.shape[1] // groups, out.shape[1] // groups
    blocks = _Blocks(reading, x, channels, machine, 0)
    per_row, per_channel, *per_tap = _bytes(weight)
    if adjoint:
        w_row, w_channel, w_group = per_channel, per_row, per_row * channels
    else:
        w_row, w_channel, w_group = per_row, per_channel, per_row * rows
    tap_strides = _three(per_tap, 0)

    spec = _Spec()
    _describe(spec, reading, x, blocks, groups)
    tiles = cut(rows, machine.heights)
    tallest = tiles[0][1]
    units = x.shape[0] * groups * prod(blocks.blocks)
    slices = min(len(tiles), -(-TASKS // 2 // units)) if units < TASKS // 2 else 1
    vectors = 8 if tallest == 1 else 4 if tallest < 4 else 2
    buffer = -(-tallest * vectors * machine.lanes * size // 64) * 64
    o_n, o_row, *o_spatial = _bytes(out)
    o_steps = _three(o_spatial, 0)
    spec.set(
        tasks=min(units, TASKS) * slices,
        slices=slices,
        channels=channels,
        rows=rows,
        scratch=buffer + blocks.scratch,
        panel=buffer,
        w_g=w_group,
        w_row=w_row,
        w_channel=w_channel,
        bias_step=bias * size,
        vectors=vectors,
        tiles=spec.table([word for tile in tiles for word in tile]),
        tile_count=len(tiles),
        o_n=o_n,
        o_g=o_row * rows,
        o_row=o_row,
        sub_number=len(reading.views),
    )
    subs: list[int] = []
    for view in reading.views:
        taps = []
        for tap in view.taps:
            a = sum(t * s for t, s in zip(tap.place, tap_strides, strict=True))
            taps += [a, blocks.offset(reading, tap)]
        steps = [s * o for s, o in zip(view.step, o_steps, strict=True)]
        start = sum(f * o for f, o in zip(view.first, o_steps, strict=True))
        subs += [start, *view.size, *steps, spec.table(taps), len(view.taps)]
    spec.set(subs=spec.table(subs))
    work = (
        out.numel * channels * prod(kernel) // prod(_three(geometry.stride, 1) if adjoint else (1,))
    )
    return _launcher(core("window", machine), spec.array(), work)


def weight_gradient(
    x: Layout, y: Layout, out: Layout, geometry: Geometry
) -> tuple[Launch, Launch, int]:
    """Launches ``(x, y, sums, sums)`` and ``(sums, out, out, out)``, and the bytes of the sums.

    Args:
        x: [n, channels, ...]: a convolution's input.
        y: [n, rows, ...]: the gradient of its results, contiguous.
        out: [rows, channels / groups, ...]: the gradient of its weights, contiguous.
    """
    machine = target(x.dtype.name)
    size, lanes = machine.size, machine.lanes
    groups = geometry.groups
    kernel, sizes = _three(out.shape[2:], 1), _three(y.shape[2:], 1)
    reading = forward_reading(kernel, sizes, geometry)
    channels, rows = x.shape[1] // groups, y.shape[1] // groups
    lines = -(-rows // lanes) * lanes  # lanes taken by a place of ``outer``
    inner = rows * -(-sizes[2] // lanes) * lanes < lines * sizes[2]
    padded = rows if inner else lines
    taps = reading.views[0].taps
    row_count = len(taps)
    blocks = _Blocks(reading, x, channels, machine, 0 if inner else min(padded, 2 * lanes) * size)

    units = x.shape[0] * prod(blocks.blocks)
    sum_bytes = groups * channels * row_count * padded * size
    work = y.numel * channels * row_count
    parts = max(1, min(units, TASKS // 2, SUM_BYTES // sum_bytes, work // THREADS_PAY))
    slices = min(channels, max(1, TASKS // 2 // (parts * groups)))
    if work < THREADS_PAY:
        slices = 1
    most = -(-channels // slices)

    spec = _Spec()
    _describe(spec, reading, x, blocks, groups)
    y_bytes = _bytes(y)
    tiles = [cut(n * row_count, machine.heights) for n in (channels // slices, most)]
    panel = 0 if inner else (prod(blocks.block[1:]) * 2 * lanes + lanes * 8) * size
    panel = -(-panel // 64) * 64
    spec.set(
        tasks=parts * groups * slices,
        slices=slices,
        parts=parts,
        channels=channels,
        rows=rows,
        padded=padded,
        tap_rows=row_count,
        panel=panel,
        scratch=panel + (0 if blocks.direct else blocks.channel * most + 8 * lanes * size),
        tiles=spec.table([word for cuts in tiles for tile in cuts for word in tile]),
        tile_count=len(tiles[0]),
        taps=spec.table(
            [c * blocks.channel + blocks.offset(reading, t) for c in range(most) for t in taps]
        ),
        y_n=y_bytes[0],
        y_g=y_bytes[1] * rows,
        y_c=y_bytes[1],
    )
    spec.triple("out", sizes)
    y_d, y_h, _ = _three(y_bytes[2:], 0)
    spec.set(y_d=y_d, y_h=y_h or sizes[2] * size)
    first = _launcher(core("inner" if inner else "outer", machine), spec.array(), work)
    spec.set(tasks=groups * slices)
    second = _launcher(core("total", machine), spec.array(), parts * sum_bytes // size)
    return first, second, parts * sum_bytes
