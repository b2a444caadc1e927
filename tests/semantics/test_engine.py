"""The engine: rules E1 to E11 and points 48, 51 to 55, 57 to 59."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.autograd import api
from tests.semantics.common import back, f64, leaf, scale


def undefined(lib: Any) -> Any:
    """A function whose gradient is undefined."""

    class Undefined(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    return Undefined


# E1, 55: order ------------------------------------------------------------------------------------
def test_later_nodes_run_first_and_accumulators_at_once(lib: Any) -> None:
    seen: list[str] = []
    t, u = leaf(lib), leaf(lib)
    x = t * 1
    y = u * 2
    for name, tensor in (("t", t), ("u", u), ("x", x), ("y", y)):
        tensor.register_hook(lambda g, name=name: seen.append(name))
    back(x + y)
    assert seen == ["y", "u", "x", "t"]


def test_sequence_numbers_grow(lib: Any) -> None:
    t = leaf(lib)
    x = t * 1
    y = x * 1
    assert x.grad_fn._sequence_nr() < y.grad_fn._sequence_nr()
    assert x.grad_fn.next_functions[0][0]._sequence_nr() > y.grad_fn._sequence_nr()


def test_a_node_waits_for_all_its_gradients(lib: Any) -> None:
    seen: list[Any] = []
    t = leaf(lib)
    x = t * 1
    x.register_hook(lambda g: seen.append(g.tolist()))
    back(x * 2 + (x * 3) * 5)
    assert seen == [[17.0] * 3]


# E2, 51: sums -------------------------------------------------------------------------------------
def test_contributions_are_summed_before_hooks(lib: Any) -> None:
    t = leaf(lib)
    seen: list[Any] = []
    t.register_hook(lambda g: seen.append(g.tolist()))
    back(t + t + t)
    assert seen == [[3.0] * 3]
    assert t.grad.tolist() == [3.0] * 3


def test_a_gradient_in_several_buffers_is_never_summed_in_place(lib: Any) -> None:
    a, b, c = leaf(lib), leaf(lib), leaf(lib)
    # add passes one gradient object on to both sides; x receives three contributions.
    x = a * 1
    y = (x + b) + (x + c) + (x + b)
    back(y)
    assert [t.grad.tolist() for t in (a, b, c)] == [[3.0] * 3, [2.0] * 3, [1.0] * 3]


def test_undefined_and_defined_contributions(lib: Any) -> None:
    t = leaf(lib)
    x = t * 1
    back(undefined(lib).apply(x) + x * 2)
    assert t.grad.tolist() == [2.0] * 3


# E3: grad mode ------------------------------------------------------------------------------------
@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_mode_in_backward_is_create_graph(lib: Any, create_graph: bool) -> None:
    seen: list[bool] = []

    class Asks(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(lib.is_grad_enabled())
            return grad

    t = leaf(lib)
    t.register_hook(lambda g: seen.append((t * 2).requires_grad))
    y = Asks.apply(t)
    with lib.no_grad():
        lib.autograd.grad(y, t, f64(lib, [1.0] * 3), create_graph=create_graph)
        assert not lib.is_grad_enabled()
    assert seen == [create_graph, create_graph]
    assert lib.is_grad_enabled()


# E6: inputs= --------------------------------------------------------------------------------------
def test_empty_and_wrong_inputs(lib: Any) -> None:
    t = leaf(lib)
    y = t * 1
    one = f64(lib, [1.0] * 3)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        y.backward(one, inputs=[])
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        lib.autograd.grad(y, [], one)
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        y.backward(one, inputs=[t.detach()])
    with pytest.raises(RuntimeError, match="does not require grad"):
        lib.autograd.grad(y, t.detach(), one)


def test_unused_inputs(lib: Any) -> None:
    grad = lib.autograd.grad
    t, u = leaf(lib), leaf(lib, [[1.0, 2.0]])
    one = f64(lib, [1.0] * 3)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(t * 1, (t, u), one)
    g, h = grad(t * 1, (t, u), one, allow_unused=True)
    assert g.tolist() == [1.0] * 3
    assert h is None
    g, h = grad(t * 1, (t, u), one, materialize_grads=True)
    assert h.tolist() == [[0.0, 0.0]]
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        grad(t * 1, (t, u), one, materialize_grads=True, allow_unused=False)
    (t * 1).backward(one, inputs=[u])  # as if unused inputs were allowed
    assert t.grad is None
    assert u.grad is None


def test_only_nodes_on_paths_to_the_inputs_run(lib: Any) -> None:
    seen: list[str] = []
    t, u = leaf(lib), leaf(lib)
    a, b = t * 1, u * 1
    a.register_hook(lambda g: seen.append("a"))
    b.register_hook(lambda g: seen.append("b"))
    b.grad_fn.register_hook(lambda ins, outs: seen.append("b's node"))
    y = a * b
    y.register_hook(lambda g: seen.append("y"))
    lib.autograd.grad(y, t, f64(lib, [1.0] * 3), retain_graph=True)
    assert seen == ["y", "a"]
    seen.clear()
    v = leaf(lib)
    one = f64(lib, [1.0] * 3)
    lib.autograd.grad((y, y * 1), v, (one, one), allow_unused=True, retain_graph=True)
    assert seen == []
    lib.autograd.grad(y, v, one, allow_unused=True)  # a single root is looked at all the same
    assert seen == ["y"]


def test_backward_with_a_non_leaf_input_runs_its_node(lib: Any) -> None:
    t = leaf(lib)
    b = scale(lib).apply(t)
    seen: list[str] = []
    b.grad_fn.register_hook(lambda ins, outs: seen.append("ran"))
    back(b * 2, inputs=[b])
    assert b.grad.tolist() == [2.0] * 3
    assert t.grad is None
    assert seen == ["ran"]
    with pytest.raises(RuntimeError, match="second time"):
        b.grad_fn.saved_tensors


# E7, 57, 59: roots --------------------------------------------------------------------------------
def test_roots_without_history_or_gradient(lib: Any) -> None:
    t = leaf(lib)
    plain = f64(lib, [1.0, 2.0])
    phrase = "does not require grad and does not have a grad_fn"
    with pytest.raises(RuntimeError, match=f"element 0 of tensors {phrase}"):
        plain.sum().backward()
    with pytest.raises(RuntimeError, match=f"element 1 of tensors {phrase}"):
        lib.autograd.backward((t.sum(), plain.sum()))
    with pytest.raises(
        RuntimeError, match="grad can be implicitly created only for scalar outputs"
    ):
        (t * 1).backward()
    (t[:1] * 2).reshape(1, 1).backward()
    assert t.grad.tolist() == [2.0, 0.0, 0.0]


def test_gradients_of_roots(lib: Any) -> None:
    t = leaf(lib)
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\]"):
        (t * 1).backward(f64(lib, [[1.0], [1.0], [1.0]]))
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        lib.autograd.backward([t * 1, t * 1], [f64(lib, [1.0] * 3)])
    (t * 1).backward(lib.tensor([1.0, 2.0, 3.0], dtype=lib.float32))
    assert t.grad.dtype is lib.float64
    assert t.grad.tolist() == [1.0, 2.0, 3.0]


def test_several_roots(lib: Any) -> None:
    t = leaf(lib)
    a = t * 2
    lib.autograd.backward([a, a * t, a], [f64(lib, [1.0] * 3)] * 3)
    assert t.grad.tolist() == [8.0, 12.0, 16.0]


def test_a_leaf_may_be_a_root(lib: Any) -> None:
    t = leaf(lib)
    g = f64(lib, [1.0, 2.0, 3.0])
    t.backward(g)
    assert t.grad.tolist() == g.tolist()
    assert t.grad is not g
    assert t.grad.data_ptr() != g.data_ptr()


def test_create_graph_warns_in_backward_only(lib: Any) -> None:
    t = leaf(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (g,) = lib.autograd.grad(t * t, t, f64(lib, [1.0] * 3), create_graph=True)
    assert g.requires_grad


def test_backward_with_create_graph_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_warned_about_cycles", False)
    t = leaf(jg)
    with pytest.warns(UserWarning, match="will create a reference cycle"):
        back(t * t, create_graph=True)
    back(t * t, create_graph=True)
    t.grad = None


def test_grad_variables_is_deprecated(lib: Any) -> None:
    t = leaf(lib)
    with pytest.warns(FutureWarning, match="grad_variables"):
        lib.autograd.backward(t * 1, grad_variables=f64(lib, [1.0] * 3))
    assert t.grad.tolist() == [1.0] * 3


# E8: validation -----------------------------------------------------------------------------------
def returning(lib: Any, gradient: Any) -> Any:
    class Returning(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return gradient

    return Returning


def test_gradients_are_brought_to_shape_and_dtype(lib: Any) -> None:
    t = leaf(lib)
    back(returning(lib, lib.ones(2, 3, dtype=lib.float64)).apply(t))
    assert t.grad.tolist() == [2.0] * 3
    t.grad = None
    back(returning(lib, lib.ones(3, dtype=lib.float32)).apply(t))
    assert t.grad.dtype is lib.float64
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[2\] but expected"):
        back(returning(lib, lib.ones(2, dtype=lib.float64)).apply(t))


# E9: undefined gradients --------------------------------------------------------------------------
def test_undefined_gradients_pass_through(lib: Any) -> None:
    t = leaf(lib)
    seen: list[Any] = []
    x = t * 2
    x.register_hook(lambda g: seen.append(g))
    x.grad_fn.register_hook(lambda ins, outs: seen.append((ins[0], outs[0])))
    t.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    back(undefined(lib).apply(x))
    assert seen == [None, (None, None), "accumulated"]
    assert t.grad is None


# E10, 54, 55: reentrant backward ------------------------------------------------------------------
def nested(lib: Any) -> Any:
    class Nested(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with lib.enable_grad():
                ctx.inner = x.detach().requires_grad_()
                ctx.result = ctx.inner * ctx.inner
            return ctx.result.detach()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with lib.enable_grad():
                ctx.result.backward(grad)
            return ctx.inner.grad

    return Nested


def test_backward_inside_backward(lib: Any) -> None:
    t = leaf(lib)
    back(nested(lib).apply(t) * 3)
    assert t.grad.tolist() == [6.0, 12.0, 18.0]


def test_reentrant_backward_runs_before_pending_outer_nodes(lib: Any) -> None:
    seen: list[str] = []
    t, u = leaf(lib), leaf(lib)
    early = u * 1
    early.register_hook(lambda g: seen.append("outer"))
    y = nested(lib).apply(t)
    t.register_hook(lambda g: seen.append("inner done"))
    back(y + early)
    assert seen == ["inner done", "outer"]


@pytest.mark.parametrize("depth", [2000])
def test_reentrant_backward_nests_deep(lib: Any, depth: int) -> None:
    count = 0

    class Deep(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            nonlocal count
            count += 1
            if count < depth:
                with lib.enable_grad():
                    x = grad.detach().requires_grad_()
                    Deep.apply(x).backward(grad)
            return grad

    t = leaf(lib)
    back(Deep.apply(t))
    assert count == depth
    assert t.grad.tolist() == [1.0] * 3


def test_an_error_deep_inside_is_raised_outside(lib: Any) -> None:
    count = 0

    class Deep(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            nonlocal count
            count += 1
            if count == 200:
                raise KeyError("deep inside")
            with lib.enable_grad():
                x = grad.detach().requires_grad_()
                Deep.apply(x).backward(grad)
            return grad

    with pytest.raises(KeyError, match="deep inside"):
        back(Deep.apply(leaf(lib)))
    assert lib.is_grad_enabled()


# 53: gradient edges -------------------------------------------------------------------------------
def test_gradient_edges_stand_for_tensors(lib: Any) -> None:
    edge_of = lib.autograd.graph.get_gradient_edge
    t = leaf(lib)
    b = t * 2
    y = b * 3
    one = f64(lib, [1.0] * 3)
    (g,) = lib.autograd.grad(edge_of(y), edge_of(b), one, retain_graph=True)
    assert g.tolist() == [3.0] * 3
    (g,) = lib.autograd.grad(y, edge_of(t), one, retain_graph=True)
    assert g.tolist() == [6.0] * 3
    lib.autograd.backward(edge_of(y), one)
    assert t.grad.tolist() == [6.0] * 3
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        lib.autograd.grad(edge_of(t * 1), t)
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\]"):
        lib.autograd.grad(edge_of(t * 1), t, f64(lib, [1.0]))
    with pytest.raises(RuntimeError, match="not possible to get the gradient edge"):
        edge_of(t.detach())


def test_an_edge_survives_a_later_write(lib: Any) -> None:
    edge_of = lib.autograd.graph.get_gradient_edge
    b = leaf(lib) * 1
    old = edge_of(b)
    b.mul_(2)
    new = edge_of(b)
    y = b * 5
    one = f64(lib, [1.0] * 3)
    g, h = lib.autograd.grad(y, (old, new), one)
    assert (g.tolist(), h.tolist()) == ([10.0] * 3, [5.0] * 3)


def test_an_edge_survives_set_of_the_leaf(lib: Any) -> None:
    t = leaf(lib)
    edge = lib.autograd.graph.get_gradient_edge(t)
    y = t * 2
    with lib.no_grad():
        t.set_(f64(lib, [7.0, 8.0, 9.0]))
    (g,) = lib.autograd.grad(y, edge, f64(lib, [1.0] * 3))
    assert g.tolist() == [2.0] * 3


def test_edges_are_named_tuples(lib: Any) -> None:
    t = leaf(lib)
    edge = lib.autograd.graph.get_gradient_edge(t)
    assert edge.node.name().endswith("AccumulateGrad")
    assert edge.output_nr == 0
    assert edge.node is (t * 1).grad_fn.next_functions[0][0]


# 57: nodes can be called --------------------------------------------------------------------------
def test_nodes_can_be_called(lib: Any) -> None:
    node = (leaf(lib) * 2).grad_fn
    with pytest.raises(TypeError, match="expected 1 arguments, got 0"):
        node()
    with pytest.raises(TypeError, match="argument 0 is not a Variable"):
        node(1)
    g, none = node(f64(lib, [1.0] * 3))
    assert g.tolist() == [2.0] * 3
    assert none is None
    assert isinstance(node, lib.autograd.graph.Node)


# 58: threads --------------------------------------------------------------------------------------
def test_ten_threads_accumulate_exactly(lib: Any) -> None:
    t, u = leaf(lib), leaf(lib)

    def work() -> None:
        for _ in range(50):
            back((t * 2 + u) * 1)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert t.grad.tolist() == [1000.0] * 3
    assert u.grad.tolist() == [500.0] * 3


def test_threads_share_a_graph_that_is_retained(lib: Any) -> None:
    t = leaf(lib)
    y = (t * t).exp()
    back(y, retain_graph=True)
    once = t.grad.tolist()
    t.grad = None
    threads = [threading.Thread(target=lambda: back(y, retain_graph=True)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert t.grad.tolist() == pytest.approx([10 * g for g in once])


def test_an_error_stays_in_its_thread(lib: Any) -> None:
    errors: list[BaseException] = []
    t = leaf(lib)

    def fail(grad: Any) -> None:
        raise ValueError("mine")

    def work(bad: bool) -> None:
        y = t * 1
        if bad:
            y.register_hook(fail)
        try:
            back(y)
        except ValueError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i == 3,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(e) for e in errors] == ["mine"]
    assert t.grad.tolist() == [5.0] * 3


def test_grad_mode_belongs_to_the_thread(lib: Any) -> None:
    seen: list[bool] = []
    with lib.no_grad():
        thread = threading.Thread(target=lambda: seen.append(lib.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


# is_grads_batched ---------------------------------------------------------------------------------
def test_batched_gradients(lib: Any) -> None:
    t = leaf(lib)
    eye = f64(lib, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    (g,) = lib.autograd.grad(t * t, t, eye, is_grads_batched=True)
    assert g.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
