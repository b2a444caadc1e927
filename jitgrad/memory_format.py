"""Orders of dimensions in memory: row-major, channels last, or as they are."""

from __future__ import annotations

from typing import Any

from . import layout as layouts
from .dtypes import dtype
from .layout import Layout, Shape, contiguous_strides, dense_layout, result_strides


class memory_format(str):
    """The type of ``contiguous_format``, ``channels_last`` and their kin."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"jitgrad.{self!s}"


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

RANKS = {channels_last: 4, channels_last_3d: 5}  # of the tensors they are for


def format_argument(name: str, given: Any) -> memory_format:
    """The ``memory_format=`` of a call; TypeError for anything else."""
    if not isinstance(given, memory_format):
        raise TypeError(
            f"{name}(): argument 'memory_format' must be jitgrad.memory_format, not "
            f"{type(given).__name__}"
        )
    return given


def shape_layout(shape: Shape, d: dtype, format: memory_format) -> Layout:
    """The dense layout of a new tensor.

    Raises:
        RuntimeError: for ``preserve_format``, which needs a tensor to be like, and for channels
            last in another rank than 4 (images) or 5 (volumes).
    """
    if format == contiguous_format:
        return dense_layout(shape, d)
    if format == preserve_format:
        raise RuntimeError("unsupported memory format Preserve: there is no tensor to be like")
    rank = RANKS[format]
    if len(shape) != rank:
        raise RuntimeError(
            f"required rank {rank} tensor to use {format} format, but the shape is {list(shape)}"
        )
    batch, channels, *sizes = shape
    by_pixel = contiguous_strides((batch, *sizes, channels))
    return layouts.layout(shape, (by_pixel[0], by_pixel[-1], *by_pixel[1:-1]), d.plain)


def copy_layout(of: Layout, d: dtype, format: memory_format) -> Layout:
    """The dense layout of a copy; ``preserve_format`` keeps the strides of dense tensors."""
    if format != preserve_format:
        return shape_layout(of.shape, d, format)
    strides = of.strides if of.dense else result_strides(of.shape, [(of.shape, of.strides)])
    return layouts.layout(of.shape, strides, d.plain)


def suggested(of: Layout) -> memory_format:
    """The format that strides speak of: channels last, else row-major whatever they are."""
    if layouts.channels_last(of.shape, of.strides):
        return channels_last if of.ndim == RANKS[channels_last] else channels_last_3d
    return contiguous_format


def is_in(of: Layout, format: memory_format) -> bool:
    """Whether elements lie in the given order without gaps (sizes of one lie anywhere)."""
    if format in (contiguous_format, preserve_format):
        return of.contiguous
    if of.ndim != RANKS[format]:
        return False
    wanted = shape_layout(of.shape, of.dtype, format).strides
    return all(n == 1 or a == b for n, a, b in zip(of.shape, of.strides, wanted, strict=True))
