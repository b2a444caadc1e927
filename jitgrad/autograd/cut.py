"""Why a tensor does not require grad: where the history that led to it was cut.

``Tensor.tracked`` is False for a tensor that never had to do with a gradient. Where history
is cut (detach, ``.data``, a no_grad block, an operation without a derivative) it is a :class:`Cut`
instead, which is just as false and remembers why and where. Operations hand it on, so that
``backward()`` on a loss without history can name the first tensor at which it was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import errors
from .views import requires_grad

if TYPE_CHECKING:
    from ..layout import Layout
    from ..tensor import Tensor


class Cut(float):
    """A zero, so that testing it costs what testing False does.

    Attributes:
        why: what cut the history, in words.
        layout: of the tensor that lost it.
        where: the line of the user's code.
    """

    __slots__ = ("layout", "where", "why")

    why: str
    layout: Layout
    where: errors.Where | None


def cut(result: Tensor, why: str, skip: int = 1) -> None:
    """Mark a tensor as the first without history; ``skip`` frames above are known to be ours."""
    mark = Cut(0.0)
    mark.why = why
    mark.layout = result.layout
    mark.where = errors.caller(skip + 1)
    result.tracked = mark


def found(tensors: Iterable[Tensor]) -> Any:
    """The mark that the result of an unrecorded operation inherits; False if there is none."""
    for t in tensors:
        source = t if t.view_meta is None else t.view_meta.base
        if source.tracked.__class__ is Cut:
            return source.tracked
    return False


def unrecorded(operands: Iterable[Tensor], result: Tensor, why: str) -> None:
    """Note what became of the history of an operation's inputs that was not recorded."""
    if any(t.tracked and requires_grad(t) for t in operands):
        cut(result, why)
    else:
        result.tracked = found(operands)


def explain(tensor: Tensor) -> str:
    """The end of "does not require grad": since when and why."""
    mark = found((tensor,))
    if mark is False:
        if tensor.view_meta is not None and requires_grad(tensor):
            return (
                "It is a view that was taken in a no_grad block, or before its base required grad: "
                "its gradient leads nowhere. Take the view anew."
            )
        return (
            "None of the tensors it was computed from requires grad: call requires_grad_() on "
            "those whose gradients you want, before they are used."
        )
    return (
        f"Its history was cut at {errors.line_of(mark.where)}, at a tensor of shape "
        f"{list(mark.layout.shape)} ({mark.layout.dtype}): {mark.why}."
    )
