"""Reductions of neighbouring stretches of a dimension."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..layout import normalize_dim
from ..tensor import Tensor
from . import convert
from .creation import arange
from .elementwise import functions

_f = functions
# reduce -> scatter_reduce's name for it, and what an empty segment is.
_KINDS = {
    "sum": ("sum", 0.0), "mean": ("sum", math.nan), "prod": ("prod", 1.0),
    "max": ("amax", -math.inf), "min": ("amin", math.inf),
    "amax": ("amax", -math.inf), "amin": ("amin", math.inf),
}  # fmt: skip


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """The sum, mean, product, maximum or minimum of consecutive segments along ``axis``.

    Args:
        data: floats.
        lengths: integers, [..., segments] with the dimensions of ``data`` before ``axis``; they sum
            to the size of ``axis``.
        offsets: in place of lengths: where segments start and the last one ends.
        unsafe: do not check that.
        initial: what every reduction starts from; by default its neutral element (an empty mean is
            NaN).

    Gradient: as for :meth:`Tensor.scatter_reduce`; extremes share it evenly.
    """
    if reduce not in _KINDS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if not data.is_floating_point():
        raise NotImplementedError(
            '"_segment_reduce_cpu" not implemented for '
            f"'{data.layout.dtype.tensor_type.removesuffix('Tensor')}'"
        )
    axis = normalize_dim(axis, data.layout.ndim)
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if lengths is None:
        assert offsets is not None
        ends = offsets.to(dtypes.int64)
        lengths = _f["sub"](ends[..., 1:], ends[..., :-1])
    lengths = lengths.detach().to(dtypes.int64)
    shape = data.layout.shape
    if lengths.layout.ndim != axis + 1 or lengths.layout.shape[:-1] != shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}."
        )
    ends = lengths.cumsum(-1)
    if not unsafe:
        if bool(_f["lt"](lengths, 0).any()):
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if lengths.layout.numel and bool(_f["ne"](ends[..., -1], shape[axis]).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    # The segment of an element is how many segments end at or before it.
    at = _f["ge"](arange(shape[axis]).unsqueeze(-1), ends.unsqueeze(-2)).sum(-1)
    trailing = (1,) * (len(shape) - axis - 1)
    places = at.reshape((*at.layout.shape, *trailing)).expand(shape)
    kind, empty = _KINDS[reduce]
    count = lengths.layout.shape[-1]
    target = (*shape[:axis], count, *shape[axis + 1 :])
    start = initial if initial is not None else 0.0 if reduce == "mean" else empty
    result = data.new_full(target, start)
    result = result.scatter_reduce(axis, places, data, kind, include_self=True)
    if reduce != "mean":
        return result
    sizes = lengths.reshape((*lengths.layout.shape, *trailing))
    if initial is not None:
        sizes = _f["clamp_min"](sizes, 1)
    return _f["div"](result, convert.to(sizes, data.layout.dtype))


METHODS = ""
FUNCTIONS = "segment_reduce"
