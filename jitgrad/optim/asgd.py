"""Averaged stochastic gradient descent."""

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
        "param = param * kept - eta * grad",
        "ax = ax + mu * (param - ax)",
    ]
    return Rule(
        "param grad ax",
        "step eta mu",
        "sign lr lambd alpha t0 weight_decay",
        steps,
        before=["step = step + 1"],
        once=["kept = 1 - lambd * eta"],
        after=[
            "eta = lr / (1 + lambd * lr * step) ** alpha",
            "mu = 1 / max(1.0, step - t0)",
        ],
    )


class ASGD(RuleOptimizer):
    """Gradient descent and, in ``state[p]["ax"]``, the mean of the parameters on their way (Polyak
    & Juditsky 1992): ``param -= eta * (grad + lambd * param)`` with
    ``eta = lr / (1 + lambd * lr * step) ** alpha``.

    Args:
        lr: the learning rate, a number or a tensor of one element.
        lambd: how strongly parameters decay.
        alpha: how fast the learning rate falls.
        t0: the step from which on the mean is taken.
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
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        return {
            "step": new_scalar(),
            "eta": new_scalar(number(group["lr"])),
            "mu": new_scalar(1.0),
            "ax": zeros_like(p),
        }

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0)

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**group, "sign": sign_of(group)}
