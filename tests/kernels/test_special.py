"""Accuracy of the rarer special functions against mpmath, and limits against PyTorch."""

import itertools

import numpy as np
import pytest

from jitgrad.kernels import scalar
from tests.kernels.test_scalar import apply

mp = pytest.importorskip("mpmath")
special = pytest.importorskip("scipy.special")


def amplitude(x, start):
    """What oscillates is measured by its amplitude from ``start`` on, else by its own size."""
    return mp.sqrt(2 / (mp.pi * x)) if x > start else 0


def positive(low, middle, high):
    draw = np.random.default_rng(3)
    return np.concatenate([draw.uniform(low, middle, 60), draw.uniform(middle, high, 40), [1e-9]])


WHOLE = positive(0, 8, 200)
DECAY = positive(0, 2, 15)  # farther out the error of exp grows with its argument
AIRY = np.concatenate([-positive(0, 4, 40), positive(0, 2, 6)])
PROBABILITIES = np.concatenate([10 ** np.random.default_rng(4).uniform(-300, 0, 40), WHOLE / 201])
# name -> (points, mpmath's function, the size that errors are measured in, if not the result's)
FUNCTIONS = {
    "bessel_j0": (WHOLE, lambda x: mp.besselj(0, x), lambda x: amplitude(x, 8)),
    "bessel_j1": (WHOLE, lambda x: mp.besselj(1, x), lambda x: amplitude(x, 8)),
    "bessel_y0": (WHOLE, lambda x: mp.bessely(0, x), lambda x: amplitude(x, 0.5)),
    "bessel_y1": (WHOLE, lambda x: mp.bessely(1, x), lambda x: amplitude(x, 1)),
    "k0": (DECAY, lambda x: mp.besselk(0, x), None),
    "k1": (DECAY, lambda x: mp.besselk(1, x), None),
    "k0e": (WHOLE, lambda x: mp.exp(x) * mp.besselk(0, x), None),
    "k1e": (WHOLE, lambda x: mp.exp(x) * mp.besselk(1, x), None),
    "i0": (DECAY, lambda x: mp.besseli(0, x), None),
    "i1": (DECAY, lambda x: mp.besseli(1, x), None),
    "i0e": (WHOLE, lambda x: mp.exp(-x) * mp.besseli(0, x), None),
    "i1e": (WHOLE, lambda x: mp.exp(-x) * mp.besseli(1, x), None),
    "spherical_bessel_j0": (WHOLE, lambda x: mp.sin(x) / x, None),
    "airy_ai": (AIRY, mp.airyai, lambda x: 0.4 if x < 0 else 0),
    "erfcx": (WHOLE, lambda x: mp.exp(x * x) * mp.erfc(x), None),
    "ndtri": (PROBABILITIES, lambda p: mp_ndtri(p), lambda p: 1 + abs(mp_ndtri(p))),
}


def mp_ndtri(p):
    """The quantile, by Newton's method on the logarithm of the distribution function."""
    x = mp.mpf(special.ndtri(float(p)))
    for _ in range(3):
        tail = mp.erfc(-x / mp.sqrt(2)) / 2
        x -= mp.log(tail / p) * tail * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)
    return x


def within(name, got, exact, size=0):
    """Whether a result is as near as the table says."""
    scale = max(abs(exact), size, mp.mpf(2) ** -1022)
    return abs(mp.mpf(got) - exact) <= scalar.SPECIAL_ULP[name][0] * scale * mp.mpf(2) ** -52


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_within_the_stated_bound(name):
    x, exactly, size = FUNCTIONS[name]
    with mp.workdps(40):
        for value, got in zip(x.tolist(), apply(name, x).tolist(), strict=True):
            at = mp.mpf(value)
            assert within(name, got, exactly(at), size(at) if size else 0), (value, got)


@pytest.mark.parametrize("name", ["zeta", "polygamma"])
def test_error_of_two_arguments_is_within_the_stated_bound(name):
    draw = np.random.default_rng(6)
    x = draw.uniform(0.05, 20, 60)
    with mp.workdps(40):
        if name == "zeta":
            s = draw.uniform(1.05, 20, 60)
            exact = [mp.zeta(mp.mpf(a), mp.mpf(b)) for a, b in zip(s, x, strict=True)]
            got = apply(name, s, x)
        else:
            n = draw.integers(1, 6, 60).astype(float)
            exact = [mp.polygamma(int(a), mp.mpf(b)) for a, b in zip(n, x, strict=True)]
            got = apply(name, x, n)
        for a, b in zip(got.tolist(), exact, strict=True):
            assert within(name, a, b), (a, b)


def test_every_special_function_states_its_bound():
    assert set(scalar.SPECIAL_ULP) == {*FUNCTIONS, "zeta", "polygamma", "igamma", "igammac"}


def test_limits_of_zeta():
    assert apply("zeta", np.array([2.0, 2.0]), np.array([np.inf, -np.inf])).tolist()[0] == 0


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
            assert within(name, result, exact, mp.mpf(10) ** -288), (order, at, result)


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
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"i0", "i1", "ndtri"}))
def test_limits_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    x = np.array([v for v in LIMITS if v != 1e300])
    theirs = getattr(torch.special, PUBLIC.get(name, name))(torch.tensor(x)).numpy()
    assert np.allclose(apply(name, x), theirs, equal_nan=True)
