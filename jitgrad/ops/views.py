"""View operators: geometry in, geometry out; no element moves.

A geometry function takes the layout of a tensor and the arguments of the call and returns the
shape, the strides and the offset (in elements) of the view. Gradients of views are short functions
over Tensors; those that leave elements out put the gradient into zeros at the view's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from ..dtypes import CONJUGATED, NEGATED, OF_PARTS, dtype
from ..layout import (
    Layout,
    Shape,
    Strides,
    infer_shape,
    normalize_dim,
    parts,
    view_strides,
)
from .table import Structured, structured

Geometry = tuple[Shape, Strides, int]
Reread = tuple[Shape, Strides, int, dtype]  # a view that reads the elements as another dtype


class View(NamedTuple):
    """A view operator: its geometry and its row in the table."""

    geometry: Callable[..., Geometry | Reread]
    row: Structured
    parameters: tuple[str, ...]  # of the geometry, the layout left out


VIEWS: dict[str, View] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _view(
    grad: Callable[..., Any], node: str = "", named: str = ""
) -> Callable[[_Function], _Function]:
    def add(geometry: _Function) -> _Function:
        name = named or geometry.__name__
        row = structured(name, "self", grad={"self": grad}, node=node, fresh=True)
        parameters = geometry.__code__.co_varnames[1 : geometry.__code__.co_argcount]
        VIEWS[name] = View(geometry, row, parameters)
        return geometry

    return add


@_view(lambda grad, layout: grad._reshaped(layout.shape), named="reshape_alias")
@_view(lambda grad, layout: grad._reshaped(layout.shape))
def view(self: Layout, shape: Shape) -> Geometry:
    new = infer_shape(shape, self.numel)
    strides = view_strides(self.shape, self.strides, new)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead. (view() "
            f"of shape {list(self.shape)}, strides {self.strides} as {list(shape)})"
        )
    return new, strides, 0


@_view(lambda grad, layout: grad.sum_to_size(layout.shape))
def expand(self: Layout, shape: Shape) -> Geometry:
    lead = len(shape) - self.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand(jitgrad.{self.dtype.tensor_type}{{{list(self.shape)}}}, size={list(shape)}): "
            f"the number of sizes provided ({len(shape)}) must be greater or equal to the number "
            f"of dimensions in the tensor ({self.ndim})"
        )
    sizes, strides = [], []
    for d, n in enumerate(shape):
        old = self.shape[d - lead] if d >= lead else 1
        if n == -1:
            if d < lead:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) isn't allowed in a leading, "
                    f"non-existing dimension {d}"
                )
            n = old
        if n < 0:
            raise RuntimeError(f"expand(): invalid size {n} at dimension {d}")
        if old not in (1, n):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({old}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(shape)}.  Tensor sizes: "
                f"{list(self.shape)}"
            )
        sizes.append(n)
        if d >= lead and old == n:
            strides.append(self.strides[d - lead])
        elif d >= lead or n != 1:
            strides.append(0)
        else:  # a new dimension of size one: any stride will do; PyTorch's continues the next one
            strides.append(0)
    for d in range(len(sizes) - 1, -1, -1):
        if sizes[d] == 1 and d < lead:
            strides[d] = sizes[d + 1] * strides[d + 1] if d + 1 < len(sizes) else 1
    return tuple(sizes), tuple(strides), 0


@_view(
    lambda grad, dims: grad._seen(
        "permute", (tuple(sorted(range(len(dims)), key=dims.__getitem__)),)
    )
)
def permute(self: Layout, dims: tuple[int, ...]) -> Geometry:
    if len(dims) != self.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not "
            f"equal to len(dims) = {len(dims)}"
        )
    order = [normalize_dim(d, self.ndim) for d in dims]
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return tuple(self.shape[d] for d in order), tuple(self.strides[d] for d in order), 0


def _swapped(self: Layout, a: int, b: int) -> Geometry:
    if self.ndim == 0:
        return (), (), 0
    shape, strides = list(self.shape), list(self.strides)
    shape[a], shape[b] = shape[b], shape[a]
    strides[a], strides[b] = strides[b], strides[a]
    return tuple(shape), tuple(strides), 0


@_view(lambda grad, dim0, dim1: grad._seen("transpose", (dim0, dim1)))
def transpose(self: Layout, dim0: int, dim1: int) -> Geometry:
    return _swapped(self, normalize_dim(dim0, self.ndim), normalize_dim(dim1, self.ndim))


@_view(lambda grad: grad._seen("t", ()))
def t(self: Layout) -> Geometry:
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return _swapped(self, 0, self.ndim - 1)


@_view(lambda grad, dim: grad._seen("squeeze_dim", (dim,)))
def unsqueeze(self: Layout, dim: int) -> Geometry:
    dim = normalize_dim(dim, self.ndim + 1)
    stride = self.shape[dim] * self.strides[dim] if dim < self.ndim else 1
    return (
        (*self.shape[:dim], 1, *self.shape[dim:]),
        (*self.strides[:dim], stride, *self.strides[dim:]),
        0,
    )


def _unsqueezed(grad: Any, layout: Layout) -> Any:
    """Put back the dimensions of size one that squeeze() dropped."""
    return grad._reshaped(layout.shape)


def _kept(self: Layout, dropped: Callable[[int], bool]) -> Geometry:
    keep = [d for d in range(self.ndim) if self.shape[d] != 1 or not dropped(d)]
    return tuple(self.shape[d] for d in keep), tuple(self.strides[d] for d in keep), 0


@_view(_unsqueezed, node="SqueezeBackward0")
def squeeze_all(self: Layout) -> Geometry:
    return _kept(self, lambda d: True)


@_view(_unsqueezed, node="SqueezeBackward2")
def squeeze_dims(self: Layout, dims: tuple[int, ...]) -> Geometry:
    drop = [normalize_dim(d, self.ndim) for d in dims]
    for d in drop:
        if drop.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims in squeeze()")
    return _kept(self, drop.__contains__)


@_view(_unsqueezed, node="SqueezeBackward1", named="squeeze_dim")
def _squeeze_dim(self: Layout, dim: int) -> Geometry:
    dim = normalize_dim(dim, self.ndim)
    return _kept(self, lambda d: d == dim)


@_view(lambda grad, layout, dim, index: grad._embed(layout, "select", (dim, index)))
def select(self: Layout, dim: int, index: int) -> Geometry:
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = normalize_dim(dim, self.ndim)
    n = self.shape[dim]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at "
            f"dimension {dim}"
        )
    index %= n
    return (
        self.shape[:dim] + self.shape[dim + 1 :],
        self.strides[:dim] + self.strides[dim + 1 :],
        index * self.strides[dim],
    )


@_view(
    lambda grad, layout, dim, start, end, step: grad._embed(
        layout, "slice", (dim, start, end, step)
    )
)
def slice(self: Layout, dim: int, start: int | None, end: int | None, step: int) -> Geometry:
    if self.ndim == 0:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise ValueError("step must be greater than zero")
    dim = normalize_dim(dim, self.ndim)
    n = self.shape[dim]
    low = 0 if start is None else max(start + n, 0) if start < 0 else min(start, n)
    high = n if end is None else max(end + n, 0) if end < 0 else min(end, n)
    size = max(0, -(-(high - low) // step))
    shape = (*self.shape[:dim], size, *self.shape[dim + 1 :])
    strides = (*self.strides[:dim], self.strides[dim] * step, *self.strides[dim + 1 :])
    return shape, strides, low * self.strides[dim]


@_view(
    lambda grad, layout, offset, dim1, dim2: grad._embed(layout, "diagonal", (offset, dim1, dim2))
)
def diagonal(self: Layout, offset: int, dim1: int, dim2: int) -> Geometry:
    a, b = normalize_dim(dim1, self.ndim), normalize_dim(dim2, self.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = [d for d in range(self.ndim) if d not in (a, b)]
    if offset >= 0:
        size, start = min(self.shape[a], self.shape[b] - offset), offset * self.strides[b]
    else:
        size, start = min(self.shape[a] + offset, self.shape[b]), -offset * self.strides[a]
    size = max(size, 0)
    shape = (*(self.shape[d] for d in rest), size)
    strides = (*(self.strides[d] for d in rest), self.strides[a] + self.strides[b])
    return shape, strides, start if size else 0


@_view(
    lambda grad, layout, dimension, size, step: grad._unfold_adjoint(layout, dimension, size, step)
)
def unfold(self: Layout, dimension: int, size: int, step: int) -> Geometry:
    dim = normalize_dim(dimension, self.ndim)
    n = self.shape[dim] if self.ndim else 1
    if not 0 <= size <= n:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.ndim:
        return (size,), (1,), 0
    shape = (*self.shape[:dim], (n - size) // step + 1, *self.shape[dim + 1 :], size)
    strides = (
        *self.strides[:dim],
        self.strides[dim] * step,
        *self.strides[dim + 1 :],
        self.strides[dim],
    )
    return shape, strides, 0


@_view(
    lambda grad, layout, size, stride, storage_offset: grad._as_strided_adjoint(
        layout, size, stride, storage_offset
    )
)
def as_strided(self: Layout, size: Shape, stride: Strides, storage_offset: int) -> Geometry:
    """``storage_offset`` counts from this tensor's first element here (see dispatch/view.py)."""
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(stride)} strides, {len(size)} sizes"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    return tuple(size), tuple(stride), storage_offset


@_view(lambda grad: grad, node="AliasBackward0")
def alias(self: Layout) -> Geometry:
    return self.shape, self.strides, 0


# Complex numbers ----------------------------------------------------------------------------------
# With gradients dL/dx + i dL/dy, each of these is a linear function of the parts whose adjoint is
# its inverse.
@_view(lambda grad: grad.contiguous().resolve_neg()._seen("view_as_complex", ()))
def view_as_real(self: Layout) -> Reread:
    if not self.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if self.dtype.conjugated:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
            "tensor so you can view it as real, use self.resolve_conj(); however, be warned that "
            "the resulting tensor will NOT alias the original."
        )
    result = parts(self)
    return result.shape, result.strides, 0, result.dtype


@_view(lambda grad: grad.resolve_conj()._seen("view_as_real", ()))
def view_as_complex(self: Layout) -> Reread:
    if self.dtype.negated:
        raise RuntimeError(
            "view_as_complex doesn't work on tensors with the negative bit set: use resolve_neg() "
            "first"
        )
    if self.dtype not in OF_PARTS:
        raise RuntimeError(
            "view_as_complex is only supported for float and double tensors, but got a tensor of "
            f"scalar type: {self.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if not self.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if self.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if self.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in self.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    strides = tuple(s // 2 for s in self.strides[:-1])
    return self.shape[:-1], strides, 0, OF_PARTS[self.dtype]


@_view(lambda grad: grad._seen("conj", ()))
def conj(self: Layout) -> Reread:
    return self.shape, self.strides, 0, CONJUGATED[self.dtype]


@_view(lambda grad: -grad)
def neg_view(self: Layout) -> Reread:
    return self.shape, self.strides, 0, NEGATED[self.dtype]


def attributes(view: View, arguments: tuple[Any, ...]) -> Mapping[str, Any]:
    """The arguments of a view by name, as its gradient formula asks for them."""
    return dict(zip(view.parameters, arguments, strict=True))


__all__ = ["VIEWS", "Geometry", "View", "attributes"]
