"""Hooks on tensors and nodes: rules H1 to H5 and points 31 to 38 and 40."""

from __future__ import annotations

import gc
import importlib
import threading
import weakref
from typing import Any

import pytest

import jitgrad as jg
from tests.semantics.common import back, f64, leaf, watch


# H1 -----------------------------------------------------------------------------------------------
def test_hooks_need_a_tensor_that_requires_grad(lib: Any) -> None:
    x = f64(lib, [1.0])
    phrase = "cannot register a hook on a tensor that doesn't require gradient"
    with pytest.raises(RuntimeError, match=phrase):
        x.register_hook(print)
    with pytest.raises(RuntimeError, match=phrase):
        x.register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad"):
        x.retain_grad()
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
        (leaf(lib) * 1).register_post_accumulate_grad_hook(print)


def test_retain_grad_does_nothing_on_leaves_and_only_once(lib: Any) -> None:
    t = leaf(lib)
    t.retain_grad()
    assert not t.retains_grad
    b = t * 1
    b.retain_grad()
    b.retain_grad()
    assert b.retains_grad
    back(b * 2, retain_graph=True)
    assert b.grad.tolist() == [2.0, 2.0, 2.0]
    back(b * 3)
    assert b.grad.tolist() == [5.0, 5.0, 5.0]


# H2 -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("returned", "error", "phrase"),
    [
        (3, TypeError, "hook returned 'int'"),
        ((), TypeError, "hook returned 'tuple'"),
        ("two", RuntimeError, "hook 'hook' has changed the size of value"),
        ("float32", RuntimeError, "hook 'hook' has changed the type of value"),
    ],
)
def test_what_a_tensor_hook_returns_is_checked(
    lib: Any, returned: Any, error: type[Exception], phrase: str
) -> None:
    value = {"two": f64(lib, [1.0, 1.0]), "float32": lib.tensor([1.0, 1.0, 1.0])}

    def hook(grad: Any) -> Any:
        return value[returned] if isinstance(returned, str) else returned

    b = leaf(lib) * 1
    b.register_hook(hook)
    with pytest.raises(error, match=phrase):
        back(b)


def test_what_node_hooks_return_is_checked(lib: Any) -> None:
    def node_of(returned: Any, method: str) -> Any:
        y = leaf(lib) * 2
        getattr(y.grad_fn, method)(lambda *grads: returned)
        return y

    one = f64(lib, [1.0, 1.0, 1.0])
    with pytest.raises(TypeError, match="expected tuple, but hook returned 'int'"):
        back(node_of(3, "register_prehook"))
    with pytest.raises(TypeError, match="expected tuple, but hook returned 'Tensor'"):
        back(node_of(one, "register_hook"))
    with pytest.raises(RuntimeError, match="incorrect number of values"):
        back(node_of((one, one), "register_prehook"))
    with pytest.raises(RuntimeError, match="incorrect number of values"):
        back(node_of((), "register_hook"))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        back(node_of((one, one), "register_hook"))


def test_node_hooks_replace_gradients(lib: Any) -> None:
    t = leaf(lib)
    y = t * 2
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda ins, outs: (ins[0] + outs[0], *ins[1:]))
    back(y)
    assert t.grad.tolist() == [30.0, 30.0, 30.0]


def test_a_hook_object_needs_no_name(lib: Any) -> None:
    class Doubles:
        def __call__(self, grad: Any) -> Any:
            return grad * 2

    t = leaf(lib)
    t.register_hook(Doubles())
    back(t * 1)
    assert t.grad.tolist() == [2.0, 2.0, 2.0]


# H3, 35 -------------------------------------------------------------------------------------------
def test_tensor_hooks_belong_to_the_version_they_were_put_on(lib: Any) -> None:
    t = leaf(lib)
    x = t * 1
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(("old", g.tolist())))
    x.mul_(2)
    x.register_hook(lambda g: seen.append(("new", g.tolist())))
    back(x * 3)
    assert seen == [("new", [3.0] * 3), ("old", [6.0] * 3)]


def test_retain_grad_moves_to_the_new_version(lib: Any) -> None:
    t = leaf(lib)
    x = t * 1
    x.retain_grad()
    x.mul_(2)
    back(x * 3)
    assert x.grad.tolist() == [3.0] * 3


def test_retain_grad_on_a_view_moves_through_copyslices(lib: Any) -> None:
    b = leaf(lib) * 1
    v = b[1:]
    v.retain_grad()
    v.mul_(2)
    b.retain_grad()
    back(v * 5)
    assert v.grad.tolist() == [5.0, 5.0]


def test_retain_grad_on_a_base_moves_when_a_view_is_written(lib: Any) -> None:
    b = leaf(lib) * 1
    b.retain_grad()
    b[1:].mul_(2)
    back(b * 5)
    assert b.grad.tolist() == [5.0] * 3


def test_hooks_of_a_view_stay_on_its_orphaned_node(lib: Any) -> None:
    b = leaf(lib) * 1
    v = b[1:]
    seen: list[Any] = []
    v.register_hook(seen.append)
    v.mul_(2)
    back(b)
    assert not seen


def test_leaf_hooks_are_read_when_the_gradient_arrives(lib: Any) -> None:
    t = leaf(lib)
    y = t * 2
    t.register_hook(lambda g: g * 10)
    back(y)
    assert t.grad.tolist() == [20.0] * 3


def test_leaf_hooks_survive_detach_(lib: Any) -> None:
    t = leaf(lib)
    t.register_hook(lambda g: g * 10)
    t.detach_()
    t.requires_grad_()
    back(t * 2)
    assert t.grad.tolist() == [20.0] * 3


# H4, 36 -------------------------------------------------------------------------------------------
def test_removing_hooks(lib: Any) -> None:
    t = leaf(lib)
    first = t.register_hook(lambda g: g * 2)
    second = t.register_hook(lambda g: g * 3)
    first.remove()
    first.remove()
    back(t * 1)
    assert t.grad.tolist() == [3.0] * 3
    t.grad = None
    second.remove()
    with t.register_hook(lambda g: g * 5):
        back(t * 1)
    back(t * 1)
    assert t.grad.tolist() == [6.0] * 3


def test_a_hook_may_remove_itself_and_others(lib: Any) -> None:
    t = leaf(lib)
    seen: list[str] = []

    def hook(grad: Any) -> None:
        seen.append("hook")
        for handle in handles:
            handle.remove()

    handles = [t.register_hook(hook), t.register_hook(lambda g: seen.append("other"))]
    back(t * 1)
    back(t * 1)
    assert seen == ["hook", "other"]


def test_node_hook_handles(lib: Any) -> None:
    y = leaf(lib) * 2
    seen: list[str] = []
    pre = y.grad_fn.register_prehook(lambda grads: seen.append("pre"))
    post = y.grad_fn.register_hook(lambda ins, outs: seen.append("post"))
    back(y, retain_graph=True)
    pre.remove()
    back(y, retain_graph=True)
    post.remove()
    back(y)
    assert seen == ["pre", "post", "post"]


def test_hooks_added_while_backward_runs_fire_on_later_nodes(lib: Any) -> None:
    seen: list[str] = []
    b = leaf(lib) * 1
    y = b * 2
    y.register_hook(lambda g: b.register_hook(lambda g: seen.append("b")) and None)
    back(y)
    assert seen == ["b"]


# 31, 32: order ------------------------------------------------------------------------------------
def test_the_order_at_a_node(lib: Any) -> None:
    seen: list[Any] = []
    b = leaf(lib) * 1
    y = b * 2
    b.grad_fn.register_prehook(lambda grads: seen.append(("pre", grads[0][0].item(), kept())))
    b.retain_grad()
    b.grad_fn.register_hook(lambda ins, outs: seen.append(("post", ins[0][0].item())))
    b.register_hook(lambda g: seen.append(("first", g[0].item())) or g + 1)
    b.register_hook(lambda g: seen.append(("second", g[0].item())) or g + 1)

    def kept() -> Any:
        return None if b.grad is None else b.grad[0].item()

    back(y)
    assert seen == [("first", 2.0), ("second", 3.0), ("pre", 4.0, 4.0), ("post", 4.0)]


def test_the_order_at_a_leaf(lib: Any) -> None:
    seen: list[str] = []
    t = leaf(lib)
    y = t * 1
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda ins, outs: seen.append(f"post {len(ins)} {len(outs)}"))
    accumulator.register_prehook(lambda grads: seen.append("pre"))
    t.register_post_accumulate_grad_hook(lambda t: seen.append(f"accumulated {t.grad[0].item()}"))
    t.register_hook(lambda g: seen.append("tensor"))
    back(y)
    assert seen == ["tensor", "pre", "accumulated 1.0", "post 0 1"]


# 33, 34, E5 ---------------------------------------------------------------------------------------
def test_grad_runs_tensor_hooks_but_no_node_hooks_of_its_input(lib: Any) -> None:
    seen: list[str] = []
    t = leaf(lib)
    b = t * 1
    y = b * 2
    accumulator = b.grad_fn.next_functions[0][0]
    for name, node in (("b", b.grad_fn), ("t", accumulator)):
        node.register_prehook(lambda grads, name=name: seen.append(f"pre {name}"))
        node.register_hook(lambda ins, outs, name=name: seen.append(f"post {name}"))
    b.register_hook(lambda g: seen.append("tensor b") or g * 10)
    t.register_hook(lambda g: seen.append("tensor t") or g * 10)
    t.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    b.retain_grad()
    one = f64(lib, [1.0] * 3)
    (g,) = lib.autograd.grad(y, b, one, retain_graph=True)
    assert g.tolist() == [20.0] * 3 == b.grad.tolist()
    assert seen == ["tensor b"]
    seen.clear()
    (g,) = lib.autograd.grad(y, t, one, retain_graph=True)
    assert g.tolist() == [200.0] * 3
    assert seen == ["tensor b", "pre b", "post b", "tensor t"]
    # The quirk: a node that must run as well is captured before its hooks.
    g, h = lib.autograd.grad(y, (t, b), one)
    assert (g.tolist(), h.tolist()) == ([200.0] * 3, [2.0] * 3)


def test_backward_inputs_leaves_the_hooks_of_other_leaves_alone(lib: Any) -> None:
    seen: list[str] = []
    t, u = leaf(lib), leaf(lib)
    t.register_hook(lambda g: seen.append("t"))
    u.register_hook(lambda g: seen.append("u"))
    back(t * u, inputs=[t])
    assert seen == ["t"]
    assert u.grad is None


# 38: post-accumulate hooks ------------------------------------------------------------------------
def test_post_accumulate_hooks_may_use_up_the_gradient(lib: Any) -> None:
    t = leaf(lib)

    def step(p: Any) -> None:
        with lib.no_grad():
            p.sub_(p.grad)
        p.grad = None

    t.register_post_accumulate_grad_hook(step)
    back(t * 2)
    assert t.tolist() == [-1.0, 0.0, 1.0]
    assert t.grad is None


def test_post_accumulate_hooks_run_in_order_and_return_none(lib: Any) -> None:
    t = leaf(lib)
    seen: list[int] = []
    t.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    handle = t.register_post_accumulate_grad_hook(lambda p: seen.append(2))
    back(t * 1)
    handle.remove()
    back(t * 1)
    assert seen == [1, 2, 1]
    t.register_post_accumulate_grad_hook(lambda p: 3)
    with pytest.raises(TypeError, match="hook returned 'int'"):
        back(t * 1)


def test_post_accumulate_hooks_are_freed_with_the_tensor(lib: Any, no_gc: None) -> None:
    class Hook:
        def __call__(self, p: Any) -> None:
            pass

    hook = Hook()
    alive = weakref.ref(hook)
    t = leaf(lib)
    t.register_post_accumulate_grad_hook(hook)
    back(t * 1)
    del hook, t
    assert alive() is None


# H5, 37 -------------------------------------------------------------------------------------------
def test_a_hook_on_several_tensors_waits_for_all_that_are_reached(lib: Any) -> None:
    register = lib.autograd.graph.register_multi_grad_hook
    a, b, c = leaf(lib), leaf(lib), leaf(lib) * 1
    seen: list[Any] = []
    handle = register((a, b, c), lambda grads: seen.append([g is not None for g in grads]))
    back(a * b * c)
    back(a * c.detach())
    assert seen == [[True, True, True], [True, False, False]]
    handle.remove()
    back(a * b)
    assert len(seen) == 2


def test_a_hook_on_any_of_several_tensors_runs_once(lib: Any) -> None:
    register = lib.autograd.graph.register_multi_grad_hook
    a, b = leaf(lib), leaf(lib)
    seen: list[Any] = []
    register((a, b), lambda g: seen.append(g.tolist()), mode="any")
    back(a * b)
    assert len(seen) == 1
    back(a * 7)
    assert seen[1] == [7.0] * 3
    with pytest.raises(ValueError, match="mode"):
        register((a, b), print, mode="foo")


def test_a_hook_on_several_tensors_in_several_threads(lib: Any) -> None:
    a, b = leaf(lib), leaf(lib)
    seen: list[Any] = []
    lib.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads)))
    threads = [threading.Thread(target=lambda: back(a * b)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [2] * 8


# 40, E10: final callbacks -------------------------------------------------------------------------
def queue(lib: Any, callback: Any) -> None:
    lib.autograd.Variable._execution_engine.queue_callback(callback)


def test_callbacks_run_after_the_whole_pass(lib: Any) -> None:
    seen: list[str] = []
    t = leaf(lib)
    y = t * 2

    def again() -> None:
        seen.append("first")
        queue(lib, lambda: seen.append("second"))

    y.register_hook(lambda g: queue(lib, again))
    t.register_post_accumulate_grad_hook(lambda p: seen.append("leaf"))
    back(y)
    assert seen == ["leaf", "first", "second"]
    with pytest.raises(RuntimeError, match="only be installed during backward pass"):
        queue(lib, print)


def test_callbacks_belong_to_the_innermost_backward(lib: Any) -> None:
    seen: list[str] = []
    u = leaf(lib)
    inner = u * 3
    inner.register_hook(lambda g: queue(lib, lambda: seen.append("inner")))
    y = leaf(lib) * 2

    def hook(grad: Any) -> None:
        queue(lib, lambda: seen.append("outer"))
        with lib.enable_grad():
            back(inner)
        seen.append("hook")

    y.register_hook(hook)
    back(y)
    assert seen == ["inner", "hook", "outer"]


# 56: lifetime -------------------------------------------------------------------------------------
def test_a_hook_lives_as_long_as_its_graph(lib: Any, no_gc: None) -> None:
    b = leaf(lib) * 1
    y = b * 2
    alive = watch(b.grad_fn)
    seen: list[Any] = []
    b.register_hook(lambda g: seen.append(g.tolist()))
    handle = b.register_hook(lambda g: None)
    del b
    back(y)
    assert seen == [[2.0] * 3]
    del y
    assert alive() is None
    handle.remove()


def test_a_cycle_through_a_hook_is_collected() -> None:
    b = leaf(jg) * 1  # torch never frees this one
    alive = weakref.ref(b)
    b.register_hook(lambda g, keep=b: None)
    del b
    gc.collect()
    assert alive() is None


# 39: around the call of a module ------------------------------------------------------------------
def call(lib: Any, hook: Any, args: tuple[Any, ...]) -> Any:
    args = hook.setup_input_hook(args)
    return hook.setup_output_hook((args[0] * 2, args[0] + 1, args[1]))


def hooks_around_a_call(lib: Any, module: Any, full: list[Any], pre: list[Any]) -> Any:
    return importlib.import_module(f"{lib.__name__}.utils.hooks").BackwardHook(module, full, pre)


def test_full_backward_hooks(lib: Any) -> None:
    seen: list[Any] = []

    def values(grads: Any) -> Any:
        return [None if g is None else g.tolist()[0] for g in grads]

    full = [lambda m, ins, outs: seen.append(("full", values(ins), values(outs)))]
    pre = [lambda m, outs: seen.append(("pre", values(outs)))]
    t = leaf(lib)
    y, z, five = call(lib, hooks_around_a_call(lib, None, full, pre), (t, 5))
    assert five == 5
    assert y.grad_fn.name() == z.grad_fn.name() == "BackwardHookFunctionBackward"
    y.register_hook(lambda g: seen.append("tensor"))
    y.grad_fn.register_hook(lambda ins, outs: seen.append("node"))
    back(y * 3)
    assert seen == [
        "tensor",
        ("pre", [3.0, None, None]),
        "node",
        ("full", [6.0, None], [3.0, None, None]),
    ]
    assert t.grad.tolist() == [6.0] * 3


def test_full_backward_hooks_without_inputs_that_require_grad(lib: Any) -> None:
    seen: list[Any] = []
    w = leaf(lib)
    hook = hooks_around_a_call(lib, None, [lambda m, ins, outs: seen.append(ins)], [])
    hook.setup_input_hook((w.detach(), 5))
    y = hook.setup_output_hook(w * 2)
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        back(y)
    assert seen == [(None, None)]


def test_full_backward_hooks_replace_gradients(lib: Any) -> None:
    t = leaf(lib)
    full = [lambda m, ins, outs: (ins[0] * 10, None)]
    pre = [lambda m, outs: (outs[0] * 2, *outs[1:])]
    back(call(lib, hooks_around_a_call(lib, None, full, pre), (t, 5))[0])
    assert t.grad.tolist() == [40.0] * 3
    y = call(lib, hooks_around_a_call(lib, None, [], [lambda m, outs: outs[:2]]), (t, 5))[0]
    with pytest.raises(RuntimeError, match="invalid number of grad_output, got 2, but expected 3"):
        back(y)
