"""The LSTM and the autoencoder of examples/: they learn, and learn what they do on PyTorch."""

from __future__ import annotations

import importlib.util
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import torch_or_skip

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def series() -> Any:
    return example("lstm_series")


@pytest.fixture(scope="module")
def vae() -> Any:
    pytest.importorskip("sklearn", reason="the demo extra (scikit-learn) is not installed")
    return example("vae_digits")


def curve(lib: Any, model: Any, dtype: str, losses: Any) -> list[float]:
    """The first fifty losses of a model in some dtype."""
    model.to(getattr(lib, dtype))
    return list(islice(losses(), 50))


@pytest.mark.oracle
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-9)])
def test_the_losses_of_the_lstm_are_those_of_torch(
    series: Any, dtype: str, tolerance: float, seed: Any
) -> None:
    data, config = series.Series(600), series.Config(units=16, length=20, batch=8)
    curves = []
    for lib in (torch_or_skip(), jg):
        seed(1)  # which makes the same initial weights
        model = series.build(lib, config)
        batches = data.batches(config)
        curves.append(
            curve(lib, model, dtype, lambda: series.train(lib, model, config, batches))  # noqa: B023
        )
    np.testing.assert_allclose(curves[1], curves[0], rtol=tolerance)
    assert curves[1][-1] < 0.5 * curves[1][0]


@pytest.mark.oracle
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-9)])
def test_the_losses_of_the_autoencoder_are_those_of_torch(
    vae: Any, dtype: str, tolerance: float, seed: Any
) -> None:
    images, config = vae.digits()[0][:200], vae.Config(hidden=32, batch=32)
    curves = []
    for lib in (torch_or_skip(), jg):
        seed(1)  # also of the order of the images, and of the noise
        model = vae.build(lib, config)
        batches = vae.loader(lib, images, config)
        curves.append(
            curve(lib, model, dtype, lambda: vae.train(lib, model, config, batches))  # noqa: B023
        )
    np.testing.assert_allclose(curves[1], curves[0], rtol=tolerance)
    assert curves[1][-1] < 0.8 * curves[1][0]


def test_the_lstm_predicts(series: Any, seed: Any) -> None:
    seed(0)
    data, config = series.Series(800), series.Config(units=16, length=32, batch=16)
    model = series.build(jg, config)
    for _ in islice(series.train(jg, model, config, data.batches(config)), 120):
        pass
    error, naive = series.held_back(jg, model, data)
    assert error < 0.2 * naive
    said = series.carry_on(jg, model, data.held_back[:100], 10)
    assert np.abs(np.array(said) - data.held_back[100:110]).max() < 1.0
    drawn = series.plot([data.held_back[100:110].tolist(), said])
    assert "o" in drawn and len(drawn.splitlines()) == 12


def test_the_series_keeps_to_its_equation(series: Any) -> None:
    values = series.mackey_glass(500)
    assert abs(values.mean()) < 1e-12 and abs(values.std() - 1) < 1e-12
    assert len(set(values.round(6).tolist())) > 450  # it does not repeat itself


def test_the_picture(vae: Any, seed: Any) -> None:
    seed(0)
    config = vae.Config(hidden=32)
    model = vae.build(jg, config)
    assert np.isfinite(vae.held_back(jg, model, vae.digits()[1]))
    page = vae.sheet(vae.samples(jg, model, config, 6), 4, zoom=2)
    assert page.shape == ((2 * 9 + 1) * 2, (4 * 9 + 1) * 2)
    content = vae.png(page)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    length = int.from_bytes(content[33:37], "big")
    lines = np.frombuffer(zlib.decompress(content[41 : 41 + length]), np.uint8)
    np.testing.assert_array_equal(lines.reshape(page.shape[0], -1)[:, 1:], page)
