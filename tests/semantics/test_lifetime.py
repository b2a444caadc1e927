"""The lifetime of a graph: rules G1 to G7 and points 48 and 54."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from typing import Any

import pytest

import jitgrad as jg
from tests.semantics.common import back, f64, leaf, scale, watch

SECOND = "backward through the graph a second time"


# G1, 48 -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("saves", "name", "f"),
    [
        (False, "add", lambda t: t + 1),
        (False, "sum", lambda t: t.sum()),
        (False, "clone", lambda t: t.clone()),
        (False, "view", lambda t: t[1:].view(2, 1)),
        (False, "neg", lambda t: -t),
        (True, "scalar", lambda t: t * 2),
        (True, "square", lambda t: t * t),
        (True, "exp", lambda t: t.exp()),
    ],
)
def test_a_second_backward_fails_only_where_something_was_saved(
    lib: Any, saves: bool, name: str, f: Any
) -> None:
    y = f(leaf(lib))
    back(y)
    if saves:
        with pytest.raises(RuntimeError, match=SECOND):
            back(y)
    else:
        back(y)


def test_a_write_through_a_view_runs_once(lib: Any) -> None:
    b = leaf(lib) * 1
    b[1:].add_(1)
    back(b)
    with pytest.raises(RuntimeError, match=SECOND):
        back(b)


def test_retain_graph(lib: Any) -> None:
    t = leaf(lib)
    y = t * t
    back(y, retain_graph=True)
    back(y)
    assert t.grad.tolist() == [4.0, 8.0, 12.0]
    with pytest.raises(RuntimeError, match=SECOND):
        back(y)
    y = t * t
    one = f64(lib, [1.0] * 3)
    lib.autograd.grad(y, t, one, create_graph=True)  # keeps the graph
    lib.autograd.grad(y, t, one, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match=SECOND):
        back(y)


# G2, G3: partial graphs ---------------------------------------------------------------------------
def test_nodes_that_did_not_run_keep_what_they_saved(lib: Any) -> None:
    t = leaf(lib)
    b = t * t
    y = b * b
    (g,) = lib.autograd.grad(y, b, f64(lib, [1.0] * 3))
    assert g.tolist() == [2.0, 8.0, 18.0]
    back(b)
    assert t.grad.tolist() == [2.0, 4.0, 6.0]


def test_a_shared_part_runs_once(lib: Any) -> None:
    t = leaf(lib)
    h = t * t
    back(h)
    with pytest.raises(RuntimeError, match=SECOND):
        back(h * 2)
    h = t * t
    one = f64(lib, [1.0] * 3)
    lib.autograd.backward([h * 1, h * 2], [one, one])


def test_an_exception_leaves_what_was_done(lib: Any) -> None:
    t, u = leaf(lib), leaf(lib)
    early = t * 1

    def fail(grad: Any) -> None:
        raise ValueError("stop")

    early.register_hook(fail)
    late = u * 2
    y = early + late
    with pytest.raises(ValueError, match="stop"):
        back(y)
    assert u.grad.tolist() == [2.0] * 3
    assert t.grad is None
    assert lib.is_grad_enabled()
    with pytest.raises(RuntimeError, match=SECOND):
        back(late)
    with pytest.raises(ValueError, match="stop"):
        back(early)


def test_an_interrupt_leaves_a_usable_state(lib: Any) -> None:
    t = leaf(lib)
    y = t * 2

    def interrupt(grad: Any) -> None:
        raise KeyboardInterrupt

    handle = y.register_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        back(y)
    assert lib.is_grad_enabled()
    handle.remove()
    back(y)
    assert t.grad.tolist() == [2.0] * 3


# G4 -----------------------------------------------------------------------------------------------
def test_accumulators_are_unique_while_alive_and_held_weakly(lib: Any, no_gc: None) -> None:
    t = leaf(lib)
    y, z = t * 1, t * 2
    node = y.grad_fn.next_functions[0][0]
    assert node is z.grad_fn.next_functions[0][0]
    assert node.variable is t
    alive = weakref.ref(t)
    del y, z, node, t
    assert alive() is None


def test_hooks_on_an_accumulator_that_nobody_holds_vanish(lib: Any) -> None:
    t = leaf(lib)
    seen: list[str] = []
    y = t * 1
    y.grad_fn.next_functions[0][0].register_hook(lambda ins, outs: seen.append("ran"))
    back(y)
    del y
    back(t * 1)
    assert seen == ["ran"]


@pytest.mark.parametrize(
    "f",
    [
        lambda t: t * 2,
        lambda t: (t * t).exp().sum(),
        lambda t: t.tanh()[1:].view(2, 1),
        lambda t: (t * 1).sigmoid_(),
        lambda t: t.unbind()[0],
        lambda t: (t * 1).mul_(2).exp_(),
    ],
)
@pytest.mark.parametrize("run", [False, True])
def test_graphs_are_freed_without_gc(lib: Any, no_gc: None, f: Any, run: bool) -> None:
    t = leaf(lib)
    y = f(t)
    alive = watch(y.grad_fn)
    tensor = weakref.ref(y)
    if run:
        back(y)
    del y
    assert tensor() is None
    assert alive() is None


def test_an_op_that_saves_its_result_on_a_view_makes_no_cycle(lib: Any, no_gc: None) -> None:
    b = leaf(lib) * 1
    v = b[1:]
    v.sigmoid_()
    alive = [weakref.ref(b), weakref.ref(v), watch(b.grad_fn)]
    back(v, retain_graph=True)
    del b, v
    assert [a() for a in alive] == [None] * 3


def test_higher_derivatives_are_freed_without_gc(lib: Any, no_gc: None) -> None:
    t = leaf(lib)
    (g,) = lib.autograd.grad(t * t * t, t, f64(lib, [1.0] * 3), create_graph=True)
    alive = watch(g.grad_fn)
    (h,) = lib.autograd.grad(g, t, f64(lib, [1.0] * 3), create_graph=True)
    assert h.tolist() == [6.0, 12.0, 18.0]
    del g, h
    assert alive() is None


# G5 -----------------------------------------------------------------------------------------------
def test_backward_with_create_graph_leaks_and_says_so(lib: Any, no_gc: None) -> None:
    t = leaf(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said once per process
        back(t * t, create_graph=True)
    alive = weakref.ref(t)
    del t
    assert alive() is not None
    gc.collect()


# G6, 54 -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [150_000])
def test_deep_graphs(lib: Any, length: int) -> None:
    t = leaf(lib, [1.0])
    x = t
    for _ in range(length):
        x = x + 1
    back(x)
    assert t.grad.item() == 1.0
    del x
    x = t
    for _ in range(length):
        x = x * 1
    del x  # never run


def test_deep_graphs_with_saved_results() -> None:
    t = jg.tensor([0.5], dtype=jg.float64, requires_grad=True)
    x = t
    for _ in range(150_000):
        x = x.tanh()
    alive = watch(x.grad_fn)
    (g,) = jg.autograd.grad(x, t, jg.ones(1, dtype=jg.float64))
    assert 0 < g.item() < 1
    del x, g
    assert alive() is None


# G7 -----------------------------------------------------------------------------------------------
def test_grad_fn_cannot_be_set_and_non_leaves_not_copied(lib: Any) -> None:
    t = leaf(lib)
    y = t * 1
    with pytest.raises(AttributeError):
        y.grad_fn = None
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(y)
    back(y)
    other = copy.deepcopy(t)
    assert other.grad.tolist() == [1.0] * 3
    assert other.grad is not t.grad


def test_a_graph_outlives_its_tensors(lib: Any) -> None:
    t = leaf(lib)
    y = scale(lib).apply(t * 1).exp()
    x = weakref.ref(t)
    back(y)
    assert x() is t
    assert t.grad is not None
