"""Pooling, padding and resampling of images, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.workloads import array, uniform

Work = Callable[[Any, Any], Any]

BATCH = (64, 16, 28, 28)
OPERATORS: dict[str, tuple[tuple[int, ...], Work]] = {
    "max_pool2d 2": (BATCH, lambda f, x: f.max_pool2d(x, 2)),
    "max_pool2d 3/2": (BATCH, lambda f, x: f.max_pool2d(x, 3, 2, 1)),
    "avg_pool2d 2": (BATCH, lambda f, x: f.avg_pool2d(x, 2)),
    "adaptive_avg_pool2d 7": (BATCH, lambda f, x: f.adaptive_avg_pool2d(x, 7)),
    "adaptive_max_pool2d 7": (BATCH, lambda f, x: f.adaptive_max_pool2d(x, 7)),
    "pad constant": (BATCH, lambda f, x: f.pad(x, (1, 1, 1, 1))),
    "pad reflect": (BATCH, lambda f, x: f.pad(x, (1, 1, 1, 1), "reflect")),
    "nearest x2": ((8, 16, 32, 32), lambda f, x: f.interpolate(x, scale_factor=2)),
    "bilinear x2": (
        (8, 16, 32, 32),
        lambda f, x: f.interpolate(x, scale_factor=2, mode="bilinear"),
    ),
    "bicubic x2": ((8, 16, 32, 32), lambda f, x: f.interpolate(x, scale_factor=2, mode="bicubic")),
    "pixel_shuffle 2": ((8, 64, 32, 32), lambda f, x: f.pixel_shuffle(x, 2)),
    "max_pool2d small": ((2, 3, 8, 8), lambda f, x: f.max_pool2d(x, 2)),
}


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("name", OPERATORS)
def bench_operator(race: Callable[..., None], threads: int, name: str) -> None:
    """float32; a result and the gradient for its sum."""
    shape, work = OPERATORS[name]

    def build(lib: Any) -> Callable[[], object]:
        x = array(lib, uniform(*shape)).requires_grad_()
        ones = lib.ones_like(work(lib.nn.functional, x).detach())

        def step() -> None:
            x.grad = None
            work(lib.nn.functional, x).backward(ones)

        return step

    race(build)


@pytest.mark.libraries("jitgrad", "torch")
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def bench_grid_sample(race: Callable[..., None], threads: int, mode: str) -> None:
    """Four images of 16 channels, 64 x 64, at as many positions; gradients for both."""

    def build(lib: Any) -> Callable[[], object]:
        x = array(lib, uniform(4, 16, 64, 64)).requires_grad_()
        grid = array(lib, uniform(4, 64, 64, 2)).requires_grad_()
        ones = lib.ones(4, 16, 64, 64)

        def step() -> None:
            x.grad = grid.grad = None
            sampled = lib.nn.functional.grid_sample(x, grid, mode, align_corners=False)
            sampled.backward(ones)

        return step

    race(build)
