"""Reductions, scans and softmax against torch: dims, dtypes, layouts, special values, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.oracle.compare import check, check_raises
from tests.oracle.inputs import arg

LOOSE = {"rtol": 1e-5, "atol": 1e-6}
TIGHT = {"rtol": 1e-9, "atol": 1e-10}
DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float32", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")

# name: the dtypes it takes, and whether `dim` may be a tuple.
REDUCTIONS: dict[str, tuple[tuple[str, ...], bool]] = {
    "sum": (DTYPES, True),
    "nansum": (DTYPES, True),
    "mean": (("float32", "float64"), True),
    "nanmean": (("float32", "float64"), True),
    "prod": (DTYPES, False),
    "amax": (DTYPES, True),
    "amin": (DTYPES, True),
    "argmax": ((*INTEGERS, "float32", "float64"), False),
    "argmin": ((*INTEGERS, "float32", "float64"), False),
    "var": (("float32", "float64"), True),
    "std": (("float32", "float64"), True),
    "any": (DTYPES, True),
    "all": (DTYPES, True),
    "norm": (("float32", "float64"), True),
    "logsumexp": (("float32", "float64"), True),
    "count_nonzero": (DTYPES, True),
}
DIFFERENTIABLE = {n for n in REDUCTIONS if not n.startswith(("arg", "any", "all", "count"))}
PLAIN = [n for n in REDUCTIONS if n not in ("norm", "count_nonzero")]  # a keepdim, dim second
SHAPE = (3, 1, 4, 2)
DIMS: tuple[Any, ...] = (0, 1, -1, 2, (0,), (0, 2), (-1, 1), (0, 1, 2, 3))


def call(lib: Any, name: str, x: Any, dim: Any, keepdim: bool = False) -> Any:
    if name == "norm":
        return lib.norm(x, 2, dim=dim, keepdim=keepdim)
    if name == "count_nonzero":
        return lib.count_nonzero(x, dim=dim)
    return getattr(lib, name)(x, dim=dim, keepdim=keepdim)


def values(shape: tuple[int, ...], dtype: str, **settings: Any) -> Any:
    low, high = {"bool": (0, 1), "uint8": (0, 9)}.get(dtype, (-3, 3))
    return arg(shape, dtype=dtype, low=low, high=high, **settings)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", DIMS, ids=str)
def test_dims(name: str, dim: Any) -> None:
    if isinstance(dim, tuple) and not REDUCTIONS[name][1]:
        pytest.skip("one dimension at a time")
    few = "degrees of freedom" if name in ("var", "std") and dim == 1 else None
    spec = arg(SHAPE, layout="transposed")
    check(lambda lib, x: call(lib, name, x, dim), SHAPE, warns=few, **TIGHT)
    if name != "count_nonzero":
        check(lambda lib, x: call(lib, name, x, dim, True), spec, warns=few, **TIGHT)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(name: str, dtype: str) -> None:
    if dtype not in REDUCTIONS[name][0]:
        pytest.skip("not for this dtype")
    grad = 1 if "float" in dtype and name in DIFFERENTIABLE else 0
    spec = values((2, 5, 3), dtype)
    check(lambda lib, x: call(lib, name, x, 1), spec, grad=grad, **LOOSE)
    if name != "logsumexp":
        check(lambda lib, x: getattr(lib, name)(x), spec, grad=grad, **LOOSE)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gapped", "offset", "expanded"])
def test_layouts(name: str, layout: str) -> None:
    for dim in (0, 2):
        check(lambda lib, x, d=dim: call(lib, name, x, d), arg((3, 4, 5), layout=layout), **TIGHT)
    if name != "logsumexp":
        check(lambda lib, x: getattr(lib, name)(x), arg((3, 4, 5), layout=layout), **TIGHT)
        check(lambda lib, x: getattr(x, name)(), arg((3, 4, 5), layout=layout), **TIGHT)


EMPTY_IS_AN_ERROR = ("amax", "amin", "argmax", "argmin")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_little(name: str) -> None:
    whole = [] if name == "logsumexp" else [lambda lib, x: getattr(lib, name)(x)]
    for fn in (*whole, lambda lib, x: call(lib, name, x, 0), lambda lib, x: call(lib, name, x, -1)):
        few = name in ("var", "std")
        check(fn, (), warns="degrees of freedom" if few else None, grad=1 if few else 2, **TIGHT)
    # Over a dimension that is there, of a tensor that has no elements (var would warn in torch).
    if name not in ("var", "std"):
        check(lambda lib, x: call(lib, name, x, 1), (0, 3), **TIGHT)
        check(lambda lib, x: call(lib, name, x, 0), (3, 0), **TIGHT)
    if name in EMPTY_IS_AN_ERROR:
        kind = IndexError if name.startswith("a") else RuntimeError
        check_raises(lambda lib, x: call(lib, name, x, 0), (0, 3), match="reduction dim", kind=kind)
        check_raises(lambda lib, x: getattr(lib, name)(x), (0, 3), match="reduction dim")
    elif name not in ("var", "std"):
        check(lambda lib, x: call(lib, name, x, 0), (0, 3), **TIGHT)
        if whole:
            check(whole[0], (0, 3), **TIGHT)
    else:
        check(lambda lib, x: call(lib, name, x, 0), (0, 3), warns="degrees of freedom", **TIGHT)


@pytest.mark.parametrize("name", ["sum", "nansum", "mean", "prod", "cumsum", "cumprod"])
def test_dtype_argument(name: str) -> None:
    for source, target in (("int32", "float64"), ("float32", "float64"), ("int64", "float32"),
                           ("bool", "float32"), ("float64", "float32")):  # fmt: skip

        def fn(lib: Any, x: Any, d: str = target) -> Any:
            return getattr(lib, name)(x, 1, dtype=getattr(lib, d))

        check(fn, values((2, 3), source), **LOOSE)
    if name not in ("mean", "nansum"):
        check(lambda lib, x: getattr(lib, name)(x, 1, dtype=lib.int32), values((2, 3), "int64"))


@pytest.mark.parametrize("name", PLAIN)
def test_out(name: str) -> None:
    def fn(lib: Any, x: Any) -> Any:
        expected = getattr(lib, name)(x, dim=1, keepdim=True)
        out = lib.empty_like(expected)
        assert getattr(lib, name)(x, dim=1, keepdim=True, out=out) is out
        return out, out._version, getattr(lib, name)(x, dim=0, out=lib.empty(0, dtype=out.dtype))

    if name in ("nanmean",):
        pytest.skip("composite in torch, whose versions differ")
    check(fn, arg((3, 4), requires_grad=False), **TIGHT)
    check_raises(
        lambda lib, x: getattr(lib, name)(x, dim=1, out=lib.empty(3, dtype=x.dtype)),
        (3, 4), match="automatic differentiation" if name in DIFFERENTIABLE else "",
    ) if name in DIFFERENTIABLE else None  # fmt: skip


SPECIAL = [[np.nan, 1.0, 2.0], [np.inf, 1.0, -np.inf], [-np.inf] * 3, [np.inf] * 3,
           [0.0, -0.0, 0.0], [2.0, 2.0, -2.0], [0.0, 3.0, 0.0], [1.0, 0.0, 4.0]]  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_special_values(name: str) -> None:
    check(lambda lib, x: call(lib, name, x, 1), arg(SPECIAL), grad=1, **TIGHT)
    if name != "logsumexp":
        check(lambda lib, x: getattr(lib, name)(x), arg(SPECIAL), grad=1, **TIGHT)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "norm inf", "aminmax"])
def test_ties_share_the_gradient(name: str) -> None:
    rows = [[1.0, 3.0, 3.0], [3.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    if name == "norm inf":
        check(lambda lib, x: lib.norm(x, float("inf"), 1), arg(rows), **TIGHT)
        return
    fn = {"aminmax": lambda lib, x: lib.aminmax(x)}.get(name, lambda lib, x: getattr(lib, name)(x))
    check(fn, arg(rows), **TIGHT)
    check(lambda lib, x: tuple(getattr(lib, name)(x, dim=1)), arg(rows), **TIGHT)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_extremes_with_indices(name: str, dtype: str) -> None:
    grad = 2 if dtype == "float64" else 0
    for dim, keepdim in ((0, False), (1, True), (-1, False)):

        def fn(lib: Any, x: Any, d: int = dim, k: bool = keepdim) -> Any:
            result = getattr(lib, name)(x, d, k)
            values, indices = result
            assert values is result.values
            assert indices is result[1]
            return result, getattr(x, name)(dim=d, keepdim=k).indices

        check(fn, values((3, 4, 2), dtype), grad=grad)
    check(lambda lib, x: getattr(lib, name)(x, 0), (), grad=1)
    check(lambda lib, x: getattr(lib, name)(x, 1), (0, 3), grad=1)
    check(lambda lib, x, y: getattr(lib, name)(x, y), values((3, 1), dtype), values((4,), dtype),
          grad=grad)  # fmt: skip


def test_return_types() -> None:
    def texts(lib: Any, x: Any) -> Any:
        named = (lib.max(x, 0), lib.min(x, 1), lib.aminmax(x))
        return [repr(t) for t in named], [type(t).__name__ for t in named], named[2].min, \
            named[0].values, isinstance(named[0], tuple)  # fmt: skip

    check(texts, arg((2, 3), requires_grad=False))

    def out(lib: Any, x: Any) -> Any:
        values, indices = lib.empty(0, dtype=x.dtype), lib.empty(0, dtype=lib.int64)
        result = lib.max(x, 0, out=(values, indices))
        return result.values is values, result.indices is indices, values, indices

    check(out, arg((2, 3), requires_grad=False))


MOMENTS: dict[str, Any] = {
    "unbiased": lambda f, x: f(x, unbiased=False),
    "unbiased positional": lambda f, x: f(x, False),
    "dim unbiased": lambda f, x: f(x, 1, False),
    "dim unbiased keepdim": lambda f, x: f(x, 1, True, True),
    "dims": lambda f, x: f(x, (0, 1), keepdim=True),
    "correction 0": lambda f, x: f(x, 0, correction=0),
    "correction 2": lambda f, x: f(x, dim=1, correction=2),
    "correction all": lambda f, x: f(x, correction=0),
    "fraction": lambda f, x: f(x, dim=1, correction=0.5),
}


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.parametrize("case", MOMENTS)
def test_moments(name: str, case: str) -> None:
    check(lambda lib, x: MOMENTS[case](getattr(lib, name), x), (3, 4), **TIGHT)


@pytest.mark.parametrize("name", ["var", "std"])
def test_moments_of_one_element(name: str) -> None:
    check(lambda lib, x: getattr(lib, name)(x, 0), (1, 3), warns="degrees of freedom", grad=1)
    check(lambda lib, x: getattr(lib, name)(x, 0, correction=0), (1, 3), grad=1)
    check(lambda lib, x: getattr(lib, name)(x, 1), arg([[2.0, 2.0, 2.0]]), grad=1)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, float("inf"), -float("inf"), -1, "fro"])
def test_norms(p: Any) -> None:
    check(lambda lib, x: lib.norm(x, p), (3, 4), **TIGHT)
    check(lambda lib, x: x.norm(p, dim=1), (3, 4), **TIGHT)
    check(lambda lib, x: lib.norm(x, p, dim=(0, 1), keepdim=True), (3, 4), **TIGHT)
    if p != "fro":
        check(lambda lib, x: lib.norm(x, p, 1), arg([[0.0, 0.0], [0.0, 2.0]]), grad=1, **TIGHT)
        check(lambda lib, x: lib.linalg.vector_norm(x, p), (3, 4), **TIGHT)


def test_products_with_zeros() -> None:
    for rows in ([[1.0, 2.0, 3.0]], [[0.0, 2.0, 3.0]], [[0.0, 2.0, 0.0]], [[0.0, 0.0, 0.0]]):
        check(lambda lib, x: x.prod(1), arg(rows), **TIGHT)
        check(lambda lib, x: x.prod(), arg(rows), **TIGHT)
    columns = [[0.0, 2.0], [3.0, 0.0], [1.0, 4.0]]
    check(lambda lib, x: x.prod(0, keepdim=True), arg(columns), **TIGHT)
    check(lambda lib, x: x.prod(0), (1, 3), **TIGHT)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str) -> None:
    def f(lib: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(lib, name)(x, *args, **kwargs)

    for dim in (0, 1, -1):
        check(lambda lib, x, d=dim: f(lib, x, d), (3, 4, 2), **TIGHT)
    check(lambda lib, x: f(lib, x, dim=0), (), **TIGHT)
    check(lambda lib, x: f(lib, x, dim=1), (2, 0), **TIGHT)
    check(lambda lib, x: f(lib, x, 1), arg((3, 4), dtype="float32"), **LOOSE)
    check(lambda lib, x: f(lib, x, 1, dtype=lib.float64), arg((3, 4), dtype="float32"), **LOOSE)
    check(lambda lib, x: f(lib, x, 1, dtype=lib.float32), arg((3, 4), dtype="int64"), **LOOSE)
    check(lambda lib, x: getattr(x, name)(1), arg((3, 4), layout="expanded"), **TIGHT)
    check(lambda lib, x: getattr(lib.nn.functional, name)(x, dim=1), (3, 4), **TIGHT)
    rows = [r for r in SPECIAL if name == "softmax" or not np.isposinf(r).any()]
    check(lambda lib, x: f(lib, x, 1), arg(rows), grad=1, **TIGHT)
    check(lambda lib, x: f(lib, x, 1), arg([[1000.0, 0.0], [-1000.0, 0.0]]), **TIGHT)
    check_raises(lambda lib, x: f(lib, x.long(), 1), (3, 4), match="not implemented for 'Long'")
    check_raises(lambda lib, x: f(lib, x, 2), (3, 4), match="Dimension out of range")


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans(name: str) -> None:
    for dim in (0, 1, -1):
        check(lambda lib, x, d=dim: getattr(lib, name)(x, d), (3, 4, 2), **TIGHT)
    for dtype in DTYPES:
        check(lambda lib, x: getattr(x, name)(1), values((2, 3), dtype), grad=0, **LOOSE)
    check(lambda lib, x: getattr(lib, name)(x, 0), (), **TIGHT)
    check(lambda lib, x: getattr(lib, name)(x, 0), (0, 3), **TIGHT)
    check(lambda lib, x: getattr(lib, name)(x, 1), arg((3, 4), layout="expanded"), **TIGHT)
    check(lambda lib, x: getattr(lib, name)(x, 0), arg([2.0, np.nan, 1.0, np.inf]), grad=0, **TIGHT)

    def out(lib: Any, x: Any) -> Any:
        return getattr(lib, name)(x, 0, out=lib.empty_like(x))

    check(out, arg((3, 2), requires_grad=False), **TIGHT)
    check_raises(lambda lib, x: getattr(lib, name)(x, 2), (3, 4), match="Dimension out of range")


def test_cumprod_with_zeros() -> None:
    for row in ([2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 0.0]):
        check(lambda lib, x: x.cumprod(0), arg(row), **TIGHT)
    check(lambda lib, x: x.cumprod(1), arg([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]]), **TIGHT)


def test_logsumexp_does_not_overflow() -> None:
    check(lambda lib, x: lib.logsumexp(x, 1), arg([[1000.0, 1000.0], [-1000.0, -1001.0]]), **TIGHT)
    check(lambda lib, x: lib.logsumexp(x, (0, 1)), (3, 4), **TIGHT)
    check(lambda lib, x: lib.logsumexp(x, 1), arg((2, 3), dtype="int64"), **LOOSE)


def test_sum_to_size() -> None:
    check(lambda lib, x: x.sum_to_size(3, 1), (2, 3, 4), **TIGHT)
    check(lambda lib, x: x.sum_to_size((2, 3, 4)) is x, (2, 3, 4))
    check_raises(lambda lib, x: x.sum_to_size(2, 2), (2, 3), match="is not expandable to size")


ERRORS: dict[str, tuple[Any, Any, str]] = {
    "range": (lambda lib, x: x.sum(2), (2, 3), "Dimension out of range"),
    "range of 0-d": (lambda lib, x: x.sum(1), (), "Dimension out of range"),
    "twice": (lambda lib, x: x.sum((0, 0)), (2, 3), "appears multiple times in the list of dims"),
    "twice negative": (lambda lib, x: x.amax((1, -1)), (2, 3), "appears multiple times"),
    "mean of ints": (lambda lib, x: x.long().mean(), (3,), "could not infer output dtype"),
    "mean to int": (lambda lib, x: x.mean(dtype=lib.int64), (3,), "could not infer output dtype"),
    "var of ints": (lambda lib, x: x.long().var(), (3,), "only support floating point"),
    "norm of ints": (lambda lib, x: x.long().norm(), (3,), "floating point"),
    "max of nothing": (lambda lib, x: x.max(), (0,), "max(): Expected reduction dim to be"),
    "max dim of nothing": (lambda lib, x: x.max(0), (0, 2), "Expected reduction dim 0 to have"),
    "argmax of nothing": (lambda lib, x: x.argmax(), (0,), "argmax(): Expected reduction dim"),
    "max dim str": (lambda lib, x: x.max("a"), (2,), "max()"),
    "max dim float": (lambda lib, x: x.max(1.5), (2,), "max()"),
    "sum str": (lambda lib, x: x.sum("a"), (2,), "sum()"),
    "sum keyword": (lambda lib, x: x.sum(axes=0), (2,), "axes"),
    "sum of list": (lambda lib, x: lib.sum([1, 2]), (2,), "sum()"),
    "softmax range": (lambda lib, x: x.softmax(3), (2, 2), "Dimension out of range"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fn, shape, phrase = ERRORS[name]
    check_raises(fn, shape, match=phrase)


def test_numpy_names() -> None:
    check(lambda lib, x: (x.sum(axis=0), lib.mean(x, axis=1), x.argmax(axis=1)), (2, 3), **TIGHT)
    check(lambda lib, x: (x.max(axis=0), lib.cumsum(x, axis=1), x.prod(axis=0)), (2, 3), **TIGHT)


def test_a_long_float32_sum_is_accurate() -> None:
    check(lambda lib, x: lib.sum(x), arg(np.full(100_000, 0.1, np.float32)), grad=0, rtol=1e-6)
    x = jitgrad.full((10_000_000,), 0.1)
    exact = float(np.float32(0.1)) * 10_000_000
    assert abs(x.sum().item() - exact) <= 0.25  # torch is off by 0.58
    assert abs(x.mean().item() - float(np.float32(0.1))) <= 2e-8
    assert abs(x.reshape(10, -1).t().sum(0).sum().item() - exact) <= 1.0


def test_large_shapes_agree() -> None:
    for shape, dim in (((700, 300), 0), ((700, 300), 1), ((40, 50, 60), 1), ((40, 50, 60), (0, 2))):
        for name in ("sum", "amax", "var", "logsumexp"):
            check(lambda lib, x, n=name, d=dim: getattr(lib, n)(x, d), shape, grad=1, **TIGHT)
