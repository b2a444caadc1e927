"""Resampling against PyTorch: values, nodes, derivatives, errors, modules."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

SHAPES = {1: (2, 3, 7), 2: (2, 3, 5, 6), 3: (2, 2, 4, 3, 5)}
MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
}
CASES = [(mode, rank) for mode, ranks in MODES.items() for rank in ranks]
INTERPOLATING = ("linear", "bilinear", "trilinear", "bicubic")


@pytest.mark.parametrize(("mode", "rank"), CASES)
def test_interpolate_to_a_size(mode: str, rank: int) -> None:
    sizes: list[Any] = [3, (9, 4, 11)[:rank], SHAPES[rank][2:], 1]
    for size in sizes[: 3 if mode == "area" else 4]:  # PyTorch's node is another one for area of 1
        for align in (True, False) if mode in INTERPOLATING else (None,):
            check(
                lambda lib, x, s=size, a=align: lib.nn.functional.interpolate(
                    x, s, mode=mode, align_corners=a
                ),
                SHAPES[rank],
            )


@pytest.mark.parametrize(("mode", "rank"), CASES)
def test_interpolate_by_a_factor(mode: str, rank: int) -> None:
    factors: list[Any] = [2, (1.3, 0.7, 1.9)[:rank]]
    for factor in factors:
        for recompute in (True, False):
            check(
                lambda lib, x, f=factor, r=recompute: lib.nn.functional.interpolate(
                    x, scale_factor=f, mode=mode, recompute_scale_factor=r
                ),
                SHAPES[rank],
                grad=1,
            )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_interpolate_with_antialias(mode: str) -> None:
    for size in ((3, 4), (12, 2), (5, 13)):
        check(
            lambda lib, x, s=size: lib.nn.functional.interpolate(x, s, mode=mode, antialias=True),
            (2, 2, 7, 9),
        )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_positions_round_as_in_single_precision(mode: str) -> None:
    check(
        lambda lib, x: lib.nn.functional.interpolate(x, (37, 211), mode=mode),
        arg((1, 2, 29, 83), dtype="float32"),
        grad=1,
        rtol=1e-5,
        atol=1e-5,
    )


def test_interpolate_of_other_dtypes() -> None:
    check(
        lambda lib, x: lib.nn.functional.interpolate(x, (3, 9)),
        arg((2, 2, 4, 5), dtype="uint8"),
        exact=True,
    )
    check(
        lambda lib, x: lib.nn.functional.interpolate(x, (3, 9), mode="bilinear"),
        arg((2, 2, 4, 5), dtype="float16"),
        grad=1,
        rtol=5e-3,
        atol=1e-3,
    )
    x = jg.tensor([[[[0, 1, 255]]]], dtype=jg.uint8)
    y = jg.nn.functional.interpolate(x, (1, 5), mode="bilinear", align_corners=True)
    assert y.tolist() == [[[[0, 1, 1, 128, 255]]]]  # bytes are rounded half up


def test_channels_last_stays_so() -> None:
    for mode in ("nearest", "bilinear", "bicubic"):
        check(
            lambda lib, x, m=mode: lib.nn.functional.interpolate(x.permute(0, 3, 1, 2), 7, mode=m),
            arg((2, 4, 5, 3), layout="contiguous"),
            grad=1,
        )


def test_former_names() -> None:
    for name in ("upsample", "upsample_nearest", "upsample_bilinear"):
        check(
            lambda lib, x, n=name: getattr(lib.nn.functional, n)(x, scale_factor=2),
            (1, 2, 3, 4),
            grad=1,
            warns=f"`nn.functional.{name}` is deprecated",
        )


def test_what_the_node_shows() -> None:
    x = jg.rand(1, 2, 3, 4, requires_grad=True)
    y = jg.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)
    node: Any = y.grad_fn
    assert node._saved_output_size == (6, 8)
    assert node._saved_scales_h == 2.0
    assert node._saved_align_corners is True


@pytest.mark.parametrize(
    ("shape", "keywords", "match"),
    [
        ((1, 2, 3), {"size": 2, "align_corners": True}, "align_corners option can only be set"),
        ((1, 2, 3), {"size": 2, "scale_factor": 2}, "only one of size or scale_factor should be"),
        ((1, 2, 3), {}, "either size or scale_factor should be defined"),
        ((1, 2, 3), {"size": 2, "recompute_scale_factor": True}, "is not meaningful with an"),
        ((1, 2, 3), {"size": (2, 2)}, "Input and output must have the same number of spatial"),
        ((1, 2, 3), {"scale_factor": (2, 2)}, "Input and scale_factor must have the same number"),
        ((1, 2, 3), {"size": (2.5,)}, "expected size to be one of int or Tuple[int]"),
        ((1, 2, 3), {"size": 2, "antialias": True}, "Anti-alias option is restricted to bilinear"),
        ((1, 2, 3), {"size": 2, "mode": "bilinear"}, "Got 3D input, but bilinear mode needs 4D"),
        ((2, 3), {"size": 2}, "Only 3D, 4D and 5D input Tensors supported"),
        ((1, 2, 3), {"size": 0}, "Input and output sizes should be greater than 0"),
        ((1, 2, 3, 4), {"scale_factor": 0.1}, "input (H: 3, W: 4) output (H: 0, W: 0)"),
        ((1, 0, 3, 4), {"size": 2}, "Non-empty 4D data tensor expected but got a tensor with"),
        ((1, 2, 3, 4), {"size": 2, "mode": "lanczos"}, "Lanczos mode requires antialias=True"),
    ],
)
def test_errors(shape: Any, keywords: dict[str, Any], match: str) -> None:
    check_raises(lambda lib, x: lib.nn.functional.interpolate(x, **keywords), shape, match=match)


def test_errors_of_dtypes() -> None:
    check_raises(
        lambda lib, x: lib.nn.functional.interpolate(x, 2, mode="bilinear"),
        arg((1, 2, 3, 4), dtype="int64"),
        match="not implemented for 'Long'",
    )


# Channels and pixels ------------------------------------------------------------------------------
SHUFFLES: dict[str, tuple[tuple[int, ...], int]] = {
    "pixel_shuffle": ((2, 12, 3, 2), 2),
    "pixel_unshuffle": ((2, 3, 6, 4), 2),
    "channel_shuffle": ((2, 6, 3, 2), 3),
}


@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles(name: str) -> None:
    shape, factor = SHUFFLES[name]
    shuffle = lambda lib, x: getattr(lib.nn.functional, name)(x, factor)  # noqa: E731
    for layout in ("gapped", "transposed", "contiguous", "expanded"):
        check(shuffle, arg(shape, layout=layout), exact=True)
    if name != "pixel_unshuffle":  # PyTorch's result has the shape of the input
        check(shuffle, arg((0, *shape[1:]), layout="contiguous"), grad=0)
    check(shuffle, shape[1:] if name != "channel_shuffle" else shape[:3])
    check(shuffle, arg(shape, dtype="bool"))
    check(lambda lib, x: shuffle(lib, x.permute(0, 3, 1, 2)),
          arg((shape[0], *shape[2:], shape[1]), layout="contiguous"), grad=1)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "shape", "factor", "match"),
    [
        ("pixel_shuffle", (8, 3), 2, "pixel_shuffle expects input to have at least 3 dimensions"),
        ("pixel_shuffle", (8, 3, 3), 0, "pixel_shuffle expects a positive upscale_factor, but got"),
        ("pixel_shuffle", (7, 3, 3), 2, "input.size(-3)=7 is not divisible by 4"),
        ("pixel_shuffle", (8, 3, 3), 2.5, "must be int"),
        ("pixel_unshuffle", (2, 3, 4), 2, "expects height to be divisible by downscale_factor"),
        ("pixel_unshuffle", (2, 4, 3), 2, "expects width to be divisible by downscale_factor"),
        ("channel_shuffle", (2, 4), 2, "channel_shuffle expects input with > 2 dims"),
        ("channel_shuffle", (2, 4, 3), 3, "Number of channels must be divisible by groups."),
        ("channel_shuffle", (2, 4, 3), 0, "Number of groups to divide channels in must be"),
    ],
)
def test_errors_of_shuffles(name: str, shape: Any, factor: Any, match: str) -> None:
    check_raises(lambda lib, x: getattr(lib, name)(x, factor), shape, match=match)


# Derivatives and modules --------------------------------------------------------------------------
def test_forward_mode() -> None:
    f = jg.nn.functional
    for function in (
        lambda x: f.interpolate(x, (5, 3), mode="bilinear"),
        lambda x: f.interpolate(x, (5, 3)),
        lambda x: f.pixel_shuffle(x, 2),
        lambda x: f.channel_shuffle(x, 2),
    ):
        x = jg.rand(1, 4, 3, 4, dtype=jg.float64, requires_grad=True)
        jg.autograd.gradcheck(function, x, check_forward_ad=True)
        jg.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("Upsample", {"scale_factor": 2}),
        ("Upsample", {"size": (3, 4), "mode": "bilinear", "align_corners": True}),
        ("UpsamplingNearest2d", {"scale_factor": (2, 1.5)}),
        ("UpsamplingBilinear2d", {"size": 5}),
        ("PixelShuffle", {"upscale_factor": 2}),
        ("PixelUnshuffle", {"downscale_factor": 2}),
        ("ChannelShuffle", {"groups": 2}),
    ],
)
def test_modules(name: str, keywords: dict[str, Any]) -> None:
    def run(lib: Any, x: Any) -> Any:
        module = getattr(lib.nn, name)(**keywords)
        return module(x), repr(module)

    check(run, (1, 4, 6, 4), grad=1)
