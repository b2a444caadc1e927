"""Kernels of connectionist temporal classification: Graves et al. (2006), in logarithms.

The labels of a sample are its targets with a blank before, between and after them, 2 * length + 1
in all. ``alpha[t, s]`` is the logarithm of the sum over all ways to have read the first s + 1 of
them after t + 1 steps, ``beta`` the same from the end. Both are float64. A kernel steps over
samples.

==========  ====================================================================================
operands    log-probabilities [steps, n, classes], targets, lengths [n, 3] (int64: steps, targets,
            where the targets start), work [n, (steps + 2) * labels + classes], losses [n];
            backward also the incoming gradients [n] and the gradient [steps, n, classes]
extras      classes, blank, labels per row of alpha, steps, stride of a step and of a class of the
            log-probabilities, stride of a step of the gradient, whether infinite losses count as 0
==========  ====================================================================================

Work holds alpha, and for backward the beta of two steps and what each class sums up to.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..dtypes import dtype
from . import cache, drivers

_HEAD = """
import math
import numpy as np
from numba import njit
from jitgrad.kernels.abi import p_int64, {pointers}

T = np.{T}

@njit(error_model="numpy")
def join(x, y):
    high, low = max(x, y), min(x, y)
    if high == -np.inf or low != low:
        return low if low != low else high
    return high + math.log1p(math.exp(low - high))

@njit(error_model="numpy")
def ways(alpha, steps, count, row):
    # The logarithm of the sum over all ways to read all labels.
    if steps == 0:
        return 0.0 if count == 1 else -np.inf
    last = (steps - 1) * row + count - 1
    return alpha[last] if count == 1 else join(alpha[last], alpha[last - 1])

@njit(error_model="numpy")
def label(targets, s, blank):
    return targets[s // 2] if s % 2 else blank
"""

_FORWARD = """
def kernel(p0, p1, p2, p3, p4, s0, s1, s2, s3, s4, n, extras):
    e = p_int64(extras)
    blank, row, per_step, per_class = e[1], e[2], e[4], e[5]
    for _ in range(n):
        x, lengths, alpha, loss = p_{T}(p0), p_int64(p2), p_float64(p3), p_{T}(p4)
        steps, count = lengths[0], 2 * lengths[1] + 1
        targets = p_int64(p1 + 8 * lengths[2])
        for t in range(steps):
            for s in range(count):
                at = -np.inf
                if t == 0:
                    if s < 2:
                        at = 0.0
                else:
                    before = (t - 1) * row + s
                    at = alpha[before]
                    if s > 0:
                        at = join(at, alpha[before - 1])
                    if s > 1 and s % 2 and targets[s // 2] != targets[s // 2 - 1]:
                        at = join(at, alpha[before - 2])
                value = x[t * per_step + label(targets, s, blank) * per_class]
                alpha[t * row + s] = at + np.float64(value)
        loss[0] = T(-ways(alpha, steps, count, row))
        p0 += s0 * {bytes}
        p2 += s2 * 8
        p3 += s3 * 8
        p4 += s4 * {bytes}
"""

# What a class gains is exp(x) - exp(alpha + beta - x + loss), summed over its labels; x counts
# twice in alpha + beta. This is the gradient before a softmax, which is what PyTorch gives.
_BACKWARD = """
def kernel(p0, p1, p2, p3, p4, p5, p6, s0, s1, s2, s3, s4, s5, s6, n, extras):
    e = p_int64(extras)
    classes, blank, row, most, per_step, per_class, out_step, skip = (
        e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7])
    for _ in range(n):
        x, lengths, alpha = p_{T}(p0), p_int64(p2), p_float64(p3)
        seed, grad = np.float64(p_{T}(p5)[0]), p_{T}(p6)
        steps, count = lengths[0], 2 * lengths[1] + 1
        targets = p_int64(p1 + 8 * lengths[2])
        beta, after = p_float64(p3 + most * row * 8), p_float64(p3 + (most + 1) * row * 8)
        sums = p_float64(p3 + (most + 2) * row * 8)
        total = ways(alpha, steps, count, row)
        if skip and total == -np.inf:
            steps = 0
        for t in range(steps, most):
            for c in range(classes):
                grad[t * out_step + c] = 0
        for t in range(steps - 1, -1, -1):
            for c in range(classes):
                sums[c] = -np.inf
            for s in range(count - 1, -1, -1):
                at = -np.inf
                if t == steps - 1:
                    if s >= count - 2:
                        at = 0.0
                else:
                    at = after[s]
                    if s < count - 1:
                        at = join(at, after[s + 1])
                    if s < count - 2 and s % 2 and targets[s // 2] != targets[s // 2 + 1]:
                        at = join(at, after[s + 2])
                c = label(targets, s, blank)
                at += np.float64(x[t * per_step + c * per_class])
                beta[s] = at
                sums[c] = join(sums[c], alpha[t * row + s] + at)
            beta, after = after, beta
            for c in range(classes):
                value = np.float64(x[t * per_step + c * per_class])
                share = math.exp(sums[c] - total - value)
                grad[t * out_step + c] = T((math.exp(value) - share) * seed)
        p0 += s0 * {bytes}
        p2 += s2 * 8
        p3 += s3 * 8
        p5 += s5 * {bytes}
        p6 += s6 * {bytes}
"""


@functools.cache
def _kernel(backward: bool, d: dtype) -> int:
    text = _HEAD + (_BACKWARD if backward else _FORWARD)
    pointers = ", ".join(sorted({"p_float64", f"p_{d.name}"}))
    text = text.format(T=d.name, bytes=d.itemsize, pointers=pointers)
    return cache.kernel(text, 7 if backward else 5)


def run(d: dtype, n: int, steps: Sequence[int], extras: Sequence[int], buffers: list) -> None:
    """Run the forward (five operands) or backward kernel (seven) over ``n`` samples.

    Args:
        steps: elements from one sample to the next, of each operand.
        buffers: each operand's buffer and byte offset.
    """
    backward = len(steps) == 7
    sizes = [d.itemsize, 8, 8, 8, *[d.itemsize] * (len(steps) - 4)]
    work = max(1, extras[3] * (extras[2] + extras[0]) * 16)
    driver, spec = drivers.plan_lines(
        _kernel(backward, d), [n], [[s] for s in steps], sizes, extras=extras, work=work
    )
    driver(spec, *buffers)
