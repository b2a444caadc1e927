"""Schedules that follow a cosine (Loshchilov & Hutter 2016)."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from ._base import LRScheduler, values_of


class CosineAnnealingLR(LRScheduler):
    """Down to ``eta_min`` in ``T_max`` epochs, along half a cosine, and up again.

    Each rate follows from the one before, so other schedules may change it as well.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        epoch, groups = self.last_epoch, self.optimizer.param_groups
        if self._is_initial:
            return values_of(self.optimizer, "lr")
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # one past the lowest point
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (lr - self.eta_min) * rise
                for lr, group in zip(self.base_lrs, groups, strict=True)
            ]
        ratio = self._height(epoch) / self._height(epoch - 1)
        return [ratio * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        height = self._height(self.last_epoch)
        return [self.eta_min + (lr - self.eta_min) * height / 2 for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to ``eta_min`` along half a cosine, then from the start again.

    Args:
        T_0: epochs of the first descent.
        T_mult: how many times as long each descent is as the one before.
        eta_min: the lowest rate.

    Raises:
        ValueError: unless ``T_0`` and ``T_mult`` are positive integers.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (lr - self.eta_min) * height / 2 for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to any, fractions of epochs included.

        Raises:
            ValueError: for a negative epoch.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._seek(epoch)
        self.last_epoch = math.floor(epoch)
        with self._getting_lr():
            values = self.get_lr()
        self._set_lr(values)

    def _seek(self, epoch: float) -> None:
        """Find the descent that an epoch lies in, and the place in it."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # Descents before this one: their lengths are a geometric series.
            count = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            before = self.T_0 * (self.T_mult**count - 1) / (self.T_mult - 1)
            self.T_cur = epoch - before
            self.T_i = self.T_0 * self.T_mult**count
