"""Modes: point 60, and inference tensors (V8, 29, 30)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import jitgrad as jg
from tests.semantics.common import back, f64, leaf

INPLACE = "Inplace update to inference tensor outside InferenceMode"


# 60 -----------------------------------------------------------------------------------------------
def test_context_managers_nest_and_restore(lib: Any) -> None:
    on = lib.is_grad_enabled
    with lib.no_grad():
        assert not on()
        with lib.enable_grad():
            assert on()
            with lib.set_grad_enabled(False):
                assert not on()
            assert on()
        assert not on()
    assert on()
    with pytest.raises(ValueError), lib.no_grad():
        raise ValueError
    assert on()


def test_one_context_may_be_entered_twice() -> None:
    mode = jg.no_grad()  # torch's remembers only the last mode it found
    with mode:
        with mode:
            assert not jg.is_grad_enabled()
        assert not jg.is_grad_enabled()
    assert jg.is_grad_enabled()


def test_set_grad_enabled_acts_at_once(lib: Any) -> None:
    lib.set_grad_enabled(False)
    try:
        assert not lib.is_grad_enabled()
    finally:
        lib.set_grad_enabled(True)

    @lib.set_grad_enabled(False)
    def f() -> bool:
        return lib.is_grad_enabled()

    assert lib.is_grad_enabled()  # construction was undone
    assert not f()
    assert lib.is_grad_enabled()


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
@pytest.mark.parametrize("parentheses", [False, True])
def test_decorators(lib: Any, name: str, parentheses: bool) -> None:
    mode = getattr(lib, name)

    def f(a: int, *, b: int = 2) -> Any:
        """Its docstring."""
        return a, b, lib.is_grad_enabled()

    g = mode()(f) if parentheses else mode(f)
    enabled = name == "enable_grad"
    with lib.set_grad_enabled(not enabled):
        assert g(1, b=3) == (1, 3, enabled)
        assert lib.is_grad_enabled() is not enabled
    assert (g.__name__, g.__doc__) == ("f", "Its docstring.")


def test_generators_swap_the_mode_at_every_step(lib: Any) -> None:
    on = lib.is_grad_enabled
    seen: list[Any] = []

    @lib.no_grad()
    def steps() -> Any:
        try:
            got = yield on()
            seen.append((got, on()))
            try:
                yield on()
            except KeyError:
                seen.append(("thrown", on()))
            yield on()
        finally:
            seen.append(("closed", on()))

    g = steps()
    assert next(g) is False
    assert on()
    assert g.send("sent") is False
    assert on()
    assert g.throw(KeyError()) is False
    assert on()
    g.close()
    assert on()
    assert seen == [("sent", False), ("thrown", False), ("closed", False)]


def test_generators_return_values_and_raise(lib: Any) -> None:
    @lib.no_grad()
    def steps() -> Any:
        yield 1
        return 2

    def outer() -> Any:
        result = yield from steps()
        yield ("returned", result)

    assert list(outer()) == [1, ("returned", 2)]

    @lib.no_grad()
    def fails() -> Any:
        yield 1
        raise KeyError("mine")

    g = fails()
    next(g)
    with pytest.raises(KeyError, match="mine"):
        next(g)
    assert lib.is_grad_enabled()


def test_coroutines_hold_the_mode_only_while_they_run() -> None:
    # torch leaves coroutine functions as they are: the mode ends before they begin.
    @jg.no_grad()
    async def f() -> Any:
        before = jg.is_grad_enabled()
        await asyncio.sleep(0)
        return before, jg.is_grad_enabled()

    async def main() -> Any:
        task = asyncio.ensure_future(f())
        await asyncio.sleep(0)
        during = jg.is_grad_enabled()
        return during, await task

    assert asyncio.run(main()) == (True, (False, False))
    assert jg.is_grad_enabled()


def test_decorating_a_class_warns(lib: Any) -> None:
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @lib.no_grad()
        class Made:
            def __init__(self) -> None:
                self.mode = lib.is_grad_enabled()

    assert Made().mode is False


# V8, 29 -------------------------------------------------------------------------------------------
def test_inference_tensors(lib: Any) -> None:
    t = leaf(lib)
    with lib.inference_mode():
        assert lib.is_inference_mode_enabled()
        x = lib.ones(3, dtype=lib.float64)
        y = t * 2
        assert not lib.is_grad_enabled()
        x.add_(1)
    assert not lib.is_inference_mode_enabled()
    assert [v.is_inference() for v in (x, y, t)] == [True, True, False]
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        x._version
    with pytest.raises(RuntimeError, match=INPLACE):
        x.add_(1)
    with pytest.raises(RuntimeError, match=INPLACE):
        x.zero_()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        t * x
    back(t + x)  # saves nothing
    assert t.grad.tolist() == [1.0] * 3
    assert not x.clone().is_inference()
    assert not (x * 2).is_inference()
    back(t * x.clone())


def test_views_of_inference_tensors(lib: Any) -> None:
    with lib.inference_mode():
        x = lib.ones(3, dtype=lib.float64)
    for v in (x[1:], x.view(3, 1), x.unbind()[0]):
        assert v.is_inference()
        assert not v._is_view()
        assert v.is_leaf
        with pytest.raises(RuntimeError, match=INPLACE):
            v.add_(1)
    lib.autograd.graph.increment_version(x)  # silently nothing


# 30 -----------------------------------------------------------------------------------------------
def test_normal_tensors_in_inference_mode(lib: Any) -> None:
    a = lib.ones(3, dtype=lib.float64)
    with lib.inference_mode():
        a.add_(1)
        v = a[1:]
        assert not a.is_inference()
        assert a._version == 1
        assert v._is_view()
        assert not v.is_inference()
        with lib.inference_mode(False):
            assert lib.is_grad_enabled()
            assert not lib.ones(1).is_inference()
    a.requires_grad_()
    with pytest.raises(RuntimeError, match="is being modified inplace|is being used in an"):
        v.mul_(leaf(lib, [1.0, 2.0]))


def test_backward_in_inference_mode(lib: Any) -> None:
    t = leaf(lib)
    y = t * 2
    with lib.inference_mode():
        back(y)
        assert t.grad.is_inference()
    assert t.grad.tolist() == [2.0] * 3


def test_modes_belong_to_the_thread(lib: Any) -> None:
    seen: list[bool] = []
    with lib.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(lib.ones(1).is_inference()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_inference_and_hooks_together(lib: Any) -> None:
    t = leaf(lib)
    packed: list[Any] = []
    with lib.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x):
        with lib.inference_mode():
            t.exp()
        y = t.exp()
    assert len(packed) == 1
    back(y)
    assert t.grad.tolist() == y.tolist()
    assert f64(lib, [1.0]).add_(1)._version == 1


def test_versions_may_be_preserved(lib: Any) -> None:
    mode = lib.autograd.grad_mode._unsafe_preserve_version_counter
    t = leaf(lib)
    b = t * 1
    y = b * b
    with mode(b), lib.no_grad():
        b.mul_(10)
    assert b._version == 0
    back(y)
    assert t.grad.tolist() == [20.0, 40.0, 60.0]


def test_switches_that_are_only_accepted(lib: Any) -> None:
    modes = lib.autograd.grad_mode
    with modes.set_multithreading_enabled(False), modes._force_original_view_tracking(True):
        t = leaf(lib)
        back(t[1:] * 2)
    assert t.grad.tolist() == [0.0, 2.0, 2.0]
