"""Random tensors: PyTorch's numbers, layouts, dtypes and refusals from the same seed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import check, check_raises

DRAWS = """
rand(3, 4)
rand((40,), dtype=lib.float64)
rand(0, 3)
rand(())
rand(2, out=lib.zeros(2, dtype=lib.float64))
randn(5)
randn(7, 5)
randn(100, dtype=lib.float64)
randint(5, (20,))
randint(-3, 10, (4, 4), dtype=lib.int32)
randint(low=-3, high=10, size=(4, 4), dtype=lib.float32)
randperm(20)
randperm(20, dtype=lib.float32)
rand_like(lib.zeros(3, 4).t())
randn_like(lib.zeros(30, 4).t())
randint_like(lib.zeros(3), 4)
randint_like(lib.zeros(3), 4, 8)
zeros(3, 5).t().uniform_(-2, 3)
zeros(4, 6)[:, ::2].uniform_()
zeros(40, 6)[:, ::2].normal_()
zeros(40, 6).t().normal_(1, 2)
zeros(40, 6).t().random_()
zeros(40, 6).random_(7)
zeros(40, 6, dtype=lib.int64).random_(3, 7)
zeros(10, dtype=lib.int64).random_(3, None)
zeros(40, 6).exponential_(2.0)
zeros(40, 6).cauchy_(1, 2.0)
zeros(40, 6).log_normal_(0.1, 0.2)
zeros(40, 6).geometric_(0.3)
zeros(40, 6, dtype=lib.int64).geometric_(0.3)
zeros(40, 6).bernoulli_(0.3)
zeros(6, 4).t().bernoulli_(lib.arange(4.0)[:, None] / 4)
bernoulli(lib.arange(10.0) / 10)
bernoulli(lib.arange(10.0, dtype=lib.float64) / 10)
bernoulli(lib.tensor([0.3, 0.4]), 0.5)
multinomial(lib.tensor([0.2, 0.5, 0.4, 0.1]), 3)
multinomial(lib.tensor([0.2, 0.5, 0.4, 0.1]), 30, True)
multinomial(lib.tensor([[0.2, 0.5], [0.4, 0.1]]), 1)
normal(0.0, 1.0, (3,))
normal(lib.zeros(20), lib.arange(20.0))
normal(lib.zeros(2), lib.ones(3, 1))
normal(2.0, lib.ones(2))
rand(2, generator=lib.Generator().manual_seed(3))
""".strip().splitlines()


@pytest.mark.parametrize("text", DRAWS)
def test_draws_are_those_of_torch(text: str, seed: Any) -> None:
    def draw(lib: Any) -> Any:
        lib.manual_seed(7)
        return eval(f"lib.{text}", {"lib": lib}), lib.rand(3)  # the stream goes on alike

    check(draw, exact=True, version=False)
    seed(0)


REFUSED = {
    "rand(2, dtype=lib.int64)": "\"check_uniform_bounds\" not implemented for 'Long'",
    "randn(2, dtype=lib.int64)": "\"normal_kernel_cpu\" not implemented for 'Long'",
    "randint(5, 5, (2,))": "'from' to be less than 'to', but got from=5 >= to=5",
    "randint(0, 300, (2,), dtype=lib.uint8)": "to - 1 is out of bounds for unsigned char",
    "randperm(-1)": "negative dimension -1",
    "randperm(3, dtype=lib.bool)": "\"randperm\" not implemented for 'Bool'",
    "zeros(3).uniform_(2, 1)": "[from, to) range, but found from=2 > to=1",
    "zeros(3).uniform_(float('nan'), 1)": "from is out of bounds for float",
    "zeros(3).uniform_(-3e38, 3e38)": "to=3e+38 and from=-3e+38 which result in",
    "zeros(3).normal_(0, -1)": "normal expects std >= 0.0, but found std -1",
    "zeros(3).exponential_(0)": "exponential_ expects lambda > 0.0, but found lambda=0",
    "zeros(3, dtype=lib.int64).exponential_()": "you specified Long",
    "zeros(3).bernoulli_(1.5)": "bernoulli_ expects p to be in [0, 1], but got p=1.5",
    "zeros(3).geometric_(1.5)": "geometric_ expects p to be in (0, 1), but got p=1.5",
    "zeros(3, dtype=lib.uint8).random_(-1, 3)": "from is out of bounds for unsigned char",
    "ones(3).expand(3, 3).uniform_()": "more than one element of the written-to tensor",
    "bernoulli(lib.tensor([0.3, 1.4]))": "Expected p_in >= 0 && p_in <= 1 to be true",
    "multinomial(lib.ones(2), 3)": "cannot sample n_sample > prob_dist.size(-1) samples without",
    "multinomial(lib.ones(2), 0)": "cannot sample n_sample <= 0 samples",
    "multinomial(lib.tensor([1, 2]), 1)": "only supports floating-point dtypes for input",
    "multinomial(lib.tensor([-1.0, 2]), 1)": "contains either `inf`, `nan` or element < 0",
    "multinomial(lib.zeros(2), 1)": "invalid multinomial distribution",
    "normal(lib.zeros(2), -1.0)": "normal expects std >= 0.0, but found std -1",
    "set_rng_state(lib.zeros(3))": "RNG state must be a torch.ByteTensor",
    "Generator().manual_seed(1.5)": "manual_seed expected a long, but got float",
    "manual_seed('a')": "invalid literal for int()",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_are_those_of_torch(text: str) -> None:
    check_raises(lambda lib: eval(f"lib.{text}", {"lib": lib}), match=REFUSED[text])


@pytest.mark.parametrize(
    "name",
    ["uniform_", "normal_", "random_", "exponential_", "bernoulli_", "log_normal_", "cauchy_"],
)
def test_fillers_are_recorded(name: str, seed: Any) -> None:
    def fill(lib: Any, x: Any) -> Any:
        lib.manual_seed(1)
        return getattr(x * 1, name)()

    check(fill, (4, 5), layout="contiguous", rtol=1e-12)
    seed(0)


def test_leaves_are_protected() -> None:
    x = jg.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.uniform_()
    assert x.tolist() == [0, 0, 0]


def test_state_can_be_kept_and_restored() -> None:
    state = jg.get_rng_state()
    first = jg.rand(5)
    jg.set_rng_state(state)
    assert jg.rand(5).tolist() == first.tolist()
    generator = jg.Generator().manual_seed(4)
    twin = pickle.loads(pickle.dumps(generator))
    assert jg.rand(3, generator=twin).tolist() == jg.rand(3, generator=generator).tolist()
    assert generator.initial_seed() == 4 and str(generator.device) == "cpu"


@pytest.mark.oracle
def test_state_moves_to_torch() -> None:
    import torch

    jg.randn(5)
    theirs = torch.Generator()
    theirs.set_state(torch.from_numpy(jg.get_rng_state().numpy()))
    np.testing.assert_array_equal(jg.randn(3).numpy(), torch.randn(3, generator=theirs).numpy())
