"""Max pooling, in equal steps and to a given size."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import errors
from ..autograd.views import requires_grad
from ..dtypes import BOOL, COMPLEX
from ..kernels.windows import Windows
from ..layout import Layout
from ..state import GRAD, modes
from ..tensor import Tensor
from .convert import flipped, unflipped
from .linear_maps import check_floating
from .planes import Pair, WindowPlan, plan_windows, pool_class, pooled
from .plans import PlanCache
from .pool_sizes import (
    Pooling,
    adaptive_bounds,
    check_nonempty,
    check_rank,
    pooling,
    sizes_argument,
    window_counts,
)
from .view import squeeze, unsqueeze

_plans = PlanCache()


# In equal steps -----------------------------------------------------------------------------------
def _regular(size: int, count: int, k: int, stride: int, pad: int, dilation: int) -> Windows:
    start = np.arange(count) * stride - pad
    end = np.minimum(start + (k - 1) * dilation + 1, size)
    start = np.where(start < 0, start + -(start // dilation) * dilation, start)
    inside = np.maximum(-((start - end) // dilation), 0)
    # A window that meets no element: lowest value, and a place that exists.
    return Windows(size, inside, np.minimum(start, size - 1), dilation)


_POOLS = {
    rank: pool_class(f"max_pool{rank}d_with_indices", f"MaxPool{rank}DWithIndices")
    for rank in (2, 3)
}


def _regular_plan(name: str, of: Layout, p: Pooling) -> WindowPlan:
    rank = len(p.kernel_size)
    counts = window_counts(name, of, p)
    if of.dtype.category in (BOOL, COMPLEX):
        raise errors.unsupported(name, of.dtype)
    each = [
        _regular(*sizes) for sizes in zip(of.shape[of.ndim - rank :], counts, *p[:4], strict=True)
    ]
    return plan_windows(of, each, p._asdict())


def _max_pool(
    rank: int, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Pair:  # fmt: skip
    key: Any = (rank, self.layout, kernel_size, stride, padding, dilation, ceil_mode)
    try:
        return pooled(_plans[key], self, _POOLS[rank])
    except KeyError:
        pass
    except TypeError:  # lists
        key = None
    if flipped(self):
        self = unflipped(self)
        return _max_pool(rank, self, kernel_size, stride, padding, dilation, ceil_mode)
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
    if key is not None:
        _plans.add(key, plan)
    return pooled(plan, self, _POOLS[rank])


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
        if flipped(self):
            self = unflipped(self)
            return max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode)
        _check_line(of, p)
        check_floating("max_pool1d_impl", of)
        plan = _plans.add((of, p), _regular_plan("max_pool1d", of, p))
    return pooled(plan, self, None)[0]


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
    rank: pool_class(f"adaptive_max_pool{rank}d", f"AdaptiveMaxPool{rank}D") for rank in (2, 3)
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
        if flipped(self):
            return _adaptive_max_pool(rank, unflipped(self), output_size)
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
        plan = _plans.add(
            (of, sizes), plan_windows(of, each, {"output_size": sizes}, row_major=rank == 3)
        )
    return pooled(plan, self, _ADAPTIVE[rank])


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


FUNCTIONS = "max_pool1d max_pool1d_with_indices max_pool2d max_pool3d adaptive_max_pool1d"
