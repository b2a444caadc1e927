"""lgamma and digamma: rare, scalar, computed in float64."""

import math

import numpy as np

from .bits import horner, implement, round_to_even, round_to_zero, with_sign


def lgamma(x):
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    kind = np.asarray(x).dtype.type
    try:
        return kind(math.lgamma(x))
    except ValueError:
        return kind(np.inf)


def digamma(x):
    """The derivative of lgamma; at 0 infinite with the opposite sign, NaN at the negative integers.

    The negative axis is reflected, (0, 10) is shifted into [1, 2] by psi(x + 1) = psi(x) + 1/x, where a polynomial
    times (x - root) keeps the relative accuracy at the root; from 10 on the asymptotic series is used.
    """
    kind = np.asarray(x).dtype.type
    x = float(x)
    if x == 0:
        return kind(math.copysign(math.inf, -x))
    if math.isinf(x) or math.isnan(x):
        return kind(x if x > 0 else math.nan)
    y = 0.0
    if x < 0:
        r = x - round(x)
        if r == 0:
            return kind(math.nan)
        y -= math.pi / math.tan(math.pi * r)
        x = 1 - x
    while x < 1:
        y -= 1 / x
        x += 1
    while 2 < x < 10:
        x -= 1
        y += 1 / x
    if x <= 2:
        return kind(y + ((x - ROOT) - ROOT_LOW) * _polynomial(x - 1.5, ROOT_TABLE))
    return kind(y + math.log(x) - 0.5 / x - _polynomial(1 / (x * x), SERIES) / (x * x))


def _polynomial(x, table):
    total = 0.0
    for c in table:
        total = total * x + c
    return total


ROOT, ROOT_LOW = np.float64(1.4616321449683622), np.float64(9.549995429965697e-17)
# psi(x) / (x - root) in powers of x - 3/2 on [1, 2] (minimax); B_2k / 2k for k = 8 to 1. Highest power first.
ROOT_TABLE = tuple(
    np.float64(c)
    for c in (
        0.00012080364506009245,
        -0.00017829903201708374,
        9.328780042303576e-05,
        -0.00014466850064947886,
        0.00032597361786081163,
        -0.0004860346284030039,
        0.0006902806542517039,
        -0.0010364320231824149,
        0.0015634916125978108,
        -0.002345499803608942,
        0.0035180911197521024,
        -0.005279936618061392,
        0.007927023331504263,
        -0.01190822015307055,
        0.01790724819221866,
        -0.026975796659013555,
        0.0407608339477422,
        -0.06192213327536277,
        0.09498872445269492,
        -0.14840492305388725,
        0.2405424842407892,
        -0.42362742128146047,
        0.9510558760318328,
    )
)
SERIES = tuple(
    np.float64(c)
    for c in (
        -3617 / 8160,
        1 / 12,
        -691 / 32760,
        1 / 132,
        -1 / 240,
        1 / 252,
        -1 / 120,
        1 / 12,
    )
)


def _lgamma(x):
    return math.lgamma(x)


def _digamma_64(x):
    if x == 0:
        return with_sign(np.inf, -x)
    if x == -np.inf or x != x:
        return np.nan
    y = 0.0
    if x < 0:
        if round_to_zero(x) == x:
            return np.nan
        y -= math.pi / math.tan(math.pi * (x - round_to_even(x)))
        x = 1 - x
    if x < 1:
        y -= 1 / x
        x += 1
    while 2 < x < 10:
        x -= 1
        y += 1 / x
    if x <= 2:
        return y + ((x - ROOT) - ROOT_LOW) * horner(x - 1.5, ROOT_TABLE)
    z = 1 / (x * x)
    return y + (math.log(x) - 0.5 / x - z * horner(z, SERIES))


def _digamma_32(x):
    return np.float32(digamma(np.float64(x)))


implement(lgamma, float32=_lgamma, float64=_lgamma)
implement(digamma, float32=_digamma_32, float64=_digamma_64)
