"""Functions of the package that are called differently from their namesakes in nn.functional."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises, torch_or_skip

PLAIN = {"requires_grad": False}
SIGNS = arg([1.0, -1.0, 1.0], **PLAIN)

LOSSES: dict[str, Any] = {
    "hinge": (lambda lib, r, x, t: lib.hinge_embedding_loss(x, t, 0.5, r), (3,), SIGNS),
    "cosine": (lambda lib, r, x, y, t: lib.cosine_embedding_loss(x, y, t, 0.1, r), (3, 2), (3, 2),
               SIGNS),
    "margin": (lambda lib, r, x, y, t: lib.margin_ranking_loss(x, y, t, reduction=r), (3,), (3,),
               SIGNS),
    "triplet": (lambda lib, r, x, y, z: lib.triplet_margin_loss(x, y, z, 1.0, 2.0, 1e-6, True, r),
                (3, 2), (3, 2), (3, 2)),
    "poisson": (lambda lib, r, x, t: lib.poisson_nll_loss(x, t, True, False, 1e-8, r), (3,), (3,)),
    "divergence": (lambda lib, r, x, t: lib.kl_div(x, t, r, log_target=True), (3,), (3,)),
    "logits": (
        lambda lib, r, x, t, w: lib.binary_cross_entropy_with_logits(x, t, None, w, r),
        (3,), arg([0.0, 1.0, 0.5], **PLAIN), arg([1.0, 2.0, 3.0], **PLAIN),
    ),
    "alignments": (
        lambda lib, r, x: lib.ctc_loss(
            x.log_softmax(2), lib.tensor([[1, 2], [2, 1]]), [5, 5], (2, 1), 0, r
        ),
        (5, 2, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_with_numbers_for_reductions(name: str) -> None:
    function, *inputs = LOSSES[name]
    second = 0 if name == "alignments" else 1
    for reduction in (0, 1, 2):
        check(lambda lib, *x, r=reduction: function(lib, r, *x), *inputs, grad=1 + second,
              version=False, grad_fn=False)  # fmt: skip


def test_names_of_reductions_are_refused() -> None:
    check_raises(
        lambda lib, x: lib.hinge_embedding_loss(x, x, 1.0, "mean"), (3,),
        match="argument 'reduction'",
    )  # fmt: skip
    check_raises(lambda lib, x: lib.kl_div(x, x, "mean"), (3,), match="argument 'reduction'")
    x = jg.zeros(3)
    with pytest.raises(ValueError, match="reduction must be 0, 1 or 2"):
        jg.margin_ranking_loss(x, x, x, 0.0, 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size_average'"):
        jg.margin_ranking_loss(x, x, x, size_average=True)
    with pytest.raises(TypeError, match="positional arguments"):
        jg.margin_ranking_loss(x, x, x, 0.0, 1, 2)


# Dropout ------------------------------------------------------------------------------------------
DROPS = ["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"]


@pytest.mark.parametrize("name", DROPS)
def test_dropout_by_position(name: str) -> None:
    def run(lib: Any, x: Any, p: float, train: bool, suffix: str = "") -> Any:
        lib.manual_seed(0)
        return getattr(lib, name + suffix)(x.clone(), p, train)

    for p, train in ((0.5, True), (1.0, True), (0.0, True), (0.5, False)):
        check(lambda lib, x, p=p, t=train: run(lib, x, p, t), (4, 3, 2), grad_fn=False)
        check(lambda lib, x, p=p, t=train: run(lib, x, p, t, "_"), (4, 3, 2), grad_fn=False)
    check_raises(lambda lib, x: run(lib, x, 1.5, True), (4, 3), match="between 0 and 1, but got")
    if "feature" in name:
        check_raises(lambda lib, x: run(lib, x, 0.5, True), (4,), match="at least 2 dimensions")


def test_native_dropout() -> None:
    def run(lib: Any, x: Any, p: float, train: bool | None) -> Any:
        lib.manual_seed(0)
        return lib.native_dropout(x, p, train)

    for p, train in ((0.25, True), (1.0, True), (0.5, None), (0.5, False)):
        # For None PyTorch's gradient lacks the factor that its result has.
        check(lambda lib, x, p=p, t=train: run(lib, x, p, t), (4, 3), version=False,
              grad=0 if train is None else 2)  # fmt: skip
    check_raises(lambda lib, x: run(lib, x, -1.0, True), (3,), match="p to be in [0, 1]")


# In place, norms, copies --------------------------------------------------------------------------
def test_activations_in_place() -> None:
    check(lambda lib, x: lib.nn.functional.elu_(x.clone()), (3, 4))
    check(lambda lib, x: lib.nn.functional.leaky_relu_(x.clone()), (3, 4))
    check(lambda lib, x: lib.celu_(x.clone(), 0.5), (3, 4))
    check(lambda lib, x: lib.selu_(x.clone()), (3, 4))
    check(lambda lib, x: lib.rrelu_(x.clone(), 0.1, 0.3), (3, 4))
    check(lambda lib, x: lib.threshold_(x.clone(), 0.1, 2.0), (3, 4))
    check(lambda lib, x, w: x.prelu(w), (2, 3), (3,))
    check(lambda lib, x: (x.hardshrink(), x.hardshrink(0.1)), (3, 4))


@pytest.mark.filterwarnings("ignore:at..(frobenius|nuclear)_norm is deprecated")
def test_norms_by_old_names() -> None:
    for dim in (1, [0, 2], [], (2,)):
        check(lambda lib, x, d=dim: lib.frobenius_norm(x, d), (2, 3, 4), grad_fn=False)
    check(lambda lib, x: lib.frobenius_norm(x, 1, True), (2, 3), grad_fn=False)
    check_raises(
        lambda lib, x: lib.frobenius_norm(x, [0, 1, 2]), (2, 3, 4),
        match="Expected at most 2 dimensions, but got 3",
    )  # fmt: skip
    check(
        lambda lib, x: (lib.nuclear_norm(x), lib.nuclear_norm(x, (0, 2))),
        (2, 3, 4),
        grad=1,
        grad_fn=False,
    )
    check(lambda lib, x: lib.nuclear_norm(x, True), arg((3, 4), **PLAIN))
    for dim in (0, 1, 2, -1):
        check(lambda lib, x, d=dim: lib.norm_except_dim(x, 2, d) * 1, (2, 3, 4), strides="loose")


def test_copies_of_views() -> None:
    check(lambda lib, x: lib.select_copy(x, 1, -1), (2, 3), grad_fn=False)
    check(lambda lib, x: (lib.slice_copy(x), lib.slice_copy(x, -1, 1, None, 2)), (2, 5),
          grad_fn=False)  # fmt: skip
    check(lambda lib, x: lib.split_copy(x, 2, 1), (2, 5), grad_fn=False)
    check(lambda lib, x: lib.view_as_real_copy(x), arg((3,), dtype="complex128"), grad_fn=False)
    check(lambda lib, x: lib.view_as_complex_copy(x.contiguous()), arg((3, 2), **PLAIN))
    check(lambda lib, x: lib.detach_copy(x), arg((3, 2), **PLAIN))
    check_raises(lambda lib, x: lib.slice_copy(x, 5), (2, 3), match="Dimension out of range")
    check_raises(lambda lib, x: lib.select_copy(x, 0, 9), (2, 3), match="index 9 out of range")
    check_raises(lambda lib, x: lib.slice_copy(x, 0, 0, 2, 0), (2, 3), match="step must be")


# What a dense tensor in one process answers -------------------------------------------------------
@pytest.mark.parametrize("name", ["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def test_dense_tensors(name: str) -> None:
    lib = jg if name == "jitgrad" else torch_or_skip()
    x = lib.ones(2, 3)
    assert (x.dense_dim(), x.sparse_dim()) == (2, 0)
    assert x.to_dense() is x and x.to_dense(lib.float64).dtype == lib.float64
    assert x[:, lib.newaxis].shape == (2, 1, 3)
    loaded = x.module_load(lib.zeros(2, 3))
    assert loaded is not x and loaded.data_ptr() == x.data_ptr() and loaded.sum() == 0
    other = lib.ones(2, 3)
    assert x.module_load(other, assign=True).data_ptr() == other.data_ptr()
    try:
        lib.set_anomaly_enabled(True, False)
        assert lib.is_anomaly_enabled() and not lib.is_anomaly_check_nan_enabled()
    finally:
        lib.set_anomaly_enabled(False)
    assert not lib.is_anomaly_enabled() and lib.is_anomaly_check_nan_enabled()


def test_memory_is_not_shared() -> None:
    with pytest.raises(NotImplementedError, match="memory of one process"):
        jg.ones(2).share_memory_()
    with pytest.raises(NotImplementedError, match="share_memory_"):
        jg.nn.Linear(2, 2).share_memory()
    assert not jg.from_numpy(np.ones(2)).is_shared()
