"""erf, erfc, erfinv.

erf: an odd minimax polynomial below 1; beyond it 1 - exp(-a Q(a)), Q fitted to -log(erfc(a)) / a
with the absolute error of erf as weight. erfc: exp(-x^2) g(t) / (1 + 2x), t = (x - K) / (x + K), in
which g is smooth up to where erfc underflows. erfinv: a polynomial in -log(1 - x^2) or its root;
float64 adds one step of Halley's method on it.
"""

import math

import numpy as np
from numba.extending import register_jitable

from .bits import OPTIONS, fma, horner, implement, magnitude, select, square_root, with_sign
from .exponential import EXP_BELOW_0, exp
from .logarithm import log

jitable = register_jitable(**OPTIONS)


def erf(x):
    """The error function."""
    return np.asarray(x).dtype.type(math.erf(x))


def erfc(x):
    """1 - erf(x), accurate for large x."""
    return np.asarray(x).dtype.type(math.erfc(x))


def erfinv(x):
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    kind = np.asarray(x).dtype.type
    if not -1 < x < 1:
        return kind(math.copysign(math.inf, x) if x in (-1, 1) else math.nan)
    y, a = 0.0, math.fabs(x)
    for _ in range(100):  # Newton's steps from 0 all go up
        error = math.erf(y) - a if a < 0.5 else (1 - a) - math.erfc(y)
        step = error * math.exp(y * y) * math.sqrt(math.pi) / 2
        y -= step
        if math.fabs(step) <= 1e-16 * y:
            break
    return kind(math.copysign(y, x))


# (erf(x) / x - 1) in powers of x^2, Q, g in powers of t, and erfinv(x) / x in powers of -log(1 -
# x^2) - 5/2 and of sqrt(-log(1 - x^2)) - 3 (float64: 4). Highest power first.
ERF_NEAR_32 = (
    7.920303e-05,
    -0.00080307503,
    0.0051907334,
    -0.026855126,
    0.11283618,
    -0.3761263,
    0.12837917,
)
ERF_FAR_32 = (
    1.413796e-05,
    -0.00035236555,
    0.0037647649,
    -0.024025667,
    0.10654922,
    0.63495827,
    1.1286972,
)
ERFC_32 = (
    2.786561e-05,
    -0.00036863235,
    -0.0012643281,
    0.0012742933,
    0.008649037,
    -0.008043232,
    -0.054208875,
    0.16405264,
    -0.16603085,
    -0.092763856,
    1.2769784,
)
ERFINV_NEAR_32 = (
    -8.932126e-09,
    2.378025e-08,
    4.6762096e-07,
    -3.4725895e-06,
    -4.9669457e-06,
    0.00021840596,
    -0.0012527419,
    -0.0041775345,
    0.24664028,
    1.5014094,
)
ERFINV_FAR_32 = (
    0.00011656089,
    -0.00030833963,
    -6.081653e-05,
    0.0014838042,
    -0.0035932516,
    0.0056875153,
    -0.0076387865,
    0.009445141,
    1.0016751,
    2.8329768,
)
ERF_NEAR_64 = (
    -7.800785009017257e-10,
    1.3722785022899944e-08,
    -1.6209134376177018e-07,
    1.644751238731414e-06,
    -1.4924744243620933e-05,
    0.00012055295299454147,
    -0.000854832598901194,
    0.005223977607408405,
    -0.026866170643274574,
    0.11283791670945274,
    -0.3761263890318355,
    0.12837916709551256,
)
ERF_FAR_64 = (
    3.4383191371059304e-15,
    8.952719969775048e-14,
    -8.44725619739593e-12,
    2.2261321435260388e-10,
    -3.3899754907272873e-09,
    3.529749796716625e-08,
    -2.707593297361741e-07,
    1.5902329150208081e-06,
    -7.275617661898911e-06,
    2.585316479011828e-05,
    -6.87693253419734e-05,
    0.00011897676509724026,
    -3.5469616422566144e-05,
    -0.000534630680496459,
    0.001656390809411194,
    -0.00018704121663450088,
    -0.019137664349883187,
    0.10277530146144846,
    0.636619276940476,
    1.1283792100030992,
)
ERFC_64 = (
    -6.3935202122612e-09,
    -1.6668630038109058e-08,
    7.699669303098107e-09,
    4.213703098618396e-08,
    2.18560845213254e-09,
    3.4230741431565766e-08,
    2.686793574409432e-08,
    -7.680903417402887e-07,
    3.4062571422326784e-07,
    5.683138758455682e-06,
    -1.1248401257405435e-05,
    -2.4391445236781797e-05,
    0.0001506309635938335,
    -0.000199258104936365,
    -0.0007577753693396383,
    0.005031970128376336,
    -0.016197733767787176,
    0.03716751552923345,
    -0.06633036583582629,
    0.09373283499850218,
    -0.10103906603531676,
    0.06809705425469494,
    0.0153796521026036,
    -0.13962111684056258,
    1.2329951186255526,
)
ERFINV_NEAR_64 = (
    2.8497626e-08,
    3.4403817e-07,
    -3.528065e-06,
    -4.4005187e-06,
    0.00021859672,
    -0.001253694,
    -0.0041776937,
    0.24664071,
    1.5014094,
)
ERFINV_FAR_64 = (
    1.8038235321963944e-05,
    -7.891385803995363e-05,
    8.906933991787737e-05,
    -2.7876510889402806e-05,
    0.00025924401882473913,
    -0.0009415269004385226,
    0.0012910671804047724,
    1.0095106140669798,
    3.8397816384291,
)


def _family(real, tables, top, erfc_top, k, root_centre, polish):
    zero, half, one, two = real(0), real(0.5), real(1), real(2)
    infinity, nan = real(np.inf), real(np.nan)
    near_table, far_table, erfc_table, near_inverse, far_inverse = (
        tuple(real(c) for c in table) for table in tables
    )
    top, erfc_top, k = real(top), real(erfc_top), real(k)
    five, centre, root_centre = real(5), real(2.5), real(root_centre)
    half_root_pi = real(np.sqrt(np.pi) / 2)
    exp_below_0 = EXP_BELOW_0[real]

    @jitable
    def near(a):
        return a + a * horner(a * a, near_table)

    @jitable
    def square_pair(a):
        square = a * a
        return square, fma(a, a, -square)

    @jitable
    def erfc_scaled(a):
        """exp(a^2) erfc(a) for 0 <= a <= erfc_top."""
        return horner((a - k) / (a + k), erfc_table) / (one + two * a)

    def erf_(x):
        a = magnitude(x)
        b = select(a > top, top, a)
        far = one - exp_below_0(-b * horner(b, far_table))
        return with_sign(select(a < one, near(a), far), x)

    def erfc_(x):
        a = magnitude(x)
        b = select(a > erfc_top, erfc_top, a)
        square, low = square_pair(b)
        e = exp(-square)
        y = (e - e * low) * erfc_scaled(b)
        y = select(x < zero, two - y, y)
        # Near 0 the subtraction is the more accurate one.
        return select(a < half, one - near(x), y)

    @jitable
    def erfinv_start(a):
        w = -log((one - a) * (one + a))
        r = square_root(w) - root_centre
        return a * select(w < five, horner(w - centre, near_inverse), horner(r, far_inverse))

    def erfinv_(x):
        a = magnitude(x)
        y = erfinv_start(a)
        if polish:
            square, low = square_pair(y)
            e = exp(square)
            e = e + e * low
            # (erf(y) - a) exp(y^2), by erfc where a is near 1.
            error = select(a < half, (near(y) - a) * e, (one - a) * e - erfc_scaled(y))
            u = error * half_root_pi
            y = y - u / (one + y * u)
        return with_sign(select(a < one, y, select(a == one, infinity, nan)), x)

    return erf_, erfc_, erfinv_


_FLOAT32 = _family(
    np.float32,
    (ERF_NEAR_32, ERF_FAR_32, ERFC_32, ERFINV_NEAR_32, ERFINV_FAR_32),
    top=3.95,
    erfc_top=10.1,
    k=2,
    root_centre=3,
    polish=False,
)
_FLOAT64 = _family(
    np.float64,
    (ERF_NEAR_64, ERF_FAR_64, ERFC_64, ERFINV_NEAR_64, ERFINV_FAR_64),
    top=5.95,
    erfc_top=27.3,
    k=4,
    root_centre=4,
    polish=True,
)
for _stub, _32, _64 in zip((erf, erfc, erfinv), _FLOAT32, _FLOAT64, strict=True):
    implement(_stub, float32=_32, float64=_64)
