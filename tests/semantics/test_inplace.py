"""Writes in place: rules I1 to I9 of the contract and points 3 to 11, 14 to 16."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.semantics.common import back, f64, leaf, watch

VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used"
LEAF = "a leaf Variable that requires grad is being used"
MULTIPLE = "function that returns multiple views"
NO_GRAD = "was created in no_grad mode"


def name(x: Any) -> str | None:
    """The name of a tensor's node, without namespace."""
    return x.grad_fn and x.grad_fn.name().rpartition("::")[2]


def refuses(phrase: str, step: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        step()


# I1, 4, 5: leaves ---------------------------------------------------------------------------------
def test_leaves(lib: Any) -> None:
    t = leaf(lib)
    refuses(LEAF, lambda: t.add_(1))
    refuses(LEAF, lambda: t.zero_())
    refuses(LEAF, lambda: t.copy_(t.detach()))
    refuses(VIEW_OF_LEAF, lambda: t[:2].add_(1))
    refuses(VIEW_OF_LEAF, lambda: t.__setitem__(0, 1.0))
    refuses(LEAF, lambda: t.__setitem__([0], 1.0))
    with lib.no_grad():
        t.add_(1)
        t[0] = 5
    assert (t.tolist(), t.is_leaf, t._version) == ([5.0, 3.0, 4.0], True, 2)


def test_a_plain_leaf_may_be_written_by_a_view_and_require_grad_later(lib: Any) -> None:
    a = f64(lib, [1.0, 2.0, 3.0])
    v = a[:2]
    v.mul_(2)
    a.requires_grad_()
    refuses(LEAF, lambda: a.mul_(2))
    refuses(VIEW_OF_LEAF, lambda: v.mul_(2))


# I2, 16: out= -------------------------------------------------------------------------------------
def test_out_is_not_differentiable(lib: Any) -> None:
    t, plain = leaf(lib), f64(lib, [0.0] * 3)
    refuses("don't support automatic differentiation", lambda: lib.add(t, 1, out=plain))
    refuses("don't support automatic differentiation", lambda: lib.add(plain, 1, out=t))
    with lib.no_grad():
        lib.add(t, 1, out=plain)
    assert (plain.tolist(), plain._version) == ([2.0, 3.0, 4.0], 1)


# I3, 3: the new history ---------------------------------------------------------------------------
def test_a_write_becomes_the_history(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    old = b.grad_fn
    b.mul_(2)
    assert (name(b), b.grad_fn.next_functions[0][0] is old) == ("MulBackward0", True)
    back(b)
    assert t.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_plain_tensor_joins_the_graph(lib: Any) -> None:
    t, a, b = leaf(lib), f64(lib, [0.0] * 3), f64(lib, [0.0] * 3)
    a.copy_(t)
    assert (name(a), a.is_leaf, a.requires_grad) == ("CopyBackwards", False, True)
    b[1:] = t[1:]
    assert (name(b), b.requires_grad) == ("CopySlices", True)
    back(b)
    assert t.grad.tolist() == [0.0, 1.0, 1.0]


def test_zero_and_fill_cut_the_dependence(lib: Any) -> None:
    t = leaf(lib)
    y = t * 3
    y.zero_()
    assert name(y) == "ZeroBackward0"
    back(y)
    assert t.grad.tolist() == [0.0, 0.0, 0.0]


# I4, 6: views of functions with several ----------------------------------------------------------
SEVERAL: dict[str, Callable[[Any], Any]] = {
    "split": lambda b: b.split(2)[0],
    "chunk": lambda b: b.chunk(2)[0],
    "one chunk": lambda b: b.chunk(1)[0],
    "unbind": lambda b: b.unbind(0)[0],
    "iteration": lambda b: next(iter(b)),
    "split_with_sizes": lambda b: b.split_with_sizes([1, 2])[0],
    "a view of one": lambda b: b.split(2)[0][:1],
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_one_of_several_views_refuses(lib: Any, kind: str) -> None:
    b = leaf(lib) * 1
    v = SEVERAL[kind](b)
    refuses(f"is a view and is being modified inplace.*{MULTIPLE}", lambda: v.mul_(2))
    with lib.no_grad():
        v.mul_(2)
    plain = f64(lib, [1.0, 2.0, 3.0])
    SEVERAL[kind](plain).mul_(2)  # no grad involved


def test_one_of_several_views_complains_of_its_base_when_looked_at(lib: Any) -> None:
    b = leaf(lib) * 1
    v, w = b.split(2)[0], b.unbind(0)[1]
    b.mul_(2)  # no error yet
    phrase = f"its base or another view of its base has been modified inplace.*{MULTIPLE}"
    refuses(phrase, lambda: v.grad_fn)
    refuses(phrase, lambda: w * 2)
    back(b)


def test_unsafe_functions_return_no_views(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    for x in (*b.unsafe_split(2), *b.unsafe_chunk(2)):
        assert not x._is_view()
        x.mul_(2)


# I4, 7, 8: views made in other modes --------------------------------------------------------------
def test_views_made_under_no_grad(lib: Any) -> None:
    b = leaf(lib) * 1
    with lib.no_grad():
        v = b[:2]
        v.mul_(2)
    refuses(f"A view {NO_GRAD} and is being modified inplace", lambda: v.mul_(2))
    with lib.no_grad():
        m = b.view(3, 1)
    for write in (lambda: m.t_(), lambda: m.squeeze_(1), lambda: m.transpose_(0, 1)):
        refuses(NO_GRAD, write)


def test_views_made_under_no_grad_complain_of_their_base(lib: Any) -> None:
    b = leaf(lib) * 1
    with lib.no_grad():
        v = b[:2]
    b.mul_(2)
    refuses(f"A view {NO_GRAD} and its base or another view", lambda: v.grad_fn)


def test_a_view_of_a_view_made_under_no_grad(lib: Any) -> None:
    b = leaf(lib) * 1
    with lib.no_grad():
        v = b[:2]
    w = v[:1]
    refuses(f"is a view of a view (which|that) {NO_GRAD}", lambda: w.mul_(2))
    with lib.inference_mode():
        i = b[:2]
    refuses("created in inference mode", lambda: i[:1].mul_(2))


# 9: views that a Function returned ----------------------------------------------------------------
def test_views_that_a_function_returned(lib: Any) -> None:
    class View(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    v = View.apply(leaf(lib) * 1)
    refuses("created inside a custom Function", lambda: v.mul_(2))
    plain = View.apply(f64(lib, [1.0, 2.0, 3.0]))
    refuses("modified inplace", lambda: plain.mul_(leaf(lib)))


# I5, 10, 11: the base's history -------------------------------------------------------------------
def test_a_write_through_a_view(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    before = b.grad_fn
    v, sibling = b[1:], b[:2]
    v.mul_(2)
    assert [name(x) for x in (b, v, sibling)] == [
        "CopySlices", "AsStridedBackward0", "AsStridedBackward0",
    ]  # fmt: skip
    assert b.grad_fn.next_functions[0][0] is before
    back(b)
    assert t.grad.tolist() == [1.0, 2.0, 2.0]


def test_a_write_through_views_of_views(lib: Any) -> None:
    t = lib.arange(6, dtype=lib.float64).view(3, 2).clone().requires_grad_()
    b = t * 1
    b.t()[1:3] += 1
    b.t()[0].mul_(b.detach()[:, 1].clone())
    back(b)
    assert t.grad.tolist() == [[2.0, 1.0], [4.0, 1.0], [6.0, 1.0]]
    assert b.tolist() == [[0.0, 2.0], [8.0, 4.0], [24.0, 6.0]]


def test_hooks_of_a_written_view_do_not_run(lib: Any) -> None:
    t, heard = leaf(lib), []
    b = t * 1
    v = b[:2]
    v.register_hook(heard.append)
    v.mul_(2)
    back(b)
    assert (heard, t.grad.tolist()) == ([], [2.0, 2.0, 1.0])


def test_what_a_write_through_a_view_gives_its_value(lib: Any) -> None:
    t, value = leaf(lib), leaf(lib, [4.0, 5.0])
    b = t * 1
    b[1:] *= value
    back(b)
    assert t.grad.tolist() == [1.0, 4.0, 5.0]
    assert value.grad.tolist() == [2.0, 3.0]


# I7 -----------------------------------------------------------------------------------------------
def test_a_function_that_writes_a_view_returns_one_tensor(lib: Any) -> None:
    class Write(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2), x + 1

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    refuses("cannot return more than one Tensor", lambda: Write.apply((leaf(lib) * 1)[:2]))


# I8: memory, shapes, dtypes -----------------------------------------------------------------------
def test_what_a_write_refuses(lib: Any) -> None:
    x = f64(lib, [1.0, 2.0, 3.0])
    refuses("doesn't match the broadcast shape", lambda: x.add_(f64(lib, [[1.0], [2.0]])))
    whole = lib.tensor([1, 2, 3])
    refuses("can't be cast to the desired output type", lambda: whole.add_(1.5))
    refuses("can't be cast to the desired output type", lambda: (whole > 1).add_(whole))
    x.float().add_(x)  # from one float to another is fine
    refuses(
        "more than one element of the written-to tensor refers to a single memory location",
        lambda: x[:1].expand(3).add_(1),
    )
    refuses(
        "some elements of the input tensor and the written-to tensor", lambda: x[1:].add_(x[:-1])
    )
    assert (x.tolist(), x._version) == ([1.0, 2.0, 3.0], 0)


def test_out_is_resized(lib: Any) -> None:
    x, empty = f64(lib, [1.0, 2.0]), f64(lib, [])
    lib.add(x, 1, out=empty)
    assert empty.tolist() == [2.0, 3.0]
    wrong = f64(lib, [0.0, 0.0, 0.0])
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        lib.add(x, 1, out=wrong)
    assert wrong.tolist() == [2.0, 3.0]


# I9 -----------------------------------------------------------------------------------------------
def test_requires_grad_of_what_cannot(lib: Any) -> None:
    b = leaf(lib) * 1
    refuses("only change requires_grad flags of leaf variables", lambda: b.requires_grad_(False))
    refuses("floating point", lambda: lib.tensor([1, 2]).requires_grad_())
    assert b.requires_grad_() is b


# 14, S3: cycles -----------------------------------------------------------------------------------
def test_a_write_that_saves_its_result_makes_no_cycle(lib: Any, no_gc: None) -> None:
    t = leaf(lib)
    b = t * 1
    v = b[:2]
    v.sigmoid_()
    alive = [weakref.ref(b), weakref.ref(v), watch(b.grad_fn)]
    back(b)
    del b, v
    assert [a() for a in alive] == [None, None, None]


# 15: indexing saves indices only ------------------------------------------------------------------
def test_indexing_does_not_save_what_it_indexes(lib: Any) -> None:
    t = leaf(lib)
    x = t * 1
    mask = x > 1
    x[mask] = x[mask]
    y = x[[0, 1]]
    x.zero_()
    back(y)
    assert t.grad.tolist() == [1.0, 1.0, 0.0]


WRITES: dict[str, tuple[Callable[[Any, Any, Any], object], list[float], list[float]]] = {
    # what is done to 2t with a value, the gradient of t, that of the value
    "mask": (lambda lib, x, v: x.__setitem__(x > 2, v[0]), [2.0, 0.0, 0.0], [2.0, 0.0, 0.0]),
    "masked_fill_": (lambda lib, x, v: x.masked_fill_(x > 2, v[0]), [2.0, 0.0, 0.0], [2.0, 0, 0]),
    "list": (lambda lib, x, v: x.__setitem__([2, 0], v[:2]), [0.0, 2.0, 0.0], [1.0, 1.0, 0.0]),
    "index_put_": (
        lambda lib, x, v: x.index_put_((lib.tensor([1, 1]),), v[:2], accumulate=True),
        [2.0, 2.0, 2.0],
        [1.0, 1.0, 0.0],
    ),
    "scatter_": (
        lambda lib, x, v: x.scatter_(0, lib.tensor([2]), v[:1]),
        [2.0, 2.0, 0.0],
        [1.0, 0.0, 0.0],
    ),
    "scatter_add_": (
        lambda lib, x, v: x.scatter_add_(0, lib.tensor([0, 0]), v[:2]),
        [2.0, 2.0, 2.0],
        [1.0, 1.0, 0.0],
    ),
    "index_add_": (
        lambda lib, x, v: x.index_add_(0, lib.tensor([1]), v[:1]),
        [2.0, 2.0, 2.0],
        [1.0, 0.0, 0.0],
    ),
}


@pytest.mark.parametrize("kind", WRITES)
def test_gradients_of_indexed_writes(lib: Any, kind: str) -> None:
    write, of_t, of_value = WRITES[kind]
    t, value = leaf(lib), leaf(lib, [7.0, 8.0, 9.0])
    x = t * 2
    write(lib, x, value)
    assert x._version == 1
    back(x)
    assert (t.grad.tolist(), value.grad.tolist()) == (of_t, of_value)


def test_augmented_indexed_writes(lib: Any) -> None:
    t = leaf(lib)
    x = t * 2
    x[[0, 0]] += 1  # reads, adds, puts: the second put wins
    x[x > 4] *= 3
    assert x.tolist() == [3.0, 4.0, 18.0]
    back(x)
    assert t.grad.tolist()[1:] == [2.0, 6.0]


def test_copies_across_dtypes(lib: Any) -> None:
    t = leaf(lib)
    x = lib.zeros(3)
    x.copy_(t)
    x.sum().backward()
    assert (x.dtype, t.grad.dtype, t.grad.tolist()) == (lib.float32, lib.float64, [1.0] * 3)
    whole = lib.zeros(3, dtype=lib.int64)
    whole.copy_(f64(lib, [1.7, -1.7, 2.0]))
    assert whole.tolist() == [1, -1, 2]
    whole.copy_(t)
    assert not whole.requires_grad
