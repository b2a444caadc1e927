"""Kernels of connectionist temporal classification: Graves et al. (2006), in logarithms.

The labels of a sample are its targets with a blank before, between and after them, 2 * length + 1
in all. ``alpha[t, s]`` is the logarithm of the sum over all ways to have read the first s + 1 of
them after t + 1 steps, ``beta`` the same from the end. A step to the label before the last one is
allowed between targets that differ: ``skip`` is 0 there, elsewhere -infinity. Of each step all
labels are computed together, in vector code; -infinities around the labels spare it tests.

==========  ====================================================================================
operands    log-probabilities [steps, n, classes], targets, lengths [n, 3] (int64: steps, targets,
            where the targets start), work [n, work_size()] (float64), losses [n]; backward also
            the incoming gradients [n] and the gradient [steps, n, classes]
extras      classes, blank, size of a row of work, steps, stride of a step and of a class of the
            log-probabilities, stride of a step of the gradient, whether infinite losses count as 0
==========  ====================================================================================

Forward leaves alpha in work, and backward needs it there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..dtypes import dtype
from . import cache, drivers

# Rows of work behind alpha: two of beta, skip, labels, log-probabilities and shares of labels.
EXTRA_ROWS = 6

_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import p_int64, {pointers}
from jitgrad.kernels.scalar import exp, log, maximum
from jitgrad.kernels.scalar.bits import select

T = np.{T}

@njit(error_model="numpy")
def join(x, y, z):
    # log(exp(x) + exp(y) + exp(z)), where nothing may be finite.
    high = maximum(x, maximum(y, z))
    high = select(high == -np.inf, 0.0, high)
    return high + log(exp(x - high) + exp(y - high) + exp(z - high))

@njit(error_model="numpy")
def ways(alpha, steps, count, row):
    # The logarithm of the sum over all ways to read all labels.
    if steps == 0:
        return 0.0 if count == 1 else -np.inf
    last = (steps - 1) * row + count + 1
    return join(alpha[last], alpha[last - 1], -np.inf)
"""

_FORWARD = """
def kernel(p0, p1, p2, p3, p4, s0, s1, s2, s3, s4, n, extras):
    e = p_int64(extras)
    blank, row, most, per_step, per_class = e[1], e[2], e[3], e[4], e[5]
    for _ in range(n):
        x, lengths, alpha, loss = p_{T}(p0), p_int64(p2), p_float64(p3), p_{T}(p4)
        steps, count = lengths[0], 2 * lengths[1] + 1
        targets = p_int64(p1 + 8 * lengths[2])
        skip, labels = p_float64(p3 + (most + 2) * row * 8), p_int64(p3 + (most + 3) * row * 8)
        emit = p_float64(p3 + (most + 4) * row * 8)
        for s in range(count):
            labels[s] = targets[s // 2] if s % 2 else blank
            apart = s > 1 and s % 2 and targets[s // 2] != targets[s // 2 - 1]
            skip[s] = 0.0 if apart else -np.inf
        skip[count] = skip[count + 1] = -np.inf
        for t in range(steps):
            now = p_float64(p3 + t * row * 8)
            for s in range(count):
                emit[s] = x[t * per_step + labels[s] * per_class]
            now[0] = now[1] = -np.inf
            if t == 0:
                for s in range(count):
                    now[s + 2] = emit[s] if s < 2 else -np.inf
                continue
            old = p_float64(p3 + (t - 1) * row * 8)
            for s in range(count):
                now[s + 2] = join(old[s + 2], old[s + 1], old[s] + skip[s]) + emit[s]
        loss[0] = T(-ways(alpha, steps, count, row))
        p0 += s0 * {bytes}
        p2 += s2 * 8
        p3 += s3 * 8
        p4 += s4 * {bytes}
"""

# What a class gains is exp(x) less the probability of its labels at this step, given the targets.
# This is the gradient before a softmax, which is what PyTorch gives.
_BACKWARD = """
def kernel(p0, p1, p2, p3, p4, p5, p6, s0, s1, s2, s3, s4, s5, s6, n, extras):
    e = p_int64(extras)
    classes, row, most, per_step = e[0], e[2], e[3], e[4]
    per_class, out_step, ignore = e[5], e[6], e[7]
    for _ in range(n):
        x, lengths, alpha = p_{T}(p0), p_int64(p2), p_float64(p3)
        seed, grad = np.float64(p_{T}(p5)[0]), p_{T}(p6)
        steps, count = lengths[0], 2 * lengths[1] + 1
        beta, after = p_float64(p3 + most * row * 8), p_float64(p3 + (most + 1) * row * 8)
        skip, labels = p_float64(p3 + (most + 2) * row * 8), p_int64(p3 + (most + 3) * row * 8)
        emit, part = p_float64(p3 + (most + 4) * row * 8), p_float64(p3 + (most + 5) * row * 8)
        shares = p_float64(p3 + (most + 6) * row * 8)
        total = ways(alpha, steps, count, row)
        impossible = total == -np.inf
        if impossible and ignore:
            steps = 0
        for t in range(steps, most):
            for c in range(classes):
                grad[t * out_step + c] = 0
        for t in range(steps - 1, -1, -1):
            old = p_float64(p3 + t * row * 8)
            for s in range(count):
                emit[s] = x[t * per_step + labels[s] * per_class]
            if t == steps - 1:
                for s in range(count):
                    beta[s] = emit[s] if s >= count - 2 else -np.inf
            else:
                for s in range(count):
                    beta[s] = join(after[s], after[s + 1], after[s + 2] + skip[s + 2]) + emit[s]
            beta[count] = beta[count + 1] = -np.inf
            for s in range(count):
                part[s] = exp(old[s + 2] + beta[s] - emit[s] - total)
            for c in range(classes):
                shares[c] = np.nan if impossible else 0.0
            for s in range(count):
                shares[labels[s]] += part[s]
            for c in range(classes):
                value = np.float64(x[t * per_step + c * per_class])
                grad[t * out_step + c] = T((exp(value) - shares[c]) * seed)
            beta, after = after, beta
        p0 += s0 * {bytes}
        p2 += s2 * 8
        p3 += s3 * 8
        p5 += s5 * {bytes}
        p6 += s6 * {bytes}
"""


def row_size(longest: int) -> int:
    """The size of a row of work for targets of at most this length."""
    return 2 * longest + 3


def work_size(steps: int, longest: int, classes: int) -> int:
    """How much work a sample needs."""
    return (steps + EXTRA_ROWS) * row_size(longest) + classes


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
