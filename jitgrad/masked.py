"""Reductions of the elements a mask keeps, under the names of :mod:`torch.masked`.

An element that is left out is replaced by the identity of the reduction, so every function is the
plain one of a ``where``, and its gradient is 0 there. A mask broadcasts to the input; None keeps
everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .dispatch import arithmetic, convert, lines, reduction, sorting, statistics
from .dispatch.elementwise import functions as _f
from .dtypes import FLOATING, INTEGER, bool_, dtype, int64
from .tensor import Tensor
from .typeinfo import iinfo


def _kept(input: Tensor, mask: Tensor | None, left_out: Any) -> Tensor:
    """``input`` with ``left_out`` where the mask is false."""
    if mask is None:
        return input
    return arithmetic.where(mask.to(bool_), input, left_out)


def _count(input: Tensor, mask: Tensor | None, dim: Any, keepdim: bool) -> Tensor:
    ones = input.new_ones(input.shape, dtype=int64)
    return reduction.sum(_kept(ones, mask, 0), _dims(dim), keepdim)


def _dims(dim: Any) -> Any:
    return None if dim is None or dim == () or dim == [] else dim


def _extreme(d: dtype, largest: bool) -> Any:
    if d.category >= FLOATING:
        return math.inf if largest else -math.inf
    if d.category < INTEGER:
        return largest
    return iinfo(d).max if largest else iinfo(d).min


def _accumulated(input: Tensor, d: dtype | None) -> dtype:
    if d is not None:
        return d
    return input.dtype if input.dtype.category >= FLOATING else int64


def sum(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of what the mask keeps."""
    d = _accumulated(input, dtype)
    return reduction.sum(_kept(convert.to(input, d), mask, 0), _dims(dim), keepdim)


def prod(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of what the mask keeps."""
    result = _kept(convert.to(input, _accumulated(input, dtype)), mask, 1)
    dims = _dims(dim)
    if isinstance(dims, int):
        dims = (dims,)
    if dims is None:
        dims = tuple(range(input.ndim))
    for d in sorted((x % max(input.ndim, 1) for x in dims), reverse=True):
        result = reduction.prod(result, d, keepdim)
    return result


def _ordered(name: str, largest: bool) -> Callable[..., Tensor]:
    def function(
        input: Tensor,
        dim: Any = None,
        *,
        keepdim: bool = False,
        dtype: dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x = convert.to(input, dtype or input.dtype)
        return getattr(reduction, name)(
            _kept(x, mask, _extreme(x.dtype, not largest)),
            () if _dims(dim) is None else dim,
            keepdim,
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f":func:`jitgrad.{name}` of what the mask keeps."
    return function


amax, amin = _ordered("amax", True), _ordered("amin", False)


def _place(name: str, largest: bool) -> Callable[..., Tensor]:
    def function(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool = False,
        dtype: dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x = convert.to(input, dtype or input.dtype)
        kept = _kept(x, mask, _extreme(x.dtype, not largest))
        return convert.to(getattr(reduction, name)(kept, dim, keepdim), x.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f":func:`jitgrad.{name}` of what the mask keeps."
    return function


argmax, argmin = _place("argmax", True), _place("argmin", False)


def mean(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of what the mask keeps; NaN where that is nothing."""
    x = convert.to(input, dtype or input.dtype)
    total = reduction.sum(_kept(x, mask, 0), _dims(dim), keepdim)
    return _f["div"](total, _count(x, mask, dim, keepdim))


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median of what the mask keeps."""
    x = convert.to(input, dtype or input.dtype)
    return sorting.nanmedian(_kept(x, mask, math.nan), dim, keepdim)[0]


def _correction(unbiased: bool | None, correction: float | None) -> float:
    return int(unbiased is not False) if correction is None else correction


def _spread(
    input: Tensor, dim: Any, correction: float, keepdim: bool, d: dtype | None, mask: Tensor | None
) -> Tensor:
    x = convert.to(input, _accumulated(input, d))
    if x.dtype.category < FLOATING:
        x = x.float()
    count = _count(x, mask, dim, True)
    center = _f["div"](reduction.sum(_kept(x, mask, 0), _dims(dim), True), count)
    distance = _kept(_f["sub"](x, center), mask, 0)
    total = reduction.sum(_f["mul"](distance, distance.conj()), _dims(dim), keepdim)
    count = count if keepdim else count.reshape(total.shape)
    return _f["div"](total, _f["clamp_min"](_f["sub"](count, correction), 0))


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of what the mask keeps."""
    return _spread(input, dim, _correction(unbiased, correction), keepdim, dtype, mask)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of what the mask keeps."""
    return _f["sqrt"](_spread(input, dim, _correction(unbiased, correction), keepdim, dtype, mask))


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of what the mask keeps."""
    x = convert.to(input, dtype or input.dtype)
    left_out = math.inf if ord == -math.inf else 0
    return reduction.vector_norm(_kept(x, mask, left_out), ord, _dims(dim), keepdim)


def logsumexp(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """``log(sum(exp))`` of what the mask keeps."""
    x = convert.to(input, dtype or input.dtype)
    return reduction.logsumexp(_kept(x, mask, _extreme(x.dtype, False)), _dims(dim), keepdim)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """``log(exp(input) + exp(other))`` of what the masks keep."""
    d = dtype or input.dtype
    a = _kept(convert.to(input, d), input_mask, -math.inf)
    return _f["logaddexp"](a, _kept(convert.to(other, d), other_mask, -math.inf))


def _along(name: str, plain: Callable[..., Tensor], left_out: float) -> Callable[..., Tensor]:
    def function(
        input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = convert.to(input, dtype or input.dtype)
        if name.startswith("cum"):
            x = convert.to(x, _accumulated(x, dtype))
        return plain(_kept(x, mask, left_out), dim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} along ``dim`` of what the mask keeps."
    return function


def _softmin(x: Tensor, dim: int) -> Tensor:
    return lines.softmax(_f["neg"](x), dim)


cumsum = _along("cumsum", lines.cumsum, 0)
cumprod = _along("cumprod", statistics.cumprod, 1)
softmax = _along("softmax", lines.softmax, -math.inf)
log_softmax = _along("log_softmax", lines.log_softmax, -math.inf)
softmin = _along("softmin", _softmin, math.inf)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """What the mask keeps, divided by its norm (at least ``eps``) along ``dim``."""
    x = convert.to(input, dtype or input.dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return _f["div"](_kept(x, mask, 0), _f["clamp_min"](size, eps))


__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin",
    "std", "sum", "var",
]  # fmt: skip
