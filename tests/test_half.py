"""The 16-bit floats: float16 and bfloat16, against torch.

Kernels load them as float32 and round once, where they store. PyTorch does so too for most
operators; where it rounds between the steps of a formula the results differ by that rounding.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.oracle import torch_or_skip

HALVES = ("float16", "bfloat16")
half = pytest.mark.parametrize("name", HALVES)
Call = Callable[[Any, Any], Any]


def shown(lib: Any, call: Call, name: str) -> str:
    """What a call gives, as text; of an error its type and the beginning."""
    lib.manual_seed(0)
    try:
        return repr(call(lib, getattr(lib, name))).replace("torch.", "jitgrad.")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:50]}"


# Values, and their text ---------------------------------------------------------------------------
VALUES: list[Call] = [
    lambda lib, d: lib.tensor([1.5, 2.25, 3], dtype=d),
    lambda lib, d: lib.tensor(math.pi, dtype=d),
    lambda lib, d: lib.tensor([[1, 2], [3, 4]], dtype=d),
    lambda lib, d: lib.tensor([1e-3, 1e3, 7], dtype=d),
    lambda lib, d: lib.tensor([1e9, -1e9, math.nan, 7e4, 2**63], dtype=d),
    lambda lib, d: lib.tensor([True, False], dtype=d),
    lambda lib, d: lib.tensor([1 + 2**-11 + 2**-30], dtype=d).item(),  # by way of float32
    lambda lib, d: lib.tensor(np.arange(3.0) / 3, dtype=d),
    lambda lib, d: lib.tensor(np.arange(3), dtype=d).tolist(),
    lambda lib, d: lib.tensor([lib.tensor(1.1, dtype=d), 2]),
    lambda lib, d: lib.tensor([lib.tensor(1.1, dtype=d), 2.0]),
    lambda lib, d: lib.tensor(np.float16(1.1)),
    lambda lib, d: lib.from_numpy(np.array([1.1, 2], np.float16)).to(d),
    lambda lib, d: lib.full((2,), 1.1, dtype=d),
    lambda lib, d: lib.full((2,), 1e39, dtype=d),
    lambda lib, d: lib.zeros(2, dtype=d).fill_(-1e39),
    lambda lib, d: lib.arange(0, 1, 0.3, dtype=d),
    lambda lib, d: lib.linspace(-3, 10, 11, dtype=d),
    lambda lib, d: lib.eye(2, dtype=d),
    lambda lib, d: lib.arange(5).to(d),
    lambda lib, d: (lib.ones(2).half(), lib.ones(2).bfloat16()),
    lambda lib, d: (lib.HalfTensor([1, 2]), lib.BFloat16Tensor([1, 2])),
    lambda lib, d: lib.ones(2, dtype=d).type(),
    lambda lib, d: lib.ones(2, dtype=d).new([1, 2]),
    lambda lib, d: lib.scalar_tensor(1.1, dtype=d),
    lambda lib, d: (float(lib.tensor(1.1, dtype=d)), int(lib.tensor(3.9, dtype=d))),
    lambda lib, d: f"{lib.tensor(1.1, dtype=d):.3f}",
    lambda lib, d: lib.tensor([1.1, 2], dtype=d)[0].item(),
    lambda lib, d: list(lib.ones(2, dtype=d)),
    lambda lib, d: copy.deepcopy(lib.full((2,), 1.1, dtype=d)),
    lambda lib, d: pickle.loads(pickle.dumps(lib.full((2,), 1.1, dtype=d))),
    lambda lib, d: lib.full((2,), 1.1, dtype=d).view(lib.int16),
    lambda lib, d: lib.ones(2, dtype=d).requires_grad_().sum(),
    lambda lib, d: lib.finfo(d),
    lambda lib, d: (lib.finfo(d).bits, lib.finfo(d).eps, lib.finfo(d).max, lib.finfo(d).tiny),
    lambda lib, d: lib.nan_to_num(lib.tensor([math.nan, math.inf, -math.inf], dtype=d)),
]  # fmt: skip


@half
@pytest.mark.oracle
@pytest.mark.parametrize("call", VALUES)
def test_values_as_torch_shows_them(call: Call, name: str) -> None:
    assert shown(jitgrad, call, name) == shown(torch_or_skip(), call, name)


@half
@pytest.mark.oracle
def test_numpy(name: str) -> None:
    x = jitgrad.tensor([1.1, 2], dtype=getattr(jitgrad, name))
    if name == "float16":
        assert x.numpy().dtype == np.float16
        assert np.asarray(x).base is not None
        array = np.ones(3, np.float16)
        jitgrad.from_numpy(array).mul_(3)
        assert array.tolist() == [3, 3, 3]
        return
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            convert()


@half
@pytest.mark.oracle
def test_as_default_dtype(name: str) -> None:
    def call(lib: Any, d: Any) -> Any:
        lib.set_default_dtype(d)
        try:
            return (
                lib.tensor([1.5, 2]), lib.ones(2) * 1.5, lib.arange(3) / 2, lib.zeros(2),
                lib.full((2,), 1.1), lib.arange(0, 1, 0.5), lib.randn(2).dtype,
                lib.tensor(1.3) * lib.ones(2, dtype=lib.float32),
                lib.ones(2, dtype=lib.int32) + 1.5, lib.get_default_dtype(),
            )  # fmt: skip
        finally:
            lib.set_default_dtype(lib.float32)

    assert shown(jitgrad, call, name) == shown(torch_or_skip(), call, name)


RANDOM: list[Call] = [
    lambda lib, d: lib.rand(3, dtype=d),
    lambda lib, d: lib.randn(17, dtype=d),
    lambda lib, d: lib.empty(4, 5, dtype=d).t().uniform_(-1, 3),
    lambda lib, d: lib.empty(20, dtype=d)[::2].normal_(1, 3),
    lambda lib, d: lib.empty(20, dtype=d).exponential_(),
    lambda lib, d: lib.empty(20, dtype=d).bernoulli_(0.3),
    lambda lib, d: lib.bernoulli(lib.full((5,), 0.5, dtype=d)),
    lambda lib, d: lib.empty(20, dtype=d).geometric_(0.3),
    lambda lib, d: lib.empty(20, dtype=d).log_normal_(),
    lambda lib, d: lib.empty(20, dtype=d).random_().tolist(),
    lambda lib, d: lib.randint(0, 10, (5,), dtype=d),
    lambda lib, d: lib.randperm(5, dtype=d),
    lambda lib, d: lib.multinomial(lib.tensor([0.2, 0.3, 0.5], dtype=d), 2),
    lambda lib, d: lib.normal(lib.zeros(5, dtype=d), lib.ones(5, dtype=d)),
    lambda lib, d: lib.nn.functional.dropout(lib.ones(20, dtype=d)),
    lambda lib, d: lib.randn_like(lib.zeros(5, dtype=d)),
]


@half
@pytest.mark.oracle
@pytest.mark.parametrize("call", RANDOM)
def test_the_same_random_numbers(call: Call, name: str) -> None:
    assert shown(jitgrad, call, name) == shown(torch_or_skip(), call, name)
