"""Places: where the elements lie that an index names, and the moves to and from them.

Bounds are checked while places are worked out, so that nothing is written if any index is bad.
Writers go in the order of the values, on one thread, so that results are the same bits whatever the
number of threads, duplicates included.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..dtypes import bool_, dtype, int64, uint8
from ..kernels import index as kernels
from ..layout import (
    Shape,
    Strides,
    contiguous_strides,
    dense_layout,
    expand_strides,
    layout,
)
from ..tensor import Tensor, make
from .convert import copied
from .elementwise import prepare_out, refuse_overlap
from .make import check_fits, constant, dense, fresh, like_layout, strided
from .plans import PlanCache
from .record import StructuredNode
from .writes import record_indexed

MASKS = (bool_, uint8)


# Places -------------------------------------------------------------------------------------------
class Indexed(NamedTuple):
    """Where the indices of a call point.

    Attributes:
        dims: the dimensions that are indexed.
        shape: of the index (all index tensors broadcast together).
        places: int64, broadcastable to that shape: where each position lies, in units of ...
        scale: ... this many elements.
        strides: of every index tensor over ``shape``; the strides of results follow them.
    """

    dims: tuple[int, ...]
    shape: Shape
    places: Tensor
    scale: int
    strides: tuple[Strides, ...]


_plans = PlanCache()


def launch(key: Any, build: Callable[[], kernels.Plan], *operands: Any) -> None:
    """Run the plan kept under ``key``; an operand is a tensor or a NumPy buffer."""
    plan = _plans.get(key)
    if plan is None:
        plan = _plans.add(key, build())
    run, spec = plan
    flat: list[Any] = []
    for x in operands:
        if x.__class__ is np.ndarray:
            flat += (x, 0)
        else:
            flat += (x.storage.buffer, x.offset)
    run(spec, *flat)


_extremes = PlanCache()
_NOTHING_SEEN = np.array(kernels.NOTHING_SEEN)


def extremes(index: Tensor) -> tuple[int, int]:
    """The smallest and the largest of an int64 tensor; (largest, smallest int64) if it is empty."""
    of = index.layout
    plan = _extremes.get(of)
    if plan is None:
        nest = kernels.one_by_one("extremes", of.shape, of.strides, [0] * of.ndim)
        plan = _extremes.add(of, nest)
    run, spec = plan
    seen = _NOTHING_SEEN.copy()
    run(spec, index.storage.buffer, index.offset, seen, 0)
    low, high = seen.tolist()
    return low, high


def first_outside(index: Tensor, low: int, size: int) -> int:
    """The first index that is not in ``[low, size)``, for the error that names it."""
    values = index._array()
    return int(values[(values < low) | (values >= size)].flat[0])


def as_long(index: Tensor) -> Tensor:
    """An index as int64, without history."""
    return index if index.layout.dtype is int64 else copied(index, like_layout(index.layout, int64))


def check_range(index: Tensor, dim: int, size: int) -> None:
    """RuntimeError (PyTorch's type here) unless every index is in ``[0, size)``."""
    low, high = extremes(index)
    if index.layout.numel and (low < 0 or high >= size):
        raise RuntimeError(
            f"index {first_outside(index, 0, size)} is out of bounds for dimension {dim} with size "
            f"{size}"
        )


def check_wrapped(index: Tensor, dim: int, size: int) -> bool:
    """IndexError unless every index is in ``[-size, size)``; whether any is negative."""
    if not index.layout.numel:
        return False
    if size == 0:
        raise IndexError("index is out of bounds for dimension with size 0")
    low, high = extremes(index)
    if low < -size or high >= size:
        raise IndexError(
            f"index {first_outside(index, -size, size)} is out of bounds for dimension {dim} with "
            f"size {size}"
        )
    return low < 0


def locate(
    tensors: Sequence[Tensor],
    shape: Shape,
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    empty: bool = False,
) -> tuple[Tensor, int]:
    """The places that int64 index tensors name together, and what they count in.

    Bounds are checked, but (as in PyTorch) where nothing is indexed: an empty index, or slices that
    are ``empty``.
    """
    if empty or 0 in shape:
        if 0 in sizes and 0 not in shape:
            raise IndexError("index is out of bounds for dimension with size 0")
        return dense(shape, int64), 1
    negative = [check_wrapped(t, k, n) for k, (t, n) in enumerate(zip(tensors, sizes, strict=True))]
    if len(tensors) == 1 and not negative[0]:
        return tensors[0], strides[0]
    places = dense(shape, int64)
    to = places.layout.strides
    for k, (t, size, stride) in enumerate(zip(tensors, sizes, strides, strict=True)):
        source = expand_strides(t.layout.shape, t.layout.strides, shape)
        extras = size, stride, int(k > 0)
        build = functools.partial(kernels.one_by_one, "locate", shape, source, to, *extras)
        launch(("locate", t.layout, shape, extras), build, t, places)
    return places, 1


def count_true(mask: Tensor) -> int:
    """How many elements of a bool or uint8 tensor are not zero."""
    of = mask.layout
    count = np.zeros(1, np.int64)
    launch(
        ("count", of),
        lambda: kernels.one_by_one("count", of.shape, of.strides, [0] * of.ndim),
        mask,
        count,
    )
    return int(count[0])


def true_places(mask: Tensor, strides: Strides) -> Tensor:
    """Where a mask is true, in row-major order, as places in a tensor with these strides."""
    of = mask.layout
    count = count_true(mask)
    room = dense((count + 1,), int64)  # the kernel may write one place past the last
    done = np.zeros(1, np.int64)
    launch(
        ("compress", of, strides),
        lambda: kernels.compress(of.shape, of.strides, strides),
        mask,
        done,
        done,
        room,
        done,
    )
    return make(room.storage, 0, dense_layout((count,), int64))


def coordinates(places: Tensor, shape: Shape) -> Tensor:
    """Row-major positions in a shape as a ``[count, ndim]`` tensor of coordinates.

    Laid out column by column, as PyTorch does.
    """
    count = places.layout.numel
    result = strided((count, len(shape)), (1, count), int64)
    if not shape:
        return fresh(dense_layout((count, 0), int64))
    steps = contiguous_strides(shape)
    for d, (size, step) in enumerate(zip(shape, steps, strict=True)):
        run, spec = kernels.one_by_one(
            "coordinate", (count,), (1,), (1,), max(step, 1), max(size, 1)
        )
        run(
            spec,
            places.storage.buffer,
            places.offset,
            result.storage.buffer,
            d * count * int64.itemsize,
        )
    return result


def legacy_name(d: dtype) -> str:
    """PyTorch's name of a dtype in old messages: Float, Long ..."""
    return d.tensor_type.removesuffix("Tensor")


# Along one dimension ------------------------------------------------------------------------------
def lined(t: Tensor) -> Tensor:
    """The memory of a 0-d tensor as a vector of one element; other tensors as they are."""
    if t.layout.ndim:
        return t
    return make(t.storage, t.offset, layout((1,), (1,), t.layout.dtype))


def move_along(how: str, elements: Tensor, dim: int, index: Tensor, values: Tensor) -> None:
    """For every position of ``index`` (int64, checked) the element it names along ``dim``.

    ``values``: at least of the shape of ``index``, or 0-d for all.
    """
    elements, index = lined(elements), lined(index)
    of, at, given = elements.layout, index.layout, values.layout

    def build() -> kernels.Plan:
        steps = (*of.strides[:dim], 0, *of.strides[dim + 1 :])
        strides = given.strides if given.ndim else (0,) * at.ndim
        scale = of.strides[dim]
        return kernels.move(
            how, of.dtype, at.shape, at.strides, steps, strides, scale, given=given.dtype
        )

    launch((how, "along", of, dim, at, given), build, index, elements, values)


def move_rows(how: str, elements: Tensor, dim: int, index: Tensor, values: Tensor) -> None:
    """For every element of the vector ``index`` (int64, checked) all it names along ``dim``."""
    elements, index, values = lined(elements), lined(index), lined(values)
    of, at, given = elements.layout, index.layout, values.layout

    def build() -> kernels.Plan:
        after = of.ndim - dim - 1
        shape = (*of.shape[:dim], at.shape[0], *of.shape[dim + 1 :])
        places = ((0,) * dim) + at.strides + ((0,) * after)
        steps = (*of.strides[:dim], 0, *of.strides[dim + 1 :])
        strides = expand_strides(given.shape, given.strides, shape)
        return kernels.move(
            how, of.dtype, shape, places, steps, strides, of.strides[dim], given=given.dtype
        )

    launch((how, "rows", of, dim, at, given), build, index, elements, values)


def argument_tensor(name: str, index: Any) -> Tensor:
    """An index that must be a vector (or one number)."""
    if not isinstance(index, Tensor):
        raise errors.argument(name, "index", "Tensor", index)
    return index


def number_of(value: Any, d: dtype) -> Tensor:
    """A number as a 0-d tensor of dtype ``d``; RuntimeError where it does not fit."""
    check_fits(d, value)
    return copied(constant(value), dense_layout((), d))


def move_flat(how: str, elements: Tensor, indexed: Indexed, values: Tensor) -> None:
    at, given, d = indexed.places.layout, values.layout, elements.layout.dtype

    def build() -> kernels.Plan:
        still = (0,) * at.ndim
        strides = expand_strides(given.shape, given.strides, at.shape)
        return kernels.move(how, d, at.shape, at.strides, still, strides, given=given.dtype)

    launch((how, "flat", d, at, given), build, indexed.places, elements, values)


def output(
    name: str, operands: Sequence[Tensor], shape: Shape, d: dtype, out: Tensor | None
) -> Tensor:
    """Where a result goes: fresh memory, or ``out`` after its checks."""
    if out is None:
        return dense(shape, d)
    if out.layout.dtype.plain is not d.plain:
        raise RuntimeError(
            f"{name}(): Expected out tensor to have dtype {d.name}, but got "
            f"{out.layout.dtype.name} instead"
        )
    refuse_overlap(out, operands)
    prepare_out(name, operands, out, shape)
    return out


def finished(
    cls: type[StructuredNode],
    inputs: Sequence[Tensor],
    result: Tensor,
    attributes: Mapping[str, Any],
    out: Tensor | None,
) -> Tensor:
    """A result recorded, or an ``out`` marked as written."""
    if out is None:
        record_indexed(cls, inputs, result, attributes)
    else:
        out.counter.version += 1
        out.counter.writer = errors.writer(cls.row.name)
    return result
