"""Embeddings and bags of them against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises, torch_or_skip

INDEX = [[1, 4, 1], [0, 2, 4]]


@pytest.mark.parametrize(
    "options",
    [{}, {"padding_idx": 1}, {"padding_idx": -1}, {"scale_grad_by_freq": True}],
)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_embedding(options: dict[str, Any], dtype: str) -> None:
    check(
        lambda lib, i, w: lib.nn.functional.embedding(i, w, **options),
        arg(INDEX, dtype=dtype),
        (5, 3),
        # PyTorch's second derivative forgets the frequencies.
        grad=1 if "scale_grad_by_freq" in options else 2,
    )


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_shapes_of_indices(shape: tuple[int, ...]) -> None:
    check(
        lambda lib, i, w: lib.nn.functional.embedding(i, w),
        arg(np.zeros(shape, np.int64)),
        (5, 3),
        grad=0 if 0 in shape else 2,  # of nothing PyTorch's gradient fails
    )


def test_second_derivatives() -> None:
    table = jg.randn(4, 2, dtype=jg.float64, requires_grad=True)
    index = jg.tensor([0, 3, 3, 1])
    for options in ({}, {"padding_idx": 3}):
        # Padding is no derivative of the function: only its gradient's own derivative is checked.
        rows = lambda w, o=options: jg.nn.functional.embedding(index, w, **o)  # noqa: E731
        if options:
            (first,) = jg.autograd.grad((rows(table) ** 3).sum(), table, create_graph=True)
            (second,) = jg.autograd.grad(first.sum(), table)
            assert (second[3] == 0).all() and (second[0] != 0).all()
        else:
            assert jg.autograd.gradcheck(rows, (table,), check_forward_ad=True)
            assert jg.autograd.gradgradcheck(rows, (table,))


def test_rows_above_a_norm_are_shrunk_in_place() -> None:
    check(
        lambda lib, i, w: (lib.nn.functional.embedding(i, w, max_norm=0.7, norm_type=1.5), w),
        arg([1, 4, 1]),
        (5, 3),
        rtol=1e-6,  # PyTorch rounds max_norm to float32
        grad=1,
    )


BAGS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "rows": ({}, INDEX, None),
    "offsets": ({}, [1, 4, 1, 0, 2], [0, 2, 2]),
    "empty bags": ({}, [1, 4], [0, 0, 2, 2]),
    "last offset": ({"include_last_offset": True}, [1, 4, 1, 0], [0, 1, 4]),
    "padding": ({"padding_idx": 1}, INDEX, None),
    "padding alone": ({"padding_idx": 1}, [1, 1, 4], [0, 2]),
    "no rows": ({}, np.zeros(0, np.int64), [0, 0]),
}


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("name", BAGS)
def test_bags(name: str, mode: str) -> None:
    options, index, offsets = BAGS[name]
    check(
        lambda lib, i, w, *o: lib.nn.functional.embedding_bag(i, w, *o, mode=mode, **options),
        arg(index),
        (5, 3),
        *([] if offsets is None else [arg(offsets)]),
        grad=1,
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_without_bags_no_row_counts(mode: str) -> None:
    """PyTorch crashes here."""
    table = jg.ones(5, 3, requires_grad=True)
    bags = jg.nn.functional.embedding_bag(
        jg.tensor([1, 4]), table, jg.tensor([0]), mode=mode, include_last_offset=True
    )
    assert bags.shape == (0, 3)
    assert not jg.autograd.grad(bags.sum(), table)[0].any()


def test_bags_with_weights_of_samples() -> None:
    check(
        lambda lib, i, w, o, s: lib.nn.functional.embedding_bag(
            i, w, o, mode="sum", per_sample_weights=s, padding_idx=2
        ),
        arg([1, 4, 1, 0, 2]), (5, 3), arg([0, 2]), (5,), grad=1,
    )  # fmt: skip


def test_bags_scaled_by_frequency() -> None:
    """PyTorch looks the frequencies up in the wrong places."""
    grads = []
    for scaled in (True, False):
        table = jg.ones(5, 3, requires_grad=True)
        bag = jg.nn.functional.embedding_bag(
            jg.tensor(INDEX), table, mode="sum", scale_grad_by_freq=scaled
        )
        grads.append(jg.autograd.grad(bag.sum(), table)[0])
    assert grads[0].tolist() == [[n and 1.0] * 3 for n in grads[1][:, 0].tolist()]


def test_derivatives_of_bags() -> None:
    table = jg.randn(5, 3, dtype=jg.float64, requires_grad=True)
    weights = jg.randn(2, 3, dtype=jg.float64, requires_grad=True)
    bag = jg.nn.functional.embedding_bag
    for mode in ("sum", "mean", "max"):
        function = lambda w, m=mode: bag(jg.tensor(INDEX), w, mode=m)  # noqa: E731
        assert jg.autograd.gradcheck(function, (table,))
        assert jg.autograd.gradgradcheck(function, (table,))
    weighted = lambda w, s: bag(  # noqa: E731
        jg.tensor(INDEX), w, mode="sum", per_sample_weights=s
    )
    assert jg.autograd.gradcheck(weighted, (table, weights))
    assert jg.autograd.gradgradcheck(weighted, (table, weights))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda lib, f, w: f.embedding(lib.tensor([5]), w), "index out of range in self"),
        (lambda lib, f, w: f.embedding(lib.tensor([-1]), w), "index out of range in self"),
        (lambda lib, f, w: f.embedding(lib.tensor([1.0]), w), "argument #1 'indices'"),
        (lambda lib, f, w: f.embedding(lib.tensor([1]), w[0]), "'weight' must be 2-D"),
        (lambda lib, f, w: f.embedding(lib.tensor([1]), w, 5), "Padding_idx must be within"),
        (lambda lib, f, w: f.embedding_bag(lib.tensor([1]), w), "offsets has to be a 1D Tensor"),
        (
            lambda lib, f, w: f.embedding_bag(lib.tensor([[1]]), w, lib.tensor([0])),
            "if input is 2D, then offsets has to be None",
        ),
        (
            lambda lib, f, w: f.embedding_bag(lib.tensor([1]), w, lib.tensor([1])),
            "offsets[0] has to be 0",
        ),
        (
            lambda lib, f, w: f.embedding_bag(lib.tensor([1]), w, lib.tensor([0, 2])),
            "offsets[-1] can not be greater than input's length",
        ),
        (
            lambda lib, f, w: f.embedding_bag(lib.tensor([1, 7]), w.float(), lib.tensor([0])),
            "Index 1 of input takes value 7",
        ),
        (
            lambda lib, f, w: f.embedding_bag(lib.tensor([[1]]), w, mode="median"),
            "mode has to be one of sum, mean or max",
        ),
        (
            lambda lib, f, w: f.embedding_bag(
                lib.tensor([[1]]), w, per_sample_weights=lib.ones(1, 1)
            ),
            "per_sample_weights is only supported for mode='sum'",
        ),
    ],
)
def test_errors(call: Any, match: str) -> None:
    check_raises(lambda lib, w: call(lib, lib.nn.functional, w), (5, 3), match=match)


def test_sparse_gradients_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="no sparse tensors"):
        jg.nn.Embedding(4, 3, sparse=True)(jg.tensor([1]))


# Modules ------------------------------------------------------------------------------------------
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("Embedding", {}),
        ("Embedding", {"padding_idx": -1, "max_norm": 1.0, "norm_type": 1.0}),
        ("EmbeddingBag", {"mode": "sum", "padding_idx": 2}),
    ],
)
def test_modules_are_made_alike(name: str, kwargs: dict[str, Any], seed: Any) -> None:
    shown = []
    for lib in (torch_or_skip(), jg):
        seed(3)
        module = getattr(lib.nn, name)(6, 4, **kwargs)
        result = module(lib.tensor(INDEX))
        shown.append((repr(module), module.weight.detach().numpy(), result.detach().numpy()))
    assert shown[0][0] == shown[1][0]
    np.testing.assert_allclose(shown[0][1], shown[1][1], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(shown[0][2], shown[1][2], rtol=1e-6, atol=1e-7)


def test_pretrained_tables() -> None:
    table = jg.randn(4, 3)
    frozen = jg.nn.Embedding.from_pretrained(table)
    assert not frozen.weight.requires_grad and frozen.num_embeddings == 4
    assert jg.nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    bag = jg.nn.EmbeddingBag.from_pretrained(table, mode="max")
    assert not bag.weight.requires_grad and bag(jg.tensor([[1, 2]])).shape == (1, 3)
    with pytest.raises(AssertionError, match="2-dimensional"):
        jg.nn.Embedding.from_pretrained(jg.ones(3))
    with pytest.raises(AssertionError, match="Shape of weight does not match"):
        jg.nn.Embedding(4, 3, _weight=jg.ones(3, 3))
