"""What every row of the table saves can be read, packed and unpacked (S1, S7, X1, 23, 25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.autograd.graph import saved_tensors_hooks
from jitgrad.dispatch.elementwise import functions
from jitgrad.ops.table import ELEMENTWISE
from tests.semantics.test_derivatives import DIFFERENTIABLE, STRUCTURED_CASES, sample

Case = tuple[Callable[..., Any], Callable[[], list[Any]]]


def elementwise(name: str) -> Case:
    row = ELEMENTWISE[name]

    def number(i: int, which: str) -> Any:
        if which in row.booleans:
            return jg.tensor(np.random.default_rng(i).random((2, 3)) > 0.5)
        x = sample(() if which == "value" else (2, 3), *row.domain, seed=i)
        return x.detach() if which in row.underived else x

    def inputs() -> list[Any]:
        return [number(i, which) for i, which in enumerate(row.inputs)]

    return functions[name], inputs


def structured(name: str) -> Case:
    function, shapes = STRUCTURED_CASES[name]
    return function, lambda: [sample(s, 0.3, 2.0, seed) for seed, s in enumerate(shapes)]


CASES = {f"elementwise-{name}": elementwise(name) for name in DIFFERENTIABLE}
CASES.update({f"structured-{name}": structured(name) for name in STRUCTURED_CASES})


def outputs_of(function: Callable[..., Any], inputs: list[Any]) -> list[Any]:
    found = function(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    return [y for y in found if y.requires_grad]


def derivatives(outputs: list[Any], inputs: list[Any]) -> list[Any]:
    """Gradients, and gradients of those that have history."""
    wanted = [x for x in inputs if x.requires_grad]
    seeds = [(y.detach() * 0 + 1.5).requires_grad_() for y in outputs]
    first = jg.autograd.grad(outputs, wanted, seeds, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad]
    second: Any = ()
    if again:
        ones = [g.detach() * 0 + 0.5 for g in again]
        second = jg.autograd.grad(again, [*wanted, *seeds], ones, allow_unused=True)
    return [None if g is None else g.tolist() for g in (*first, *second)]


@pytest.mark.parametrize("case", CASES)
def test_packing_changes_nothing(case: str) -> None:
    function, make = CASES[case]
    inputs = make()
    want = derivatives(outputs_of(function, inputs), inputs)
    inputs = make()
    packed: list[Any] = []

    def pack(x: Any) -> Any:
        packed.append(x)
        return x.detach().clone()

    with saved_tensors_hooks(pack, lambda x: x):
        outputs = outputs_of(function, inputs)
        got = derivatives(outputs, inputs)
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None)
        if g is not None:
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-14)
    assert all(isinstance(x, jg.Tensor) for x in packed)


@pytest.mark.parametrize("case", CASES)
def test_everything_saved_can_be_read_until_it_is_freed(case: str) -> None:
    function, make = CASES[case]
    for position in range(len(outputs_of(function, make()))):
        y = outputs_of(function, make())[position]  # anew: outputs may share a node
        node = y.grad_fn
        names = [x for x in dir(node) if x.startswith("_saved_")]
        values = {name: getattr(node, name) for name in names}
        tensors = [x for x in names if f"_raw{x}" in dir(node) and values[x] is not None]
        for name in tensors:
            getattr(node, f"_raw{name}").register_hooks(lambda x: x.detach(), lambda x: x)
            value = getattr(node, name)
            if isinstance(value, jg.Tensor):
                assert value.tolist() == values[name].tolist()
        y.backward(y.detach() * 0 + 1)
        for name in tensors:
            with pytest.raises(RuntimeError, match="a second time"):
                getattr(node, name)
        if tensors:
            with pytest.raises(RuntimeError, match="a second time"):
                y.backward(y.detach() * 0 + 1)
