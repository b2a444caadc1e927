"""PyTorch's process-wide switches, so that programs that set them run unchanged.

Kernels here give the same bits for any number of threads, always compute in full precision and
never flush subnormal numbers, so most of these only remember what was asked for.
"""

from __future__ import annotations

import warnings
from typing import Any

from . import state
from .dtypes import by_tensor_type, dtype
from .tensor import CPU, device

_PRECISIONS = ("highest", "high", "medium")
_MODES = {"default": 0, "warn": 1, "error": 2}

_deterministic = 0
_precision = "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic algorithms. All are, always; only the wish is noted.

    Raises:
        TypeError: if ``mode`` is not a bool.
    """
    global _deterministic
    if not isinstance(mode, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
            f"{type(mode).__name__}"
        )
    _deterministic = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for."""
    return _deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether they were asked for with ``warn_only``."""
    return _deterministic == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """:func:`use_deterministic_algorithms` by number or name: default, warn or error.

    Raises:
        RuntimeError: for another number or name.
    """
    global _deterministic
    mode = _MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in _MODES.values():
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, 0, 1, or 2, "
            f"but got {debug_mode}"
        )
    _deterministic = mode


def get_deterministic_debug_mode() -> int:
    """0, 1 (warn) or 2 (error)."""
    return _deterministic


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted; products of float32 matrices are computed in full precision whatever it says."""
    global _precision
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What :func:`set_float32_matmul_precision` was last told."""
    return _precision


def set_flush_denormal(mode: bool) -> bool:
    """Whether the request could be met: only that subnormal numbers are kept."""
    return not mode


def get_num_interop_threads() -> int:
    """1: operators run one after the other."""
    return 1


def set_num_interop_threads(threads: int) -> None:
    """Accepted; RuntimeError for numbers below 1."""
    if threads < 1:
        raise RuntimeError("Expected positive number of threads")


def get_default_device() -> device:
    """Where new tensors live."""
    return CPU


def set_default_device(device_: Any) -> None:
    """Accepts the CPU (or None); RuntimeError for a device that there is not."""
    if device_ is not None:
        device(device_)


def set_default_tensor_type(t: Any) -> None:
    """The old form of ``set_default_dtype``: a tensor type (``DoubleTensor``) or its name.

    Raises:
        TypeError: for what is no type of floating-point tensors.
    """
    found = by_tensor_type(t) if isinstance(t, str) else getattr(t, "dtype", None)
    if not isinstance(found, dtype) or not found.is_floating_point:
        raise TypeError(
            "invalid type object: only floating-point types are supported as the default type"
        )
    state.set_default_dtype(found)


__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]
