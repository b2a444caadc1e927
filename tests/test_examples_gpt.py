"""The GPT of examples/gpt.py: it learns, and learns what it does on PyTorch."""

from __future__ import annotations

import importlib.util
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import torch_or_skip

PATH = Path(__file__).parent.parent / "examples" / "gpt.py"


@pytest.fixture(scope="module")
def gpt() -> Any:
    spec = importlib.util.spec_from_file_location("gpt_example", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small(gpt: Any) -> tuple[Any, Any]:
    text = gpt.Text((gpt.__doc__ + gpt.build.__doc__) * 20)
    return text, gpt.Config(len(text.characters), 16, 32, 2, 2, 4, 3e-3)


@pytest.mark.oracle
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-9)])
def test_the_curve_of_losses_is_that_of_torch(
    gpt: Any, dtype: str, tolerance: float, seed: Any
) -> None:
    torch = torch_or_skip()
    text, config = small(gpt)
    seed(1)
    start = {k: v.numpy() for k, v in gpt.build(torch, config).state_dict().items()}
    curves = []
    for lib in (torch, jg):
        model = gpt.build(lib, config)
        model.load_state_dict({k: lib.from_numpy(v.copy()) for k, v in start.items()})
        model.to(getattr(lib, dtype))
        steps = gpt.train(lib, model, config, text.batches(config, "train"))
        curves.append(list(islice(steps, 50)))
    np.testing.assert_allclose(curves[1], curves[0], rtol=tolerance)
    assert curves[1][-1] < 0.8 * curves[1][0]


def test_it_learns_and_writes(gpt: Any, seed: Any) -> None:
    text, config = small(gpt)
    seed(1)
    model = gpt.build(jg, config)
    before = gpt.held_back(jg, model, text, config, 2)
    for _ in islice(gpt.train(jg, model, config, text.batches(config, "train")), 60):
        pass
    assert gpt.held_back(jg, model, text, config, 2) < 0.8 * before
    assert len(gpt.write(jg, model, text, config, 20)) == 21


def test_the_text_is_there(gpt: Any) -> None:
    text = gpt.Text(gpt.documentation())
    assert len(text.parts["train"]) > 100_000 and len(text.characters) < 100
