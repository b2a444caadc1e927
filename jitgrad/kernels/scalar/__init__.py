"""The scalar functions that generated kernels call inside their loops.

They are typed by Numba: float32 in, float32 out, with no float64 in between save where a docstring
says so; integers and booleans where torch has them. Those of the hot loops are free of branches, so
that LLVM turns a loop over them into vector code. In plain Python the same names compute the same
with NumPy and math.

``ULP`` states the largest error of each function, in units of the last place of the exact result,
for float32 and float64, on a machine with fused multiply-add; the tests hold every function to it
over the whole range. The gamma functions are held to it for positive arguments: between the poles
below 0 they cross zero, where only the absolute error is small.
"""

from .arithmetic import (
    abs,
    ceil,
    clamp,
    copysign,
    floor,
    floor_divide,
    fmax,
    fmin,
    fmod,
    frac,
    hypot,
    is_short,
    isfinite,
    isinf,
    isnan,
    maximum,
    minimum,
    nextafter,
    nextafter_bfloat16,
    nextafter_float16,
    remainder,
    round,
    rsqrt,
    sgn,
    short_floor_divide,
    short_fmod,
    short_remainder,
    sign,
    signbit,
    sqrt,
    true_divide,
    trunc,
    trunc_divide,
    where,
)
from .bessel import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    k0,
    k0e,
    k1,
    k1e,
    spherical_bessel_j0,
)
from .error import erf, erfc, erfinv
from .exponential import cosh, exp, exp2, expm1, sigmoid, sinh, tanh
from .gamma import digamma, lgamma
from .incomplete import igamma, igammac
from .integer import gcd, lcm, shift_left, shift_right
from .logarithm import acosh, asinh, atanh, log, log1p, log2, log10, logaddexp
from .power import pow
from .series import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    erfcx,
    frexp_exponent,
    hermite_polynomial_h,
    hermite_polynomial_he,
    i0,
    i0e,
    i1,
    i1e,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    ndtri,
    polygamma,
    zeta,
)
from .trigonometric import acos, asin, atan, atan2, cos, sin, sinc, tan

ULP: dict[str, tuple[float, float]] = {
    "exp": (0.9, 0.9),
    "exp2": (0.9, 0.85),
    "expm1": (1.35, 1.6),
    "log": (0.85, 0.9),
    "log2": (1.1, 1.1),
    "log10": (1.05, 1.0),
    "log1p": (0.85, 0.85),
    "sqrt": (0.5, 0.5),
    "rsqrt": (1.55, 1.55),
    "sin": (0.85, 0.95),
    "cos": (0.9, 0.95),
    "tan": (1.15, 1.3),
    "asin": (1.55, 1.55),
    "acos": (0.95, 1.05),
    "atan": (1.4, 1.9),
    "sinh": (2.05, 2.0),
    "cosh": (1.35, 1.3),
    "tanh": (1.45, 1.45),
    "asinh": (1.7, 1.7),
    "acosh": (2.05, 2.05),
    "atanh": (1.95, 1.85),
    "sigmoid": (2.2, 2.25),
    "erf": (1.1, 0.95),
    "erfc": (3.95, 3.25),
    "erfinv": (2.45, 3.35),
    "lgamma": (0.5, 1.8),
    "digamma": (0.5, 2.45),
    "sinc": (2.95, 2.15),
    "pow": (0.55, 0.9),
    "atan2": (1.5, 1.8),
    "hypot": (1.2, 1.15),
    "logaddexp": (1.5, 1.55),
}

# The rarer functions, in float64 throughout, so that float32 results are rounded once: the largest
# error in float64, and what it is measured in and where.
SPECIAL_ULP: dict[str, tuple[float, str]] = {
    "bessel_j0": (16, "from 8 on of the amplitude"),
    "bessel_j1": (8, "from 8 on of the amplitude"),
    "bessel_y0": (12, "from 0.5 on of the amplitude"),
    "bessel_y1": (8, "from 1 on of the amplitude"),
    "k0": (6, "to 15; farther out 1 + |x|"),
    "k1": (6, "to 15; farther out 1 + |x|"),
    "k0e": (6, ""),
    "k1e": (6, ""),
    "i0": (6, "to 15; farther out 1 + |x|"),
    "i1": (6, "to 15; farther out 1 + |x|"),
    "i0e": (6, ""),
    "i1e": (6, ""),
    "spherical_bessel_j0": (2, ""),
    "airy_ai": (64, "to 6 above 0; below 0 of the amplitude"),
    "erfcx": (6, "above 0"),
    "ndtri": (8, "of 1 + |x|"),
    "zeta": (8, "q above 0"),
    "polygamma": (12, "x above 0"),
    "igamma": (4500, ""),
    "igammac": (4500, ""),
}
