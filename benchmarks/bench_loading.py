"""An epoch over a data set: samples from tensors, batches made here or in worker processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.workloads import array, uniform


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("workers", [0, 2], ids="{} workers".format)
@pytest.mark.parametrize("shape", [(4096, 64), (512, 3, 64, 64)], ids=["rows", "images"])
def bench_epoch(
    race: Callable[..., None], threads: int, shape: tuple[int, ...], workers: int
) -> None:
    """Batches of 64, shuffled; workers are kept from epoch to epoch."""

    def build(lib: Any) -> Callable[[], object]:
        data = lib.utils.data
        samples = data.TensorDataset(array(lib, uniform(*shape)), lib.arange(shape[0]))
        loader = data.DataLoader(
            samples, 64, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )

        def epoch() -> None:
            for _ in loader:
                pass

        return epoch

    race(build)
