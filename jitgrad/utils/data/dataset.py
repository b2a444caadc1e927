"""Datasets: samples by index, or one after the other."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ...dispatch.random import Generator, default_generator, randperm
from ...tensor import Tensor

T = TypeVar("T")


class Dataset(Generic[T]):
    """Samples by index. Subclasses define ``__getitem__`` and, for most samplers, ``__len__``.

    ``__getitems__(indices)``, if there is one, gives all samples of a batch at once.
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples one after the other. Subclasses define ``__iter__``.

    In a worker process every worker has a copy: ``get_worker_info()`` says which part is its own.
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[T]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is element i of each tensor.

    >>> import jitgrad as jg
    >>> TensorDataset(jg.arange(3), jg.ones(3))[1]
    (tensor(1), tensor(1.))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].shape[0] != t.shape[0] for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """Sample i is sample i of each dataset: a tuple, or a dict of those given by name."""

    datasets: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        self._length = len(next(iter(self._members())))
        if any(len(dataset) != self._length for dataset in self._members()):
            raise ValueError("Size mismatch between datasets")

    def _members(self) -> Iterable[Any]:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = []
        for dataset in self._members():
            many = getattr(dataset, "__getitems__", None)
            samples = many(indices) if callable(many) else [dataset[i] for i in indices]
            if len(samples) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch. Expected "
                    f"{len(indices)}, got {len(samples)}"
                )
            columns.append(samples)
        rows = zip(*columns, strict=True)
        if isinstance(self.datasets, dict):
            return [dict(zip(self.datasets, row, strict=True)) for row in rows]
        return list(rows)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T]):
    """One dataset after the other, by index."""

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[T]):
    """One iterable dataset after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[T]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[T]):
    """The samples of a dataset that ``indices`` name."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        many = getattr(self.dataset, "__getitems__", None)
        if callable(many):
            return many([self.indices[i] for i in indices])
        return [self.dataset[self.indices[i]] for i in indices]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator = default_generator
) -> list[Subset[Any]]:
    """Split a dataset at random: the same way as PyTorch for the same generator.

    Args:
        lengths: of the parts; or fractions that sum to 1, whose remainder goes to the first parts.
        generator: what draws the order.

    Raises:
        ValueError: for lengths that do not sum to the dataset's, or a fraction outside [0, 1].
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes: list[int] = []
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
            sizes.append(math.floor(len(dataset) * fraction))
        for i in range(len(dataset) - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if not size:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.",
                    stacklevel=2,
                )
        lengths = sizes
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(int(sum(lengths)), generator=generator).tolist()
    ends = itertools.accumulate(int(n) for n in lengths)
    return [
        Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)
    ]
