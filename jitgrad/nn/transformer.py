"""Transformers: layers of attention and of two linear maps, and stacks of them.

Vaswani et al., "Attention is all you need", 2017; ``norm_first`` after Xiong et al. 2020.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ..dispatch.arithmetic import equal
from ..dispatch.creation import full
from ..dtypes import dtype
from ..state import get_default_dtype
from ..tensor import Tensor
from . import functional, init
from ._multihead import canonical_mask
from .containers import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .multihead import MultiheadAttention
from .normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return getattr(functional, given)


def _copies(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _causal_mask(size: int, device: Any = None, d: dtype | None = None) -> Tensor:
    """[size, size]: minus infinity above the diagonal, zero elsewhere."""
    of = d or get_default_dtype()
    return full((size, size), -math.inf, dtype=of, device=device).triu(diagonal=1)


def _is_causal(mask: Tensor | None, told: bool | None, length: int) -> bool:
    """Whether a mask is the causal one: as told, or by comparing."""
    if told is not None or mask is None:
        return told is True
    if mask.shape != (length, length) or not mask.is_floating_point():
        return False
    return equal(mask, _causal_mask(length, d=mask.dtype))


def _masks(mask: Tensor | None, padding: Tensor | None, name: str, x: Tensor) -> Any:
    """Two masks as numbers: which keys each query sees, and which keys are padding."""
    d = x.dtype
    other = None if mask is None else mask.dtype
    padding = canonical_mask(padding, f"{name}_key_padding_mask", other, f"{name}_mask", d)
    return canonical_mask(mask, f"{name}_mask", None, "", d), padding


class _Layer(Module):
    """What layers of the encoder and of the decoder share: attention, two linear maps, norms."""

    attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        steps = range(1, len(self.attentions) + 2)
        for i in steps:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
            self.add_module(f"norm{i}", norm)
        for i in steps:
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _step(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """``x`` plus a block of it, normalised before or after."""
        norm, drop = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + drop(block(norm(x)))
        return norm(x + drop(block(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear maps with an activation between, each added to its input.

    Args:
        d_model: the size of inputs and results.
        nhead: the number of heads.
        dim_feedforward: the size between the linear maps.
        activation: "relu", "gelu" or a function.
        batch_first: whether inputs are [batch, length, d_model], not [length, batch, d_model].
        norm_first: whether blocks normalise their input, not their result.
        bias: whether linear maps and norms have one.

    >>> import jitgrad as jg
    >>> layer = jg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> layer(jg.zeros(3, 5, 8)).shape
    jitgrad.Size([3, 5, 8])
    """

    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The layer's result, shaped like ``src``; masks as for MultiheadAttention.

        Args:
            is_causal: a hint that ``src_mask``, which must be there, is the causal one.
        """
        mask, padding = _masks(src_mask, src_key_padding_mask, "src", src)

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False,
                is_causal=is_causal,
            )[0]  # fmt: skip

        return self._step(self._step(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's result, and two linear maps, each added.

    Arguments are those of :class:`TransformerEncoderLayer`.
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The layer's result, shaped like ``tgt``; ``memory`` is the encoder's result."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask,
                is_causal=tgt_is_causal, need_weights=False,
            )[0]  # fmt: skip

        def look(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x, memory, memory, attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask, is_causal=memory_is_causal,
                need_weights=False,
            )[0]  # fmt: skip

        return self._step(self._step(self._step(tgt, 1, attend), 2, look), 3, self._feed_forward)


class TransformerEncoder(Module):
    """A stack of copies of a layer, and perhaps a norm after them.

    ``enable_nested_tensor`` and ``mask_check`` are accepted; there are no nested tensors.
    """

    norm: Module | None

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The last layer's result.

        Args:
            is_causal: whether ``mask`` is the causal one; found out if None.
        """
        mask, padding = _masks(mask, src_key_padding_mask, "src", src)
        causal = _is_causal(mask, is_causal, _length(src, self.layers))
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of copies of a layer, and perhaps a norm after them."""

    norm: Module | None

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The last layer's result; ``memory`` is the encoder's."""
        causal = _is_causal(tgt_mask, tgt_is_causal, _length(tgt, self.layers))
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal, memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


def _length(x: Tensor, layers: ModuleList) -> int:
    batch_first = len(layers) > 0 and layers[0].self_attn.batch_first
    return x.shape[1 if batch_first and x.ndim == 3 else 0]


class Transformer(Module):
    """An encoder and a decoder that looks at its result.

    Args:
        num_encoder_layers, num_decoder_layers: how many of each.
        custom_encoder, custom_decoder: modules to use instead.
        The others are those of :class:`TransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        settings = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            first = TransformerEncoderLayer(*settings)
            self.encoder = TransformerEncoder(first, num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            other = TransformerDecoderLayer(*settings)
            self.decoder = TransformerDecoder(other, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        """Xavier uniform values for every matrix."""
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Any = None, dtype: dtype | None = None
    ) -> Tensor:
        """The causal mask: [sz, sz], minus infinity above the diagonal, zero elsewhere."""
        return _causal_mask(sz, device, dtype)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's result, shaped like ``tgt``.

        Raises:
            RuntimeError: for batches that differ, or sizes other than ``d_model``.
        """
        batched = src.ndim == 3
        dim = 0 if self.batch_first else 1
        if batched and src.shape[dim] != tgt.shape[dim]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal,
        )  # fmt: skip
