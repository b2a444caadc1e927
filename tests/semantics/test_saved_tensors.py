"""What nodes save and how it comes back: rules S1 to S7 of the contract, points 19 to 28.

Hooks on saved tensors, and what releases them, are in test_saved.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.semantics.common import back, f64, leaf

MODIFIED = "modified by an inplace operation"


def saved_by(lib: Any, fn: Callable[..., Any]) -> list[Any]:
    """What a pack hook sees of a computation."""
    seen: list[Any] = []
    with lib.autograd.graph.saved_tensors_hooks(lambda x: seen.append(x) or x, lambda x: x):
        fn()
    return seen


# S1, 20: what is saved ----------------------------------------------------------------------------
BOTH: dict[str, tuple[Callable[..., Any], str]] = {
    # of x and y that both require grad, and the result r
    "mul": (lambda lib, x, y: x * y, "xy"),
    "div": (lambda lib, x, y: x / y, "xy"),
    "add": (lambda lib, x, y: x + y, ""),
    "sub": (lambda lib, x, y: x - y, ""),
    "neg": (lambda lib, x, y: -x, ""),
    "sum": (lambda lib, x, y: x.sum(), ""),
    "mean": (lambda lib, x, y: x.mean(), ""),
    "clone": (lambda lib, x, y: x.clone(), ""),
    "view": (lambda lib, x, y: x.view(3, 1)[0].t(), ""),
    "exp": (lambda lib, x, y: x.exp(), "r"),
    "sqrt": (lambda lib, x, y: x.sqrt(), "r"),
    "tanh": (lambda lib, x, y: x.tanh(), "r"),
    "sigmoid": (lambda lib, x, y: x.sigmoid(), "r"),
    "relu": (lambda lib, x, y: x.relu(), "r"),
    "pow": (lambda lib, x, y: x**2, "x"),
    "log": (lambda lib, x, y: x.log(), "x"),
    "abs": (lambda lib, x, y: x.abs(), "x"),
    "maximum": (lambda lib, x, y: lib.maximum(x, y), "xy"),
    "max": (lambda lib, x, y: x.max(), "xr"),
    "where": (lambda lib, x, y: lib.where(x > 2, x, y), "c"),
    "mm": (lambda lib, x, y: x.view(1, 3).mm(y.view(3, 1)), "ab"),
}


@pytest.mark.parametrize("kind", BOTH)
def test_what_is_saved(lib: Any, kind: str) -> None:
    x, y = leaf(lib), leaf(lib, [3.0, 2.0, 1.0])
    fn, wanted = BOTH[kind]
    seen = saved_by(lib, lambda: fn(lib, x, y))

    def which(t: Any) -> str:
        if t is x or t is y:
            return "x" if t is x else "y"
        if t.dtype == lib.bool:
            return "c"
        return "r" if t._base is None else "a" if t._base is x else "b"

    assert sorted(map(which, seen)) == sorted(wanted)


def test_only_what_a_gradient_needs_is_saved(lib: Any) -> None:
    t, c = leaf(lib), f64(lib, [4.0, 5.0, 6.0])
    assert [x is c for x in saved_by(lib, lambda: t * c)] == [True]
    assert [x is c for x in saved_by(lib, lambda: t / c)] == [True]
    assert [x is t for x in saved_by(lib, lambda: t * t)] == [True, True]
    assert saved_by(lib, lambda: c * c) == []
    assert saved_by(lib, lambda: t * 2) == []  # numbers go by no hook
    y = t * c
    assert y.grad_fn._saved_other is c
    assert y.grad_fn._saved_self is None
    assert (t * 2).grad_fn._saved_other.item() == 2


# S2, 22: identity ---------------------------------------------------------------------------------
def test_inputs_come_back_as_themselves_and_results_as_others(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    assert t.pow(2).grad_fn._saved_self is t
    assert b.pow(2).grad_fn._saved_self is b
    y = b.exp()
    kept = y.grad_fn._saved_result
    assert kept is not y
    assert kept.grad_fn is y.grad_fn
    assert (kept._is_view(), kept.data_ptr()) == (False, y.data_ptr())
    v = b[:2]
    assert v.pow(2).grad_fn._saved_self is v


def test_a_saved_result_makes_no_cycle(lib: Any, no_gc: None) -> None:
    y = leaf(lib).exp()
    alive = weakref.ref(y)
    del y
    assert alive() is None


def test_a_result_kept_on_ctx_does_leak(lib: Any, no_gc: None) -> None:
    class Kept(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.y = x * 2
            return ctx.y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    y = Kept.apply(leaf(lib))
    alive, node = weakref.ref(y), y.grad_fn
    del y
    assert alive() is not None
    del node.y, node
    assert alive() is None


# S4, 19: versions ---------------------------------------------------------------------------------
def test_a_write_to_what_was_saved(lib: Any) -> None:
    t = leaf(lib)
    b = t + 0
    y = b * b
    b.mul_(2)
    message = (
        rf"{MODIFIED}: \[.*DoubleTensor \[3\]\], which is output 0 of Mul.*, is at version 1; "
        r"expected version 0 instead.*Hint: enable anomaly detection"
    )
    with pytest.raises(RuntimeError, match=message):
        back(y)


def test_a_write_to_a_saved_leaf_names_no_output(lib: Any) -> None:
    t = leaf(lib)
    y = t * t
    with lib.no_grad():
        t.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED) as caught:
        back(y)
    assert "which is output" not in str(caught.value)
    assert "is at version 1; expected version 0" in str(caught.value)


def test_the_hint_under_anomaly_mode(lib: Any) -> None:
    t = leaf(lib)
    with pytest.warns(UserWarning), lib.autograd.detect_anomaly():
        b = t + 0
        y = b * b
        b.mul_(2)
        with pytest.raises(RuntimeError, match="the backtrace further above"):
            back(y)


def test_the_check_is_per_family(lib: Any) -> None:
    t = leaf(lib)
    b = t + 0
    y = b[:1] * b[:1]
    b[2:].zero_()  # elements that nobody saved
    with pytest.raises(RuntimeError, match=MODIFIED):
        back(y)


def test_what_saved_nothing_does_not_complain(lib: Any) -> None:
    t = leaf(lib)
    b = t + 0
    y = b + 1
    b.zero_()
    back(y)
    assert t.grad.tolist() == [1.0, 1.0, 1.0]


# S5, 26: detach_ ----------------------------------------------------------------------------------
def test_detaching_what_was_saved(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    y = b * b
    b.detach_()
    with pytest.raises(RuntimeError, match="has been detached in-place"):
        back(y)
    y = (t * 1).exp()
    z = y.sum()
    y.detach_()  # saved as a result: that is fine
    z.backward()
    assert t.grad.tolist() == y.tolist()


# S6: writes that need what they overwrite ---------------------------------------------------------
def test_writes_in_place_save_what_they_need(lib: Any) -> None:
    for write in (lambda x: x.sin_(), lambda x: x.pow_(2), lambda x: x.log_()):
        t, want = leaf(lib), leaf(lib)
        b = t * 1
        write(b)
        back(b)
        back(write(want * 1))
        assert t.grad.tolist() == want.grad.tolist()
    t = leaf(lib)
    b = t * 1
    b.sin_()
    back(b)
    assert t.grad.tolist() == pytest.approx(f64(lib, [1.0, 2.0, 3.0]).cos().tolist())
    b = t * 1
    b.mul_(b)
    with pytest.raises(RuntimeError, match=MODIFIED):
        back(b)


# S7, 23: released ---------------------------------------------------------------------------------
def test_reading_what_was_released(lib: Any) -> None:
    t = leaf(lib)
    y = t * t
    raw = y.grad_fn._raw_saved_self
    back(y)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.grad_fn._saved_self
    with pytest.raises(RuntimeError, match="after it has been freed"):
        raw.register_hooks(lambda x: x, lambda x: x)


def test_hooks_of_one_field(lib: Any) -> None:
    y = leaf(lib) * leaf(lib)
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda x: x, lambda x: x)
    y.grad_fn._raw_saved_other.register_hooks(lambda x: x, lambda x: x)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        raw.register_hooks(lambda x: x, lambda x: x)
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        (leaf(lib) * 2).grad_fn._raw_saved_self.register_hooks(lambda x: x, lambda x: x)


# 27: functions ------------------------------------------------------------------------------------
def test_a_function_may_save_none(lib: Any) -> None:
    class Some(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return grad * x

    t = leaf(lib)
    back(Some.apply(t))
    assert t.grad.tolist() == [1.0, 2.0, 3.0]


def test_what_hooks_unpacked_has_a_counter_of_its_own(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    with lib.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
        y = b.pow(2)
    b.zero_()
    kept = y.grad_fn._saved_self
    assert (kept._version, b._version) == (0, 1)
    back(y)
    assert t.grad.tolist() == [2.0, 4.0, 6.0]
