"""What all schedules have in common."""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...tensor import Tensor
from ..optimizer import Optimizer, to_scalar

ORDER = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


class LRScheduler:
    """The base of schedules: subclasses define :meth:`get_lr`.

    Making one sets the learning rates to those of the first epoch; each :meth:`step` goes on to the
    next. The rate that a group began with is kept in it as ``initial_lr``.

    Args:
        optimizer: whose groups' ``lr`` is set.
        last_epoch: the epoch to go on from; -1 to begin.

    Raises:
        TypeError: for what is not an optimizer.
        KeyError: when going on with groups that have no ``initial_lr``.
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0. Load the optimizer's state first, or begin "
                    "with last_epoch=-1"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned; load the optimizer's state as well."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of the epoch ``last_epoch``, from those of the one before; for :meth:`step`."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch; call it after ``optimizer.step()``.

        Args:
            epoch: deprecated; go to this epoch, by the closed form of the schedule if it has one.
        """
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                f"initialization: call it before `lr_scheduler.step()`. See {ORDER}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in "
                "the opposite order, or the first value of the learning rate schedule is skipped. "
                f"See {ORDER}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        closed_form = getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        with self._getting_lr():
            values = self.get_lr() if epoch is None or closed_form is None else closed_form()
        self._set_lr(values)

    def _set_lr(self, values: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    @contextmanager
    def _getting_lr(self) -> Iterator[None]:
        """:meth:`get_lr` may be called here, where it is meant to be."""
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _check_getting_lr(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


class _LRScheduler(LRScheduler):
    """The base by its old name."""


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError for what is not an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def warn_of_epoch() -> None:
    """The warning of ``step(epoch)``."""
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
        "possible. Please use `scheduler.step()` to step the scheduler.",
        UserWarning,
        stacklevel=3,
    )


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group; tensors are copied."""
    return [_copied(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor is written to."""
    if isinstance(group[key], Tensor):
        group[key].fill_(to_scalar(value))
    else:
        group[key] = value


def set_momentum(group: dict[str, Any], value: Any) -> None:
    """Set the momentum of a group, or the first of its ``betas`` if it has those."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def one_each(name: str, optimizer: Optimizer, given: Any) -> list[Any]:
    """One value for every group from a list or a single one; ValueError for too many or few."""
    count = len(optimizer.param_groups)
    if not isinstance(given, list | tuple):
        return [_copied(given) for _ in range(count)]
    if len(given) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(given)} "
            f"values, param_groups has {count}."
        )
    return [_copied(value) for value in given]


def state_of_callable(function: Any) -> dict[str, Any] | None:
    """What is saved of a user's callable: the attributes of an object, nothing of a function."""
    return None if isinstance(function, types.FunctionType) else dict(function.__dict__)


def _watch_steps(optimizer: Optimizer) -> None:
    """Let the optimizer note that it has made a step since it got a schedule."""
    step: Callable[..., Any] = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    function = getattr(step, "__func__", step)
    bound = function is not step
    watched = weakref.ref(optimizer)  # the optimizer must not keep itself alive

    @functools.wraps(function)
    def noted_step(*args: Any, **kwargs: Any) -> Any:
        owner: Any = watched()
        owner._opt_called = True
        return function(owner, *args, **kwargs) if bound else function(*args, **kwargs)

    setattr(noted_step, "_wrapped_by_lr_sched", True)  # noqa: B010
    setattr(optimizer, "step", noted_step)  # noqa: B010
