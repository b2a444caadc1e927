"""Hooks: what may be attached to tensors and nodes, and how the engine runs it.

Tensor hooks belong to the node that made the tensor *when they were registered*: a later in-place
write gives the tensor another node, and they stay behind. ``retain_grad`` moves along. A leaf has
no node of its own, so its hooks stay with it and are read when its gradient arrives.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..memory_format import contiguous_format

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Edge, Node

Hook = Callable[..., Any]


class HookDict(dict[int, Hook]):
    """Hooks by the number of their handle, in the order they were registered."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Removes one hook: by :meth:`remove`, or at the end of a ``with`` block.

    It holds the hooks weakly, so that a handle somebody keeps does not keep a graph alive.
    """

    __slots__ = ("_places", "id")
    _next_id = itertools.count().__next__

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = RemovableHandle._next_id()
        extra = extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        self._places = [weakref.ref(d) for d in (hooks_dict, *extra) if d is not None]

    def remove(self) -> None:
        """Remove the hook; nothing happens the second time."""
        for place in self._places:
            hooks = place()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(hooks: HookDict, hook: Hook) -> RemovableHandle:
    """Register ``hook`` after those that are there."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class Hooks:
    """Everything that may be attached to a node; absent on nearly all of them.

    Attributes:
        tensor: hooks of the tensors the node made, with the output they belong to.
        retained: by output the tensor whose ``.grad`` is to keep the gradient.
        pre, post: hooks on the node itself.
        metadata: the user's (and anomaly detection's) dictionary.
    """

    __slots__ = ("metadata", "post", "pre", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: list[tuple[int, HookDict]] = []
        self.retained: dict[int, weakref.ref[Tensor]] = {}
        self.pre = HookDict()
        self.post = HookDict()
        self.metadata: dict[Any, Any] | None = None


def hooks_of(node: Node) -> Hooks:
    """The hooks of a node, made if there are none."""
    if node._hooks is None:
        node._hooks = Hooks()
    return node._hooks


# Registering --------------------------------------------------------------------------------------
def register_hook(self: Tensor, hook: Hook) -> RemovableHandle:
    """Call ``hook(grad)`` whenever the gradient of this tensor is computed.

    The hook may return a gradient to be used instead; it must not change its argument.

    Returns:
        A handle whose ``remove()`` takes the hook away again.

    Raises:
        RuntimeError: if the tensor does not require grad.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 2)
    >>> x.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    node = self.grad_fn  # first: it may bring a view's history, and so its hooks, up to date
    meta = self.autograd_meta()
    if meta.hooks is None:
        meta.hooks = HookDict()
        if node is not None:
            hooks_of(node).tensor.append((self.output_nr, meta.hooks))
    return add_hook(meta.hooks, hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Hook) -> RemovableHandle:
    """Call ``hook(tensor)`` after the gradient of this leaf was added to its ``.grad``.

    Raises:
        RuntimeError: if the tensor does not require grad or is no leaf.
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    meta = self.autograd_meta()
    if meta.post_accumulate is None:
        meta.post_accumulate = HookDict()
    return add_hook(meta.post_accumulate, hook)


def history_changed(tensor: Tensor, old: Edge | None, new: Edge) -> None:
    """A tensor has another node now: its hooks stay with the old one, retain_grad moves along."""
    meta = tensor.meta
    if meta is None:
        return
    meta.hooks = None
    if meta.retains_grad:
        if old is not None and old[0]._hooks is not None:
            old[0]._hooks.retained.pop(old[1], None)
        hooks_of(new[0]).retained[new[1]] = weakref.ref(tensor)


# Running ------------------------------------------------------------------------------------------
def run_tensor_hooks(node: Node, grads: list[Any]) -> None:
    """Replace gradients by what the tensor hooks return, then serve ``retain_grad``."""
    hooks = node._hooks
    if hooks is None:
        return
    for nr, registered in list(hooks.tensor):
        grads[nr] = run_on_value(registered, grads[nr])
    for nr, reference in list(hooks.retained.items()):
        tensor = reference()
        grad = grads[nr]
        if tensor is not None and grad is not None:
            meta = tensor.autograd_meta()
            meta.grad = (
                grad.clone(memory_format=contiguous_format)
                if meta.grad is None
                else meta.grad + grad
            )


def run_on_value(registered: HookDict, grad: Any) -> Any:
    """Tensor hooks in order, each on what the one before made of the gradient."""
    for hook in list(registered.values()):
        replaced = hook(grad)
        if replaced is not None:
            _check_value(hook, replaced, grad)
            grad = replaced
    return grad


def run_prehooks(hooks: HookDict, grads: list[Any]) -> list[Any]:
    """A node's hooks on the gradients that enter it."""
    for hook in list(hooks.values()):
        replaced = hook(tuple(grads))
        if replaced is not None:
            _check_values(hook, replaced, grads)
            grads = list(replaced)
    return grads


def run_posthooks(hooks: HookDict, leaving: Sequence[Any], grads: Sequence[Any]) -> Sequence[Any]:
    """A node's hooks on the gradients that leave it."""
    outs, entered = tuple(leaving), tuple(grads)
    for hook in list(hooks.values()):
        replaced = hook(outs, entered)
        if replaced is not None:
            _check_values(hook, replaced, outs)
            outs = replaced
    return outs


def run_post_accumulate(hooks: HookDict, leaf: Tensor) -> None:
    """A leaf's hooks, once its ``.grad`` is up to date."""
    returned = [hook(leaf) for hook in list(hooks.values())]
    for value in returned:
        if value is not None:
            if not hasattr(value, "layout"):
                raise TypeError(
                    "Tensor post accumulate grad hooks should return None; expected Variable, but "
                    f"hook returned '{type(value).__name__}'"
                )
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def _check_values(hook: Any, replaced: Any, grads: Sequence[Any]) -> None:
    if not isinstance(replaced, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(replaced).__name__}'")
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got "
            f"{len(replaced)}, but expected {len(grads)})"
        )
    for new, old in zip(replaced, grads, strict=True):
        if new is not None:
            if old is None:
                raise RuntimeError("can't replace a None gradient with a non-None value")
            _check_value(hook, new, old)


def _check_value(hook: Any, replaced: Any, grad: Any) -> None:
    if not hasattr(replaced, "layout"):
        raise TypeError(f"expected Variable, but hook returned '{type(replaced).__name__}'")
    if grad is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    new, old = replaced.layout, grad.layout
    if new.dtype.plain is not old.dtype.plain:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was "
            f"jitgrad.{old.dtype.tensor_type} got jitgrad.{new.dtype.tensor_type})"
        )
    if new.shape != old.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
