"""Stochastic gradient descent."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..dispatch.creation import zeros_like
from ..dispatch.rules import Rule
from ..tensor import Tensor
from ._stepping import RuleOptimizer, opening
from .optimizer import at_least_0, check_implementation, check_lr, sign_of


@functools.cache
def _rule(decays: bool, momentum: bool, nesterov: bool) -> Rule:
    steps = opening(decays)
    if momentum:
        steps.append("momentum_buffer = momentum * momentum_buffer + rate * grad")
        steps.append(f"grad = {'grad + momentum * ' if nesterov else ''}momentum_buffer")
    steps.append("param = param - lr * grad")
    tensors = "param grad momentum_buffer" if momentum else "param grad"
    return Rule(tensors, "", "sign lr weight_decay momentum rate", steps)


class SGD(RuleOptimizer):
    """Gradient descent with momentum, Nesterov's momentum and weight decay.

    ``buffer = momentum * buffer + (1 - dampening) * grad; param -= lr * buffer``, the first buffer
    being the first gradient itself (Sutskever et al. 2013).

    Args:
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: added to the gradient as ``weight_decay * param``.
        maximize: ascend instead.
        foreach, fused: accepted; every update is fused here.
        differentiable: record the step itself.

    Raises:
        ValueError: for a negative option, or nesterov without momentum or with dampening.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        at_least_0(momentum, "Invalid momentum value: {}")
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_implementation(foreach, fused, differentiable)

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule(group["weight_decay"] != 0, group["momentum"] != 0, group["nesterov"])

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**group, "sign": sign_of(group), "rate": 1 - group["dampening"]}

    def _step_group(self, group: dict[str, Any], where: Any) -> None:
        if group["momentum"] == 0:
            super()._step_group(group, where)
            return
        # The first gradients of some parameters enter their buffers undamped.
        fresh = []
        for p in group["params"]:
            if p.grad is not None and self.state[p].get("momentum_buffer") is None:
                fresh.append(p)
        if not fresh:
            super()._step_group(group, where)
            return
        known = {id(p) for p in fresh}
        begun = [p for p in group["params"] if id(p) not in known]
        for p in fresh:
            self.state[p]["momentum_buffer"] = zeros_like(p)
        super()._step_group({**group, "params": fresh, "dampening": 0}, where)
        super()._step_group({**group, "params": begun}, where)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        return {"momentum_buffer": zeros_like(p)}
