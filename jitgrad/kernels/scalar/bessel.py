"""Bessel functions of orders 0 and 1 and the Airy function, in float64 for float32 too; no vector
code.

Near 0 they are Chebyshev sums of what is smooth about them (the logarithm of the second kinds taken
out, the zeros of the first kinds divided out); far out, of modulus and phase (DLMF 9.7, 10.17,
10.40). The coefficients were computed with 40 digits from the definitions. Between their zeros the
oscillating functions are accurate in relation to their amplitude: near a zero beyond the first two
of J only the absolute error is small.
"""

import math

import numpy as np

from .bits import implement
from .series import I0_HIGH, I0_LOW, I1_HIGH, I1_LOW, bessel_i, chebyshev_sum, jitable, narrowed

# J0 / ((x^2 - a^2)(x^2 - b^2)) and J1 / (x (x^2 - a^2)(x^2 - b^2)), a and b being the first two
# zeros, and what Y0 and Y1 / x keep without their logarithm and pole: in x^2 / 32 - 1, to x = 8.
J0_LOW = (
    0.0019903555001601486, -0.002620939138497025, 0.0008687721472062577, -0.00017040584951557357,
    2.204908639454817e-05, -2.0248894980012834e-06, 1.3898025173428905e-07,
    -7.406701254344167e-09, 3.1559927583611334e-10, -1.1003860827939697e-11,
    3.1989232970233477e-13, -7.875041254709154e-15, 1.6632588015211278e-16,
    -3.0475993756698376e-18, 4.8912290055811176e-20,
)  # fmt: skip
J1_LOW = (
    0.00027895709887613106, -0.0003115684036643562, 8.553646588540538e-05,
    -1.4149356425623485e-05, 1.576470099225889e-06, -1.269075502369425e-07, 7.747614077073057e-09,
    -3.716577146675772e-10, 1.4395417669312554e-11, -4.60007822413452e-13, 1.2341465589619718e-14,
    -2.8205466239524856e-16, 5.558821065951572e-18, -9.546930865755219e-20,
    1.4418291781315051e-21,
)  # fmt: skip
Y0_LOW = (
    -0.03314611320328494, -0.2744743055297453, 0.17903431407718265, 0.26156734625504663,
    -0.17730201278114358, 0.04719668959576339, -0.007287962479552079, 0.0007531135932577742,
    -5.632079141056987e-05, 3.206532537654801e-06, -1.44072332740187e-07, 5.248794787330516e-09,
    -1.5837552541812015e-10, 4.02633081830612e-12, -8.747341203310769e-14, 1.6434898714919468e-15,
    -2.6977881152566837e-17,
)  # fmt: skip
Y1_LOW = (
    0.0025380132357417816, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346,
    -0.028328123944594365, 0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05,
    -3.53808001868935e-06, 1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10,
    -6.4651518414115946e-12, 1.51429151205002e-13, -3.0511859694473254e-15, 5.34668038572867e-17,
    -8.224911372021585e-19,
)  # fmt: skip
# sqrt(pi x / 2) times the modulus' parts in phase and (times x) out of phase, in 128 / x^2 - 1.
P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16,
    -1.0011513723467786e-16, 1.6305919233744186e-17,
)  # fmt: skip
Q0 = (
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886516e-18,
    1.0473158973776097e-18,
)  # fmt: skip
P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16,
    1.0667689114335412e-16, -1.7312313216116335e-17,
)  # fmt: skip
Q1 = (
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07,
    6.583354662120443e-09, -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12,
    2.8774212663332235e-13, -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16,
    1.4141084390211833e-16, -2.626761589838529e-17, 5.2192649196714085e-18,
)  # fmt: skip
# K0 and x K1 without their logarithm, in x^2 / 2 - 1; from 2 on sqrt(x) exp(x) of both, in
# 4 / x - 1.
K0_LOW = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926,
    2.286212103119452e-05, 2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807508e-16,
)  # fmt: skip
K1_LOW = (
    0.7626501136694739, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864,
    -0.0001730288957513052, -2.4334061415659684e-06, -2.213387630734726e-08,
    -1.4114883926335278e-10, -6.666901694199329e-13, -2.427449850519366e-15,
    -7.023863479386288e-18,
)  # fmt: skip
K0_HIGH = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
    1.39498137188765e-05, -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08,
    8.574034017414225e-09, -1.6975345093890614e-09, 3.5773972814003283e-10,
    -7.957489244477396e-11, 1.8559491149549264e-11, -4.514597883374519e-12,
    1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15,
    5.5120559994043335e-16, -1.6782311257549006e-16, 5.2103917776435543e-17,
    -1.6475805939842632e-17, 5.3004337711773354e-18,
)  # fmt: skip
K1_HIGH = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
    -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07,
    5.7410841254500495e-08, -1.0345762465678097e-08, 2.0150497551970347e-09,
    -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11, 5.139639673482343e-12,
    -1.2891739609498229e-12, 3.348419666052243e-13, -8.976705182010146e-14,
    2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15,
    -6.057047270643018e-16, 1.8380935752430455e-16, -5.689462849193648e-17,
    1.7940510478863572e-17, -5.7567444820733025e-18,
)  # fmt: skip
# The Airy function on [-4, 0] in x / 2 + 1, on [0, 2] times exp(1.25 x) in x - 1, from 2 on times
# x^(1/4) exp(z) in 2 (2/x)^(3/2) - 1, z being 2/3 x^(3/2); below -4 its parts in and out of phase,
# in 2 (4/x)^3 - 1.
AI_LOW = (
    0.11447758651998736, 0.42127788420449913, -0.027734597101387943, -0.23365796110601145,
    0.06939559564577408, 0.024461772007139792, -0.014766437693581868, 0.0008023889779525898,
    0.0010230295738488458, -0.0002514931206909262, -1.2152476924968542e-05,
    1.4468912917662048e-05, -1.865453687423982e-06, -2.599357801871398e-07,
    1.0341710658801066e-07, -6.957126687005273e-09, -1.951709352397157e-09, 4.440109838536824e-10,
    -1.1398870033140025e-11, -8.370115586923187e-12, 1.2611082165186202e-12,
    1.0125908288303646e-14, -2.379952365410891e-14, 2.5144316602653423e-15,
    1.0116342805635523e-16, -4.852103290649533e-17, 3.647606575795266e-18,
)  # fmt: skip
AI_MIDDLE = (
    0.4303350049663023, 0.03517962841573502, -0.0409745844228281, 7.088619285656415e-05,
    0.0008961471838400426, -3.3838227915723604e-05, -1.111611129369252e-05, 8.105263695403243e-07,
    7.955196803601702e-08, -9.944704691512397e-09, -2.406837596953117e-10, 7.631190598501187e-11,
    -1.2351974044884104e-12, -3.8208896032726366e-13, 1.9404335212778704e-14,
    1.1392168805675824e-15, -1.2198208952539459e-16,
)  # fmt: skip
AI_HIGH = (
    0.2776956095117059, -0.004172967562045923, 0.00020669586013998011, -1.7280997841068207e-05,
    1.928052166797157e-06, -2.605774398776262e-07, 4.051516883512395e-08, -7.022240440986223e-09,
    1.3286081997701028e-09, -2.703558037129289e-10, 5.852297782838998e-11,
    -1.3363584416519756e-11, 3.1978547149289153e-12, -7.976813559559603e-13,
    2.0651347541109665e-13, -5.52899978215978e-14, 1.526165619010181e-14, -4.331979304955806e-15,
    1.2616239319898747e-15, -3.7626070399357594e-16, 1.1471616156264618e-16,
    -3.570144365109208e-17, 1.1326462271400218e-17, -3.658761589006902e-18,
    1.2021046148071358e-18,
)  # fmt: skip
AI_P = (
    0.9993708890742778, -0.0006216836584374116, 7.181193774368645e-06, -2.316269813501758e-07,
    1.3216283888528755e-08, -1.0938736172758127e-09, 1.1794620737908535e-10,
    -1.5518841909929856e-11, 2.386927411492466e-12, -4.16552889201035e-13, 8.071678110741467e-14,
    -1.708757321110567e-14, 3.902945148540815e-15, -9.523976784907064e-16, 2.4632810885752603e-16,
    -6.709077463464858e-17, 1.913939683718707e-17, -5.69308436211377e-18,
)  # fmt: skip
AI_Q = (
    0.06882170556308001, -0.0006089151840832694, 1.3174151014089972e-05, -6.014071912908298e-07,
    4.327537342298499e-08, -4.247731732954726e-09, 5.232285376834493e-10, -7.672290975115024e-11,
    1.2923809452698712e-11, -2.43852975710829e-12, 5.059047237872084e-13, -1.1378513792256329e-13,
    2.7441377308322258e-14, -7.03448211263258e-15, 1.9032114367198917e-15, -5.403040541409308e-16,
    1.6016711026585234e-16, -4.9375274403528065e-17, 1.5773435797781153e-17,
    -5.206129581838458e-18, 1.7706787947400164e-18, -6.191669620783275e-19,
)  # fmt: skip
J0_ROOTS = ((2.404825557695773, -1.176691651530894e-16), (5.520078110286311, 8.088597146146722e-17))
J1_ROOTS = (
    (3.8317059702075125, -1.5269184090088067e-16),
    (7.015586669815619, -9.414165653410389e-17),
)
TWO_OVER_PI, SQRT_PI, SQRT_2_PI = 0.6366197723675814, 1.772453850905516, 2.5066282746310002


@jitable
def _between_roots(x, roots):
    """The product of x^2 - r^2; the roots in two parts."""
    (a, a_low), (b, b_low) = roots
    return ((x - a) - a_low) * (x + a) * (((x - b) - b_low) * (x + b))


@jitable
def _phases(x, order):
    """sqrt(2 / (pi x)) of cos and sin of x - (order / 2 + 1/4) pi, without rounding that angle."""
    s, c = math.sin(x), math.cos(x)
    if order == 1:
        s, c = -c, s
    # cos(x - pi/4) = (c + s) / sqrt(2), sin(x - pi/4) = (s - c) / sqrt(2)
    scale = SQRT_PI * math.sqrt(x)
    return (c + s) / scale, (s - c) / scale


@jitable
def _j(x, order):
    """J of order 0 or 1 for x >= 0."""
    if x <= 8.0:
        u = x * x / 32.0 - 1.0
        if order == 0:
            return chebyshev_sum(u, J0_LOW) * _between_roots(x, J0_ROOTS)
        return x * chebyshev_sum(u, J1_LOW) * _between_roots(x, J1_ROOTS)
    if x == np.inf:
        return np.nan
    p, q = _modulus(x, order)
    c, s = _phases(x, order)
    return c * p - s * q


@jitable
def _modulus(x, order):
    u = (8.0 / x) * (8.0 / x) * 2.0 - 1.0
    if order == 0:
        return chebyshev_sum(u, P0), chebyshev_sum(u, Q0) / x
    return chebyshev_sum(u, P1), chebyshev_sum(u, Q1) / x


@jitable
def _y(x, order):
    """Y of order 0 or 1; -infinity at 0, NaN below."""
    if x == 0.0:
        return -np.inf
    if not 0.0 < x < np.inf:
        return np.nan
    if x > 8.0:
        p, q = _modulus(x, order)
        c, s = _phases(x, order)
        return s * p + c * q
    u = x * x / 32.0 - 1.0
    if order == 0:
        return chebyshev_sum(u, Y0_LOW) + TWO_OVER_PI * math.log(x) * _j(x, 0)
    return x * chebyshev_sum(u, Y1_LOW) + TWO_OVER_PI * (math.log(x) * _j(x, 1) - 1.0 / x)


@jitable
def _k(x, order, scaled):
    """K of order 0 or 1, times exp(x) if scaled; infinity at 0, NaN below."""
    if x == 0.0:
        return np.inf
    if not x > 0.0:
        return np.nan
    if x > 2.0:
        u = 4.0 / x - 1.0
        y = (chebyshev_sum(u, K0_HIGH) if order == 0 else chebyshev_sum(u, K1_HIGH)) / math.sqrt(x)
        return y if scaled else math.exp(-x) * y
    u = x * x / 2.0 - 1.0
    if order == 0:
        i0 = math.exp(x) * bessel_i(x, I0_LOW, I0_HIGH, False)
        y = chebyshev_sum(u, K0_LOW) - math.log(0.5 * x) * i0
    else:
        i1 = math.exp(x) * bessel_i(x, I1_LOW, I1_HIGH, True)
        y = chebyshev_sum(u, K1_LOW) / x + math.log(0.5 * x) * i1
    return math.exp(x) * y if scaled else y


def bessel_j0(x):
    """The Bessel function of the first kind, of order 0."""
    return np.asarray(x).dtype.type(_bessel_j0_64(float(x)))


def bessel_j1(x):
    """The Bessel function of the first kind, of order 1."""
    return np.asarray(x).dtype.type(_bessel_j1_64(float(x)))


def bessel_y0(x):
    """The Bessel function of the second kind, of order 0."""
    return np.asarray(x).dtype.type(_bessel_y0_64(float(x)))


def bessel_y1(x):
    """The Bessel function of the second kind, of order 1."""
    return np.asarray(x).dtype.type(_bessel_y1_64(float(x)))


def k0(x):
    """The modified Bessel function of the second kind, of order 0."""
    return np.asarray(x).dtype.type(_k0_64(float(x)))


def k0e(x):
    """exp(x) k0(x)."""
    return np.asarray(x).dtype.type(_k0e_64(float(x)))


def k1(x):
    """The modified Bessel function of the second kind, of order 1."""
    return np.asarray(x).dtype.type(_k1_64(float(x)))


def k1e(x):
    """exp(x) k1(x)."""
    return np.asarray(x).dtype.type(_k1e_64(float(x)))


def spherical_bessel_j0(x):
    """sin(x) / x, 1 at 0."""
    return np.asarray(x).dtype.type(_spherical_bessel_j0_64(float(x)))


def airy_ai(x):
    """The Airy function Ai."""
    return np.asarray(x).dtype.type(_airy_ai_64(float(x)))


def _bessel_j0_64(x):
    return _j(abs(x), 0)


def _bessel_j1_64(x):
    return math.copysign(1.0, x) * _j(abs(x), 1)


def _bessel_y0_64(x):
    return _y(x, 0)


def _bessel_y1_64(x):
    return _y(x, 1)


def _k0_64(x):
    return _k(x, 0, False)


def _k0e_64(x):
    return _k(x, 0, True)


def _k1_64(x):
    return _k(x, 1, False)


def _k1e_64(x):
    return _k(x, 1, True)


def _spherical_bessel_j0_64(x):
    if x == 0.0:
        return 1.0
    return 0.0 if abs(x) == np.inf else math.sin(x) / x


def _airy_ai_64(x):
    if x != x or abs(x) == np.inf:
        return np.nan
    if x < -4.0:
        third = 4.0 / -x
        u = 2.0 * third * third * third - 1.0
        z = 2.0 / 3.0 * -x * math.sqrt(-x)
        s, c = math.sin(z), math.cos(z)
        p, q = chebyshev_sum(u, AI_P), chebyshev_sum(u, AI_Q) / z
        # sin(z + pi/4) p - cos(z + pi/4) q, over sqrt(pi) (-x)^(1/4)
        return ((s + c) * p - (c - s) * q) / (SQRT_2_PI * math.sqrt(math.sqrt(-x)))
    if x <= 0.0:
        return chebyshev_sum(0.5 * x + 1.0, AI_LOW)
    if x <= 2.0:
        return math.exp(-1.25 * x) * chebyshev_sum(x - 1.0, AI_MIDDLE)
    root = math.sqrt(x)
    u = 2.0 * (2.0 / x) * math.sqrt(2.0 / x) - 1.0
    return math.exp(-2.0 / 3.0 * x * root) * chebyshev_sum(u, AI_HIGH) / math.sqrt(root)


for _stub, _wide in (
    (bessel_j0, _bessel_j0_64),
    (bessel_j1, _bessel_j1_64),
    (bessel_y0, _bessel_y0_64),
    (bessel_y1, _bessel_y1_64),
    (k0, _k0_64),
    (k0e, _k0e_64),
    (k1, _k1_64),
    (k1e, _k1e_64),
    (spherical_bessel_j0, _spherical_bessel_j0_64),
    (airy_ai, _airy_ai_64),
):
    implement(_stub, float32=narrowed(_stub), float64=_wide)
