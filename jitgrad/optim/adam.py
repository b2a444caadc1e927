"""Adam and AdamW."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..dispatch.creation import zeros_like
from ..dispatch.rules import Rule
from ..tensor import Tensor
from ._stepping import RuleOptimizer, opening
from .optimizer import (
    at_least_0,
    check_betas,
    check_implementation,
    check_lr,
    new_scalar,
    sign_of,
    to_scalar,
)


@functools.cache
def _rule(decays: bool, decoupled: bool, amsgrad: bool) -> Rule:
    steps = opening(decays, decoupled)
    steps.append("exp_avg = exp_avg + rest1 * (grad - exp_avg)")
    steps.append("exp_avg_sq = exp_avg_sq * beta2 + rest2 * grad * grad")
    second = "exp_avg_sq"
    if amsgrad:
        steps.append("max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)")
        second = "max_exp_avg_sq"
    steps.append(f"denominator = sqrt({second}) / correction2 + eps")
    steps.append("param = param - step_size * (exp_avg / denominator)")
    once = [
        "kept = 1 - lr * weight_decay",
        "rest1 = 1 - beta1",
        "rest2 = 1 - beta2",
        "step_size = lr / (1 - beta1**step)",
        "correction2 = (1 - beta2**step) ** 0.5",
    ]
    names = "param grad exp_avg exp_avg_sq" + (" max_exp_avg_sq" if amsgrad else "")
    numbers = "sign lr beta1 beta2 eps weight_decay"
    return Rule(names, "step", numbers, steps, before=["step = step + 1"], once=once)


class Adam(RuleOptimizer):
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
        check_lr(lr)
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        at_least_0(eps, "Invalid epsilon value: {}")
        check_betas(betas)
        at_least_0(weight_decay, "Invalid weight_decay value: {}")
        _check_tensor_betas(betas, bool(foreach), capturable)
        betas = (to_scalar(betas[0]), to_scalar(betas[1]))
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_implementation(foreach, fused, differentiable)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        begun = {"step": new_scalar(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
        if group["amsgrad"]:
            begun["max_exp_avg_sq"] = zeros_like(p)
        return begun

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        decoupled = group["decoupled_weight_decay"]
        return _rule(group["weight_decay"] != 0, decoupled, group["amsgrad"])

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        beta1, beta2 = group["betas"]
        return {**group, "beta1": beta1, "beta2": beta2, "sign": sign_of(group)}


def _check_tensor_betas(betas: tuple[Any, Any], foreach: bool, capturable: bool) -> None:
    tensors = [isinstance(beta, Tensor) for beta in betas]
    if any(tensors) and not all(tensors):
        raise ValueError("betas must be either both floats or both Tensors")
    for index, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            if foreach and not capturable:
                raise ValueError(
                    f"betas[{index}] as a Tensor is not supported for capturable=False and "
                    "foreach=True"
                )
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{index}] must be 1-element")


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
