"""Window functions, under the names of :mod:`torch.signal.windows`.

Each is a formula over ``M`` points from ``start`` on, ``step`` apart; a symmetric window (``sym``)
reaches its first value again at its last point, a periodic one would at the point after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .. import state
from ..dispatch.creation import arange, empty, ones
from ..dispatch.elementwise import functions as _f
from ..dtypes import dtype
from ..tensor import Tensor


def _points(M: int, start: float, step: float, d: dtype | None) -> Tensor:
    chosen = d or state.get_default_dtype()
    return _f["add"](_f["mul"](arange(M, dtype=chosen), step), start)


def _checked(name: str, M: int, d: dtype | None) -> Tensor | None:
    """The window where there is nothing to compute: of no points."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    chosen = d or state.get_default_dtype()
    if not chosen.is_floating_point or chosen.itemsize < 4:
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {chosen}")
    return empty((0,), dtype=chosen) if M == 0 else None


def _window(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The checks, and the arguments common to all windows; gradients by request."""

    def window(
        M: int,
        *given: Any,
        sym: bool = True,
        dtype: dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **parameters: Any,
    ) -> Tensor:
        result = _checked(function.__name__, M, dtype)
        if result is None:
            result = function(M, sym, dtype, *given, **parameters)
        return result.requires_grad_() if requires_grad else result

    window.__name__ = window.__qualname__ = function.__name__
    window.__doc__ = function.__doc__
    return window


def _period(M: int, sym: bool) -> int:
    return max(M - 1 if sym else M, 1)


@_window
def exponential(
    M: int, sym: bool, d: Any, *, center: float | None = None, tau: float = 1.0
) -> Tensor:
    """``exp(-|n - center| / tau)``."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return _f["exp"](_f["neg"](_f["abs"](_points(M, -middle / tau, 1 / tau, d))))


@_window
def cosine(M: int, sym: bool, d: Any) -> Tensor:
    """``sin(pi (n + 0.5) / M)``."""
    step = math.pi / (M + 1 if not sym and M > 1 else M)
    return _f["sin"](_points(M, 0.5 * step, step, d))


@_window
def gaussian(M: int, sym: bool, d: Any, *, std: float = 1.0) -> Tensor:
    """``exp(-(n / (std sqrt(2))) ** 2)``, centred."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (M if not sym and M > 1 else M - 1) / 2
    scale = 1 / (std * math.sqrt(2))
    x = _points(M, -middle * scale, scale, d)
    return _f["exp"](_f["neg"](_f["mul"](x, x)))


@_window
def kaiser(M: int, sym: bool, d: Any, *, beta: float = 12.0) -> Tensor:
    """``I0(beta sqrt(1 - (n / middle - 1) ** 2)) / I0(beta)``."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M == 1:
        return ones((1,), dtype=d)
    x = _points(M, -beta, 2 * beta / _period(M, sym), d)
    inside = _f["clamp_min"](_f["rsub"](_f["mul"](x, x), beta * beta), 0)
    return _f["div"](_f["i0"](_f["sqrt"](inside)), _f["i0"](x.new_full((), beta)))


def _cosines(M: int, sym: bool, d: Any, a: Iterable[float]) -> Tensor:
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    if M == 1:
        return ones((1,), dtype=d)
    step = 2 * math.pi / _period(M, sym)
    total: Any = None
    for k, weight in enumerate(weights):
        term = _f["mul"](_f["cos"](_points(M, 0, k * step, d)), weight * (-1) ** k)
        total = term if total is None else _f["add"](total, term)
    return total


@_window
def general_cosine(M: int, sym: bool, d: Any, *, a: Iterable[float]) -> Tensor:
    """``sum_k (-1) ** k a[k] cos(2 pi k n / period)``."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    return _cosines(M, sym, d, a)


@_window
def general_hamming(M: int, sym: bool, d: Any, *, alpha: float = 0.54) -> Tensor:
    """``alpha - (1 - alpha) cos(2 pi n / period)``."""
    return _cosines(M, sym, d, (alpha, 1 - alpha))


@_window
def hamming(M: int, sym: bool, d: Any) -> Tensor:
    """:func:`general_hamming` with ``alpha`` 0.54."""
    return _cosines(M, sym, d, (0.54, 0.46))


@_window
def hann(M: int, sym: bool, d: Any) -> Tensor:
    """:func:`general_hamming` with ``alpha`` 0.5."""
    return _cosines(M, sym, d, (0.5, 0.5))


@_window
def blackman(M: int, sym: bool, d: Any) -> Tensor:
    """A sum of three cosines."""
    return _cosines(M, sym, d, (0.42, 0.5, 0.08))


@_window
def nuttall(M: int, sym: bool, d: Any) -> Tensor:
    """A sum of four cosines (Nuttall 1981)."""
    return _cosines(M, sym, d, (0.3635819, 0.4891775, 0.1365995, 0.0106411))


@_window
def bartlett(M: int, sym: bool, d: Any) -> Tensor:
    """A triangle: ``1 - |2 n / period - 1|``."""
    if M == 1:
        return ones((1,), dtype=d)
    return _f["rsub"](_f["abs"](_points(M, -1, 2 / _period(M, sym), d)), 1)


__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip
