"""Adamax."""

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
def _rule(decays: bool) -> Rule:
    steps = [
        *opening(decays),
        "exp_avg = exp_avg + rest1 * (grad - exp_avg)",
        "exp_inf = maximum(exp_inf * beta2, abs(grad) + eps)",
        "param = param - step_size * (exp_avg / exp_inf)",
    ]
    return Rule(
        "param grad exp_avg exp_inf",
        "step",
        "sign lr beta1 beta2 eps weight_decay",
        steps,
        before=["step = step + 1"],
        once=["rest1 = 1 - beta1", "step_size = lr / (1 - beta1**step)"],
    )


class Adamax(RuleOptimizer):
    """Adam with the maximum in place of the mean square (Kingma & Ba 2014, section 7).

    With m the running mean of the gradient, corrected for its start at 0, and
    ``u = max(beta2 * u, |grad| + eps)``: ``param -= lr * m / u``.

    Args:
        lr: the learning rate, a number or a tensor of one element.
        betas: how slowly mean and maximum forget.
        weight_decay: added to the gradient as ``weight_decay * param``.
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
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        at_least_0(eps, "Invalid epsilon value: {}")
        check_betas(betas)
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        return {"step": new_scalar(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0)

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        beta1, beta2 = group["betas"]
        return {**group, "beta1": beta1, "beta2": beta2, "sign": sign_of(group)}
