"""What operations do with the tangents of their inputs: forward-mode AD, from the same table.

An elementwise row's derivative formulas are linear in ``grad`` and act element by element, so the
tangent of the result is the sum, over the inputs, of the formula with the input's tangent in place
of ``grad``. A structured row may give its tangents itself (``jvp``: for linear rows the operation
applied to the tangent); where it does not, its derivative is transposed by differentiating it: the
gradient formula is linear in ``grad``, and the adjoint of the adjoint is the derivative. A view of
a dual tensor has the same view of the tangent.

Everything is computed by operations on Tensors, so tangents are recorded where gradients are, and
carry the tangents of outer levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..autograd import api
from ..autograd.dual import (
    Level,
    any_dual,
    below,
    fitted,
    hold,
    overwrite,
    tangent_of,
)
from ..autograd.saved import Packed, SavedResult
from ..dtypes import FLOATING, dtype
from ..kernels.expression import parse
from ..ops.table import Elementwise, Structured
from ..state import GRAD, modes, set_grad_mode
from ..tensor import Tensor

Tangent = Tensor | None
Compute = Callable[[Sequence[Tangent]], Sequence[Tangent]]


def active() -> bool:
    """Whether operations must look at tangents."""
    return bool(modes.levels) and not modes.inference


def _tangents(tensors: Sequence[Tensor], level: Level) -> list[Tangent] | None:
    """The tangents of some tensors; None if there are none."""
    found = [tangent_of(t, level) for t in tensors]
    return None if all(t is None for t in found) else found


def propagate(inputs: Sequence[Tensor], outs: Sequence[Tensor], compute: Compute) -> None:
    """Give fresh results their tangents, level by level, outermost first.

    ``compute`` turns the tangents of the inputs into those of the results.
    """
    if not active():
        return
    for level in modes.levels:
        tangents = _tangents(inputs, level)
        if tangents is None:
            continue
        with below(level.depth):
            for out, tangent in zip(outs, compute(tangents), strict=False):
                if tangent is not None and out.layout.dtype.category >= FLOATING:
                    if any(t is not None and t.storage is tangent.storage for t in tangents):
                        tangent = tangent.clone()
                    hold(out, level, fitted(tangent, out))
    for out in outs:
        _share_with_saved(out)


def _share_with_saved(out: Tensor) -> None:
    """What the node saved of its result is a dual tensor as the result is."""
    if out.edge is None or out.meta is None or out.meta.tangents is None:
        return
    for kept in out.edge[0]._saved:
        if kept.__class__ is SavedResult and kept.storage is out.storage:
            kept.autograd_meta().tangents = out.meta.tangents
        elif kept.__class__ is Packed and kept.nr is not None:
            kept.tangents = out.meta.tangents


# Elementwise rows ---------------------------------------------------------------------------------
def _combined(parts: Sequence[Tangent]) -> Tangent:
    total: Tangent = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def by_formula(
    row: Elementwise,
    formulas: Mapping[str, Callable[..., Any]],
    operands: Sequence[Tensor],
    result: Tensor,
    computed_in: dtype,
) -> Compute:
    """The tangent of an elementwise result: its derivative formulas with tangents for ``grad``.

    ``formulas`` has texts as functions of Tensors.
    """
    values: dict[str, Any] = dict(zip(row.inputs, operands, strict=True))
    values["result"] = result

    def compute(tangents: Sequence[Tangent]) -> Sequence[Tangent]:
        parts = []
        for name, tangent in zip(row.inputs, tangents, strict=True):
            if tangent is None or name not in row.grad:
                continue
            values["grad"] = tangent
            text = row.tangent(name, computed_in)
            parts.append(formulas[text](*(values[x] for x in parse(text).names)))
        return (_combined(parts),)

    return compute


# Structured rows ----------------------------------------------------------------------------------
class Call:
    """One call of a structured row, as its formulas see it."""

    def __init__(
        self,
        row: Structured,
        inputs: Sequence[Tensor],
        outs: Sequence[Tensor],
        attributes: Mapping[str, Any],
    ) -> None:
        self.row = row
        self.inputs = inputs
        self.outs = outs[: row.outputs]
        self.values: dict[str, Any] = dict(attributes)
        self.values.update(zip(row.inputs, inputs, strict=False))
        self.values["result"] = outs[0]

    def _arguments(self, names: Sequence[str], index: int, **more: Any) -> dict[str, Any]:
        values = {**self.values, "position": index, "layout": self.inputs[index].layout, **more}
        return {name: values[name] for name in names}

    def _name(self, index: int) -> str:
        # Inputs past the named ones belong to the last name (cat takes any number of tensors).
        return self.row.inputs[min(index, len(self.row.inputs) - 1)]

    def compute(self, tangents: Sequence[Tangent]) -> Sequence[Tangent]:
        """The tangents of the results from those of the inputs."""
        given = {self._name(i) for i, t in enumerate(tangents) if t is not None}
        if given <= self.row.jvp.keys():
            return (_combined([self._explicit(i, t) for i, t in enumerate(tangents)]),)
        return self._transposed(tangents)

    def _explicit(self, index: int, tangent: Tangent) -> Tangent:
        if tangent is None:
            return None
        name = self._name(index)
        names = self.row.jvp_parameters[name]
        return self.row.jvp[name](**self._arguments(names, index, tangent=tangent))

    def _transposed(self, tangents: Sequence[Tangent]) -> Sequence[Tangent]:
        """The derivative as the adjoint of the adjoint.

        With ``v`` the gradient formula, ``jvp(t) = d/du <v(u), t>``, whatever ``u``: a zero.
        """
        recorded = bool(modes.mode & GRAD)
        set_grad_mode(True)
        try:
            seeds = [x.new_zeros(x.layout.shape, requires_grad=True) for x in self.outs]
            entering: Any = seeds[0] if self.row.outputs == 1 else seeds
            found, directions = [], []
            for index, tangent in enumerate(tangents):
                name = self._name(index)
                if tangent is None or name not in self.row.grad:
                    continue
                names = self.row.parameters[name]
                given = self._arguments(names, index, grad=entering)
                if self.row.holomorphic and self.row.outputs == 1 and entering.is_complex():
                    for x in names:
                        if x in self.row.inputs or x == "result":
                            given[x] = given[x]._conjugated()
                value = self.row.grad[name](**given)
                if value is not None and value.requires_grad:
                    found.append(value)
                    directions.append(tangent)
            if not found:
                return [x.new_zeros(x.layout.shape) for x in self.outs]
            return api.grad(found, seeds, directions, create_graph=recorded, allow_unused=True)
        finally:
            set_grad_mode(recorded)


def structured(
    row: Structured,
    inputs: Sequence[Tensor],
    outs: Sequence[Tensor],
    attributes: Mapping[str, Any],
) -> None:
    """Tangents of the fresh results of a structured operation."""
    propagate(inputs, outs, Call(row, inputs, outs, attributes).compute)


# Views and writes ---------------------------------------------------------------------------------
def view(result: Tensor, source: Tensor, again: Callable[[Tensor], Tensor]) -> None:
    """The tangent of a view: the same view of the tangent (``again`` makes it)."""
    if not active():
        return
    meta = source.meta
    if meta is not None and meta.forward_base is not None:
        result.autograd_meta().forward_base = (
            source if meta.forward_base is Ellipsis else meta.forward_base
        )
    for level in modes.levels:
        tangent = tangent_of(source, level)
        if tangent is not None:
            with below(level.depth):
                hold(result, level, again(tangent))


def written(target: Tensor, inputs: Sequence[Tensor], compute: Compute) -> None:
    """The tangent of a tensor that has just been written in place: computed, or zero.

    ``inputs`` are the operands as they were before the write.
    """
    if not active():
        return
    for level in modes.levels:
        tangents = _tangents((*inputs, target), level)
        if tangents is None:
            continue
        with below(level.depth):
            given = tangents[:-1]
            new = None if all(t is None for t in given) else compute(given)[0]
            overwrite(target, level, new)
    _share_with_saved(target)


def before(target: Tensor, operands: Sequence[Tensor]) -> Sequence[Tensor] | None:
    """The operands of a write as they are now, with copies of what it will overwrite.

    None where no tangent is about, so that there is nothing to do after the write either.
    """
    if not active() or not any_dual((*operands, target)):
        return None
    copies: dict[int, Tensor] = {}

    def kept(x: Tensor) -> Tensor:
        if x.storage is not target.storage:
            return x
        if id(x) not in copies:
            copies[id(x)] = x.clone()
        return copies[id(x)]

    return [kept(x) for x in operands]


def refuse_out(name: str, operands: Sequence[Tensor]) -> None:
    """Raise if one of the operands of a call with ``out=`` is dual."""
    if any_dual(operands):
        raise NotImplementedError(
            f"{name}(): forward mode AD does not support out= functions (the out= function was "
            "called with a dual tensor): assign the result instead"
        )
