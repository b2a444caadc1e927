"""Rarer special functions by series and recurrences, in float64 for float32 too; not vector code.

Bessel functions and erfcx are sums of Chebyshev polynomials whose coefficients were computed with
40 digits from their definitions; zeta is Euler and Maclaurin's sum (DLMF 25.11.5).
"""

import math

import numpy as np
from numba.extending import register_jitable

from .bits import OPTIONS, implement, to_bits

jitable = register_jitable(**{**OPTIONS, "forceinline": False})

# exp(-x) I0(x), and exp(-x) I1(x) / x, on [0, 8]; sqrt(x) exp(-x) of both from 8 on, in 8 / x.
I0_LOW = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13,
    7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
I0_HIGH = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15,
    1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
)  # fmt: skip
I1_LOW = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05,
    3.4702513081376785e-06, -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08,
    9.381537386495773e-09, -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14,
    7.600684294735408e-15, -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    2.7779141127610464e-18, -3.541581772542136e-19,
)  # fmt: skip
I1_HIGH = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15,
    3.3082023109209285e-16, 2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17,
    4.414348323071708e-18, 7.517296310842105e-18,
)  # fmt: skip
# (1 + x) erfcx(x) for x >= 0, in 4 / (4 + x).
ERFCX = (
    0.7377924971155532, 0.21817361893805362, 0.049503721225762784, 0.0025726982280633707,
    -0.004193339501765898, -0.0025732881485069263, -0.0009545378786467943, -0.00026047574753294394,
    -5.3142109585007945e-05, -7.433019050177042e-06, -4.310600135961552e-07, 8.666784461850291e-08,
    2.444129931617036e-08, 1.3958179331627473e-09, -4.6292579264676443e-10, -9.158432127526939e-11,
    4.099661454135434e-12, 3.107092638312008e-12, 1.0859225472109777e-13, -9.315628668137369e-14,
    -8.659869830664084e-15, 2.8218395496347422e-15, 4.038719989002884e-16, -9.254027468667993e-17,
    -1.663872484298646e-17,
)  # fmt: skip
# B_2k / (2k)! for k = 1 to 12.
MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
    -174611 / 802857662698291200000, 77683 / 14101100039391805440000,
    -236364091 / 1693824136731743669452800000,
)  # fmt: skip
SQRT_HALF, SQRT_2_OVER_PI = 0.7071067811865476, 0.7978845608028654


def _named(function, name):
    """A closure under a name of its own.

    Object code of several processes meets in one, and Numba tells functions apart by their names,
    argument types and a count that starts anew in each process.
    """
    function.__name__ = function.__qualname__ = name
    return function


@jitable
def chebyshev_sum(x, table):
    """Clenshaw's recurrence for a series in x on [-1, 1]."""
    above = total = 0.0
    for k in range(len(table) - 1, 0, -1):
        above, total = total, 2 * x * total - above + table[k]
    return x * total - above + table[0]


def zeta(s, q):
    """The Hurwitz zeta function: the sum of (q + k) ** -s over k >= 0."""
    return np.asarray(s).dtype.type(_zeta(float(s), float(q)))


@jitable
def _zeta(s, q):
    if s == 1.0:
        return np.inf
    if not s > 1.0 or q == -np.inf:
        return np.nan
    if q == np.inf:
        return 0.0
    if q <= 0.0:
        if q == math.floor(q):
            return np.inf
        if s != math.floor(s):
            return np.nan
    total, a = 0.0, q
    for _ in range(12):
        total += math.pow(a, -s)
        a += 1.0
    while a < 12.0:
        total += math.pow(a, -s)
        a += 1.0
    b = math.pow(a, -s)
    total += b * a / (s - 1.0) + 0.5 * b
    factor, power = s, b / a
    for k in range(len(MACLAURIN)):
        total += MACLAURIN[k] * factor * power
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2)
        power /= a * a
    return total


def _zeta_64(s, q):
    return _zeta(s, q)


def polygamma(x, n):
    """The n-th derivative of digamma at x."""
    kind = np.asarray(x).dtype.type
    return kind((-1.0) ** (int(n) + 1) * math.gamma(n + 1.0) * _zeta(n + 1.0, float(x)))


def _polygamma_64(x, n):
    sign = 1.0 if n % 2.0 == 1.0 else -1.0
    return sign * math.gamma(n + 1.0) * _zeta(n + 1.0, x)


@jitable
def bessel_i(x, low, high, odd):
    """exp(-x) I(x) for x >= 0."""
    if x <= 8.0:
        y = chebyshev_sum(x / 4.0 - 1.0, low)
        return x * y if odd else y
    return chebyshev_sum(16.0 / x - 1.0, high) / math.sqrt(x)


def i0(x):
    """The modified Bessel function of the first kind, of order 0."""
    return np.asarray(x).dtype.type(_i0_64(float(x)))


def i0e(x):
    """exp(-|x|) i0(x)."""
    return np.asarray(x).dtype.type(_i0e_64(float(x)))


def i1(x):
    """The modified Bessel function of the first kind, of order 1."""
    return np.asarray(x).dtype.type(_i1_64(float(x)))


def i1e(x):
    """exp(-|x|) i1(x)."""
    return np.asarray(x).dtype.type(_i1e_64(float(x)))


def _i0_64(x):
    return math.exp(abs(x)) * bessel_i(abs(x), I0_LOW, I0_HIGH, False)


def _i0e_64(x):
    return bessel_i(abs(x), I0_LOW, I0_HIGH, False)


def _i1_64(x):
    return math.copysign(math.exp(abs(x)) * bessel_i(abs(x), I1_LOW, I1_HIGH, True), x)


def _i1e_64(x):
    return math.copysign(bessel_i(abs(x), I1_LOW, I1_HIGH, True), x)


@jitable
def _erfcx(x):
    a = abs(x)
    y = chebyshev_sum(8.0 / (4.0 + a) - 1.0, ERFCX) / (1.0 + a)
    if x >= 0.0 or x != x:
        return y
    return np.inf if a > 27.0 else 2.0 * math.exp(x * x) - y


def erfcx(x):
    """exp(x ** 2) erfc(x)."""
    return np.asarray(x).dtype.type(_erfcx(float(x)))


def _erfcx_64(x):
    return _erfcx(x)


@jitable
def _ndtri(p):
    """Newton's method on log(ndtr(x)) = log(p), from the start of Abramowitz & Stegun 26.2.23."""
    if not 0.0 <= p <= 1.0:
        return np.nan
    q = min(p, 1.0 - p)
    if q == 0.0:
        return -np.inf if p == 0.0 else np.inf
    t = math.sqrt(-2.0 * math.log(q))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    x = top / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(4):
        y = _erfcx(-x * SQRT_HALF)
        x -= (math.log(0.5 * y / q) - 0.5 * x * x) * y / SQRT_2_OVER_PI
    return x if p < 0.5 else -x


def ndtri(p):
    """The inverse of the normal distribution's function."""
    return np.asarray(p).dtype.type(_ndtri(float(p)))


def _ndtri_64(p):
    return _ndtri(p)


def frexp_exponent(x):
    """The exponent e with |x| / 2 ** e in [0.5, 1); 0 for 0, infinities and NaN."""
    return np.asarray(x).dtype.type(np.frexp(x)[1])


def _frexp_64(x):
    if x == 0.0 or x - x != 0.0:
        return 0.0
    small = abs(x) < 2.2250738585072014e-308
    field = (to_bits(x * 1.8014398509481984e16 if small else x) >> 52) & 0x7FF
    return float(field - 1022 - (54 if small else 0))


# Orthogonal polynomials ---------------------------------------------------------------------------
def _recurrence(name, doc, first, step):
    """A family by its recurrence; all are 1 at degree 0, and 0 at negative ones.

    Args:
        first: the polynomial of degree 1, of x; a function of its own.
        step: the next one from degree k + 1, x, and those of degrees k and k - 1.
    """
    first = jitable(_named(first, f"{name}_first"))
    step = jitable(_named(step, f"{name}_step"))

    def polynomial(x, n):
        degree = int(n)
        if degree < 0:
            return 0.0
        before, now = 1.0, first(x)
        if degree == 0 or x != x:
            return before if degree == 0 else x
        for k in range(2, degree + 1):
            before, now = now, step(k, x, now, before)
        return now

    def stub(x, n):
        return np.asarray(x).dtype.type(polynomial(float(x), float(n)))

    stub = _named(stub, name)
    stub.__doc__ = doc
    inner = jitable(_named(polynomial, f"{name}_wide"))

    def narrow(x, n):
        return np.float32(inner(np.float64(x), np.float64(n)))

    def wide(x, n):
        return inner(x, n)

    implement(
        stub,
        float32=_named(narrow, f"{name}_float32"),
        float64=_named(wide, f"{name}_float64"),
    )
    return stub


def _doubled(k, x, now, before):
    return 2.0 * x * now - before


chebyshev_polynomial_t = _recurrence(
    "chebyshev_polynomial_t", "Chebyshev, first kind.", lambda x: x, _doubled
)
chebyshev_polynomial_u = _recurrence(
    "chebyshev_polynomial_u", "Chebyshev, second kind.", lambda x: 2.0 * x, _doubled
)
chebyshev_polynomial_v = _recurrence(
    "chebyshev_polynomial_v", "Chebyshev, third kind.", lambda x: 2.0 * x - 1.0, _doubled
)
chebyshev_polynomial_w = _recurrence(
    "chebyshev_polynomial_w", "Chebyshev, fourth kind.", lambda x: 2.0 * x + 1.0, _doubled
)
hermite_polynomial_h = _recurrence(
    "hermite_polynomial_h", "Hermite, of the physicists.", lambda x: 2.0 * x,
    lambda k, x, now, before: 2.0 * (x * now - (k - 1) * before),
)  # fmt: skip
hermite_polynomial_he = _recurrence(
    "hermite_polynomial_he", "Hermite, of the probabilists.", lambda x: x,
    lambda k, x, now, before: x * now - (k - 1) * before,
)  # fmt: skip
laguerre_polynomial_l = _recurrence(
    "laguerre_polynomial_l", "Laguerre.", lambda x: 1.0 - x,
    lambda k, x, now, before: ((2 * k - 1 - x) * now - (k - 1) * before) / k,
)  # fmt: skip
legendre_polynomial_p = _recurrence(
    "legendre_polynomial_p", "Legendre.", lambda x: x,
    lambda k, x, now, before: ((2 * k - 1) * x * now - (k - 1) * before) / k,
)  # fmt: skip


def narrowed(stub):
    """The float32 variant: through the float64 one."""

    def one(x):
        return np.float32(stub(np.float64(x)))

    def two(x, y):
        return np.float32(stub(np.float64(x), np.float64(y)))

    return _named(two if stub.__code__.co_argcount == 2 else one, f"{stub.__name__}_float32")


for _stub, _wide in (
    (zeta, _zeta_64),
    (polygamma, _polygamma_64),
    (i0, _i0_64),
    (i0e, _i0e_64),
    (i1, _i1_64),
    (i1e, _i1e_64),
    (erfcx, _erfcx_64),
    (ndtri, _ndtri_64),
    (frexp_exponent, _frexp_64),
):
    implement(_stub, float32=narrowed(_stub), float64=_wide)
