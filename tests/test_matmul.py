"""Matrix products against torch: ranks, broadcasting, layouts, dtypes, history, errors."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad
from tests.oracle.compare import check, check_raises
from tests.oracle.inputs import arg

TIGHT = {"rtol": 1e-10, "atol": 1e-11}
LOOSE = {"rtol": 1e-4, "atol": 1e-5}

SHAPES = {
    "dot": ((3,), (3,)),
    "vector matrix": ((3,), (3, 4)),
    "matrix vector": ((2, 3), (3,)),
    "matrix matrix": ((2, 3), (3, 4)),
    "batch vector": ((5, 2, 3), (3,)),
    "vector batch": ((3,), (5, 3, 4)),
    "batch matrix": ((5, 2, 3), (3, 4)),
    "matrix batch": ((2, 3), (5, 3, 4)),
    "batch batch": ((5, 2, 3), (5, 3, 4)),
    "broadcast": ((5, 1, 2, 3), (6, 3, 4)),
    "broadcast one": ((1, 2, 3), (5, 3, 4)),
    "broadcast other": ((5, 2, 3), (1, 3, 4)),
    "two batches": ((2, 5, 2, 3), (2, 5, 3, 4)),
    "batches vector": ((2, 5, 2, 3), (3,)),
    "vector batches": ((3,), (2, 5, 3, 4)),
    "batches matrix": ((2, 5, 2, 3), (3, 4)),
    "matrix batches": ((2, 3), (2, 5, 3, 4)),
    "row": ((1, 3), (3, 1)),
    "column": ((3, 1), (1, 3)),
    "empty rows": ((0, 3), (3, 4)),
    "empty inner": ((2, 0), (0, 4)),
    "empty columns": ((2, 3), (3, 0)),
    "empty batch": ((0, 2, 3), (0, 3, 4)),
    "empty batch matrix": ((0, 2, 3), (3, 4)),
    "empty broadcast": ((0, 1, 2, 3), (5, 3, 4)),
    "empty vectors": ((0,), (0,)),
    "empty matrix vector": ((2, 0), (0,)),
    "empty inner batch": ((5, 2, 0), (5, 0, 4)),
    "one": ((1,), (1,)),
}
LAYOUTS = [("contiguous", "contiguous"), ("transposed", "transposed"), ("gapped", "offset"),
           ("expanded", "contiguous"), ("contiguous", "expanded")]  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
def test_matmul(name: str, layouts: tuple[str, str]) -> None:
    a, b = (arg(s, layout=of) for s, of in zip(SHAPES[name], layouts, strict=True))
    if "expanded" in layouts and any(s and s[0] == 0 for s in SHAPES[name]):
        pytest.skip("nothing to expand")
    check(lambda lib, x, y: lib.matmul(x, y), a, b, **TIGHT)


@pytest.mark.parametrize("name", SHAPES)
def test_matmul_where_one_operand_has_a_gradient(name: str) -> None:
    a, b = SHAPES[name]
    check(lambda lib, x, y: x @ y, a, arg(b, requires_grad=False), **TIGHT)
    check(lambda lib, x, y: x @ y, arg(a, requires_grad=False), b, **TIGHT)


@pytest.mark.parametrize("name", ["dot", "matrix vector", "matrix matrix", "batch batch",
                                  "broadcast", "batch matrix"])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "int8", "uint8"])
def test_dtypes(name: str, dtype: str) -> None:
    a, b = (arg(s, dtype=dtype, low=0 if dtype == "uint8" else -4, high=4) for s in SHAPES[name])
    check(lambda lib, x, y: x @ y, a, b, grad=1, **LOOSE)


PRODUCTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mm": (lambda lib, a, b: lib.mm(a, b), ((2, 3), (3, 4))),
    "mm method": (lambda lib, a, b: a.mm(b.t()), ((2, 3), (4, 3))),
    "bmm": (lambda lib, a, b: lib.bmm(a, b), ((5, 2, 3), (5, 3, 4))),
    "bmm transposed": (lambda lib, a, b: a.bmm(b.mT), ((5, 2, 3), (5, 4, 3))),
    "mv": (lambda lib, a, b: lib.mv(a, b), ((2, 3), (3,))),
    "dot": (lambda lib, a, b: lib.dot(a, b), ((3,), (3,))),
    "dot method": (lambda lib, a, b: a.dot(b), ((3,), (3,))),
    "outer": (lambda lib, a, b: lib.outer(a, b), ((2,), (3,))),
    "inner": (lambda lib, a, b: lib.inner(a, b), ((2, 3), (4, 3))),
    "inner vectors": (lambda lib, a, b: lib.inner(a, b), ((3,), (3,))),
    "addmm": (lambda lib, c, a, b: lib.addmm(c, a, b), ((2, 4), (2, 3), (3, 4))),
    "addmm row": (lambda lib, c, a, b: lib.addmm(c, a, b), ((4,), (2, 3), (3, 4))),
    "addmm column": (lambda lib, c, a, b: c.addmm(a, b), ((2, 1), (2, 3), (3, 4))),
    "addmm number": (lambda lib, c, a, b: lib.addmm(c, a, b), ((), (2, 3), (3, 4))),
    "addmm scaled": (
        lambda lib, c, a, b: lib.addmm(c, a, b, beta=0.5, alpha=2), ((2, 4), (2, 3), (3, 4))),
    "addmm beta": (lambda lib, c, a, b: lib.addmm(c, a, b, beta=3), ((2, 4), (2, 3), (3, 4))),
    "addmm beta 0": (lambda lib, c, a, b: lib.addmm(c, a, b, beta=0), ((2, 4), (2, 3), (3, 4))),
    "addmm alpha": (lambda lib, c, a, b: lib.addmm(c, a, b, alpha=-1), ((4,), (2, 3), (3, 4))),
    "addmm empty": (lambda lib, c, a, b: lib.addmm(c, a, b), ((4,), (2, 0), (0, 4))),
    "addmv": (lambda lib, c, a, b: lib.addmv(c, a, b, beta=2, alpha=3), ((2,), (2, 3), (3,))),
    "baddbmm": (
        lambda lib, c, a, b: lib.baddbmm(c, a, b), ((5, 2, 4), (5, 2, 3), (5, 3, 4))),
    "baddbmm broadcast": (
        lambda lib, c, a, b: c.baddbmm(a, b, beta=2, alpha=0.5), ((2, 1), (5, 2, 3), (5, 3, 4))),
    "linear": (
        lambda lib, a, w, b: lib.nn.functional.linear(a, w, b), ((2, 3), (4, 3), (4,))),
    "linear 1-d": (lambda lib, a, w, b: lib.nn.functional.linear(a, w, b), ((3,), (4, 3), (4,))),
    "linear 3-d": (
        lambda lib, a, w, b: lib.nn.functional.linear(a, w, b), ((5, 2, 3), (4, 3), (4,))),
    "linear without bias": (lambda lib, a, w: lib.nn.functional.linear(a, w), ((5, 2, 3), (4, 3))),
    "linear empty": (
        lambda lib, a, w, b: lib.nn.functional.linear(a, w, b), ((0, 3), (4, 3), (4,))),
    "linalg": (lambda lib, a, b: lib.linalg.matmul(a, b), ((2, 3), (3, 4))),
    "chain": (lambda lib, a, b, c: (a @ b) @ c, ((2, 3), (3, 4), (4, 2))),
    "twice": (lambda lib, a: a @ a.t() @ a, ((2, 3),)),
    "quadratic": (lambda lib, a, x: x @ a @ x, ((3, 3), (3,))),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    fn, shapes = PRODUCTS[name]
    version = not name.startswith("linear")  # torch adds the bias in place
    check(fn, *shapes, version=version, **TIGHT)
    contiguous = [arg(s, layout="contiguous") for s in shapes]
    check(fn, *contiguous, version=version, **TIGHT)


@pytest.mark.parametrize("name", ["mm", "bmm", "mv", "dot", "outer", "addmm scaled", "baddbmm"])
def test_out(name: str) -> None:
    fn, shapes = PRODUCTS[name]
    which, *scaled = name.split()

    def write(lib: Any, *xs: Any) -> Any:
        expected = fn(lib, *xs)
        factors = {"beta": 0.5, "alpha": 2} if scaled else {}
        out = lib.empty_like(expected)
        assert getattr(lib, which)(*xs, out=out, **factors) is out
        assert lib.allclose(out, expected)
        strided = lib.zeros(*expected.shape, 2, dtype=out.dtype)[..., 0]
        return out, getattr(lib, which)(*xs, out=strided, **factors)

    check(write, *(arg(s, requires_grad=False) for s in shapes), **TIGHT)


def test_out_of_matmul() -> None:
    check(lambda lib, x, y: lib.matmul(x, y, out=lib.empty(5, 2, 4, dtype=x.dtype)),
          (5, 2, 3), (3, 4), requires_grad=False, **TIGHT)  # fmt: skip
    check_raises(lambda lib, x, y: lib.mm(x, y, out=lib.empty(2, 4, dtype=x.dtype)),
                 (2, 3), (3, 4), match="automatic differentiation")  # fmt: skip


def test_nan_and_zero_factors() -> None:
    nan = float("nan")
    check(lambda lib, c, a, b: lib.addmm(c, a, b, beta=0), arg([[nan]]), (1, 2), (2, 1), **TIGHT)
    check(lambda lib, a, b: a @ b, arg([[0.0, nan], [float("inf"), 1.0]]), (2, 2), grad=1, **TIGHT)


ERRORS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "inner": (lambda lib, a, b: a @ b, ((2, 3), (4, 5)), "mat1 and mat2 shapes cannot be"),
    "vectors": (lambda lib, a, b: a @ b, ((2,), (3,)), "inconsistent tensor size"),
    "matrix vector": (lambda lib, a, b: a @ b, ((2, 3), (4,)), "size mismatch, got input (2)"),
    "vector matrix": (lambda lib, a, b: a @ b, ((2,), (3, 4)), "mat1 and mat2 shapes cannot be"),
    "0-d": (lambda lib, a, b: a @ b, ((), (3,)), "both arguments to matmul need to be at least 1D"),
    "batch": (lambda lib, a, b: a @ b, ((2, 3, 4), (3, 4, 5)), "must match"),
    "batch inner": (lambda lib, a, b: a @ b, ((2, 3, 4), (2, 3, 5)), ""),
    "dtype": (lambda lib, a, b: a @ b.float(), ((2, 2), (2, 2)), "to have the same dtype"),
    "int": (lambda lib, a, b: a @ b.long(), ((2, 2), (2, 2)), "to have the same dtype"),
    "vector dtype": (lambda lib, a, b: a @ b.float(), ((2,), (2,)), "same dtype"),
    "bool": (lambda lib, a, b: (a > 0) @ (b > 0), ((2, 2), (2, 2)), "not implemented for 'Bool'"),
    "mm rank": (lambda lib, a, b: lib.mm(a, b), ((2, 3, 4), (4, 2)), "self must be a matrix"),
    "mm rank 2": (lambda lib, a, b: lib.mm(a, b), ((2, 3), (3,)), "mat2 must be a matrix"),
    "bmm rank": (lambda lib, a, b: lib.bmm(a, b), ((2, 3), (3, 4)), "must be a 3D tensor"),
    "bmm size": (lambda lib, a, b: lib.bmm(a, b), ((2, 3, 4), (3, 4, 5)), "Expected size for"),
    "mv rank": (lambda lib, a, b: lib.mv(a, b), ((2,), (2,)), "vector + matrix @ vector expected"),
    "dot rank": (lambda lib, a, b: lib.dot(a, b), ((2, 2), (2,)), "1D tensors expected"),
    "addmm size": (
        lambda lib, a, b: lib.addmm(a, b, b), ((3,), (2, 2)), "The expanded size of the tensor"),
    "addmm inner": (lambda lib, a, b: lib.addmm(a, b, b), ((3,), (2, 3)), "cannot be multiplied"),
    "addmm dtype": (lambda lib, a, b: lib.addmm(a.float(), b, b), ((2,), (2, 2)), "dtype"),
    "outer rank": (lambda lib, a, b: lib.outer(a, b), ((2, 2), (2,)), "outer: Expected 1-D"),
    "number": (lambda lib, a, b: lib.matmul(a, 2), ((2,), (2,)), "matmul()"),
    "list": (lambda lib, a, b: lib.mm([1], b), ((2,), (2, 2)), "mm()"),
    "linear": (lambda lib, a, b: lib.nn.functional.linear(a, b), ((2, 3), (4, 5)), "cannot be"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fn, shapes, phrase = ERRORS[name]
    check_raises(fn, *shapes, match=phrase)


@pytest.mark.parametrize("size", [1, 2, 7, 16, 33, 64, 100, 129])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sizes_around_the_blocks(size: int, dtype: str) -> None:
    shapes = [arg((size, size + 1), dtype=dtype), arg((size + 1, size + 2), dtype=dtype)]
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else TIGHT
    check(lambda lib, a, b: a @ b, *shapes, grad=1, **tolerance)


def test_results_do_not_depend_on_the_number_of_threads(threads: Any) -> None:
    a, b = jitgrad.rand(300, 257), jitgrad.rand(257, 311)
    threads(1)
    one = a @ b
    threads(2)
    assert jitgrad.equal(one, a @ b)


def test_errors_name_the_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"2x3 and 4x5.*mm\(\)"):
        jitgrad.ones(2, 3) @ jitgrad.ones(4, 5)
