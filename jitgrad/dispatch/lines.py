"""Functions that map each line along a dimension to a line: softmax, log_softmax, cumsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, errors
from ..kernels import reduction as kernels
from ..layout import (
    Layout,
    dense_layout,
    normalize_dim,
)
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor
from . import convert
from .elementwise import functions
from .make import fresh, like_layout
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record
from .reduction import cast_to, finish, numpy_names, sum

_f = functions
_plans = PlanCache()


def _softmax_grad(grad: Tensor, result: Tensor, dim: int, layout: Layout) -> Tensor:
    if modes.mode:  # recorded, or with tangents
        weighted = _f["mul"](grad, result)
        inner = _f["sub"](weighted, _f["mul"](result, sum(weighted, dim, keepdim=True)))
    else:
        inner = _line_gradient("softmax_backward", grad, result, dim)
    return cast_to(inner, layout)


def _log_softmax_grad(grad: Tensor, result: Tensor, dim: int, layout: Layout) -> Tensor:
    if modes.mode:  # recorded, or with tangents
        inner = _f["sub"](grad, _f["mul"](_f["exp"](result), sum(grad, dim, keepdim=True)))
    else:
        inner = _line_gradient("log_softmax_backward", grad, result, dim)
    return cast_to(inner, layout)


def _line_gradient(kind: str, grad: Tensor, result: Tensor, dim: int) -> Tensor:
    """Run a kernel that makes lines of a gradient from lines of two tensors."""
    key = (kind, dim, grad.layout, result.layout)
    plan = _plans.get(key)
    if plan is None:
        of = result.layout
        out = dense_layout(of.shape, of.dtype)
        program = kernels.plan_along(kind, [grad.layout, of], dim, out)
        plan = _plans.add(key, (program.run, out))
    run, out = plan
    inner = fresh(out)
    run(
        grad.storage.buffer,
        grad.offset,
        result.storage.buffer,
        result.offset,
        inner.storage.buffer,
        0,
    )
    return inner


# The Jacobian of softmax is symmetric; that of log_softmax is the transpose of its gradient's.
_SOFTMAX = node_class(
    structured(
        "softmax",
        "self",
        grad={"self": _softmax_grad},
        fresh=True,
        jvp={
            "self": lambda tangent, result, dim, layout: _softmax_grad(tangent, result, dim, layout)
        },
    )
)
_LOG_SOFTMAX = node_class(
    structured(
        "log_softmax",
        "self",
        grad={"self": _log_softmax_grad},
        fresh=True,
        jvp={
            "self": lambda tangent, result, dim: _f["sub"](
                tangent, sum(_f["mul"](_f["exp"](result), tangent), dim, keepdim=True)
            )
        },
    )
)


def along(kind: str, inputs: Sequence[Tensor], dim: int, d: dtypes.dtype | None = None) -> Tensor:
    """Run a kernel that maps each line along ``dim`` to a line of the same length."""
    of = inputs[-1].layout
    key = (kind, dim, d, *(x.layout for x in inputs))
    plan = _plans.get(key)
    if plan is None:
        out = dense_layout(of.shape, d or of.dtype)
        program = kernels.plan_along(kind, [x.layout for x in inputs], dim, out)
        plan = _plans.add(key, (program, out))
    program, out = plan
    result = fresh(out)
    buffers: list[Any] = []
    for t in (*inputs, result):
        buffers += (t.storage.buffer, t.offset)
    program.run(*buffers)
    return result


def _normalizer(name: str, cls: type[StructuredNode], doc: str) -> Callable[..., Tensor]:
    """A function that maps each line of a tensor to one of the same length."""
    plans = PlanCache()

    def function(
        self: Tensor, dim: int, dtype: dtypes.dtype | None = None, *, out: Tensor | None = None
    ) -> Tensor:
        try:
            plan = plans[self.layout, dim, dtype]
        except (KeyError, AttributeError):
            plan = _softmax_plan(name, self.layout, dim, dtype)
            plans.add((self.layout, dim, dtype), plan)
        run, of, attributes, outcome = plan
        source = self
        if of.dtype is not self.layout.dtype:
            source = convert.copied(self, like_layout(self.layout, of.dtype))
        result = fresh(of)
        run(source.storage.buffer, source.offset, result.storage.buffer, 0)
        if self.tracked is not False or modes.levels:
            cls.record(self, result, attributes, outcome)
        return result if out is None else finish(name, result, out, self)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _softmax_plan(name: str, of: Layout, dim: Any, dtype: Any) -> Any:
    dim = normalize_dim(dim, of.ndim)
    d = (dtype or of.dtype).plain
    if not d.is_floating_point:
        raise errors.unsupported(f"{name}_lastdim_kernel_impl", d)
    out = dense_layout(of.shape, d)
    program = kernels.plan_along(name, [like_layout(of, d) if d is not of.dtype else of], dim, out)
    return program.run, out, {"dim": dim}, Outcome((of,), (out,))


softmax = _normalizer(
    "softmax",
    _SOFTMAX,
    "``exp(x) / sum(exp(x))`` along ``dim``.\n\n"
    "Gradient: ``result * (grad - sum(grad * result))``.",
)
log_softmax = _normalizer(
    "log_softmax",
    _LOG_SOFTMAX,
    "``x - log(sum(exp(x)))`` along ``dim``. Gradient: ``grad - exp(result) * sum(grad)``.",
)


# Scans --------------------------------------------------------------------------------------------
_CUMSUM = node_class(
    structured(
        "cumsum",
        "self",
        grad={
            "self": lambda grad, dim, layout: cast_to(
                cumsum(grad.flip(dim), dim).flip(dim),
                layout,
            )
        },
        jvp={"self": lambda tangent, dim: cumsum(tangent, dim)},
    )
)


@numpy_names
def cumsum(
    self: Tensor, dim: int, *, dtype: dtypes.dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Running sums along ``dim``. Gradient: the running sums of ``grad`` from the other end."""
    dim = normalize_dim(dim, self.layout.ndim)
    of = self.layout.dtype
    d = dtype or (of if of.category >= dtypes.FLOATING else dtypes.int64)
    source = self.detach()
    result = (
        along("cumsum", (source,), dim, d) if self.layout.ndim else convert.to(source, d, copy=True)
    )
    record(_CUMSUM, (self,), (result,), {"dim": dim})
    return finish("cumsum", result, out, self)
