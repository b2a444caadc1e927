"""Max pooling of every kind, and its partial inverse.

All keep where the largest elements were found; gradients move to these places and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..autograd.views import requires_grad
from ..dtypes import BOOL, COMPLEX, FLOATING, int64
from ..kernels import planes, windows
from ..kernels.windows import Windows
from ..layout import Layout, image_layout
from ..ops.table import structured
from ..state import GRAD, modes
from ..tensor import Tensor
from .convert import contiguous
from .linear_maps import check_floating
from .make import alias, fresh
from .places import extremes
from .plans import PlanCache
from .pool_sizes import (
    Pooling,
    Sizes,
    adaptive_bounds,
    check_nonempty,
    check_rank,
    pooling,
    sizes_argument,
    window_counts,
)
from .random import rand
from .record import StructuredNode, node_class, record
from .view import squeeze, unsqueeze

Pair = tuple[Tensor, Tensor]


# Moves between planes and what names their elements -----------------------------------------------
_moves = PlanCache()


def _move(how: str, rank: int, values: Tensor, indices: Tensor, elements: Tensor) -> None:
    key = (how, rank, values.layout, indices.layout, elements.layout)
    plan = _moves.get(key)
    if plan is None:
        layouts = values.layout, indices.layout, elements.layout
        plan = _moves.add(key, planes.plan(how, rank, *layouts))
    run, spec = plan
    buffers = [part for t in (values, indices, elements) for part in (t.storage.buffer, t.offset)]
    run(spec, *buffers)


def _taken(self: Tensor, indices: Tensor, rank: int) -> Tensor:
    """The elements that indices name in the planes of the last ``rank`` dimensions."""
    plain = self if planes.step_of(self.layout, rank) is not None else contiguous(alias(self))
    result = fresh(image_layout(indices.layout.shape, self.layout.dtype, indices.layout))
    _move("take", rank, result, indices, plain)
    record(_TAKE, (self, indices), (result,), {"rank": rank})
    return result


def _scattered(
    cls: type[StructuredNode], grad: Tensor, indices: Tensor, rank: int, like: Layout
) -> Tensor:
    """The transpose of :func:`_taken`, recorded as a node of ``cls``."""
    result = fresh(image_layout(like.shape, grad.layout.dtype, like))
    _move("add", rank, grad, indices, result)
    record(cls, (grad, indices), (result,), {"rank": rank})
    return result


def _backward_class(name: str, node: str) -> type[StructuredNode]:
    """The node of the gradient of ``name``, which is linear."""
    back = {"gradient": lambda grad, indices, rank: _taken(grad, indices, rank)}
    row = structured(f"{name}_backward", "gradient indices", grad=back, fresh=True, node=node)
    return node_class(row)


_TAKE_BACKWARD = _backward_class("plane_take", "ScatterAddBackward0")
_TAKE = node_class(
    structured(
        "plane_take",
        "self indices",
        grad={
            "self": lambda grad, indices, rank, layout: _scattered(
                _TAKE_BACKWARD, grad, indices, rank, layout
            )
        },
        jvp={"self": lambda tangent, indices, rank: _taken(tangent, indices, rank)},
        fresh=True,
        node="GatherBackward0",
    )
)


def _pool_class(name: str, node: str) -> type[StructuredNode]:
    """The node of a max pooling; PyTorch calls the places ``result1``."""
    backward = _backward_class(name, f"{node}BackwardBackward0")
    row = structured(
        name,
        "self result1",
        grad={
            "self": lambda grad, result1, rank, layout: _scattered(
                backward, grad, result1, rank, layout
            )
        },
        jvp={"self": lambda tangent, result1, rank: _taken(tangent, result1, rank)},
        fresh=True,
        node=f"{node}Backward0",
    )
    return node_class(row)


# Windows over planes ------------------------------------------------------------------------------
class _Plan(NamedTuple):
    run: Callable[..., None]
    spec: np.ndarray
    out: Layout
    indices: Layout
    starts: np.ndarray
    visible: Mapping[str, Any]


_plans = PlanCache()


def _plan(of: Layout, each: Sequence[Windows], visible: Mapping[str, Any], starts: Any) -> _Plan:
    rank = len(each)
    shape = (*of.shape[: of.ndim - rank], *(len(w.taps) for w in each))
    out = image_layout(shape, of.dtype, of)
    indices = image_layout(shape, int64, of)
    if starts is None:
        starts = np.concatenate([w.start for w in windows.three(each) if w.start is not None])
        strides: Sequence[int] = (0,) * (of.ndim - rank)
    else:
        strides = [s // 8 for s in starts.strides[:-1]][-(of.ndim - rank) :]
    run, spec = windows.plan(each, of, out, indices, strides)
    return _Plan(run, spec, out, indices, starts, {**visible, "rank": rank})


def _pooled(plan: _Plan, self: Tensor, cls: type[StructuredNode] | None) -> Pair:
    """Results and their places, recorded as a node of ``cls``."""
    result, indices = fresh(plan.out), fresh(plan.indices)
    buffer = result.storage.buffer
    plan.run(
        plan.spec, self.storage.buffer, self.offset, buffer, 0, indices.storage.buffer, 0,
        plan.starts, 0, buffer, 0, buffer, 0,
    )  # fmt: skip
    if cls is not None:
        record(cls, (self, indices), (result,), plan.visible)
    return result, indices


# In equal steps -----------------------------------------------------------------------------------
def _regular(size: int, count: int, k: int, stride: int, pad: int, dilation: int) -> Windows:
    start = np.arange(count) * stride - pad
    end = np.minimum(start + (k - 1) * dilation + 1, size)
    start = np.where(start < 0, start + -(start // dilation) * dilation, start)
    inside = np.maximum(-((start - end) // dilation), 0)
    # A window that meets no element: lowest value, and a place that exists.
    return Windows(size, inside, np.minimum(start, size - 1), dilation)


_POOLS = {
    rank: _pool_class(f"max_pool{rank}d_with_indices", f"MaxPool{rank}DWithIndices")
    for rank in (2, 3)
}


def _regular_plan(name: str, of: Layout, p: Pooling) -> _Plan:
    rank = len(p.kernel_size)
    counts = window_counts(name, of, p)
    if of.dtype.category in (BOOL, COMPLEX):
        raise errors.unsupported(name, of.dtype)
    each = [
        _regular(*sizes) for sizes in zip(of.shape[of.ndim - rank :], counts, *p[:4], strict=True)
    ]
    return _plan(of, each, p._asdict(), None)


def _max_pool(
    rank: int, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Pair:  # fmt: skip
    name, of = f"max_pool{rank}d", self.layout
    p = pooling(name, rank, kernel_size, stride, padding, dilation, ceil_mode)
    plan = _plans.get((of, p))
    if plan is None:
        if of.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input, "
                f"got one of {of.ndim} dimensions in {name}()"
            )
        plan = _plans.add((of, p), _regular_plan(name, of, p))
    return _pooled(plan, self, _POOLS[rank])


def max_pool1d_with_indices(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Pair:
    """The largest element of each window along the last dimension, and where it lies there."""
    check_rank("max_pool1d", self.layout, 2, 3)
    p = pooling("max_pool1d", 1, kernel_size, stride, padding, dilation, ceil_mode)
    kernel, steps, pads, gaps = (
        (1, *p.kernel_size),
        (1, *p.stride),
        (0, *p.padding),
        (1, *p.dilation),
    )
    values, indices = _max_pool(2, unsqueeze(self, -2), kernel, steps, pads, gaps, ceil_mode)
    return squeeze(values, -2), squeeze(indices, -2)


def max_pool2d_with_indices(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Pair:
    """:func:`max_pool2d`, and the place of each element in its plane (int64, row-major)."""
    return _max_pool(2, self, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Pair:
    """:func:`max_pool3d`, and the place of each element in its volume (int64, row-major)."""
    return _max_pool(3, self, kernel_size, stride, padding, dilation, ceil_mode)


def _check_line(of: Layout, p: Pooling) -> None:
    """What PyTorch checks in other words where no places are asked for."""
    if of.ndim not in (2, 3) or 0 in of.shape[-2:]:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(of.shape)}"
        )
    (k,), (stride,), (pad,), (dilation,), ceil_mode = p
    for what, n in (("kernel_size", k), ("stride", stride), ("dilation", dilation)):
        if n <= 0:
            raise RuntimeError(f"max_pool1d() {what} must be greater than zero, but got {n}")
    if pad < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {pad}")
    if pad > ((k - 1) * dilation + 1) // 2:
        raise RuntimeError(
            "max_pool1d() padding should be at most half of effective kernel size, but got "
            f"padding={pad}, kernel_size={k} and dilation={dilation}"
        )
    room = of.shape[-1] + 2 * pad - dilation * (k - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if count < 1:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")


def max_pool1d(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window along the last dimension; see :func:`max_pool2d`.

    >>> import jitgrad as jg
    >>> jg.max_pool1d(jg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    of = self.layout
    p = pooling("max_pool1d", 1, kernel_size, stride, padding, dilation, ceil_mode)
    if modes.levels or (modes.mode & GRAD and requires_grad(self)):
        _check_line(of, p)
        return max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]
    plan = _plans.get((of, p))
    if plan is None:
        _check_line(of, p)
        check_floating("max_pool1d_impl", of)
        plan = _plans.add((of, p), _regular_plan("max_pool1d", of, p))
    return _pooled(plan, self, None)[0]


def max_pool2d(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window over the last two dimensions; NaN if any is.

    Args:
        self: [n, channels, h, w] or [channels, h, w], of any real dtype but bool.
        kernel_size: of the windows: one number, or one for each dimension.
        stride: their distance; the size by default.
        padding: how far windows reach beyond the edges, at most half their size.
        dilation: the distance of a window's elements.
        ceil_mode: whether a last window may reach beyond the padding.

    Raises:
        RuntimeError: for sizes out of range, or windows that do not fit.

    Gradient: goes to the element that was chosen, the first of equal ones.

    >>> import jitgrad as jg
    >>> jg.max_pool2d(jg.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max_pool(2, self, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool3d(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window over the last three dimensions; see :func:`max_pool2d`."""
    return _max_pool(3, self, kernel_size, stride, padding, dilation, ceil_mode)[0]


# To a given size ----------------------------------------------------------------------------------
_ADAPTIVE = {
    rank: _pool_class(f"adaptive_max_pool{rank}d", f"AdaptiveMaxPool{rank}D") for rank in (2, 3)
}


def _adaptive_max_pool(rank: int, self: Tensor, output_size: Any) -> Pair:
    name, of = f"adaptive_max_pool{rank}d", self.layout
    if not hasattr(output_size, "__index__") and len(output_size) not in (1, rank):
        raise RuntimeError(
            f"{name}(): internal error: output_size.size() must be {rank}, got {len(output_size)} "
            "numbers"
        )
    sizes = sizes_argument(name, "output_size", output_size, rank)
    plan = _plans.get((of, sizes))
    if plan is None:
        if of.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(of.shape)}"
            )
        check_nonempty(name, of.shape, of.ndim - rank - 1)
        if min(sizes) < 0:
            shape = [*of.shape[: of.ndim - rank], *sizes]
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {min(sizes)}: {shape} in {name}()"
            )
        check_floating(name, of)
        each = []
        for n, count in zip(of.shape[of.ndim - rank :], sizes, strict=True):
            start, end = adaptive_bounds(n, count)
            each.append(Windows(n, end - start, start))
        plan = _plans.add((of, sizes), _plan(of, each, {"output_size": sizes}, None))
    return _pooled(plan, self, _ADAPTIVE[rank])


def adaptive_max_pool1d(self: Tensor, output_size: Any) -> Pair:
    """The largest elements of windows that cover the last dimension evenly, and their places."""
    check_rank("adaptive_max_pool1d", self.layout, 2, 3)
    (size,) = sizes_argument("adaptive_max_pool1d", "output_size", output_size, 1)
    values, indices = _adaptive_max_pool(2, unsqueeze(self, -2), (1, size))
    return squeeze(values, -2), squeeze(indices, -2)


def adaptive_max_pool2d(self: Tensor, output_size: Any) -> Pair:
    """The largest elements of windows that cover the last two dimensions evenly, and their places.

    Window k of n covers the elements from ``floor(k * size / n)`` to ``ceil((k + 1) * size / n)``.

    Args:
        self: [n, channels, h, w] or [channels, h, w], of floats.
        output_size: the number of windows: one, or one for each dimension.

    Raises:
        RuntimeError: for a tensor of another rank, without elements, or negative sizes.
    """
    return _adaptive_max_pool(2, self, output_size)


def adaptive_max_pool3d(self: Tensor, output_size: Any) -> Pair:
    """The largest elements of windows that cover the last three dimensions evenly, with places."""
    return _adaptive_max_pool(3, self, output_size)


# At random ----------------------------------------------------------------------------------------
_FRACTIONAL = {
    rank: _pool_class(f"fractional_max_pool{rank}d", f"FractionalMaxPool{rank}D") for rank in (2, 3)
}


def _fractional_starts(samples: np.ndarray, size: int, count: int, k: int) -> np.ndarray:
    """Where each plane's windows begin: in steps that are the same but for rounding (Graham 2014).

    Computed in the dtype of the samples, as PyTorch does.
    """
    if count == 1:
        return np.full((*samples.shape, 1), size - k)
    step = samples.dtype.type(size - k) / samples.dtype.type(count - 1)
    moved = (np.arange(count, dtype=samples.dtype) + samples[..., None]) * step
    starts = moved.astype(np.int64) - (samples[..., None] * step).astype(np.int64)
    starts[..., -1] = size - k
    return starts


def fractional_max_pool(
    rank: int, self: Tensor, kernel_size: Any, output_size: Any, samples: Tensor | None
) -> Pair:
    """The largest elements of windows at pseudo-random distances, and their places.

    Args:
        rank: 2 or 3: how many dimensions are pooled.
        samples: [n, channels, rank] of uniform numbers in [0, 1), drawn unless given: where the
            sequences of steps begin.

    Raises:
        RuntimeError: for sizes that do not fit, or samples of another shape or dtype.
    """
    name, of = f"fractional_max_pool{rank}d", self.layout
    if samples is None:
        if of.ndim < rank + 1:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-of.ndim}, {of.ndim - 1}], "
                f"but got {-rank - 1}): {name} pools tensors of {rank + 1} or {rank + 2} dimensions"
            )
        if of.dtype.category != FLOATING:
            raise errors.unsupported("check_uniform_bounds", of.dtype)
        batch = 1 if of.ndim == rank + 1 else of.shape[0]
        samples = rand(batch, of.shape[-rank - 1], rank, dtype=of.dtype)
    for what, value in (("kernel_size", kernel_size), ("output_size", output_size)):
        if not hasattr(value, "__index__") and len(value) not in (1, rank):
            raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of Ints")
    kernel = sizes_argument(name, "kernel_size", kernel_size, rank)
    sizes = sizes_argument(name, "output_size", output_size, rank)
    _check_fractional(name, of, samples.layout, kernel, sizes)
    at = samples.detach()._numbers()[: of.shape[0] if of.ndim == rank + 2 else 1]
    # Of two samples the first belongs to the last dimension.
    columns = reversed(range(rank)) if rank == 2 else range(rank)
    each, starts = [], []
    for column, n, count, k in zip(columns, of.shape[of.ndim - rank :], sizes, kernel, strict=True):
        each.append(Windows(n, np.full(count, k), None))
        starts.append(_fractional_starts(at[..., column], n, count, k))
    if rank == 2:
        starts.insert(0, np.zeros((*at.shape[:2], 1), np.int64))
    table = np.ascontiguousarray(np.concatenate(starts, -1), np.int64)
    plan = _plan(of, each, {"kernel_size": kernel, "output_size": sizes}, table)
    return _pooled(plan, self, _FRACTIONAL[rank])


def _check_fractional(name: str, of: Layout, samples: Layout, kernel: Sizes, sizes: Sizes) -> None:
    rank = len(kernel)
    if of.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(of.shape)}"
        )
    check_nonempty(name, of.shape, of.ndim - rank - 1)
    check_floating(name, of)
    if samples.dtype is not of.dtype:
        raise RuntimeError(
            "Expect _random_samples to have the same dtype as input, got "
            f"{samples.dtype} and {of.dtype}"
        )
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    batch = of.shape[0] if of.ndim == rank + 2 else 1
    if samples.shape[0] < batch:
        raise RuntimeError(
            f"Expect _random_samples.size(0) no less then input batch size. ({samples.shape[0]} "
            f"samples, a batch of {batch})"
        )
    if samples.shape[1] != of.shape[-rank - 1]:
        raise RuntimeError(
            "Expect _random_samples.size(1) equals to input channel size; got "
            f"{samples.shape[1]} and {of.shape[-rank - 1]}"
        )
    if samples.shape[2] != rank:
        raise RuntimeError(
            f"Expect _random_samples.size(2) equals to {rank}; got {samples.shape[2]}."
        )
    words = ("height", "width") if rank == 2 else ("time", "height", "width")
    for word, n, k, count in zip(words, of.shape[-rank:], kernel, sizes, strict=True):
        if count + k - 1 > n or k < 1 or count < 1:
            raise RuntimeError(
                f"{name}(): pool {word} {k} too large relative to input {word} {n} for an output "
                f"of size {count}"
            )


# Back again ---------------------------------------------------------------------------------------
_UNPOOLS = {
    rank: node_class(
        structured(
            f"max_unpool{rank}d",
            "self indices",
            grad={"self": lambda grad, indices, rank: _taken(grad, indices, rank)},
            jvp={
                "self": lambda tangent, indices, rank, output_size: max_unpool(
                    rank, tangent, indices, output_size
                )
            },
            node=f"MaxUnpool{rank}DBackward0",
            fresh=True,
        )
    )
    for rank in (2, 3)
}


def max_unpool(rank: int, self: Tensor, indices: Tensor, output_size: Sizes) -> Tensor:
    """Zeros in planes of ``output_size`` but for the elements of ``self`` at their places.

    Args:
        rank: 2 or 3: how many dimensions a plane has.
        indices: the places, int64, as max pooling gives them; of several values for one place the
            last stays.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit, or a place outside.
    """
    of, at = self.layout, indices.layout
    if of.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Input to max_unpooling{rank}d should be a {rank + 1}d or {rank + 2}d Tensor, but got "
            f"a tensor with {of.ndim} dimensions."
        )
    if at.dtype is not int64:
        raise RuntimeError(
            "elements in indices should be type int64 but got: "
            f"{at.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if at.shape != of.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(of.shape)}) but got indices tensor with shape: {list(at.shape)}"
        )
    for d, n in enumerate(of.shape):
        if n == 0 and d > 0:
            raise RuntimeError(
                f"max_unpooling{rank}d_forward_out_cpu(): Expected input to have non-zero size for "
                f"non-batch dimensions, but got {list(of.shape)} with dimension {d} being empty."
            )
    check_floating(f"max_unpool{rank}d", of)
    low, high = extremes(indices)
    volume = int(np.prod(output_size))
    if of.numel and (low < 0 or high >= volume):
        raise RuntimeError(
            f"Found an invalid max index: {low if low < 0 else high} (output volumes are of size "
            f"{'x'.join(map(str, output_size))}"
            ")"
        )
    shape = (*of.shape[: of.ndim - rank], *output_size)
    result = fresh(image_layout(shape, of.dtype, of))
    _move("put", rank, self, indices, result)
    attributes = {"output_size": output_size, "rank": rank}
    record(_UNPOOLS[rank], (self, indices), (result,), attributes)
    return result


FUNCTIONS = "max_pool1d max_pool1d_with_indices max_pool2d max_pool3d adaptive_max_pool1d"
