"""What of a convolution is compiled: one core per kind and dtype, two drivers shared by all.

The launch is ``entry(spec, a, a_offset, b, b_offset, c, c_offset, d, d_offset)``, with flat byte
buffers, offsets in bytes, and a spec whose first word is the number of tasks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import types

from .. import cache, threads
from ..abi import BUFFER
from ..gemm import features
from . import template

Launch = Callable[..., None]

THREADS_PAY = 600_000  # multiply-adds
# Tile heights. AVX-512 has registers for 12 rows of two vectors, AVX2 for 6; there are few heights
# because each is compiled for itself.
HEIGHTS = {"avx512": (12, 9, 8, 6, 4, 3, 2, 1), "avx2": (6, 4, 3, 2, 1), "narrow": (4, 3, 2, 1)}

_DRIVERS = """
from numba import njit, prange
from jitgrad.kernels.abi import address, p_int64
from jitgrad.kernels.gemm.micro import call_core

def serial(core, spec, {buffers}):
    for task in range(p_int64(address(spec))[0]):
        call_core(core, address(spec), {addresses}, task)

def parallel(core, spec, {buffers}):
    {bind}
    for task in prange(p_int64(address(spec))[0]):
        call_core(core, address(spec), {bound}, task)
"""
_OPERANDS = "abcd"
_LAUNCH = (types.intp, BUFFER, *(BUFFER, types.intp) * len(_OPERANDS))


def _source() -> str:
    return _DRIVERS.format(
        buffers=", ".join(f"{x}, {x}_offset" for x in _OPERANDS),
        addresses=", ".join(f"address({x}) + {x}_offset" for x in _OPERANDS),
        bind="; ".join(f"p{x} = address({x}) + {x}_offset" for x in _OPERANDS),
        bound=", ".join(f"p{x}" for x in _OPERANDS),
    )


@functools.cache
def _serial() -> Launch:
    return cache.function(_source(), "serial", _LAUNCH)


@functools.cache
def _parallel() -> Launch:
    def load() -> Launch:
        return cache.function(_source(), "parallel", _LAUNCH, parallel=True)

    return threads.guarded(load, _serial())


def launcher(core: int, spec: np.ndarray, work: int) -> Launch:
    threaded = spec[0] > 1 and work >= THREADS_PAY and threads.available() > 1
    return partial(_parallel() if threaded else _serial(), core, spec)


class Target(NamedTuple):
    """What of the machine a kernel depends on."""

    dtype: str
    size: int
    lanes: int
    masked: bool
    heights: tuple[int, ...]


@functools.cache
def target(dtype: str, of: features.Target | None = None) -> Target:
    of = of or features.host()
    name = dtype.removeprefix("u")  # wrapping arithmetic has the same bits signed and unsigned
    tile = features.tile(name, of)
    return Target(name, tile.size, tile.lanes, tile.masked, HEIGHTS[of.name])


@functools.cache
def core(kind: str, machine: Target) -> int:
    """The address of ``window``, ``narrow``, ``outer``, ``inner`` or ``total``."""
    tall = [(h, v) for h in machine.heights for v in (2, 1)]
    flat = [(1, 8), *((h, v) for h in (1, 2, 3) for v in (4, 1))]
    lines = [(h, 1) for h in machine.heights]
    shapes = {"window": tall, "narrow": flat, "outer": tall, "inner": lines}
    details: dict[str, Any] = {
        "dtype": machine.dtype,
        "size": machine.size,
        "lanes": machine.lanes,
        "masked": machine.masked,
        "transposable": machine.size >= 4,
        "sub_size": len(template.SUB_FIELDS),
        "fields": "\n".join(
            [f"{name.upper()} = {i}" for i, name in enumerate(template.FIELDS)]
            + [f"SUB_{name.upper()} = {i}" for i, name in enumerate(template.SUB_FIELDS)]
        ),
    }
    details["shapes"] = shapes.get(kind)
    text = "".join(part.format(**details) for part in template.PARTS[kind])
    return cache.kernel(text, 2, fastmath=frozenset())
