"""lgamma and digamma, in float64 for float32 too: too rare for tables of their own. digamma is not
vector code.
"""

import math

import numpy as np

from .bits import (
    horner,
    implement,
    magnitude,
    round_down,
    round_to_even,
    round_to_zero,
    select,
    with_sign,
)
from .logarithm import log


def lgamma(x):
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    kind = np.asarray(x).dtype.type
    try:
        return kind(math.lgamma(x))
    except ValueError:
        return kind(np.inf)


def digamma(x):
    """The derivative of lgamma; at 0 infinite with the opposite sign, NaN at the negative integers.

    The negative axis is reflected, (0, 10) is shifted into [1, 2] by psi(x + 1) = psi(x) + 1/x,
    where a polynomial times (x - root) keeps the relative accuracy at the root; from 10 on the
    asymptotic series is used.
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
# psi(x) / (x - root) in powers of x - 3/2 on [1, 2] (minimax); B_2k / 2k for k = 8 to 1. Highest
# power first.
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


# lgamma(x) / ((x - 1) (x - 2)) in powers of x - 3/2 on [1, 2]; x (lgamma(x) - (x - 1/2) log x + x -
# log(2 pi) / 2) in powers of 1 / x^2 from 8 on; sin(pi x) / x in powers of x^2 up to 1/2. Highest
# power first.
NEAR_TABLE = tuple(
    np.float64(c)
    for c in (
        -7.977821964175651e-06,
        1.2090872595464548e-05,
        -8.070422087917566e-06,
        1.3200822711791805e-05,
        -2.7371274554809127e-05,
        4.3034176915056845e-05,
        -6.608399836924246e-05,
        0.00010535321797935813,
        -0.0001689290176837287,
        0.0002713130468718036,
        -0.0004379919562406013,
        0.0007115194095760597,
        -0.0011644146096713075,
        0.0019229162590681098,
        -0.0032120740784230533,
        0.005446457842907005,
        -0.009425622448181141,
        0.016797098631161824,
        -0.03130848750101641,
        0.06291140107456565,
        -0.14595989591430608,
        0.4831289505409809,
    )
)
FAR_TABLE = tuple(
    np.float64(c)
    for c in (
        0.0048860086542393075,
        -0.0018808597989395592,
        0.000841273688620813,
        -0.000595234601316637,
        0.0007936507796864714,
        -0.0027777777777506594,
        0.08333333333333331,
    )
)
SIN_PI_TABLE = tuple(
    np.float64(c)
    for c in (
        7.701166806983944e-07,
        -2.190318538412171e-05,
        0.0004662996036733447,
        -0.007370430478760867,
        0.08214588657481185,
        -0.599264529319357,
        2.550164039877319,
        -5.167712780049969,
        3.141592653589793,
    )
)

LOG_PI = np.float64(1.1447298858494002)
HALF_LOG_2_PI_E = np.float64(0.4189385332046727)  # (log(2 pi) - 1) / 2


def _lgamma_64(x):
    """Stirling's series from 8 on; below, steps down into [1, 2] and a polynomial there.

    Negative arguments are reflected: lgamma(x) = log(pi / |x sin(pi x)|) - lgamma(-x).
    """
    a = magnitude(x)
    far = a >= 8.0
    # a = 1 + u + steps with u in [0, 1); the differences to 1 and 2 are exact, also of 1 + a for a
    # < 1.
    low = a < 1.0
    steps = select(low, 0.0, round_down(a) - 1.0)
    u = select(low, a, a - 1.0 - steps)
    product = 1.0
    for i in range(1, 7):
        product *= select(steps >= i, a - i, 1.0)
    power = log(select(far, a, select(low, a, product)))
    stirling = (a - 0.5) * (power - 1.0) + (HALF_LOG_2_PI_E + horner(1.0 / (a * a), FAR_TABLE) / a)
    near = u * (u - 1.0) * horner(u - 0.5, NEAR_TABLE) + select(low, -power, power)
    y = select(far, stirling, near)
    turn = magnitude(a - round_to_even(a))
    # Where a^2 would underflow, the reflected value is that of a.
    reflected = select(a < 1e-30, y, LOG_PI - log(a * turn * horner(turn * turn, SIN_PI_TABLE)) - y)
    y = select(x < 0.0, select(turn == 0.0, np.inf, reflected), y)
    return select(a == np.inf, a, y)


def _lgamma_32(x):
    return np.float32(lgamma(np.float64(x)))


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


implement(lgamma, float32=_lgamma_32, float64=_lgamma_64)
implement(digamma, float32=_digamma_32, float64=_digamma_64)
