"""The scalar functions that generated kernels call inside their loops.

They are typed by Numba: float32 in, float32 out, with no float64 in between save where a docstring says so; integers
and booleans where torch has them. Those of the hot loops are free of branches, so that LLVM turns a loop over them into
vector code. In plain Python the same names compute the same with NumPy and math.

``ULP`` states the largest error of each function, in units of the last place of the exact result, for float32 and
float64; the tests hold every function to it over the whole range. The gamma functions are held to it for positive
arguments: between the poles below 0 they cross zero, where only the absolute error is small.
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
    isfinite,
    isinf,
    isnan,
    maximum,
    minimum,
    nextafter,
    remainder,
    round,
    rsqrt,
    sgn,
    sign,
    signbit,
    sqrt,
    true_divide,
    trunc,
    trunc_divide,
    where,
)
from .error import erf, erfc, erfinv
from .exponential import cosh, exp, exp2, expm1, sigmoid, sinh, tanh
from .gamma import digamma, lgamma
from .integer import gcd, lcm, shift_left, shift_right
from .logarithm import acosh, asinh, atanh, log, log1p, log2, log10, logaddexp
from .power import pow
from .trigonometric import acos, asin, atan, atan2, cos, sin, sinc, tan

ULP: dict[str, tuple[float, float]] = {}
