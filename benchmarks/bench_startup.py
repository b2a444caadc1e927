"""How long a new process takes until something has happened."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

GRADIENT = """
import {lib} as torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
loss = torch.nn.functional.cross_entropy(model(torch.rand(16, 64)), torch.arange(16) % 10)
loss.backward()
assert model[0].weight.grad is not None
"""


def python(code: str, cache: Path) -> None:
    environment = {**os.environ, "JITGRAD_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.fixture
def cache() -> Iterator[Path]:
    """An empty folder for compiled kernels."""
    with tempfile.TemporaryDirectory(prefix="jitgrad-bench-") as folder:
        yield Path(folder)


def bench_import(race: Callable[..., None], cache: Path) -> None:
    race(lambda lib: partial(python, f"import {lib.__name__}", cache))


@pytest.mark.libraries("jitgrad", "torch")
def bench_first_gradient(race: Callable[..., None], cache: Path) -> None:
    """Kernels compiled by an earlier process: the race's untimed calls fill the cache."""
    race(lambda lib: partial(python, GRADIENT.format(lib=lib.__name__), cache))


@pytest.mark.libraries("jitgrad", "torch")
def bench_first_gradient_with_an_empty_cache(race: Callable[..., None], cache: Path) -> None:
    def build(lib: Any) -> Callable[[], object]:
        def start() -> None:
            with tempfile.TemporaryDirectory(dir=cache) as fresh:
                python(GRADIENT.format(lib=lib.__name__), Path(fresh))

        return start

    race(build)
