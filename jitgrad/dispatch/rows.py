"""Whole slices along one dimension that a vector names: index_select, index_add and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from ..dtypes import dtype, int32, int64
from ..layout import (
    Layout,
    dense_layout,
    normalize_dim,
)
from ..ops.table import structured
from ..tensor import Tensor
from .convert import copied
from .elementwise import functions
from .make import python_number
from .places import (
    argument_tensor,
    as_long,
    check_range,
    check_wrapped,
    extremes,
    finished,
    first_outside,
    legacy_name,
    lined,
    move_rows,
    number_of,
    output,
)
from .record import node_class
from .writes import Write, record_indexed, writer


def _index_select_adjoint(grad: Tensor, layout: Layout, dim: int, indices: Tensor) -> Tensor:
    zeros = grad.new_zeros(layout.shape)
    if not layout.ndim:
        return index_add(zeros.reshape((1,)), 0, indices, grad.reshape((-1,))).reshape(())
    move_rows("add", zeros, dim, as_long(lined(indices)), grad)
    attributes = {"dim": dim, "alpha": 1}
    record_indexed(_INDEX_ADD, (zeros.detach(), grad, indices), zeros, attributes)
    return zeros


_INDEX_SELECT = node_class(
    structured("index_select", "self indices", grad={"self": _index_select_adjoint}, fresh=True)
)


def index_select(self: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices of ``self`` that an integer vector names along a dimension; a copy.

    Raises:
        IndexError: for an index that is not a vector, or out of bounds (negative ones are).
        RuntimeError: for an index of another dtype than int32 and int64.

    Gradient: the incoming one, added into zeros at the selected slices.
    """
    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    at = argument_tensor("index_select", index).layout
    if at.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if at.dtype is not int64 and at.dtype is not int32:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not of.ndim and at.numel != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {at.numel} value(s)"
        )
    size = of.shape[dim] if of.ndim else 1
    places = lined(as_long(index))
    low, high = extremes(places)
    if at.numel and (low < 0 or high >= size):
        bad = first_outside(places, 0, size)
        if dim == 0:
            raise IndexError(
                f"index out of range in self: index {bad} along dimension 0 of size {size}"
            )
        raise RuntimeError(f"INDICES element is out of DATA bounds, id={bad} axis_dim={size}")
    shape = (*of.shape[:dim], at.numel, *of.shape[dim + 1 :]) if of.ndim else ()
    result = output("index_select", (self, index), shape, of.dtype, out)
    move_rows("take", self, dim, places, result)
    return finished(_INDEX_SELECT, (self, index), result, {"dim": dim}, out)


# Rows ---------------------------------------------------------------------------------------------
def _check_rows(name: str, self: Layout, dim: int, index: Any, dtypes: Sequence[dtype]) -> int:
    at = argument_tensor(name, index).layout
    if at.ndim > 1:
        raise IndexError(
            f"{name}_(): Index is supposed to be a vector, but got dim: {at.ndim} with type: "
            f"{legacy_name(at.dtype)} and size: {list(at.shape)}"
        )
    if at.dtype not in dtypes:
        raise RuntimeError(
            f"{name}_(): Expected dtype int32/int64 for index but got: {legacy_name(at.dtype)}"
        )
    return normalize_dim(dim, self.ndim)


def _scaled_back(grad: Tensor, alpha: Any) -> Tensor:
    return grad if alpha == 1 else grad * alpha.conjugate()


_INDEX_ADD = node_class(
    structured(
        "index_add",
        "self source indices",
        grad={
            "self": lambda grad: grad,
            "source": lambda grad, layout, dim, indices, alpha: _scaled_back(
                index_select(grad, dim, indices).expand(layout.shape),
                alpha,
            ),
        },
    )
)


def _rows(how: str, dim: int, places: Tensor, values: Tensor) -> Callable[[Tensor], None]:
    return lambda to: move_rows(how, to, dim, places, values)


def _index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Write:
    """``self[index[i]] += alpha * source[i]`` (for ``dim=0``); duplicates add up.

    Args:
        index: a vector of int32 or int64, as long as ``source`` along ``dim``.
        source: of the dtype of ``self``, and its shape apart from ``dim``.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit, or an index out of bounds.

    Gradient: passes through to ``self``; ``source`` gets ``alpha`` times what is at its places.
    """
    of = self.layout
    dim = _check_rows("index_add", of, dim, index, (int64, int32))
    if not isinstance(source, Tensor):
        raise errors.argument("index_add", "source", "Tensor", source)
    given, count = source.layout, index.layout.numel
    if given.dtype.plain is not of.dtype.plain:
        raise RuntimeError(
            f"index_add_(): self ({legacy_name(of.dtype)}) and source "
            f"({legacy_name(given.dtype)}) must have the same scalar type"
        )
    size = given.shape[dim] if dim < given.ndim else 1
    if count != size:
        raise RuntimeError(
            f"index_add_(): Number of indices ({count}) should be equal to source.size(dim): "
            f"({size}), for dim: {dim}"
        )
    rest = lambda s: (*s[:dim], *s[dim + 1 :])  # noqa: E731
    if rest(given.shape) != rest(of.shape) or given.ndim != of.ndim:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(of.shape)} source.shape = {list(given.shape)}"
        )
    places = as_long(index)
    check_range(places, dim, of.shape[dim] if of.ndim else 1)
    values = source
    if alpha != 1:
        values = functions["mul"](source.detach(), number_of(alpha, of.dtype))
    attributes = {"dim": dim, "alpha": alpha}
    return Write(_INDEX_ADD, (self, source, index), attributes, _rows("add", dim, places, values))


index_add, index_add_ = writer("index_add")(_index_add)


def _filled_with_zero(grad: Tensor, dim: int, indices: Tensor) -> Tensor:
    """The gradient of what was overwritten."""
    blank: Any = index_fill
    return blank(grad, dim, indices, 0)


def _copied_source(grad: Tensor, layout: Layout, dim: int, indices: Tensor) -> Tensor:
    taken = index_select(grad, dim, indices)
    return taken.expand(layout.shape) if layout.ndim else taken.reshape(())


_INDEX_COPY = node_class(
    structured(
        "index_copy",
        "self source indices",
        grad={
            "self": _filled_with_zero,
            "source": _copied_source,
        },
    )
)


def _index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Write:
    """``self[index[i]] = source[i]`` (for ``dim=0``); of duplicates the last stays.

    Raises:
        IndexError: for ranks or lengths that do not fit, or an index out of bounds.
        RuntimeError: for dtypes or slice shapes that do not.

    Gradient: zero where it was overwritten; ``source`` gets what is at its places.
    """
    of, name = self.layout, "index_copy_()"
    dim = normalize_dim(dim, of.ndim)
    at, given = argument_tensor("index_copy", index).layout, source.layout
    if at.ndim > 1:
        raise IndexError(f"{name}: Index should have dimension 1 or 0 (got {at.ndim})")
    if given.ndim == 0 and at.numel != 1:
        raise IndexError(
            f"{name}: When source is scalar, index should have one element (got {at.numel})"
        )
    if given.ndim and of.ndim and given.ndim != of.ndim:
        raise IndexError(
            f"{name}: When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({given.ndim}), destination dimensionality ({of.ndim})"
        )
    if at.dtype is not int64:
        raise RuntimeError(
            f"{name}: Expected a long tensor for index, but got {legacy_name(at.dtype)}"
        )
    if given.dtype.plain is not of.dtype.plain:
        raise RuntimeError(
            f"{name}: self and source expected to have the same dtype, but got (self) "
            f"{legacy_name(of.dtype)} and (source) {legacy_name(given.dtype)}"
        )
    ours = (*of.shape[:dim], *of.shape[dim + 1 :])
    theirs = (*given.shape[:dim], *given.shape[dim + 1 :])
    if ours != theirs:
        raise RuntimeError(
            f"{name}: Source/destination tensor must have same slice shapes. Destination slice "
            f"shape: {' '.join(map(str, ours))} at dimension {dim} and source slice shape: "
            f"{' '.join(map(str, theirs))} at dimension 0."
        )
    if given.ndim and at.numel != given.shape[dim]:
        raise IndexError(
            f"{name}: Number of indices ({at.numel}) should be equal to source.size(dim) "
            f"({given.shape[dim]})"
        )
    size = of.shape[dim] if of.ndim else 1
    low, high = extremes(index)
    if at.numel and (low < 0 or high >= size):
        raise IndexError(
            f"{name}: index {first_outside(index, 0, size)} is out of bounds for dimension {dim} "
            f"with size {size}"
        )
    return Write(_INDEX_COPY, (self, source, index), {"dim": dim}, _rows("put", dim, index, source))


index_copy, index_copy_ = writer("index_copy")(_index_copy)

_INDEX_FILL = node_class(
    structured(
        "index_fill",
        "self indices",
        grad={"self": _filled_with_zero},
    )
)
_INDEX_FILL_TENSOR = node_class(
    structured(
        "index_fill_tensor",
        "self value indices",
        grad={
            "self": _filled_with_zero,
            # An element that is named twice was filled once.
            "value": lambda grad, dim, indices: index_select(
                grad, dim, _wrapped(grad, dim, indices).unique()
            ).sum(),
        },
        node="IndexFillBackward1",
    )
)


def _wrapped(of: Tensor, dim: int, index: Tensor) -> Tensor:
    """An index whose negative entries count from the end, as one that has none."""
    size = of.layout.shape[dim] if of.layout.ndim else 1
    if not check_wrapped(index, dim, size):
        return index
    return functions["where"](index < 0, index + size, index)


def _index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Write:
    """``self[index[i]] = value`` (for ``dim=0``), a number or a 0-d tensor; negative indices wrap.

    Raises:
        IndexError: for an index that is not int64, or out of bounds.
        RuntimeError: for one of more than one dimension, or a value that has any.

    Gradient: zero where it was filled; ``value`` gets the sum of what is there.
    """
    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    at = argument_tensor("index_fill", index).layout
    if at.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if at.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    places = _wrapped(self, dim, index)
    if not isinstance(value, Tensor):
        values = number_of(python_number(value), of.dtype)
        run = _rows("put", dim, places, values)
        return Write(_INDEX_FILL, (self, index), {"dim": dim}, run, "index_fill_", may_share=True)
    if value.layout.ndim:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.layout.ndim} dimension(s)."
        )
    values = copied(value, dense_layout((), of.dtype))
    run = _rows("put", dim, places, values)
    return Write(
        _INDEX_FILL_TENSOR, (self, value, index), {"dim": dim}, run, "index_fill_", may_share=True
    )


index_fill, index_fill_ = writer("index_fill", preserve=True)(_index_fill)


METHODS = "index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_"
FUNCTIONS = "index_select index_add index_copy index_fill"
