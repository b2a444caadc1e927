"""One step of training a recurrent layer: forward and backward over a whole sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.workloads import array, uniform


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def bench_layer(race: Callable[..., None], threads: int, layer: str) -> None:
    """Batch 32, 50 steps, 128 features, 128 units, float32."""

    def build(lib: Any) -> Callable[[], object]:
        model = getattr(lib.nn, layer)(128, 128)
        x = array(lib, uniform(50, 32, 128))

        def step() -> None:
            model.zero_grad()
            out, _ = model(x)
            out.sum().backward()

        return step

    race(build)
