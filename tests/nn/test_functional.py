"""nn.functional against PyTorch: values, node names, first and second gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

ACTIVATIONS: dict[str, Any] = {
    "relu": lambda f, x: f.relu(x),
    "leaky_relu": lambda f, x: f.leaky_relu(x, 0.2),
    "elu": lambda f, x: f.elu(x, 1.3),
    "selu": lambda f, x: f.selu(x),
    "celu": lambda f, x: f.celu(x, 0.7),
    "gelu": lambda f, x: f.gelu(x),
    "gelu tanh": lambda f, x: f.gelu(x, approximate="tanh"),
    "silu": lambda f, x: f.silu(x),
    "mish": lambda f, x: f.mish(x),
    "softplus": lambda f, x: f.softplus(x, 2.0, 1.5),
    "hardtanh": lambda f, x: f.hardtanh(x, -0.5, 0.7),
    "relu6": lambda f, x: f.relu6(x),
    "hardsigmoid": lambda f, x: f.hardsigmoid(x),
    "hardswish": lambda f, x: f.hardswish(x),
    "hardshrink": lambda f, x: f.hardshrink(x, 0.4),
    "softshrink": lambda f, x: f.softshrink(x, 0.4),
    "threshold": lambda f, x: f.threshold(x, 0.1, 20.0),
    "softsign": lambda f, x: f.softsign(x),
    "tanhshrink": lambda f, x: f.tanhshrink(x),
    "logsigmoid": lambda f, x: f.logsigmoid(x),
    "sigmoid": lambda f, x: f.sigmoid(x),
    "tanh": lambda f, x: f.tanh(x),
    "softmax": lambda f, x: f.softmax(x, 1),
    "log_softmax": lambda f, x: f.log_softmax(x, -1),
    "softmin": lambda f, x: f.softmin(x, 0),
    "normalize": lambda f, x: f.normalize(x, dim=1),
    "dropout in evaluation": lambda f, x: f.dropout(x, 0.5, training=False) * 1,
    "rrelu in evaluation": lambda f, x: f.rrelu(x),
}
# PyTorch makes these from other nodes; the values and gradients are what counts.
OTHER_NODES = {"normalize"}
# PyTorch computes 1 / alpha and 1 / 6 in single precision.
COARSE = {"celu", "hardsigmoid"}
# PyTorch has no second derivative of these.
ONCE = {"hardsigmoid"}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activation(name: str, dtype: str) -> None:
    function = ACTIVATIONS[name]
    check(
        lambda lib, x: function(lib.nn.functional, x),
        arg((3, 4), low=-4.0, high=4.0),
        dtype=dtype,
        rtol=2e-6 if dtype == "float32" else 1e-7 if name in COARSE else 1e-11,
        atol=1e-6 if dtype == "float32" else 1e-12,
        grad_fn=name not in OTHER_NODES,
        grad=1 if name in ONCE else 2,
    )


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "celu", "hardtanh", "silu", "mish"])
def test_activation_in_place(name: str) -> None:
    check(
        lambda lib, x: getattr(lib.nn.functional, name)(x * 1, inplace=True),
        (3, 4),
        grad=1,
        grad_fn=False,
    )


def test_kinks_have_the_gradient_of_torch() -> None:
    points = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0]
    for name in (
        "relu",
        "hardtanh",
        "relu6",
        "hardsigmoid",
        "hardswish",
        "hardshrink",
        "softshrink",
    ):
        check(
            lambda lib, x, name=name: getattr(lib.nn.functional, name)(x),
            arg(points),
            grad=1,
            rtol=1e-7,
        )


def test_prelu_and_glu() -> None:
    check(lambda lib, x, w: lib.nn.functional.prelu(x, w), (3, 4, 2), (4,), grad_fn=False)
    check(lambda lib, x, w: lib.nn.functional.prelu(x, w), (3, 4), (1,), grad_fn=False)
    check(lambda lib, x: lib.nn.functional.glu(x, 1), (3, 4), grad_fn=False, strides="ignore")


CLASSES = arg([2, 0, 1, 3, 0])
WEIGHT = arg([0.5, 2.0, 1.0, 0.3], requires_grad=False)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"ignore_index": 0}], ids=["plain", "ignore_index"])
def test_cross_entropy_of_classes(reduction: str, options: dict[str, Any]) -> None:
    options = options | {"reduction": reduction}
    check(
        lambda lib, x, t: lib.nn.functional.cross_entropy(x, t, **options),
        (5, 4),
        CLASSES,
        rtol=1e-10,
    )
    check(
        lambda lib, x, t, w: lib.nn.functional.cross_entropy(x, t, w, **options),
        (5, 4),
        CLASSES,
        WEIGHT,
        rtol=1e-10,
    )
    check(
        lambda lib, x, t, w: lib.nn.functional.cross_entropy(
            x, t, w, label_smoothing=0.1, **options
        ),
        (5, 4),
        CLASSES,
        WEIGHT,
        rtol=1e-10,
        grad_fn=False,
    )


@pytest.mark.parametrize("shape", [(4,), (2, 4, 3), (2, 4, 3, 2)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_any_rank(shape: tuple[int, ...], reduction: str) -> None:
    where = () if len(shape) == 1 else (shape[0], *shape[2:])
    classes = np.random.default_rng(0).integers(0, 4, where)
    check(
        lambda lib, x, t: lib.nn.functional.cross_entropy(x, t, reduction=reduction),
        shape,
        arg(classes),
        rtol=1e-10,
        grad_fn=False,
        strides="ignore",
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_probabilities(reduction: str, smoothing: float) -> None:
    check(
        lambda lib, x, t, w: lib.nn.functional.cross_entropy(
            x, t, w, reduction=reduction, label_smoothing=smoothing
        ),
        (5, 4),
        arg((5, 4), low=0.1, high=1.0),
        WEIGHT,
        rtol=1e-10,
        grad_fn=False,
    )


def test_cross_entropy_graph_and_errors() -> None:
    loss = jg.nn.functional.cross_entropy(jg.zeros(2, 3, requires_grad=True), jg.tensor([0, 1]))
    assert loss.grad_fn.name() == "NllLossBackward0"
    (inner, _), *others = loss.grad_fn.next_functions
    assert inner.name() == "LogSoftmaxBackward0" and not others
    assert loss.item() == pytest.approx(np.log(3))
    check_raises(
        lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor([0, 3])),
        (2, 3),
        match="Target 3 is out of bounds",
    )
    check_raises(
        lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor([0, 1, 2])),
        (2, 3),
        match="to match target batch_size",
    )


LOSSES: dict[str, Any] = {
    "mse_loss": {},
    "l1_loss": {},
    "smooth_l1_loss": {"beta": 0.7},
    "huber_loss": {"delta": 0.7},
    "binary_cross_entropy_with_logits": {},
    "soft_margin_loss": {},
    "poisson_nll_loss": {},
    "hinge_embedding_loss": {},
    "multilabel_soft_margin_loss": {},
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss(name: str, reduction: str) -> None:
    check(
        lambda lib, x, t: getattr(lib.nn.functional, name)(
            x, t, reduction=reduction, **LOSSES[name]
        ),
        (3, 4),
        arg((3, 4), requires_grad=False),
        rtol=1e-10,
        grad_fn=name
        not in ("poisson_nll_loss", "hinge_embedding_loss", "multilabel_soft_margin_loss"),
        strides="ignore",
    )


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_loss_differentiates_its_target(name: str) -> None:
    check(lambda lib, x, t: getattr(lib.nn.functional, name)(x, t), (3, 4), (3, 4), rtol=1e-10)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary_cross_entropy(reduction: str) -> None:
    probability = arg((3, 4), low=0.05, high=0.95)
    fixed = arg((3, 4), low=0.0, high=1.0, requires_grad=False)
    check(
        lambda lib, x, t, w: lib.nn.functional.binary_cross_entropy(x, t, w, reduction=reduction),
        probability,
        fixed,
        fixed,
        rtol=1e-9,
        strides="ignore",
    )
    check(
        lambda lib, x, t, w: lib.nn.functional.binary_cross_entropy_with_logits(
            x, t, pos_weight=w, reduction=reduction
        ),
        (3, 4),
        fixed,
        arg((4,), low=0.5, high=2.0, requires_grad=False),
        rtol=1e-9,
        strides="ignore",
    )


def test_binary_cross_entropy_at_the_ends() -> None:
    check(
        lambda lib, x, t: lib.nn.functional.binary_cross_entropy(x, t, reduction="none"),
        arg([0.0, 1.0, 0.0, 1.0]),
        arg([0.0, 1.0, 1.0, 0.0], requires_grad=False),
        grad=1,
        rtol=1e-6,
    )
    check_raises(
        lambda lib, x: lib.nn.functional.binary_cross_entropy(x, x.detach()),
        arg([1.5]),
        match="all elements of input should be between 0 and 1",
    )


@pytest.mark.parametrize("reduction", ["batchmean", "sum", "none"])
@pytest.mark.parametrize("logarithm", [False, True])
def test_kl_div(reduction: str, logarithm: bool) -> None:
    check(
        lambda lib, x, t: lib.nn.functional.kl_div(x, t, reduction=reduction, log_target=logarithm),
        (3, 4),
        arg((3, 4), low=0.1, high=1.0, requires_grad=False),
        grad_fn=False,
        strides="ignore",
    )


def test_losses_of_pairs() -> None:
    signs = arg([1.0, -1.0, 1.0], requires_grad=False)
    options: dict[str, Any] = {"grad_fn": False, "strides": "ignore", "rtol": 1e-9}
    check(
        lambda lib, a, b, t: lib.nn.functional.margin_ranking_loss(a, b, t, 0.3),
        (3,), (3,), signs, **options,
    )  # fmt: skip
    check(
        lambda lib, a, b, t: lib.nn.functional.cosine_embedding_loss(a, b, t, 0.1),
        (3, 4), (3, 4), signs, **options,
    )  # fmt: skip
    check(
        lambda lib, a, b, c: lib.nn.functional.triplet_margin_loss(a, b, c, swap=True),
        (3, 4), (3, 4), (3, 4), **options,
    )  # fmt: skip
    check(
        lambda lib, a, t, v: lib.nn.functional.gaussian_nll_loss(a, t, v, full=True),
        (3, 4), (3, 4), arg((3, 4), low=0.5, high=2.0), **options,
    )  # fmt: skip
    check(lambda lib, a, b: lib.nn.functional.cosine_similarity(a, b), (3, 4), (3, 4), **options)
    check(lambda lib, a, b: lib.nn.functional.pairwise_distance(a, b), (3, 4), (3, 4), **options)


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    if bias:
        check(
            lambda lib, x, w, b: lib.nn.functional.linear(x, w, b),
            shape, (4, 3), (4,), rtol=1e-10, version=False,
        )  # fmt: skip
    else:
        check(
            lambda lib, x, w: lib.nn.functional.linear(x, w),
            shape, (4, 3), rtol=1e-10, grad_fn=len(shape) > 1, version=False,
        )  # fmt: skip


def test_linear_refuses_wrong_sizes() -> None:
    check_raises(
        lambda lib, x, w: lib.nn.functional.linear(x, w),
        (5, 2),
        (4, 3),
        match="cannot be multiplied",
    )


def test_bilinear() -> None:
    check(
        lambda lib, x, y, w, b: lib.nn.functional.bilinear(x, y, w, b),
        (5, 3), (5, 2), (4, 3, 2), (4,), rtol=1e-10, grad_fn=False,
    )  # fmt: skip


def test_one_hot() -> None:
    check(
        lambda lib, t: lib.nn.functional.one_hot(t, 5), arg([[1, 0], [4, 2]]), grad=0, version=False
    )
    assert jg.nn.functional.one_hot(jg.tensor([1, 0])).tolist() == [[0, 1], [1, 0]]
    check_raises(
        lambda lib, t: lib.nn.functional.one_hot(t, 2), arg([3]),
        match="Class values must be smaller than num_classes.",
    )  # fmt: skip


def test_dropout_draws_the_numbers_of_torch(seed: Any) -> None:
    def drop(lib: Any, x: Any) -> Any:
        lib.manual_seed(3)
        return lib.nn.functional.dropout(x, 0.3)

    check(drop, (30, 4))
    seed(0)


def test_dropout_literally() -> None:
    x = jg.ones(1000)
    y = jg.nn.functional.dropout(x, 0.25)
    kept = (y != 0).sum().item()
    assert 650 < kept < 850
    assert sorted(set(y.tolist())) == pytest.approx([0.0, 4 / 3])
    assert jg.nn.functional.dropout(x, 1.0).tolist() == [0.0] * 1000
    with pytest.raises(ValueError, match="between 0 and 1"):
        jg.nn.functional.dropout(x, 1.5)
