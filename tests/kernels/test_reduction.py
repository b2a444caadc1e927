"""Reductions, scans and softmax against NumPy: every kind, dtype and stride pattern; accuracy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.kernels import reduction, threads
from jitgrad.layout import Layout, layout

FLOATS = ["float32", "float64"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
ALL = ["bool", *INTEGERS, *FLOATS]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def layout_of(x: np.ndarray) -> Layout:
    strides = tuple(s // x.itemsize for s in x.strides)
    return layout(x.shape, strides, dtypes.from_numpy(x.dtype))


def buffer_of(x: np.ndarray) -> tuple[np.ndarray, int]:
    """The bytes a view lies in, and where in them it starts."""
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    flat = base.ravel(order="K").view(np.uint8)
    if not x.size:
        return np.zeros(8, np.uint8), 0
    return flat, x.__array_interface__["data"][0] - flat.__array_interface__["data"][0]


def run(program: reduction.Program, arrays: Sequence[np.ndarray]) -> None:
    program.run(*(part for x in arrays for part in buffer_of(x)))


def reduce(
    kind: str,
    x: np.ndarray,
    dims: Sequence[int],
    *outs: Any,
    more: Sequence[np.ndarray] = (),
    keepdim: bool = False,
    **parameters: float,
) -> Any:
    """The result(s), of the given dtypes, of a reduction; the input's dtype by default."""
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims)
    results = [np.empty(shape, d) for d in outs or (x.dtype,)]
    inputs = [x, *more]
    program = reduction.plan(
        kind, [layout_of(a) for a in inputs], dims, [layout_of(r) for r in results], **parameters
    )
    run(program, [*inputs, *results])
    return results[0] if len(results) == 1 else results


def along(kind: str, inputs: Sequence[np.ndarray], dim: int, *outs: Any) -> Any:
    results = [np.empty(inputs[0].shape, d) for d in outs or (inputs[-1].dtype,)]
    layouts = [layout_of(r) for r in results]
    program = reduction.plan_along(kind, [layout_of(a) for a in inputs], dim, layouts)
    run(program, [*inputs, *results])
    return results[0] if len(results) == 1 else results


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.random(shape) > 0.3
    if dtype in FLOATS:
        return rng.uniform(-2, 2, shape).astype(dtype)
    low = 0 if dtype == "uint8" else -3
    return rng.integers(low, 4, shape).astype(dtype)


def views(rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
    """Arrays of every kind of geometry."""

    def a(*shape: int) -> np.ndarray:
        return values(rng, shape, dtype)

    return [
        a(3, 4, 5, 6),
        a(6, 5, 4, 3).transpose(2, 0, 3, 1),
        a(1, 40, 1),
        a(37, 29).T,
        a(30, 40)[::3, 1::2],
        np.broadcast_to(a(5, 1, 7), (5, 6, 7)),
        np.broadcast_to(a(9), (20, 9)),
        np.lib.stride_tricks.sliding_window_view(a(50), 11),
        a(2100),
        a(4200)[::2],
        a(1100, 3),
        a(3, 1100),
        a(0),
        a(2, 0, 3),
        a(),
    ]


def subsets(ndim: int) -> list[tuple[int, ...]]:
    return [d for k in range(ndim + 1) for d in itertools.combinations(range(ndim), k)]


def close(ours: np.ndarray, theirs: Any, dtype: str, scale: Any = 1.0) -> None:
    assert ours.shape == np.shape(theirs)
    tolerance = 4e-7 if dtype == "float32" else 1e-15
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(np.where(finite, 0, ours), np.where(finite, 0, theirs))
    error = np.where(finite, np.abs(ours - np.where(finite, theirs, 0)), 0)
    assert np.all(error <= 8 * tolerance * np.maximum(np.abs(theirs), scale), where=finite)


# Folds --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ALL)
def test_sum(rng: np.random.Generator, dtype: str) -> None:
    for x in views(rng, dtype):
        for dims in subsets(x.ndim):
            if dtype in FLOATS:
                wide = x.astype("float64")
                scale = np.abs(wide).sum(axis=dims)
                close(reduce("sum", x, dims), wide.sum(axis=dims), dtype, scale)
                with np.errstate(invalid="ignore"):
                    count = np.prod([x.shape[d] for d in dims])
                    close(reduce("mean", x, dims), wide.sum(axis=dims) / count, dtype, scale)
            else:
                expected = x.sum(axis=dims, dtype="int64")
                np.testing.assert_array_equal(reduce("sum", x, dims, "int64"), expected)
                close(reduce("sum", x, dims, "float32"), expected, "float32", 1e3)


@pytest.mark.parametrize("dtype", ALL)
def test_extremes_and_logic(rng: np.random.Generator, dtype: str) -> None:
    for x in views(rng, dtype):
        for dims in subsets(x.ndim):
            np.testing.assert_array_equal(
                reduce("any", x, dims, "bool"), np.asarray((x != 0).any(axis=dims))
            )
            np.testing.assert_array_equal(
                reduce("all", x, dims, "bool"), np.asarray((x != 0).all(axis=dims))
            )
            np.testing.assert_array_equal(
                reduce("count_nonzero", x, dims, "int64"), (x != 0).sum(axis=dims)
            )
            if all(x.shape[d] for d in dims):
                np.testing.assert_array_equal(reduce("amax", x, dims), x.max(axis=dims))
                np.testing.assert_array_equal(reduce("amin", x, dims), x.min(axis=dims))


@pytest.mark.parametrize("dtype", ALL)
def test_prod(rng: np.random.Generator, dtype: str) -> None:
    for x in views(rng, dtype):
        for dims in subsets(x.ndim):
            if dtype in FLOATS:
                near_one = np.asarray(1 + x / 1000)
                near_one = near_one.astype(dtype)
                expected = near_one.astype("float64").prod(axis=dims)
                close(reduce("prod", near_one, dims), expected, dtype, 20)
            else:
                expected = x.prod(axis=dims, dtype="int64")
                np.testing.assert_array_equal(reduce("prod", x, dims, "int64"), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_moments_and_norms(rng: np.random.Generator, dtype: str) -> None:
    for x in views(rng, dtype):
        wide = x.astype("float64")
        size = np.abs(wide)
        for dims in subsets(x.ndim):
            count = int(np.prod([x.shape[d] for d in dims]))
            if count > 1:
                variance = wide.var(axis=dims, ddof=1)
                close(reduce("var", x, dims, degrees=count - 1.0), variance, dtype)
                close(reduce("std", x, dims, degrees=count - 1.0), np.sqrt(variance), dtype)
                center = wide.mean(axis=dims, keepdims=True).astype(dtype)
                given = reduce("var", x, dims, more=[center], degrees=count - 1.0)
                close(given, variance, dtype)
            close(reduce("norm", x, dims, p=2.0), np.sqrt((size**2).sum(axis=dims)), dtype)
            close(reduce("norm", x, dims, p=1.0), size.sum(axis=dims), dtype, size.sum())
            close(reduce("norm", x, dims, p=0.0), (x != 0).sum(axis=dims).astype(dtype), dtype)
            close(reduce("norm", x, dims, p=3.5), (size**3.5).sum(axis=dims) ** (1 / 3.5), dtype)
            if count:
                close(reduce("norm", x, dims, p=np.inf), size.max(axis=dims), dtype)
                close(reduce("norm", x, dims, p=-np.inf), size.min(axis=dims), dtype)
            with np.errstate(divide="ignore"):
                expected = np.log(np.exp(wide).sum(axis=dims))
            if count:
                close(reduce("logsumexp", x, dims), expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nansum(rng: np.random.Generator, dtype: str) -> None:
    x = values(rng, (50, 40), dtype)
    x[rng.random(x.shape) < 0.3] = np.nan
    for dims in subsets(2):
        close(reduce("nansum", x, dims), np.nansum(x.astype("float64"), axis=dims), dtype, 50)


def test_results_of_either_rank_and_any_strides(rng: np.random.Generator) -> None:
    x = values(rng, (4, 5, 6), "float32")
    for dims in subsets(3):
        expected = reduce("sum", x, dims)
        kept = reduce("sum", x, dims, keepdim=True)
        np.testing.assert_array_equal(kept.reshape(expected.shape), expected)
    out = np.zeros((12, 8), "float32")[::2, ::2].T
    program = reduction.plan("sum", [layout_of(x)], (1,), [layout_of(out)])
    run(program, [x, out])
    np.testing.assert_array_equal(out, reduce("sum", x, (1,)))


def test_zero_dimensions_may_be_reduced_along_their_virtual_one() -> None:
    x = np.array(3.0)
    assert reduce("sum", x, (0,)) == 3
    assert reduce("argmax", x, (0,), "int64") == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_not_finite(rng: np.random.Generator, dtype: str) -> None:
    """NaN and infinities come through every path, wherever they stand."""
    kinds = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "prod": np.prod}
    for shape, special in itertools.product(
        [(2100,), (5, 33), (33, 20), (600, 3)],
        [[np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [np.nan, np.inf]],
    ):
        x = np.abs(values(rng, shape, dtype)) + 1
        if len(shape) == 1:
            x /= 2
        for value in special:
            x[tuple(rng.integers(0, shape))] = value
        for dims in subsets(len(shape))[1:]:
            for kind, numpy in kinds.items():
                with np.errstate(all="ignore"):
                    expected = numpy(x.astype("float64"), axis=dims)
                if kind == "prod":
                    np.testing.assert_array_equal(
                        np.isnan(reduce(kind, x, dims)), np.isnan(expected)
                    )
                else:
                    close(reduce(kind, x, dims), expected, dtype, 1e4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logsumexp_of_infinities(dtype: str) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf], [inf, 1], [inf, -inf], [nan, inf], [1000, 1000]], dtype)
    expected = [-inf, inf, inf, nan, 1000 + np.log(2)]
    close(reduce("logsumexp", x, (1,)), np.array(expected), dtype)
    close(reduce("logsumexp", np.ascontiguousarray(x.T), (0,)), np.array(expected), dtype)


# Accuracy -----------------------------------------------------------------------------------------
def test_ten_million_tenths() -> None:
    x = np.full(10_000_000, 0.1, "float32")
    exact = float(np.float32(0.1)) * x.size
    assert abs(float(reduce("sum", x, (0,))) - exact) / exact < 2e-7
    assert abs(float(reduce("mean", x, (0,))) - float(np.float32(0.1))) < 2e-8
    columns = x.reshape(-1, 10)
    assert np.all(abs(reduce("sum", columns, (0,)) - exact / 10) / exact < 2e-7)
    assert abs(float(reduce("sum", x[::2], (0,))) - exact / 2) / exact < 2e-7


def test_float64_sums_are_compensated(rng: np.random.Generator) -> None:
    """The error stays at a few ulp of the sum of magnitudes, whatever the length."""
    from math import fsum

    x = rng.uniform(0, 1, 1_000_000) * 10.0 ** rng.integers(-8, 8, 1_000_000)
    exact = fsum(x)
    assert abs(float(reduce("sum", x, (0,))) - exact) <= 4 * np.spacing(exact)
    columns = x.reshape(-1, 100)
    exacts = np.array([fsum(c) for c in columns.T])
    assert np.all(abs(reduce("sum", columns, (0,)) - exacts) <= 40 * np.spacing(exacts))


# Indices ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", ["max", "min"])
def test_where_the_extreme_is(rng: np.random.Generator, dtype: str, name: str) -> None:
    arg = getattr(np, f"arg{name}")
    for x in views(rng, dtype):
        if not x.size:
            continue
        every = tuple(range(x.ndim))
        cases = [x]
        if dtype in FLOATS and x.flags.writeable and x.size > 5:
            with_nan = x.copy(order="K")
            with_nan[tuple(rng.integers(0, x.shape, (3, x.ndim)).T)] = np.nan
            cases.append(with_nan)
        for case in cases:
            assert reduce(f"arg{name}", case, every, "int64") == arg(case)
            for d in every:
                expected = arg(case, axis=d)
                found, where = reduce(name, case, (d,), dtype, "int64")
                np.testing.assert_array_equal(where, expected)
                np.testing.assert_array_equal(
                    found, np.take_along_axis(case, np.expand_dims(expected, d), d).squeeze(d)
                )
                alone = reduce(f"arg{name}", case, (d,), "int64", keepdim=True)
                np.testing.assert_array_equal(alone.squeeze(d), expected)


def test_flat_index_is_row_major_whatever_the_strides(rng: np.random.Generator) -> None:
    for x in (values(rng, (300, 1000), "float32").T, values(rng, (40, 50, 60), "int8")[:, ::2].T):
        every = tuple(range(x.ndim))
        assert reduce("argmax", x, every, "int64") == np.argmax(x)
        assert reduce("argmin", x, every, "int64") == np.argmin(x)


def test_first_of_equals_across_chunks() -> None:
    x = np.zeros(300_001, "float32")
    assert reduce("argmax", x, (0,), "int64") == 0
    x[[150_000, 299_999, 300_000]] = 1
    assert reduce("argmax", x, (0,), "int64") == 150_000
    x[[299_998, 300_000]] = np.nan
    assert reduce("argmax", x, (0,), "int64") == 299_998
    assert reduce("argmin", x, (0,), "int64") == 299_998


def test_empty_extreme_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        reduce("argmax", np.zeros((3, 0), "float32"), (1,), "int64")


# Lines --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(rng: np.random.Generator, dtype: str) -> None:
    for x in views(rng, dtype):
        for d in range(max(x.ndim, 1)):
            if x.ndim == 0 or x.shape[d] == 0:
                continue
            wide = x.astype("float64") * 1.0
            shifted = wide - wide.max(axis=d, keepdims=True)
            logs = shifted - np.log(np.exp(shifted).sum(axis=d, keepdims=True))
            soft, log_soft = along("softmax", [x], d), along("log_softmax", [x], d)
            close(soft, np.exp(logs), dtype, 0.5)
            close(log_soft, logs, dtype)
            g = rng.uniform(-1, 1, x.shape[::-1]).astype(dtype).T
            total = (g.astype("float64") * soft).sum(axis=d, keepdims=True)
            close(along("softmax_backward", [g, soft], d), soft * (g - total), dtype)
            total = g.astype("float64").sum(axis=d, keepdims=True)
            expected = g - np.exp(log_soft.astype("float64")) * total
            close(along("log_softmax_backward", [g, log_soft], d), expected, dtype, 10)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_of_large_and_infinite(dtype: str) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[1000, 0, -1000], [-inf, 0, 0], [-inf] * 3, [nan, 0, 1], [inf, 0, 1]], dtype)
    expected = np.array([[1, 0, 0], [0, 0.5, 0.5], [nan] * 3, [nan] * 3, [nan, 0, 0]])
    close(along("softmax", [x], 1)[:4], expected[:4], dtype)
    assert np.isnan(along("softmax", [x], 1)[4, 0])
    wide = np.ascontiguousarray(np.repeat(x.T, 4, axis=1))
    close(along("softmax", [wide], 0)[:, ::4].T[:4], expected[:4], dtype)


def test_softmax_in_place(rng: np.random.Generator) -> None:
    for d in (0, 1):
        x = values(rng, (50, 60), "float32")
        expected = along("softmax", [x], d)
        run(reduction.plan_along("softmax", [layout_of(x)], d, layout_of(x)), [x, x])
        close(x, expected.astype("float64"), "float32", 0)


@pytest.mark.parametrize("dtype", ALL)
def test_scans(rng: np.random.Generator, dtype: str) -> None:
    out = dtype if dtype in FLOATS else "int64"
    wide = "float64" if dtype in FLOATS else "int64"
    for x in views(rng, dtype):
        for d in range(x.ndim):
            scale = np.abs(x.astype(wide)).sum() + 1
            close(along("cumsum", [x], d, out), x.astype(wide).cumsum(d), out, scale)
            product = x.astype(wide).cumprod(d)
            if dtype in FLOATS:
                close(along("cumprod", [x], d, out), product, out)
                with np.errstate(all="ignore"):
                    expected = np.logaddexp.accumulate(x.astype(wide), axis=d) if x.size else x
                close(along("logcumsumexp", [x], d, out), expected, out)
            else:
                np.testing.assert_array_equal(along("cumprod", [x], d, out), product)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(rng: np.random.Generator, dtype: str, name: str) -> None:
    """The last of equal elements is meant, and the last NaN, as in PyTorch."""
    better = np.greater_equal if name == "cummax" else np.less_equal
    for x in views(rng, dtype):
        if not x.size or not x.ndim:
            continue
        if dtype in FLOATS and x.flags.writeable:
            x = x.copy(order="K")
            x[tuple(rng.integers(0, x.shape))] = np.nan
        for d in range(x.ndim):
            found, where = along(name, [x], d, dtype, "int64")
            lines = np.moveaxis(x, d, 0)
            best, at = lines[0].copy(), np.zeros(lines.shape[1:], "int64")
            for i, line in enumerate(lines):
                take = better(line, best) | np.isnan(line)
                best, at = np.where(take, line, best), np.where(take, i, at)
                np.testing.assert_array_equal(np.moveaxis(found, d, 0)[i], best)
                np.testing.assert_array_equal(np.moveaxis(where, d, 0)[i], at)


# Threads ------------------------------------------------------------------------------------------
@pytest.fixture
def two_threads() -> Any:
    before = threads.get_num_threads()
    if threads.available() < 2:
        pytest.skip("needs two threads")
    yield threads.set_num_threads
    threads.set_num_threads(before)


def test_bits_do_not_depend_on_threads(
    rng: np.random.Generator, two_threads: Callable[[int], None]
) -> None:
    x = rng.standard_normal((700, 900)).astype("float32")
    tall = rng.standard_normal((100_003, 5))
    line = rng.standard_normal(777_777)
    for a in (x, x.T, tall, line, line.astype("float32"), line[::2]):
        every = tuple(range(a.ndim))
        for dims in subsets(a.ndim)[1:]:
            for kind in ("sum", "amax", "prod", "logsumexp", "any"):
                d = "bool" if kind == "any" else a.dtype
                results = []
                for count in (1, 2):
                    two_threads(count)
                    results.append(reduce(kind, a, dims, d))
                assert results[0].tobytes() == results[1].tobytes()
        for d in every:
            for kind in ("softmax", "cumsum"):
                lines = []
                for count in (1, 2):
                    two_threads(count)
                    lines.append(along(kind, [a], d))
                assert lines[0].tobytes() == lines[1].tobytes()


# PyTorch ------------------------------------------------------------------------------------------
@pytest.mark.oracle
def test_as_torch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    x = rng.integers(-2, 3, (40, 60)).astype("float32")
    x[3, 5] = x[7, 9] = np.nan
    for a in (x, x.T, x[::2, ::3]):
        t = torch.from_numpy(a)
        for d in (0, 1):
            for kind in ("max", "min"):
                found, where = reduce(kind, a, (d,), "float32", "int64")
                theirs = getattr(t, kind)(d)
                np.testing.assert_array_equal(found, theirs.values.numpy())
                np.testing.assert_array_equal(where, theirs.indices.numpy())
                found, where = along(f"cum{kind}", [a], d, "float32", "int64")
                theirs = getattr(t, f"cum{kind}")(d)
                np.testing.assert_array_equal(found, theirs.values.numpy())
                np.testing.assert_array_equal(where, theirs.indices.numpy())
    tenths = np.full(10_000_000, 0.1, "float32")
    exact = float(np.float32(0.1)) * tenths.size
    theirs = abs(float(torch.from_numpy(tenths).sum()) - exact)
    assert abs(float(reduce("sum", tenths, (0,))) - exact) <= theirs
