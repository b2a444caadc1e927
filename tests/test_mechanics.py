"""How autograd works, by the questions that beginners ask: one test for each.

Every test runs on jitgrad and, where it is installed, on PyTorch: the answers are the same.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.oracle import libraries


@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def torch(request: pytest.FixtureRequest) -> Any:
    return libraries.jitgrad() if request.param == "jitgrad" else libraries.torch_or_skip()


@pytest.fixture
def no_gc() -> Iterator[None]:
    """What is freed inside is freed by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# Who shares memory with whom? ---------------------------------------------------------------------
def test_a_view_shares_the_memory_of_its_base(torch: Any) -> None:
    a = torch.zeros(2, 3)
    v = a.view(6)
    v[0] = 7
    assert a.tolist() == [[7, 0, 0], [0, 0, 0]]
    assert v.data_ptr() == a.data_ptr()
    assert v._base is a


def test_reshape_is_a_view_if_it_can_be_and_a_copy_if_not(torch: Any) -> None:
    a = torch.zeros(2, 3)
    a.reshape(6)[0] = 7
    assert a[0, 0] == 7  # the elements lie in order: a view
    turned = a.t()
    turned.reshape(6)[1] = 9
    assert a.tolist() == [[7, 0, 0], [0, 0, 0]]  # no stride fits the transpose: a copy
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        turned.view(6)


def test_numpy_shares_memory_in_both_directions(torch: Any) -> None:
    a = torch.zeros(3)
    array = a.numpy()
    array[0] = 1
    a[1] = 2
    assert a.tolist() == array.tolist() == [1, 2, 0]


def test_from_numpy_shares_and_tensor_copies(torch: Any) -> None:
    array = np.zeros(3)
    shared, copied = torch.from_numpy(array), torch.tensor(array)
    array[0] = 5
    assert shared.tolist() == [5, 0, 0]
    assert copied.tolist() == [0, 0, 0]


def test_indexing_is_a_view_for_slices_and_a_copy_for_lists_and_masks(torch: Any) -> None:
    a = torch.zeros(4)
    a[1:3].add_(1)
    a[0].add_(2)
    assert a.tolist() == [2, 1, 1, 0]
    a[[0, 1]].zero_()  # writes to a copy
    a[a > 0].zero_()
    assert a.tolist() == [2, 1, 1, 0]
    a[[0, 1]] = 9  # but this is an assignment, into `a` itself
    a[a == 1] = 8
    assert a.tolist() == [9, 9, 8, 0]


def test_detach_shares_memory_but_not_history(torch: Any) -> None:
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    d = b.detach()
    assert (d.requires_grad, d.grad_fn) == (False, None)
    d[0] = 7
    assert b.tolist() == [7, 2]
    assert d._version == b._version == 1  # a write to one is a write to the other


def test_data_shares_memory_and_hides_its_writes(torch: Any) -> None:
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    b.data[0] = 7
    assert b.tolist() == [7, 2]
    assert b._version == 0  # nobody has noticed


# What is the difference between A += 100 and A = A + 100? -----------------------------------------
def test_plus_equals_writes_and_plus_makes_another_tensor(torch: Any) -> None:
    a = torch.zeros(2)
    same = a
    a += 100
    assert same is a
    assert same.tolist() == [100, 100]
    a = a + 100
    assert same is not a
    assert (same.tolist(), a.tolist()) == ([100, 100], [200, 200])


def test_plus_equals_in_a_function_changes_the_callers_tensor(torch: Any) -> None:
    def in_place(x: Any) -> None:
        x += 100

    def out_of_place(x: Any) -> None:
        x = x + 100

    a = torch.zeros(1)
    out_of_place(a)
    assert a.tolist() == [0]
    in_place(a)
    assert a.tolist() == [100]


# Is a clone part of the graph? --------------------------------------------------------------------
def test_gradients_flow_through_a_clone(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.clone()
    assert y.grad_fn.name() == "CloneBackward0"
    assert y.data_ptr() != x.data_ptr()
    y[0] = 5  # a clone may be written: the gradient of what was overwritten is zero
    (y * y).sum().backward()
    assert x.grad.tolist() == [0, 4]


def test_clone_and_detach_are_a_copy_without_history(torch: Any) -> None:
    x = torch.tensor([1.0], requires_grad=True)
    y = x.detach().clone()
    y[0] = 5
    assert (y.requires_grad, x.item()) == (False, 1)


# What does it mean to set y to zero? --------------------------------------------------------------
def test_zeroing_y_in_place_is_an_operation_of_the_graph(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.zero_()
    assert y.grad_fn.name() == "ZeroBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]  # y no longer depends on x


def test_zeroing_y_data_changes_values_behind_the_graphs_back(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.data.zero_()
    assert y.tolist() == [0, 0]
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]  # the graph still says y = 3x


def test_zeroing_y_detached_is_noticed_if_it_matters(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    z = y * y  # needs y in backward
    y.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    y = x * 3
    z = y + 1  # does not
    y.detach().zero_()
    z.sum().backward()
    assert x.grad.tolist() == [3, 3]


# What if a leaf changes between forward and backward? ---------------------------------------------
def test_changing_a_leafs_data_before_backward(torch: Any) -> None:
    w = torch.tensor([2.0], requires_grad=True)
    loss = (w * w).sum()
    w.data[0] = 100  # hidden: backward uses the new value, and is wrong
    loss.backward()
    assert (loss.item(), w.grad.item()) == (4, 200)


def test_changing_a_leaf_under_no_grad_before_backward(torch: Any) -> None:
    w = torch.tensor([2.0], requires_grad=True)
    loss = (w * w).sum()
    with torch.no_grad():
        w[0] = 100  # counted: backward refuses
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Does the order of out-of-place writes matter? ----------------------------------------------------
def test_names_are_not_tensors(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    y = x * 2
    z = y * y
    y = y + 100  # another tensor by the same name: the graph keeps the old one
    z.sum().backward()
    assert x.grad.item() == 2 * 6 * 2
    assert y.item() == 106


def test_writes_are_seen_by_what_is_computed_afterwards_only(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    y = x * 2
    before = y + 0
    y += 1
    after = y + 0
    assert (before.item(), after.item()) == (6, 7)
    (before * after).sum().backward()
    assert x.grad.item() == 2 * 7 + 2 * 6


# Why can I not call backward twice? ---------------------------------------------------------------
def test_backward_twice(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    assert x.grad.item() == 6


def test_retain_graph_keeps_what_backward_needs_and_gradients_add_up(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12


def test_a_graph_that_saved_nothing_may_be_run_again(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.item() == 2


# Why is .grad None? -------------------------------------------------------------------------------
def test_intermediate_gradients_are_not_kept(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x * 2
    (h * h).sum().backward()
    assert x.grad.item() == 24
    with pytest.warns(UserWarning, match="is not a leaf Tensor"):
        assert h.grad is None


def test_retain_grad_keeps_one(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x * 2
    h.retain_grad()
    (h * h).sum().backward()
    assert h.grad.item() == 12


# When is a write in place an error? ---------------------------------------------------------------
def test_overwriting_what_backward_needs(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x * 2
    y = h.exp()  # exp saves its result
    y += 1
    phrase = "modified by an inplace operation.*is at version 1; expected version 0"
    with pytest.raises(RuntimeError, match=phrase):
        y.sum().backward()


def test_overwriting_what_backward_does_not_need(torch: Any) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x * 2
    y = h + 1  # add saves nothing
    y *= 10
    h.zero_()
    y.sum().backward()
    assert x.grad.item() == 20


def test_a_leaf_that_requires_grad_cannot_be_written(torch: Any) -> None:
    w = torch.tensor([3.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        w += 1
    assert w.item() == 3


def test_two_cures_to_write_a_leaf(torch: Any) -> None:
    w = torch.tensor([3.0], requires_grad=True)
    with torch.no_grad():
        w += 1
    w.detach().add_(1)
    assert (w.item(), w.is_leaf, w.requires_grad) == (5, True, True)


# When is a graph's memory released? ---------------------------------------------------------------
def test_backward_releases_what_was_saved(torch: Any, no_gc: None) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x.exp()
    saved = weakref.ref(h)
    y = (h * h).sum()
    del h
    assert saved() is not None  # the graph needs it
    y.backward()
    assert saved() is None  # y still has its graph, without what it had saved
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"


def test_dropping_the_result_releases_the_graph(torch: Any, no_gc: None) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x * 1
    saved = weakref.ref(h)
    y = (h * h).sum()
    del h
    assert saved() is not None
    del y
    assert saved() is None


def test_retain_graph_releases_nothing(torch: Any, no_gc: None) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x * 1
    saved = weakref.ref(h)
    y = (h * h).sum()
    del h
    y.backward(retain_graph=True)
    assert saved() is not None


def test_keeping_a_loss_keeps_its_graph_and_item_does_not(torch: Any, no_gc: None) -> None:
    x = torch.tensor([3.0], requires_grad=True)
    h = x * 1
    alive = weakref.ref(h)
    losses = [(h * h).sum()]
    del h
    assert alive() is not None
    losses[0] = losses[0].item()
    assert alive() is None
