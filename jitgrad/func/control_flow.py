"""Control flow as functions of functions. What runs is Python's own: derivatives follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .tree import structure


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """``true_fn(*operands)`` if ``pred`` is true, else ``false_fn(*operands)``.

    Args:
        pred: a bool, or a tensor with one element.
        operands: a tuple of pytrees.

    Raises:
        RuntimeError: for anything else.

    >>> import jitgrad as jg
    >>> jg.cond(jg.tensor(True), lambda x: x + 1, lambda x: x - 1, (jg.ones(2),))
    tensor([2., 2.])
    """
    if not isinstance(pred, (bool, Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.layout.numel != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple of tensors, but got {operands}.")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> tuple[Any, ...]:
    """``carried = body_fn(*carried)`` as long as ``cond_fn(*carried)`` is true; the last of them.

    Args:
        cond_fn: returns a bool, or a tensor of bools with one element.
        body_fn: returns as many values of the same structure.
        carried_inputs: a tuple of pytrees.

    Raises:
        RuntimeError: for anything else.

    >>> import jitgrad as jg
    >>> jg.while_loop(lambda x: x.sum() < 10, lambda x: (x * 2,), (jg.ones(2),))
    (tensor([8., 8.]),)
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"Expect carried_inputs to be a tuple of possibly nested values, got {carried_inputs}"
        )
    carried = tuple(carried_inputs)
    form = structure(carried)
    while True:
        more = cond_fn(*carried)
        if not isinstance(more, bool) and not (isinstance(more, Tensor) and more.numel() == 1):
            raise RuntimeError(
                f"cond_fn must return a boolean scalar tensor or a boolean, but got {more}"
            )
        if not more:
            return carried
        carried = body_fn(*carried)
        carried = tuple(carried) if isinstance(carried, (tuple, list)) else (carried,)
        if structure(carried) != form:
            raise RuntimeError(
                f"body_fn must return values in the structure of carried_inputs {form}, but got "
                f"{structure(carried)}"
            )
