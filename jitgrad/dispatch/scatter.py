"""One element for every position of an index: gather, scatter and their kin."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors
from ..dtypes import BOOL, FLOATING, dtype, int32, int64
from ..layout import (
    Layout,
    Shape,
    broadcast_shapes,
    dense_layout,
    normalize_dim,
)
from ..ops.table import structured
from ..tensor import Tensor, make
from .convert import copied, copy_elements
from .elementwise import functions
from .make import constant, python_number
from .places import (
    as_long,
    check_range,
    check_wrapped,
    finished,
    legacy_name,
    move_along,
    number_of,
    output,
)
from .record import node_class, wants_grad
from .view import view_of
from .writes import Write, in_place, record_indexed, writer


def _zeros_scattered(grad: Tensor, layout: Layout, dim: int, indices: Tensor) -> Tensor:
    """``zeros.scatter_add(dim, indices, grad)``: the gradient of a gather."""
    zeros = grad.new_zeros(layout.shape)
    if grad.layout.numel:
        move_along("add", zeros, dim, as_long(indices), grad)
    record_indexed(_SCATTER_ADD, (zeros.detach(), grad, indices), zeros, {"dim": dim})
    return zeros


_GATHER = node_class(
    structured("gather", "self indices", grad={"self": _zeros_scattered}, fresh=True)
)


def _check_along(name: str, self: Layout, index: Any, other: str) -> Layout:
    """An index of gather or scatter: right dtype and rank; its layout."""
    if not isinstance(index, Tensor):
        raise errors.argument(name, "index", "Tensor", index)
    at = index.layout
    if at.dtype is not int64 and at.dtype is not int32 and at.numel:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if max(at.ndim, 1) != max(self.ndim, 1) and at.numel:
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {other} tensor"
        )
    return at


def gather(
    self: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    """``result[i][j] = self[index[i][j]][j]`` (for ``dim=0``), in the shape of ``index``.

    Raises:
        RuntimeError: for an index of another rank, larger than ``self`` in another dimension, of
            another dtype than int32 and int64, or out of bounds (negative ones are).

    Gradient: the incoming one, added into zeros where it was gathered.
    """
    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    at = _check_along("gather", of, index, "input")
    if of.ndim:
        for d in range(at.ndim):
            if at.numel and d != dim and at.shape[d] > of.shape[d]:
                raise RuntimeError(
                    f"Size does not match at dimension {d} expected index {list(at.shape)} to be "
                    f"no larger than self {list(of.shape)} apart from dimension {dim}"
                )
    places = as_long(index)
    check_range(places, dim, of.shape[dim] if of.ndim else 1)
    result = output("gather", (self, index), at.shape, of.dtype, out)
    if at.numel:
        move_along("take", self, dim, places, result)
    return finished(_GATHER, (self, index), result, {"dim": dim}, out)


def take_along_dim(
    self: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`gather` with ``self`` and ``indices`` broadcast but along ``dim``; negatives wrap.

    Without ``dim`` both are read as vectors.
    """
    if dim is None:
        return gather(self.reshape(-1), 0, indices.reshape(-1), out=out)
    of, at = self.layout, indices.layout
    if at.dtype is not int64:
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{legacy_name(at.dtype)}"
        )
    if of.ndim != at.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {of.ndim} dimensions for input, and {at.ndim} dimensions for indices"
        )
    dim = normalize_dim(dim, of.ndim)
    shape = broadcast_shapes(
        (*of.shape[:dim], 1, *of.shape[dim + 1 :]), (*at.shape[:dim], 1, *at.shape[dim + 1 :])
    )
    if check_wrapped(indices, dim, of.shape[dim]):
        indices = functions["where"](indices < 0, indices + of.shape[dim], indices)
    self = view_of(self, "expand", ((*shape[:dim], of.shape[dim], *shape[dim + 1 :]),))
    indices = view_of(indices, "expand", ((*shape[:dim], at.shape[dim], *shape[dim + 1 :]),))
    return gather(self, dim, indices, out=out)


# Scatter ------------------------------------------------------------------------------------------
def _check_scatter(name: str, self: Tensor, dim: int, index: Any, src: Any) -> tuple[int, Tensor]:
    """The normalised dimension and the int64 index; errors as PyTorch's scatter family."""
    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    at = _check_along(name, of, index, "self")
    if isinstance(src, Tensor):
        given = src.layout
        if given.dtype.plain is not of.dtype.plain:
            raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
        if max(given.ndim, 1) != max(at.ndim, 1) and at.numel:
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if at.numel and of.ndim:
        for d in range(at.ndim):
            if d != dim and at.shape[d] > of.shape[d]:
                raise RuntimeError(
                    f"Expected index {list(at.shape)} to be no larger than self {list(of.shape)} "
                    f"apart from dimension {dim}"
                )
    if at.numel and isinstance(src, Tensor) and src.layout.ndim:
        for d in range(at.ndim):
            if at.shape[d] > src.layout.shape[d]:
                raise RuntimeError(
                    f"Expected index {list(at.shape)} to be no larger than self {list(of.shape)} "
                    f"apart from dimension {dim} and to be no larger size than src "
                    f"{list(src.layout.shape)}"
                )
    places = as_long(index)
    check_range(places, dim, of.shape[dim] if of.ndim else 1)
    return dim, places


def _corner(whole: Tensor, shape: Shape) -> Tensor:
    """The part of a source that an index of smaller shape reaches."""
    if whole.layout.shape == shape:
        return whole
    return whole[tuple(slice(0, n) for n in shape)]


def _padded(part: Tensor, shape: Shape) -> Tensor:
    """A corner in its place among zeros: the adjoint of :func:`_corner`."""
    if part.layout.shape == shape:
        return part
    zeros = part.new_zeros(shape)
    if part.layout.numel:
        zeros[tuple(slice(0, n) for n in part.layout.shape)] = part
    return zeros


def _gathered(grad: Tensor, layout: Layout, dim: int, indices: Tensor) -> Tensor:
    """The gradient of a scattered source: only what the index reached; zero elsewhere."""
    return _padded(gather(grad, dim, indices), layout.shape)


def _blanked(grad: Tensor, dim: int, indices: Tensor) -> Tensor:
    return scatter(grad, dim, indices, 0)


_SCATTER = node_class(
    structured("scatter", "self src indices", grad={"self": _blanked, "src": _gathered})
)
_SCATTER_VALUE = node_class(
    structured("scatter_value", "self indices", grad={"self": _blanked}, node="ScatterBackward1")
)
_SCATTER_ADD = node_class(
    structured(
        "scatter_add", "self src indices", grad={"self": lambda grad: grad, "src": _gathered}
    )
)


def _along(how: str, dim: int, places: Tensor, values: Tensor) -> Callable[[Tensor], None]:
    def run(to: Tensor) -> None:
        if places.layout.numel:
            move_along(how, to, dim, places, values)

    return run


def _scatter(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Write:
    """``self[index[i][j]][j] = src[i][j]`` (for ``dim=0``); ``src`` is a tensor or a number.

    Args:
        dim: the dimension that ``index`` points along; the others are its own position.
        index: int32 or int64, no larger than ``src``, nor than ``self`` apart from ``dim``.
        reduce: ``add`` or ``multiply`` combine with what is there (without a gradient).

    Raises:
        RuntimeError: for ranks, shapes or dtypes that do not fit, or an index out of bounds.

    Gradient: zero where it was overwritten; ``src`` gets what is at its places (of duplicates,
    each).
    """
    src = value if src is None else src
    combined = {None: "put", "add": "add", "multiply": "prod"}.get(reduce, "")
    if not combined:
        raise RuntimeError("reduce argument must be either add or multiply.")
    dim, places = _check_scatter("scatter", self, dim, index, src)
    is_tensor = isinstance(src, Tensor)
    values = src if is_tensor else number_of(python_number(src), self.layout.dtype)
    run = _along(combined, dim, places, values)
    if reduce is not None:
        return Write(_SCATTER_COMBINED, (self, values, index), {"dim": dim}, run)
    if is_tensor:
        return Write(_SCATTER, (self, values, index), {"dim": dim}, run)
    return Write(_SCATTER_VALUE, (self, index), {"dim": dim}, run)


def _no_derivative(grad: Tensor) -> Tensor:
    raise RuntimeError("derivative for scatter with reduce is not implemented; use scatter_reduce")


_SCATTER_COMBINED = node_class(
    structured(
        "scatter_combined",
        "self src indices",
        grad={"self": _no_derivative, "src": _no_derivative},
        node="NotImplemented",
    )
)
scatter, scatter_ = writer("scatter")(_scatter)


def _scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Write:
    """``self[index[i][j]][j] += src[i][j]`` (for ``dim=0``); duplicates add up.

    Raises:
        RuntimeError: as :func:`scatter`.

    Gradient: passes through to ``self``; ``src`` gets what is at its places.
    """
    if not isinstance(src, Tensor):
        raise errors.argument("scatter_add", "src", "Tensor", src)
    dim, places = _check_scatter("scatter", self, dim, index, src)
    return Write(_SCATTER_ADD, (self, src, index), {"dim": dim}, _along("add", dim, places, src))


scatter_add, scatter_add_ = writer("scatter_add")(_scatter_add)

_REDUCTIONS = {"sum": "add", "prod": "prod", "mean": "add", "amax": "amax", "amin": "amin"}
_NEUTRAL = {"sum": 0, "mean": 0, "prod": 1}


def _counts(grad: Tensor, dim: int, indices: Tensor, src: Layout, include_self: bool) -> Tensor:
    """How many values each element of a scatter_reduce is made of (at least one)."""
    base = (grad.new_ones if include_self else grad.new_zeros)(grad.layout.shape)
    counts = scatter_add(base, dim, indices, grad.new_ones(src.shape))
    return functions["masked_fill"](counts, counts == 0, 1)


def _excluded(grad: Tensor, dim: int, indices: Tensor, include_self: bool) -> Tensor:
    """No gradient for elements of ``self`` that took no part."""
    return grad if include_self else scatter(grad, dim, indices, 0)


def _sum_self(grad: Tensor, dim: int, indices: Tensor, include_self: bool) -> Tensor:
    return _excluded(grad, dim, indices, include_self)


def _mean_self(
    grad: Tensor, dim: int, indices: Tensor, src_layout: Layout, include_self: bool
) -> Tensor:
    shared = grad / _counts(grad, dim, indices, src_layout, include_self)
    return _excluded(shared, dim, indices, include_self)


def _mean_src(
    grad: Tensor, layout: Layout, dim: int, indices: Tensor, src_layout: Layout, include_self: bool
) -> Tensor:
    shared = grad / _counts(grad, dim, indices, src_layout, include_self)
    return _gathered(shared, layout, dim, indices)


def _prod_self(
    grad: Tensor, original: Tensor, src: Tensor, dim: int, indices: Tensor, include_self: bool
) -> Tensor:
    # The product of the others: as if a zero in `self` had been a one.
    ones = functions["masked_fill"](original, functions["eq"](original, 0), 1)
    others = scatter_reduce(ones, dim, indices, src, "prod", include_self=include_self) / ones
    return _excluded(grad * others, dim, indices, include_self)


def _prod_src(
    grad: Tensor,
    layout: Layout,
    original: Tensor,
    src: Tensor,
    result: Tensor,
    dim: int,
    indices: Tensor,
    include_self: bool,
) -> Tensor:
    equal = functions["eq"]
    zero = equal(src, 0)
    zeros = grad.new_zeros(grad.layout.shape)
    zeros = scatter_add(zeros, dim, indices, zero.to(grad.layout.dtype))
    single = _padded(equal(gather(zeros, dim, indices), 1), src.layout.shape)
    only = functions["logical_and"](zero, single)
    # Where it is the only zero of its product the gradient is the product of the others.
    others = scatter_reduce(
        original,
        dim,
        indices,
        functions["masked_fill"](src, only, 1),
        "prod",
        include_self=include_self,
    )
    plain = _gathered(grad * result, layout, dim, indices) / functions["masked_fill"](src, zero, 1)
    return functions["where"](only, _gathered(grad * others, layout, dim, indices), plain)


def _extreme_shares(
    grad: Tensor, original: Tensor, src: Tensor, result: Tensor, dim: int, indices: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Which elements are the extreme, of ``self`` and of ``src``, and each one's gradient."""
    d, equal = grad.layout.dtype, functions["eq"]
    of_self = equal(original, result).to(d)
    of_src = equal(_corner(src, indices.layout.shape), gather(result, dim, indices)).to(d)
    ties = scatter_add(of_self, dim, indices, of_src)
    return of_self, of_src, grad / ties


def _extreme_self(
    grad: Tensor,
    original: Tensor,
    src: Tensor,
    result: Tensor,
    dim: int,
    indices: Tensor,
    include_self: bool,
) -> Tensor:
    of_self, _, shared = _extreme_shares(grad, original, src, result, dim, indices)
    return _excluded(of_self * shared, dim, indices, include_self)


def _extreme_src(
    grad: Tensor,
    layout: Layout,
    original: Tensor,
    src: Tensor,
    result: Tensor,
    dim: int,
    indices: Tensor,
) -> Tensor:
    _, of_src, shared = _extreme_shares(grad, original, src, result, dim, indices)
    return _padded(of_src * gather(shared, dim, indices), layout.shape)


_FORMULAS: dict[str, dict[str, Callable[..., Any]]] = {
    "sum": {"self": _sum_self, "src": _gathered},
    "mean": {"self": _mean_self, "src": _mean_src},
    "prod": {"self": _prod_self, "src": _prod_src},
    "amax": {"self": _extreme_self, "src": _extreme_src},
    "amin": {"self": _extreme_self, "src": _extreme_src},
}
# `original` is `self` as it was before an in-place write.
_SCATTER_REDUCE = {
    how: node_class(
        structured(
            f"scatter_reduce_{how}",
            "self src original indices",
            grad=formulas,
            node="ScatterReduceBackward0",
        )
    )
    for how, formulas in _FORMULAS.items()
}


def _scatter_reduce(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Write:
    """Combine ``src[i][j]`` with the others that land on ``self[index[i][j]][j]`` (for ``dim=0``).

    Args:
        reduce: ``sum``, ``prod``, ``mean``, ``amax`` or ``amin``.
        include_self: whether what is there takes part; elements that no index names keep it in any
            case.

    Raises:
        RuntimeError: as :func:`scatter`, and for another ``reduce``.

    Gradient: that of the reduction; ``amax`` and ``amin`` split it evenly between ties.
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if not isinstance(src, Tensor):
        raise errors.argument("scatter_reduce", "src", "Tensor", src)
    dim, places = _check_scatter("scatter", self, dim, index, src)

    def run(to: Tensor) -> None:
        if not places.layout.numel:
            return
        if not include_self:
            neutral = _NEUTRAL[reduce] if reduce in _NEUTRAL else _worst(reduce, self.layout.dtype)
            move_along("put", to, dim, places, number_of(neutral, self.layout.dtype))
        move_along(_REDUCTIONS[reduce], to, dim, places, src)
        if reduce == "mean":
            counts = copied(constant(int(include_self)), dense_layout(to.layout.shape, int64))
            move_along("add", counts, dim, places, number_of(1, int64))
            functions["clamp_min"](counts, 1, out=counts)
            rounding = "div" if to.layout.dtype.category >= FLOATING else "floor_divide"
            copy_elements(functions[rounding](to.detach(), counts), to)

    attributes = {"dim": dim, "include_self": include_self, "src_layout": src.layout}
    return Write(_SCATTER_REDUCE[reduce], (self, src, self, index), attributes, run)


def _worst(reduce: str, d: dtype) -> Any:
    """The neutral element of a maximum or minimum."""
    if d.category >= FLOATING:
        return -np.inf if reduce == "amax" else np.inf
    if d.category == BOOL:
        return reduce == "amin"
    return d.lowest if reduce == "amax" else d.highest


scatter_reduce, _ = writer("scatter_reduce")(_scatter_reduce)


@functools.wraps(_scatter_reduce)
def scatter_reduce_(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    write = _scatter_reduce(self, dim, index, src, reduce, include_self=include_self)
    original = self
    if wants_grad(write.inputs) and "original" in write.cls.row.parameters["src"]:
        original = functions["clone"](self)
    if original is self:  # neither saved nor read
        original = make(self.storage, self.offset, dense_layout((0,), self.layout.dtype))
    return in_place(self, write._replace(inputs=(self, src, original, index)))


METHODS = (
    "gather take_along_dim scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_"
)
FUNCTIONS = "gather take_along_dim scatter scatter_add scatter_reduce"
