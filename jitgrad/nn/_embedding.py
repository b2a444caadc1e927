"""Rows of tables: embedding and embedding_bag, with PyTorch's order of arguments."""

from __future__ import annotations

from ..autograd.grad_mode import no_grad
from ..dispatch import embedding as tables
from ..tensor import Tensor


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` that ``input`` names.

    Args:
        input: row numbers of any shape, int64 or int32.
        weight: [rows, size].
        padding_idx: a row that gets no gradient; negative ones count from the end.
        max_norm: rows that are named are first shrunk to this p-norm, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide each row's gradient by how often it is named.
        sparse: must be False.

    Raises:
        IndexError: for a number that is no row's.
        RuntimeError: for a table that is no matrix, or row numbers of another dtype.
        NotImplementedError: for ``sparse=True``.
    """
    padding = -1
    if padding_idx is not None:
        rows = weight.shape[0]
        assert -rows <= padding_idx < rows, "Padding_idx must be within num_embeddings"
        padding = padding_idx % rows
    if max_norm is not None:
        with no_grad():
            tables.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return tables.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of ``weight``, without making the rows.

    Args:
        input: row numbers: [bags, length], or one bag after the other in a vector.
        weight: [rows, size].
        offsets: where in a vector each bag starts.
        max_norm, norm_type: as for :func:`embedding`.
        mode: ``sum``, ``mean`` or ``max``.
        per_sample_weights: of the shape of ``input``: what rows are multiplied by, for sums.
        include_last_offset: whether ``offsets`` ends with the number of row numbers.
        padding_idx: a row that counts for nothing.

    Raises:
        ValueError: for arguments that do not fit together.
        RuntimeError: for offsets or row numbers out of range, or dtypes that do not fit.
        NotImplementedError: for ``sparse=True``, or weights of samples for means or maxima.
    """
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        count, length = input.shape
        offsets = tables.even_offsets(count, length)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
        include_last_offset = False
    elif input.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if mode not in tables.MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )
    if max_norm is not None:
        with no_grad():
            tables.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return tables.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
