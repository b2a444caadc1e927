"""One step of training a small network, as written by hand in any PyTorch tutorial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.workloads import array, uniform


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("batch", [16, 256], ids="batch {}".format)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def bench_mlp_step(race: Callable[..., None], threads: int, batch: int, optimizer: str) -> None:
    """64-64-10 with ReLU and cross entropy: the digits network of the demo."""
    labels = np.random.default_rng(0).integers(0, 10, batch)

    def build(lib: Any) -> Callable[[], object]:
        nn = lib.nn
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        step_taker = getattr(lib.optim, optimizer)(model.parameters(), lr=1e-3)
        x, y = array(lib, uniform(batch, 64)), array(lib, labels)

        def step() -> None:
            step_taker.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            step_taker.step()

        return step

    race(build)
