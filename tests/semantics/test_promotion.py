"""Promotion of types, strides of results, subgradients: rules T1 to T4, points 64 to 68."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from tests.oracle import torch_or_skip
from tests.semantics.common import back, f64, leaf

# T1, 68: categories -------------------------------------------------------------------------------
# Of two operands the dtypes (and "0" for no dimension), or a number; and the result's.
SUMS: list[tuple[Any, Any, str]] = [
    ("int32", 1, "int32"),
    ("int32", 1.5, "float32"),
    ("float32", "float640", "float32"),
    ("int32", "float640", "float64"),
    ("int32", "int640", "int32"),
    ("float32", "int64", "float32"),
    ("float32", "float64", "float64"),
    ("float16", "bfloat16", "float32"),
    ("uint8", "int8", "int16"),
    ("uint8", -1, "uint8"),
    ("bool", 1, "int64"),
    ("bool", 1.0, "float32"),
    ("bool", True, "bool"),
    ("int64", True, "int64"),
    ("float640", "float32", "float32"),
    ("float640", "float320", "float64"),
    ("float16", 1.5, "float16"),
]


def of(lib: Any, kind: Any) -> Any:
    if not isinstance(kind, str):
        return kind
    scalar = kind.endswith("0")
    if not hasattr(lib, kind.removesuffix("0")):
        pytest.skip(f"jitgrad has no {kind} yet")
    return lib.ones(() if scalar else 2, dtype=getattr(lib, kind.removesuffix("0")))


@pytest.mark.parametrize(("a", "b", "result"), SUMS)
def test_sums(lib: Any, a: Any, b: Any, result: str) -> None:
    x, y = of(lib, a), of(lib, b)
    assert (x + y).dtype == getattr(lib, result)
    assert (y + x).dtype == getattr(lib, result)
    assert lib.result_type(x, y) == getattr(lib, result)


def test_comparisons_give_bools(lib: Any) -> None:
    x, y = of(lib, "int32"), of(lib, "float640")
    for r in (x < y, x == y, x >= 0.5, lib.logical_and(x, y), lib.isnan(y)):
        assert r.dtype == lib.bool


def test_writes_refuse_a_higher_category(lib: Any) -> None:
    whole, half = lib.tensor([1, 2]), lib.ones(2)
    for write in (lambda: whole.add_(0.5), lambda: lib.add(whole, 0.5, out=whole)):
        with pytest.raises(RuntimeError, match="can't be cast"):
            write()
    half += f64(lib, [1.0, 1.0])  # the same category
    assert (half.dtype, half.tolist()) == (lib.float32, [2.0, 2.0])


# T2 -----------------------------------------------------------------------------------------------
def test_integers_that_become_floats_or_int64(lib: Any) -> None:
    whole, flags = lib.tensor([1, 2], dtype=lib.int32), lib.tensor([True, True])
    assert (whole / 2).dtype == whole.sqrt().dtype == lib.float32
    assert whole.sum().dtype == flags.sum().dtype == whole.prod().dtype == lib.int64
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        whole.mean()
    with pytest.raises(RuntimeError, match="not supported"):
        flags - flags
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
        whole**-1
    with pytest.raises(RuntimeError, match="same dtype"):
        lib.ones(2, 2).mm(lib.ones(2, 2, dtype=lib.float64))


def test_gradients_come_back_in_the_dtype_of_each_input(lib: Any) -> None:
    x = lib.ones(2, requires_grad=True)
    y = lib.ones(2, dtype=lib.float64, requires_grad=True)
    z = lib.ones((), requires_grad=True)
    (x * y * z).sum().backward()
    assert [t.grad.dtype for t in (x, y, z)] == [lib.float32, lib.float64, lib.float32]


# T3 -----------------------------------------------------------------------------------------------
def test_strides_of_results(lib: Any) -> None:
    square, row = lib.ones(3, 4), lib.ones(4)
    turned = lib.ones(4, 3).t()
    assert (turned + 1).stride() == turned.stride() == (1, 3)
    assert (turned + square).stride() == (1, 3)
    assert (square + turned).stride() == (4, 1)
    assert (row.expand(3, 4) + 1).stride() == (4, 1)
    assert (lib.ones(3, 8)[:, ::2] + 1).stride() == (4, 1)


# T4, 64: subgradients -----------------------------------------------------------------------------
SUBGRADIENTS: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "relu": (lambda lib, x: x.relu(), [0.0], [0.0]),
    "abs": (lambda lib, x: x.abs(), [0.0], [0.0]),
    "sqrt": (lambda lib, x: x.sqrt(), [0.0], [math.inf]),
    "log": (lambda lib, x: x.log(), [0.0], [math.inf]),
    "norm": (lambda lib, x: x.norm(), [0.0, 0.0], [0.0, 0.0]),
    "clamp": (lambda lib, x: x.clamp(0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0], [0, 1, 1, 1, 0]),
    "hardtanh": (lambda lib, x: lib.nn.functional.hardtanh(x), [-1.0, 0.0, 1.0], [0, 1, 0]),
    "max": (lambda lib, x: x.max(), [2.0, 1.0, 2.0], [0.5, 0.0, 0.5]),
    "min": (lambda lib, x: x.min(), [1.0, 1.0, 2.0], [0.5, 0.5, 0.0]),
    "amax": (lambda lib, x: x.amax(), [2.0, 2.0, 1.0, 2.0, 2.0], [0.25, 0.25, 0, 0.25, 0.25]),
    "amin": (lambda lib, x: x.amin(0), [1.0, 1.0], [0.5, 0.5]),
    "median": (lambda lib, x: x.median(), [1.0, 2.0, 2.0, 3.0, 0.0], [0, 0.5, 0.5, 0, 0]),
    "max of a dimension": (lambda lib, x: x.max(0).values, [1.0, 2.0, 2.0], [0, 1, 0]),
    "maximum": (lambda lib, x: lib.maximum(x, x.detach()), [1.0], [0.5]),
}


@pytest.mark.parametrize("kind", SUBGRADIENTS)
def test_subgradients(lib: Any, kind: str) -> None:
    fn, at, wanted = SUBGRADIENTS[kind]
    x = leaf(lib, at)
    fn(lib, x).sum().backward()
    assert x.grad.tolist() == wanted


def test_where_lets_nans_through(lib: Any) -> None:
    x = leaf(lib, [0.0, 1.0])
    lib.where(x > 0, x.sqrt(), 0.0).sum().backward()
    assert math.isnan(x.grad[0])  # 0 * inf


# 65: names ----------------------------------------------------------------------------------------
def test_every_name_of_a_tensor_resolves(lib: Any) -> None:
    x = lib.ones(2, 2)
    with pytest.raises(RuntimeError, match="imag"):
        hasattr(x, "imag")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(x):
            if name != "imag":
                assert hasattr(x, name), name


# 66: indexing -------------------------------------------------------------------------------------
def test_indices(lib: Any) -> None:
    x = lib.arange(6).view(2, 3)
    assert x[[1, 0]].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x[[[0, 1], [1, 0]],].shape == (2, 2, 3)
    with pytest.warns(UserWarning, match="uint8"):
        assert x[lib.tensor([0, 1], dtype=lib.uint8)].tolist() == [[3, 4, 5]]
    assert x[None, ..., 1].tolist() == [[1, 4]]
    assert x[True].shape == (1, 2, 3)
    assert x[False].shape == (0, 2, 3)
    for step in (0, -1):
        with pytest.raises(ValueError, match="step"):
            x[::step]
    with pytest.raises(IndexError, match="only integers"):
        x[1.0]
    with pytest.raises(IndexError, match="tensors used as indices must be"):
        x[lib.tensor([0.5])]


def test_numbers_of_what_is_not_finite(lib: Any) -> None:
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        int(lib.tensor(math.nan))
    with pytest.raises(OverflowError, match="cannot convert float infinity to integer"):
        int(lib.tensor(math.inf))


# 67: types ----------------------------------------------------------------------------------------
def test_types(lib: Any) -> None:
    x = lib.ones(2)
    assert isinstance(x, lib.FloatTensor)
    assert not isinstance(x, lib.DoubleTensor)
    assert x.type().endswith(".FloatTensor")
    assert x.type(lib.float64).dtype == lib.float64
    assert x.type(lib.float32).data_ptr() == x.data_ptr()
    y = x.double()
    assert isinstance(y, lib.DoubleTensor)
    t = leaf(lib)
    back(t.type(lib.float32))
    assert t.grad.dtype == lib.float64


# 68: every pair -----------------------------------------------------------------------------------
DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
NUMBERS = (True, 1, 1.5, 1j)
REALS = [name for name in DTYPES if "complex" not in name]


def outcome(call: Callable[[], Any]) -> str:
    """What a call gives, or the name of its error, in the words of both libraries."""
    try:
        found = str(call()).rpartition(".")[2]
        return found.replace("complex32", "complex64")  # jitgrad has no complex numbers of halves
    except Exception as error:
        return type(error).__name__


@pytest.mark.oracle
@pytest.mark.parametrize("first", DTYPES)
def test_every_pair_promotes_as_in_torch(first: str) -> None:
    def facts(lib: Any) -> dict[Any, str]:
        d = getattr(lib, first)
        found = {}
        for name in DTYPES:
            other = getattr(lib, name)
            found["types", name] = outcome(lambda other=other: lib.promote_types(d, other))
            found["can_cast", name] = outcome(lambda other=other: lib.can_cast(d, other))
            for a, b in itertools.product(((2,), ()), repeat=2):
                x, y = lib.ones(a, dtype=d), lib.ones(b, dtype=other)
                found[a, b, name] = outcome(lambda x=x, y=y: lib.result_type(x, y))
        for shape, number in itertools.product(((2,), ()), NUMBERS):
            x = lib.ones(shape, dtype=d)
            found[shape, number] = outcome(lambda x=x, n=number: lib.result_type(x, n))
        return found

    assert facts(jitgrad) == facts(torch_or_skip())


# Casts --------------------------------------------------------------------------------------------
# PyTorch's vectorised conversions of what uint8 and uint32 cannot hold depend on the CPU.
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -1.7, 2.5, 127.0, 128.0, 255.0, 256.0, 300.0, -128.0, -129.0,
    32767.0, 32768.0, 65535.0, 65536.0, -32769.0, 65504.0, 65520.0, 2.0**31 - 1, 2.0**31, 2.0**32,
    1e-8, 3.3e38, math.nan, math.inf, -math.inf,
]  # fmt: skip
INTEGERS = [
    0, 1, -1, 127, 128, 255, 256, 300, -128, -129, 32767, 32768, 65535, 65536, -32769, 2**31 - 1,
    2**31, 2**32 - 1, 2**32, -(2**31) - 1, 2**63 - 1, -(2**63), 2**53 + 1, 2**24 + 1, 2049, 257,
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("first", REALS)
def test_every_cast_is_torchs(first: str) -> None:
    floating = "float" in first
    wide, numbers = ("float64", FLOATS) if floating else ("int64", INTEGERS)

    def cast(lib: Any, name: str) -> list[Any]:
        x = lib.tensor(numbers, dtype=getattr(lib, wide)).to(getattr(lib, first))
        if "int" in name and floating:  # no integer means these
            x = x[x.abs() < 2.0 ** (63 if name in ("int64", "uint32", "uint64") else 31)]
        result = x.to(getattr(lib, name))
        return result.to(lib.float64 if "float" in name else lib.int64).tolist()

    for name in REALS:
        assert str(cast(jitgrad, name)) == str(cast(torch_or_skip(), name)), name
