"""What is done to a whole list of tensors by one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import errors
from ..kernels import batch, cache
from ..kernels.elementwise import load
from ..layout import Layout
from ..tensor import Tensor
from .plans import PlanCache
from .rules import Rule

_SQUARES = """
import numpy as np
from jitgrad.kernels.abi import p_float64, p_{stored}

def kernel(p0, p1, s0, s1, n, extras):
    a0, sums = p_{stored}(p0), p_float64(p1)
    total = 0.0
    for i in range(n):
        x = np.float64({element})
        total += x * x
    sums[0] += total
"""

_scale = Rule("tensor", "", "factor", ["tensor = tensor * factor"])
_clamp = Rule("tensor", "", "low high", ["tensor = clamp(tensor, low, high)"])
_fill = Rule("tensor", "", "value", ["tensor = value"])
_plans = PlanCache()


def scale_(tensors: Sequence[Tensor], factor: float) -> None:
    """Multiply all by a number, in place and unrecorded."""
    _scale.run(tensors, [factor], errors.writer("mul_"))


def clamp_(tensors: Sequence[Tensor], low: float, high: float) -> None:
    """Limit all elements to [low, high], in place and unrecorded.

    Raises:
        NotImplementedError: for complex numbers, which have no order.
    """
    for t in tensors:
        if t.layout.dtype.is_complex:
            raise errors.unsupported("clamp", t.layout.dtype)
    _clamp.run(tensors, [low, high], errors.writer("clamp_"))


def zero_(tensors: Sequence[Tensor]) -> None:
    """Fill all with zeros, unrecorded."""
    _fill.run(tensors, [0.0], errors.writer("zero_"))


def sum_of_squares(tensors: Sequence[Tensor]) -> float | None:
    """The sum of the squares of all elements, in float64.

    None unless all are real floats of one dtype that lie without gaps.
    """
    key = tuple([t.layout for t in tensors])
    plan = _plans.get(key)
    if plan is None:
        plan = _plans.add(key, _squares(key))
    if plan == ():
        return None
    run, spec, count = plan
    sums = np.zeros(count, np.float64)
    offsets = np.array([t.offset for t in tensors], np.int64)
    run(spec, tuple([t.storage.buffer for t in tensors]), offsets, sums)
    return float(sums.sum())


def _squares(layouts: tuple[Layout, ...]) -> tuple[Any, ...]:
    stored = layouts[0].dtype
    if not stored.is_floating_point or any(x.dtype is not stored or not x.dense for x in layouts):
        return ()
    source = _SQUARES.format(stored=stored.name, element=load("a0[i]", stored, stored))
    kernel = cache.kernel(source, 2, fastmath=frozenset({"contract", "reassoc"}))
    lengths = [x.numel for x in layouts]
    run, spec = batch.plan(
        (kernel, 0, 0), (True,), [stored.itemsize], range(len(layouts)), lengths, fold=True
    )
    return run, spec, batch.tasks(spec)
