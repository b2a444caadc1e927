"""nn.utils.prune: the masks, parameters and errors that PyTorch has for the same seed."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.oracle import check, check_raises

pytestmark = pytest.mark.usefixtures("reseeded")


@pytest.fixture
def reseeded(seed: Any) -> None:
    """Tests seed both libraries as they like; undone afterwards."""


def pruning(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.nn.utils.prune")


def layer(lib: Any) -> Any:
    lib.manual_seed(4)
    return lib.nn.Linear(4, 3, dtype=lib.float64)


METHODS: dict[str, Any] = {
    "identity": lambda p, lib, m: p.identity(m, "weight"),
    "l1": lambda p, lib, m: p.l1_unstructured(m, "weight", 5),
    "l1 part": lambda p, lib, m: p.l1_unstructured(m, "weight", 0.3),
    "l1 of scores": lambda p, lib, m: p.l1_unstructured(
        m, "weight", 3, importance_scores=lib.arange(12.0).reshape(3, 4)
    ),
    "random": lambda p, lib, m: p.random_unstructured(m, "weight", 0.5),
    "structured": lambda p, lib, m: p.ln_structured(m, "weight", 1, 2, 0),
    "structured, last": lambda p, lib, m: p.ln_structured(m, "weight", 0.5, 1, -1),
    "random structured": lambda p, lib, m: p.random_structured(m, "weight", 0.5, 1),
    "mask": lambda p, lib, m: p.custom_from_mask(m, "weight", lib.eye(3, 4)),
    "nothing": lambda p, lib, m: p.random_unstructured(m, "weight", 0),
    "twice": lambda p, lib, m: p.ln_structured(
        p.random_unstructured(p.l1_unstructured(m, "weight", 3), "weight", 2), "weight", 1, 2, 0
    ),
    "together": lambda p, lib, m: p.global_unstructured(
        [(m, "weight"), (m, "bias")], p.L1Unstructured, amount=0.5
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    def run(lib: Any, x: Any) -> Any:
        prune, module = pruning(lib), layer(lib)
        METHODS[name](prune, lib, module)
        out = module(x)
        out.sin().sum().backward(retain_graph=True)
        grads = {key: p.grad for key, p in module.named_parameters()}
        state, flags = dict(module.state_dict()), [prune.is_pruned(module)]
        prune.remove(module, "weight")
        flags.append(prune.is_pruned(module))
        return out, grads, state, flags, dict(module.named_parameters())

    check(run, (2, 4), version=False, strides="ignore", grad_fn=False, rtol=1e-9, atol=1e-11)


def test_the_container() -> None:
    def run(lib: Any) -> Any:
        prune, module = pruning(lib), layer(lib)
        prune.l1_unstructured(module, "weight", 3)
        prune.random_structured(module, "weight", 1, 0)
        (hook,) = module._forward_pre_hooks.values()
        pruned = prune.L1Unstructured(2).prune(lib.arange(5.0) - 2)
        return [type(m).__name__ for m in hook], len(hook), type(hook[1]).__name__, pruned

    check(run, version=False)


WRONG: dict[str, tuple[Any, str]] = {
    "negative": (lambda p, m, lib: p.l1_unstructured(m, "weight", -1), "amount=-1 should either"),
    "part": (lambda p, m, lib: p.l1_unstructured(m, "weight", 1.5), "amount=1.5 should either be"),
    "type": (lambda p, m, lib: p.l1_unstructured(m, "weight", "x"), "Invalid type for amount: x"),
    "too many": (lambda p, m, lib: p.l1_unstructured(m, "weight", 100), "to prune=12"),
    "name": (lambda p, m, lib: p.l1_unstructured(m, "x", 1), "object has no attribute 'x'"),
    "vector": (lambda p, m, lib: p.ln_structured(m, "bias", 1, 2, 0), "multidimensional tensors"),
    "dim": (lambda p, m, lib: p.ln_structured(m, "weight", 1, 2, 5), "Invalid index 5 for tensor"),
    "pairs": (lambda p, m, lib: p.global_unstructured(3, p.L1Unstructured), "not an Iterable"),
    "kind": (
        lambda p, m, lib: p.global_unstructured([(m, "bias")], p.LnStructured, amount=1, n=2),
        'Only "unstructured" PRUNING_TYPE supported',
    ),
    "mask": (lambda p, m, lib: p.custom_from_mask(m, "weight", lib.eye(3)), "must match self.mask"),
    "not pruned": (lambda p, m, lib: p.remove(m, "weight"), "has to be pruned before pruning can"),
    "no method": (
        lambda p, m, lib: p.PruningContainer().add_pruning_method(3),
        "is not a BasePruningMethod subclass",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str) -> None:
    call, match = WRONG[case]

    def run(lib: Any) -> Any:
        module = layer(lib)
        before = sorted(module.state_dict())
        try:
            call(pruning(lib), module, lib)
        finally:
            assert sorted(module.state_dict()) == before

    check_raises(run, match=match)
