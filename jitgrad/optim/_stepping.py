"""Optimizers whose step is a rule: the same assignments for every element of every parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from .. import errors
from ..autograd.grad_mode import no_grad, set_grad_enabled
from ..dispatch.rules import Rule
from ..tensor import Tensor
from .optimizer import Optimizer, new_scalar, number


def opening(decays: bool, decoupled: bool = False) -> list[str]:
    """How rules begin: the gradient's sign, and weight decay as part of it or (``decoupled``) of
    the parameter, which ``kept`` then says how much of is kept."""
    steps = ["grad = sign * grad"]
    if decays:
        steps.append("param = param * kept" if decoupled else "grad = grad + weight_decay * param")
    return steps


class RuleOptimizer(Optimizer):
    """A base for optimizers: subclasses say what a parameter's state is when it begins, which rule
    a group follows and with which numbers."""

    def _begin(self, group: Mapping[str, Any], p: Tensor, grad: Tensor) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _rule(self, group: Mapping[str, Any]) -> Rule:
        """The rule of a group."""
        raise NotImplementedError

    def _numbers(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rule's numbers by name; they may be tensors of one element."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss anew, with gradients; called once.

        Returns:
            The closure's result.
        """
        loss = self._evaluate(closure)
        where = errors.writer(f"{type(self).__name__}.step")
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                self._step_group(group, where)
        return loss

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also takes states of old, whose single numbers are no tensors."""
        super().__setstate__(state)
        for held in self.state.values():
            for name, value in held.items() if isinstance(held, dict) else ():
                if isinstance(value, int | float):
                    held[name] = new_scalar(float(value))

    def _step_group(self, group: dict[str, Any], where: Any) -> None:
        rule = self._rule(group)
        rows = self._rows(group, rule)
        if rows:
            self._run(rule, rows, self._numbers(group), group, where)

    def _rows(self, group: dict[str, Any], rule: Rule) -> list[Tensor]:
        """The tensors of the rule for every parameter that has a gradient, one after the other."""
        state, keys = self.state, rule.names[2:]
        pick = itemgetter(*keys) if len(keys) > 1 else lambda held: (held[keys[0]],)
        rows: list[Tensor] = []
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if keys:
                held = state[p]
                if not held:
                    with no_grad():
                        held.update(self._begin(group, p, grad))
                rows += (p, grad, *pick(held))
            else:
                rows += (p, grad)
        return rows

    def _run(
        self,
        rule: Rule,
        rows: list[Tensor],
        numbers: Mapping[str, Any],
        group: Mapping[str, Any],
        where: Any,
    ) -> None:
        if group.get("differentiable"):
            count = len(rule.names)
            for i in range(0, len(rows), count):
                rule.run_recorded(rows[i : i + count], numbers)
        else:
            rule.run(rows, [number(numbers[x]) for x in rule.numbers], where)
