"""The incomplete gamma functions, in float64 for float32 too; no vector code.

Below and above the transition at x = a: the power series of P and the continued fraction of Q (DLMF
8.11.4, 8.9.2); from a = 200 on, where both become slow, the tail is integrated by Gauss's rule.
"""

import math

import numpy as np

from .bits import implement
from .gamma import NEAR_TABLE
from .series import jitable, narrowed

LARGE = 200.0  # orders from which on the tail is integrated
DROP = 40.0  # integrated until the integrand is smaller by exp(-DROP)
EPS = 2.2e-16
NODES, WEIGHTS = (tuple(float(v) for v in x) for x in np.polynomial.legendre.leggauss(32))
SQRT_2_PI = 2.5066282746310002


@jitable
def _log1p_without_x(x):
    """log(1 + x) - x."""
    if abs(x) > 0.1:
        return math.log1p(x) - x
    power, total = x, 0.0
    for k in range(2, 18):
        power *= -x
        total += power / k
    return total


@jitable
def _density(a, x):
    """x^a exp(-x) / gamma(a + 1)."""
    if a < 10.0:
        if x < 500.0:
            return math.pow(x, a) * math.exp(-x) / math.gamma(a + 1.0)
        return math.exp(a * math.log(x) - x) / math.gamma(a + 1.0)
    stirling = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / (1188.0 * a * a))
                / (a * a)) / (a * a)) / (a * a)) / a  # fmt: skip
    away = (x - a) / a
    exponent = _log1p_without_x(away) if abs(away) < 0.1 else math.log(x / a) - away
    return math.exp(a * exponent - stirling) / (SQRT_2_PI * math.sqrt(a))


@jitable
def _lower_series(a, x):
    """P by its power series."""
    term = total = 1.0
    k = a
    while term > EPS * total:
        k += 1.0
        term *= x / k
        total += term
    return _density(a, x) * total


@jitable
def _upper_fraction(a, x):
    """Q by its continued fraction, evaluated forwards (Lentz)."""
    b = x + 1.0 - a
    c, d = 1e300, 1.0 / b
    h, change, k = d, 2.0, 0.0
    while abs(change - 1.0) > EPS:
        k += 1.0
        step = k * (a - k)
        b += 2.0
        d = 1.0 / (step * d + b)
        c = b + step / c
        change = c * d
        h *= change
    return _density(a, x) * a * h


@jitable
def _upper_series(a, x):
    """Q for small a and x, where P is nearly 1."""
    inner = 0.0  # log(gamma(1 + a)) over a (a - 1)
    for c in NEAR_TABLE:
        inner = inner * (a - 0.5) + c
    logarithm = a * math.log(x) - a * (a - 1.0) * inner
    term, total = 1.0, 0.0
    for k in range(1, 24):
        term *= -x / k
        total += term / (a + k)
    return -math.expm1(logarithm) - a * math.exp(logarithm) * total


@jitable
def _tail(a, x, sign):
    """The integral of the density from x upwards (sign 1) or downwards (-1), for large a."""
    density = _density(a, x)
    if density == 0.0:
        return 0.0
    slope = sign * (x - (a - 1.0)) / x
    # The way to go: where the logarithm has dropped, by Newton's method from its parabola there.
    curvature = (a - 1.0) / x / x
    way = 2.0 * DROP / (slope + math.sqrt(slope * slope + 2.0 * DROP * curvature))
    if sign < 0.0:
        way = min(way, 0.9 * x)
    for _ in range(4):
        v = sign * way / x
        drop = way * slope - (a - 1.0) * _log1p_without_x(v)
        way -= (drop - DROP) / (slope + sign * (a - 1.0) / x * v / (1.0 + v))
        if sign < 0.0:
            way = min(way, 0.9999 * x)
    total = 0.0
    for i in range(len(NODES)):
        s = 0.5 * way * (1.0 + NODES[i])
        total += WEIGHTS[i] * math.exp((a - 1.0) * _log1p_without_x(sign * s / x) - s * slope)
    return density * a / x * 0.5 * way * total


@jitable
def _incomplete(a, x, upper):
    """P, or Q if upper; limits as PyTorch has them."""
    if x < 0.0 or a < 0.0:
        return np.nan
    if a == 0.0 and not x > 0.0:
        return np.nan
    if a == 0.0 or x == np.inf:
        return np.nan if a == np.inf else (0.0 if upper else 1.0)
    if x == 0.0 or a == np.inf:
        return 1.0 if upper else 0.0
    if a != a or x != x:
        return np.nan
    if a >= LARGE:
        above = x > a - 1.0
        part = _tail(a, x, 1.0 if above else -1.0)
        return part if above == upper else 1.0 - part
    if x > 1.1 and x > a:
        q = _upper_fraction(a, x)
        return q if upper else 1.0 - q
    p = _lower_series(a, x)
    if not upper:
        return p
    return _upper_series(a, x) if p > 0.9 and a < 1.0 else 1.0 - p


def igamma(a, x):
    """The regularised lower incomplete gamma function P(a, x)."""
    return np.asarray(a).dtype.type(_igamma_64(float(a), float(x)))


def igammac(a, x):
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return np.asarray(a).dtype.type(_igammac_64(float(a), float(x)))


def _igamma_64(a, x):
    return _incomplete(a, x, False)


def _igammac_64(a, x):
    return _incomplete(a, x, True)


implement(igamma, float32=narrowed(igamma), float64=_igamma_64)
implement(igammac, float32=narrowed(igammac), float64=_igammac_64)
