"""Loss scaling (Micikevicius et al. 2017)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from enum import Enum
from typing import Any

from ..autograd.grad_mode import no_grad
from ..dispatch.creation import full
from ..dtypes import float16, float32, int32
from ..optim.optimizer import Optimizer
from ..tensor import Tensor


class OptState(Enum):
    """What has been done to an optimizer's gradients since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _Seen:
    """An optimizer's stage, and whether its gradients were finite (None: not looked at)."""

    def __init__(self) -> None:
        self.stage = OptState.READY
        self.finite: bool | None = None


class GradScaler:
    """Scales losses so that gradients in 16 bits do not vanish, and skips steps that overflow.

    ``scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()``: the step divides the
    gradients by the scale first and is skipped if one is not finite; then the scale shrinks. After
    ``growth_interval`` steps in a row without that it grows.

    Args:
        device: ``"cpu"``; for ``"cuda"``, which is not available, a warning is given and the
            scaler disabled.
        init_scale: the first scale.
        growth_factor, backoff_factor: what it is multiplied by.
        enabled: if not, ``step`` calls the optimizer's and everything else does nothing.

    Raises:
        AssertionError: for factors on the wrong side of 1, and calls in the wrong order.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            warnings.warn(
                "GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._init_growth_tracker = 0
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        # Made when first needed, so that a scaler that was loaded begins with what it loaded.
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._seen: dict[int, _Seen] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor times the scale; of lists, tuples and other iterables every tensor.

        Raises:
            ValueError: for what is neither.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = full((), self._init_scale, dtype=float32)
                self._growth_tracker = full((), self._init_growth_tracker, dtype=int32)
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide an optimizer's gradients by the scale, to clip them, say; ``step`` will not.

        Raises:
            RuntimeError: the second time since the last update, or after the step.
            ValueError: for gradients in float16.
        """
        if not self._enabled:
            return
        scale = self._checked_scale("unscale_")
        seen = self._seen.setdefault(id(optimizer), _Seen())
        if seen.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if seen.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        seen.finite = _divide(optimizer, scale.item())
        seen.stage = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, if its gradients are finite.

        Returns:
            What the step returns; None if it was skipped.

        Raises:
            RuntimeError: the second time since the last update, or with a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._checked_scale("step")
        seen = self._seen.setdefault(id(optimizer), _Seen())
        if seen.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if seen.stage is OptState.READY:
            self.unscale_(optimizer)
        if seen.finite is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = optimizer.step(*args, **kwargs) if seen.finite else None
        seen.stage = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Let the scale follow what was found since the last update; or set it.

        Args:
            new_scale: a float, or a tensor of one element that does not require grad.
        """
        if not self._enabled:
            return
        scale = self._checked_scale("update")
        if isinstance(new_scale, Tensor):
            if new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError(
                    "new_scale should be a float or a 1-element FloatTensor with "
                    "requires_grad=False."
                )
            scale.copy_(new_scale.reshape(()))
        elif new_scale is not None:
            scale.fill_(new_scale)
        else:
            self._follow(scale)
        self._seen = {}

    def _follow(self, scale: Tensor) -> None:
        found = [seen.finite for seen in self._seen.values() if seen.finite is not None]
        if not found:
            raise AssertionError("No inf checks were recorded prior to update.")
        tracker: Any = self._growth_tracker
        if not all(found):
            scale.mul_(self._backoff_factor)
            tracker.zero_()
            return
        tracker.add_(1)
        if tracker.item() == self._growth_interval:
            grown = scale * self._growth_factor
            if grown.isfinite().item():
                scale.copy_(grown)
            tracker.zero_()

    def _checked_scale(self, function: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {function} but _scale is None.  This may indicate your script did not "
                "use scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The present scale; 1 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by when it shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many finite steps in a row let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set how many finite steps in a row let the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else tracker.item()

    def state_dict(self) -> dict[str, Any]:
        """Scale and options; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned; nothing happens if disabled.

        Raises:
            RuntimeError: for the empty state of a disabled scaler.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._enabled:
            if self._seen:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state


def _divide(optimizer: Optimizer, scale: float) -> bool | None:
    """Divide all gradients; whether all were finite, None if there are none."""
    finite: bool | None = None
    with no_grad():
        for group in optimizer.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if grad.layout.dtype is float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                finite = finite is not False and bool(grad.isfinite().all())
                grad.mul_(1 / scale)
    return finite
