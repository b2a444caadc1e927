"""Views, storages and version counters: rules V1 to V8, points 1 to 14, 17 and 18."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.semantics.common import Canary, back, f64, leaf

VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used"
LEAF = "a leaf Variable that requires grad is being used"


def name(x: Any) -> str | None:
    """The name of a tensor's node, without namespace."""
    return x.grad_fn and x.grad_fn.name().rpartition("::")[2]


# V1: one counter per family -----------------------------------------------------------------------
def test_who_shares_a_version_counter(lib: Any) -> None:
    a = f64(lib, [1.0, 2.0, 3.0])
    family = (a, a[:2], a[:2][1:], a.detach())
    data, clone = a.data, a.clone()
    a.add_(1)
    assert [x._version for x in (*family, data, clone)] == [1, 1, 1, 1, 0, 0]
    data.add_(1)
    assert (data._version, a._version, a.tolist()) == (1, 1, [3.0, 4.0, 5.0])
    b = leaf(lib) * 1
    y = b.exp()
    kept = y.grad_fn._saved_result
    y.add_(1)
    assert kept._version == 1


# V2: what counts as a write -----------------------------------------------------------------------
def test_what_bumps_the_version(lib: Any) -> None:
    x, y = f64(lib, [1.0, 2.0, 3.0]), f64(lib, [4.0, 5.0, 6.0])
    bumps = []

    def writes(step: Any) -> None:
        before = x._version
        step()
        bumps.append(x._version - before)

    writes(lambda: x.add_(1))
    writes(lambda: x.copy_(y))
    writes(lambda: x.zero_())
    writes(lambda: x.fill_(2))
    writes(lambda: x.__setitem__(0, 1.0))
    writes(lambda: lib.add(y, y, out=x))
    writes(lambda: x.set_(y.clone()))
    writes(lambda: lib.autograd.graph.increment_version(x))
    writes(lambda: x.resize_(2))
    with lib.no_grad():
        writes(lambda: x.mul_(2))
    assert bumps == [1] * 10
    bumps.clear()
    writes(lambda: x.requires_grad_())
    writes(lambda: x.requires_grad_(False))
    writes(lambda: x.detach_())
    writes(lambda: x.numpy().fill(1))
    writes(lambda: x.resize_(2))
    assert bumps == [0] * 5


def test_augmented_assignment_to_an_item_writes_twice(lib: Any) -> None:
    b = leaf(lib) * 1
    b[0] += 1
    assert b._version == 2


def test_a_refused_write_changes_nothing(lib: Any) -> None:
    t = leaf(lib)
    with pytest.raises(RuntimeError, match=LEAF):
        t.add_(1)
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        t[0] = 5
    assert (t.tolist(), t._version) == ([1.0, 2.0, 3.0], 0)


# V3, 17: .data = ----------------------------------------------------------------------------------
def test_assigning_data(lib: Any) -> None:
    a, b = f64(lib, [1.0, 2.0]), f64(lib, [[3.0], [4.0], [5.0]])
    view = a[:1]
    a.add_(1)
    a.data = b
    assert (tuple(a.shape), a._version, a.data_ptr()) == ((3, 1), 1, b.data_ptr())
    a.mul_(2)
    assert (b._version, view._version, view.tolist()) == (0, 2, [2.0])
    t = leaf(lib)
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        t.data = lib.tensor([1, 2, 3])
    t.data = f64(lib, [7.0, 8.0, 9.0])
    (t * t).sum().backward()
    assert t.grad.tolist() == [14.0, 16.0, 18.0]


# V4: the hole -------------------------------------------------------------------------------------
def test_writes_to_data_go_unnoticed_and_writes_to_detach_do_not(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    y = b * b
    b.data.zero_()
    back(y)
    assert t.grad.tolist() == [0.0, 0.0, 0.0]
    b = t * 1
    y = b * b
    b.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        back(y)


# V5: what is a view -------------------------------------------------------------------------------
VIEWS: dict[str, Any] = {
    "view": lambda x: x.view(6),
    "view_as": lambda x: x.view_as(x),
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "select": lambda x: x.select(0, 1),
    "slice": lambda x: x[1:],
    "narrow": lambda x: x.narrow(1, 0, 2),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "expand": lambda x: x.expand(4, 2, 3),
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2,), (1,)),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "split": lambda x: x.split(1)[0],
    "chunk": lambda x: x.chunk(2)[1],
    "unbind": lambda x: x.unbind(0)[1],
    "None": lambda x: x[None],
    "ellipsis": lambda x: x[...],
    "reshape": lambda x: x.reshape(3, 2),
    "flatten": lambda x: x.flatten(),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_views(lib: Any, kind: str) -> None:
    a = f64(lib, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    v = VIEWS[kind](a)
    assert v._is_view()
    assert v._base is a
    t = a.clone().requires_grad_()
    v = VIEWS[kind](t)
    v.sum().backward()
    assert v._base is t
    assert t.grad is not None


def test_what_is_no_view(lib: Any) -> None:
    a = f64(lib, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for x in (a.detach(), a.clone(), a[[0]], a[a > 2], a.t().reshape(6), a.data):
        assert not x._is_view()
        assert x._base is None
    assert a.contiguous() is a
    assert a.to(lib.float64) is a
    flat = a.view(6)
    assert flat.flatten() is flat


def test_the_base_of_a_view_of_a_view_is_the_root_and_stays_alive(lib: Any) -> None:
    a = f64(lib, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert a[1][2:]._base is a
    v = a[0]
    a.mark = Canary()
    del a
    assert isinstance(v._base.mark, Canary)


# V6, 2, 13: when a view requires grad -------------------------------------------------------------
def test_a_view_taken_before_its_base_required_grad(lib: Any) -> None:
    a = f64(lib, [1.0, 2.0, 3.0])
    v = a[:2]
    a.requires_grad_()
    assert (v.requires_grad, v.grad_fn, v.is_leaf) == (True, None, True)
    y = (v * 2).sum()
    y.backward()
    assert (a.grad, v.grad) == (None, None)
    with pytest.raises(RuntimeError, match="does not require grad"):
        v.backward(v.detach())


def test_a_view_of_a_leaf_taken_under_no_grad(lib: Any) -> None:
    t = leaf(lib)
    with lib.no_grad():
        v = t[:2]
    assert (v.requires_grad, v.grad_fn) == (True, None)
    (v * 2).sum().backward()
    assert (t.grad, v.grad) == (None, None)


def test_a_base_that_starts_to_require_grad_by_a_write(lib: Any) -> None:
    t, base = leaf(lib), f64(lib, [1.0, 1.0, 1.0])
    v = base[1:]
    base.mul_(t)
    assert (v.requires_grad, name(v)) == (True, "AsStridedBackward0")
    back(v)
    assert t.grad.tolist() == [0.0, 1.0, 1.0]


def test_a_stale_history_is_mended_under_no_grad_too(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    v = b[:2]
    b.mul_(2)
    with lib.no_grad():
        assert name(v) == "AsStridedBackward0"
    back(v)
    assert t.grad.tolist() == [2.0, 2.0, 0.0]


# V7: a view that is a leaf of its own -------------------------------------------------------------
def test_a_view_may_be_a_leaf_of_its_own(lib: Any) -> None:
    a = f64(lib, [1.0, 2.0, 3.0])
    v = a[:2]
    v.requires_grad_()
    assert (v.is_leaf, a.requires_grad) == (True, False)
    (v * v).sum().backward()
    assert (v.grad.tolist(), a.grad) == ([2.0, 4.0], None)
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        v.mul_(2)


# V8, 29, 30: inference tensors --------------------------------------------------------------------
def test_inference_tensors(lib: Any) -> None:
    with lib.inference_mode():
        i = lib.ones(3, dtype=lib.float64)
        i.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        i._version
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        i.add_(1)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        i.requires_grad_()
    t = leaf(lib)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        t * i
    back(t + i)  # saves nothing
    assert t.grad.tolist() == [1.0, 1.0, 1.0]
    lib.autograd.graph.increment_version(i)  # silently nothing
    view = i[:2]
    assert (view.is_inference(), view._is_view(), view.is_leaf) == (True, False, True)
    assert not (i + 1).is_inference()


def test_normal_tensors_in_inference_mode(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    with lib.inference_mode():
        v = b[:2]
        assert (v.is_inference(), v._is_view(), v._base is b) == (False, True, True)
        b.add_(1)
        assert (b.is_inference(), b._version) == (False, 1)
        assert (t + 1).is_inference()
    with pytest.raises(RuntimeError, match="created in inference mode"):
        v.mul_(2)


def test_backward_in_inference_mode_gives_inference_gradients(lib: Any) -> None:
    t = leaf(lib)
    y = (t + 1).sum()
    with lib.inference_mode():
        y.backward()
    assert t.grad.is_inference()


# 1, I6: siblings ----------------------------------------------------------------------------------
def test_siblings_notice_a_write_when_they_are_next_looked_at(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    first, second, other = b[:2], b[1:], b[:1]
    old = other.grad_fn
    assert name(first) == "SliceBackward0"
    second.mul_(3)
    assert name(b) == "CopySlices"
    assert name(first) == "AsStridedBackward0"
    assert first.grad_fn is first.grad_fn  # until the next write
    assert other.grad_fn is not old
    back(first)
    assert t.grad.tolist() == [1.0, 3.0, 0.0]


# 12: detaching a base -----------------------------------------------------------------------------
def test_detaching_a_base_leaves_its_views_attached(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    v = b[:2]
    b.detach_()
    assert (v._base is b, name(v), b.requires_grad) == (True, "SliceBackward0", False)
    back(v)
    assert t.grad.tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        v.detach_()


# 18: resizing -------------------------------------------------------------------------------------
def test_resizing(lib: Any) -> None:
    x = f64(lib, [1.0, 2.0, 3.0])
    x.resize_(3)
    x.resize_as_(f64(lib, [0.0, 0.0, 0.0]))
    assert x._version == 0
    x.resize_(2)
    assert (x._version, x.tolist()) == (1, [1.0, 2.0])
    x.resize_as_(f64(lib, [0.0, 0.0, 0.0]))
    assert (x._version, x.tolist()) == (2, [1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        leaf(lib).resize_(2)


# 17 again: set_ -----------------------------------------------------------------------------------
def test_set_keeps_the_counter_and_takes_the_memory(lib: Any) -> None:
    a, b = f64(lib, [1.0, 2.0]), f64(lib, [3.0, 4.0, 5.0])
    a.set_(b)
    assert (a._version, b._version, a.data_ptr()) == (1, 0, b.data_ptr())
    t = leaf(lib)
    c = (t * 1).set_(b)
    assert (c.requires_grad, c.is_leaf) == (True, False)
    with pytest.raises(RuntimeError, match="derivative for .*set_.* is not implemented"):
        c.sum().backward()
    with pytest.raises(RuntimeError, match=LEAF):
        t.set_(b)
    with lib.no_grad():
        t.set_(b)
    assert (t.is_leaf, t.tolist()) == (True, [3.0, 4.0, 5.0])


def test_a_stale_view_can_be_printed(lib: Any) -> None:
    b = leaf(lib) * 1
    with lib.no_grad():
        v = b[:2]
    b.add_(1)
    assert "grad_fn=<Invalid>" in repr(v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert v.grad is None
