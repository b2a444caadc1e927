"""Activation functions beyond those of ops/elementwise.py, one row each.

Their parameters (slopes, thresholds) are inputs like any other, with the names that PyTorch's
functions give them; ``nn.functional`` fills in the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import FLOATING, INTEGER
from .table import op

_SQRT_HALF = "0.7071067811865476"
_DENSITY = "0.3989422804014327"  # of the normal distribution at 0
_INNER = "0.7978845608028654 * self * (1 + 0.044715 * self * self)"
_SOFT = "where(self > 20, self, log1p(exp(self)))"


def _activation(name: str, inputs: str, forward: str, grad: Any, doc: str, node: str = "",
                lowest: int = FLOATING, node_in_place: str = "") -> None:  # fmt: skip
    derivatives = {"self": grad} if isinstance(grad, str) else grad
    op(name, inputs, forward, grad=derivatives, doc=doc, node=node, categories=(lowest, FLOATING),
       domain=(0.1, 2.0), method=False, inplace=False, node_in_place=node_in_place)  # fmt: skip


_activation(
    "elu", "self alpha scale input_scale",
    "where(self > 0, self * scale, expm1(self * input_scale) * (alpha * scale))",
    "elu_backward(grad, self, alpha, scale, input_scale)",
    doc="scale * self where positive, else an exponential that tends to -alpha * scale",
    node_in_place="EluBackward1",
)  # fmt: skip
_activation(
    "celu", "self alpha", "where(self > 0, self, alpha * expm1(self / alpha))",
    "elu_backward(grad, self, alpha, 1, 1 / alpha)",
    doc="self where positive, else alpha * (exp(self / alpha) - 1)", node_in_place="CeluBackward1",
)  # fmt: skip
_activation(
    "gelu", "self", f"0.5 * self * (1 + erf(self * {_SQRT_HALF}))",
    f"grad * (0.5 * (1 + erf(self * {_SQRT_HALF})) + self * exp(-0.5 * self * self) * {_DENSITY})",
    doc="self times the normal distribution function (Hendrycks & Gimpel 2016)",
)  # fmt: skip
_activation(
    "gelu_tanh", "self", f"0.5 * self * (1 + tanh({_INNER}))",
    f"grad * (0.5 * (1 + tanh({_INNER})) + 0.5 * self * (1 - tanh({_INNER}) * tanh({_INNER}))"
    " * 0.7978845608028654 * (1 + 0.134145 * self * self))",
    doc="gelu with the distribution function approximated by a tanh", node="GeluBackward0",
)  # fmt: skip
_activation(
    "softplus", "self beta threshold",
    "where(self * beta > threshold, self, log1p(exp(self * beta)) / beta)",
    "where(self * beta > threshold, grad, grad * sigmoid(self * beta))",
    doc="log(1 + exp(beta * self)) / beta; self itself where beta * self exceeds the threshold",
)  # fmt: skip
_activation(
    "mish", "self", f"self * tanh({_SOFT})",
    f"grad * (tanh({_SOFT}) + self * (1 - tanh({_SOFT}) * tanh({_SOFT})) * sigmoid(self))",
    doc="self * tanh(softplus(self)) (Misra 2019)",
)  # fmt: skip
_activation(
    "log_sigmoid", "self", "minimum(self, 0) - log1p(exp(-abs(self)))", "grad * sigmoid(-self)",
    doc="log(sigmoid(self)) without overflow",
)  # fmt: skip
_activation(
    "hardtanh", "self min_val max_val", "minimum(maximum(self, min_val), max_val)",
    "hardtanh_backward(grad, self, min_val, max_val)", doc="self limited to an interval",
    lowest=INTEGER,
)  # fmt: skip
_activation(
    "hardsigmoid", "self", "minimum(maximum(self + 3, 0), 6) / 6",
    "where((self > -3) & (self < 3), grad / 6, 0)", doc="a sigmoid made of three straight lines",
)  # fmt: skip
_activation(
    "hardswish", "self", "self * minimum(maximum(self + 3, 0), 6) / 6",
    "where(self <= -3, 0, where(self < 3, grad * (self / 3 + 0.5), grad))",
    doc="self * hardsigmoid(self) (Howard et al. 2019)",
)  # fmt: skip
_activation(
    "hardshrink", "self lambd", "where((self >= -lambd) & (self <= lambd), 0, self)",
    "hardshrink_backward(grad, self, lambd)", doc="0 within lambd of 0, else self",
)  # fmt: skip
_activation(
    "softshrink", "self lambd",
    "where(self > lambd, self - lambd, where(self < -lambd, self + lambd, self * 0))",
    "softshrink_backward(grad, self, lambd)", doc="self moved towards 0 by lambd",
)  # fmt: skip
_activation(
    "threshold", "self threshold value", "where(self <= threshold, value, self)",
    "threshold_backward(grad, self, threshold)", doc="self above the threshold, else the value",
    lowest=INTEGER, node_in_place="ThresholdBackward1",
)  # fmt: skip
_activation(
    "prelu_kernel", "self weight", "where(self > 0, self, weight * self)",
    {"self": "leaky_relu_backward(grad, self, weight)",
     "weight": "where(self > 0, 0, self * grad)"},
    doc="self where positive, else scaled by a learned weight (He et al. 2015)",
)  # fmt: skip
_activation(
    "rrelu_with_noise", "self noise", "where(self > 0, self, noise * self)",
    "leaky_relu_backward(grad, self, noise)", doc="self where positive, else scaled by the noise",
    node_in_place="RreluWithNoiseBackward1",
)  # fmt: skip


# Derivatives with kinks of their own. In PyTorch each is an operator with a derivative by its
# input, even a zero one: what a second derivative is asked for by has one.
def _slope(name: str, parameters: str, forward: str, by: Mapping[str, str] = {}) -> None:
    call = f"{name}(grad, self{''.join(f', {x}' for x in parameters.split())})"
    zero = "where(grad == grad, 0, 0)"  # for infinite gradients too
    op(name, f"grad_output self {parameters}", forward, inline=True, method=False, inplace=False,
       grad={"grad_output": call, "self": zero, **by}, domain=(0.1, 2.0),
       categories=(FLOATING, FLOATING), doc=f"the gradient of {name.removesuffix('_backward')}",
       )  # fmt: skip


_slope("threshold_backward", "threshold", "where(self <= threshold, 0, grad_output)")
_slope(
    "leaky_relu_backward", "negative_slope",
    "where(self > 0, grad_output, grad_output * negative_slope)",
    {"negative_slope": "where(self > 0, 0, grad * grad_output)"},
)  # fmt: skip
_slope(
    "elu_backward", "alpha scale input_scale",
    "where(self <= 0, grad_output * input_scale * alpha * scale * exp(self * input_scale),"
    " grad_output * scale)",
    {"self": "where(self < 0, grad * grad_output * input_scale * input_scale * alpha * scale"
     " * exp(self * input_scale), 0)"},
)  # fmt: skip
_slope(
    "hardtanh_backward", "min_val max_val",
    "where((self <= min_val) | (self >= max_val), 0, grad_output)",
)  # fmt: skip
_slope(
    "hardshrink_backward", "lambd", "where((self >= -lambd) & (self <= lambd), 0, grad_output)"
)  # fmt: skip
_slope(
    "softshrink_backward", "lambd", "where((self >= -lambd) & (self <= lambd), 0, grad_output)"
)  # fmt: skip
