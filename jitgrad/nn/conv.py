"""Convolutions, their transposes, and the windows of images, as modules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from ..dispatch.creation import empty
from ..dtypes import dtype
from ..tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter

_MODES = ("zeros", "reflect", "replicate", "circular")
_STRINGS = ("valid", "same")


class _Convolution(Module):
    """What all convolutions have: sizes, weights, and their initial values.

    Attributes:
        weight: [out_channels, in_channels / groups, *kernel_size], or of a transposed one
            [in_channels, out_channels / groups, *kernel_size]; uniform in +-1/sqrt(fan in) at
            first.
        bias: [out_channels], likewise; None with ``bias=False``.
    """

    rank: ClassVar[int]
    transposed: bool
    weight: Parameter
    bias: Parameter | None

    def _setup(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: dtype | None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups: {channels} and {groups}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._each(kernel_size)
        self.stride = self._each(stride)
        if isinstance(padding, str):
            if padding not in _STRINGS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {_STRINGS}")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(
                f"padding_mode must be one of {_MODES}, but got padding_mode={padding_mode!r}"
            )
        self.padding = padding if isinstance(padding, str) else self._each(padding)
        self.dilation = self._each(dilation)
        self.transposed = transposed
        self.output_padding = self._each(output_padding)
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _each(self, value: Any) -> tuple[int, ...]:
        """One value for each spatial dimension."""
        return tuple(value) if isinstance(value, Iterable) else (value,) * self.rank

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros = (0,) * self.rank
        words = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"]
        words.append(f"stride={self.stride}")
        if self.padding != zeros:
            words.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.rank:
            words.append(f"dilation={self.dilation}")
        if self.output_padding != zeros:
            words.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            words.append(f"groups={self.groups}")
        if self.bias is None:
            words.append("bias=False")
        if self.padding_mode != "zeros":
            words.append(f"padding_mode={self.padding_mode}")
        return ", ".join(words)


class _Forward(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        self._setup(in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0,
                    groups, bias, padding_mode, device, dtype)  # fmt: skip

    def _around(self) -> list[int]:
        """How much is put before and behind each dimension, as ``functional.pad`` takes it."""
        sides: list[int] = []
        for k in reversed(range(self.rank)):
            if self.padding == "same":
                whole = self.dilation[k] * (self.kernel_size[k] - 1)
                sides += [whole // 2, whole - whole // 2]
            else:
                before = 0 if self.padding == "valid" else self.padding[k]
                sides += [before, before]  # type: ignore[list-item]
        return sides

    def forward(self, input: Tensor) -> Tensor:
        convolve = getattr(functional, f"conv{self.rank}d")
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._around(), self.padding_mode)
            padding = 0
        return convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class _Transposed(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, got '
                f"{padding_mode!r}"
            )
        self._setup(in_channels, out_channels, kernel_size, stride, padding, dilation, True,
                    output_padding, groups, bias, padding_mode, device, dtype)  # fmt: skip

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> Any:
        """What makes the result as large as asked for; ValueError where nothing does."""
        if output_size is None:
            return self.output_padding
        size = tuple(output_size)
        if len(size) == self.rank + 2 or (len(size) == self.rank + 1 and input.ndim == len(size)):
            size = size[-self.rank :]
        if len(size) != self.rank:
            raise ValueError(
                f"ConvTranspose{self.rank}D: for {input.ndim}D input, output_size must have "
                f"{self.rank} or {input.ndim} elements (got {len(output_size)})"
            )
        inner = input.shape[-self.rank :]
        walk = (inner, self.stride, self._each(self.padding), self.dilation, self.kernel_size)
        smallest = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in zip(*walk, strict=True)
        ]
        largest = [n + s - 1 for n, s in zip(smallest, self.stride, strict=True)]
        if any(not a <= n <= b for n, a, b in zip(size, smallest, largest, strict=True)):
            raise ValueError(
                f"requested an output size of {size}, but valid sizes range from {smallest} to "
                f"{largest} (for an input of {list(inner)})"
            )
        return tuple(n - a for n, a in zip(size, smallest, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        convolve = getattr(functional, f"conv_transpose{self.rank}d")
        extra = self._output_padding(input, output_size)
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra,
                        self.groups, self.dilation)  # fmt: skip


class Conv1d(_Forward):
    """:func:`functional.conv1d` with weights of its own.

    >>> import jitgrad as jg
    >>> jg.nn.Conv1d(2, 4, 3)(jg.zeros(5, 2, 10)).shape
    jitgrad.Size([5, 4, 8])
    """

    rank = 1


class Conv2d(_Forward):
    """:func:`functional.conv2d` with weights of its own.

    With a ``padding_mode`` other than zeros the input is padded with elements of itself.

    >>> import jitgrad as jg
    >>> jg.nn.Conv2d(1, 16, 3, padding=1)
    Conv2d(1, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    """

    rank = 2


class Conv3d(_Forward):
    """:func:`functional.conv3d` with weights of its own."""

    rank = 3


class ConvTranspose1d(_Transposed):
    """:func:`functional.conv_transpose1d` with weights of its own."""

    rank = 1


class ConvTranspose2d(_Transposed):
    """:func:`functional.conv_transpose2d` with weights of its own.

    A strided convolution gives several input sizes the same output size; ``forward`` takes the
    ``output_size`` that is wanted.
    """

    rank = 2


class ConvTranspose3d(_Transposed):
    """:func:`functional.conv_transpose3d` with weights of its own."""

    rank = 3


class Unfold(Module):
    """:func:`functional.unfold`: the windows of images as columns."""

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """:func:`functional.fold`: columns added up to images."""

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return functional.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
