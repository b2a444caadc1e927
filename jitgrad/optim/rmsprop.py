"""RMSprop."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..dispatch.creation import zeros_like
from ..dispatch.rules import Rule
from ..tensor import Tensor
from ._stepping import RuleOptimizer, opening
from .optimizer import at_least_0, check_lr, new_scalar, sign_of


@functools.cache
def _rule(decays: bool, momentum: bool, centered: bool) -> Rule:
    steps = opening(decays)
    steps.append("square_avg = square_avg * alpha + rest * grad * grad")
    variance = "square_avg"
    names = "param grad square_avg"
    if centered:
        names += " grad_avg"
        steps.append("grad_avg = grad_avg + rest * (grad - grad_avg)")
        variance = "square_avg - grad_avg * grad_avg"
    steps.append(f"scaled = grad / (sqrt({variance}) + eps)")
    if momentum:
        names += " momentum_buffer"
        steps.append("momentum_buffer = momentum * momentum_buffer + scaled")
        steps.append("scaled = momentum_buffer")
    steps.append("param = param - lr * scaled")
    return Rule(
        names,
        "step",
        "sign lr alpha eps weight_decay momentum",
        steps,
        before=["step = step + 1"],
        once=["rest = 1 - alpha"],
    )


class RMSprop(RuleOptimizer):
    """The gradient divided by the root of the running mean of its square (Tieleman & Hinton 2012):
    ``v = alpha * v + (1 - alpha) * grad ** 2; param -= lr * grad / (sqrt(v) + eps)``.

    Args:
        lr: the learning rate, a number or a tensor of one element.
        alpha: how slowly the mean forgets.
        weight_decay: added to the gradient as ``weight_decay * param``.
        momentum: accumulate the steps, forgetting as slowly as this says.
        centered: divide by the root of the variance instead (Graves 2013).
        maximize: ascend instead.
        foreach, capturable: accepted; every update is fused here.
        differentiable: record the step itself.

    Raises:
        ValueError: for options outside their ranges.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        at_least_0(eps, "Invalid epsilon value: {}")
        at_least_0(momentum, "Invalid momentum value: {}")
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        at_least_0(alpha, "Invalid alpha value: {}")
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        begun = {"step": new_scalar(), "square_avg": zeros_like(p)}
        if group["momentum"] > 0:
            begun["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            begun["grad_avg"] = zeros_like(p)
        return begun

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0, group["momentum"] > 0, group["centered"])

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**group, "sign": sign_of(group)}
