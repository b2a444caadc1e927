"""Functions whose PyTorch signature says more than their row: alpha, rounding_mode, min and max."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..dtypes import BOOL, FLOATING
from ..tensor import Tensor
from .elementwise import functions, inplace_function

_add, _sub, _mul, _div = (functions[n] for n in ("add", "sub", "mul", "div"))
_add_, _sub_, _mul_, _div_ = (inplace_function(n) for n in ("add", "sub", "mul", "div"))


def _scaled(name: str, self: Any, other: Any, alpha: Any) -> Any:
    """``other * alpha``; a float alpha is refused for integer operands, as in PyTorch."""
    if alpha == 1 and not isinstance(alpha, bool):
        return other
    if isinstance(alpha, complex) and not any(
        x.is_complex() if isinstance(x, Tensor) else isinstance(x, complex) for x in (self, other)
    ):
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number. "
            f"({name}())"
        )
    integral = all(
        x.layout.dtype.category < FLOATING if isinstance(x, Tensor) else isinstance(x, int)
        for x in (self, other)
    )
    if isinstance(alpha, float) and integral:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number. "
            f"({name}())"
        )
    return _mul(other, alpha) if isinstance(other, Tensor) else other * alpha


def add(self: Tensor, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``self + alpha * other``, broadcast.

    Gradient: ``grad`` for ``self``, ``alpha * grad`` for ``other``.
    """
    return _add(self, _scaled("add", self, other, alpha), out=out)


def sub(self: Tensor, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``self - alpha * other``, broadcast.

    Gradient: ``grad`` for ``self``, ``-alpha * grad`` for ``other``.
    """
    return _sub(self, _scaled("sub", self, other, alpha), out=out)


def rsub(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * self``."""
    return functions["rsub"](_scaled("rsub", other, self, alpha), other)


def reflected_div(self: Tensor, other: Any) -> Tensor:
    """``other / self``, by way of the reciprocal as in PyTorch."""
    return _mul(functions["reciprocal"](self), other)


def add_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """:func:`add` in place."""
    return _add_(self, _scaled("add", self, other, alpha))


def sub_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """:func:`sub` in place."""
    return _sub_(self, _scaled("sub", self, other, alpha))


def positive(self: Tensor) -> Tensor:
    """The tensor itself; RuntimeError for bools, as in PyTorch."""
    if self.layout.dtype.category == BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


_ROUNDED = {"floor": "div_floor", "trunc": "div_trunc"}


def _division(rounding_mode: str | None) -> str:
    if rounding_mode is None:
        return "div"
    if rounding_mode not in _ROUNDED:
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    return _ROUNDED[rounding_mode]


def div(
    self: Tensor, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    """``self / other``; with ``rounding_mode`` "floor" or "trunc" rounded, in the inputs' dtype.

    Raises:
        RuntimeError: for an integer zero divisor when rounding, or another mode.

    Gradient: ``grad / other`` and ``-grad * self / other**2``; zero when rounding.
    """
    return functions[_division(rounding_mode)](self, other, out=out)


def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """:func:`div` in place."""
    return inplace_function(_division(rounding_mode))(self, other)


def _clamped(name: str, self: Tensor, low: Any, high: Any) -> tuple[str, tuple[Any, ...]]:
    if low is None and high is None:
        raise RuntimeError(f"{name}: At least one of 'min' or 'max' must not be None")
    if low is None:
        return "clamp_to", (high,)
    if high is None:
        return "clamp_from", (low,)
    return "clamp_both", (low, high)


def clamp(self: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """``self`` limited to ``[min, max]`` (numbers or tensors; either may be None).

    Gradient: ``grad`` where ``min <= self <= max``, else 0.
    """
    name, bounds = _clamped("clamp", self, min, max)
    return functions[name](self, *bounds, out=out)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """:func:`clamp` in place."""
    name, bounds = _clamped("clamp", self, min, max)
    return inplace_function(name)(self, *bounds)


def addcmul(
    self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``self + value * tensor1 * tensor2``."""
    return functions["addcmul"](self, tensor1, tensor2, value, out=out)


def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """:func:`addcmul` in place."""
    return inplace_function("addcmul")(self, tensor1, tensor2, value)


def addcdiv(
    self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``self + value * tensor1 / tensor2``."""
    return functions["addcdiv"](self, tensor1, tensor2, value, out=out)


def addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """:func:`addcdiv` in place."""
    return inplace_function("addcdiv")(self, tensor1, tensor2, value)


def where(condition: Tensor, self: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """``self`` where ``condition`` holds, else ``other``; alone, the places where it holds.

    Gradient: ``grad`` where the value came from, 0 elsewhere.
    """
    if self is None and other is None:
        return condition.nonzero(as_tuple=True)
    return functions["where"](condition, self, other, out=out)


def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """``self`` where ``condition`` holds, else ``other``."""
    return functions["where"](condition, self, other)


def isclose(
    self: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Tensor:
    """Whether ``|self - other| <= atol + rtol * |other|``; infinities equal themselves."""
    if not isinstance(other, Tensor):
        raise errors.argument("isclose", "other", "Tensor", other)
    if self.layout.dtype.plain is not other.layout.dtype.plain:
        raise RuntimeError(f"{self.dtype} did not match {other.dtype} in isclose()")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    f = functions
    close = f["eq"](self, other)
    if self.layout.dtype.category == BOOL:
        return close
    if equal_nan and self.layout.dtype.category >= FLOATING:
        close = f["logical_or"](close, f["logical_and"](f["isnan"](self), f["isnan"](other)))
    if rtol == 0 and atol == 0:
        return close
    distance = f["abs"](f["sub"](self, other))
    allowed = f["add"](f["abs"](f["mul"](other, rtol)), atol)
    near = f["logical_and"](f["isfinite"](distance), f["le"](distance, allowed))
    return f["logical_or"](close, near)


def allclose(
    self: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Whether every element :func:`isclose`."""
    return bool(isclose(self, other, rtol, atol, equal_nan).all())


def equal(self: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are equal."""
    if self.layout.shape != other.layout.shape:
        return False
    return bool(functions["eq"](self, other).all())
