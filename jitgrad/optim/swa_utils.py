"""Averages of a model's weights over its training (Izmailov et al. 2018)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from .. import dtypes
from ..autograd.grad_mode import no_grad
from ..dispatch.creation import full
from ..nn.module import Module
from ..nn.normalization import _BatchNorm
from ..tensor import Tensor
from .lr_scheduler._base import LRScheduler, one_each
from .optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_swa_avg_fn() -> Average:
    """``f(mean, value, count)``: the mean of ``count`` values and one more."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """``f(mean, value, count)``: the mean with ``1 - decay`` of its weight given to the value.

    Raises:
        ValueError: for a decay that is not in [0, 1].
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """:func:`get_swa_avg_fn` for lists of tensors, in place."""

    @no_grad()
    def swa_update(
        averaged_param_list: Sequence[Tensor],
        current_param_list: Sequence[Tensor],
        num_averaged: Any,
    ) -> None:
        weight = 1.0 / (float(num_averaged) + 1)
        for mean, value in zip(averaged_param_list, current_param_list, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(value, weight)
            else:
                mean.copy_(mean + (value - mean) * weight)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """:func:`get_ema_avg_fn` for lists of tensors, in place.

    Raises:
        ValueError: for a decay that is not in [0, 1].
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(
        ema_param_list: Sequence[Tensor], current_param_list: Sequence[Tensor], _: Any
    ) -> None:
        for mean, value in zip(ema_param_list, current_param_list, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(value, 1 - decay)
            else:
                mean.copy_(mean * decay + value * (1 - decay))

    return ema_update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: what to copy.
        device: where the copy is to be.
        avg_fn: ``f(mean, value, count)`` returns the new mean; by default that of equal weights.
        multi_avg_fn: the same for lists of tensors, in place.
        use_buffers: average the buffers too, instead of copying them.

    Attributes:
        module: the copy.
        n_averaged: how many values have entered the averages.

    Raises:
        AssertionError: if both functions are given.

    >>> import jitgrad as jg
    >>> model = jg.nn.Linear(1, 1)
    >>> mean = AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     jg.nn.init.constant_(model.weight, value)
    ...     mean.update_parameters(model)
    Parameter containing:
    tensor([[1.]], requires_grad=True)
    Parameter containing:
    tensor([[3.]], requires_grad=True)
    >>> mean.module.weight.item()
    2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", full((), 0, dtype=dtypes.int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the copy returns."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Let the parameters of a model enter the averages; the first ones are copied."""
        means, values = (self._averaged(x) for x in (self.module, model))
        pairs = list(zip(means, values, strict=False))
        if self.n_averaged.item() == 0:
            for mean, value in pairs:
                mean.copy_(value)
        elif self.avg_fn is not None:
            for mean, value in pairs:
                mean.copy_(self.avg_fn(mean, value, self.n_averaged))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            # Lists of one dtype each, which is what the functions may rely on.
            by_dtype: dict[dtypes.dtype, list[tuple[Tensor, Tensor]]] = {}
            for mean, value in pairs:
                by_dtype.setdefault(mean.layout.dtype, []).append((mean, value))
            for alike in by_dtype.values():
                ours, theirs = map(list, zip(*alike, strict=True))
                update(ours, theirs, self.n_averaged)
        if not self.use_buffers:
            for mean, value in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.copy_(value)
        self.n_averaged += 1

    def _averaged(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [x.detach() for x in chain(model.parameters(), buffers)]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Estimate the running statistics of batch normalisation anew, for averaged weights.

    Args:
        loader: batches, or tuples and lists that begin with one; all count alike.
        model: is run on all of them, in training mode.
        device: where batches are moved first.
    """
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    for batch in loader:
        given = batch[0] if isinstance(batch, list | tuple) else batch
        model(given if device is None else given.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From any learning rate to ``swa_lr`` in ``anneal_epochs`` steps, and constant afterwards.

    Args:
        swa_lr: the last rate, or one for every group.
        anneal_epochs: how many steps it takes.
        anneal_strategy: along a cosine (``"cos"``) or a straight line (``"linear"``).

    Raises:
        ValueError: for another strategy, or epochs that are no integer or negative.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = one_each("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _way(self, step: int) -> float:
        """How much of the way to the last rate lies behind after a step."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        self._check_getting_lr()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._way(step - 1), self._way(step)
        rates = []
        for group in self.optimizer.param_groups:
            last = group["swa_lr"]
            # The rate that this one began from, whoever has changed it meanwhile.
            first = last if before == 1 else (group["lr"] - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
