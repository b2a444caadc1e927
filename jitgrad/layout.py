"""Geometry: shapes, strides, and everything that follows from them alone.

Strides count elements. A :class:`Layout` bundles shape, strides and dtype; layouts are interned, so
that plans (kernels/launch.py) can be looked up by identity instead of by hashing tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .dtypes import PARTS, dtype

Shape = tuple[int, ...]
Strides = tuple[int, ...]


class Layout:
    """How a tensor's elements lie in its storage, apart from the offset.

    Attributes:
        shape, strides, dtype, ndim, numel: as of the tensor.
        nbytes: of the elements.
        contiguous: row-major without gaps.
        dense: some permutation of the dimensions is row-major without gaps.
        wrapped: a Python number that became a 0-d tensor; it promotes like a number.
    """

    __slots__ = (
        "contiguous",
        "dense",
        "dtype",
        "nbytes",
        "ndim",
        "numel",
        "shape",
        "strides",
        "wrapped",
    )

    def __init__(self, shape: Shape, strides: Strides, d: dtype, wrapped: bool = False) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = d
        self.wrapped = wrapped
        self.ndim = len(shape)
        self.numel = prod(shape)
        self.nbytes = self.numel * d.itemsize
        self.contiguous = is_contiguous(shape, strides)
        self.dense = self.contiguous or is_dense(shape, strides)

    def __repr__(self) -> str:
        return f"Layout({list(self.shape)}, strides={self.strides}, {self.dtype})"

    def span(self) -> int:
        """The number of elements from the first to the last inclusive (0 when empty)."""
        return span(self.shape, self.strides)


_MAX_INTERNED = 1 << 14
_interned: dict[tuple[Shape, Strides, dtype], Layout] = {}


def layout(shape: Shape, strides: Strides, d: dtype) -> Layout:
    """The interned layout. Bounded: after a reset equal layouts may exist twice, which only costs
    the plans a second lookup, since nothing relies on identity to be right."""
    key = (shape, strides, d)
    found = _interned.get(key)
    if found is None:
        if len(_interned) >= _MAX_INTERNED:
            _interned.clear()
        found = _interned[key] = Layout(shape, strides, d)
    return found


def dense_layout(shape: Shape, d: dtype) -> Layout:
    """The row-major layout of a shape, in memory that shows a dtype as it is (dtype.plain)."""
    found = _dense.get((shape, d))
    if found is None:
        if len(_dense) >= _MAX_INTERNED:
            _dense.clear()
        found = _dense[shape, d] = layout(shape, contiguous_strides(shape), d.plain)
    return found


_dense: dict[tuple[Shape, dtype], Layout] = {}


def parts(x: Layout) -> Layout:
    """The layout of a complex tensor's parts: its own, and a last dimension of size 2."""
    return layout((*x.shape, 2), (*(2 * s for s in x.strides), 1), PARTS[x.dtype])


def contiguous_strides(shape: Shape) -> Strides:
    """Row-major strides; a zero-size dimension counts as one, as in PyTorch.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Strides) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != step:
                return 0 in shape
            step *= size
    return True


def is_dense(shape: Shape, strides: Strides) -> bool:
    """Whether the elements fill their span exactly, each place once."""
    if 0 in shape:
        return True
    step = 1
    for stride, size in sorted((st, sz) for sz, st in zip(shape, strides, strict=True) if sz != 1):
        if stride != step:
            return False
        step *= size
    return True


def span(shape: Shape, strides: Strides) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def has_internal_overlap(shape: Shape, strides: Strides) -> bool:
    """Whether two indices may address the same element.

    Exact for expanded dimensions and for strides that nest; conservative (False) otherwise, like
    PyTorch's own check.
    """
    if 0 in shape:
        return False
    return any(n > 1 and s == 0 for n, s in zip(shape, strides, strict=True))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting; RuntimeError with PyTorch's words where it fails.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    ndim = max((len(s) for s in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for k in range(1, len(shape) + 1):
            size = shape[-k]
            if size != 1 and size != result[-k]:
                if result[-k] != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({result[-k]}) must match the size of tensor b "
                        f"({size}) at non-singleton dimension {ndim - k} (shapes "
                        + ", ".join(str(list(s)) for s in shapes)
                        + ")"
                    )
                result[-k] = size
    return tuple(result)


def expand_strides(shape: Shape, strides: Strides, to: Shape) -> Strides:
    """Strides of a tensor seen through a broadcast to ``to`` (which must be broadcastable)."""
    lead = len(to) - len(shape)
    return (0,) * lead + tuple(
        s if n == m else 0 for n, s, m in zip(shape, strides, to[lead:], strict=True)
    )


def normalize_dim(dim: int, ndim: int) -> int:
    """A dimension in ``[0, ndim)`` (0-d tensors have one virtual dimension); IndexError outside."""
    n = ndim or 1
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim + n if dim < 0 else dim


def normalize_dims(dims: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Reduction dimensions; None and () mean all. RuntimeError when one appears twice."""
    if dims is None:
        return tuple(range(ndim))
    if not isinstance(dims, Sequence):
        dims = (dims,)
    if not dims:
        return tuple(range(ndim))
    result = tuple(normalize_dim(int(d), ndim) for d in dims)
    for d in result:
        if result.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return result if ndim else ()


def infer_shape(shape: Sequence[int], numel: int) -> Shape:
    """Resolve one -1 in a requested shape; RuntimeError where the sizes cannot fit."""
    result = [int(n) for n in shape]
    unknown = [i for i, n in enumerate(result) if n == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for n in result:
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n}")
    known = prod(n for n in result if n != -1)
    if unknown:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {numel} elements into shape {list(shape)} because the "
                "unspecified dimension size -1 can be any value and is ambiguous"
                if numel == 0
                else f"shape '{list(shape)}' is invalid for input of size {numel}"
            )
        if numel % known == 0:
            result[unknown[0]] = numel // known
            return tuple(result)
    elif known == numel:
        return tuple(result)
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


def view_strides(shape: Shape, strides: Strides, new: Shape) -> Strides | None:
    """Strides that show the same elements, in the same order, in a new shape; None if none do.

    Dimensions are walked from the last: each maximal run of old dimensions that lie in memory like
    one dimension must be matched by whole new dimensions.
    """
    if 0 in shape:
        return strides if shape == new else contiguous_strides(new)
    if not shape:
        return (1,) * len(new)
    result = [0] * len(new)
    view_dim = len(new) - 1
    base = strides[-1]
    run = seen = 1
    for dim in range(len(shape) - 1, -1, -1):
        run *= shape[dim]
        ends = dim == 0 or (shape[dim - 1] != 1 and strides[dim - 1] != run * base)
        if not ends:
            continue
        while view_dim >= 0 and (seen < run or new[view_dim] == 1):
            result[view_dim] = seen * base
            seen *= new[view_dim]
            view_dim -= 1
        if seen != run:
            return None
        if dim > 0:
            base = strides[dim - 1]
            run = seen = 1
    return tuple(result) if view_dim == -1 else None


def iteration_order(shape: Shape, operands: Sequence[Strides]) -> list[int]:
    """Dimensions from the slowest to the fastest, chosen by the operands' strides.

    PyTorch's rule (TensorIterator): insertion sort from the last dimension; two dimensions are
    compared by the first operand that broadcasts neither of them, equal strides by size; what no
    operand decides stays as it is. It fixes the strides of newly allocated results.
    """

    def compare(a: int, b: int) -> int:
        for strides in operands:
            sa, sb = strides[a], strides[b]
            if sa == 0 or sb == 0:
                continue
            if sa != sb:
                return -1 if sa < sb else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(reversed(range(len(shape))))  # fastest first
    for i in range(1, len(order)):
        at = i
        for j in range(i - 1, -1, -1):
            verdict = compare(order[j], order[at])
            if verdict > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif verdict < 0:
                break
    order.reverse()
    return order


def strides_in_order(shape: Shape, order: Sequence[int]) -> Strides:
    """Dense strides of a shape whose dimensions lie in memory in ``order``, slowest first.

    Without elements they are PyTorch's all the same: a size of zero counts only if permuted.
    """
    if all(d == i for i, d in enumerate(order)):
        return contiguous_strides(shape)
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def result_strides(shape: Shape, operands: Sequence[tuple[Shape, Strides]]) -> Strides:
    """Strides PyTorch gives to the result of an elementwise operation on these operands."""
    if not operands:
        return contiguous_strides(shape)
    full = [(n, s) for n, s in operands if n == shape]
    if len(full) == len(operands):
        if all(is_contiguous(n, s) for n, s in full):
            return contiguous_strides(shape)
        first = full[0][1]
        if all(s == first for _, s in full) and is_dense(shape, first):
            return first
    order = iteration_order(shape, [expand_strides(n, s, shape) for n, s in operands])
    return strides_in_order(shape, order)


def coalesce(
    shape: Sequence[int], operands: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Drop dimensions of size one and merge neighbours that every operand walks like one.

    ``shape`` and each operand's strides go from the slowest dimension to the fastest.
    """
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in operands]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(m[-1] == n * s[d] for m, s in zip(merged, operands, strict=True)):
            sizes[-1] *= n
            for m, s in zip(merged, operands, strict=True):
                m[-1] = s[d]
        else:
            sizes.append(n)
            for m, s in zip(merged, operands, strict=True):
                m.append(s[d])
    return sizes, merged


def may_overlap(a: Layout, a_offset: int, b: Layout, b_offset: int) -> bool:
    """Whether two tensors on one storage may share bytes (offsets in bytes; by spans, so
    interleaved tensors count as overlapping)."""
    a_end = a_offset + a.span() * a.dtype.itemsize
    b_end = b_offset + b.span() * b.dtype.itemsize
    return a_offset < b_end and b_offset < a_end


def channels_last(shape: Shape, strides: Strides) -> bool:
    """Whether strides of a 4-d or 5-d tensor say that its channels lie together, fastest of all.

    PyTorch's reading of ambiguous strides (sizes of one): they must not decrease from the channels
    over the last dimensions to the batch.
    """
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[d] == 0 or strides[d] < least:
            return False
        if d == 0 and least == strides[1]:
            return False
        least = strides[d] * max(shape[d], 1)
    return True


def image_layout(shape: Shape, d: dtype, like: Layout) -> Layout:
    """The dense layout of an image operator's result: channels last where ``like`` has it so."""
    if len(shape) == like.ndim and channels_last(like.shape, like.strides):
        order = (0, *range(2, len(shape)), 1)
        return layout(shape, strides_in_order(shape, order), d.plain)
    return dense_layout(shape, d)
