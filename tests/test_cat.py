"""Joining tensors against torch: cat, stack and their NumPy kin."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.compare import check, check_raises
from tests.oracle.inputs import arg

LOOSE = {"rtol": 1e-6, "atol": 1e-6}

JOINS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cat": (lambda lib, *xs: lib.cat(xs), ((2, 3), (1, 3), (4, 3))),
    "cat list": (lambda lib, *xs: lib.cat(list(xs), dim=1), ((2, 3), (2, 1))),
    "cat negative": (lambda lib, *xs: lib.cat(xs, -1), ((2, 3), (2, 1))),
    "cat one": (lambda lib, *xs: lib.cat(xs), ((2, 3),)),
    "cat empty part": (lambda lib, *xs: lib.cat(xs), ((2, 3), (0, 3))),
    "cat legacy empty": (lambda lib, *xs: lib.cat(xs, 1), ((2, 3), (0,), (2, 1))),
    "cat only legacy": (lambda lib, *xs: lib.cat(xs), ((0,), (0,))),
    "cat 3-d": (lambda lib, *xs: lib.cat(xs, 1), ((2, 1, 3), (2, 2, 3))),
    "cat twice the same": (lambda lib, x: lib.cat([x, x * 2, x]), ((2, 3),)),
    "cat views": (lambda lib, x: lib.cat([x[:1], x.t()[:, :1].t(), x[1:]], 0), ((3, 3),)),
    "cat dims": (lambda lib, *xs: lib.cat(tensors=xs, dim=0), ((2,), (3,))),
    "concat": (lambda lib, *xs: lib.concat(xs, dim=1), ((2, 3), (2, 1))),
    "concatenate": (lambda lib, *xs: lib.concatenate(xs), ((2, 3), (1, 3))),
    "axis": (lambda lib, *xs: lib.concatenate(xs, axis=1), ((2, 3), (2, 2))),
    "stack": (lambda lib, *xs: lib.stack(xs), ((2, 3), (2, 3))),
    "stack 1": (lambda lib, *xs: lib.stack(xs, dim=1), ((2, 3), (2, 3), (2, 3))),
    "stack last": (lambda lib, *xs: lib.stack(xs, -1), ((2, 3), (2, 3))),
    "stack 0-d": (lambda lib, *xs: lib.stack(xs), ((), (), ())),
    "stack empty": (lambda lib, *xs: lib.stack(xs), ((0, 2), (0, 2))),
    "hstack": (lambda lib, *xs: lib.hstack(xs), ((2, 3), (2, 1))),
    "hstack 1-d": (lambda lib, *xs: lib.hstack(xs), ((2,), (3,))),
    "hstack 0-d": (lambda lib, *xs: lib.hstack(xs), ((), ())),
    "vstack": (lambda lib, *xs: lib.vstack(xs), ((2, 3), (3,))),
    "dstack": (lambda lib, *xs: lib.dstack(xs), ((2, 3), (2, 3))),
    "dstack 1-d": (lambda lib, *xs: lib.dstack(xs), ((3,), (3,))),
    "column_stack": (lambda lib, *xs: lib.column_stack(xs), ((3,), (3, 2))),
    "row_stack": (lambda lib, *xs: lib.row_stack(xs), ((3,), (2, 3))),
    "block": (lambda lib, *xs: lib.cat([lib.cat(xs[:2], 1), xs[2]]), ((1, 2), (1, 1), (2, 3))),
    "square": (lambda lib, *xs: lib.cat(xs) ** 2, ((2,), (3,))),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["varied", "contiguous", "transposed"])
@pytest.mark.parametrize("name", JOINS)
def test_joins(name: str, layout: str) -> None:
    fn, shapes = JOINS[name]
    check(fn, *(arg(s, layout=layout) for s in shapes))


@pytest.mark.parametrize("pair", [("int64", "float32"), ("float32", "float64"), ("bool", "uint8"),
                                  ("uint8", "int8"), ("int32", "int64")], ids="-".join)  # fmt: skip
def test_promotion(pair: tuple[str, str]) -> None:
    specs = [arg((2,), dtype=d, low=0, high=1) for d in pair]
    check(lambda lib, a, b: lib.cat([a, b]), *specs, grad=1, **LOOSE)
    check(lambda lib, a, b: lib.stack([b, a]), *specs, grad=1, **LOOSE)


def test_some_inputs_have_gradients() -> None:
    plain = arg((2, 3), requires_grad=False)
    check(lambda lib, a, b: lib.cat([a, b]), plain, (1, 3))
    check(lambda lib, a, b: lib.cat([a, b]), plain, plain)
    check(lambda lib, a, b: lib.stack([a.long().double(), b]), plain, (2, 3))


def test_out() -> None:
    def write(lib: Any, a: Any, b: Any) -> Any:
        out = lib.empty(3, 3, dtype=a.dtype)
        assert lib.cat([a, b], out=out) is out
        resized = lib.cat([a, b], 0, out=lib.empty(0, dtype=a.dtype))
        return out, out._version, resized, lib.stack([a, a], out=lib.empty(2, 2, 3, dtype=a.dtype))

    check(write, arg((2, 3), requires_grad=False), arg((1, 3), requires_grad=False))
    check_raises(lambda lib, a: lib.cat([a, a], out=lib.empty(4)), (2,),
                 match="automatic differentiation")  # fmt: skip
    check_raises(lambda lib, a: lib.cat([a, a], out=lib.empty(4).long()),
                 arg((2,), requires_grad=False), match="can't be cast")  # fmt: skip


def test_what_one_keeps_when_the_inputs_are_written() -> None:
    def write(lib: Any, x: Any) -> Any:
        y = x * 1
        joined = lib.cat([y, y])
        y.add_(1)
        return joined, y

    check(write, (2, 3))


ERRORS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "nothing": (lambda lib: lib.cat([]), (), "expected a non-empty list of Tensors"),
    "stack nothing": (lambda lib: lib.stack([]), (), "stack expects a non-empty TensorList"),
    "0-d": (lambda lib, x: lib.cat([x, x]), ((),), "zero-dimensional tensor (at position 0)"),
    "sizes": (lambda lib, x, y: lib.cat([x, y]), ((2, 3), (2, 4)), "Sizes of tensors must match"),
    "ranks": (lambda lib, x, y: lib.cat([x, y]), ((2, 3), (3,)), "same number of dimensions"),
    "dim": (lambda lib, x: lib.cat([x, x], 2), ((2, 3),), "Dimension out of range"),
    "stack dim": (lambda lib, x: lib.stack([x, x], 3), ((2, 3),), "Dimension out of range"),
    "stack sizes": (
        lambda lib, x, y: lib.stack([x, y]), ((2, 3), (2, 4)), "stack expects each tensor to be"),
    "tensor": (lambda lib, x: lib.cat(x), ((2, 3),), "cat()"),
    "numbers": (lambda lib, x: lib.cat([x, 1]), ((2, 3),), "expected Tensor as element 1"),
    "stack numbers": (lambda lib, x: lib.stack([x, 1]), ((2, 3),), "expected Tensor as element 1"),
    "keyword": (lambda lib, x: lib.cat([x], way=1), ((2, 3),), "way"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fn, shapes, phrase = ERRORS[name]
    check_raises(fn, *shapes, match=phrase)
