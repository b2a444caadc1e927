"""Dropout: elements or channels zeroed at random while training."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..dispatch.creation import empty_like
from ..dispatch.elementwise import functions, operators
from ..tensor import Tensor


def check_probability(p: float) -> None:
    """ValueError unless it is a probability."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _mask(like: Tensor, p: float) -> Tensor:
    return empty_like(like).bernoulli_(1 - p)


def _noise(input: Tensor, p: float, per_channel: bool) -> Tensor:
    """Zeros with probability ``p``, else ones: for each element, or each channel."""
    if not per_channel:
        return _mask(input, p)
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*input.shape[:2], *(1 for _ in input.shape[2:]))
    return input.new_empty(shape).bernoulli_(1 - p)


def drop(input: Tensor, p: float, training: bool, inplace: bool, per_channel: bool) -> Tensor:
    """:func:`dropout`, of elements or of whole channels."""
    check_probability(p)
    if not training or p == 0 or not input.numel():
        return input
    multiply: Callable[..., Tensor] = operators["mul"].inplace if inplace else functions["mul"]
    if p == 1:
        return multiply(input, empty_like(input).zero_())
    return multiply(input, _noise(input, p, per_channel).div_(1 - p))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """When training, zero each element with probability ``p`` and scale the rest by 1 / (1 - p).

    Raises:
        ValueError: unless ``p`` is a probability (Srivastava et al. 2014).
    """
    return drop(input, p, training, inplace, per_channel=False)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """:func:`dropout` of whole channels of [n, channels, length] or [channels, length]."""
    return _channels(input, p, training, inplace, 1)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """:func:`dropout` of whole channels of [n, channels, h, w]."""
    return _channels(input, p, training, inplace, 2)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """:func:`dropout` of whole channels of [n, channels, d, h, w] or [channels, d, h, w]."""
    return _channels(input, p, training, inplace, 3)


def _channels(input: Tensor, p: float, training: bool, inplace: bool, spatial: int) -> Tensor:
    check_probability(p)
    # As PyTorch: three dimensions are a batch of channels for 1d and 2d, a lone sample for 3d.
    alone = spatial != 2 and input.ndim == spatial + 1
    given = input.unsqueeze(0) if alone else input
    result = drop(given, p, training, inplace, per_channel=True)
    return result.squeeze(0) if alone else result


# Of self-normalising networks ---------------------------------------------------------------------
_SATURATED = 1.7580993408473766  # -selu(-infinity)


def drop_alpha(input: Tensor, p: float, training: bool, inplace: bool, per_channel: bool) -> Tensor:
    """Elements are set to the value that selu saturates at, and all scaled and shifted so that mean
    and variance stay (Klambauer et al. 2017)."""
    check_probability(p)
    if not training or p == 0 or not input.numel():
        return input
    multiply: Callable[..., Tensor] = operators["mul"].inplace if inplace else functions["mul"]
    if p == 1:
        return multiply(input, empty_like(input).zero_())
    noise = _noise(input, p, per_channel)
    scale = 1.0 / math.sqrt((_SATURATED * _SATURATED * p + 1) * (1 - p))
    shift = (noise - 1).mul_(_SATURATED * scale).add_(_SATURATED * scale * p)
    return multiply(input, noise.mul_(scale)).add_(shift)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """When training, dropout that keeps mean and variance behind a selu.

    Raises:
        ValueError: unless ``p`` is a probability.
    """
    return drop_alpha(input, p, training, inplace, per_channel=False)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """:func:`alpha_dropout` of whole channels, the second dimension."""
    return drop_alpha(input, p, training, inplace, per_channel=True)
