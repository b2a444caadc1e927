"""Tensors as indices: ``x[tensors]`` and ``x[tensors] = values``, the general forms.

Reading is a copy; its derivative accumulates at the same places, and the other way round.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from .. import errors
from ..dtypes import int32, int64, uint8
from ..kernels import index as kernels
from ..layout import (
    Layout,
    Shape,
    Strides,
    broadcast_shapes,
    contiguous_strides,
    expand_strides,
    iteration_order,
    layout,
    strides_in_order,
    view_strides,
)
from ..ops.table import Structured
from ..state import modes
from ..tensor import Tensor
from .convert import writes_freely
from .make import fresh
from .places import (
    MASKS,
    Indexed,
    as_long,
    coordinates,
    extremes,
    launch,
    legacy_name,
    locate,
    true_places,
)
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class
from .view import view_of
from .writes import Write, record_indexed, writer

Indices = Sequence[Tensor | None]


def expand_masks(of: Layout, indices: Indices) -> list[tuple[int, Tensor]]:
    """The index tensors with the dimension each of them (or the first of a mask) belongs to.

    Raises:
        IndexError: for a dtype that cannot index, a mask of another shape, or too many indices.
    """
    found: list[tuple[int, Tensor]] = []
    dim = 0
    for t in indices:
        if t is None:
            dim += 1
            continue
        d = t.layout.dtype
        if d in MASKS:
            if d is uint8:
                warnings.warn(
                    "indexing with dtype jitgrad.uint8 is now deprecated, please use a dtype "
                    "jitgrad.bool instead.",
                    UserWarning,
                    stacklevel=5,
                )
            if dim + t.layout.ndim <= of.ndim:
                _check_mask(t.layout, of, dim)
            found.append((dim, t))
            dim += t.layout.ndim
        elif d is int64 or d is int32:
            found.append((dim, t))
            dim += 1
        else:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if dim > of.ndim:
        raise IndexError(f"too many indices for tensor of dimension {of.ndim} (got {dim})")
    return found


def _check_mask(mask: Layout, of: Layout, dim: int) -> None:
    for j, n in enumerate(mask.shape):
        if n != of.shape[dim + j]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {j} does not match the shape "
                f"of the indexed tensor {list(of.shape)} at index {dim + j}"
            )


def resolve(of: Layout, indices: Indices) -> Indexed:
    """Where indices (None: a dimension that is not indexed) point in a tensor of layout ``of``."""
    first = indices[0]
    if len(indices) == 1 and first is not None and first.layout.dtype is int64 and of.ndim:
        shape = first.layout.shape
        places, scale = locate((first,), shape, of.shape[:1], of.strides[:1], empty=not of.numel)
        return Indexed((0,), shape, places, scale, (first.layout.strides,))
    given = expand_masks(of, indices)
    if len(given) == 1 and given[0][1].layout.dtype in MASKS:
        dim, mask = given[0]
        end = dim + mask.layout.ndim
        places = true_places(mask, of.strides[dim:end])
        return Indexed(tuple(range(dim, end)), places.layout.shape, places, 1, ((1,),))
    dims: list[int] = []
    tensors: list[Tensor] = []
    for dim, t in given:
        if t.layout.dtype in MASKS:
            places = true_places(t, contiguous_strides(t.layout.shape))
            table = coordinates(places, t.layout.shape)
            for j in range(t.layout.ndim):
                dims.append(dim + j)
                tensors.append(view_of(table, "select", (1, j)))
        else:
            dims.append(dim)
            tensors.append(as_long(t))
    shape = _broadcast_indices([t.layout.shape for t in tensors])
    places, scale = locate(
        tensors,
        shape,
        [of.shape[d] for d in dims],
        [of.strides[d] for d in dims],
        empty=not of.numel,
    )
    strides = tuple(expand_strides(t.layout.shape, t.layout.strides, shape) for t in tensors)
    return Indexed(tuple(dims), shape, places, scale, strides)


def _broadcast_indices(shapes: Sequence[Shape]) -> Shape:
    if len(shapes) == 1:
        return shapes[0]
    try:
        return broadcast_shapes(*shapes)
    except RuntimeError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join(str(list(s)) for s in shapes)
        ) from None


class Nest(NamedTuple):
    """The loop nest of an indexed access: its shape, and strides of places and elements over it."""

    shape: Shape
    places: Strides
    elements: Strides
    lead: int  # dimensions before those of the index


_nests = PlanCache()
_takes = PlanCache()


def nest_of(of: Layout, indexed: Indexed) -> Nest:
    """The result's geometry: index dimensions stand where the indexed ones were, or first if those
    are not neighbours."""
    key = (of, indexed.dims, indexed.places.layout, indexed.shape)
    return _nests.get(key) or _nests.add(key, _nest(of, indexed))


def _nest(of: Layout, indexed: Indexed) -> Nest:
    dims = indexed.dims
    adjacent = all(b == a + 1 for a, b in pairwise(dims))
    lead = dims[0] if adjacent else 0
    kept = [d for d in range(of.ndim) if d not in dims]
    before, after = kept[:lead], kept[lead:]
    shape, rank = indexed.shape, len(indexed.shape)
    index = indexed.places.layout
    places = expand_strides(index.shape, index.strides, shape)
    return Nest(
        (*(of.shape[d] for d in before), *shape, *(of.shape[d] for d in after)),
        (*(0,) * len(before), *places, *(0,) * len(after)),
        (*(of.strides[d] for d in before), *(0,) * rank, *(of.strides[d] for d in after)),
        lead,
    )


def _taken_layout(of: Layout, indexed: Indexed, nest: Nest) -> Layout:
    """The layout of what is taken, with the strides PyTorch gives it."""
    lead, rank = nest.lead, len(indexed.shape)
    ones = (1,) * lead, (1,) * (len(nest.shape) - lead - rank)
    operands = [nest.elements]
    for s in indexed.strides:
        # An index is read with ones for the other dimensions; where such a dimension is itself of
        # size one, its stride has a say in the order.
        wide = view_strides(indexed.shape, s, (*ones[0], *indexed.shape, *ones[1]))
        assert wide is not None
        operands.append(
            tuple(
                step if lead <= d < lead + rank or nest.shape[d] == 1 else 0
                for d, step in enumerate(wide)
            )
        )
    order = iteration_order(nest.shape, operands)
    return layout(nest.shape, strides_in_order(nest.shape, order), of.dtype.plain)


def take_plan(of: Layout, indexed: Indexed) -> Any:
    """The layout of what is taken from some places, and the driver and spec that take it."""
    key = (of, indexed.dims, indexed.places.layout, indexed.scale, indexed.strides)
    found = _takes.get(key)
    if found is None:
        nest = nest_of(of, indexed)
        out = _taken_layout(of, indexed, nest)
        plan = kernels.move(
            "take",
            of.dtype,
            nest.shape,
            nest.places,
            nest.elements,
            out.strides,
            indexed.scale,
            given=out.dtype,
        )
        found = _takes.add(key, (out, *plan))
    return found


def take_places(source: Tensor, indexed: Indexed) -> Tensor:
    """The elements at some places, in fresh memory; no history."""
    out, run, spec = take_plan(source.layout, indexed)
    result = fresh(out)
    places = indexed.places
    run(
        spec,
        places.storage.buffer,
        places.offset,
        source.storage.buffer,
        source.offset,
        result.storage.buffer,
        0,
    )
    return result


def put_places(target: Tensor, indexed: Indexed, values: Tensor, how: str = "put") -> None:
    """Write (or combine) broadcast ``values`` at some places; shapes were checked before."""
    of, given = target.layout, values.layout
    key = (how, of, indexed.dims, indexed.places.layout, indexed.shape, indexed.scale, given)

    def build() -> kernels.Plan:
        nest = nest_of(of, indexed)
        source = expand_strides(given.shape, given.strides, nest.shape)
        return kernels.move(
            how,
            of.dtype,
            nest.shape,
            nest.places,
            nest.elements,
            source,
            indexed.scale,
            given=given.dtype,
        )

    launch(key, build, indexed.places, target, values)


# x[tensors] and x[tensors] = values ---------------------------------------------------------------
def _many(parameters: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula that also takes the index tensors, under the names ``i0, i1, ...``."""
    names = parameters.split()
    namespace: dict[str, Any] = {"formula": formula}
    tensors = [n for n in names if n[0] == "i" and n[1:].isdigit()]
    others = [n for n in names if n not in tensors]
    arguments = ", ".join([f"{n}={n}" for n in others] + [f"tensors=({', '.join(tensors)},)"])
    return eval(f"lambda {', '.join(names)}: formula({arguments})", namespace)


def _placed(tensors: Sequence[Tensor], slots: Sequence[int]) -> list[Tensor | None]:
    """The index list of a call from its tensors and their positions in the list."""
    result: list[Tensor | None] = [None] * (slots[-1] + 1)
    for slot, t in zip(slots, tensors, strict=True):
        result[slot] = t
    return result


@functools.cache
def _index_class(count: int) -> type[StructuredNode]:
    """The node of ``x[...]`` with ``count`` index tensors."""
    names = " ".join(f"i{k}" for k in range(count))

    def backward(grad: Tensor, layout: Layout, slots: Any, tensors: Any) -> Tensor:
        zeros = grad.new_zeros(layout.shape)
        return _index_accumulated(zeros, _placed(tensors, slots), grad)

    row = Structured(
        "index",
        tuple(f"self {names}".split()),
        {"self": _many(f"grad layout slots {names}", backward)},
        fresh=True,
    )
    return node_class(row)


@functools.cache
def _index_put_class(count: int, accumulate: bool) -> type[StructuredNode]:
    """The node of ``x[...] = values`` with ``count`` index tensors."""
    names = " ".join(f"i{k}" for k in range(count))

    def written(grad: Tensor, slots: Any, tensors: Any) -> Tensor:
        zero = grad.new_zeros(())
        return index_put(grad, _placed(tensors, slots), zero)

    def values(grad: Tensor, layout: Layout, slots: Any, tensors: Any) -> Tensor:
        taken = index(grad, _placed(tensors, slots))
        if taken.layout.shape == layout.shape:
            return taken
        return taken.sum_to_size(layout.shape)

    to_self: Callable[..., Any] = lambda grad: grad  # noqa: E731
    if not accumulate:
        to_self = _many(f"grad slots {names}", written)
    row = Structured(
        "index_put",
        tuple(f"self values {names}".split()),
        {"self": to_self, "values": _many(f"grad layout slots {names}", values)},
    )
    return node_class(row)


def _split(indices: Indices) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    slots = tuple(k for k, t in enumerate(indices) if t is not None)
    return tuple(t for t in indices if t is not None), slots


def index(self: Tensor, indices: Indices) -> Tensor:
    """``self[indices]`` for integer tensors and masks, one entry per dimension (None: all of it).

    A copy. Integer tensors broadcast together; their dimensions replace the indexed ones where
    those are neighbours, else they come first. A mask stands for the coordinates of its true
    elements. Negative indices count from the end.

    Raises:
        IndexError: for an index out of bounds, indices that do not broadcast, or a mask of another
            shape.

    Gradient: the incoming one, accumulated into zeros at the same places. ``self`` is not saved.
    """
    if len(indices) == 1 and indices[0] is not None and indices[0].layout.dtype is int64:
        result = _rows(self, indices[0])
        if result is not None:
            return result
    result = take_places(self, resolve(self.layout, indices))
    tensors, slots = _split(indices)
    record_indexed(_index_class(len(tensors)), (self, *tensors), result, {"slots": slots})
    return result


_row_plans = PlanCache()


def _rows(self: Tensor, rows: Tensor) -> Tensor | None:
    """``self[rows]`` where no row counts from the end, planned by the layouts; else None."""
    key = (self.layout, rows.layout)
    plan = _row_plans.get(key)
    if plan is None:
        if not self.layout.numel or not rows.layout.numel:
            return None
        indexed = resolve(self.layout, (rows,))
        if indexed.places is not rows:
            return None
        out, run, spec = take_plan(self.layout, indexed)
        outcome = Outcome((self.layout, rows.layout), (out,))
        plan = _row_plans.add(key, (self.layout.shape[0], out, run, spec, outcome))
    size, out, run, spec, outcome = plan
    low, high = extremes(rows)
    if low < 0 or high >= size:
        return None
    result = fresh(out)
    run(
        spec,
        rows.storage.buffer,
        rows.offset,
        self.storage.buffer,
        self.offset,
        result.storage.buffer,
        0,
    )
    if self.tracked is not False or modes.levels:
        _index_class(1).record(self, rows, result, _FIRST_SLOT, outcome)
    return result


_FIRST_SLOT = {"slots": (0,)}


def _checked_put(
    target: Tensor, indices: Indices, values: Tensor, accumulate: bool
) -> Callable[[Tensor], None]:
    """The write of an index_put; raises for bad shapes, dtypes and bounds."""
    of, given = target.layout, values.layout
    if given.dtype.plain is not of.dtype.plain:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{legacy_name(of.dtype)} for the destination and {legacy_name(given.dtype)} for the "
            "source."
        )
    indexed = resolve(of, indices)
    shape = nest_of(of, indexed).shape
    if not broadcasts(given.shape, shape):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(given.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        )

    def run(to: Tensor) -> None:
        # A copy is laid out anew, so its places are other ones.
        at = indexed if to.layout is of else resolve(to.layout, indices)
        put_places(to, at, values, "add" if accumulate else "put")

    return run


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether a shape can be expanded to another one."""
    lead = len(to) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, to[lead:], strict=True))


def _index_put(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Write:
    """``self[indices] = values``, or ``+=`` where ``accumulate``; duplicates then add up.

    Args:
        indices: one integer tensor or mask per dimension (None: all of it).
        values: of the same dtype, broadcast to the shape of ``self[indices]``. Without
            ``accumulate`` the last of several values for one place stays.

    Raises:
        IndexError: as ``self[indices]``.
        RuntimeError: for values of another dtype, or that do not broadcast.

    Gradient: zero where it was overwritten; ``values`` gets what is at its places.
    """
    if not isinstance(indices, (tuple, list)):
        raise errors.argument("index_put_", "indices", "tuple of Tensors", indices)
    if not isinstance(values, Tensor):
        raise errors.argument("index_put_", "values", "Tensor", values)
    tensors, slots = _split(indices)
    if not tensors:
        raise RuntimeError("index_put_(): at least one index tensor is needed")
    for t in tensors:
        if not isinstance(t, Tensor):
            raise errors.argument("index_put_", "indices", "tuple of Tensors", t)
    run = _checked_put(self, indices, values, accumulate)
    cls = _index_put_class(len(tensors), bool(accumulate))
    return Write(cls, (self, values, *tensors), {"slots": slots}, run, "index_put_")


index_put, index_put_ = writer("index_put", preserve=True)(_index_put)

_put_row_plans = PlanCache()


def put_rows_(self: Tensor, rows: Tensor, values: Tensor) -> bool:
    """``self[rows] = values`` the short way, planned by the layouts; whether it was done.

    Left to :func:`index_put_`: what is recorded or may raise, and rows that count from the end.
    """
    key = (self.layout, rows.layout, values.layout)
    plan = _put_row_plans.get(key)
    if plan is None:
        plan = _put_row_plans.add(key, _put_row_plan(*key))
    run, spec, size = plan
    if not size or not writes_freely(self, values) or rows.storage is self.storage:
        return False
    low, high = extremes(rows)
    if low < 0 or high >= size:
        return False
    run(
        spec,
        rows.storage.buffer,
        rows.offset,
        self.storage.buffer,
        self.offset,
        values.storage.buffer,
        values.offset,
    )
    counter = self.counter
    counter.version += 1
    counter.writer = errors.writer("index_put_", 3)
    return True


def _put_row_plan(of: Layout, rows: Layout, given: Layout) -> tuple[Any, Any, int]:
    """Driver, spec and number of rows of a write; no rows where it needs the checks of others."""
    shape = (*rows.shape, *of.shape[1:])
    fits = of.dense and given.dtype.plain is of.dtype.plain and broadcasts(given.shape, shape)
    if not fits or not of.numel or not rows.numel:
        return None, None, 0
    inner = (0,) * (of.ndim - 1)
    run, spec = kernels.move(
        "put",
        of.dtype,
        shape,
        (*rows.strides, *inner),
        ((0,) * rows.ndim) + of.strides[1:],
        expand_strides(given.shape, given.strides, shape),
        of.strides[0],
        given=given.dtype,
    )
    return run, spec, of.shape[0]


def _index_accumulated(zeros: Tensor, indices: Indices, values: Tensor) -> Tensor:
    """``index_put(zeros, indices, values, accumulate=True)`` in the memory of fresh ``zeros``."""
    write = _index_put(zeros, indices, values, True)
    write.run(zeros)
    tensors = write.inputs[2:]
    record_indexed(write.cls, (zeros.detach(), values, *tensors), zeros, write.attributes)
    return zeros


METHODS = "index_put index_put_"
FUNCTIONS = "index_put index_put_"
