"""exp, exp2, expm1, sigmoid, tanh, sinh, cosh.

Method: Cody-Waite reduction x = n ln2 + r with n = rint(x / ln2), ln2 held in two parts so that n *
high is exact; a minimax polynomial (weighted Remez, leading coefficients rounded in turn) for e^r
on |r| <= ln2 / 2; 2^n put in by exponent bits. n comes from adding 1.5 * 2^(mantissa bits), whose
low bits then are n: no conversion to an integer.
"""

import numpy as np
from numba.extending import register_jitable

from .bits import (
    OPTIONS,
    fma,
    horner,
    implement,
    magnitude,
    power_of_two,
    select,
    to_bits,
    with_sign,
)

jitable = register_jitable(**OPTIONS)


def exp(x):
    """e**x."""
    return np.exp(x)


def exp2(x):
    """2**x."""
    return np.exp2(x)


def expm1(x):
    """e**x - 1, accurate near 0."""
    return np.expm1(x)


def sigmoid(x):
    """1 / (1 + e**-x), accurate down to the denormals."""
    e = np.exp(-np.abs(x))
    return (e if x < 0 else type(e)(1)) / (type(e)(1) + e)


def tanh(x):
    """Hyperbolic tangent."""
    return np.tanh(x)


def sinh(x):
    """Hyperbolic sine."""
    return np.sinh(x)


def cosh(x):
    """Hyperbolic cosine."""
    return np.cosh(x)


# (e^r - 1 - r) / r^2, (2^r - 1) / r and, in powers of z = x^2, (tanh x / x - 1) / z for |x| <= 5/8;
# highest power first.
EXP_32 = (0.001394065, 0.008368827, 0.041666403, 0.1666652, 0.5)
EXPM1_32 = (0.00019944286, 0.0013932685, 0.008333208, 0.04166649, 0.16666667, 0.5)
EXP2_32 = (0.00015462896, 0.0013391011, 0.0096180625, 0.055503596, 0.2402265, 0.6931472)
TANH_32 = (-0.0057140635, 0.020648062, -0.053742774, 0.13331483, -0.33333284)
EXP_64 = (
    2.0914242223572443e-09,
    2.511314634293377e-08,
    2.7557274051398935e-07,
    2.7557231657392067e-06,
    2.4801587326123773e-05,
    0.00019841269899615124,
    0.001388888888888307,
    0.008333333333315719,
    0.04166666666666667,
    0.16666666666666685,
    0.5,
)
EXPM1_64 = (
    1.73416787493355e-10,
    2.091374812735336e-09,
    2.5047467966498523e-08,
    2.755727540215153e-07,
    2.755732553464884e-06,
    2.480158732498719e-05,
    0.00019841269837362564,
    0.0013888888888883358,
    0.00833333333333439,
    0.04166666666666667,
    0.16666666666666666,
    0.5,
)
EXP2_64 = (
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
TANH_64 = (
    6.058133732738699e-06,
    -3.0224360164634025e-05,
    9.159696596712009e-05,
    -0.00023703474483279847,
    0.0005894605223457108,
    -0.0014557281354806127,
    0.0035921143665137026,
    -0.008863234353134632,
    0.02186948847156785,
    -0.053968253966177576,
    0.13333333333329997,
    -0.33333333333333315,
)


def _family(real, digits, ln2_high, ln2_low, tables, limits):
    """The seven functions for one float type; ``digits`` is its stored mantissa length."""
    zero, quarter, half, one, two = real(0), real(0.25), real(0.5), real(1), real(2)
    sixteenth = real(0.0625)
    bend, lowered = real(0.625), real(2.0**-64)
    log2_e = real(1.4426950408889634)
    ln2_high, ln2_low = real(ln2_high), real(ln2_low)
    magic = real(1.5 * 2**digits)
    exp_table, expm1_table, exp2_table, tanh_table = (
        tuple(real(c) for c in table) for table in tables
    )
    # exp is inf from top on and 0 up to bottom; expm1 is -1 up to minus_one and x below tiny; 2**x
    # likewise; from sinh_top on sinh and cosh are inf.
    top, bottom, minus_one, sinh_top, exp2_top, exp2_bottom, tiny = (real(v) for v in limits)

    @jitable
    def reduced(x):
        """r, its rounding error and an integer with the low bits of n, x = n ln2 + r."""
        shifted = x * log2_e + magic
        n = shifted - magic
        exact = x - n * ln2_high
        r = exact - n * ln2_low
        return r, (exact - r) - n * ln2_low, to_bits(shifted)

    @jitable
    def exp_bounded(x):
        """exp for bottom <= x <= top; scaled twice, as the result may be denormal or overflow."""
        r, error, n = reduced(x)
        y = one + (r + (r * r * horner(r, exp_table) + error))
        h = n >> 1
        return y * power_of_two(h, x) * power_of_two(n - h, x)

    @jitable
    def exp_below_0(x):
        """exp for x <= 0, a little faster and less accurate (1 ULP)."""
        x = select(x < bottom, bottom, x)
        shifted = x * log2_e + magic
        n = shifted - magic
        r = x - n * ln2_high - n * ln2_low
        y = one + (r + r * r * horner(r, exp_table))
        # 2^n may be denormal, 2^(n + 64) is not.
        return y * power_of_two(to_bits(shifted) + 64, x) * lowered

    @jitable
    def expm1_reduced(x):
        """e^r - 1 and n."""
        r, error, n = reduced(x)
        return r + (r * r * horner(r, expm1_table) + error), n

    def exp_(x):
        # Written so that NaN passes the two bounds.
        x = select(x > top, top, x)
        return exp_bounded(select(x < bottom, bottom, x))

    def exp2_(x):
        x = select(x > exp2_top, exp2_top, x)
        x = select(x < exp2_bottom, exp2_bottom, x)
        shifted = x + magic
        r = x - (shifted - magic)
        n = to_bits(shifted)
        h = n >> 1
        y = one + r * horner(r, exp2_table)
        return y * power_of_two(h, x) * power_of_two(n - h, x)

    def expm1_(x):
        b = select(x > top, top, x)
        p, n = expm1_reduced(select(b < minus_one, minus_one, b))
        s = power_of_two(n - 1, x)  # half of 2^n, which may be beyond the largest float
        y = two * fma(s, p, s - half)
        return select(magnitude(x) < tiny, x, y)

    def sigmoid_(x):
        e = exp_below_0(-magnitude(x))
        return select(x < zero, e, one) / (one + e)

    def tanh_(x):
        a = magnitude(x)
        z = a * a
        e = exp_below_0(-two * a)
        y = select(a < bend, a + a * z * horner(z, tanh_table), one - two * e / (one + e))
        return with_sign(y, x)

    def sinh_(x):
        a = magnitude(x)
        p, n = expm1_reduced(select(a > sinh_top, sinh_top, a))
        s = power_of_two(n - 2, x)
        q = fma(s, p, s - quarter)  # expm1(a) / 4, finite where sinh is
        y = two * (q + q / (two * two * q + one))
        return select(a < tiny, x, with_sign(y, x))

    def cosh_(x):
        a = magnitude(x)
        r, error, n = reduced(select(a > sinh_top, sinh_top, a))
        q = (one + (r + (r * r * horner(r, exp_table) + error))) * power_of_two(n - 2, x)
        return two * (q + sixteenth / q)

    return (exp_, exp2_, expm1_, sigmoid_, tanh_, sinh_, cosh_), exp_below_0


_FLOAT32, _BELOW_0_32 = _family(
    np.float32,
    23,
    0.693359375,
    -2.1219444005469058e-4,
    (EXP_32, EXPM1_32, EXP2_32, TANH_32),
    (89.0, -104.0, -25.0, 89.5, 128.0, -151.0, 2.0**-26),
)
_FLOAT64, _BELOW_0_64 = _family(
    np.float64,
    52,
    0.693147180559663,
    2.8235290563031577e-13,
    (EXP_64, EXPM1_64, EXP2_64, TANH_64),
    (710.0, -746.0, -50.0, 710.6, 1024.0, -1076.0, 2.0**-55),
)
for _stub, _32, _64 in zip(
    (exp, exp2, expm1, sigmoid, tanh, sinh, cosh), _FLOAT32, _FLOAT64, strict=True
):
    implement(_stub, float32=_32, float64=_64)
EXP_BELOW_0 = {np.float32: _BELOW_0_32, np.float64: _BELOW_0_64}
