"""Normalisation as functions, with PyTorch's order of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..dispatch import normalization
from ..dispatch.normalization import group_norm as _group_norm
from ..dtypes import float32
from ..tensor import Tensor


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last dimensions.

    Args:
        input: [..., *normalized_shape].
        weight, bias: of shape ``normalized_shape``.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.
    """
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """``x / sqrt(mean(x ** 2) + eps) * weight`` over the last dimensions."""
    wide = weight is not None and weight.layout.dtype is float32
    if input.layout.dtype.itemsize == 2 and wide:
        return rms_norm(input.float(), normalized_shape, weight, eps).to(input.dtype)
    return normalization.rms_norm(input, normalized_shape, weight, eps)


def _check_count(count: int, what: str, size: Any) -> None:
    if count == 1:
        raise ValueError(f"Expected more than 1 {what} when training, got input size {size}")


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Each sample's groups of channels brought to mean 0 and variance 1, then scaled per channel.

    Args:
        input: [n, channels, ...].
        weight, bias: [channels].

    Raises:
        RuntimeError: for fewer than two dimensions, or shapes or dtypes that do not fit.
        ValueError: for groups of a single value.
    """
    shape = input.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if num_groups > 0:
        rest = (shape[0] * shape[1] // num_groups, num_groups, *shape[2:])
        _check_count(rest[0] * prod(rest[2:]), "value per channel", list(rest))
    return _group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel brought to mean 0 and variance 1 over the batch, then scaled and shifted.

    Args:
        input: [n, channels, ...].
        running_mean, running_var: [channels]: used unless ``training``, else moved towards the
            batch's (the variance: the unbiased one) by ``momentum``.
        weight, bias: [channels].

    Raises:
        RuntimeError: for shapes or dtypes that do not fit, or nothing to normalise by.
        ValueError: when training on a single value per channel.
    """
    if training:
        shape = input.shape
        _check_count(shape[0] * prod(shape[2:]), "value per channel", shape)
    rest = (weight, bias, running_mean, running_var, training, momentum, eps)
    return normalization.batch_norm(input, *rest)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample brought to mean 0 and variance 1, then scaled and shifted.

    Args:
        input: [n, channels, ...].
        use_input_stats: False to normalise by the running estimates.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit, or nothing to normalise by.
        ValueError: for a single element per channel, unless the running estimates are used.
    """
    if use_input_stats:
        _check_count(prod(input.shape[2:]), "spatial element", input.shape)
    rest = (weight, bias, running_mean, running_var, use_input_stats, momentum, eps)
    return normalization.instance_norm(input, *rest)
