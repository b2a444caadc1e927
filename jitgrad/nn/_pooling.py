"""Pooling: the largest, the mean, or a power mean of the elements of each window.

Inputs are [n, channels, ...] or [channels, ...], with the last one to three dimensions pooled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch import average_pooling as averages
from ..dispatch import fractional_pooling as fractional
from ..dispatch import max_pooling as kernels
from ..dispatch import unpooling, view
from ..dispatch.elementwise import functions
from ..dispatch.padding import pad
from ..tensor import Tensor

avg_pool1d = averages.avg_pool1d
avg_pool2d = averages.avg_pool2d
avg_pool3d = averages.avg_pool3d
adaptive_avg_pool1d = averages.adaptive_avg_pool1d

Pair = tuple[Tensor, Tensor]
_PLANES = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


# The largest --------------------------------------------------------------------------------------
def _max_pool(rank: int) -> tuple[Callable[..., Any], Callable[..., Pair]]:
    name = f"max_pool{rank}d"
    alone = getattr(kernels, name)
    both = getattr(kernels, f"{name}_with_indices")

    def max_pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        function = both if return_indices else alone
        return function(input, kernel_size, stride, padding, dilation, ceil_mode)

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Pair:
        return both(input, kernel_size, stride, padding, dilation, ceil_mode)

    doc = (
        f"The largest element of each window over {_PLANES[rank]}; "
        "see :func:`jitgrad.max_pool2d`.\n\n"
        "With ``return_indices`` also where each lies in its plane (int64, row-major)."
    )
    return (
        _named(max_pool, name, doc),
        _named(with_indices, f"{name}_with_indices", f":func:`{name}` with ``return_indices``."),
    )


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


# To a given size ----------------------------------------------------------------------------------
def _with_default(input: Tensor, output_size: Any) -> Any:
    """Sizes with those of the input where they are None."""
    if not isinstance(output_size, Sequence):
        return output_size
    shape = input.layout.shape
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    defaults = shape[len(shape) - len(output_size) :]
    return [n if given is None else given for given, n in zip(output_size, defaults, strict=True)]


def _adaptive_max_pool(rank: int) -> tuple[Callable[..., Any], Callable[..., Pair]]:
    name = f"adaptive_max_pool{rank}d"
    function = getattr(kernels, name)

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Pair:
        return function(input, output_size if rank == 1 else _with_default(input, output_size))

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        both = with_indices(input, output_size)
        return both if return_indices else both[0]

    doc = (
        f"The largest elements of windows that cover {_PLANES[rank]} evenly.\n\n"
        "``output_size`` is the number of windows, or one for each dimension (None: as many as "
        "elements). With ``return_indices`` also where each lies in its plane."
    )
    return (
        _named(adaptive_max_pool, name, doc),
        _named(with_indices, f"{name}_with_indices", f":func:`{name}` with ``return_indices``."),
    )


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover the last two dimensions evenly.

    Args:
        output_size: the number of windows: one for both dimensions, or one for each (None: as many
            as elements).
    """
    return averages.adaptive_avg_pool2d(input, _with_default(input, output_size))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover the last three dimensions evenly."""
    return averages.adaptive_avg_pool3d(input, _with_default(input, output_size))


# At random ----------------------------------------------------------------------------------------
def _fractional_max_pool(rank: int) -> tuple[Callable[..., Any], Callable[..., Pair]]:
    name = f"fractional_max_pool{rank}d"

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Pair:
        if output_size is None:
            if output_ratio is None:
                raise ValueError(
                    f"{name} requires specifying either an output_size or an output_ratio"
                )
            each = output_ratio if isinstance(output_ratio, Sequence) else (output_ratio,) * rank
            sizes = input.layout.shape[-rank:]
            output_size = [int(n * ratio) for n, ratio in zip(sizes, each, strict=True)]
        return fractional.fractional_max_pool(
            rank, input, kernel_size, output_size, _random_samples
        )

    def fractional_max_pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        both = with_indices(
            input, kernel_size, output_size, output_ratio, _random_samples=_random_samples
        )
        return both if return_indices else both[0]

    doc = (
        f"The largest elements of windows at pseudo-random distances over {_PLANES[rank]} "
        "(Graham 2014).\n\n"
        "The number of windows is ``output_size``, or ``output_ratio`` (below 1) of the elements. "
        "With ``return_indices`` also where each lies in its plane."
    )
    return (
        _named(fractional_max_pool, name, doc),
        _named(with_indices, f"{name}_with_indices", f":func:`{name}` with ``return_indices``."),
    )


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pool(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pool(3)


# Back again ---------------------------------------------------------------------------------------
def _unpooled_size(
    input: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], given: Any
) -> list[int]:
    rank = len(kernel)
    counts = input.layout.shape[input.layout.ndim - rank :]
    default = [
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(counts, kernel, stride, padding, strict=True)
    ]
    if given is None:
        return default
    sizes = list(given)[2:] if len(given) == rank + 2 else list(given)
    if len(sizes) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it "
            f"has a length of '{len(sizes)}'"
        )
    for d, (n, expected, step) in enumerate(zip(sizes, default, stride, strict=True)):
        if not expected - step < n < expected + step:
            raise ValueError(
                f'invalid output_size "{given}" (dim {d} must be between {expected - step} and '
                f"{expected + step})"
            )
    return sizes


def each_of(value: Any, rank: int) -> tuple[int, ...]:
    """One number for all dimensions, or a sequence, as a tuple."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * rank


def _max_unpool(rank: int) -> Callable[..., Tensor]:
    name = f"max_unpool{rank}d"

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        kernel = each_of(kernel_size, rank)
        steps = kernel if stride is None else each_of(stride, rank)
        sizes = _unpooled_size(input, kernel, steps, each_of(padding, rank), output_size)
        if rank == 1:
            wide = view.unsqueeze(input, -1), view.unsqueeze(indices, -1)
            return view.squeeze(unpooling.max_unpool(2, *wide, (*sizes, 1)), -1)
        if rank == 3 and min(steps) <= 0:
            raise RuntimeError(
                f"strides should be greater than zero, but got stride: {list(steps)}"
            )
        return unpooling.max_unpool(rank, input, indices, tuple(sizes))

    doc = (
        f"The elements of ``input`` where :func:`max_pool{rank}d` found them; zeros elsewhere.\n\n"
        "``indices`` are those of the pooling, and so are the sizes of its windows; "
        "``output_size`` says which of the sizes is meant that pool to the same."
    )
    return _named(max_unpool, name, doc)


max_unpool1d, max_unpool2d, max_unpool3d = (_max_unpool(rank) for rank in (1, 2, 3))


# Power means --------------------------------------------------------------------------------------
def _lp_pool(rank: int) -> Callable[..., Tensor]:
    name = f"lp_pool{rank}d"
    largest, mean = (globals()[f"{kind}_pool{rank}d"] for kind in ("max", "avg"))

    def lp_pool(
        input: Tensor,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        if norm_type == math.inf:
            return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -math.inf:
            return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        means = mean(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        size = math.prod(each_of(kernel_size, rank))
        magnitude = functions["relu"](functions["abs"](means))
        return (functions["sign"](means) * magnitude).mul(size).pow(1.0 / norm_type)

    doc = (
        f"The ``norm_type``-th root of the sum of that power over windows of {_PLANES[rank]}.\n\n"
        "Where the sum is zero, so is the gradient."
    )
    return _named(lp_pool, name, doc)


lp_pool1d, lp_pool2d, lp_pool3d = (_lp_pool(rank) for rank in (1, 2, 3))


# Across channels ----------------------------------------------------------------------------------
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``input / (k + alpha * mean of squares of size neighbouring channels) ** beta``.

    Args:
        input: [n, channels, ...], of 3 dimensions or more (Krizhevsky et al. 2012).

    Raises:
        ValueError: for an input of fewer dimensions.
    """
    shape = input.layout.shape
    if len(shape) < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {len(shape)} dimensions)"
        )
    if not input.layout.numel:
        return input
    squares = input.mul(input)
    around = (size // 2, (size - 1) // 2)
    if len(shape) == 3:
        padded = pad(view.unsqueeze(squares, 1), (0, 0, *around))
        means = view.squeeze(avg_pool2d(padded, (size, 1), stride=1), 1)
    else:
        flat = squares.view(shape[0], 1, shape[1], shape[2], -1)
        padded = pad(flat, (0, 0, 0, 0, *around))
        means = view.squeeze(avg_pool3d(padded, (size, 1, 1), stride=1), 1).view(shape)
    return input / means.mul(alpha).add(k).pow(beta)
