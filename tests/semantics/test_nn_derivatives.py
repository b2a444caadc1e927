"""The derivatives of the rows of neural networks: backward and forward, first and second order."""

from __future__ import annotations

import pytest

from jitgrad.autograd.gradcheck import gradcheck, gradgradcheck
from tests.semantics.nn_cases import NN_CASES
from tests.semantics.test_derivatives import check_all, sample

TWO_ORDERS = {"grid_sample_2d", "grid_sample_3d"}  # whose second derivative has none itself


@pytest.mark.parametrize("name", NN_CASES)
def test_row(name: str) -> None:
    function, shapes = NN_CASES[name]
    inputs = tuple(sample(shape, 0.3, 2.0, i) for i, shape in enumerate(shapes))
    if name in TWO_ORDERS:
        gradcheck(function, inputs, check_forward_ad=True)
        gradgradcheck(function, inputs)
    else:
        check_all(function, inputs)
