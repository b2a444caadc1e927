"""From a list of samples to a batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ...dispatch.creation import as_tensor, tensor
from ...dispatch.shape import stack
from ...dtypes import float64
from ...tensor import Tensor


def _refused(what: Any) -> TypeError:
    return TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {what}"
    )


def _is_text(array: Any) -> bool:
    return array.dtype.kind in "SUaO"


def _like(container: Any, values: Any) -> Any:
    """A container of the type of another one; a plain list or dict if that cannot be made."""
    kind = type(container)
    try:
        if isinstance(container, Mapping):
            if isinstance(container, MutableMapping):
                made = copy.copy(container)
                made.update(values)
                return made
            return kind(values)
        if isinstance(container, MutableSequence):
            made_sequence = copy.copy(container)
            for i, value in enumerate(values):
                made_sequence[i] = value
            return made_sequence
        return kind(values)
    except TypeError:  # it takes its elements another way
        return values


def _namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def default_convert(data: Any) -> Any:
    """NumPy arrays inside ``data`` as tensors; everything else as it is."""
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if _is_text(data) else as_tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if _namedtuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence):
        return _like(data, [default_convert(value) for value in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as one batch: tensors are stacked, numbers become tensors, containers are entered.

    Raises:
        TypeError: for samples of other types.
        RuntimeError: for sequences, or tensors, of different sizes.

    >>> default_collate([(1.0, "a"), (2.0, "b")])
    [tensor([1., 2.], dtype=jitgrad.float64), ('a', 'b')]
    """
    first = batch[0]
    for kinds, collate in _COLLATED.items():
        if isinstance(first, kinds):
            return collate(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([b[key] for b in batch]) for key in first})
    if _namedtuple(first):
        return type(first)(*(default_collate(column) for column in _columns(batch)))
    if isinstance(first, tuple):
        return [default_collate(column) for column in _columns(batch)]
    if isinstance(first, Sequence):
        return _like(first, [default_collate(column) for column in _columns(batch)])
    raise _refused(type(first))


def _columns(batch: Sequence[Any]) -> list[tuple[Any, ...]]:
    if any(len(sample) != len(batch[0]) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    return list(zip(*batch, strict=True))


def _arrays(batch: Sequence[Any]) -> Any:
    if _is_text(batch[0]):
        raise _refused(batch[0].dtype)
    return default_collate([as_tensor(b) for b in batch])


# Kinds of samples -> what makes a batch of them; booleans are integers too, as in PyTorch.
_COLLATED: dict[Any, Callable[[Sequence[Any]], Any]] = {
    Tensor: lambda batch: stack(list(batch)),
    (np.ndarray, np.generic): _arrays,
    float: lambda batch: tensor(batch, dtype=float64),
    int: lambda batch: tensor(batch),
}
