"""Dropout modules."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional
from .module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training mode zeroes each element with probability p, and scales the rest by 1 / (1 - p).

    Raises:
        ValueError: unless p is a probability.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """:class:`Dropout` of whole channels of [n, channels, length]."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """:class:`Dropout` of whole channels of [n, channels, h, w]."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """:class:`Dropout` of whole channels of [n, channels, d, h, w]."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """In training mode dropout that keeps mean and variance behind a SELU."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """:class:`AlphaDropout` of whole channels of [n, channels, ...]."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.feature_alpha_dropout(input, self.p, self.training, self.inplace)
