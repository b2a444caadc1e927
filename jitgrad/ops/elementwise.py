"""Elementwise operators, one row each.

Formulas are written in PyTorch's argument names. Gradients at kinks are PyTorch's: relu, abs and
sgn have 0 at 0, clamp has 1 at its edges, maximum splits ties in half.
"""

from __future__ import annotations

from ..dtypes import BOOL, COMPLEX, FLOATING, INTEGER
from . import activation, loss, special  # noqa: F401  (rows of their own)
from .table import Promotion, op

FLOAT, COMPARE, LOGICAL = Promotion.FLOAT, Promotion.COMPARE, Promotion.LOGICAL
NUMBERS = (INTEGER, COMPLEX)  # not bool
REALS = (BOOL, FLOATING)
BITS = (BOOL, INTEGER)

# Arithmetic ---------------------------------------------------------------------------------------
op("add", "self other", "self + other", grad={"self": "grad", "other": "grad"}, doc="self + other")
op(
    "sub",
    "self other",
    "self - other",
    grad={"self": "grad", "other": "-grad"},
    categories=NUMBERS,
    aliases=("subtract",),
    doc="self - other",
)
op(
    "rsub",
    "self other",
    "other - self",
    grad={"self": "-grad", "other": "grad"},
    categories=NUMBERS,
    node="RsubBackward0",
    node_of_number="RsubBackward1",
    method=False,
    inplace=False,
    doc="other - self",
)
op(
    "mul",
    "self other",
    "self * other",
    grad={"self": "grad * other", "other": "grad * self"},
    aliases=("multiply",),
    doc="self * other",
)
op(
    "div",
    "self other",
    "self / other",
    promote=FLOAT,
    aliases=("divide", "true_divide"),
    grad={"self": "grad / other", "other": "-grad * (self / other) / other"},
    doc="self / other",
)
op(
    "floor_divide",
    "self other",
    "floor_divide(self, other)",
    integer_zero_division=True,
    categories=REALS,
    doc="floor(self / other)",
)
op(
    "div_floor",
    "self other",
    "floor_divide(self, other)",
    integer_zero_division=True,
    grad={"self": "grad * 0", "other": "grad * 0"},
    node="DivBackward2",
    node_of_number="DivBackward3",
    method=False,
    inplace=True,
    categories=(INTEGER, FLOATING),
    doc="floor(self / other), with a gradient of zero",
)
op(
    "div_trunc",
    "self other",
    "trunc_divide(self, other)",
    integer_zero_division=True,
    grad={"self": "grad * 0", "other": "grad * 0"},
    node="DivBackward2",
    node_of_number="DivBackward3",
    method=False,
    inplace=True,
    categories=(INTEGER, FLOATING),
    doc="trunc(self / other), with a gradient of zero",
)
op(
    "remainder",
    "self other",
    "remainder(self, other)",
    integer_zero_division=True,
    grad={"self": "grad", "other": "-grad * floor_divide(self, other)"},
    categories=REALS,
    node="RemainderBackward1",
    left_number=True,
    node_of_number="RemainderBackward0",
    doc="the remainder with the sign of the divisor",
)
op(
    "fmod",
    "self other",
    "fmod(self, other)",
    integer_zero_division=True,
    categories=REALS,
    grad={"self": "grad", "other": "-grad * trunc(self / other)"},
    node="FmodBackward1",
    node_of_number="FmodBackward0",
    doc="the remainder with the sign of the dividend",
)
op(
    "pow",
    "self exponent",
    "pow(self, exponent)",
    domain=(0.5, 2.0),
    grad={
        "self": "where(exponent == 0, 0, grad * exponent * pow(self, exponent - 1))",
        "exponent": "grad * where((self == 0) & (exponent >= 0), 0, result * log(self))",
    },
    complex_grad={
        "exponent": "grad * where((self == 0) & (real(exponent) >= real(0)), 0,"
        " conj(result) * log(conj(self)))",
    },
    complex_jvp={
        "exponent": "grad * where((self == 0) & (real(exponent) >= real(0)), 0,"
        " result * log(self))",
    },
    node="PowBackward1",
    node_of_number="PowBackward0",
    node_of_left_number="PowBackward2",
    left_number=True,
    doc="self to the power other",
)
op(
    "neg",
    "self",
    "-self",
    grad={"self": "-grad"},
    categories=NUMBERS,
    aliases=("negative",),
    doc="-self",
)
op(
    "abs",
    "self",
    "abs(self)",
    grad={"self": "grad * sgn(self)"},
    real_result=True,
    complex_grad={"self": "grad * sgn(self)"},
    complex_jvp={"self": "real(grad * conj(sgn(self)))"},
    categories=NUMBERS,
    aliases=("absolute",),
    doc="the absolute value",
)
op(
    "sign",
    "self",
    "sgn(self)",
    grad={"self": "grad * 0"},
    categories=REALS,
    doc="-1, 0 or 1",
)
op(
    "sgn",
    "self",
    "sgn(self)",
    grad={"self": "grad * 0"},
    complex_grad={
        "self": "where(self == 0, 0, (grad - real(grad * conj(result)) * result) / abs(self))"
    },
    doc="-1, 0 or 1; of complex numbers self / abs(self)",
)
op(
    "square",
    "self",
    "self * self",
    promote=Promotion.INTEGRAL,
    grad={"self": "grad * (2 * self)"},
    node="PowBackward0",
    doc="self * self",
)
op(
    "reciprocal",
    "self",
    "1 / self",
    grad={"self": "-grad * result * result"},
    promote=FLOAT,
    domain=(0.5, 2.0),
    doc="1 / self",
)
op(
    "lerp",
    "self end weight",
    "where(abs(weight) < 0.5, self + weight * (end - self), end - (end - self) * (1 - weight))",
    complex_forward="self + weight * (end - self)",
    categories=(FLOATING, COMPLEX),
    grad={"self": "grad * (1 - weight)", "end": "grad * weight", "weight": "grad * (end - self)"},
    node="LerpBackward1",
    node_of_number="LerpBackward0",
    doc="linear interpolation from self to end",
)
op(
    "addcmul",
    "self tensor1 tensor2 value",
    "self + value * tensor1 * tensor2",
    categories=NUMBERS,
    grad={"self": "grad", "tensor1": "grad * value * tensor2", "tensor2": "grad * value * tensor1"},
    doc="self + value * tensor1 * tensor2",
)
op(
    "addcdiv",
    "self tensor1 tensor2 value",
    "self + value * (tensor1 / tensor2)",
    grad={
        "self": "grad",
        "tensor1": "grad * (value / tensor2)",
        "tensor2": "-grad * (value * (tensor1 / tensor2) / tensor2)",
    },
    categories=(FLOATING, COMPLEX),
    doc="self + value * (tensor1 / tensor2)",
)

op(
    "clone",
    "self",
    "self",
    grad={"self": "grad"},
    inplace=False,
    method=False,
    doc="a copy in memory of its own",
)

# Exponentials and logarithms ----------------------------------------------------------------------
op("exp", "self", "exp(self)", grad={"self": "grad * result"}, promote=FLOAT, doc="e ** self")
op(
    "exp2",
    "self",
    "exp2(self)",
    grad={"self": "grad * result * 0.6931471805599453"},
    promote=FLOAT,
    doc="2 ** self",
)
op(
    "expm1",
    "self",
    "expm1(self)",
    grad={"self": "grad * (result + 1)"},
    promote=FLOAT,
    doc="e ** self - 1, accurate near 0",
)
op(
    "log",
    "self",
    "log(self)",
    grad={"self": "grad / self"},
    promote=FLOAT,
    domain=(0.5, 3.0),
    doc="the natural logarithm",
)
op(
    "log2",
    "self",
    "log2(self)",
    grad={"self": "grad / (self * 0.6931471805599453)"},
    promote=FLOAT,
    domain=(0.5, 3.0),
    doc="the base-2 logarithm",
)
op(
    "log10",
    "self",
    "log10(self)",
    grad={"self": "grad / (self * 2.302585092994046)"},
    promote=FLOAT,
    domain=(0.5, 3.0),
    doc="the base-10 logarithm",
)
op(
    "log1p",
    "self",
    "log1p(self)",
    node="Log1PBackward0",
    grad={"self": "grad / (self + 1)"},
    promote=FLOAT,
    domain=(-0.5, 3.0),
    doc="log(1 + self), accurate near 0",
)
op(
    "sqrt",
    "self",
    "sqrt(self)",
    grad={"self": "grad / (2 * result)"},
    promote=FLOAT,
    domain=(0.5, 3.0),
    doc="the square root",
)
op(
    "rsqrt",
    "self",
    "rsqrt(self)",
    grad={"self": "-0.5 * grad * result * result * result"},
    promote=FLOAT,
    domain=(0.5, 3.0),
    doc="1 / sqrt(self)",
)

# Trigonometric and hyperbolic functions -----------------------------------------------------------
op("sin", "self", "sin(self)", grad={"self": "grad * cos(self)"}, promote=FLOAT, doc="the sine")
op("cos", "self", "cos(self)", grad={"self": "grad * -sin(self)"}, promote=FLOAT, doc="the cosine")
op(
    "tan",
    "self",
    "tan(self)",
    grad={"self": "grad * (1 + result * result)"},
    promote=FLOAT,
    domain=(-1.0, 1.0),
    doc="the tangent",
)
op(
    "asin",
    "self",
    "asin(self)",
    grad={"self": "grad * rsqrt(1 - self * self)"},
    promote=FLOAT,
    domain=(-0.8, 0.8),
    aliases=("arcsin",),
    doc="the inverse sine",
)
op(
    "acos",
    "self",
    "acos(self)",
    grad={"self": "grad * -rsqrt(1 - self * self)"},
    promote=FLOAT,
    domain=(-0.8, 0.8),
    aliases=("arccos",),
    doc="the inverse cosine",
)
op(
    "atan",
    "self",
    "atan(self)",
    grad={"self": "grad / (self * self + 1)"},
    promote=FLOAT,
    aliases=("arctan",),
    doc="the inverse tangent",
)
op(
    "atan2",
    "self other",
    "atan2(self, other)",
    promote=FLOAT,
    domain=(0.3, 2.0),
    aliases=("arctan2",),
    categories=REALS,
    grad={
        # At the origin, where there is no derivative, zero.
        "self": "grad * where((self == 0) & (other == 0), 0, "
        "other / (self * self + other * other))",
        "other": "grad * where((self == 0) & (other == 0), 0, "
        "-self / (self * self + other * other))",
    },
    doc="the angle of the point (other, self)",
)
op(
    "sinh",
    "self",
    "sinh(self)",
    grad={"self": "grad * cosh(self)"},
    promote=FLOAT,
    doc="the hyperbolic sine",
)
op(
    "cosh",
    "self",
    "cosh(self)",
    grad={"self": "grad * sinh(self)"},
    promote=FLOAT,
    doc="the hyperbolic cosine",
)
op(
    "tanh",
    "self",
    "tanh(self)",
    grad={"self": "grad * (1 - result * result)"},
    promote=FLOAT,
    doc="the hyperbolic tangent",
)
op(
    "asinh",
    "self",
    "asinh(self)",
    grad={"self": "grad * rsqrt(self * self + 1)"},
    promote=FLOAT,
    aliases=("arcsinh",),
    doc="the inverse hyperbolic sine",
)
op(
    "acosh",
    "self",
    "acosh(self)",
    grad={"self": "grad * rsqrt(self * self - 1)"},
    complex_grad={"self": "grad * rsqrt(conj(self) - 1) * rsqrt(conj(self) + 1)"},
    complex_jvp={"self": "grad * rsqrt(self - 1) * rsqrt(self + 1)"},
    promote=FLOAT,
    domain=(1.5, 3.0),
    aliases=("arccosh",),
    doc="the inverse hyperbolic cosine",
)
op(
    "atanh",
    "self",
    "atanh(self)",
    grad={"self": "grad / (1 - self * self)"},
    promote=FLOAT,
    domain=(-0.8, 0.8),
    aliases=("arctanh",),
    doc="the inverse hyperbolic tangent",
)
op(
    "hypot",
    "self other",
    "hypot(self, other)",
    domain=(0.3, 2.0),
    categories=(FLOATING, FLOATING),
    grad={"self": "grad * (self / result)", "other": "grad * (other / result)"},
    doc="sqrt(self ** 2 + other ** 2) without overflow",
)

# Sigmoids, error functions and activations --------------------------------------------------------
op(
    "sigmoid",
    "self",
    "sigmoid(self)",
    grad={"self": "grad * result * (1 - result)"},
    promote=FLOAT,
    domain=(-4.0, 4.0),
    doc="1 / (1 + exp(-self))",
)
op(
    "erf",
    "self",
    "erf(self)",
    promote=FLOAT,
    categories=REALS,
    doc="the error function",
    grad={"self": "grad * 1.1283791670955126 * exp(-self * self)"},
)
op(
    "erfc",
    "self",
    "erfc(self)",
    promote=FLOAT,
    categories=REALS,
    doc="1 - erf(self)",
    grad={"self": "grad * -1.1283791670955126 * exp(-self * self)"},
)
op(
    "erfinv",
    "self",
    "erfinv(self)",
    promote=FLOAT,
    categories=REALS,
    domain=(-0.8, 0.8),
    doc="the inverse of erf",
    grad={"self": "grad * 0.886226925452758 * exp(result * result)"},
)
op(
    "relu",
    "self",
    "maximum(self, 0)",
    grad={"self": "threshold_backward(grad, result, 0)"},
    categories=(INTEGER, FLOATING),
    domain=(0.1, 2.0),
    doc="max(self, 0)",
)
op(
    "leaky_relu",
    "self negative_slope",
    "where(self > 0, self, self * negative_slope)",
    grad={"self": "leaky_relu_backward(grad, self, negative_slope)"},
    node_in_place="LeakyReluBackward1",
    method=False,
    inplace=False,
    categories=(FLOATING, FLOATING),
    domain=(0.1, 2.0),
    doc="self where positive, else scaled",
)
op(
    "silu",
    "self",
    "self * sigmoid(self)",
    method=False,
    inplace=False,
    categories=(FLOATING, COMPLEX),
    doc="self * sigmoid(self)",
    grad={"self": "grad * (sigmoid(self) * (1 + self * (1 - sigmoid(self))))"},
)

# Rounding: the gradient is zero -------------------------------------------------------------------
for _name in ("floor", "ceil", "round", "trunc"):
    op(
        _name,
        "self",
        f"{_name}(self)",
        grad={"self": "grad * 0"},
        domain=(0.1, 0.4),
        categories=(INTEGER, FLOATING),
        aliases=("fix",) if _name == "trunc" else (),
        doc={"round": "the nearest integer, halves to even", "trunc": "the integer part"}.get(
            _name, f"the {_name} of every element"
        ),
    )
op(
    "frac",
    "self",
    "self - trunc(self)",
    grad={"self": "grad"},
    domain=(0.1, 0.4),
    categories=(FLOATING, FLOATING),
    doc="the fractional part",
)

# Extremes -----------------------------------------------------------------------------------------
op(
    "maximum",
    "self other",
    "maximum(self, other)",
    categories=REALS,
    inplace=False,
    grad={
        "self": "where(self == other, grad / 2, where(self < other, 0, grad))",
        "other": "where(self == other, grad / 2, where(self > other, 0, grad))",
    },
    doc="the larger of two; NaN if either is",
)
op(
    "minimum",
    "self other",
    "minimum(self, other)",
    categories=REALS,
    inplace=False,
    grad={
        "self": "where(self == other, grad / 2, where(self > other, 0, grad))",
        "other": "where(self == other, grad / 2, where(self < other, 0, grad))",
    },
    doc="the smaller of two; NaN if either is",
)
op(
    "fmax",
    "self other",
    "fmax(self, other)",
    categories=REALS,
    inplace=False,
    grad={
        "self": "where((self >= other) | isnan(other), grad, 0)",
        "other": "where((self >= other) | isnan(other), 0, grad)",
    },
    doc="the larger of two, a number rather than NaN",
)
op(
    "fmin",
    "self other",
    "fmin(self, other)",
    categories=REALS,
    inplace=False,
    grad={
        "self": "where((self <= other) | isnan(other), grad, 0)",
        "other": "where((self <= other) | isnan(other), 0, grad)",
    },
    doc="the smaller of two, a number rather than NaN",
)
# clamp() has one node for bounds that are tensors and one for numbers; clamp_min() and clamp_max()
# have nodes of their own.
op(
    "clamp_both",
    "self min max",
    "minimum(maximum(self, min), max)",
    node="ClampBackward0",
    node_of_number="ClampBackward1",
    categories=(INTEGER, FLOATING),
    method=False,
    grad={
        "self": "where((self >= min) & (self <= max), grad, 0)",
        "min": "where((min < max) & (self < min), grad, 0)",
        "max": "where((self > max) | (max < min), grad, 0)",
    },
    doc="self limited to [min, max]",
)
_FROM = {"self": "where(self >= min, grad, 0)", "min": "where(self < min, grad, 0)"}
_TO = {"self": "where(self <= max, grad, 0)", "max": "where(self > max, grad, 0)"}
for _name, _node in (("clamp_from", "Clamp"), ("clamp_min", "ClampMin")):
    op(
        _name,
        "self min",
        "maximum(self, min)",
        categories=(INTEGER if _node == "Clamp" else BOOL, FLOATING),
        grad=_FROM,
        node=f"{_node}Backward{int(_node != 'Clamp')}",
        node_of_number=f"{_node}Backward{int(_node == 'Clamp')}",
        method=_node != "Clamp",
        doc="max(self, min)",
    )
for _name, _node in (("clamp_to", "Clamp"), ("clamp_max", "ClampMax")):
    op(
        _name,
        "self max",
        "minimum(self, max)",
        categories=(INTEGER if _node == "Clamp" else BOOL, FLOATING),
        grad=_TO,
        node=f"{_node}Backward{int(_node != 'Clamp')}",
        node_of_number=f"{_node}Backward{int(_node == 'Clamp')}",
        method=_node != "Clamp",
        doc="min(self, max)",
    )
op(
    "copysign",
    "self other",
    "copysign(self, other)",
    promote=FLOAT,
    categories=REALS,
    grad={"self": "grad * sgn(self) * sgn(result)", "other": "grad * 0"},
    node="CopysignBackward0",
    node_of_number="CopysignBackward1",
    doc="the magnitude of self with the sign of other",
)

# Comparison and logic -----------------------------------------------------------------------------
for _name, _sign, _alias in (
    ("eq", "==", ()),
    ("ne", "!=", ("not_equal",)),
    ("lt", "<", ("less",)),
    ("le", "<=", ("less_equal",)),
    ("gt", ">", ("greater",)),
    ("ge", ">=", ("greater_equal",)),
):
    op(
        _name,
        "self other",
        f"self {_sign} other",
        promote=COMPARE,
        categories=REALS if "<" in _sign or ">" in _sign else (BOOL, COMPLEX),
        aliases=_alias,
        doc=f"self {_sign} other",
    )
op("isnan", "self", "self != self", promote=COMPARE, inplace=False, doc="whether NaN")
op("isinf", "self", "isinf(self)", promote=COMPARE, inplace=False, doc="whether +-infinity")
op("isfinite", "self", "isfinite(self)", promote=COMPARE, inplace=False, doc="whether finite")
op("logical_and", "self other", "self and other", promote=LOGICAL, doc="both are true")
op("logical_or", "self other", "self or other", promote=LOGICAL, doc="either is true")
op("logical_xor", "self other", "self != other", promote=LOGICAL, doc="exactly one is true")
op("logical_not", "self", "not self", promote=LOGICAL, doc="not true")
for _name, _sign in (("and", "&"), ("or", "|"), ("xor", "^")):
    op(
        f"bitwise_{_name}",
        "self other",
        f"self {_sign} other",
        categories=BITS,
        left_number=True,
        doc=f"self {_sign} other, bit by bit",
    )
op("bitwise_not", "self", "~self", categories=BITS, doc="every bit inverted (not, for bools)")
op(
    "bitwise_left_shift",
    "self other",
    "shift_left(self, other)",
    left_number=True,
    categories=(INTEGER, INTEGER),
    doc="self << other",
)
op(
    "bitwise_right_shift",
    "self other",
    "shift_right(self, other)",
    left_number=True,
    categories=(INTEGER, INTEGER),
    doc="self >> other",
)

# Choice -------------------------------------------------------------------------------------------
op(
    "where",
    "condition self other",
    "where(condition, self, other)",
    grad={"self": "where(condition, grad, 0)", "other": "where(condition, 0, grad)"},
    inplace=False,
    method=False,
    doc="self where condition holds, else other",
)
op(
    "masked_fill",
    "self mask value",
    "where(mask, value, self)",
    grad={"self": "masked_fill(grad, mask, 0)", "value": "where(mask, grad, 0)"},
    node="MaskedFillBackward1",
    node_of_number="MaskedFillBackward0",
    inline=True,
    row_major=True,
    doc="value where the mask is true, else self",
)
