"""Attention in several heads at once, between projections of its inputs."""

from __future__ import annotations

import math
import warnings

from ..dispatch import lines
from ..dispatch.attention import additive
from ..dispatch.convert import contiguous
from ..dispatch.elementwise import functions
from ..dispatch.matmul import matmul
from ..dispatch.shape import cat
from ..dispatch.view import flatten, permute, reshape, transpose, unsqueeze
from ..dtypes import bool_, dtype
from ..tensor import Tensor
from ._attention import scaled_dot_product_attention
from ._dropout import dropout
from ._layers import linear


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None,
    attn_mask: Tensor | None, heads: int,
) -> bool:  # fmt: skip
    """Whether the inputs have a batch; AssertionError where they do not agree."""
    rank = query.ndim
    assert rank in (2, 3), (
        f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
    )
    what = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    assert key.ndim == rank and value.ndim == rank, (
        f"For {what} `query`, expected `key` and `value` to be {rank}-D but found {key.ndim}-D and "
        f"{value.ndim}-D tensors respectively"
    )
    if key_padding_mask is not None:
        assert key_padding_mask.ndim == rank - 1, (
            f"For {what} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but "
            f"found {key_padding_mask.ndim}-D tensor instead"
        )
    if attn_mask is not None:
        assert attn_mask.ndim in (2, 3), (
            f"For {what} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{attn_mask.ndim}-D tensor instead"
        )
        if rank == 2 and attn_mask.ndim == 3:
            expected = (heads, query.shape[0], key.shape[0])
            assert attn_mask.shape == expected, (
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
            )
    return rank == 3


def canonical_mask(
    mask: Tensor | None, name: str, other: dtype | None, other_name: str, target: dtype
) -> Tensor | None:
    """A mask as numbers to add to scores; here a True hides a key.

    A warning where masks of two kinds are mixed; AssertionError for one of integers.
    """
    if mask is None:
        return None
    d = mask.layout.dtype
    assert d is bool_ or d.is_floating_point, (
        f"only bool and floating types of {name} are supported"
    )
    if other is not None and other is not d:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=3,
        )
    return additive(functions["logical_not"](mask), target) if d is bool_ else mask


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return linear(contiguous(x), weight, bias)


def _in_projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Projections by one weight [3 * size, size], in as few products as the inputs allow."""
    size = query.shape[-1]
    if key is value:
        if query is key:
            return _linear(query, weight, bias).chunk(3, -1)
        weights = weight.split([size, size * 2])
        biases = (None, None) if bias is None else bias.split([size, size * 2])
        both = _linear(key, weights[1], biases[1]).chunk(2, -1)
        return (_linear(query, weights[0], biases[0]), *both)
    parts = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(
        _linear(x, w, b)
        for x, w, b in zip((query, key, value), weight.chunk(3), parts, strict=True)
    )


def _longer(x: Tensor | None) -> Tensor | None:
    """A mask with one more key, which is seen by all."""
    return None if x is None else cat([x, x.new_zeros((*x.shape[:-1], 1))], -1)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    _batch_first: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of ``num_heads`` heads between projections (Vaswani et al. 2017).

    Args:
        query: [length, batch, size], or without batch.
        key, value: [keys, batch, their sizes].
        embed_dim_to_check: the size of queries, a multiple of ``num_heads``.
        in_proj_weight: [3 * size, size], of queries, keys and values one after the other.
        in_proj_bias: [3 * size].
        bias_k, bias_v: [1, 1, size]: a key and a value that every query sees too.
        add_zero_attn: whether there is a key and a value of zeros too.
        dropout_p: the probability with which weights are dropped in training.
        out_proj_weight, out_proj_bias: of the last projection.
        key_padding_mask: [batch, keys]: True, or minus infinity, for keys that nobody sees.
        need_weights: whether the weights are returned; without them it is faster.
        attn_mask: [length, keys] or [batch * heads, length, keys]: True for keys not to be seen, or
            numbers added to the scores.
        use_separate_proj_weight: whether there are the three ``q_proj_weight``, ``k_proj_weight``
            and ``v_proj_weight`` instead of ``in_proj_weight``.
        static_k, static_v: [batch * heads, keys, size / heads] used in place of projections.
        average_attn_weights: whether the weights returned are the mean of all heads'.
        is_causal: a hint that ``attn_mask``, which must be there, is the causal one.

    Returns:
        the result, shaped like ``query``, and the weights [batch, (heads,) length, keys] or None.

    Raises:
        AssertionError, RuntimeError: for shapes or dtypes that do not fit.
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:  # keep what is the same tensor the same
        lone = {id(x): unsqueeze(x, 1) for x in (query, key, value)}
        query, key, value = (lone[id(x)] for x in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = unsqueeze(key_padding_mask, 0)
    along, across = (1, 0) if _batch_first and batched else (0, 1)
    length, batch, size = query.shape[along], query.shape[across], query.shape[2]
    keys = key.shape[along]
    d = query.layout.dtype
    other = None if attn_mask is None else attn_mask.layout.dtype
    padding = canonical_mask(key_padding_mask, "key_padding_mask", other, "attn_mask", d)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    mask: Tensor | None = None
    if not is_causal or padding is not None or need_weights:
        mask = canonical_mask(attn_mask, "attn_mask", None, "", d)
        is_causal = False
    assert size == embed_dim_to_check, (
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {size}"
    )
    width = size // num_heads
    assert width * num_heads == size, f"embed_dim {size} not divisible by num_heads {num_heads}"
    if use_separate_proj_weight:
        assert key.shape[:2] == value.shape[:2], (
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
        named = {"q": q_proj_weight, "k": k_proj_weight, "v": v_proj_weight}
        projected = []
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        for (which, weight), x, bias in zip(
            named.items(), (query, key, value), biases, strict=True
        ):
            assert weight is not None, (
                f"use_separate_proj_weight is True but {which}_proj_weight is None"
            )
            projected.append(_linear(x, weight, bias))
        q, k, v = projected
    else:
        assert key.shape == value.shape, (
            f"key shape {key.shape} does not match value shape {value.shape}"
        )
        assert in_proj_weight is not None, (
            "use_separate_proj_weight is False but in_proj_weight is None"
        )
        q, k, v = _in_projected(query, key, value, in_proj_weight, in_proj_bias)

    if mask is not None:
        expected = (length, keys) if mask.ndim == 2 else (batch * num_heads, length, keys)
        if mask.shape != expected:
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be "
                f"{expected}."
            )
        lead = (1, 1) if mask.ndim == 2 else (batch, num_heads)
        mask = reshape(mask, (*lead, length, keys))
    if padding is not None:
        assert padding.shape[0] == batch, (
            f"Expected key_padded_mask.shape[0] to be {batch}, but got {padding.shape[0]}"
        )
        assert padding.shape[1] == keys, (
            f"Expected key_padded_mask.shape[1] to be {keys}, but got {padding.shape[1]}"
        )
        padding = reshape(padding, (batch, 1, 1, keys))
    if bias_k is not None and bias_v is not None:
        assert static_k is None and static_v is None, "bias cannot be added to static key or value"
        one = (batch, 1, size) if along else (1, batch, size)
        k, v = (cat([x, extra.expand(one)], along) for x, extra in ((k, bias_k), (v, bias_v)))
        mask, padding = _longer(mask), _longer(padding)

    def heads(x: Tensor) -> Tensor:  # [batch, heads, length, width], a view
        apart = reshape(x, (*x.shape[:2], num_heads, width))
        return transpose(apart, 1, 2) if along else permute(apart, 1, 2, 0, 3)

    q = heads(q)
    k, v = (
        heads(x) if given is None else reshape(given, (batch, num_heads, -1, width))
        for x, given in ((k, static_k), (v, static_v))
    )
    if add_zero_attn:
        k, v = (cat([x, x.new_zeros((batch, num_heads, 1, width))], 2) for x in (k, v))
        mask, padding = _longer(mask), _longer(padding)
    if padding is not None:
        mask = padding if mask is None else mask + padding
    probability = dropout_p if training else 0.0
    shares = None
    if need_weights:
        scores = matmul(q * (1.0 / math.sqrt(width)), transpose(k, -2, -1))
        shares = lines.softmax(scores if mask is None else scores + mask, -1)
        if probability > 0.0:
            shares = dropout(shares, probability)
        result = matmul(shares, v)
        if average_attn_weights:
            shares = shares.mean(1)
        if not batched:
            shares = shares.squeeze(0)
    else:
        result = scaled_dot_product_attention(q, k, v, mask, probability, is_causal)
    result = transpose(result, 1, 2) if along else permute(result, 2, 0, 1, 3)
    result = flatten(result, 2)
    result = _linear(result, out_proj_weight, out_proj_bias)
    return (result if batched else result.squeeze(1)), shares
