"""Joining tensors: cat and stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import errors
from ..layout import broadcast_shapes, normalize_dim
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .elementwise import prepare_out
from .make import dense, result_dtype
from .record import node_class, record
from .view import narrow, unsqueeze, view_of

_CAT = node_class(
    structured(
        "cat",
        "tensors",
        grad={
            "tensors": lambda grad, position, layout, dim, starts: convert.to(
                narrow(grad, dim, starts[position], layout.shape[dim]), layout.dtype
            )
        },
    )
)


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors along an existing dimension; the other sizes must agree.

    1-d tensors without elements are skipped, as in PyTorch. The dtype is the promoted one.

    Raises:
        ValueError: for an empty list.
        RuntimeError: for sizes or ranks that differ.

    Gradient: each input gets its part of the incoming gradient.
    """
    if isinstance(tensors, Tensor) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError("cat(): argument 'tensors' must be tuple of Tensors")
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("expected a non-empty list of Tensors in cat()")
    for i, t in enumerate(tensors):
        if t.layout.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    parts = tuple(t for t in tensors if t.layout.shape != (0,)) or tensors[:1]
    first = parts[0].layout
    dim = normalize_dim(dim, first.ndim)
    starts, size = [], 0
    for i, t in enumerate(parts):
        of = t.layout
        if of.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {of.ndim} in "
                "cat()"
            )
        for d in range(first.ndim):
            if d != dim and of.shape[d] != first.shape[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size "
                    f"{first.shape[d]} but got size {of.shape[d]} for tensor number {i} in the "
                    "list (cat())."
                )
        starts.append(size)
        size += of.shape[dim]
    shape = (*first.shape[:dim], size, *first.shape[dim + 1 :])
    promoted = result_dtype([t.layout for t in tensors])
    if out is not None:
        prepare_out("cat", tensors, out, shape)
    result = dense(shape, promoted) if out is None else out
    for t, start in zip(parts, starts, strict=True):
        of = t.layout
        place = view_of(result.detach(), "slice", (dim, start, start + of.shape[dim], 1))
        convert.copy_elements(t, place)
    if out is not None:
        out.counter.version += 1
        out.counter.writer = errors.caller()
    else:
        record(_CAT, parts, (result,), {"dim": dim, "starts": tuple(starts)})
    return result


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors of one shape along a new dimension."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].layout
    dim = normalize_dim(dim, first.ndim + 1)
    for i, t in enumerate(tensors):
        if t.layout.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry "
                f"0 and {list(t.layout.shape)} at entry {i}"
            )
    return cat([unsqueeze(t, dim) for t in tensors], dim, out=out)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape, as views."""
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*(t.layout.shape for t in tensors))
    return tuple(t if t.layout.shape == shape else view_of(t, "expand", (shape,)) for t in tensors)
