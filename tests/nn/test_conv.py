"""Convolutions against PyTorch: values, nodes, derivatives of two orders, errors, modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jitgrad as jg
from tests.oracle import arg, check, check_raises

SIZES = (7, 6, 5)
ONE = arg((5,))

# input channels, rows, kernel, stride, padding, dilation, groups
CASES: dict[str, Any] = {
    "plain": (3, 4, 3, 1, 0, 1, 1),
    "padded": (2, 14, 3, 1, 1, 1, 1),
    "wide padding": (1, 2, 2, 1, 4, 1, 1),
    "one by one": (5, 3, 1, 1, 0, 1, 1),
    "strided": (2, 3, 2, 2, 1, 1, 1),
    "wide strides": (2, 3, 2, 3, 0, 1, 1),
    "dilated": (2, 3, 2, 1, 1, 2, 1),
    "groups": (4, 6, 2, 1, 0, 1, 2),
    "depthwise": (3, 3, 3, 1, 1, 1, 3),
    "all at once": (4, 2, 2, 2, 2, 3, 2),
}


def call(lib: Any, rank: int, case: str, x: Any, w: Any, b: Any = None) -> Any:
    _, _, _, stride, padding, dilation, groups = CASES[case]
    return getattr(lib.nn.functional, f"conv{rank}d")(x, w, b, stride, padding, dilation, groups)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank: int, case: str) -> None:
    channels, rows, kernel, _, _, _, groups = CASES[case]
    x, w = (2, channels, *SIZES[:rank]), (rows, channels // groups, *(kernel,) * rank)
    check(lambda lib, x, w, b: call(lib, rank, case, x, w, b), x, w, (rows,), rtol=1e-10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolution(rank: int, case: str) -> None:
    channels, rows, kernel, stride, padding, dilation, groups = CASES[case]
    x, w = (2, rows, *SIZES[:rank]), (rows, channels // groups, *(kernel,) * rank)
    extra = max(stride, dilation) - 1

    def transposed(lib: Any, x: Any, w: Any, b: Any) -> Any:
        convolve = getattr(lib.nn.functional, f"conv_transpose{rank}d")
        return convolve(x, w, b, stride, min(padding, 2), extra, groups, dilation)

    check(transposed, x, w, (channels,), rtol=1e-10)


def test_different_numbers_for_each_dimension() -> None:
    for bias in (True, False):
        check(
            lambda lib, x, w, b, bias=bias: lib.conv2d(
                x, w, b if bias else None, (2, 1), (0, 3), (1, 2), 2
            ),
            (2, 4, 9, 8), (6, 2, 2, 3), (6,), rtol=1e-10,
        )  # fmt: skip
    check(
        lambda lib, x, w: lib.conv_transpose2d(x, w, None, (3, 2), (1, 0), (2, 1), 2, (1, 3)),
        (2, 4, 3, 4), (4, 3, 2, 3), rtol=1e-10,
    )  # fmt: skip
    check(lambda lib, x, w: lib.conv3d(x, w, stride=[1, 2, 3], padding=(2,)), (1, 2, 4, 5, 6),
          (3, 2, 2, 1, 3), rtol=1e-10)  # fmt: skip
    check(lambda lib, x, w: lib.convolution(x, w, None, (2,), (1,), (1,), True, (1,), 1),
          (2, 3, 5), (3, 4, 3), rtol=1e-10)  # fmt: skip


def test_padding_by_name() -> None:
    def conv(lib: Any, x: Any, w: Any, name: str, dilation: Any = 1) -> Any:
        return lib.nn.functional.conv2d(x, w, padding=name, dilation=dilation)

    for name in ("same", "valid"):
        check(lambda lib, x, w, n=name: conv(lib, x, w, n), (1, 2, 5, 6), (3, 2, 3, 1), rtol=1e-10)
    # PyTorch pads by an operator of its own if the two sides differ.
    with pytest.warns(UserWarning, match="even kernel lengths"):
        check(
            lambda lib, x, w: conv(lib, x, w, "same", (3, 1)),
            (1, 2, 5, 6), (3, 2, 2, 4), rtol=1e-10, grad_fn=False,
        )  # fmt: skip


def test_without_a_batch() -> None:
    check(lambda lib, x, w: lib.conv1d(x, w, padding=1), (2, 7), (3, 2, 3), rtol=1e-10)
    check(lambda lib, x, w, b: lib.conv2d(x, w, b), (2, 5, 4), (3, 2, 3, 3), (3,), rtol=1e-10)
    check(lambda lib, x, w: lib.conv_transpose2d(x, w), (2, 5, 4), (2, 3, 2, 2), rtol=1e-10)
    check(lambda lib, x, w: lib.conv_transpose3d(x, w), (2, 2, 3, 4), (2, 3, 2, 2, 1), rtol=1e-10)


def test_without_elements() -> None:
    check(lambda lib, x, w, b: lib.conv2d(x, w, b), (0, 2, 5, 4), (3, 2, 3, 3), (3,))
    check(lambda lib, x, w: lib.conv_transpose2d(x, w), (0, 2, 5, 4), (2, 3, 3, 3))
    check(lambda lib, x, w: lib.conv2d(x, w).shape, (2, 0, 5, 4), (3, 0, 3, 3), grad=0)


@pytest.mark.parametrize("layout", ["gapped", "transposed", "offset", "expanded"])
def test_memory_layouts(layout: str) -> None:
    x, w = arg((2, 3, 6, 7), layout=layout), arg((4, 3, 3, 3), layout=layout)
    b = arg((4,), layout=layout)
    check(lambda lib, x, w, b: lib.conv2d(x, w, b, padding=1), x, w, b, rtol=1e-10, grad=1)
    check(lambda lib, x, w, b: lib.conv2d(x, w, b), x, w, b, rtol=1e-10, grad=1)


def test_channels_last() -> None:
    def conv(lib: Any, x: Any, w: Any) -> Any:
        last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        return lib.conv2d(last, w, stride=2, padding=1)

    check(conv, (2, 3, 6, 7), (4, 3, 3, 3), rtol=1e-10)


def test_integers() -> None:
    for dtype in ("int64", "uint8"):
        x, w = arg((2, 3, 6, 5), dtype=dtype), arg((4, 3, 3, 2), dtype=dtype)
        check(lambda lib, x, w: lib.conv2d(x, w, stride=(1, 2), padding=1), x, w, exact=True)
    x, w = arg((2, 3, 6), dtype="int64"), arg((3, 4, 3), dtype="int64")
    check(lambda lib, x, w: lib.conv_transpose1d(x, w, stride=2), x, w, exact=True)


def test_single_and_half_precision() -> None:
    for dtype in ("float32", "float16", "bfloat16"):
        check(
            lambda lib, x, w, b: lib.conv2d(x, w, b, padding=1),
            (2, 5, 9, 17), (13, 5, 3, 3), (13,), dtype=dtype,
            rtol=2e-5 if dtype == "float32" else 4e-2, atol=1e-4 if dtype == "float32" else 0.3,
            grad=1,
        )  # fmt: skip


def test_images_larger_than_a_block() -> None:
    def conv(lib: Any, x: Any, w: Any, stride: int, padding: int) -> Any:
        return lib.conv2d(x, w, stride=stride, padding=padding)

    for stride, padding in ((1, 1), (2, 3), (1, 0)):
        check(
            lambda lib, x, w, s=stride, p=padding: conv(lib, x, w, s, p),
            (1, 40, 70, 61), (3, 40, 5, 3), rtol=1e-9, grad=1,
        )  # fmt: skip
    check(
        lambda lib, x, w: lib.conv1d(x, w, stride=2), (1, 30, 3000), (2, 30, 9), rtol=1e-9, grad=1
    )
    check(
        lambda lib, x, w: lib.conv3d(x, w), (1, 9, 12, 30, 31), (2, 9, 2, 3, 3), rtol=1e-9, grad=1
    )


@given(st.data())
def test_any_geometry(data: Any) -> None:
    """Two dimensions, alike in nothing."""

    def pair(low: int, high: int) -> Any:
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    kernel, dilation, padding = pair(1, 4), pair(1, 3), pair(0, 3)
    stride = data.draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (3, 2)]))
    least = [
        max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in zip(kernel, dilation, padding, strict=True)
    ]
    size = [n + more for n, more in zip(least, pair(0, 20), strict=True)]
    groups, per, each = data.draw(st.sampled_from([(1, 2, 4), (2, 1, 1), (1, 3, 7), (2, 2, 5)]))
    check(
        lambda lib, x, w: lib.conv2d(x, w, None, stride, padding, dilation, groups),
        (2, groups * per, *size), (groups * each, per, *kernel), rtol=1e-9, atol=1e-11,
        layout="varied" if size[0] % 2 else "contiguous",
    )  # fmt: skip


def test_the_bits_do_not_depend_on_threads(threads: Any) -> None:
    rng = np.random.default_rng(0)
    x = jg.tensor(rng.normal(size=(5, 16, 20, 21)).astype(np.float32), requires_grad=True)
    w = jg.tensor(rng.normal(size=(24, 16, 3, 3)).astype(np.float32), requires_grad=True)
    results = []
    for count in (1, 2):
        threads(count)
        y = jg.conv2d(x, w, padding=1)
        results.append([y, *jg.autograd.grad((y * y).sum(), [x, w])])
    for a, b in zip(*results, strict=True):
        assert jg.equal(a, b)


def test_infinities_stay_where_they_are_seen() -> None:
    values = np.zeros((1, 1, 6, 6))
    values[0, 0, 2, 5] = np.inf
    check(
        lambda lib, x, w: lib.conv2d(x, w.abs() + 1, padding=1),
        arg(values.tolist()), (2, 1, 3, 3), rtol=1e-10, grad=0,
    )  # fmt: skip


def test_gradients_of_three_orders() -> None:
    jg.manual_seed(0)
    x = jg.randn(2, 2, 4, 5, dtype=jg.float64, requires_grad=True)
    w = jg.randn(4, 1, 2, 3, dtype=jg.float64, requires_grad=True)
    b = jg.randn(4, dtype=jg.float64, requires_grad=True)

    def conv(x: Any, w: Any, b: Any) -> Any:
        return jg.conv2d(x, w, b, (2, 1), 1, (1, 2), 2)

    def back(x: Any, w: Any, b: Any) -> Any:
        return jg.conv_transpose2d(x, w.transpose(0, 1)[:2].contiguous(), None, 2, 1)

    jg.autograd.gradcheck(conv, (x, w, b), check_forward_ad=True)
    jg.autograd.gradgradcheck(conv, (x, w, b), check_fwd_over_rev=True)
    y = jg.randn(1, 1, 3, 4, dtype=jg.float64, requires_grad=True)
    jg.autograd.gradcheck(back, (y, w, b), check_forward_ad=True)
    jg.autograd.gradgradcheck(back, (y, w, b))

    def slope(x: Any, w: Any) -> Any:
        (found,) = jg.autograd.grad((conv(x, w, b.detach()) ** 3).sum(), x, create_graph=True)
        return found

    jg.autograd.gradgradcheck(slope, (x.detach()[:1].requires_grad_(), w))


ERRORS: dict[str, Any] = {
    "expected input": ((2, 3, 5, 5), (4, 2, 3, 3), {}),
    "Expected 3D (unbatched) or 4D (batched) input to conv2d": ((5, 5), (4, 2, 3, 3), {}),
    "Kernel size can't be greater than actual input size": ((1, 2, 5, 5), (4, 2, 6, 3), {}),
    "non-positive stride": ((1, 2, 5, 5), (4, 2, 3, 3), {"stride": 0}),
    "negative padding": ((1, 2, 5, 5), (4, 2, 3, 3), {"padding": -1}),
    "non-positive groups": ((1, 2, 5, 5), (4, 2, 3, 3), {"groups": 0}),
    "expected weight to be divisible by 2": ((1, 4, 5, 5), (5, 2, 3, 3), {"groups": 2}),
    "expected weight to be at least 1": ((1, 2, 5, 5), (0, 2, 3, 3), {}),
    "or a list of 2 values": ((1, 2, 5, 5), (4, 2, 3, 3), {"stride": (1, 1, 1)}),
    "Invalid padding string": ((1, 2, 5, 5), (4, 2, 3, 3), {"padding": "some"}),
    "not supported for strided convolutions": (
        (1, 2, 5, 5), (4, 2, 3, 3), {"padding": "same", "stride": 2},
    ),
    "Only zero batch or zero channel inputs": ((1, 2, 0, 5), (4, 2, 3, 3), {"padding": 2}),
}  # fmt: skip


@pytest.mark.parametrize("match", ERRORS)
def test_errors(match: str) -> None:
    x, w, options = ERRORS[match]
    check_raises(lambda lib, x, w: lib.conv2d(x, w, **options), x, w, match=match, dtype="float32")


def test_more_errors() -> None:
    x, w = (1, 2, 5, 5), (2, 3, 3, 3)
    check_raises(lambda lib, x, w, b: lib.conv_transpose2d(x, w, b), x, w, (2,),
                 match="expected bias to be 1-dimensional with 3 elements")  # fmt: skip
    check_raises(lambda lib, x, w: lib.conv_transpose2d(x, w, stride=2, output_padding=2), x, w,
                 match="output padding must be smaller than either stride or dilation")  # fmt: skip
    check_raises(lambda lib, x, w: lib.conv_transpose2d(x, w), (1, 3, 5, 5), w,
                 match="Given transposed=1")  # fmt: skip
    with pytest.raises(RuntimeError, match="should be the same"):  # one of PyTorch's wordings
        jg.conv2d(jg.zeros(x), jg.zeros(2, 2, 3, 3, dtype=jg.float64))
    check_raises(lambda lib, x, w: lib.conv2d(x, w, stride=1.5), (1, 3, 5, 5), w, match="conv2d()",
                 kind=TypeError)  # fmt: skip
    check_raises(lambda lib, x, w: lib.conv2d(x.bool(), w.bool()), (1, 3, 5, 5), w,
                 match="not implemented for 'Bool'")  # fmt: skip


# Windows as columns -------------------------------------------------------------------------------
def test_unfold_and_fold() -> None:
    for options in (
        {},
        {"padding": 1},
        {"stride": 2, "padding": (0, 2)},
        {"dilation": (1, 2), "stride": (2, 1)},
    ):
        check(lambda lib, x, o=options: lib.nn.functional.unfold(x, (2, 3), **o), (2, 3, 6, 7))

        def around(lib: Any, x: Any, options: Any = options) -> Any:
            columns = lib.nn.functional.unfold(x, (2, 3), **options)
            return lib.nn.functional.fold(columns, (6, 7), (2, 3), **options)

        check(around, (2, 3, 6, 7))
    check(lambda lib, x: lib.nn.functional.unfold(x, 2), (3, 4, 5))
    check(lambda lib, x: lib.nn.functional.fold(x, (3, 4), 2), (8, 6))
    check(lambda lib, x: lib.nn.functional.unfold(x, 2), (0, 3, 4, 5))
    for dtype in ("bool", "float32", "float16"):
        check(lambda lib, x: lib.nn.functional.unfold(x, 2, padding=1), (2, 2, 3, 4), dtype=dtype,
              exact=True, grad=0)  # fmt: skip
    check(lambda lib, x: lib.nn.functional.fold(x, (3, 4), 2), (8, 6), dtype="bool", exact=True)


def test_unfold_and_fold_refuse() -> None:
    for options, match in (
        ({"kernel_size": 9}, "its components must be at least one"),
        ({"kernel_size": 0}, "kernel size should be greater than zero"),
        ({"kernel_size": 2, "stride": 0}, "stride should be greater than zero"),
        ({"kernel_size": 2, "dilation": 0}, "dilation should be greater than zero"),
        ({"kernel_size": 2, "padding": -1}, "padding should be non-negative"),
        ({"kernel_size": (2, 2, 2)}, "It is expected kernel_size equals to 2"),
    ):
        check_raises(
            lambda lib, x, o=options: lib.nn.functional.unfold(x, **o), (1, 2, 5, 5), match=match
        )
    unfold, size = "fold", (4, 4)
    for shape, match in (
        ((2, 7, 9), "divisible by the product of kernel_size"),
        ((2, 8, 8), "calculated number of sliding blocks 3 * 3 = 9"),
        ((9,), "Expected 2D or 3D (batch mode) tensor"),
    ):
        check_raises(
            lambda lib, x: getattr(lib.nn.functional, unfold)(x, size, 2), shape, match=match
        )
    check_raises(lambda lib, x: lib.nn.functional.unfold(x, 2), (1, 2, 5, 5), dtype="int64",
                 match="not implemented for 'Long'")  # fmt: skip


# Modules ------------------------------------------------------------------------------------------
MODULES: dict[str, Any] = {
    "Conv1d": ((4, 6, 3), {"padding": 2, "dilation": 2, "groups": 2}, (2, 4, 9)),
    "Conv2d": ((2, 3, (3, 2)), {"stride": 2, "bias": False}, (2, 2, 7, 6)),
    "Conv3d": ((2, 3, 2), {"padding": "same"}, (1, 2, 3, 4, 3)),
    "ConvTranspose1d": ((2, 3, 3), {"stride": 2, "output_padding": 1}, (2, 2, 5)),
    "ConvTranspose2d": ((4, 6, 3), {"groups": 2, "padding": 1}, (2, 4, 5, 4)),
    "ConvTranspose3d": ((2, 1, 2), {"dilation": 2}, (1, 2, 3, 2, 3)),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_modules(name: str) -> None:
    sizes, options, shape = MODULES[name]

    def run(lib: Any, x: Any) -> Any:
        lib.manual_seed(0)
        module = getattr(lib.nn, name)(*sizes, **options)
        assert list(module.state_dict()) == ["weight", "bias"][: 1 + (module.bias is not None)]
        return module(x), module.weight

    x = arg(shape, dtype="float32")
    check(run, x, rtol=1e-4, atol=1e-5, grad=1, strides="loose", grad_fn=name != "Conv3d")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes_of_modules(mode: str) -> None:
    for padding in ((1, 2), "same"):

        def run(lib: Any, x: Any, padding: Any = padding) -> Any:
            lib.manual_seed(0)
            module = lib.nn.Conv2d(2, 3, 3, padding=padding, padding_mode=mode, dtype=lib.float64)
            return module(x)

        check(run, (2, 2, 5, 6), rtol=1e-10, grad=1)


@pytest.mark.oracle
def test_modules_describe_themselves() -> None:
    def texts(lib: Any) -> list[str]:
        nn = lib.nn
        modules = [
            nn.Conv1d(2, 4, 3),
            nn.Conv2d(2, 4, (3, 2), 2, 1, 2, 2, False, "reflect"),
            nn.Conv2d(2, 4, 3, padding="same"),
            nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1, groups=2),
            nn.Unfold(3, padding=1),
            nn.Fold((4, 5), (2, 2)),
        ]
        return [repr(m) for m in modules]

    import torch

    assert texts(jg) == texts(torch)


def test_the_output_size_of_a_transposed_module() -> None:
    module = jg.nn.ConvTranspose2d(2, 3, 3, stride=2)
    x = jg.zeros(1, 2, 5, 5)
    assert module(x, output_size=(12, 11)).shape == (1, 3, 12, 11)
    assert module(x, output_size=(1, 3, 12, 12)).shape == (1, 3, 12, 12)
    assert module(x[0], output_size=(3, 11, 12)).shape == (3, 11, 12)
    with pytest.raises(ValueError, match="valid sizes range from"):
        module(x, output_size=(14, 14))
    with pytest.raises(ValueError, match="must have 2 or 4 elements"):
        module(x, output_size=(12,))


def test_windows_as_modules() -> None:
    x = jg.arange(24.0).reshape(1, 2, 3, 4)
    columns = jg.nn.Unfold(2)(x)
    assert columns.shape == (1, 8, 6)
    assert jg.equal(jg.nn.Fold((3, 4), 2)(columns)[0, 0, 0], jg.tensor([0.0, 2.0, 4.0, 3.0]))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"groups": 2}, "in_channels must be divisible by groups"),
        ({"groups": 0}, "groups must be a positive integer"),
        ({"padding": "some"}, "Invalid padding string"),
        ({"padding": "same", "stride": 2}, "not supported for strided convolutions"),
        ({"padding_mode": "some"}, "padding_mode must be one of"),
    ],
)
def test_modules_refuse(arguments: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        jg.nn.Conv2d(3, 4, 3, **arguments)
    with pytest.raises(ValueError, match='Only "zeros" padding mode'):
        jg.nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect")
