"""Numbers of events: Poisson and binomial draws, bit for bit PyTorch's.

Both need an unknown number of uniform numbers for each draw, taken one by one from the generator.
Means from 10 on are drawn by transformed rejection: Hörmann, "The transformed rejection method for
generating Poisson random variables" (1993), and "The generation of binomial random variates"
(1993). Below, events are counted until their exponential waiting times exceed the whole.
"""

from __future__ import annotations

import math

import numpy as np

from .rng import Array, Generator, _double, _draw, _jit


@_jit
def _uniform(state, words):
    """The next number of [0, 1)."""
    _draw(state, words)
    return _double(words[0], words[1])


@_jit
def _poisson_of(rate, state, words):
    if rate < 10.0:
        least, count, product = math.exp(-rate), 0.0, 1.0
        while rate > 0.0:
            product *= _uniform(state, words)
            if product <= least:
                break
            count += 1.0
        return count
    root, logarithm = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    sure = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = _uniform(state, words) - 0.5
        v = _uniform(state, words)
        us = 0.5 - abs(u)
        k = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= sure:
            return k
        if k < 0.0 or (us < 0.013 and v > us):
            continue
        left = math.log(v) + math.log(inverse) - math.log(a / (us * us) + b)
        if left <= -rate + k * logarithm - math.lgamma(k + 1.0):
            return k


@_jit
def _stirling_rest(k):
    """log(k!) less Stirling's approximation of it."""
    square = (k + 1.0) * (k + 1.0)
    if k > 9.0:
        return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)
    n = k + 1.0
    return math.lgamma(n) - (k + 0.5) * math.log(n) + n - 0.9189385332046727


@_jit
def _binomial_of(count, chance, state, words):
    """For a chance of at most a half."""
    if count * chance < 10.0:
        waited, events, logarithm = 0.0, 0.0, math.log1p(-chance)
        while True:
            waited += math.ceil(math.log(_uniform(state, words)) / logarithm)
            if waited > count:
                return events
            events += 1.0
    spread = math.sqrt(count * chance * (1.0 - chance))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    c = count * chance + 0.5
    sure = 0.92 - 4.2 / b
    odds = chance / (1.0 - chance)
    alpha = (2.83 + 5.1 / b) * spread
    m = math.floor((count + 1.0) * chance)
    while True:
        u = _uniform(state, words) - 0.5
        v = _uniform(state, words)
        us = 0.5 - abs(u)
        k = math.floor((2.0 * a / us + b) * u + c)
        if us >= 0.07 and v <= sure:
            return k
        if k < 0.0 or k > count:
            continue
        bound = (
            (m + 0.5) * math.log((m + 1.0) / (odds * (count - m + 1.0)))
            + (count + 1.0) * math.log((count - m + 1.0) / (count - k + 1.0))
            + (k + 0.5) * math.log(odds * (count - k + 1.0) / (k + 1.0))
            + _stirling_rest(m) + _stirling_rest(count - m)
            - _stirling_rest(k) - _stirling_rest(count - k)
        )  # fmt: skip
        if math.log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


@_jit
def _poisson(state, words, rates, out):
    for i in range(out.size):
        out[i] = _poisson_of(rates[i], state, words)


@_jit
def _binomial(state, words, counts, chances, out):
    for i in range(out.size):
        count, chance = counts[i], chances[i]
        if count <= 0.0 or chance <= 0.0:
            out[i] = 0.0
        elif chance >= 1.0:
            out[i] = count
        elif chance <= 0.5:
            out[i] = _binomial_of(count, chance, state, words)
        elif chance > 0.5:
            out[i] = count - _binomial_of(count, 1.0 - chance, state, words)
        else:
            out[i] = np.nan


def poisson(gen: Generator, rates: Array) -> Array:
    """``torch.poisson``: a draw for each rate, float64 in and out, in row-major order."""
    out = np.empty(rates.size)
    with gen.lock:
        _poisson(gen._state, gen._scratch[:2], np.ascontiguousarray(rates).reshape(-1), out)
    return out.reshape(rates.shape)


def binomial(gen: Generator, counts: Array, chances: Array) -> Array:
    """``torch.binomial``: the events of so many trials each, float64, in row-major order."""
    out = np.empty(counts.size)
    flat = [np.ascontiguousarray(x).reshape(-1) for x in (counts, chances)]
    with gen.lock:
        _binomial(gen._state, gen._scratch[:2], *flat, out)
    return out.reshape(counts.shape)
