"""Checkpoints: rule X4 and point 62."""

from __future__ import annotations

import importlib
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.semantics.common import back, f64, leaf, watch


@pytest.fixture
def check(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.utils.checkpoint")


@pytest.fixture
def calls() -> Iterator[list[int]]:
    yield []


def body(calls: list[int]) -> Any:
    def f(x: Any, factor: float = 1.0, **more: Any) -> Any:
        calls.append(1)
        return (x * x * factor).exp().sin()

    return f


def gradient(lib: Any, f: Any) -> Any:
    t = leaf(lib)
    back(f(t))
    return t.grad.tolist()


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_and_runs(lib: Any, check: Any, calls: list[int], reentrant: bool) -> None:
    f = body(calls)
    want = gradient(lib, f)
    calls.clear()
    t = leaf(lib)
    y = check.checkpoint(f, t, use_reentrant=reentrant)
    assert len(calls) == 1
    back(y, retain_graph=True)
    assert len(calls) == 2
    assert t.grad.tolist() == want
    back(y)
    assert len(calls) == 3
    with pytest.raises(RuntimeError, match="a second time"):
        back(y)


def test_grad_and_inputs(lib: Any, check: Any, calls: list[int]) -> None:
    f = body(calls)
    want = gradient(lib, f)
    t = leaf(lib)
    one = f64(lib, [1.0] * 3)
    (g,) = lib.autograd.grad(check.checkpoint(f, t, use_reentrant=False), t, one)
    assert g.tolist() == want
    phrase = "checkpoint is incompatible with"
    with pytest.raises(RuntimeError, match=phrase):
        lib.autograd.grad(check.checkpoint(f, t, use_reentrant=True), t, one)
    with pytest.raises(RuntimeError, match=phrase):
        check.checkpoint(f, t, use_reentrant=True).backward(one, inputs=[t])


def test_arguments(lib: Any, check: Any, calls: list[int]) -> None:
    t = leaf(lib)
    f = body(calls)
    y = check.checkpoint(f, t, factor=2.0, use_reentrant=False, other=[1])
    back(y)
    assert t.grad.tolist() == gradient(lib, lambda x: f(x, 2.0))
    with pytest.raises(ValueError, match="Unexpected keyword arguments: factor"):
        check.checkpoint(f, t, factor=2.0, use_reentrant=True)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        check.checkpoint(f, t, use_reentrant=False, determinism_check="foo")
    with pytest.raises(ValueError, match="`context_fn` or `debug` is only supported"):
        check.checkpoint(f, t, use_reentrant=True, context_fn=lambda: (None, None))
    t.grad = None

    def several(x: Any, items: Any, named: Any) -> Any:
        return x * items[0] * named["factor"], "text"

    y, text = check.checkpoint(several, t, [2.0], {"factor": 3.0}, use_reentrant=False)
    assert text == "text"
    back(y)
    assert t.grad.tolist() == [6.0] * 3
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        check.checkpoint(f, t)


def test_nothing_to_differentiate(lib: Any, check: Any, calls: list[int]) -> None:
    f = body(calls)
    t = leaf(lib)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check.checkpoint(f, t.detach(), use_reentrant=True)
    y = check.checkpoint(lambda x: x.detach() * 1, t, use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        back(y)
    with lib.no_grad():
        assert not check.checkpoint(f, t, use_reentrant=False).requires_grad


def test_a_second_run_that_differs(lib: Any, check: Any) -> None:
    def changing(first: Any, later: Any) -> Any:
        runs: list[int] = []

        def f(x: Any) -> Any:
            runs.append(1)
            return first(x) if len(runs) == 1 else later(x)

        return f

    t = leaf(lib)
    shapes = changing(lambda x: x.exp().sin(), lambda x: lib.cat([x, x]).exp().sin())
    with pytest.raises(check.CheckpointError, match="have different metadata"):
        back(check.checkpoint(shapes, t, use_reentrant=False))
    dtypes = changing(lambda x: x.exp().sin(), lambda x: x.to(lib.float32).exp().sin())
    with pytest.raises(check.CheckpointError, match="have different metadata"):
        back(check.checkpoint(dtypes, t, use_reentrant=False))
    number = changing(lambda x: x.exp().sin(), lambda x: x + 1)
    with pytest.raises(check.CheckpointError, match="A different number of tensors was saved"):
        back(check.checkpoint(number, t, use_reentrant=False))


def test_values_are_recomputed_for_every_access_outside_backward(
    lib: Any, check: Any, calls: list[int]
) -> None:
    y = check.checkpoint(body(calls), leaf(lib), use_reentrant=False)
    calls.clear()
    y.grad_fn._saved_self
    y.grad_fn._saved_self
    assert len(calls) == 2


def test_early_stop(lib: Any, check: Any) -> None:
    ends: list[int] = []

    def f(x: Any) -> Any:
        y = x.exp().sin()
        ends.append(1)
        return y

    t = leaf(lib)
    back(check.checkpoint(f, t, use_reentrant=False))
    assert len(ends) == 1
    with check.set_checkpoint_early_stop(False):
        y = check.checkpoint(f, t, use_reentrant=False)
    back(y)
    assert len(ends) == 3


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [False, True])
def test_nesting(lib: Any, check: Any, calls: list[int], reentrant: bool) -> None:
    f = body(calls)

    def outer(x: Any) -> Any:
        return check.checkpoint(f, f(x), use_reentrant=reentrant).exp()

    t = leaf(lib, [0.1, 0.2, 0.3])
    back(check.checkpoint(outer, t, use_reentrant=reentrant))
    want = leaf(lib, [0.1, 0.2, 0.3])
    back(f(f(want)).exp())
    assert t.grad.tolist() == pytest.approx(want.grad.tolist(), rel=1e-12)


@pytest.mark.parametrize("reentrant", [False, True])
def test_random_numbers_are_the_same(lib: Any, check: Any, reentrant: bool) -> None:
    def f(x: Any) -> Any:
        return x * lib.rand(3, dtype=lib.float64).exp()

    t = leaf(lib)
    before = lib.get_rng_state()
    try:
        y = check.checkpoint(f, t, use_reentrant=reentrant)
        lib.rand(5)
        after = lib.rand(2).tolist()
        lib.set_rng_state(before)
        y = check.checkpoint(f, t, use_reentrant=reentrant)
        lib.rand(5)
        back(y)
        assert lib.rand(2).tolist() == after  # the stream goes on as if nothing had happened
        assert (t.grad * t.detach()).tolist() == pytest.approx(y.tolist())
    finally:
        lib.set_rng_state(before)


def test_sequential(lib: Any, check: Any, calls: list[int]) -> None:
    f = body(calls)
    t, want = leaf(lib, [0.1, 0.2, 0.3]), leaf(lib, [0.1, 0.2, 0.3])
    back(check.checkpoint_sequential([f, f, f, f], 2, t, use_reentrant=False))
    back(f(f(f(f(want)))))
    assert t.grad.tolist() == pytest.approx(want.grad.tolist(), rel=1e-12)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        check.checkpoint_sequential([f, f], 2, t)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: other"):
        check.checkpoint_sequential([f, f], 2, t, use_reentrant=False, other=1)


def test_second_derivatives(lib: Any, check: Any) -> None:
    def second(f: Any) -> Any:
        t = leaf(lib)
        one = f64(lib, [1.0] * 3)
        (g,) = lib.autograd.grad(f(t), t, one, create_graph=True)
        (h,) = lib.autograd.grad(g, t, one)
        return h.tolist()

    def f(x: Any) -> Any:
        return (x * x).exp()

    got = second(lambda x: check.checkpoint(f, x, use_reentrant=False))
    assert got == pytest.approx(second(f), rel=1e-12)


def test_contexts(lib: Any, check: Any, calls: list[int]) -> None:
    from contextlib import contextmanager

    seen: list[str] = []

    @contextmanager
    def named(name: str) -> Iterator[None]:
        seen.append(name)
        yield

    def contexts() -> Any:
        return named("forward"), named("again")

    y = check.checkpoint(body(calls), leaf(lib), use_reentrant=False, context_fn=contexts)
    assert seen == ["forward"]
    back(y)
    assert seen == ["forward", "again"]


def test_an_error_in_the_second_run_keeps_its_type(lib: Any, check: Any) -> None:
    runs: list[int] = []

    def f(x: Any) -> Any:
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("mine")
        return x.exp()

    y = check.checkpoint(f, leaf(lib), use_reentrant=False)
    with pytest.raises(KeyError, match="mine"):
        back(y)
    assert lib.is_grad_enabled()
    back(y)


def test_what_is_recomputed_is_not_kept(lib: Any, check: Any, no_gc: None) -> None:
    inside: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        inside.append(weakref.ref(y))
        return (y * y).exp()

    t = leaf(lib)
    y = check.checkpoint(f, t, use_reentrant=False)
    assert inside[0]() is None
    alive = watch(y.grad_fn)
    back(y)
    assert inside[1]() is None
    del y
    assert alive() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back(check.checkpoint(f, t, use_reentrant=True))
