"""Losses. All take ``reduction``: ``mean`` (default), ``sum``, or ``none`` for all of them."""

from __future__ import annotations

import warnings
from typing import Any

from ..dispatch import lines
from ..dispatch import loss as kernels
from ..dispatch import reduction as reductions
from ..dispatch.elementwise import functions
from ..dispatch.loss import check_reduction
from ..dispatch.loss import nll_loss as _nll_loss
from ..dispatch.shape import broadcast_tensors
from ..tensor import Tensor


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """What the two arguments of old say, where they are given."""
    if size_average is None and reduce is None:
        return check_reduction(reduction)
    if reduce is not None and not reduce:
        chosen = "none"
    else:
        chosen = "mean" if size_average or size_average is None else "sum"
    warnings.warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{chosen}' instead.",
        stacklevel=3,
    )
    return chosen


def reduce_values(values: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of losses, or themselves."""
    check_reduction(reduction)
    if reduction == "none":
        return values
    return reductions.mean(values) if reduction == "mean" else reductions.sum(values)


def _same_size(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
        return broadcast_tensors(input, target)
    return input, target


# Classification -----------------------------------------------------------------------------------
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-weight[target] * input[target]``, of log-probabilities.

    Args:
        input: [classes], [n, classes] or [n, classes, d1, ...].
        target: class numbers (int64), of that shape without the classes.
        weight: of each class; the mean is the weighted one.
        ignore_index: targets that do not count.

    Raises:
        IndexError: for a target that is no class.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return _nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of ``softmax(input)`` from the target distribution.

    Args:
        input: logits, [classes], [n, classes] or [n, classes, d1, ...].
        target: class numbers (as :func:`nll_loss`), or probabilities in the shape of ``input``.
        weight: of each class.
        ignore_index: class numbers that do not count.
        label_smoothing: the share of the target that is spread evenly over all classes.

    Raises:
        IndexError: for a target that is no class.
        RuntimeError: for shapes that do not fit, or a smoothing outside [0, 1].
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    of, kind = input.layout, target.layout
    dim = 0 if of.ndim == 1 else 1
    logs = lines.log_softmax(input, dim)
    if kind.shape == of.shape and kind.dtype.is_floating_point:
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _from_probabilities(logs, target, weight, reduction, label_smoothing, dim)
    if not label_smoothing:
        return _nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    return _smoothed(logs, target, weight, ignore_index, reduction, label_smoothing, dim)


def _per_class(weight: Tensor, ndim: int, dim: int) -> Tensor:
    shape = [1] * ndim
    shape[dim] = -1
    return weight.reshape(shape)


def _from_probabilities(logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str,
                        smoothing: float, dim: int) -> Tensor:  # fmt: skip
    classes = logs.shape[dim]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    terms = logs * target
    if weight is not None:
        terms = terms * _per_class(weight, logs.ndim, dim)
    if reduction == "none":
        return functions["neg"](reductions.sum(terms, dim))
    total = functions["neg"](reductions.sum(terms))
    return total / max(logs.numel() // max(classes, 1), 1) if reduction == "mean" else total


def _smoothed(logs: Tensor, target: Tensor, weight: Tensor | None, ignored: int, reduction: str,
              smoothing: float, dim: int) -> Tensor:  # fmt: skip
    """(1 - smoothing) * nll + smoothing * the mean of -log over all classes."""
    nll = _nll_loss(logs, target, weight, ignore_index=ignored, reduction=reduction)
    terms = logs if weight is None else logs * _per_class(weight, logs.ndim, dim)
    skipped = functions["eq"](target, ignored)
    even = functions["neg"](reductions.sum(terms, dim))
    even = functions["masked_fill"](even, skipped, 0.0)
    if reduction == "sum":
        even = reductions.sum(even)
    elif reduction == "mean":
        counted: Any
        if weight is None:
            counted = skipped.numel() - int(reductions.sum(skipped).item())
        else:
            ones = functions["mul"](logs.detach(), 0) - 1
            counted = _nll_loss(ones, target, weight, ignore_index=ignored, reduction="sum")
        even = reductions.sum(even) / counted
    share = smoothing / logs.shape[dim]
    return nll * (1 - smoothing) + even * share


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input)) * weight``.

    Raises:
        RuntimeError: if an input is no probability.
        ValueError: if the shapes differ.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    plain = input.detach()
    if input.numel() and not bool(((plain >= 0) & (plain <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    weights: Any = 1.0 if weight is None else weight.expand_as(input)
    return kernels.binary_cross_entropy(input, target, weights, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of ``sigmoid(input)``, without overflow.

    Args:
        weight: broadcast with the result.
        pos_weight: factor of the positive examples, broadcast with ``target``.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    factors = [1.0 if w is None else w.expand_as(input) for w in (weight, pos_weight)]
    return kernels.binary_cross_entropy_with_logits(input, target, *factors, reduction=reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))`` with targets 1 and -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    return kernels.soft_margin_loss(input, target, reduction=reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the last dimension of the cross entropy of ``sigmoid(input)``."""
    reduction = reduction_of(size_average, reduce, reduction)
    log_sigmoid, neg = functions["log_sigmoid"], functions["neg"]
    terms = neg(target * log_sigmoid(input) + (1 - target) * log_sigmoid(neg(input)))
    if weight is not None:
        terms = terms * weight
    return reduce_values(reductions.sum(terms, -1) / input.shape[-1], reduction)


# Regression ---------------------------------------------------------------------------------------
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target) ** 2``, times ``weight`` where given."""
    reduction = reduction_of(size_average, reduce, reduction)
    input, target = _same_size("mse_loss", input, target)
    if weight is None:
        return kernels.mse_loss(input, target, reduction=reduction)
    return _weighted(kernels.mse_loss(input, target, reduction="none"), weight, reduction)


def _weighted(values: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.shape != values.shape:
        raise ValueError("Inputs and weight must have the same size.")
    values = values * weight
    if reduction == "mean":
        return reductions.sum(values) / reductions.sum(weight)
    return reduce_values(values, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|``, times ``weight`` where given."""
    reduction = reduction_of(size_average, reduce, reduction)
    input, target = _same_size("l1_loss", input, target)
    values = abs(input - target)
    return (
        reduce_values(values, reduction) if weight is None else _weighted(values, weight, reduction)
    )


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``0.5 * d**2 / beta`` for ``|d| < beta``, else ``|d| - 0.5 * beta`` (d: the difference)."""
    reduction = reduction_of(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    input, target = _same_size("smooth_l1_loss", input, target)
    return kernels.smooth_l1_loss(input, target, float(beta), reduction=reduction)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """``0.5 * d**2`` for ``|d| <= delta``, else ``delta * (|d| - 0.5 * delta)``."""
    check_reduction(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    input, target = _same_size("huber_loss", input, target)
    if weight is None:
        return kernels.huber_loss(input, target, float(delta), reduction=reduction)
    values = kernels.huber_loss(input, target, float(delta), reduction="none")
    return _weighted(values, weight, reduction)
