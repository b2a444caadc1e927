"""Matrix products of every rank combination, over the GEMM kernels."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtypes, errors
from ..kernels import gemm
from ..layout import Layout, broadcast_shapes, dense_layout, layout
from ..ops.table import structured
from ..ops.views import VIEWS
from ..state import GRAD, modes
from ..tensor import Tensor, make
from . import convert
from .elementwise import functions, prepare_out
from .make import fresh
from .plans import PlanCache
from .record import Outcome, node_class, record
from .reshaping import squeeze_
from .view import (
    bare_view_of,
    class_of,
    expand,
    node_of_view,
    reshape,
    seen,
    squeeze,
    unsafe_view,
    unsqueeze,
    view_of,
)

_NAMES = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}
_plans = PlanCache()


def c_name(d: dtypes.dtype) -> str:
    """A dtype as C calls it, for messages."""
    return _NAMES.get(d.name, d.name)


def _check(name: str, *operands: Tensor) -> None:
    """Matrix products do not promote: every operand must have one dtype, and not bool."""
    for i, t in enumerate(operands):
        if not isinstance(t, Tensor):
            raise errors.argument(name, ("input", "mat2", "other")[min(i, 2)], "Tensor", t)
    first = operands[0].layout.dtype.plain
    for t in operands[1:]:
        if t.layout.dtype.plain is not first:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {c_name(first)} != "
                f"{c_name(t.layout.dtype)} in {name}()"
            )
    if first.category == dtypes.BOOL:
        raise errors.unsupported("addmm_impl_cpu_", first)


class _GemmPlan:
    __slots__ = ("out", "outcome", "run", "spec")

    def __init__(self, a: Layout, b: Layout, out: Layout, accumulate: bool) -> None:
        self.run, self.spec = gemm.plan(a, b, out, accumulate)
        self.out = out
        self.outcome = Outcome((a, b), (out,))


def _plan(x: Layout, y: Layout, target: Layout | None = None, accumulate: bool = True) -> _GemmPlan:
    """The plan of a product of two operands, into (or added to) a given layout."""
    key = (x, y, target, accumulate)
    plan = _plans.get(key)
    if plan is None:
        batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
        out = target or dense_layout((*batch, x.shape[-2], y.shape[-1]), x.dtype)
        plan = _plans.add(key, _GemmPlan(x, y, out, accumulate and target is not None))
    return plan


def _launch(plan: _GemmPlan, a: Tensor, b: Tensor, result: Tensor) -> Tensor:
    plan.run(
        plan.spec,
        a.storage.buffer,
        a.offset,
        b.storage.buffer,
        b.offset,
        result.storage.buffer,
        result.offset,
    )
    return result


def product(a: Tensor, b: Tensor, target: Tensor | None = None, accumulate: bool = True) -> Tensor:
    """``a @ b`` for operands of equal rank >= 2 (batch dimensions broadcast); added to ``target``
    (or written to it) if there is one. No checks, no history."""
    if target is None:
        plan = _plan(a.layout, b.layout)
        return _launch(plan, a, b, fresh(plan.out))
    return _launch(_plan(a.layout, b.layout, target.layout, accumulate), a, b, target)


def _t(x: Tensor) -> Tensor:
    return seen(x, "transpose", (-2, -1))


_gradient_plans = PlanCache()


def _gradient_plan(a: Layout, b: Layout, of: Layout) -> _GemmPlan:
    """The plan of ``a @ b`` for a gradient, which lies by columns if its input (``of``) does."""
    rows, columns = a.shape[0], b.shape[1]
    by_columns = of.strides == (1, rows) and not of.contiguous
    out = layout((rows, columns), (1, rows) if by_columns else (columns, 1), a.dtype.plain)
    return _GemmPlan(a, b, out, False)


def _turned(of: Layout) -> Layout:
    return layout(of.shape[::-1], of.strides[::-1], of.dtype)


def _left_gradient(grad: Tensor, right: Tensor, of: Layout) -> Tensor:
    """The gradient of ``x`` in ``x @ right``: ``grad @ right.T``."""
    if modes.mode:
        return mm(grad, _t(right))
    key = ("left", grad.layout, right.layout, of)
    try:
        plan = _gradient_plans[key]
    except KeyError:
        plan = _gradient_plan(grad.layout, _turned(right.layout), of)
        _gradient_plans.add(key, plan)
    return _launch(plan, grad, right, fresh(plan.out))


def _right_gradient(grad: Tensor, left: Tensor, of: Layout) -> Tensor:
    """The gradient of ``x`` in ``left @ x``: ``left.T @ grad``."""
    if modes.mode:
        return mm(_t(left), grad)
    key = ("right", grad.layout, left.layout, of)
    try:
        plan = _gradient_plans[key]
    except KeyError:
        plan = _gradient_plan(_turned(left.layout), grad.layout, of)
        _gradient_plans.add(key, plan)
    return _launch(plan, left, grad, fresh(plan.out))


_MM = node_class(
    structured(
        "mm",
        "self mat2",
        grad={
            "self": lambda grad, mat2, layout: _left_gradient(grad, mat2, layout),
            "mat2": lambda grad, self, layout: _right_gradient(grad, self, layout),
        },
        jvp={
            "self": lambda tangent, mat2: mm(tangent, mat2),
            "mat2": lambda tangent, self: mm(self, tangent),
        },
        fresh=True,
    )
)
_BMM = node_class(
    structured(
        "bmm",
        "self mat2",
        grad={
            "self": lambda grad, mat2: bmm(grad, _t(mat2)),
            "mat2": lambda grad, self: bmm(_t(self), grad),
        },
        jvp={
            "self": lambda tangent, mat2: bmm(tangent, mat2),
            "mat2": lambda tangent, self: bmm(self, tangent),
        },
        fresh=True,
    )
)
_MV = node_class(
    structured(
        "mv",
        "self vec",
        grad={
            "self": lambda grad, vec: functions["mul"](unsqueeze(grad, 1), vec),
            "vec": lambda grad, self: mv(_t(self), grad),
        },
        jvp={
            "self": lambda tangent, vec: mv(tangent, vec),
            "vec": lambda tangent, self: mv(self, tangent),
        },
        fresh=True,
    )
)
_DOT = node_class(
    structured(
        "dot",
        "self tensor",
        grad={
            "self": lambda grad, tensor: functions["mul"](grad, tensor),
            "tensor": lambda grad, self: functions["mul"](grad, self),
        },
        jvp={
            "self": lambda tangent, tensor: dot(tangent, tensor),
            "tensor": lambda tangent, self: dot(self, tangent),
        },
        fresh=True,
    )
)
_ADDMM = node_class(
    structured(
        "addmm",
        "self mat1 mat2",
        grad={
            "self": lambda grad, layout, beta: _scaled_back(grad, beta).sum_to_size(layout.shape),
            "mat1": lambda grad, mat2, layout, alpha: _scaled_back(
                _left_gradient(grad, mat2, layout), alpha
            ),
            "mat2": lambda grad, mat1, layout, alpha: _scaled_back(
                _right_gradient(grad, mat1, layout), alpha
            ),
        },
        jvp={
            "self": lambda tangent, beta, result: expand(_scaled(tangent, beta), result.shape),
            "mat1": lambda tangent, mat2, alpha: _scaled(mm(tangent, mat2), alpha),
            "mat2": lambda tangent, mat1, alpha: _scaled(mm(mat1, tangent), alpha),
        },
        fresh=True,
    )
)
_BADDBMM = node_class(
    structured(
        "baddbmm",
        "self batch1 batch2",
        grad={
            "self": lambda grad, layout, beta: _scaled_back(grad, beta).sum_to_size(layout.shape),
            "batch1": lambda grad, batch2, alpha: _scaled_back(bmm(grad, _t(batch2)), alpha),
            "batch2": lambda grad, batch1, alpha: _scaled_back(bmm(_t(batch1), grad), alpha),
        },
        jvp={
            "self": lambda tangent, beta, result: expand(_scaled(tangent, beta), result.shape),
            "batch1": lambda tangent, batch2, alpha: _scaled(bmm(tangent, batch2), alpha),
            "batch2": lambda tangent, batch1, alpha: _scaled(bmm(batch1, tangent), alpha),
        },
    )
)


_ADDMV = node_class(
    structured(
        "addmv",
        "self mat vec",
        grad={
            "self": lambda grad, layout, beta: _scaled_back(grad, beta).sum_to_size(layout.shape),
            "mat": lambda grad, vec, alpha: _scaled_back(
                functions["mul"](unsqueeze(grad, 1), vec), alpha
            ),
            "vec": lambda grad, mat, alpha: _scaled_back(mv(_t(mat), grad), alpha),
        },
    )
)


def _scaled(x: Tensor, by: Any) -> Tensor:
    return x if by == 1 else functions["mul"](x, by)


def _scaled_back(grad: Tensor, by: Any) -> Tensor:
    """The adjoint of :func:`_scaled`."""
    return _scaled(grad, by.conjugate())


def _out(name: str, result: Tensor, out: Tensor | None, operands: tuple[Tensor, ...]) -> Tensor:
    """Write a finished result to ``out``, if given."""
    if out is None:
        return result
    prepare_out(name, operands, out, result.layout.shape)
    return convert.copy_(out, result)


def mm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices, ``(n, k) @ (k, m) -> (n, m)``, of one dtype.

    Raises:
        RuntimeError: for other ranks, inner sizes that differ, or different dtypes.

    Gradient: ``grad @ mat2.T`` for ``self``, ``self.T @ grad`` for ``mat2``.
    """
    try:
        plan = _mm_plans[self.layout, mat2.layout]
    except (KeyError, AttributeError):
        plan = _mm_plan(self, mat2)
        _mm_plans.add((self.layout, mat2.layout), plan)
    result = _launch(plan, self, mat2, fresh(plan.out))
    if self.tracked is not False or mat2.tracked is not False or modes.levels:
        _MM.record(self, mat2, result, _NO_ATTRIBUTES, plan.outcome)
    return result if out is None else _out("mm", result, out, (self, mat2))


_mm_plans = PlanCache()
_NO_ATTRIBUTES: dict[str, Any] = {}


def _mm_plan(self: Tensor, mat2: Tensor) -> _GemmPlan:
    _check("mm", self, mat2)
    a, b = self.layout, mat2.layout
    if a.ndim != 2:
        raise RuntimeError(f"self must be a matrix in mm(), got shape {list(a.shape)}")
    if b.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix in mm(), got shape {list(b.shape)}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]}) in mm()"
        )
    return _plan(a, b)


def bmm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of batches of matrices, ``(b, n, k) @ (b, k, m) -> (b, n, m)``."""
    _check("bmm", self, mat2)
    a, b = self.layout, mat2.layout
    if a.ndim != 3:
        raise RuntimeError(f"batch1 must be a 3D tensor in bmm(), got shape {list(a.shape)}")
    if b.ndim != 3:
        raise RuntimeError(f"batch2 must be a 3D tensor in bmm(), got shape {list(b.shape)}")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]. in bmm()"
        )
    result = product(self, mat2)
    record(_BMM, (self, mat2), (result,), {})
    return _out("bmm", result, out, (self, mat2))


def mv(self: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A matrix times a vector, ``(n, k) @ (k,) -> (n,)``."""
    _check("mv", self, vec)
    a, b = self.layout, vec.layout
    if a.ndim != 2 or b.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim} dimensions in mv()"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]}), vec "
            f"({b.shape[0]}) in mv()"
        )
    result = squeeze(product(self, unsqueeze(vec.detach(), 1)), 1).detach()
    record(_MV, (self, vec), (result,), {})
    return _out("mv", result, out, (self, vec))


def dot(self: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors."""
    _check("dot", self, tensor)
    a, b = self.layout, tensor.layout
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors in dot()")
    if a.shape != b.shape:
        raise RuntimeError(
            "inconsistent tensor size, expected tensor and src to have the same number of elements,"
            f" but got {a.shape[0]} and {b.shape[0]} elements respectively in dot()"
        )
    x, y = self.detach(), tensor.detach()
    result = reshape(product(unsqueeze(x, 0), unsqueeze(y, 1)), ()).detach()
    record(_DOT, (self, tensor), (result,), {})
    return _out("dot", result, out, (self, tensor))


def _check_base(name: str, base: Layout, shape: tuple[int, ...]) -> None:
    if base.shape == shape:
        return
    try:
        VIEWS["expand"].geometry(base, shape)
    except RuntimeError as error:
        raise RuntimeError(f"{error} in {name}()") from None


def _add_product(
    name: str, cls: Any, operands: tuple[Tensor, Tensor, Tensor], beta: Any, alpha: Any
) -> Tensor:
    """``beta * input + alpha * (a @ b)``; a zero beta ignores even NaN in ``input``."""
    base, a, b = operands
    shape = (*a.layout.shape[:-1], b.layout.shape[-1])
    _check_base(name, base.layout, shape)
    if alpha == 1 and beta == 1:
        result = fresh(dense_layout(shape, a.layout.dtype))
        convert.copy_elements(base, result)
        product(a, b, result)
    else:
        result = _scaled(product(a, b), alpha)
        if beta != 0:
            result = functions["add"](_scaled(base.detach(), beta), result)
    record(cls, operands, (result,), {"beta": beta, "alpha": alpha})
    return result


def factors(self: Tensor, beta: Any, alpha: Any) -> tuple[Any, Any]:
    """The factors of a sum with a product: PyTorch cuts them to integers for integer tensors."""
    return (
        (beta, alpha) if self.layout.dtype.category >= dtypes.FLOATING else (int(beta), int(alpha))
    )


def addmm(
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * self + alpha * (mat1 @ mat2)``; ``self`` broadcasts."""
    if beta.__class__ is int and beta == 1 and alpha.__class__ is int and alpha == 1:
        try:
            key = (self.layout, mat1.layout, mat2.layout)
            plan = _addmm_plans.get(key) or _addmm_plans.add(key, _AddmmPlan(self, mat1, mat2))
        except AttributeError:
            _check("addmm", self, mat1, mat2)
            raise
        result = fresh(plan.out)
        buffer = result.storage.buffer
        plan.copy(plan.copy_spec, self.storage.buffer, self.offset, buffer, 0)
        plan.run(
            plan.spec,
            mat1.storage.buffer,
            mat1.offset,
            mat2.storage.buffer,
            mat2.offset,
            buffer,
            0,
        )
        if (
            self.tracked is not False
            or mat1.tracked is not False
            or mat2.tracked is not False
            or modes.levels
        ):
            _ADDMM.record(self, mat1, mat2, result, _PLAIN, plan.outcome)
    else:
        _check_addmm(self, mat1, mat2)
        beta, alpha = factors(self, beta, alpha)
        result = _add_product("addmm", _ADDMM, (self, mat1, mat2), beta, alpha)
    return result if out is None else _out("addmm", result, out, (self, mat1, mat2))


_addmm_plans = PlanCache()
_PLAIN = {"beta": 1, "alpha": 1}


class _AddmmPlan(_GemmPlan):
    """A copy of the broadcast input, and a product added to it."""

    __slots__ = ("copy", "copy_spec")

    def __init__(self, base: Tensor, mat1: Tensor, mat2: Tensor) -> None:
        _check_addmm(base, mat1, mat2)
        a, b = mat1.layout, mat2.layout
        shape = (a.shape[0], b.shape[1])
        _check_base("addmm", base.layout, shape)
        super().__init__(a, b, dense_layout(shape, a.dtype), True)
        self.copy, self.copy_spec = convert.copy_plan(base.layout, self.out)
        self.outcome = Outcome((base.layout, a, b), (self.out,))


def _check_addmm(self: Tensor, mat1: Tensor, mat2: Tensor) -> None:
    _check("addmm", self, mat1, mat2)
    a, b = mat1.layout, mat2.layout
    if a.ndim != 2 or b.ndim != 2:
        which = "mat1" if a.ndim != 2 else "mat2"
        raise RuntimeError(
            f"{which} must be a matrix, got {max(a.ndim, b.ndim)}-D tensor in addmm()"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]}) in addmm()"
        )


def baddbmm(
    self: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * self + alpha * (batch1 @ batch2)`` for batches of matrices; ``self`` broadcasts."""
    _check("baddbmm", self, batch1, batch2)
    a, b = batch1.layout, batch2.layout
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected batches of matrices that can be multiplied, got {list(a.shape)} and "
            f"{list(b.shape)} in baddbmm()"
        )
    beta, alpha = factors(self, beta, alpha)
    result = _add_product("baddbmm", _BADDBMM, (self, batch1, batch2), beta, alpha)
    return _out("baddbmm", result, out, (self, batch1, batch2))


def matmul(self: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product of tensors of any rank; batch dimensions broadcast.

    A vector on the left is a row, on the right a column, and its dimension is dropped again.

    Raises:
        RuntimeError: for 0-d operands or inner sizes that differ.
    """
    if self.layout.ndim == 2 and other.__class__ is Tensor and other.layout.ndim == 2:
        return mm(self, other, out=out)
    _check("matmul", self, other)
    result = _matmul(self, other)
    return _out("matmul", result, out, (self, other))


def _matmul(self: Tensor, other: Tensor) -> Tensor:
    a, b = self.layout, other.layout
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D"
        )
    if a.ndim == 1 and b.ndim == 1:
        return dot(self, other)
    if a.ndim == 2 and b.ndim == 2:
        return mm(self, other)
    if a.ndim == 2 and b.ndim == 1:
        return mv(self, other)
    if a.ndim == 1 and b.ndim == 2:
        return squeeze_(mm(unsqueeze(self, 0), other), 0)
    if _worth_folding(self, other):
        return _folded(self, other)
    if a.ndim == 3 and b.ndim == 3 and a.shape[0] != b.shape[0]:
        # One batch of size one, broadcast: folding the other spares its gradient the copies.
        if a.shape[0] == 1 and self.requires_grad:
            return _matmul(squeeze(self, 0), other)
        if b.shape[0] == 1 and other.requires_grad:
            return _matmul(self, squeeze(other, 0))
    right = unsqueeze(other, 1) if b.ndim == 1 else other
    rows, inner = a.shape[-2:] if a.ndim > 1 else (1, a.shape[-1])
    depth, columns = right.layout.shape[-2:]
    batch = broadcast_shapes(a.shape[:-2], right.layout.shape[:-2])
    count = prod(batch)
    x = reshape(expand(self, (*batch, rows, inner)), (count, rows, inner))
    y = reshape(expand(right, (*batch, depth, columns)), (count, depth, columns))
    result = bmm(x, y)
    if b.ndim == 1:
        result = squeeze(result, -1)
    left = (rows,) if a.ndim > 1 else ()
    return unsafe_view(result, (*batch, *left, *((columns,) if b.ndim > 1 else ())))


def _worth_folding(self: Tensor, other: Tensor) -> bool:
    """Whether one operand has no batch, so that the other's batch can be folded into its rows.

    PyTorch's rule: one big product instead of many, unless it would only move the copies.
    """
    larger, smaller = self, other
    if self.layout.ndim < other.layout.ndim:
        larger, smaller = other, self
    if larger.layout.ndim < 3 or smaller.layout.ndim > 2:
        return False
    if smaller.requires_grad:
        return True
    if self.layout.ndim == 2:
        return False
    if not larger.layout.numel:
        return True
    of = larger.layout
    shape, strides = of.shape, of.strides
    if larger is other:  # it would be folded transposed
        shape = (*shape[:-2], shape[-1], shape[-2])
        strides = (*strides[:-2], strides[-1], strides[-2])
    return all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(of.ndim - 2))


def _folded(self: Tensor, other: Tensor) -> Tensor:
    """A product whose smaller operand has no batch, as one product of matrices."""
    swapped = self.layout.ndim < other.layout.ndim
    larger, smaller = self, other
    if swapped:
        larger = _t(other)
        smaller = view_of(self, "t", ()) if self.layout.ndim == 2 else self
    shape = larger.layout.shape
    rows = reshape(larger, (prod(shape[:-1]), shape[-1]))
    if smaller.layout.ndim == 1:
        return unsafe_view(mv(rows, smaller), shape[:-1])
    result = unsafe_view(mm(rows, smaller), (*shape[:-1], smaller.layout.shape[1]))
    return convert.contiguous(_t(result)) if swapped else result


def outer(self: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of the elements of two vectors."""
    for name, x in (("self", self), ("vec2", vec2)):
        if x.layout.ndim != 1:
            raise RuntimeError(
                f"outer: Expected 1-D argument {name}, but got {x.layout.ndim}-D (shape "
                f"{list(x.layout.shape)})"
            )
    column = reshape(self, (self.layout.numel, 1))
    return functions["mul"](column, vec2, out=out)


def addmv(
    self: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * self + alpha * (mat @ vec)``; ``self`` broadcasts."""
    _check("addmv", self, mat, vec)
    beta, alpha = factors(self, beta, alpha)
    product_of = mv(mat.detach(), vec.detach())
    result = _scaled(product_of, alpha)
    if beta != 0:
        shape = product_of.layout.shape
        result = functions["add"](view_of(_scaled(self.detach(), beta), "expand", (shape,)), result)
    record(_ADDMV, (self, mat, vec), (result,), {"beta": beta, "alpha": alpha})
    return _out("addmv", result, out, (self, mat, vec))


def linear(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``addmm(bias, input, weight.t())`` for matrices: its nodes, without the view in between."""
    mode = modes.mode
    if mode > GRAD:
        return addmm(bias, input, view_of(weight, "t", ()))
    key = (bias.layout, input.layout, weight.layout)
    plan = _linear_plans.get(key)
    if plan is None:
        plan = _linear_plans.add(key, _LinearPlan(bias, input, weight))
    result = fresh(plan.out)
    buffer = result.storage.buffer
    plan.copy(plan.copy_spec, bias.storage.buffer, bias.offset, buffer, 0)
    plan.run(
        plan.spec,
        input.storage.buffer,
        input.offset,
        weight.storage.buffer,
        weight.offset,
        buffer,
        0,
    )
    tracked = weight.tracked
    if tracked is not False or bias.tracked is not False or input.tracked is not False:
        turned = make(weight.storage, weight.offset, plan.outcome.inputs[2])
        turned.counter = weight.counter
        turned.tracked = tracked
        if mode and tracked:
            turned.edge = node_of_view(plan.turn, weight, plan.turned, _NO_ATTRIBUTES, 4)
            turned.tracked = turned.edge is not None
        _ADDMM.record(bias, input, turned, result, _PLAIN, plan.outcome)
    return result


_linear_plans = PlanCache()


class _LinearPlan(_AddmmPlan):
    """The plan of an addmm with a transposed weight, and what the weight's view remembers."""

    __slots__ = ("turn", "turned")

    def __init__(self, bias: Tensor, input: Tensor, weight: Tensor) -> None:
        _check("addmm", bias, input, weight)
        turned = bare_view_of(weight, "t", ())
        super().__init__(bias, input, turned)
        self.turn = class_of("t")
        self.turned = Outcome((weight.layout,), (turned.layout,))
