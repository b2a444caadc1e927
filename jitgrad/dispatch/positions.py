"""Row-major positions and masks: take, put, masked_select, masked_scatter, nonzero, one_hot."""

from __future__ import annotations

import functools
from typing import Any

from .. import errors
from ..dtypes import bool_, int64
from ..kernels import index as kernels
from ..layout import (
    Layout,
    broadcast_shapes,
    contiguous_strides,
    dense_layout,
    layout,
)
from ..ops.table import structured
from ..tensor import Tensor, make
from .convert import copied
from .elementwise import functions, prepare_out
from .make import constant, dense
from .places import (
    MASKS,
    Indexed,
    coordinates,
    count_true,
    extremes,
    finished,
    first_outside,
    launch,
    legacy_name,
    lined,
    move_along,
    move_flat,
    number_of,
    output,
    true_places,
)
from .record import node_class
from .shape import cat
from .view import view_of
from .writes import Write, writer


# Flat positions -----------------------------------------------------------------------------------
def _flat(of: Layout, index: Tensor) -> Indexed:
    """Where row-major positions point in a tensor of any strides; negative ones wrap."""
    at, numel = index.layout, of.numel
    low, high = extremes(index)
    if at.numel and (low < -numel or high >= numel):
        raise IndexError(
            f"out of range: tried to access index {first_outside(index, -numel, numel)} on a tensor"
            f" of {numel} elements."
        )
    if of.contiguous and low >= 0:
        return Indexed((), at.shape, index, 1, ())
    places = dense(at.shape, int64)
    launch(
        ("unravel", of, at),
        lambda: kernels.one_by_one(
            "unravel",
            at.shape,
            at.strides,
            places.layout.strides,
            *kernels.unravel(of.shape, of.strides),
        ),
        index,
        places,
    )
    return Indexed((), at.shape, places, 1, ())


def _check_flat(name: str, index: Any) -> None:
    if not isinstance(index, Tensor):
        raise errors.argument(name, "index", "Tensor", index)
    if index.layout.dtype is not int64:
        raise RuntimeError(
            f"{name}(): Expected a long tensor for index, but got {legacy_name(index.layout.dtype)}"
        )


def _taken_adjoint(grad: Tensor, layout: Layout, indices: Tensor) -> Tensor:
    return put(grad.new_zeros(layout.shape), indices, grad, accumulate=True)


_TAKE = node_class(
    structured(
        "take",
        "self indices",
        grad={"self": _taken_adjoint},
    )
)


def take(self: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements at row-major positions, in the shape of ``index``; negative ones wrap.

    Raises:
        IndexError: for a position out of bounds.
        RuntimeError: for an index that is not int64.

    Gradient: the incoming one, added into zeros at the same positions.
    """
    _check_flat("take", index)
    if not self.layout.numel and index.layout.numel:
        raise IndexError("take(): tried to take from an empty tensor")
    indexed = _flat(self.layout, index)
    result = output("take", (self, index), index.layout.shape, self.layout.dtype, out)
    move_flat("take", self, indexed, result)
    return finished(_TAKE, (self, index), result, {}, out)


def _put_self(grad: Tensor, layout: Layout, indices: Tensor, accumulate: bool) -> Tensor:
    if accumulate:
        return grad
    return put(grad, indices, grad.new_zeros(indices.layout.shape))


_PUT = node_class(
    structured(
        "put",
        "self source indices",
        grad={
            "self": _put_self,
            "source": lambda grad, layout, indices: take(grad, indices).reshape(layout.shape),
        },
    )
)


def _put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Write:
    """Write the elements of ``source`` to row-major positions; negative ones wrap.

    Args:
        source: of the dtype of ``self``, with as many elements as ``index``.
        accumulate: add instead; duplicates then add up.

    Raises:
        IndexError: for a position out of bounds, or another number of elements.
        RuntimeError: for another dtype.

    Gradient: zero where it was overwritten; ``source`` gets what is at its positions.
    """
    _check_flat("put_", index)
    if not isinstance(source, Tensor):
        raise errors.argument("put_", "source", "Tensor", source)
    of, at, given = self.layout, index.layout, source.layout
    if given.dtype.plain is not of.dtype.plain:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{legacy_name(of.dtype)} and source.dtype = {legacy_name(given.dtype)}"
        )
    if at.numel != given.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {given.numel}, index.numel() = {at.numel}"
        )
    indexed = _flat(of, index)
    values = source.detach().reshape(at.shape)

    def run(to: Tensor) -> None:
        found = indexed if to.layout is of else _flat(to.layout, index)
        move_flat("add" if accumulate else "put", to, found, values)

    return Write(_PUT, (self, source, index), {"accumulate": accumulate}, run)


put, put_ = writer("put", preserve=True)(_put)


# Masks --------------------------------------------------------------------------------------------
def _check_bool(name: str, mask: Any, words: str) -> None:
    if not isinstance(mask, Tensor):
        raise errors.argument(name, "mask", "Tensor", mask)
    if mask.layout.dtype is not bool_:
        raise RuntimeError(words)


def _masked_adjoint(grad: Tensor, layout: Layout, mask: Tensor) -> Tensor:
    shape = broadcast_shapes(layout.shape, mask.layout.shape)
    zeros = grad.new_zeros(shape)
    return masked_scatter(zeros, mask, grad).sum_to_size(layout.shape)


_MASKED_SELECT = node_class(
    structured("masked_select", "self mask", grad={"self": _masked_adjoint})
)


def masked_select(self: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where ``mask`` (broadcast with ``self``) is true, as a vector in order.

    Raises:
        RuntimeError: for a mask that is not bool, or does not broadcast.

    Gradient: the incoming one, put where it came from.
    """
    _check_bool("masked_select", mask, "masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(mask.layout.shape, self.layout.shape)
    source = view_of(self.detach(), "expand", (shape,))
    places = true_places(view_of(mask, "expand", (shape,)), source.layout.strides)
    result = output("masked_select", (self, mask), places.layout.shape, self.layout.dtype, out)
    move_flat("take", source, Indexed((), places.layout.shape, places, 1, ()), result)
    return finished(_MASKED_SELECT, (self, mask), result, {}, out)


def _masked_source(grad: Tensor, layout: Layout, mask: Tensor) -> Tensor:
    """What the mask took of a source: its first elements, in order."""
    found = masked_select(grad, mask)
    missing = layout.numel - found.layout.numel
    if missing:
        rest = grad.new_zeros((missing,))
        found = cat((found, rest))
    return found.reshape(layout.shape)


_MASKED_SCATTER = node_class(
    structured(
        "masked_scatter",
        "self source mask",
        grad={
            "self": lambda grad, layout, mask: functions["masked_fill"](grad, mask, 0).sum_to_size(
                layout.shape
            ),
            "source": _masked_source,
        },
    )
)


def _masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Write:
    """The elements of ``source``, one after the other, written where ``mask`` is true.

    Raises:
        RuntimeError: for a mask that is not bool or does not broadcast to ``self``, a source of
            another dtype, or one with fewer elements than the mask has true ones.

    Gradient: zero where it was overwritten; the elements that ``source`` gave get theirs.
    """
    words = f"masked_scatter_ only supports boolean masks, but got mask with dtype {'{}'}"
    kind = legacy_name(mask.layout.dtype) if isinstance(mask, Tensor) else ""
    _check_bool("masked_scatter", mask, words.format(kind))
    if not isinstance(source, Tensor):
        raise errors.argument("masked_scatter", "source", "Tensor", source)
    of = self.layout
    if source.layout.dtype.plain is not of.dtype.plain:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{legacy_name(of.dtype)} and {legacy_name(source.layout.dtype)}"
        )
    over = view_of(mask, "expand", (of.shape,))
    if count_true(over) > source.layout.numel:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    values = source.detach().reshape((-1,))

    def run(to: Tensor) -> None:
        places = true_places(over, to.layout.strides)
        count = places.layout.numel
        first = make(values.storage, values.offset, layout((count,), (1,), values.layout.dtype))
        if values.layout.strides != (1,):
            first = view_of(values, "slice", (0, 0, count, 1))
        move_flat("put", to, Indexed((), (count,), places, 1, ()), first)

    return Write(_MASKED_SCATTER, (self, source, mask), {}, run, may_share=True)


_masked_scatter_same, masked_scatter_ = writer("masked_scatter")(_masked_scatter)


@functools.wraps(_masked_scatter)
def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    # Out of place `self` broadcasts to the mask as well.
    if isinstance(mask, Tensor):
        shape = broadcast_shapes(self.layout.shape, mask.layout.shape)
        if shape != self.layout.shape:
            self = view_of(self, "expand", (shape,))
    return _masked_scatter_same(self, mask, source)


masked_scatter.__name__ = masked_scatter.__qualname__ = "masked_scatter"


# Where something is -------------------------------------------------------------------------------
def nonzero(self: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """The coordinates of the elements that are not zero, in row-major order.

    Returns:
        An int64 tensor ``[count, ndim]``; with ``as_tuple`` one vector per dimension (fit to index
        with), where a 0-d tensor counts as a vector. No gradient.
    """
    source = lined(self) if as_tuple else self
    mask = source if source.layout.dtype in MASKS else functions["ne"](source.detach(), 0)
    shape = source.layout.shape
    found = coordinates(true_places(mask, contiguous_strides(shape)), shape)
    if as_tuple:
        return tuple(found.unbind(1))
    if out is not None:
        prepare_out("nonzero", (self,), out, found.layout.shape)
        out.copy_(found)
        return out
    return found


def nonzero_static(self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first ``size`` rows of :func:`nonzero`, filled up with ``fill_value``."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    rows = nonzero(self)
    result = rows.new_full((size, self.layout.ndim), fill_value)
    count = min(size, rows.layout.shape[0])
    result._array()[:count] = rows._array()[:count]
    return result


def argwhere(self: Tensor) -> Tensor:
    """The coordinates of the elements that are not zero: ``nonzero(self)``."""
    return nonzero(self)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension that is 1 at the class each element names, 0 elsewhere.

    Args:
        tensor: int64 classes.
        num_classes: the size of the new dimension; -1: the largest class and one.

    Raises:
        RuntimeError: for another dtype, a class out of range, or no elements to infer it from.
    """
    of = tensor.layout
    if of.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not of.numel and num_classes <= 0:
        if num_classes == -1:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        raise RuntimeError("Class values must be smaller than num_classes.")
    low, high = extremes(tensor)
    if of.numel and low < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = high + 1
    elif of.numel and num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif of.numel and high >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    result = copied(constant(0), dense_layout((*of.shape, num_classes), int64))
    move_along(
        "put", result, of.ndim, view_of(tensor, "unsqueeze", (of.ndim,)), number_of(1, int64)
    )
    return result


METHODS = (
    "take put put_ masked_select masked_scatter masked_scatter_ nonzero nonzero_static argwhere"
)
FUNCTIONS = "take put masked_select masked_scatter nonzero nonzero_static argwhere"
