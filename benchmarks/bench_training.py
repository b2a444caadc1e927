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
