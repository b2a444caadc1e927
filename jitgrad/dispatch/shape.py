"""Joining tensors: cat and stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes, errors
from ..layout import Layout, broadcast_shapes, dense_layout, normalize_dim
from ..ops.table import structured
from ..state import modes
from ..tensor import Size, Tensor
from . import convert
from .elementwise import prepare_out, refuse_overlap
from .make import fresh, result_dtype
from .plans import PlanCache
from .record import Outcome, node_class, record, variadic_recorder
from .view import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    plan_of,
    reshape,
    unsqueeze,
    view_of,
)

_CAT = node_class(
    structured(
        "cat",
        "tensors",
        grad={
            "tensors": lambda grad, position, layout, dim, starts: _part_of(
                grad, layout, dim, starts[position]
            )
        },
    )
)


def _part_of(grad: Tensor, of: Layout, dim: int, start: int | None) -> Tensor:
    """The part of the gradient that belongs to one input; nothing to one that was skipped."""
    if start is None:
        return grad.new_zeros(of.shape, dtype=of.dtype)
    return convert.to(grad._seen("slice", (dim, start, start + of.shape[dim], 1)), of.dtype)


def _check_tensors(name: str, tensors: Any) -> tuple[Tensor, ...]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence):
        raise TypeError(
            f"{name}(): argument 'tensors' must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(t).__name__} in "
                f"{name}()"
            )
    return tuple(tensors)


def cat(
    tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None, axis: int | None = None
) -> Tensor:
    """Join tensors along an existing dimension; the other sizes must agree.

    1-d tensors without elements are skipped, as in PyTorch. The dtype is the promoted one.

    Raises:
        ValueError: for an empty list.
        RuntimeError: for sizes or ranks that differ.

    Gradient: each input gets its part of the incoming gradient.
    """
    if axis is not None:
        dim = axis
    if out is None and tensors.__class__ in _SEQUENCES:
        try:
            plan = _cat_plans[tuple([dim] + [t.layout for t in tensors])]
        except (KeyError, AttributeError):
            pass
        else:
            return _joined(plan, tensors)
    tensors = _check_tensors("cat", tensors)
    if not tensors:
        raise ValueError("expected a non-empty list of Tensors in cat()")
    for i, t in enumerate(tensors):
        if t.layout.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    parts = tuple(t for t in tensors if t.layout.shape != (0,)) or tensors[:1]
    first = parts[0].layout
    asked, dim = dim, normalize_dim(dim, first.ndim)
    starts: list[int] = []
    size = 0
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
        if not dtypes.can_cast(promoted, out.layout.dtype):
            kind = out.layout.dtype.tensor_type.removesuffix("Tensor")
            raise TypeError(f"cat(): input types can't be cast to the desired output type {kind}")
        prepare_out("cat", tensors, out, shape)
        refuse_overlap(out, tensors)
    of = dense_layout(shape, promoted) if out is None else out.layout
    ends = [*starts[1:], size]
    places = [("slice", (dim, *bounds, 1)) for bounds in zip(starts, ends, strict=True)]
    copies = _copies(of, parts, places)
    if out is not None:
        _copy_into(out, copies, parts)
        out.counter.version += 1
        out.counter.writer = errors.writer("cat")
        return out
    given: list[int | None] = list(starts)
    if len(parts) < len(tensors):
        found = iter(starts)
        skipped = parts[0].layout.shape != (0,)
        given = [None if skipped and t.layout.shape == (0,) else next(found, 0) for t in tensors]
        result = fresh(of)
        _copy_into(result, copies, parts)
        record(_CAT, tensors, (result,), {"dim": dim, "starts": tuple(given)})
        return result
    attributes = {"dim": dim, "starts": tuple(given)}
    plan = (of, copies, attributes, _outcome(tensors, of), variadic_recorder(_CAT, len(tensors)))
    _cat_plans.add((asked, *[t.layout for t in tensors]), plan)
    return _joined(plan, tensors)


_SEQUENCES = (list, tuple)
_cat_plans = PlanCache()
_stack_plans = PlanCache()


def _copies(of: Layout, parts: Sequence[Tensor], places: Sequence[Any]) -> list[Any]:
    """How each part is copied to its place (a view) in a tensor of layout ``of``."""
    copies = []
    for t, (kind, arguments) in zip(parts, places, strict=True):
        place, offset, *_ = plan_of(kind, of, arguments)
        copies.append((*convert.copy_plan(t.layout, place), offset))
    return copies


def _outcome(parts: Sequence[Tensor], of: Layout) -> Outcome:
    return Outcome(tuple(t.layout for t in parts), (of,))


def _copy_into(result: Tensor, copies: Any, parts: Sequence[Tensor]) -> None:
    """Copy every part to its place."""
    buffer, first = result.storage.buffer, result.offset
    for t, (run, spec, offset) in zip(parts, copies, strict=True):
        run(spec, t.storage.buffer, t.offset, buffer, first + offset)


def _joined(plan: Any, parts: Sequence[Tensor]) -> Tensor:
    of, copies, attributes, outcome, record = plan
    result = fresh(of)
    touched = False  # whether a part has, or has lost, history
    buffer = result.storage.buffer
    for t, (run, spec, offset) in zip(parts, copies):  # noqa: B905 (one copy a part, by the plan)
        run(spec, t.storage.buffer, t.offset, buffer, offset)
        if t.tracked is not False:
            touched = True
    if touched or modes.levels:
        record(*parts, result, attributes, outcome)
    return result


_STACK = node_class(
    structured(
        "stack",
        "tensors",
        grad={
            "tensors": lambda grad, position, layout, dim: convert.to(
                grad._seen("select", (dim, position)), layout.dtype
            )
        },
    )
)


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors of one shape along a new dimension."""
    if out is None and tensors.__class__ in _SEQUENCES:
        try:
            plan = _stack_plans[tuple([dim] + [t.layout for t in tensors])]
        except (KeyError, AttributeError):
            pass
        else:
            return _joined(plan, tensors)
    tensors = _check_tensors("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].layout
    asked, dim = dim, normalize_dim(dim, first.ndim + 1)
    for i, t in enumerate(tensors):
        if t.layout.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry "
                f"0 and {list(t.layout.shape)} at entry {i}"
            )
    shape = (*first.shape[:dim], len(tensors), *first.shape[dim:])
    if out is not None:
        prepare_out("stack", tensors, out, shape)
        return cat([unsqueeze(t.detach(), dim) for t in tensors], dim, out=out)
    of = dense_layout(shape, result_dtype([t.layout for t in tensors]))
    copies = _copies(of, tensors, [("select", (dim, i)) for i in range(len(tensors))])
    recorder = variadic_recorder(_STACK, len(tensors))
    plan = (of, copies, {"dim": dim}, _outcome(tensors, of), recorder)
    _stack_plans.add((asked, *[t.layout for t in tensors]), plan)
    return _joined(plan, tensors)


def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined side by side: along columns, or along the only dimension."""
    parts = [atleast_1d(t) for t in _check_tensors("hstack", tensors)]
    if not parts:
        raise RuntimeError("hstack expects a non-empty TensorList")
    return cat(parts, 0 if parts[0].layout.ndim == 1 else 1, out=out)


def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined one below the other: along rows; vectors are rows."""
    parts = [atleast_2d(t) for t in _check_tensors("vstack", tensors)]
    if not parts:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return cat(parts, 0, out=out)


def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined along the third dimension."""
    parts = [atleast_3d(t) for t in _check_tensors("dstack", tensors)]
    if not parts:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return cat(parts, 2, out=out)


def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined side by side; vectors are columns."""
    parts = [
        t if t.layout.ndim > 1 else reshape(t, (t.layout.numel, 1))
        for t in _check_tensors("column_stack", tensors)
    ]
    return hstack(parts, out=out)


def shapes_broadcast(*shapes: Any) -> Size:
    """The shape that shapes (or sizes of vectors) broadcast to; RuntimeError where they do not."""
    result: tuple[int, ...] = ()
    for at, given in enumerate(shapes):
        shape = (given,) if isinstance(given, int) else tuple(given)
        if any(size < 0 for size in shape):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        for k in range(1, min(len(shape), len(result)) + 1):
            if shape[-k] != result[-k] and 1 not in (shape[-k], result[-k]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[-k]} at -{k}! "
                    f"Mismatching argument at index {at} had {shape}; but expected shape should be "
                    f"broadcastable to {list(result)}"
                )
        result = broadcast_shapes(result, shape)
    return Size(result)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape, as views."""
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*(t.layout.shape for t in tensors))
    return tuple(t if t.layout.shape == shape else view_of(t, "expand", (shape,)) for t in tensors)
