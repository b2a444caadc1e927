"""Custom functions: rules F1 to F10 and points 41 to 47."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.semantics.common import back, f64, leaf, scale, watch

Body = Callable[..., Any]


def function(lib: Any, forward: Body, backward: Body | None = None, **members: Any) -> Any:
    """A custom function from bare functions."""
    body: dict[str, Any] = {"forward": staticmethod(forward)}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    body.update({name: staticmethod(member) for name, member in members.items()})
    return type("Fn", (lib.autograd.Function,), body)


def double(ctx: Any, x: Any) -> Any:
    return x * 2


# F1 -----------------------------------------------------------------------------------------------
def test_forward_is_not_recorded(lib: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        seen.append((lib.is_grad_enabled(), (x * 2).requires_grad))
        with lib.enable_grad():
            return x * 2

    t = leaf(lib)
    y = function(lib, forward, lambda ctx, g: g).apply(t)
    assert seen == [(False, False)]
    assert y.grad_fn.name() == "FnBackward"
    with lib.no_grad():
        assert not function(lib, forward, lambda ctx, g: g).apply(t).requires_grad


def test_a_node_needs_a_tensor_argument_that_requires_grad(lib: Any) -> None:
    t = leaf(lib)
    in_list = function(lib, lambda ctx, xs: xs[0] * 2, lambda ctx, g: None)
    assert not in_list.apply([t]).requires_grad
    assert not function(lib, double).apply(t.detach()).requires_grad
    mixed = function(lib, lambda ctx, x: (x * 2, (x > 1), x.long(), 5, None), lambda ctx, *g: g[0])
    y, mask, whole, five, none = mixed.apply(t)
    assert [y.requires_grad, mask.requires_grad, whole.requires_grad] == [True, False, False]
    assert (five, none) == (5, None)


# F2, 41, 43 ---------------------------------------------------------------------------------------
def test_backward_gets_one_gradient_per_output(lib: Any) -> None:
    seen: list[Any] = []

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append([None if g is None else g.tolist() for g in grads])
        return grads[0]

    t = leaf(lib)
    fn = function(lib, lambda ctx, x: (x * 2, "text", x.long(), x * 3), backward)
    back(fn.apply(t)[0])
    assert seen == [[[1.0] * 3, None, [0] * 3, [0.0] * 3]]
    seen.clear()

    def lazy(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x.long(), x * 3

    back(function(lib, lazy, backward).apply(t)[0])
    assert seen == [[[1.0] * 3, None, None]]


def test_all_arguments_that_are_no_tensors(lib: Any) -> None:
    fn = function(lib, lambda ctx, *args: args, lambda ctx, *g: g)
    assert fn.apply(1, "two", None) == (1, "two", None)
    assert fn.apply() == ()


def test_a_list_is_one_output(lib: Any) -> None:
    out = function(lib, lambda ctx, x: [x * 2], lambda ctx, *g: g).apply(leaf(lib))
    assert isinstance(out, list)
    assert not out[0].requires_grad


@pytest.mark.parametrize(
    ("returned", "phrase"),
    [
        ((1,), r"expected Variable or None \(got int\)"),
        ([1], r"expected Variable or None \(got list\)"),
        ((), r"incorrect number of gradients \(expected 1, got 0\)"),
        ((None, 2), r"incorrect number of gradients \(expected 1, got 2\)"),
    ],
)
def test_wrong_returns_of_backward(lib: Any, returned: Any, phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        back(function(lib, double, lambda ctx, g: returned).apply(leaf(lib)))


def test_gradients_and_nones(lib: Any) -> None:
    t = leaf(lib)
    back(function(lib, double, lambda ctx, g: (g, None, None)).apply(t))
    assert t.grad.tolist() == [1.0] * 3
    for_number = function(lib, lambda ctx, x, n: x * n, lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match="different than None at position 2"):
        back(for_number.apply(t, 3))
    assert len(for_number.apply(t, 3).grad_fn.next_functions) == 1


def test_no_backward_and_two_of_them(lib: Any) -> None:
    t = leaf(lib)
    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        back(function(lib, double).apply(t))
    vjp = function(lib, double, vjp=lambda ctx, g: g * 7)
    back(vjp.apply(t))
    assert t.grad.tolist() == [7.0] * 3
    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        back(function(lib, double, lambda ctx, g: g, vjp=lambda ctx, g: g).apply(t))

    class Empty(lib.autograd.Function):
        pass

    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Empty.apply(t)


# F3 -----------------------------------------------------------------------------------------------
def test_needs_input_grad_is_fixed_at_apply(lib: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, y: Any, n: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return x * y

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return g, g, None

    t, u = leaf(lib), leaf(lib)
    fn = function(lib, forward, backward)
    with lib.no_grad():
        fn.apply(t, u.detach(), 1)
    lib.autograd.grad(fn.apply(t, u, 1), t, f64(lib, [1.0] * 3))
    assert seen == [(True, False, False), (True, True, False), (True, True, False)]


# F4, 22 -------------------------------------------------------------------------------------------
def test_what_save_for_backward_gives_back(lib: Any) -> None:
    seen: list[Any] = []
    t = leaf(lib)

    def forward(ctx: Any, x: Any) -> Any:
        y, z = x.exp(), x * 2
        ctx.save_for_backward(x, y, z, None)
        ctx.note = "kept"
        seen.append(ctx.saved_tensors)
        return y

    def backward(ctx: Any, g: Any) -> Any:
        x, y, z, none = ctx.saved_tensors
        seen.append((x is t, y.grad_fn is ctx, z.grad_fn, none, ctx.note))
        return g * y

    y = function(lib, forward, backward).apply(t)
    assert y.grad_fn.saved_tensors[1] is not y
    back(y)
    assert seen == [(), (True, True, None, None, "kept")]
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn.saved_tensors
    with pytest.raises(RuntimeError, match="second time"):
        back(y)


def test_saving_outputs_by_number(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        a, b = x * 2, x * 3
        ctx.save_for_backward(b)
        return a, b

    node = function(lib, forward, lambda ctx, *g: g[0]).apply(leaf(lib))[0].grad_fn
    (b,) = node.saved_tensors
    assert (b.grad_fn is node, b.output_nr) == (True, 1)


def test_only_tensors_can_be_saved(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, 3)
        return x * 2

    with pytest.raises(TypeError, match="save_for_backward can only save variables"):
        function(lib, forward).apply(leaf(lib))


def test_a_saved_tensor_that_was_written(lib: Any) -> None:
    b = leaf(lib) * 1
    y = scale(lib).apply(b)
    b.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        back(y)


def test_without_saves_backward_may_run_twice(lib: Any) -> None:
    t = leaf(lib)
    y = function(lib, double, lambda ctx, g: g * 2).apply(t)
    back(y)
    back(y)
    assert t.grad.tolist() == [4.0] * 3


# F5, 44 -------------------------------------------------------------------------------------------
def dirty(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x.mul_(2)


def test_mark_dirty(lib: Any) -> None:
    t = leaf(lib)
    x = t * 1
    fn = function(lib, dirty, lambda ctx, g: g * 2)
    y = fn.apply(x)
    assert y is x
    assert (x._version, x.grad_fn.name()) == (2, "FnBackward")
    back(x)
    assert t.grad.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="has been used in an in-place operation"):
        fn.apply(t)


def test_mark_dirty_of_a_view_rebases_its_base(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    v = b[1:]
    assert function(lib, dirty, lambda ctx, g: g * 20).apply(v) is v
    back(b)
    assert t.grad.tolist() == [1.0, 20.0, 20.0]


def test_wrong_marks(lib: Any) -> None:
    def not_returned(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x * 1

    def not_an_input(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.mark_dirty(y)
        return y

    def several(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2), x * 1

    b = leaf(lib) * 1
    with pytest.raises(RuntimeError, match="were not returned as output"):
        function(lib, not_returned).apply(b)
    with pytest.warns(UserWarning, match="mark_dirty"):
        function(lib, not_an_input).apply(b)
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        function(lib, several).apply((leaf(lib) * 1)[1:])


# F6, 42 -------------------------------------------------------------------------------------------
def test_an_input_returned_as_it_is(lib: Any) -> None:
    t = leaf(lib)
    y = function(lib, lambda ctx, x: x, lambda ctx, g: g * 5).apply(t)
    assert y is not t
    assert y._is_view()
    assert y._base is t
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    back(y + t)
    assert seen == [[1.0] * 3]  # only its own use
    assert t.grad.tolist() == [6.0] * 3


def test_the_same_output_twice(lib: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        return y, y

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append((a.tolist(), b.tolist()))
        return a + b

    a, b = function(lib, forward, backward).apply(leaf(lib))
    assert a is b
    assert a.output_nr == 1
    back(a * 3)
    assert seen == [([0.0] * 3, [3.0] * 3)]


def test_views_returned_may_not_be_written(lib: Any) -> None:
    t = leaf(lib)
    fn = function(lib, lambda ctx, x: x[:2], lambda ctx, g: None)
    v = fn.apply(t)
    assert v._is_view()
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        v.mul_(2)
    two = function(lib, lambda ctx, x: (x[:2], x[1:]), lambda ctx, *g: None).apply(t)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        two[0].mul_(2)
    # Point 9: also where only the written value requires grad.
    plain = fn.apply(t.detach())
    with pytest.raises(RuntimeError, match="is being modified inplace"):
        plain.mul_(t[:2])


# F7 -----------------------------------------------------------------------------------------------
def test_mark_non_differentiable(lib: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.mark_non_differentiable(y, x)
        return y, x, x * 3

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append([g.tolist() for g in grads])
        return grads[2]

    t = leaf(lib)
    a, b, c = function(lib, forward, backward).apply(t)
    assert [a.requires_grad, b.requires_grad, c.requires_grad] == [False, False, True]
    assert b is not t
    assert b.data_ptr() == t.data_ptr()
    assert not b._is_view()
    back(c)
    assert seen == [[[0.0] * 3, [0.0] * 3, [1.0] * 3]]


# F8, 47 -------------------------------------------------------------------------------------------
def split(lib: Any, forward: Body) -> Any:
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.inputs_seen = inputs
        ctx.save_for_backward(inputs[0])

    return function(
        lib, forward, lambda ctx, g: (g * ctx.inputs_seen[1], None), setup_context=setup_context
    )


def test_setup_context(lib: Any) -> None:
    t = leaf(lib)
    fn = split(lib, lambda x, factor=2: x * factor)
    back(fn.apply(t))
    back(fn.apply(t, 3))
    back(fn.apply(x=t, factor=4))
    assert t.grad.tolist() == [9.0] * 3
    with lib.no_grad():
        assert fn.apply(t).tolist() == [2.0, 4.0, 6.0]


def test_saving_an_input_returned_as_it_is_needs_ctx_in_forward(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="returned as-is as output is being saved"):
        split(lib, lambda x, factor=2: x).apply(leaf(lib))


def test_keyword_arguments(lib: Any) -> None:
    t = leaf(lib)
    fn = function(lib, lambda ctx, x, n=2: x * n, lambda ctx, g: (g, None))
    assert fn.apply(t, n=3).tolist() == [3.0, 6.0, 9.0]
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        fn.apply(t, other=3)


# F9, 46 -------------------------------------------------------------------------------------------
def test_once_differentiable(lib: Any) -> None:
    once = lib.autograd.function.once_differentiable
    fn = function(lib, double, once(lambda ctx, g: g * 2))
    t = leaf(lib)
    (g,) = lib.autograd.grad(fn.apply(t), t, f64(lib, [1.0] * 3), create_graph=True)
    assert not g.requires_grad
    one = leaf(lib, [1.0] * 3)
    (g,) = lib.autograd.grad(fn.apply(t), t, one, create_graph=True)
    assert g.requires_grad
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        back(g)


# F10 ----------------------------------------------------------------------------------------------
def test_the_node_is_the_context(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.anything = [1]
        return x * 2

    fn = function(lib, forward, lambda ctx, g: g)
    node = fn.apply(leaf(lib)).grad_fn
    assert node.anything == [1]
    assert type(node).__name__ == node.name() == "FnBackward"
    assert type(node)._forward_cls is fn
    assert isinstance(node, lib.autograd.function.FunctionCtx)
    assert isinstance(node, lib.autograd.graph.Node)


def test_any_name_is_free_on_the_context(lib: Any) -> None:
    names = "saved outputs seq hooks plan where fresh trusted names row attributes".split()

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        for name in names:
            setattr(ctx, name, name)
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        assert [getattr(ctx, name) for name in names] == names
        ctx.saved_tensors
        return g * 2

    t = leaf(lib)
    y = function(lib, forward, backward).apply(t * 1)
    y.register_hook(lambda g: g * 2)
    back(y)
    assert t.grad.tolist() == [4.0] * 3


def test_old_style_functions(lib: Any) -> None:
    class Old(lib.autograd.Function):
        def forward(self, x: Any) -> Any:
            return x

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        old = Old()
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        old(leaf(lib))


# Lifetime -----------------------------------------------------------------------------------------
def test_custom_functions_leave_no_cycles(lib: Any, no_gc: None) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.save_for_backward(x, y)
        return y, x

    t = leaf(lib)
    for mode in ("plain", "marked", "dropped"):
        x = t * 1
        y, _ = function(lib, forward, lambda ctx, a, b: ctx.saved_tensors[0]).apply(x)
        if mode == "marked":
            x = t * 1
            y = function(lib, dirty, lambda ctx, g: g).apply(x)
        alive = watch(y.grad_fn)
        if mode != "dropped":
            back(y)
        del x, y, _
        assert alive() is None


def test_an_output_on_the_context_is_a_cycle(lib: Any, no_gc: None) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.out = x * 2
        return ctx.out

    y = function(lib, forward, lambda ctx, g: g).apply(leaf(lib))
    alive = watch(y.grad_fn)
    del y
    assert alive() is not None
    gc.collect()


def test_long_chains_of_custom_functions(lib: Any) -> None:
    fn = function(lib, lambda ctx, x: x + 0, lambda ctx, g: g)
    t = leaf(lib)
    x = t
    length = 150_000 if lib.__name__ == "jitgrad" else 5_000
    for _ in range(length):
        x = fn.apply(x)
    back(x)
    assert t.grad.tolist() == [1.0] * 3
    del x  # freed without recursion


def test_custom_functions_under_no_grad_and_inference(lib: Any) -> None:
    fn = scale(lib)
    t = leaf(lib)
    with lib.no_grad():
        assert fn.apply(t).grad_fn is None
    with lib.inference_mode():
        assert fn.apply(t).is_inference()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back(fn.apply(t))
    assert t.grad.tolist() == [2.0] * 3
