"""Small helpers of the rule tests."""

from __future__ import annotations

import weakref
from typing import Any


def leaf(lib: Any, values: Any = (1.0, 2.0, 3.0)) -> Any:
    """A float64 leaf that requires grad."""
    return lib.tensor(list(values), dtype=lib.float64, requires_grad=True)


def f64(lib: Any, values: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64)


def back(y: Any, value: float = 1.0, **options: Any) -> None:
    """Backward from ``y`` with a constant gradient."""
    y.backward(y.detach() * 0 + value, **options)


class Canary:
    """Something whose life can be watched: put it on what should be freed."""


def watch(node: Any) -> weakref.ref[Canary]:
    """A reference that dies with the node."""
    canary = Canary()
    node.metadata["canary"] = canary
    return weakref.ref(canary)


def scale(lib: Any, factor: float = 2.0) -> Any:
    """A custom function that multiplies by a number and saves its input."""

    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ctx.saved_tensors
            return grad * factor

    return Scale
