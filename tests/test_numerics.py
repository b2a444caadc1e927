"""Corner values: zeros, infinities, NaN, reductions of nothing and of one element, overflow.

PyTorch decides what is right; where no oracle is needed the value is written down too.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

PLAIN = {"requires_grad": False}
INF, NAN = math.inf, math.nan


def same(got: Any, expected: list[float]) -> bool:
    return all(
        (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
        for a, b in zip(got.tolist(), expected, strict=True)
    )


# Powers and products ------------------------------------------------------------------------------
BASES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, INF, -INF, NAN]


def test_powers_of_corner_values() -> None:
    column = [[x] for x in BASES]
    check(lambda lib, x, y: lib.pow(x, y), arg(column, **PLAIN), arg(BASES, **PLAIN))
    assert jg.tensor(0.0).pow(0).item() == 1 == jg.tensor(NAN).pow(0).item()
    for exponent in (0, 0.5, 1, 2, 3, -1):
        check(lambda lib, x, p=exponent: x**p, [0.0, 1.0, 2.0], grad=1)
        check(lambda lib, x, b=exponent: lib.pow(float(abs(b)), x), [0.0, 1.0, 2.0], grad=1)
    check(lambda lib, x, y: lib.pow(x, y), [0.0, 0.0, 0.0], [0.0, 1.0, 2.0], grad=1)


def test_zero_times_infinity() -> None:
    assert same(jg.tensor([0.0, -0.0, INF]) * jg.tensor([INF, INF, 0.0]), [NAN, NAN, NAN])
    check(lambda lib, x, y: x * y, [0.0, INF, -0.0], [INF, 0.0, -INF])
    check(lambda lib, x: lib.xlogy(x, x), [0.0, 1.0, INF], grad=1)
    check(lambda lib, x: x.prod(), [0.0, 2.0, 0.0, 3.0])
    check(lambda lib, x: x.cumprod(0), [2.0, 0.0, 3.0, 0.0], grad=1)


# Norms and spreads --------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF])
def test_norm_of_zeros(p: float) -> None:
    check(lambda lib, x: lib.linalg.vector_norm(x, p), [0.0, 0.0, 0.0], grad=1)
    check(lambda lib, x: x.norm(p, 0), [[0.0, 1.0], [0.0, 2.0]], grad=1)


def test_gradient_of_the_norm_of_zeros_is_zero() -> None:
    x = jg.zeros(3, requires_grad=True)
    x.norm().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0, 0.0]
    check(lambda lib, x: lib.nn.functional.normalize(x, dim=0), [0.0, 0.0], grad=1)
    check(lambda lib, x, y: lib.cdist(x, y), [[1.0, 2.0]], [[1.0, 2.0], [0.0, 0.0]], grad=1)


def test_spread_of_one_element_and_of_equal_ones() -> None:
    for name in ("var", "std"):
        warns = {"warns": "degrees of freedom is <= 0"}
        check(lambda lib, x, n=name: getattr(x, n)(), [3.0], grad=1, **warns)
        check(lambda lib, x, n=name: getattr(x, n)(correction=0), [3.0], grad=1)
        check(lambda lib, x, n=name: getattr(x, n)(1), [[3.0], [4.0]], grad=1, **warns)
        check(lambda lib, x, n=name: getattr(x, n)(), [2.0, 2.0, 2.0], grad=1)


# Exponentials -------------------------------------------------------------------------------------
LINES = [[-INF, -INF], [INF, INF], [INF, 1.0], [-INF, 1.0], [NAN, 1.0], [1e308, 1e308]]


@pytest.mark.parametrize("line", LINES, ids=str)
def test_sums_of_exponentials(line: list[float]) -> None:
    check(lambda lib, x: x.logsumexp(0), arg(line, **PLAIN))
    check(lambda lib, x: x.softmax(0), line, grad=1)
    check(lambda lib, x: x.log_softmax(0), line, grad=1)
    check(lambda lib, x: x.logcumsumexp(0), arg(line, **PLAIN))
    check(lambda lib, x: lib.logaddexp(x[0], x[1]), arg(line, **PLAIN))


def test_logsumexp_of_nothing_finite_has_a_gradient_of_zero_or_nan() -> None:
    check(lambda lib, x: x.logsumexp(1), [[-INF, 1.0], [0.0, 0.0]], grad=1)
    assert jg.logsumexp(jg.tensor([-INF, -INF]), 0).item() == -INF


# Nothing to reduce --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", "sum prod mean nansum nanmean all any count_nonzero logsumexp".split()
)
def test_reductions_of_nothing(name: str) -> None:
    if name != "logsumexp":
        check(lambda lib, x: getattr(lib, name)(x), arg((0,), **PLAIN))
    check(lambda lib, x: getattr(lib, name)(x, 1), arg((2, 0), **PLAIN))
    check(lambda lib, x: getattr(lib, name)(x, 0), arg((0, 2), **PLAIN))
    check(lambda lib, x: getattr(lib, name)(x, 1), arg((0, 2), **PLAIN))


@pytest.mark.parametrize("name", "max min amax amin argmax argmin median quantile".split())
def test_reductions_that_need_an_element(name: str) -> None:
    extra = (0.5,) if name == "quantile" else ()
    if name != "median":
        check_raises(lambda lib, x: getattr(lib, name)(x, *extra), arg((0,), **PLAIN), match="")
    dims = (1,)
    check_raises(lambda lib, x: getattr(lib, name)(x, *extra, *dims), arg((2, 0), **PLAIN),
                 match="")  # fmt: skip


# NaN ----------------------------------------------------------------------------------------------
GAPS = [[1.0, NAN, 0.5], [NAN, NAN, 2.0], [3.0, 1.0, 2.0]]


@pytest.mark.parametrize(
    "name", "max min amax amin argmax argmin median nanmedian cummax cummin sort argsort".split()
)
def test_nan_comes_through(name: str) -> None:
    check(lambda lib, x: getattr(x, name)(1), arg(GAPS, **PLAIN))


def test_nan_comes_through_elementwise() -> None:
    rows = arg([1.0, NAN, NAN], **PLAIN), arg([NAN, 1.0, NAN], **PLAIN)
    for name in ("maximum", "minimum", "fmax", "fmin", "pow", "fmod", "remainder", "atan2"):
        check(lambda lib, x, y, n=name: getattr(lib, n)(x, y), *rows)
    for name in ("relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu", "hardsigmoid", "gelu"):
        # PyTorch's gradients there depend on whether vector code was used, save for relu.
        order = int(name == "relu")
        check(lambda lib, x, n=name: getattr(lib.nn.functional, n)(x), [NAN, 1.0, -1.0],
              grad=order, rtol=1e-6, atol=1e-7)  # fmt: skip
    check(lambda lib, x: x.clamp(0, 1), [NAN, 2.0, -1.0], grad=1)
    check(lambda lib, x: lib.sign(x), arg([NAN, -0.0, 2.0], **PLAIN))


# Integers -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integers_wrap(dtype: str) -> None:
    low = 0 if dtype == "uint8" else -(2 ** (int(dtype[3:]) - 1))
    high = 255 if dtype == "uint8" else -low - 1
    x, y = arg([low, high, high, 3], dtype=dtype, **PLAIN), arg([1, 1, 2, 5], dtype=dtype, **PLAIN)
    check(lambda lib, x, y: (x + y, x - y, x * y, -x, x.abs(), x**2), x, y)
    check(lambda lib, x, y: (x.sum(), x.cumsum(0), x.prod(), x << 1), x, y)
    assert (jg.tensor([high], dtype=getattr(jg, dtype)) + 1).item() == low


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integer_division_by_zero(name: str) -> None:
    check_raises(
        lambda lib, x, y: getattr(lib, name)(x, y), arg([1, -1], dtype="int64", **PLAIN),
        arg([0, 1], dtype="int64", **PLAIN), match="ZeroDivisionError",
    )  # fmt: skip


SIGNS = [7.0, -7.0, 0.0, -0.0, INF, -INF, NAN]


@pytest.mark.parametrize("name", ["div", "floor_divide", "remainder", "fmod"])
def test_division_of_floats_and_its_signs(name: str) -> None:
    column = arg([[x] for x in SIGNS], **PLAIN)
    divisors = arg([3.0, -3.0, 0.0, -0.0, INF, -INF, NAN], **PLAIN)
    check(lambda lib, x, y: getattr(lib, name)(x, y), column, divisors, exact=True)
    whole = arg([7, -7, 0], dtype="int64", **PLAIN), arg([[3], [-3]], dtype="int64", **PLAIN)
    check(lambda lib, x, y: getattr(lib, name)(x, y), *whole)


def test_integers_divide_to_floats() -> None:
    check(lambda lib, x: x / 0, arg([1, -1, 0], dtype="int64", **PLAIN))
    for mode in ("floor", "trunc"):
        check(lambda lib, x, m=mode: lib.div(x, 2, rounding_mode=m),
              arg([7, -7, 1, -1], dtype="int64", **PLAIN))  # fmt: skip


def test_a_number_on_the_left() -> None:
    x = arg([1, 2, 3], dtype="int64", **PLAIN)
    for name in ("remainder", "bitwise_and", "bitwise_or", "bitwise_left_shift", "pow"):
        check(lambda lib, x, n=name: getattr(lib, n)(5, x), x)
    check_raises(lambda lib, x: lib.pow(2, 3), x, match="pow()")


def test_the_least_integer_divided_by_minus_one_wraps() -> None:
    low = jg.tensor([-(2**63)])
    assert (low // -1).item() == -(2**63)
    assert (low % -1).item() == 0


# Rows of numbers ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "bounds",
    [(0, 1, 0.1), (1, 4, 0.1), (0, 0.3, 0.1), (0, 1, 1 / 3), (5, 0, -0.7), (1e8, 1e8 + 3, 0.5),
     (0, -1, -0.1), (0.1, 0.7, 0.2), (3, 3, 1), (0, 10, 3)],
)  # fmt: skip
def test_rounding_of_arange(bounds: tuple[float, ...]) -> None:
    for dtype in ("float32", "float64"):
        # As many elements; the last digit of PyTorch's depends on the width of its vectors.
        check(lambda lib, d=dtype: lib.arange(*bounds, dtype=getattr(lib, d)), rtol=1e-7)
    check(lambda lib: lib.arange(*bounds), rtol=1e-6)


def test_bad_ranges() -> None:
    for bounds in ((0, 1, 0), (0, 1, -1), (0, INF), (NAN, 1)):
        check_raises(lambda lib, b=bounds: lib.arange(*b), match="")
    check(lambda lib: (lib.linspace(0, 1, 1), lib.linspace(3, -1, 5), lib.linspace(0, 1, 0)))


# Sums ---------------------------------------------------------------------------------------------
def test_a_long_sum_of_float32_keeps_its_digits() -> None:
    x = jg.full((3_000_001,), 0.1)
    exact = 3_000_001 * float(jg.tensor(0.1))
    assert abs(x.sum().item() / exact - 1) < 1e-6
    assert abs(x.reshape(-1, 1).expand(-1, 2).sum(0)[1].item() / exact - 1) < 1e-6


def test_where_of_a_branch_not_taken_leaks_as_in_torch() -> None:
    check(lambda lib, x: lib.where(x > 0, x.sqrt(), 0 * x), [0.0, 4.0], grad=1)
