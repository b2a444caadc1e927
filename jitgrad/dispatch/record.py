"""Recording: from a finished operation to the node that will differentiate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import errors
from ..autograd.cut import found, unrecorded
from ..autograd.node import Edge, Grads, OperationNode
from ..autograd.saved import note_inputs, pack_result, save_result, unpack, wants_grad
from ..autograd.views import gradient_edge, requires_grad
from ..layout import Layout
from ..ops.table import Structured
from ..state import GRAD, modes, next_sequence_number
from ..tensor import Tensor
from . import tangents

_new = object.__new__


class Outcome:
    """The layouts of an operation's result(s), for nodes that have no plan."""

    __slots__ = ("inputs", "out", "outs")

    def __init__(self, inputs: tuple[Layout, ...], outs: tuple[Layout, ...]) -> None:
        self.inputs = inputs
        self.outs = outs
        self.out = outs[0]

    @classmethod
    def of(cls, inputs: Sequence[Tensor], outs: Sequence[Tensor]) -> Outcome:
        """The outcome of an operation on these tensors."""
        return cls(tuple(x.layout for x in inputs), tuple(o.layout for o in outs))


class StructuredNode(OperationNode):
    """A node of a structured row: calls the row's formulas on what it saved."""

    __slots__ = ("attributes", "names")

    row: Structured
    kept: dict[tuple[int, int], Kept]  # what is saved, by which inputs want gradients
    attributes: Mapping[str, Any]
    names: tuple[str, ...]  # of the saved tensors

    def shape_of(self, nr: int) -> Any:
        return self._plan.outs[nr]

    @property
    def saved_names(self) -> Mapping[str, int | None]:
        used = {name for parameters in self.row.parameters.values() for name in parameters}
        return {
            name: self.names.index(name) if name in self.names else None
            for name in (*self.row.inputs, "result")
            if name in used
        }

    @property
    def saved_attributes(self) -> Mapping[str, Any]:
        return self.attributes

    def apply(self, grad: Any) -> Grads:
        if self._saved is None:
            raise errors.backward_twice(self)
        row = self.row
        if grad is None or (row.outputs > 1 and all(g is None for g in grad)):
            return (None,) * len(self.next_edges)
        values = {"grad": grad, **self.attributes}
        for index, name in enumerate(self.names):
            values[name] = unpack(self, index)
        grads: list[Tensor | None] = []
        for index, edge in enumerate(self.next_edges):
            # Inputs past the named ones belong to the last name (cat takes any number of tensors).
            name = row.inputs[min(index, len(row.inputs) - 1)]
            if edge is None or name not in row.grad:
                grads.append(None)
                continue
            values["position"] = index
            values["layout"] = self._plan.inputs[index]
            arguments = {p: values[p] for p in row.parameters[name]}
            grads.append(row.grad[name](**arguments))
        return tuple(grads)


def node_class(row: Structured) -> type[StructuredNode]:
    """The node class of a row."""
    return type(
        row.node_name,
        (StructuredNode,),
        {
            "__slots__": (),
            "row": row,
            "kept": {},
            "_outputs": row.outputs,
            "_fresh": (row.fresh,) * 64 if row.fresh else (),
        },
    )


def record(
    cls: type[StructuredNode],
    inputs: Sequence[Tensor],
    outs: Sequence[Tensor],
    attributes: Mapping[str, Any],
    outcome: Outcome | None = None,
) -> None:
    """Make a node of ``cls`` the history of ``outs``, if any input requires grad.

    Only what the needed formulas name is saved. ``outcome`` spares the caller that keeps plans the
    making of one.
    """
    mode = modes.mode
    if mode == GRAD:
        for t in inputs:
            if t.tracked and (t.view_meta is None or requires_grad(t)):
                record_history(cls, inputs, outs, attributes, outcome)
                return
        inherited = found(inputs)
        if inherited is not False:
            for out in outs:
                out.tracked = inherited
        return
    if wants_grad(inputs):
        record_history(cls, inputs, outs, attributes, outcome)
        pack_result(outs[0].edge[0])  # type: ignore[index]
    elif not modes.inference and modes.task is None:
        for out in outs:
            unrecorded(inputs, out, "it was computed in a no_grad block")
    if mode:
        if modes.levels:
            tangents.structured(cls.row, inputs, outs, attributes)


def record_history(
    cls: type[StructuredNode],
    inputs: Sequence[Tensor],
    outs: Sequence[Tensor],
    attributes: Mapping[str, Any],
    outcome: Outcome | None = None,
) -> None:
    """:func:`record` once it is known to be wanted; leaves tangents to the caller (a writer)."""
    edges: list[Edge | None] = []
    mask = 0
    for t in inputs:
        edge = t.edge or gradient_edge(t)
        if edge is not None:
            mask |= 1 << len(edges)
        edges.append(edge)
    key = (mask, len(edges))
    kept = cls.kept.get(key) or cls.kept.setdefault(key, _what_is_saved(cls.row, *key))
    positions, of_result, names = kept
    saved: list[Any] = []
    for position in positions:
        tensor = inputs[position]
        saved += (tensor, tensor.counter.version)
    if of_result:
        result = save_result(outs[0])
        saved += (result, result.counter.version)
    node = _new(cls)
    node._seq = next_sequence_number()
    node.next_edges = tuple(edges)
    node._hooks = None
    node._where = errors.caller(3)
    node._plan = outcome or Outcome.of(inputs, outs)
    node.attributes = attributes
    node.names = names
    node._saved = tuple(saved)
    if modes.mode != GRAD:
        note_inputs(node)  # a writer's result is packed once it is written
    for nr, out in enumerate(outs[: cls._outputs]):
        out.edge = (node, nr)
        out.tracked = True


Kept = tuple[tuple[int, ...], bool, tuple[str, ...]]


def _what_is_saved(row: Structured, mask: int, count: int) -> Kept:
    """Which inputs, and whether the result, the formulas of the inputs in ``mask`` name."""
    needed: set[str] = set()
    for index in range(count):
        if not mask >> index & 1:
            continue
        name = row.inputs[min(index, len(row.inputs) - 1)]
        needed.update(row.parameters.get(name, ()))
    positions = tuple(i for i, name in enumerate(row.inputs[:count]) if name in needed)
    names = tuple(row.inputs[i] for i in positions)
    return positions, "result" in needed, (*names, "result") if "result" in needed else names
