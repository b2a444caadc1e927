"""Which gradients a leaf may keep as its ``.grad`` without a copy: those that nobody else holds."""

from __future__ import annotations

import jitgrad as jg


def leaf(*shape: int) -> jg.Tensor:
    return jg.ones(*shape, requires_grad=True)


def shares(a: jg.Tensor, b: jg.Tensor) -> bool:
    return a.untyped_storage() is b.untyped_storage()


def test_a_gradient_given_to_backward_stays_the_callers():
    for view in (lambda x: x.view(-1), lambda x: x.t(), lambda x: x.unsqueeze(0), lambda x: x + 0):
        x = leaf(2, 3)
        out = view(x)
        given = jg.ones(*out.shape)
        out.backward(given)
        assert not shares(x.grad, given)


def test_two_leaves_never_share_a_gradient():
    a, b = leaf(3), leaf(3)
    ((a + b) * 2).sum().backward()
    assert not shares(a.grad, b.grad)
    a.grad.add_(1)
    assert b.grad.tolist() == [2, 2, 2]


def test_a_leaf_that_is_used_twice_keeps_the_sum():
    a = leaf(3)
    ((a + a) * 2 + a.view(3)).sum().backward()
    assert a.grad.tolist() == [5, 5, 5]


def test_what_a_hook_has_seen_is_not_kept():
    a, seen = leaf(2, 3), []
    turned = a.t()
    turned.register_hook(seen.append)
    (turned * 2).sum().backward()
    assert not shares(a.grad, seen[0])
    a.grad.add_(1)
    assert seen[0].tolist() == [[2, 2], [2, 2], [2, 2]]


def test_a_retained_gradient_is_not_kept():
    a = leaf(2, 3)
    turned = a.t()
    turned.retain_grad()
    (turned * 2).sum().backward()
    assert not shares(a.grad, turned.grad)


def test_the_gradient_of_a_weight_lies_like_the_weight_and_is_no_view():
    weight, bias = leaf(4, 3), leaf(4)
    jg.nn.functional.linear(jg.ones(5, 3), weight, bias).sum().backward()
    assert weight.grad.stride() == (3, 1)
    assert not weight.grad._is_view()
    assert bias.grad.tolist() == [5, 5, 5, 5]
