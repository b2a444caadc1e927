"""nn.utils: clipping, and parameters as one vector."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from tests.oracle import torch_or_skip


def parameters() -> list[nn.Parameter]:
    held = [nn.Parameter(jg.zeros(2)), nn.Parameter(jg.zeros(1, 1)), nn.Parameter(jg.zeros(3))]
    held[0].grad = jg.tensor([3.0, 0.0])
    held[1].grad = jg.tensor([[-4.0]])
    return held


def test_clip_grad_norm() -> None:
    held = parameters()
    assert nn.utils.clip_grad_norm_(held, 1.0).item() == 5.0
    assert held[0].grad.tolist() == pytest.approx([0.6, 0.0])
    assert held[1].grad.item() == pytest.approx(-0.8)
    assert held[2].grad is None
    assert nn.utils.clip_grad_norm_(held, 10.0).item() == pytest.approx(1.0)
    assert held[1].grad.item() == pytest.approx(-0.8)
    assert nn.utils.clip_grad_norm_(parameters(), 1.0, float("inf")).item() == 4.0
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_clip_grad_norm_of_nonfinite_gradients() -> None:
    held = parameters()
    held[0].grad[0] = float("inf")
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(held, 1.0, error_if_nonfinite=True)


def test_clip_grad_value() -> None:
    held = parameters()
    nn.utils.clip_grad_value_(held, 2)
    assert held[0].grad.tolist() == [2.0, 0.0] and held[1].grad.item() == -2.0


def test_vector_of_parameters() -> None:
    held = parameters()
    vector = nn.utils.parameters_to_vector(held)
    assert vector.shape == (6,) and vector.requires_grad
    source = jg.arange(6.0)
    nn.utils.vector_to_parameters(source, held)
    assert held[1].tolist() == [[2.0]] and held[2].tolist() == [3.0, 4.0, 5.0]
    assert held[2].data_ptr() == source.data_ptr() + 12
    with pytest.raises(TypeError, match="expected torch.Tensor"):
        nn.utils.vector_to_parameters([1.0], held)  # type: ignore[arg-type]


@pytest.mark.oracle
@pytest.mark.parametrize("order", [2.0, 1.0, float("inf"), 3.0])
@pytest.mark.parametrize("kind", ["plain", "mixed", "strided", "half"])
def test_clipping_many_gradients_is_that_of_torch(order: float, kind: str) -> None:
    import torch

    def run(lib: Any) -> list[Any]:
        rng = np.random.default_rng(0)
        held = []
        for i, shape in enumerate(((3, 4), (5,), (), (2, 0), (300, 2))):
            value = lib.tensor(rng.normal(size=shape), dtype=lib.float32)
            if kind == "mixed" and i == 1:
                value = value.double()
            if kind == "strided" and i == 0:
                value = lib.from_numpy(rng.normal(size=(6, 8)).astype("float32"))[::2, ::2]
            if kind == "half":
                value = value.bfloat16()
            p = lib.nn.Parameter(lib.zeros_like(value))
            p.grad = value
            held.append(p)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch's, about norms of nothing
            norm = lib.nn.utils.clip_grad_norm_(held[:3] + held[4:], 2.0, order)
        lib.nn.utils.clip_grad_value_(held, 0.1)
        return [norm, *(p.grad for p in held)]

    ours, theirs = run(jg), run(torch)
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        tolerance = 1e-2 if kind == "half" else 1e-5
        np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), tolerance)


def test_clipping_does_not_depend_on_threads(threads: Any) -> None:
    def run() -> tuple[float, Any]:
        jg.manual_seed(0)
        held = [nn.Parameter(jg.zeros(n)) for n in (3, 200_000, 17, 150_001)]
        for p in held:
            p.grad = jg.randn_like(p)
        return nn.utils.clip_grad_norm_(held, 1.0).item(), [p.grad for p in held]

    norm, gradients = run()
    threads(2)
    again, others = run()
    assert norm == again and all(jg.equal(a, b) for a, b in zip(gradients, others, strict=True))


def test_clipping_what_is_given_twice_or_complex() -> None:
    p = nn.Parameter(jg.zeros(2))
    p.grad = jg.tensor([3.0, 4.0])
    nn.utils.clip_grads_with_norm_([p, p], 1.0, jg.tensor(2.0))
    assert p.grad.tolist() == pytest.approx([0.75, 1.0], rel=1e-5)
    c = jg.from_numpy(np.array([1 + 2j])).requires_grad_()
    c.grad = c.detach().clone()
    with pytest.raises(NotImplementedError, match="clamp"):
        nn.utils.clip_grad_value_([c], 1.0)


def test_writes_to_many_are_counted_and_refused() -> None:
    held = [nn.Parameter(jg.zeros(2)) for _ in range(2)]
    for p in held:
        p.grad = jg.ones(2)
    versions = [p.grad._version for p in held]
    nn.utils.clip_grad_value_(held, 0.5)
    assert [p.grad._version for p in held] == [v + 1 for v in versions]
    nn.ParameterList(held).zero_grad(set_to_none=False)
    assert all(p.grad.tolist() == [0.0, 0.0] for p in held)
    with jg.inference_mode():
        held[0].grad = jg.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        nn.utils.clip_grad_value_(held, 0.5)
    assert held[0].grad.tolist() == [1.0, 1.0]


# Memory formats, modules without initial values ---------------------------------------------------
@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Any:
    return jg if request.param == "jitgrad" else torch_or_skip()


def test_weights_of_convolutions_in_channels_last(lib: Any) -> None:
    held = lib.nn.Sequential(
        lib.nn.Conv2d(3, 4, 2), lib.nn.ModuleList([lib.nn.ConvTranspose2d(3, 2, 2)]),
        lib.nn.Conv3d(3, 4, 2), lib.nn.Conv1d(3, 4, 2),
    )  # fmt: skip
    before = {name: p.detach().clone() for name, p in held.named_parameters()}
    strides = lambda: [p.stride() for p in held.parameters() if p.ndim > 1]  # noqa: E731
    utils = lib.nn.utils
    assert utils.convert_conv2d_weight_memory_format(held, lib.channels_last) is held
    flat = (24, 8, 4, 2, 1)
    assert strides() == [(12, 1, 6, 3), (8, 1, 4, 2), flat, (6, 2, 1)]
    utils.convert_conv3d_weight_memory_format(held, lib.channels_last_3d)
    assert strides()[2] == (24, 1, 12, 6, 3)
    assert all(lib.equal(p, before[name]) for name, p in held.named_parameters())


def test_skip_init(lib: Any) -> None:
    lib.manual_seed(0)
    expected = lib.rand(2)
    lib.manual_seed(0)
    layer = lib.nn.utils.skip_init(lib.nn.Linear, 5, out_features=2)
    assert lib.equal(lib.rand(2), expected)
    assert tuple(layer.weight.shape) == (2, 5) and layer.weight.requires_grad
    layer = lib.nn.Linear(2, 2)
    assert layer.weight.abs().max() > 0  # as ever again
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        lib.nn.utils.skip_init(lib.nn.ReLU)
    with pytest.raises(RuntimeError, match="Expected a Module; got"):
        lib.nn.utils.skip_init(int)
