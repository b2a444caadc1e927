"""The Fourier transform extension of the standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import fft as transforms
from ..dtypes import dtype as DType
from ..tensor import Tensor


def _of_lines(name: str) -> Callable[..., Tensor]:
    transform = getattr(transforms, name)

    def function(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return transform(x, n, axis, norm)

    return _named(function, name, transform)


def _of_boxes(name: str) -> Callable[..., Tensor]:
    transform = getattr(transforms, name)

    def function(
        x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:  # fmt: skip
        return transform(x, s, axes, norm)

    return _named(function, name, transform)


def _frequencies(name: str) -> Callable[..., Tensor]:
    make = getattr(transforms, name)

    def function(
        n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None
    ) -> Tensor:
        return make(n, d, dtype=dtype, device=device)

    return _named(function, name, make)


def _shift(name: str) -> Callable[..., Tensor]:
    move = getattr(transforms, name)

    def function(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
        return move(x, axes)

    return _named(function, name, move)


def _named(function: Any, name: str, of: Any) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (of.__doc__ or "").split("\n\n")[0]
    return function


fft, ifft, rfft, irfft, hfft, ihfft = (
    _of_lines(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
)
fftn, ifftn, rfftn, irfftn = (_of_boxes(name) for name in ("fftn", "ifftn", "rfftn", "irfftn"))
fftfreq, rfftfreq = _frequencies("fftfreq"), _frequencies("rfftfreq")
fftshift, ifftshift = _shift("fftshift"), _shift("ifftshift")

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip
