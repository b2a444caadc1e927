"""How resampling reads each dimension: the taps and weights of every kind of interpolation.

Output ``j`` lies at a position between the inputs; ``scale`` is the distance of two outputs. They
are computed in the precision of the data, as PyTorch does, so that roundings fall the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .separable import Taps


class Resizing(NamedTuple):
    """One dimension of a resampling.

    Attributes:
        inputs, outputs: its sizes.
        align_corners: whether the first and last outputs lie on the first and last inputs, or the
            outer edges of inputs and outputs on each other.
        factor: the ratio of the sizes that was asked for; None if it is theirs.
        precision: the NumPy type that positions are computed in.
    """

    inputs: int
    outputs: int
    align_corners: bool
    factor: float | None
    precision: Any

    @property
    def scale(self) -> Any:
        if self.align_corners:
            steps = self.outputs - 1
            return self.precision(self.inputs - 1) / steps if steps > 0 else self.precision(0)
        if self.factor is not None and self.factor > 0:
            return self.precision(1.0 / self.factor)
        return self.precision(self.inputs) / self.precision(self.outputs)

    @property
    def ordinals(self) -> np.ndarray:
        return np.arange(self.outputs, dtype=self.precision)

    def positions(self) -> np.ndarray:
        """Where the outputs lie, in inputs."""
        half = self.precision(0.5)
        if self.align_corners:
            return self.scale * self.ordinals
        return self.scale * (self.ordinals + half) - half


def nearest(r: Resizing) -> Taps:
    """The input at or before each position, where that of the first output is 0.

    Inputs are kept, or doubled, where the sizes say so, whatever the factor does.
    """
    if r.outputs in (r.inputs, 2 * r.inputs):
        return Taps.picking(r.inputs, np.arange(r.outputs) * r.inputs // r.outputs)
    places = np.floor(r._replace(align_corners=False).scale * r.ordinals).astype(np.int64)
    return Taps.picking(r.inputs, np.minimum(places, r.inputs - 1))


def nearest_exact(r: Resizing) -> Taps:
    """The input whose centre is nearest to that of each output."""
    at = np.maximum(r._replace(align_corners=False).positions(), 0)
    places = np.floor(at + r.precision(0.5)).astype(np.int64)
    return Taps.picking(r.inputs, np.minimum(places, r.inputs - 1))


def _weighted(size: int, index: np.ndarray, weight: np.ndarray) -> Taps:
    """As many taps for each output, given as rows."""
    outputs, count = index.shape
    return Taps(size, np.arange(outputs + 1) * count, index.ravel(), weight.ravel())


def linear(r: Resizing) -> Taps:
    """Between the two inputs around each position."""
    if r.inputs == r.outputs:
        return Taps.picking(r.inputs, np.arange(r.inputs))
    at = np.maximum(r.positions(), 0)
    low = np.minimum(np.floor(at).astype(np.int64), r.inputs - 1)
    part = np.clip(at - low.astype(r.precision), 0, 1)
    index = np.stack([low, np.minimum(low + 1, r.inputs - 1)], 1)
    return _weighted(r.inputs, index, np.stack([1 - part, part], 1))


def _near(x: np.ndarray, a: float) -> np.ndarray:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: np.ndarray, a: float) -> np.ndarray:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic(r: Resizing) -> Taps:
    """By the cubic convolution (Keys 1981, a = -0.75) of the four inputs around each position."""
    at, a = r.positions(), -0.75
    low = np.minimum(np.floor(at).astype(np.int64), r.inputs - 1)
    t = np.clip(at - low.astype(r.precision), 0, 1)
    weight = np.stack([_far(t + 1, a), _near(t, a), _near(1 - t, a), _far(2 - t, a)], 1)
    index = np.clip(low[:, None] + np.arange(-1, 3), 0, r.inputs - 1)
    return _weighted(r.inputs, index, weight)


# With a filter as wide as an output, so that nothing between the inputs is passed over -----------
def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _keys(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    return np.where(x < 1, _near(x, -0.5), np.where(x < 2, _far(x, -0.5), 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


def smooth(filter: Callable[[np.ndarray], np.ndarray], width: int) -> Callable[[Resizing], Taps]:
    """The interpolation by a filter of a width in inputs, stretched where outputs are farther
    apart."""

    def taps(r: Resizing) -> Taps:
        if r.inputs == r.outputs:
            return Taps.picking(r.inputs, np.arange(r.inputs))
        one, half = r.precision(1), r.precision(0.5)
        stretch = np.maximum(r.scale, one)
        reach = half * r.precision(width) * stretch
        centre = r.scale * (r.ordinals + half)
        start = np.maximum((centre - reach + half).astype(np.int64), 0)
        end = np.minimum((centre + reach + half).astype(np.int64), r.inputs)
        window = Taps.of_runs(r.inputs, start, end)
        output = np.repeat(np.arange(r.outputs), np.diff(window.first))
        distance = (window.index.astype(r.precision) - centre[output] + half) / stretch
        weight = filter(distance)
        total = np.zeros(r.outputs)
        np.add.at(total, output, weight)
        weight = weight / np.where(total == 0, 1, total)[output]
        return Taps(r.inputs, window.first, window.index, weight)

    return taps


smooth_linear = smooth(_triangle, 2)
smooth_cubic = smooth(_keys, 4)
smooth_lanczos = smooth(_lanczos, 6)
