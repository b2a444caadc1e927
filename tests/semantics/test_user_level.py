"""What users' code relies on between the rules: odd calls, old names, exact wording."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.semantics.common import f64, leaf

Library = Any


def names_of(fn: Any) -> str:
    """The graph behind a node, written down."""
    if fn is None:
        return "None"
    inner = ", ".join(names_of(node) for node, _ in fn.next_functions)
    return f"{type(fn).__name__}({inner})"


def view_function(lib: Library, jvp: Callable[..., Any] | None = None, dirty: bool = False) -> Any:
    """A function that returns a view of its input, or its input doubled in place."""

    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if dirty:
                ctx.mark_dirty(x)
                return x.mul_(2)
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    if jvp is not None:
        Fn.jvp = staticmethod(jvp)
    return Fn


# Gradients ----------------------------------------------------------------------------------------
def test_materialized_zeros_can_be_differentiated_again(lib: Library) -> None:
    x, a = f64(lib, 0.5).requires_grad_(), f64(lib, 1.0).requires_grad_()
    (slope,) = lib.autograd.grad(x * a, x, create_graph=True)
    options = {"allow_unused": True, "materialize_grads": True}
    (curve,) = lib.autograd.grad(slope, x, create_graph=True, **options)
    assert curve.item() == 0
    assert curve.requires_grad
    (third,) = lib.autograd.grad(curve, x, **options)
    assert third.item() == 0
    assert not third.requires_grad


def test_no_zeros_for_an_edge(lib: Library) -> None:
    x, y = leaf(lib).clone(), leaf(lib).clone()
    edge = lib.autograd.graph.get_gradient_edge(y)
    assert lib.autograd.grad(x.sum(), edge, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input"):
        lib.autograd.grad(x.sum(), edge, allow_unused=True, materialize_grads=True)


def test_a_batch_of_gradients_must_fit(lib: Library) -> None:
    x = leaf(lib)
    (rows,) = lib.autograd.grad(x.sum(), x, (lib.arange(2),), is_grads_batched=True)
    assert rows.tolist() == [[0.0] * 3, [1.0] * 3]
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first"):
        lib.autograd.grad(x.clone(), x, (lib.ones(3),), is_grads_batched=True)


def test_the_shapes_of_a_mismatch_are_named(lib: Library) -> None:
    y, grad = leaf(lib) * 2, lib.ones(2)
    with pytest.raises(RuntimeError) as caught:
        lib.autograd.grad(y, y, grad)
    assert str(caught.value) == (
        f"Mismatch in shape: grad_output[0] has a shape of {grad.shape} and output[0] has a shape "
        f"of {y.shape}."
    )


def test_the_graph_of_a_recorded_gradient(lib: Library) -> None:
    x = leaf(lib)
    seed = f64(lib, 1.0).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x.detach()).sum().backward(seed, create_graph=True)
    expected = "CopyBackwards(None, MulBackward0(ExpandBackward0(AccumulateGrad()), None))"
    assert names_of(x.grad.grad_fn) == expected
    x.grad = None


def test_atan2_at_the_origin(lib: Library) -> None:
    x, y = f64(lib, [0.0]).requires_grad_(), f64(lib, [0.0]).requires_grad_()
    lib.atan2(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0], [0.0])


# Leaves and attributes ----------------------------------------------------------------------------
def test_set_makes_another_leaf(lib: Library) -> None:
    x = leaf(lib)
    edge = lib.autograd.graph.get_gradient_edge(x)
    y = x.clone()
    with lib.no_grad():
        x.set_(f64(lib, [4.0, 5.0]))
    with pytest.raises(RuntimeError, match="to not have been used in the graph"):
        lib.autograd.grad(y.sum(), x)
    assert lib.autograd.grad(y.sum(), edge)[0].tolist() == [1.0] * 3
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_what_cannot_be_deleted(lib: Library) -> None:
    x = leaf(lib)
    del x.grad
    assert x.grad is None
    for name in ("data", "requires_grad", "_grad_fn", "_backward_hooks"):
        with pytest.raises(RuntimeError):
            delattr(x, name)
    x._backward_hooks = {}
    x.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_parts_of_a_real_tensor(lib: Library) -> None:
    x = lib.zeros(2, 2)
    assert x.real is x
    with pytest.raises(RuntimeError, match="imag"):
        hasattr(x, "imag")
    assert all(hasattr(x, name) for name in dir(x) if name not in ("imag", "volatile"))
    with pytest.warns(UserWarning, match="volatile"):
        assert not x.volatile


def test_tensor_types_by_name(lib: Library) -> None:
    x = lib.ones(2, 3)
    assert isinstance(x, lib.FloatTensor)
    assert not isinstance(x, lib.DoubleTensor)
    assert lib.LongTensor([0, 2]).tolist() == [0, 2]
    assert lib.BoolTensor(4, 5).shape == (4, 5)
    assert lib.Tensor([1, 2]).dtype is lib.float32
    assert lib.Tensor(2, 3).shape == (2, 3)
    assert lib.IntTensor().dtype is lib.int32
    assert isinstance(x.type(lib.DoubleTensor), lib.DoubleTensor)
    assert x.type(lib.FloatTensor).data_ptr() == x.data_ptr()
    assert x.new(x.size()).shape == x.shape
    assert x.double().new([1.5]).tolist() == [1.5]
    assert x.double().new([1.5]).dtype is lib.float64


def test_repr_of_a_view_that_lost_its_history(lib: Library) -> None:
    x = lib.ones(1, requires_grad=True)
    with lib.no_grad():
        view = x[:]
        view *= 2
    assert repr(view) == "tensor([2.], grad_fn=<Invalid>)"


# Hooks --------------------------------------------------------------------------------------------
def test_a_hook_after_accumulation_returns_nothing(lib: Library) -> None:
    x = leaf(lib)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match=r"hooks should return None\."):
        x.sum().backward()


def test_blocks_entered_in_backward_end_with_it(lib: Library, no_gc: None) -> None:
    def scope() -> Any:
        def unpack(x: Any) -> Any:
            block().__enter__()
            return x

        hooks = lib.autograd.graph.saved_tensors_hooks(lambda x: x, unpack)
        block = weakref.ref(hooks)
        x = leaf(lib)
        with hooks:
            x.sin().sum().backward()
        return weakref.ref(unpack)

    assert scope()() is None
    # Nothing packs any more: this handle has no hooks yet.
    y = leaf(lib).exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda x: x, lambda x: x)


def test_names_of_accumulators(lib: Library) -> None:
    node = leaf(lib).clone().grad_fn.next_functions[0][0]
    assert node.name() == "torch::autograd::AccumulateGrad"
    assert type(node) is lib._C._functions.AccumulateGrad


def test_sequence_numbers_can_be_changed(lib: Library) -> None:
    x, y = leaf(lib), leaf(lib)
    first, second = x * 1, y * 1
    total = first + second
    order: list[str] = []
    first.register_hook(lambda g: order.append("first"))
    second.register_hook(lambda g: order.append("second"))
    first.grad_fn._set_sequence_nr(total.grad_fn._sequence_nr() + 1)
    total.sum().backward()
    assert order == ["first", "second"]


def test_what_the_running_pass_says(lib: Library) -> None:
    seen: list[Any] = []
    x = leaf(lib)
    y = x.exp()
    other = x.cos()

    def look(grad: Any) -> None:
        internals = lib._C
        seen.append(
            (
                internals._current_graph_task_id() >= 0,
                internals._will_engine_execute_node(y.grad_fn),
                internals._will_engine_execute_node(other.grad_fn),
            )
        )

    y.register_hook(look)
    (y * 2).sum().backward()
    assert seen == [(True, True, False)]
    assert lib._C._current_graph_task_id() == -1
    with pytest.raises(RuntimeError, match="during the backward pass"):
        lib._C._will_engine_execute_node(y.grad_fn)


def test_nodes_that_fail_or_forget(lib: Library) -> None:
    x = leaf(lib)
    y = lib._C._functions.DelayedError("not here", 1)(x)
    with pytest.raises(RuntimeError, match="not here"):
        (y * 2).sum().backward()
    lib._C._functions.UndefinedGrad()(x).sum().backward()
    assert x.grad is None


# Saved tensors ------------------------------------------------------------------------------------
def test_handles_show_what_is_saved(lib: Library) -> None:
    def keep(x: Any) -> Any:
        return x

    x = leaf(lib)
    with lib.autograd.graph.saved_tensors_hooks(keep, keep):
        squared = x**2  # its node must outlive the handle, in PyTorch
    packed = squared.grad_fn._raw_saved_self
    assert packed.data is x
    assert packed.unpack_hook is keep
    y = x.exp()
    result = y.grad_fn._raw_saved_result
    assert result.data is not y
    assert result.unpack_hook is None
    with pytest.raises(TypeError, match="incompatible function arguments"):
        result.register_hooks(keep)
    with pytest.raises(RuntimeError, match="from Python is forbidden"):
        lib.autograd.SavedTensor()


def test_detached_after_it_was_saved(lib: Library) -> None:
    x = leaf(lib).clone()
    y = x.sin()
    x.detach_()
    with pytest.raises(RuntimeError, match="Trying to use a saved tensor that has been detached"):
        y.sum().backward()


def test_mutation_context_counts_clones(lib: Library) -> None:
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as context:
        x = leaf(lib).clone()
        y = x**2
        assert (len(context.tid_to_weakhandle), len(context.cloned)) == (1, 0)
        x.sin_()
        assert len(list(context.cloned.items())) == 1
        del y
        assert not list(context.cloned.items())


def test_unsafe_splits_are_methods(lib: Library) -> None:
    for split in (
        lambda t: t.unsafe_split(1),
        lambda t: t.unsafe_split_with_sizes((1, 1, 1)),
        lambda t: t.unsafe_chunk(3),
    ):
        x = leaf(lib)
        first, second, _ = split(x * 2)
        first.mul_(second)
        first.sum().backward()
        assert x.grad.tolist() == [8.0, 4.0, 0.0]


# Functions ----------------------------------------------------------------------------------------
def test_no_zeros_for_marked_outputs(lib: Library) -> None:
    seen: list[Any] = []

    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            one, other = x.clone(), x.clone()
            ctx.mark_non_differentiable(other)
            ctx._materialize_non_diff_grads = False
            return one, other

        @staticmethod
        def backward(ctx: Any, one: Any, other: Any) -> Any:
            seen.append(other)
            return one

    Fn.apply(leaf(lib))[0].sum().backward()
    assert seen == [None]


def test_saved_variables_is_deprecated(lib: Library) -> None:
    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_variables
            return grad * x

    x = leaf(lib)
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        Fn.apply(x).sum().backward()
    assert x.grad.tolist() == x.tolist()


def test_saved_tensors_that_are_handed_out_once(lib: Library) -> None:
    class Fn(lib.autograd.Function):
        clear_saved_tensors_on_access = True
        times = 1

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            for _ in range(Fn.times):
                (x,) = ctx.saved_tensors
                watched = weakref.ref(x)
                del x
                assert watched() is None
            return grad

    Fn.apply(leaf(lib).clone()).sum().backward()
    Fn.times = 2
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        Fn.apply(leaf(lib).clone()).sum().backward()


def test_views_that_functions_write(lib: Library, no_gc: None) -> None:
    x = leaf(lib)
    write = view_function(lib, dirty=True).apply
    with pytest.raises(RuntimeError, match="function that returns multiple views"):
        write(x.clone().split(1)[0])
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        write(x.view_as(x))

    class Saves(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    def scope() -> Any:
        view = leaf(lib).clone().view(3)
        Saves.apply(view)
        return weakref.ref(view)

    assert scope()() is None


def test_a_dirty_view_must_be_an_input(lib: Library) -> None:
    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.clone().view_as(x)
            ctx.mark_dirty(out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with pytest.raises(RuntimeError, match=r"received a tensor that was not an input\."):
        Fn.apply(leaf(lib).clone())


def test_tagged_views_without_history_say_why(lib: Library) -> None:
    plain, b = f64(lib, [1.0, 2.0]), f64(lib, 3.0).requires_grad_()
    view = view_function(lib).apply(plain)
    with pytest.raises(RuntimeError, match="view was created inside a custom Function"):
        view += b
    first, _ = plain.unbind()
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        first.copy_(b)
    _, second = leaf(lib, [1.0, 2.0]).clone().unbind()
    with pytest.raises(RuntimeError, match=r"Output 1 of Unbind.* is a view and is being modified"):
        second.add_(1)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_view_of_a_quiet_view(lib: Library, mode: str) -> None:
    x = lib.zeros(2)
    with getattr(lib, mode)():
        y = x.view(2)
    y.requires_grad_()
    z = y.view(2)
    with pytest.raises(RuntimeError, match=f"a view of a view .* is being .* inside the {mode}"):
        z /= 2


# Forward-mode derivatives of functions ------------------------------------------------------------
def test_a_write_must_write_the_tangent(lib: Library) -> None:
    dual = lib.autograd.forward_ad
    for jvp, right in ((lambda ctx, t: t.mul_(2), True), (lambda ctx, t: t, False)):
        x, tangent = leaf(lib).detach(), f64(lib, [1.0] * 3)
        with dual.dual_level():
            written = dual.make_dual(x, tangent)
            apply = view_function(lib, jvp, dirty=True).apply
            if right:
                assert dual.unpack_dual(apply(written)).tangent.tolist() == [2.0] * 3
                continue
            with pytest.raises(RuntimeError, match="must modify the corresponding gradient"):
                apply(written)


@pytest.mark.parametrize(
    ("jvp", "phrase"),
    [
        (lambda ctx, t: t.view_as(t), None),
        (lambda ctx, t: t, "the jvp is not returning a view"),
        (lambda ctx, t: t * 2, "the jvp is not returning a view"),
        (lambda ctx, t: (t * 2).view_as(t), "not returning a view of the given"),
    ],
)
def test_the_tangent_of_a_view_is_a_view(lib: Library, jvp: Any, phrase: str | None) -> None:
    dual = lib.autograd.forward_ad
    x, tangent = leaf(lib), f64(lib, [1.0] * 3)
    with dual.dual_level():
        given = dual.make_dual(x, tangent)
        if phrase is None:
            y = view_function(lib, jvp).apply(given)
            assert dual.unpack_dual(y).tangent._base is tangent
            return
        with pytest.raises(RuntimeError, match=phrase):
            view_function(lib, jvp).apply(given)


def test_no_tangent_for_marked_outputs(lib: Library) -> None:
    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.clone()
            ctx.mark_non_differentiable(out)
            return out

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent

    dual = lib.autograd.forward_ad
    with dual.dual_level():
        x = dual.make_dual(leaf(lib).detach(), f64(lib, [1.0] * 3))
        with pytest.raises(RuntimeError, match="You should return None at that position instead"):
            Fn.apply(x)


def test_copying_copies_the_tangent(lib: Library) -> None:
    dual = lib.autograd.forward_ad
    tangent = f64(lib, [1.0] * 3)
    with dual.dual_level():
        target = f64(lib, [0.0] * 3)
        target.copy_(dual.make_dual(f64(lib, [4.0] * 3), tangent))
        found = dual.unpack_dual(target).tangent
        assert found.tolist() == [1.0] * 3
        assert found is not tangent


# gradcheck ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("fast_mode", [True, False])
def test_gradcheck_looks_backward_first(lib: Library, fast_mode: bool) -> None:
    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def vjp(ctx: Any, grad: Any) -> Any:
            raise RuntimeError("backward is broken")

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            raise RuntimeError("forward is broken")

    with pytest.raises(RuntimeError, match="backward is broken"):
        lib.autograd.gradcheck(Fn.apply, leaf(lib), check_forward_ad=True, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [True, False])
def test_gradcheck_makes_every_input_dual(lib: Library, fast_mode: bool) -> None:
    dual = lib.autograd.forward_ad

    def wrong(x: Any, y: Any) -> Any:
        if dual._current_level >= 0:
            primal, tangent = dual.unpack_dual(y)
            y = dual.make_dual(primal, tangent * 1.1)
        return x + y, y

    with pytest.raises(RuntimeError, match="mismatch for output 0 with respect to input 1"):
        lib.autograd.gradcheck(
            wrong, (leaf(lib), leaf(lib)), check_forward_ad=True, fast_mode=fast_mode
        )


def test_gradcheck_warns_of_undefined_gradients(lib: Library) -> None:
    def picky(x: Any) -> Any:
        def hook(grad: Any) -> None:
            if grad is None:
                raise RuntimeError("a gradient, please")

        y = x.clone()
        y.register_hook(hook)
        return y

    with (
        pytest.warns(UserWarning, match="New undefined gradient support checking feature"),
        pytest.raises(RuntimeError, match="to handle undefined output grads"),
    ):
        lib.autograd.gradcheck(picky, leaf(lib))


# Checkpoints --------------------------------------------------------------------------------------
def differing(first: Callable[[Any], Any], then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that is another one the second time."""
    runs = [then, first]

    def run(x: Any) -> Any:
        return runs.pop()(x)

    return run


def test_checkpoints_tell_what_differs(lib: Library) -> None:
    tools = lib.utils.checkpoint
    x = leaf(lib)

    def short(x: Any) -> Any:
        return x.sin().exp()

    def long(x: Any) -> Any:
        return x.sin().exp().sin()

    def wide(x: Any) -> Any:
        return x.sin() * f64(lib, [[1.0] * 3] * 2)

    def run(function: Any, **options: Any) -> None:
        tools.checkpoint(function, x, use_reentrant=False, **options).sum().backward()

    with (
        tools.set_checkpoint_early_stop(False),
        pytest.raises(RuntimeError, match="trying to save more tensors during recomputation"),
    ):
        run(differing(short, long))
    told = "You are seeing this error because you passed `debug=True` to checkpoint"
    with pytest.raises(RuntimeError, match=told):
        run(differing(short, wide), debug=True)
    with tools.set_checkpoint_debug_enabled(True), pytest.raises(RuntimeError, match=told):
        run(differing(short, wide))
    with (
        tools.set_checkpoint_debug_enabled(False),
        pytest.raises(RuntimeError, match="have different metadata"),
    ):
        run(differing(short, wide), debug=True)


def test_checkpoints_unpack_once_per_pass(lib: Library) -> None:
    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ctx.saved_tensors
            with pytest.raises(RuntimeError, match="already unpacked once"):
                ctx.saved_tensors
            return grad * 2

    x = leaf(lib)
    lib.utils.checkpoint.checkpoint(
        lambda t: Fn.apply(t * 2), x, use_reentrant=False
    ).sum().backward()
    assert x.grad.tolist() == [4.0] * 3


def test_checkpoints_save_plain_inputs_as_they_are(lib: Library) -> None:
    seen: list[Any] = []

    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(y)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.extend(ctx.saved_tensors)
            return grad, None

    y = f64(lib, 1.0)
    lib.utils.checkpoint.checkpoint(Fn.apply, leaf(lib), y, use_reentrant=False).sum().backward()
    assert seen[0] is y


def test_recomputed_tensors_of_functions_are_freed(lib: Library, no_gc: None) -> None:
    made: list[Any] = []

    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.clone()
            ctx.save_for_backward(y)
            made.append(weakref.ref(y))
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ctx.saved_tensors

    def scope() -> None:
        x = leaf(lib)
        lib.utils.checkpoint.checkpoint(Fn.apply, x, use_reentrant=False).sum().backward()

    scope()
    assert len(made) == 2
    assert all(reference() is None for reference in made)


@pytest.mark.parametrize("early_stop", [True, False])
def test_gradients_inside_nested_checkpoints(lib: Library, early_stop: bool) -> None:
    tools = lib.utils.checkpoint

    def kept(function: Any) -> Any:
        return lambda x: tools.checkpoint(function, x, use_reentrant=False)

    def slope(function: Any) -> Any:
        def run(x: Any) -> Any:
            with lib.enable_grad():
                return lib.autograd.grad(function(x), x, create_graph=True)[0]

        return run

    def f(x: Any) -> Any:
        return x.sin().exp().sin()

    x = f64(lib, 0.3).requires_grad_()
    with tools.set_checkpoint_early_stop(early_stop):
        found = slope(kept(slope(kept(f))))(x)
    assert found.item() == pytest.approx(slope(slope(f))(x).item())


# Switches -----------------------------------------------------------------------------------------
def test_switches_remember_how_they_stand(lib: Library) -> None:
    grad = lib.autograd
    for switch, ask, usual in (
        (grad.set_multithreading_enabled, grad.is_multithreading_enabled, True),
        (grad._force_original_view_tracking, grad.is_view_replay_enabled, False),
    ):
        with switch(not usual):
            assert ask() is not usual
            switch(usual)
            assert ask() is usual
        assert ask() is usual
        with contextlib.suppress(KeyError), switch(not usual):
            raise KeyError
        assert ask() is usual


def test_versions_can_be_kept(lib: Library) -> None:
    x = leaf(lib).clone()
    x.add_(1)
    with lib.autograd._unsafe_preserve_version_counter(x):
        x.mul_(2)
    assert x._version == 1
    lib._C._autograd._unsafe_set_version_counter((x,), (5,))
    assert x._version == 5
    with pytest.raises(RuntimeError, match="Cannot set"):
        lib._C._autograd._unsafe_set_version_counter((x,), (-1,))


def test_weak_references_of_tensors(lib: Library) -> None:
    x = leaf(lib)
    reference = lib._C._WeakTensorRef(x)
    assert not reference.expired()
    del x
    gc.collect()
    assert reference.expired()


def test_warnings_given_every_time(lib: Library) -> None:
    assert not lib.is_warn_always_enabled()
    lib.set_warn_always(True)
    try:
        for _ in range(2):
            x = leaf(lib)
            with pytest.warns(UserWarning, match=r"Using backward\(\) with create_graph=True"):
                (x * x).sum().backward(create_graph=True)
            x.grad = None
    finally:
        lib.set_warn_always(False)


def test_leaves_never_share_what_a_function_made_for_them(lib: Library) -> None:
    kept: list[Any] = []

    class Fn(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            made = grad * 2
            kept[:] = [made]
            return made, made

    x, y = leaf(lib), leaf(lib)
    (Fn.apply(x, y) * 1).sum().backward()
    assert x.grad.tolist() == y.grad.tolist() == [2.0] * 3
    assert len({x.grad.data_ptr(), y.grad.data_ptr(), kept[0].data_ptr()}) == 3
