"""The same elements in another arrangement: flip, roll, rot90, repeat, tile, triangles.

These copy; there is nothing to compute, so one copying kernel with the right strides does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import int32, int64
from ..kernels import elementwise
from ..kernels import index as kernels
from ..kernels.drivers import plan_loops
from ..layout import Layout, Shape, Strides, dense_layout, normalize_dim
from ..memory_format import contiguous_format
from ..ops.table import structured
from ..tensor import Tensor, make, shape_argument
from .convert import resolved
from .make import fresh, like_layout
from .places import launch
from .record import node_class, record
from .rows import index_select
from .view import view_of
from .writes import Write, writer


def _copy_nest(
    source: Tensor, target: Tensor, shape: Shape, read: Strides, write: Strides, start: int = 0
) -> None:
    """Copy a loop nest: strides in elements (negative ones too), reading from element ``start``."""
    d, to = source.layout.dtype, target.layout.dtype

    def build() -> kernels.Plan:
        address = elementwise.kernel(("self",), ("self",), (d,), (to,), to.plain)
        return plan_loops(address, shape, [read, write], [d.itemsize, d.itemsize])

    plan = _run_at(source, start)
    launch(("copy", d, to, shape, read, write), build, plan, target)


def _run_at(source: Tensor, start: int) -> Tensor:
    """The memory of a tensor from one of its elements on."""
    return make(source.storage, source.offset + start * source.layout.dtype.itemsize, source.layout)


# Flip and roll ------------------------------------------------------------------------------------
def _flipped_back(grad: Tensor, dims: tuple[int, ...]) -> Tensor:
    return flip(grad, dims)


_FLIP = node_class(structured("flip", "self", grad={"self": _flipped_back}, fresh=True))


def _dims(name: str, dims: tuple[Any, ...], ndim: int) -> tuple[int, ...]:
    given = shape_argument(name, dims)
    found = tuple(normalize_dim(d, ndim) for d in given)
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return found


def flip(self: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The order of elements reversed along some dimensions; a copy.

    Raises:
        IndexError: for a dimension out of range. RuntimeError: for one given twice.

    Gradient: the incoming one, flipped back.
    """
    if not order and dims is None:
        raise TypeError('flip() missing 1 required positional arguments: "dims"')
    of = self.layout
    turned = _dims("flip", order if dims is None else (dims,), of.ndim)
    result = fresh(like_layout(of))
    if of.numel:
        turned = turned if of.ndim else ()
        start = sum((of.shape[d] - 1) * of.strides[d] for d in turned)
        read = tuple(-s if d in turned else s for d, s in enumerate(of.strides))
        _copy_nest(self, result, of.shape, read, result.layout.strides, start)
    record(_FLIP, (self,), (result,), {"dims": turned})
    return result


def fliplr(self: Tensor) -> Tensor:
    """Columns reversed: :func:`flip` of dimension 1."""
    if self.layout.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(self, 1)


def flipud(self: Tensor) -> Tensor:
    """Rows reversed: :func:`flip` of dimension 0."""
    if self.layout.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(self, 0)


_ROLL = node_class(
    structured(
        "roll",
        "self",
        grad={"self": lambda grad, shifts, dims: roll(grad, tuple(-s for s in shifts), dims)},
    )
)


def _as_tuple(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def roll(self: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along dimensions, those that leave one end coming in at the other; a copy.

    Without ``dims`` the tensor is rolled as if it were a vector.

    Raises:
        RuntimeError: unless there are as many shifts as dimensions.

    Gradient: the incoming one, rolled back.
    """
    moved = _as_tuple(shifts)
    along = () if dims is None else _as_tuple(dims)
    of = self.layout
    if not moved:
        raise RuntimeError("`shifts` required")
    if along and not of.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if not along and len(moved) == 1:
        result = _rolled(self.reshape(-1).detach(), moved[0], 0).view(of.shape)
        result = result.detach()
    else:
        if len(moved) != len(along):
            raise RuntimeError(
                f"shifts and dimensions must align. shifts: {len(moved)}, dims:{len(along)}"
            )
        result = self.detach()
        for shift, dim in zip(moved, along, strict=True):
            result = _rolled(result, shift, normalize_dim(dim, of.ndim))
    record(_ROLL, (self,), (result,), {"shifts": moved, "dims": along})
    return result


def _rolled(source: Tensor, shift: int, dim: int) -> Tensor:
    """Rolled along one dimension: two copies of slices."""
    of = source.layout
    result = fresh(dense_layout(of.shape, of.dtype))
    size = of.shape[dim] if of.ndim else 1
    to = result.layout.strides
    cut = shift % size if size else 0
    if not of.ndim:
        _copy_nest(source, result, (), (), ())
        return result
    for first, start, count in ((0, size - cut, cut), (cut, 0, size - cut)):
        if count and of.numel:
            shape = (*of.shape[:dim], count, *of.shape[dim + 1 :])
            place = _run_at(result, first * to[dim])
            _copy_nest(source, place, shape, of.strides, to, start * of.strides[dim])
    return result


_ROT90 = node_class(
    structured("rot90", "self", grad={"self": lambda grad, k, dims: rot90(grad, -k, dims)})
)


def rot90(self: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by ``k`` quarter turns in the plane of two dimensions, from the first to the second.

    Raises:
        RuntimeError: unless ``dims`` are two different dimensions of a tensor that has two.

    Gradient: the incoming one, rotated back.
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(tuple(dims))}")
    n = self.layout.ndim
    if n < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {n}")
    a, b = (normalize_dim(d, n) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    source = self.detach()
    turns = k % 4
    if turns == 0:
        result = source.clone(memory_format=contiguous_format)
    elif turns == 2:
        result = flip(source, a, b)
    else:
        result = flip(source, b if turns == 1 else a)
        result = view_of(result, "transpose", (a, b)).detach()
    record(_ROT90, (self,), (result,), {"k": k, "dims": (a, b)})
    return result


# Repeat -------------------------------------------------------------------------------------------
def _repeat_adjoint(grad: Tensor, layout: Layout, repeats: Shape) -> Tensor:
    """The sum over all copies."""
    lead = len(repeats) - layout.ndim
    if 0 in repeats:
        return grad.new_zeros(layout.shape)
    sizes: list[int] = []
    copies: list[int] = []
    for k, count in enumerate(repeats):
        if k < lead or count != 1:
            copies.append(len(sizes))
            sizes.append(count)
        if k >= lead:
            sizes.append(layout.shape[k - lead])
    split = grad.reshape(sizes)
    return split.sum(tuple(copies)) if copies else split


_REPEAT = node_class(structured("repeat", "self", grad={"self": _repeat_adjoint}))


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """Copies of the tensor side by side: ``repeats[d]`` of them along each dimension.

    More repeats than dimensions make new leading ones.

    Raises:
        RuntimeError: for fewer repeats than dimensions, or a negative one.

    Gradient: the sum over the copies.
    """
    counts = shape_argument("repeat", repeats)
    of = self.layout
    lead = len(counts) - of.ndim
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    sizes = ((1,) * lead) + of.shape
    shape = tuple(n * r for n, r in zip(sizes, counts, strict=True))
    if any(n < 0 for n in shape) or any(r < 0 for r in counts):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    result = fresh(dense_layout(shape, of.dtype))
    if result.layout.numel:
        nest: list[int] = []
        read: list[int] = []
        write: list[int] = []
        strides = ((0,) * lead) + of.strides
        to = result.layout.strides
        for n, r, s, t in zip(sizes, counts, strides, to, strict=True):
            nest += (r, n)
            read += (0, s)
            write += (n * t, t)
        _copy_nest(self, result, tuple(nest), tuple(read), tuple(write))
    record(_REPEAT, (self,), (result,), {"repeats": counts})
    return result


def tile(self: Tensor, *dims: Any) -> Tensor:
    """:func:`repeat`, where missing leading repeats are one."""
    counts = shape_argument("tile", dims)
    return repeat(self, *((1,) * (self.layout.ndim - len(counts))), *counts)


def repeat_interleave(
    self: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every slice along ``dim`` several times in a row (the tensor as a vector without ``dim``).

    Args:
        repeats: a number, or an integer tensor with one for each slice. Left out, ``self`` itself
            says how often each position is repeated.

    Raises:
        RuntimeError: for negative repeats, or a tensor of them of another size.

    Gradient: the sum over the copies.
    """
    if repeats is None:
        return _interleaved_positions(self)
    if dim is None:
        self, dim = self.reshape(-1), 0
    dim = normalize_dim(dim, self.layout.ndim)
    if not isinstance(repeats, Tensor):
        return _interleave_all(self, int(repeats), dim)
    size = self.layout.shape[dim] if self.layout.ndim else 1
    of = repeats.layout
    if of.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if of.numel == 1 and size != 1:
        repeats = view_of(repeats.reshape(1), "expand", ((size,),))
    elif of.numel != size:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{of.numel} and input.size({dim}) = {size}"
        )
    return index_select(self, dim, _interleaved_positions(repeats))


def _interleave_all(self: Tensor, count: int, dim: int) -> Tensor:
    """Every slice ``count`` times: an expanded dimension merged into its neighbour."""
    if count < 0:
        raise RuntimeError("Repeats must be non-negative")
    wide = view_of(self, "unsqueeze", (dim + 1,))
    shape = wide.layout.shape
    wide = view_of(wide, "expand", ((*shape[: dim + 1], count, *shape[dim + 2 :]),))
    copied = wide.clone(memory_format=contiguous_format)
    merged = (*shape[:dim], shape[dim] * count, *shape[dim + 2 :])
    return view_of(copied, "view", (merged,))


def _interleaved_positions(repeats: Tensor) -> Tensor:
    """Position k, ``repeats[k]`` times, for every k."""
    of = repeats.layout
    if of.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if of.dtype is not int64 and of.dtype is not int32:
        raise RuntimeError("repeats has to be Long or Int tensor")
    counts = repeats._array()
    if of.numel and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    positions = np.repeat(np.arange(of.numel), counts)
    result = fresh(dense_layout(positions.shape, of.dtype))
    result._array()[...] = positions
    return result


# Triangles ----------------------------------------------------------------------------------------
def _lower(grad: Tensor, diagonal: int) -> Tensor:
    return tril(grad, diagonal)


def _upper(grad: Tensor, diagonal: int) -> Tensor:
    return triu(grad, diagonal)


_TRIANGLES = {
    "tril": node_class(structured("tril", "self", grad={"self": _lower})),
    "triu": node_class(structured("triu", "self", grad={"self": _upper})),
}


def _triangle(name: str, self: Tensor, diagonal: int) -> Write:
    source = resolved(self)
    of = source.layout
    if of.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    diagonal = int(diagonal)

    def run(to: Tensor) -> None:
        if not of.numel:
            return
        origin = to.storage.buffer

        def build() -> kernels.Plan:
            return kernels.triangle(
                of.dtype, of.shape, of.strides, to.layout.strides, diagonal, name == "triu"
            )

        launch((name, of, to.layout, diagonal), build, source, to, origin, origin)

    return Write(_TRIANGLES[name], (self,), {"diagonal": diagonal}, run)


def _tril(self: Tensor, diagonal: int = 0) -> Write:
    """Matrices (the last two dimensions) with zeros above a diagonal.

    Args:
        diagonal: 0 is the main one, positive ones lie above it.

    Raises:
        RuntimeError: for fewer than two dimensions.

    Gradient: the incoming one, with the same zeros.
    """
    return _triangle("tril", self, diagonal)


def _triu(self: Tensor, diagonal: int = 0) -> Write:
    """Matrices (the last two dimensions) with zeros below a diagonal.

    Args:
        diagonal: 0 is the main one, positive ones lie above it.

    Raises:
        RuntimeError: for fewer than two dimensions.

    Gradient: the incoming one, with the same zeros.
    """
    return _triangle("triu", self, diagonal)


tril, tril_ = writer("tril")(_tril)
triu, triu_ = writer("triu")(_triu)

METHODS = "flip fliplr flipud roll rot90 repeat tile repeat_interleave tril tril_ triu triu_"
FUNCTIONS = "flip fliplr flipud roll rot90 tile repeat_interleave tril triu"
