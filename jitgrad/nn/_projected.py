"""The cross entropy of a linear map of the input: the last layer and the loss of a classifier.

The scores of all classes may need far more memory than everything else. With options the loss goes
over the batch in chunks; a chunk keeps its part of the input alone and computes its scores again in
backward (:mod:`jitgrad.dispatch.composed`).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from ..dispatch.composed import Composed
from ..dispatch.convert import clone
from ..dispatch.creation import ones
from ..dispatch.elementwise import functions
from ..dispatch.loss import check_reduction
from ..dispatch.shape import cat
from ..dtypes import dtype, int64
from ..tensor import Tensor
from ._layers import linear
from ._losses import cross_entropy


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How :func:`linear_cross_entropy` goes over the batch.

    Attributes:
        batch_chunk_size: rows of a chunk; by default so many that their scores are as many numbers
            as twice the input.
        allow_retain_graph, chunking_method, acc_policy, acc_dtype: PyTorch's; without effect here:
            backward may always run again, and gradients are summed as everywhere.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtype | None = None

    def rows(self, batch: int, features: int, classes: int) -> int:
        """The rows of a chunk."""
        if self.batch_chunk_size is not None:
            return max(1, self.batch_chunk_size)
        return max(1, 2 * batch * features // max(classes, 1))


def _scored(
    input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, scale: Tensor | None,
    reduction: str, ignored: int,
) -> Tensor:  # fmt: skip
    scores = linear(input, weight, bias)
    return cross_entropy(scores, target, scale, ignore_index=ignored, reduction=reduction)


_CHUNK = Composed(
    "linear_cross_entropy",
    "input weight bias",
    lambda input, weight, bias, target, scale, reduction, ignored: _scored(
        input, weight, bias, target, scale, reduction, ignored
    ),
    clone,
)
_CHUNK_WITHOUT_BIAS = Composed(
    "linear_cross_entropy_without_bias",
    "input weight",
    lambda input, weight, target, scale, reduction, ignored: _scored(
        input, weight, None, target, scale, reduction, ignored
    ),
    clone,
)


def _in_chunks(
    input: Tensor, linear_weight: Tensor, target: Tensor, bias: Tensor | None,
    weight: Tensor | None, reduction: str, ignored: int, rows: int,
) -> Tensor:  # fmt: skip
    inner = "none" if reduction == "none" else "sum"
    losses = []
    for start in range(0, max(input.shape[0], 1), rows):
        part, labels = input[start : start + rows], target[start : start + rows]
        call = {"target": labels, "scale": weight, "reduction": inner, "ignored": ignored}
        losses.append(
            _CHUNK_WITHOUT_BIAS(part, linear_weight, **call)
            if bias is None
            else _CHUNK(part, linear_weight, bias, **call)
        )
    if reduction == "none":
        return cat(losses)
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    if reduction == "sum":
        return total
    scale = ones((linear_weight.shape[0],), dtype=input.dtype) if weight is None else weight
    kept = target[functions["ne"](target, ignored)]
    return total / scale[kept].sum()


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target, ...)``.

    Args:
        input: [n, in_features] or [in_features].
        linear_weight: [classes, in_features], or [classes, d1, ..., in_features] for as many losses
            as there are places.
        target: class numbers, or probabilities of the classes.
        linear_bias: [classes] or [classes, d1, ...].
        options: go over the batch in chunks, to save memory; for class numbers without smoothing.

    Raises:
        RuntimeError: for shapes that do not fit, or an ``ignore_index`` of probabilities.
    """
    check_reduction(reduction)
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    classes, *places, features = linear_weight.shape
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *places):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *places)}, got {tuple(linear_bias.shape)}"
        )
    if places and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], classes, *places)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        if not places and label_smoothing == 0.0 and target.dtype is int64:
            alone = input.ndim == 1
            rows = options.rows(1 if alone else input.shape[0], features, classes)
            batch = (input.unsqueeze(0), target.unsqueeze(0)) if alone else (input, target)
            result = _in_chunks(
                batch[0], linear_weight, batch[1], linear_bias, weight, reduction, ignored, rows
            )
            return result.squeeze(0) if alone and reduction == "none" else result
        warnings.warn(
            "linear_cross_entropy: options ignored; chunks need class numbers as int64 targets, no "
            "label smoothing and no places (linear_weight of two dimensions)",
            stacklevel=2,
        )
    flat = linear_weight.reshape((math.prod((classes, *places)), features))
    bias = None if linear_bias is None else linear_bias.reshape((-1,))
    scores = linear(input, flat, bias).reshape(shape)
    return cross_entropy(
        scores, target, weight, ignore_index=ignored, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip
