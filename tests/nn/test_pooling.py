"""Pooling against PyTorch: values, places, nodes, derivatives, errors, modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

SHAPES = {1: (2, 3, 11), 2: (2, 2, 7, 11), 3: (2, 2, 5, 4, 7)}
# kernel_size, stride, padding, dilation, ceil_mode
CALLS: list[tuple[Any, ...]] = [
    (2,),
    (3, 2, 1),
    (2, 3, 0, 1, True),
    (3, 1, 1, 2, True),
]
KEYS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


def varied(size: tuple[int, ...], **settings: Any) -> Any:
    """An input without equal elements, so that the largest is the same for both."""
    n = int(np.prod(size))
    values = np.random.default_rng(3).permutation(n).reshape(size) - n // 2
    return arg(values / (1.0 if settings.get("dtype", "f")[0] == "f" else 1), **settings)


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("layout", ["gapped", "transposed", "contiguous"])
def test_max_pool(rank: int, call: tuple[Any, ...], layout: str) -> None:
    keywords = dict(zip(KEYS, call, strict=False))

    def run(lib: Any, x: Any) -> Any:
        pool = getattr(lib.nn.functional, f"max_pool{rank}d")
        return pool(x, **keywords), pool(x, **keywords, return_indices=True)

    check(run, varied(SHAPES[rank], layout=layout))


def test_max_pool_without_batch_or_history() -> None:
    check(lambda lib, x: lib.nn.functional.max_pool2d(x, 2), (3, 5, 6))
    check(lambda lib, x: lib.max_pool1d(x, 2), arg((3, 6), requires_grad=False), version=False)
    check(lambda lib, x: lib.max_pool1d_with_indices(x, 2), (3, 6), grad=1)
    check(lambda lib, x: lib.max_pool3d(x, 2), (2, 4, 4, 4), grad=1)


def test_max_pool_of_long_rows() -> None:
    """Rows that are compared tap by tap, in steps of one, two and three."""
    for stride in (1, 2, 3):
        check(
            lambda lib, x, s=stride: lib.nn.functional.max_pool1d(x, 3, s, 1, return_indices=True),
            varied((2, 600), dtype="float32"),
            grad=1,
        )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "uint8"])
def test_max_pool_of_dtypes(dtype: str) -> None:
    check(
        lambda lib, x: lib.nn.functional.max_pool2d(x, 2, 1, 1, return_indices=True),
        arg((2, 5, 6), dtype=dtype),
        grad=1,
        exact=True,
    )


@pytest.mark.parametrize("width", [4, 40])
def test_max_pool_of_ties_and_special_values(width: int) -> None:
    nan, inf = float("nan"), float("inf")
    row = np.tile([nan, 1.0, 2.0, nan], width // 4)
    rows = [row, np.zeros(width), np.full(width, -inf), np.where(row == row, row, inf)]
    for dtype in ("float32", "float64"):
        check(
            lambda lib, x: lib.nn.functional.max_pool2d(x, (1, 4), (1, 2), return_indices=True),
            arg(np.array([rows], dtype)),
            grad=1,
        )
        check(
            lambda lib, x: lib.nn.functional.max_pool2d(x, 3, 1, 1, return_indices=True),
            arg(np.array([rows], dtype)),
            grad=1,
        )


def test_a_window_that_meets_no_element_names_one_that_exists() -> None:
    x = jg.ones(1, 1, 1, requires_grad=True)
    values, indices = jg.nn.functional.max_pool2d(x, 2, 1, 1, 2, return_indices=True)
    assert indices.min() >= 0
    assert indices.max() < 1
    values.sum().backward()


@pytest.mark.parametrize("rank", [2, 3])
def test_channels_last_stays_so(rank: int) -> None:
    order = (0, rank + 1, *range(1, rank + 1))

    def run(lib: Any, x: Any) -> Any:
        f, image = lib.nn.functional, x.permute(order)
        largest, mean = (getattr(f, f"{name}_pool{rank}d") for name in ("max", "avg"))
        values, indices = largest(image, 2, return_indices=True)
        return (
            largest(image, 3, 2, 1, return_indices=True),
            mean(image, 2, 2, 1, False, False),
            getattr(f, f"adaptive_max_pool{rank}d")(image, 3, return_indices=True),
            getattr(f, f"adaptive_avg_pool{rank}d")(image, 3),
            getattr(f, f"max_unpool{rank}d")(values, indices, 2),
        )

    check(run, varied((*(2, 6, 6, 4)[: rank + 1], 3)))


def test_threads_do_not_change_a_bit(threads: int) -> None:
    check(
        lambda lib, x: lib.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True),
        varied((8, 8, 40, 40), dtype="float32"),
        grad=1,
        rtol=1e-5,
    )
    check(
        lambda lib, x: lib.nn.functional.avg_pool2d(x, 3, 2, 1),
        arg((8, 8, 40, 40), dtype="float32"),
        grad=1,
        rtol=1e-5,
    )


# Means --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize(
    "keywords",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": 2, "stride": 3, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "divisor_override": 5},
    ],
    ids=str,
)
def test_avg_pool(rank: int, keywords: dict[str, Any]) -> None:
    if rank == 1:
        keywords = {k: v for k, v in keywords.items() if k != "divisor_override"}
    for shape in (SHAPES[rank], SHAPES[rank][1:]):
        check(lambda lib, x: getattr(lib.nn.functional, f"avg_pool{rank}d")(x, **keywords), shape)


def test_avg_pool_of_other_dtypes() -> None:
    for divisor in (None, 3, -3):
        check(
            lambda lib, x, d=divisor: lib.nn.functional.avg_pool2d(x, 3, 2, 1, divisor_override=d),
            arg((2, 5, 6), dtype="int64"),
        )
    check(
        lambda lib, x: lib.nn.functional.avg_pool2d(x, 2), arg((2, 4, 6), dtype="float16"), grad=1
    )


# To a given size ----------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pool(rank: int, kind: str) -> None:
    sizes: dict[int, list[Any]] = {
        1: [1, 3, (5,), 13],
        2: [1, 3, (2, 5), (None, 4)],
        3: [1, 2, (2, 3, 4), (None, 2, None)],
    }
    for size in sizes[rank]:
        pool = lambda lib, x, s=size: getattr(lib.nn.functional, f"adaptive_{kind}_pool{rank}d")(  # noqa: E731
            x, s
        )
        check(pool, varied(SHAPES[rank]))
        if size != 1:
            check(pool, varied(SHAPES[rank][1:]), grad=1)


def test_adaptive_max_pool_with_places() -> None:
    check(
        lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        varied((2, 3, 7, 5)),
        grad=1,
    )
    check(lambda lib, x: lib.adaptive_max_pool1d(x, 3), varied((2, 7)), grad=1)


# At random ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_max_pool(rank: int) -> None:
    size = (2, 3, 9, 7, 8)[: rank + 2]
    for dtype in ("float32", "float64"):
        samples = arg((2, 3, rank), low=0.0, high=1.0, dtype=dtype, requires_grad=False)
        for keywords in ({"output_size": 4}, {"output_ratio": (0.6,) * rank}, {"output_size": 1}):
            check(
                lambda lib, x, s, k=keywords: getattr(
                    lib.nn.functional, f"fractional_max_pool{rank}d"
                )(x, 3, **k, _random_samples=s, return_indices=True),
                varied(size, dtype=dtype),
                samples,
            )


def test_fractional_max_pool_draws_its_samples() -> None:
    jg.manual_seed(0)
    x = jg.rand(2, 12, 12)
    first = jg.nn.functional.fractional_max_pool2d(x, 2, output_size=5)
    assert first.shape == (2, 5, 5)
    assert not first.equal(jg.nn.functional.fractional_max_pool2d(x, 2, output_size=5))


# Back again ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", SHAPES)
def test_max_unpool(rank: int) -> None:
    def run(lib: Any, x: Any) -> Any:
        f = lib.nn.functional
        values, indices = getattr(f, f"max_pool{rank}d")(x, 2, return_indices=True)
        unpool = getattr(f, f"max_unpool{rank}d")
        return unpool(values, indices, 2, output_size=x.shape), unpool(values, indices, 2)

    check(run, varied(tuple(n + n % 2 for n in SHAPES[rank])))


def test_of_several_values_for_one_place_the_last_stays() -> None:
    """In PyTorch any of them may."""
    x, at = jg.arange(6.0).reshape(1, 2, 3), jg.tensor([[[0, 1, 1], [5, 5, 0]]])
    result = jg.nn.functional.max_unpool2d(x, at, 2).flatten()
    assert result[[0, 1, 5]].tolist() == [5, 2, 4] and result.sum() == 11


# Power means --------------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", SHAPES)
def test_lp_pool(rank: int) -> None:
    for p in (2, 4.0, float("inf"), -float("inf")):
        check(
            lambda lib, x, p=p: getattr(lib.nn.functional, f"lp_pool{rank}d")(x, p, 2, 3),
            arg(SHAPES[rank], low=0.1, high=2.0),
            rtol=1e-10,
        )


def test_local_response_norm() -> None:
    for shape in ((2, 5, 3), (2, 4, 3, 2), (1, 3, 2, 2, 2)):
        check(lambda lib, x: lib.nn.functional.local_response_norm(x, 3, 0.125, 0.75, 1.25), shape)
    check_raises(
        lambda lib, x: lib.nn.functional.local_response_norm(x, 2), (3, 3), match="Expected 3D"
    )


# Derivatives --------------------------------------------------------------------------------------
def test_forward_mode() -> None:
    f = jg.nn.functional
    for function in (
        lambda x: f.max_pool2d(x, 2),
        lambda x: f.max_pool1d(x[0], 2),
        lambda x: f.avg_pool2d(x, 3, 2, 1),
        lambda x: f.adaptive_avg_pool2d(x, 3),
        lambda x: f.adaptive_max_pool2d(x, 3),
        lambda x: f.max_unpool2d(x, jg.arange(60).reshape(2, 5, 6) % 30, 2),
    ):
        x = jg.rand(2, 5, 6, dtype=jg.float64, requires_grad=True)
        jg.autograd.gradcheck(function, x, check_forward_ad=True)
        jg.autograd.gradgradcheck(function, x)


def test_what_nodes_show() -> None:
    x = jg.rand(1, 4, 4, requires_grad=True)
    y, indices = jg.nn.functional.max_pool2d(x, 2, return_indices=True)
    node: Any = y.grad_fn
    assert node._saved_kernel_size == (2, 2)
    assert node._saved_result1.equal(indices)
    indices.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# Errors -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "shape", "arguments", "match"),
    [
        ("max_pool2d", (2, 3, 6, 6), (2, 2, 2), "pad should be at most half"),
        ("max_pool2d", (2, 3, 6, 6), (2, 2, -1), "pad must be non-negative, but got pad: -1"),
        ("max_pool2d", (2, 3, 6, 6), (0,), "stride should not be zero"),
        ("max_pool2d", (2, 3, 6, 6), (2, 1, 0, 0), "dilation should be greater than zero"),
        ("max_pool2d", (2, 3, 6, 6), ((2, 2, 2),), "kernel_size must either be a single int"),
        ("max_pool2d", (2, 3, 6, 6), (2, (1, 2, 3)), "stride must either be omitted, a single int"),
        ("max_pool2d", (2, 3, 6, 6), (2.5,), "must be tuple of ints"),
        ("max_pool2d", (2, 3, 6, 6), (7,), "Calculated output size: (3x0x0). Output size is too"),
        ("max_pool2d", (6, 6), (2,), "non-empty 3D or 4D (batch mode) tensor expected for input"),
        ("max_pool2d", (2, 0, 6, 6), (2,), "with optional 0 dim batch size for input, but got:[2"),
        ("max_pool3d", (3, 6, 6), (2,), "non-empty 4D or 5D (batch mode) tensor expected"),
        ("max_pool1d", (6,), (2,), "max_pool1d: Expected 2D or 3D (batch mode) tensor"),
        ("avg_pool1d", (3, 6), ((2, 2),), "should contain one int"),
        ("max_pool1d", (3, 6), (2, 0), "max_pool1d() stride must be greater than zero, but got 0"),
        ("max_pool1d", (3, 6), (7,), "max_pool1d() Invalid computed output size"),
        ("avg_pool1d", (6,), (2,), "Expected 2 to 3 dimensions, but got 1-dimensional tensor"),
        ("avg_pool2d", (6, 6), (2,), "Dimension out of range"),
        ("avg_pool2d", (3, 6, 6), (2, 2, 0, False, True, 0), "divisor must be not zero"),
        ("avg_pool3d", (3, 6, 6), (2,), "non-empty 4D or 5D (batch mode) tensor expected"),
        ("avg_pool3d", (2, 3, 4, 5), (4, 1, 1), "(T: 3 H: 4 W: 5) smaller than kernel size (kT: 4"),
        ("adaptive_avg_pool2d", (6, 6), (2,), "Expected 3D or 4D tensor, but got [6, 6]"),
        ("adaptive_avg_pool2d", (6, 6), ((2, 2),), "Input dimension should be at least 3"),
        ("adaptive_avg_pool2d", (3, 6, 6), (-1,), "must be greater than or equal to 0"),
        ("adaptive_avg_pool2d", (3, 0, 6), (2,), "with dimension 1 being empty"),
        ("adaptive_max_pool2d", (6, 6), (2,), "Expected 3D or 4D tensor, but got: [6, 6]"),
        ("adaptive_max_pool2d", (3, 6, 6), (-1,), "negative dimension -1"),
        ("adaptive_max_pool2d", (3, 6, 6), ((2, 2, 2),), "Input dimension should be at least 4"),
        ("fractional_max_pool2d", (3, 6, 6), (2,), "requires specifying either an output_size or"),
        ("fractional_max_pool2d", (3, 6, 6), (2, 7), "pool height 2 too large relative to input"),
        ("fractional_max_pool2d", (6, 6), (2, 2), "Dimension out of range"),
    ],
)
def test_errors(name: str, shape: Any, arguments: Any, match: str) -> None:
    check_raises(lambda lib, x: getattr(lib.nn.functional, name)(x, *arguments), shape, match=match)


def test_errors_of_dtypes() -> None:
    for name, dtype in (
        ("max_pool2d", "bool"),
        ("avg_pool2d", "int32"),
        ("adaptive_avg_pool2d", "int64"),
        ("adaptive_max_pool2d", "int64"),
    ):
        check_raises(
            lambda lib, x, n=name: getattr(lib.nn.functional, n)(x, 2),
            arg((3, 6, 6), dtype=dtype),
            match=f'"{name}" not implemented for',
        )


def test_errors_of_unpooling() -> None:
    places = arg([[[0, 1], [2, 9]]], dtype="int64")
    unpool = lambda lib, x, i, **k: lib.nn.functional.max_unpool2d(x, i, 2, 1, **k)  # noqa: E731
    for x, at, match in (
        ((1, 2, 2), places, "Found an invalid max index: 9 (output volumes are of size 3x3"),
        ((1, 2, 3), places, "Expected shape of indices to be same as that of the input tensor"),
        ((2, 2), arg([[0, 1], [2, 3]], dtype="int64"), "should be a 3d or 4d Tensor, but got a"),
        ((1, 2, 2), arg([[[0, 1], [2, 3]]], dtype="int32"), "should be type int64 but got: Int"),
    ):
        check_raises(unpool, x, at, match=match)
    for size, match in (((7, 7), 'invalid output_size "(7, 7)"'), ((3,), "2 or 4 elements")):
        check_raises(
            lambda lib, x, i, s=size: unpool(lib, x, i, output_size=s),
            (1, 2, 2), places, match=match,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "match"),
    [
        ((1, 3, 3), "Expect _random_samples.size(2) equals to 2; got 3."),
        ((1, 2, 2), "Expect _random_samples.size(1)"),
        ((3, 2), "Expect _random_samples to have 3 dimensions, got 2"),
    ],
)
def test_errors_of_samples(samples: Any, match: str) -> None:
    check_raises(
        lambda lib, x, s: lib.nn.functional.fractional_max_pool2d(x, 2, 2, _random_samples=s),
        (3, 6, 6),
        arg(samples, low=0.0, high=1.0, requires_grad=False),
        match=match,
    )


# Modules ------------------------------------------------------------------------------------------
MODULES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "MaxPool": ((2,), {"return_indices": True, "ceil_mode": True}),
    "AvgPool": ((3, 2), {"padding": 1, "count_include_pad": False}),
    "LPPool": ((2, 2), {}),
    "AdaptiveMaxPool": ((3,), {"return_indices": True}),
    "AdaptiveAvgPool": ((3,), {}),
}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, rank: int) -> None:
    arguments, keywords = MODULES[name]

    def run(lib: Any, x: Any) -> Any:
        module = getattr(lib.nn, f"{name}{rank}d")(*arguments, **keywords)
        return module(x), repr(module)

    check(run, arg(SHAPES[rank], low=0.1, high=2.0), grad=1, rtol=1e-10)


def test_modules_that_need_more() -> None:
    def unpool(lib: Any, x: Any) -> Any:
        values, indices = lib.nn.MaxPool2d(2, return_indices=True)(x)
        module = lib.nn.MaxUnpool2d(2)
        return module(values, indices, (5, 6)), repr(module)

    check(unpool, varied((3, 5, 6)), grad=1)

    def fractional(lib: Any, x: Any, samples: Any) -> Any:
        module = lib.nn.FractionalMaxPool2d(2, output_ratio=0.5, _random_samples=samples)
        return module(x), repr(module)

    check(
        fractional,
        varied((3, 5, 6)),
        arg((1, 3, 2), low=0.0, high=1.0, requires_grad=False),
        grad=1,
    )
    check(lambda lib, x: lib.nn.LocalResponseNorm(2)(x), (2, 3, 4), grad=1)
    for arguments, match in (
        ((2,), "requires specifying either an output size, or a pooling ratio"),
        ((2, 2, 0.5), "only one of output_size and output_ratio may be specified"),
        ((2, None, 1.5), "output_ratio must be between 0 and 1 (got 1.5)"),
    ):
        check_raises(lambda lib, x, a=arguments: lib.nn.FractionalMaxPool2d(*a), (), match=match)
