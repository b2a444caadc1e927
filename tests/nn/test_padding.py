"""Padding against PyTorch: values, nodes, derivatives, errors, modules."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

MODES = ("constant", "reflect", "replicate", "circular")
SHAPE = (2, 3, 4, 5, 4)
# By the number of dimensions that are padded.
PADS = {
    1: [(1, 2), (-1, 2), (2, -2), (0, 0)],
    2: [(2, 1, 1, 2), (1, -1, -2, 2)],
    3: [(1, 2, 2, 1, 1, 1), (-1, 1, 2, -1, 0, 2)],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rank", PADS)
@pytest.mark.parametrize("batched", [False, True])
def test_pad(mode: str, rank: int, batched: bool) -> None:
    shape = SHAPE[1 - batched : 2] + SHAPE[2 : 2 + rank]
    for sides in PADS[rank]:
        check(
            lambda lib, x, p=sides: lib.nn.functional.pad(x, p, mode),
            shape,
            version=mode != "circular",  # PyTorch's is written in parts
        )


def test_constant_of_any_rank_and_dtype() -> None:
    for dtype in ("float32", "int64", "int8", "uint8", "bool"):
        check(
            lambda lib, x: lib.nn.functional.pad(x, (1, 0, -1, 2, 0, 1, 2, -1), value=1),
            (2, 3, 3, 2),
            dtype=dtype,
            exact=True,
        )
    check(lambda lib, x: lib.constant_pad_nd(x, [2, 1], -1.5), (3,))
    check(lambda lib, x: lib.nn.functional.pad(x, ()), ())
    check(lambda lib, x: lib.nn.functional.pad(x, (-2, -3)), (2, 5))
    check(lambda lib, x: lib.nn.functional.pad(x, (1, 1, 2, 0)), (0, 3))


@pytest.mark.parametrize("mode", MODES[1:])
def test_elements_move_without_being_changed(mode: str) -> None:
    for dtype in ("uint8", "int16", "int32", "float16"):
        check(
            lambda lib, x: lib.nn.functional.pad(x, (2, 1, 1, -1), mode),
            (2, 3, 4),
            dtype=dtype,
            exact=True,
            grad=0,
            version=False,
        )


def test_gradients_are_summed_in_half_precision_too() -> None:
    check(
        lambda lib, x: lib.nn.functional.pad(x, (2, 2), "replicate"),
        (2, 3, 4),
        dtype="float16",
        grad=1,
    )


@pytest.mark.parametrize("mode", MODES)
def test_channels_last_stays_so(mode: str) -> None:
    check(
        lambda lib, x: lib.nn.functional.pad(x.permute(0, 3, 1, 2), (1, 1, 2, 1), mode),
        arg((2, 4, 3, 3), layout="contiguous"),
        grad=1,
        version=False,
    )


def test_many_rows_on_several_threads(threads: int) -> None:
    check(
        lambda lib, x: lib.nn.functional.pad(x, (3, 4, 2, 5), "reflect"),
        arg((4, 8, 40, 50), dtype="float32"),
        grad=1,
    )


@pytest.mark.parametrize(
    ("sides", "mode", "shape", "match"),
    [
        ((1, 2, 3), "constant", (2, 3), "Padding length must be divisible by 2"),
        ((1,) * 6, "constant", (2, 3), "Padding length should be less than or equal to two times"),
        ((-2, -2), "constant", (2, 3), "length must be non-negative"),
        ((1, 1), "reflect", (2, 3, 4, 5), "Padding size 2 is not supported"),
        ((1, 1), "circular", (5,), "Padding size 2 is not supported for 1D input tensor"),
        ((3, 1), "reflect", (2, 2, 3), "Padding size should be less than the corresponding input"),
        ((4, 1), "circular", (2, 2, 3), "Padding value causes wrapping around more than once"),
        ((-2, -2), "circular", (2, 3), "Negative padding value is resulting in an empty dimension"),
        ((-2, -2), "replicate", (2, 3), "is too small. Calculated output W: -1"),
        ((-2, -2, 1, 1, 1, 1), "replicate", (2, 3, 3, 3), "negative dimension -1"),
        ((1, 1), "replicate", (2, 0, 3), "possibly 0 batch size and other non-zero dimensions"),
        ((1, 1), "mirror", (2, 3), "Unrecognised padding mode mirror"),
    ],
)
def test_errors(sides: Any, mode: str, shape: Any, match: str) -> None:
    check_raises(lambda lib, x: lib.nn.functional.pad(x, sides, mode), shape, match=match)


def test_errors_of_values() -> None:
    check_raises(
        lambda lib, x: lib.nn.functional.pad(x, (1, 1), "reflect", 2.0),
        (2, 3),
        match='Padding mode "reflect" doesn\'t take in value argument',
    )
    check_raises(
        lambda lib, x: lib.nn.functional.pad(x, (1, 1), "constant", "a"),
        (2, 3),
        match="argument 'value'",
    )


def test_forward_mode() -> None:
    for mode in MODES:
        jg.autograd.gradcheck(
            lambda x, m=mode: jg.nn.functional.pad(x, (2, 1, -1, 1), m),
            jg.randn(2, 3, 4, dtype=jg.float64, requires_grad=True),
            check_forward_ad=True,
        )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Zero", "Constant", "Reflection", "Replication", "Circular"])
def test_modules(kind: str, rank: int) -> None:
    value = (1.5,) if kind == "Constant" else ()
    for sides in (1, tuple(range(1, 2 * rank + 1)) if kind != "Reflection" else (2, 1) * rank):

        def run(lib: Any, x: Any, sides: Any = sides) -> Any:
            module = getattr(lib.nn, f"{kind}Pad{rank}d")(sides, *value)
            return module(x), repr(module)

        check(run, (2, 6, 6, 6)[: rank + 1], grad=1, version=kind != "Circular")


def test_circular_module_names_the_ranks_it_takes() -> None:
    check_raises(
        lambda lib, x: lib.nn.CircularPad2d(1)(x), (3, 3), match="expected 3D or 4D input (got 2D"
    )
