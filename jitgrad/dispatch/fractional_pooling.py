"""Max pooling of windows at pseudo-random distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import errors
from ..dtypes import FLOATING
from ..kernels.windows import Windows
from ..layout import Layout
from ..tensor import Tensor
from .convert import unflipped
from .linear_maps import check_floating
from .planes import Pair, plan_windows, pool_class, pooled
from .pool_sizes import Sizes, check_nonempty, sizes_argument
from .random import rand

_FRACTIONAL = {
    rank: pool_class(f"fractional_max_pool{rank}d", f"FractionalMaxPool{rank}D") for rank in (2, 3)
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
    self = unflipped(self)
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
    plan = plan_windows(
        of, each, {"kernel_size": kernel, "output_size": sizes}, table, row_major=True
    )
    return pooled(plan, self, _FRACTIONAL[rank])


def _check_fractional(name: str, of: Layout, samples: Layout, kernel: Sizes, sizes: Sizes) -> None:
    rank = len(kernel)
    if of.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(of.shape)}"
        )
    check_nonempty(name, of.shape, of.ndim - rank - 1)
    check_floating(name, of)
    if samples.dtype.plain is not of.dtype.plain:
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
