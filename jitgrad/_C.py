"""The few of PyTorch's internals that ordinary code, and tests above all, reach for by this name.

They look into the backward pass that is running, or make nodes that fail on purpose.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from .autograd.function import Error, Function
from .autograd.node import FOREVER, AccumulateGrad, Node
from .autograd.saved import SavedTensor
from .autograd.views import gradient_edge
from .state import is_grad_enabled, modes
from .tensor import Tensor

__all__ = ["is_grad_enabled"]


# The backward pass that is running ----------------------------------------------------------------
def _current_graph_task_id() -> int:
    """The number of this thread's innermost backward pass; -1 outside."""
    return -1 if modes.task is None else modes.task.id


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward pass that is running keeps what nodes saved; True outside."""
    return modes.task is None or modes.task.keep_graph


def _current_autograd_node() -> Node | None:
    """The node that is running on this thread."""
    return None if modes.task is None else modes.task.node


def _will_engine_execute_node(node: Any) -> bool:
    """Whether the backward pass that is running runs ``node``; RuntimeError where none is."""
    if not isinstance(node, Node):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    task = modes.task
    if task is None:
        raise RuntimeError(
            "_will_engine_execute_node should only be called during the backward pass"
        )
    if node._seq == FOREVER and task.captures is not None and node in task.captures:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running "
            "autograd.grad(). This is currently not supported."
        )
    return bool(task.executes(node))


# Nodes --------------------------------------------------------------------------------------------
class _NoGradient(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> None:
        return None


class UndefinedGrad:
    """``UndefinedGrad()(x)`` is ``x``, with a history that lets no gradient through."""

    def __call__(self, tensor: Tensor) -> Tensor:
        return _NoGradient.apply(tensor)


class DelayedError:
    """``DelayedError(message, 1)(x)`` is ``x``, with a history that raises in backward."""

    def __init__(self, message: str, num_inputs: int) -> None:
        self.message = message

    def __call__(self, *tensors: Tensor) -> Any:
        outs = tuple(t.detach() for t in tensors)
        node = Error(self.message, tuple(gradient_edge(t) for t in tensors))
        for nr, out in enumerate(outs):
            out.edge, out.tracked = (node, nr), True
        return outs[0] if len(outs) == 1 else outs


class _WeakTensorRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


# Saved tensors and versions -----------------------------------------------------------------------
def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether saved-tensor hooks may be used now."""
    return modes.hooks_refused is None


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Set how often tensors were written, so that backward does not notice; RuntimeError if < 0."""
    for tensor, version in zip(tensors, versions, strict=True):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        tensor.counter.version = version


_functions = SimpleNamespace(
    AccumulateGrad=AccumulateGrad, DelayedError=DelayedError, UndefinedGrad=UndefinedGrad
)
_autograd = SimpleNamespace(
    SavedTensor=SavedTensor,
    _get_current_graph_task_keep_graph=_get_current_graph_task_keep_graph,
    _saved_tensors_hooks_is_enabled=_saved_tensors_hooks_is_enabled,
    _unsafe_set_version_counter=_unsafe_set_version_counter,
)
