"""Padding as modules. Sizes are one number for all sides, or one for each, the last dimension's
first: (left, right, top, bottom, front, back)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ..tensor import Tensor
from . import functional
from .module import Module


class _Pad(Module):
    """Pads the last ``rank`` dimensions in one of the modes of :func:`functional.pad`."""

    rank: ClassVar[int]
    mode: ClassVar[str]
    padding: tuple[int, ...]

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        each = isinstance(padding, Iterable)
        self.padding = tuple(padding) if each else (padding,) * (2 * self.rank)  # type: ignore

    def forward(self, input: Tensor) -> Tensor:
        return functional.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(_Pad):
    """Puts ``value`` around the last dimension."""

    rank, mode = 1, "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """Puts ``value`` around the last two dimensions."""

    rank = 2


class ConstantPad3d(ConstantPad1d):
    """Puts ``value`` around the last three dimensions."""

    rank = 3


class ZeroPad1d(ConstantPad1d):
    """Puts zeros around the last dimension."""

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ZeroPad1d, ConstantPad2d):
    """Puts zeros around the last two dimensions."""


class ZeroPad3d(ZeroPad1d, ConstantPad3d):
    """Puts zeros around the last three dimensions."""


class ReflectionPad1d(_Pad):
    """Mirrors the last dimension at its ends, which are not repeated."""

    rank, mode = 1, "reflect"


class ReflectionPad2d(ReflectionPad1d):
    """Mirrors the last two dimensions at their ends, which are not repeated."""

    rank = 2


class ReflectionPad3d(ReflectionPad1d):
    """Mirrors the last three dimensions at their ends, which are not repeated."""

    rank = 3


class ReplicationPad1d(_Pad):
    """Repeats the ends of the last dimension."""

    rank, mode = 1, "replicate"


class ReplicationPad2d(ReplicationPad1d):
    """Repeats the ends of the last two dimensions."""

    rank = 2


class ReplicationPad3d(ReplicationPad1d):
    """Repeats the ends of the last three dimensions."""

    rank = 3


class CircularPad1d(_Pad):
    """Goes on with the other end of the last dimension."""

    rank, mode = 1, "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.layout.ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.layout.ndim}D "
                "input)"
            )
        return super().forward(input)


class CircularPad2d(CircularPad1d):
    """Goes on with the other ends of the last two dimensions."""

    rank = 2


class CircularPad3d(CircularPad1d):
    """Goes on with the other ends of the last three dimensions."""

    rank = 3
