"""Sampling an image at the positions of a grid, and the grids of affine maps.

Three operators are each other's derivatives: samples are taken from an image; they are added to
one, which is the transpose; and their slopes tell how they change with the grid. Each also exists
with the derivative of its weights in a direction, which is what the derivatives of slopes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..dtypes import FLOATING, dtype
from ..kernels import grid as kernels
from ..layout import Layout, dense_layout
from ..ops.table import structured
from ..state import modes
from ..storage import Storage
from ..tensor import Tensor, make
from .convert import contiguous, copy_elements, flipped, resolved
from .creation import linspace, ones, zeros
from .make import alias, fresh, ints_argument
from .matmul import bmm
from .plans import PlanCache
from .record import StructuredNode, node_class, record
from .view import expand, reshape, select, transpose

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")


class Sampling(NamedTuple):
    """How a grid is read, in PyTorch's numbers."""

    interpolation_mode: int
    padding_mode: int
    align_corners: bool


_plans = PlanCache()


def _run(how: str, s: Sampling, x: Tensor, grid: Tensor, samples: Tensor, direction: Tensor | None,
         slopes: Tensor | None = None) -> None:  # fmt: skip
    directed = direction is not None
    key = (how, s, directed, x.layout, grid.layout.shape)
    plan = _plans.get(key)
    if flipped(grid, samples, direction):
        grid, samples = resolved(grid), resolved(samples)
        direction = None if direction is None else resolved(direction)
    if plan is None:
        if flipped(x):
            _run(how, s, resolved(x), grid, samples, direction, slopes)
            return
        mode, padding = MODES[s.interpolation_mode], PADDING_MODES[s.padding_mode]
        plan = kernels.plan(how, mode, padding, s.align_corners, directed, x.layout, grid.layout)
        _plans.add(key, plan)
    run, spec = plan
    operands: list[Any] = [x.storage.buffer, x.offset]
    for t in (grid, samples, grid if direction is None else direction):
        rows = t if t.layout.contiguous else contiguous(alias(t))
        operands += (rows.storage.buffer, rows.offset)
    last = grid if slopes is None else slopes
    buffer = last.storage.buffer
    run(spec, *operands, buffer, last.offset, buffer, 0, buffer, 0)


def _recorded(
    name: str, rank: int, inputs: Sequence[Tensor], direction: Tensor | None, result: Tensor,
    s: Sampling,
) -> Tensor:  # fmt: skip
    if direction is not None:
        name, inputs = f"{name}_along", (*inputs, direction)
    if modes.mode or modes.task is None:  # else it is a gradient that is not recorded
        record(_CLASSES[name, rank], inputs, (result,), {"sampling": s, **s._asdict()})
    return result


def _samples(input: Tensor, grid: Tensor, s: Sampling, direction: Tensor | None = None) -> Tensor:
    """Taken from the input, or (``direction``) how fast they change that way."""
    of, at = input.layout, grid.layout
    result = fresh(dense_layout((*of.shape[:2], *at.shape[1:-1]), of.dtype))
    _run("take", s, input, grid, result, direction)
    return _recorded("samples", of.ndim - 2, (input, grid), direction, result, s)


def _added(
    grad: Tensor, grid: Tensor, s: Sampling, shape: Sequence[int], direction: Tensor | None = None
) -> Tensor:
    """The transpose of :func:`_samples`: an image of a shape that samples are added to."""
    out = dense_layout(tuple(shape), grad.layout.dtype)
    result = make(Storage(np.zeros(out.nbytes, np.uint8)), 0, out)
    _run("add", s, result, grid, grad, direction)
    return _recorded("added", out.ndim - 2, (grad, grid), direction, result, s)


def _slopes(
    grad: Tensor, input: Tensor, grid: Tensor, s: Sampling, direction: Tensor | None = None
) -> Tensor:
    """The gradient of the samples for the grid, or of how fast they change in a direction."""
    if MODES[s.interpolation_mode] == "nearest":
        return zeros(grid.layout.shape, dtype=grid.layout.dtype)
    result = fresh(dense_layout(grid.layout.shape, grid.layout.dtype))
    _run("dot", s, input, grid, grad, direction, result)
    return _recorded("slopes", input.layout.ndim - 2, (grad, input, grid), direction, result, s)


def _third(grad: Tensor) -> Tensor:
    raise RuntimeError(
        "derivative for grid_sampler's double backward is not implemented: it has derivatives of "
        "two orders"
    )


def _rows(rank: int) -> dict[str, type[StructuredNode]]:
    """The operators for images of so many dimensions. ``grad`` is in turn that of each result."""
    backward = f"GridSampler{rank}DBackwardBackward0"
    along = f"GridSampler{rank}DDoubleBackwardBackward0"
    third = dict.fromkeys(("gradient", "input", "grid", "direction"), _third)
    rows = [
        structured(
            f"grid_sampler_{rank}d", "input grid", node=f"GridSampler{rank}DBackward0", fresh=True,
            grad={
                "input": lambda grad, grid, sampling, layout: _added(
                    grad, grid, sampling, layout.shape
                ),
                "grid": lambda grad, input, grid, sampling: _slopes(grad, input, grid, sampling),
            },
            jvp={
                "input": lambda tangent, grid, sampling: _samples(tangent, grid, sampling),
                "grid": lambda tangent, input, grid, sampling: _samples(
                    input, grid, sampling, tangent
                ),
            },
        ),
        structured(
            f"grid_sampler_{rank}d_samples_along", "input grid direction", node=along, fresh=True,
            grad={
                "input": lambda grad, grid, direction, sampling, layout: _added(
                    grad, grid, sampling, layout.shape, direction
                ),
                "grid": lambda grad, input, grid, direction, sampling: _slopes(
                    grad, input, grid, sampling, direction
                ),
                "direction": lambda grad, input, grid, sampling: _slopes(
                    grad, input, grid, sampling
                ),
            },
        ),
        structured(
            f"grid_sampler_{rank}d_added", "gradient grid", node=backward, fresh=True,
            grad={
                "gradient": lambda grad, grid, sampling: _samples(grad, grid, sampling),
                "grid": lambda grad, gradient, grid, sampling: _slopes(
                    gradient, grad, grid, sampling
                ),
            },
        ),
        structured(
            f"grid_sampler_{rank}d_added_along", "gradient grid direction", node=along, fresh=True,
            grad={
                "gradient": lambda grad, grid, direction, sampling: _samples(
                    grad, grid, sampling, direction
                ),
                "grid": lambda grad, gradient, grid, direction, sampling: _slopes(
                    gradient, grad, grid, sampling, direction
                ),
                "direction": lambda grad, gradient, grid, sampling: _slopes(
                    gradient, grad, grid, sampling
                ),
            },
        ),
        structured(
            f"grid_sampler_{rank}d_slopes", "gradient input grid", node=backward, fresh=True,
            grad={
                "gradient": lambda grad, input, grid, sampling: _samples(
                    input, grid, sampling, grad
                ),
                "input": lambda grad, gradient, grid, sampling, layout: _added(
                    gradient, grid, sampling, layout.shape, grad
                ),
                "grid": lambda grad, gradient, input, grid, sampling: _slopes(
                    gradient, input, grid, sampling, grad
                ),
            },
        ),
        structured(
            f"grid_sampler_{rank}d_slopes_along", "gradient input grid direction", node=along,
            fresh=True, grad=third,
        ),
    ]  # fmt: skip
    names = ("samples", "samples_along", "added", "added_along", "slopes", "slopes_along")
    return {name: node_class(row) for name, row in zip(names, rows, strict=True)}


_CLASSES = {(name, rank): cls for rank in (2, 3) for name, cls in _rows(rank).items()}


def _check(input: Layout, grid: Layout, rank: int | None, interpolation_mode: int) -> None:
    sizes = f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.shape[:1] != grid.shape[:1]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, {sizes}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but "
            f"got grid with sizes {list(grid.shape)}"
        )
    for d, n in enumerate(input.shape[2:], 2):
        if n == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(input.shape)} with dimension {d} being empty"
            )
    ranks = (2, 3) if rank is None else (rank,)
    if input.ndim - 2 not in ranks or grid.ndim != input.ndim:
        expected = " or ".join(f"{n + 2}D" for n in ranks)
        raise RuntimeError(
            f"grid_sampler(): expected {expected} input and grid with same number of dimensions, "
            f"{sizes}"
        )
    if input.ndim == 5 and MODES[interpolation_mode] == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype.category != FLOATING:
        raise errors.unsupported(f"grid_sampler_{input.ndim - 2}d_cpu_kernel_impl", input.dtype)
    if input.dtype is not grid.dtype:
        first, second = (d.tensor_type.removesuffix("Tensor") for d in (input.dtype, grid.dtype))
        raise RuntimeError(
            f"expected scalar type {first} but found {second} (grid_sampler() reads a grid of the "
            "dtype of its input)"
        )


def _sampler(name: str, rank: int | None) -> Any:
    known = PlanCache()  # what has been checked

    def grid_sampler(
        input: Tensor,
        grid: Tensor,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
    ) -> Tensor:
        key = (input.layout, grid.layout, interpolation_mode, padding_mode, align_corners)
        s = known.get(key)
        if s is None:
            _check(input.layout, grid.layout, rank, interpolation_mode)
            s = known.add(key, Sampling(interpolation_mode, padding_mode, bool(align_corners)))
        return _samples(input, grid, s)

    grid_sampler.__name__ = grid_sampler.__qualname__ = name
    images = {None: "images or volumes", 2: "images", 3: "volumes"}[rank]
    grid_sampler.__doc__ = f"""Samples of {images} at the positions of a grid.

    Args:
        input: [n, channels, (d,) h, w], of floats.
        grid: [n, (d_out,) h_out, w_out, 2 or 3]: positions from -1 to 1, the last dimension's
            first.
        interpolation_mode: 0 between the neighbours, 1 the nearest, 2 cubic (images only).
        padding_mode: what lies outside: 0 zeros, 1 the edge, 2 the mirrored image.
        align_corners: whether -1 and 1 are the centres of the outermost elements, or their edges.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    Gradient: each input gets the samples around it by their weights; each position the sum over
    channels of how its sample changes with it (Jaderberg et al. 2015).
    """
    return grid_sampler


grid_sampler = _sampler("grid_sampler", None)
grid_sampler_2d = _sampler("grid_sampler_2d", 2)
grid_sampler_3d = _sampler("grid_sampler_3d", 3)


# Grids --------------------------------------------------------------------------------------------
def _base(size: Sequence[int], align_corners: bool, d: dtype) -> Tensor:
    """[elements, rank + 1]: the position of every element, and a one."""
    rank = len(size) - 2
    base = ones(*size[2:], rank + 1, dtype=d)
    for k, n in enumerate(reversed(size[2:])):
        axis = linspace(-1, 1, n, dtype=d) if n > 1 else zeros(n, dtype=d)
        if not align_corners:
            axis = axis * ((n - 1) / max(n, 1))
        copy_elements(reshape(axis, (-1, *(1,) * k)), select(base, -1, k))
    return reshape(base, (-1, rank + 1))


def _affine_adjoint(grad: Tensor, size: tuple[int, ...], align_corners: bool) -> Tensor:
    rank = len(size) - 2
    base = _base(size, align_corners, grad.layout.dtype)
    wide = expand(transpose(base, 0, 1), (size[0], *base.layout.shape[::-1]))
    return transpose(bmm(wide, reshape(grad, (size[0], -1, rank))), 1, 2)


_AFFINE = node_class(
    structured(
        "affine_grid_generator",
        "theta",
        grad={"theta": _affine_adjoint},
        jvp={
            "theta": lambda tangent, size, align_corners: affine_grid_generator(
                tangent, size, align_corners
            )
        },
    )
)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """The grid that samples images as affine maps say.

    Args:
        theta: [n, 2, 3] or [n, 3, 4]: a matrix for each image, its last column the translation.
        size: of the samples: [n, channels, h, w] or [n, channels, d, h, w].
        align_corners: whether -1 and 1 are the centres of the outermost elements, or their edges.

    Returns:
        [n, h, w, 2] or [n, d, h, w, 3].

    Raises:
        RuntimeError: for shapes that do not fit.
    """
    sizes = ints_argument("affine_grid_generator", "size", size)
    if len(sizes) not in (4, 5):
        raise RuntimeError(
            "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs. (got the size "
            f"{list(sizes)})"
        )
    base = _base(sizes, align_corners, theta.layout.dtype)
    wide = expand(base, (sizes[0], *base.layout.shape))
    product = bmm(wide, transpose(alias(theta), 1, 2))
    result = fresh(dense_layout((sizes[0], *sizes[2:], len(sizes) - 2), theta.layout.dtype))
    copy_elements(reshape(product, result.layout.shape), result)
    record(_AFFINE, (theta,), (result,), {"size": sizes, "align_corners": bool(align_corners)})
    return result


FUNCTIONS = "grid_sampler grid_sampler_2d grid_sampler_3d affine_grid_generator"
