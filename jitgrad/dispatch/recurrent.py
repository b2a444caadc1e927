"""Recurrent layers: one direction of one layer over a whole sequence, as one operation.

Forward there is one product of the weights with the inputs of all steps, then one launch that walks
the steps (kernels/recurrent.py). Backward there is one launch that walks them back, and the
gradients of weights and inputs are again products over all steps. A derivative that is itself to be
differentiated is taken through the same layer written out in single operations.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..autograd import api
from ..autograd.grad_mode import enable_grad
from ..dtypes import HALVES, int64
from ..kernels import recurrent as kernels
from ..kernels.recurrent import CELLS
from ..layout import dense_layout
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor
from .complexes import resolve_neg
from .convert import copied, copy_elements, to
from .creation import zeros
from .elementwise import functions
from .make import alias, dense, fresh
from .matmul import mm, product
from .plans import PlanCache
from .record import StructuredNode, node_class, record
from .reduction import sum as reduce_sum
from .rows import index_select
from .shape import cat
from .view import bare_view_of, narrow, reshape, seen, t

_f = functions
_plans = PlanCache()


class Steps:
    """Which rows of a sequence belong to which step, in the order in which a layer takes them.

    Attributes:
        rows: start and count of each step.
        even: whether all steps have all rows.
        reverse: whether the layer starts at the last step.
        total: the number of rows.
        batch: the number of rows of the first step, and of the states.
    """

    __slots__ = ("_before", "batch", "even", "reverse", "rows", "total")

    def __init__(self, sizes: tuple[int, ...], reverse: bool) -> None:
        starts = [0, *np.cumsum(sizes).tolist()]
        rows = list(zip(starts, sizes, strict=False))
        self.rows = tuple(reversed(rows) if reverse else rows)
        self.reverse = reverse
        self.batch, self.total = sizes[0], starts[-1]
        self.even = sizes[0] == sizes[-1]
        self._before: Tensor | None = None

    def before(self, initial: Tensor, out: Tensor) -> Tensor:
        """The hidden state that each row started from, of the initial ones and the output."""
        if self._before is None:
            where = np.empty(self.total, np.int64)
            last = np.arange(self.batch)
            for start, count in self.rows:
                where[start : start + count] = last[:count]
                last[:count] = self.batch + start + np.arange(count)
            index = dense((self.total,), int64)
            index._array()[:] = where
            self._before = index
        return index_select(cat([initial, out]), 0, self._before)


@functools.lru_cache(256)
def steps_of(sizes: tuple[int, ...], reverse: bool) -> Steps:
    """The steps with these numbers of rows."""
    return Steps(sizes, reverse)


# The operation ------------------------------------------------------------------------------------
def _run(kind: str, backward: bool, operands: Sequence[Tensor | None], steps: Steps, units: int,
         width: int, weight: tuple[int, int], projected: bool, given: bool) -> None:  # fmt: skip
    """Launch a pass; an operand that is missing (None) is one that the kernel does not look at."""
    if not steps.total:
        return
    first = operands[0]
    assert first is not None
    d = first.layout.dtype
    rows = tuple([0 if x is None or x.layout.ndim < 2 else x.layout.strides[0] for x in operands])
    key = (kind, backward, rows, steps, units, width, weight, projected, given, d)
    plan = _plans.get(key)
    if plan is None:
        made = kernels.plan(kind, d, backward, rows, steps.rows, units, width, weight,
                            projected=projected, given=given)  # fmt: skip
        plan = _plans.add(key, (*made, np.arange(steps.batch).view(np.uint8)))
    run, spec, numbers = plan
    buffers: list[Any] = []
    for x in operands:
        if x is None:
            x = first
        buffers += (x.storage.buffer, x.offset)
    run(spec, *buffers, numbers, 0)


# Formulas see no history: all views in them are bare.
def _turned(x: Tensor) -> Tensor:
    return bare_view_of(x, "t", ())


def _part(x: Tensor, dim: int, start: int, size: int) -> Tensor:
    if size == x.layout.shape[dim]:
        return x
    return bare_view_of(x, "slice", (dim, start, start + size, 1))


def _copy(x: Tensor) -> Tensor:
    return copied(x, dense_layout(x.layout.shape, x.layout.dtype.plain))


def _shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The elements in another shape, as they lie in memory; a copy if they lie otherwise."""
    of = x.layout
    if not of.contiguous or of.dtype is not of.dtype.plain:
        x = _copy(x)
    return x if of.shape == shape else bare_view_of(x, "view", (shape,))


def _shared(x: Tensor) -> Tensor:
    """A matrix that all rows share: as one long vector, which has no distance between rows."""
    return _shaped(x, (x.layout.numel,))


def _blocks(kind: str, x: Tensor, units: int) -> list[tuple[Tensor, int, int]]:
    """The parts of a weight or bias of the inputs, each with its column and number of columns."""
    return [
        (_part(x, 0, first * units, count * units), column * units, count * units)
        for first, count, column in CELLS[kind].blocks
    ]


def _forward(kind: str, values: dict[str, Tensor], steps: Steps) -> tuple[Tensor, ...]:
    """The output and the final states; what backward will need is added to ``values``."""
    cell, d = CELLS[kind], values["w_hh"].layout.dtype
    hidden, weight, projection = values["hx"], values["w_hh"], values.get("w_hr")
    units, width = weight.layout.shape[0] // cell.gates, hidden.layout.shape[1]
    of = values["input"].layout
    flat = _shaped(values["input"], (steps.total, of.shape[-1]))
    columns = (steps.total, cell.kept * units)
    # Columns that the products with the input leave out must be zero for those with the state.
    gates = dense(columns, d) if cell.kept == cell.gates else zeros(*columns, dtype=d)
    for part, column, count in _blocks(kind, values["w_ih"], units):
        product(flat, _turned(part), _part(gates, 1, column, count), False)
    out = dense((*of.shape[:-1], width), d)
    state = _copy(hidden)
    memory = _copy(values["cx"]) if "cx" in values else None
    previous = dense((steps.total, units), d) if cell.carried != "none" else None
    raw = None if projection is None else dense((steps.total, units), d)
    if len(steps.rows) > 1:  # rows of weights that one product reads side by side
        weights, distances = _shared(_turned(weight)), (cell.gates * units, 1)
    else:
        weights, distances = _shared(weight), (1, width)
    biased = "b_hh" in values
    _run(
        kind,
        False,
        (gates, weights, _shared(values["b_hh"]) if biased else None, state, memory,
         _shaped(out, (steps.total, width)), previous, raw,
         None if projection is None else _shared(_turned(projection)),
         _shared(values["b_ih"]) if biased else None),
        steps, units, width, distances, projection is not None, biased,
    )  # fmt: skip
    kept = {"gates": gates, "previous": previous, "raw": raw}
    if kind == "lstm":  # the others have it in what is kept, and let the caller write the output
        kept["out"] = alias(out)
    values.update({name: x for name, x in kept.items() if x is not None})
    return (out, state) if memory is None else (out, state, memory)


def _gradients(wanted: Sequence[bool], grad: Any, values: dict[str, Any]) -> tuple[Any, ...]:
    kind, steps = values["kind"], values["steps"]
    names = [name for name in _NAMES if name in values]
    if modes.mode:
        return _recorded_gradients(kind, steps, wanted, grad, {n: values[n] for n in names})
    cell, d = CELLS[kind], values["w_hh"].layout.dtype
    hidden, projection = values["hx"], values.get("w_hr")
    units, width = values["w_hh"].layout.shape[0] // cell.gates, hidden.layout.shape[1]

    def incoming(index: int, like: Tensor) -> Tensor:
        given = grad[index]
        return zeros(*like.layout.shape, dtype=d) if given is None else _copy(given)

    entering = None if grad[0] is None else _shaped(grad[0], (steps.total, width))
    state = incoming(1, hidden)
    memory = incoming(2, values["cx"]) if "cx" in values else None
    columns = dense(values["gates"].layout.shape, d)
    total = None if projection is None else dense((steps.total, width), d)
    _run(
        kind,
        True,
        (values["gates"], _shared(values["w_hh"]), entering, state, memory, columns,
         values.get("previous"), total, None if projection is None else _shared(projection), None),
        steps, units, width, (width, 1), projection is not None, entering is not None,
    )  # fmt: skip

    found: dict[str, Tensor] = {"hx": state}
    wants = {name for name, flag in zip(names, wanted, strict=True) if flag}
    if memory is not None:
        found["cx"] = memory
    of_hidden = _part(columns, 1, 0, cell.gates * units)
    of = values["input"].layout
    if "input" in wants:
        target = dense((steps.total, of.shape[-1]), d)
        for i, (part, column, count) in enumerate(_blocks(kind, values["w_ih"], units)):
            product(_part(columns, 1, column, count), part, target, i > 0)
        found["input"] = _shaped(target, of.shape)
    if "w_ih" in wants:
        flat = _shaped(values["input"], (steps.total, of.shape[-1]))
        target = found["w_ih"] = fresh(dense_layout(values["w_ih"].layout.shape, d))
        for part, column, count in _blocks(kind, target, units):
            product(_turned(_part(columns, 1, column, count)), flat, part, False)
    if "w_hh" in wants:
        found["w_hh"] = _of_hidden_weight(of_hidden, values, steps, width)
    if "b_hh" in wants or "b_ih" in wants:
        sums = reduce_sum(columns, 0)
        found["b_hh"] = _copy(_part(sums, 0, 0, cell.gates * units))
        target = found["b_ih"] = dense(values["b_ih"].layout.shape, d)
        for part, column, count in _blocks(kind, target, units):
            copy_elements(_part(sums, 0, column, count), part)
    if total is not None and "w_hr" in wants:
        found["w_hr"] = product(_turned(total), values["raw"])
    return tuple(found[n] if flag else None for n, flag in zip(names, wanted, strict=True))


def _of_hidden_weight(
    columns: Tensor, values: Mapping[str, Any], steps: Steps, width: int
) -> Tensor:
    """The gradient of the weights of the hidden state: columns times the states before."""
    if values["kind"] == "gru":
        return product(_turned(columns), values["previous"])
    initial = values["hx"]
    if len(steps.rows) == 1:
        return product(_turned(columns), initial)
    out = values["out"] if "out" in values else values["gates"]
    out = _shaped(out, (steps.total, width))
    if not steps.even:
        return product(_turned(columns), steps.before(alias(initial), out))
    batch, rest = steps.batch, steps.total - steps.batch
    first, others, before = (rest, 0, batch) if steps.reverse else (0, batch, 0)
    result = product(_turned(_part(columns, 0, first, batch)), initial)
    return product(_turned(_part(columns, 0, others, rest)), _part(out, 0, before, rest), result)


# In single operations -----------------------------------------------------------------------------
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result = mm(x, t(weight))
    return result if bias is None else result + bias


def _lstm(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, u, o = (x + h).chunk(4, 1)
    c = _f["sigmoid"](f) * c + _f["sigmoid"](i) * _f["tanh"](u)
    return _f["sigmoid"](o) * _f["tanh"](c), c


def _gru(x: Tensor, h: Tensor, before: Tensor) -> tuple[Tensor, None]:
    (xr, xz, xu), (hr, hz, hu) = x.chunk(3, 1), h.chunk(3, 1)
    z = _f["sigmoid"](xz + hz)
    u = _f["tanh"](xu + _f["sigmoid"](xr + hr) * hu)
    return u + z * (before - u), None


_COMPOSED: dict[str, Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": lambda x, h, _: (_f["tanh"](x + h), None),
    "rnn_relu": lambda x, h, _: (_f["relu"](x + h), None),
}


def _composed(kind: str, values: Mapping[str, Tensor], steps: Steps) -> list[Tensor]:
    """The layer by recorded operations, one step at a time."""
    source, state, memory = values["input"], values["hx"], values.get("cx")
    flat = reshape(source, (steps.total, source.layout.shape[-1]))
    projected = _linear(flat, values["w_ih"], values.get("b_ih"))
    outs: list[Tensor] = []

    def advanced(old: Tensor, new: Tensor) -> Tensor:
        count, batch = new.layout.shape[0], steps.batch
        return new if count == batch else cat([new, narrow(old, 0, count, batch - count)])

    for start, count in steps.rows:
        h = narrow(state, 0, 0, count)
        carried = h if memory is None else narrow(memory, 0, 0, count)
        through = _linear(h, values["w_hh"], values.get("b_hh"))
        new, c = _COMPOSED[kind](narrow(projected, 0, start, count), through, carried)
        if "w_hr" in values:
            new = mm(new, t(values["w_hr"]))
        outs.append(new)
        state = advanced(state, new)
        if memory is not None:
            memory = advanced(memory, c)
    out = cat(outs[::-1] if steps.reverse else outs)
    out = reshape(out, (*source.layout.shape[:-1], out.layout.shape[1]))
    return [out, state] if memory is None else [out, state, memory]


def _recorded_gradients(
    kind: str, steps: Steps, wanted: Sequence[bool], grad: Any, values: Mapping[str, Tensor]
) -> tuple[Any, ...]:
    """The gradients as a differentiable function of the inputs and of ``grad``."""
    with enable_grad():
        # Views of their own: one tensor may be several inputs.
        inputs = {name: seen(x, "alias", ()) for name, x in values.items()}
        for x, flag in zip(inputs.values(), wanted, strict=True):
            if flag and not x.requires_grad:
                x.requires_grad_()
        outs = _composed(kind, inputs, steps)
        pairs = [(o, g) for o, g in zip(outs, grad, strict=True) if g is not None]
        targets = [x for x, flag in zip(inputs.values(), wanted, strict=True) if flag]
        found = iter(
            api.grad([o for o, _ in pairs], targets, [g for _, g in pairs], create_graph=True,
                     allow_unused=True, materialize_grads=True)
        )  # fmt: skip
    return tuple(next(found) if flag else None for flag in wanted)


# Rows ---------------------------------------------------------------------------------------------
_NAMES = ("input", "hx", "cx", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr")
_KEPT = ("gates", "previous", "raw", "out")


def _formula(names: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
    """:func:`_gradients` with what it needs as parameters of their own."""
    parameters = ("wanted", "grad", *names)

    def formula(*args: Any, **named: Any) -> tuple[Any, ...]:
        values = {**dict(zip(parameters, args, strict=False)), **named}
        return _gradients(values.pop("wanted"), values.pop("grad"), values)

    formula.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in parameters]
    )
    return formula


@functools.cache
def _row(kind: str, names: tuple[str, ...]) -> type[StructuredNode]:
    """The node class of a layer with these inputs (with or without bias and projection)."""
    followed = [name for name in names if name in _NAMES]
    label = f"{kind}_layer" + "".join(f"_{n}" for n in ("b_ih", "w_hr") if n in names)
    row = structured(
        label,
        " ".join(names),
        grad={" ".join(followed): _formula(("kind", "steps", *names))},
        outputs=3 if "cx" in names else 2,
        fresh=True,
        node="MkldnnRnnLayerBackward0" if kind == "lstm" else "RnnLayerBackward0",
    )
    return node_class(row)


def layer(kind: str, steps: Steps, **inputs: Tensor) -> tuple[Tensor, ...]:
    """One direction of one recurrent layer.

    Args:
        kind: a row of ``CELLS``.
        steps: how the rows of the input are cut into steps.
        inputs: ``input`` [steps, batch, features] or [rows, features]; the initial states ``hx``
            and (LSTM) ``cx``, [batch, size]; the weights ``w_ih``, ``w_hh``, perhaps ``b_ih`` and
            ``b_hh``, and perhaps ``w_hr``. Shapes and dtypes are taken to be right.

    Returns:
        the output, the final hidden state, and (LSTM) the final cell state.
    """
    d = inputs["w_hh"].dtype
    if d in HALVES:  # 16-bit floats: states are not rounded at every step
        wide = {name: to(x, d.compute) for name, x in inputs.items()}
        return tuple(to(x, d) for x in layer(kind, steps, **wide))
    values = {name: resolve_neg(inputs[name]) for name in _NAMES if name in inputs}
    outs = _forward(kind, values, steps)
    names = tuple(name for name in (*_NAMES, *_KEPT) if name in values)
    attributes = {"kind": kind, "steps": steps}
    record(_row(kind, names), [values[n] for n in names], outs, attributes)
    return outs
