"""Short-time Fourier transforms: spectra of windowed frames of a signal, and back.

Gradients are those of the operators they consist of: frames are a view, and to add frames up where
they overlap is the adjoint of that view.
"""

from __future__ import annotations

import warnings
from typing import Any

from .. import dtypes
from ..layout import dense_layout
from ..tensor import Tensor
from . import fourier
from .elementwise import functions
from .padding import constant_pad_nd, pad
from .reshaping import squeeze_, transpose_
from .view import narrow, squeeze, transpose, unfold, unfold_adjoint, unsqueeze, view_of

_f = functions


def _refuse(name: str, x: Tensor, why: str, **numbers: Any) -> RuntimeError:
    said = ", ".join(f"{key}={value}" for key, value in numbers.items())
    return RuntimeError(
        f"{name}(jitgrad.{x.layout.dtype.tensor_type}{list(x.layout.shape)}, {said}): {why}"
    )


def _window(window: Tensor | None, like: Tensor, win_length: int, n_fft: int) -> Tensor | None:
    """The window in the middle of ``n_fft`` elements; None for one of ones."""
    if window is None and win_length == n_fft:
        return None
    if window is None:
        window = like.new_ones((win_length,), dtype=like.dtype.to_real())
    if win_length == n_fft:
        return window
    left = (n_fft - win_length) // 2
    return constant_pad_nd(window, [left, n_fft - win_length - left])


def _no_window() -> None:
    warnings.warn(
        "A window was not provided. A rectangular window will be applied, which is known to cause "
        "spectral leakage. Other windows such as jitgrad.signal.windows.hann are recommended.",
        UserWarning,
        stacklevel=3,
    )


def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
) -> Tensor:  # fmt: skip
    """The spectra of frames of a signal, ``n_fft`` long and ``hop_length`` apart.

    Args:
        input: [time] or [batch, time], real or complex.
        hop_length: by default ``n_fft // 4``.
        win_length, window: a window [win_length], by default ones and as long as a frame; a shorter
            one is put in the middle of the frame.
        center: pad both ends by half a frame (``pad_mode``), so that frame t is centred at
            ``t * hop_length``.
        normalized: the factor ``1 / sqrt(n_fft)``.
        onesided: leave out what mirrors the first half; by default if input and window are real.
        return_complex: must be given for real inputs; False (deprecated) gives the parts in a last
            dimension.

    Returns:
        [batch, frequency, frame].

    Raises:
        RuntimeError: for shapes, dtypes or numbers that do not fit.

    Gradient: overlapping frames add up the inverse transforms of ``grad``, windowed.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    numbers = {"n_fft": n_fft, "hop_length": hop, "win_length": length}
    if window is None:
        _no_window()
    complex_input = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_input:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    elif not return_complex:
        warnings.warn(
            "stft with return_complex=False is deprecated: jitgrad.view_as_real(stft(..., "
            "return_complex=True)) is the same",
            UserWarning,
            stacklevel=2,
        )
    if input.layout.dtype.category < dtypes.FLOATING:
        raise _refuse(
            "stft", input, "expected a tensor of floating point or complex values", **numbers
        )
    if input.layout.ndim not in (1, 2):
        raise _refuse("stft", input, "expected a 1D or 2D tensor", **numbers)
    x = unsqueeze(input, 0) if input.layout.ndim == 1 else input
    if center:
        half = n_fft // 2
        x = squeeze(pad(unsqueeze(x, 1), (half, half), pad_mode), 1)
    size = x.layout.shape[1]
    if not 0 < n_fft <= size:
        why = f"expected 0 < n_fft < {size}, but got n_fft={n_fft}"
        raise _refuse("stft", x, why, **numbers)
    if hop <= 0:
        raise _refuse("stft", x, f"expected hop_length > 0, but got hop_length={hop}", **numbers)
    if not 0 < length <= n_fft:
        why = f"expected 0 < win_length <= n_fft, but got win_length={length}"
        raise _refuse("stft", x, why, **numbers)
    if window is not None and window.layout.shape != (length,):
        raise _refuse(
            "stft",
            x,
            f"expected a 1D window tensor of size equal to win_length={length}, but got window "
            f"with size {list(window.layout.shape)}",
            **numbers,
        )
    if onesided and complex_input:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    halved = not complex_input if onesided is None else onesided
    frames = unfold(x, 1, n_fft, hop)
    shape = _window(window, input, length, n_fft)
    if shape is not None:
        frames = _f["mul"](frames, shape)
    norm = "ortho" if normalized else None
    spectra = (fourier.rfft if halved else fourier.fft)(frames, norm=norm)
    result = transpose_(spectra, 1, 2)  # in place, as nobody else has the spectra
    if input.layout.ndim == 1:
        result = squeeze_(result, 0)
    return result if return_complex else view_of(result, "view_as_real", ())


def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal whose :func:`stft` is nearest to ``input`` (Griffin & Lim 1984).

    Overlapping frames are windowed and added up, and divided by the sum of squared windows, which
    must not vanish anywhere.

    Args:
        input: [batch, frequency, frame], complex.
        length: of the result; by default what the frames cover.

    Raises:
        RuntimeError: for shapes, dtypes or numbers that do not fit, or windows that do not cover.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    numbers = {"n_fft": n_fft, "hop_length": hop, "win_length": width, "length": length}
    if window is None:
        _no_window()
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )

    def refuse(why: str) -> RuntimeError:
        return _refuse("istft", input, why, **numbers)

    if not input.layout.numel:
        raise refuse("input tensor cannot be empty.")
    if input.layout.ndim not in (2, 3):
        raise refuse(
            f"expected a tensor with 3 or 4 dimensions, but got {input.layout.ndim + 1}: as real "
            "numbers, which a complex tensor has one dimension less than"
        )
    bins, frames = input.layout.shape[-2:]
    complex_window = window is not None and window.is_complex()
    if onesided is None:
        onesided = bins != n_fft
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if bins != wanted:
        raise refuse(
            "expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"n_fft{' / 2 + 1' if onesided else ''} when onesided={onesided}, but got {bins}"
        )
    if not 0 < hop <= width:
        raise refuse("expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise refuse("expected 0 < win_length <= n_fft")
    if window is not None and window.layout.shape != (width,):
        raise refuse("Invalid window shape. window has to be 1D and length of `win_length`")
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if complex_window and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")

    batch = unsqueeze(input, 0) if input.layout.ndim == 2 else input
    spectra, norm = transpose(batch, 1, 2), "ortho" if normalized else None
    if return_complex:
        parts = fourier.ifft(spectra, norm=norm)
    else:
        spectra = spectra if onesided else narrow(spectra, 2, 0, n_fft // 2 + 1)
        parts = fourier.irfft(spectra, n_fft, norm=norm)
    shape = _window(window, input, width, n_fft)
    if shape is None:
        shape = input.new_ones((n_fft,), dtype=input.dtype.to_real())
    covered = n_fft + hop * (frames - 1)
    added = _overlapped(_f["mul"](parts, shape), covered, n_fft, hop)
    squares = _f["mul"](shape, shape).expand(1, frames, n_fft)
    envelope = _overlapped(squares, covered, n_fft, hop)
    start = n_fft // 2 if center else 0
    if length is not None:
        end = start + length
    else:
        end = covered - n_fft // 2 if center else covered
    end = min(end, covered)
    added, envelope = (narrow(x, 1, start, end - start) for x in (added, envelope))
    least = float(_f["abs"](envelope.detach()).min())
    if not least > 1e-11:
        raise refuse(f"window overlap add min: {least:g}, which must not be 0")
    result = _f["div"](added, envelope)
    if input.layout.ndim == 2:
        result = squeeze(result, 0)
    missing = 0 if length is None else length - (end - start)
    if missing > 0:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            UserWarning,
            stacklevel=2,
        )
        result = constant_pad_nd(result, [0, missing])
    return result


def _overlapped(frames: Tensor, covered: int, n_fft: int, hop: int) -> Tensor:
    """[batch, frame, time] added up to [batch, time]."""
    of = dense_layout((frames.layout.shape[0], covered), frames.layout.dtype)
    return unfold_adjoint(frames, of, 1, n_fft, hop)


METHODS = "stft istft"
FUNCTIONS = "stft istft"
