"""Losses between distributions, and losses of pairs and triplets.

All take ``reduction``: ``mean`` (default), ``sum``, or ``none`` for a tensor of losses.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from ..dispatch import reduction as reductions
from ..dispatch.creation import zeros_like
from ..dispatch.elementwise import functions
from ..tensor import Tensor
from ._layers import pairwise_distance
from ._losses import reduce_values, reduction_of

_neg, _where, _exp, _log = (functions[name] for name in ("neg", "where", "exp", "log"))


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target * (log(target) - input)``: the Kullback-Leibler divergence of log-probabilities.

    Args:
        reduction: also ``batchmean``, the sum divided by the first size.
        log_target: whether the target holds logarithms too.
    """
    if reduction == "batchmean":
        total = kl_div(input, target, reduction="sum", log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    reduction = reduction_of(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            stacklevel=2,
        )
    if log_target:
        values = _exp(target) * (target - input)
    else:
        entropy = _where(functions["eq"](target, 0), target * 0, target * _log(target))
        values = entropy - target * input
    return reduce_values(values, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of counts, ``input`` being the rate or (default) its logarithm.

    Args:
        full: add Stirling's approximation of log(target!).
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if log_input:
        values = _exp(input) - target * input
    else:
        values = input - target * _log(input + eps)
    if full:
        stirling = target * _log(target) - target + 0.5 * _log(2 * math.pi * target)
        values = values + _where(functions["gt"](target, 1), stirling, zeros_like(stirling))
    return reduce_values(values, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """``0.5 * (log(var) + (input - target)**2 / var)``, with ``var`` at least ``eps``.

    Raises:
        ValueError: for a negative variance, or one whose size does not fit.
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = zeros_like(input) + var
    elif bool((var.detach() < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or _other_sizes(input, var) != [1]:
            raise ValueError("var is of incorrect size")
    # The bound is not differentiated: below it the variance keeps its gradient.
    floor = functions["clamp_min"](var.detach(), eps)
    bounded = var + (floor - var.detach())
    values = 0.5 * (_log(bounded) + (input - target) ** 2 / bounded)
    if full:
        values = values + 0.5 * math.log(2 * math.pi)
    return reduce_values(values, reduction)


# Pairs and triplets -------------------------------------------------------------------------------
def _other_sizes(input: Tensor, var: Tensor) -> list[int]:
    """The sizes of ``var`` that are not those of ``input``."""
    return [n for m, n in zip(input.shape, var.shape, strict=True) if m != n]


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``."""
    reduction = reduction_of(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape}"
        )
    values = functions["clamp_min"](_neg(target) * (input1 - input2) + margin, 0)
    return reduce_values(values, reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    zeros = zeros_like(input)
    apart = functions["clamp_min"](margin - input, 0)
    values = _where(functions["ne"](target, 1), apart, zeros)
    values = values + _where(functions["ne"](target, -1), input, zeros)
    return reduce_values(values, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""
    reduction = reduction_of(size_average, reduce, reduction)

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return reductions.sum(a * b, -1)

    tiny = 1e-12
    lengths = (dot(input1, input1) + tiny) * (dot(input2, input2) + tiny)
    cosine = dot(input1, input2) / functions["sqrt"](lengths)
    zeros = zeros_like(cosine)
    values = _where(functions["eq"](target, 1), 1 - cosine, zeros)
    apart = functions["clamp_min"](cosine - margin, 0)
    values = values + _where(functions["eq"](target, -1), apart, zeros)
    return reduce_values(values, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, |anchor - positive| - |anchor - negative| + margin)``.

    Args:
        swap: take the negative's distance from the positive where that is shorter.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with a distance of one's own."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = distance_function or pairwise_distance
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(anchor: Tensor, positive: Tensor, negative: Tensor, distance: Any, margin: float,
             swap: bool, reduction: str) -> Tensor:  # fmt: skip
    ranks = anchor.ndim, positive.ndim, negative.ndim
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative "
            f"{ranks[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = functions["minimum"](far, distance(positive, negative))
    values = functions["clamp_min"](margin + near - far, 0)
    return reduce_values(values, reduction)
