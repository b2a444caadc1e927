"""unfold and fold: the windows of images as columns, and columns added up to images.

Each is the other's transpose. Both are a separable map (kernels/separable.py) between an image and
[.., kernel height * rows, kernel width * columns], and an exchange of dimensions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors
from ..dtypes import BOOL, FLOATING, int64
from ..kernels.separable import Separable, Taps
from ..ops.table import structured
from ..tensor import Tensor
from .convert import contiguous, to
from .linear_maps import mapped
from .make import alias, int_argument, ints_argument
from .record import node_class, record
from .view import permute, reshape

Pair = tuple[int, int]
Walk = tuple[Pair, Pair, Pair, Pair]  # kernel size, dilation, padding, stride


def _pair(name: str, argument: str, value: Any) -> Pair:
    if not isinstance(value, (tuple, list)):
        number = int_argument(name, argument, value)
        return number, number
    numbers = ints_argument(name, argument, value)
    if len(numbers) != 2:
        raise RuntimeError(f"It is expected {argument} equals to 2, but got size {len(numbers)}")
    return numbers[0], numbers[1]


def _walk(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Walk:
    kernel = _pair(name, "kernel_size", kernel_size)
    steps = _pair(name, "dilation", dilation)
    zeros = _pair(name, "padding", padding)
    walk = _pair(name, "stride", stride)
    checks = [("kernel size", "kernel", kernel), ("dilation", "dilation", steps),
              ("stride", "stride", walk)]  # fmt: skip
    for what, short, (h, w) in checks:
        if h <= 0 or w <= 0:
            raise RuntimeError(
                f"{what} should be greater than zero, but got {short}_height: {h} "
                f"{short}_width: {w}"
            )
    if min(zeros) < 0:
        raise RuntimeError(
            f"padding should be non-negative, but got pad_height: {zeros[0]} pad_width: {zeros[1]}"
        )
    return kernel, steps, zeros, walk


def _windows(size: Pair, walk: Walk) -> Pair:
    """How many places there are for a window."""
    rows, columns = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(size, *walk, strict=True)
    )
    return rows, columns


@functools.lru_cache(1024)
def _map(size: Pair, walk: Walk) -> Separable:
    """The map from an image to its windows: output k * places + o is element o * stride + k *
    dilation - padding, or nothing where that lies outside."""
    maps = []
    for n, count, k, d, p, s in zip(size, _windows(size, walk), *walk, strict=True):
        index = (np.arange(k)[:, None] * d + np.arange(count) * s - p).ravel()
        inside = (index >= 0) & (index < n)
        first = np.concatenate([[0], np.cumsum(inside)])
        maps.append(Taps(n, first, index[inside]))
    return Separable(maps)


def _exchanged(x: Tensor, shape: tuple[int, ...], to_shape: tuple[int, ...]) -> Tensor:
    """``x`` as [.., a, b, c, d], its dimensions b and c exchanged, in another shape; no history."""
    split = reshape(alias(x), shape)
    rank = len(shape)
    order = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
    return alias(reshape(contiguous(permute(split, *order)), to_shape))


def _im2col(image: Tensor, walk: Walk) -> Tensor:
    """[.., c, h, w] to [.., c * kernel elements, places]."""
    *lead, c, h, w = image.layout.shape
    (kh, kw), (rows, columns) = walk[0], _windows((h, w), walk)
    lines = mapped(alias(image), _map((h, w), walk))
    result = _exchanged(
        lines, (*lead, c, kh, rows, kw, columns), (*lead, c * kh * kw, rows * columns)
    )
    record(_IM2COL, (image,), (result,), {"walk": walk, "size": (h, w)})
    return result


def _col2im(columns: Tensor, size: Pair, walk: Walk) -> Tensor:
    """[.., c * kernel elements, places] to [.., c, h, w]; of places that coincide, the sum."""
    *lead, lines, _ = columns.layout.shape
    (kh, kw), (rows, count) = walk[0], _windows(size, walk)
    c = lines // (kh * kw)
    image = _exchanged(columns, (*lead, c, kh, kw, rows, count), (*lead, c, kh * rows, kw * count))
    result = mapped(image, _map(size, walk).adjoint)
    record(_COL2IM, (columns,), (result,), {"walk": walk, "size": size})
    return result


_IM2COL = node_class(
    structured(
        "im2col",
        "self",
        node="Im2ColBackward0",
        grad={"self": lambda grad, size, walk: _col2im(grad, size, walk)},
        jvp={"self": lambda tangent, walk: _im2col(tangent, walk)},
        fresh=True,
    )
)
_COL2IM = node_class(
    structured(
        "col2im",
        "self",
        node="Col2ImBackward0",
        grad={"self": lambda grad, walk: _im2col(grad, walk)},
        jvp={"self": lambda tangent, size, walk: _col2im(tangent, size, walk)},
        fresh=True,
    )
)


def _computed(name: str, input: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """``compute(input)``, of bools as numbers; NotImplementedError for integers, as in PyTorch."""
    d = input.layout.dtype
    if d.category == BOOL:
        return to(compute(to(input, int64)), d)
    if d.category < FLOATING:
        raise errors.unsupported(f"{name}_out_cpu", d)
    return compute(input)


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of images, each as a column.

    Args:
        input: [n, channels, h, w], or without n; of floats or bools.
        kernel_size, dilation, padding, stride: of the windows, one number or (height, width).

    Returns:
        [n, channels * kernel elements, windows].

    Raises:
        RuntimeError: for shapes or numbers that do not fit.

    Gradient: :func:`fold`, with which it is a pair of transposed maps.
    """
    if not isinstance(input, Tensor):
        raise errors.argument("unfold", "input", "Tensor", input)
    walk = _walk("unfold", kernel_size, dilation, padding, stride)
    of = input.layout
    if of.ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-{of.ndim}, {of.ndim - 1}], but "
            f"got 2): unfold takes 3D or 4D tensors, got {list(of.shape)}"
        )
    if of.ndim > 4 or 0 in of.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(of.shape)}"
        )
    size = (of.shape[-2], of.shape[-1])
    places = _windows(size, walk)
    if min(places) < 1:
        kernel, steps, zeros, _ = walk
        raise RuntimeError(
            f"Given input with spatial size {size}, kernel_size={kernel}, dilation={steps}, "
            f"padding={zeros}, calculated shape of the array of sliding blocks as {places}, but "
            "its components must be at least one."
        )
    return _computed("im2col", input, lambda x: _im2col(x, walk))


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Images that are the sum of their windows.

    Args:
        input: [n, channels * kernel elements, windows], or without n; of floats or bools.
        output_size: of the images, one number or (height, width).
        kernel_size, dilation, padding, stride: of the windows.

    Returns:
        [n, channels, height, width].

    Raises:
        RuntimeError: for shapes or numbers that do not fit.

    Gradient: :func:`unfold`.
    """
    if not isinstance(input, Tensor):
        raise errors.argument("fold", "input", "Tensor", input)
    size = _pair("fold", "output_size", output_size)
    walk = _walk("fold", kernel_size, dilation, padding, stride)
    shape = input.layout.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    kernel, steps, zeros, walked = walk
    if shape[-2] % (kernel[0] * kernel[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={shape[-2]} and kernel_size={kernel}."
        )
    rows, columns = _windows(size, walk)
    if shape[-1] != rows * columns or min(rows, columns) < 1:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={steps}, padding={zeros}, "
            f"stride={walked}, expected size of input's dimension 2 to match the calculated number "
            f"of sliding blocks {max(rows, 0)} * {max(columns, 0)} = "
            f"{max(rows, 0) * max(columns, 0)}, but got input.size(2)={shape[-1]}."
        )
    return _computed("col2im", input, lambda x: _col2im(x, size, walk))
