"""Thread-local modes, the default dtype, and the counter that orders the tape."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from . import dtypes
from .dtypes import complex_of, dtype

# Bits of `modes.mode`. An operator reads this one word: 0 means nothing is recorded, GRAD alone
# is the plain tape, and anything above asks the general (slower) path to look closer.
GRAD = 1
SPECIAL = 2  # inference mode, saved-tensor hooks, forward-mode AD or anomaly detection


# Why the SPECIAL bit is set: bits of `modes.reasons`.
INFERENCE = 1
SAVED_HOOKS = 2
FORWARD_AD = 4
ANOMALY = 8


class _Modes(threading.local):
    """Modes of the calling thread; class attributes are every new thread's defaults.

    Attributes:
        mode: what operators look at.
        reasons: why its SPECIAL bit is set.
        inference: whether inference mode is on.
        saved_hooks: the saved-tensor hooks in force, innermost last: pairs (pack, unpack).
        hooks_refused: what disable_saved_tensors_hooks() says to whoever wants more of them.
        before_write: who is told of every in-place write beforehand (autograd/graph.py).
        levels: the levels of forward-mode AD, innermost last (autograd/dual.py).
        task: the backward pass that this thread is running (autograd/engine.py).
        autocast: the dtype that products are computed in, if any (amp/autocast_mode.py).
    """

    mode: int = GRAD
    reasons: int = 0
    inference: bool = False
    saved_hooks: tuple[Any, ...] = ()
    hooks_refused: str | None = None
    before_write: Any = None
    levels: tuple[Any, ...] = ()
    task: Any = None
    autocast: Any = None


modes = _Modes()


def set_special(reason: int, on: bool) -> None:
    """Add or remove a reason why operators of this thread must take the general path."""
    modes.reasons = modes.reasons | reason if on else modes.reasons & ~reason
    modes.mode = modes.mode & GRAD | (SPECIAL if modes.reasons else 0)


def set_special_everywhere(reason: int, on: bool) -> None:
    """As :func:`set_special`, and for every thread that has not switched a mode of its own yet."""
    _Modes.reasons = _Modes.reasons | reason if on else _Modes.reasons & ~reason
    _Modes.mode = _Modes.mode & GRAD | (SPECIAL if _Modes.reasons else 0)
    set_special(reason, on)


# Nodes created later have larger numbers, so executing the largest first is a topological order.
# One counter for all threads: it is monotonic within each, which is what the engine needs.
next_sequence_number: Callable[[], int] = itertools.count().__next__


def set_grad_mode(enabled: bool) -> None:
    modes.mode = modes.mode | GRAD if enabled else modes.mode & ~GRAD


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return bool(modes.mode & GRAD)


_default_dtype = dtypes.float32
_on_default_dtype: list[Callable[[], None]] = []


_warn_always = False


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats (float32 unless changed)."""
    return _default_dtype


def get_default_complex_dtype() -> dtype:
    """The dtype of tensors made from Python's complex numbers: with parts of the default dtype."""
    return complex_of(_default_dtype)


def set_default_dtype(d: dtype) -> None:
    """Set the dtype of tensors made from Python floats; TypeError unless it is a float dtype."""
    global _default_dtype
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _default_dtype = d
    for forget in _on_default_dtype:
        forget()


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once per process are given every time."""
    global _warn_always
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """What :func:`set_warn_always` was last told."""
    return _warn_always


def on_default_dtype(forget: Callable[[], None]) -> None:
    """Register what must be forgotten when the default dtype changes (cached plans)."""
    _on_default_dtype.append(forget)
