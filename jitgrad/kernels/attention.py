"""Scaled dot-product attention as one kernel: softmax(scale * Q K^T + mask) V, head by head.

The queries of a head are taken a block at a time, so that their scores (a block by all keys) stay
in the cache; the two products of a block are done by the matrix product's core (kernels/gemm),
called by its address, and the softmax between them in place. Of the softmax only each row's
logarithm of its sum is kept: the backward kernel makes the scores again, and from them the gradient
for Q, K and V with five products a block (as in FlashAttention, Dao et al. 2022). A row whose keys
are all masked has weights of zero.

Operands, all of one dtype but the last of the forward kernel:

=========  ====================================================================================
forward    query, key, value, mask -> out, log sums; the blocks' first queries (int64)
backward   grad, query, key, value, mask, out, log sums -> gradients of query, key, value
=========  ====================================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod

import numpy as np

from ..dtypes import dtype
from ..layout import Layout, expand_strides
from . import cache, drivers
from .elementwise import numpy_name
from .gemm.drivers import core
from .launch import Nest
from .reduction import bits

SCORES = 32768  # that a block has at most, if it has more than SMALLEST queries
SMALLEST = 64

_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import p_{t}, p_int64, p_float64
from jitgrad.kernels.extremes import larger
from jitgrad.kernels.gemm.micro import allocate, call_core, release
from jitgrad.kernels.scalar import exp, log
T, SIZE, lowest, highest = {T}, {size}, {T}(-np.inf), {T}(np.inf)
fast = {{"reassoc", "contract", "nsz"}}

@njit(error_model="numpy")
def product(core, spec, m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, c_col, more):
    s = p_int64(spec)
    s[0], s[1], s[2], s[3], s[10] = 0, m, n, k, more
    s[4], s[5], s[6], s[7], s[8], s[9] = a_row, a_col, b_row, b_col, c_row, c_col
    call_core(core, spec, a, b, c, 0, 1)
"""

_UNPACK = """
    e, q = p_int64(extras), p_float64(extras)
    core, queries, keys, width, out_width = e[0], e[1], e[2], e[3], e[4]
    block, causal, masked, scale = e[5], e[6], e[7], T(q[8])
    q_row, q_col, k_row, k_col, v_row, v_col = e[9], e[10], e[11], e[12], e[13], e[14]
    m_row, m_col, o_row, o_col = e[15], e[16], e[17], e[18]
"""

_FORWARD = """
@njit(error_model="numpy")
def scores(place, mask, step, scale, masked, n):
    s, m = p_{t}(place), p_{t}(mask)
    peak = lowest
    if masked:
        for j in range(n):
            v = s[j] * scale + m[j * step]
            s[j] = v
            peak = larger(peak, v)
    else:
        for j in range(n):
            v = s[j] * scale
            s[j] = v
            peak = larger(peak, v)
    return peak

@njit(error_model="numpy", fastmath=fast)
def exponentials(place, peak, n):
    s, total = p_{t}(place), T(0)
    for j in range(n):
        v = exp(s[j] - peak)
        s[j] = v
        total += v
    return total

@njit(error_model="numpy")
def finish(place, by, n, end):
    s = p_{t}(place)
    for j in range(n):
        s[j] *= by
    for j in range(n, end):
        s[j] = T(0)

def kernel({arguments}, n, extras):
    {unpack}
    memory = allocate(128 + block * keys * SIZE)
    s = memory + 128
    for item in range(n):
        first = p_int64(p6)[0]
        rows = min(block, queries - first)
        end = min(keys, first + rows) if causal else keys
        product(core, memory, rows, end, width, p0, q_row, q_col, p1, k_col, k_row, s, end, 1, 0)
        sums = p_{t}(p5)
        for i in range(rows):
            count = min(keys, first + i + 1) if causal else keys
            row = s + i * end * SIZE
            peak = scores(row, p3 + i * m_row * SIZE, m_col, scale, masked, count)
            if peak == lowest:
                finish(row, T(0), 0, end)
                sums[i] = highest
                continue
            total = exponentials(row, peak, count)
            finish(row, T(1) / total, count, end)
            sums[i] = peak + log(total)
        product(core, memory, rows, out_width, end, s, end, 1, p2, v_row, v_col,
                p4, o_row, o_col, 0)
        {advance}; p6 += s6 * 8
    release(memory)
"""

_BACKWARD = """
@njit(error_model="numpy", fastmath=fast)
def inner(grad, step, out, out_step, n):
    g, o, total = p_{t}(grad), p_{t}(out), T(0)
    for j in range(n):
        total += g[j * step] * o[j * out_step]
    return total

@njit(error_model="numpy", fastmath={{"contract"}})
def slopes(place, slope, mask, step, scale, masked, sum_of_row, delta, n, end):
    s, d, m = p_{t}(place), p_{t}(slope), p_{t}(mask)
    if masked:
        for j in range(n):
            p = exp(s[j] * scale + m[j * step] - sum_of_row)
            s[j] = p
            d[j] = p * (d[j] - delta) * scale
    else:
        for j in range(n):
            p = exp(s[j] * scale - sum_of_row)
            s[j] = p
            d[j] = p * (d[j] - delta) * scale
    for j in range(n, end):
        s[j], d[j] = T(0), T(0)

@njit(error_model="numpy")
def clear(place, rows, row, width, column):
    for i in range(rows):
        x = p_{t}(place + i * row * SIZE)
        for j in range(width):
            x[j * column] = T(0)

def kernel({arguments}, n, extras):
    {unpack}
    g_row, g_col = e[19], e[20]
    dq_row, dq_col, dk_row, dk_col, dv_row, dv_col = e[21], e[22], e[23], e[24], e[25], e[26]
    memory = allocate(128 + 2 * block * keys * SIZE)
    s = memory + 128
    d = s + block * keys * SIZE
    for item in range(n):
        clear(p8, keys, dk_row, width, dk_col)
        clear(p9, keys, dv_row, out_width, dv_col)
        for first in range(0, queries, block):
            rows = min(block, queries - first)
            end = min(keys, first + rows) if causal else keys
            a, g = p1 + first * q_row * SIZE, p0 + first * g_row * SIZE
            product(core, memory, rows, end, width, a, q_row, q_col, p2, k_col, k_row,
                    s, end, 1, 0)
            product(core, memory, rows, end, out_width, g, g_row, g_col, p3, v_col, v_row,
                    d, end, 1, 0)
            sums = p_{t}(p6)
            for i in range(rows):
                count = min(keys, first + i + 1) if causal else keys
                o, at = p5 + (first + i) * o_row * SIZE, i * end * SIZE
                delta = inner(g + i * g_row * SIZE, g_col, o, o_col, out_width)
                slopes(s + at, d + at, p4 + (first + i) * m_row * SIZE, m_col, scale, masked,
                       sums[first + i], delta, count, end)
            product(core, memory, end, out_width, rows, s, 1, end, g, g_row, g_col,
                    p9, dv_row, dv_col, 1)
            product(core, memory, end, width, rows, d, 1, end, a, q_row, q_col,
                    p8, dk_row, dk_col, 1)
            product(core, memory, rows, width, end, d, end, 1, p2, k_row, k_col,
                    p7 + first * dq_row * SIZE, dq_row, dq_col, 0)
        {advance}
    release(memory)
"""


@functools.cache
def _kernel(text: str, t: dtype, operands: int, advanced: int) -> int:
    names = {
        "t": t.name,
        "arguments": ", ".join(f"{a}{i}" for a in "ps" for i in range(operands)),
        "unpack": _UNPACK,
        "advance": "; ".join(f"p{i} += s{i} * SIZE" for i in range(advanced)),
    }
    head = _HEAD.format(t=t.name, T=numpy_name(t), size=t.itemsize)
    return cache.kernel(head + text.format(**names), operands)


def _block(queries: int, keys: int, causal: bool) -> int:
    """How many queries are taken together; few if those scores are not wanted that are later."""
    most = SMALLEST if causal else max(SMALLEST, SCORES // max(keys, 1))
    return min(max(queries, 1), most)


def _extras(
    q: Layout, k: Layout, v: Layout, mask: Layout, out: Layout, causal: bool, scale: float,
    masked: bool,
) -> tuple[list[int], int]:  # fmt: skip
    queries, width = q.shape[-2:]
    keys, out_width = v.shape[-2:]
    block = _block(queries, keys, causal)
    steps = expand_strides(mask.shape, mask.strides, (*q.shape[:-1], keys))[-2:]
    extras = [core(q.dtype.name, None), queries, keys, width, out_width, block]
    extras += [int(causal), int(masked), bits(scale)]
    for of in (q, k, v):
        extras += of.strides[-2:]
    return [*extras, *steps, *out.strides[-2:]], block


def _batch(mask: Layout, q: Layout, keys: int) -> tuple[int, ...]:
    return expand_strides(mask.shape, mask.strides, (*q.shape[:-1], keys))[:-2]


def forward(
    q: Layout, k: Layout, v: Layout, mask: Layout, out: Layout, causal: bool, scale: float,
    masked: bool,
) -> tuple[drivers.Driver, np.ndarray, np.ndarray]:  # fmt: skip
    """The driver, its spec and its last operand; log sums are row-major.

    Args:
        q, k, v: [..., queries, width], [..., keys, width], [..., keys, out width] with one batch.
        mask: broadcastable to [..., queries, keys]; what is added to the scores, if ``masked``.
    """
    extras, block = _extras(q, k, v, mask, out, causal, scale, masked)
    queries, keys = q.shape[-2], k.shape[-2]
    starts = np.arange(0, max(queries, 1), block, dtype=np.int64)
    mask_row = extras[15]
    sums = [queries * prod(q.shape[d + 1 : -2]) for d in range(q.ndim - 2)]
    strides: list[Sequence[int]] = [
        (*q.strides[:-2], q.strides[-2] * block),
        (*k.strides[:-2], 0),
        (*v.strides[:-2], 0),
        (*_batch(mask, q, keys), mask_row * block),
        (*out.strides[:-2], out.strides[-2] * block),
        (*sums, block),
        (*(0 for _ in sums), 1),
    ]
    nest = Nest((*q.shape[:-2], len(starts)), tuple(tuple(s) for s in strides)).merged(True)
    run, spec = _plan(
        _kernel(_FORWARD, q.dtype, 7, 6), nest, q.dtype, extras, block * keys * q.shape[-1], 7
    )
    return run, spec, starts


def backward(
    grad: Layout, q: Layout, k: Layout, v: Layout, mask: Layout, out: Layout,
    gradients: Sequence[Layout], causal: bool, scale: float, masked: bool,
) -> tuple[drivers.Driver, np.ndarray]:  # fmt: skip
    """The driver and its spec; ``gradients`` are the layouts of those of query, key and value."""
    extras, _ = _extras(q, k, v, mask, out, causal, scale, masked)
    queries, keys = q.shape[-2], k.shape[-2]
    for of in (grad, *gradients):
        extras += of.strides[-2:]
    sums = tuple(queries * prod(q.shape[d + 1 : -2]) for d in range(q.ndim - 2))
    strides = [of.strides[:-2] for of in (grad, q, k, v)]
    strides += [_batch(mask, q, keys), out.strides[:-2], sums]
    strides += [of.strides[:-2] for of in gradients]
    nest = Nest(q.shape[:-2], tuple(strides)).merged(True)
    work = queries * keys * q.shape[-1]
    return _plan(_kernel(_BACKWARD, q.dtype, 10, 10), nest, q.dtype, extras, work, 10)


def _plan(
    address: int, nest: Nest, d: dtype, extras: list[int], work: int, operands: int
) -> tuple[drivers.Driver, np.ndarray]:
    sizes, strides = nest.sizes or (1,), nest.strides
    if not nest.sizes:
        strides = ((1,),) * operands
    itemsizes = [d.itemsize] * operands
    if operands == 7:
        itemsizes[6] = 8
    return drivers.plan_lines(
        address, sizes, strides, itemsizes, extras=extras, work=max(1, work // 4)
    )
