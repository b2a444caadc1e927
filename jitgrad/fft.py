"""Discrete Fourier transforms and rearrangements of spectra, by the names of :mod:`torch.fft`."""

from __future__ import annotations

from typing import Any

from .dispatch.fourier import (
    fft,
    fft2,
    fftfreq,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from .dispatch.rearrange import roll
from .tensor import Tensor


def _shifted(input: Tensor, dim: Any, half: Any) -> Tensor:
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else dim
    if not dims:
        return input.clone()
    return roll(input, tuple(half(input.shape[d]) for d in dims), tuple(dims))


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The zero frequency moved to the middle of every dimension (or those of ``dim``)."""
    return _shifted(input, dim, lambda n: n // 2)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of :func:`fftshift`."""
    return _shifted(input, dim, lambda n: -(n // 2))


__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
