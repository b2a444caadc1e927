"""From the layouts of a convolution to the specs of its launches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from math import prod

import numpy as np

from ...layout import Layout
from ..gemm import features
from . import template
from .build import THREADS_PAY, Launch, core, launcher, target
from .geometry import (
    BLOCK_BYTES,
    Blocks,
    Geometry,
    Reading,
    adjoint_reading,
    byte_strides,
    forward_reading,
    three,
)

WEIGHT_BYTES = 256 << 10  # of weights that are used again and again from the second cache
SUM_BYTES = 4 << 20  # of all parts of a gradient of weights
TASKS = 16


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


def _describe(spec: _Spec, reading: Reading, x: Layout, blocks: Blocks, groups: int) -> None:
    """The fields that ``fill`` reads, and the walk over the blocks."""
    strides = byte_strides(x)
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
        masked=int(blocks.masked),
        residues=spec.table([r for residues in reading.residues for r in residues]),
    )
    spec.triple("x", three(strides[2:], 0))
    spec.triple("size", three(x.shape[2:], 1))
    spec.triple("stride", reading.stride)
    spec.triple("low", reading.low)
    spec.triple("phases", [len(r) for r in reading.residues])
    spec.triple("extent", blocks.extent)
    spec.triple("block", blocks.block)
    spec.triple("blocks", blocks.blocks)


def windows(
    x: Layout,
    weight: Layout,
    out: Layout,
    geometry: Geometry,
    *,
    adjoint: bool,
    bias: int,
    host: features.Target | None = None,
) -> Launch:
    """The launch ``(x, weight, bias, out)``, each a buffer and an offset, of a convolution or of
    its adjoint.

    Args:
        x: [n, channels, ...], of a convolution's input (its results, for the adjoint).
        weight: [rows, channels / groups, ...].
        out: [n, rows, ...] ([n, channels, ...]).
        bias: its stride; zero for one number for all rows.
        host: another vector unit than the machine's, in tests.
    """
    machine = target(x.dtype.name, host)
    size = machine.size
    groups = geometry.groups
    kernel = three(weight.shape[2:], 1)
    sizes = three(out.shape[2:], 1)
    reading = (adjoint_reading if adjoint else forward_reading)(kernel, sizes, geometry)
    channels, rows = x.shape[1] // groups, out.shape[1] // groups
    tiles = cut(rows, machine.heights)
    tallest = tiles[0][1]
    kind = "narrow" if tallest < 4 else "window"
    blocks = Blocks(reading, x, channels, machine, 0, kind == "window")
    per_row, per_channel, *per_tap = byte_strides(weight)
    if adjoint:
        w_row, w_channel, w_group = per_channel, per_row, per_row * channels
    else:
        w_row, w_channel, w_group = per_row, per_channel, per_row * rows
    tap_strides = three(per_tap, 0)

    spec = _Spec()
    _describe(spec, reading, x, blocks, groups)
    most_taps = max(len(view.taps) for view in reading.views)
    at_once = max(1, WEIGHT_BYTES // (tallest * channels * max(most_taps, 1) * size))
    images = 1
    if len(tiles) > at_once and prod(blocks.blocks) == 1:
        fitting = 2 * BLOCK_BYTES // (blocks.scratch or x.numel // x.shape[0] * size)
        images = max(1, min(fitting, x.shape[0] // 4))
    units = -(-x.shape[0] // images) * groups * prod(blocks.blocks)
    slices = min(len(tiles), -(-TASKS // 2 // units)) if units < TASKS // 2 else 1
    vectors = 8 if tallest == 1 else 4 if tallest < 4 else 2
    buffer = 64 + -(-tallest * vectors * machine.lanes * size // 64) * 64
    o_n, o_row, *o_spatial = byte_strides(out)
    o_steps = three(o_spatial, 0)
    spec.set(
        tasks=min(units, TASKS) * slices,
        slices=slices,
        channels=channels,
        rows=rows,
        images=images,
        ahead=_lines_ahead(blocks, x, groups, 1 if images > 1 else -(-len(tiles) // at_once)),
        scratch=buffer + blocks.scratch * images,
        panel=buffer,
        w_g=w_group,
        w_row=w_row,
        w_channel=w_channel,
        bias_step=bias * size,
        vectors=vectors,
        tiles=spec.table([word for tile in tiles for word in tile]),
        tile_count=len(tiles),
        at_once=at_once,
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
        masks = [0, 0]
        if blocks.masked and view.taps:
            words = blocks.masks(view, reading, three(x.shape[2:], 1), machine.lanes)
            masks = [_shared(spec, words), words.shape[1]]
        subs += [start, *view.size, *steps, spec.table(taps), len(view.taps), *masks]
    spec.set(subs=spec.table(subs))
    work = (
        out.numel * channels * prod(kernel) // prod(three(geometry.stride, 1) if adjoint else (1,))
    )
    return launcher(core(kind, machine), spec.array(), work)


def _shared(spec: _Spec, masks: np.ndarray) -> int:
    """Add a table with the place of each tile's masks, which many of them share."""
    of_tiles = masks.reshape(masks.shape[0] * masks.shape[1], -1)
    kinds, which = np.unique(of_tiles, axis=0, return_inverse=True)
    first = spec.table(kinds.ravel().tolist())
    return spec.table((first + kinds.shape[1] * which.ravel()).tolist())


def _lines_ahead(blocks: Blocks, x: Layout, groups: int, sweeps: int) -> int:
    """How many cache lines of the next image are fetched with each tile of results: all of it,
    while this one is swept over so many times. For images that follow each other in memory."""
    if not blocks.direct or not x.contiguous:
        return 0
    lines = x.nbytes // (x.shape[0] * groups * 64)
    return -(-lines // (blocks.tiles * sweeps))


def weight_gradient(
    x: Layout, y: Layout, out: Layout, geometry: Geometry, *, host: features.Target | None = None
) -> tuple[Launch, Launch, int]:
    """Launches ``(x, y, sums, sums)`` and ``(sums, out, out, out)``, and the bytes of the sums.

    Args:
        x: [n, channels, ...]: a convolution's input.
        y: [n, rows, ...]: the gradient of its results, contiguous.
        out: [rows, channels / groups, ...]: the gradient of its weights, contiguous.
        host: as for :func:`windows`.
    """
    machine = target(x.dtype.name, host)
    size, lanes = machine.size, machine.lanes
    groups = geometry.groups
    kernel, sizes = three(out.shape[2:], 1), three(y.shape[2:], 1)
    reading = forward_reading(kernel, sizes, geometry)
    channels, rows = x.shape[1] // groups, y.shape[1] // groups
    lines = -(-rows // lanes) * lanes  # lanes taken by a place of ``outer``
    inner = rows * -(-sizes[2] // lanes) * lanes < lines * sizes[2]
    padded = rows if inner else lines
    taps = reading.views[0].taps
    row_count = len(taps)
    blocks = Blocks(reading, x, channels, machine, 0 if inner else min(padded, 2 * lanes) * size)

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
    y_bytes = byte_strides(y)
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
    y_d, y_h, _ = three(y_bytes[2:], 0)
    spec.set(y_d=y_d, y_h=y_h or sizes[2] * size)
    first = launcher(core("inner" if inner else "outer", machine), spec.array(), work)
    spec.set(tasks=groups * slices)
    second = launcher(core("total", machine), spec.array(), parts * sum_bytes // size)
    return first, second, parts * sum_bytes
