"""Rprop."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..dispatch.creation import zeros_like
from ..dispatch.rules import Rule
from ..tensor import Tensor
from ._stepping import RuleOptimizer
from .optimizer import check_lr, filled_like, new_scalar, number, sign_of


@functools.cache
def _rule() -> Rule:
    return Rule(
        "param grad prev step_size",
        "step",
        "sign lower upper eta_minus eta_plus",
        [
            "grad = sign * grad",
            "agreement = grad * prev",
            "factor = where(agreement > 0, eta_plus, where(agreement < 0, eta_minus, unchanged))",
            "step_size = clamp(step_size * factor, lower, upper)",
            "grad = where(agreement < 0, nothing, grad)",
            "param = param - sgn(grad) * step_size",
            "prev = grad",
        ],
        before=["step = step + 1"],
        once=["unchanged = 1.0", "nothing = 0.0"],
    )


class Rprop(RuleOptimizer):
    """Steps whose size follows the signs of the gradient alone (Riedmiller & Braun 1993): it grows
    while the sign stays, shrinks when it turns, and a turn is not followed at once.

    Args:
        lr: the first step size, a number or a tensor of one element.
        etas: the factors by which step sizes shrink and grow.
        step_sizes: their lower and upper limit.
        maximize: ascend instead.
        foreach, capturable: accepted; every update is fused here.
        differentiable: record the step itself.

    Raises:
        ValueError: unless ``etas[0] < 1 < etas[1]``, or for a negative lr.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        return {
            "step": new_scalar(),
            "prev": zeros_like(p),
            "step_size": filled_like(grad, number(group["lr"])),
        }

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        return _rule()

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        (eta_minus, eta_plus), (lower, upper) = group["etas"], group["step_sizes"]
        return {
            "sign": sign_of(group),
            "lower": lower,
            "upper": upper,
            "eta_minus": eta_minus,
            "eta_plus": eta_plus,
        }
