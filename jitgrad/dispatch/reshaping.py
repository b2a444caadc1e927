"""Tensors that take another geometry, another history or other memory in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from .. import dtypes, errors
from ..autograd.cut import cut, unrecorded
from ..autograd.dual import below, hold, tangent_of
from ..autograd.saved import wants_grad
from ..autograd.views import check_inplace, set_view_edge
from ..ops.views import VIEWS
from ..state import modes
from ..storage import DetachedCounter, VersionCounter
from ..tensor import Tensor, make
from .make import alias, int_argument, ints_argument
from .record import node_class, record_history
from .view import as_strided, plan_of, squeezing, view_of

_INPLACE_NODES = {
    "t": "TBackward1",
    "transpose": "TransposeBackward1",
    "unsqueeze": "UnsqueezeBackward1",
    "squeeze_all": "SqueezeBackward3",
    "squeeze_dim": "SqueezeBackward4",
    "squeeze_dims": "SqueezeBackward5",
    "as_strided": "AsStridedBackward1",
}
_inplace_classes = {
    kind: node_class(dataclasses.replace(VIEWS[kind].row, node=node))
    for kind, node in _INPLACE_NODES.items()
}


def _become(self: Tensor, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """Give a tensor the geometry of its view ``kind``; its history goes on from there."""
    of, offset, named, _ = plan_of(kind, self.layout, arguments)
    recorded_now = wants_grad((self,))
    check_inplace(self, recorded_now)
    duals = [(x, tangent_of(self, x)) for x in modes.levels]
    edge = None
    if recorded_now:
        stand_in = make(self.storage, self.offset + offset, of)
        record_history(_inplace_classes[kind], (self,), (stand_in,), named)
        edge = stand_in.edge
    self.offset += offset
    self.layout = of
    self.counter.version += 1
    self.counter.writer = errors.writer(f"{kind.partition('_')[0]}_")
    if edge is not None:
        set_view_edge(self, edge)
    for level, tangent in duals:
        if tangent is not None:
            with below(level.depth):
                hold(self, level, view_of(tangent, kind, arguments))
    return self


def t_(self: Tensor) -> Tensor:
    """:func:`t` in place: this tensor takes the view's shape and strides."""
    return _become(self, "t", ())


def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """:func:`transpose` in place: this tensor takes the view's shape and strides."""
    return _become(self, "transpose", ints_argument("transpose_", "dim0", (dim0, dim1)))


def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """:func:`transpose_` by NumPy's name."""
    return transpose_(self, axis0, axis1)


def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """:func:`unsqueeze` in place: this tensor takes the view's shape and strides."""
    return _become(self, "unsqueeze", (int_argument("unsqueeze_", "dim", dim),))


def squeeze_(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """:func:`squeeze` in place: this tensor takes the view's shape and strides."""
    return _become(self, *squeezing(dim))


def as_strided_(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """:func:`as_strided` in place: this tensor takes the view's shape and strides."""
    place = as_strided(alias(self), size, stride, storage_offset)
    start = (place.offset - self.offset) // self.layout.dtype.itemsize
    return _become(self, "as_strided", (place.layout.shape, place.layout.strides, start))


def detach_(self: Tensor) -> Tensor:
    """Cut this tensor off its history: it becomes a leaf that does not require grad.

    Raises:
        RuntimeError: for views, whose history their base keeps.
    """
    if modes.inference:
        return self  # as in PyTorch, where nothing of autograd happens there
    if self.view_meta is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead, which returns a tensor on the same "
            "memory without history."
        )
    if self.edge is not None:
        self.edge = None
        self.counter = DetachedCounter(self.counter)  # type: ignore[assignment]
    if self.meta is not None:
        self.meta.tangents = None
    if self.tracked:
        cut(self, "it was detached in place")
    return self


def get_data(self: Tensor) -> Tensor:
    """``Tensor.data``: the same memory without history, and with a version counter of its own."""
    result = make(self.storage, self.offset, self.layout)
    result.counter = VersionCounter()
    unrecorded((self,), result, "it was read by .data")
    return result


def set_data(self: Tensor, source: Any) -> None:
    """Take over the memory of ``source``; views made before keep the old one.

    Raises:
        TypeError: for what is no tensor.
        RuntimeError: for integers into a tensor that requires grad.
    """
    if not isinstance(source, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(source).__name__}")
    d = source.layout.dtype
    if self.requires_grad and d.category < dtypes.FLOATING:
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype, "
            f"got {d}"
        )
    if d is not self.layout.dtype and self.meta is not None:
        self.meta.accumulator = None
    self.storage, self.offset, self.layout = source.storage, source.offset, source.layout


def delete_data(self: Tensor) -> None:
    """A tensor without memory is none."""
    raise RuntimeError("cannot delete data")


METHODS = "t_ transpose_ swapaxes_ unsqueeze_ squeeze_ as_strided_ detach_"
