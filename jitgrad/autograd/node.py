"""Nodes of the tape, the edges between them, and the leaves' accumulators."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import errors
from ..state import GRAD, modes
from ..storage import INFERENCE_COUNTER
from .hooks import Hook, Hooks, RemovableHandle, add_hook, hooks_of

if TYPE_CHECKING:
    from ..tensor import Tensor

Edge = tuple["Node", int]
Grads = tuple["Tensor | None", ...]
FOREVER = 1 << 62  # the sequence number of accumulators: run as soon as they are ready


class Released(tuple[Any, ...]):
    """What a node saved, once a backward pass has released it: nothing, and where that was."""

    where: errors.Where | None = None


class Node:
    """One recorded operation: knows how to turn the gradient of its output into its inputs'.

    Attributes:
        _seq: later operations have larger numbers.
        next_edges: for each input the ``(node, output_nr)`` that its gradient goes to, or None.
        _saved: what the formulas need, as ``(tensor, version, ...)``; () where nothing, a
            :class:`Released` once released.
        _plan: the layouts of the operation (``plan.out`` is what the gradient must look like).
        _where: the line of the user's code that recorded it.
        _hooks: hooks and captures, made on demand.
    """

    __slots__ = ("__weakref__", "_hooks")

    _seq: int
    next_edges: tuple[Edge | None, ...]
    _saved: tuple[Any, ...]
    _plan: Any
    _where: errors.Where | None
    _hooks: Hooks | None

    _outputs = 1  # how many results of the operation carry gradients
    # For each input whether the gradient is memory that nobody else holds (a leaf may keep it), or
    # the incoming gradient's.
    _fresh: tuple[bool, ...] = ()
    _trusted = True  # whether gradients have the right shape and dtype by construction

    def name(self) -> str:
        """PyTorch's name of the node, e.g. ``MulBackward0``."""
        return type(self).__name__

    def apply(self, grad: Any) -> Grads:
        """The gradients of the inputs, aligned with ``next_edges``.

        ``grad`` is one tensor (None: undefined), or a list of them where ``_outputs`` > 1.
        """
        raise NotImplementedError(f"{self.name()} has no derivative")

    def apply_recorded(self, grad: Any) -> Grads:
        """:meth:`apply` by recorded operations, for ``create_graph=True``."""
        return self.apply(grad)

    def shape_of(self, nr: int) -> Any:
        """The layout that the gradient of output ``nr`` must be compatible with."""
        return self._plan.out

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges as PyTorch shows them: ``(None, 0)`` for inputs without gradient."""
        edges = self.next_edges
        return tuple(edges[i] or (None, 0) for i in self._visible())

    def _visible(self) -> Iterable[int]:
        """Which of the edges PyTorch's node has too."""
        return range(len(self.next_edges))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for whatever belongs to this node."""
        hooks = hooks_of(self)
        if hooks.metadata is None:
            hooks.metadata = {}
        return hooks.metadata

    @property
    def requires_grad(self) -> bool:
        """Whether the operation's results require grad: always, or there would be no node."""
        return True

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after the node ran; it may return others.

        Both are tuples: what leaves the node, and what entered it.
        """
        return add_hook(hooks_of(self).post, hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before the node runs; it may return a tuple of others."""
        return add_hook(hooks_of(self).pre, hook)

    def _sequence_nr(self) -> int:
        """Later operations have larger numbers."""
        return self._seq

    def _set_sequence_nr(self, number: int) -> None:
        """Change when the node runs among those that are ready: larger numbers run first."""
        self._seq = number  # type: ignore[misc]

    @property
    def _input_metadata(self) -> tuple[Any, ...]:
        """What the gradients that enter must look like: objects with ``shape`` and ``dtype``."""
        return tuple(self.shape_of(nr) for nr in range(self._outputs))

    @property
    def saved_names(self) -> Mapping[str, int | None]:
        """The values that formulas name, with their index in ``saved``; None where not needed."""
        return {}

    @property
    def saved_attributes(self) -> Mapping[str, Any]:
        """What else the formulas need: numbers, dimensions, flags of the call."""
        return {}

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the inputs for given gradients of the outputs; no hooks run.

        Raises:
            TypeError: for another number of gradients than the operation has outputs.
        """
        if len(grads) != self._outputs:
            raise TypeError(f"expected {self._outputs} arguments, got {len(grads)} instead")
        for index, grad in enumerate(grads):
            if grad is not None and not hasattr(grad, "layout"):
                raise TypeError(f"argument {index} is not a Variable")
        grad = grads[0] if self._outputs == 1 else list(grads)
        outs = self.apply_recorded(grad) if modes.mode else self.apply(grad)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def __dir__(self) -> list[str]:
        names, attributes = self.saved_names, self.saved_attributes
        return [
            *object.__dir__(self),
            *(f"_saved_{name}" for name in (*names, *attributes)),
            *(f"_raw_saved_{name}" for name in names),
        ]

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class OperationNode(Node):
    """A node that an operation recorded (every node but the leaves' accumulators)."""

    __slots__ = ("_plan", "_saved", "_seq", "_where", "next_edges")


# Several threads may add into one leaf at once. Reentrant: under create_graph the sum is recorded,
# which may call hooks of the user's.
_accumulating = threading.RLock()


class AccumulateGrad(Node):
    """Adds the gradients of a leaf into its ``.grad``.

    Strong to its leaf; the leaf holds it weakly and makes a new one on demand, so that a leaf and
    its accumulator form no cycle.
    """

    __slots__ = ("variable",)

    _seq = FOREVER
    next_edges = ()
    _saved = ()
    _plan = None
    _where = None

    def __init__(self, variable: Tensor) -> None:
        self._hooks = None
        self.variable = variable

    def name(self) -> str:
        """PyTorch's name of the node."""
        return "torch::autograd::AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    def shape_of(self, nr: int) -> Any:
        return self.variable.layout

    def apply(self, grad: Tensor | None) -> Grads:
        if grad is not None:
            self.accumulate(grad, owned=False, create_graph=bool(modes.mode & GRAD))
        return ()

    def accumulate(self, grad: Tensor, owned: bool, create_graph: bool) -> None:
        """Add ``grad`` to ``variable.grad`` (PyTorch's AccumulateGrad).

        A first gradient is kept as it is if nobody else holds it and it lies like the leaf; else
        copied. Later ones are added in place, or out of place if the sum is itself recorded.
        """
        leaf = self.variable
        if not leaf.requires_grad:
            return
        if leaf.grad_fn is not None:
            raise RuntimeError(
                "leaf variable has been moved into the graph interior: it was written in place "
                "after it was used"
            )
        meta = leaf.autograd_meta()
        with _accumulating:
            held = meta.grad
            if held is None:
                lies_alike = grad.layout is leaf.layout or (
                    grad.layout.strides == leaf.layout.strides
                    if leaf.layout.dense
                    else grad.layout.contiguous
                )
                if owned and not create_graph and lies_alike:
                    meta.grad = grad
                    if modes.inference:
                        grad.counter = INFERENCE_COUNTER
                else:
                    meta.grad = leaf._like(grad)
            elif create_graph:
                meta.grad = held + grad
            else:
                held.add_(grad)


def accumulator_edge(leaf: Tensor) -> Edge:
    """The edge to the leaf's accumulator, which is unique while anything holds it."""
    meta = leaf.meta or leaf.autograd_meta()
    reference = meta.accumulator
    if reference is not None and (node := reference()) is not None:
        return (node, 0)
    node = _new(AccumulateGrad)
    node._hooks = None
    node.variable = leaf
    meta.accumulator = _weak(node)
    return (node, 0)


_new = object.__new__
_weak = weakref.ref
