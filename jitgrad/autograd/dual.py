"""Levels of forward-mode AD, and the tangents that tensors have at them.

A tangent belongs to a level and is kept in the autograd state of its tensor; it is forgotten when
the level ends. Levels nest (``jitgrad.func`` takes derivatives of derivatives so): the tangent of
an inner level may itself be dual at an outer one, never the other way round.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from ..state import FORWARD_AD, modes, set_special
from ..tensor import Tensor

PRUNE = 1024  # a level looks for dead tangents when it holds this many references, then at twice


class Level:
    """One nesting of forward-mode AD; knows the tangents to forget when it ends."""

    __slots__ = ("depth", "held", "limit")

    def __init__(self, depth: int) -> None:
        self.depth = depth  # how many levels are around it
        self.held: list[weakref.ref[Tangents]] = []
        self.limit = PRUNE

    def remember(self, tangents: Tangents) -> None:
        """Forget an entry of ``tangents`` at the end; it is not kept alive until then."""
        if len(self.held) >= self.limit:
            self.held = [x for x in self.held if x() is not None]
            self.limit = max(PRUNE, 2 * len(self.held))
        self.held.append(weakref.ref(tangents))

    def forget(self) -> None:
        """Drop all tangents of this level."""
        for reference in self.held:
            tangents = reference()
            if tangents is not None:
                tangents.pop(self, None)
        self.held.clear()


class Tangents(dict[Level, Tensor]):
    """The tangents of one tensor (and of what nodes saved of it), by level."""

    __slots__ = ("__weakref__",)


# Levels -------------------------------------------------------------------------------------------
def set_levels(levels: tuple[Level, ...]) -> None:
    modes.levels = levels
    set_special(FORWARD_AD, bool(levels))


def push_level() -> Level:
    """Open a level inside those that are open."""
    level = Level(len(modes.levels))
    set_levels((*modes.levels, level))
    return level


def pop_level(level: Level) -> None:
    """End the innermost level; RuntimeError for another one."""
    if not modes.levels or modes.levels[-1] is not level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    set_levels(modes.levels[:-1])
    level.forget()


@contextlib.contextmanager
def level() -> Iterator[Level]:
    """A level for the time of a ``with`` block; these nest."""
    opened = push_level()
    try:
        yield opened
    finally:
        pop_level(opened)


@contextlib.contextmanager
def below(depth: int) -> Iterator[None]:
    """Only the ``depth`` outermost levels are open inside.

    A tangent of a level is computed so: operations on it must carry the tangents of the levels
    around it, and know nothing of the level itself nor of those inside it.
    """
    levels = modes.levels
    set_levels(levels[:depth])
    try:
        yield
    finally:
        set_levels(levels)


# Tangents of tensors ------------------------------------------------------------------------------
def tangent_of(tensor: Tensor, level: Level) -> Tensor | None:
    """The tangent of a tensor at a level.

    A view made before its base was given a tangent has the part of it where the view lies.
    """
    meta = tensor.meta
    if meta is not None and meta.tangents is not None:
        found = meta.tangents.get(level)
        if found is not None:
            return found
    base = _base(tensor)
    meta = None if base is None else base.meta
    if base is None or meta is None or meta.tangents is None:
        return None
    held = meta.tangents.get(level)
    return _part(tensor, base, held, level) if held is not None else None


def _base(tensor: Tensor) -> Tensor | None:
    """The tensor whose tangent a view shares; None if it stands for itself (as a dual does)."""
    view = tensor.view_meta
    if view is None:
        return None
    meta = tensor.meta
    if meta is not None and meta.forward_base is not None:
        return meta.forward_base if meta.forward_base is not Ellipsis else None
    return view.base


def _part(view: Tensor, base: Tensor, tangent: Tensor, level: Level) -> Tensor:
    """The part of the base's tangent where a view lies, from now on the view's tangent."""
    offset = (view.offset - base.offset) // base.layout.dtype.itemsize
    of = view.layout
    with below(level.depth):
        part = tangent.as_strided(of.shape, of.strides, tangent.storage_offset() + offset)
    hold(view, level, part)
    return part


def hold(tensor: Tensor, level: Level, tangent: Tensor) -> None:
    """Make ``tangent`` the tangent of a tensor."""
    meta = tensor.autograd_meta()
    if meta.tangents is None:
        meta.tangents = Tangents()
    meta.tangents[level] = tangent
    level.remember(meta.tangents)


def fitted(tangent: Tensor, of: Tensor, cast: bool = True) -> Tensor:
    """A tangent in the geometry of its tensor, so that views of both go alike.

    The tangent itself where it lies so already, else a copy (recorded, as everything here).
    """
    layout = of.layout
    if cast and tangent.layout.dtype.plain is not layout.dtype.plain:
        tangent = tangent.to(layout.dtype)
    room = of.storage.nbytes() // layout.dtype.itemsize
    alike = tangent.layout.shape == layout.shape and tangent.layout.strides == layout.strides
    alike = alike and tangent.layout.dtype is layout.dtype
    if (alike and room == tangent.storage.nbytes() // tangent.itemsize) or not layout.numel:
        return tangent
    if layout.dense and room == layout.numel:
        return of._like(tangent)
    if any(s == 0 and n > 1 for s, n in zip(layout.strides, layout.shape, strict=True)):
        return tangent.expand(layout.shape)
    buffer = tangent.new_zeros((room,))
    place = buffer.as_strided(layout.shape, layout.strides, of.storage_offset())
    return place.copy_(tangent)


def overwrite(tensor: Tensor, level: Level, tangent: Tensor | None) -> None:
    """Give a tensor that was written in place a new tangent (None: zero), in place if it has one.

    Views of the tensor then see it, and through a view its base.
    """
    held = tangent_of(tensor, level)
    if held is None:
        if tangent is None:
            return
        base = _base(tensor)
        if base is None:
            hold(tensor, level, fitted(tangent, tensor))
            return
        zero = base.new_zeros(base.layout.shape, dtype=base.dtype)
        hold(base, level, fitted(zero, base))
        held = tangent_of(tensor, level)
        assert held is not None
    if tangent is None:
        held.zero_()
    else:
        held.copy_(tangent)


def any_dual(tensors: Sequence[Any]) -> bool:
    """Whether any of these is a dual tensor of an open level."""
    return not modes.inference and any(
        isinstance(t, Tensor) and tangent_of(t, level) is not None
        for level in modes.levels
        for t in tensors
    )


def without_history(tensor: Tensor) -> Tensor:
    """``tensor.detach()`` that stays dual, its tangents detached alike."""
    result: Tensor = tensor.detach()
    for level in modes.levels:
        tangent = tangent_of(tensor, level)
        if tangent is not None:
            hold(result, level, without_history(tangent))
    return result
