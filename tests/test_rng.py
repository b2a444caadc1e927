"""The random streams: torch's numbers, and torch's state after them, whatever the calls before."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from jitgrad import rng
from tests.oracle import torch_or_skip

SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 100, 623, 624, 625, 1000, 4096, 4097, 10_001)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")


def seeded(seed: int = 0) -> rng.Generator:
    return rng.Generator().manual_seed(seed)


def used(gen: rng.Generator) -> int:
    """Words drawn since the last renewal of the 624."""
    return int(gen._state[624])


# ------------------------------------------------------------------------------- without torch

# Of seed 0, as PyTorch 2.13 prints them with all digits.
LITERAL = {
    "uniform": (
        lambda g: rng.uniform(g, 3),
        [0.49625658988952637, 0.7682217955589294, 0.08847743272781372],
    ),
    "uniform, float64": (
        lambda g: rng.uniform(g, 2, dtype=np.float64),
        [0.9700530018065531, 0.7078198643997880],
    ),
    "normal, few": (
        lambda g: rng.normal(g, 3),
        [1.5409960746765137, -0.293428897857666, -2.1787893772125244],
    ),
    "normal, many": (
        lambda g: rng.normal(g, 20)[:3],
        [-1.1258398294448853, -1.1523602008819580, -0.2505785822868347],
    ),
    "integers": (lambda g: rng.integers(g, 8, 0, 10), [4, 9, 3, 0, 3, 9, 7, 3]),
    "permutation": (lambda g: rng.permutation(g, 10), [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]),
    "bernoulli": (lambda g: rng.bernoulli(g, 6, 0.5), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("what", LITERAL)
def test_first_numbers_of_seed_zero(what: str) -> None:
    draw, expected = LITERAL[what]
    np.testing.assert_allclose(draw(seeded()), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 5489, 2**31, 2**32 - 1])
def test_words_are_the_mersenne_twister(seed: int) -> None:
    expected = np.random.RandomState(seed).randint(0, 2**32, 2000, np.uint32)
    gen = seeded(seed)
    pieces = [gen.words(n) for n in (0, 1, 622, 1, 1, 999, 376)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)


def test_only_the_low_half_of_a_seed_counts() -> None:
    np.testing.assert_array_equal(seeded(2**32 + 7).words(4), seeded(7).words(4))
    np.testing.assert_array_equal(seeded(-1).words(4), seeded(2**64 - 1).words(4))
    assert seeded(-1).initial_seed() == 2**64 - 1


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seed_out_of_range(seed: int) -> None:
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        rng.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", [1.5, True, "1", None])
def test_seed_that_is_no_integer(seed: Any) -> None:
    name = type(seed).__name__
    with pytest.raises(RuntimeError, match=f"manual_seed expected a long, but got {name}"):
        rng.Generator().manual_seed(seed)


def test_seed_draws_a_new_one_each_time() -> None:
    gen = rng.Generator()
    assert gen.initial_seed() == rng.DEFAULT_SEED
    first, second = gen.seed(), gen.seed()
    assert first != second
    assert gen.initial_seed() == second


@pytest.mark.parametrize("before", [0, 1, 623, 624, 625])
def test_state_round_trips(before: int) -> None:
    gen = seeded(3)
    rng.normal(gen, 1)  # leaves a spare normal
    gen.words(before)
    state = gen.get_state()
    assert state.dtype == np.uint8
    assert state.shape == (5056,)
    other = rng.Generator().set_state(state)
    np.testing.assert_array_equal(other.get_state(), state)
    clone = gen.clone_state()
    expected = rng.normal(gen, 33), rng.normal(gen, 3), gen.words(700)
    for copy in (other, clone):
        assert copy.initial_seed() == 3
        for values, wanted in zip(
            (rng.normal(copy, 33), rng.normal(copy, 3), copy.words(700)), expected, strict=True
        ):
            np.testing.assert_array_equal(values, wanted)


def test_state_is_checked() -> None:
    gen = rng.Generator()
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        gen.set_state(np.zeros(5056, np.uint8))
    with pytest.raises(RuntimeError, match=r"of size 5056 but found .* size to be 10"):
        gen.set_state(np.zeros(10, np.uint8))
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        gen.set_state(np.zeros(5056, np.float32))


def test_seeding_forgets_the_spare_normal() -> None:
    gen = seeded()
    first = rng.normal(gen, 1)
    gen.manual_seed(0)
    np.testing.assert_array_equal(rng.normal(gen, 1), first)


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "uint8"])
@pytest.mark.parametrize("n", [0, 5, 40])
def test_out_is_filled_and_returned(n: int, dtype: str) -> None:
    storage = np.float32 if dtype == "bfloat16" else np.dtype(dtype)
    draws = [
        lambda g, out: rng.integers(g, n, 0, 100, dtype, out=out),
        lambda g, out: rng.random(g, n, dtype, out=out),
        lambda g, out: rng.bernoulli(g, n, 0.5, dtype, out=out),
        lambda g, out: rng.permutation(g, n, dtype, out=out),
    ]
    if dtype in FLOATS:
        draws += [
            lambda g, out: rng.uniform(g, n, -1, 3, dtype, out=out),
            lambda g, out: rng.normal(g, n, 1, 2, dtype, out=out),
            lambda g, out: rng.exponential(g, n, 2, dtype, out=out),
        ]
    for draw in draws:
        out = np.empty(n, storage)
        assert draw(seeded(), out) is out
        np.testing.assert_array_equal(out, draw(seeded(), None))


@given(st.integers(1, 2**28 - 1), st.integers(-(2**62), 2**62), st.integers(0, 2**32 - 1))
def test_short_ranges_give_the_exact_remainder(span: int, low: int, seed: int) -> None:
    words = seeded(seed).words(50)
    expected = [low + int(word) % span for word in words]
    assert rng.integers(seeded(seed), 50, low, low + span).tolist() == expected


def test_the_remainder_is_exact_at_multiples() -> None:
    # where the quotient's rounding could go wrong: words just below and at multiples of the span
    state = np.empty(625, np.uint32)
    for span in (1, 2, 3, 7, 10, 255, 65_537, 2**27, 2**28 - 1, 2**28 - 57):
        words = np.concatenate(
            [span * k + np.arange(-2, 3) for k in (1, 2, (2**32 - 3) // span)]
            + [np.array([0, 2**32 - 1])]
        )
        wanted = words[(words >= 0) & (words < 2**32)]
        # an untempered state that will deliver these words
        state[: wanted.size] = [untemper(int(word)) for word in wanted]
        gen = seeded()
        gen._state[:] = state
        gen._state[624] = 0
        drawn = rng.integers(gen, wanted.size, 0, span)
        np.testing.assert_array_equal(drawn, wanted % span)


def untemper(y: int) -> int:
    """The state word that the generator would deliver as ``y``."""
    y ^= y >> 18
    y ^= (y << 15) & 0xEFC60000
    x = y
    for _ in range(5):
        x = y ^ ((x << 7) & 0x9D2C5680)
    y = x & 0xFFFFFFFF
    x = y
    for _ in range(3):
        x = y ^ (x >> 11)
    return x


def test_integers_over_all_of_64_bits() -> None:
    values = rng.integers(seeded(), 1000, -(2**63), None)
    words = seeded().words(2000).astype(np.uint64)
    np.testing.assert_array_equal(
        values, ((words[::2] << np.uint64(32)) | words[1::2]).view(np.int64)
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_upper_end_is_excluded(dtype: str) -> None:
    for low, high in ((0, 1), (-1.5, 2.5), (100, 101)):
        values = rng.uniform(seeded(), 50_000, low, high, dtype)
        assert values.min() >= low
        assert values.max() < high


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions_have_their_moments(dtype: str) -> None:
    n, gen = 200_000, seeded(1)
    tolerance = 5 / n**0.5  # about five standard deviations

    def moments(values: np.ndarray) -> tuple[float, float]:
        return float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))

    assert moments(rng.uniform(gen, n, dtype=dtype)) == pytest.approx(
        (0.5, 12**-0.5), abs=tolerance
    )
    for contiguous in (True, False):
        values = rng.normal(gen, n, 1, 0.5, dtype, contiguous=contiguous)
        assert moments(values) == pytest.approx((1, 0.5), abs=tolerance)
    assert moments(rng.exponential(gen, n, 2, dtype)) == pytest.approx((0.5, 0.5), abs=tolerance)
    assert rng.bernoulli(gen, n, 0.3, dtype).mean() == pytest.approx(0.3, abs=tolerance)
    assert rng.geometric(gen, n, 0.5, dtype).mean() == pytest.approx(2, abs=4 * tolerance)
    logs = np.log(rng.log_normal(gen, n, 1, 0.5, dtype))
    assert moments(logs) == pytest.approx((1, 0.5), abs=tolerance)
    assert np.median(rng.cauchy(gen, n, 3, 1, dtype)) == pytest.approx(3, abs=3 * tolerance)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 5000])
def test_permutation_permutes(n: int) -> None:
    assert sorted(rng.permutation(seeded(), n).tolist()) == list(range(n))


def test_wide_shuffle_permutes() -> None:
    # the form for 2e8 elements and more, on a few
    gen, values = seeded(), np.arange(5000)
    rng._shuffle_wide(gen._state, gen._scratch, values)
    assert sorted(values.tolist()) == list(range(5000))
    assert used(gen) == 10_000 % 624


def test_multinomial_follows_the_weights() -> None:
    weights = np.array([[0.0, 1, 3], [2, 0, 0]])
    chosen = rng.multinomial(seeded(), weights, 20_000, replacement=True)
    assert chosen[0].mean() == pytest.approx(1.75, abs=0.02)
    assert set(chosen[0].tolist()) == {1, 2}
    assert (chosen[1] == 0).all()
    without = rng.multinomial(seeded(), np.ones((4, 6)), 6)
    np.testing.assert_array_equal(np.sort(without, axis=1), np.tile(np.arange(6), (4, 1)))


def test_threads_share_a_stream_without_overlap() -> None:
    gen, parts = seeded(), []

    def work() -> None:
        for _ in range(50):
            parts.append(gen.words(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = seeded().words(20_000)
    assert sorted(np.concatenate(parts).tolist()) == sorted(expected.tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_fork_in_the_middle_of_a_draw() -> None:
    gen = seeded()
    gen.words(1)  # compiled before the fork
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            gen.words(100_000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
                child = os.fork()
            if child == 0:
                ok = gen.lock.acquire(timeout=10)
                os._exit(0 if ok else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


# --------------------------------------------------------------------------------- against torch


class Pair:
    """A generator of ours and one of torch's, in step."""

    def __init__(self, seed: int = 0) -> None:
        self.torch = torch_or_skip()
        self.theirs = self.torch.Generator().manual_seed(seed)
        self.ours = seeded(seed)

    def dtype(self, name: str) -> Any:
        return getattr(self.torch, name)

    def check(self, ours: np.ndarray, theirs: Any, *, exact: bool = True) -> None:
        half = theirs.dtype in (self.torch.float16, self.torch.bfloat16)
        if theirs.dtype == self.torch.bfloat16:
            theirs = theirs.float()
        if exact:
            np.testing.assert_array_equal(ours, theirs.numpy())
        else:
            rtol = 1e-2 if half else 1e-5
            size = np.abs(theirs.numpy()).max(initial=0)
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=rtol, atol=rtol / 10 * size)
        np.testing.assert_array_equal(self.ours.get_state(), self.theirs.get_state().numpy())


@pytest.fixture
def pair() -> Pair:
    return Pair()


def fused(pair: Pair) -> bool:
    """Whether torch's loops run with vectors and fused multiply-adds, as ours always do; where they
    do not, numbers that were scaled, and float32 normals, differ in the last bits."""
    return pair.torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def skip_where_mkl_draws(pair: Pair) -> None:
    """On Intel's processors torch hands these distributions to MKL, which has its own stream."""
    probe = pair.torch.Generator().manual_seed(0)
    pair.torch.empty(8).bernoulli_(0.5, generator=probe)
    if used(rng.Generator().set_state(probe.get_state().numpy())) != 16:
        pytest.skip("torch draws from MKL's generator on this processor")


@pytest.mark.oracle
@pytest.mark.parametrize("seed", [0, 1, -1, -5, 2**63, 2**64 - 1, -(2**63), 2**32 + 7])
def test_seeds_as_torch(seed: int) -> None:
    pair = Pair(seed)
    assert pair.ours.initial_seed() == pair.theirs.initial_seed()
    pair.check(rng.uniform(pair.ours, 5), pair.torch.rand(5, generator=pair.theirs))


@pytest.mark.oracle
def test_fresh_generator_as_torch(pair: Pair) -> None:
    theirs, ours = pair.torch.Generator(), rng.Generator()
    assert ours.initial_seed() == theirs.initial_seed()
    np.testing.assert_array_equal(ours.get_state(), theirs.get_state().numpy())


@pytest.mark.oracle
@pytest.mark.parametrize("before", [0, 1, 624, 700])
def test_states_can_be_exchanged(pair: Pair, before: int) -> None:
    torch = pair.torch
    torch.randn(3, generator=pair.theirs)
    torch.rand(before, generator=pair.theirs)
    pair.ours.set_state(pair.theirs.get_state().numpy())
    pair.check(rng.normal(pair.ours, 5), torch.randn(5, generator=pair.theirs))
    rng.normal(pair.ours, 2)
    pair.theirs.set_state(torch.from_numpy(pair.ours.get_state()))
    pair.check(rng.uniform(pair.ours, 650), torch.rand(650, generator=pair.theirs))


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_as_torch(pair: Pair, dtype: str) -> None:
    kind = pair.dtype(dtype)
    for n in SIZES:
        theirs = pair.torch.rand(n, dtype=kind, generator=pair.theirs)
        pair.check(rng.uniform(pair.ours, n, dtype=dtype), theirs)
        for low, high in ((-1.3, 2.7), (0.1, 0.3), (5, 1000.3), (0.1, 0.1000001), (2.0, 2.0)):
            theirs = pair.torch.empty(n, dtype=kind).uniform_(low, high, generator=pair.theirs)
            pair.check(rng.uniform(pair.ours, n, low, high, dtype), theirs, exact=fused(pair))


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_as_torch(pair: Pair, dtype: str) -> None:
    kind = pair.dtype(dtype)
    for n in SIZES:
        for mean, std in ((0.0, 1.0), (1.5, 0.3), (-7.1, 2e3), (0.5, 0.0)):
            theirs = pair.torch.empty(n, dtype=kind).normal_(mean, std, generator=pair.theirs)
            pair.check(rng.normal(pair.ours, n, mean, std, dtype), theirs, exact=fused(pair))
        theirs = pair.torch.empty(2 * n, dtype=kind)[::2].normal_(generator=pair.theirs)
        pair.check(rng.normal(pair.ours, n, dtype=dtype, contiguous=n < 2), theirs)


@pytest.mark.oracle
def test_what_is_made_of_normals(pair: Pair) -> None:
    torch = pair.torch
    exact = fused(pair)
    mean, std = torch.linspace(-1, 1, 40), torch.linspace(0.1, 2, 40)
    ours = rng.normal(pair.ours, 40) * std.numpy() + mean.numpy()
    pair.check(ours, torch.normal(mean, std, generator=pair.theirs), exact=exact)
    theirs = torch.randn(20, dtype=torch.complex64, generator=pair.theirs)
    ours = rng.normal(pair.ours, 40, 0, 0.5**0.5).view(np.complex64)
    pair.check(ours, theirs, exact=exact)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", FLOATS)
def test_serial_distributions_as_torch(pair: Pair, dtype: str) -> None:
    kind = pair.dtype(dtype)
    for n in SIZES:
        empty = pair.torch.empty(n, dtype=kind)
        for ends in ((0.0, 1.0), (0.3, 2.0)):
            theirs = empty.cauchy_(*ends, generator=pair.theirs)
            pair.check(rng.cauchy(pair.ours, n, *ends, dtype), theirs)
            theirs = empty.log_normal_(*ends, generator=pair.theirs)
            pair.check(rng.log_normal(pair.ours, n, *ends, dtype), theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", FLOATS)
def test_exponential_as_torch(pair: Pair, dtype: str) -> None:
    skip_where_mkl_draws(pair)
    kind = pair.dtype(dtype)
    for n in SIZES:
        for rate in (1.0, 0.37, 5.0):
            theirs = pair.torch.empty(n, dtype=kind).exponential_(rate, generator=pair.theirs)
            pair.check(rng.exponential(pair.ours, n, rate, dtype), theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_geometric_as_torch(pair: Pair, dtype: str) -> None:
    for n in SIZES:
        for p in (0.3, 0.9):
            theirs = pair.torch.empty(n, dtype=pair.dtype(dtype))
            theirs.geometric_(p, generator=pair.theirs)
            pair.check(rng.geometric(pair.ours, n, p, dtype), theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_bernoulli_as_torch(pair: Pair, dtype: str) -> None:
    skip_where_mkl_draws(pair)
    for n in SIZES:
        for p in (0.0, 0.3, 1.0):
            theirs = pair.torch.empty(n, dtype=pair.dtype(dtype))
            theirs.bernoulli_(p, generator=pair.theirs)
            pair.check(rng.bernoulli(pair.ours, n, p, dtype), theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_tensors_as_torch(pair: Pair, dtype: str) -> None:
    for n in SIZES:
        p = pair.torch.linspace(0, 1, n, dtype=pair.torch.float64).to(pair.dtype(dtype))
        array = (p.float() if dtype == "bfloat16" else p).numpy()
        theirs = pair.torch.bernoulli(p, generator=pair.theirs)
        pair.check(rng.bernoulli(pair.ours, n, array, dtype), theirs)
    single = pair.torch.tensor(0.3)
    theirs = pair.torch.empty(20).bernoulli_(single, generator=pair.theirs)
    pair.check(rng.bernoulli(pair.ours, 20, single.numpy()), theirs)


@pytest.mark.oracle
def test_dropout_as_torch(pair: Pair) -> None:
    skip_where_mkl_draws(pair)
    with pair.torch.random.fork_rng():
        pair.torch.manual_seed(0)
        theirs = pair.torch.nn.functional.dropout(pair.torch.ones(1000), 0.3).numpy()
    ours = rng.bernoulli(seeded(), 1000, 1 - 0.3) / np.float32(1 - 0.3)
    np.testing.assert_array_equal(ours, theirs)


RANGES = (
    *((0, 10), (-5, 7), (3, 4), (0, 2**27), (0, 2**28 - 1), (0, 2**28), (0, 2**28 + 1)),
    *((0, 2**32 - 1), (0, 2**32), (-(2**40), 2**50), (-(2**63), 2**63 - 1)),
)


@pytest.mark.oracle
def test_randint_as_torch(pair: Pair) -> None:
    for n in SIZES:
        for low, high in RANGES:
            theirs = pair.torch.randint(low, high, (n,), generator=pair.theirs)
            pair.check(rng.integers(pair.ours, n, low, high), theirs)
        for dtype in (*FLOATS, *INTEGERS):
            kind = pair.dtype(dtype)
            theirs = pair.torch.randint(0, 100, (n,), dtype=kind, generator=pair.theirs)
            pair.check(rng.integers(pair.ours, n, 0, 100, dtype), theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_random_as_torch(pair: Pair, dtype: str) -> None:
    kind = pair.dtype(dtype)
    for n in SIZES:
        theirs = pair.torch.empty(n, dtype=kind).random_(generator=pair.theirs)
        pair.check(rng.random(pair.ours, n, dtype), theirs)
        for low in (0, 1) if dtype in ("bool", "uint8") else (-100, 0, 5):
            theirs = pair.torch.empty(n, dtype=kind).random_(low, None, generator=pair.theirs)
            pair.check(rng.integers(pair.ours, n, low, None, dtype), theirs)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*is out of bounds:UserWarning")
@pytest.mark.parametrize("dtype", FLOATS)
def test_ends_beyond_the_dense_integers_as_torch(pair: Pair, dtype: str) -> None:
    bits = rng._MANTISSA[dtype]
    near = [(0, 2**k + d) for k in (bits, bits + 1, bits + 2) for d in (-1, 1, 2, 3, 4, 6, 7)]
    near += [(-high, 5) for _, high in near] + [(-high, high + 3) for _, high in near]
    near += [(-(2 ** (bits + 3)) + d, 5) for d in range(-40, 40, 3)]
    for low, high in near:
        theirs = pair.torch.empty(100, dtype=pair.dtype(dtype))
        theirs.random_(low, high, generator=pair.theirs)
        pair.check(rng.integers(pair.ours, 100, low, high, dtype), theirs)


@pytest.mark.oracle
def test_permutation_as_torch(pair: Pair) -> None:
    for n in SIZES:
        pair.check(rng.permutation(pair.ours, n), pair.torch.randperm(n, generator=pair.theirs))
    for dtype in (*FLOATS, *INTEGERS):
        theirs = pair.torch.randperm(50, dtype=pair.dtype(dtype), generator=pair.theirs)
        pair.check(rng.permutation(pair.ours, 50, dtype), theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (3, 50), (20, 1000)])
def test_multinomial_as_torch(pair: Pair, rows: int, columns: int, dtype: str) -> None:
    skip_where_mkl_draws(pair)
    weights = pair.torch.rand(rows, columns, generator=pair.theirs).to(pair.dtype(dtype))
    weights[:, 2] = 0
    rng.uniform(pair.ours, rows * columns)
    for count, again in ((1, False), (1, True), (5, False), (5, True), (4000, True)):
        theirs = pair.torch.multinomial(weights, count, again, generator=pair.theirs)
        pair.check(rng.multinomial(pair.ours, weights.numpy(), count, again), theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_multinomial_in_half_precision_as_torch(pair: Pair, dtype: str) -> None:
    skip_where_mkl_draws(pair)
    weights = pair.torch.linspace(0, 1, 20).reshape(1, 20).to(pair.dtype(dtype))
    for count, again in ((1, False), (500, True)):
        theirs = pair.torch.multinomial(weights, count, again, generator=pair.theirs)
        ours = rng.multinomial(pair.ours, weights.float().numpy(), count, again, dtype)
        pair.check(ours, theirs)


CALLS = {
    "uniform": lambda pair, n: (
        rng.uniform(pair.ours, n),
        pair.torch.rand(n, generator=pair.theirs),
    ),
    "uniform64": lambda pair, n: (
        rng.uniform(pair.ours, n, dtype="float64"),
        pair.torch.rand(n, dtype=pair.torch.float64, generator=pair.theirs),
    ),
    "normal64": lambda pair, n: (
        rng.normal(pair.ours, n, dtype="float64"),
        pair.torch.randn(n, dtype=pair.torch.float64, generator=pair.theirs),
    ),
    "few normals": lambda pair, n: (
        rng.normal(pair.ours, n % 16),
        pair.torch.randn(n % 16, generator=pair.theirs),
    ),
    "integers": lambda pair, n: (
        rng.integers(pair.ours, n, -3, 8),
        pair.torch.randint(-3, 8, (n,), generator=pair.theirs),
    ),
    "permutation": lambda pair, n: (
        rng.permutation(pair.ours, n),
        pair.torch.randperm(n, generator=pair.theirs),
    ),
    "log_normal": lambda pair, n: (
        rng.log_normal(pair.ours, n),
        pair.torch.empty(n).log_normal_(generator=pair.theirs),
    ),
}


@pytest.mark.oracle
@given(
    st.integers(-(2**63), 2**64 - 1),
    st.lists(st.tuples(st.sampled_from(sorted(CALLS)), st.integers(0, 700)), max_size=12),
)
def test_mixed_calls_as_torch(seed: int, calls: list[tuple[str, int]]) -> None:
    pair = Pair(seed)
    for call, n in calls:
        pair.check(*CALLS[call](pair, n))
