"""``autocast``, so far only as what it is when it is switched off."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..dtypes import bfloat16, dtype, float16
from ..tensor import device

_DTYPES = (bfloat16, float16)


class autocast:
    """A context, or decorator, in which PyTorch would compute some operators in 16 bits.

    ``enabled=False`` does nothing, here as there, and so do devices that are not available. Where
    it would have an effect it is refused.

    Args:
        device_type: ``"cpu"``.
        dtype: what to compute in; bfloat16 by default.
        enabled: whether to cast at all.
        cache_enabled: accepted.

    Raises:
        NotImplementedError: if it is enabled for a CPU.
        ValueError: for a device that is not named by a string.
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
        self.fast_dtype = dtype if dtype is not None else bfloat16
        if enabled and device_type != "cpu":
            if device_type != "cuda":
                device(device_type)
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=2)
        elif enabled and self.fast_dtype not in _DTYPES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast. It "
                "only supports dtypes of bfloat16, float16.",
                stacklevel=2,
            )
        elif enabled:
            raise NotImplementedError(
                f"autocast(dtype={self.fast_dtype}) is not implemented on the CPU: operators "
                "are not cast automatically. Use enabled=False, or convert the model and its "
                "inputs yourself by .to(dtype)"
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing was changed."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call


def is_autocast_available(device_type: str) -> bool:
    """Whether :class:`autocast` can be enabled for a device: not yet."""
    return False


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtype | None = None,
) -> Callable[..., Any]:
    """Decorator of a ``Function``'s ``forward`` that is to run without autocast, as all do."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    return fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorator of a ``Function``'s ``backward`` that is to run without autocast, as all do."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    return bwd
