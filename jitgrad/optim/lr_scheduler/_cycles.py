"""Schedules that cycle, and the momentum against them (Smith 2015; Smith & Topin 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ..optimizer import Optimizer
from ._base import (
    LRScheduler,
    check_optimizer,
    one_each,
    set_momentum,
    set_value,
    state_of_callable,
)


def _begin_momentum(
    optimizer: Optimizer, highest: list[Any], lowest: list[Any], last_epoch: int
) -> bool:
    """Let the momentum of every group begin at its highest value.

    Returns:
        Whether the momentum is the first of the groups' ``betas``.

    Raises:
        ValueError: for an optimizer that has neither.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    if last_epoch == -1:
        for high, low, group in zip(highest, lowest, optimizer.param_groups, strict=True):
            set_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low
    return "betas" in optimizer.defaults


class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` and down again, in straight lines, time after time.

    Args:
        base_lr, max_lr: the ends, or those of every group.
        step_size_up, step_size_down: steps of the way up and down; equal by default.
        mode: ``"triangular"``: all cycles alike; ``"triangular2"``: each half as high as the one
            before; ``"exp_range"``: heights shrink by ``gamma`` every step.
        scale_fn: the height in place of a mode, as a function of the cycle or of the step.
        scale_mode: which: ``"cycle"`` or ``"iterations"``.
        cycle_momentum: move the momentum (or the first of the ``betas``) the other way, between
            ``base_momentum`` and ``max_momentum``.

    Raises:
        TypeError: for what is not an optimizer.
        ValueError: for an unknown mode, an optimizer without momentum, or other numbers of values
            than of groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = one_each("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = one_each("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = one_each("base_momentum", optimizer, base_momentum)
            self.max_momentums = one_each("max_momentum", optimizer, max_momentum)
            self.use_beta1 = _begin_momentum(
                optimizer, self.max_momentums, self.base_momentums, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or at a step, relative to the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return self.gamma**x
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (x - 1)

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        way = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, momenta, strict=True):
                set_momentum(group, high - (high - low) * way * height)
        return [
            low + (high - low) * way * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; of a callable object its attributes."""
        custom = self._scale_fn_custom
        saved = None if custom is None else state_of_callable(custom)
        return super().state_dict() | {"_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        saved = state_dict["_scale_fn_custom"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._init_scale_fn()


class OneCycleLR(LRScheduler):
    """Up to ``max_lr`` and far down again, in one cycle over all of the training.

    Args:
        max_lr: the highest rate, or that of every group.
        total_steps: steps of the training; or ``epochs`` and ``steps_per_epoch``.
        pct_start: the part of it that the rate rises in.
        anneal_strategy: along a cosine (``"cos"``) or a straight line (``"linear"``).
        cycle_momentum: move the momentum (or the first of the ``betas``) the other way, between
            ``base_momentum`` and ``max_momentum``.
        div_factor: the highest rate over the first one.
        final_div_factor: the first rate over the last one.
        three_phase: come down to the first rate as one went up, and only then to the last.

    Raises:
        TypeError: for what is not an optimizer.
        ValueError: for options outside their ranges, an optimizer without momentum, and a step
            after the last one.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        highest = one_each("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _begin_momentum(
                optimizer,
                one_each("max_momentum", optimizer, max_momentum),
                one_each("base_momentum", optimizer, base_momentum),
                last_epoch,
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begins = 0.0
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            begins = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        way = (step - begins) / (phase["end_step"] - begins)
        between = partial(_ANNEAL[self._anneal_func_type], way)
        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            momentum = between(group[phase["start_momentum"]], group[phase["end_momentum"]])
            set_momentum(group, momentum)
        return [
            between(group[phase["start_lr"]], group[phase["end_lr"]])
            for group in self.optimizer.param_groups
        ]


def _total_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        return _positive("total_steps", total)
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    return _positive("epochs", epochs) * _positive("steps_per_epoch", per_epoch)


def _positive(name: str, value: int) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


def _phases(total: int, part: float, three: bool) -> list[dict[str, Any]]:
    """The stretches of a cycle: where they end, and between which of a group's entries they go."""
    top = float(part * total) - 1
    ends = [(top, "max"), (2 * top, "initial"), (total - 1, "min")]
    if not three:
        ends.pop(1)
    momentum = {"initial": "max_momentum", "max": "base_momentum", "min": "max_momentum"}
    phases = []
    start = "initial"
    for end_step, end in ends:
        phases.append({
            "end_step": end_step,
            "start_lr": f"{start}_lr",
            "end_lr": f"{end}_lr",
            "start_momentum": momentum[start],
            "end_momentum": momentum[end],
        })  # fmt: skip
        start = end
    return phases


def _along_cosine(way: float, start: Any, end: Any) -> Any:
    return end + (start - end) / 2.0 * (math.cos(math.pi * way) + 1)


def _along_line(way: float, start: Any, end: Any) -> Any:
    return (end - start) * way + start


_ANNEAL: dict[str, Callable[..., Any]] = {"cos": _along_cosine, "linear": _along_line}
