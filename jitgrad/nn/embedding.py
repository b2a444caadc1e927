"""Tables whose rows are looked up by number."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..dispatch.creation import empty
from ..dtypes import dtype
from ..tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter


class _Table(Module):
    """What :class:`Embedding` and :class:`EmbeddingBag` share.

    Attributes:
        weight: [num_embeddings, embedding_dim], normally distributed at first.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Tensor | None,
        freeze: bool,
        device: Any,
        dtype: dtype | None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            inside = -num_embeddings <= padding_idx < num_embeddings
            assert inside, "Padding_idx must be within num_embeddings"
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            made = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not freeze)
            self.reset_parameters()
        else:
            fits = list(weight.shape) == [num_embeddings, embedding_dim]
            assert fits, "Shape of weight does not match num_embeddings and embedding_dim"
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw new rows; the padding's is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def extra_repr(self) -> str:
        words = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            words.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            words.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            words.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq is not False:
            words.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        return ", ".join(words)


def _size(embeddings: Tensor) -> tuple[int, int]:
    assert embeddings.ndim == 2, "Embeddings parameter is expected to be 2-dimensional"
    rows, columns = embeddings.shape
    return rows, columns


class Embedding(_Table):
    """:func:`~jitgrad.nn.functional.embedding` in a table of its own.

    >>> import jitgrad as jg
    >>> jg.nn.Embedding(10, 3)(jg.tensor([1, 2])).shape
    jitgrad.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, _freeze, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A module on a given table, which does not learn unless ``freeze`` is False."""
        return cls(
            *_size(embeddings), padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight=embeddings, _freeze=freeze,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """:func:`~jitgrad.nn.functional.embedding_bag` over a table of its own.

    >>> import jitgrad as jg
    >>> jg.nn.EmbeddingBag(10, 3)(jg.tensor([1, 2, 4]), jg.tensor([0, 2])).shape
    jitgrad.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, False, device, dtype,
        )  # fmt: skip
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A module on a given table, which does not learn unless ``freeze`` is False."""
        bag = cls(
            *_size(embeddings), max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad = not freeze
        return bag

    def extra_repr(self) -> str:
        words = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.max_norm is not None:
            words.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            words.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq is not False:
            words.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        words.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            words.append(f"padding_idx={self.padding_idx}")
        return ", ".join(words)
