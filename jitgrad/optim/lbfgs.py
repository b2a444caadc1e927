"""L-BFGS: a quasi-Newton method in the memory of a few gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..dispatch.convert import clone
from ..dispatch.creation import zeros
from ..dispatch.shape import cat
from ..tensor import Tensor
from ._line_search import Point, strong_wolfe
from .optimizer import Optimizer, check_lr, number

_LEAST_CURVATURE = 1e-10  # of a step along which it may enter the memory


class LBFGS(Optimizer):
    """The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno (Liu & Nocedal 1989).

    Each step runs up to ``max_iter`` iterations: the direction is the gradient times an estimate of
    the inverse Hessian, built from the last ``history_size`` steps and changes of the gradient;
    then comes a step of ``lr``, or a line search. There is one group only, and its state is kept
    with the first parameter.

    Args:
        lr: the length of the step, or of the line search's first try.
        max_iter: iterations in a step.
        max_eval: calls of the closure in a step (``1.25 * max_iter`` by default).
        tolerance_grad: stop where no element of the gradient is larger.
        tolerance_change: stop where neither loss nor parameters change by more.
        history_size: how many steps are remembered.
        line_search_fn: ``"strong_wolfe"`` or None.

    Raises:
        ValueError: for a negative learning rate, or more than one group.
        RuntimeError: in ``step``, for another line search.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run the iterations.

        Args:
            closure: clears the gradients, computes the loss and its gradients, and returns it; it
                is called many times.

        Returns:
            The first loss.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        with no_grad():
            return self._iterate(closure)

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        (group,) = self.param_groups
        params = group["params"]
        line = _Line(params, closure)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        lr, most = number(group["lr"]), group["tolerance_change"]
        held = self.state[params[0]]
        held.setdefault("func_evals", 0)
        held.setdefault("n_iter", 0)
        first_loss, loss, grad = line.evaluate()
        held["func_evals"] += 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first_loss
        evaluated = 1
        for iteration in range(1, group["max_iter"] + 1):
            held["n_iter"] += 1
            if held["n_iter"] == 1:
                held.update(d=-grad, old_dirs=[], old_stps=[], ro=[], H_diag=1)
                step = min(1.0, 1.0 / grad.abs().sum().item()) * lr
            else:
                _remember(held, grad, group["history_size"])
                held["d"] = _direction(held, grad, group["history_size"])
                step = lr
            held["prev_flat_grad"], held["prev_loss"] = clone(grad), loss
            held["t"] = step
            direction, before = held["d"], loss
            slope = grad.dot(direction).item()
            if slope > -most:
                break
            calls = 0
            if group["line_search_fn"]:
                found, calls = strong_wolfe(
                    line.starting_at(direction),
                    Point(0.0, loss, grad, slope),
                    step,
                    _largest(direction),
                    max_evaluations=group["max_eval"] - evaluated,
                )
                step, loss, grad = found.step, found.loss, found.grad
                held["t"] = step
                line.move(direction, step)
            else:
                line.move(direction, step)
                if iteration < group["max_iter"]:  # what follows the last one is not looked at
                    _, loss, grad = line.evaluate()
                    calls = 1
            evaluated += calls
            held["func_evals"] += calls
            if (
                evaluated >= group["max_eval"]
                or _largest(grad) <= group["tolerance_grad"]
                or _largest(direction * step) <= most
                or abs(loss - before) < most
            ):
                break
        return first_loss


class _Line:
    """The parameters as one vector, and the loss along lines through them."""

    def __init__(self, params: list[Tensor], closure: Callable[[], Any]) -> None:
        self.params = params
        self.closure = closure

    def evaluate(self) -> tuple[Any, float, Tensor]:
        """The closure's result, as a number too, and the gradient."""
        with enable_grad():
            result = self.closure()
        return result, float(result), self._gradient()

    def _gradient(self) -> Tensor:
        return cat(
            [
                zeros(p.numel(), dtype=p.layout.dtype) if p.grad is None else p.grad.reshape(-1)
                for p in self.params
            ]
        )

    def move(self, direction: Tensor, step: float) -> None:
        """Go a step of this length."""
        at = 0
        for p in self.params:
            count = p.numel()
            p.add_(direction[at : at + count].view(p.shape), alpha=step)
            at += count

    def starting_at(self, direction: Tensor) -> Callable[[float], Point]:
        """The loss as a function of the length of a step from here, which is not taken."""
        start = [clone(p) for p in self.params]

        def at(step: float) -> Point:
            self.move(direction, step)
            _, loss, grad = self.evaluate()
            for p, value in zip(self.params, start, strict=True):
                p.copy_(value)
            return Point(step, loss, grad, grad.dot(direction).item())

        return at


def _largest(x: Tensor) -> float:
    """The largest absolute value."""
    return x.abs().max().item()


def _remember(held: dict[str, Any], grad: Tensor, history_size: int) -> None:
    """Take the last step and its change of the gradient into the memory."""
    change = grad - held["prev_flat_grad"]
    step = held["d"] * number(held["t"])
    curvature = change.dot(step)
    if curvature.item() <= _LEAST_CURVATURE:
        return
    if len(held["old_dirs"]) == history_size:
        for name in ("old_dirs", "old_stps", "ro"):
            held[name].pop(0)
    held["old_dirs"].append(change)
    held["old_stps"].append(step)
    held["ro"].append(1.0 / curvature)
    held["H_diag"] = curvature / change.dot(change)


def _direction(held: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
    """Minus the gradient times the inverse Hessian of the memory, by its two recursions."""
    memory = list(zip(held["old_dirs"], held["old_stps"], held["ro"], strict=True))
    along = held.setdefault("al", [None] * history_size)
    result = -grad
    for i, (change, step, inverse) in reversed(list(enumerate(memory))):
        along[i] = step.dot(result) * inverse
        result.sub_(change, alpha=along[i].item())
    result = result * number(held["H_diag"])
    for i, (change, step, inverse) in enumerate(memory):
        back = change.dot(result) * inverse
        result.add_(step, alpha=(along[i] - back).item())
    return result
