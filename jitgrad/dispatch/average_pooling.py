"""Average pooling: linear maps whose outputs are sums of windows."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import errors
from ..dtypes import FLOATING, int64
from ..kernels.separable import Runs, Separable
from ..tensor import Tensor
from .linear_maps import check_floating, family
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
from .reduction import mean
from .view import squeeze, unsqueeze

_POOLS = {
    2: family("avg_pool2d", "AvgPool2DBackward0"),
    3: family("avg_pool3d", "AvgPool3DBackward0", row_major=True),
}
_ADAPTIVE = {
    2: family("adaptive_avg_pool2d", "AdaptiveAvgPool2DBackward0"),
    3: family("adaptive_avg_pool3d", "AdaptiveAvgPool3DBackward0", row_major=True),
}
_maps = PlanCache()  # among what their nodes show


@functools.lru_cache(1024)
def _map(
    sizes: Sizes, counts: Sizes, p: Pooling, count_include_pad: bool, divisor: int | None
) -> Separable:
    runs: list[Runs] = []
    for n, count, k, stride, pad in zip(sizes, counts, *p[:3], strict=True):
        start = np.arange(count) * stride - pad
        end = np.minimum(start + k, n + pad)
        covered = end - start
        start, end = np.maximum(start, 0), np.minimum(end, n)
        inside = np.maximum(end - start, 1)  # a window without elements sums up to zero
        by = covered if count_include_pad else inside
        if divisor is not None:
            by = np.full(count, 1 if runs else divisor)
        runs.append(Runs(n, start, end, by))
    return Separable(runs)


def _avg_pool(
    rank: int, self: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    key: Any = (
        rank, self.layout, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip
    try:
        return _POOLS[rank].apply(self, _maps[key])
    except KeyError:
        pass
    except TypeError:  # lists
        key = None
    name, of = f"avg_pool{rank}d", self.layout
    p = pooling(name, rank, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if rank == 3 and of.ndim not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    if of.ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-of.ndim}, {of.ndim - 1}], but "
            f"got -3): {name} pools tensors of 3 or 4 dimensions"
        )
    counts = window_counts(name, of, p)
    if rank == 3 and any(n < k for n, k in zip(of.shape[-3:], p.kernel_size, strict=True)):
        shown, sizes = (
            " ".join(f"{before}{c}: {n}" for c, n in zip("THW", numbers, strict=True))
            for before, numbers in (("", of.shape[-3:]), ("k", p.kernel_size))
        )
        raise RuntimeError(f"input image ({shown}) smaller than kernel size ({sizes})")
    if of.dtype.category != FLOATING and of.dtype is not int64:
        raise errors.unsupported(name, of.dtype)
    mapping = _map(of.shape[-rank:], counts, p, bool(count_include_pad), divisor_override)
    visible = p._asdict()
    del visible["dilation"]
    visible |= {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
    visible["map"] = mapping
    if key is not None:
        _maps.add(key, visible)
    return _POOLS[rank].apply(self, visible)


def avg_pool1d(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Means of windows along the last dimension; see :func:`avg_pool2d`.

    >>> import jitgrad as jg
    >>> avg_pool1d(jg.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    check_rank("avg_pool1d", self.layout, 2, 3)
    p = pooling("avg_pool1d", 1, kernel_size, stride, padding, 1, ceil_mode)
    kernel, steps, pads = (1, *p.kernel_size), (1, *p.stride), (0, *p.padding)
    wide = unsqueeze(self, -2)
    pooled = _avg_pool(2, wide, kernel, steps, pads, ceil_mode, count_include_pad, None)
    return squeeze(pooled, -2)


def avg_pool2d(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means of windows over the last two dimensions.

    Args:
        self: [n, channels, h, w] or [channels, h, w], of floats or int64.
        kernel_size: of the windows: one number, or one for each dimension.
        stride: their distance; the size by default.
        padding: zeros before and after, at most half the size of a window.
        ceil_mode: whether a last window may reach beyond the padding.
        count_include_pad: whether the padding counts as elements.
        divisor_override: what sums are divided by, in place of the number of elements.

    Raises:
        RuntimeError: for sizes out of range, or windows that do not fit.

    Gradient: each element gets its share of the gradients of its windows.

    >>> import jitgrad as jg
    >>> avg_pool2d(jg.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _avg_pool(
        2, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means of windows over the last three dimensions; see :func:`avg_pool2d`."""
    return _avg_pool(
        3, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


# To a given size ----------------------------------------------------------------------------------
@functools.lru_cache(1024)
def _adaptive_map(sizes: Sizes, windows: Sizes) -> Separable:
    runs = []
    for n, count in zip(sizes, windows, strict=True):
        start, end = adaptive_bounds(n, count)
        runs.append(Runs(n, start, end, end - start))
    return Separable(runs)


def _adaptive_avg_pool(rank: int, self: Tensor, output_size: Any) -> Tensor:
    name, of = f"adaptive_avg_pool{rank}d", self.layout
    if not hasattr(output_size, "__index__") and len(output_size) not in (1, rank):
        raise RuntimeError(f"{name}: output_size must be {rank}, got {len(output_size)} numbers")
    sizes = sizes_argument(name, "output_size", output_size, rank)
    if min(sizes) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{', '.join(map(str, sizes))}}}"
        )
    if all(n == 1 for n in sizes):
        return mean(self, tuple(range(-1, -rank - 1, -1)), True)
    if of.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got {list(of.shape)}"
        )
    check_nonempty(name, of.shape, of.ndim - rank)
    check_floating(name, of)
    mapping = _adaptive_map(of.shape[-rank:], sizes)
    return _ADAPTIVE[rank].apply(self, {"output_size": sizes, "map": mapping})


def adaptive_avg_pool1d(self: Tensor, output_size: Any) -> Tensor:
    """``output_size`` means of windows that cover the last dimension evenly."""
    check_rank("adaptive_avg_pool1d", self.layout, 2, 3)
    (size,) = sizes_argument("adaptive_avg_pool1d", "output_size", output_size, 1)
    return squeeze(_adaptive_avg_pool(2, unsqueeze(self, -2), (1, size)), -2)


def adaptive_avg_pool2d(self: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover the last two dimensions evenly.

    Window k of n covers the elements from ``floor(k * size / n)`` to ``ceil((k + 1) * size / n)``.

    Args:
        self: [n, channels, h, w] or [channels, h, w], of floats.
        output_size: the number of windows: one, or one for each dimension.

    Raises:
        RuntimeError: for a tensor of another rank, or negative sizes.

    >>> import jitgrad as jg
    >>> adaptive_avg_pool2d(jg.arange(12.0).reshape(1, 3, 4), (1, 3))
    tensor([[[4.5000, 5.5000, 6.5000]]])
    """
    return _adaptive_avg_pool(2, self, output_size)


def adaptive_avg_pool3d(self: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover the last three dimensions evenly."""
    return _adaptive_avg_pool(3, self, output_size)


FUNCTIONS = "avg_pool1d adaptive_avg_pool1d"
