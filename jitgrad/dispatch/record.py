"""Recording: from a finished operation to the node that will differentiate it."""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import errors
from ..autograd.cut import found, unrecorded
from ..autograd.node import Edge, Grads, OperationNode, Released
from ..autograd.saved import SavedResult, note_inputs, pack_result, unpack, wants_grad
from ..autograd.views import gradient_edge, requires_grad
from ..layout import Layout
from ..ops.table import Structured
from ..state import GRAD, modes, next_sequence_number
from ..tensor import Tensor
from . import tangents, templates

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
        return cls(tuple([x.layout for x in inputs]), tuple([o.layout for o in outs]))


class StructuredNode(OperationNode):
    """A node of a structured row: calls the row's formulas on what it saved.

    Attributes:
        row: the operator's row.
        variants: by the number of inputs, the subclasses for each set that wants gradients.
        record: ``record(*inputs, result, attributes, outcome)``, :func:`record` for a call with as
            many inputs as the row names and one result.
        names: of the saved values.
        save: makes them of ``(*inputs, result)``; None where there are none.
        attributes: of the call.
    """

    __slots__ = ("attributes",)

    row: Structured
    variants: dict[int, _Variants]
    record: Callable[..., None]
    names: tuple[str, ...] = ()
    save: Callable[..., tuple[Any, ...]] | None = None
    attributes: Mapping[str, Any]

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
        """For operators of any number of inputs (cat); variants for others have one of their own.

        Inputs past the named ones belong to the last name.
        """
        if self._saved.__class__ is Released:
            raise errors.backward_twice(self)
        row = self.row
        if grad is None:
            return (None,) * len(self.next_edges)
        values = {"grad": grad, **self.attributes}
        conjugate = row.holomorphic and row.outputs == 1 and grad.layout.dtype.is_complex
        for index, name in enumerate(self.names):
            value = unpack(self, index)
            values[name] = value._conjugated() if conjugate else value
        grads: list[Tensor | None] = []
        for index, edge in enumerate(self.next_edges):
            name = row.inputs[min(index, len(row.inputs) - 1)]
            if edge is None or name not in row.grad:
                grads.append(None)
                continue
            values["position"] = index
            values["layout"] = self._plan.inputs[index]
            arguments = {p: values[p] for p in row.parameters[name]}
            grads.append(row.grad[name](**arguments))
        return tuple(grads)


class _Variants(dict[int, type[StructuredNode]]):
    """The node classes of a row by the bit mask of inputs that want gradients."""

    def __init__(self, base: type[StructuredNode], count: int) -> None:
        super().__init__()
        self._base = base
        self._inputs = base.row.inputs[:count]

    def __missing__(self, mask: int) -> type[StructuredNode]:
        base, row, inputs = self._base, self._base.row, self._inputs
        wanted = [
            name if mask >> i & 1 and name in row.grad else None
            for i, name in enumerate(inputs[: row.edges])
        ]
        needed = {p for name in wanted if name for p in row.parameters[name]}
        names = tuple(name for name in (*inputs, "result") if name in needed)
        formulas = [row.parameters[name] if name else None for name in wanted]
        together = [self._inputs.index(name) for name in row.together]
        call = () if row.joint is None else tuple(inspect.signature(row.joint).parameters)
        source = templates.structured_apply_source(
            names, formulas, row.outputs, row.holomorphic, together, call
        )
        namespace: dict[str, Any] = {
            "backward_twice": errors.backward_twice,
            "unpack": unpack,
            "modes": modes,
            "joint": row.joint,
            **{f"formula{i}": row.grad[name] for i, name in enumerate(wanted) if name},
        }
        members = {
            "__slots__": (),
            "names": names,
            "save": staticmethod(saver(names, inputs)) if names else None,
            "apply": templates.define(source, "apply", namespace),
        }
        self[mask] = type(base.__name__, (base,), members)
        return self[mask]


def saver(saves: tuple[str, ...], inputs: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
    """``save(*inputs, result)`` for a node that saves these values."""
    source = templates.saver_source(saves, inputs)
    return templates.define(source, "save", {"new": _new, "SavedResult": SavedResult})


@functools.cache
def _recorder(count: int, edges: int) -> Callable[..., Callable[..., None]]:
    """What makes ``record`` of classes whose rows have ``count`` inputs, so many with an edge."""
    namespace: dict[str, Any] = {
        "modes": modes,
        "GRAD": GRAD,
        "gradient_edge": gradient_edge,
        "next_seq": next_sequence_number,
        "caller": errors.caller,
        "general": record,
        "new": _new,
    }
    return templates.define(templates.structured_record_source(count, edges), "recorder", namespace)


def node_class(row: Structured) -> type[StructuredNode]:
    """The node class of a row."""
    cls: type[StructuredNode] = type(
        row.node_name,
        (StructuredNode,),
        {
            "__slots__": (),
            "row": row,
            "_outputs": row.outputs,
            "_fresh": (row.fresh,) * 64 if row.fresh else (),
        },
    )
    cls.variants = {}
    cls.record = staticmethod(recorder(cls, len(row.inputs)))
    return cls


def recorder(cls: type[StructuredNode], count: int) -> Callable[..., None]:
    """``record`` for calls that leave out all but the first ``count`` inputs."""
    variants = cls.variants[count] = _Variants(cls, count)
    return _recorder(count, min(count, cls.row.edges))(cls, variants)


def variadic_recorder(cls: type[StructuredNode], count: int) -> Callable[..., None]:
    """``record`` for calls of a row whose last input stands for any number of them."""
    if count > _SPELLED_OUT:

        def general(*inputs: Any) -> None:
            record(cls, inputs[:-3], (inputs[-3],), *inputs[-2:])

        return general
    alike: defaultdict[int, type[StructuredNode]] = defaultdict(lambda: cls)
    return _recorder(count, count)(cls, alike)


_SPELLED_OUT = 8  # inputs up to which a recorder of its own pays


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
        marked = False  # whether an input may say where its history was cut
        for t in inputs:
            if t.tracked is not False:
                view = t.view_meta
                if t.tracked and (view is None or requires_grad(t)):
                    record_history(cls, inputs, outs, attributes, outcome)
                    return
                marked = marked or view is None or view.base.tracked is not False
        inherited = marked and found(inputs)
        if inherited is not False:
            for out in outs:
                out.tracked = inherited
        return
    if wants_grad(inputs):
        record_history(cls, inputs, outs, attributes, outcome)
        pack_result(outs[0].edge[0])  # type: ignore[index]
    elif modes.task is None:
        block = "in inference mode" if modes.inference else "in a no_grad block"
        for out in outs:
            unrecorded(inputs, out, f"it was computed {block}")
    if mode and modes.levels:
        tangents.structured(cls.row, inputs, outs, attributes)


def record_history(
    cls: type[StructuredNode],
    inputs: Sequence[Tensor],
    outs: Sequence[Tensor],
    attributes: Mapping[str, Any],
    outcome: Outcome | None = None,
) -> None:
    """:func:`record` once it is known to be wanted; leaves tangents to the caller (a writer)."""
    row, count = cls.row, len(inputs)
    variadic = count > len(row.inputs)
    edges: list[Edge | None] = []
    mask = 0
    for t in inputs if variadic else inputs[: row.edges]:
        edge = t.edge or gradient_edge(t)
        if edge is not None:
            mask |= 1 << len(edges)
        edges.append(edge)
    if not variadic:
        if count not in cls.variants:
            cls.variants[count] = _Variants(cls, count)
        cls = cls.variants[count][mask]
    node = _new(cls)
    node._seq = next_sequence_number()
    node.next_edges = tuple(edges)
    node._hooks = None
    node._where = errors.caller(3)
    node._plan = outcome or Outcome.of(inputs, outs)
    node.attributes = attributes
    node._saved = () if cls.save is None else cls.save(*inputs, outs[0])
    if modes.mode != GRAD:
        note_inputs(node)  # a writer's result is packed once it is written
    for nr, out in enumerate(outs[: cls._outputs]):
        out.edge = (node, nr)
        out.tracked = True
