"""The host's vector unit -> the shape of the register tile.

The tile of C that a micro-kernel keeps in registers is ``rows`` x ``2 * lanes``. Two vectors a row
let every broadcast element of A feed two multiply-adds; the row count is the largest that still
leaves registers for the two vectors of B and the broadcast: 12 of 32 registers' worth with AVX-512,
6 of 16 with AVX2, 4 for the 128-bit units (SSE; NEON has more registers but no need of them).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from llvmlite import binding

VECTORS = 2
"""Vectors of C held per tile row."""


@dataclass(frozen=True)
class Target:
    """A vector unit: register width in bytes, tile rows, and whether masked loads are free."""

    name: str
    vector_bytes: int
    rows: int
    masked: bool


AVX512 = Target("avx512", 64, 12, True)
AVX2 = Target("avx2", 32, 6, False)
NARROW = Target("narrow", 16, 4, False)


@cache
def host() -> Target:
    """The best target this machine supports."""
    try:
        has = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell on this platform
        return NARROW
    if has.get("avx512f") and has.get("avx512bw") and has.get("avx512dq"):
        return AVX512
    if has.get("avx2") and has.get("fma"):
        return AVX2
    return NARROW


@dataclass(frozen=True)
class Tile:
    """Everything about the blocking that depends on the target and the dtype."""

    dtype: str
    size: int  # bytes of an element
    rows: int
    lanes: int
    masked: bool
    depth: int  # k is cut into equal pieces of at most this (KC)
    tall: int  # rows of A packed at once (MC): depth * tall fills half of a usual L2 cache
    wide: int  # columns of B packed at once (NC): depth * wide stays in the last-level cache


def tile(dtype: str, target: Target) -> Tile:
    """The blocking for one dtype, after the analysis of Goto and van de Geijn (2008)."""
    size = np.dtype(dtype).itemsize
    depth = 512
    tall = (512 << 10) // (depth * size) // target.rows * target.rows
    wide = (4 << 20) // (depth * size) // 128 * 128
    return Tile(
        dtype, size, target.rows, target.vector_bytes // size, target.masked, depth, tall, wide
    )
