"""Adam and AdamW."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..tensor import Tensor
from ._fused import Update
from .optimizer import Optimizer, advance, check_options, new_step, number, zeros_of


@functools.cache
def _rule(maximize: bool, decays: bool, decoupled: bool, amsgrad: bool) -> Update:
    steps = []
    if maximize:
        steps.append("grad = -grad")
    if decays and decoupled:
        steps.append("param = param * kept")
    elif decays:
        steps.append("grad = grad + weight_decay * param")
    steps.append("exp_avg = exp_avg + rest1 * (grad - exp_avg)")
    steps.append("exp_avg_sq = exp_avg_sq * beta2 + rest2 * grad * grad")
    second = "exp_avg_sq"
    if amsgrad:
        steps.append("max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)")
        second = "max_exp_avg_sq"
    steps.append(f"denominator = sqrt({second}) / correction2 + eps")
    steps.append("param = param - step_size * (exp_avg / denominator)")
    names = "param grad exp_avg exp_avg_sq" + (" max_exp_avg_sq" if amsgrad else "")
    return Update(names, "step_size beta2 rest1 rest2 correction2 eps weight_decay kept", steps)


class Adam(Optimizer):
    """Adaptive moments (Kingma & Ba 2014).

    With m and v the running means of the gradient and of its square, corrected for their start at
    0: ``param -= lr * m / (sqrt(v) + eps)``.

    Args:
        lr: the learning rate, a number or a tensor of one element.
        betas: how slowly the two means forget.
        weight_decay: added to the gradient as ``weight_decay * param``.
        amsgrad: divide by the largest v so far (Reddi et al. 2018).
        maximize: ascend instead.
        foreach, capturable, fused: accepted; every update is fused here.
        differentiable: record the step itself.
        decoupled_weight_decay: shrink the parameter directly instead, as :class:`AdamW` does.

    Raises:
        ValueError: for options outside their ranges.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_options(lr, foreach, fused, differentiable, epsilon_value=eps)
        for index, beta in enumerate(betas):
            if not 0.0 <= number(beta) < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        check_options(lr, foreach, fused, differentiable, weight_decay_value=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns the closure's loss."""
        return self._step_each(closure, self._update)

    def _update(self, group: dict[str, Any], p: Tensor, grad: Tensor, where: Any) -> None:
        held = self.state[p]
        if not held:
            held["step"] = new_step()
            held["exp_avg"] = zeros_of(p)
            held["exp_avg_sq"] = zeros_of(p)
            if group["amsgrad"]:
                held["max_exp_avg_sq"] = zeros_of(p)
        count = advance(held["step"])
        beta1, beta2 = map(number, group["betas"])
        lr, decay = number(group["lr"]), group["weight_decay"]
        numbers = (
            lr / (1 - beta1**count),
            beta2,
            1 - beta1,
            1 - beta2,
            math.sqrt(1 - beta2**count),
            group["eps"],
            decay,
            1 - lr * decay,
        )
        amsgrad = group["amsgrad"]
        rule = _rule(group["maximize"], decay != 0, group["decoupled_weight_decay"], amsgrad)
        tensors: tuple[Tensor, ...] = (p, grad, held["exp_avg"], held["exp_avg_sq"])
        if amsgrad:
            tensors += (held["max_exp_avg_sq"],)
        if group["differentiable"]:
            rule.run_recorded(tensors, dict(zip(rule.numbers, numbers, strict=True)))
        else:
            rule.run(tensors, np.array(numbers, np.float64), where)


class AdamW(Adam):
    """:class:`Adam` whose weight decay shrinks the parameters directly, by ``lr * weight_decay``
    each step, instead of going through the means (Loshchilov & Hutter 2017)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip
