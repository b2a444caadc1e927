"""Full backward hooks of modules: two identity nodes around a call, and hooks on these nodes.

The node around the results sees the gradients that enter the module, the node around the arguments
those that leave it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..state import GRAD, modes
from ..tensor import Tensor
from .function import Function

Hook = Callable[..., Any]


class BackwardHookFunction(Function):
    """Passes tensors on, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*(x for x in args if not x.requires_grad))
        return args

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return grads


class BackwardHook:
    """The hooks of one call of a module.

    Call :meth:`setup_input_hook` with the arguments and :meth:`setup_output_hook` with the result
    of the call, and use what they return instead.

    Args:
        module: what the hooks get first.
        user_hooks: ``hook(module, grad_inputs, grad_outputs)``; may return other grad_inputs.
        user_pre_hooks: ``hook(module, grad_outputs)``; may return others.
    """

    def __init__(
        self, module: Any, user_hooks: Iterable[Hook], user_pre_hooks: Iterable[Hook] = ()
    ) -> None:
        self.module = module
        self.user_hooks = list(user_hooks)
        self.user_pre_hooks = list(user_pre_hooks)
        self.inputs = 0  # how many arguments the module got
        self.input_places: list[int] | None = None  # which of them are tensors on the way back
        self.grad_outputs: tuple[Any, ...] | None = None

    def setup_input_hook(self, args: Sequence[Any]) -> Any:
        """The arguments, of which tensors are passed on by a node that is watched."""
        self.inputs = len(args)
        wrapped, places, node = _passed_on(args)
        if node is not None:
            self.input_places = places
            node.register_hook(self._leaving)
        return wrapped

    def setup_output_hook(self, result: Any) -> Any:
        """The result (a tensor or a tuple), passed on in the same way."""
        single = not isinstance(result, tuple)
        results = (result,) if single else result
        wrapped, places, node = _passed_on(results)
        if node is not None:
            node.register_prehook(lambda grads: self._entering(grads, places, len(results)))
        return wrapped[0] if single else wrapped

    def _entering(self, grads: tuple[Any, ...], places: list[int], count: int) -> Any:
        spread = _spread(grads, places, count)
        for hook in self.user_pre_hooks:
            replaced = hook(self.module, spread)
            if replaced is not None:
                spread = _as_many(replaced, spread, "pre hook", "grad_output")
        self.grad_outputs = spread
        if self.input_places is None:
            self._without_inputs(spread)
        return tuple(spread[place] for place in places)

    def _without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        if self.user_hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients.",
                UserWarning,
                stacklevel=2,
            )
        nothing = (None,) * self.inputs
        for hook in self.user_hooks:
            returned = hook(self.module, nothing, grad_outputs)
            if returned is not None and any(g is not None for g in returned):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None

    def _leaving(self, grads: tuple[Any, ...], _: Any) -> Any:
        if self.grad_outputs is None or self.input_places is None:
            return None  # the results were not used
        spread = _spread(grads, self.input_places, self.inputs)
        for hook in self.user_hooks:
            replaced = hook(self.module, spread, self.grad_outputs)
            if replaced is not None:
                spread = _as_many(replaced, spread, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(spread[place] for place in self.input_places)


def _passed_on(values: Sequence[Any]) -> tuple[tuple[Any, ...], list[int], Any]:
    """Values whose tensors went through a node; with the places of these, and the node or None."""
    values = tuple(values)
    places = [i for i, x in enumerate(values) if isinstance(x, Tensor)]
    recorded = modes.mode & GRAD and any(values[i].requires_grad for i in places)
    if not recorded:
        return values, places, None
    wrapped = list(values)
    for place, tensor in zip(
        places, BackwardHookFunction.apply(*(values[i] for i in places)), strict=True
    ):
        wrapped[place] = tensor
    node = next(wrapped[i].grad_fn for i in places if wrapped[i].grad_fn is not None)
    return tuple(wrapped), places, node


def _spread(grads: Sequence[Any], places: Sequence[int], count: int) -> tuple[Any, ...]:
    """Gradients at their places, None elsewhere."""
    spread: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=True):
        spread[place] = grad
    return tuple(spread)


def _as_many(returned: Any, expected: Sequence[Any], which: str, what: str) -> tuple[Any, ...]:
    values = returned if isinstance(returned, tuple) else (returned,)
    if len(values) != len(expected):
        raise RuntimeError(
            f"Backward {which} returned an invalid number of {what}, got {len(values)}, but "
            f"expected {len(expected)}"
        )
    return values
