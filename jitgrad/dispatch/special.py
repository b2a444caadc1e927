"""Functions of special rows whose PyTorch signature says more, and those made of several rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import dtypes, errors, return_types
from ..state import get_default_dtype
from ..tensor import Tensor
from . import convert
from .elementwise import functions, inplace_function, prepare_out
from .make import NUMBERS, constant, int_argument, python_number

_f = functions


def tensor_or_number(name: str, argument: str, value: Any) -> Tensor:
    """A tensor, or a Python number as one that promotes like a number."""
    if isinstance(value, Tensor):
        return value
    number = value if value.__class__ in NUMBERS else python_number(value)
    if number is None:
        raise errors.argument(name, argument, "Tensor or Number", value)
    return constant(number)


xlogy, xlog1py, zeta = (_f[name] for name in ("xlogy", "xlog1py", "zeta"))
_POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
    "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
)
polynomials = {name: _f[name] for name in _POLYNOMIALS.split()}


def without_gradient(row: str) -> Callable[..., Tensor]:
    """A function of one input under PyTorch's second name for it, which has no derivative."""

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        return _f[row](input.detach(), out=out)

    function.__name__ = function.__qualname__ = f"modified_bessel_{row}"
    function.__doc__ = _f[row].__doc__
    return function


def xlogy_(self: Tensor, other: Any) -> Tensor:
    """:func:`xlogy` in place."""
    return inplace_function("xlogy")(self, other)


def logit(self: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(self / (1 - self))``; with ``eps`` of ``self`` limited to ``[eps, 1 - eps]``.

    Gradient: ``grad / (self * (1 - self))``; outside of the interval NaN, with ``eps`` 0.
    """
    if eps is None:
        return _f["logit"](self, out=out)
    return _f["logit_within"](self, eps, out=out)


def logit_(self: Tensor, eps: float | None = None) -> Tensor:
    """:func:`logit` in place."""
    if eps is None:
        return inplace_function("logit")(self)
    return inplace_function("logit_within")(self, eps)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The ``n``-th derivative of digamma at ``input``. Gradient: ``grad * polygamma(n + 1)``."""
    n = int_argument("polygamma", "n", n)
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return _f["digamma"](input, out=out)
    return _f["polygamma"](input, n, out=out)


def polygamma_method(self: Tensor, n: int) -> Tensor:
    """:func:`polygamma` of this tensor."""
    return polygamma(n, self)


def polygamma_(self: Tensor, n: int) -> Tensor:
    """:func:`polygamma` in place."""
    if n == 0:
        return inplace_function("digamma")(self)
    return inplace_function("polygamma")(self, n)


def mvlgamma(self: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The multivariate log-gamma function of order ``p``: a sum of ``p`` shifted lgamma.

    Raises:
        RuntimeError: for ``p < 1``.
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if not self.is_floating_point():
        self = convert.to(self, get_default_dtype())
    total: Any = p * (p - 1) / 4 * math.log(math.pi)
    for k in range(p):
        total = _f["add"](_f["lgamma"](_f["sub"](self, k / 2)), total)
    return into("mvlgamma", total, out, (self,))


def mvlgamma_(self: Tensor, p: int) -> Tensor:
    """:func:`mvlgamma` in place."""
    return convert.copy_(self, mvlgamma(self, p))


def nan_to_num(
    self: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Numbers in place of NaN (0) and of the infinities (the largest and the smallest finite ones).

    Gradient: ``grad`` where ``self`` is finite, 0 elsewhere.
    """
    if not self.is_floating_point():
        return into("nan_to_num", convert.clone(self), out, (self,))
    return _f["nan_to_num_with"](self, *_stand_ins(self, nan, posinf, neginf), out=out)


def nan_to_num_(
    self: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """:func:`nan_to_num` in place."""
    if not self.is_floating_point():
        return self
    return inplace_function("nan_to_num_with")(self, *_stand_ins(self, nan, posinf, neginf))


def _stand_ins(self: Tensor, *given: float | None) -> tuple[float, ...]:
    defaults = (0.0, self.layout.dtype.highest, self.layout.dtype.lowest)
    return tuple(d if x is None else x for x, d in zip(given, defaults, strict=True))


def into(name: str, result: Tensor, out: Tensor | None, operands: tuple[Tensor, ...]) -> Tensor:
    """A finished result, or ``out`` with a copy of it, after the checks of ``out=``."""
    if out is None:
        return result
    prepare_out(name, operands, out, result.layout.shape)
    if not dtypes.can_cast(result.layout.dtype, out.layout.dtype):
        raise RuntimeError(
            f"result type {result.layout.dtype.tensor_type.removesuffix('Tensor')} can't be cast "
            f"to the desired output type {out.layout.dtype.tensor_type.removesuffix('Tensor')}"
        )
    return convert.copy_(out, result)


def _widest(*operands: Any) -> dtypes.dtype:
    """The dtype of :func:`float_power`."""
    for x in operands:
        if isinstance(x, complex) or (isinstance(x, Tensor) and x.is_complex()):
            return dtypes.complex128
    return dtypes.float64


def float_power(self: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``self ** exponent`` in float64 (complex128), whatever the dtypes."""
    wide = _widest(self, exponent)
    base, power = (convert.to(x, wide) if isinstance(x, Tensor) else x for x in (self, exponent))
    if out is not None and out.dtype is not wide:
        raise RuntimeError(
            "the base given to float_power_ has dtype and the operation's result requires dtype "
            "Double"
        )
    return _f["pow"](tensor_or_number("float_power", "self", base), power, out=out)


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """:func:`float_power` in place; only for float64 (complex128)."""
    wide = _widest(self, exponent)
    if self.dtype is not wide:
        raise RuntimeError(
            "the base given to float_power_ has dtype "
            f"{self.layout.dtype.tensor_type.removesuffix('Tensor')} but the operation's result "
            "requires dtype Double"
        )
    power = convert.to(exponent, wide) if isinstance(exponent, Tensor) else exponent
    return inplace_function("pow")(self, power)


def ldexp(self: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``self * 2 ** other``."""
    return _f["mul"](self, _f["pow"](constant(2.0), other), out=out)


def ldexp_(self: Tensor, other: Tensor) -> Tensor:
    """:func:`ldexp` in place."""
    return inplace_function("mul")(self, _f["pow"](constant(2.0), other))


def frexp(self: Tensor, *, out: Any = None) -> Any:
    """``self = mantissa * 2 ** exponent`` with ``|mantissa|`` in [0.5, 1) and an int32 exponent.

    Gradient: of the mantissa alone, ``grad / 2 ** exponent``.
    """
    if self.layout.dtype.category != dtypes.FLOATING:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    exponent = convert.to(_f["frexp_exponent"](self.detach()), dtypes.int32)
    mantissa = _f["frexp_mantissa"](self, exponent)
    if out is not None:
        mantissa = into("frexp", mantissa, out[0], (self,))
        exponent = into("frexp", exponent, out[1], ())
    return return_types.frexp((mantissa, exponent))


def round_(self: Tensor, *, decimals: int = 0) -> Tensor:
    """:func:`round` in place."""
    if decimals == 0:
        return inplace_function("round")(self)
    return convert.copy_(self, round(self, decimals=decimals))


def round(self: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest integer, halves to even, or multiple of a power of ten. Gradient: 0."""
    if decimals == 0:
        return _f["round"](self, out=out)
    scale = 10.0 ** abs(decimals)
    up, down = ("mul", "div") if decimals > 0 else ("div", "mul")
    return _f[down](_f["round"](_f[up](self, scale)), scale, out=out)


def _step(self: Tensor, values: Tensor) -> str:
    """The row of a step: of bools it is ``self or values``."""
    bools = isinstance(values, Tensor) and self.layout.dtype.category == dtypes.BOOL
    return "logical_or" if bools and values.layout.dtype.category == dtypes.BOOL else "heaviside"


def heaviside(self: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below 0, 1 above, ``values`` at 0; no derivative."""
    return _f[_step(self, values)](self, values, out=out)


def heaviside_(self: Tensor, values: Tensor) -> Tensor:
    """:func:`heaviside` in place."""
    return inplace_function(_step(self, values))(self, values)


def dist(self: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The ``p``-norm of ``self - other``, all dimensions together."""
    from .reduction import vector_norm

    return vector_norm(_f["sub"](self, other), p)


def fill(self: Tensor, value: Any) -> Tensor:
    """A copy of ``self``'s layout with every element ``value``. Gradient: 0, and the sum."""
    return convert.fill_(convert.clone(self), value)


def rdiv(self: Tensor, other: Any) -> Any:
    """``other / self``; NotImplemented for what is neither a tensor nor a number."""
    if not isinstance(other, Tensor) and python_number(other) is None:
        return NotImplemented
    return _f["mul"](_f["reciprocal"](self), other)


METHODS = (
    "xlogy xlogy_ logit logit_ polygamma_ mvlgamma mvlgamma_ nan_to_num nan_to_num_ float_power "
    "float_power_ heaviside heaviside_ ldexp ldexp_ frexp dist round round_"
)
FUNCTIONS = (
    "xlogy logit logit_ polygamma mvlgamma nan_to_num nan_to_num_ float_power ldexp frexp dist "
    "fill heaviside round"
)
