"""The connectionist temporal classification loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, errors
from ..kernels import ctc
from ..ops.table import structured
from ..tensor import Tensor
from .convert import unflipped
from .creation import from_numpy
from .elementwise import functions
from .loss import check_reduction
from .make import dense
from .record import node_class, record
from .reduction import mean, sum
from .view import squeeze, unsqueeze

_f = functions


def _buffers(*tensors: Tensor) -> list[Any]:
    return [part for t in tensors for part in (t.storage.buffer, t.offset)]


def _extras(log_probs: Tensor, row: int, blank: int, grad: Tensor | None, skip: bool) -> Any:
    steps, _, classes = log_probs.layout.shape
    per_step, _, per_class = log_probs.layout.strides
    out_step = 0 if grad is None else grad.layout.strides[0]
    return [classes, blank, row, steps, per_step, per_class, out_step, int(skip)]


def _ctc_grad(
    grad: Tensor, log_probs: Tensor, result: Tensor, targets: Tensor, lengths: Tensor,
    work: Tensor, row: int, blank: int, skip: bool,
) -> Tensor:  # fmt: skip
    found = dense(log_probs.layout.shape, log_probs.layout.dtype)
    seeds = grad.contiguous()
    if found.layout.numel:
        n = found.layout.shape[1]
        steps = (
            log_probs.layout.strides[1], 0, 3, work.layout.strides[0], result.layout.strides[0],
            seeds.layout.strides[0], found.layout.strides[1],
        )  # fmt: skip
        ctc.run(
            found.layout.dtype, n, steps, _extras(log_probs, row, blank, found, skip),
            _buffers(log_probs, targets, lengths, work, result, seeds, found),
        )  # fmt: skip
    record(_CTC_BACKWARD, (grad, log_probs), (found,), {})
    return found


def _refuse(grad: Tensor) -> Tensor:
    raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")


_CTC = node_class(structured("ctc_loss", "log_probs", grad={"log_probs": _ctc_grad}, fresh=True))
_CTC_BACKWARD = node_class(
    structured(
        "ctc_loss_backward",
        "grad_output log_probs",
        grad={"grad_output": _refuse, "log_probs": _refuse},
        node="NotImplemented",
    )
)


def _lengths_of(name: str, values: Any, n: int, most: int | None) -> np.ndarray:
    """The lengths of a batch as int64, each between 0 and ``most``."""
    given = values.detach()._array() if isinstance(values, Tensor) else np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be integral")
    lengths = given.astype(np.int64).reshape(-1)
    if len(lengths) != n:
        raise RuntimeError(f"{name} must be of size batch_size ({n}), got {len(lengths)}")
    for value in lengths.tolist():
        if value < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {value}")
        if most is not None and value > most:
            raise RuntimeError(
                f"Expected {name} to have value at most {most}, but got value {value}"
            )
    return lengths


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """``-log`` of the probability of the targets, over all alignments with the steps of the input.

    Args:
        log_probs: [steps, n, classes] or [steps, classes], logarithms of probabilities.
        targets: class numbers other than ``blank``, [n, longest], or those of all samples in a row.
        input_lengths, target_lengths: of each sample, a tensor or a tuple.
        blank: the class that stands for no label.
        reduction: ``none``, ``sum``, or ``mean`` of the losses over their targets' lengths.
        zero_infinity: count losses of impossible targets, and their gradients, as 0.

    Raises:
        RuntimeError: for lengths, labels or sizes that do not fit.

    Gradient: PyTorch's, which takes the input for the output of a log-softmax: ``exp(log_probs)``
    less the probability of each class at each step given the targets. It has no derivative.

    Graves et al., "Connectionist temporal classification" (2006).
    """
    check_reduction(reduction)
    log_probs = unflipped(log_probs)
    d = log_probs.layout.dtype
    if d not in (dtypes.float32, dtypes.float64):
        raise errors.unsupported("ctc_loss_cpu", d)
    batched = log_probs.layout.ndim == 3
    if not batched:
        log_probs = unsqueeze(log_probs, 1)
        targets = unsqueeze(targets, 0) if targets.layout.ndim == 1 else targets
    steps, n, classes = log_probs.layout.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: got {blank} of {classes} classes")
    inputs = _lengths_of("input_lengths", input_lengths, n, steps)
    counts = _lengths_of("target_lengths", target_lengths, n, None)
    labels = targets.detach().to(dtypes.int64).contiguous()
    longest = int(counts.max(initial=0))
    starts = _starts(labels.layout.shape, counts, longest, n)
    plain = labels._array().reshape(-1)
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        used = plain[start : start + count]
        if used.size and not (used.min() >= 0 and used.max() < classes):
            raise RuntimeError(f"ctc_loss: target labels must be in [0, {classes})")
    lengths = from_numpy(np.stack([inputs, counts, starts], 1))
    row = ctc.row_size(longest)
    work = dense((n, ctc.work_size(steps, longest, classes)), dtypes.float64)
    result = dense((n,), d)
    if n:
        strides = (log_probs.layout.strides[1], 0, 3, work.layout.strides[0], 1)
        ctc.run(
            d, n, strides, _extras(log_probs, row, blank, None, zero_infinity),
            _buffers(log_probs, labels, lengths, work, result),
        )  # fmt: skip
    attributes = {
        "targets": labels, "lengths": lengths, "work": work, "row": row, "blank": blank,
        "skip": zero_infinity,
    }  # fmt: skip
    record(_CTC, (log_probs,), (result,), attributes)
    if zero_infinity:
        result = _f["where"](_f["eq"](result, float("inf")), 0.0, result)
    if reduction == "mean":
        sizes = from_numpy(np.maximum(counts, 1)).to(d)
        return mean(_f["div"](result, sizes))
    if reduction == "sum":
        return sum(result)
    return result if batched else squeeze(result, 0)


def _starts(shape: Sequence[int], counts: np.ndarray, longest: int, n: int) -> np.ndarray:
    """Where the targets of each sample start in memory."""
    if len(shape) == 1:
        total = int(counts.sum())
        if shape[0] != total:
            raise RuntimeError(
                f"Expected tensor to have size {total} at dimension 0, but got size {shape[0]} for "
                "argument #2 'targets' (ctc_loss: the sum of target_lengths)"
            )
        return np.cumsum(counts) - counts
    if shape[0] != n:
        raise RuntimeError(
            f"Expected tensor to have size {n} at dimension 0, but got size {shape[0]} for "
            "argument #2 'targets' (ctc_loss)"
        )
    if shape[1] < longest:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size "
            f"{shape[1]} for argument #2 'targets' (ctc_loss)"
        )
    return np.arange(n, dtype=np.int64) * shape[1]
