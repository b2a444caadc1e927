"""Accuracy of the rarer special functions against mpmath, and limits against PyTorch."""

import itertools

import numpy as np
import pytest

from tests.kernels.test_scalar import apply

mp = pytest.importorskip("mpmath")


def amplitude(x, start):
    """What oscillates is measured by its amplitude from ``start`` on, else by its own size."""
    return mp.sqrt(2 / (mp.pi * x)) if x > start else 0


def positive(low, middle, high):
    draw = np.random.default_rng(3)
    return np.concatenate([draw.uniform(low, middle, 60), draw.uniform(middle, high, 40), [1e-9]])


WHOLE = positive(0, 8, 200)
DECAY = positive(0, 2, 15)  # farther out the error of exp grows with its argument
AIRY = np.concatenate([-positive(0, 4, 40), positive(0, 2, 6)])
# name -> (points, mpmath's function, measured amplitude, allowed error in ULP of float64)
FUNCTIONS = {
    "bessel_j0": (WHOLE, lambda x: mp.besselj(0, x), lambda x: amplitude(x, 8), 16),
    "bessel_j1": (WHOLE, lambda x: mp.besselj(1, x), lambda x: amplitude(x, 8), 8),
    "bessel_y0": (WHOLE, lambda x: mp.bessely(0, x), lambda x: amplitude(x, 0.5), 12),
    "bessel_y1": (WHOLE, lambda x: mp.bessely(1, x), lambda x: amplitude(x, 1), 8),
    "k0": (DECAY, lambda x: mp.besselk(0, x), lambda x: 0, 6),
    "k1": (DECAY, lambda x: mp.besselk(1, x), lambda x: 0, 6),
    "k0e": (DECAY, lambda x: mp.exp(x) * mp.besselk(0, x), lambda x: 0, 6),
    "k1e": (DECAY, lambda x: mp.exp(x) * mp.besselk(1, x), lambda x: 0, 6),
    "i0": (DECAY, lambda x: mp.besseli(0, x), lambda x: 0, 6),
    "i1": (DECAY, lambda x: mp.besseli(1, x), lambda x: 0, 6),
    "spherical_bessel_j0": (WHOLE, lambda x: mp.sin(x) / x, lambda x: 0, 2),
    "airy_ai": (AIRY, mp.airyai, lambda x: 0.4 if x < 0 else 0, 64),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_small(name):
    x, exactly, size, bound = FUNCTIONS[name]
    got = apply(name, x)
    with mp.workdps(40):
        for value, result in zip(x.tolist(), got.tolist(), strict=True):
            exact = exactly(mp.mpf(value))
            scale = max(abs(exact), size(value), mp.mpf(2) ** -1022)
            assert abs(mp.mpf(result) - exact) <= bound * scale * mp.mpf(2) ** -52, (value, result)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma(name):
    """Small and large orders, on both sides of the transition, and in it."""
    draw = np.random.default_rng(5)
    a = np.concatenate([10 ** draw.uniform(-3, 2.3, 80), 10 ** draw.uniform(2.3, 5, 30)])
    x = np.concatenate([10 ** draw.uniform(-3, 2.3, 80), a[80:] + draw.normal(size=30) * 300])
    x[80:] = np.abs(x[80:])
    got = apply(name, a, x)
    with mp.workdps(30):
        for order, at, result in zip(a.tolist(), x.tolist(), got.tolist(), strict=True):
            limits = (0, at) if name == "igamma" else (at, mp.inf)
            exact = mp.gammainc(order, *limits, regularized=True)
            assert abs(result - exact) <= 1e-12 * abs(exact) + 1e-300, (order, at, result)


LIMITS = [0.0, -0.0, 1.0, -1.0, 1e300, np.inf, -np.inf, np.nan]


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_limits_of_incomplete_gamma_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    a, x = np.array(list(itertools.product(LIMITS, repeat=2))).T
    theirs = getattr(torch, name)(torch.tensor(a), torch.tensor(x)).numpy()
    assert np.allclose(apply(name, a, x), theirs, equal_nan=True)


PUBLIC = {"k0": "modified_bessel_k0", "k1": "modified_bessel_k1"}
PUBLIC |= {"k0e": "scaled_modified_bessel_k0", "k1e": "scaled_modified_bessel_k1"}


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"i0", "i1"}))
def test_limits_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    x = np.array([v for v in LIMITS if v != 1e300])
    theirs = getattr(torch.special, PUBLIC.get(name, name))(torch.tensor(x)).numpy()
    assert np.allclose(apply(name, x), theirs, equal_nan=True)
