"""Losses: the negative log likelihood, and elementwise losses with their reductions.

Each records one node, whose gradient is one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..kernels import nll
from ..layout import Layout, dense_layout
from ..ops.table import structured
from ..state import modes
from ..storage import Storage
from ..tensor import Tensor, make
from .convert import unflipped
from .elementwise import functions
from .make import alias, constant, dense, fresh
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record, recorder
from .reduction import mean as reduce_mean
from .reduction import sum as reduce_sum
from .view import reshape

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: str) -> str:
    """ValueError unless it is ``none``, ``mean`` or ``sum``."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


# The negative log likelihood ----------------------------------------------------------------------
_plans = PlanCache()


def _run(kind: str, values: Tensor, target: Tensor, weight: Any, out: Tensor, ignored: int,
         info: np.ndarray) -> None:  # fmt: skip
    layout = None if weight is None else weight.layout
    key = (kind, values.layout, target.layout, layout, out.layout, ignored)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans.add(
            key, nll.plan(kind, values.layout, target.layout, layout, out.layout, ignored)
        )
    run, spec = plan
    operands = (values, target, values if weight is None else weight, out)
    buffers = [part for t in operands for part in (t.storage.buffer, t.offset)]
    run(spec, *buffers, info, 0)


def _flat(tensor: Tensor, at: int) -> Tensor:
    """The same elements without history, dimensions from ``at`` on merged into one."""
    if tensor.layout.ndim <= at + 1:
        return tensor
    return reshape(alias(tensor), (*tensor.layout.shape[:at], -1))


def _nll_grad(grad: Tensor, target: Tensor, weight: Any, layout: Layout, reduction: str,
              ignored: int, info: Any) -> Tensor:  # fmt: skip
    """The gradient for the values: zero but at the targets. It is linear in ``grad``."""
    if not modes.mode and weight is None and layout.ndim <= 2:
        return _nll_gradient(grad, target, layout, reduction, ignored, info)
    out = dense_layout(layout.shape, layout.dtype)
    nbytes = out.numel * out.dtype.itemsize
    result = make(Storage(np.zeros(nbytes, np.uint8)), 0, out)
    plain = _flat(grad, 1) if grad.layout.ndim else grad
    _run(f"{reduction}_backward", plain, _flat(target, 1), weight, _flat(result, 2), ignored, info)
    attributes = {"weight": weight, "reduction": reduction, "ignored": ignored, "info": info}
    _record(_NLL_BACKWARD, (grad, target, weight), result, attributes)
    return result


def _nll_gradient(
    grad: Tensor, target: Tensor, of: Layout, reduction: str, ignored: int, info: Any
) -> Tensor:
    """:func:`_nll_grad` in the common case: one kernel, not recorded."""
    key = ("gradient", grad.layout, target.layout, of, reduction, ignored)
    plan = _plans.get(key)
    if plan is None:
        out = dense_layout(of.shape, of.dtype)
        kind = f"{reduction}_backward"
        plan = nll.plan(kind, grad.layout, target.layout, None, out, ignored)
        plan = _plans.add(key, (*plan, out))
    run, spec, out = plan
    buffer = np.zeros(out.nbytes, np.uint8)
    run(
        spec,
        grad.storage.buffer,
        grad.offset,
        target.storage.buffer,
        target.offset,
        buffer,
        0,
        buffer,
        0,
        info,
        0,
    )
    return make(Storage(buffer), 0, out)


def _nll_of(
    values: Tensor, target: Tensor, weight: Any, reduction: str, ignored: int, info: Any
) -> Tensor:
    """The loss of [classes], [n, classes] or [n, classes, h, w]."""
    shape = target.layout.shape if reduction == "none" else ()
    result = dense(shape, values.layout.dtype)
    flat = _flat(result, 1) if reduction == "none" else result
    _run(reduction, _flat(values, 2), _flat(target, 1), weight, flat, ignored, info)
    attributes = {"weight": weight, "reduction": reduction, "ignored": ignored, "info": info}
    cls = _NLL if values.layout.ndim < 3 else _NLL_2D
    _record(cls, (values, target, weight), result, attributes)
    return result


def _record(cls: type[StructuredNode], inputs: Sequence[Any], result: Tensor, call: Any,
            edges: int = 1) -> None:  # fmt: skip
    """Record with edges for the first inputs alone: those that PyTorch's node has."""
    record(cls, [x for x in inputs if x is not None], (result,), call)
    if result.edge is not None:
        node: Any = result.edge[0]
        node.next_edges = node.next_edges[:edges]


_NLL = node_class(
    structured("nll_loss", "self target weight", grad={"self": _nll_grad}, fresh=True)
)
_NLL_2D = node_class(
    structured(
        "nll_loss2d",
        "self target weight",
        grad={"self": _nll_grad},
        node="NllLoss2DBackward0",
        fresh=True,
    )
)
_NLL_BACKWARD = node_class(
    structured(
        "nll_loss_backward",
        "gradient target weight",
        grad={
            "gradient": lambda grad, target, weight, reduction, ignored, info: _nll_of(
                grad, target, weight, reduction, ignored, info
            )
        },
        node="NllLossBackwardBackward0",
    )
)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """``-weight[target] * input[target]`` of each row, summed, averaged by weight, or as it is.

    Args:
        input: log-probabilities, [classes], [n, classes] or [n, classes, d1, ...].
        target: class numbers, int64 (or uint8), of the shape of ``input`` without the classes.
        weight: of each class, [classes].
        ignore_index: targets of this class count for nothing.

    Raises:
        IndexError: for a target that is no class.
        RuntimeError: for shapes or dtypes that do not fit.
    """
    if weight is None:
        plan = _nll_plans.get((input.layout, target.layout, ignore_index, reduction))
        if plan is not None:
            return _unweighted(plan, input, target, ignore_index, reduction)
    check_reduction(reduction)
    input, weight = unflipped(input), unflipped(weight)
    x, t = input.layout, target.layout
    if t.dtype not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(
            f"expected scalar type Long but found {t.dtype.tensor_type.removesuffix('Tensor')} "
            "(the targets of nll_loss are class numbers)"
        )
    single = x.ndim == 1
    expected = x.shape[:0] if single else (x.shape[0], *x.shape[2:])
    if single and t.shape == (1,):
        expected = (1,)
    if t.shape != expected:
        if x.ndim > 1 and t.shape[:1] != x.shape[:1]:
            got = t.shape[0] if t.ndim else "a single target"
            raise ValueError(
                f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({got})."
            )
        raise RuntimeError(
            f"nll_loss: expected a target of size {list(expected)} for an input of size "
            f"{list(x.shape)}, got {list(t.shape)}"
        )
    classes = x.shape[0 if single else 1]
    if weight is not None and weight.layout.shape != (classes,):
        raise RuntimeError(
            "weight tensor should be defined either for all or no classes: expected size "
            f"[{classes}], got {list(weight.layout.shape)}"
        )
    if weight is not None and weight.dtype is not x.dtype.plain:
        raise RuntimeError(f"nll_loss: expected weights of dtype {x.dtype}, got {weight.dtype}")
    if x.ndim <= 2 and weight is None:
        out = dense_layout(t.shape if reduction == "none" else (), x.dtype)
        plan = (*nll.plan(reduction, x, t, None, out, ignore_index), out, Outcome((x, t), (out,)))
        _nll_plans.add((x, t, ignore_index, reduction), plan)
        return _unweighted(plan, input, target, ignore_index, reduction)
    if x.ndim in (1, 2, 4):
        return _checked(input, target, weight, reduction, ignore_index)
    inner = math.prod(x.shape[2:])
    images = reshape(input, (*x.shape[:2], 1, inner)), reshape(target, (x.shape[0], 1, inner))
    result = _checked(*images, weight, reduction, ignore_index)
    return reshape(result, t.shape) if reduction == "none" else result


_nll_plans = PlanCache()
_record_unweighted = recorder(_NLL, 2)


def _unweighted(plan: Any, values: Tensor, target: Tensor, ignored: int, reduction: str) -> Tensor:
    run, spec, out, outcome = plan
    result = fresh(out)
    info = np.empty(2)
    buffer = values.storage.buffer
    run(
        spec,
        buffer,
        values.offset,
        target.storage.buffer,
        target.offset,
        buffer,
        0,
        result.storage.buffer,
        0,
        info,
        0,
    )
    if info[1]:
        raise _out_of_bounds(info)
    if values.tracked is not False or target.tracked is not False or modes.levels:
        attributes = {"weight": None, "reduction": reduction, "ignored": ignored, "info": info}
        _record_unweighted(values, target, result, attributes, outcome)
    return result


def _out_of_bounds(info: np.ndarray) -> IndexError:
    wrong = info[1]
    return IndexError(f"Target {int(wrong if wrong < 0 else wrong - 1)} is out of bounds.")


def _checked(
    values: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignored: int
) -> Tensor:
    info = np.empty(2)
    result = _nll_of(values, target, weight, reduction, ignored, info)
    if info[1]:
        raise _out_of_bounds(info)
    return result


# Elementwise losses -------------------------------------------------------------------------------
_REDUCE: dict[str, Callable[[Tensor], Tensor]] = {"mean": reduce_mean, "sum": reduce_sum}


def _loss(name: str, inputs: str) -> Callable[..., Tensor]:
    """The function of a loss row: its inputs, then ``reduction``."""
    names = tuple(inputs.split())
    elements = functions[f"_{name}"]
    grads: dict[str, Any] = {}
    for x in names:
        slope = functions.get(f"_{name}_backward_{x}")
        if slope is not None:
            source = (
                f"lambda grad, scale, {', '.join(names)}: slope(grad, scale, {', '.join(names)})"
            )
            grads[x] = eval(source, {"slope": slope})
    cls = node_class(structured(name, inputs, grad=grads, fresh=True))

    def loss(*operands: Any, reduction: str = "mean") -> Tensor:
        check_reduction(reduction)
        if reduction == "none":
            return elements(*operands)
        tensors = [t if isinstance(t, Tensor) else constant(t) for t in operands]
        values = elements(*(alias(t) for t in tensors))
        result = _REDUCE[reduction](values)
        scale = 1.0 / max(values.layout.numel, 1) if reduction == "mean" else 1.0
        _record(cls, tensors, result, {"scale": scale}, len(grads))
        return result

    return loss


mse_loss = _loss("mse_loss", "self target")
smooth_l1_loss = _loss("smooth_l1_loss", "self target beta")
huber_loss = _loss("huber_loss", "self target delta")
binary_cross_entropy = _loss("binary_cross_entropy", "self target weight")
binary_cross_entropy_with_logits = _loss(
    "binary_cross_entropy_with_logits", "self target weight pos_weight"
)
soft_margin_loss = _loss("soft_margin_loss", "self target")
