"""Forward-mode AD: rules W1 and W2, custom functions, and forward-mode together with the tape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.autograd import forward_ad
from tests.oracle import libraries


@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Any:
    return libraries.jitgrad() if request.param == "jitgrad" else libraries.torch_or_skip()


def f64(lib: Any, values: Any, **options: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64, **options)


def dual(lib: Any, values: Any, tangent: Any) -> Any:
    return lib.autograd.forward_ad.make_dual(f64(lib, values), f64(lib, tangent))


def tangent(lib: Any, x: Any) -> Any:
    found = lib.autograd.forward_ad.unpack_dual(x).tangent
    return None if found is None else found.tolist()


# W1: levels ---------------------------------------------------------------------------------------
def test_one_level(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    assert fw._current_level == -1
    with fw.dual_level() as number:
        assert number == 0 == fw._current_level
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            fw.enter_dual_level()
        with pytest.raises(RuntimeError, match="not the last one"):
            fw.exit_dual_level(level=3)
    assert fw._current_level == -1
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fw.exit_dual_level()


def test_refusals_of_make_dual(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x, t = f64(lib, [1.0, 2.0]), f64(lib, [3.0, 4.0])
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(x, t)
    with fw.dual_level():
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fw.make_dual(fw.make_dual(x, t), t)
        with pytest.raises(RuntimeError, match="itself has a forward gradient"):
            fw.make_dual(x, fw.make_dual(x, t))
        with pytest.raises(RuntimeError, match=r"different size.*size \[2\] while.*size \[1\]"):
            fw.make_dual(x, t[:1])
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            fw.make_dual(x.long(), t)
        with pytest.raises(ValueError, match="Expected tangent to be floating point"):
            fw.make_dual(x, t.long())


def test_packing_shares_memory_and_version(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x, t = f64(lib, [1.0, 2.0]), f64(lib, [3.0, 4.0])
    assert fw.unpack_dual(x) == (x, None) if lib is jg else True
    with fw.dual_level():
        d = fw.make_dual(x, t)
        assert d._base is x
        primal, found = fw.unpack_dual(d)
        assert found is t and fw.unpack_dual(d).tangent is t
        assert primal is not fw.unpack_dual(d).primal
        assert primal.data_ptr() == x.data_ptr()
        x.add_(1)
        assert x._version == d._version == primal._version
        assert fw.unpack_dual(x).tangent is None
        assert fw.unpack_dual(primal).tangent is None
    assert fw.unpack_dual(d).tangent is None


def test_tangents_end_with_the_level(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    with fw.dual_level():
        d = dual(lib, [1.0], [1.0])
        y = d * 2
    with fw.dual_level():
        assert tangent(lib, d) is None and tangent(lib, y) is None
        assert tangent(lib, d * 2) is None


def test_the_level_does_not_keep_tangents_alive() -> None:
    import weakref

    with forward_ad.dual_level():
        t = jg.ones(2)
        d = forward_ad.make_dual(jg.ones(2), t)
        alive = weakref.ref(t)
        del t
        assert alive() is not None
        del d
        assert alive() is None


def test_dual_results_and_what_nodes_saved_die_with_the_level() -> None:
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        with forward_ad.dual_level():
            t = jg.ones(2, requires_grad=True)
            y = forward_ad.make_dual(jg.ones(2, requires_grad=True), t).exp()
            alive = weakref.ref(y)
            del y
        assert alive() is None
    finally:
        gc.enable()


def test_modes(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        with lib.no_grad():
            assert tangent(lib, d * 3) == [3.0, 3.0]
        assert tangent(lib, d.detach() * 3) is None
        assert tangent(lib, d.clone().detach_() * 3) is None
        if hasattr(lib, "inference_mode"):
            with lib.inference_mode():
                assert tangent(lib, d * 3) is None


def test_integer_results_and_comparisons_have_no_tangent(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        for y in (d > 0, d.long(), d.argmax()):
            assert tangent(lib, y) is None
        assert tangent(lib, d.floor()) == [0.0, 0.0]
        assert tangent(lib, lib.zeros_like(d)) is None


# W2: views and writes -----------------------------------------------------------------------------
def test_views_share_tangents_as_views(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]])
        for view, expected in (
            (d.t(), [[1.0, 3.0], [2.0, 4.0]]),
            (d[1], [3.0, 4.0]),
            (d[:, :1], [[1.0], [3.0]]),
            (d.view(4)[1:3], [2.0, 3.0]),
            (d.unbind(0)[1], [3.0, 4.0]),
            (d.split(1, 1)[1], [[2.0], [4.0]]),
            (d.diagonal(), [1.0, 4.0]),
            (d.unsqueeze(0)[0, 1], [3.0, 4.0]),
            (d.expand(2, 2, 2)[1, 1], [3.0, 4.0]),
        ):
            assert tangent(lib, view) == expected
            assert lib.autograd.forward_ad.unpack_dual(view).tangent._is_view()
        view = d[0]
        view.mul_(10)
        assert tangent(lib, d) == [[10.0, 20.0], [3.0, 4.0]]
        d.mul_(2)
        assert tangent(lib, view) == [20.0, 40.0]


def test_writing_a_dual_into_a_slice(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        base = f64(lib, [0.0, 0.0, 0.0])
        base[1:] = dual(lib, [5.0, 6.0], [1.0, 1.0])
        assert tangent(lib, base) == [0.0, 1.0, 1.0]
        assert tangent(lib, base * base) == [0.0, 10.0, 12.0]


def test_writing_the_base_reaches_earlier_views(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        base = f64(lib, [0.0, 0.0, 0.0])
        view = base[1:]
        base.copy_(dual(lib, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
        assert tangent(lib, view) == [5.0, 6.0]


def test_writes_in_place(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        y = d.clone()
        if lib is jg:  # PyTorch counts one of the factors after the write: [2, 6]
            assert tangent(lib, y.mul_(y)) == [2.0, 4.0]
        y = d.clone()
        assert tangent(lib, y.pow_(3)) == [3.0, 12.0]
        y = f64(lib, [1.0, 1.0])
        assert tangent(lib, y.mul_(d)) == [1.0, 1.0]
        y = d.clone()
        y.copy_(f64(lib, [0.0, 0.0]))
        assert tangent(lib, y) == [0.0, 0.0]
        y = d.clone()
        y[0] = 7.0
        assert tangent(lib, y) == [0.0, 1.0]
        y = d.clone()
        assert tangent(lib, y.zero_()) == [0.0, 0.0]
        y = d.clone()
        assert tangent(lib, y.masked_fill_(f64(lib, [0.0, 1.0]) > 0, 3.0)) == [1.0, 0.0]
        y = f64(lib, [0.0, 0.0, 0.0])
        y.scatter_add_(0, lib.tensor([2, 2]), d)
        assert tangent(lib, y) == [0.0, 0.0, 2.0]
        y = f64(lib, [0.0, 0.0, 0.0])
        y.index_put_((lib.tensor([2, 0]),), d)
        assert tangent(lib, y) == [1.0, 0.0, 1.0]


def test_a_dual_is_a_base_of_its_own(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        fw = lib.autograd.forward_ad
        x = f64(lib, [1.0, 2.0])
        d = fw.make_dual(x, f64(lib, [1.0, 1.0]))
        d *= 2
        assert tangent(lib, d) == [2.0, 2.0] and tangent(lib, x) is None
        assert x.tolist() == [2.0, 4.0]
        x.mul_(2)
        assert tangent(lib, x) is None and tangent(lib, d) == [2.0, 2.0]


def test_results_do_not_alias_tangents_of_inputs(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        for y in (d + 1, d.clone(), d.contiguous() + 0):
            y.mul_(2)
            assert tangent(lib, d) == [1.0, 1.0]


def test_a_tangent_that_lies_otherwise_is_copied(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    with fw.dual_level():
        x, t = f64(lib, [[1.0, 2.0], [3.0, 4.0]]), f64(lib, [[1.0, 2.0], [3.0, 4.0]]).t()
        d = fw.make_dual(x, t)
        assert tangent(lib, d.view(4)) == [1.0, 3.0, 2.0, 4.0]
        part = fw.make_dual(f64(lib, [1.0, 2.0, 3.0])[:2].detach(), f64(lib, [4.0, 5.0]))
        assert tangent(lib, part.as_strided((3,), (1,), 0)) == [4.0, 5.0, 0.0]


def test_duals_print_their_tangent(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0], [5.0])
        assert "tangent=tensor([5.]" in repr(d)
        assert "tangent" not in repr(lib.autograd.forward_ad.unpack_dual(d).primal)
        assert "tangent" not in repr(d.detach())
    assert "tangent" not in repr(d)


def test_out_is_refused(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d, x = dual(lib, [1.0], [1.0]), f64(lib, [1.0])
        with pytest.raises(NotImplementedError, match="out= function"):
            lib.add(d, x, out=lib.empty(1, dtype=lib.float64))
        with pytest.raises(NotImplementedError, match="out= function"):
            lib.add(x, x, out=d)


# Together with the tape ---------------------------------------------------------------------------
def test_forward_over_reverse(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [0.5, 2.0], [1.0, 10.0]).requires_grad_()
        for create_graph in (False, True):
            (g,) = lib.autograd.grad(
                (d.exp() * d * d).sum(), d, create_graph=create_graph, retain_graph=True
            )
            x = np.array([0.5, 2.0])
            second = np.exp(x) * (x * x + 4 * x + 2) * np.array([1.0, 10.0])
            np.testing.assert_allclose(tangent(lib, g), second)


def test_saved_tensor_hooks_do_not_lose_tangents(lib: Any) -> None:
    hooks = lib.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), lambda x: x)
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [0.5], [1.0]).requires_grad_()
        with hooks:
            y = d.exp() * d
        (g,) = lib.autograd.grad(y.sum(), d)
        np.testing.assert_allclose(tangent(lib, g), np.exp([0.5]) * 2.5)


def test_reverse_over_forward(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x, t = f64(lib, [0.5, 2.0], requires_grad=True), f64(lib, [1.0, 10.0], requires_grad=True)
    with fw.dual_level():
        primal, moved = fw.unpack_dual(fw.make_dual(x, t).exp())
        gx, gt = lib.autograd.grad(moved.sum(), (x, t), retain_graph=True)
        np.testing.assert_allclose(gx.tolist(), np.exp([0.5, 2.0]) * [1.0, 10.0])
        np.testing.assert_allclose(gt.tolist(), np.exp([0.5, 2.0]))
        (gx,) = lib.autograd.grad(primal.sum(), x)
        np.testing.assert_allclose(gx.tolist(), np.exp([0.5, 2.0]))


def test_reverse_over_forward_through_a_write(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x = f64(lib, [0.5, 2.0], requires_grad=True)
    with fw.dual_level():
        y = fw.make_dual(x, f64(lib, [1.0, 10.0])).clone()
        y[:1].exp_()
        y = y * y
        moved = fw.unpack_dual(y).tangent
        (g,) = lib.autograd.grad(moved.sum(), x)
    np.testing.assert_allclose(moved.tolist(), [2 * np.exp(1.0), 40.0])
    np.testing.assert_allclose(g.tolist(), [4 * np.exp(1.0), 20.0])


# Custom functions ---------------------------------------------------------------------------------
def custom(lib: Any, forward: Any, jvp: Any = None) -> Any:
    members = {"forward": staticmethod(forward)}
    if jvp is not None:
        members["jvp"] = staticmethod(jvp)
    return type("Custom", (lib.autograd.Function,), members).apply


def test_custom_functions_carry_tangents_by_their_jvp(lib: Any) -> None:
    seen = []

    def forward(ctx: Any, x: Any, factor: Any, y: Any) -> Any:
        ctx.save_for_forward(x)
        ctx.factor = factor
        return x * factor

    def jvp(ctx: Any, *tangents: Any) -> Any:
        (x,) = ctx.saved_tensors
        seen.append((x.tolist(), tangents[1], tangents[2].tolist()))
        return tangents[0] * ctx.factor

    with lib.autograd.forward_ad.dual_level():
        y = custom(lib, forward, jvp)(dual(lib, [1.0], [5.0]), 3, f64(lib, [2.0]))
        assert tangent(lib, y) == [15.0]
        assert seen == [([1.0], None, [0.0])]


@pytest.mark.parametrize(
    ("forward", "jvp", "message"),
    [
        (lambda ctx, x: x * 2, None, "must implement the jvp function"),
        (lambda ctx, x: (x * 2, x * 3), lambda ctx, t: t, "invalid number of forward gradients"),
        (lambda ctx, x: x * 2, lambda ctx, t: t[:1], "different size"),
        (lambda ctx, x: x * 2, lambda ctx, t: 3, "expected Variable or None"),
        (lambda ctx, x: x.view_as(x), lambda ctx, t: t * 3, "jvp is not returning a view"),
        (
            lambda ctx, x: (ctx.mark_dirty(x), x.mul_(2))[1],
            lambda ctx, t: t * 2,
            "not modifying the forward mode gradients inplace",
        ),
    ],
)
def test_wrong_jvps_are_refused(lib: Any, forward: Any, jvp: Any, message: str) -> None:
    with lib.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match=message):
        custom(lib, forward, jvp)(dual(lib, [1.0, 2.0], [1.0, 1.0]))


def test_jvps_of_views_and_writes(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        x = dual(lib, [1.0, 2.0], [1.0, 1.0])
        y = custom(lib, lambda ctx, x: x.view(2, 1), lambda ctx, t: t.view(2, 1))(x)
        assert tangent(lib, y) == [[1.0], [1.0]]
        double = custom(
            lib, lambda ctx, x: (ctx.mark_dirty(x), x.mul_(2))[1], lambda ctx, t: t.mul_(2)
        )
        z = x.clone()
        assert double(z) is z
        assert tangent(lib, z) == [2.0, 2.0]
