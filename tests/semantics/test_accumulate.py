"""AccumulateGrad: rules A1 to A4 and points 49 and 50."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.semantics.common import back, f64, leaf


# A1, 49: the first gradient -----------------------------------------------------------------------
def test_a_gradient_given_by_the_user_is_copied(lib: Any) -> None:
    t = leaf(lib)
    g = f64(lib, [1.0, 2.0, 3.0])
    (t + 0).backward(g)
    assert t.grad.tolist() == [1.0, 2.0, 3.0]
    assert t.grad.data_ptr() != g.data_ptr()


def test_leaves_never_share_a_gradient(lib: Any) -> None:
    t, u = leaf(lib), leaf(lib)
    back(t + u)
    assert t.grad.data_ptr() != u.grad.data_ptr()
    t.grad.mul_(5)
    assert u.grad.tolist() == [1.0] * 3


def test_an_expanded_gradient_becomes_contiguous(lib: Any) -> None:
    t = lib.ones(2, 3, dtype=lib.float64, requires_grad=True)
    t.sum().backward()
    assert t.grad.stride() == (3, 1)
    assert t.grad.is_contiguous()


def test_strides_follow_a_dense_leaf(lib: Any) -> None:
    t = lib.ones(2, 3, dtype=lib.float64).t().clone().requires_grad_()
    assert t.stride() == (1, 3)
    t.backward(lib.ones(3, 2, dtype=lib.float64))
    assert t.grad.stride() == (1, 3)
    (t * 1).backward(lib.ones(3, 2, dtype=lib.float64))
    assert t.grad.tolist() == [[2.0, 2.0]] * 3


def test_a_leaf_that_is_not_dense_gets_a_contiguous_gradient(lib: Any) -> None:
    t = lib.ones(3, 4, dtype=lib.float64)[:, ::2].detach().requires_grad_()
    assert t.stride() == (4, 2)
    back(t * 2)
    assert t.grad.stride() == (2, 1)


def test_a_gradient_may_be_written_afterwards(lib: Any) -> None:
    t = leaf(lib)
    y = t * 2
    y.retain_grad()
    back(y)
    t.grad.zero_()
    assert y.grad.tolist() == [1.0] * 3


# A2: later gradients ------------------------------------------------------------------------------
def test_later_gradients_are_added_in_place(lib: Any) -> None:
    t = leaf(lib)
    back(t * 2)
    held, version = t.grad, t.grad._version
    back(t * 3)
    assert t.grad is held
    assert held._version == version + 1
    assert held.tolist() == [5.0] * 3


def test_with_create_graph_the_sum_is_a_new_tensor(lib: Any) -> None:
    t = leaf(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        back(t * t, create_graph=True)
        held = t.grad
        assert held.requires_grad
        back(t * t, create_graph=True)
    assert t.grad is not held
    assert (held.tolist(), t.grad.tolist()) == ([2.0, 4.0, 6.0], [4.0, 8.0, 12.0])
    t.grad = None


# A3: leaves that changed meanwhile ----------------------------------------------------------------
def test_a_leaf_that_no_longer_requires_grad_is_skipped(lib: Any) -> None:
    t = leaf(lib)
    y = t * 2
    t.requires_grad_(False)
    back(y)
    assert t.grad is None


def test_a_leaf_that_is_none_any_more(lib: Any) -> None:
    t, u = leaf(lib), leaf(lib)
    y = t + 2
    t.requires_grad_(False)
    t.mul_(u)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        back(y)


# A4: the attribute --------------------------------------------------------------------------------
def test_setting_grad_is_checked(lib: Any) -> None:
    t = leaf(lib)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        t.grad = f64(lib, [1.0])
    with pytest.raises(RuntimeError, match="a gradient with dtype"):
        t.grad = lib.ones(3, dtype=lib.float32)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        t.grad = t
    with pytest.raises(TypeError, match="expected to be a Tensor or None"):
        t.grad = 3
    t.grad = f64(lib, [1.0, 2.0, 3.0])
    back(t * 1)
    assert t.grad.tolist() == [2.0, 3.0, 4.0]
    t.grad = None
    assert t.grad is None


def test_reading_the_grad_of_a_non_leaf_warns(lib: Any) -> None:
    y = leaf(lib) * 1
    with pytest.warns(UserWarning, match="is not a leaf Tensor"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None


def test_several_leaves_and_dtypes(lib: Any) -> None:
    a = lib.ones(3, dtype=lib.float32, requires_grad=True)
    b = leaf(lib)
    back(a * b)
    assert (a.grad.dtype, b.grad.dtype) == (lib.float32, lib.float64)
    assert a.grad.tolist() == [1.0, 2.0, 3.0]
