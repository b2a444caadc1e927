"""Diagonals, triangles and blocks; views written back into copies; grids; copies of views."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..layout import dense_layout, normalize_dim
from ..memory_format import contiguous_format
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .complexes import view_as_complex, view_as_real
from .creation import arange, tensor, zeros
from .elementwise import functions
from .make import fresh, result_dtype
from .places import coordinates, true_places
from .record import node_class, record
from .shape import cat, stack
from .special import into
from .statistics import cumprod
from .view import (
    as_strided,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    diagonal,
    select,
    slice_,
    unsafe_view,
    view_of,
)

_f = functions


# Diagonals ----------------------------------------------------------------------------------------
def diag_embed(self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension put on the diagonals of new matrices, zeros elsewhere.

    Gradient: the diagonal of the incoming one.
    """
    of = self.layout
    a, b = normalize_dim(dim1, of.ndim + 1), normalize_dim(dim2, of.ndim + 1)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if not of.ndim:
        raise IndexError("diag_embed: expected a tensor with at least one dimension")
    size = of.shape[-1] + abs(offset)
    shape = list(of.shape[:-1])
    for d in sorted((a, b)):
        shape.insert(d, size)
    result = self.new_zeros(tuple(shape))
    convert.copy_elements(self, diagonal(result, offset, a, b))
    record(_EMBED, (self,), (result,), {"offset": offset, "dim1": a, "dim2": b})
    return result


_EMBED = node_class(
    structured(
        "diag_embed",
        "self",
        grad={
            "self": lambda grad, offset, dim1, dim2: convert.clone(
                diagonal(grad, offset, dim1, dim2)
            )
        },
    )
)


def diag(self: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector (a copy)."""
    if self.layout.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.layout.ndim}D")
    if self.layout.ndim == 1:
        return into("diag", diag_embed(self, diagonal), out, (self,))
    return into("diag", diagonal_copy(self, diagonal), out, (self,))


def diagflat(self: Tensor, offset: int = 0) -> Tensor:
    """All elements, flattened, as the diagonal of a matrix."""
    return diag_embed(self.reshape(-1), offset)


def trace(self: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if self.layout.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.layout.ndim}")
    return diagonal(self).sum()


# Views written back into copies -------------------------------------------------------------------
def _scattered(name: str) -> Any:
    """The node of a copy of ``self`` whose part ``place`` is replaced by ``src``."""

    def blank(grad: Tensor, place: Any) -> Tensor:
        copy = convert.clone(grad)
        place(copy).zero_()
        return copy

    def part(grad: Tensor, place: Any, position: int) -> Tensor:
        return convert.clone(place(grad))

    return node_class(structured(name, "self src", grad={"self": blank, "src": part}))


_SCATTERS = {
    name: _scattered(name)
    for name in ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter")
}


def _scatter(name: str, self: Tensor, src: Tensor, place: Any) -> Tensor:
    result = (
        self.new_empty_strided(self.layout.shape, self.layout.strides)
        if (self.layout.dense or name == "as_strided_scatter")
        else fresh(dense_layout(self.layout.shape, self.layout.dtype))
    )
    convert.copy_elements(self, result)
    target = place(result.detach())
    if target.layout.shape != src.layout.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = "
            f"{list(src.layout.shape)}, slice size = {list(target.layout.shape)}"
        )
    convert.copy_elements(src, target)
    record(_SCATTERS[name], (self, src), (result,), {"place": place})
    return result


def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``self`` whose ``select(dim, index)`` is ``src``."""
    return _scatter("select_scatter", self, src, lambda x: select(x, dim, index))


def slice_scatter(
    self: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of ``self`` whose slice along ``dim`` is ``src``."""
    result = _scatter("slice_scatter", self, src, lambda x: slice_(x, dim, start, end, step))
    return into("slice_scatter", result, out, (self, src))


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Fill the main diagonal in place; gradient: zero there.

    Args:
        fill_value: a number.
        wrap: for matrices taller than wide: start again one row below where the diagonal ends.

    Raises:
        RuntimeError: for less than two dimensions, or more than two of different sizes.

    >>> zeros(5, 2).fill_diagonal_(1, wrap=True)
    tensor([[1., 0.],
            [0., 1.],
            [0., 0.],
            [1., 0.],
            [0., 1.]])
    """
    shape, strides = self.layout.shape, self.layout.strides
    if len(shape) < 2:
        raise RuntimeError(
            f"dimensions must larger than 1: fill_diagonal_ of a tensor of shape {shape}"
        )
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(f"all dimensions of input must be of equal length, but got {shape}")
    step, start = sum(strides), self.storage_offset()
    as_strided(self, (min(shape),), (step,), start).fill_(fill_value)
    if wrap and len(shape) == 2:
        rows, columns = shape
        for first in range(columns + 1, rows, columns + 1):
            count = min(rows - first, columns)
            as_strided(self, (count,), (step,), start + first * strides[0]).fill_(fill_value)
    return self


def diagonal_scatter(
    self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of ``self`` whose diagonal is ``src``."""
    return _scatter("diagonal_scatter", self, src, lambda x: diagonal(x, offset, dim1, dim2))


def as_strided_scatter(
    self: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of ``self`` whose ``as_strided`` view is ``src``."""
    return _scatter(
        "as_strided_scatter", self, src, lambda x: as_strided(x, size, stride, storage_offset)
    )


# Triangles ----------------------------------------------------------------------------------------
def _triangle(name: str, row: int, col: int, offset: int, upper: bool, dtype: Any) -> Tensor:
    if row < 0 or col < 0:
        raise RuntimeError(
            f"{'row' if row < 0 else 'col'} must be non-negative, got {min(row, col)}"
        )
    d = dtype or dtypes.int64
    distance = _f["sub"](arange(col), arange(row).unsqueeze(1))
    inside = _f["ge" if upper else "le"](distance, offset)
    places = true_places(inside, inside.layout.strides)
    found = coordinates(places, (row, col)).t()
    return convert.copied(found, dense_layout(found.layout.shape, d))


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """The row and column indices of a matrix's lower triangle, ``[2, count]``."""
    return _triangle("tril_indices", row, col, offset, False, dtype)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """The row and column indices of a matrix's upper triangle, ``[2, count]``."""
    return _triangle("triu_indices", row, col, offset, True, dtype)


# Joining ------------------------------------------------------------------------------------------
def _several(name: str, tensors: Any) -> tuple[Tensor, ...]:
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    return tuple(tensors)


def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined along columns (vectors along their only dimension)."""
    given = [atleast_1d(t) for t in _several("hstack", tensors)]
    if not given:
        raise RuntimeError("hstack expects a non-empty TensorList")
    return cat(given, 0 if given[0].layout.ndim == 1 else 1, out=out)


def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined along rows; vectors are rows."""
    given = _several("vstack", tensors)
    if not given:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return cat([atleast_2d(t) for t in given], 0, out=out)


row_stack = vstack


def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined along the third dimension."""
    given = _several("dstack", tensors)
    if not given:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return cat([atleast_3d(t) for t in given], 2, out=out)


def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined along columns; vectors are columns."""
    given = _several("column_stack", tensors)
    if not given:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    columns = [t.reshape(t.layout.numel, 1) if t.layout.ndim <= 1 else t for t in given]
    return cat(columns, 1, out=out)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices (vectors are rows) along the diagonal of one, zeros elsewhere."""
    if not tensors:
        return zeros((1, 0))
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"block_diag(): argument 'tensors' must be tuple of Tensors, not {type(t).__name__}"
            )
        if t.layout.ndim > 2:
            raise RuntimeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{t.layout.ndim} dimensions"
            )
    blocks = [t if t.layout.ndim == 2 else atleast_2d(t) for t in tensors]
    d = result_dtype([t.layout for t in blocks])
    width = sum(t.layout.shape[1] for t in blocks)
    rows, at = [], 0
    for t in blocks:
        n, m = t.layout.shape
        sides = (zeros((n, at), dtype=d), convert.to(t, d), zeros((n, width - at - m), dtype=d))
        rows.append(cat(sides, 1))
        at += m
    return cat(rows, 0)


# Grids --------------------------------------------------------------------------------------------
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Vectors expanded to a common grid, one dimension each ("xy" swaps the first two); views.

    Raises:
        RuntimeError: for tensors of other ranks or different dtypes.
    """
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t.layout.ndim > 1:
            raise RuntimeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{t.layout.ndim}D"
            )
        if t.layout.dtype.plain is not tensors[0].layout.dtype.plain:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    swap = indexing == "xy" and len(tensors) >= 2
    given = (tensors[1], tensors[0], *tensors[2:]) if swap else tensors
    shape = tuple(max(t.layout.numel, 1) if not t.layout.ndim else t.layout.numel for t in given)
    grids = []
    for d, t in enumerate(given):
        line = view_of(t, "view", ((*(1,) * d, shape[d], *(1,) * (len(shape) - d - 1)),))
        grids.append(view_of(line, "expand", (shape,)))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one per row."""
    for t in tensors:
        if t.layout.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.layout.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([x.reshape(-1) for x in meshgrid(*tensors, indexing="ij")], 1)


def combinations(self: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, in order, one per row."""
    if self.layout.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(self.layout.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return self.new_empty((0,))
    n = self.layout.shape[0]
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    flat = list(itertools.chain.from_iterable(choose(range(n), r)))
    places = self.new_tensor(flat, dtype=dtypes.int64)
    return unsafe_view(self.index_select(0, places), (len(flat) // r, r))


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as the columns of a matrix, by default decreasing."""
    if x.layout.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.layout.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    result = powers(x, n)
    return result if increasing else result.flip(-1)


def powers(x: Tensor, n: int) -> Tensor:
    """``x ** 0, x ** 1 ..`` (``n`` of them) along a new last dimension."""
    if x.layout.dtype.category < dtypes.FLOATING:
        x = convert.to(x, dtypes.int64)
    of = x.layout
    ones = x.new_ones((*of.shape, 1))
    if n <= 1:
        return ones if n else x.new_empty((*of.shape, 0))
    repeated = x.unsqueeze(-1).expand(*of.shape, n - 1)
    return cat([ones, cumprod(repeated, -1)], -1)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Flat row-major positions in a shape as coordinates, one view per dimension, int64."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.layout.dtype.category != dtypes.INTEGER:
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if any(n < 0 for n in sizes):
        raise ValueError("'shape' cannot have negative values")
    steps = list(itertools.accumulate(reversed(sizes), lambda a, b: a * b, initial=1))[:-1]
    rows = _f["div_floor"](indices.unsqueeze(-1), tensor(steps[::-1], dtype=dtypes.int64))
    return _f["remainder"](rows, tensor(sizes, dtype=dtypes.int64)).unbind(-1)


# Copies of views ----------------------------------------------------------------------------------
def _slice(
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    if step <= 0:
        raise RuntimeError(f"slice step must be positive, but got {step}")
    return slice_(self, normalize_dim(dim, self.layout.ndim), start, end, step)


def _copying(view: str) -> Any:
    """``<view>_copy``: a view in memory of its own."""
    function = _NO_METHODS.get(view)

    def copy(self: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        seen = (function or getattr(type(self), view))(self, *args, **kwargs)
        if isinstance(seen, tuple):
            parts = tuple(convert.clone(x, memory_format=contiguous_format) for x in seen)
            if out is not None:
                for part, to in zip(parts, out, strict=True):
                    into(view, part, to, (self,))
                return None
            return parts
        result = convert.clone(seen, memory_format=contiguous_format)
        return into(f"{view}_copy", result, out, (self,))

    copy.__name__ = copy.__qualname__ = f"{view}_copy"
    copy.__doc__ = f":func:`{view}` as a copy in memory of its own."
    return copy


def narrow_copy(self: Tensor, dim: int, start: int, length: int, *, out: Any = None) -> Tensor:
    """:func:`narrow` as a copy in memory of its own."""
    return into("narrow_copy", convert.clone(self.narrow(dim, start, length)), out, (self,))


def alias_copy(self: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the tensor itself."""
    return into("alias_copy", convert.clone(self, memory_format=contiguous_format), out, (self,))


_NO_METHODS = {
    "slice": _slice, "view_as_real": view_as_real, "view_as_complex": view_as_complex
}  # fmt: skip
_COPIES = (
    "as_strided detach diagonal expand permute select slice split split_with_sizes squeeze t "
    "transpose unbind unfold unsqueeze view view_as_complex view_as_real"
)
for _view in _COPIES.split():
    globals()[f"{_view}_copy"] = _copying(_view)
diagonal_copy = globals()["diagonal_copy"]

METHODS = (
    "diag diag_embed diagflat trace select_scatter slice_scatter diagonal_scatter "
    "as_strided_scatter narrow_copy"
)
FUNCTIONS = (
    METHODS + " tril_indices triu_indices hstack vstack row_stack dstack column_stack block_diag "
    "meshgrid cartesian_prod combinations vander unravel_index alias_copy "
    + " ".join(f"{view}_copy" for view in _COPIES.split())
)
