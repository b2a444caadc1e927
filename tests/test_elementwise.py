"""Every elementwise row of the table, tested from what the row says.

Values, dtypes, strides, gradients and second gradients are compared with torch's; the in-place and
``out=`` forms must do what the function does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.dtypes import BOOL, COMPLEX, FLOATING, INTEGER
from jitgrad.ops.table import ELEMENTWISE, Elementwise
from tests.oracle.compare import check, check_raises
from tests.oracle.inputs import arg

# Rows that are parts of a function with more to its signature: how PyTorch spells the same call.
CALLS: dict[str, Any] = {
    "div_floor": lambda lib, a, b: lib.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda lib, a, b: lib.div(a, b, rounding_mode="trunc"),
    "clamp_both": lambda lib, a, low, high: lib.clamp(a, low, high),
    "addcmul": lambda lib, a, b, c, v: lib.addcmul(a, b, c, value=0.7),
    "addcdiv": lambda lib, a, b, c, v: lib.addcdiv(a, b, c, value=0.7),
    "leaky_relu": lambda lib, a, slope: lib.nn.functional.leaky_relu(a, 0.2),
    "silu": lambda lib, a: lib.nn.functional.silu(a),
    "where": lambda lib, c, a, b: lib.where(c > 0, a, b),
    "masked_fill": lambda lib, a, mask, v: lib.masked_fill(a, mask > 0, 0.5),
}
# Activations and losses are parts of nn.functional and tested there.
ROWS = [row for row in ELEMENTWISE.values() if row.method or row.name in CALLS]
# Where torch and jitgrad both are right to a few units, but each with its own.
LOOSE = {"float32": {"rtol": 1e-5, "atol": 1e-5}, "float64": {"rtol": 1e-10, "atol": 1e-10}}
# PyTorch's derivative of digamma is right to 1e-9 only.
ROUGH = {"lgamma", "digamma"}
TENSORS_ONLY = set(
    "atan2 maximum minimum fmax fmin hypot heaviside nextafter logaddexp logaddexp2 gcd lcm "
    "igamma igammac".split()
)
DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool")
CATEGORY = {"bool": BOOL, "uint8": INTEGER, "int32": INTEGER, "int64": INTEGER}
SHAPES = {
    "plain": ((3, 4), (3, 4), (3, 4)),
    "broadcast": ((3, 1, 4), (2, 1), (4,)),
    "empty": ((0, 3), (1, 3), (3,)),
    "scalar": ((), (), ()),
    "mixed": ((2, 3), (), (3,)),
}


def loose(row: Elementwise, dtype: str) -> dict[str, float]:
    if dtype == "float64" and row.name in ROUGH:
        return {"rtol": 1e-8, "atol": 1e-8}
    return LOOSE.get(dtype, {})


def call(row: Elementwise) -> Any:
    return CALLS.get(row.name) or (lambda lib, *xs: getattr(lib, row.name)(*xs))


def inputs(row: Elementwise, shapes: Any, dtype: str, **settings: Any) -> list[Any]:
    low, high = row.domain
    if dtype not in ("float32", "float64"):
        low, high = (1, 5) if dtype != "bool" else (0, 1)
    if not row.grad:
        settings["requires_grad"] = False
    return [
        arg(
            shape,
            dtype=dtype,
            low=low,
            high=high,
            **settings | ({"requires_grad": False} if name in row.underived else {}),
        )
        for name, shape in zip(row.inputs, (*shapes, shapes[0]), strict=False)
    ]


def supported(row: Elementwise, dtype: str) -> bool:
    category = CATEGORY.get(dtype, FLOATING)
    return row.categories[0] <= category <= min(row.categories[1], COMPLEX)


ids = [row.name for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=ids)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_float64_against_torch(row: Elementwise, shapes: Any) -> None:
    if not supported(row, "float64"):
        pytest.skip("no float dtype")
    if row.name == "clamp_both" and shapes is SHAPES["broadcast"]:
        pytest.skip("torch lets bounds broadcast, but not enlarge, the tensor")
    if row.name in ("deg2rad", "rad2deg") and shapes is SHAPES["empty"]:
        pytest.skip("torch leaves other strides to an empty result")
    check(call(row), *inputs(row, shapes, "float64"), **loose(row, "float64"))


@pytest.mark.parametrize("row", ROWS, ids=ids)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_against_torch(row: Elementwise, dtype: str) -> None:
    if not supported(row, dtype):
        pytest.skip("dtype not in the row")
    if dtype == "bool" and row.name in ("lerp", "pow", "floor_divide", "remainder", "fmod"):
        pytest.skip("torch has no bool kernel for it, or an arbitrary one")
    check(
        call(row),
        *inputs(row, SHAPES["plain"], dtype),
        grad=1 if dtype.startswith("float") else 0,
        **loose(row, dtype),
    )


BINARY = [row for row in ROWS if len(row.inputs) == 2 and row.name not in CALLS]


@pytest.mark.parametrize("row", BINARY, ids=[row.name for row in BINARY])
@pytest.mark.parametrize("number", [2, 0.5, True], ids=["int", "float", "bool"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_with_a_python_number(row: Elementwise, number: Any, dtype: str) -> None:
    if row.name in TENSORS_ONLY or "logical" in row.name:
        pytest.skip("torch takes only tensors")
    if row.name == "sub" and isinstance(number, bool):
        pytest.skip("an error, see below")
    promoted = FLOATING if isinstance(number, float) or dtype == "float32" else INTEGER
    if not row.categories[0] <= promoted <= row.categories[1]:
        pytest.skip("dtype not in the row")
    spec = inputs(row, SHAPES["plain"], dtype)[0]
    grad = 1 if dtype == "float32" else 0
    check(lambda lib, a: getattr(lib, row.name)(a, number), spec, grad=grad, **LOOSE["float32"])


@pytest.mark.parametrize("pair", [("int32", "float32"), ("float32", "float64"), ("uint8", "int8"),
                                  ("bool", "int64"), ("int64", "float32")],
                         ids="-".join)  # fmt: skip
@pytest.mark.parametrize("rank", [(2, 2), (2, 0), (0, 2)], ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "div", "lt"])
def test_promotion(pair: tuple[str, str], rank: tuple[int, int], name: str) -> None:
    specs = [
        arg((3, 4)[:r], dtype=d, low=0 if d == "bool" else 1, high=1 if d == "bool" else 5)
        for r, d in zip(rank, pair, strict=True)
    ]
    check(lambda lib, a, b: getattr(lib, name)(a, b), *specs, grad=1, **LOOSE["float32"])


INPLACE = [r for r in ROWS if r.inplace and r.name not in CALLS and supported(r, "float64")]


@pytest.mark.parametrize("row", INPLACE, ids=[row.name for row in INPLACE])
def test_inplace_against_torch(row: Elementwise) -> None:
    if not hasattr(jitgrad.Tensor, f"{row.name}_"):
        pytest.skip("no in-place form")
    if row.name in ("asinh", "acosh", "atanh"):
        pytest.skip("torch has no derivative for its in-place form")

    def write(lib: Any, a: Any, *others: Any) -> Any:
        result = a * 1
        assert getattr(result, f"{row.name}_")(*others) is result
        return result

    specs = inputs(row, ((3, 4), (3, 4) if row.name == "lerp" else (4,), (3, 1)), "float64")
    if row.promote.name in ("COMPARE", "LOGICAL"):
        check(write, *specs, grad=0)
    else:
        check(write, *specs, **loose(row, "float64"))


OUT = [r for r in ROWS if r.name not in CALLS and r.name not in ("positive", "square", "clone",
       "isnan", "isinf", "isfinite", "relu")]  # fmt: skip


@pytest.mark.parametrize("row", OUT, ids=[row.name for row in OUT])
def test_out_against_torch(row: Elementwise) -> None:
    dtype = "float64" if supported(row, "float64") else "int64"

    def write(lib: Any, *xs: Any) -> Any:
        expected = getattr(lib, row.name)(*xs)
        out = lib.empty_like(expected)
        assert getattr(lib, row.name)(*xs, out=out) is out
        assert lib.equal(out, expected)
        return out

    check(write, *inputs(row, SHAPES["broadcast"], dtype, requires_grad=False), **LOOSE["float64"])


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-300, 1e300])
# Second arguments of torch kernels that answer special values by the CPU they run on.
ARBITRARY = {"atan2", "hypot", "pow", "copysign"}


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_special_values(row: Elementwise) -> None:
    if row.name in CALLS or not supported(row, "float64") or row.name in ARBITRARY:
        pytest.skip("covered by tests of its own")
    if len(row.inputs) > 2:
        pytest.skip("two inputs show it")
    grids = [
        arg(grid.copy(), requires_grad=bool(row.grad)) for grid in (SPECIAL[:, None], SPECIAL[None])
    ][: len(row.inputs)]
    check(call(row), *grids, grad=0, **LOOSE["float64"])


def test_relu_keeps_nan_and_has_no_gradient_at_zero() -> None:
    x = jitgrad.tensor([-1.0, 0.0, 2.0, float("nan")], requires_grad=True)
    y = jitgrad.relu(x)
    assert np.isnan(y.tolist()[3])
    y.backward(jitgrad.ones(4))
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 1.0]  # that of NaN too, as in torch


def test_results_do_not_depend_on_the_number_of_threads(threads: Any) -> None:
    x = jitgrad.rand(300_001)
    threads(1)
    one = jitgrad.exp(x) * x + 1
    threads(2)
    two = jitgrad.exp(x) * x + 1
    assert jitgrad.equal(one, two)


ERRORS = {
    "shapes": (lambda lib, a, b: a + b, ((2, 3), (4,)), "must match the size of tensor b"),
    "inplace shape": (
        lambda lib, a, b: a.detach().add_(b), ((3,), (2, 3)), "doesn't match the broadcast shape"),
    "bool minus": (lambda lib, a, b: (a > 0) - (b > 0), ((2,), (2,)), "two bool tensors"),
    "bool minus number": (lambda lib, a, b: (a > 0) - 1, ((2,), (2,)), "with a bool tensor"),
    "cast": (lambda lib, a, b: a.long().add_(b), ((2,), (2,)), "can't be cast"),
    "overlap": (
        lambda lib, a, b: a.detach().expand(3, 2).add_(b), ((2,), (2,)), "single memory location"),
    "partial overlap": (
        lambda lib, a, b: a.detach()[:2].add_(a.detach()[1:]),
        (arg((3,), layout="contiguous"), (2,)), "some elements"),
    "zero division": (lambda lib, a, b: a.long() // 0, ((2,), (2,)), "ZeroDivisionError"),
    "negative power": (lambda lib, a, b: a.long() ** -1, ((2,), (2,)), "negative integer powers"),
    "string": (lambda lib, a, b: lib.add(a, "x"), ((2,), (2,)), "must be Tensor"),
    "list": (lambda lib, a, b: lib.mul(a, [1, 2]), ((2,), (2,)), "must be Tensor"),
    "keyword": (lambda lib, a, b: lib.exp(a, base=2), ((2,), (2,)), "base"),
    "out with grad": (
        lambda lib, a, b: lib.add(a, b, out=lib.empty(2)), (arg((2,), requires_grad=True), (2,)),
        "automatic differentiation"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fn, specs, phrase = ERRORS[name]
    check_raises(fn, *specs, match=phrase)


def test_interleaved_and_shifted_writes_see_the_old_values() -> None:
    x = jitgrad.arange(8)
    x[::2] += x[1::2]
    assert x.tolist() == [1, 1, 5, 3, 9, 5, 13, 7]
    y = jitgrad.arange(12).reshape(6, 2)
    y[1:, 0] += y[:-1, 0]
    assert y[:, 0].tolist() == [0, 2, 6, 10, 14, 18]


@pytest.mark.parametrize("bounds", [(-0.5, 0.5), (None, 0.5), (-0.5, None)], ids=str)
def test_clamp_by_numbers(bounds: Any) -> None:
    check(lambda lib, a: lib.clamp(a, *bounds), (3, 4))


def test_errors_name_the_operator_and_the_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"\[2, 3\].*\[4\].*add\(\)"):
        jitgrad.ones(2, 3) + jitgrad.ones(4)


PUBLIC = {"igamma": "gammainc", "igammac": "gammaincc"}


@pytest.mark.parametrize("name", ["igamma", "igammac", "zeta"])
def test_a_derivative_that_is_missing_is_refused_in_backward(name: str) -> None:
    check_raises(
        lambda lib, a, b: getattr(lib.special, PUBLIC.get(name, name))(a, b).sum().backward(),
        arg((3,), low=1.5, high=3), arg((3,), low=1.5, high=3), match="is not implemented",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_divisions_with_and_without_long_quotients(dtype: str) -> None:
    """Exact in both kinds of loop, also where the result takes the place of an operand."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(3000).astype(dtype) for _ in range(2))
    x[1500:] *= 1e20  # the first block of 1024 alone has short quotients only
    x[2000:2006], y[2003:2009] = [0, -0.0, np.inf, np.nan, 1, -1], [0, -0.0, np.inf, np.nan, 1, 2]
    with np.errstate(all="ignore"):
        rest = np.fmod(x, y)
        moved = np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    for place in (0, 1, None):
        for name, expected in (("fmod", rest), ("remainder", moved)):
            operands = [jitgrad.tensor(x), jitgrad.tensor(y)]
            out = None if place is None else operands[place]
            found = getattr(jitgrad, name)(*operands, out=out)
            assert np.array_equal(found.numpy(), expected, equal_nan=True)
    quotient = jitgrad.floor_divide(jitgrad.tensor(x), jitgrad.tensor(y)).numpy()
    with np.errstate(all="ignore"):
        exact = (x.astype(np.longdouble) - moved) / y
        short = np.abs(exact) < 1e5
    assert np.array_equal(quotient[short], np.rint(exact[short]).astype(dtype), equal_nan=True)
