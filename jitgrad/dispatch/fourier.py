"""Discrete Fourier transforms, by numpy.fft, and their gradients.

Three linear maps are behind all of them: of complex numbers, from real to complex ones, and from
the half of a Hermitian spectrum back to real ones. The adjoint of each is another of the three,
with the same factor, so that gradients have gradients. A factor is "none", "root" (one over the
square root of the number of points) or "count" (one over it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, state
from ..layout import strides_in_order
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .complexes import conj, real
from .creation import empty, from_numpy
from .elementwise import functions
from .make import int_argument, ints_argument, strided
from .padding import constant_pad_nd
from .record import node_class, record
from .special import into
from .view import narrow

_f = functions
_FORWARD = {"none": "backward", "root": "ortho", "count": "forward"}
_INVERSE = {"none": "forward", "root": "ortho", "count": "backward"}


# The three maps -----------------------------------------------------------------------------------
def _transformed(
    function: Any, x: Tensor, d: dtypes.dtype, dims: tuple[int, ...], **options: Any
) -> Tensor:
    """NumPy's answer in memory of its own, whose transformed dimensions lie innermost, as in
    PyTorch; no history."""
    values = function(x.detach()._numbers(), axes=dims, **options)
    steps = x.layout.strides
    others = (i for i in range(x.layout.ndim) if i not in dims)
    order = [*sorted(others, key=lambda i: -steps[i]), *dims]
    result = strided(values.shape, strides_in_order(values.shape, order), d)
    result._assign(values)
    return result


def _sorted(x: Tensor, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions from the one that lies outermost."""
    return tuple(sorted(dims, key=lambda i: -x.layout.strides[i]))


def _c2c(x: Tensor, dims: tuple[int, ...], factor: str, forward: bool) -> Tensor:
    """The transform of complex numbers."""
    function, norms = (np.fft.fftn, _FORWARD) if forward else (np.fft.ifftn, _INVERSE)
    result = _transformed(function, x, x.dtype, _sorted(x, dims), norm=norms[factor])
    record(_C2C, (x,), (result,), {"dims": dims, "factor": factor, "forward": forward})
    return result


def _r2c(x: Tensor, dims: tuple[int, ...], factor: str, onesided: bool) -> Tensor:
    """The transform of real numbers; ``onesided``: without the second half of the last of ``dims``,
    which mirrors the first."""
    function = np.fft.rfftn if onesided else np.fft.fftn
    d = dtypes.complex_of(x.dtype)
    order = (*_sorted(x, dims[:-1]), dims[-1])
    result = _transformed(function, x, d, order, norm=_FORWARD[factor])
    record(_R2C, (x,), (result,), {"dims": dims, "factor": factor, "onesided": onesided})
    return result


def _c2r(x: Tensor, dims: tuple[int, ...], factor: str, size: int) -> Tensor:
    """The inverse transform of half of a Hermitian spectrum, to ``size`` real numbers."""
    spectrum = x
    if len(dims) > 1:
        spectrum = _c2c(x.detach(), dims[:-1], factor, False)
    d, norm = x.dtype.to_real(), _INVERSE[factor]
    result = _transformed(np.fft.irfftn, spectrum, d, dims[-1:], s=[size], norm=norm)
    record(_C2R, (x,), (result,), {"dims": dims, "factor": factor, "size": size})
    return result


def _weighted(x: Tensor, dim: int, size: int, inside: float) -> Tensor:
    """Half of a spectrum of ``size`` with a factor for what the other half mirrors."""
    half = x.layout.shape[dim]
    weights = np.ones(half, x.dtype.to_real().np)
    weights[1 : size - half + 1] = inside
    shape = [1] * x.layout.ndim
    shape[dim] = half
    return _f["mul"](x, from_numpy(weights.reshape(shape)))


def _r2c_adjoint(grad: Tensor, layout: Any, dims: Any, factor: str, onesided: bool) -> Tensor:
    if not onesided:
        return real(_c2c(grad, dims, factor, False))
    last = dims[-1]
    size = layout.shape[last]
    return _c2r(_weighted(grad, last, size, 0.5), dims, factor, size)


def _c2r_adjoint(grad: Tensor, layout: Any, dims: Any, factor: str, size: int) -> Tensor:
    return _weighted(_r2c(grad, dims, factor, True), dims[-1], size, 2.0)


_C2C = node_class(
    structured(
        "fft_c2c",
        "self",
        grad={"self": lambda grad, dims, factor, forward: _c2c(grad, dims, factor, not forward)},
        jvp={"self": lambda tangent, dims, factor, forward: _c2c(tangent, dims, factor, forward)},
        node="FftC2CBackward0",
    )
)
_R2C = node_class(
    structured(
        "fft_r2c",
        "self",
        grad={"self": _r2c_adjoint},
        jvp={"self": lambda tangent, dims, factor, onesided: _r2c(tangent, dims, factor, onesided)},
        node="FftR2CBackward0",
    )
)
_C2R = node_class(
    structured(
        "fft_c2r",
        "self",
        grad={"self": _c2r_adjoint},
        jvp={"self": lambda tangent, dims, factor, size: _c2r(tangent, dims, factor, size)},
        node="FftC2RBackward0",
    )
)


# Arguments ----------------------------------------------------------------------------------------
_FACTORS = {None: ("none", "count"), "backward": ("none", "count"), "ortho": ("root", "root"),
            "forward": ("count", "none")}  # fmt: skip


def _factor(norm: Any, forward: bool) -> str:
    """The factor of a transform in the direction ``forward`` or back."""
    if norm not in _FACTORS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return _FACTORS[norm][0 if forward else 1]


def _named(x: Tensor) -> str:
    return x.layout.dtype.tensor_type.removesuffix("Tensor")


def _promoted(name: str, x: Any, complex_: bool = False) -> Tensor:
    """The input as floats, or as complex numbers."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    d = x.dtype
    if d in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(f"Unsupported dtype {_named(x)}")
    if d.category < dtypes.FLOATING:
        d = state.get_default_dtype()
    if complex_:
        d = dtypes.complex_of(d)
    return x if d is x.dtype else convert.to(x, d)


def _real_only(message: str, x: Any) -> None:
    if isinstance(x, Tensor) and x.is_complex():
        raise RuntimeError(f"{message}, but got {_named(x)}")


def _resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Each of ``dims`` cut, or filled up with zeros, to its size."""
    pads = [0] * (2 * x.layout.ndim)
    for dim, size in zip(dims, sizes, strict=True):
        if size < 1:
            raise RuntimeError(f"Invalid number of data points ({size}) specified")
        old = x.layout.shape[dim]
        if size < old:
            x = narrow(x, dim, 0, size)
        pads[2 * (x.layout.ndim - 1 - dim) + 1] = max(size - old, 0)
    return constant_pad_nd(x, pads) if any(pads) else x


def _dim(x: Tensor, dim: Any) -> int:
    dim, n = int_argument("fft", "dim", dim), x.layout.ndim
    if not n:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim % n


def _shape_and_dims(
    x: Tensor, s: Any, dim: Any, halved: bool = False
) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions of an n-dimensional transform and their sizes.

    ``halved``: by default the last is the size that the input is the half spectrum of.
    """
    n = x.layout.ndim
    if dim is not None:
        given = (dim,) if isinstance(dim, int) else ints_argument("fftn", "dim", dim)
        dims = tuple(_dim(x, d) for d in given)
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    sizes = (
        None if s is None else list(ints_argument("fftn", "s", (s,) if isinstance(s, int) else s))
    )
    if sizes is not None:
        if dim is not None and len(dims) != len(sizes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(sizes) > n:
            raise RuntimeError(
                f"Got shape with {len(sizes)} values but input tensor only has {n} dimensions."
            )
    if dim is None:
        dims = tuple(range(n - len(sizes), n)) if sizes is not None else tuple(range(n))
    found = [-1] * len(dims) if sizes is None else sizes
    for i, d in enumerate(dims):
        if found[i] == -1:
            found[i] = x.layout.shape[d]
            if halved and i == len(dims) - 1:
                found[i] = 2 * (found[i] - 1)
        if found[i] < 1:
            raise RuntimeError(f"Invalid number of data points ({found[i]}) specified")
    return dims, found


def _several(name: str, dims: tuple[int, ...]) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def _result(name: str, result: Tensor, out: Tensor | None, x: Tensor) -> Tensor:
    if out is not None and out.dtype.is_complex is not result.dtype.is_complex:
        kind = "complex" if result.is_complex() else "floating point"
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {_named(out)}")
    return into(name, result, out, (x,))


# One dimension ------------------------------------------------------------------------------------
def _one_complex(
    name: str, x: Any, n: int | None, dim: int, norm: Any, out: Any, forward: bool
) -> Tensor:
    x = _promoted(name, x)
    axis, factor = _dim(x, dim), _factor(norm, forward)
    x = _resized(x, (axis,), (x.layout.shape[axis] if n is None else n,))
    if x.is_complex():
        return _result(name, _c2c(x, (axis,), factor, forward), out, x)
    result = _r2c(x, (axis,), factor, False)
    return _result(name, result if forward else conj(result), out, x)


def _one_to_half(
    name: str, x: Any, n: int | None, dim: int, norm: Any, out: Any, forward: bool
) -> Tensor:
    _real_only(f"{name} expects a real input tensor", x)
    x = _promoted(name, x)
    axis, factor = _dim(x, dim), _factor(norm, forward)
    x = _resized(x, (axis,), (x.layout.shape[axis] if n is None else n,))
    result = _r2c(x, (axis,), factor, True)
    return _result(name, result if forward else conj(result), out, x)


def _one_from_half(
    name: str, x: Any, n: int | None, dim: int, norm: Any, out: Any, forward: bool
) -> Tensor:
    x = _promoted(name, x, complex_=True)
    axis, factor = _dim(x, dim), _factor(norm, forward)
    size = 2 * (x.layout.shape[axis] - 1) if n is None else n
    if size < 1:
        raise RuntimeError(f"Invalid number of data points ({size}) specified")
    x = _resized(x, (axis,), (size // 2 + 1,))
    x = conj(x) if forward else x
    return _result(name, _c2r(x, (axis,), factor, size), out, x)


# Several dimensions -------------------------------------------------------------------------------
def _many_complex(
    name: str, x: Any, s: Any, dim: Any, norm: Any, out: Any, forward: bool
) -> Tensor:
    x = _promoted(name, x, complex_=True)
    dims, sizes = _shape_and_dims(x, s, dim)
    factor = _factor(norm, forward)
    x = _resized(x, dims, sizes)
    return _result(name, _c2c(x, dims, factor, forward), out, x)


def _many_to_half(
    name: str, x: Any, s: Any, dim: Any, norm: Any, out: Any, forward: bool
) -> Tensor:
    if forward:
        _real_only("rfftn expects a real-valued input tensor", x)
    elif isinstance(x, Tensor) and x.is_complex():
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {_named(x)}")
    x = _promoted(name, x)
    dims, sizes = _shape_and_dims(x, s, dim)
    _several("rfftn" if forward else "ihfftn", dims)
    factor = _factor(norm, forward)
    x = _resized(x, dims, sizes)
    if forward:
        return _result(name, _r2c(x, dims, factor, True), out, x)
    result = conj(_r2c(x, dims[-1:], factor, True))
    if len(dims) > 1:
        result = _c2c(result, dims[:-1], factor, False)
    return _result(name, result, out, x)


def _many_from_half(
    name: str, x: Any, s: Any, dim: Any, norm: Any, out: Any, forward: bool
) -> Tensor:
    x = _promoted(name, x, complex_=True)
    dims, sizes = _shape_and_dims(x, s, dim, halved=True)
    _several("hfftn" if forward else "irfftn", dims)
    factor, size = _factor(norm, forward), sizes[-1]
    x = _resized(x, dims, [*sizes[:-1], size // 2 + 1])
    if not forward:
        return _result(name, _c2r(x, dims, factor, size), out, x)
    if len(dims) > 1:
        x = _c2c(x, dims[:-1], factor, True)
    return _result(name, _c2r(conj(x), dims[-1:], factor, size), out, x)


# Public functions ---------------------------------------------------------------------------------
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The Fourier transform along a dimension: ``sum_t x[t] exp(-2 pi i k t / n)``.

    Args:
        input: real or complex.
        n: cut, or fill up with zeros, to so many elements first.
        norm: "backward" (default: no factor), "ortho" (``1 / sqrt(n)``) or "forward" (``1 / n``).

    Returns:
        A complex tensor.

    Raises:
        RuntimeError: for an ``n`` below 1, another ``norm``, 16-bit floats.
        IndexError: for a dimension out of range.

    Gradient: the inverse transform of ``grad`` with the factor of this one.
    """
    return _one_complex("fft", input, n, dim, norm, out, True)


def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of :func:`fft`; "backward" (default) has the factor ``1 / n``."""
    return _one_complex("ifft", input, n, dim, norm, out, False)


def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """:func:`fft` of real numbers, without the half that mirrors the other: ``n // 2 + 1``."""
    return _one_to_half("rfft", input, n, dim, norm, out, True)


def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of :func:`rfft`; ``n`` elements, by default ``2 * (half - 1)``."""
    return _one_from_half("irfft", input, n, dim, norm, out, False)


def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """:func:`fft` of a Hermitian signal, given by its half: ``n`` real numbers."""
    return _one_from_half("hfft", input, n, dim, norm, out, True)


def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of :func:`hfft`: half of a Hermitian signal."""
    return _one_to_half("ihfft", input, n, dim, norm, out, False)


_KINDS: dict[str, tuple[Any, bool, str]] = {
    "fft": (_many_complex, True, "fft"),
    "ifft": (_many_complex, False, "ifft"),
    "rfft": (_many_to_half, True, "rfft"),
    "irfft": (_many_from_half, False, "irfft"),
    "hfft": (_many_from_half, True, "hfft"),
    "ihfft": (_many_to_half, False, "ihfft"),
}


def _functions(kind: str) -> tuple[Any, Any]:
    """``<kind>2`` and ``<kind>n``."""
    transform, forward, of = _KINDS[kind]

    def two(
        input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return transform(f"{kind}2", input, s, dim, norm, out, forward)

    def several(
        input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return transform(f"{kind}n", input, s, dim, norm, out, forward)

    for function, suffix, which in (
        (two, "2", "two dimensions, by default the last"),
        (several, "n", "the dimensions ``dim``, by default the last ones as ``s`` says, else all"),
    ):
        function.__name__ = function.__qualname__ = f"{kind}{suffix}"
        function.__doc__ = (
            f":func:`{of}` along {which}.\n\nArgs:\n    s: the sizes to cut or fill up to; -1 "
            "keeps one.\n    norm: as there, ``n`` being the product of the sizes."
        )
    return two, several


fft2, fftn = _functions("fft")
ifft2, ifftn = _functions("ifft")
rfft2, rfftn = _functions("rfft")
irfft2, irfftn = _functions("irfft")
hfft2, hfftn = _functions("hfft")
ihfft2, ihfftn = _functions("ihfft")


# Frequencies --------------------------------------------------------------------------------------
def _frequencies(
    name: str, n: Any, d: float, out: Tensor | None, options: dict[str, Any], halved: bool
) -> Tensor:
    n = int_argument(f"fft_{name}", "n", n)
    kind = options.pop("dtype", None) or state.get_default_dtype()
    if kind.category < dtypes.FLOATING:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    order = np.arange(n // 2 + 1) if halved else np.fft.ifftshift(np.arange(n) - n // 2)
    spacing = n * d
    result = empty(order.shape, dtype=kind)
    result._assign(order)
    _f["mul"](result, 1.0 / spacing if spacing else math.inf, out=result)
    if options.pop("requires_grad", False):
        result.requires_grad_()
    return result if out is None else into(name, result, out, ())


def fftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """The frequencies that :func:`fft` of ``n`` points, ``d`` apart, has.

    They are ``0, 1, .. (n - 1) // 2, -(n // 2), .. -1`` over ``n * d``.

    >>> fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _frequencies("fftfreq", n, d, out, options, False)


def rfftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, **options: Any) -> Tensor:
    """The frequencies that :func:`rfft` of ``n`` points, ``d`` apart, has: ``0 .. n // 2`` over
    ``n * d``."""
    return _frequencies("rfftfreq", n, d, out, options, True)
