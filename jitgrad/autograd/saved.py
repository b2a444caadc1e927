"""What nodes save, and what becomes of it until backward.

A node's ``saved`` holds ``(tensor, version)`` pairs flattened into one tuple. An input is kept as
the object it is; an output as an alias without history, so that node and output form no cycle.
What saved-tensor hooks packed is kept as a :class:`Packed`, whose version is never the expected
one: the check that is on the hot path anyway leads to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import errors
from ..state import GRAD, modes
from ..storage import DetachedCounter, VersionCounter
from ..tensor import Tensor, make
from . import anomaly
from .node import FOREVER, Edge, Node, Released
from .views import gradient_edge, requires_grad

if TYPE_CHECKING:
    from .node import AccumulateGrad

_new = object.__new__
Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]


class SavedResult(Tensor):
    """A saved output: the memory and the counter of the result, but not its history."""

    __slots__ = ()
    nr = 0  # which output it is


def save_result(result: Tensor, nr: int = 0) -> Tensor:
    """What a node keeps of its own output."""
    kept = _new(SavedResult)
    kept.storage = result.storage
    kept.offset = result.offset
    kept.layout = result.layout
    kept.counter = result.counter
    kept.edge = kept.view_meta = kept.meta = None
    kept.tracked = False
    if nr:
        kept.nr = nr
    return kept


def unpack(node: Node, index: int) -> Tensor:
    """The saved tensor number ``index`` of a node, checked and ready to be used in a formula.

    Raises:
        RuntimeError: if it was released, or written in place since it was saved.
    """
    if node._saved.__class__ is Released:
        raise errors.backward_twice(node)
    tensor, version = node._saved[2 * index], node._saved[2 * index + 1]
    if tensor.counter.version != version:
        if tensor.__class__ is Packed:
            return tensor.unpack(node)
        if tensor.counter.__class__ is DetachedCounter and version == int(tensor.counter.version):
            raise errors.detached_inplace(tensor, node)
        raise _modified(node, tensor, version)
    if tensor.__class__ is SavedResult:
        result = make(tensor.storage, tensor.offset, tensor.layout)
        result.counter = tensor.counter
        result.edge = (node, tensor.nr)
        result.tracked = True
        if tensor.meta is not None:  # a dual result: see dispatch/tangents.py
            result.autograd_meta().tangents = tensor.meta.tangents
        return result
    return tensor


def _modified(node: Node, tensor: Tensor, version: int) -> RuntimeError:
    traced = anomaly.enabled()
    if tensor.__class__ is SavedResult:
        return errors.modified_inplace(tensor, version, node, tensor.nr, node, traced)
    edge: Any = tensor.edge or (tensor.view_meta and tensor.view_meta.edge)
    producer, nr = edge or (None, 0)
    return errors.modified_inplace(tensor, version, node, nr, producer, traced)


# Hooks --------------------------------------------------------------------------------------------
class _Stale:
    """A counter whose version no tensor was ever saved at."""

    version = None


class Packed:
    """A saved tensor as a pack hook left it, and what is needed to give it back its history.

    Attributes:
        value: what the pack hook returned.
        hook: the unpack hook.
        nr: which output of the node it is; None for an input.
        edge: an input's history.
        accumulator: of an input that is a leaf and requires grad.
        requires_grad: whether an input does.
        tangents: of forward-mode AD, which hooks do not see.
    """

    __slots__ = ("accumulator", "edge", "hook", "nr", "requires_grad", "tangents", "value")
    counter = _Stale()

    def __init__(self, tensor: Tensor, pack: Pack, unpack: Unpack) -> None:
        self.hook = unpack
        self.nr: int | None = None
        self.tangents = tensor.meta and tensor.meta.tangents
        self.edge: Edge | None = None
        self.accumulator: weakref.ref[AccumulateGrad] | None = None
        if tensor.__class__ is SavedResult:
            self.nr = tensor.nr
            self.requires_grad = True
            kept = make(tensor.storage, tensor.offset, tensor.layout)
            kept.counter = tensor.counter
            # Without the history it will get back: a hook that keeps it must not close a cycle.
            kept.tracked = True
            tensor = kept
        else:
            self.requires_grad = tensor.requires_grad
            edge = gradient_edge(tensor) if self.requires_grad else None
            if edge is not None and edge[0]._seq == FOREVER:
                self.accumulator = weakref.ref(edge[0])  # type: ignore[arg-type]
            else:
                self.edge = edge
        version = tensor.counter.version
        mode = modes.mode
        modes.mode &= ~GRAD
        try:
            self.value = pack(tensor)
        finally:
            modes.mode = mode
        if tensor.counter.version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook can not be modified by in-place operations, as that would "
                "change what was computed: clone() it first."
            )

    def unpack(self, node: Node) -> Tensor:
        """The tensor that the unpack hook returns, with the history of the one that was saved."""
        data = self.hook(self.value)
        if not isinstance(data, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(data).__name__}"
            )
        if not self.requires_grad and not data.requires_grad and self.tangents is None:
            return data
        result = make(data.storage, data.offset, data.layout)
        result.counter = VersionCounter()
        result.tracked = self.requires_grad
        if self.nr is not None:
            result.edge = (node, self.nr)
        elif self.edge is not None:
            result.edge = self.edge
        elif self.accumulator is not None:
            result.autograd_meta().accumulator = self.accumulator
        if self.tangents is not None:
            result.autograd_meta().tangents = self.tangents
        return result


def wants_grad(inputs: Iterable[Tensor]) -> bool:
    """Whether an operation on these inputs must be recorded now."""
    mode = modes.mode
    if not mode & GRAD or (mode != GRAD and modes.inference):
        return False
    return any(t.tracked and requires_grad(t) for t in inputs)


def recorded(node: Node) -> None:
    """What a new node needs in modes other than plain grad mode: packing, a traceback."""
    note_inputs(node)
    pack_result(node)


def note_inputs(node: Node) -> None:
    """The part of :func:`recorded` that an operation in place does before it writes."""
    if modes.saved_hooks and node._saved:
        _pack(node, of_result=False)
    if anomaly.enabled():
        anomaly.note(node)


def pack_result(node: Node) -> None:
    """The rest, once the result is there."""
    if modes.saved_hooks and node._saved:
        _pack(node, of_result=True)


def _pack(node: Node, of_result: bool) -> None:
    pack, unpack_hook = modes.saved_hooks[-1]
    entries: list[Any] = list(node._saved)
    for i in range(0, len(entries), 2):
        tensor = entries[i]
        # Python numbers are no tensors of the user's.
        if tensor is None or tensor.__class__ is Packed or tensor.layout.wrapped:
            continue
        if (tensor.__class__ is SavedResult) is of_result:
            entries[i] = Packed(tensor, pack, unpack_hook)
    node._saved = tuple(entries)  # type: ignore[misc]


# Looking at what is saved -------------------------------------------------------------------------
class SavedTensor:
    """The handle that ``node._raw_saved_<name>`` gives: hooks can be put on it."""

    __slots__ = ("_index", "_node")

    def __init__(self, node: Node | None = None, index: int | None = None) -> None:
        if node is None:
            raise RuntimeError(
                "Trying to create a SavedTensor object from Python is forbidden. Nodes have them."
            )
        self._node = node
        self._index = index

    def _held(self) -> Any:
        saved = self._node._saved
        if saved.__class__ is Released:
            raise errors.backward_twice(self._node)
        return None if self._index is None else saved[2 * self._index]

    @property
    def data(self) -> Any:
        """What is kept: the tensor, an alias of it if it is a result, or what a hook packed."""
        held = self._held()
        return held.value if held.__class__ is Packed else held

    @property
    def unpack_hook(self) -> Unpack | None:
        """The hook that will unpack it."""
        held = self._held()
        return held.hook if held.__class__ is Packed else None

    def register_hooks(self, pack_hook: Pack, unpack_hook: Unpack | None = None) -> None:
        """Pack the saved tensor now, and unpack it whenever it is needed.

        Raises:
            RuntimeError: if it was released, is None, or has hooks already.
            TypeError: if a hook cannot be called.
        """
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks(): incompatible function arguments: expected callables")
        saved, index = self._node._saved, self._index
        if saved.__class__ is Released:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved "
                "intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True to keep them."
            )
        tensor = None if index is None else saved[2 * index]
        if index is None or tensor is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        if tensor.__class__ is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: "
                "only one pair of hooks is allowed at a time."
            )
        packed = Packed(tensor, pack_hook, unpack_hook)
        self._node._saved = (*saved[: 2 * index], packed, *saved[2 * index + 1 :])  # type: ignore[misc]


# Operands that PyTorch takes as tensors even where a number is given; others stay numbers.
_TENSORS = frozenset(("self", "other", "result"))


def saved_attribute(node: Node, name: str) -> Any:
    """``node._saved_<name>`` and ``node._raw_saved_<name>``: inputs, the result, attributes."""
    raw = name.startswith("_raw_saved_")
    if raw or name.startswith("_saved_"):
        field = name.removeprefix("_raw_saved_").removeprefix("_saved_")
        names, attributes = node.saved_names, node.saved_attributes
        if field in names:
            index = names[field]
            if raw:
                return SavedTensor(node, index)
            if node._saved.__class__ is Released:
                raise errors.backward_twice(node)
            return None if index is None else _shown(unpack(node, index), field)
        if not raw and field in attributes:
            return attributes[field]
    raise AttributeError(f"'{node.name()}' object has no attribute '{name}'")


def _shown(tensor: Tensor, field: str) -> Any:
    if not tensor.layout.wrapped:
        return tensor
    return tensor.clone() if field in _TENSORS else tensor.item()


# Only what is no ordinary attribute of a node comes here.
Node.__getattr__ = saved_attribute  # type: ignore[attr-defined]
