"""Sequences of different lengths: padded to one tensor, or packed without the padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.convert import to
from ...dispatch.creation import arange, as_tensor, tensor
from ...dispatch.record import node_class, record
from ...dispatch.rows import index_add, index_copy, index_select
from ...dispatch.scatter import scatter
from ...dispatch.view import reshape, transpose, unsafe_view
from ...dtypes import int64
from ...layout import Layout
from ...ops.table import structured
from ...tensor import Tensor


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """The steps of a batch of sequences one after the other, each with those that last so long.

    Made by :func:`pack_padded_sequence` and :func:`pack_sequence`; recurrent layers take and return
    it.

    Attributes:
        data: [sum of lengths, ...].
        batch_sizes: how many sequences have each step; int64, never growing.
        sorted_indices: how the sequences were sorted by length; None if they came sorted.
        unsorted_indices: how to undo it.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:  # PackedSequence((data, batch_sizes))
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """``data`` in another dtype or on another device; the same object if nothing changes."""
        data = to(self.data, *args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def _as(self, d: str) -> PackedSequence:
        data = getattr(self.data, d)()
        return self if data is self.data else self._replace(data=data)

    def float(self) -> PackedSequence:
        """In float32."""
        return self._as("float")

    def double(self) -> PackedSequence:
        """In float64."""
        return self._as("double")

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu")

    def pin_memory(self) -> PackedSequence:
        """Itself: there is no device that would need pinned memory."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a GPU: no."""
        return False

    def is_pinned(self) -> bool:
        """Whether its memory is pinned: no."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another; None for None."""
    if permutation is None:
        return None
    places = arange(0, permutation.numel(), dtype=permutation.dtype)
    return scatter(permutation.new_zeros(permutation.shape), 0, permutation, places)


def _places(
    lengths: Sequence[int], batch_first: bool, longest: int
) -> tuple[np.ndarray, list[int]]:
    """Where the packed rows lie among the rows of a padded tensor, and the batch sizes."""
    by_step = np.arange(max(lengths))[:, None] < np.asarray(lengths)[None, :]
    step, sequence = np.nonzero(by_step)
    count = len(lengths)
    places = sequence * longest + step if batch_first else step * count + sequence
    return places, by_step.sum(1).tolist()


def _index(places: np.ndarray) -> Tensor:
    return as_tensor(places.astype(np.int64))


def _unpack(grad: Tensor, layout: Layout, places: Tensor) -> Tensor:
    shape = layout.shape
    zeros = grad.new_zeros((shape[0] * shape[1], *shape[2:]))
    return reshape(index_add(zeros, 0, places, grad), shape)


_PACK = node_class(structured("pack_padded_sequence", "input", grad={"input": _unpack}, fresh=True))


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack a padded batch.

    Args:
        input: [steps, batch, ...], or [batch, steps, ...] with ``batch_first``.
        lengths: of each sequence; at least 1.
        enforce_sorted: insist on falling lengths; otherwise they are sorted here.

    Raises:
        RuntimeError: for lengths that do not fit, or are not sorted.

    >>> import jitgrad as jg
    >>> pack_padded_sequence(jg.tensor([[1, 2], [3, 0]]), [2, 1]).data
    tensor([1, 2, 3])
    """
    given = as_tensor(lengths, dtype=int64) if not isinstance(lengths, Tensor) else lengths
    if given.dim() != 1 or given.dtype is not int64:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {given.dim()}D cpu "
            f"{given.dtype.tensor_type.removesuffix('Tensor')} tensor"
        )
    dim = 0 if batch_first else 1
    if input.dim() < 2:
        raise IndexError(
            "Dimension out of range (expected to be in range of [-1, 0], but got 1): "
            f"pack_padded_sequence expects steps and batch, got shape {list(input.shape)}"
        )
    if given.numel() != input.shape[dim]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {given.numel()} "
            f"(batch_size={input.shape[dim]})"
        )
    order: Tensor | None = None
    if not enforce_sorted:
        given, order = given.sort(descending=True)
        input = index_select(input, dim, order)
    sizes = given.tolist()
    if any(a < b for a, b in pairwise(sizes)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement."
        )
    if not sizes or sizes[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if sizes[0] > input.shape[1 - dim]:
        raise RuntimeError(
            f"pack_padded_sequence: a length of {sizes[0]} exceeds the {input.shape[1 - dim]} "
            "steps of the input"
        )
    where, batch_sizes = _places(sizes, batch_first, input.shape[1 - dim])
    places = _index(where)
    rows = reshape(input.detach(), (-1, *input.shape[2:]))
    data = index_select(rows, 0, places)
    record(_PACK, (input,), (data,), {"places": places})
    return PackedSequence(data, tensor(batch_sizes, dtype=int64), order)


def _lengths(batch_sizes: Sequence[int]) -> list[int]:
    """The length of each sequence."""
    steps = np.asarray(batch_sizes)
    return (steps[:, None] > np.arange(steps[0])[None, :]).sum(0).tolist()


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo :func:`pack_padded_sequence`: the padded batch, in the order it had, and the lengths.

    Raises:
        ValueError: for a ``total_length`` below the longest length.
    """
    steps = sequence.batch_sizes.tolist()
    longest = len(steps)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{longest}"
            )
        longest = total_length
    data, sizes = sequence.data, _lengths(steps)
    where, _ = _places(sizes, False, longest)
    padded = data.new_full((longest * len(sizes), *data.shape[1:]), padding_value)
    padded = index_copy(padded, 0, _index(where), data)
    padded = unsafe_view(padded, (longest, len(sizes), *data.shape[1:]))
    if batch_first:
        padded = transpose(padded, 0, 1)
    lengths, order = tensor(sizes, dtype=int64), sequence.unsorted_indices
    if order is not None:
        return index_select(padded, 0 if batch_first else 1, order), index_select(lengths, 0, order)
    return padded, lengths


def pad_sequence(
    sequences: Tensor | Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors [length, ...] of different lengths as one, [longest, batch, ...].

    >>> import jitgrad as jg
    >>> pad_sequence([jg.ones(2), jg.ones(3)], batch_first=True)
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    parts = list(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    longest = max(x.shape[0] for x in parts)
    shape = (len(parts), longest) if batch_first else (longest, len(parts))
    result = parts[0].new_full((*shape, *parts[0].shape[1:]), padding_value)
    for i, x in enumerate(parts):
        start = longest - x.shape[0] if padding_side == "left" else 0
        place = slice(start, start + x.shape[0])
        result[(i, place) if batch_first else (place, i)] = x
    return result


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Undo :func:`pad_sequence`: copies without the padding."""
    batch = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    return [batch[i, :length].clone() for i, length in enumerate(lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors [length, ...]."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo :func:`pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
