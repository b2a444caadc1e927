"""Rows of a table by number: embedding, and sums, means and maxima of bags of them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import errors
from ..autograd.grad_mode import no_grad
from ..dtypes import dtype, from_numpy, int32, int64
from ..kernels import bags as kernels
from ..layout import Layout, dense_layout
from ..ops.table import structured
from ..state import modes
from ..storage import Storage
from ..tensor import Tensor, make
from .convert import copy_elements, resolved, to
from .creation import full
from .elementwise import functions
from .make import alias, dense, number
from .places import as_long, extremes, first_outside, launch, move_rows
from .record import node_class
from .reduction import max as largest
from .reduction import sum as sum_of
from .reduction import vector_norm
from .rows import index_select
from .scatter import scatter_add
from .view import narrow, reshape
from .writes import record_indexed

_MEAN, _SUM, _MAX = "mean", "sum", "max"
MODES = (_SUM, _MEAN, _MAX)  # by PyTorch's numbers


def _indices(name: str, index: Any) -> Tensor:
    """The row numbers of a call as an int64 vector; RuntimeError for another dtype."""
    if not isinstance(index, Tensor):
        raise errors.argument(name, "indices", "Tensor", index)
    d = index.layout.dtype
    if d is not int64 and d is not int32:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got jitgrad.{d.tensor_type} instead (while checking arguments for "
            f"{name})"
        )
    places = as_long(index)
    if places.layout.ndim == 1:
        return places
    return reshape(alias(places), (-1,)) if places.layout.numel else dense((0,), int64)


def _zeros(shape: tuple[int, ...], d: dtype) -> Tensor:
    of = dense_layout(shape, d)
    return make(Storage(np.zeros(of.nbytes, np.uint8)), 0, of)


def _owned(values: np.ndarray) -> Tensor:
    """A fresh NumPy array, which nobody else holds, as a tensor."""
    of = dense_layout(values.shape, from_numpy(values.dtype))
    return make(Storage(values.reshape(-1).view(np.uint8)), 0, of)


def _refuse_sparse(name: str, sparse: bool) -> None:
    if sparse:
        raise NotImplementedError(
            f"{name}(): jitgrad has no sparse tensors, so the gradient is dense: pass sparse=False"
        )


# Gradients ----------------------------------------------------------------------------------------
def _shares(places: Tensor, rows: int, d: dtype) -> Tensor:
    """1 / how often each of the places occurs, as a column."""
    counts = np.bincount(places._array(), minlength=max(rows, 1))
    per_place = d.encode(1.0 / counts[places._array()])
    return make(Storage(per_place.view(np.uint8)), 0, dense_layout((len(per_place), 1), d))


def _lookup_gradient(
    grad: Tensor, layout: Layout, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """The gradient of a table: those of its rows, added up; none for the padding."""
    places = _indices("embedding", indices)
    result = _zeros(layout.shape, layout.dtype)
    values = reshape(alias(grad), (places.layout.numel, layout.shape[1]))
    if scale_grad_by_freq:
        values = functions["mul"](values, _shares(places, layout.shape[0], layout.dtype))
    move_rows("add", result, 0, places, values)
    if 0 <= padding_idx < layout.shape[0]:
        result._array()[padding_idx] = 0
    attributes = {"padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
    record_indexed(_BACKWARD, (grad, indices), result, attributes)
    return result


def _gradient_of_gradient(
    grad: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    result = embedding(grad, indices)
    shape = (*indices.layout.shape, 1)
    if scale_grad_by_freq:
        shares = _shares(_indices("embedding", indices), grad.layout.shape[0], grad.layout.dtype)
        result = result * reshape(shares, shape)
    if padding_idx >= 0:
        result = result * reshape(functions["ne"](indices, padding_idx), shape)
    return result


_EMBEDDING = node_class(
    structured(
        "embedding",
        "weight indices",
        grad={"weight": _lookup_gradient},
        jvp={"weight": lambda tangent, indices: embedding(tangent, indices)},
        fresh=True,
    )
)
_BACKWARD = node_class(
    structured(
        "embedding_dense_backward",
        "grad_output indices",
        grad={"grad_output": _gradient_of_gradient},
        node="EmbeddingDenseBackwardBackward0",
        fresh=True,
    )
)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of a table that ``indices`` name: ``weight[indices]``.

    Args:
        weight: [rows, size].
        indices: int64 or int32, of any shape.
        padding_idx: a row that gets no gradient; none if it is negative.
        scale_grad_by_freq: divide each row's gradient by how often it is named.
        sparse: must be False.

    Raises:
        IndexError: for a number that is no row's.
        RuntimeError: for a table that is no matrix, or indices of another dtype.

    Gradient: the incoming rows, added up where they came from.
    """
    _refuse_sparse("embedding", sparse)
    table = weight.layout
    if table.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, got shape {list(table.shape)} in embedding()")
    places = _indices("embedding", indices)
    count = places.layout.numel
    if count:
        low, high = extremes(places)
        if low < 0 or high >= table.shape[0]:
            bad = first_outside(places, 0, table.shape[0])
            raise IndexError(
                f"index out of range in self: row {bad} of a table of {table.shape[0]} rows in "
                "embedding()"
            )
    result = dense((*indices.layout.shape, table.shape[1]), table.dtype)
    rows = make(result.storage, 0, dense_layout((count, table.shape[1]), table.dtype))
    move_rows("take", weight, 0, places, rows)
    if weight.tracked is not False or modes.levels:
        attributes = {"padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
        record_indexed(_EMBEDDING, (weight, indices), result, attributes)
    return result


def embedding_renorm_(
    self: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Shrink the named rows whose p-norm is above ``max_norm`` to it, in place."""
    with no_grad():
        named = np.unique(_indices("embedding_renorm_", indices)._array())
        places = _owned(named)
        rows = index_select(self, 0, places)
        norms = vector_norm(rows, norm_type, 1, True)
        scale = functions["where"](norms > max_norm, max_norm / (norms + 1e-7), norms * 0 + 1)
        move_rows("put", self, 0, places, functions["mul"](rows, scale))
        self.counter.version += 1
        self.counter.writer = errors.writer("embedding_renorm_")
    return self


# Bags ---------------------------------------------------------------------------------------------
# For each index the bag it is in, and what its row is multiplied by: a sum's weight, a mean's
# 1 / count, 0 for padding. Rows of a maximum are found once, as numbers: [bags, size].
def _added(
    source: Tensor, taken: Tensor, factors: Tensor, given: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Zeros to whose rows ``given`` the rows ``taken`` of ``source`` are added, times factors."""
    result = _zeros(shape, source.layout.dtype.compute)
    source, factors = resolved(source), resolved(factors)
    operands = (source, taken, factors, given)
    build = functools.partial(kernels.plan, *(x.layout for x in operands))
    launch(("bags", *(x.layout for x in operands)), build, *operands, result)
    return to(result, source.layout.dtype)


def _spread(grad: Tensor, bags: Tensor, factors: Tensor) -> Tensor:
    return index_select(grad, 0, bags) * reshape(factors, (-1, 1))


def _bag_gradient(
    grad: Tensor, layout: Layout, per_sample_weights: Tensor, indices: Tensor, mode: str,
    bags: Tensor, factors: Tensor, padding_idx: int, scale_grad_by_freq: bool,
) -> Tensor:  # fmt: skip
    if mode == _MAX:
        chosen = factors
        padded = _zeros((layout.shape[0] + 1, layout.shape[1]), layout.dtype)
        return scatter_add(padded, 0, chosen, grad)[: layout.shape[0]].clone()
    factors = factors * per_sample_weights
    if not modes.mode and not scale_grad_by_freq:
        return _added(grad, bags, factors, indices, layout.shape)
    values = _spread(grad, bags, factors)
    return _lookup_gradient(values, layout, indices, padding_idx, scale_grad_by_freq)


def _weights_gradient(
    grad: Tensor, weight: Tensor, layout: Layout, indices: Tensor, bags: Tensor, factors: Tensor
) -> Tensor:
    rows = index_select(weight, 0, _indices("embedding_bag", indices))
    return reshape(sum_of(_spread(grad, bags, factors) * rows, 1), layout.shape)


_BAG = node_class(
    structured(
        "embedding_bag",
        "weight per_sample_weights indices",
        grad={"weight": _bag_gradient, "per_sample_weights": _weights_gradient},
        fresh=True,
    )
)


def even_offsets(bags: int, length: int) -> Tensor:
    """Where bags of the same length start."""
    return _owned(np.arange(bags) * length)


def _count_bags(offsets: Tensor, count: int, include_last: bool) -> int:
    """How many bags there are; RuntimeError for offsets that are none of ``count`` indices."""
    starts = offsets._array()
    if starts.size and starts[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {starts[0]}"
        )
    if starts.size and starts[-1] > count:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of "
            f"{starts[-1]}"
        )
    if include_last:
        if not starts.size:
            raise RuntimeError("include_last_offset: number of offsets should be at least 1")
        return len(starts) - 1
    return len(starts)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int | str = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums, means or maxima of bags of rows; the first result is what counts.

    Args:
        weight: [rows, size].
        indices: the row numbers of all bags, one after the other.
        offsets: where in ``indices`` each bag starts.
        mode: 0 (sum), 1 (mean) or 2 (max).
        per_sample_weights: what rows are multiplied by, for sums.
        include_last_offset: whether ``offsets`` ends with the number of indices.
        padding_idx: a row that counts for nothing.

    Returns:
        the result [bags, size]; then, as in PyTorch, the indices' bags, the bags' sizes, and the
        indices of maxima.

    Raises:
        RuntimeError: for offsets or row numbers out of range, or dtypes that do not fit.

    Gradient: each row gets what its bags get, times its part in them.
    """
    _refuse_sparse("embedding_bag", sparse)
    name, table = "embedding_bag", weight.layout
    how = mode if isinstance(mode, str) else MODES[mode]
    places, count = _indices(name, indices), indices.layout.numel
    rows, size = table.shape
    if (
        per_sample_weights is not None
        and per_sample_weights.layout.dtype.plain is not table.dtype.plain
    ):
        theirs = per_sample_weights.layout.dtype.tensor_type
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type jitgrad.{table.dtype.tensor_type} does not equal "
            f"jitgrad.{theirs} (while checking arguments for embedding_bag)"
        )
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, "
                f"but got {padding_idx}"
            )
        padding_idx %= rows
    padding = -1 if padding_idx is None else padding_idx
    if count:
        low, high = extremes(places)
        if low < 0 or high >= rows:
            bad = first_outside(places, 0, rows)
            at = int(np.flatnonzero(places._array() == bad)[0])
            raise RuntimeError(
                f"Index {at} of input takes value {bad} which is not in the valid range [0, {rows})"
            )
    starts = _indices(name, offsets)
    bags = _count_bags(starts, count, include_last_offset)
    d = table.dtype.compute
    bag_of, counts, parts = dense((count,), int64), dense((bags,), int64), dense((count,), d)
    given = places.layout, starts.layout, bags, padding, how == _MEAN, d
    build = functools.partial(kernels.number_plan, *given)
    launch(("numbers", *given), build, places, starts, bag_of, counts, parts)
    chosen = dense((0,), int64)
    if how == _MAX:
        result, factors = _maxima(weight, places, bag_of._array(), parts._array() != 0, bags)
        chosen = factors
    else:
        every = how == _SUM and padding < 0 and bags  # without bags no index is in one
        factors = number(1, table.dtype) if every else to(parts, table.dtype)
        scale = factors if per_sample_weights is None else factors * per_sample_weights.detach()
        result = _added(alias(weight), places, scale, bag_of, (bags, size))
    weights: Any = per_sample_weights
    if weights is None:
        weights = number(1, table.dtype)
    attributes = {
        "mode": how,
        "bags": bag_of,
        "factors": factors,
        "padding_idx": padding,
        "scale_grad_by_freq": scale_grad_by_freq,
    }
    record_indexed(_BAG, (weight, weights, places), result, attributes)
    return result, bag_of, counts, chosen


def _maxima(
    weight: Tensor, places: Tensor, numbers: np.ndarray, kept: np.ndarray, bags: int
) -> tuple[Tensor, Tensor]:
    """The largest elements of the bags' rows, and which rows' they are (``rows``: no row's)."""
    rows, size = weight.layout.shape
    order = numbers[kept]
    counts = np.bincount(order, minlength=max(bags, 1))[:bags]
    width = max(int(counts.max(initial=0)), 1)
    starts = np.cumsum(counts) - counts
    table = np.full((bags, width), rows)  # row numbers, bag by bag
    table[order, np.arange(len(order)) - starts[order]] = places._array()[kept]
    lowest = full((rows + 1, size), -math.inf, dtype=weight.layout.dtype)
    copy_elements(weight, narrow(lowest, 0, 0, rows))
    gathered = embedding(lowest, _owned(table))
    best, at = largest(gathered, 1)
    named = np.take_along_axis(table, at._array(), 1)
    found = _owned(named)
    result = functions["where"](
        functions["eq"](found, rows), _zeros((bags, size), best.layout.dtype), best
    )
    return result, found


FUNCTIONS = "embedding embedding_renorm_ embedding_bag"
