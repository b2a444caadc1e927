"""A schedule that follows what is measured."""

from __future__ import annotations

from math import inf
from typing import Any

from ..optimizer import Optimizer
from ._base import LRScheduler, check_optimizer, set_value, values_of, warn_of_epoch


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when a measure has not improved for more than ``patience`` epochs.

    Args:
        mode: whether smaller (``"min"``) or larger (``"max"``) is better.
        factor: less than 1.
        patience: epochs without improvement that are accepted.
        threshold: how much better counts as an improvement.
        threshold_mode: relative to the best value (``"rel"``) or not (``"abs"``).
        cooldown: epochs after a reduction that are not counted.
        min_lr: the lowest rate, or one for every group.
        eps: the smallest reduction that is made.

    Raises:
        ValueError: for options outside their ranges, or another number of lowest rates.
        TypeError: for what is not an optimizer.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        self.default_min_lr: float | None = None
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != count:
                raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    @property
    def mode_worse(self) -> float:
        """What any measure is better than."""
        return inf if self.mode == "min" else -inf

    def _reset(self) -> None:
        """Forget what was measured."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return super().state_dict() | {"mode_worse": self.mode_worse}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "mode_worse"})

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take in the measure of an epoch, a number or a tensor of one element."""
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted at the moment."""
        return self.cooldown_counter > 0

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}): give the "
                    "`min_lrs` of all groups"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, lowest)
            if before - after > self.eps:
                set_value(group, "lr", after)

    def _is_better(self, value: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            best *= 1 + sign * self.threshold
        else:
            best += sign * self.threshold
        return value < best if self.mode == "min" else value > best
