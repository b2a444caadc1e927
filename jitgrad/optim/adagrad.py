"""Adagrad."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..dispatch.rules import Rule
from ..tensor import Tensor
from ._stepping import RuleOptimizer, opening
from .optimizer import at_least_0, check_implementation, check_lr, filled_like, new_scalar, sign_of


@functools.cache
def _rule(decays: bool) -> Rule:
    steps = [
        *opening(decays),
        "sum = sum + grad * grad",
        "param = param - step_size * (grad / (sqrt(sum) + eps))",
    ]
    return Rule(
        "param grad sum",
        "step",
        "sign lr lr_decay eps weight_decay",
        steps,
        before=["step = step + 1"],
        once=["step_size = lr / (1 + (step - 1) * lr_decay)"],
    )


class Adagrad(RuleOptimizer):
    """Each element's own learning rate, falling with the squares of its gradients (Duchi, Hazan &
    Singer 2011): ``sum += grad ** 2; param -= lr * grad / (sqrt(sum) + eps)``.

    Args:
        lr: the learning rate, a number or a tensor of one element.
        lr_decay: divides the learning rate by ``1 + lr_decay * steps before``.
        weight_decay: added to the gradient as ``weight_decay * param``.
        initial_accumulator_value: what ``sum`` begins with.
        maximize: ascend instead.
        foreach, fused: accepted; every update is fused here.
        differentiable: record the step itself.

    Raises:
        ValueError: for options outside their ranges.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        at_least_0(lr_decay, "Invalid lr_decay value: {}")
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        at_least_0(initial_accumulator_value, "Invalid initial_accumulator_value value: {}")
        at_least_0(eps, "Invalid epsilon value: {}")
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_implementation(foreach, fused, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._begin(group, p, p)

    def share_memory(self) -> None:
        """What PyTorch needs before processes train together; not supported here."""
        raise NotImplementedError("Adagrad.share_memory(): tensors here do not share memory")

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        initial = self.defaults["initial_accumulator_value"]
        return {"step": new_scalar(), "sum": filled_like(p, initial)}

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0)

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**group, "sign": sign_of(group)}
