"""Normalisation against PyTorch: values, nodes, derivatives, running estimates, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises, torch_or_skip

CASES: dict[str, Any] = {
    "layer": (lambda f, x, w, b: f.layer_norm(x, (5,), w, b), (4, 3, 5), (5,), (5,)),
    "layer, two dimensions": (
        lambda f, x, w, b: f.layer_norm(x, (3, 5), w, b, 0.1), (4, 3, 5), (3, 5), (3, 5),
    ),
    "layer, weight alone": (lambda f, x, w: f.layer_norm(x, (5,), w), (3, 5), (5,)),
    "layer, plain": (lambda f, x: f.layer_norm(x, (5,)), (5,)),
    "layer, transposed": (lambda f, x: f.layer_norm(x.transpose(0, 1), (4, 2)), (4, 3, 2)),
    "group": (lambda f, x, w, b: f.group_norm(x, 2, w, b), (3, 4, 5), (4,), (4,)),
    "group, images": (lambda f, x, w, b: f.group_norm(x, 4, w, b), (2, 4, 3, 2), (4,), (4,)),
    "group, vectors": (lambda f, x, w, b: f.group_norm(x, 2, w, b), (3, 16), (16,), (16,)),
    "group, plain": (lambda f, x: f.group_norm(x, 1), (3, 4)),
    "batch": (
        lambda f, x, w, b: f.batch_norm(x, None, None, w, b, True), (4, 3, 5), (3,), (3,),
    ),
    "batch of vectors": (
        lambda f, x, w, b: f.batch_norm(x, None, None, w, b, True), (6, 9), (9,), (9,),
    ),
    "batch of images": (lambda f, x: f.batch_norm(x, None, None, training=True), (2, 3, 4, 2)),
    "instance": (
        lambda f, x, w, b: f.instance_norm(x, None, None, w, b), (2, 3, 5), (3,), (3,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_nodes_and_derivatives(name: str) -> None:
    function, *specs = CASES[name]
    check(
        lambda lib, *xs: function(lib.nn.functional, *xs),
        *specs,
        rtol=1e-9,
        atol=1e-11,
        strides="loose",
    )


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5)])
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(shape: tuple[int, ...], weighted: bool) -> None:
    """PyTorch's is made of other operations: values and derivatives are what counts."""
    specs = [shape, (5,)] if weighted else [shape]
    check(
        lambda lib, x, *w: lib.nn.functional.rms_norm(x, (5,), *w),
        *specs, rtol=1e-9, atol=1e-11, grad_fn=False,
    )  # fmt: skip


def test_evaluation_uses_the_running_estimates() -> None:
    for shape in ((4, 3, 5), (6, 3)):
        check(
            lambda lib, x, m, v, w, b: lib.nn.functional.batch_norm(x, m, v, w, b),
            shape,
            arg((3,), requires_grad=False),
            arg((3,), low=0.5, requires_grad=False),
            (3,),
            (3,),
            rtol=1e-9,
            atol=1e-11,
        )


@pytest.mark.parametrize("name", ["layer", "group", "batch", "batch of vectors", "instance"])
def test_single_precision(name: str) -> None:
    function, *specs = CASES[name]
    check(
        lambda lib, *xs: function(lib.nn.functional, *xs),
        *specs, dtype="float32", grad=1, rtol=2e-4, atol=2e-5,
    )  # fmt: skip


def test_large_offsets_do_not_cost_digits() -> None:
    """The variance is that of deviations, not a difference of squares."""
    x = jg.from_numpy(np.random.default_rng(0).normal(3e4, 1, (3, 4000)).astype(np.float32))
    exact = x.double()
    expected = (exact - exact.mean(1, True)) / exact.var(1, unbiased=False, keepdim=True).sqrt()
    got = jg.nn.functional.layer_norm(x, (4000,))
    assert abs(got.double() - expected).max().item() < 5e-3  # the rounding of the mean


@pytest.mark.parametrize("wide", [300, 600])
def test_many_columns_and_rows(wide: int) -> None:
    """More lines than are walked together, and more elements than are summed together."""
    check(
        lambda lib, x, w, b: lib.nn.functional.batch_norm(x, None, None, w, b, True),
        (600, wide), (wide,), (wide,), grad=1, rtol=1e-8, atol=1e-9,
    )  # fmt: skip
    check(
        lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (wide,), w, b),
        (300, wide), (wide,), (wide,), grad=1, rtol=1e-8, atol=1e-9,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 3, 4)])
def test_nothing_to_normalise(shape: tuple[int, ...]) -> None:
    check(lambda lib, x, w: lib.nn.functional.layer_norm(x, shape[-1:], w), shape, shape[-1:])
    if shape[1]:  # without channels PyTorch takes the first weight all the same
        check(
            lambda lib, x, w: lib.nn.functional.batch_norm(x, None, None, w, training=True),
            shape, shape[1:2], grad_fn=False,
        )  # fmt: skip


def test_threads_do_not_change_a_bit(threads: Any) -> None:
    x = jg.randn(500, 700)
    w = jg.randn(700)

    def both() -> list[bytes]:
        leaf, weight = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = jg.nn.functional.layer_norm(leaf, (700,), weight)
        grads = jg.autograd.grad((y * y * x).sum(), (leaf, weight))
        return [t.detach().numpy().tobytes() for t in (y, *grads)]

    threads(1)
    alone = both()
    threads(2)
    assert both() == alone


# Modules ------------------------------------------------------------------------------------------
def both_modules(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    torch = torch_or_skip()
    return tuple(getattr(lib.nn, name)(*args, **kwargs) for lib in (torch, jg))  # type: ignore[return-value]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("LayerNorm", (5,), {}),
        ("LayerNorm", ((3, 5),), {"bias": False}),
        ("LayerNorm", (5,), {"elementwise_affine": False}),
        ("RMSNorm", (5,), {}),
        ("GroupNorm", (2, 4), {}),
        ("BatchNorm1d", (3,), {}),
        ("BatchNorm2d", (3,), {"momentum": None}),
        ("BatchNorm3d", (3,), {"affine": False, "track_running_stats": False}),
        ("InstanceNorm1d", (3,), {"affine": True}),
        ("InstanceNorm2d", (3,), {"track_running_stats": True}),
        ("SyncBatchNorm", (3,), {}),
    ],
)
def test_modules_are_made_alike(name: str, args: Any, kwargs: Any) -> None:
    theirs, ours = both_modules(name, *args, **kwargs)
    assert repr(ours) == repr(theirs)
    a, b = theirs.state_dict(), ours.state_dict()
    assert list(a) == list(b)
    for key in a:
        np.testing.assert_array_equal(a[key].numpy(), b[key].numpy())
        assert str(a[key].dtype).split(".")[1] == b[key].dtype.name


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_estimates(name: str, momentum: float | None) -> None:
    if name == "InstanceNorm1d" and momentum is None:
        momentum = 0.3
    torch = torch_or_skip()
    modules = both_modules(name, 3, momentum=momentum, track_running_stats=True)
    for step in range(3):
        values = np.random.default_rng(step).normal(step, 2, (4, 3, 6)).astype(np.float32)
        a, b = (
            m(lib.from_numpy(values.copy())) for m, lib in zip(modules, (torch, jg), strict=True)
        )
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    a, b = (m.state_dict() for m in modules)
    for key in a:
        np.testing.assert_allclose(a[key].numpy(), b[key].numpy(), rtol=1e-5, atol=1e-6)
    for key in ("running_mean", "running_var", "num_batches_tracked"):
        assert getattr(modules[0], key)._version == getattr(modules[1], key)._version, key
    for m in modules:
        m.eval()
    a, b = (m(lib.ones(2, 3, 6)) for m, lib in zip(modules, (torch, jg), strict=True))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_state_without_a_count_of_batches_loads() -> None:
    state = jg.nn.BatchNorm1d(3).state_dict()
    del state["num_batches_tracked"]
    del state._metadata
    jg.nn.BatchNorm1d(3).load_state_dict(state)


# Errors -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda lib, f, x: f.layer_norm(x, (4,)), "Given normalized_shape=[4], expected input"),
        (lambda lib, f, x: f.layer_norm(x, ()), "at least 1-dimensional"),
        (lambda lib, f, x: f.layer_norm(x, (5,), x[0, 0, :4]), "Expected weight to be of same"),
        (lambda lib, f, x: f.layer_norm(x.long(), (5,)), "not implemented for 'Long'"),
        (lambda lib, f, x: f.layer_norm(x, (5,), lib.ones(5)), "mixed dtype (CPU)"),
        (lambda lib, f, x: f.rms_norm(x, (4,)), "Given normalized_shape=[4], expected input"),
        (lambda lib, f, x: f.group_norm(x, 4), "divisible by num_groups"),
        (lambda lib, f, x: f.group_norm(x[0, 0], 1), "Expected at least 2 dimensions"),
        (lambda lib, f, x: f.group_norm(x, 3, lib.ones(5)), "vector of size equal to the number"),
        (lambda lib, f, x: f.group_norm(x[:1, :3, 0], 3), "more than 1 value per channel"),
        (lambda lib, f, x: f.batch_norm(x, None, None), "running_mean must be defined"),
        (
            lambda lib, f, x: f.batch_norm(x, lib.zeros(5), lib.ones(6)),
            "running_mean should contain 6 elements not 5",
        ),
        (
            lambda lib, f, x: f.batch_norm(x[:1, :, 0], None, None, training=True),
            "Expected more than 1 value per channel when training",
        ),
        (
            lambda lib, f, x: f.instance_norm(x, use_input_stats=False),
            "Expected running_mean and running_var to be defined",
        ),
        (lambda lib, f, x: f.instance_norm(x[:, :, :1]), "more than 1 spatial element"),
        (lambda lib, f, x: lib.nn.BatchNorm2d(3)(x), "expected 4D input (got 3D input)"),
        (lambda lib, f, x: lib.nn.BatchNorm1d(3)(x[0, 0]), "expected 2D or 3D input"),
        (lambda lib, f, x: lib.nn.GroupNorm(4, 6), "must be divisible by num_groups (4)"),
        (
            lambda lib, f, x: lib.nn.InstanceNorm1d(3, affine=True)(x),
            "to match num_features (3), but got: 6",
        ),
    ],
)
def test_errors(call: Any, match: str) -> None:
    check_raises(lambda lib, x: call(lib, lib.nn.functional, x), (4, 6, 5), match=match)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # PyTorch: it takes a slower way
@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d"])
def test_inputs_in_16_bits_with_parameters_in_float32(name: str) -> None:
    import torch

    def run(lib: Any) -> list[Any]:
        options = {"GroupNorm": (2, 4), "BatchNorm1d": (4,)}
        module = getattr(lib.nn, name)(*options.get(name, (3,)))
        x = lib.tensor(np.random.default_rng(0).normal(size=(2, 4, 3)), dtype=lib.float32)
        x = x.bfloat16().requires_grad_()
        result = module(x)
        (result.float() * lib.arange(24).reshape(2, 4, 3)).sum().backward()
        found = [result, x.grad, *(p.grad for p in module.parameters())]
        dtypes = [str(t.dtype).split(".")[1] for t in found]
        return [dtypes, *(t.detach().float().numpy() for t in found)]

    ours, theirs = run(jg), run(torch)
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(a, b, 0.05, 0.05 * np.abs(b).max())


@pytest.mark.oracle
@pytest.mark.parametrize("given", ["all", "weight", "bias", "running", "none"])
@pytest.mark.parametrize("training", [True, False])
def test_batches_in_16_bits_by_parameters_in_float32(given: str, training: bool) -> None:
    import torch

    def run(lib: Any) -> list[Any]:
        values = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
        x = lib.tensor(values).bfloat16().requires_grad_()
        mean, var = (lib.tensor([a, 1.0, 2.0, 0.5]) for a in (0.25, 3.0))
        if given == "none":  # then the estimates have the input's dtype
            mean, var = mean.bfloat16(), var.bfloat16()
        w = (
            lib.tensor([1.0, -1.0, 0.5, 3.0]).requires_grad_()
            if given in ("all", "weight")
            else None
        )
        b = lib.tensor([0.5, 1.0, 2.0, 0.0]).requires_grad_() if given in ("all", "bias") else None
        leaves = [t for t in (x, w, b) if t is not None]
        y = lib.nn.functional.batch_norm(x, mean, var, w, b, training)
        towards = lib.arange(24).reshape(2, 4, 3).to(y.dtype)
        found = [y, mean, var]
        grads = lib.autograd.grad(y, leaves, towards, create_graph=True)
        found += grads
        if given in ("all", "weight"):  # PyTorch's second gradient fails with a bias alone
            total = sum(g.float().sin().sum() for g in grads)
            seconds = lib.autograd.grad(total, leaves, allow_unused=True)
            found += [g for g in seconds if g is not None and g.abs().max() > 0]
        kinds = [type(y.grad_fn).__name__, *(str(t.dtype).split(".")[1] for t in found)]
        native = lib.native_batch_norm(x, w, b, mean, var, training, 0.1, 1e-5)
        kinds += [str(t.dtype).split(".")[1] for t in native]
        return [kinds, *(t.detach().float().numpy() for t in found)]

    ours, theirs = run(jg), run(torch)
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(a, b, 0.05, 0.05 * np.abs(b).max())


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, f, x, w: f.batch_norm(x, w, w.bfloat16(), w, w),
        lambda lib, f, x, w: f.batch_norm(x, w, w, w, w.bfloat16()),
        lambda lib, f, x, w: f.batch_norm(x, None, None, w.double(), None, True),
        lambda lib, f, x, w: f.layer_norm(x, (3,), w, w.bfloat16()),
        lambda lib, f, x, w: f.group_norm(x, 1, w, w.double()),
        lambda lib, f, x, w: f.instance_norm(x[..., None].expand(2, 3, 4), w, w, None, w.half()),
    ],
)
def test_parameters_of_other_dtypes(call: Any) -> None:
    check_raises(
        lambda lib, x: call(lib, lib.nn.functional, x.bfloat16(), lib.ones(3)), (2, 3),
        match="mixed dtype (CPU): expect parameter to have scalar type of Float",
    )  # fmt: skip
