"""log, log2, log10, log1p, asinh, acosh, atanh, logaddexp.

Method: x = 2^k m with m in [sqrt(1/2), sqrt(2)), by exponent bits; f = m - 1; log(1 + f) = f + g,
where g is a minimax polynomial in f (float32) or comes from 2 atanh(s), s = f / (2 + f) (float64);
k times the logarithm of 2, in two parts. For log1p, f is 2^-k x + (2^-k - 1), rounded once, so that
nothing is lost for small x.
"""

import numpy as np
from numba.extending import register_jitable

from .bits import (
    OPTIONS,
    as_type,
    fma,
    from_bits,
    horner,
    implement,
    magnitude,
    select,
    square_root,
    to_bits,
    with_sign,
)
from .exponential import EXP_BELOW_0

jitable = register_jitable(**OPTIONS)


def log(x):
    """Natural logarithm."""
    return np.log(x)


def log2(x):
    """Logarithm to base 2."""
    return np.log2(x)


def log10(x):
    """Logarithm to base 10."""
    return np.log10(x)


def log1p(x):
    """log(1 + x), accurate near 0."""
    return np.log1p(x)


def asinh(x):
    """Inverse hyperbolic sine."""
    return np.arcsinh(x)


def acosh(x):
    """Inverse hyperbolic cosine."""
    return np.arccosh(x)


def atanh(x):
    """Inverse hyperbolic tangent."""
    return np.arctanh(x)


def logaddexp(x, y):
    """log(e**x + e**y) without overflow."""
    return np.logaddexp(x, y)


# float32: (log(1 + f) - f + f^2 / 2) / f^3; float64: (2 atanh(s) / s - 2) / s^2 in powers of s^2.
# Highest power first.
LOG_32 = (
    0.06749254,
    -0.11670181,
    0.118835896,
    -0.124062285,
    0.14220355,
    -0.16667989,
    0.20002072,
    -0.2500001,
    0.33333313,
)
LOG_64 = (
    0.13237647077589088,
    0.13251846959322286,
    0.15387001397858077,
    0.18181778092423798,
    0.22222222609850922,
    0.28571428569395774,
    0.40000000000004954,
    0.6666666666666666,
)


def _family(
    real, integer, digits, bias, sqrt_half, table, ln2, log2_e, log10_2, log10_e, big, near
):
    zero, half, one, two = real(0), real(0.5), real(1), real(2)
    infinity, nan = real(np.inf), real(np.nan)
    table = tuple(real(c) for c in table)
    ln2_high, ln2_low = real(ln2[0]), real(ln2[1])
    log2_e, log10_2, log10_e = (tuple(real(c) for c in p) for p in (log2_e, log10_2, log10_e))
    ln2_whole = real(np.log(2.0))
    smallest_normal = real(np.finfo(real).smallest_normal)
    lift = digits + 2
    lift_factor = real(2.0**lift)
    big = real(big)
    fraction_mask = integer(2**digits - 1)
    near = integer(near)
    exp_below_0 = EXP_BELOW_0[real]
    if real is np.float32:

        @jitable
        def excess(f):
            """log(1 + f) - f."""
            return f * f * (f * horner(f, table) - half)
    else:

        @jitable
        def excess(f):
            """log(1 + f) - f."""
            s = f / (two + f)
            z = s * s
            h = half * f * f
            return s * (h + z * horner(z, table)) - h

    @jitable
    def split(x):
        """m, k with x = 2^k m and m in [sqrt(1/2), sqrt(2)), for normal positive x."""
        i = to_bits(x) - sqrt_half
        return from_bits((i & fraction_mask) + sqrt_half, x), i >> digits

    @jitable
    def split_any(x):
        """m - 1 and k as a float, also for denormal x."""
        small = x < smallest_normal
        m, k = split(select(small, x * lift_factor, x))
        k = as_type(np.int32(k), x)
        return m - one, select(small, k - real(lift), k)

    @jitable
    def at_edges(x, y):
        """y, but what a logarithm gives at 0, infinity, NaN and below 0."""
        y = select(x < infinity, y, x)
        return select(x > zero, y, select(x == zero, -infinity, nan))

    @jitable
    def in_base(x, base_e, base_2):
        """The logarithm to the base in which log(e) and log(2) are the given two-part numbers."""
        f, k = split_any(x)
        g = excess(f)
        t = f * base_e[0]
        rest = fma(f, base_e[0], -t) + (f * base_e[1] + g * base_e[0])
        return at_edges(x, k * base_2[0] + (t + (rest + k * base_2[1])))

    @jitable
    def log1p_any(x):
        u = one + x
        m, k = split(u)
        s = from_bits((bias - k) << digits, x)
        # 1 is below the last place of a big x, and 2^-k may be denormal there.
        far = k > near
        f = select(far, m - one, fma(x, s, s - one))
        error = select(far, zero, fma(x, s, (s - one) - f)) * (one - f)
        k = as_type(np.int32(k), x)
        y = k * ln2_high + (f + (excess(f) + (error + k * ln2_low)))
        # 1 + x rounds to 1 for tiny x; this also keeps -0.
        return select(x == zero, x, at_edges(u, y))

    def log_(x):
        f, k = split_any(x)
        return at_edges(x, k * ln2_high + (f + (excess(f) + k * ln2_low)))

    def log2_(x):
        return in_base(x, log2_e, (one, zero))

    def log10_(x):
        return in_base(x, log10_e, log10_2)

    def log1p_(x):
        return log1p_any(x)

    def asinh_(x):
        a = magnitude(x)
        far = a > big
        b = select(far, big, a)
        b2 = b * b
        u = b + b2 / (one + square_root(b2 + one))
        y = log1p_any(select(far, a, u)) + select(far, ln2_whole, zero)
        return with_sign(y, x)

    def acosh_(x):
        far = x > big
        t = x - one
        b = select(far, big, t)
        u = b + square_root(b * b + (b + b))
        y = log1p_any(select(far, t, u)) + select(far, ln2_whole, zero)
        return select(x < one, nan, y)

    def atanh_(x):
        a = magnitude(x)
        return with_sign(half * log1p_any(two * a / (one - a)), x)

    def logaddexp_(x, y):
        # Equal infinities have no difference; NaN goes through the larger.
        d = select(x == y, zero, -magnitude(x - y))
        larger = select((x > y) | (x != x), x, y)
        return larger + log1p_any(exp_below_0(d))

    return log_, log2_, log10_, log1p_, asinh_, acosh_, atanh_, logaddexp_


_FLOAT32 = _family(
    np.float32,
    np.int32,
    23,
    127,
    0x3F3504F3,
    LOG_32,
    ln2=(0.6923828125, 0.0007643680599453094),
    log2_e=(1.4426950408889634, 1.9259629911266175e-08),
    log10_2=(0.301025390625, 4.605038981195214e-06),
    log10_e=(0.4342944819032518, -1.0103050052231683e-08),
    big=2.0**30,
    near=60,
)
_FLOAT64 = _family(
    np.float64,
    np.int64,
    52,
    1023,
    0x3FE6A09E667F3BCD,
    LOG_64,
    ln2=(0.693147180559663, 2.8235290563031577e-13),
    log2_e=(1.4426950408889634, 2.0355273740931033e-17),
    log10_2=(0.30102999566361177, 3.694239077158931e-13),
    log10_e=(0.4342944819032518, 1.098319650216765e-17),
    big=2.0**60,
    near=100,
)
for _stub, _32, _64 in zip(
    (log, log2, log10, log1p, asinh, acosh, atanh, logaddexp), _FLOAT32, _FLOAT64, strict=True
):
    implement(_stub, float32=_32, float64=_64)
