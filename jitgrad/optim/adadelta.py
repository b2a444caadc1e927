"""Adadelta."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..dispatch.creation import zeros_like
from ..dispatch.rules import Rule
from ..tensor import Tensor
from ._stepping import RuleOptimizer, opening
from .optimizer import at_least_0, check_lr, new_scalar, number, sign_of


@functools.cache
def _rule(decays: bool) -> Rule:
    steps = [
        *opening(decays),
        "square_avg = square_avg * rho + rest * grad * grad",
        "delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * grad",
        "acc_delta = acc_delta * rho + rest * delta * delta",
        "param = param - lr * delta",
    ]
    return Rule(
        "param grad square_avg acc_delta",
        "step",
        "sign lr rho eps weight_decay",
        steps,
        before=["step = step + 1"],
        once=["rest = 1 - rho"],
    )


class Adadelta(RuleOptimizer):
    """Steps in the units of the parameters themselves (Zeiler 2012): the gradient times the ratio
    of the root mean squares of past steps and of gradients.

    Args:
        lr: what the step is multiplied by, a number or a tensor of one element.
        rho: how slowly both means forget.
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
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= number(rho) <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        at_least_0(eps, "Invalid epsilon value: {}")
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        return {"step": new_scalar(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0)

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**group, "sign": sign_of(group)}
