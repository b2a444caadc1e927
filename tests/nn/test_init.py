"""nn.init and the initial values of layers: PyTorch's numbers from the same seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn

INITS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "uniform_": ((5, 4), {"a": -1.0, "b": 2.0}),
    "normal_": ((5, 4), {"mean": 1.0, "std": 2.0}),
    "trunc_normal_": ((5, 4), {"std": 2.0, "a": -1.0, "b": 3.0}),
    "trunc_normal_ in a tail": ((5, 4), {"std": 2.0, "a": 3.0, "b": 4.0}),
    "constant_": ((5, 4), {"val": 3.0}),
    "ones_": ((5, 4), {}),
    "zeros_": ((5, 4), {}),
    "eye_": ((5, 4), {}),
    "dirac_": ((4, 3, 3), {}),
    "xavier_uniform_": ((5, 4, 3), {"gain": 2.0}),
    "xavier_normal_": ((5, 4, 3), {}),
    "kaiming_uniform_": ((5, 4), {"a": 0.3, "mode": "fan_out"}),
    "kaiming_normal_": ((5, 4), {"nonlinearity": "relu"}),
    "orthogonal_": ((5, 4), {"gain": 2.0}),
    "sparse_": ((5, 4), {"sparsity": 0.3}),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", INITS)
def test_init_gives_the_numbers_of_torch(name: str, seed: Any) -> None:
    import torch

    shape, options = INITS[name]
    name = name.partition(" ")[0]
    seed(3)
    ours = getattr(nn.init, name)(jg.zeros(*shape), **options)
    theirs = getattr(torch.nn.init, name)(torch.zeros(*shape), **options)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-6, atol=1e-6)


@pytest.mark.oracle
def test_layers_start_as_in_torch(seed: Any) -> None:
    import torch

    seed(0)
    for text in ("Linear(3, 4)", "Linear(3, 4, bias=False)", "Bilinear(2, 3, 4)", "PReLU(2)"):
        ours = eval(f"nn.{text}", {"nn": nn}).state_dict()
        theirs = eval(f"nn.{text}", {"nn": torch.nn}).state_dict()
        assert list(ours) == list(theirs)
        for key, value in ours.items():
            np.testing.assert_array_equal(value.numpy(), theirs[key].numpy())


def test_linear_literally(seed: Any) -> None:
    seed(0)
    layer = nn.Linear(3, 2)
    expected = [[-0.0043, 0.3097, -0.4752], [-0.4249, -0.2224, 0.1548]]
    np.testing.assert_allclose(layer.weight.detach().numpy(), expected, atol=5e-5)
    assert layer.weight.abs().max().item() <= 1 / math.sqrt(3)


def test_inits_are_not_recorded() -> None:
    weight = nn.Parameter(jg.zeros(3, 3))
    for name in ("uniform_", "orthogonal_", "eye_", "ones_"):
        assert getattr(nn.init, name)(weight) is weight
    assert weight.is_leaf and weight.requires_grad


def test_orthogonal() -> None:
    q = nn.init.orthogonal_(jg.zeros(3, 5, dtype=jg.float64))
    np.testing.assert_allclose((q @ q.T).numpy(), np.eye(3), atol=1e-12)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(jg.zeros(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity sine"):
        nn.init.calculate_gain("sine")
    with pytest.raises(ValueError, match="Mode fan_up not supported"):
        nn.init.kaiming_normal_(jg.zeros(2, 2), mode="fan_up")
    with pytest.warns(UserWarning, match="no-op"):
        nn.init.kaiming_normal_(jg.zeros(0, 2))


@pytest.mark.parametrize("name", ["constant", "xavier_normal", "kaiming_uniform", "eye"])
def test_old_names(name: str, seed: Any) -> None:
    rest = (2.0,) if name == "constant" else ()
    seed(0)
    expected = getattr(nn.init, f"{name}_")(jg.zeros(3, 3), *rest)
    seed(0)
    found = jg.zeros(3, 3)
    with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of"):
        assert getattr(nn.init, name)(found, *rest) is found
    assert jg.equal(found, expected)
