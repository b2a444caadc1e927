"""grid_sample and affine_grid against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

IMAGE, POINTS = (2, 3, 5, 4), (2, 3, 6, 2)
VOLUME, PLACES = (2, 2, 3, 4, 3), (2, 2, 3, 4, 3)


def grid(shape: tuple[int, ...] = POINTS, **settings: Any) -> Any:
    """Positions, some of them outside."""
    return arg(shape, low=-1.8, high=1.8, **settings)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grid_sample(mode: str, padding: str, align: bool) -> None:
    check(
        lambda lib, x, g: lib.nn.functional.grid_sample(x, g, mode, padding, align),
        IMAGE,
        grid(),
        rtol=1e-9,
        atol=1e-10,
    )
    if mode != "bicubic":
        check(
            lambda lib, x, g: lib.nn.functional.grid_sample(x, g, mode, padding, align),
            VOLUME,
            grid(PLACES),
            rtol=1e-9,
            atol=1e-10,
        )


def test_single_precision_and_many_positions(threads: int) -> None:
    check(
        lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=False),
        arg((4, 6, 20, 20), dtype="float32"),
        grid((4, 30, 31, 2), dtype="float32"),
        grad=1,
        rtol=1e-4,
        atol=1e-4,
    )


def test_one_element_and_none() -> None:
    for padding in ("zeros", "border", "reflection"):
        for align in (True, False):
            check(
                lambda lib, x, g, p=padding, a=align: lib.nn.functional.grid_sample(
                    x, g, "bilinear", p, a
                ),
                (2, 3, 1, 1),
                grid(),
            )
    check(
        lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=False),
        IMAGE,
        grid((2, 0, 3, 2)),
        grad=1,
    )


def test_positions_that_are_not_finite() -> None:
    values = [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 0.5]
    points = [[[[value, 0.0] for value in values]]]
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border"):
            check(
                lambda lib, x, g, m=mode, p=padding: lib.nn.functional.grid_sample(
                    x, g, m, p, True
                ),
                (1, 2, 4, 5),
                arg(points, dtype="float64"),
                grad=0,
            )


def test_native_names() -> None:
    for name, x, g in (
        ("grid_sampler", IMAGE, POINTS),
        ("grid_sampler_2d", IMAGE, POINTS),
        ("grid_sampler_3d", VOLUME, PLACES),
    ):
        check(lambda lib, x, g, n=name: getattr(lib, n)(x, g, 0, 1, True), x, grid(g), grad=1)


def test_derivatives() -> None:
    """Forward-mode too, which PyTorch does not have here; away from the kinks."""
    for mode, shape, points in (
        ("bilinear", (1, 2, 4, 4), (1, 2, 2, 2)),
        ("bicubic", (1, 2, 4, 4), (1, 2, 2, 2)),
        ("bilinear", (1, 1, 3, 3, 3), (1, 1, 2, 2, 3)),
    ):
        x = jg.rand(*shape, dtype=jg.float64, requires_grad=True)
        g = (jg.rand(*points, dtype=jg.float64) * 0.6 - 0.3).requires_grad_()
        sample = lambda x, g, m=mode: jg.nn.functional.grid_sample(x, g, m, "border", True)  # noqa: E731
        jg.autograd.gradcheck(sample, (x, g), check_forward_ad=True)
        jg.autograd.gradgradcheck(sample, (x, g))


def test_a_third_derivative_says_that_there_is_none() -> None:
    x = jg.rand(1, 1, 4, 4, dtype=jg.float64, requires_grad=True)
    g = (jg.rand(1, 2, 2, 2, dtype=jg.float64) * 0.5).requires_grad_()
    y = jg.nn.functional.grid_sample(x, g, "bicubic", align_corners=True).pow(2).sum()
    for _ in range(2):
        (y,) = jg.autograd.grad(y, g, create_graph=True)
        y = y.pow(2).sum()
    with pytest.raises(RuntimeError, match="derivatives of two orders"):
        jg.autograd.grad(y, g)


@pytest.mark.parametrize(
    ("x", "g", "keywords", "match"),
    [
        (IMAGE, (1, 3, 6, 2), {}, "expected grid and input to have same batch size"),
        (IMAGE, (2, 3, 6, 1), {}, "expected grid to have size 2 in last dimension"),
        ((2, 3, 0, 4), POINTS, {}, "expected input to have non-empty spatial dimensions"),
        (VOLUME, PLACES, {"mode": "bicubic"}, "bicubic interpolation only supports 4D input"),
        (IMAGE, POINTS, {"mode": "cubic"}, "expected mode to be 'bilinear', 'nearest' or"),
        (IMAGE, POINTS, {"padding_mode": "none"}, "expected padding_mode to be 'zeros', 'border'"),
        (IMAGE, (2, 6, 2), {}, "same number of dimensions"),
    ],
)
def test_errors(x: Any, g: Any, keywords: dict[str, Any], match: str) -> None:
    check_raises(
        lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=False, **keywords),
        x,
        grid(g),
        match=match,
    )


def test_errors_of_dtypes() -> None:
    check_raises(
        lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=False),
        arg(IMAGE, dtype="float32"),
        grid(dtype="float64"),
        match="expected scalar type Float but found Double",
    )


def test_align_corners_should_be_said() -> None:
    check(
        lambda lib, x, g: lib.nn.functional.grid_sample(x, g),
        IMAGE,
        grid(),
        grad=1,
        warns="Default grid_sample and affine_grid behavior has changed",
    )


# Grids of affine maps -----------------------------------------------------------------------------
@pytest.mark.parametrize("align", [True, False])
def test_affine_grid(align: bool) -> None:
    for dtype in ("float64", "float32"):
        for matrix, size in (((2, 2, 3), (2, 3, 4, 5)), ((2, 3, 4), (2, 1, 2, 3, 4))):
            check(
                lambda lib, theta, s=size: lib.nn.functional.affine_grid(theta, s, align),
                arg(matrix, dtype=dtype),
            )
    check(lambda lib, theta: lib.nn.functional.affine_grid(theta, (1, 1, 1, 3), False), (1, 2, 3))


def test_affine_grid_of_unit_size_warns() -> None:
    check(
        lambda lib, theta: lib.nn.functional.affine_grid(theta, (1, 1, 1, 3), True),
        (1, 2, 3),
        warns="affine_grid behavior has changed for unit-size grids",
    )


@pytest.mark.parametrize(
    ("matrix", "size", "match"),
    [
        ((2, 2, 3), (2, 3, 4), "affine_grid only supports 4D and 5D sizes"),
        ((2, 2, 2), (2, 3, 4, 4), "Expected a batch of 2D affine matrices of shape Nx2x3"),
        ((2, 2, 3), (2, 3, 4, 4, 4), "Expected a batch of 3D affine matrices of shape Nx3x4"),
        ((2, 2, 3), (2, 3, 0, 4), "Expected non-zero, positive output size."),
        ((2, 2, 3), (3, 3, 4, 4), "batch2 tensor"),
    ],
)
def test_errors_of_affine_grid(matrix: Any, size: Any, match: str) -> None:
    check_raises(lambda lib, t: lib.nn.functional.affine_grid(t, size, False), matrix, match=match)


def test_errors_of_the_native_name() -> None:
    check_raises(
        lambda lib, theta: lib.affine_grid_generator(theta, (2, 3, 4), False),
        (2, 2, 3),
        match="AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.",
    )
    check_raises(
        lambda lib, theta: lib.nn.functional.affine_grid(theta, (2, 3, 4, 4), False),
        arg((2, 2, 3), dtype="int64"),
        match="Expected theta to have floating point type",
    )
