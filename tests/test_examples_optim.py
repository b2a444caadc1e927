"""examples/lbfgs_fit.py and examples/pinn.py: they reach their bars, as they do on PyTorch."""

from __future__ import annotations

import importlib.util
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle.libraries import torch_or_skip

FOLDER = Path(__file__).parent.parent / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_example", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["lbfgs_fit", "pinn"])
@pytest.mark.parametrize("backend", ["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def test_the_bar_is_reached(name: str, backend: str, seed: Any, capsys: Any) -> None:
    seed(0)  # put back afterwards: the program seeds as well
    assert load(name).main(["--quick", "--backend", backend]) == 0
    assert "error" in capsys.readouterr().out


@pytest.mark.oracle
def test_the_fit_is_that_of_torch() -> None:
    example = load("lbfgs_fit")
    data = example.measure(60)
    ours, theirs = (example.fit(lib, *data, steps=5) for lib in (jg, torch_or_skip()))
    assert ours.evaluations == theirs.evaluations
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-6)
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-5)
    np.testing.assert_allclose(ours.errors, theirs.errors, rtol=1e-5)


def test_the_fit_is_drawn(tmp_path: Path) -> None:
    target = tmp_path / "fit.svg"
    assert load("lbfgs_fit").main(["--quick", "--plot", str(target)]) == 0
    assert target.read_text().count("<circle") == 60


@pytest.mark.oracle
def test_the_network_learns_as_on_torch(seed: Any) -> None:
    example, losses = load("pinn"), []
    for lib in (jg, torch_or_skip()):
        seed(0)
        lib.manual_seed(0)
        network = example.build(lib, 8)
        steps = example.train(lib, network, *example.points(lib, 20), 4)
        losses.append(list(islice(steps, 2)))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
