"""The module of attention in several heads."""

from __future__ import annotations

from typing import Any

from ..dispatch.creation import empty
from ..dtypes import dtype
from ..tensor import Tensor
from . import functional, init
from .linear import Linear
from .module import Module
from .parameter import Parameter


class NonDynamicallyQuantizableLinear(Linear):
    """:class:`Linear` under the name by which PyTorch shows this one."""


class MultiheadAttention(Module):
    """:func:`~jitgrad.nn.functional.multi_head_attention_forward` with parameters of its own.

    Attributes:
        in_proj_weight: [3 * embed_dim, embed_dim] (Xavier uniform at first), or, where keys or
            values have other sizes, ``q_proj_weight``, ``k_proj_weight`` and ``v_proj_weight``.
        in_proj_bias: [3 * embed_dim], zeros; None with ``bias=False``.
        out_proj: the projection of the result.
        bias_k, bias_v: [1, 1, embed_dim] with ``add_bias_kv``, else None.

    Raises:
        ValueError, AssertionError: unless the sizes are positive, and the heads divide embed_dim.

    >>> import jitgrad as jg
    >>> attention = jg.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = jg.zeros(3, 5, 8)
    >>> result, weights = attention(x, x, x)
    >>> result.shape, weights.shape
    (jitgrad.Size([3, 5, 8]), jitgrad.Size([3, 5, 5]))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads"

        def made(there: bool, *shape: int) -> Parameter | None:
            return Parameter(empty(*shape, device=device, dtype=dtype)) if there else None

        apart = not self._qkv_same_embed_dim
        shapes = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        self.register_parameter("in_proj_weight", made(not apart, 3 * embed_dim, embed_dim))
        for which, size in shapes.items():
            self.register_parameter(f"{which}_proj_weight", made(apart, embed_dim, size))
        self.register_parameter("in_proj_bias", made(bias, 3 * embed_dim))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.register_parameter("bias_k", made(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", made(add_bias_kv, 1, 1, embed_dim))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw new initial values of all but ``out_proj``'s weight."""
        weights = (
            self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight,
        )  # fmt: skip
        for weight in weights:
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result and the weights; see the function.

        Args:
            query, key, value: [length, batch, size], with ``batch_first`` [batch, length, size], or
                without batch.
        """
        return functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            _batch_first=self.batch_first,
        )
