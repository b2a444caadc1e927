"""The functions of complex numbers that kernels call, by the names of those of real ones.

Elementary functions are computed in float64 from the real ones of this package, for complex64 too:
the result is then right to the last place of float32, and nothing overflows half-way. For
complex128 the formulas are those that keep both parts accurate (W. Kahan, "Branch cuts for complex
elementary functions", 1987); a part that is the small difference of large numbers, such as the
real part of log near the unit circle, is taken by log1p. Branch cuts follow the signs of zeros.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from . import arithmetic, exponential, logarithm, trigonometric
from .bits import OPTIONS, select

jitable = register_jitable(**OPTIONS)

_exp, _expm1 = exponential.exp, exponential.expm1
_sinh, _cosh = exponential.sinh, exponential.cosh
_log, _log1p, _asinh = logarithm.log, logarithm.log1p, logarithm.asinh
_sin, _cos, _tan, _atan2 = (
    trigonometric.sin,
    trigonometric.cos,
    trigonometric.tan,
    trigonometric.atan2,
)
_hypot, _sqrt, _magnitude, _copysign = (
    arithmetic.hypot,
    arithmetic.sqrt,
    arithmetic.abs,
    arithmetic.copysign,
)
_finite = arithmetic.isfinite

LN2, LN10, PI = 0.6931471805599453, 2.302585092994046, 3.141592653589793
_HUGE, _TINY = 2.0**1020, 2.0**-960


@jitable
def _parts(z):
    return np.float64(z.real), np.float64(z.imag)


# Parts and arithmetic -----------------------------------------------------------------------------
@jitable
def conj(z):
    """The complex conjugate."""
    return z.conjugate()


@jitable
def real(z):
    """The real part."""
    return z.real


def where(condition, x, y):
    """x if condition else y."""
    return x if condition else y


@overload(where, jit_options=OPTIONS)
def _where(condition, x, y):
    def choose(condition, x, y):
        return x if condition else y

    return choose


def divide(x, y):
    """x / y: in float64 for complex64; with a scaled divisor for complex128."""
    return x / y


@overload(divide, jit_options=OPTIONS)
def _divide(x, y):
    def in_double(x, y):
        a, b = _parts(x)
        c, d = _parts(y)
        size = c * c + d * d
        x, y = select(size == 0, a, a * c + b * d), select(size == 0, b, b * c - a * d)
        return complex(x / size, y / size)

    def scaled(x, y):
        a, b = _parts(x)
        c, d = _parts(y)
        # Smith's way: the larger part of the divisor is divided out first.
        across = _magnitude(c) < _magnitude(d)
        p, q = (d, c) if across else (c, d)
        ratio = q / p if p != 0 else q
        scale = 1.0 / (p + q * ratio)
        if across:
            return complex((a * ratio + b) * scale, (b * ratio - a) * scale)
        return complex((a + b * ratio) * scale, (b - a * ratio) * scale)

    narrow = (types.complex64, types.float32)
    return in_double if x in narrow and y in narrow else scaled


@jitable
def abs(z):
    """The magnitude, without overflow."""
    return _hypot(z.real, z.imag)


@jitable
def angle(z):
    """The argument, in [-pi, pi]."""
    return _atan2(z.imag, z.real)


@jitable
def sgn(z):
    """z / |z|; 0 for 0."""
    x, y = _parts(z)
    size = _hypot(x, y)
    if size == 0:
        return complex(0.0, 0.0)
    return complex(x / size, y / size)


@jitable
def isnan(z):
    """Whether a part is NaN."""
    return z != z


@jitable
def isinf(z):
    """Whether a part is infinite."""
    return arithmetic.isinf(z.real) or arithmetic.isinf(z.imag)


@jitable
def isfinite(z):
    """Whether both parts are finite."""
    return _finite(z.real) and _finite(z.imag)


# Exponentials and logarithms ----------------------------------------------------------------------
@jitable
def exp(z):
    """e**z."""
    x, y = _parts(z)
    e, c, s = _exp(x), _cos(y), _sin(y)
    # No infinity times zero; and 0 whatever y, for -infinity.
    return complex(select(e == 0, 0.0, e * c), select(y == 0, y, select(e == 0, 0.0, e * s)))


@jitable
def exp2(z):
    """2**z."""
    x, y = _parts(z)
    return exp(complex(x * LN2, y * LN2))


@jitable
def expm1(z):
    """e**z - 1, accurate near 0."""
    x, y = _parts(z)
    if y == 0:
        return complex(_expm1(x), y)
    half = _sin(0.5 * y)
    return complex(_expm1(x) * _cos(y) - 2.0 * half * half, _exp(x) * _sin(y))


@jitable
def _log_size(x, y):
    """log |x + iy|."""
    a, b = _magnitude(x), _magnitude(y)
    if a < b:
        a, b = b, a
    if 0.5 < a < 2.0 and b < 2.0:
        near = (a - 1.0) * (a + 1.0) + b * b
        if near > -0.5:
            return 0.5 * _log1p(near)
    return _log(_hypot(a, b))


@jitable
def log(z):
    """The natural logarithm, cut along the negative real axis."""
    x, y = _parts(z)
    return complex(_log_size(x, y), _atan2(y, x))


@jitable
def log2(z):
    """The base-2 logarithm."""
    w = log(z)
    return complex(w.real / LN2, w.imag / LN2)


@jitable
def log10(z):
    """The base-10 logarithm."""
    w = log(z)
    return complex(w.real / LN10, w.imag / LN10)


@jitable
def log1p(z):
    """log(1 + z), accurate near 0."""
    x, y = _parts(z)
    if _magnitude(x) < 0.5 and _magnitude(y) < 1.0:
        return complex(0.5 * _log1p(x * (2.0 + x) + y * y), _atan2(y, 1.0 + x))
    return log(complex(1.0 + x, y))


@jitable
def sqrt(z):
    """The square root with a real part that is not negative."""
    x, y = _parts(z)
    a, b = _magnitude(x), _magnitude(y)
    larger = a if a > b else b
    if larger == 0:
        return complex(0.0, y)
    if b == np.inf:
        return complex(b, y)
    scale, back = 1.0, 1.0
    if larger > _HUGE:
        scale, back = 0.0625, 4.0
    elif larger < _TINY:
        scale, back = 2.0**80, 2.0**-40
    a, b = a * scale, b * scale
    t = _sqrt((a + _hypot(a, b)) * 0.5)
    s = b / (2.0 * t) if t < np.inf else 0.0
    t, s = t * back, s * back
    if x >= 0:
        return complex(t, _copysign(s, y))
    return complex(s, _copysign(t, y))


@jitable
def rsqrt(z):
    """1 / sqrt(z)."""
    return divide(complex(1.0, 0.0), sqrt(z))


@jitable
def sigmoid(z):
    """1 / (1 + e**-z)."""
    x, y = _parts(z)
    one = complex(1.0, 0.0)
    if x >= 0:
        return divide(one, one + exp(complex(-x, -y)))
    e = exp(complex(x, y))
    return divide(e, one + e)


@jitable
def pow(z, w):
    """z**w; 1 for w = 0, and 0 for z = 0 where the real part of w is positive."""
    x, y = _parts(z)
    p, q = _parts(w)
    if p == 0 and q == 0:
        return complex(1.0, 0.0)
    if x == 0 and y == 0:
        if p > 0:
            return complex(0.0, 0.0)
        return complex(np.inf if q == 0 else np.nan, np.nan)
    if q == 0:
        if p == 1.0:
            return complex(x, y)
        if p == 2.0:
            return complex(x * x - y * y, 2.0 * x * y)
        if p == -1.0:
            return divide(complex(1.0, 0.0), complex(x, y))
        if p == 0.5:
            return sqrt(z)
    size, turn = _log_size(x, y), _atan2(y, x)
    return exp(complex(p * size - q * turn, p * turn + q * size))


@jitable
def logaddexp(z, w):
    """log(e**z + e**w), without overflow."""
    a, b = (z, w) if z.real >= w.real or z.real != z.real else (w, z)
    if a.real == b.real and arithmetic.isinf(a.real):
        if a.real < 0:
            return complex(*_parts(a))
        return log(exp(a) + exp(b))
    return complex(*_parts(a)) + log1p(exp(b - a))


# Trigonometric and hyperbolic functions -----------------------------------------------------------
@jitable
def sin(z):
    """The sine."""
    x, y = _parts(z)
    return complex(select(x == 0, x, _sin(x) * _cosh(y)), _cos(x) * _sinh(y))


@jitable
def cos(z):
    """The cosine."""
    x, y = _parts(z)
    return complex(_cos(x) * _cosh(y), -(_sin(x) * _sinh(y)))


@jitable
def sinh(z):
    """The hyperbolic sine."""
    x, y = _parts(z)
    return complex(_sinh(x) * _cos(y), select(y == 0, y, _cosh(x) * _sin(y)))


@jitable
def cosh(z):
    """The hyperbolic cosine."""
    x, y = _parts(z)
    return complex(_cosh(x) * _cos(y), _sinh(x) * _sin(y))


@jitable
def tanh(z):
    """The hyperbolic tangent."""
    x, y = _parts(z)
    if _magnitude(x) > 20.0:
        decay = _exp(-2.0 * _magnitude(x))
        return complex(_copysign(1.0, x), 4.0 * _sin(y) * _cos(y) * decay if decay > 0 else 0.0 * y)
    t, s = _tan(y), _sinh(x)
    beta = 1.0 + t * t
    if beta == np.inf:
        return complex(_sqrt(1.0 + s * s) / s, 1.0 / t)
    scale = 1.0 / (1.0 + beta * s * s)
    return complex(beta * _sqrt(1.0 + s * s) * s * scale, t * scale)


@jitable
def tan(z):
    """The tangent."""
    x, y = _parts(z)
    w = tanh(complex(-y, x))
    return complex(w.imag, -w.real)


@jitable
def _large(x, y):
    """Whether the products of the inverse functions could overflow."""
    return _magnitude(x) > 1e150 or _magnitude(y) > 1e150


@jitable
def asinh(z):
    """The inverse hyperbolic sine."""
    x, y = _parts(z)
    if _large(x, y):
        size = _log_size(0.5 * x, 0.5 * y) + 2.0 * LN2
        return complex(_copysign(size, x), _atan2(y, _magnitude(x)))
    p, q = sqrt(complex(1.0 + y, -x)), sqrt(complex(1.0 - y, x))
    return complex(
        _asinh(p.real * q.imag - q.real * p.imag), _atan2(y, p.real * q.real - p.imag * q.imag)
    )


@jitable
def asin(z):
    """The inverse sine."""
    x, y = _parts(z)
    w = asinh(complex(-y, x))
    return complex(w.imag, -w.real)


@jitable
def acos(z):
    """The inverse cosine."""
    x, y = _parts(z)
    if _large(x, y):
        size = _log_size(0.5 * x, 0.5 * y) + 2.0 * LN2
        return complex(_atan2(_magnitude(y), x), _copysign(size, -y))
    p, q = sqrt(complex(1.0 - x, -y)), sqrt(complex(1.0 + x, y))
    return complex(2.0 * _atan2(p.real, q.real), _asinh(q.real * p.imag - q.imag * p.real))


@jitable
def acosh(z):
    """The inverse hyperbolic cosine."""
    x, y = _parts(z)
    if _large(x, y):
        return complex(_log_size(0.5 * x, 0.5 * y) + 2.0 * LN2, _atan2(y, x))
    p, q = sqrt(complex(x - 1.0, y)), sqrt(complex(x + 1.0, y))
    return complex(_asinh(p.real * q.real + p.imag * q.imag), 2.0 * _atan2(p.imag, q.real))


@jitable
def atanh(z):
    """The inverse hyperbolic tangent."""
    x, y = _parts(z)
    a, b = _magnitude(x), _magnitude(y)
    if a > 1e150 or b > 1e150:
        size = _hypot(0.5 * x, 0.5 * y)
        return complex(_copysign(a / size / size * 0.25, x), _copysign(0.5 * PI, y))
    if a == 1.0 and b == 0.0:
        return complex(_copysign(np.inf, x), y)
    grown = _log1p(4.0 * a / ((1.0 - a) * (1.0 - a) + b * b)) * 0.25
    turned = 0.5 * _atan2(2.0 * y, (1.0 - a) * (1.0 + a) - b * b)
    return complex(_copysign(grown, x), turned)


@jitable
def atan(z):
    """The inverse tangent."""
    x, y = _parts(z)
    w = atanh(complex(-y, x))
    return complex(w.imag, -w.real)


@jitable
def sinc(z):
    """sin(pi z) / (pi z); 1 at 0."""
    x, y = _parts(z)
    w = complex(PI * x, PI * y)
    if x == 0 and y == 0:
        return complex(1.0, 0.0)
    return divide(sin(w), w)
