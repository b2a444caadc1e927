"""Muon."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..dispatch.creation import zeros_like
from ..tensor import Tensor
from .optimizer import Optimizer, at_least_0, check_lr, number

_ADJUSTMENTS = ("original", "match_rms_adamw")


class Muon(Optimizer):
    """Momentum whose updates are made orthogonal (Jordan et al. 2024).

    For the weight matrices of hidden layers; biases and the like need another optimizer. Singular
    values of the momentum are brought near 1 by a few steps of a Newton-Schulz iteration, here in
    the parameters' own dtype (PyTorch rounds to bfloat16 for it).

    Args:
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: shrinks the parameter by ``lr * weight_decay`` each step.
        momentum: how slowly the mean of the gradients forgets.
        nesterov: look ahead of the mean.
        ns_coefficients: a, b and c of the iteration ``X = a X + (b X X' + c (X X')^2) X``.
        eps: the least norm that the momentum is divided by.
        ns_steps: how often to iterate.
        adjust_lr_fn: how the learning rate follows the shape: ``"original"`` (the default) or
            ``"match_rms_adamw"`` (Liu et al. 2025).

    Raises:
        ValueError: for parameters that are not matrices, and options outside their ranges.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        at_least_0(momentum, "momentum should be >= 0 but is: {}")
        at_least_0(weight_decay, "weight decay should be >= 0 but is: {}")
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns the closure's loss."""
        loss = self._evaluate(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._update(group, p, p.grad)
        return loss

    def _update(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> None:
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        held, lr, momentum = self.state[p], number(group["lr"]), group["momentum"]
        if "momentum_buffer" not in held:
            held["momentum_buffer"] = zeros_like(grad)
        mean = held["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = orthogonalized(
            grad.lerp(mean, momentum) if group["nesterov"] else mean,
            group["ns_coefficients"],
            group["ns_steps"],
            group["eps"],
        )
        p.mul_(1 - lr * group["weight_decay"])
        p.sub_(update, alpha=lr * _adjustment(group["adjust_lr_fn"], *p.shape))


def orthogonalized(x: Tensor, coefficients: Sequence[float], steps: int, eps: float) -> Tensor:
    """A matrix with its singular values brought near 1, by Newton-Schulz iterations."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    rows, columns = x.shape
    y = x.t() if rows > columns else x  # the smaller of the two Gram matrices
    y = y / max(y.norm().item(), eps)
    for _ in range(steps):
        gram = y @ y.t()
        y = a * y + (b * gram + c * (gram @ gram)) @ y
    return y.t() if rows > columns else y


def _adjustment(name: str | None, rows: int, columns: int) -> float:
    """The factor of the learning rate for a matrix of this shape."""
    if name == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
