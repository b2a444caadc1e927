"""Matrix products against NumPy: every stride pattern, exact integers, the same bits everywhere."""

from __future__ import annotations

import itertools
import re

import numba
import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.kernels import gemm
from jitgrad.kernels.gemm import drivers, features

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]
EXTENTS = [1, 2, 3, 7, 12, 13, 16, 31, 33, 64, 97]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def root(x: np.ndarray) -> tuple[np.ndarray, int]:
    """The flat bytes behind a view, and where in them it starts."""
    base = x
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    flat = base.reshape(-1).view(np.uint8) if base.size else np.zeros(1, np.uint8)
    start = x.__array_interface__["data"][0] - flat.__array_interface__["data"][0]
    return flat, start if x.size else 0


def launch(entry, a, b, c, accumulate=False) -> None:
    """c (+)= a @ b for NumPy arrays of equal rank, whose batch dimensions broadcast to c's."""
    batch = c.shape[:-2]
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    views = [np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:]), c]
    steps = [[s // c.itemsize for s in v.strides] for v in views]
    spec = [len(batch), m, n, k, *steps[0][-2:], *steps[1][-2:], *steps[2][-2:], int(accumulate)]
    for d, size in enumerate(batch):
        spec += [size, *(s[d] for s in steps)]
    flat = [v for x in (a, b, c) for v in root(x)]
    entry(np.array(spec, np.int64), *flat)


def check(result, a, b, start=None) -> None:
    """Exact for integers. For floats the standard bound |C - AB| <= gamma |A| |B| elementwise,
    gamma of the order k * eps: each element is a sum of k products, rounded at most k + 1 times."""
    if result.dtype.kind != "f":
        expected = a @ b if start is None else start + a @ b
        assert np.array_equal(result, expected.astype(result.dtype))
        return
    wide = [x.astype(np.longdouble) for x in (a, b)]
    expected, scale = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
    if start is not None:
        expected, scale = expected + start, scale + np.abs(start)
    kind = np.finfo(result.dtype)
    gamma = (a.shape[-1] + 2) * kind.eps
    assert np.all(np.abs(result - expected) <= gamma * scale + kind.smallest_subnormal)


def product(entry, a, b, dtype, out=None) -> np.ndarray:
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    c = np.full(shape, 77, dtype) if out is None else out
    launch(entry, a, b, c)
    return c


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_shapes(rng, dtype):
    entry, both = gemm.serial(dtype), gemm.parallel(dtype)
    extents = EXTENTS if dtype in ("float32", "float64") else [1, 3, 13, 33, 97, 130]
    for m, n, k in itertools.product(extents, repeat=3):
        a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
        c = product(entry, a, b, dtype)
        check(c, a, b)
        assert np.array_equal(c, product(both, a, b, dtype)), (m, n, k)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
@pytest.mark.parametrize(
    "shape",
    [
        (257, 131, 389),
        (1, 3001, 1009),
        (3001, 1, 1009),
        (5, 9, 5000),
        (700, 2053, 400),
        (300, 40, 1100),
    ],
)
def test_larger_than_a_block(rng, dtype, shape):
    m, n, k = shape
    a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
    c = product(gemm.serial(dtype), a, b, dtype)
    if dtype == "int32":
        check(c, a, b)
    else:
        exact = a.astype("f8") @ b.astype("f8")
        scale = np.abs(a).astype("f8") @ np.abs(b).astype("f8")
        slack = k * np.finfo(dtype).eps + k * np.finfo("f8").eps
        assert np.all(np.abs(c - exact) <= slack * scale)
    assert np.array_equal(c, product(gemm.parallel(dtype), a, b, dtype))


@pytest.mark.parametrize(
    "shape", [(0, 3, 4), (3, 0, 4), (0, 0, 0), (3, 4, 0), (1, 1, 0), (1, 5, 0)]
)
@pytest.mark.parametrize("make", [gemm.serial, gemm.parallel])
def test_empty(rng, shape, make):
    m, n, k = shape
    entry = make("float32")
    a, b = draw(rng, (m, k), "float32"), draw(rng, (k, n), "float32")
    assert np.array_equal(product(entry, a, b, "float32"), np.zeros((m, n)))
    c = np.ones((m, n), np.float32)
    launch(entry, a, b, c, accumulate=True)
    assert np.array_equal(c, np.ones((m, n)))
    batched = np.ones((0, 3, 3), np.float32)
    launch(entry, batched, batched, batched)


def layouts(rng, rows: int, columns: int, dtype: str):
    """The same logical shape in every stride pattern a view can have."""
    yield "plain", draw(rng, (rows, columns), dtype)
    yield "transposed", draw(rng, (columns, rows), dtype).T
    yield "row gaps", draw(rng, (rows, columns + 5), dtype)[:, 2 : columns + 2]
    yield "transposed gaps", draw(rng, (columns, rows + 3), dtype).T[1 : rows + 1]
    yield "general", draw(rng, (rows * 2, columns * 3), dtype)[::2, 1::3]
    yield "row broadcast", np.broadcast_to(draw(rng, (1, columns), dtype), (rows, columns))
    yield "column broadcast", np.broadcast_to(draw(rng, (rows, 1), dtype), (rows, columns))
    yield "scalar", np.broadcast_to(draw(rng, (1, 1), dtype), (rows, columns))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize(
    "shape", [(5, 6, 7), (40, 50, 60), (1, 37, 45), (37, 1, 45), (1, 1, 300), (300, 310, 305)]
)
def test_every_pair_of_layouts(rng, dtype, shape):
    m, n, k = shape
    entry, both = gemm.serial(dtype), gemm.parallel(dtype)
    for _, a in layouts(rng, m, k, dtype):
        for _, b in layouts(rng, k, n, dtype):
            c = product(entry, a, b, dtype)
            check(c, a, b) if max(shape) < 100 else check(c[:9], a[:9], b)
            assert np.array_equal(c, product(both, a, b, dtype))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", [(5, 6, 7), (40, 50, 600), (1, 37, 900), (37, 1, 45), (1, 1, 3)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_destinations(rng, dtype, shape, accumulate):
    """C in every layout; what lies between its elements is never written."""
    m, n, k = shape
    a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
    for make in (gemm.serial, gemm.parallel):
        for name, c in layouts(rng, m, n, dtype):
            if "broadcast" in name or name == "scalar":
                continue
            before, start = root(c)[0].copy(), c.copy()
            launch(make(dtype), a, b, c, accumulate)
            check(c, a, b, start if accumulate else None)
            c[...] = start
            assert np.array_equal(before, root(c)[0])


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((64, 16, 16), (64, 16, 16)),
        ((1, 9, 8), (5, 8, 7)),
        ((5, 9, 8), (1, 8, 7)),
        ((2, 1, 9, 8), (1, 3, 8, 7)),
        ((3, 2, 1, 8), (3, 2, 8, 7)),
        ((3, 2, 9, 8), (3, 2, 8, 1)),
        ((3, 70, 90), (3, 90, 80)),
        ((7, 0, 3), (7, 3, 2)),
        ((2, 3, 4, 0), (2, 3, 0, 5)),
    ],
)
def test_batches(rng, dtype, shapes):
    a, b = (draw(rng, s, dtype) for s in shapes)
    c = product(gemm.serial(dtype), a, b, dtype)
    if c.size and a.shape[-1]:
        check(c, a, b)
    assert np.array_equal(c, product(gemm.parallel(dtype), a, b, dtype))
    back = np.full(c.shape[::-1], 3, dtype).T  # a destination with all its axes reversed
    assert np.array_equal(product(gemm.serial(dtype), a, b, dtype, back), c)
    assert np.array_equal(product(gemm.parallel(dtype), a, b, dtype, back), c)


@pytest.mark.parametrize("shape", [(96, 200, 64), (1, 5000, 300), (5000, 1, 300), (31, 7, 2000)])
def test_thread_counts(rng, shape):
    m, n, k = shape
    a, b = draw(rng, (3, m, k), "float32"), draw(rng, (3, k, n), "float32")
    expected = product(gemm.serial("float32"), a, b, "float32")
    before = numba.get_num_threads()
    try:
        for count in range(1, min(4, numba.config.NUMBA_NUM_THREADS) + 1):
            numba.set_num_threads(count)
            assert np.array_equal(product(gemm.parallel("float32"), a, b, "float32"), expected)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("target", [features.AVX2, features.NARROW], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_tiles(rng, dtype, target):
    """Tile shapes meant for other machines give the same answers here, slower."""
    entry = gemm.serial(dtype, target)
    for m, n, k in itertools.product([1, 5, 6, 16, 47], [1, 4, 9, 16, 17, 40], [1, 3, 8, 50, 400]):
        for a in (draw(rng, (m, k), dtype), draw(rng, (k, m), dtype).T):
            for b in (draw(rng, (k, n), dtype), draw(rng, (n, k), dtype).T):
                c = product(entry, a, b, dtype)
                check(c, a, b)
                if dtype == "float32" and min(m, n) > 1 and target is features.AVX2:
                    assert np.array_equal(c, product(gemm.serial(dtype), a, b, dtype))


def test_not_a_number_and_infinity(rng):
    """0 * inf and nan are nan, and stay in their own row and column."""
    for m, n in ((20, 40), (1, 40), (20, 1)):
        a, b = draw(rng, (m, 30), "float32"), draw(rng, (30, n), "float32")
        a[0, 3], b[3, 0], b[4, n - 1] = 0, np.inf, np.nan
        c = product(gemm.serial("float32"), a, b, "float32")
        assert np.isnan(c[0, 0]) and np.all(np.isnan(c[:, n - 1]))
        assert np.all(np.isfinite(c[:, 1 : n - 1]))


@pytest.mark.parametrize("n", [1, 3])
def test_long_sums_keep_their_digits(n):
    """Three million times 0.1 in float32: a plain loop is 3 % off."""
    k = 3_000_001
    a, b = np.full((1, k), 0.1, np.float32), np.ones((k, n), np.float32)
    expected = k * float(np.float32(0.1))
    for left, right in ((a, b), (a, np.asfortranarray(b))):
        c = product(gemm.serial("float32"), left, right, "float32")
        assert np.all(np.abs(c - expected) < 1e-4 * expected)


def test_no_two_cores_share_a_helper():
    """Cores come from a cache filled by many processes: equal symbols would be linked together."""
    seen: set[str] = set()
    for dtype, target in itertools.product(FLOATS + INTEGERS[:4], [features.AVX512, features.AVX2]):
        text = drivers.source(features.tile(dtype, target), dtypes.BY_NAME[dtype])
        helpers = set(re.findall(r"^def (\w+)", text, re.MULTILINE)) - {"kernel"}
        assert len(helpers) > 5 and not helpers & seen
        seen |= helpers


def test_worth_threads():
    assert not gemm.worth_threads(16, 16, 16, 1)
    assert not gemm.worth_threads(1, 1, 10**7, 1)
    assert gemm.worth_threads(512, 512, 512, 1)
    assert gemm.worth_threads(16, 16, 16, 1000)
