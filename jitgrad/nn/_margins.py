"""Losses of margins between the classes of a sample."""

from __future__ import annotations

from .. import errors
from ..dispatch.composed import Composed
from ..dispatch.convert import clone
from ..dispatch.elementwise import functions
from ..dispatch.scatter import gather
from ..dtypes import int64
from ..tensor import Tensor
from ._losses import reduce_values, reduction_of

_f = functions


def _check(input: Tensor, kernel: str) -> None:
    shape = input.shape
    if input.ndim > 2 or (input.ndim == 1 and not shape[0]) or (input.ndim == 2 and not shape[1]):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(shape)}"
        )
    if not input.is_floating_point():
        raise errors.unsupported(kernel, input.dtype)


def _reduced(values: Tensor, input: Tensor, target: Tensor, reduction: str) -> Tensor:
    """Losses [n]; of a lone sample with a target without a dimension, a number."""
    if reduction == "none" and input.ndim < 2 and not target.ndim:
        return values.reshape(())
    return reduce_values(values, reduction)


def _multi_margin(
    self: Tensor, target: Tensor, p: int, margin: float, weight: Tensor | None, reduction: str
) -> Tensor:
    rows = self.reshape((-1, self.shape[-1] if self.ndim else 1))
    at = target.reshape((-1, 1))
    apart = _f["relu"](rows - gather(rows, 1, at) + margin)
    if p == 2:
        apart = apart * apart
    if weight is not None:
        apart = apart * weight[at.reshape(-1)].unsqueeze(1)
    others = _f["masked_fill"](apart, _hot(rows, at), 0.0)
    return _reduced(others.sum(1) / rows.shape[1], self, target, reduction)


def _hot(rows: Tensor, at: Tensor) -> Tensor:
    """Where the targets are, as a mask."""
    mask = rows.new_zeros(rows.shape, dtype=int64)
    return mask.scatter(1, at, 1).bool()


_MULTI_MARGIN = Composed("multi_margin_loss", "self", _multi_margin, clone)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes j other than the target y of ``max(0, margin - x[y] + x[j]) ** p``.

    Args:
        input: scores, [n, classes] or [classes].
        target: class numbers, int64 [n].
        p: 1 or 2.
        weight: of each class, [classes].

    Raises:
        ValueError: for another ``p``.
        RuntimeError: for shapes, dtypes or class numbers that do not fit.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    _check(input, "multi_margin_loss_cpu_kernel")
    n = input.shape[0] if input.ndim == 2 else 1
    classes = input.shape[-1] if input.ndim else 1
    if target.numel() != n or target.ndim > 1:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{n}], but got {list(target.shape)}. "
            f"Input has shape {list(input.shape)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    if target.dtype is not int64:
        kind = target.dtype.tensor_type.removesuffix("Tensor")
        raise RuntimeError(f"expected scalar type Long but found {kind}")
    if n and not (int(target.min()) >= 0 and int(target.max()) < classes):
        raise RuntimeError(f"target out of range: there are {classes} classes")
    return _MULTI_MARGIN(
        input, target=target, p=p, margin=margin, weight=weight, reduction=reduction
    )


def _multilabel_margin(self: Tensor, target: Tensor, reduction: str) -> Tensor:
    rows = self.reshape((-1, self.shape[-1] if self.ndim else 1))
    labels = target.reshape(rows.shape)
    there = (labels >= 0).long().cumprod(1).bool()
    at = _f["where"](there, labels, 0)
    counted = rows.new_zeros(rows.shape, dtype=int64).scatter_add(1, at, there.long()) > 0
    # [n, a target, any class]: how far the class comes up to the target's score.
    apart = _f["relu"](1 - gather(rows, 1, at).unsqueeze(2) + rows.unsqueeze(1))
    wanted = there.unsqueeze(2) & ~counted.unsqueeze(1)
    values = _f["where"](wanted, apart, 0.0).sum((1, 2)) / rows.shape[1]
    return _reduced(values, self, target[..., 0] if target.ndim else target, reduction)


_MULTILABEL = Composed("multilabel_margin_loss", "self", _multilabel_margin, clone)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, 1 - (x[y] - x[i]))`` summed over targets y and other classes i, over the classes.

    Args:
        input: scores, [n, classes] or [classes].
        target: int64 of the same shape: the targets of each row, then a negative number.

    Raises:
        RuntimeError: for shapes, dtypes or class numbers that do not fit.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _check(input, "multilabel_margin_loss_forward_out")
    if target.shape != input.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    if target.dtype is not int64:
        kind = target.dtype.tensor_type.removesuffix("Tensor")
        raise RuntimeError(f"expected scalar type Long but found {kind}")
    classes = input.shape[-1] if input.ndim else 1
    if target.numel() and not (int(target.min()) >= -1 and int(target.max()) < classes):
        raise RuntimeError(f"argument #2 'target' is out of range: there are {classes} classes")
    return _MULTILABEL(input, target=target, reduction=reduction)
