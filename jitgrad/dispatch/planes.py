"""Planes: what the last dimensions hold for a channel of a sample. Where the largest elements of
windows lie in them, and the moves to such places and back, which are each other's derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import int64
from ..kernels import planes, windows
from ..kernels.windows import Windows
from ..layout import Layout, dense_layout, image_layout
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor
from .convert import contiguous, flipped, resolved
from .make import alias, fresh
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record

Pair = tuple[Tensor, Tensor]


# Moves between planes and what names their elements -----------------------------------------------
_moves = PlanCache()


def move(how: str, rank: int, values: Tensor, indices: Tensor, elements: Tensor) -> None:
    key = (how, rank, values.layout, indices.layout, elements.layout)
    plan = _moves.get(key)
    if plan is None:
        if flipped(values, elements):  # of which one is a result
            move(how, rank, resolved(values), indices, resolved(elements))
            return
        layouts = values.layout, indices.layout, elements.layout
        plan = _moves.add(key, planes.plan(how, rank, *layouts))
    run, spec = plan
    buffers = [part for t in (values, indices, elements) for part in (t.storage.buffer, t.offset)]
    run(spec, *buffers)


def taken(self: Tensor, indices: Tensor, rank: int) -> Tensor:
    """The elements that indices name in the planes of the last ``rank`` dimensions."""
    plain = self if planes.step_of(self.layout, rank) is not None else contiguous(alias(self))
    result = fresh(image_layout(indices.layout.shape, self.layout.dtype, indices.layout))
    move("take", rank, result, indices, plain)
    record(_TAKE, (self, indices), (result,), {"rank": rank})
    return result


def _scattered(
    cls: type[StructuredNode], grad: Tensor, indices: Tensor, rank: int, like: Layout
) -> Tensor:
    """The transpose of :func:`taken`, recorded as a node of ``cls``."""
    result = fresh(image_layout(like.shape, grad.layout.dtype, like))
    move("add", rank, grad, indices, result)
    record(cls, (grad, indices), (result,), {"rank": rank})
    return result


def _backward_class(name: str, node: str) -> type[StructuredNode]:
    """The node of the gradient of ``name``, which is linear."""
    back = {"gradient": lambda grad, indices, rank: taken(grad, indices, rank)}
    row = structured(f"{name}_backward", "gradient indices", grad=back, fresh=True, node=node)
    return node_class(row)


_TAKE_BACKWARD = _backward_class("plane_take", "ScatterAddBackward0")
_TAKE = node_class(
    structured(
        "plane_take",
        "self indices",
        grad={
            "self": lambda grad, indices, rank, layout: _scattered(
                _TAKE_BACKWARD, grad, indices, rank, layout
            )
        },
        jvp={"self": lambda tangent, indices, rank: taken(tangent, indices, rank)},
        fresh=True,
        node="GatherBackward0",
    )
)


def pool_class(name: str, node: str) -> type[StructuredNode]:
    """The node of a max pooling; PyTorch calls the places ``result1``."""
    backward = _backward_class(name, f"{node}BackwardBackward0")
    row = structured(
        name,
        "self result1",
        grad={
            "self": lambda grad, result1, rank, layout: _scattered(
                backward, grad, result1, rank, layout
            )
        },
        jvp={"self": lambda tangent, result1, rank: taken(tangent, result1, rank)},
        fresh=True,
        node=f"{node}Backward0",
    )
    return node_class(row)


# Windows over planes ------------------------------------------------------------------------------
class WindowPlan(NamedTuple):
    """How to find the largest elements of the windows of a layout.

    Attributes:
        run, spec: the driver and what it walks.
        out, indices: the layouts of the elements and of their places.
        starts: where the windows begin.
        attributes: of the node.
        outcome: the same layouts, for the node.
    """

    run: Callable[..., None]
    spec: np.ndarray
    out: Layout
    indices: Layout
    starts: np.ndarray
    attributes: Mapping[str, Any]
    outcome: Outcome


def plan_windows(
    of: Layout,
    each: Sequence[Windows],
    visible: Mapping[str, Any],
    starts: Any = None,
    *,
    row_major: bool = False,
) -> WindowPlan:
    """The plan of some windows along each of the last dimensions.

    Args:
        visible: what the node shows of the call.
        starts: int64 [n, channels, windows of all dimensions], or None if they are the windows'.
        row_major: whether results are laid out so even where the channels of the input are last.
    """
    rank = len(each)
    shape = (*of.shape[: of.ndim - rank], *(len(w.taps) for w in each))
    out, indices = (
        dense_layout(shape, d) if row_major else image_layout(shape, d, of)
        for d in (of.dtype, int64)
    )
    if starts is None:
        starts = np.concatenate([w.start for w in windows.three(each) if w.start is not None])
        strides: Sequence[int] = (0,) * (of.ndim - rank)
    else:
        strides = [s // 8 for s in starts.strides[:-1]][-(of.ndim - rank) :]
    run, spec = windows.plan(each, of, out, indices, strides)
    attributes = {**visible, "rank": rank}
    return WindowPlan(run, spec, out, indices, starts, attributes, Outcome((of, indices), (out,)))


def pooled(plan: WindowPlan, self: Tensor, cls: type[StructuredNode] | None) -> Pair:
    """Results and their places, recorded as a node of ``cls``."""
    run, spec, out, of_indices, starts, attributes, outcome = plan
    result, indices = fresh(out), fresh(of_indices)
    buffer = result.storage.buffer
    run(
        spec, self.storage.buffer, self.offset, buffer, 0, indices.storage.buffer, 0,
        starts, 0, buffer, 0, buffer, 0,
    )  # fmt: skip
    if cls is not None and (self.tracked is not False or modes.levels):
        cls.record(self, indices, result, attributes, outcome)
    return result, indices
