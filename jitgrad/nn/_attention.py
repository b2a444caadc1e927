"""Attention as functions."""

from __future__ import annotations

import math

from ..dispatch import attention
from ..dispatch.matmul import c_name, matmul
from ..dtypes import bool_, float32
from ..layout import broadcast_shapes
from ..tensor import Tensor
from ._dropout import dropout


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> None:
    q, k, v = query.layout, key.layout, value.layout
    if not q.dtype is k.dtype is v.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{c_name(q.dtype)} key.dtype: {c_name(k.dtype)} and value.dtype: {c_name(v.dtype)} "
            "instead."
        )
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{q.ndim} key.dim: {k.ndim} and value.dim: {v.ndim} instead."
        )
    if mask is None:
        return
    d = mask.layout.dtype
    if d is not bool_ and d is not float32 and d is not q.dtype:
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {c_name(d)} and  query.dtype: {c_name(q.dtype)} instead."
        )
    if causal:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )


def _repeated(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values repeated, so that there are as many heads of them as of queries."""
    heads, of_key, of_value = (x.shape[-3] for x in (query, key, value))
    if not of_key or heads % of_key or not of_value or heads % of_value:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, got "
            f"{heads}, {of_key} and {of_value}"
        )
    return (
        key.repeat_interleave(heads // of_key, -3),
        value.repeat_interleave(heads // of_value, -3),
    )


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(scale * query @ key.T + attn_mask) @ value``.

    Args:
        query, key, value: [..., queries, width], [..., keys, width] and [..., keys, out width], of
            one dtype; the dimensions before (batch, heads) broadcast.
        attn_mask: broadcastable to [..., queries, keys]: bools, True for keys that take part, or
            numbers, which are added to the scores.
        dropout_p: the probability with which weights are dropped (always: pass 0 in evaluation).
        is_causal: whether query i sees the keys up to i alone.
        scale: 1 / sqrt(width) by default.
        enable_gqa: whether each head of keys and values serves several heads of queries.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit, or both masks.

    A query all of whose keys are masked gets zeros. Without dropout, and unless the mask requires
    grad, it is one kernel each way, which keeps no scores (Dao et al., FlashAttention, 2022).

    >>> import jitgrad as jg
    >>> q = jg.zeros(1, 2, 3)
    >>> jg.nn.functional.scaled_dot_product_attention(q, q, jg.ones(1, 2, 4)).shape
    jitgrad.Size([1, 2, 4])
    """
    _check(query, key, value, attn_mask, is_causal)
    if dropout_p > 1.0 or dropout_p < 0.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if enable_gqa and query.layout.ndim >= 3:
        key, value = _repeated(query, key, value)
    q, k, v = query.layout, key.layout, value.layout
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1]) if q.shape[-1] else math.inf
    mask = attn_mask
    if mask is not None:
        if mask.layout.dtype is bool_:
            mask = attention.additive(mask, q.dtype)
        elif mask.layout.dtype is not q.dtype:
            mask = mask.to(q.dtype)
    fits = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    learned = mask is not None and mask.requires_grad
    if dropout_p == 0.0 and fits and not learned and q.dtype.is_floating_point:
        batch = q.shape[:-2]
        if not batch == k.shape[:-2] == v.shape[:-2]:
            batch = broadcast_shapes(batch, k.shape[:-2], v.shape[:-2])
            query, key, value = (x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))
        if mask is not None:
            scores = (*batch, q.shape[-2], k.shape[-2])
            if broadcast_shapes(mask.shape, scores) != scores:
                raise RuntimeError(
                    f"The shape of the mask {list(mask.shape)} does not broadcast to that of the "
                    f"scores {list(scores)} in scaled_dot_product_attention()"
                )
        return attention.fused(query, key, value, mask, is_causal, scale)
    shares = attention.weights(query, key, mask, is_causal, scale)
    if dropout_p:
        shares = dropout(shares, dropout_p)
    return matmul(shares, value)
