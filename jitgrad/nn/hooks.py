"""Hooks: callables in the order they run, and the handles that remove them."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

Hooks = OrderedDict[int, Callable[..., Any]]
_next_id = itertools.count().__next__


class RemovableHandle:
    """Removes one hook, by :meth:`remove` or at the end of a ``with`` block.

    Attributes:
        id: the key of the hook in its dictionary (and in those that say more about it).
    """

    __slots__ = ("_places", "id")

    def __init__(self, hooks: Hooks, *extra: dict[int, Any]) -> None:
        self.id = _next_id()
        # Weak: a handle must not keep the module, and with it its hooks, alive.
        self._places = [weakref.ref(place) for place in (hooks, *extra)]

    def remove(self) -> None:
        """Remove the hook; nothing happens the second time."""
        for place in self._places:
            held = place()
            if held is not None:
                held.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(
    hooks: Hooks, hook: Callable[..., Any], *marks: OrderedDict[int, Any], prepend: bool = False
) -> RemovableHandle:
    """Register ``hook``, and its key in each of ``marks``; ``prepend`` makes it run first."""
    handle = RemovableHandle(hooks, *marks)
    hooks[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
