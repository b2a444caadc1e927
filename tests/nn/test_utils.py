"""nn.utils: clipping, and parameters as one vector."""

from __future__ import annotations

import pytest

import jitgrad as jg
from jitgrad import nn


def parameters() -> list[nn.Parameter]:
    held = [nn.Parameter(jg.zeros(2)), nn.Parameter(jg.zeros(1, 1)), nn.Parameter(jg.zeros(3))]
    held[0].grad = jg.tensor([3.0, 0.0])
    held[1].grad = jg.tensor([[-4.0]])
    return held


def test_clip_grad_norm() -> None:
    held = parameters()
    assert nn.utils.clip_grad_norm_(held, 1.0).item() == 5.0
    assert held[0].grad.tolist() == pytest.approx([0.6, 0.0])
    assert held[1].grad.item() == pytest.approx(-0.8)
    assert held[2].grad is None
    assert nn.utils.clip_grad_norm_(held, 10.0).item() == pytest.approx(1.0)
    assert held[1].grad.item() == pytest.approx(-0.8)
    assert nn.utils.clip_grad_norm_(parameters(), 1.0, float("inf")).item() == 4.0
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_clip_grad_norm_of_nonfinite_gradients() -> None:
    held = parameters()
    held[0].grad[0] = float("inf")
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(held, 1.0, error_if_nonfinite=True)


def test_clip_grad_value() -> None:
    held = parameters()
    nn.utils.clip_grad_value_(held, 2)
    assert held[0].grad.tolist() == [2.0, 0.0] and held[1].grad.item() == -2.0


def test_vector_of_parameters() -> None:
    held = parameters()
    vector = nn.utils.parameters_to_vector(held)
    assert vector.shape == (6,) and vector.requires_grad
    source = jg.arange(6.0)
    nn.utils.vector_to_parameters(source, held)
    assert held[1].tolist() == [[2.0]] and held[2].tolist() == [3.0, 4.0, 5.0]
    assert held[2].data_ptr() == source.data_ptr() + 12
    with pytest.raises(TypeError, match="expected torch.Tensor"):
        nn.utils.vector_to_parameters([1.0], held)  # type: ignore[arg-type]
