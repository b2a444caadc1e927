"""Stochastic gradient descent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..tensor import Tensor
from ._fused import Update
from .optimizer import Optimizer, check_options, number, zeros_of


@functools.cache
def _rule(maximize: bool, decays: bool, momentum: bool, nesterov: bool) -> Update:
    steps = []
    if maximize:
        steps.append("grad = -grad")
    if decays:
        steps.append("grad = grad + weight_decay * param")
    if momentum:
        steps.append("momentum_buffer = momentum * momentum_buffer + rate * grad")
        steps.append(f"grad = {'grad + momentum * ' if nesterov else ''}momentum_buffer")
    steps.append("param = param - lr * grad")
    names = "param grad momentum_buffer" if momentum else "param grad"
    return Update(names, "lr weight_decay momentum rate", steps)


class SGD(Optimizer):
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
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr, foreach, fused, differentiable, momentum_value=momentum,
                      weight_decay_value=weight_decay)  # fmt: skip
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns the closure's loss."""
        return self._step_each(closure, self._update)

    def _update(self, group: dict[str, Any], p: Tensor, grad: Tensor, where: Any) -> None:
        momentum, decay = group["momentum"], group["weight_decay"]
        rule = _rule(group["maximize"], decay != 0, momentum != 0, group["nesterov"])
        rate = 1.0 - group["dampening"]
        tensors: tuple[Tensor, ...] = (p, grad)
        if momentum != 0:
            held = self.state[p]
            buffer = held.get("momentum_buffer")
            if buffer is None:
                buffer = held["momentum_buffer"] = zeros_of(p)
                rate = 1.0
            tensors = (p, grad, buffer)
        numbers = (number(group["lr"]), decay, momentum, rate)
        if group["differentiable"]:
            rule.run_recorded(tensors, dict(zip(rule.numbers, numbers, strict=True)))
        else:
            rule.run(tensors, np.array(numbers, np.float64), where)
