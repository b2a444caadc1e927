"""Samplers: in which order the samples of a dataset are taken, and how they form batches.

Each draws the same numbers as PyTorch's from the same generator.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from ...dispatch.creation import as_tensor, empty
from ...dispatch.random import Generator, multinomial, randint, randperm
from ...dtypes import float64, int64

T = TypeVar("T")
_DRAWN = 32  # indices drawn at a time, with replacement


class Sampler(Generic[T]):
    """An order of samples. Subclasses define ``__iter__``, and ``__len__`` where it is known."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """In the dataset's own order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _check_flag(name: str, value: Any, kind: type[Exception]) -> None:
    if not isinstance(value, bool):
        raise kind(f"{name} should be a boolean value, but got {name}={value}")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def new_seed(generator: Generator | None = None) -> int:
    """A seed drawn from a generator."""
    return int(empty((), dtype=int64).random_(generator=generator).item())


class RandomSampler(Sampler[int]):
    """In random order, or at random with ``replacement``.

    Args:
        data_source: the dataset.
        num_samples: how many are drawn; by default as many as there are.
        generator: what draws; by default one with a seed from the default generator.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_flag("replacement", replacement, TypeError)
        _check_count("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(new_seed())
        if self.replacement:
            for start in range(0, self.num_samples, _DRAWN):
                size = min(_DRAWN, self.num_samples - start)
                yield from randint(count, (size,), dtype=int64, generator=generator).tolist()
            return
        # PyTorch draws an order for the remainder even where that is nothing.
        for start in range(0, self.num_samples + 1, count):
            rest = self.num_samples - start
            yield from randperm(count, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[Any]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[Any], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities (``weights``, which need not sum to 1)."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count("num_samples", num_samples)
        _check_flag("replacement", replacement, ValueError)
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """What another sampler gives, in lists of ``batch_size``; the last may be shorter.

    >>> list(BatchSampler(SequentialSampler(range(5)), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _check_count("batch_size", batch_size)
        _check_flag("drop_last", drop_last, ValueError)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full + bool(rest and not self.drop_last)


class DistributedSampler(Sampler[int]):
    """One process's share of a dataset: every ``num_replicas``-th index, from ``rank`` on.

    All processes get the same number of indices: some come twice, or (``drop_last``) some are left
    out. The order is that of ``seed`` and of the epoch, which :meth:`set_epoch` must be told.

    Raises:
        ValueError: for a rank that is none.
        RuntimeError: without ``num_replicas`` and ``rank``: there is no group of processes.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError(
                "DistributedSampler: there is no default process group, say num_replicas and rank"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else -(-size // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        indices = list(range(size))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(size, generator=generator).tolist()
        if not self.drop_last and indices:
            indices *= -(-self.total_size // size)
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch follows, so that its order is another one in all processes."""
        self.epoch = epoch
