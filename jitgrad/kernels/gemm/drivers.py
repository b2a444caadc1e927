"""Build and launch: one core per dtype (generated from template.py), two drivers shared by all.

A core is a C-callable function over raw addresses. The drivers are what Python calls, with the
same argument types for every dtype, so they are compiled once; they reach the core through its
address, bound by `functools.partial` (36 ns, against 0.2 s to compile a parallel driver
for every dtype). The launch is

    entry(spec, A, a_offset, B, b_offset, C, c_offset)

with flat byte buffers, offsets in bytes, and spec the int64 array

    [batch rank, m, n, k, a_row, a_col, b_row, b_col, c_row, c_col, accumulate]
    + [size, a_stride, b_stride, c_stride] for each batch dimension, outermost first,

strides in elements. C = A @ B, or C += A @ B if accumulate. A and B may have any strides, zero
among them; C must not overlap itself, A or B. Empty sums are zero.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from numba import types

from ... import dtypes
from .. import cache as kernel_cache
from .. import threads
from ..abi import BUFFER
from . import features
from .template import BODY, HEADER, PACK

# numba.get_num_threads() compiles to a process address, which would keep the driver off the disk;
# the symbol behind it does not.
DRIVERS = """
from numba import njit, prange, types
from jitgrad.kernels.abi import address
from jitgrad.kernels.gemm.micro import call_core

thread_count = types.ExternalFunction("get_num_threads", types.uintp())

def serial(core, spec, a, a_offset, b, b_offset, c, c_offset):
    call_core(core, address(spec), address(a) + a_offset, address(b) + b_offset,
              address(c) + c_offset, 0, 1)

def parallel(core, spec, a, a_offset, b, b_offset, c, c_offset):
    # One share a thread: shares are equal work, and the bits do not depend on the cut.
    tasks = types.intp(thread_count())
    pspec, pa, pb, pc = address(spec), address(a), address(b), address(c)
    for task in prange(tasks):
        call_core(core, pspec, pa + a_offset, pb + b_offset, pc + c_offset, task, tasks)
"""

Entry = Callable[..., None]
LAUNCH = (types.intp, BUFFER, *(BUFFER, types.intp) * 3)


def source(tile: features.Tile, stored: dtypes.dtype) -> str:
    """The kernel source of one dtype and the tile shape of what it computes in."""
    floating = np.dtype(tile.dtype).kind == "f"
    header = HEADER.format(
        dtype=tile.dtype,
        stored=stored.name,
        stored_size=stored.itemsize,
        convert=stored.compute is not stored,
        wide="float64" if floating else tile.dtype,
        size=tile.size,
        rows=tile.rows,
        lanes=tile.lanes,
        masked=tile.masked,
        depth=tile.depth,
        tall=tile.tall,
        wide_columns=tile.wide,
        transposable=tile.size >= 4,  # a transposition of bytes would be 64 vectors wide
        vectors=features.VECTORS,
    )
    return with_unique_names(header + PACK + BODY)


def with_unique_names(text: str) -> str:
    """The source with its helper functions named after the whole of it.

    Numba makes a helper's symbol from its name, argument types and a count within the process, all
    of which two cores compiled in two processes may share. Loaded into a third, they would be
    linked to each other's helpers, and one dtype would compute with the code of another.
    """
    tag = hashlib.sha256(text.encode()).hexdigest()[:12]
    helpers = set(re.findall(r"^def (\w+)\(", text, re.MULTILINE)) - {"kernel"}
    return re.sub(rf"\b({'|'.join(sorted(helpers))})\(", rf"\1_{tag}(", text)


def core(dtype: str, target: features.Target | None) -> int:
    """The address of the compiled core."""
    # Wrapping arithmetic has the same bits signed and unsigned.
    stored = dtypes.BY_NAME[dtype.removeprefix("u")]
    tile = features.tile(stored.compute.name, target or features.host())
    # The cache's kernels take 2 * arity + 2 integers; the core takes six.
    return kernel_cache.kernel(source(tile, stored), 2, fastmath=frozenset())


@cache
def run_serial() -> Entry:
    return kernel_cache.function(DRIVERS, "serial", LAUNCH)


@cache
def run_parallel() -> Entry:
    def load() -> Entry:
        return kernel_cache.function(DRIVERS, "parallel", LAUNCH, parallel=True)

    return threads.guarded(load, run_serial())


@cache
def serial(dtype: str, target: features.Target | None = None) -> Entry:
    """The launcher for one dtype on the calling thread (for another vector unit, in tests)."""
    return partial(run_serial(), core(dtype, target))


@cache
def parallel(dtype: str, target: features.Target | None = None) -> Entry:
    """The same on all threads, with the same bits; safe in Python threads and forked children."""
    return partial(run_parallel(), core(dtype, target))


def worth_threads(m: int, n: int, k: int, batch: int) -> bool:
    """Whether the work outweighs waking the threads (about 2 us).

    A product with a vector reads every element of the matrix for one multiply-add, so fewer of
    those pay; a row of C costs at least one tile's width; a single dot product is never cut.
    """
    if m == 1 or n == 1:
        return m * n * batch > 1 and m * n * k * batch >= 250_000
    return m * max(n, 32) * k * batch >= 600_000
