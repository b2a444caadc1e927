"""Views: what a view remembers of its base, and what writing through one does to the tape."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from .. import errors
from ..layout import parts
from ..state import GRAD, modes, next_sequence_number
from ..storage import INFERENCE_COUNTER
from .hooks import history_changed
from .node import Edge, Grads, Node, OperationNode, Released, accumulator_edge

if TYPE_CHECKING:
    from ..tensor import Tensor


class Creation(enum.Enum):
    """How a view was made, which decides whether it may be written in place (CreationMeta)."""

    DEFAULT = "default"
    MULTI_OUTPUT = "function that returns multiple views"
    NO_GRAD = "no_grad"
    INFERENCE = "inference"
    CUSTOM_FUNCTION = "custom function"


class ViewMeta:
    """What a view knows: its root base and the edge its gradient goes to.

    ``version`` is the family's version for which ``edge`` is right; writing through the base or a
    sibling makes it stale, and the edge is made anew when it is next asked for.
    """

    __slots__ = ("base", "creation", "edge", "requires_grad", "version")

    def __init__(self, base: Tensor, edge: Edge | None, version: int, creation: Creation) -> None:
        self.base = base
        self.edge = edge
        self.version = version
        self.creation = creation
        self.requires_grad = False  # set on the view itself (a leaf of its own)


def requires_grad(tensor: Tensor) -> bool:
    """Whether a tensor requires grad; a view also does when its base does."""
    view = tensor.view_meta
    if view is None:
        return tensor.tracked is True
    return view.requires_grad or view.edge is not None or view.base.tracked is True


def gradient_edge(tensor: Tensor) -> Edge | None:
    """Where the gradient of a tensor goes; None if nowhere."""
    edge = tensor.edge
    if edge is not None:
        return edge
    view = tensor.view_meta
    if view is None:
        return accumulator_edge(tensor) if tensor.tracked else None
    edge = view.edge if view.version == tensor.counter.version else view_edge(tensor, view)
    if edge is None and view.requires_grad:
        return accumulator_edge(tensor)
    return edge


def view_edge(tensor: Tensor, view: ViewMeta) -> Edge | None:
    """The edge of a view, made anew as an AsStridedBackward if a write made it stale."""
    version = tensor.counter.version
    if view.version != version and (view.edge is not None or requires_grad(view.base)):
        if view.creation is not Creation.DEFAULT:
            raise inplace_view_error(tensor, view, itself=False)
        edge = (AsStridedBackward0(view.base, tensor), 0)
        history_changed(tensor, view.edge, edge)
        view.edge = edge
        view.version = version
    return view.edge


def creation_now() -> Creation:
    """The tag of a view that is made in the present mode."""
    if modes.inference:
        return Creation.INFERENCE
    return Creation.DEFAULT if modes.mode & GRAD else Creation.NO_GRAD


def inplace_view_error(tensor: Tensor, view: ViewMeta, itself: bool) -> RuntimeError:
    written = (
        "is being modified inplace"
        if itself
        else "its base or another view of its base has been modified inplace"
    )
    creation, edge = view.creation, view.edge
    if creation in (Creation.NO_GRAD, Creation.INFERENCE):
        quiet = "no_grad" if creation is Creation.NO_GRAD else "inference_mode"
        mode = quiet.replace("_mode", "") + " mode"
        subject = (
            "A view"
            if edge is None
            else f"Output {edge[1]} of {edge[0].name()} is a view of a view that"
        )
        return RuntimeError(
            f"{subject} was created in {mode} and {written} in normal mode with grad mode enabled. "
            f"Either create it and write to it inside the {quiet} block, or both outside, or use a "
            "clone() of it."
        )
    reasons = {
        Creation.MULTI_OUTPUT: "This view is the output of a function that returns multiple views."
        " Such functions do not allow the output views to be modified inplace. You should replace "
        "the inplace operation by an out-of-place one.",
        Creation.CUSTOM_FUNCTION: "This view was created inside a custom Function (or because an "
        "input was returned as-is) and the autograd logic to handle view+inplace would override "
        "the custom backward associated with the custom Function. You can fix this by cloning the "
        "output of the custom Function.",
    }
    subject = (
        "A view was created in no_grad mode and"
        if edge is None
        else f"Output {edge[1]} of {edge[0].name()} is a view and"
    )
    return RuntimeError(f"{subject} {written}. {reasons[creation]}")


def check_inplace(tensor: Tensor, recorded: bool) -> None:
    """Raise if autograd forbids writing ``tensor`` in place (``recorded``: grad is involved)."""
    if modes.before_write is not None:
        modes.before_write(tensor)
    if tensor.counter is INFERENCE_COUNTER and not modes.inference:
        raise errors.inference_inplace()
    if not recorded:
        return
    view = tensor.view_meta
    if view is None:
        if tensor.tracked and tensor.edge is None:
            raise errors.leaf_inplace(view=False)
        return
    if view.creation is not Creation.DEFAULT:
        raise inplace_view_error(tensor, view, itself=True)
    if requires_grad(tensor):
        if view.base.edge is None:
            raise errors.leaf_inplace(view=True)
        if view.edge is None:  # its base was written, and nobody has asked for its history since
            raise errors.leaf_inplace(view=False)


def rebase_history(tensor: Tensor, node: Node, nr: int = 0) -> None:
    """Make ``node`` the history of a tensor that an operation has just written in place."""
    view = tensor.view_meta
    if view is None:
        _set_edge(tensor, (node, nr))
        return
    base = view.base
    _set_edge(base, (CopySlices(base, tensor, node), 0))
    view.version = -1  # stale: the edge must lead through the base's new history
    view_edge(tensor, view)


def _set_edge(tensor: Tensor, edge: Edge) -> None:
    history_changed(tensor, tensor.edge, edge)
    tensor.edge = edge
    tensor.tracked = True


def set_view_edge(tensor: Tensor, edge: Edge) -> None:
    """Make ``edge`` the history of a tensor that was given another geometry in place."""
    view = tensor.view_meta
    if view is None:
        _set_edge(tensor, edge)
        return
    history_changed(tensor, view.edge, edge)
    view.edge = edge
    view.version = tensor.counter.version


_PARTS, _PAIRS = 1, -1  # what a view may read its base's memory as


class _Geometry(OperationNode):
    """A node that knows a view's place inside its base."""

    __slots__ = ("base_layout", "offset", "view_layout")

    def _bind(self, base: Tensor, tensor: Tensor) -> None:
        self._seq = next_sequence_number()
        self._hooks = None
        self._where = errors.caller()
        self._plan = None
        self.base_layout = base.layout
        self.view_layout = tensor.layout
        self.offset = (tensor.offset - base.offset) // tensor.layout.dtype.itemsize

    def _slice(self, base: Tensor) -> Tensor:
        """The place of the view in a tensor that has the base's geometry."""
        view, result, start = self.view_layout, base, self.offset
        if self._reads() == _PARTS:
            result = result._seen("view_as_real", ())
        elif self._reads() == _PAIRS:
            view, start = parts(view), 2 * start
        result = result.as_strided(view.shape, view.strides, result.storage_offset() + start)
        if self._reads() == _PAIRS:
            result = result._seen("view_as_complex", ())
        return self._flipped(result)

    def _adjoint(self, grad: Tensor) -> Tensor:
        """The gradient of the base from that of the view: the adjoint of :meth:`_slice`."""
        base, view, start = self.base_layout, self.view_layout, self.offset
        grad = self._flipped(grad)
        if self._reads() == _PARTS:
            base = parts(base)
        elif self._reads() == _PAIRS:
            grad = grad.resolve_conj()._seen("view_as_real", ())
            view, start = parts(view), 2 * start
        result = grad._as_strided_adjoint(base, view.shape, view.strides, start)
        return result._seen("view_as_complex", ()) if self._reads() == _PARTS else result

    def _reads(self) -> int:
        """Whether a view shows the parts of complex numbers, or pairs as complex numbers."""
        return int(self.base_layout.dtype.is_complex) - int(self.view_layout.dtype.is_complex)

    def _flipped(self, x: Tensor) -> Tensor:
        """Conjugated or negated, if the view shows the base's memory so."""
        base, view = self.base_layout.dtype, self.view_layout.dtype
        if base.conjugated != view.conjugated:
            x = x._seen("conj", ())
        return x._seen("neg_view", ()) if base.negated != view.negated else x


class AsStridedBackward0(_Geometry):
    """The regenerated history of a view whose base was written in place."""

    __slots__ = ()

    def __init__(self, base: Tensor, tensor: Tensor) -> None:
        self._bind(base, tensor)
        self._saved = ()
        self.next_edges = (gradient_edge(base),)

    def shape_of(self, nr: int) -> Any:
        return self.view_layout

    def apply(self, grad: Tensor | None) -> Grads:
        if grad is None or self.next_edges[0] is None:
            return (None,)
        return (self._adjoint(grad),)


class CopySlices(_Geometry):
    """The history of a base that was written through a view.

    The gradient of the base passes through, except where the view lies: there it is the gradient
    of what was written, and the inner node turns it into the gradient of the overwritten part.
    """

    __slots__ = ("_edges",)

    def __init__(self, base: Tensor, tensor: Tensor, inner: Node) -> None:
        edge = gradient_edge(base)
        self._bind(base, tensor)
        self.next_edges = (edge, *inner.next_edges[1:])
        self._saved = (inner,)
        self._edges = (0, *(i for i in inner._visible() if i))

    def _visible(self) -> tuple[int, ...]:
        return self._edges

    def shape_of(self, nr: int) -> Any:
        return self.base_layout

    def apply(self, grad: Tensor | None) -> Grads:
        return self._run(grad, recorded=False)

    def apply_recorded(self, grad: Tensor | None) -> Grads:
        return self._run(grad, recorded=True)

    def _run(self, grad: Tensor | None, recorded: bool) -> Grads:
        if self._saved.__class__ is Released:
            raise errors.backward_twice(self)
        if grad is None:
            return (None,) * len(self.next_edges)
        inner: Node = self._saved[0]
        layout = self.base_layout
        result = grad.new_empty_strided(layout.shape, layout.strides).copy_(grad)
        place = self._slice(result)
        written = place.clone()
        inside, *rest = inner.apply_recorded(written) if recorded else inner.apply(written)
        if inside is None:
            place.zero_()
        else:
            place.copy_(inside)
        return (result if self.next_edges[0] is not None else None, *rest)
