"""Shapes, order, positions and sets, by the signatures of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import dtypes
from ..dispatch import rearrange, rows, scatter, shape, sorting, split, view
from ..dispatch.convert import clone, to
from ..dispatch.creation import arange, full
from ..layout import normalize_dim
from ..tensor import Tensor
from ._dtypes import result_type

_Axis = int | tuple[int, ...] | None


# Shapes -------------------------------------------------------------------------------------------
def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays expanded to their common shape."""
    return list(shape.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """``x`` expanded to a shape."""
    return view.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays joined along an axis; flattened first if that is None."""
    d = result_type(*arrays)
    parts = [to(x, d) for x in arrays]
    if axis is None:
        return shape.cat([x.reshape((-1,)) for x in parts], 0)
    return shape.cat(parts, axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A new axis of size 1.

    Raises:
        IndexError: for a position out of range.
    """
    return view.unsqueeze(x, axis)


def flip(x: Tensor, /, *, axis: _Axis = None) -> Tensor:
    """The elements in reverse order along an axis, several, or all."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return rearrange.flip(x, tuple(axes))


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes moved to other positions."""
    return view.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order."""
    return view.permute(x, tuple(axes))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError("matrix_transpose() needs at least two dimensions")
    return view.transpose(x, -2, -1)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Every element repeated, as often as a number or an array of numbers says."""
    return rearrange.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape: a view if possible, unless ``copy`` says otherwise.

    Raises:
        ValueError: with ``copy=False`` where it takes a copy.
    """
    result = view.reshape(x, tuple(shape))
    if copy is False and result.storage is not x.storage:
        raise ValueError("reshape(): this needs a copy, which copy=False does not allow")
    return clone(result) if copy and result.storage is x.storage else result


def roll(x: Tensor, /, shift: Any, *, axis: _Axis = None) -> Tensor:
    """The elements moved along axes, those pushed out entering at the other end."""
    return rearrange.roll(x, shift) if axis is None else rearrange.roll(x, shift, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Axes of size 1 removed.

    Raises:
        ValueError: for an axis of another size.
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        if x.shape[normalize_dim(a, x.ndim)] != 1:
            raise ValueError(f"squeeze(): axis {a} has size {x.shape[a]}, not 1")
    return view.squeeze(x, axes)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    d = result_type(*arrays)
    return shape.stack([to(x, d) for x in arrays], axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole array repeated along its axes."""
    return rearrange.tile(x, tuple(repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return split.unbind(x, axis)


# Positions ----------------------------------------------------------------------------------------
def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices along an axis that an array of indices names, negative ones from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take(): an axis is needed for an array of {x.ndim} dimensions")
        axis = 0
    axis = normalize_dim(axis, x.ndim)
    size = x.shape[axis]
    flat = to(indices, dtypes.int64).reshape((-1,))
    flat = (flat < 0) * size + flat
    result = rows.index_select(x, axis, flat)
    return result.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For every line along an axis the elements at its line of indices."""
    size = x.shape[axis]
    wanted = to(indices, dtypes.int64)
    return scatter.take_along_dim(x, (wanted < 0) * size + wanted, axis)


# Order --------------------------------------------------------------------------------------------
def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort along an axis; equal elements keep their order."""
    return sorting.argsort(x, axis, descending, stable=True)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    return sorting.sort(x, axis, descending, stable=True)[0]


# Sets ---------------------------------------------------------------------------------------------
class UniqueAll(NamedTuple):
    """Distinct values, where each is first, where every element went, and how often."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values, and how often each is there."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values, and where every element went among them."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values in order, with all that is known of them. Every NaN is distinct."""
    values, inverse, counts = sorting.unique(x, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(x.shape)
    count = x.numel()
    first = full((values.numel(),), count, dtype=dtypes.int64)
    first = first.scatter_reduce(0, inverse.reshape((-1,)), arange(count), "amin")
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values in order, and how often each is there."""
    values, counts = sorting.unique(x, return_counts=True)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values in order, and where every element went among them."""
    values, inverse = sorting.unique(x, return_inverse=True)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values in order."""
    return sorting.unique(x)


NAMES = (
    "argsort broadcast_arrays broadcast_to concat expand_dims flip matrix_transpose moveaxis "
    "permute_dims repeat reshape roll sort squeeze stack take take_along_axis tile unique_all "
    "unique_counts unique_inverse unique_values unstack"
)
FUNCTIONS: dict[str, Any] = {name: globals()[name] for name in NAMES.split()}
