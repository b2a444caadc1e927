"""The network of examples/cnn_digits.py: it learns, and learns what it does on PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import torch_or_skip

PATH = Path(__file__).parent.parent / "examples" / "cnn_digits.py"


@pytest.fixture(scope="module")
def cnn() -> Any:
    pytest.importorskip("sklearn", reason="the demo extra (scikit-learn) is not installed")
    spec = importlib.util.spec_from_file_location("cnn_example", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small(cnn: Any, epochs: int) -> tuple[Any, Any]:
    learned, _ = cnn.digits()
    data = cnn.Digits(learned.images[:320], learned.labels[:320])
    return data, cnn.Config(channels=(8, 12), hidden=32, batch=32, epochs=epochs)


@pytest.mark.oracle
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-9)])
def test_the_curve_of_losses_is_that_of_torch(
    cnn: Any, dtype: str, tolerance: float, seed: Any
) -> None:
    data, config = small(cnn, 5)
    data = data._replace(images=data.images.astype(dtype))
    curves = []
    for lib in (torch_or_skip(), jg):
        seed(1)  # which makes the same initial weights
        model = cnn.build(lib, config).to(getattr(lib, dtype))
        curves.append(list(cnn.train(lib, model, config, data)))
    assert len(curves[1]) == 50
    np.testing.assert_allclose(curves[1], curves[0], rtol=tolerance)
    assert curves[1][-1] < curves[1][0]


def test_it_learns(cnn: Any, seed: Any) -> None:
    seed(0)
    data, config = small(cnn, 30)
    model = cnn.build(jg, config)
    losses = list(cnn.train(jg, model, config, data))
    assert losses[-1] < 0.5 * losses[0]
    assert cnn.accuracy(jg, model, data) > 0.7


def test_images_are_moved_by_a_pixel_at_most(cnn: Any) -> None:
    images = np.zeros((64, 1, 8, 8), np.float32)
    images[:, 0, 4, 3] = 1
    config = cnn.Config(batch=32)
    places = set()
    for batch in cnn.batches(cnn.Digits(images, np.arange(64)), config, 0):
        assert batch.images.shape == (32, 1, 8, 8) and batch.images.sum() == 32
        _, _, rows, columns = batch.images.nonzero()
        places |= set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert places == {(4 + i, 3 + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
