"""Elementwise functions under the names of the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch import arithmetic, complexes, view
from ..dispatch.convert import clone, to
from ..dispatch.elementwise import functions
from ..dtypes import BOOL, COMPLEX, INTEGER
from ..tensor import Tensor
from ._promotion import common, number_as_array

# The standard's names, and the operators' where they are others.
UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert=bitwise_not ceil cos cosh exp expm1 floor "
    "isfinite isinf isnan log log1p log2 log10 logical_not negative=neg reciprocal round sign=sgn "
    "signbit sin sinh square sqrt tan tanh trunc"
)
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide=div equal=eq floor_divide greater=gt greater_equal=ge hypot less=lt less_equal=le "
    "logaddexp logical_and logical_or logical_xor maximum minimum multiply=mul nextafter "
    "not_equal=ne pow remainder subtract=sub"
)


def _unary(name: str, row: str) -> Callable[[Tensor], Tensor]:
    operator = functions[row]

    def function(x: Tensor, /) -> Tensor:
        return operator(x)

    return _named(function, name, operator)


def _binary(name: str, row: str) -> Callable[[Any, Any], Tensor]:
    operator = functions[row]

    def function(x1: Any, x2: Any, /) -> Tensor:
        return operator(*common(x1, x2))

    return _named(function, name, operator)


def _named(function: Any, name: str, operator: Any) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (operator.__doc__ or "").split("\n\n")[0]
    return function


def _expanded(names: str, make: Callable[[str, str], Any]) -> dict[str, Any]:
    pairs = (entry.partition("=") for entry in names.split())
    return {name: make(name, row or name) for name, _, row in pairs}


def _squared(x: Tensor, /) -> Tensor:
    """``x * x``, in the dtype of ``x``."""
    return functions["mul"](x, x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """``x`` limited to ``[min, max]``, in the dtype of ``x``."""
    if min is None and max is None:
        return clone(x)
    bounds = [
        b if b is None or isinstance(b, Tensor) else number_as_array(b, x.dtype) for b in (min, max)
    ]
    return to(arithmetic.clamp(x, *bounds), x.dtype)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate."""
    return view.conj(x)


def real(x: Tensor, /) -> Tensor:
    """The real part."""
    return complexes.real(x)


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part; zeros of a real array."""
    return complexes.imag(x) if x.dtype.category == COMPLEX else functions["mul"](x, 0)


def positive(x: Tensor, /) -> Tensor:
    """``+x``.

    Raises:
        TypeError: for bools.
    """
    if x.dtype.category == BOOL:
        raise TypeError("positive() is for numbers, not for bools")
    return arithmetic.positive(x)


def _rounded(name: str) -> Callable[[Tensor], Tensor]:
    """Rounding, which leaves integers as they are."""
    operator = functions[name]

    def function(x: Tensor, /) -> Tensor:
        if x.dtype.category == COMPLEX:  # only round(): both parts
            return complexes.complex(operator(real(x)), operator(imag(x)))
        return clone(x) if x.dtype.category == INTEGER else operator(x)

    return _named(function, name, operator)


FUNCTIONS: dict[str, Any] = {
    **_expanded(UNARY, _unary),
    **_expanded(BINARY, _binary),
    **{name: _rounded(name) for name in ("ceil", "floor", "round", "trunc")},
    "square": _named(_squared, "square", _squared),
    "clip": clip, "conj": conj, "imag": imag, "positive": positive, "real": real,
}  # fmt: skip
