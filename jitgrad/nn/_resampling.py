"""Images of another size, and images sampled on a grid."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..dispatch import grid_sampling, resampling
from ..tensor import Tensor
from ._pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3}
_PLAIN = ("nearest", "area", "nearest-exact")


def _is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _sizes(shape: Sequence[int], size: Any) -> list[int]:
    """The sizes of the result that are given as such."""
    rank = len(shape) - 2
    if isinstance(size, (list, tuple)):
        if len(size) != rank:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {list(shape[2:])} and output size of {size}. Please "
                "provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
                "(o1, o2, ...,oK) format."
            )
        if not all(_is_integer(n) for n in size):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                f"Tuple[int, int, int], but got size with types {[type(n) for n in size]}"
            )
        return [n.__index__() for n in size]
    if not _is_integer(size):
        raise TypeError(f"interpolate(): size must be int or tuple of ints, not {size!r}")
    return [size.__index__()] * rank


def _factors(shape: Sequence[int], scale_factor: Any) -> list[float]:
    """The ratios of the sizes."""
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != len(shape) - 2:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(shape[2:])} and scale_factor of shape "
                f"{scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
                "and scale_factor in (s1, s2, ...,sK) format."
            )
        factors = scale_factor
    else:
        factors = [scale_factor] * (len(shape) - 2)
    if not all(hasattr(x, "__float__") for x in factors):
        raise TypeError(
            f"interpolate(): scale_factor must be float or tuple of floats, not {scale_factor!r}"
        )
    return [float(x) for x in factors]


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """``input`` with its last dimensions resized.

    Args:
        input: [n, channels, ...], with one to three dimensions to resize.
        size: their new sizes, one for all or one for each; or
        scale_factor: the ratios of new to old sizes, which are rounded down.
        mode: ``nearest`` (of the outputs' left edges), ``nearest-exact`` (of their centres),
            ``linear``, ``bilinear`` and ``trilinear`` (for one, two and three dimensions),
            ``bicubic`` or, with ``antialias``, ``lanczos`` (for two), or ``area``: the mean of all
            inputs that an output covers.
        align_corners: whether the first and last outputs lie on the first and last inputs, rather
            than the outer edges on each other.
        recompute_scale_factor: whether positions follow from the sizes, rather than from
            ``scale_factor``.
        antialias: whether outputs that are far apart look at all inputs between.

    Raises:
        ValueError: for arguments that exclude each other, or do not fit the shape.
        NotImplementedError: for a mode that there is not for so many dimensions.

    Gradient: the transpose of the map, which is linear.

    >>> import jitgrad as jg
    >>> x = jg.tensor([[[0.0, 1.0]]])
    >>> interpolate(x, scale_factor=2)
    tensor([[[0., 0., 1., 1.]]])
    >>> interpolate(x, scale_factor=2, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    shape = input.layout.shape
    rank = len(shape) - 2
    if mode in _PLAIN and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    factors: list[float] | None = None
    if size is not None:
        sizes = _sizes(shape, size)
    else:
        factors = _factors(shape, scale_factor)
        sizes = [int(n * factor) for n, factor in zip(shape[2:], factors, strict=True)]
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and rank == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "area" and rank in _AREA:
        return _AREA[rank](input, sizes)
    if mode == "lanczos" and rank == 2:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    if not resampling.supports(mode, rank, antialias):
        raise _unsupported(mode, rank)
    known = [None] * rank if factors is None or recompute_scale_factor else factors
    return resampling.upsample(input, mode, sizes, known, bool(align_corners), antialias)


def _unsupported(mode: str, rank: int) -> NotImplementedError:
    if mode in _RANKS and 1 <= rank <= 3:
        return NotImplementedError(
            f"Got {rank + 2}D input, but {mode} mode needs {_RANKS[mode] + 2}D input"
        )
    return NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank + 2}D) for the modes: "
        "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got "
        f"{mode})"
    )


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The former name of :func:`interpolate`."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The former name of :func:`interpolate` with ``mode="nearest"``."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The former name of :func:`interpolate` with ``mode="bilinear", align_corners=True``."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# On a grid ----------------------------------------------------------------------------------------
def _corners(align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details.",
            stacklevel=3,
        )
    return bool(align_corners)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``input`` sampled at the positions of a grid (Jaderberg et al. 2015).

    Args:
        input: [n, channels, h, w] or [n, channels, d, h, w].
        grid: [n, h_out, w_out, 2] or [n, d_out, h_out, w_out, 3]: positions from -1 to 1, the last
            dimension's first.
        mode: ``bilinear``, ``nearest``, or ``bicubic`` (of images only).
        padding_mode: what lies outside: ``zeros``, the ``border``, or the image's ``reflection``.
        align_corners: whether -1 and 1 are the centres of the outermost elements, or their edges.

    Raises:
        ValueError: for an unknown mode.
        RuntimeError: for shapes or dtypes that do not fit.

    >>> import jitgrad as jg
    >>> image = jg.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> grid_sample(image, jg.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[1.5000]]]])
    """
    if mode not in grid_sampling.MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in grid_sampling.PADDING_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    return grid_sampling.grid_sampler(
        input,
        grid,
        grid_sampling.MODES.index(mode),
        grid_sampling.PADDING_MODES.index(padding_mode),
        _corners(align_corners),
    )


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid with which :func:`grid_sample` maps images affinely.

    Args:
        theta: [n, 2, 3] or [n, 3, 4]: a matrix for each image, its last column the translation.
        size: of the samples: [n, channels, h, w] or [n, channels, d, h, w].
        align_corners: as in :func:`grid_sample`.

    Raises:
        ValueError: for matrices that do not fit the size, or sizes that are not positive.
        NotImplementedError: for another number of dimensions.

    >>> import jitgrad as jg
    >>> identity = jg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> affine_grid(identity, (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    align_corners = _corners(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    if theta.layout.ndim != 3 or theta.layout.shape[1:] != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details.",
            stacklevel=2,
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return grid_sampling.affine_grid_generator(theta, size, align_corners)
