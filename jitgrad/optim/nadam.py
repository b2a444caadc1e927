"""NAdam."""

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
        "denominator = sqrt(exp_avg_sq / correction2) + eps",
        "param = param - grad_rate * (grad / denominator) - mean_rate * (exp_avg / denominator)",
    ]
    mu = "beta1 * (1 - 0.5 * 0.96 ** ({} * momentum_decay))"
    return Rule(
        "param grad exp_avg exp_avg_sq",
        "step mu_product",
        "sign lr beta1 beta2 eps weight_decay momentum_decay",
        steps,
        before=[
            "step = step + 1",
            f"mu_product = mu_product * ({mu.format('step')})",
        ],
        once=[
            "kept = 1 - lr * weight_decay",
            "rest1 = 1 - beta1",
            "rest2 = 1 - beta2",
            "correction2 = 1 - beta2**step",
            f"mu = {mu.format('step')}",
            f"mu_next = {mu.format('(step + 1)')}",
            "grad_rate = lr * (1 - mu) / (1 - mu_product)",
            "mean_rate = lr * mu_next / (1 - mu_product * mu_next)",
        ],
    )


class NAdam(RuleOptimizer):
    """Adam with Nesterov's momentum (Dozat 2016).

    The mean of the gradient enters with the momentum that the next step will have, the gradient
    itself with the rest of this one's; the momentum rises from ``beta1 / 2`` to ``beta1``.

    Args:
        lr: the learning rate, a number or a tensor of one element.
        betas: how slowly the means of the gradient and of its square forget.
        weight_decay: added to the gradient as ``weight_decay * param``.
        momentum_decay: how quickly the momentum rises.
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
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        at_least_0(momentum_decay, "Invalid momentum_decay value: {}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        return {
            "step": new_scalar(),
            "mu_product": new_scalar(1.0),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0, group["decoupled_weight_decay"])

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        beta1, beta2 = group["betas"]
        return {**group, "beta1": beta1, "beta2": beta2, "sign": sign_of(group)}
