"""The windows of :mod:`jitgrad.signal.windows` under their older names, periodic by default."""

from __future__ import annotations

from typing import Any

from .. import state
from ..dtypes import dtype as Dtype
from ..tensor import Tensor
from . import windows


def _window(
    name: str, length: int, periodic: bool, options: dict[str, Any], **parameters: Any
) -> Tensor:
    if length < 0:
        raise RuntimeError(
            f"{name}_window requires non-negative window_length, got window_length={length}"
        )
    chosen: Dtype = options.get("dtype") or state.get_default_dtype()
    if not chosen.is_floating_point:
        raise RuntimeError(f"{name}_window expects floating point dtypes, got: {chosen}")
    options.pop("pin_memory", None)
    return getattr(windows, name)(length, sym=not periodic, **options, **parameters)


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """``0.5 - 0.5 cos(2 pi n / period)``.

    Args:
        periodic: the period is ``window_length``, for use with Fourier transforms; else one less,
            and the window is symmetric.
        options: dtype, device, layout, requires_grad.

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann", window_length, periodic, options)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **options: Any,
) -> Tensor:
    """``alpha - beta cos(2 pi n / period)``; arguments as for :func:`hann_window`."""
    return _window("general_cosine", window_length, periodic, options, a=(alpha, beta))


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """A sum of three cosines; arguments as for :func:`hann_window`."""
    return _window("blackman", window_length, periodic, options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """A triangle; arguments as for :func:`hann_window`."""
    return _window("bartlett", window_length, periodic, options)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any
) -> Tensor:
    """``I0(beta sqrt(1 - (n / middle - 1) ** 2)) / I0(beta)``; as :func:`hann_window`."""
    return _window("kaiser", window_length, periodic, options, beta=beta)


__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]
