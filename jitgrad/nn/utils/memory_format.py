"""Weights of convolutions laid out in memory in another order."""

from __future__ import annotations

from typing import Any, TypeVar

from ...memory_format import memory_format as format_type
from ..conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..module import Module

M = TypeVar("M", bound=Module)


def _converted(module: M, kinds: tuple[Any, ...], memory_format: format_type) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: format_type) -> M:
    """Lay out the weight of every Conv2d and ConvTranspose2d in the module as ``memory_format``.

    Unlike ``module.to(memory_format=...)`` this leaves every other parameter as it is.
    """
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: format_type) -> M:
    """Lay out the weight of every Conv3d and ConvTranspose3d in the module as ``memory_format``."""
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)
