"""The geometry of convolutions: which elements a result is made of.

Everything is brought to three spatial dimensions (missing ones in front have size one). A *view* of
a convolution is a set of results and the taps they see: a convolution has one, its adjoint one for
each remainder of a place by the strides, because results of one remainder see the same taps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from ...layout import Layout
from .build import Target

Triple = tuple[int, ...]  # one number for each of three spatial dimensions

BLOCK_BYTES = 256 << 10  # of a block of the input: a part of the second cache
PANEL_BYTES = 64 << 10  # of packed gradients
MOST_MASKS = 1 << 18  # words of masks that are looked at; few of them differ


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


def three(values: Sequence[int], fill: int) -> Triple:
    return (*(fill,) * (3 - len(values)), *values)


def byte_strides(of: Layout) -> list[int]:
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
    stride, dilation = three(of.stride, 1), three(of.dilation, 1)
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
    return Reading(stride, three(of.padding, 0), residues, (view,))


def adjoint_reading(kernel: Triple, out: Triple, of: Geometry) -> Reading:
    """What each element of a convolution's input (``out`` is its size) has been read by."""
    stride, dilation = three(of.stride, 1), three(of.dilation, 1)
    padding = three(of.padding, 0)
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
    return Reading((1, 1, 1), three(low, 0), ((0,),) * 3, tuple(views))


class Blocks:
    """An input's block in scratch memory (or in place): sizes in elements, strides in bytes.

    Attributes:
        direct: the input is read in place.
        masked: so it is, and the zeros around it are made by masks.
        tiles: of results, about.
    """

    def __init__(self, reading: Reading, x: Layout, channels: int, machine: Target,
                 positions: int, maskable: bool = False) -> None:  # fmt: skip
        self.size = size = machine.size
        sizes = three(x.shape[2:], 1)
        strides = three(byte_strides(x)[2:], 0)
        self.results = tuple(max(view.size[d] for view in reading.views) for d in range(3))
        self.span = [
            max([0, *(tap.shift[d] for view in reading.views for tap in view.taps)])
            for d in range(3)
        ]
        # In place, if no other order is needed, and loads can be kept inside.
        in_place = (
            machine.masked
            and reading.stride == (1, 1, 1)
            and strides[2] == size
            and (self.results[1] == 1 or strides[1] >= self.results[2] * size)
        )
        zeros = any(reading.low) or any(
            n + a > m for n, a, m in zip(self.results, self.span, sizes, strict=True)
        )
        words = sum(
            2 * len(view.taps) * view.size[0] * (1 + prod(view.size[1:]) // machine.lanes)
            for view in reading.views
        )
        # About so many tiles cover the results of all views.
        self.tiles = sum(1 + prod(view.size) // (2 * machine.lanes) for view in reading.views)
        self.masked = in_place and zeros and maskable and words <= MOST_MASKS
        self.direct = in_place and (self.masked or not zeros)
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
        self.low: Triple = (0, 0, 0)
        if self.direct:
            self.pitch = self.block[2] if self.results[1] == 1 else strides[1] // size
            self.line, self.plane, self.phase = strides[1], strides[0], 0
            self.low = reading.low
            self.channel = byte_strides(x)[1]
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
        d, h, w = (a - b for a, b in zip(tap.shift, self.low, strict=True))
        return phase * self.phase + d * self.plane + h * self.line + w * self.size

    def masks(self, view: View, reading: Reading, sizes: Triple, lanes: int) -> np.ndarray:
        """Which lanes read what lies inside the input: [planes, tiles, taps, vectors] words of
        bits, for the tiles of template.SWEEP."""
        _, lines, width = view.size
        total = (lines - 1) * self.pitch + width
        places = []
        place = 0
        while place < total:
            if place % self.pitch >= width:
                place += self.pitch - place % self.pitch
            places.append(place)
            place += 2 * lanes
        lane = np.array(places)[:, None] + np.arange(2 * lanes)
        row, column = lane // self.pitch, lane % self.pitch
        planes = []
        for plane in range(view.size[0]):
            inside = []
            for tap in view.taps:
                d, h, w = (a - b for a, b in zip(tap.shift, reading.low, strict=True))
                y, x = row + h, column + w
                seen = (column < width) & (row < lines) & (y >= 0) & (y < sizes[1])
                seen &= (x >= 0) & (x < sizes[2])
                inside.append(seen & (0 <= plane + d < sizes[0]))
            bits = np.stack(inside, 1).reshape(len(places), len(view.taps), 2, lanes)
            packed = np.zeros((*bits.shape[:3], 8), np.uint8)
            packed[..., : lanes // 8] = np.packbits(bits, -1, "little")
            planes.append(packed.view(np.int64)[..., 0])
        return np.stack(planes)
