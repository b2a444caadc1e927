"""Last layers of classifiers: linear_cross_entropy, also in chunks, and the adaptive softmax."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from jitgrad.nn import functional as F
from tests.oracle import arg, check, check_raises

PLAIN = {"requires_grad": False}
TARGET = [2, 0, 1, -100, 3]


def _loss(lib: Any, x: Any, w: Any, b: Any = None, **options: Any) -> Any:
    return lib.nn.functional.linear_cross_entropy(
        x, w, lib.tensor(TARGET), linear_bias=b, **options
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy(reduction: str) -> None:
    check(lambda lib, x, w, b: _loss(lib, x, w, b, reduction=reduction), (5, 3), (4, 3), (4,),
          grad_fn=False)  # fmt: skip
    check(lambda lib, x, w: _loss(lib, x, w, reduction=reduction, label_smoothing=0.1),
          (5, 3), (4, 3), grad_fn=False)  # fmt: skip
    scale = arg((4,), low=0.5, high=2, **PLAIN)
    check(lambda lib, x, w, s: _loss(lib, x, w, reduction=reduction, weight=s), (5, 3), (4, 3),
          scale, grad_fn=False)  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", [1, 2, 5, None])
def test_chunks_give_the_same(reduction: str, rows: int | None) -> None:
    options = jg.nn.LinearCrossEntropyOptions(batch_chunk_size=rows)
    shapes = ((5, 3), (4, 3), (4,))
    inputs = [jg.randn(s, dtype=jg.float64, requires_grad=True) for s in shapes]
    scale = jg.tensor([1.0, 2.0, 0.5, 3.0], dtype=jg.float64)
    for bias in (True, False):
        used = inputs if bias else inputs[:2]
        whole = _loss(jg, *used, weight=scale, reduction=reduction)
        parts = _loss(jg, *used, weight=scale, reduction=reduction, options=options)
        assert jg.allclose(whole, parts)
        seed = jg.ones_like(whole)
        for a, b in zip(
            jg.autograd.grad(whole, used, seed), jg.autograd.grad(parts, used, seed), strict=True
        ):
            assert jg.allclose(a, b)
    assert jg.autograd.gradgradcheck(
        lambda *xs: _loss(jg, *xs, reduction=reduction, options=options), tuple(inputs)
    )


def test_a_lone_sample_and_several_places() -> None:
    check(lambda lib, x, w: lib.nn.functional.linear_cross_entropy(x, w, lib.tensor(1)), (3,),
          (4, 3), grad_fn=False)  # fmt: skip
    check(
        lambda lib, x, w: lib.nn.functional.linear_cross_entropy(
            x, w, lib.tensor([[1, 0], [2, 3]])
        ),
        (2, 3), (4, 2, 3), grad_fn=False,
    )  # fmt: skip
    options = jg.nn.LinearCrossEntropyOptions()
    one = F.linear_cross_entropy(jg.ones(3), jg.ones(4, 3), jg.tensor(1), options=options)
    assert one.shape == () and abs(one.item() - 1.3862944) < 1e-6
    with pytest.warns(UserWarning, match="options ignored"):
        F.linear_cross_entropy(
            jg.ones(1, 3), jg.ones(4, 3), jg.tensor([1]), label_smoothing=0.1, options=options
        )


def test_errors_of_linear_cross_entropy() -> None:
    for shapes in (((5, 2), (4, 3)), ((1, 5, 3), (4, 3)), ((5, 3), (3,))):
        check_raises(lambda lib, x, w: _loss(lib, x, w), *shapes, match="expected")
    check_raises(
        lambda lib, x, w, b: _loss(lib, x, w, b), (5, 3), (4, 3), (3,), match="linear_bias"
    )


def test_the_module() -> None:
    module = jg.nn.LinearCrossEntropyLoss(3, 4, bias=True)
    x = jg.randn(5, 3)
    target = jg.tensor(TARGET)
    expected = F.cross_entropy(module.linear(x), target)
    assert jg.allclose(module(x, target), expected)
    with pytest.raises(RuntimeError, match="label_smoothing"):
        jg.nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2)


# The adaptive softmax -----------------------------------------------------------------------------
def _adaptive(lib: Any, x: Any, target: Any, what: str = "forward", **options: Any) -> Any:
    """A module whose parameters are the same in both libraries."""
    module = lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0, **options)
    module = module.to(lib.float64)
    with lib.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_((lib.arange(p.numel(), dtype=lib.float64) * (k + 1) * 0.37).sin().view(p.shape))
    result = (
        getattr(module, what)(x, lib.tensor(target))
        if what == "forward"
        else getattr(module, what)(x)
    )
    return tuple(result) if what == "forward" else result


def test_adaptive_log_softmax() -> None:
    for target in ([0, 5, 9, 2], [0, 1, 2, 0], [7, 8, 9, 6]):
        check(lambda lib, x, t=target: _adaptive(lib, x, t), (4, 8), grad_fn=False, version=False)
    check(lambda lib, x: _adaptive(lib, x, 4, head_bias=True), (8,), grad_fn=False, version=False)
    check(lambda lib, x: _adaptive(lib, x, 0, "log_prob"), (4, 8), grad_fn=False, version=False)
    check(lambda lib, x: _adaptive(lib, x, 0, "predict"), (4, 8), version=False)


def test_errors_of_the_adaptive_softmax() -> None:
    for cutoffs in ([], [3, 2], [3, 3], [0, 3], [3, 10]):
        check_raises(
            lambda lib, x, c=cutoffs: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 10, c), (1,),
            match="cutoffs should be",
        )  # fmt: skip
    for shape, target in (((4, 8), [0, 1, 10, 2]), ((4, 8), [0]), ((8,), [0]), ((4, 8), 0)):
        check_raises(lambda lib, x, t=target: _adaptive(lib, x, t), shape, match="")


def test_the_old_name_of_nll_loss() -> None:
    with pytest.warns(FutureWarning, match="NLLLoss2d has been deprecated"):
        jg.nn.NLLLoss2d()
