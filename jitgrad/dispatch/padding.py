"""Padding: with a constant, in any dimensions, or with what is there, in the last one to three."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import errors
from ..dtypes import BOOL
from ..kernels.separable import Separable, Taps
from ..layout import Layout, image_layout, layout
from ..ops.table import structured
from ..state import modes
from ..storage import Storage
from ..tensor import Tensor, make
from .convert import copy_elements, copy_plan
from .linear_maps import family
from .make import constant, fresh, ints_argument, like_layout, python_number
from .plans import PlanCache
from .record import Outcome, node_class

# With a constant ----------------------------------------------------------------------------------
_CONSTANT = node_class(
    structured(
        "constant_pad_nd",
        "self",
        grad={"self": lambda grad, pad: constant_pad_nd(grad, [-n for n in pad])},
        jvp={"self": lambda tangent, pad: constant_pad_nd(tangent, pad)},
        fresh=True,
    )
)


def constant_pad_nd(self: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """``self`` with ``value`` around it; where a padding is negative, that much is cut off.

    Args:
        pad: how much before and after, (last, last, last but one, last but one, ...).

    Raises:
        RuntimeError: for an odd number of paddings, too many, or more cut off than is there.

    Gradient: the incoming one, padded by the negative.

    >>> import jitgrad as jg
    >>> jg.constant_pad_nd(jg.ones(2), (1, 2))
    tensor([0., 1., 1., 0., 0.])
    """
    pad = ints_argument("constant_pad_nd", "pad", pad)
    number = python_number(value)
    if number is None:
        raise errors.argument("constant_pad_nd", "value", "Number", value)
    plan = _plans.get((self.layout, pad))
    if plan is None:
        plan = _plans.add((self.layout, pad), _plan(self.layout, pad))
    run, spec, out, start, to, surrounded, outcome = plan
    if number or not surrounded:
        result = fresh(out)
        if surrounded:
            copy_elements(constant(number), result)
    else:
        result = make(Storage(np.zeros(out.nbytes, np.uint8)), 0, out)
    run(spec, self.storage.buffer, self.offset + start, result.storage.buffer, to)
    if self.tracked is not False or modes.levels:
        _CONSTANT.record(self, result, {"pad": pad}, outcome)
    return result


_plans = PlanCache()


def _plan(of: Layout, pad: Sequence[int]) -> tuple[Any, ...]:
    """How to pad a layout: the driver and spec that copy what is kept, the result's layout, where
    the kept part begins in either (bytes), and whether anything is around it."""
    _check_length(of, pad)
    before, after = [0] * of.ndim, [0] * of.ndim
    for k in range(len(pad) // 2):
        before[-1 - k], after[-1 - k] = pad[2 * k : 2 * k + 2]
    kept = tuple(n + min(b, 0) + min(a, 0) for n, b, a in zip(of.shape, before, after, strict=True))
    if min(kept, default=0) < 0:
        raise RuntimeError(
            f"narrow(): length must be non-negative. (constant_pad_nd: padding {tuple(pad)} cuts "
            f"more off than there is of {list(of.shape)})"
        )
    source = layout(kept, of.strides, of.dtype)
    surrounded = max(pad, default=0) > 0
    out = like_layout(source)
    if surrounded:
        sizes = (n + max(b, 0) + max(a, 0) for n, b, a in zip(kept, before, after, strict=True))
        out = image_layout(tuple(sizes), of.dtype, of)
    start = sum(s * max(-b, 0) for s, b in zip(of.strides, before, strict=True))
    to = sum(s * max(b, 0) for s, b in zip(out.strides, before, strict=True))
    run, spec = copy_plan(source, layout(kept, out.strides, out.dtype))
    size = of.dtype.itemsize
    return run, spec, out, start * size, to * size, surrounded, Outcome((of,), (out,))


def _check_length(of: Layout, pad: Sequence[int]) -> None:
    if len(pad) % 2:
        raise RuntimeError(
            f"Padding length must be divisible by 2: two numbers for each dimension, got {len(pad)}"
        )
    if len(pad) > 2 * of.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {of.ndim}"
        )


# With what is there -------------------------------------------------------------------------------
def _reflected(size: int, before: int, after: int) -> np.ndarray:
    places = np.arange(-before, size + after)
    places = np.where(places < 0, -places, places)
    return np.where(places >= size, 2 * (size - 1) - places, places)


def _replicated(size: int, before: int, after: int) -> np.ndarray:
    return np.clip(np.arange(-before, size + after), 0, size - 1)


def _wrapped(size: int, before: int, after: int) -> np.ndarray:
    """What is cut off by a negative padding does not come back on the other side."""
    start, end = max(-before, 0), size + min(after, 0)
    return start + np.arange(-max(before, 0), end - start + max(after, 0)) % max(end - start, 1)


# PyTorch pads circularly by copying slices, and has no node of its own for it.
_MODES = {
    "reflect": (_reflected, "reflection_pad", "ReflectionPad{}DBackward0"),
    "replicate": (_replicated, "replication_pad", "ReplicationPad{}DBackward0"),
    "circular": (_wrapped, "circular_pad", "CopySlices"),
}
_FAMILIES = {
    (mode, rank): family(f"{name}{rank}d", node.format(rank), row_major=mode == "circular")
    for mode, (_, name, node) in _MODES.items()
    for rank in (1, 2, 3)
}


@functools.lru_cache(1024)
def _map(mode: str, sizes: tuple[int, ...], pad: tuple[int, ...]) -> Separable:
    rank, place = len(sizes), _MODES[mode][0]
    return Separable(
        [
            Taps.picking(n, place(n, *pad[2 * (rank - 1 - d) : 2 * (rank - d)]))
            for d, n in enumerate(sizes)
        ]
    )


def pad_with_itself(self: Tensor, pad: tuple[int, ...], mode: str) -> Tensor:
    """``self`` padded with its own elements: ``reflect``, ``replicate`` or ``circular``.

    Raises:
        NotImplementedError: unless the last 1 to 3 dimensions are padded, of a tensor with one or
            two more, whose dtype is not bool (but for ``circular``).
        RuntimeError: for a padding that is too large, or no elements to pad with.
    """
    rank = len(pad) // 2
    found = _maps.get((mode, self.layout, pad))
    if found is None:
        found = _maps.add((mode, self.layout, pad), _checked(self.layout, pad, mode))
    return _FAMILIES[mode, rank].apply(self, found)


_maps = PlanCache()  # among what their nodes show


def _checked(of: Layout, pad: tuple[int, ...], mode: str) -> dict[str, Any]:
    """What the node of a padding shows, with its map, once it is known to fit."""
    rank = len(pad) // 2
    if len(pad) not in (2, 4, 6) or of.ndim - rank not in (1, 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {of.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    sizes = of.shape[of.ndim - rank :]
    if mode != "circular":
        _check_elements(of, rank)
        if of.dtype.category == BOOL:
            raise errors.unsupported(f"{_MODES[mode][1]}{rank}d", of.dtype)
    for d, size in enumerate(sizes):
        _check_padding(mode, of, of.ndim - rank + d, size, pad[2 * (rank - 1 - d) :][:2])
    if mode != "circular":
        _check_result(sizes, pad)
    visible: dict[str, Any] = {} if mode == "circular" else {"padding": pad}
    return {**visible, "map": _map(mode, sizes, pad)}


def _check_elements(of: Layout, rank: int) -> None:
    if 0 in of.shape[of.ndim - rank - 1 :]:
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(of.shape)}"
        )


def _check_padding(mode: str, of: Layout, d: int, size: int, pad: Sequence[int]) -> None:
    before, after = pad
    if mode == "reflect" and max(before, after) >= size:
        raise RuntimeError(
            f"Argument #{2 * (of.ndim - d) + 2}: Padding size should be less than the "
            f"corresponding input dimension, but got: padding ({before}, {after}) at dimension {d} "
            f"of input {list(of.shape)}"
        )
    if mode == "circular" and max(before, after) > size:
        raise RuntimeError(
            "Padding value causes wrapping around more than once. (padding "
            f"({before}, {after}) at dimension {d} of input {list(of.shape)})"
        )
    if mode == "circular" and size + before + after < 0:
        raise RuntimeError(
            "Negative padding value is resulting in an empty dimension: padding "
            f"({before}, {after}) at dimension {d} of input {list(of.shape)}"
        )


def _check_result(sizes: Sequence[int], pad: Sequence[int]) -> None:
    names = "DHW"[-len(sizes) :]
    results = [n + sum(pad[2 * k : 2 * k + 2]) for k, n in enumerate(reversed(sizes))][::-1]
    if max(results) < 1:
        before, after = (
            " ".join(f"{name}: {n}" for name, n in zip(names, shape, strict=True))
            for shape in (sizes, results)
        )
        raise RuntimeError(f"input ({before}) is too small. Calculated output {after}")
    if min(results) < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(results)}: padding {tuple(pad)} "
            f"cuts more off than there is of {list(sizes)}"
        )


# All modes ----------------------------------------------------------------------------------------
def pad(self: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    """``self`` with more elements around it, or fewer where a padding is negative.

    Args:
        pad: how much before and after, (last, last, last but one, last but one, ...).
        mode: ``constant``, ``reflect`` (without repeating the edge), ``replicate`` (the edge), or
            ``circular``. All but the first pad one to three dimensions, and leave one or two.
        value: the constant; 0 by default.

    Raises:
        NotImplementedError: for an unknown mode, or dimensions that it does not pad.
        RuntimeError: for paddings that do not fit the shape.

    Gradient: each input gets the sum of the gradients of its copies.

    >>> import jitgrad as jg
    >>> pad(jg.arange(4), (2, 1), "constant", 9)
    tensor([9, 9, 0, 1, 2, 3, 9])
    >>> pad(jg.arange(4).reshape(1, 4), (2, 1), "reflect")
    tensor([[2, 1, 0, 1, 2, 3, 2]])
    """
    pads = ints_argument("pad", "pad", pad)
    if mode == "constant":
        return constant_pad_nd(self, pads, 0 if value is None else value)
    _check_length(self.layout, pads)
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    return pad_with_itself(self, pads, mode)


FUNCTIONS = "constant_pad_nd"
