"""Histograms in one and several dimensions. They have no derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import return_types
from ..memory_format import contiguous_format
from ..tensor import Tensor
from . import convert
from .creation import linspace
from .make import fresh_like
from .special import into


def _check_floats(self: Tensor) -> None:
    if not self.is_floating_point():
        raise NotImplementedError(
            '"histogramdd" not implemented for '
            f"'{self.layout.dtype.tensor_type.removesuffix('Tensor')}'"
        )


def _edges(self: Tensor, bins: Any, bounds: Any, of: int) -> Tensor:
    """The edges of a dimension: as given, or ``bins`` equal parts of the bounds, or of the data."""
    if isinstance(bins, Tensor):
        if bins.layout.ndim != 1:
            raise RuntimeError(
                "torch.histogram(): bins tensor should have one dimension, but got "
                f"{bins.layout.ndim} dimensions in the bins tensor for dimension {of}"
            )
        return bins
    if bins <= 0:
        raise RuntimeError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension {of}"
        )
    if bounds is None:
        values = self._numbers()[..., of]
        low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
    else:
        low, high = bounds
    low, high = float(low), float(high)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {of}'s range [{low}, {high}] is not finite"
        )
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for "
            f"dimension {of}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=self.layout.dtype)


def _counted(self: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """The counts (or weights) of the points [n, d] between the edges of each dimension."""
    points = self._numbers()
    sizes = [max(e.layout.numel - 1, 0) for e in edges]
    place = np.zeros(len(points), np.intp)
    inside = np.ones(len(points), np.bool_)
    for x, edge, size in zip(points.T, (e._numbers() for e in edges), sizes, strict=True):
        found = np.searchsorted(edge, x, "right") - 1
        found -= x == edge[-1]  # the last part has both of its ends
        inside &= (found >= 0) & (found < size)
        place = place * size + found
    weights = None if weight is None else weight._numbers().reshape(-1)[inside]
    counts = np.bincount(place[inside], weights, math.prod(sizes)).astype(np.float64)
    if density:
        volume: Any = 1.0
        for e in edges:
            volume = np.multiply.outer(volume, np.diff(e._numbers()))
        counts = counts / (counts.sum() * np.asarray(volume).reshape(-1))
    result = fresh_like(self.new_empty(tuple(sizes)))
    result._array()[...] = counts.reshape(sizes)
    return result


def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """How many elements lie between neighbouring edges; the last part includes its upper edge.

    Args:
        bins: a number of equal parts, or a sorted tensor of edges.
        range: bounds of the equal parts; by default those of the data.
        weight: what each element counts, of the shape of ``input``.
        density: divide by the sum and by the widths.

    Returns:
        ``hist`` and ``bin_edges``, of the dtype of ``input``.
    """
    _check_floats(input)
    flat = input.detach().reshape(-1, 1)
    edges = convert.clone(_edges(flat, bins, range, 0).detach(), memory_format=contiguous_format)
    pair: Any = (_counted(flat, [edges], _checked_weight(weight, flat), density), edges)
    if out is not None:
        pair = tuple(into("histogram", x, o, (input,)) for x, o in zip(pair, out, strict=True))
    return return_types.histogram(pair)


def _checked_weight(weight: Tensor | None, points: Tensor) -> Tensor | None:
    if weight is None:
        return None
    if weight.layout.numel != points.layout.shape[0]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(points.layout.shape)} and weight with shape {list(weight.layout.shape)}"
        )
    if weight.dtype is not points.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            f"should have the same dtype, but got input {points.layout.dtype.name} and weight "
            f"{weight.layout.dtype.name}"
        )
    return weight.detach()


def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """:func:`histogram` of points [..., d] in d dimensions.

    Args:
        bins: for every dimension a number or edges, or one number for all.
        range: lowest and highest of the first dimension, of the second, and so on.
    """
    _check_floats(input)
    if input.layout.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    flat = input.detach().reshape(-1, input.layout.shape[-1])
    count = flat.layout.shape[1]
    each = list(bins) if isinstance(bins, Sequence) else [bins] * count
    if len(each) != count:
        raise RuntimeError(
            "torch.histogramdd: The size of bins must be equal to the innermost dimension of the "
            f"input: expected {count}, got {len(each)}"
        )
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(
            f"torch.histogramdd: for a {count}-dimensional histogram range should have "
            f"{2 * count} elements, but got {len(range)}"
        )
    edges = tuple(
        _edges(flat, b, None if range is None else range[2 * i : 2 * i + 2], i)
        for i, b in enumerate(each)
    )
    hist = _counted(flat, edges, _checked_weight(weight, flat), density)
    return return_types.histogramdd((hist, edges))


METHODS = "histogram"
FUNCTIONS = "histogram histogramdd"
