"""Saved tensors and the tools around them: rules S1, S2, S7, X1 to X3, points 19 to 28."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import pytest

import jitgrad as jg
from tests.semantics.common import back, f64, leaf, watch

MODIFIED = "modified by an inplace operation"
FREED = "Trying to backward through the graph a second time"


def hooks(lib: Any, pack: Any, unpack: Any) -> Any:
    return lib.autograd.graph.saved_tensors_hooks(pack, unpack)


# S1, S2, 20, 22, 23: attributes -------------------------------------------------------------------
def test_only_what_is_needed_is_saved(lib: Any) -> None:
    t, c = leaf(lib), f64(lib, [4.0, 5.0, 6.0])
    node = (t * c).grad_fn
    assert node._saved_other is c
    assert node._saved_self is None
    node = (c * t).grad_fn
    assert node._saved_self is c
    assert node._saved_other is None
    assert (t * 2).grad_fn._saved_other.item() == 2
    assert t.pow(2).grad_fn._saved_exponent == 2


def test_inputs_are_saved_as_they_are_and_results_as_aliases(lib: Any) -> None:
    t = leaf(lib)
    assert t.pow(2).grad_fn._saved_self is t
    b = t * 1
    assert b.pow(2).grad_fn._saved_self is b
    y = t.exp()
    kept = y.grad_fn._saved_result
    assert kept is not y
    assert kept.grad_fn is y.grad_fn
    assert kept.data_ptr() == y.data_ptr()
    assert kept._version == y._version
    assert not kept._is_view()


def test_unknown_and_unsaved_attributes(lib: Any) -> None:
    y = leaf(lib) * 2
    with pytest.raises(AttributeError, match="_saved_nothing"):
        y.grad_fn._saved_nothing
    with pytest.raises(AttributeError):
        (leaf(lib) + 1).grad_fn._saved_self
    assert {"_saved_self", "_saved_other", "_raw_saved_self"} <= set(dir(y.grad_fn))


def test_attributes_of_freed_nodes(lib: Any) -> None:
    y = leaf(lib).exp()
    raw = y.grad_fn._raw_saved_result
    back(y)
    with pytest.raises(RuntimeError, match=FREED):
        y.grad_fn._saved_result
    with pytest.raises(RuntimeError, match="after it has been freed"):
        raw.register_hooks(lambda x: x, lambda x: x)


def test_raw_saved_tensors_take_one_pair_of_hooks(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    y = b * b
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda x: x.detach() * 10, lambda x: x)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        y.grad_fn._raw_saved_self.register_hooks(lambda x: x, lambda x: x)
    assert y.grad_fn._saved_self.tolist() == [10.0, 20.0, 30.0]
    back(y)
    assert t.grad.tolist() == [11.0, 22.0, 33.0]
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        (t * 2).grad_fn._raw_saved_self.register_hooks(lambda x: x, lambda x: x)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        t.exp().grad_fn._raw_saved_result.register_hooks(1, 2)


def test_hooks_on_what_a_function_saved(lib: Any) -> None:
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, _ = ctx.saved_tensors
            return 2 * x * g

    t = leaf(lib)
    y = Square.apply(t)
    first, second = y.grad_fn._raw_saved_tensors
    first.register_hooks(lambda x: x.detach() + 1, lambda x: x)
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        second.register_hooks(lambda x: x, lambda x: x)
    back(y)
    assert t.grad.tolist() == [4.0, 6.0, 8.0]


# 19: versions -------------------------------------------------------------------------------------
def test_writes_are_noticed(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    y = b * b
    with lib.no_grad():
        b.add_(1)
    with pytest.raises(RuntimeError, match=f"{MODIFIED}.*is at version 1; expected version 0"):
        back(y)
    b = t * 1
    y = b + 1
    b.mul_(2)
    back(y)  # add saved nothing


def test_increment_version(lib: Any) -> None:
    b = leaf(lib) * 1
    y = b * b
    lib.autograd.graph.increment_version(b)
    assert b._version == 1
    with pytest.raises(RuntimeError, match=MODIFIED):
        back(y)
    whole = lib.ones(2, dtype=lib.int64)
    lib.autograd.graph.increment_version([whole, b])
    assert (whole._version, b._version) == (1, 2)


# X1, 21, 24, 25, 27: saved_tensors_hooks ----------------------------------------------------------
def test_what_pack_hooks_see(lib: Any) -> None:
    seen: list[Any] = []
    t, c = leaf(lib), f64(lib, [4.0, 5.0, 6.0])

    def pack(x: Any) -> Any:
        seen.append((x, lib.is_grad_enabled(), x.requires_grad))
        return x

    with hooks(lib, pack, lambda x: x):
        t * c
        t * 2  # a number is no tensor
        t + c
    ((x, recorded, needs),) = seen
    assert x is c
    assert (recorded, needs) == (False, False)
    seen.clear()
    b = t * 1
    with hooks(lib, pack, lambda x: x):
        b * b
        t.exp()
    assert [x is b for x, *_ in seen] == [True, True, False]
    assert all(needs and not recorded for _, recorded, needs in seen)


def test_unpacked_tensors_get_their_history_back(lib: Any) -> None:
    t = leaf(lib)
    calls: list[str] = []

    def unpack(x: Any) -> Any:
        calls.append("unpack")
        return x.clone()

    b = t * 1
    with hooks(lib, lambda x: x.detach(), unpack):
        leaf_square, square, exp = t * t, b * b, t.exp()
    saved = leaf_square.grad_fn._saved_self
    assert (saved.is_leaf, saved.requires_grad) == (True, True)
    assert square.grad_fn._saved_self.grad_fn is b.grad_fn
    assert exp.grad_fn._saved_result.grad_fn is exp.grad_fn
    calls.clear()
    one = f64(lib, [1.0] * 3)
    (g,) = lib.autograd.grad(leaf_square, t, one, create_graph=True)
    assert len(calls) == 2
    back(g)
    assert t.grad.tolist() == [2.0] * 3
    (g,) = lib.autograd.grad(exp, t, one, create_graph=True)
    (h,) = lib.autograd.grad(g, t, one)
    assert h.tolist() == exp.tolist()


def test_packed_tensors_have_no_version(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    with hooks(lib, lambda x: x.clone(), lambda x: x):
        y = b * b
    saved = y.grad_fn._saved_self
    b.mul_(100)
    assert saved._version == 0
    back(y)
    assert t.grad.tolist() == [2.0, 4.0, 6.0]


def test_hooks_that_misbehave(lib: Any) -> None:
    t = leaf(lib)
    with hooks(lib, lambda x: 3, lambda x: x):
        y = t.exp()
    phrase = "unpack_hook expected to be a Tensor but got result of type int"
    with pytest.raises(TypeError, match=phrase):
        back(y)
    with hooks(lib, lambda x: x.mul_(2), lambda x: x):
        with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
            (t * 1).exp()
    assert lib.is_grad_enabled()

    def fail(x: Any) -> Any:
        raise KeyError("mine")

    with hooks(lib, fail, lambda x: x), pytest.raises(KeyError, match="mine"):
        t.exp()
    with hooks(lib, lambda x: x, fail):
        y = t.exp()
    with pytest.raises(KeyError, match="mine"):
        back(y)


def test_only_the_innermost_hooks_apply(lib: Any) -> None:
    seen: list[str] = []
    t = leaf(lib)

    def named(name: str) -> Any:
        return hooks(lib, lambda x: seen.append(name) or x, lambda x: x)

    with named("outer"):
        t.exp()
        with named("inner"):
            t.exp()
        t.exp()
    t.exp()
    assert seen == ["outer", "inner", "outer"]


def test_hooks_apply_to_what_a_recorded_backward_saves(lib: Any) -> None:
    t = leaf(lib)
    y = t * t
    seen: list[Any] = []
    with hooks(lib, lambda x: seen.append(x) or x, lambda x: x):
        lib.autograd.grad(y, t, leaf(lib, [1.0] * 3), create_graph=True)
    assert seen


def test_hooks_belong_to_the_thread(lib: Any) -> None:
    seen: list[Any] = []
    with hooks(lib, lambda x: seen.append(x) or x, lambda x: x):
        thread = threading.Thread(target=lambda: leaf(lib).exp())
        thread.start()
        thread.join()
    assert not seen


def test_hooks_with_writes_in_place(lib: Any) -> None:
    t = leaf(lib, [0.1, 0.2, 0.3])
    with hooks(lib, lambda x: x.clone(), lambda x: x):
        b = t * 1
        b.exp_()
        b.mul_(2)
        b[1:].sin_()
    back(b)
    want = leaf(lib, [0.1, 0.2, 0.3])
    c = want.exp() * 2
    lib.cat([c[:1], c[1:].sin()]).backward(f64(lib, [1.0] * 3))
    assert t.grad.tolist() == pytest.approx(want.grad.tolist(), rel=1e-12)


def test_disabling_hooks(lib: Any) -> None:
    graph = lib.autograd.graph
    t = leaf(lib)
    with graph.disable_saved_tensors_hooks("not here"):
        t.exp()
        with pytest.raises(RuntimeError, match="not here"), hooks(lib, lambda x: x, lambda x: x):
            pass
    with hooks(lib, lambda x: x, lambda x: x):
        with pytest.raises(RuntimeError, match="not here"):
            with graph.disable_saved_tensors_hooks("not here"):
                t.exp()


def test_hooks_leave_no_cycles(lib: Any, no_gc: None) -> None:
    t = leaf(lib)
    with hooks(lib, lambda x: x.detach(), lambda x: x):
        y = (t * t).exp() * t
        z = (t * 1).tanh_()
    alive = [watch(y.grad_fn), watch(z.grad_fn)]
    back(y)
    del y, z
    assert [a() for a in alive] == [None, None]


# X2 -----------------------------------------------------------------------------------------------
def test_save_on_cpu(lib: Any) -> None:
    t = leaf(lib)
    with lib.autograd.graph.save_on_cpu():
        y = (t * t).exp()
    back(y)
    want = leaf(lib)
    back((want * want).exp())
    assert t.grad.tolist() == want.grad.tolist()


# X3, 28: mutation ---------------------------------------------------------------------------------
def test_mutation_of_saved_tensors(lib: Any) -> None:
    t = leaf(lib)
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as context:
        b = t * 1
        y = b * b
        z = b[1:].exp()
        assert len(context.cloned) == 0
        b.mul_(5)
        assert len(context.cloned) >= 1
        back(y, retain_graph=True)
        back(z)
    assert t.grad.tolist()[0] == 2.0
    assert t.grad.tolist()[1:] == pytest.approx([4.0 + 7.38905609893065, 6.0 + 20.085536923187668])


def test_mutation_through_views_and_twice() -> None:
    t = leaf(jg)  # torch gives zeros here
    with jg.autograd.graph.allow_mutation_on_saved_tensors():
        b = t * 1
        y = b * b
        b[1:].zero_()
        z = b * b
        b.zero_()
        back(y, retain_graph=True)
        assert t.grad.tolist() == [2.0, 4.0, 6.0]
        t.grad = None
        back(z)
        assert t.grad.tolist() == [2.0, 0.0, 0.0]


def test_limits_of_mutation(lib: Any) -> None:
    allow = lib.autograd.graph.allow_mutation_on_saved_tensors
    t = leaf(lib)
    with allow():
        y = t * t
        with pytest.raises(RuntimeError, match="cannot be nested"), allow():
            pass
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors'"):
        back(y)


def test_clones_of_mutation_are_freed_with_the_graph(lib: Any, no_gc: None) -> None:
    t = leaf(lib)
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as context:
        b = t * 1
        y = b * b
        b.mul_(2)
        assert len(context.cloned) == 1
        alive = weakref.ref(y)
        del y, b
        assert alive() is None
        assert len(context.cloned) == 0
