"""What a custom function returned, turned into outputs of its node."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import dtype
from ..layout import Layout, dense_layout
from ..state import GRAD, modes
from ..storage import Storage
from ..tensor import Tensor, make
from .node import Edge
from .saved import save_result
from .views import Creation, check_inplace, rebase_history

if TYPE_CHECKING:
    from .function import BackwardCFunction


def filled(of: Layout, value: int) -> Tensor:
    """A constant gradient for something of this layout."""
    dense = dense_layout(of.shape, of.dtype)
    buffer = _stored(of.dtype, value).repeat(of.numel).view(np.uint8)
    return make(Storage(buffer), 0, dense)


@functools.cache
def _stored(d: dtype, value: int) -> np.ndarray:
    """One element as it lies in memory."""
    return d.encode(np.full(1, value))


class Outputs:
    """The outputs of a custom function's node.

    Attributes:
        layouts: for each its layout; None where it is no tensor.
        differentiable: the same; None also where it carries no gradient.
    """

    __slots__ = ("differentiable", "layouts")

    def __init__(self, outs: Sequence[Any], non_differentiable: Sequence[Any]) -> None:
        without = {id(x) for x in non_differentiable}
        self.layouts = [x.layout if isinstance(x, Tensor) else None for x in outs]
        self.differentiable: list[Layout | None] = [
            x.layout
            if isinstance(x, Tensor)
            and id(x) not in without
            and (x.is_floating_point() or x.is_complex())
            else None
            for x in outs
        ]


def _check_marks(ctx: BackwardCFunction) -> None:
    for name, marked in (
        ("mark_dirty", ctx.dirty_tensors),
        ("mark_non_differentiable", ctx.non_differentiable),
    ):
        for index, x in enumerate(marked):
            if not isinstance(x, Tensor):
                raise RuntimeError(
                    f"{name} can only accept variables, but argument {index} is of type "
                    f"{type(x).__name__}"
                )


def attach_fresh(ctx: BackwardCFunction, args: Sequence[Any], out: Any) -> bool:
    """Make ``ctx`` the history of the only output, if that is a plain new tensor.

    False where it is not, or where forward said something about it: cases for :func:`wrap`.
    """
    if (
        ctx._plan.differentiable[0] is None
        or ctx.dirty_tensors
        or out.view_meta is not None
        or out.edge is not None
        or out.tracked
    ):
        return False
    for x in args:
        if x is out:
            return False
    out.edge, out.tracked = (ctx, 0), True
    return True


def wrap(
    ctx: BackwardCFunction, args: Sequence[Any], outs: Sequence[Any], executable: bool, split: bool
) -> tuple[Any, ...]:
    """The outputs as the caller gets them, with ``ctx`` as their history if ``executable``.

    Args:
        args: the arguments of forward.
        split: the function has a ``setup_context``.

    Raises:
        RuntimeError: where the marks on ``ctx`` contradict what was returned.
    """
    _check_marks(ctx)
    inputs = {id(x) for x in args if isinstance(x, Tensor)}
    dirty = {id(x) for x in ctx.dirty_tensors}
    saved = {id(x) for x in ctx.to_save} if split else set()
    results = []
    for nr, out in enumerate(outs):
        if not isinstance(out, Tensor):
            results.append(out)
            continue
        differentiable = ctx._plan.differentiable[nr] is not None
        is_input = id(out) in inputs
        edge = (ctx, nr) if executable else None
        if id(out) in dirty:
            _written(out, is_input, edge, len(outs))
        elif not differentiable:
            out = _without_gradient(out, is_input)
        elif edge is not None:
            if is_input:
                if id(out) in saved:
                    raise RuntimeError(
                        "An input that has been returned as-is as output is being saved for "
                        "backward. This is not supported if you override setup_context. You should"
                        " return and save a view of the input instead, e.g. with x.view_as(x)."
                    )
                out = _alias(out)
            _set_edge(out, edge)
        if out.view_meta is not None and not (is_input and id(out) in dirty):
            out.view_meta.creation = Creation.CUSTOM_FUNCTION
        results.append(out)
    if sum(of is not None for of in ctx._plan.differentiable) > 1:
        for out in results:
            if isinstance(out, Tensor) and out.view_meta is not None:
                out.view_meta.creation = Creation.MULTI_OUTPUT
    returned = {id(x) for x in outs}
    if any(mark not in returned for mark in dirty):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
    return tuple(results)


def _written(out: Tensor, is_input: bool, edge: Edge | None, count: int) -> None:
    """An output that forward wrote in place."""
    if out.requires_grad and out.is_leaf and edge is not None:
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation."
        )
    out.counter.version += 1
    if not is_input:
        message = (
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that "
            "have been mutated should be passed to ctx.mark_dirty()."
        )
        if out.view_meta is not None:
            raise RuntimeError(message)
        warnings.warn(message, UserWarning, stacklevel=4)
    if out.view_meta is not None and count > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your "
            "Function cannot return more than one Tensor. Clone the input first, or return the "
            "written one alone."
        )
    if edge is not None:
        if out.view_meta is not None:
            check_inplace(out, recorded=True)
        rebase_history(out, *edge)


def _without_gradient(out: Tensor, is_input: bool) -> Tensor:
    if is_input:
        return out.detach() if out.requires_grad else _alias(out)
    if out.requires_grad and out.view_meta is None:
        # A view stays what it is, as one returned from a no_grad block would.
        out.edge, out.tracked = None, False
    return out


def _alias(tensor: Tensor) -> Tensor:
    """A view of an input, since the input itself keeps its own history."""
    mode = modes.mode
    modes.mode = mode & ~GRAD
    try:
        return tensor.view_as(tensor)
    finally:
        modes.mode = mode


def _set_edge(out: Tensor, edge: Edge) -> None:
    if out.view_meta is None:
        out.edge, out.tracked = edge, True
    else:
        out.view_meta.edge = edge
        out.view_meta.version = out.counter.version


def saved_values(ctx: BackwardCFunction, outs: Sequence[Any]) -> tuple[Any, ...]:
    """What the node keeps of the tensors given to ``save_for_backward``; TypeError for others."""
    saved: list[Any] = []
    # A view that forward wrote has a history of its own, which leads here all the same.
    dirty = {id(x) for x in ctx.dirty_tensors}
    written = {id(x): nr for nr, x in enumerate(outs) if id(x) in dirty}
    for index, tensor in enumerate(ctx.to_save):
        if tensor is None:
            saved += (None, 0)
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {index} is of type "
                f"{type(tensor).__name__}"
            )
        edge = tensor.edge or (tensor.view_meta and tensor.view_meta.edge)
        if id(tensor) in written:
            edge = (ctx, written[id(tensor)])
        kept = save_result(tensor, edge[1]) if edge and edge[0] is ctx else tensor
        saved += (kept, tensor.counter.version)
    return tuple(saved)
