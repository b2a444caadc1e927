"""Lazy modules: the same values, states and errors as PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import check, check_raises

pytestmark = [
    pytest.mark.usefixtures("reseeded"),
    pytest.mark.filterwarnings("ignore:Lazy modules are a new feature"),
]


@pytest.fixture
def reseeded(seed: Any) -> None:
    """Tests seed both libraries as they like; undone afterwards."""


# A module by name, how it is made, and the input that tells it the rest.
KINDS: dict[str, tuple[Any, dict[str, Any], tuple[int, ...]]] = {
    "LazyLinear": ((3,), {}, (2, 5)),
    "LazyLinear without bias": ((3,), {"bias": False}, (2, 1, 5)),
    "LazyConv1d": ((4, 3), {"groups": 2}, (1, 2, 6)),
    "LazyConv2d": ((4, 3), {"stride": 2}, (2, 6, 6)),
    "LazyConv3d": ((2, 2), {}, (1, 2, 3, 3, 3)),
    "LazyConvTranspose1d": ((4, 3), {"bias": False}, (1, 2, 5)),
    "LazyConvTranspose2d": ((2, 2), {}, (1, 2, 3, 3)),
    "LazyConvTranspose3d": ((2, 2), {}, (1, 2, 3, 3, 3)),
    "LazyBatchNorm1d": ((), {}, (4, 3)),
    "LazyBatchNorm2d": ((), {"track_running_stats": False}, (2, 3, 2, 2)),
    "LazyBatchNorm3d": ((), {"affine": False}, (2, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": ((), {}, (2, 3, 4)),
    "LazyInstanceNorm2d": ((), {"affine": False}, (2, 3, 2, 2)),
    "LazyInstanceNorm3d": ((1e-3,), {"track_running_stats": False}, (2, 3, 2, 2, 2)),
}


def lazy(lib: Any, name: str, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(lib.nn, name.split()[0])(*args, **options)


@pytest.mark.parametrize("name", KINDS)
def test_the_first_call_makes_a_plain_module(name: str) -> None:
    args, options, shape = KINDS[name]

    def run(lib: Any, x: Any) -> Any:
        lib.manual_seed(0)
        module = lazy(lib, name, *args, dtype=lib.float64, **options)
        before = [str(module), list(module.state_dict()), module.has_uninitialized_params()]
        kept = list(module.parameters())
        out = module(x)
        same = [a is b for a, b in zip(kept, module.parameters(), strict=True)]
        return out, before, same, str(module), type(module).__name__, dict(module.state_dict())

    check(run, shape, grad=1, version=False, strides="ignore", rtol=1e-9, atol=1e-11)


def test_states() -> None:
    def run(lib: Any, x: Any) -> Any:
        lib.manual_seed(0)
        full, empty = lib.nn.Linear(3, 2), lazy(lib, "LazyLinear", 2)
        filled = lazy(lib, "LazyLinear", 2)
        filled.load_state_dict(full.state_dict())
        shown = [str(filled), filled.has_uninitialized_params()]
        empty.load_state_dict(lazy(lib, "LazyLinear", 2).state_dict())
        twice = lazy(lib, "LazyLinear", 2).double()
        return filled(x.float()), shown, str(filled), twice(x), str(empty), empty.weight.dtype

    check(run, (4, 3), grad=0, version=False, strides="ignore", rtol=1e-5)
    check_raises(
        lambda lib: lib.nn.Linear(3, 2).load_state_dict(lazy(lib, "LazyLinear", 2).state_dict()),
        match="Can't access the shape of an uninitialized parameter or buffer",
    )


def test_copies_and_pickles() -> None:
    module = jg.nn.Sequential(jg.nn.LazyLinear(2), jg.nn.LazyLinear(3))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other[0].weight is not module[0].weight
        assert other(jg.ones(1, 4)).shape == (1, 3)
        assert str(other[1]) == "Linear(in_features=2, out_features=3, bias=True)"
    assert module[0].has_uninitialized_params()


WRONG: dict[str, tuple[Any, str]] = {
    "shape": (lambda m: m.weight.shape, "Can't access the shape of an uninitialized parameter"),
    "addition": (lambda m: m.weight + 1, "Attempted to use an uninitialized parameter"),
    "sum": (lambda m: m.weight.sum(), "Attempted to use an uninitialized parameter"),
    "count": (lambda m: m.weight.numel(), "Attempted to use an uninitialized parameter"),
    "detach": (lambda m: m.weight.detach(), "Attempted to use an uninitialized parameter"),
    "zero": (lambda m: m.weight.zero_(), "Attempted to use an uninitialized parameter"),
}


@pytest.mark.parametrize("case", WRONG)
def test_placeholders_cannot_be_used(case: str) -> None:
    call, match = WRONG[case]
    check_raises(lambda lib: call(lazy(lib, "LazyLinear", 3)), match=match)


def test_inputs_that_do_not_fit() -> None:
    check_raises(
        lambda lib, x: lazy(lib, "LazyConv2d", 4, 3)(x), (3, 5), match="input to LazyConv2d, but"
    )
    check_raises(
        lambda lib, x: lazy(lib, "LazyConv2d", 4, 3, groups=2)(x),
        (1, 3, 5, 5), match="in_channels must be divisible by groups",
    )  # fmt: skip


def test_optimizers_take_them_before() -> None:
    module = jg.nn.LazyLinear(1, dtype=jg.float64)
    optimizer = jg.optim.SGD(module.parameters(), lr=0.5)
    module(jg.ones(1, 2, dtype=jg.float64)).sum().backward()
    before = module.weight.detach().clone()
    optimizer.step()
    assert (before - module.weight).tolist() == [[0.5, 0.5]]
