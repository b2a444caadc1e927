"""Running sums of exponentials, differences and integrals along a dimension, covariances."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes, state
from ..layout import normalize_dim
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .elementwise import functions
from .lines import along, cumsum
from .record import node_class, record
from .reduction import amax, mean, sum
from .shape import cat
from .special import into
from .statistics import cumprod
from .view import narrow, view_of

_f = functions


def _logcumsumexp_grad(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """exp(x_k) times the sum over i >= k of grad_i / exp(result_i); by signs in log space, if the
    results lie far apart."""
    if not self.layout.ndim:
        return grad
    largest = amax(result.detach().real, dim, keepdim=True)
    spread = _f["sub"](largest, result)
    # Exponentials that cannot overflow; or complex ones, whose sums have no logarithms by sign.
    if self.is_complex() or bool(_f["lt"](spread.detach(), 60).all()):
        sums = cumsum(_f["mul"](grad, _f["exp"](spread)).flip(dim), dim).flip(dim)
        return _f["mul"](sums, _f["exp"](_f["sub"](self, largest)))
    total = None
    for sign in (1, -1):
        signed = _f["mul"](grad, sign)
        positive = _f["gt"](signed, 0)
        part = _f["log"](_f["where"](positive, signed, 1))
        part = _f["where"](positive, part, -math.inf)
        sums = logcumsumexp(_f["sub"](part, result).flip(dim), dim).flip(dim)
        term = _f["exp"](_f["add"](sums, self))
        total = term if total is None else _f["sub"](total, term)
    assert total is not None
    return total


_LOGCUMSUMEXP = node_class(structured("logcumsumexp", "self", grad={"self": _logcumsumexp_grad}))


def logcumsumexp(self: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """``log`` of the running sums of ``exp``, without overflow."""
    dim = normalize_dim(dim, self.layout.ndim)
    if self.layout.dtype.category < dtypes.FLOATING:
        raise NotImplementedError(
            '"logcumsumexp_out_cpu" not implemented for '
            f"'{self.layout.dtype.tensor_type.removesuffix('Tensor')}'"
        )
    result = (
        along("logcumsumexp", (self.detach(),), dim)
        if self.layout.ndim
        else convert.clone(self.detach())
    )
    record(_LOGCUMSUMEXP, (self,), (result,), {"dim": dim})
    return into("logcumsumexp", result, out, (self,))


def cumsum_(self: Tensor, dim: int, *, dtype: dtypes.dtype | None = None) -> Tensor:
    """:func:`cumsum` in place."""
    return convert.copy_(self, cumsum(self, dim, dtype=dtype or self.layout.dtype))


def cumprod_(self: Tensor, dim: int, *, dtype: dtypes.dtype | None = None) -> Tensor:
    """:func:`cumprod` in place."""
    return convert.copy_(self, cumprod(convert.clone(self), dim, dtype=dtype or self.layout.dtype))


# Differences and integrals ------------------------------------------------------------------------
def diff(
    self: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The ``n``-th differences along ``dim``, of ``prepend``, ``self`` and ``append`` joined."""
    if not self.layout.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = normalize_dim(dim, self.layout.ndim)
    parts = [x for x in (prepend, self, append) if x is not None]
    for x in parts:
        if x.layout.ndim != self.layout.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    x = cat(parts, dim) if len(parts) > 1 and n else self
    minus = "logical_xor" if self.layout.dtype is dtypes.bool_ else "sub"
    n = min(n, x.layout.shape[dim])
    if n == 0:
        return into("diff", convert.clone(x) if parts else x, out, (self,))
    for _ in range(n):
        size = x.layout.shape[dim] - 1
        x = _f[minus](narrow(x, dim, 1, size), narrow(x, dim, 0, size))
    return into("diff", x, out, (self,))


def _steps(y: Tensor, x: Tensor | None, dx: float, dim: int) -> Any:
    """The widths of the intervals along ``dim``, to multiply with."""
    if x is None:
        return dx
    if x.layout.ndim == 1 and y.layout.ndim > 1:
        if x.layout.shape[0] != y.layout.shape[dim]:
            raise RuntimeError("There must be one `x` value for each sample point")
        x = view_of(x, "view", ((x.layout.shape[0], *(1,) * (y.layout.ndim - dim - 1)),))
        return diff(x, 1, 0)
    if x.layout.shape[dim - y.layout.ndim] != y.layout.shape[dim]:
        raise RuntimeError("There must be one `x` value for each sample point")
    return diff(x, 1, dim - y.layout.ndim)


def _trapezoids(y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    size = y.layout.shape[dim] - 1
    sides = _f["add"](narrow(y, dim, 1, size), narrow(y, dim, 0, size))
    return _f["mul"](_f["mul"](sides, _steps(y, x, dx, dim)), 0.5)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral along ``dim`` by the trapezoidal rule, at the points ``x`` or ``dx`` apart."""
    dim = normalize_dim(dim, y.layout.ndim)
    if y.layout.shape[dim] == 0:
        return y.new_zeros((*y.layout.shape[:dim], *y.layout.shape[dim + 1 :]))
    return sum(_trapezoids(y, x, dx, dim), dim)


trapz = trapezoid


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1
) -> Tensor:
    """The running integrals along ``dim`` by the trapezoidal rule."""
    dim = normalize_dim(dim, y.layout.ndim)
    return cumsum(_trapezoids(y, x, dx, dim), dim)


# Covariance ---------------------------------------------------------------------------------------
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimates of the derivatives along dimensions, by central differences of second order.

    Args:
        spacing: between the samples: one number, one for each dimension, or tensors of coordinates.
        dim: one dimension or several; by default all.
        edge_order: 1 or 2, the order of the one-sided differences at the ends.
    """
    if input.layout.dtype is dtypes.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    rank = input.layout.ndim
    given = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [normalize_dim(d, rank) for d in given]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    if not isinstance(spacing, list | tuple):
        spacing = [spacing] * len(dims)
    if len(spacing) != len(dims):
        what = (
            f"'self.dim() = {rank}', since dim argument was not given,"
            if dim is None
            else f"{len(dims)}, the number of dims,"
        )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to {what} but got a list of length {len(spacing)}"
        )
    if any(input.layout.shape[d] <= edge_order for d in dims):
        raise RuntimeError(
            "torch.gradient expected each dimension size to be at least edge_order+1"
        )
    if input.layout.dtype is dtypes.bool_:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported.")
    return tuple(_derivative(input, h, d, edge_order) for h, d in zip(spacing, dims, strict=True))


def _derivative(y: Tensor, spacing: Any, dim: int, edge_order: int) -> Tensor:
    n = y.layout.shape[dim]

    def part(start: int, size: int) -> Tensor:
        return narrow(y, dim, start, size)

    def ends(first: Any, second: Any, a: Tensor, b: Tensor, c: Tensor | None) -> Tensor:
        """The derivative at ``a`` from the values at the distances ``first`` and ``second``."""
        slope = _f["div"](_f["sub"](b, a), first)
        if c is None:
            return slope
        # Of the parabola through the three points.
        other = _f["div"](_f["sub"](c, b), second)
        bend = _f["div"](_f["sub"](other, slope), first + second)
        return _f["sub"](slope, _f["mul"](bend, first))

    middle = []
    if isinstance(spacing, Tensor):
        steps = diff(spacing)
        widths = [steps[0], steps[min(1, n - 2)], steps[n - 2], steps[max(n - 3, 0)]]
        shape = [1] * y.layout.ndim
        shape[dim] = -1
        if n > 2:
            left, right = (x.reshape(shape) for x in (steps[:-1], steps[1:]))
            up = _f["div"](_f["sub"](part(2, n - 2), part(1, n - 2)), right)
            down = _f["div"](_f["sub"](part(1, n - 2), part(0, n - 2)), left)
            weighted = _f["add"](_f["mul"](up, left), _f["mul"](down, right))
            middle = [_f["div"](weighted, _f["add"](left, right))]
    else:
        widths = [spacing] * 4
        if n > 2:
            middle = [_f["div"](_f["sub"](part(2, n - 2), part(0, n - 2)), 2 * spacing)]
    second = edge_order == 2
    first = ends(widths[0], widths[1], part(0, 1), part(1, 1), part(2, 1) if second else None)
    last = ends(
        -widths[2], -widths[3], part(n - 1, 1), part(n - 2, 1), part(n - 3, 1) if second else None
    )
    return cat([first, *middle, last], dim)


def cov(
    self: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of variables (rows) from observations (columns), weighted."""
    if self.layout.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{self.layout.ndim} dimensions"
        )
    if self.layout.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = self if self.layout.ndim == 2 else self.reshape(1, -1)
    count = x.layout.shape[1]
    for name, w, kind in (
        ("fweights", fweights, dtypes.INTEGER), ("aweights", aweights, dtypes.FLOATING),
    ):  # fmt: skip
        if w is None:
            continue
        if w.layout.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
                f"{w.layout.ndim} dimensions"
            )
        if w.layout.dtype.category != kind:
            raise RuntimeError(
                f"cov(): expected {name} to have "
                f"{'integral' if kind == dtypes.INTEGER else 'floating point'} dtype but got "
                f"{name} with {w.layout.dtype.tensor_type.removesuffix('Tensor')} dtype"
            )
        if w.layout.numel != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the "
                f"input but got {w.layout.numel} != {count}"
            )
        if w.layout.numel and bool(w.min() < 0):
            raise RuntimeError(f"cov(): {name} cannot be negative")
    weights = fweights
    if aweights is not None:
        weights = aweights if fweights is None else _f["mul"](fweights, aweights)
    total: Any = count if weights is None else weights.sum()
    if x.layout.dtype.category < dtypes.FLOATING:
        x = convert.to(x, state.get_default_dtype())
    if weights is None:
        norm: Any = max(count - correction, 0) if count else 0
        center = mean(x, 1, keepdim=True) if count else x.sum(1, keepdim=True) / 0
    else:
        center = _f["div"](_f["mul"](x, weights).sum(1, keepdim=True), total)
        if aweights is None:
            norm = _f["sub"](total, correction)
        elif correction == 0:
            norm = total
        else:
            squares = _f["mul"](weights, aweights).sum()
            norm = _f["sub"](total, _f["div"](_f["mul"](squares, correction), total))
        norm = _f["clamp_min"](norm, 0)
    x = _f["sub"](x, center)
    weighted = x if weights is None else _f["mul"](x, weights)
    product = convert.to(weighted, x.layout.dtype).mm(x.t().conj())
    return _f["div"](product, norm).squeeze()


def corrcoef(self: Tensor) -> Tensor:
    """The correlation matrix of variables (rows): :func:`cov` scaled to a diagonal of ones."""
    if self.layout.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{self.layout.ndim} dimensions"
        )
    c = cov(self)
    if not c.layout.ndim:
        return _f["div"](c, c)
    spread = _f["sqrt"](c.diagonal().real)
    return _f["div"](_f["div"](c, spread.unsqueeze(1)), spread)


METHODS = "cumprod_ cumsum_ logcumsumexp diff cov corrcoef"
FUNCTIONS = "gradient logcumsumexp diff trapezoid trapz cumulative_trapezoid cov corrcoef"
