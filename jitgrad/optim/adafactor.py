"""Adafactor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..autograd.grad_mode import no_grad
from ..dispatch.creation import zeros, zeros_like
from ..tensor import Tensor
from ..typeinfo import finfo
from .optimizer import Optimizer, at_least_0, check_lr, new_scalar, number, sign_of


class Adafactor(Optimizer):
    """Adam's second moments in the memory of a row and a column (Shazeer & Stern 2018).

    Of a matrix's squared gradients only the running means along rows and columns are kept; their
    outer product, over the mean of all, stands for the second moments. The learning rate is
    relative to the size of the parameter, and updates whose root mean square exceeds ``d`` are cut.

    Args:
        lr: the largest relative learning rate, a number or a tensor of one element; it falls as
            ``1 / sqrt(step)``.
        beta2_decay: the means move by ``step ** beta2_decay`` towards what is new.
        eps: the least second moment (None: that of the dtype), and the least size of a parameter.
        d: the largest root mean square of an update.
        weight_decay: shrinks the parameter by ``lr * weight_decay`` each step.
        foreach: accepted.
        maximize: ascend instead.

    Raises:
        ValueError: for options outside their ranges.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            at_least_0(eps[0], "epsilon1 should be >= 0 but is: {}")
        at_least_0(eps[1], "epsilon2 should be >= 0 but is: {}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        at_least_0(weight_decay, "weight_decay should be >= 0 but is: {}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

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
            raise RuntimeError("Adafactor does not support complex parameters")
        held = self.state[p]
        if not held:
            held.update(_begin(grad))
        held["step"].add_(1)
        step, lr = held["step"].item(), number(group["lr"])
        least, smallest = group["eps"]
        if least is None:
            least = finfo(p.layout.dtype).eps
        grad = grad * sign_of(group)
        size = max(smallest, _root_mean_square(p))
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        moments = _second_moments(held, grad, step ** group["beta2_decay"], least)
        update = grad * moments.clamp(min=least * least).rsqrt()
        rate = min(lr, step**-0.5) * size
        p.sub_(update, alpha=rate / max(1.0, _root_mean_square(update) / group["d"]))


def _begin(grad: Tensor) -> dict[str, Any]:
    begun: dict[str, Any] = {"step": new_scalar()}
    if grad.ndim > 1:
        *outer, rows, columns = grad.layout.shape
        begun["row_var"] = zeros(*outer, rows, 1, dtype=grad.layout.dtype)
        begun["col_var"] = zeros(*outer, 1, columns, dtype=grad.layout.dtype)
    else:
        begun["variance"] = zeros_like(grad)
    return begun


def _second_moments(held: Mapping[str, Any], grad: Tensor, rate: float, least: float) -> Tensor:
    """The running estimate of the squared gradient, after ``grad`` has entered it."""
    squares = grad * grad
    if grad.ndim <= 1:
        return held["variance"].lerp_(squares, rate)
    rows = held["row_var"].lerp_(squares.mean(-1, keepdim=True), rate)
    columns = held["col_var"].lerp_(squares.mean(-2, keepdim=True), rate)
    return rows @ columns / rows.mean(-2, keepdim=True).clamp(min=least)


def _root_mean_square(x: Tensor) -> float:
    return x.norm(2).item() / x.numel() ** 0.5
