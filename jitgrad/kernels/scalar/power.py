"""pow of floats; that of integers is in ``integer``.

Method: 2^(y log2 |x|), the logarithm by 2 atanh(s), s = f / (2 + f). Its error is multiplied by up
to 1024, so it needs more bits than the result has: float32 works in float64, float64 with pairs of
floats.
"""

import numpy as np
from numba.extending import register_jitable

from . import integer
from .bits import (
    OPTIONS,
    as_type,
    fma,
    from_bits,
    horner,
    implement,
    magnitude,
    power_of_two,
    round_to_zero,
    select,
    to_bits,
    with_sign,
)

jitable = register_jitable(**OPTIONS)


def pow(x, y):
    """x**y; 1 for y = 0 and for x = 1, NaN for a finite negative x and a y that is not whole;
    integers wrap.
    """
    with np.errstate(all="ignore"):
        return np.power(x, y)


# (atanh(s) / s - 1) / z and (atanh(s) / s - 1 - z/3) / z^2 in powers of z = s^2; (2^r - 1) / r.
# Highest power first.
ATANH_32 = tuple(
    np.float64(c)
    for c in (0.11792497149059353, 0.14268583819457517, 0.20000168627830914, 0.3333333281854959)
)
EXP2_32 = tuple(
    np.float64(c)
    for c in (
        1.5315077264071875e-05,
        0.0001546723719155675,
        0.0013333430223313597,
        0.009618036544254017,
        0.05550410963265753,
        0.24022651078101223,
        0.6931471805414607,
    )
)
ATANH_64 = tuple(
    np.float64(c)
    for c in (
        0.06006752613949268,
        0.05835928116297995,
        0.06668232202880053,
        0.07692276511432496,
        0.09090909463563933,
        0.11111111108535035,
        0.14285714285723522,
        0.19999999999999987,
    )
)
EXP2_64 = tuple(
    np.float64(c)
    for c in (
        2.5519118401329358e-11,
        4.478714380420006e-10,
        7.055066835659307e-09,
        1.0177900092627135e-07,
        1.3215486294090662e-06,
        1.5252734232476844e-05,
        0.00015403530394091032,
        0.001333355814598152,
        0.00961812910762803,
        0.055504108664823505,
        0.24022650695910072,
        0.6931471805599453,
    )
)

_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_FRACTION = np.int64((1 << 52) - 1)
_ZERO, _HALF, _ONE, _TWO = np.float64(0), np.float64(0.5), np.float64(1), np.float64(2)
_INFINITY = np.float64(np.inf)
_MAGIC = np.float64(1.5 * 2.0**52)
_SMALLEST_NORMAL, _LIFT, _LIFT_BITS = np.float64(2.0**-1022), np.float64(2.0**54), np.float64(54)
_TOP, _BOTTOM = np.float64(1024.0), np.float64(-1076.0)
_THIRD, _THIRD_LOW = np.float64(1 / 3), np.float64(1.850371707708594e-17)
# 2 / ln 2 in two parts.
_SCALE, _SCALE_LOW = np.float64(2.8853900817779268), np.float64(4.0710547481862066e-17)


@jitable
def _split(x):
    """m, k with x = 2^k m and m in [sqrt(1/2), sqrt(2)), for normal positive x."""
    i = to_bits(x) - _SQRT_HALF_BITS
    m = from_bits((i & _FRACTION) + _SQRT_HALF_BITS, x)
    return m, np.float64(np.int32(i >> 52))


@jitable
def _log2_edges(x, y):
    """y, but the logarithm of 0, infinity and NaN."""
    y = select(x < _INFINITY, y, x)
    return select(x == _ZERO, -_INFINITY, y)


@jitable
def _sum(a, b):
    """a + b as a rounded sum and its error, for |a| >= |b| or a = 0 (Dekker)."""
    s = a + b
    return s, b - (s - a)


@jitable
def _log2_pair(x):
    """log2 of x >= 0 as a pair of floats, good to about 2^-65."""
    small = x < _SMALLEST_NORMAL
    m, k = _split(select(small, x * _LIFT, x))
    k = select(small, k - _LIFT_BITS, k)
    f = m - _ONE
    d, d_low = _sum(_ONE, m)
    d_low = select(m > _ONE, _ONE - (d - m), d_low)
    inverse = _ONE / d
    s = f * inverse
    s_low = (fma(-s, d, f) - s * d_low) * inverse
    z = s * s
    z_low = fma(s, s, -z) + (s + s) * s_low
    u = z * _THIRD
    u_low = fma(z, _THIRD, -u) + (z * _THIRD_LOW + z_low * _THIRD)
    w, w_low = _sum(u, z * z * horner(z, ATANH_64))
    w_low = w_low + u_low
    t = s * w
    t_low = fma(s, w, -t) + (s * w_low + s_low * w)
    g, g_low = _sum(s, t)
    g_low = g_low + (s_low + t_low)
    p = g * _SCALE
    p_low = fma(g, _SCALE, -p) + (g * _SCALE_LOW + g_low * _SCALE)
    high, low = _sum(k, p)
    return _log2_edges(x, high), low + p_low


@jitable
def _exp2_pair(high, low):
    """2^(high + low)."""
    x = select(high > _TOP, _TOP, high)
    x = select(x < _BOTTOM, _BOTTOM, x)
    # Beyond the range of floats low is of no account, and may be NaN.
    low = select(x == high, low, _ZERO)
    shifted = x + _MAGIC
    n = to_bits(shifted)
    r = (x - (shifted - _MAGIC)) + low
    h = n >> 1
    y = _ONE + r * horner(r, EXP2_64)
    return y * power_of_two(h, _ONE) * power_of_two(n - h, _ONE)


@jitable
def _signed(x, y, p):
    """x**y, given p = |x|**y where that needs no special case."""
    zero, one = as_type(0, x), as_type(1, x)
    whole = round_to_zero(y) == y
    half = y * as_type(0.5, x)
    odd = whole & (round_to_zero(half) != half)
    a = magnitude(x)
    p = select((a == one) & (y == y), one, p)
    p = select((with_sign(one, x) < zero) & odd, -p, p)
    p = select((x < zero) & (a < as_type(np.inf, x)) & ~whole, as_type(np.nan, x), p)
    return select((y == zero) | (x == one), one, p)


def _pow_64(x, y):
    high, low = _log2_pair(magnitude(x))
    e = y * high
    return _signed(x, y, _exp2_pair(e, fma(y, high, -e) + y * low))


def _pow_32(x, y):
    a = np.float64(magnitude(x))
    m, k = _split(a)
    s = (m - _ONE) / (m + _ONE)
    z = s * s
    e = np.float64(y) * _log2_edges(a, k + (s + s * z * horner(z, ATANH_32)) * _SCALE)
    e = select(e > np.float64(200), np.float64(200), e)
    e = select(e < np.float64(-200), np.float64(-200), e)
    shifted = e + _MAGIC
    r = e - (shifted - _MAGIC)
    p = (_ONE + r * horner(r, EXP2_32)) * power_of_two(to_bits(shifted), _ONE)
    return _signed(x, y, np.float32(p))


implement(pow, float32=_pow_32, float64=_pow_64, integer=integer.power_)
