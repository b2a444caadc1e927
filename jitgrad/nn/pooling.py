"""Pooling as modules. Sizes are one number for all pooled dimensions, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..tensor import Tensor
from . import functional
from ._pooling import each_of
from .module import Module


class _Pool(Module):
    """Calls the function of its name; a subclass says how many dimensions are pooled."""

    rank: ClassVar[int]
    function: ClassVar[str]
    shown: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, rank: int = 0, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if rank:
            cls.rank = rank

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(functional, f"{self.function}{self.rank}d")(*args, **kwargs)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


class MaxPool1d(_Pool, rank=1):
    """The largest element of each window over the last dimension.

    With ``return_indices`` also where each lies, as :class:`MaxUnpool1d` needs it.
    """

    function = "max_pool"
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._call(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool2d(MaxPool1d, rank=2):
    """The largest element of each window over the last two dimensions.

    >>> import jitgrad as jg
    >>> jg.nn.MaxPool2d(2)(jg.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """


class MaxPool3d(MaxPool1d, rank=3):
    """The largest element of each window over the last three dimensions."""


class MaxUnpool1d(_Pool, rank=1):
    """Puts elements back where :class:`MaxPool1d` found them, among zeros."""

    function = "max_unpool"
    shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = each_of(kernel_size, self.rank)
        self.stride = each_of(kernel_size if stride is None else stride, self.rank)
        self.padding = each_of(padding, self.rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._call(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(MaxUnpool1d, rank=2):
    """Puts elements back where :class:`MaxPool2d` found them, among zeros."""


class MaxUnpool3d(MaxUnpool1d, rank=3):
    """Puts elements back where :class:`MaxPool3d` found them, among zeros."""


class AvgPool1d(_Pool, rank=1):
    """The mean of each window over the last dimension."""

    function = "avg_pool"
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = each_of(kernel_size, 1)
        self.stride = each_of(kernel_size if stride is None else stride, 1)
        self.padding = each_of(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return self._call(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class AvgPool2d(_Pool, rank=2):
    """The mean of each window over the last two dimensions."""

    function = "avg_pool"
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._call(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(AvgPool2d, rank=3):
    """The mean of each window over the last three dimensions."""


class LPPool1d(_Pool, rank=1):
    """The power mean of each window over the last dimension, times its size to the root."""

    function = "lp_pool"
    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._call(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(LPPool1d, rank=2):
    """The power mean of each window over the last two dimensions, times its size to the root."""


class LPPool3d(LPPool1d, rank=3):
    """The power mean of each window over the last three dimensions, times its size to the root."""


class AdaptiveMaxPool1d(_Pool, rank=1):
    """The largest elements of ``output_size`` windows that cover the last dimension evenly."""

    function = "adaptive_max_pool"
    shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self._call(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(AdaptiveMaxPool1d, rank=2):
    """The largest elements of windows that cover the last two dimensions evenly."""


class AdaptiveMaxPool3d(AdaptiveMaxPool1d, rank=3):
    """The largest elements of windows that cover the last three dimensions evenly."""


class AdaptiveAvgPool1d(_Pool, rank=1):
    """The means of ``output_size`` windows that cover the last dimension evenly."""

    function = "adaptive_avg_pool"
    shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self._call(input, self.output_size)


class AdaptiveAvgPool2d(AdaptiveAvgPool1d, rank=2):
    """The means of windows that cover the last two dimensions evenly."""


class AdaptiveAvgPool3d(AdaptiveAvgPool1d, rank=3):
    """The means of windows that cover the last three dimensions evenly."""


class FractionalMaxPool2d(_Pool, rank=2):
    """The largest elements of windows at pseudo-random distances (Graham 2014)."""

    function = "fractional_max_pool"
    shown = ()

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = each_of(kernel_size, self.rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else each_of(output_size, self.rank)
        self.output_ratio = self._ratio(output_ratio)

    def _ratio(self, given: Any) -> tuple[float, ...] | None:
        if given is None:
            if self.output_size is None:
                raise ValueError(
                    f"{type(self).__name__} requires specifying either an output size, or a "
                    "pooling ratio"
                )
            return None
        if self.output_size is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        ratio = tuple(given) if isinstance(given, Sequence) else (given,) * self.rank
        if not all(0 < r < 1 for r in ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {given})")
        return ratio

    def forward(self, input: Tensor) -> Any:
        return self._call(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool3d(FractionalMaxPool2d, rank=3):
    """The largest elements of windows at pseudo-random distances, in three dimensions."""


class LocalResponseNorm(Module):
    """``x / (k + alpha * mean of squares of size neighbouring channels) ** beta``."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
