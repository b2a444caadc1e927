"""Schedules that multiply the learning rate, whatever it is: they can be chained."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..optimizer import Optimizer
from ._base import LRScheduler, state_of_callable, values_of

Factor = Callable[[int], float]


class _Factor(LRScheduler):
    """A schedule whose rates are multiplied by one factor every epoch."""

    def _factor(self) -> float | None:
        """By what the rates of the last epoch are multiplied; None leaves them as they are."""
        raise NotImplementedError

    def _closed_form(self) -> float:
        """By what the initial rates would have been multiplied until this epoch."""
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        factor = self._factor()
        if factor is None:
            return values_of(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self._closed_form() for lr in self.base_lrs]


class StepLR(_Factor):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return None
        return self.gamma

    def _closed_form(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_Factor):
    """Times ``gamma`` at each of the epochs ``milestones``."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        count = self.milestones.get(self.last_epoch)
        return None if count is None else self.gamma**count

    def _closed_form(self) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(_Factor):
    """Times ``factor`` until epoch ``total_iters``; ValueError unless it is in [0, 1]."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _closed_form(self) -> float:
        return self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)


class LinearLR(_Factor):
    """Times a factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs.

    Raises:
        ValueError: for a start that is not in (0, 1], or an end that is not in [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return 1.0 + rise / before

    def _closed_form(self) -> float:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done


class ExponentialLR(_Factor):
    """Times ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self._is_initial else self.gamma

    def _closed_form(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(_Factor):
    """Times ``(1 - epoch / total_iters) ** power``, down to 0 at epoch ``total_iters``."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch: int) -> float:
        return 1.0 - epoch / self.total_iters

    def _factor(self) -> float | None:
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        return (self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power

    def _closed_form(self) -> float:
        return self._left(min(self.total_iters, self.last_epoch)) ** self.power


class _UserFactors(LRScheduler):
    """A schedule by functions of the user's, of which only objects' attributes are saved."""

    lr_lambdas: list[Factor]

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1
    ) -> None:
        count = len(optimizer.param_groups)
        if isinstance(lr_lambda, list | tuple):
            if len(lr_lambda) != count:
                raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count  # type: ignore[list-item]
        super().__init__(optimizer, last_epoch)

    def _factors(self) -> list[float]:
        return [function(self.last_epoch) for function in self.lr_lambdas]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions; of callable objects their attributes."""
        return super().state_dict() | {"lr_lambdas": list(map(state_of_callable, self.lr_lambdas))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        kept = {key: value for key, value in state_dict.items() if key != "lr_lambdas"}
        super().load_state_dict(kept)
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_UserFactors):
    """The initial rate times ``lr_lambda(epoch)``.

    Args:
        lr_lambda: a function, or one for every group; ValueError for another number of them.
    """

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        return [lr * factor for lr, factor in zip(self.base_lrs, self._factors(), strict=True)]


class MultiplicativeLR(_UserFactors):
    """The rate of the last epoch times ``lr_lambda(epoch)``.

    Args:
        lr_lambda: a function, or one for every group; ValueError for another number of them,
            TypeError for what cannot be called.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda]:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        rates = values_of(self.optimizer, "lr")
        if self._is_initial:
            return rates
        return [lr * factor for lr, factor in zip(rates, self._factors(), strict=True)]
