"""Which implementation of attention is used: here there is one, so this is for the asking only."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class SDPBackend(enum.IntEnum):
    """PyTorch's names of implementations of scaled dot-product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Accepts what PyTorch's context manager does; whatever is asked for, one kernel does it."""
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(b, SDPBackend) for b in chosen):
        raise TypeError(f"backends must be of type SDPBackend, got {backends!r}")
    yield
