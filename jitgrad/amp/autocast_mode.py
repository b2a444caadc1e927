"""``autocast``: some operators in 16 bits, some in float32, whatever they are given."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..dtypes import bfloat16, dtype, float16
from ..state import modes
from ..tensor import device
from . import _casts

_DTYPES = (bfloat16, float16)


class autocast:
    """A context, or decorator, in which matrix products are computed in 16 bits.

    Products, convolutions and attention cast their float inputs to ``dtype``; losses and other
    operators that need the digits cast theirs to float32; everything else takes what it gets.
    float64 is never cast. Casts are recorded, so gradients arrive in the parameters' own dtype.
    Recurrent layers are not cast. Kernels compute in float32 in either case, so on a CPU this saves
    memory and shows what 16 bits do to a training, but no time.

    The casts are made by the public functions, while any thread is in such a context: functions
    imported by name beforehand do not cast.

    Args:
        device_type: ``"cpu"``; any other is not available, and then nothing is cast.
        dtype: bfloat16 (the default) or float16.
        enabled: whether to cast at all, also within another autocast.
        cache_enabled: accepted; casts are not kept.

    Raises:
        ValueError: for a device that is not named by a string.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, 2)
    >>> with jg.autocast("cpu"):
    ...     (x @ x).dtype, (x + x).dtype
    (jitgrad.bfloat16, jitgrad.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self.fast_dtype = bfloat16 if dtype is None else dtype
        if enabled and device_type != "cpu":
            if device_type != "cuda":
                device(device_type)
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in _DTYPES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast. It "
                "only supports dtypes of bfloat16, float16.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
        if self._enabled:
            _casts.install()
        self._before.append(modes.autocast)
        modes.autocast = self.fast_dtype if self._enabled else None
        return self

    def __exit__(self, *exc: object) -> None:
        modes.autocast = self._before.pop()
        if self._enabled:
            _casts.uninstall()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled):
                return function(*args, **kwargs)

        return call


def is_autocast_available(device_type: str) -> bool:
    """Whether :class:`autocast` can be enabled for a device."""
    return device_type == "cpu"


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether this thread is in an enabled :class:`autocast` for a device."""
    return device_type == "cpu" and modes.autocast is not None


def get_autocast_dtype(device_type: str) -> dtype:
    """What :class:`autocast` casts to at the moment; bfloat16 outside of it."""
    return bfloat16 if modes.autocast is None else modes.autocast


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtype | None = None,
) -> Callable[..., Any]:
    """Decorator of a ``Function``'s ``forward``: its backward will run in the same mode.

    Args:
        cast_inputs: within autocast, cast float tensors to this and run without autocast.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_casts.cast(args, cast_inputs), **_casts.cast(kwargs, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorator of a ``Function``'s ``backward``: it runs in the mode of its forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any) -> Any:
        with autocast(device_type, ctx._dtype, ctx._fwd_used_autocast):
            return bwd(ctx, *args)

    return backward
