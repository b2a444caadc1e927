"""Margin losses, connectionist temporal classification, dropout of self-normalising networks."""

from __future__ import annotations

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

PLAIN = {"requires_grad": False}
X = arg((2, 3))


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss(p: int) -> None:
    for reduction in ("mean", "sum", "none"):
        check(
            lambda lib, x, w, r=reduction: lib.nn.functional.multi_margin_loss(
                x, lib.tensor([0, 2]), p=p, margin=0.7, weight=w, reduction=r
            ),
            X, arg((3,), low=0.5, high=2, **PLAIN), grad=1,
        )  # fmt: skip
    for target in (1, [1]):
        check(lambda lib, x, t=target: lib.nn.functional.multi_margin_loss(
            x, lib.tensor(t), p=p, reduction="none"), (3,), grad=1)  # fmt: skip


def test_multilabel_margin_loss() -> None:
    targets = [[0, -1, 1], [2, 1, -1]]
    for reduction in ("mean", "none"):
        check(lambda lib, x, r=reduction: lib.nn.functional.multilabel_margin_loss(
            x, lib.tensor(targets), reduction=r), X, grad=1)  # fmt: skip
    check(lambda lib, x: lib.nn.MultiLabelMarginLoss()(x, lib.tensor(targets[1])), (3,), grad=1)


def test_errors_of_margins() -> None:
    for target in ([0, 3], [0], [0.0, 1.0]):
        check_raises(lambda lib, x, t=target: lib.nn.functional.multi_margin_loss(x, lib.tensor(t)),
                     X, match="")  # fmt: skip
    check_raises(lambda lib, x: lib.nn.MultiMarginLoss(p=3), X, match="only p == 1 and p == 2")
    check_raises(lambda lib, x: lib.nn.functional.multilabel_margin_loss(
        x, lib.tensor([[0, 3, -1], [0, 1, 2]])), X, match="out of range")  # fmt: skip


def _ctc(lib, x, targets=((1, 2, 2), (3, 1, 0)), inputs=(6, 5), lengths=(3, 2), **options):  # noqa: ANN
    return lib.nn.functional.ctc_loss(
        x.log_softmax(-1), lib.tensor(targets), inputs, lengths, **options
    )


def test_ctc_of_padded_and_joined_targets() -> None:
    for reduction in ("none", "mean", "sum"):
        check(lambda lib, x, r=reduction: _ctc(lib, x, reduction=r), (6, 2, 4), grad=1)
    check(lambda lib, x: _ctc(lib, x, (1, 2, 2, 3, 1)), (6, 2, 4), grad=1)
    check(lambda lib, x: _ctc(lib, x, lengths=(0, 2), blank=0), (6, 2, 4), grad=1)
    check(lambda lib, x: _ctc(lib, x, (1, 2, 2), (6,), (3,), reduction="none"), (6, 4),
          grad=1, grad_fn=False)  # fmt: skip
    check(lambda lib, x: _ctc(lib, x, ((0, 1),), (5,), (2,), blank=3), (5, 1, 4), grad=1)


def test_ctc_of_targets_that_do_not_fit() -> None:
    for zero in (True, False):
        check(lambda lib, x, z=zero: _ctc(lib, x, inputs=(2, 5), reduction="none", zero_infinity=z),
              (6, 2, 4), grad=1 if zero else 0)  # fmt: skip
    check(lambda lib, x: _ctc(lib, x, inputs=(0, 5), reduction="none"), (6, 2, 4), grad=0)


def test_errors_of_ctc() -> None:
    for options in (
        {"inputs": (7, 5)}, {"inputs": (6,)}, {"lengths": (4, 2)}, {"lengths": (-1, 2)},
        {"blank": 9}, {"targets": (1, 2)}, {"targets": ((1, 2, 3),)},
    ):  # fmt: skip
        check_raises(lambda lib, x, o=options: _ctc(lib, x, **o), (6, 2, 4), match="")
    with pytest.raises(RuntimeError, match=r"labels must be in \[0, 4\)"):
        _ctc(jg, jg.randn(6, 2, 4), targets=((9, 1, 1), (1, 1, 1)))


def test_ctc_has_no_second_derivative() -> None:
    def twice(lib, x):  # noqa: ANN
        (grad,) = lib.autograd.grad(_ctc(lib, x), x, create_graph=True)
        grad.sum().backward()

    check_raises(twice, (6, 2, 4), match="_ctc_loss_backward is not implemented")


def _drawn(lib, name, *args, **kwargs):  # noqa: ANN
    """A random function of nn.functional from a fixed seed, which is put back."""
    with lib.random.fork_rng() if hasattr(lib, "random") else lib.fork_rng():
        lib.manual_seed(3)
        return getattr(lib.nn.functional, name)(*args, **kwargs)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout(name: str) -> None:
    for p in (0.0, 0.3, 1.0):
        check(lambda lib, x, p=p: _drawn(lib, name, x * 1, p, True), (2, 3, 4))
    check(lambda lib, x: _drawn(lib, name, x * 1, 0.3, True, True), (2, 3, 4),
          version=False, grad_fn=False)  # fmt: skip
    check_raises(lambda lib, x: getattr(lib.nn.functional, name)(x, 1.5), (2, 3), match="between 0")


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    with jg.fork_rng():
        jg.manual_seed(1)
        x = jg.nn.functional.selu(jg.randn(100_000))
        y = jg.nn.AlphaDropout(0.2)(x)
    assert abs(y.mean().item() - x.mean().item()) < 0.02
    assert abs(y.std().item() - x.std().item()) < 0.02


def test_gumbel_softmax() -> None:
    for hard in (False, True):
        check(lambda lib, x, h=hard: _drawn(lib, "gumbel_softmax", x, 0.5, h, dim=0), (4, 3),
              grad=1, rtol=1e-6)  # fmt: skip


def test_pdist() -> None:
    for p in (0, 1, 2, 3, float("inf")):
        check(lambda lib, x, p=p: lib.nn.functional.pdist(x, p), (4, 3), grad=1)
    check_raises(lambda lib, x: lib.pdist(x), (3,), match="only supports 2D")
