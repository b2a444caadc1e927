"""Statistics, searching, and other reductions by the signatures of the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..dispatch import lines, positions, reduction, running, shape, sorting, statistics
from ..dispatch.convert import to
from ..dispatch.elementwise import functions
from ..dtypes import INTEGER
from ..dtypes import dtype as DType
from ..tensor import Tensor
from ._promotion import common

_Axis = int | tuple[int, ...] | None


def _axes(x: Tensor, axis: _Axis) -> tuple[int, ...]:
    """The axes as a tuple; all of them for None."""
    if axis is None:
        return tuple(range(x.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _summed_dtype(d: DType) -> DType:
    """What a sum is in by default: integers at least the default ones of their sign."""
    if d.category == INTEGER and not d.is_signed:
        return dtypes.uint64
    return dtypes.int64 if d.category <= INTEGER else d


def _reducing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A reduction of no axis at all leaves the elements (PyTorch's would take all)."""

    def reduce(x: Tensor, axis: _Axis, keepdims: bool, **options: Any) -> Tensor:
        axes = _axes(x, axis)
        if not axes and x.ndim:
            return function(x.unsqueeze(-1), dim=(x.ndim,), keepdim=False, **options)
        return (
            function(x, dim=axes, keepdim=keepdims, **options)
            if axes
            else function(x.reshape((1,)), dim=(0,), keepdim=False, **options)
        )

    return reduce


_sum, _prod, _mean = (_reducing(f) for f in (reduction.sum, reduction.prod, reduction.mean))
_var, _std, _amax, _amin = (
    _reducing(f) for f in (reduction.var, reduction.std, reduction.amax, reduction.amin)
)
_all, _any = _reducing(reduction.all_), _reducing(reduction.any_)


def _total(fold: Callable[..., Tensor], x: Tensor, axis: _Axis, dtype: DType | None,
           keepdims: bool) -> Tensor:  # fmt: skip
    d = dtype or _summed_dtype(x.dtype)
    # Unsigned sums are computed modulo 2 ** 64 in int64, which has the same bits.
    inner = dtypes.int64 if d.category == INTEGER else d
    return to(fold(to(x, inner), axis, keepdims), d)


def sum(
    x: Tensor, /, *, axis: _Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """The sum over ``axis`` (all of them by default); of integers at least in 64 bits."""
    return _total(_sum, x, axis, dtype, keepdims)


def prod(
    x: Tensor, /, *, axis: _Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """The product over ``axis``; of integers at least in 64 bits."""
    return _total(_prod, x, axis, dtype, keepdims)


def max(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """The largest elements; NaN where there is one."""
    return _amax(x, axis, keepdims)


def min(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest elements; NaN where there is one."""
    return _amin(x, axis, keepdims)


def mean(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean."""
    return _mean(x, axis, keepdims)


def var(
    x: Tensor, /, *, axis: _Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance: squared deviations summed over their number less ``correction``."""
    return _var(x, axis, keepdims, correction=correction)


def std(
    x: Tensor, /, *, axis: _Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The root of :func:`var`."""
    return _std(x, axis, keepdims, correction=correction)


def all(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true (not zero)."""
    return _all(x, axis, keepdims)


def any(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element is true (not zero)."""
    return _any(x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero (int64)."""
    return _sum(to(functions["ne"](x, 0), dtypes.int64), axis, keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first largest element is; in the flattened array if no axis is given."""
    return _position(reduction.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first smallest element is; in the flattened array if no axis is given."""
    return _position(reduction.argmin, x, axis, keepdims)


def _position(find: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        return find(x, axis, keepdims)
    result = find(x.reshape((-1,)), 0)
    return result.reshape((1,) * x.ndim) if keepdims else result


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of nonzero elements, an array for each axis.

    Raises:
        ValueError: for a 0-d array.
    """
    if not x.ndim:
        raise ValueError("nonzero() needs at least one dimension")
    return positions.nonzero(x, as_tuple=True)


def searchsorted(
    x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where the values ``x2`` would be inserted into the sorted vector ``x1``."""
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    x1, x2 = common(x1, x2)
    return sorting.searchsorted(x1, x2, side=side, sorter=sorter)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """``x1`` where the condition holds, else ``x2``."""
    return functions["where"](condition, *common(x1, x2))


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """Running sums; with ``include_initial`` a zero before them."""
    return _running(lines.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """Running products; with ``include_initial`` a one before them."""
    return _running(statistics.cumprod, 1, x, axis, dtype, include_initial)


def _running(scan: Any, first: int, x: Tensor, axis: int | None, dtype: DType | None,
             initial: bool) -> Tensor:  # fmt: skip
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"an axis is needed for an array of {x.ndim} dimensions")
        axis = 0
    d = dtype or _summed_dtype(x.dtype)
    result = scan(to(x, dtypes.int64 if d.category == INTEGER else d), axis)
    if initial:
        sizes = list(x.shape)
        sizes[axis] = 1
        result = shape.cat([result.new_full(tuple(sizes), first), result], axis)
    return to(result, d)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The ``n``-th differences of neighbours along an axis."""
    return running.diff(x, n, axis, prepend, append)


NAMES = (
    "all any argmax argmin count_nonzero cumulative_prod cumulative_sum diff max mean min nonzero "
    "prod searchsorted std sum var where"
)
FUNCTIONS: dict[str, Any] = {name: globals()[name] for name in NAMES.split()}
