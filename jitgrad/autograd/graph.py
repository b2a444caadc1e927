"""Public tools to look at the graph and to change how it saves tensors."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..state import SAVED_HOOKS, modes, set_special
from ..tensor import Tensor
from .hooks import RemovableHandle
from .node import Node
from .saved import Pack, Unpack
from .views import gradient_edge

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


# Edges and versions -------------------------------------------------------------------------------
class GradientEdge(NamedTuple):
    """A place in the graph where a gradient arrives; ``grad`` and ``backward`` take it as a tensor.

    Holding it keeps the graph, but not the tensor's memory.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of a tensor arrives now; a later in-place write gives the tensor another.

    Raises:
        RuntimeError: if the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    edge = gradient_edge(tensor)
    if edge is None:
        raise RuntimeError(
            "this view was made before its base required grad: its gradient goes nowhere"
        )
    return GradientEdge(*edge)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write that jitgrad did not see (through NumPy, say), so that backward notices it."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        if not t.is_inference():
            t.counter.version += 1


# Hooks on several tensors -------------------------------------------------------------------------
def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call ``fn`` with the gradients of several tensors, once per backward pass.

    Args:
        tensors: all must require grad.
        fn: in mode "all" called with a list of gradients, None for tensors that the pass does not
            reach; in mode "any" with the first gradient that arrives.
        mode: "all" or "any".

    Raises:
        ValueError: for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    key = object()  # under which a backward pass remembers what has arrived
    nodes = [_node_later(t) for t in tensors]

    def on_all(index: int, grad: Any) -> None:
        task = modes.task
        arrived = task.memory.get(key)
        if arrived is None:
            reached = [node is not None and task.executes(node) for node in (n() for n in nodes)]
            arrived = task.memory[key] = ([None] * len(nodes), [sum(reached)])
        grads, left = arrived
        grads[index] = grad
        left[0] -= 1
        if left[0] == 0:
            fn(grads)

    def on_any(index: int, grad: Any) -> None:
        memory = modes.task.memory
        if key not in memory:
            memory[key] = True
            fn(grad)

    react = on_all if mode == "all" else on_any
    return _Handles([t.register_hook(_Indexed(react, i)) for i, t in enumerate(tensors)])


def _node_later(tensor: Tensor) -> Callable[[], Node | None]:
    """The node that hooks put on a tensor now belong to, held weakly: it holds the hooks.

    A leaf's accumulator may come and go, so the leaf is asked for it.
    """
    node = get_gradient_edge(tensor).node
    if tensor.grad_fn is not None:
        return weakref.ref(node)
    leaf = weakref.ref(tensor)

    def accumulator() -> Node | None:
        held = leaf()
        edge = None if held is None else gradient_edge(held)
        return None if edge is None else edge[0]

    return accumulator


class _Indexed:
    """A tensor hook that also tells which tensor it is on."""

    __slots__ = ("function", "index")

    def __init__(self, function: Callable[[int, Any], None], index: int) -> None:
        self.function = function
        self.index = index

    def __call__(self, grad: Any) -> None:
        self.function(self.index, grad)


class _Handles(RemovableHandle):
    """Several handles as one."""

    __slots__ = ("handles",)

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


# Saved tensors ------------------------------------------------------------------------------------
class saved_tensors_hooks:
    """In this block what nodes save goes through ``pack_hook``, and ``unpack_hook`` at backward.

    ``pack_hook(tensor)`` may return anything; ``unpack_hook(that)`` must return a tensor with the
    same values. Of nested blocks only the innermost counts.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> with jg.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), jg.from_numpy):
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if modes.hooks_refused is not None:
            raise RuntimeError(modes.hooks_refused)
        _set_hooks((*modes.saved_hooks, (self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exc: object) -> None:
        _set_hooks(modes.saved_hooks[:-1])


def _set_hooks(stack: tuple[Any, ...]) -> None:
    modes.saved_hooks = stack
    set_special(SAVED_HOOKS, bool(stack))


class save_on_cpu(saved_tensors_hooks):
    """In this block saved tensors are kept on the CPU, whatever device they are on."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            return tensor.device, tensor.cpu()

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """In this block whoever uses saved-tensor hooks gets a RuntimeError with this message."""
    if modes.saved_hooks:
        raise RuntimeError(error_message)
    before = modes.hooks_refused
    modes.hooks_refused = error_message
    try:
        yield
    finally:
        modes.hooks_refused = before


# Mutation -----------------------------------------------------------------------------------------
class _Kept:
    """A tensor saved while mutation is allowed: itself until its memory is to be written."""

    __slots__ = ("__weakref__", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.version = tensor._version


class _MutationContext:
    """What is saved at present, by alias family; gone with the nodes that saved it."""

    def __init__(self) -> None:
        self.open = True
        self.families: defaultdict[int, weakref.WeakSet[_Kept]] = defaultdict(weakref.WeakSet)
        self.cloned: weakref.WeakKeyDictionary[_Kept, Tensor] = weakref.WeakKeyDictionary()

    @property
    def tid_to_weakhandle(self) -> dict[int, _Kept]:
        """What is saved and has not been written since."""
        return {id(kept): kept for family in self.families.values() for kept in family}

    def clear(self) -> None:
        """Forget everything."""
        self.families.clear()
        self.cloned.clear()

    def pack(self, tensor: Tensor) -> _Kept:
        family = self.families[id(tensor.counter)]
        for kept in family:  # saved before, and not written since: one clone will do for both
            held = kept.tensor
            if (
                held.counter is tensor.counter
                and held.offset == tensor.offset
                and held.layout is tensor.layout
                and kept.version == tensor._version
            ):
                return kept
        kept = _Kept(tensor)
        family.add(kept)
        return kept

    def unpack(self, kept: _Kept) -> Tensor:
        if not self.open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in "
                "which the graph was originally recorded."
            )
        return kept.tensor

    def before_write(self, target: Tensor) -> None:
        """Clone what is saved of the memory that is about to be written."""
        family = self.families.pop(id(target.counter), ())
        for kept in list(family):
            if kept.tensor.counter is target.counter:
                kept.tensor = kept.tensor.detach().clone()
                self.cloned[kept] = kept.tensor


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_MutationContext]:
    """In this block saved tensors may be written in place: they are cloned just before.

    Backward must run inside the block too.

    Raises:
        RuntimeError: when nested.
    """
    if modes.before_write is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _MutationContext()
    with saved_tensors_hooks(context.pack, context.unpack):
        modes.before_write = context.before_write
        try:
            yield context
        finally:
            modes.before_write = None
            context.open = False
            context.clear()
