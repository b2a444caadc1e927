"""Steps of training small networks, as written by hand in any PyTorch tutorial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.workloads import array, uniform


def training_step(lib: Any, sizes: Sequence[int], batch: int, optimizer: str) -> Callable[[], None]:
    """A step of a network of linear layers with ReLU between them, by cross entropy."""
    nn = lib.nn
    layers: list[Any] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    step_taker = getattr(lib.optim, optimizer)(model.parameters(), lr=1e-3)
    labels = np.random.default_rng(0).integers(0, sizes[-1], batch)
    x, y = array(lib, uniform(batch, sizes[0])), array(lib, labels)

    def step() -> None:
        step_taker.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        step_taker.step()

    return step


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("batch", [16, 256], ids="batch {}".format)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def bench_mlp_step(race: Callable[..., None], threads: int, batch: int, optimizer: str) -> None:
    """64-64-10: the digits network of the demo."""
    race(lambda lib: training_step(lib, (64, 64, 10), batch, optimizer))


@pytest.mark.libraries("jitgrad", "torch")
def bench_wide_mlp_step(race: Callable[..., None], threads: int) -> None:
    """784-512-512-10 by Adam in batches of 256: matrix products more than anything else."""
    race(lambda lib: training_step(lib, (784, 512, 512, 10), 256, "Adam"))


MLP = ((64, 64), (64,), (64, 64), (64,), (10, 64), (10,))
MANY = ((32, 32), (32,)) * 50


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("shapes", [MLP, MANY], ids=lambda shapes: f"{len(shapes)} parameters")
@pytest.mark.parametrize("torch_has", ["foreach", "fused"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def bench_optimizer_step(
    race: Callable[..., None],
    threads: int,
    optimizer: str,
    torch_has: str,
    shapes: Sequence[tuple[int, ...]],
) -> None:
    """A step alone, against PyTorch's two ways to take all parameters at once."""

    def build(lib: Any) -> Callable[[], None]:
        parameters = [lib.nn.Parameter(lib.ones(*shape)) for shape in shapes]
        for p in parameters:
            p.grad = lib.ones(*p.shape) * 0.1
        options = {torch_has: True} if lib.__name__ == "torch" else {}
        return getattr(lib.optim, optimizer)(parameters, lr=1e-3, **options).step

    race(build)


@pytest.mark.libraries("jitgrad", "torch")
def bench_cnn_step(race: Callable[..., None], threads: int) -> None:
    """Two 3x3 convolutions of 16 and 32 channels on 28x28, pooling, SGD with momentum: batch 64."""
    labels = np.random.default_rng(0).integers(0, 10, 64)

    def build(lib: Any) -> Callable[[], object]:
        nn = lib.nn
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
        )  # fmt: skip
        step_taker = lib.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        x, y = array(lib, uniform(64, 1, 28, 28)), array(lib, labels)

        def step() -> None:
            step_taker.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            step_taker.step()

        return step

    race(build)


# batch, channels, rows, size, kernel, padding
CONVOLUTIONS = {
    "3x3, 1 to 16": (64, 1, 16, (28, 28), 3, 1),
    "3x3, 16 to 32": (64, 16, 32, (14, 14), 3, 1),
    "3x3, 64 to 64": (8, 64, 64, (56, 56), 3, 1),
    "1x1, 256 to 64": (8, 256, 64, (28, 28), 1, 0),
    "sound, 32 to 64": (8, 32, 64, (4000,), 9, 4),
}


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("what", ["forward", "input", "weight"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def bench_convolution(race: Callable[..., None], threads: int, case: str, what: str) -> None:
    """A convolution, and each of its gradients alone."""
    batch, channels, rows, size, kernel, padding = CONVOLUTIONS[case]

    def build(lib: Any) -> Callable[[], object]:
        x = array(lib, uniform(batch, channels, *size))
        w = array(lib, uniform(rows, channels, *(kernel,) * len(size)))
        convolve = getattr(lib.nn.functional, f"conv{len(size)}d")
        if what == "forward":
            return lambda: convolve(x, w, padding=padding)
        of = {"input": x, "weight": w}[what].requires_grad_()
        y = convolve(x, w, padding=padding)
        grad = lib.ones_like(y)
        return lambda: lib.autograd.grad(y, of, grad, retain_graph=True)

    race(build)


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def bench_gpt_block_step(race: Callable[..., None], threads: int, optimizer: str) -> None:
    """A transformer's block: batch 8, 64 tokens, 128 channels, 4 heads."""

    def build(lib: Any) -> Callable[[], object]:
        nn, functional = lib.nn, lib.nn.functional

        class Block(nn.Module):  # type: ignore[name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(128), nn.LayerNorm(128)
                self.attention, self.project = nn.Linear(128, 384), nn.Linear(128, 128)
                self.widen, self.narrow = nn.Linear(128, 512), nn.Linear(512, 128)

            def forward(self, x: Any) -> Any:
                parts = self.attention(self.norm1(x)).split(128, dim=2)
                q, k, v = (part.view(8, 64, 4, 32).transpose(1, 2) for part in parts)
                y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.project(y.transpose(1, 2).reshape(8, 64, 128))
                return x + self.narrow(functional.gelu(self.widen(self.norm2(x))))

        model = Block()
        step_taker = getattr(lib.optim, optimizer)(model.parameters(), lr=1e-3)
        x, target = (array(lib, uniform(8, 64, 128)) for _ in range(2))

        def step() -> None:
            step_taker.zero_grad()
            functional.mse_loss(model(x), target).backward()
            step_taker.step()

        return step

    race(build)


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("causal", [False, True], ids="causal {}".format)
def bench_attention(race: Callable[..., None], threads: int, causal: bool) -> None:
    """Scaled dot-product attention and its gradient: batch 8, 4 heads, 64 tokens, 32 wide."""

    def build(lib: Any) -> Callable[[], object]:
        q, k, v = (array(lib, uniform(8, 4, 64, 32)).requires_grad_() for _ in range(3))
        weight = array(lib, uniform(8, 4, 64, 32))
        attention = lib.nn.functional.scaled_dot_product_attention
        return lambda: lib.autograd.grad(attention(q, k, v, is_causal=causal), (q, k, v), weight)

    race(build)


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("what", ["clip_grad_norm_", "clip_grad_value_"])
def bench_clipping(race: Callable[..., None], threads: int, what: str) -> None:
    """The gradients of 100 parameters, by their norm or element by element."""

    def build(lib: Any) -> Callable[[], object]:
        parameters = [lib.nn.Parameter(lib.ones(*shape)) for shape in MANY]
        for p in parameters:
            p.grad = lib.ones(*p.shape) * 0.1
        return lambda: getattr(lib.nn.utils, what)(parameters, 1.0)

    race(build)
