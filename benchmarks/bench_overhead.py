"""What an operation costs beside its arithmetic: 16x16 tensors, short and long chains.

The tables of small operations are where an operator that has lost its plan shows: each is one call
(or the backward pass of one) on tensors so small that the interpreter is all there is to time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.workloads import array, uniform

SMALL = uniform(16, 16)


@pytest.mark.libraries("jitgrad", "torch")
def bench_recorded_add(race: Callable[..., None]) -> None:
    def build(lib: Any) -> Callable[[], object]:
        x, y = (array(lib, SMALL).requires_grad_() for _ in range(2))
        return partial(lib.add, x, y)

    race(build)


def bench_unrecorded_add(race: Callable[..., None]) -> None:
    race(lambda lib: partial(lib.add, array(lib, SMALL), array(lib, SMALL)))


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("length", [2, 200, 2000], ids="{} ops".format)
@pytest.mark.parametrize("part", ["forward", "forward and backward"])
def bench_chain(race: Callable[..., None], length: int, part: str) -> None:
    """mul and add in alternation, every operation recorded; the factors require no gradient."""

    def build(lib: Any) -> Callable[[], object]:
        leaf = array(lib, SMALL).requires_grad_()
        factor, shift = array(lib, 1 + 0.01 * SMALL), array(lib, SMALL)
        ones = array(lib, 1 + 0 * SMALL)

        def forward() -> Any:
            value = leaf
            for _ in range(length // 2):
                value = value * factor + shift
            return value

        def both() -> None:
            leaf.grad = None
            forward().backward(ones)

        return forward if part == "forward" else both

    race(build)


def operands(lib: Any) -> SimpleNamespace:
    """What the small operations work on; ``leaf`` and what is made of it require gradients."""
    leaf = array(lib, SMALL).requires_grad_()
    return SimpleNamespace(
        lib=lib,
        functional=lib.nn.functional,
        x=array(lib, SMALL),
        written=array(lib, SMALL),
        leaf=leaf,
        recorded=leaf * 1,
        weight=array(lib, SMALL).requires_grad_(),
        bias=array(lib, SMALL[0]).requires_grad_(),
        rows=array(lib, np.array([1, 2, 3])),
        labels=array(lib, np.arange(16) % 10),
        scalar=array(lib, SMALL[:1, 0]),
    )


Operation = Callable[[SimpleNamespace], object]

# Of x nothing is recorded; of recorded (which has a history) and leaf (which has none) it is.
OPERATIONS: dict[str, Operation] = {
    "exp": lambda o: o.x.exp(),
    "relu recorded": lambda o: o.functional.relu(o.recorded),
    "add in place": lambda o: o.written.add_(1),
    "clone recorded": lambda o: o.recorded.clone(),
    "sum": lambda o: o.x.sum(),
    "sum recorded": lambda o: o.recorded.sum(),
    "sum(0) recorded": lambda o: o.recorded.sum(0),
    "mean recorded": lambda o: o.recorded.mean(),
    "max(1)": lambda o: o.x.max(1),
    "softmax": lambda o: o.x.softmax(1),
    "softmax recorded": lambda o: o.recorded.softmax(1),
    "log_softmax recorded": lambda o: o.recorded.log_softmax(1),
    "cross_entropy recorded": lambda o: o.functional.cross_entropy(o.recorded, o.labels),
    "mse_loss recorded": lambda o: o.functional.mse_loss(o.recorded, o.x),
    "mm": lambda o: o.x @ o.x,
    "mm recorded": lambda o: o.recorded @ o.x,
    "linear": lambda o: o.functional.linear(o.x, o.x, o.x[0]),
    "linear recorded": lambda o: o.functional.linear(o.x, o.weight, o.bias),
    "view": lambda o: o.x.view(4, 64),
    "view recorded": lambda o: o.recorded.view(4, 64),
    "reshape": lambda o: o.x.reshape(4, 64),
    "t": lambda o: o.x.t(),
    "t recorded": lambda o: o.recorded.t(),
    "expand recorded": lambda o: o.recorded.expand(3, 16, 16),
    "detach": lambda o: o.x.detach(),
    "detach recorded": lambda o: o.recorded.detach(),
    "x[3]": lambda o: o.x[3],
    "x[3] recorded": lambda o: o.recorded[3],
    "x[1:3]": lambda o: o.x[1:3],
    "x[1, 2]": lambda o: o.x[1, 2],
    "x[rows]": lambda o: o.x[o.rows],
    "x[rows] recorded": lambda o: o.recorded[o.rows],
    "x[3] = 1": lambda o: o.written.__setitem__(3, 1.0),
    "cat": lambda o: o.lib.cat([o.x, o.x]),
    "cat recorded": lambda o: o.lib.cat([o.recorded, o.recorded]),
    "stack": lambda o: o.lib.stack([o.x, o.x]),
    "item": lambda o: o.scalar.item(),
    "zeros": lambda o: o.lib.zeros(16, 16),
    "zeros_like": lambda o: o.lib.zeros_like(o.x),
    "tensor": lambda o: o.lib.tensor([1.0, 2.0]),
    "double": lambda o: o.x.double(),
    "copy_": lambda o: o.written.copy_(o.x),
    "fill_": lambda o: o.written.fill_(1.0),
    "zero_": lambda o: o.written.zero_(),
}


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("operation", OPERATIONS)
def bench_operation(race: Callable[..., None], operation: str) -> None:
    race(lambda lib: partial(OPERATIONS[operation], operands(lib)))


BACKWARDS: dict[str, Callable[[SimpleNamespace], Any]] = {
    "mul": lambda o: o.leaf * o.x,
    "add a row": lambda o: o.x + o.bias,
    "relu": lambda o: o.functional.relu(o.leaf),
    "sum": lambda o: o.leaf.sum(),
    "mean": lambda o: o.leaf.mean(),
    "softmax": lambda o: o.leaf.softmax(1),
    "cross_entropy": lambda o: o.functional.cross_entropy(o.leaf, o.labels),
    "mm": lambda o: o.leaf @ o.weight,
    "linear": lambda o: o.functional.linear(o.leaf, o.weight, o.bias),
    "view": lambda o: o.leaf.view(4, 64),
    "t": lambda o: o.leaf.t(),
    "x[3]": lambda o: o.leaf[3],
    "x[rows]": lambda o: o.leaf[o.rows],
    "cat": lambda o: o.lib.cat([o.leaf, o.weight]),
}


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("operation", BACKWARDS)
def bench_backward(race: Callable[..., None], operation: str) -> None:
    """``autograd.grad`` through one operation, its graph kept."""

    def build(lib: Any) -> Callable[[], object]:
        o = operands(lib)
        out = BACKWARDS[operation](o)
        leaves = [x for x in (o.leaf, o.weight, o.bias) if _depends(lib, out, x)]
        seed = lib.ones_like(out)
        return lambda: lib.autograd.grad(out, leaves, seed, retain_graph=True)

    race(build)


def _depends(lib: Any, out: Any, leaf: Any) -> bool:
    seed = lib.ones_like(out)
    (grad,) = lib.autograd.grad(out, leaf, seed, retain_graph=True, allow_unused=True)
    return grad is not None
