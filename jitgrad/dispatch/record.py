"""Recording: from a finished operation to the node that will differentiate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import errors
from ..autograd.node import Edge, Grads, OperationNode
from ..autograd.saved import recorded, save_result, unpack, wants_grad
from ..autograd.views import gradient_edge
from ..ops.table import Structured
from ..state import GRAD, modes, next_sequence_number
from ..tensor import Tensor
from . import tangents

_new = object.__new__


class Outcome:
    """The layouts of an operation's result(s), for nodes that have no plan."""

    __slots__ = ("inputs", "out", "outs")

    def __init__(self, inputs: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
        self.inputs = tuple(x.layout for x in inputs)
        self.outs = tuple(o.layout for o in outs)
        self.out = self.outs[0]


class StructuredNode(OperationNode):
    """A node of a structured row: calls the row's formulas on what it saved."""

    __slots__ = ("attributes", "names")

    row: Structured
    attributes: Mapping[str, Any]
    names: tuple[str, ...]  # of the saved tensors

    def shape_of(self, nr: int) -> Any:
        return self.plan.outs[nr]

    def saved_slot(self, name: str) -> int | None:
        if name in self.names:
            return self.names.index(name)
        if name in (*self.row.inputs, "result") and any(
            name in parameters for parameters in self.row.parameters.values()
        ):
            return None
        raise KeyError(name)

    @property
    def saved_attributes(self) -> Mapping[str, Any]:
        return self.attributes

    def apply(self, grad: Any) -> Grads:
        if self.saved is None:
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
            values["index"] = index
            values["layout"] = self.plan.inputs[index]
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
            "outputs": row.outputs,
            "fresh": (row.fresh,) * 64 if row.fresh else (),
        },
    )


def record(
    cls: type[StructuredNode],
    inputs: Sequence[Tensor],
    outs: Sequence[Tensor],
    attributes: Mapping[str, Any],
) -> None:
    """Make a node of ``cls`` the history of ``outs``, if any input requires grad.

    Only what the needed formulas name is saved.
    """
    if wants_grad(inputs):
        record_history(cls, inputs, outs, attributes)
    if modes.levels:
        tangents.structured(cls.row, inputs, outs, attributes)


def record_history(
    cls: type[StructuredNode],
    inputs: Sequence[Tensor],
    outs: Sequence[Tensor],
    attributes: Mapping[str, Any],
) -> None:
    """:func:`record` once it is known to be wanted; leaves tangents to the caller (a writer)."""
    row = cls.row
    edges: tuple[Edge | None, ...] = tuple(gradient_edge(t) for t in inputs)
    needed: set[str] = set()
    for index, edge in enumerate(edges):
        name = row.inputs[min(index, len(row.inputs) - 1)]
        if edge is not None and name in row.parameters:
            needed.update(row.parameters[name])
    node = _new(cls)
    node.seq = next_sequence_number()
    node.next_edges = edges
    node.hooks = None
    node.where = errors.caller()
    node.plan = Outcome(inputs, outs)
    node.attributes = attributes
    names, saved = [], []
    for name, tensor in zip(row.inputs, inputs, strict=False):
        if name in needed:
            names.append(name)
            saved += (tensor, tensor.counter.version)
    if "result" in needed:
        names.append("result")
        kept = save_result(outs[0])
        saved += (kept, kept.counter.version)
    node.names = tuple(names)
    node.saved = tuple(saved)
    if modes.mode != GRAD:
        recorded(node)
    for nr, out in enumerate(outs):
        if nr < row.outputs:
            out.edge = (node, nr)
            out.tracked = True
