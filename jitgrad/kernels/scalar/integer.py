"""Integers and booleans: what must wrap like torch and never trap.

Numba widens every integer operation to 64 bits; each function here narrows its result back to the
argument's type. Division by zero gives 0: the kernel that divides reports it.
"""

import numpy as np
from numba import types
from numba.extending import intrinsic, register_jitable

from .bits import OPTIONS, as_type, implement, select

jitable = register_jitable(**OPTIONS)


def _division(signed, unsigned):
    """An intrinsic for LLVM's division or remainder, made safe for 0 and for the most negative over
    -1.
    """

    def typing(typingctx, x, y):
        if x != y or not isinstance(x, types.Integer):
            return None

        def codegen(context, builder, signature, args):
            a, b = args
            kind = a.type
            zero, one = kind(0), kind(1)
            if not x.signed:
                by_zero = builder.icmp_unsigned("==", b, zero)
                value = getattr(builder, unsigned)(a, builder.select(by_zero, one, b))
                return builder.select(by_zero, zero, value)
            # x / -1 is -x, which wraps; x % -1 is 0. Dividing by 1 instead gives what is needed
            # with one negation.
            by_zero = builder.icmp_unsigned("==", b, zero)
            by_minus_one = builder.icmp_unsigned("==", b, kind(-1))
            safe = builder.select(builder.or_(by_zero, by_minus_one), one, b)
            value = getattr(builder, signed)(a, safe)
            if signed == "sdiv":
                value = builder.select(by_minus_one, builder.neg(a), value)
            return builder.select(by_zero, zero, value)

        return x(x, y), codegen

    return intrinsic(typing)


quotient = _division("sdiv", "udiv")
rest = _division("srem", "urem")


def trunc_divide_(x, y):
    return quotient(x, y)


def fmod_(x, y):
    return rest(x, y)


def remainder_(x, y):
    r = rest(x, y)
    zero = as_type(0, x)
    return select((r != zero) & ((r < zero) != (y < zero)), as_type(r + y, x), r)


def floor_divide_(x, y):
    q, r = quotient(x, y), rest(x, y)
    zero = as_type(0, x)
    return select((r != zero) & ((r < zero) != (y < zero)), as_type(q - 1, x), q)


def abs_(x):
    return select(x < as_type(0, x), as_type(-x, x), x)


def sgn_(x):
    zero = as_type(0, x)
    return select(x > zero, as_type(1, x), select(x < zero, as_type(-1, x), zero))


def same_(x):
    return x


def maximum_(x, y):
    return select(x > y, x, y)


def minimum_(x, y):
    return select(x < y, x, y)


def clamp_(x, low, high):
    y = select(x > low, x, low)
    return select(y < high, y, high)


def power_(x, y):
    # By squaring. A negative exponent is only meant for the bases 1 and -1, whose powers know just
    # the parity.
    one, zero = as_type(1, x), as_type(0, x)
    if y < zero:
        return select(x == one, one, select(x == as_type(-1, x), as_type(1 - 2 * (y & 1), x), zero))
    result, base, left = one, x, y
    while left > zero:
        result = select((left & 1) != 0, as_type(result * base, x), result)
        base = as_type(base * base, x)
        left = as_type(left >> 1, x)
    return result


def gcd(x, y):
    """Greatest common divisor, >= 0 save where a magnitude wraps; gcd(0, 0) = 0."""
    return np.gcd(x, y)


def lcm(x, y):
    """Least common multiple; 0 if either is 0."""
    return np.lcm(x, y)


@jitable
def _gcd(x, y):
    a, b = abs_wrapped(x), abs_wrapped(y)
    zero = as_type(0, x)
    while a != zero:
        a, b = rest(b, a), a
    return b


@jitable
def abs_wrapped(x):
    return select(x < as_type(0, x), as_type(-x, x), x)


def gcd_(x, y):
    return _gcd(x, y)


def lcm_(x, y):
    return abs_wrapped(as_type(quotient(x, _gcd(x, y)) * y, x))


def shift_left(x, n):
    """x << n; 0 for n < 0 or n >= the width."""
    width = 8 * np.asarray(x).dtype.itemsize
    with np.errstate(all="ignore"):
        return type(x)(x << n) if 0 <= n < width else type(x)(0)


def shift_right(x, n):
    """x >> n; 0 or -1, as the sign of x, for n < 0 or n >= the width."""
    width = 8 * np.asarray(x).dtype.itemsize
    return type(x)(x >> n) if 0 <= n < width else type(x)(-1 if x < 0 else 0)


def _shift(direction):
    def typing(typingctx, x, n):
        if x != n or not isinstance(x, types.Integer):
            return None

        def codegen(context, builder, signature, args):
            a, count = args
            kind = a.type
            inside = builder.icmp_unsigned("<", count, kind(kind.width))
            if direction == "left":
                safe = builder.select(inside, count, kind(0))
                return builder.select(inside, builder.shl(a, safe), kind(0))
            if not x.signed:
                safe = builder.select(inside, count, kind(0))
                return builder.select(inside, builder.lshr(a, safe), kind(0))
            return builder.ashr(a, builder.select(inside, count, kind(kind.width - 1)))

        return x(x, n), codegen

    return intrinsic(typing)


_left, _right = _shift("left"), _shift("right")


def shift_left_(x, n):
    return _left(x, n)


def shift_right_(x, n):
    return _right(x, n)


implement(gcd, integer=gcd_)
implement(lcm, integer=lcm_)
implement(shift_left, integer=shift_left_)
implement(shift_right, integer=shift_right_)


def false_(x):
    return False


def true_(x):
    return True


def negative_(x):
    return x < as_type(0, x)


def or_(x, y):
    return x | y


def and_(x, y):
    return x & y


def clamp_bool_(x, low, high):
    return (x | low) & high


# What the names shared with floats do for integers and booleans.
INTEGER = {
    "abs": abs_,
    "sgn": sgn_,
    "floor": same_,
    "ceil": same_,
    "trunc": same_,
    "round": same_,
    "isnan": false_,
    "isinf": false_,
    "isfinite": true_,
    "signbit": negative_,
    "maximum": maximum_,
    "minimum": minimum_,
    "fmax": maximum_,
    "fmin": minimum_,
    "clamp": clamp_,
    "fmod": fmod_,
    "remainder": remainder_,
    "trunc_divide": trunc_divide_,
    "floor_divide": floor_divide_,
}
BOOLEAN = {
    "abs": same_,
    "sgn": same_,
    "isnan": false_,
    "isinf": false_,
    "isfinite": true_,
    "signbit": false_,
    "maximum": or_,
    "minimum": and_,
    "fmax": or_,
    "fmin": and_,
    "clamp": clamp_bool_,
}
