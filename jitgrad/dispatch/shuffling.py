"""Elements moved between channels and planes, and channels among each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kernels import drivers, elementwise
from ..layout import Layout, Shape, image_layout, iteration_order, view_strides
from ..ops.table import structured
from ..tensor import Tensor
from .make import fresh, int_argument
from .plans import PlanCache
from .record import StructuredNode, node_class, record

_plans = PlanCache()


def _plan(of: Layout, parts: Shape, order: Shape, shape: Shape) -> Any:
    """The result's layout, and the driver and spec that move the elements."""
    out = image_layout(shape, of.dtype, of)
    # A dimension can always be seen as several, so neither side needs a copy for that.
    source, split = view_strides(of.shape, of.strides, parts), tuple(parts[d] for d in order)
    target = view_strides(shape, out.strides, split)
    assert source is not None
    assert target is not None
    ours = tuple(source[d] for d in order)
    # Lines should be long: walk along the longer of the dimensions that are fastest on either side.
    last = max(
        (iteration_order(split, [strides])[-1] for strides in (target, ours)),
        key=lambda d: split[d],
    )
    walk = [d for d in iteration_order(split, [target]) if d != last] + [last]
    run, spec = drivers.plan_loops(
        elementwise.kernel(("self",), ("self",), (of.dtype,), (out.dtype,), out.dtype),
        [split[d] for d in walk],
        [[strides[d] for d in walk] for strides in (ours, target)],
        [of.dtype.itemsize] * 2,
    )
    return out, run, spec


def _moved(self: Tensor, parts: Shape, order: Shape, shape: Shape, cls: type[StructuredNode],
           attributes: Mapping[str, int]) -> Tensor:  # fmt: skip
    """The elements seen as ``parts``, with these in another order, as a tensor of ``shape``."""
    key = (self.layout, parts, order)
    plan = _plans.get(key) or _plans.add(key, _plan(self.layout, parts, order, shape))
    out, run, spec = plan
    result = fresh(out)
    run(spec, self.storage.buffer, self.offset, result.storage.buffer, 0)
    record(cls, (self,), (result,), attributes)
    return result


_PIXEL_SHUFFLE = node_class(
    structured(
        "pixel_shuffle",
        "self",
        grad={"self": lambda grad, upscale_factor: pixel_unshuffle(grad, upscale_factor)},
        jvp={"self": lambda tangent, upscale_factor: pixel_shuffle(tangent, upscale_factor)},
        fresh=True,
    )
)
_PIXEL_UNSHUFFLE = node_class(
    structured(
        "pixel_unshuffle",
        "self",
        grad={"self": lambda grad, downscale_factor: pixel_shuffle(grad, downscale_factor)},
        jvp={"self": lambda tangent, downscale_factor: pixel_unshuffle(tangent, downscale_factor)},
        fresh=True,
    )
)
_CHANNEL_SHUFFLE = node_class(
    structured(
        "channel_shuffle",
        "self",
        grad={"self": lambda grad, groups: channel_shuffle(grad, grad.layout.shape[1] // groups)},
        jvp={"self": lambda tangent, groups: channel_shuffle(tangent, groups)},
        fresh=True,
    )
)


def _check_image(name: str, self: Tensor, argument: str, factor: int) -> None:
    if self.layout.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{self.layout.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {argument}, but got {factor}")


def pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    """[..., c * r * r, h, w] as [..., c, h * r, w * r]: channels become pixels (Shi et al. 2016).

    Raises:
        RuntimeError: for less than 3 dimensions, or channels that the squared factor does not
            divide.

    Gradient: :func:`pixel_unshuffle`.

    >>> import jitgrad as jg
    >>> jg.pixel_shuffle(jg.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    r = int_argument("pixel_shuffle", "upscale_factor", upscale_factor)
    _check_image("pixel_shuffle", self, "upscale_factor", r)
    *lead, channels, height, width = self.layout.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n, c = len(lead), channels // (r * r)
    return _moved(
        self,
        (*lead, c, r, r, height, width),
        (*range(n), n, n + 3, n + 1, n + 4, n + 2),
        (*lead, c, height * r, width * r),
        _PIXEL_SHUFFLE,
        {"upscale_factor": r},
    )


def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    """[..., c, h * r, w * r] as [..., c * r * r, h, w]: pixels become channels.

    Raises:
        RuntimeError: for less than 3 dimensions, or sizes that the factor does not divide.

    Gradient: :func:`pixel_shuffle`.
    """
    r = int_argument("pixel_unshuffle", "downscale_factor", downscale_factor)
    _check_image("pixel_unshuffle", self, "downscale_factor", r)
    *lead, channels, height, width = self.layout.shape
    for what, size, d in (("height", height, -2), ("width", width, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but "
                f"input.size({d})={size} is not divisible by {r}"
            )
    n, h, w = len(lead), height // r, width // r
    return _moved(
        self,
        (*lead, channels, h, r, w, r),
        (*range(n), n, n + 2, n + 4, n + 1, n + 3),
        (*lead, channels * r * r, h, w),
        _PIXEL_UNSHUFFLE,
        {"downscale_factor": r},
    )


def channel_shuffle(self: Tensor, groups: int) -> Tensor:
    """[n, g * k, ...] with its channels, seen as [g, k], transposed (Zhang et al. 2018).

    Raises:
        RuntimeError: for less than 3 dimensions, or groups that do not divide the channels.

    Gradient: shuffled back.

    >>> import jitgrad as jg
    >>> jg.channel_shuffle(jg.arange(6).reshape(1, 6, 1), 2).flatten()
    tensor([0, 3, 1, 4, 2, 5])
    """
    groups = int_argument("channel_shuffle", "groups", groups)
    shape = self.layout.shape
    if len(shape) < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    n, channels, *rest = shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        )
    return _moved(
        self,
        (n, groups, channels // groups, *rest),
        (0, 2, 1, *range(3, len(shape) + 1)),
        shape,
        _CHANNEL_SHUFFLE,
        {"groups": groups},
    )


native_channel_shuffle = channel_shuffle

FUNCTIONS = "pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle"
