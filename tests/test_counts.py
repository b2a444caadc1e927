"""Poisson and binomial numbers: PyTorch's from the same seed, and the right distribution."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

PLAIN = {"requires_grad": False}
RATES = [0.0, 0.3, 2.0, 9.99, 10.0, 11.5, 40.0, 1000.0] * 6
CHANCES = [0.0, 0.01, 0.3, 0.5, 0.51, 0.9, 1.0, 1.5]
TRIALS = [[0.0], [1.0], [7.0], [30.0], [400.0], [-2.0]]


def seeded(lib: Any, name: str, *args: Any) -> Any:
    with lib.random.fork_rng() if hasattr(lib, "random") else lib.fork_rng():
        lib.manual_seed(7)
        # The next number too: as many were used.
        return getattr(lib, name)(*args), lib.rand(2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_those_of_torch(dtype: str) -> None:
    check(lambda lib, r: seeded(lib, "poisson", r), arg(RATES, dtype=dtype, **PLAIN))
    check(lambda lib, n, p: seeded(lib, "binomial", n.expand(6, 8).clone(), p.expand(6, 8).clone()),
          arg(TRIALS, dtype=dtype, **PLAIN), arg(CHANCES, dtype=dtype, **PLAIN))  # fmt: skip


def test_mean_and_variance() -> None:
    with jg.fork_rng():
        jg.manual_seed(1)
        for rate in (3.0, 50.0):
            x = jg.poisson(jg.full((20_000,), rate))
            assert abs(x.mean().item() / rate - 1) < 0.03 and abs(x.var().item() / rate - 1) < 0.05
        for count, chance in ((10.0, 0.3), (200.0, 0.7)):
            x = jg.binomial(jg.full((20_000,), count), jg.full((20_000,), chance))
            assert abs(x.mean().item() / (count * chance) - 1) < 0.03
            assert abs(x.var().item() / (count * chance * (1 - chance)) - 1) < 0.05


def test_gradients_are_zero() -> None:
    check(lambda lib, r: seeded(lib, "poisson", r)[0], arg((3,), low=1, high=30))
    x = jg.full((3,), 0.5, requires_grad=True)
    jg.binomial(jg.full((3,), 9.0), x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0] * 3


def test_errors() -> None:
    check_raises(lambda lib, x: lib.poisson(x), arg([-1.0], **PLAIN), match="non-negative")
    check_raises(lambda lib, x: lib.poisson(x.long()), arg([1.0], **PLAIN), match="not implemented")
    check_raises(lambda lib, x: lib.binomial(x.long(), x), arg([1.0], **PLAIN),
                 match="floating-point dtypes")  # fmt: skip
    check_raises(lambda lib, x: lib.binomial(x.float(), x), arg([1.0], **PLAIN),
                 match="Found dtype Double")  # fmt: skip
