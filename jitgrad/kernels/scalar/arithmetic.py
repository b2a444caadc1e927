"""Rounding, signs, comparison and division of floats; the names shared with integers take those
from ``integer``.
"""

import numpy as np
from numba.extending import overload, register_jitable

from . import integer
from .bits import (
    OPTIONS,
    fma,
    from_bits,
    implement,
    library_fmod,
    magnitude,
    round_down,
    round_to_even,
    round_to_zero,
    round_up,
    select,
    square_root,
    to_bits,
    with_sign,
)

jitable = register_jitable(**OPTIONS)


def sqrt(x):
    """Square root; NaN below zero."""
    return np.sqrt(x)


def rsqrt(x):
    """1 / sqrt(x)."""
    return np.divide(np.asarray(x).dtype.type(1), np.sqrt(x))


def abs(x):
    """Magnitude; that of the most negative integer wraps to itself."""
    return np.abs(x)


def sgn(x):
    """-1, 0 or 1; 0 for NaN, as in torch."""
    kind = np.asarray(x).dtype.type
    return kind(x > 0) if kind in (np.bool_, np.uint8) else kind(int(x > 0) - int(x < 0))


sign = sgn


def floor(x):
    """Rounded towards minus infinity."""
    return np.floor(x)


def ceil(x):
    """Rounded towards infinity."""
    return np.ceil(x)


def trunc(x):
    """Rounded towards zero."""
    return np.trunc(x)


def round(x):
    """Rounded to the nearest integer, ties to even."""
    return np.rint(x)


def frac(x):
    """x - trunc(x)."""
    return x - np.trunc(x)


def copysign(x, y):
    """The magnitude of x with the sign of y."""
    return np.copysign(x, y)


def signbit(x):
    """Whether the sign bit is set, also for -0 and NaN."""
    return bool(np.signbit(x))


def isnan(x):
    """Whether x is NaN."""
    return bool(np.isnan(x))


def isinf(x):
    """Whether x is an infinity."""
    return bool(np.isinf(x))


def isfinite(x):
    """Whether x is neither NaN nor an infinity."""
    return bool(np.isfinite(x))


def maximum(x, y):
    """The larger; NaN if either is."""
    return np.maximum(x, y)


def minimum(x, y):
    """The smaller; NaN if either is."""
    return np.minimum(x, y)


def fmax(x, y):
    """The larger; NaN only if both are."""
    return np.fmax(x, y)


def fmin(x, y):
    """The smaller; NaN only if both are."""
    return np.fmin(x, y)


def clamp(x, low, high):
    """x held in [low, high]; high where low > high; NaN if any is."""
    return np.minimum(np.maximum(x, low), high)


def where(condition, x, y):
    """x if condition else y, without a branch."""
    return x if condition else y


def fmod(x, y):
    """The remainder with the sign of x; NaN (integers: 0) for y = 0."""
    with np.errstate(all="ignore"):
        return np.fmod(x, y)


def remainder(x, y):
    """The remainder with the sign of y, as Python's %; NaN (integers: 0) for y = 0."""
    with np.errstate(all="ignore"):
        r = np.fmod(x, y)
        return type(r)(r + y) if r != 0 and (r < 0) != (y < 0) else r


def true_divide(x, y):
    """x / y."""
    with np.errstate(all="ignore"):
        return np.divide(x, y)


def trunc_divide(x, y):
    """x / y rounded towards zero; 0 for integers and y = 0."""
    with np.errstate(all="ignore"):
        if isinstance(x, (float, np.floating)):
            return np.trunc(np.divide(x, y))
        q = np.floor_divide(x, y)
        return type(q)(q + 1) if q < 0 and q * y != x else q


def floor_divide(x, y):
    """x / y rounded down, as Python's //; 0 for integers and y = 0."""
    with np.errstate(all="ignore"):
        if not isinstance(x, (float, np.floating)):
            return np.floor_divide(x, y)
        if y == 0:
            return np.divide(x, y)
        r = np.fmod(x, y)
        q = (x - r) / y
        if r != 0 and (r < 0) != (y < 0):
            q -= 1
        if q == 0:
            return np.copysign(type(q)(0), x / y)
        return np.floor(q) + (1 if q - np.floor(q) > 0.5 else 0)


def is_short(x, y):
    """Whether the functions below, named ``short_``, are exact: x / y has few enough digits."""
    with np.errstate(all="ignore"):
        return np.abs(np.divide(x, y)) < 2.0 ** (np.finfo(np.asarray(x).dtype).nmant + 1)


def short_fmod(x, y):
    """:func:`fmod` where :func:`is_short`, without branches."""
    return fmod(x, y)


def short_remainder(x, y):
    """:func:`remainder` where :func:`is_short`, without branches."""
    return remainder(x, y)


def short_floor_divide(x, y):
    """:func:`floor_divide` where :func:`is_short`, without branches."""
    return floor_divide(x, y)


def hypot(x, y):
    """sqrt(x^2 + y^2) without overflow; infinity wins over NaN."""
    return np.hypot(x, y)


def nextafter(x, y):
    """The next float from x towards y."""
    return np.nextafter(x, y)


def nextafter_float16(x, y):
    """The next float16 from x towards y, both of them in float32."""
    return np.float32(np.nextafter(np.float16(x), np.float16(y)))


def nextafter_bfloat16(x, y):
    """The next bfloat16 from x towards y, both of them in float32."""
    x, y = np.float32(x), np.float32(y)
    if not (x < y or x > y):
        return y if x == y else x + y
    bits = int(np.abs(x).view(np.uint32)) >> 16
    if bits == 0:
        return np.copysign(np.float32(2.0**-133), y)
    bits += 1 if (y > x) == (x > 0) else -1
    return np.copysign(np.uint32(bits << 16).view(np.float32), x)


def _neighbour(digits, tiniest, highest):
    """nextafter among the float32 that a narrower format has, of so many binary digits."""
    step, tiniest, highest = (
        np.float32(2.0 ** (1 - digits)),
        np.float32(tiniest),
        np.float32(highest),
    )
    zero, half, infinity = np.float32(0), np.float32(0.5), np.float32(np.inf)

    def nextafter_(x, y):
        a = magnitude(x)
        binade = from_bits(to_bits(a) & np.int32(0x7F800000), x)
        inwards = (x > zero) == (y < x)
        apart = binade * step
        apart = select(inwards & (a == binade), apart * half, apart)
        apart = select(apart < tiniest, tiniest, apart)
        moved = with_sign(select(inwards, a - apart, a + apart), x)
        moved = select(a == infinity, with_sign(highest, x), moved)
        moved = select(x == zero, with_sign(tiniest, y), moved)
        return select(x == y, y, select((x != x) | (y != y), x + y, moved))

    return nextafter_


def _family(real, digits):
    zero, half, one = real(0), real(0.5), real(1)
    infinity = real(np.inf)
    exact_quotients = real(2.0 ** (digits + 1))
    tiniest = real(np.finfo(real).smallest_subnormal)
    span = np.finfo(real).maxexp
    high, low = real(2.0 ** (span // 2 - 4)), real(2.0 ** (-span // 2 + digits + 2))
    up, down = real(2.0 ** (span - digits - 30)), real(2.0 ** (-span + digits + 30))

    def sqrt_(x):
        return square_root(x)

    def rsqrt_(x):
        return one / square_root(x)

    def abs_(x):
        return magnitude(x)

    def sgn_(x):
        return select(x > zero, one, select(x < zero, -one, zero))

    def floor_(x):
        return round_down(x)

    def ceil_(x):
        return round_up(x)

    def trunc_(x):
        return round_to_zero(x)

    def round_(x):
        return round_to_even(x)

    def frac_(x):
        return x - round_to_zero(x)

    def copysign_(x, y):
        return with_sign(x, y)

    def signbit_(x):
        return to_bits(x) < 0

    def isnan_(x):
        return x != x

    def isinf_(x):
        return magnitude(x) == infinity

    def isfinite_(x):
        return magnitude(x) < infinity

    def maximum_(x, y):
        return select((x > y) | (x != x), x, y)

    def minimum_(x, y):
        return select((x < y) | (x != x), x, y)

    def fmax_(x, y):
        return select((x > y) | (y != y), x, y)

    def fmin_(x, y):
        return select((x < y) | (y != y), x, y)

    def clamp_(x, low, high):
        y = select((x > low) | (x != x), x, low)
        return select((y < high) | (y != y), y, high)

    @jitable
    def small_division(a, b, q):
        """a - q b and q, for a, b >= 0 and q = trunc(a / b), which rounding may leave one off."""
        r = fma(-q, b, a)
        low, high = r < zero, r >= b
        r = select(low, r + b, select(high, r - b, r))
        # An infinite b has no place in the sum above.
        return select(a < b, a, r), select(low, q - one, select(high, q + one, q))

    def is_short_(x, y):
        return magnitude(x / y) < exact_quotients

    @jitable
    def short_fmod_(x, y):
        a, b = magnitude(x), magnitude(y)
        r, _ = small_division(a, b, round_to_zero(a / b))
        return with_sign(r, x)

    @jitable
    def modulo(x, y):
        """x - trunc(x / y) y, exact."""
        a, b = magnitude(x), magnitude(y)
        if round_to_zero(a / b) < exact_quotients:
            return short_fmod_(x, y)
        return with_sign(library_fmod(a, b), x)

    @jitable
    def wrong_side(r, y):
        return (r != zero) & ((r < zero) != (y < zero))

    def fmod_(x, y):
        return modulo(x, y)

    def remainder_(x, y):
        r = modulo(x, y)
        return select(wrong_side(r, y), r + y, r)

    def short_remainder_(x, y):
        r = short_fmod_(x, y)
        return select(wrong_side(r, y), r + y, r)

    def true_divide_(x, y):
        return x / y

    def trunc_divide_(x, y):
        return round_to_zero(x / y)

    @jitable
    def short_floor_divide_(x, y):
        quotient = x / y
        r, q = small_division(magnitude(x), magnitude(y), round_to_zero(magnitude(quotient)))
        down = (with_sign(one, quotient) < zero) & (r != zero)
        return with_sign(select(down, q + one, q), quotient)

    def floor_divide_(x, y):
        a, b = magnitude(x), magnitude(y)
        quotient = x / y
        if round_to_zero(magnitude(quotient)) < exact_quotients:
            return short_floor_divide_(x, y)
        r = with_sign(library_fmod(a, b), x)
        q = (x - r) / y
        q = select(wrong_side(r, y), q - one, q)
        whole = round_down(q)
        whole = select(q - whole > half, whole + one, whole)
        return select(y == zero, quotient, whole)

    def hypot_(x, y):
        a, b = magnitude(x), magnitude(y)
        larger = select(a > b, a, b)
        # Powers of two keep the squares in range.
        into = select(larger > high, down, select(larger < low, up, one))
        back = select(larger > high, up, select(larger < low, down, one))
        s, t = a * into, b * into
        r = square_root(s * s + t * t) * back
        return select((a == infinity) | (b == infinity), infinity, r)

    def nextafter_(x, y):
        i = to_bits(x)
        away = (x < y) == (x > zero)
        step = from_bits(select(away, i + 1, i - 1), x)
        step = select(x == zero, with_sign(tiniest, y), step)
        return select(x == y, y, select((x != x) | (y != y), x + y, step))

    return {
        "sqrt": sqrt_,
        "rsqrt": rsqrt_,
        "abs": abs_,
        "sgn": sgn_,
        "floor": floor_,
        "ceil": ceil_,
        "trunc": trunc_,
        "round": round_,
        "frac": frac_,
        "copysign": copysign_,
        "signbit": signbit_,
        "isnan": isnan_,
        "isinf": isinf_,
        "isfinite": isfinite_,
        "maximum": maximum_,
        "minimum": minimum_,
        "fmax": fmax_,
        "fmin": fmin_,
        "clamp": clamp_,
        "fmod": fmod_,
        "remainder": remainder_,
        "is_short": is_short_,
        "short_fmod": short_fmod_,
        "short_remainder": short_remainder_,
        "short_floor_divide": short_floor_divide_,
        "true_divide": true_divide_,
        "trunc_divide": trunc_divide_,
        "floor_divide": floor_divide_,
        "hypot": hypot_,
        "nextafter": nextafter_,
    }


_FLOAT32, _FLOAT64 = _family(np.float32, 23), _family(np.float64, 52)
for _name in _FLOAT32:
    implement(
        globals()[_name],
        float32=_FLOAT32[_name],
        float64=_FLOAT64[_name],
        integer=integer.INTEGER.get(_name),
        boolean=integer.BOOLEAN.get(_name),
    )


implement(nextafter_float16, float32=_neighbour(11, 2.0**-24, 65504.0))
implement(nextafter_bfloat16, float32=_neighbour(8, 2.0**-133, (2 - 2**-7) * 2.0**127))


@overload(where, jit_options=OPTIONS)
def _where(condition, x, y):
    def choose(condition, x, y):
        return select(condition, x, y)

    return choose
