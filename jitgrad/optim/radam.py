"""RAdam."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..dispatch.creation import zeros_like
from ..dispatch.rules import Rule
from ..tensor import Tensor
from ._stepping import RuleOptimizer, opening
from .optimizer import at_least_0, check_betas, check_lr, new_scalar, sign_of


@functools.cache
def _rule(decays: bool, decoupled: bool) -> Rule:
    steps = [
        *opening(decays, decoupled),
        "exp_avg = exp_avg + rest1 * (grad - exp_avg)",
        "exp_avg_sq = exp_avg_sq * beta2 + rest2 * grad * grad",
        "scale = adapted / (sqrt(exp_avg_sq) + eps) + plain",
        "param = param - step_size * exp_avg * scale",
    ]
    return Rule(
        "param grad exp_avg exp_avg_sq",
        "step",
        "sign lr beta1 beta2 eps weight_decay",
        steps,
        before=["step = step + 1"],
        once=[
            "kept = 1 - lr * weight_decay",
            "rest1 = 1 - beta1",
            "rest2 = 1 - beta2",
            "step_size = lr / (1 - beta1**step)",
            "correction2 = 1 - beta2**step",
            "longest = 2 / (1 - beta2) - 1",
            "length = longest - 2 * step * beta2**step / correction2",
            "rectified = (length - 4) * (length - 2) * longest"
            " / ((longest - 4) * (longest - 2) * length)",
            "adapted = (correction2 * rectified) ** 0.5 if length > 5 else 0.0",
            "plain = 0.0 if length > 5 else 1.0",
        ],
    )


class RAdam(RuleOptimizer):
    """Adam that does not divide by the mean square until enough gradients have entered it, and
    allows for its variance afterwards (Liu et al. 2019).

    Args:
        lr: the learning rate, a number or a tensor of one element.
        betas: how slowly the means of the gradient and of its square forget.
        weight_decay: added to the gradient as ``weight_decay * param``.
        decoupled_weight_decay: shrink the parameter directly instead, as AdamW does.
        maximize: ascend instead.
        foreach, capturable: accepted; every update is fused here.
        differentiable: record the step itself.

    Raises:
        ValueError: for options outside their ranges.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        at_least_0(eps, "Invalid epsilon value: {}")
        check_betas(betas)
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        return {"step": new_scalar(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0, group["decoupled_weight_decay"])

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        beta1, beta2 = group["betas"]
        return {**group, "beta1": beta1, "beta2": beta2, "sign": sign_of(group)}
