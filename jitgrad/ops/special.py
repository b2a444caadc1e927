"""Special functions, one elementwise row each.

Formulas and gradients follow the NIST Digital Library of Mathematical Functions (chapters 5 to 8
and 10); values at poles and outside domains are PyTorch's.
"""

from __future__ import annotations

from ..dtypes import BOOL, COMPLEX, FLOATING, INTEGER
from .table import Promotion, op

_FLOAT, _COMPARE = Promotion.FLOAT, Promotion.COMPARE
_REALS = (BOOL, FLOATING)
_PI, _LOG_2 = "3.141592653589793", "0.6931471805599453"
_SQRT_HALF, _DENSITY = "0.7071067811865476", "0.3989422804014327"  # ... of the normal at 0
_SQRT_2_OVER_PI = "0.7978845608028654"

# Angles, signs and bits ---------------------------------------------------------------------------
op("deg2rad", "self", "self * 0.017453292519943295", grad={"self": "grad * 0.017453292519943295"},
   promote=_FLOAT, categories=_REALS, node="Deg2RadBackward0",
   doc="degrees as radians")  # fmt: skip
op("rad2deg", "self", "self * 57.29577951308232", grad={"self": "grad * 57.29577951308232"},
   promote=_FLOAT, categories=_REALS, node="Rad2DegBackward0",
   doc="radians as degrees")  # fmt: skip
op("signbit", "self", "signbit(self)", promote=_COMPARE, inplace=False, categories=_REALS,
   doc="the sign bit is set")  # fmt: skip
op("isposinf", "self", "isinf(self) & (self > 0)", promote=_COMPARE, inplace=False,
   categories=_REALS, doc="whether +infinity")  # fmt: skip
op("isneginf", "self", "isinf(self) & (self < 0)", promote=_COMPARE, inplace=False,
   categories=_REALS, doc="whether -infinity")  # fmt: skip
op("heaviside", "self values", "where(self == 0, values, where(self > 0, 1, 0))",
   categories=(INTEGER, FLOATING), doc="0 below 0, 1 above, values at 0")  # fmt: skip
op("nextafter", "self other", "nextafter(self, other)", categories=(FLOATING, FLOATING),
   grad={"self": "where(self == other, 0, grad)", "other": "grad * 0"},
   doc="the next float from self towards other")  # fmt: skip
op("frexp_mantissa", "self exponent",
   "self * exp2(trunc(-exponent / 2)) * exp2(-exponent - trunc(-exponent / 2))",
   categories=(FLOATING, FLOATING),
   grad={"self": "grad * exp2(-exponent)"}, method=False, inplace=False, node="FrexpBackward0",
   doc="self / 2 ** exponent")  # fmt: skip
op("frexp_exponent", "self", "frexp_exponent(self)", categories=(FLOATING, FLOATING), method=False,
   inplace=False, doc="the exponent that leaves a fraction in [0.5, 1)")  # fmt: skip
op("angle", "self", f"where(self != self, self, where(self < 0, {_PI}, 0))", promote=_FLOAT,
   grad={"self": "grad * 0"}, inplace=False, doc="the argument: 0, or pi for negative numbers",
   complex_forward="angle(self)", real_result=True,
   complex_grad={"self": "where(self == 0, 0, grad * 1j * self / (self * conj(self)))"},
   complex_jvp={"self": "where(self == 0, 0, real(grad * -1j / self))"})  # fmt: skip
for _name, _doc in (("gcd", "the greatest common divisor"), ("lcm", "the least common multiple")):
    op(_name, "self other", f"{_name}(self, other)", categories=(INTEGER, INTEGER), doc=_doc)
op("nan_to_num_with", "self nan posinf neginf",
   "where(self != self, nan, where(isinf(self), where(self > 0, posinf, neginf), self))",
   grad={"self": "where(isfinite(self), grad, 0)"}, categories=(FLOATING, FLOATING),
   method=False, node="NanToNumBackward0", doc="numbers for NaN and infinities")  # fmt: skip

# Logarithms ---------------------------------------------------------------------------------------
op("logit", "self", "log(self / (1 - self))", promote=_FLOAT, categories=_REALS,
   domain=(0.2, 0.8), method=False,
   grad={"self": "where((self >= 0) & (self <= 1), grad / (self * (1 - self)),"
                 " log(-abs(self) - 1))"},
   doc="log(self / (1 - self)), the inverse of sigmoid")  # fmt: skip
_INSIDE = "minimum(maximum(self, eps), 1 - eps)"
op("logit_within", "self eps", f"log({_INSIDE} / (1 - {_INSIDE}))", promote=_FLOAT,
   categories=_REALS, method=False,
   grad={"self": "where((self >= eps) & (self <= 1 - eps), grad / (self * (1 - self)), 0)"},
   node="LogitBackward0", domain=(0.1, 0.9), doc="logit inside [eps, 1 - eps]")  # fmt: skip
op("xlogy", "self other", "where(other != other, other, where(self == 0, 0, self * log(other)))",
   promote=_FLOAT, categories=_REALS, domain=(0.5, 2.0), method=False, node="XlogyBackward0",
   left_number=True,
   grad={"self": "where((self == 0) & (other <= 0), 0, where(grad == 0, 0, grad * log(other)))",
         "other": "grad * self / other"},
   node_of_number="XlogyBackward2", node_of_left_number="XlogyBackward1",
   doc="self * log(other), 0 where self is")  # fmt: skip
op("xlog1py", "self other",
   "where(other != other, other, where(self == 0, 0, self * log1p(other)))",
   promote=_FLOAT, categories=_REALS, domain=(0.5, 2.0), method=False, inplace=False,
   node="SpecialXlog1PyBackward0", left_number=True,
   grad={"self": "where((self == 0) & (other <= -1), 0, where(grad == 0, 0, grad * log1p(other)))",
         "other": "grad * self / (other + 1)"},
   doc="self * log1p(other), 0 where self is")  # fmt: skip
op("logaddexp", "self other", "logaddexp(self, other)", categories=(FLOATING, COMPLEX),
   inplace=False,
   grad={"self": "grad / (1 + exp(other - self))", "other": "grad / (1 + exp(self - other))"},
   doc="log(e ** self + e ** other) without overflow")  # fmt: skip
op("logaddexp2", "self other",
   "where((self == other) & isinf(self), self, maximum(self, other)"
   f" + log1p(exp2(-abs(self - other))) / {_LOG_2})", categories=(FLOATING, FLOATING),
   grad={"self": "grad / (1 + exp2(other - self))", "other": "grad / (1 + exp2(self - other))"},
   inplace=False, doc="log2(2 ** self + 2 ** other) without overflow")  # fmt: skip

# Gamma functions ----------------------------------------------------------------------------------
op("lgamma", "self", "lgamma(self)", grad={"self": "grad * digamma(self)"}, promote=_FLOAT,
   domain=(0.5, 3.0), categories=_REALS, doc="log |gamma(self)|")  # fmt: skip
op("digamma", "self", "digamma(self)", grad={"self": "grad * polygamma(self, 1)"},
   promote=_FLOAT, domain=(0.5, 3.0), categories=_REALS,
   doc="the logarithmic derivative of gamma")  # fmt: skip
op("polygamma", "self order", "polygamma(self, order)",
   grad={"self": "grad * polygamma(self, order + 1)"},
   promote=_FLOAT, domain=(0.5, 3.0), categories=_REALS, method=False, node="PolygammaBackward0",
   doc="the n-th derivative of digamma")  # fmt: skip
for _name, _sign, _doc in (("igamma", "", "lower"), ("igammac", "-", "upper")):
    op(_name, "self other", f"{_name}(self, other)", categories=(FLOATING, FLOATING),
       domain=(0.5, 3.0), underived={"self": f"{_name}: input"},
       grad={"other": f"{_sign}grad * exp((self - 1) * log(other) - other - lgamma(self))"},
       doc=f"the regularised {_doc} incomplete gamma function of order self at other")  # fmt: skip
op("zeta", "self other", "zeta(self, other)", promote=_FLOAT, domain=(1.5, 3.0), method=False,
   grad={"other": "grad * -self * zeta(self + 1, other)"}, inplace=False, categories=_REALS,
   node="SpecialZetaBackward0", underived={"self": "zeta"}, left_number=True,
   doc="the Hurwitz zeta function of self at other")  # fmt: skip

# Error functions ----------------------------------------------------------------------------------
op("sinc", "self", "sinc(self)", promote=_FLOAT, doc="sin(pi x) / (pi x), 1 at 0",
   grad={"self": f"where(self == 0, 0, grad * ({_PI} * self * cos({_PI} * self)"
                 f" - sin({_PI} * self)) / ({_PI} * self * self))"})  # fmt: skip
op("entr", "self",
   "where(self < 0, log(sgn(self) + 1), where(self == 0, 0, -self * log(self)))",
   promote=_FLOAT, domain=(0.5, 2.0),
   grad={"self": "grad * (-log(self) - 1)"}, method=False, inplace=False, categories=_REALS,
   node="SpecialEntrBackward0", doc="-self * log(self), 0 at 0")  # fmt: skip
op("ndtr", "self", f"0.5 * erfc(-self * {_SQRT_HALF})", promote=_FLOAT, method=False,
   grad={"self": f"grad * {_DENSITY} * exp(-0.5 * self * self)"}, inplace=False,
   categories=_REALS, doc="the distribution function of the normal distribution")  # fmt: skip
op("erfcx", "self", "erfcx(self)", promote=_FLOAT, method=False, inplace=False, categories=_REALS,
   grad={"self": "grad * (2 * self * result - 1.1283791670955126)"}, node="SpecialErfcxBackward0",
   doc="exp(self ** 2) * erfc(self)")  # fmt: skip
op("log_ndtr", "self",
   f"where(self < -1, log(0.5 * erfcx(-self * {_SQRT_HALF})) - 0.5 * self * self,"
   f" log1p(-0.5 * erfc(self * {_SQRT_HALF})))", promote=_FLOAT, method=False, inplace=False,
   grad={"self": f"grad / erfcx(self * -{_SQRT_HALF}) * {_SQRT_2_OVER_PI}"}, categories=_REALS,
   node="SpecialLogNdtrBackward0", doc="the logarithm of ndtr")  # fmt: skip
op("ndtri", "self", "ndtri(self)", promote=_FLOAT, method=False, inplace=False, categories=_REALS,
   domain=(0.2, 0.8), grad={"self": "grad * 2.5066282746310002 * exp(0.5 * result * result)"},
   node="SpecialNdtriBackward0", doc="the inverse of ndtr")  # fmt: skip

# Bessel functions ---------------------------------------------------------------------------------
op("i0", "self", "i0(self)", grad={"self": "grad * i1(self)"}, promote=_FLOAT, categories=_REALS,
   doc="the modified Bessel function of order 0")  # fmt: skip
op("i0e", "self", "i0e(self)", grad={"self": "grad * (i1e(self) - sgn(self) * result)"},
   promote=_FLOAT, categories=_REALS, method=False, inplace=False, node="SpecialI0EBackward0",
   doc="exp(-|self|) * i0(self)")  # fmt: skip
op("i1", "self", "i1(self)", promote=_FLOAT, categories=_REALS, method=False, inplace=False,
   grad={"self": "grad * where(self == 0, 0.5, i0(self) - result / where(self == 0, 1, self))"},
   node="SpecialI1Backward0", doc="the modified Bessel function of order 1")  # fmt: skip
op("i1e", "self", "i1e(self)", promote=_FLOAT, categories=_REALS, method=False, inplace=False,
   grad={"self": "grad * where(self == 0, 0.5, i0e(self)"
         " - result * (sgn(self) + 1 / where(self == 0, 1, self)))"},
   node="SpecialI1EBackward0", doc="exp(-|self|) * i1(self)")  # fmt: skip

# Bessel functions of the second kind and others: without derivatives, as in PyTorch.
for _name, _doc in (
    ("bessel_j0", "the Bessel function of the first kind, of order 0"),
    ("bessel_j1", "the Bessel function of the first kind, of order 1"),
    ("bessel_y0", "the Bessel function of the second kind, of order 0"),
    ("bessel_y1", "the Bessel function of the second kind, of order 1"),
    ("k0", "the modified Bessel function of the second kind, of order 0"),
    ("k1", "the modified Bessel function of the second kind, of order 1"),
    ("k0e", "exp(self) * k0(self)"),
    ("k1e", "exp(self) * k1(self)"),
    ("spherical_bessel_j0", "sin(self) / self, 1 at 0"),
    ("airy_ai", "the Airy function Ai"),
):
    op(_name, "self", f"{_name}(self)", promote=_FLOAT, categories=_REALS, method=False,
       inplace=False, doc=_doc)  # fmt: skip

# Orthogonal polynomials: without derivatives, as in PyTorch ---------------------------------------
for _name, _doc in (
    ("chebyshev_polynomial_t", "the Chebyshev polynomial of the first kind"),
    ("chebyshev_polynomial_u", "the Chebyshev polynomial of the second kind"),
    ("chebyshev_polynomial_v", "the Chebyshev polynomial of the third kind"),
    ("chebyshev_polynomial_w", "the Chebyshev polynomial of the fourth kind"),
    ("hermite_polynomial_h", "the physicists' Hermite polynomial"),
    ("hermite_polynomial_he", "the probabilists' Hermite polynomial"),
    ("laguerre_polynomial_l", "the Laguerre polynomial"),
    ("legendre_polynomial_p", "the Legendre polynomial"),
):
    op(_name, "self degree", f"{_name}(self, degree)", promote=_FLOAT, categories=_REALS,
       method=False, inplace=False, left_number=True, doc=f"{_doc} of the degree")  # fmt: skip
for _name in "tuvw":
    op(f"shifted_chebyshev_polynomial_{_name}", "self degree",
       f"chebyshev_polynomial_{_name}(2 * self - 1, degree)", promote=_FLOAT, categories=_REALS,
       method=False, inplace=False, left_number=True,
       doc=f"chebyshev_polynomial_{_name} of 2x - 1")  # fmt: skip
