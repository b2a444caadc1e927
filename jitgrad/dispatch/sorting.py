"""Order: sort and what follows from it, search in sorted lines, distinct elements, histograms."""

from __future__ import annotations

from typing import Any

from .. import dtypes, errors, return_types
from ..autograd.cut import unrecorded
from ..kernels import sorting as kernels
from ..layout import dense_layout, normalize_dim
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .creation import arange, zeros
from .elementwise import functions
from .lines import cumsum
from .make import constant, dense, fresh, like_layout
from .plans import PlanCache
from .record import node_class, record
from .shape import cat
from .special import into, tensor_or_number
from .view import narrow, select, unsafe_view, unsqueeze

_f = functions
_plans = PlanCache()
_searches = PlanCache()


# Sorting ------------------------------------------------------------------------------------------
def _put_back(grad: Tensor, layout: Any, dim: int, indices: Tensor) -> Tensor:
    """The gradient of elements picked along ``dim``: added into zeros where they came from."""
    return grad.new_zeros(layout.shape).scatter_add(dim, indices, grad)


# One node for all that picks elements along a dimension; values are the first result.
def _picking(name: str, node: str) -> Any:
    return node_class(structured(name, "self", grad={"self": _put_back}, node=node))


_SORT = _picking("sort", "SortBackward0")
_TOPK = _picking("topk", "TopkBackward0")
_CUM = {name: _picking(name, f"{name.capitalize()}Backward0") for name in ("cummax", "cummin")}


def _sorted(self: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Sorted values and their indices; no history."""
    of = self.layout
    key = (of, dim, descending)
    plan = _plans.get(key)
    if plan is None:
        if of.dtype is not of.dtype.plain:
            return _sorted(convert.resolved(self), dim, descending)
        values, indices = like_layout(of), like_layout(of, dtypes.int64)
        program = kernels.plan_sort(of, dim, values, indices, descending)
        plan = _plans.add(key, (program, values, indices))
    program, values, indices = plan
    results = fresh(values), fresh(indices)
    buffers: list[Any] = []
    for t in (self, *results):
        buffers += (t.storage.buffer, t.offset)
    program.run(*buffers)
    return results


def _pair(name: str, self: Tensor, values: Tensor, indices: Tensor, out: Any) -> Any:
    kind = getattr(return_types, name)
    if out is not None:
        return kind((into(name, values, out[0], (self,)), into(name, indices, out[1], ())))
    return kind((values, indices))


def sort(
    self: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Every line along ``dim`` in order, and where its elements came from. Always stable.

    NaN counts as the largest.

    Gradient: the incoming one, put back where the elements came from.
    """
    dim = normalize_dim(dim, self.layout.ndim)
    values, indices = _sorted(self, dim, descending)
    record(_SORT, (self,), (values,), {"dim": dim, "indices": indices})
    return _pair("sort", self, values, indices, out)


def argsort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put every line along ``dim`` in order (int64)."""
    indices = _sorted(self, normalize_dim(dim, self.layout.ndim), descending)[1]
    unrecorded((self,), indices, "argsort() gives indices, which have no derivative")
    return indices


def msort(self: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sorted along the first dimension."""
    return into("msort", sort(self, 0)[0], out, (self,))


def topk(
    self: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: Any = None,
) -> Any:
    """The ``k`` largest (or smallest) elements of every line, in order, and where they are.

    Raises:
        RuntimeError: unless ``0 <= k <= size``.

    Gradient: the incoming one, put back where the elements came from.
    """
    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    if not 0 <= k <= (of.shape[dim] if of.ndim else 1):
        raise RuntimeError("selected index k out of range")
    values, indices = _sorted(self.detach(), dim, largest)
    if of.ndim:
        shape = (*of.shape[:dim], k, *of.shape[dim + 1 :])
        values, indices = (
            convert.copied(narrow(x, dim, 0, k), dense_layout(shape, x.layout.dtype))
            for x in (values, indices)
        )  # fmt: skip
    record(_TOPK, (self,), (values,), {"dim": dim, "indices": indices})
    return _pair("topk", self, values, indices, out)


# Order statistics ---------------------------------------------------------------------------------
def _at(grad: Tensor, layout: Any, dim: int, keepdim: bool, indices: Tensor) -> Tensor:
    if not keepdim and layout.ndim:
        grad, indices = unsqueeze(grad, dim), unsqueeze(indices, dim)
    return _put_back(grad, layout, dim, indices)


_STATISTICS = {
    name: node_class(structured(name, "self", grad={"self": _at}, node=f"{node}Backward0"))
    for name, node in (("kthvalue", "Kthvalue"), ("mode", "Mode"))
}
_MEDIANS = {
    name: node_class(structured(f"{name}_dim", "self", grad={"self": _at}, node=f"{node}Backward1"))
    for name, node in (("median", "Median"), ("nanmedian", "Nanmedian"))
}


def _evenly(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """The gradient shared evenly by the elements that are the median (or NaN, if it is)."""
    ties = _f["isnan"](self) if bool(_f["isnan"](result)) else _f["eq"](self, result.detach())
    return _f["where"](ties, _f["div"](grad, ties.sum()), 0)


_MEDIANS_OF_ALL = {
    name: node_class(structured(name, "self", grad={"self": _evenly}, node=f"{node}Backward0"))
    for name, node in (("median", "Median"), ("nanmedian", "Nanmedian"))
}


def _statistic(
    name: str,
    cls: Any,
    self: Tensor,
    picked: tuple[Tensor, Tensor],
    dim: int,
    keepdim: bool,
    out: Any,
) -> Any:
    """Values and indices of one place in every line, recorded; ``picked`` has the dimension."""
    values, indices = picked
    if not keepdim and self.layout.ndim:
        values, indices = (convert.clone(select(x, dim, 0)) for x in picked)
    values, indices = values.detach(), indices.detach()
    record(cls, (self,), (values,), {"dim": dim, "keepdim": keepdim, "indices": indices})
    return _pair(name, self, values, indices, out)


def kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The ``k``-th smallest element of every line (counted from 1), and where it is.

    Raises:
        RuntimeError: unless ``1 <= k <= size``.
    """
    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    size = of.shape[dim] if of.ndim else 1
    if of.ndim and size == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(dim))
    both = _sorted(self.detach(), dim, False)
    picked = tuple(narrow(x, dim, k - 1, 1) if of.ndim else x for x in both)
    return _statistic("kthvalue", _STATISTICS["kthvalue"], self, picked, dim, keepdim, out)  # type: ignore[arg-type]


def _middle(self: Tensor, dim: int, ignore_nan: bool) -> tuple[Tensor, Tensor]:
    """The lower median of every line and its index, the dimension kept."""
    values, indices = _sorted(self.detach(), dim, False)
    n = self.layout.shape[dim] if self.layout.ndim else 1
    if not self.layout.ndim:
        return values, indices
    if not self.is_floating_point():
        return narrow(values, dim, (n - 1) // 2, 1), narrow(indices, dim, (n - 1) // 2, 1)
    nans = _f["isnan"](values).sum(dim, keepdim=True)
    numbers = _f["rsub"](nans, n)
    lower = _f["div_floor"](_f["sub"](numbers, 1), 2)
    if ignore_nan:
        place = _f["clamp_min"](lower, 0)
    else:  # the first NaN, if there is one: they are last, in their old order
        place = _f["where"](_f["gt"](nans, 0), numbers, (n - 1) // 2)
    place = convert.to(place, dtypes.int64)
    return values.gather(dim, place), indices.gather(dim, place)


def _median(name: str, self: Tensor, dim: Any, keepdim: bool, out: Any) -> Any:
    if dim is None:
        flat = self.reshape(-1)
        if not flat.layout.numel:
            if not self.is_floating_point():
                raise RuntimeError("median() operation does not have an identity for empty input.")
            return into(name, self.new_full((), float("nan")), out, (self,))
        result = _median(name, flat.detach(), 0, False, None)[0]
        record(_MEDIANS_OF_ALL[name], (self,), (result,), {})
        return into(name, result, out, (self,))
    dim = normalize_dim(dim, self.layout.ndim)
    if self.layout.ndim and self.layout.shape[dim] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")
    picked = _middle(self, dim, name == "nanmedian")
    return _statistic(name, _MEDIANS[name], self, picked, dim, keepdim, out)


def median(self: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The lower median: of all elements, or of every line with its index; NaN if any is.

    Gradient: all of it to the element that was found.
    """
    return _median("median", self, dim, keepdim, out)


def nanmedian(self: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """:func:`median` of the elements that are numbers."""
    return _median("nanmedian", self, dim, keepdim, out)


def mode(self: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The most frequent element of every line (the smallest of several), and where it is last."""
    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    if of.ndim and of.shape[dim] == 0:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    values, indices = _sorted(self.detach(), dim, False)
    if of.ndim:
        kept = (*of.shape[:dim], *of.shape[dim + 1 :])
        value, index = dense(kept, of.dtype), dense(kept, dtypes.int64)
        program = kernels.plan_mode(
            values.layout, indices.layout, dim, (value.layout, index.layout)
        )
        buffers: list[Any] = []
        for t in (values, indices, value, index):
            buffers += (t.storage.buffer, t.offset)
        program.run(*buffers)
        values, indices = unsqueeze(value, dim), unsqueeze(index, dim)
    return _statistic("mode", _STATISTICS["mode"], self, (values, indices), dim, keepdim, out)


# Quantiles ----------------------------------------------------------------------------------------
def _quantile(
    name: str, self: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, out: Any
) -> Tensor:
    if not self.is_floating_point():
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if isinstance(q, Tensor):
        if q.layout.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
        if q.dtype is not self.dtype:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    else:
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = self.new_full((), q)
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    shape = self.layout.shape
    if dim is None:
        lines, rest = self.reshape(-1), (1,) * len(shape)
    else:
        dim = normalize_dim(dim, len(shape))
        lines = self.movedim(dim, -1) if shape else self.reshape(-1)
        rest = (*shape[:dim], 1, *shape[dim + 1 :]) if shape else ()
    n = lines.layout.shape[-1]
    if not n or not self.layout.numel:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    ordered = sort(lines, -1)[0]
    bad = _f["isnan"](ordered).sum(-1, keepdim=True)
    levels = q.reshape(-1)
    if name == "nanquantile":
        last = _f["rsub"](bad, n - 1)
        rank = _f["clamp_min"](_f["mul"](levels, last), 0)
    else:
        rank = _f["mul"](levels, n - 1).expand(*lines.layout.shape[:-1], levels.layout.shape[0])
        rank = _f["where"](_f["gt"](bad, 0), n - 1, rank)
    rank = convert.to(rank, self.layout.dtype)
    if interpolation in ("lower", "higher", "nearest"):
        rank = _f[{"lower": "floor", "higher": "ceil", "nearest": "round"}[interpolation]](rank)
    below = convert.to(rank, dtypes.int64)
    result = ordered.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        weight = _f["sub"](rank, below) if interpolation == "linear" else 0.5
        above = ordered.gather(-1, convert.to(_f["ceil"](rank), dtypes.int64))
        result = _f["lerp"](result, above, weight)
    if keepdim:
        result = result.reshape((*rest, levels.layout.shape[0]))
    if not q.layout.ndim:
        return into(name, unsafe_view(result, result.layout.shape[:-1]), out, (self,))
    return into(name, convert.clone(result.movedim(-1, 0)), out, (self,))


def quantile(
    self: Tensor,
    q: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The quantiles ``q`` (a number, or a vector that becomes the first dimension) of every line.

    Differentiable through the elements between which it interpolates.
    """
    return _quantile("quantile", self, q, dim, keepdim, interpolation, out)


def nanquantile(
    self: Tensor,
    q: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """:func:`quantile` of the elements that are numbers."""
    return _quantile("nanquantile", self, q, dim, keepdim, interpolation, out)


# Running extremes ---------------------------------------------------------------------------------
def running_extreme(name: str, self: Tensor, dim: int, out: Any) -> Any:
    """Values and indices of :func:`cummax` and :func:`cummin`."""
    from ..kernels import reduction as scans

    source = convert.resolved(self)
    of = source.layout
    dim = normalize_dim(dim, of.ndim)
    values, indices = dense(of.shape, of.dtype), dense(of.shape, dtypes.int64)
    if of.ndim:
        program = scans.plan_along(name, [of], dim, [values.layout, indices.layout])
        buffers: list[Any] = []
        for t in (source, values, indices):
            buffers += (t.storage.buffer, t.offset)
        program.run(*buffers)
    else:
        values, indices = _sorted(self.detach(), 0, False)
    record(_CUM[name], (self,), (values,), {"dim": dim, "indices": indices})
    return _pair(name, self, values, indices, out)


def cummax(self: Tensor, dim: int, *, out: Any = None) -> Any:
    """The largest element so far along ``dim``, and where it is (last). Gradient: to that place."""
    return running_extreme("cummax", self, dim, out)


def cummin(self: Tensor, dim: int, *, out: Any = None) -> Any:
    """The smallest element so far along ``dim``, and where it is (last)."""
    return running_extreme("cummin", self, dim, out)


# Searching ----------------------------------------------------------------------------------------
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Where values would have to be inserted to keep lines (the last dimension) sorted.

    Args:
        sorted_sequence: one sorted line, or one for every line of ``input``.
        right, side: after equal elements rather than before.
        sorter: indices that sort the lines, if they are not.
    """
    name = "torch.searchsorted()"
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name}: side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"{name}: side and right can't be set to opposites, got side of left while right was "
            "True"
        )
    lines = convert.resolved(sorted_sequence)
    of = lines.layout
    values = (
        convert.resolved(input)
        if isinstance(input, Tensor)
        else convert.copied(constant(input), dense_layout((), of.dtype))
    )
    if of.ndim == 0:
        raise RuntimeError(
            f"{name}: input value can be a scalar only when boundaries tensor dimension is 1 but "
            "the boundaries tensor dimension is 0"
        )
    if of.ndim > 1 and (values.layout.ndim != of.ndim or values.layout.shape[:-1] != of.shape[:-1]):
        raise RuntimeError(
            f"{name}: boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(of.shape)} and input value tensor {list(values.layout.shape)}"
        )
    if values.dtype is not of.dtype.plain:
        raise RuntimeError(
            f"{name}: input value tensor and boundary tensor should have same dtype, but got "
            f"boundary tensor dtype {of.dtype.name} and input value tensor dtype "
            f"{values.layout.dtype.name}"
        )
    if sorter is not None:
        if sorter.layout.shape != of.shape:
            raise RuntimeError(
                f"{name}: boundary and sorter must have the same size, but got boundary tensor "
                f"{list(of.shape)} and got sorter tensor {list(sorter.layout.shape)}"
            )
        if sorter.layout.dtype is not dtypes.int64:
            raise RuntimeError(
                f"{name}: sorter must be a tensor of long dtype but got dtype "
                f"{sorter.layout.dtype.name}"
            )
        if sorter.layout.numel and (int(sorter.min()) < 0 or int(sorter.max()) >= of.shape[-1]):
            raise RuntimeError(f"{name}: sorter index out of range")
    wanted = dtypes.int32 if out_int32 else dtypes.int64
    if out is not None and out.layout.dtype is not wanted:
        raise RuntimeError(
            f"{name}: output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) "
            "depending on whether out_int32 flag is True"
        )
    right = right or side == "right"
    key = (values.layout, of, None if sorter is None else sorter.layout, right)
    plan = _searches.get(key)
    if plan is None:
        plan = _searches.add(key, kernels.plan_search(*key)[0])
    run, spec = plan
    result = dense(values.layout.shape, dtypes.int64)
    order = lines if sorter is None else sorter
    run(
        spec,
        values.storage.buffer,
        values.offset,
        lines.storage.buffer,
        lines.offset,
        order.storage.buffer,
        order.offset,
        result.storage.buffer,
        result.offset,
    )
    return into("searchsorted", convert.to(result, wanted), out, ())


def bucketize(
    input: Any,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The bucket of every value: its place among sorted ``boundaries`` (a vector)."""
    if boundaries.layout.ndim != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.layout.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether every element is among ``test_elements``."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise errors.argument("isin", "elements", "Tensor", elements)
    known = tensor_or_number("isin", "test_elements", test_elements).reshape(-1)
    asked = tensor_or_number("isin", "elements", elements)
    if not known.layout.numel:
        found = asked.new_full(asked.layout.shape, invert, dtype=dtypes.bool_)
        return into("isin", found, out, ())
    found = _f["eq"](unsqueeze(asked, -1), known).any(-1)
    return into("isin", _f["logical_not"](found) if invert else found, out, ())


# Distinct elements --------------------------------------------------------------------------------
def _rows_of(self: Tensor, dim: int) -> Tensor:
    """The slices along ``dim`` as the rows of a matrix."""
    moved = self.movedim(dim, 0)
    return moved.reshape(moved.layout.shape[0], -1) if moved.layout.numel else moved


def _starts(rows: Tensor) -> Tensor:
    """For each element (or row) whether it differs from the one before; the first does."""
    n = rows.layout.shape[0]
    differs = _f["ne"](narrow(rows, 0, 1, n - 1), narrow(rows, 0, 0, n - 1))
    if differs.layout.ndim > 1:
        differs = differs.any(1)
    return cat([differs.new_ones((1,), dtype=dtypes.bool_), differs])


def _runs(starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where runs start, which run every element is in, how long the runs are."""
    places = starts.nonzero().reshape(-1)
    n = starts.layout.shape[0]
    ends = cat([narrow(places, 0, 1, places.layout.shape[0] - 1), places.new_full((1,), n)])
    return places, _f["sub"](cumsum(starts, 0), 1), _f["sub"](ends, places)


def _answers(values: Tensor, inverse: Tensor, counts: Tensor, wanted: tuple[Any, Any]) -> Any:
    given = (values, *(x for x, want in zip((inverse, counts), wanted, strict=True) if want))
    return given if len(given) > 1 else values


def unique(
    self: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in order (or slices along ``dim``), where each went, and how often.

    No gradient.
    """
    wanted = (return_inverse, return_counts)
    source = self.detach()
    if dim is None:
        flat, along = source.reshape(-1), 0
        order = argsort(flat, 0)
    else:
        along = normalize_dim(dim, self.layout.ndim)
        flat = _rows_of(source, along)
        order = arange(flat.layout.shape[0])
        if self.layout.numel:
            for column in reversed(range(flat.layout.shape[1])):
                keys = select(flat, 1, column).index_select(0, order)
                order = order.index_select(0, argsort(keys, 0))
    n = flat.layout.shape[0]
    if not flat.layout.numel:
        if dim is not None and n:
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
                "applied"
            )
        none = zeros(self.layout.shape if dim is None else (0,), dtype=dtypes.int64)
        empty = self.new_empty((0,)) if dim is None else convert.clone(source)
        return _answers(empty, none, zeros((0,), dtype=dtypes.int64), wanted)
    places, runs, counts = _runs(_starts(flat.index_select(0, order)))
    first = order.index_select(0, places)
    inverse = dense((n,), dtypes.int64).scatter(0, order, runs)
    if dim is None:
        inverse = unsafe_view(inverse, self.layout.shape)
        return _answers(flat.index_select(0, first), inverse, counts, wanted)
    return _answers(source.index_select(along, first), inverse, counts, wanted)


def unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of every run of equal elements (or slices along ``dim``); see :func:`unique`."""
    wanted = (return_inverse, return_counts)
    source = self.detach()
    along = None if dim is None else normalize_dim(dim, self.layout.ndim)
    flat = source.reshape(-1) if along is None else _rows_of(source, along)
    if not flat.layout.numel:
        none = zeros(self.layout.shape if dim is None else (0,), dtype=dtypes.int64)
        return _answers(
            self.new_empty((0,)) if dim is None else convert.clone(source),
            none,
            zeros((0,), dtype=dtypes.int64),
            wanted,
        )
    places, runs, counts = _runs(_starts(flat))
    if along is None:
        values, runs = flat.index_select(0, places), runs.reshape(self.layout.shape)
    else:
        values = source.index_select(along, places)
    return _answers(values, runs, counts, wanted)


# Histograms ---------------------------------------------------------------------------------------
def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2 ... occurs in a vector of integers, or the sum of their weights.

    Raises:
        RuntimeError: for negative elements, or weights of another size.
    """
    of = self.layout
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if of.dtype.category > dtypes.INTEGER:
        raise NotImplementedError(
            f"\"bincount_cpu\" not implemented for '{of.dtype.tensor_type.removesuffix('Tensor')}'"
        )
    if of.ndim != 1 or (of.numel and int(self.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.layout.shape != of.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    size = max(int(self.max()) + 1 if of.numel else 0, minlength)
    if weights is None or not of.numel:
        weights = self.new_ones(of.shape, dtype=dtypes.int64)
    elif weights.layout.dtype is not dtypes.float32:
        weights = convert.to(weights, dtypes.float64)
    counts = zeros((size,), dtype=weights.layout.dtype)
    return counts.index_add(0, convert.to(self, dtypes.int64), weights.detach())


def histc(
    self: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of ``[min, max]``, by default of the
    data's own range."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    flat = self.detach().reshape(-1)
    if min == max and flat.layout.numel:
        low, high = (float(x) for x in (flat.min(), flat.max()))
    else:
        low, high = float(min), float(max)
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    if low > high:
        raise RuntimeError("max must be larger than min")
    inside = flat[_f["logical_and"](_f["ge"](flat, low), _f["le"](flat, high))]
    place = _f["div"](_f["mul"](_f["sub"](inside, low), bins), high - low)
    place = _f["clamp_max"](convert.to(place, dtypes.int64), bins - 1)
    counts = zeros((bins,), dtype=self.layout.dtype)
    counts = counts.index_add(0, place, inside.new_ones(inside.layout.shape))
    return into("histc", counts, out, (self,))


METHODS = (
    "sort argsort msort topk kthvalue median nanmedian mode quantile nanquantile cummax cummin "
    "unique unique_consecutive bincount histc"
)
FUNCTIONS = METHODS + " searchsorted bucketize isin"
