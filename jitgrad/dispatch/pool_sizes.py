"""Arguments and shapes of poolings: sizes for each dimension, windows, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..layout import Layout, Shape
from .make import int_argument

_WORDS = {1: "one int", 2: "two ints", 3: "three ints"}
Sizes = tuple[int, ...]


def sizes_argument(name: str, argument: str, value: Any, rank: int, omitted: str = "") -> Sizes:
    """A number for each dimension: one for all, or a sequence.

    Raises:
        TypeError: if it holds something else than ints.
        RuntimeError: for another number of them; ``omitted`` says what else is allowed.
    """
    if value.__class__ is int:
        return (value,) * rank
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) == rank:
            return tuple(int_argument(name, argument, v) for v in value)
        if len(value) == 1:
            return (int_argument(name, argument, value[0]),) * rank
        if rank == 1:
            raise RuntimeError(
                f"{name}() argument '{argument}' should contain one int (got {len(value)})"
            )
        raise RuntimeError(
            f"{name}: {argument} must either be {omitted}a single int, or a tuple of "
            f"{_WORDS[rank]}, got {len(value)} numbers"
        )
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise errors.argument(name, argument, "tuple of ints", value)
    return (value.__index__(),) * rank


class Pooling(NamedTuple):
    """How windows lie: one number for each dimension."""

    kernel_size: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    ceil_mode: bool


def pooling(
    name: str, rank: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any
) -> Pooling:
    """The arguments of a call; a stride that is not given is the size of the windows."""
    kernel = sizes_argument(name, "kernel_size", kernel_size, rank)
    steps = kernel
    if stride is not None and not (isinstance(stride, Sequence) and not len(stride)):
        steps = sizes_argument(name, "stride", stride, rank, "omitted, ")
    return Pooling(
        kernel,
        steps,
        sizes_argument(name, "padding", padding, rank),
        sizes_argument(name, "dilation", dilation, rank),
        bool(ceil_mode),
    )


def _windows(size: int, k: int, stride: int, pad: int, dilation: int, *, ceil_mode: bool) -> int:
    """The number of windows along a dimension; RuntimeError for sizes that make none."""
    if stride == 0:
        raise RuntimeError("stride should not be zero")
    if pad < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {pad}")
    if pad > ((k - 1) * dilation + 1) // 2:
        raise RuntimeError(
            "pad should be at most half of effective kernel size, but got "
            f"pad={pad}, kernel_size={k} and dilation={dilation}"
        )
    room = size + 2 * pad - dilation * (k - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1  # the last one would begin in the padding on the right
    return count


def window_counts(name: str, of: Layout, p: Pooling) -> Sizes:
    """The number of windows along each of the last dimensions.

    Raises:
        RuntimeError: for sizes out of range, or an input of another rank, or without elements but
            for an empty batch.
    """
    rank = len(p.kernel_size)
    sizes = of.shape[of.ndim - rank :]
    counts = tuple(
        _windows(*numbers, ceil_mode=p.ceil_mode) for numbers in zip(sizes, *p[:4], strict=True)
    )
    names = "THW"[-rank:]
    for what, letter, values in (
        ("kernel size", "k", p.kernel_size),
        ("stride", "d", p.stride),
        ("dilation", "dilation", p.dilation),
    ):
        if min(values) <= 0:
            shown = " ".join(f"{letter}{n}: {v}" for n, v in zip(names, values, strict=True))
            raise RuntimeError(f"{what} should be greater than zero, but got {shown}")
    check_elements(name, of, rank)
    if min(counts) < 1:
        channels = "x".join(map(str, of.shape[of.ndim - rank - 1 :]))
        raise RuntimeError(
            f"Given input size: ({channels}). Calculated output size: "
            f"({of.shape[of.ndim - rank - 1]}x{'x'.join(map(str, counts))}). Output size is too "
            "small"
        )
    return counts


def check_elements(name: str, of: Layout, rank: int) -> None:
    """RuntimeError unless there is a channel and its plane has elements."""
    empty = 0 in of.shape[of.ndim - rank - 1 :]
    if empty and rank == 3:
        raise RuntimeError(
            f"{name}: Expected input's non-batch dimensions to have positive length, but input has "
            f"a shape of {list(of.shape)}"
        )
    if empty or of.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim "
            f"batch size for input, but got:{list(of.shape)}"
        )


def check_rank(name: str, of: Layout, *ranks: int) -> None:
    """RuntimeError unless a tensor has one of these numbers of dimensions."""
    if of.ndim not in ranks:
        raise RuntimeError(
            f"Expected {ranks[0]} to {ranks[-1]} dimensions, but got {of.ndim}-dimensional tensor "
            f"for argument #1 'self' (while checking arguments for {name})"
        )


def adaptive_bounds(size: int, windows: int) -> tuple[np.ndarray, np.ndarray]:
    """Where ``windows`` windows begin and end that cover ``size`` elements as evenly as can be."""
    k = np.arange(windows)
    return k * size // max(windows, 1), -(-(k + 1) * size // max(windows, 1))


def check_nonempty(name: str, shape: Shape, first: int) -> None:
    """RuntimeError if a dimension from ``first`` on is empty."""
    for d, n in enumerate(shape):
        if d >= first and n == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(shape)} with dimension {d} being empty"
            )
