"""Reductions of several results, and those that skip NaN or count."""

from __future__ import annotations

from typing import Any

from .. import dtypes, return_types
from ..layout import Layout, normalize_dim
from ..ops.table import structured
from ..tensor import Tensor
from . import convert, lines, reduction
from .elementwise import functions
from .record import node_class, record
from .reduction import Call, cast_to, numpy_names, reduction_dims

_f = functions


# Without NaN --------------------------------------------------------------------------------------
def _nansum_grad(grad: Tensor, self: Tensor, layout: Layout, call: Call) -> Tensor:
    restored = cast_to(call.restore(grad, layout), layout)
    return _f["mul"](restored, _f["logical_not"](_f["isnan"](self)))


_NANSUM = node_class(structured("nansum", "self", grad={"self": _nansum_grad}))


@numpy_names
def nansum(
    self: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum over all dimensions or those of ``dim``, NaN taken as zero.

    Gradient: ``grad``, expanded to the shape of ``self``, and 0 for NaN.
    """
    if self.layout.dtype.category < dtypes.FLOATING:
        return reduction.sum(self, dim, keepdim, dtype=dtype, out=out)
    dims = reduction_dims(self, dim, "nansum")
    (result,) = reduction.reduced("nansum", (self,), dims, (dtype or self.layout.dtype,), keepdim)
    record(_NANSUM, (self,), (result,), {"call": Call(dims, keepdim)})
    return reduction.finish("nansum", result, out, self)


@numpy_names
def nanmean(
    self: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of what is not NaN, over all dimensions or those of ``dim``.

    Raises:
        RuntimeError: for integer tensors.
    """
    if self.layout.dtype.category < dtypes.FLOATING:
        kind = self.layout.dtype.tensor_type.removesuffix("Tensor")
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {kind}"
        )
    valid = _f["logical_not"](_f["isnan"](self.detach()))
    total = nansum(self, dim, keepdim, dtype=dtype)
    result = _f["div"](total, reduction.sum(valid, dim, keepdim))
    return reduction.finish("nanmean", result, out, self)


def count_nonzero(self: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero, over all dimensions or those of ``dim`` (int64)."""
    dims = reduction_dims(self, dim, "count_nonzero")
    (result,) = reduction.reduced("count_nonzero", (self,), dims, (dtypes.int64,))
    return result


# Several results ----------------------------------------------------------------------------------
def _sum_of(parts: list[Tensor | None]) -> Tensor | None:
    present = [x for x in parts if x is not None]
    return _f["add"](*present) if len(present) == 2 else present[0] if present else None


def _aminmax_grad(grad: Any, self: Tensor, layout: Layout, call: Call) -> Tensor | None:
    parts: list[Tensor | None] = []
    for incoming, function in zip(grad, (reduction.amin, reduction.amax), strict=True):
        if incoming is None:
            parts.append(None)
            continue
        extreme = function(self, call.dims, call.keepdim)
        parts.append(reduction.per_line(incoming, self, extreme, layout, call))
    return _sum_of(parts)


_AMINMAX = node_class(structured("aminmax", "self", grad={"self": _aminmax_grad}, outputs=2))


@numpy_names
def aminmax(self: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    """The smallest and the largest element, over all dimensions or ``dim``.

    Gradient: shared evenly between ties.
    """
    dims = reduction_dims(self, dim, "aminmax")
    if not self.layout.numel and dim is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if any(self.layout.shape[d] == 0 for d in dims):
        raise IndexError(f"aminmax: Expected reduction dim {dims[0]} to have non-zero size.")
    both = [
        reduction.reduced(kind, (self,), dims, (self.layout.dtype,), keepdim)[0]
        for kind in ("amin", "amax")
    ]
    record(_AMINMAX, (self,), both, {"call": Call(dims, keepdim)})
    if out is not None:
        both = [reduction.finish("aminmax", x, o, self) for x, o in zip(both, out, strict=True)]
    return return_types.aminmax(both)


def _mean_part(grad: Tensor | None, layout: Layout, call: Call) -> Tensor | None:
    if grad is None:
        return None
    return _f["div"](call.restore(grad, layout), call.count(layout))


def _var_mean_grad(
    grad: Any, self: Tensor, layout: Layout, call: Call, correction: float
) -> Tensor | None:
    spread, center = grad
    part = spread if spread is None else reduction.var_grad(spread, self, layout, call, correction)
    return _sum_of([part, _mean_part(center, layout, call)])


def _std_mean_grad(
    grad: Any, self: Tensor, result: Tensor, layout: Layout, call: Call, correction: float
) -> Tensor | None:
    spread, center = grad
    if spread is not None:
        spread = reduction.std_grad(spread, self, result, layout, call, correction)
    return _sum_of([spread, _mean_part(center, layout, call)])


_MOMENTS = {
    "var": node_class(structured("var_mean", "self", grad={"self": _var_mean_grad}, outputs=2)),
    "std": node_class(structured("std_mean", "self", grad={"self": _std_mean_grad}, outputs=2)),
}


def _with_mean(name: str) -> Any:
    @numpy_names
    def function(
        self: Tensor,
        *args: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> tuple[Tensor, Tensor]:
        dim, kept, correction = reduction.correction_of(args, dim, unbiased, correction)
        keepdim = bool(kept or keepdim)
        source = self.detach()
        spread = getattr(reduction, name)(source, dim=dim, correction=correction, keepdim=keepdim)
        center = reduction.mean(source, dim, keepdim)
        call = Call(reduction_dims(self, dim, name), keepdim)
        record(_MOMENTS[name], (self,), (spread, center), {"call": call, "correction": correction})
        return spread, center

    function.__name__ = function.__qualname__ = f"{name}_mean"
    function.__doc__ = f":func:`{name}` and the mean, as a pair."
    return function


var_mean, std_mean = _with_mean("var"), _with_mean("std")


# Scans --------------------------------------------------------------------------------------------
def _cumprod_grad(grad: Tensor, self: Tensor, result: Tensor, layout: Layout, dim: int) -> Tensor:
    """Each element's gradient: for all products it is in, the product of the other factors."""
    if not layout.ndim:
        return cast_to(grad, layout)
    if not bool(_f["eq"](self, 0).any()):
        later = lines.cumsum(_f["mul"](grad, result).flip(dim), dim).flip(dim)
        return cast_to(_f["div"](later, self), layout)
    # Zeros: every product again without the factor in question. Quadratic in the length.
    from .creation import eye, ones

    n = layout.shape[dim]
    x = self.movedim(dim, -1).unsqueeze(-2)
    others = cumprod(_f["where"](eye(n, dtype=dtypes.bool_), 1, x), -1)
    in_product = ones(n, n, dtype=dtypes.bool_).triu()
    parts = _f["mul"](_f["mul"](others, in_product), grad.movedim(dim, -1).unsqueeze(-2))
    return cast_to(reduction.sum(parts, -1).movedim(-1, dim), layout)


_CUMPROD = node_class(structured("cumprod", "self", grad={"self": _cumprod_grad}))


@numpy_names
def cumprod(
    self: Tensor, dim: int, *, dtype: dtypes.dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Running products along ``dim``. Gradient: right at zeros as well."""
    dim = normalize_dim(dim, self.layout.ndim)
    d = dtype or reduction.accumulated(self.layout.dtype)
    source = self.detach()
    if self.layout.ndim:
        result = lines.along("cumprod", (source,), dim, d)
    else:
        result = convert.to(source, d, copy=True)
    record(_CUMPROD, (self,), (result,), {"dim": dim})
    return reduction.finish("cumprod", result, out, self)


METHODS = "nansum nanmean count_nonzero aminmax cumprod"
FUNCTIONS = "nansum nanmean count_nonzero aminmax var_mean std_mean cumprod"
