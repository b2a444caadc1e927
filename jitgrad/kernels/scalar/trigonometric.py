"""sin, cos, tan, sinc, asin, acos, atan, atan2.

Method: x = q pi/2 + r with |r| <= pi/4, then minimax polynomials for sin r and cos r, of which the
quadrant q picks. The reduction is Payne and Hanek's, right for every finite x and free of branches:
row e of a table holds 2^e * 2/pi modulo 4 to enough bits, so the integer significand of x times
that row is x * 2/pi modulo 4. float32 does this in 64-bit fixed point, read as float64 (the only
float64 in it), float64 with exact products.

asin, acos and atan fold their argument into an interval where an odd minimax polynomial is short.
"""

import numpy as np
from numba.extending import register_jitable

from .bits import (
    OPTIONS,
    fma,
    from_bits,
    funnel,
    horner,
    implement,
    magnitude,
    round_down,
    round_to_even,
    select,
    square_root,
    to_bits,
    with_sign,
)

jitable = register_jitable(**OPTIONS)


def sin(x):
    """Sine of x radians."""
    return np.sin(x)


def cos(x):
    """Cosine of x radians."""
    return np.cos(x)


def tan(x):
    """Tangent of x radians."""
    return np.tan(x)


def sinc(x):
    """sin(pi x) / (pi x), 1 at 0."""
    return np.sinc(x).astype(np.asarray(x).dtype)[()]


def asin(x):
    """Inverse sine."""
    return np.arcsin(x)


def acos(x):
    """Inverse cosine."""
    return np.arccos(x)


def atan(x):
    """Inverse tangent."""
    return np.arctan(x)


def atan2(y, x):
    """The angle of the point (x, y), in [-pi, pi]."""
    return np.arctan2(y, x)


# (sin r / r - 1) / z, (cos r - 1 + z/2) / z^2, (atan t / t - 1) / z, (asin t / t - 1) / z in powers
# of the square z.
SIN_32 = (-0.00019518405, 0.00833219, -0.16666655)
COS_32 = (2.443067e-05, -0.0013887301, 0.041666646)
ATAN_32 = (
    -0.0018186589,
    0.011028764,
    -0.031394172,
    0.058177873,
    -0.084164545,
    0.10956657,
    -0.14265092,
    0.19998626,
    -0.33333302,
)
ASIN_32 = (0.037673127, 0.014329189, 0.031836055, 0.044513635, 0.07500521, 0.1666666)
SIN_64 = (
    1.5896681495825467e-10,
    -2.505075670896432e-08,
    2.755731368754622e-06,
    -0.00019841269829813372,
    0.008333333333322455,
    -0.16666666666666632,
)
COS_64 = (
    -1.1359802593175874e-11,
    2.0875727061222682e-09,
    -2.755731438748292e-07,
    2.4801587289636338e-05,
    -0.0013888888888874441,
    0.0416666666666666,
)
ATAN_64 = (
    -0.017895552015700884,
    0.03805466516437803,
    -0.05038946961796485,
    0.05847817542618297,
    -0.06663095333734359,
    0.07692059560303843,
    -0.09090897728140158,
    0.11111110782731334,
    -0.1428571428018967,
    0.19999999999953627,
    -0.333333333333332,
)
ASIN_64 = (
    0.03270243441119222,
    -0.02111702613775487,
    0.021790753238324342,
    0.0036721968524081627,
    0.010789300202791957,
    0.011397300657605202,
    0.013981017029210186,
    0.0173515956843504,
    0.022372215891681996,
    0.03038194267595344,
    0.04464285717526791,
    0.07499999999970122,
    0.16666666666666763,
)


def _two_over_pi(bits):
    """floor(2/pi * 2^bits), from Machin's pi/4 = 4 atan(1/5) - atan(1/239) in integers."""
    guard = bits + 64

    def atan_inverse(n):
        total = term = (1 << guard) // n
        k = 1
        while term:
            term //= n * n
            k += 2
            total += -(term // k) if k % 4 == 3 else term // k
        return total

    half_pi = 2 * (4 * atan_inverse(5) - atan_inverse(239))
    return (1 << (guard + bits)) // half_pi


def _rows(first, last, fraction_bits):
    """2^e * 2/pi modulo 4, in units of 2^-fraction_bits, for e in [first, last)."""
    bits = fraction_bits + last
    digits = _two_over_pi(bits)
    mask = (1 << (fraction_bits + 2)) - 1
    return [(digits >> (bits - fraction_bits - e)) & mask for e in range(first, last)]


# float32: |x| >= 1/2 has exponent field 126 to 254, x = m 2^(field - 150). Row e = field - 126 is
# the 96 bits from bit e of this string on (2 integer and 94 fraction bits), cut out by selects and
# shifts: faster than a gather.
_STRING_32 = _two_over_pi(224 - 26)  # after 26 zeros
_WORDS_32 = tuple(np.uint32(_STRING_32 >> shift & 0xFFFFFFFF) for shift in range(192, -1, -32))


# float64: x = m 2^(field - 1075), field 1022 to 2046; a row is the sum of A, a multiple of 2^-51,
# B, of 2^-104, C, of 2^-157, and D. All are rounded to nearest, which keeps the products small.
_FIRST_64 = 1022


def _parts_64():
    parts = np.zeros((4, 1026))
    for i, row in enumerate(_rows(-53, 973, 187)):
        rest = row
        for part, shift in enumerate((136, 83, 30, 0)):
            digit = (rest + (1 << shift >> 1)) >> shift
            rest -= digit << shift
            parts[part, i] = float(digit) * 2.0 ** (shift - 187)
    return [part.copy() for part in parts]


_A_64, _B_64, _C_64, _D_64 = _parts_64()

_HALF_PI_64 = np.float64(1.5707963267948966)
_HALF_PI_LOW_64 = np.float64(6.123233995736766e-17)
# Turns of a quarter in 64-bit fixed point (62 fraction bits), to radians; split as high and low 32
# bits.
_SCALE_32 = np.float64(1.5707963267948966 * 2.0**-62)
_TWO_32 = np.float64(2.0**32)
_TWO_52 = np.float64(2.0**52)
_TWO_52_BITS = np.int64(0x4330000000000000)


@jitable
def _reduced_32(a):
    """r, its rounding error and q for 1/2 <= a < infinity: a = r + q pi/2 modulo 2 pi."""
    i = to_bits(a)
    e = (i >> 23) - 126
    last = e > 127  # the row after the last: one further back, for twice m
    e = select(last, 127, e)
    w0, w1, w2, w3, w4, w5, w6 = _WORDS_32
    far = (e & 64) != 0
    w0, w1, w2 = select(far, w2, w0), select(far, w3, w1), select(far, w4, w2)
    w3, w4 = select(far, w5, w3), select(far, w6, w4)
    far = (e & 32) != 0
    w0, w1 = select(far, w1, w0), select(far, w2, w1)
    w2, w3 = select(far, w3, w2), select(far, w4, w3)
    shift = np.uint32(e & 31)
    high, middle, low = funnel(w0, w1, shift), funnel(w1, w2, shift), funnel(w2, w3, shift)
    m = np.uint64((i & 0x7FFFFF) | 0x800000)
    m = select(last, m + m, m)
    turn = (m * np.uint64(high) << np.uint64(32)) + m * np.uint64(middle)
    turn = turn + (m * np.uint64(low) >> np.uint64(32))
    # Two bits of quadrant over 62 bits of a fraction, which is rounded to [-1/2, 1/2).
    q = (turn + np.uint64(1 << 61)) >> np.uint64(62)
    rest = np.int64(turn - (q << np.uint64(62)))
    # int64 to float64 by halves: every machine has vectors for these conversions.
    upper = np.float64(np.int32(rest >> 32)) * _TWO_32
    lower = from_bits((rest & 0xFFFFFFFF) | _TWO_52_BITS, _TWO_52) - _TWO_52
    exact = (upper + lower) * _SCALE_32
    r = np.float32(exact)
    return r, np.float32(exact - np.float64(r)), np.int32(q)


@jitable
def _sum(a, b):
    """a + b as a rounded sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@jitable
def _reduced_64(a):
    """r, its error and q for 1/2 <= a < infinity: a = r + q pi/2 modulo 2 pi."""
    i = to_bits(a)
    row = np.uint64(select(i >= (_FIRST_64 << 52), (i >> 52) - _FIRST_64, 0))
    m = from_bits((i & 0xFFFFFFFFFFFFF) | _TWO_52_BITS, a)
    h1 = m * _A_64[row]
    l1 = fma(m, _A_64[row], -h1)
    h1 = h1 - np.float64(4) * round_to_even(h1 * np.float64(0.25))
    h2 = m * _B_64[row]
    l2 = fma(m, _B_64[row], -h2)
    h3 = m * _C_64[row]
    l3 = fma(m, _C_64[row], -h3)
    s = h1 + l1  # both multiples of 2^-51 and small: exact
    turn = round_to_even(s + h2)
    f, e = _sum(s - turn, h2)
    g, e3 = _sum(e + l2, h3)
    high, low = _sum(f, g)
    low = low + (e3 + fma(m, _D_64[row], l3))
    r = high * _HALF_PI_64
    error = fma(high, _HALF_PI_64, -r) + (low * _HALF_PI_64 + high * _HALF_PI_LOW_64)
    return r, error, np.int32(turn)


def _family(real, reduced, sin_table, cos_table, asin_table, atan_core, pi_low):
    zero, half, one, two = real(0), real(0.5), real(1), real(2)
    infinity, nan = real(np.inf), real(np.nan)
    pi, half_pi, quarter_pi = real(np.pi), real(np.pi / 2), real(np.pi / 4)
    pi_low = real(pi_low)
    smallest = real(np.finfo(real).smallest_normal)
    all_whole = real(1 / np.finfo(real).eps)
    half_pi_low = half * pi_low
    sin_table, cos_table, asin_table = (
        tuple(real(c) for c in table) for table in (sin_table, cos_table, asin_table)
    )

    @jitable
    def sine(r, error):
        z = r * r
        return r + (r * z * horner(z, sin_table) + error)

    @jitable
    def cosine(r, error):
        z = r * r
        h = half * z
        w = one - h
        return w + (((one - w) - h) + (z * z * horner(z, cos_table) - r * error))

    @jitable
    def both(r, error):
        """Sine and cosine, each with what its last sum was rounded by."""
        z = r * r
        a = r * z * horner(z, sin_table) + error
        s = r + a
        h = half * z
        w = one - h
        b = ((one - w) - h) + (z * z * horner(z, cos_table) - r * error)
        c = w + b
        return s, a - (s - r), c, b - (c - w)

    @jitable
    def angle(a):
        """r, error and quadrant of a >= 0; small ones stay as they are, infinity gives NaN."""
        r, error, q = reduced(a)
        small = a <= quarter_pi
        r = select(small, a, select(a < infinity, r, nan))
        return r, select(small, zero, error), select(small, np.int32(0), q)

    @jitable
    def negated_if(bit, y):
        return select(bit != 0, -y, y)

    def sin_(x):
        r, error, q = angle(magnitude(x))
        y = select((q & 1) != 0, cosine(r, error), sine(r, error))
        return negated_if((q & 2), y) * with_sign(one, x)

    def cos_(x):
        r, error, q = angle(magnitude(x))
        y = select((q & 1) != 0, sine(r, error), cosine(r, error))
        return negated_if((q + 1) & 2, y)

    def tan_(x):
        r, error, q = angle(magnitude(x))
        s, s_rest, c, c_rest = both(r, error)
        odd = (q & 1) != 0
        n, n_rest = select(odd, -c, s), select(odd, -c_rest, s_rest)
        d, d_rest = select(odd, s, c), select(odd, s_rest, c_rest)
        inverse = one / d
        y = n * inverse
        y = y + (fma(-y, d, n) + (n_rest - y * d_rest)) * inverse
        return y * with_sign(one, x)

    def sinc_(x):
        a = magnitude(x)
        n = round_to_even(a + a)
        turn = a - half * n
        r = turn * pi
        error = fma(turn, pi, -r) + turn * pi_low
        q = n - real(4) * round_down(n * real(0.25))
        odd = (q == one) | (q == real(3))
        y = select(odd, cosine(r, error), sine(r, error))
        y = select(q >= two, -y, y) / (a * pi)
        y = select(a >= all_whole, select(a < infinity, zero, nan), y)
        return select(a == zero, one, y)

    @jitable
    def folded(x, a):
        """t and w with asin(x) = t + w for a = |x| <= 1/2, else asin(sqrt((1 - a) / 2)) = t + w."""
        far = a > half
        z = select(far, half * (one - a), a * a)
        s = square_root(z)
        t = select(far, s, x)
        # What the square root was rounded by; z = 0 has nothing there.
        error = select(far, (z - s * s) / (s + s + smallest), zero)
        return far, t, t * z * horner(z, asin_table) + error

    def asin_(x):
        a = magnitude(x)
        far, t, w = folded(a, a)
        return with_sign(select(far, (half_pi - two * t) - (two * w - half_pi_low), t + w), x)

    def acos_(x):
        far, t, w = folded(x, magnitude(x))
        middle = half_pi - (t + (w - half_pi_low))
        double = two * (t + w)
        end = select(x < zero, pi - (double - pi_low), double)
        return select(far, end, middle)

    def atan_(x):
        a = magnitude(x)
        far = a > one
        p = atan_core(select(far, one, a), select(far, a, one))
        return with_sign(select(far, half_pi - (p - half_pi_low), p), x)

    def atan2_(y, x):
        ax, ay = magnitude(x), magnitude(y)
        steep = ay > ax
        n, d = select(steep, ax, ay), select(steep, ay, ax)
        # 0/0 stands for the angle 0 and infinity/infinity for that of the diagonal.
        corner = (ax == infinity) & (ay == infinity)
        n, d = select(corner, one, n), select(corner | (d == zero), one, d)
        p = atan_core(n, d)
        p = select(steep, half_pi - (p - half_pi_low), p)
        p = select(with_sign(one, x) < zero, pi - (p - pi_low), p)
        return with_sign(p, y)

    return sin_, cos_, tan_, sinc_, asin_, acos_, atan_, atan2_


_ATAN_32 = tuple(np.float32(c) for c in ATAN_32)
_ATAN_64 = tuple(np.float64(c) for c in ATAN_64)
_TAN_EIGHTH_PI = np.float64(0.41421356237309503)
_QUARTER_PI_64 = np.float64(0.7853981633974483)
_QUARTER_PI_LOW_64 = np.float64(3.061616997868383e-17)
_HUGE_64, _SHRINK_64 = np.float64(2.0**1000), np.float64(2.0**-100)
_TINY_64, _GROW_64 = np.float64(2.0**-900), np.float64(2.0**200)


@jitable
def _atan_core_32(n, d):
    """atan(n / d) for 0 <= n <= d."""
    t = n / d
    z = t * t
    return t + t * z * horner(z, _ATAN_32)


@jitable
def _atan_core_64(n, d):
    """atan(n / d) for 0 <= n <= d; beyond tan(pi/8), pi/4 is taken off."""
    # n + d must not overflow, nor the border between the two cases be rounded among denormals.
    scale = select(d < _TINY_64, _GROW_64, select(d > _HUGE_64, _SHRINK_64, np.float64(1)))
    n, d = n * scale, d * scale
    far = n > d * _TAN_EIGHTH_PI
    t = select(far, n - d, n) / select(far, n + d, d)
    z = t * t
    p = t * z * horner(z, _ATAN_64)
    shifted = _QUARTER_PI_64 + (t + (p + _QUARTER_PI_LOW_64))
    return select(far, shifted, t + p)


_FLOAT32 = _family(
    np.float32, _reduced_32, SIN_32, COS_32, ASIN_32, _atan_core_32, -8.742278000372485e-08
)
_FLOAT64 = _family(
    np.float64, _reduced_64, SIN_64, COS_64, ASIN_64, _atan_core_64, 1.2246467991473532e-16
)
for _stub, _32, _64 in zip(
    (sin, cos, tan, sinc, asin, acos, atan, atan2), _FLOAT32, _FLOAT64, strict=True
):
    implement(_stub, float32=_32, float64=_64)
