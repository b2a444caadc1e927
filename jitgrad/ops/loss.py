"""Losses of single elements, and what their gradients are made of.

For each loss there are two rows: the loss itself, and the gradient of its sum or mean, in which
``scale`` is 1 / n for a mean, so that one kernel makes the whole gradient. Reductions are put round
them by dispatch/loss.py.
"""

from __future__ import annotations

from typing import Any

from ..dtypes import FLOATING
from .table import camel_case, op

_FLOATS: dict[str, Any] = {"categories": (FLOATING, FLOATING), "method": False, "inplace": False}


def _pair(name: str, inputs: str, forward: str, slopes: dict[str, str], doc: str,
          curvatures: dict[str, dict[str, str]]) -> None:  # fmt: skip
    """A loss, and for each input its gradient row; ``curvatures`` are the slopes' derivatives."""
    node = f"{camel_case(name)}Backward0"
    op(f"_{name}", inputs, forward, doc=doc, node=node, **_FLOATS,
       grad={x: f"grad * ({slope})" for x, slope in slopes.items()})  # fmt: skip
    for x, slope in slopes.items():
        op(f"_{name}_backward_{x}", f"grad_output scale {inputs}",
           f"grad_output * scale * ({slope})", doc=f"the gradient of {name} for {x}",
           node=f"{camel_case(name)}BackwardBackward0",
           grad={"grad_output": f"grad * scale * ({slope})"}
           | {y: f"grad * grad_output * scale * ({c})" for y, c in curvatures[x].items()},
           **_FLOATS)  # fmt: skip


def _of_difference(
    name: str, inputs: str, forward: str, slope: str, curvature: str, doc: str
) -> None:
    """A loss of ``self - target``: the second slope is the negative of the first, and so on."""
    _pair(
        name, inputs, forward, {"self": slope, "target": f"-({slope})"}, doc,
        {"self": {"self": curvature, "target": f"-({curvature})"},
         "target": {"self": f"-({curvature})", "target": curvature}},
    )  # fmt: skip


_D = "(self - target)"
_of_difference(
    "mse_loss", "self target", f"{_D} * {_D}", f"2 * {_D}", "2 + 0 * self", "the squared difference"
)
_of_difference(
    "smooth_l1_loss", "self target beta",
    f"where(abs{_D} < beta, 0.5 * {_D} * {_D} / beta, abs{_D} - 0.5 * beta)",
    f"where(abs{_D} < beta, {_D} / beta, sgn{_D})", f"where(abs{_D} < beta, 1 / beta, 0)",
    "the absolute difference, rounded off by a parabola within beta (Girshick 2015)",
)  # fmt: skip
_of_difference(
    "huber_loss", "self target delta",
    f"where(abs{_D} <= delta, 0.5 * {_D} * {_D}, delta * (abs{_D} - 0.5 * delta))",
    f"where(abs{_D} <= delta, {_D}, delta * sgn{_D})", f"where(abs{_D} <= delta, 1, 0 * delta)",
    "half the squared difference, continued straight beyond delta (Huber 1964)",
)  # fmt: skip

_LOG, _LOG_1 = "maximum(log(self), -100)", "maximum(log1p(-self), -100)"
_ODDS = "maximum(self * (1 - self), 1e-12)"
_pair(
    "binary_cross_entropy", "self target weight",
    f"-(target * {_LOG} + (1 - target) * {_LOG_1}) * weight",
    {"self": f"(self - target) / {_ODDS} * weight", "target": f"({_LOG_1} - {_LOG}) * weight"},
    "the cross entropy of a probability; its logarithms are kept above -100",
    {"self": {"self": f"(self * self - 2 * self * target + target) / ({_ODDS} * {_ODDS}) * weight",
              "target": f"-weight / {_ODDS}"},
     "target": {"self": f"-weight / {_ODDS}"}},
)  # fmt: skip
_pair(
    "binary_cross_entropy_with_logits", "self target weight pos_weight",
    "((1 - target) * self + (1 + (pos_weight - 1) * target) * (log1p(exp(-abs(self))) + "
    "maximum(-self, 0))) * weight",
    {"self": "((1 - target) - (1 + (pos_weight - 1) * target) * sigmoid(-self)) * weight",
     "target": "((pos_weight - 1) * (log1p(exp(-abs(self))) + maximum(-self, 0)) - self) * weight"},
    "the cross entropy of sigmoid(self), without overflow",
    {"self": {"self": "(1 + (pos_weight - 1) * target) * sigmoid(self) * sigmoid(-self) * weight",
              "target": "(-1 - (pos_weight - 1) * sigmoid(-self)) * weight"},
     "target": {"self": "(-1 - (pos_weight - 1) * sigmoid(-self)) * weight"}},
)  # fmt: skip
_pair(
    "soft_margin_loss", "self target",
    "maximum(-target * self, 0) + log1p(exp(-abs(target * self)))",
    {"self": "-target * sigmoid(-target * self)"}, "log(1 + exp(-target * self))",
    {"self": {"self": "target * target * sigmoid(target * self) * sigmoid(-target * self)"}},
)  # fmt: skip
