"""uint16, uint32 and uint64: for storage and interchange in torch, with arithmetic here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.oracle import torch_or_skip

NAMES = ("uint16", "uint32", "uint64")
Call = Callable[[Any, Any], Any]
unsigned = pytest.mark.parametrize("name", NAMES)


def shown(lib: Any, call: Call, name: str) -> str:
    """What a call gives, as text; of an error its type and the beginning."""
    lib.manual_seed(0)
    try:
        return repr(call(lib, getattr(lib, name))).replace("torch.", "jitgrad.")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:20]}"


CALLS: list[Call] = [
    lambda lib, d: lib.tensor([1, 2, 3], dtype=d),
    lambda lib, d: lib.tensor([1.0, 2], dtype=d),
    lambda lib, d: lib.tensor(-1, dtype=d),
    lambda lib, d: lib.tensor([True], dtype=d),
    lambda lib, d: lib.tensor([2**16 - 1, 2**16], dtype=d),
    lambda lib, d: lib.tensor([2**32 - 1, 2**32], dtype=d),
    lambda lib, d: lib.tensor([2**64 - 1], dtype=d) if d == lib.uint64 else None,
    lambda lib, d: lib.tensor([2**63, 1], dtype=d) if d == lib.uint64 else None,
    lambda lib, d: lib.tensor(np.array([1, 2**16 - 1], np.uint16)).to(d),
    lambda lib, d: lib.from_numpy(np.array([1, 2**64 - 1], np.uint64)).to(d),
    lambda lib, d: lib.from_numpy(np.array([1, 2], np.uint32)).numpy(),
    lambda lib, d: (lib.zeros(2, dtype=d), lib.ones(2, dtype=d), lib.full((2,), 7, dtype=d)),
    lambda lib, d: lib.full((), -1, dtype=d).item(),
    lambda lib, d: lib.full((2,), -1, dtype=d).tolist(),
    lambda lib, d: lib.full((3,), -1, dtype=d).to(lib.int64),
    lambda lib, d: lib.full((3,), -1, dtype=d).float(),
    lambda lib, d: lib.full((3,), -1, dtype=d).bool(),
    lambda lib, d: lib.full((2,), -1, dtype=d).view(lib.uint8),
    lambda lib, d: lib.ones(2, dtype=d) == lib.ones(2, dtype=d),
    lambda lib, d: lib.ones(2, dtype=d) < lib.ones(2),
    lambda lib, d: lib.ones(2, dtype=d) ^ 3,
    lambda lib, d: lib.ones(2, dtype=d) + 1.5,
    lambda lib, d: lib.ones(2, dtype=d) / 2,
    lambda lib, d: lib.ones(2, dtype=d) + lib.ones(2, dtype=lib.int64),
    lambda lib, d: lib.ones(2, dtype=lib.bool) + lib.ones((), dtype=d),
    lambda lib, d: lib.ones(2, dtype=d).sum(),
    lambda lib, d: lib.arange(3)[lib.ones(2, dtype=d)],
    lambda lib, d: lib.arange(3).gather(0, lib.ones(2, dtype=d)),
    lambda lib, d: lib.arange(3).index_select(0, lib.ones(2, dtype=d)),
    lambda lib, d: lib.ones(3, dtype=d)[lib.tensor([0, 1])],
    lambda lib, d: lib.cat([lib.ones(1, dtype=d), lib.ones(1, dtype=d)]),
    lambda lib, d: lib.cat([lib.ones(1, dtype=d), lib.ones(1, dtype=lib.int64)]),
    lambda lib, d: lib.ones(2, dtype=d).fill_(70_000),
    lambda lib, d: lib.ones(2, dtype=d).fill_(-1),
    lambda lib, d: lib.ones(2, dtype=d).fill_(1e300),
    lambda lib, d: lib.ones(2, dtype=d).copy_(lib.tensor([1.5, 2])),
    lambda lib, d: lib.ones(2, dtype=d).requires_grad_(),
    lambda lib, d: lib.iinfo(d),
    lambda lib, d: (lib.iinfo(d).max, lib.iinfo(d).min, lib.iinfo(d).bits),
    lambda lib, d: (d.is_floating_point, d.is_signed, d.itemsize, lib.ones(2, dtype=d).type()),
    lambda lib, d: [1, 2, 3][lib.ones((), dtype=d)],
    lambda lib, d: lib.set_default_dtype(d),
]


@unsigned
@pytest.mark.oracle
@pytest.mark.parametrize("call", CALLS)
def test_as_torch_shows_them(call: Call, name: str) -> None:
    assert shown(jitgrad, call, name) == shown(torch_or_skip(), call, name)


@pytest.mark.parametrize("name", ["uint16", "uint64"])
def test_arithmetic_wraps_round(name: str) -> None:
    """Where torch has no kernels: NumPy's numbers."""
    a, b = np.array([1, 7, -1 % 2 ** (8 * np.dtype(name).itemsize)], name), np.array([3], name)
    x, y = jitgrad.from_numpy(a), jitgrad.from_numpy(b)
    for ours, theirs in (
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x // y, a // b), (x % y, a % b),
        (x > y, a > b), (x >> 1, a >> 1), (~x, ~a), (jitgrad.maximum(x, y), np.maximum(a, b)),
        (x.max(), a.max()), (x.sort().values, np.sort(a)),
    ):  # fmt: skip
        assert ours.numpy().dtype == theirs.dtype
        assert np.array_equal(ours.numpy(), theirs)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.fill_(2 ** (8 * x.element_size()))
