"""Resampling: linear maps that read each dimension at other positions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..dtypes import FLOATING, dtype, uint8
from ..kernels import interpolation
from ..kernels.interpolation import Resizing
from ..kernels.separable import Separable, Taps
from ..layout import Layout, Shape
from ..tensor import Tensor
from .linear_maps import Family, family


class _Kind(NamedTuple):
    taps: Callable[[Resizing], Taps]
    bytes: bool  # whether it takes uint8
    nodes: Family


def _kind(name: str, node: str, taps: Callable[[Resizing], Taps], bytes: bool) -> _Kind:
    return _Kind(taps, bytes, family(name, f"Upsample{node}Backward0"))


# By mode, number of dimensions, and whether a filter keeps details from turning up as others.
_KINDS: dict[tuple[str, int, bool], _Kind] = {
    ("linear", 1, False): _kind("upsample_linear1d", "Linear1D", interpolation.linear, False),
    ("bilinear", 2, False): _kind("upsample_bilinear2d", "Bilinear2D", interpolation.linear, True),
    ("trilinear", 3, False): _kind(
        "upsample_trilinear3d", "Trilinear3D", interpolation.linear, False
    ),
    ("bicubic", 2, False): _kind("upsample_bicubic2d", "Bicubic2D", interpolation.cubic, True),
    **{
        (mode, 2, True): _kind(f"_upsample_{mode}2d_aa", f"{mode.capitalize()}2DAa", taps, True)
        for mode, taps in (
            ("bilinear", interpolation.smooth_linear),
            ("bicubic", interpolation.smooth_cubic),
            ("lanczos", interpolation.smooth_lanczos),
        )
    },
    **{
        (mode, rank, False): _kind(f"{name}{rank}d", f"{node}{rank}D", taps, True)
        for mode, name, node, taps in (
            ("nearest", "upsample_nearest", "Nearest", interpolation.nearest),
            (
                "nearest-exact",
                "_upsample_nearest_exact",
                "NearestExact",
                interpolation.nearest_exact,
            ),
        )
        for rank in (1, 2, 3)
    },
}


def supports(mode: str, rank: int, antialias: bool) -> bool:
    """Whether there is such a resampling of so many dimensions."""
    return (mode, rank, antialias) in _KINDS


@functools.lru_cache(1024)
def _map(kind: _Kind, each: tuple[Resizing, ...]) -> Separable:
    return Separable([kind.taps(r) for r in each])


def upsample(
    self: Tensor,
    mode: str,
    output_size: Sequence[int],
    scales: Sequence[float | None],
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """``self``, [n, channels, ...], with its last one to three dimensions of another size.

    Args:
        mode: ``nearest``, ``nearest-exact``, ``linear``, ``bilinear``, ``trilinear``, ``bicubic``,
            or (with ``antialias``) ``lanczos``.
        scales: the ratios of the sizes that positions are computed with; None for what they are.

    Raises:
        RuntimeError: for an input without elements, or an empty result.
        NotImplementedError: for dtypes that are no floats (nor, for most modes, uint8).

    Gradient: the transpose: each input gets its share of the gradients of the outputs around it.
    """
    of, rank = self.layout, len(output_size)
    kind = _KINDS[mode, rank, antialias]
    _check(of, output_size)
    name = kind.nodes.forward.row.name
    if of.dtype.category != FLOATING and not (kind.bytes and of.dtype is uint8):
        raise errors.unsupported(name, of.dtype)
    precision = _precision(of.dtype)
    each = tuple(
        Resizing(n, m, align_corners, factor, precision)
        for n, m, factor in zip(of.shape[2:], output_size, scales, strict=True)
    )
    names = ("scales",) if rank == 1 else tuple(f"scales_{c}" for c in "dhw"[-rank:])
    visible: dict[str, Any] = {"output_size": tuple(output_size), "self_sym_sizes": of.shape}
    visible |= dict(zip(names, scales, strict=True))
    if not mode.startswith("nearest"):
        visible["align_corners"] = align_corners
    return kind.nodes.apply(self, {**visible, "map": _map(kind, each)})


def _precision(d: dtype) -> Any:
    return np.float64 if d.name == "float64" else np.float32


def _check(of: Layout, output_size: Sequence[int]) -> None:
    sizes = of.shape[2:]
    if min((*sizes, *output_size)) <= 0:
        names = "DHW"[-len(sizes) :]

        def shown(shape: Sequence[int] | Shape) -> str:
            return ", ".join(f"{c}: {n}" for c, n in zip(names, shape, strict=True))

        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({shown(sizes)}) "
            f"output ({shown(output_size)})"
        )
    if 0 in of.shape[1:]:
        raise RuntimeError(
            f"Non-empty {of.ndim}D data tensor expected but got a tensor with sizes "
            f"{list(of.shape)}"
        )
