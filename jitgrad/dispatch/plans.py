"""Plans: everything about a call that depends only on the layouts of its operands.

Each operator keeps its plans in a dictionary keyed by layouts (which are interned), so that a
call's promotion, broadcasting, result layout, kernel and loop nest are worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes, errors, state
from ..kernels import elementwise
from ..kernels.expression import parse
from ..layout import Layout, broadcast_shapes, contiguous_strides, layout, result_strides
from ..ops.table import Elementwise, Promotion, inlined
from .make import does_not_fit, result_dtype

MAX_PLANS = 4096


class PlanCache(dict[Any, Any]):
    """A bounded dictionary of plans; forgotten when the default dtype changes."""

    def __init__(self) -> None:
        super().__init__()
        _caches.append(self)

    def add(self, key: Any, plan: Any) -> Any:
        if len(self) >= MAX_PLANS:
            self.clear()
        self[key] = plan
        return plan


_caches: list[PlanCache] = []


def _forget() -> None:
    for cache in _caches:
        cache.clear()


state.on_default_dtype(_forget)


class Plan:
    """How to run one operator on operands of given layouts.

    Attributes:
        run, spec: the driver and what it walks (kernels/drivers.py).
        inputs: layouts of the operands.
        out: layout of the result.
        nbytes: bytes of the result.
        compute: the dtype of the computation.
        existing: whether the result is written to a tensor that was there before.
    """

    __slots__ = ("compute", "existing", "inputs", "nbytes", "out", "run", "spec")

    def __init__(self, inputs: tuple[Layout, ...], out: Layout, compute: dtypes.dtype) -> None:
        self.inputs = inputs
        self.out = out
        self.nbytes = out.numel * out.dtype.itemsize
        self.compute = compute
        self.existing = False
        self.run: Any = None
        self.spec: Any = None


def operand_dtypes(row: Elementwise, inputs: Sequence[Layout]) -> tuple[dtypes.dtype, dtypes.dtype]:
    """The dtypes of an operator's computation and of its result; RuntimeError if unsupported."""
    numeric = [x for name, x in zip(row.inputs, inputs, strict=True) if name not in row.passive]
    promoted = result_dtype(numeric)
    values = [x.dtype for name, x in zip(row.inputs, inputs, strict=True) if name == "value"]
    if any(d.is_complex for d in values) and promoted.category in (dtypes.INTEGER, dtypes.FLOATING):
        raise does_not_fit(promoted)
    lowest, highest = row.categories
    if not lowest <= promoted.category <= highest:
        raise unsupported(row, promoted)
    if row.name in ("sub", "rsub") and any(x.dtype.category == dtypes.BOOL for x in numeric):
        raise unsupported(row, dtypes.bool_)
    if row.promote is Promotion.LOGICAL:
        return dtypes.bool_, dtypes.bool_
    if row.promote is Promotion.COMPARE:
        return promoted, dtypes.bool_
    if row.promote is Promotion.INTEGRAL and promoted.category == dtypes.BOOL:
        promoted = dtypes.int64
    if row.promote is Promotion.FLOAT and promoted.category < dtypes.FLOATING:
        promoted = state.get_default_dtype()
    return promoted, dtypes.real_of(promoted) if row.real_result else promoted


def unsupported(row: Elementwise, d: dtypes.dtype) -> Exception:
    """PyTorch's error for an operator on a dtype it does not have."""
    if d.category == dtypes.BOOL and row.name in ("sub", "rsub", "neg"):
        sign = "Negation" if row.name == "neg" else "Subtraction"
        return RuntimeError(
            f"{sign}, the `-` operator, with a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead. (With two bool "
            "tensors "
            "is not supported either; use the `^` or `logical_xor()` operator.)"
        )
    return errors.unsupported(row.name, d)


def shape_of(row: Elementwise, inputs: Sequence[Layout]) -> tuple[int, ...]:
    """The broadcast shape; the error names the operator."""
    if row.name == "masked_fill" and inputs[2].ndim:
        raise RuntimeError(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
            f"{inputs[2].ndim} dimension(s)."
        )
    try:
        return broadcast_shapes(*(x.shape for x in inputs))
    except RuntimeError as error:
        raise RuntimeError(f"{error} in {row.name}()") from None


def forward(row: Elementwise, inputs: tuple[Layout, ...]) -> Plan:
    """The plan of ``row`` with a freshly allocated result."""
    compute, stored = operand_dtypes(row, inputs)
    shape = shape_of(row, inputs)
    if row.name == "clone" and inputs[0].dense:
        strides = inputs[0].strides
    elif row.row_major:
        strides = contiguous_strides(shape)
    else:
        strides = result_strides(shape, [(x.shape, x.strides) for x in inputs])
    plan = Plan(inputs, layout(shape, strides, stored), compute)
    formulas = (row.formula(compute),)
    plan.run, plan.spec = elementwise.plan(formulas, row.inputs, inputs, (plan.out,), compute)
    return plan


def into(row: Elementwise, inputs: tuple[Layout, ...], out: Layout) -> Plan:
    """The plan of ``row`` written to an existing tensor (in place, or ``out=``)."""
    compute, stored = operand_dtypes(row, inputs)
    if row.real_result and compute.is_complex and out is inputs[0]:
        raise RuntimeError(f"In-place {row.name} is not supported for complex tensors.")
    if not dtypes.can_cast(stored, out.dtype):
        raise RuntimeError(
            f"result type {stored.tensor_type.removesuffix('Tensor')} can't be cast to the desired "
            f"output type {out.dtype.tensor_type.removesuffix('Tensor')} in {row.name}()"
        )
    plan = Plan(inputs, out, compute)
    plan.existing = True
    formulas = (row.formula(compute),)
    plan.run, plan.spec = elementwise.plan(formulas, row.inputs, inputs, (out,), compute)
    return plan


class BackwardPlan:
    """How to compute the gradients of some of a call's inputs by one fused kernel.

    Attributes:
        run, spec: the driver and its spec.
        outs: layouts of the gradients as the kernel writes them.
        nbytes: their sizes.
        finish: for each, the layout it is still to be brought to (summed over broadcast
            dimensions), or None.
    """

    __slots__ = ("finish", "nbytes", "outs", "run", "spec")

    def __init__(
        self,
        row: Elementwise,
        wanted: tuple[str, ...],
        names: tuple[str, ...],
        operands: tuple[Layout, ...],
        plan: Plan,
    ) -> None:
        shape = plan.out.shape
        targets = [plan.inputs[row.inputs.index(name)] for name in wanted]
        same = [t.shape == shape for t in targets]
        # A gradient that is still to be summed keeps the precision of the computation until then.
        strides = contiguous_strides(shape)
        if not row.row_major:
            geometry = [(x.shape, x.strides) for x in operands if not x.wrapped]
            strides = result_strides(shape, geometry)
        self.outs = [
            layout(shape, strides, t.dtype.plain if done else plan.compute)
            for t, done in zip(targets, same, strict=True)
        ]
        self.nbytes = [o.numel * o.dtype.itemsize for o in self.outs]
        self.finish = [None if done else t for t, done in zip(targets, same, strict=True)]
        self.run, self.spec = elementwise.plan(
            tuple(inlined(row.gradient(name, plan.compute)) for name in wanted),
            names,
            operands,
            self.outs,
            plan.compute,
        )


def formula_names(row: Elementwise, wanted: Sequence[str]) -> tuple[str, ...]:
    """The values that the gradients of ``wanted`` inputs need: grad first, then what is saved."""
    texts = [t for w in wanted for t in (row.grad[w], row.complex_grad.get(w)) if t]
    used = {name for text in texts for name in parse(text).names}
    saved = [name for name in (*row.inputs, "result") if name in used]
    return ("grad", *saved)
