"""Scaled dot-product attention: one kernel each way, or the operations it is made of."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import HALVES, bool_, dtype
from ..kernels import attention as kernels
from ..layout import Layout, dense_layout, layout, strides_in_order
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor
from .convert import flipped, resolved, to
from .elementwise import functions
from .lines import softmax
from .make import alias, fresh, like_layout, number
from .matmul import matmul
from .plans import PlanCache
from .record import Outcome, node_class
from .reduction import all_
from .reduction import sum as sum_of
from .view import transpose

_f = functions


# The operations -----------------------------------------------------------------------------------
def weights(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """softmax(scale * query @ key.T + mask); zero where all keys are masked."""
    part = math.sqrt(abs(scale))
    scores = matmul(query * math.copysign(part, scale), transpose(key, -2, -1) * part)
    if causal:
        rows, columns = scores.layout.shape[-2:]
        mask = additive(query.new_ones((rows, columns), dtype=bool_).tril(), query.layout.dtype)
    if mask is None:
        return softmax(scores, -1)
    scores = scores + mask
    hidden = all_(_f["eq"](scores.detach(), -math.inf), -1, True)
    nothing = number(0, query.layout.dtype)  # of -inf alone softmax is NaN, and so is its gradient
    return _f["where"](hidden, nothing, softmax(_f["where"](hidden, nothing, scores), -1))


def additive(mask: Tensor, d: dtype) -> Tensor:
    """What a mask of the keys that take part adds to scores: 0, or minus infinity."""
    return _f["where"](mask, number(0, d), number(-math.inf, d))


# One kernel ---------------------------------------------------------------------------------------
def _gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor, result: Tensor,
    log_sums: Tensor, is_causal: bool, scale: float, wanted: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    d = query.layout.dtype
    if d in HALVES:
        q, k, v, mask, out = (to(x, d.compute) for x in (query, key, value, attn_mask, result))
        grad = to(grad, d.compute)
        found = _gradients(grad, q, k, v, mask, out, log_sums, is_causal, scale, wanted)
        return tuple(x if x is None else to(x, d) for x in found)
    masked = attn_mask.layout.ndim > 0
    if modes.mode:
        given = attn_mask if masked else None
        return _recorded(grad, query, key, value, given, is_causal, scale, wanted)
    inputs = (grad, query, key, value, attn_mask, result)
    key_of = (*(x.layout for x in inputs), is_causal, scale)
    plan = _gradient_plans.get(key_of)
    if plan is None:
        if flipped(*inputs):
            grad, query, key, value, attn_mask, result = map(resolved, inputs)
            return _gradients(
                grad, query, key, value, attn_mask, result, log_sums, is_causal, scale, wanted
            )
        of = [_laid_out_like(x.layout) for x in (query, key, value)]
        plan = kernels.backward(
            grad.layout, query.layout, key.layout, value.layout, attn_mask.layout, result.layout,
            of, is_causal, scale, masked,
        )  # fmt: skip
        plan = _gradient_plans.add(key_of, (*plan, of))
    run, spec, of = plan
    gradients = [fresh(x) for x in of]
    flat: list[Any] = []
    for x in (*inputs, log_sums, *gradients):
        flat += (x.storage.buffer, x.offset)
    run(spec, *flat)
    return tuple(gradients)


_gradient_plans = PlanCache()


def _recorded(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool,
    scale: float, wanted: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients by operations that are themselves differentiable."""
    shares = weights(query, key, mask, causal, scale)
    slopes = matmul(grad, transpose(value, -2, -1))
    slopes = shares * (slopes - sum_of(slopes * shares, -1, True)) * scale
    return (
        matmul(slopes, key) if wanted[0] else None,
        matmul(transpose(slopes, -2, -1), query) if wanted[1] else None,
        matmul(transpose(shares, -2, -1), grad) if wanted[2] else None,
    )


_FUSED = node_class(
    structured(
        "scaled_dot_product_attention",
        "query key value attn_mask",
        grad={"query key value": _gradients},
        node="ScaledDotProductFlashAttentionForCpuBackward0",
        fresh=True,
    )
)


def _laid_out_like(of: Layout) -> Layout:
    """The dense layout with the dimensions in the order of another, the last one innermost."""
    like = like_layout(of)
    return like if like.strides[-1:] == (1,) else dense_layout(of.shape, of.dtype)


class _Plan:
    __slots__ = ("out", "run", "spec", "starts", "sums")

    def __init__(
        self, q: Layout, k: Layout, v: Layout, mask: Layout, causal: bool, scale: float
    ) -> None:
        like = _laid_out_like(q)
        shape = (*q.shape[:-1], v.shape[-1])
        order = sorted(range(q.ndim), key=lambda d: -like.strides[d])
        self.out = layout(shape, strides_in_order(shape, order), q.dtype)
        self.sums = dense_layout(q.shape[:-1], q.dtype)
        self.run, self.spec, self.starts = kernels.forward(
            q, k, v, mask, self.out, causal, scale, mask.ndim > 0
        )


def _computed(*operands: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """The result and the logarithms of the sums of the kernel for query, key, value and mask."""
    key_of: Any = (*(x.layout for x in operands), causal, scale)
    plan = _plans.get(key_of)
    if plan is None:
        if flipped(*operands):
            return _computed(*map(resolved, operands), causal=causal, scale=scale)
        plan = _plans.add(key_of, _Plan(*key_of))
    result, sums = fresh(plan.out), fresh(plan.sums)
    flat: list[Any] = []
    for x in (*operands, result, sums):
        flat += (x.storage.buffer, x.offset)
    plan.run(plan.spec, *flat, plan.starts, 0)
    return result, sums


def fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> Tensor:
    """``weights(...) @ value`` by one kernel, and its gradient by another.

    Args:
        query, key, value: [..., queries, width], [..., keys, width], [..., keys, out width], of one
            batch shape and floating dtype; 16-bit floats go to the kernel and back as float32.
        mask: added to the scores, broadcastable to [..., queries, keys], of that dtype; it gets no
            gradient.
    """
    hidden = number(0, query.layout.dtype) if mask is None else mask
    operands, d = (query, key, value, hidden), query.layout.dtype
    if d in HALVES:
        wide = (to(alias(x), d.compute) for x in operands)
        result, sums = _computed(*wide, causal=causal, scale=scale)
        result = to(result, d)
    else:
        result, sums = _computed(*operands, causal=causal, scale=scale)
    if modes.levels or any(x.tracked is not False for x in (query, key, value)):
        attributes = {"log_sums": sums, "is_causal": causal, "scale": scale}
        _FUSED.record(*operands, result, attributes, Outcome.of(operands, (result,)))
    return result


_plans = PlanCache()
