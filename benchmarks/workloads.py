"""Pieces the workloads share. `lib` is jitgrad, torch or, where noted, numpy."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_numpy(lib: Any) -> bool:
    return lib is np


def array(lib: Any, values: np.ndarray) -> Any:
    """The library's own array with these values in memory of its own."""
    return values.copy() if is_numpy(lib) else lib.from_numpy(values.copy())


def uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
