"""Operators that are one linear map of the last dimensions, and the transposes of such.

A family is two nodes: that of the operator, whose gradient applies the adjoint of its map, and that
of this gradient, whose own gradient applies the map again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import errors
from ..dtypes import FLOATING
from ..kernels import separable
from ..kernels.separable import Separable
from ..layout import Layout, dense_layout, image_layout
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor
from .convert import resolved
from .make import fresh
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class

_plans = PlanCache()


def mapped(x: Tensor, mapping: Separable, row_major: bool = False) -> Tensor:
    """The map applied to the last dimensions; no history.

    The result is ``row_major``, or else has its channels last where ``x`` has.
    """
    return _mapped(x, mapping, row_major)[0]


def _mapped(x: Tensor, mapping: Separable, row_major: bool) -> tuple[Tensor, Outcome]:
    """:func:`mapped`, and what its node needs to know."""
    key = (mapping, x.layout, row_major)
    plan = _plans.get(key)
    if plan is None:
        if x.layout.dtype is not x.layout.dtype.plain:
            return _mapped(resolved(x), mapping, row_major)
        of = x.layout
        shape = (*of.shape[: of.ndim - len(mapping.along)], *mapping.shape)
        out = dense_layout(shape, of.dtype) if row_major else image_layout(shape, of.dtype, of)
        plan = _plans.add(key, (*separable.plan(mapping, of, out), out, Outcome((of,), (out,))))
    run, spec, tables, out, outcome = plan
    result = fresh(out)
    buffer = result.storage.buffer
    run(spec, x.storage.buffer, x.offset, buffer, 0, tables, 0, buffer, 0, buffer, 0)
    return result, outcome


class Family(NamedTuple):
    """The nodes of an operator and of its gradient."""

    forward: type[StructuredNode]
    backward: type[StructuredNode]
    row_major: bool

    def apply(self, x: Tensor, attributes: Mapping[str, Any]) -> Tensor:
        """The operator, recorded; ``attributes`` are its ``map`` and what else its node shows."""
        result, outcome = _mapped(x, attributes["map"], self.row_major)
        if x.tracked is not False or modes.levels:
            self.forward.record(x, result, attributes, outcome)
        return result


def family(name: str, node: str, *, row_major: bool = False) -> Family:
    """The rows ``name`` and ``name_backward``, under PyTorch's names of their nodes.

    ``row_major`` says that results are laid out so even where the channels of the input are last.
    """

    both: Family

    def adjoint(grad: Tensor, map: Separable) -> Tensor:
        result, outcome = _mapped(grad, map.adjoint, row_major)
        if modes.mode:
            both.backward.record(grad, result, {"map": map}, outcome)
        return result

    def again(grad: Tensor, map: Separable) -> Tensor:
        return both.apply(grad, {"map": map})

    forward = structured(
        name, "self", grad={"self": adjoint}, node=node, fresh=True,
        jvp={"self": lambda tangent, map: both.apply(tangent, {"map": map})},
    )  # fmt: skip
    backward = structured(
        f"{name}_backward", "gradient", grad={"gradient": again}, fresh=True,
        node=node.removesuffix("Backward0") + "BackwardBackward0",
        jvp={"gradient": lambda tangent, map: adjoint(tangent, map)},
    )  # fmt: skip
    both = Family(node_class(forward), node_class(backward), row_major)
    return both


def check_floating(name: str, of: Layout) -> None:
    """NotImplementedError for dtypes that are no floats."""
    if of.dtype.category != FLOATING:
        raise errors.unsupported(name, of.dtype)
