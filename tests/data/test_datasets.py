"""Datasets, samplers and collation: against PyTorch, with the same seeds."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.utils.data import Dataset, IterableDataset
from tests.oracle import check, check_raises

pytestmark = pytest.mark.usefixtures("reseeded")


@pytest.fixture
def reseeded(seed: Any) -> None:
    """Tests seed both libraries as they like; undone afterwards."""


Pair = namedtuple("Pair", "a b")


def test_datasets() -> None:
    def run(lib: Any) -> Any:
        data = lib.utils.data
        x = data.TensorDataset(lib.arange(6), lib.ones(6, 2))
        both = x + data.TensorDataset(lib.arange(3), lib.zeros(3, 2))
        named = data.StackDataset(a=x, b=range(6))
        part = data.Subset(named, [4, 2])
        return (
            len(x), x[1], x[1:3], len(both), both[7], both[-1], both.cumulative_sizes,
            named[2], data.StackDataset(x, x)[0], len(part), part[1],
            part.__getitems__([0, 1]), data.StackDataset(x, x).__getitems__([0, 1]),
        )  # fmt: skip

    check(run, version=False)


def test_iterable_datasets() -> None:
    class Three(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

        def __len__(self) -> int:
            return 3

    chain: Any = Three() + Three()
    assert list(chain) == [0, 1, 2, 0, 1, 2]
    assert len(chain) == 6
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(jg.utils.data.ChainDataset([[1]]))
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        jg.utils.data.ConcatDataset([Three()])
    with pytest.raises(NotImplementedError):
        Dataset()[0]


def test_samplers_and_splits() -> None:
    def run(lib: Any) -> Any:
        data = lib.utils.data
        lib.manual_seed(5)
        generator = lib.Generator()
        generator.manual_seed(7)
        samplers = [
            data.SequentialSampler(range(5)),
            data.RandomSampler(range(7)),
            data.RandomSampler(range(7), generator=generator),
            data.RandomSampler(range(7), num_samples=16),
            data.RandomSampler(range(7), replacement=True, num_samples=70),
            data.SubsetRandomSampler([3, 5, 9], generator=generator),
            data.WeightedRandomSampler([0.1, 0.6, 0.3], 5),
            data.WeightedRandomSampler([0.1, 0.6, 0.3], 2, replacement=False),
            data.BatchSampler(range(7), 3, False),
            data.BatchSampler(data.SequentialSampler(range(7)), 3, True),
        ]
        splits = [
            *data.random_split(range(10), [3, 7]),
            *data.random_split(range(10), [0.5, 0.26, 0.24], generator=generator),
        ]
        return [(list(s), len(s)) for s in samplers], [s.indices for s in splits]

    check(run)
    check(
        lambda lib: [len(x) for x in lib.utils.data.random_split(range(2), [0.9, 0.1])],
        warns="Length of split at index 1 is 0",
    )


@pytest.mark.parametrize("size", [3, 10, 11])
@pytest.mark.parametrize("drop_last", [False, True])
def test_shares_of_processes(size: int, drop_last: bool) -> None:
    def run(lib: Any) -> Any:
        found = []
        for rank in range(4):
            sampler = lib.utils.data.DistributedSampler(
                range(size), 4, rank, seed=3, drop_last=drop_last
            )
            sampler.set_epoch(rank % 2)
            plain = lib.utils.data.DistributedSampler(range(size), 4, rank, shuffle=False)
            found.append((list(sampler), len(sampler), list(plain)))
        return found

    check(run)
    check_raises(
        lambda lib: lib.utils.data.DistributedSampler(range(3), 2, 2), match="Invalid rank 2, rank"
    )


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("seeded", [False, True])
def test_batches_come_in_the_same_order(shuffle: bool, seeded: bool) -> None:
    def run(lib: Any) -> Any:
        lib.manual_seed(11)
        generator = lib.Generator().manual_seed(3) if seeded else None
        dataset = lib.utils.data.TensorDataset(lib.arange(11))
        loader = lib.utils.data.DataLoader(dataset, 4, shuffle, generator=generator)
        epochs = [[batch[0] for batch in loader] for _ in range(2)]
        return epochs, len(loader), lib.rand(1)

    check(run, version=False)


def test_loading_options() -> None:
    def run(lib: Any) -> Any:
        data = lib.utils.data
        rows = [{"x": float(i), "y": (i, str(i))} for i in range(5)]
        return (
            list(data.DataLoader(rows, batch_size=2)),
            list(data.DataLoader(rows, batch_size=2, drop_last=True)),
            list(data.DataLoader(rows, batch_size=None)),
            list(data.DataLoader(rows, batch_size=2, collate_fn=len)),
            list(data.DataLoader(range(5), batch_sampler=[[4, 1], [2]])),
            list(data.DataLoader(range(5), sampler=[3, 3])),
            list(data.DataLoader(range(3), pin_memory=False, batch_size=3)),
        )

    check(run, version=False)


def test_collation() -> None:
    def run(lib: Any) -> Any:
        data = lib.utils.data
        x = np.arange(3, dtype=np.float32)
        nested = {"a": np.ones(2), "b": (1, np.float32(2), "x"), "c": [x, Pair(x, 2)]}
        return (
            data.default_collate([lib.ones(2), lib.zeros(2)]),
            data.default_collate([1, 2]), data.default_collate([1.5, 2]),
            data.default_collate([True, False]), data.default_collate(["a", "b"]),
            data.default_collate([x, x]), data.default_collate([np.int32(1), np.int32(2)]),
            data.default_collate([{"a": 1, "b": [x, 2]}, {"a": 3, "b": [x, 4]}]),
            data.default_collate([Pair(1, "x"), Pair(2, "y")]),
            data.default_collate([(1, x), (2, x)]),
            data.default_convert(nested),
        )  # fmt: skip

    check(run, version=False)


WRONG: dict[str, tuple[Any, str]] = {
    "sizes": (lambda d, lib: d.TensorDataset(lib.ones(2), lib.ones(3)), "Size mismatch between"),
    "stacked": (lambda d, lib: d.StackDataset([1], [1, 2]), "Size mismatch between datasets"),
    "nothing stacked": (lambda d, lib: d.StackDataset(), "At least one dataset should be passed"),
    "nothing": (lambda d, lib: d.ConcatDataset([]), "datasets should not be an empty iterable"),
    "index": (lambda d, lib: d.ConcatDataset([[1]])[-2], "absolute value of index should not"),
    "split": (lambda d, lib: d.random_split(range(6), [2, 3]), "Sum of input lengths does not"),
    "replacement": (lambda d, lib: d.RandomSampler([1], 1), "replacement should be a boolean"),
    "number": (lambda d, lib: d.RandomSampler([1], False, -1), "num_samples should be a positive"),
    "empty": (lambda d, lib: d.RandomSampler([]), "num_samples should be a positive integer"),
    "batch": (lambda d, lib: d.BatchSampler([1], 0, False), "batch_size should be a positive"),
    "drop": (lambda d, lib: d.BatchSampler([1], 1, 1), "drop_last should be a boolean value"),
    "weights": (lambda d, lib: d.WeightedRandomSampler([[1, 2]], 1), "weights should be a 1d"),
    "workers": (lambda d, lib: d.DataLoader([1], num_workers=-1), "should be non-negative"),
    "timeout": (lambda d, lib: d.DataLoader([1], timeout=-1), "timeout option should be non-neg"),
    "prefetch": (lambda d, lib: d.DataLoader([1], prefetch_factor=2), "could only be specified"),
    "persistent": (lambda d, lib: d.DataLoader([1], persistent_workers=True), "num_workers > 0"),
    "shuffle": (
        lambda d, lib: d.DataLoader([1], shuffle=True, sampler=[0]),
        "sampler option is mutually exclusive with shuffle",
    ),
    "batch_sampler": (
        lambda d, lib: d.DataLoader([1], batch_size=2, batch_sampler=[[0]]),
        "batch_sampler option is mutually exclusive with",
    ),
    "no batches": (
        lambda d, lib: d.DataLoader([1], batch_size=None, drop_last=True),
        "batch_size=None option disables auto-batching",
    ),
    "context": (
        lambda d, lib: d.DataLoader([1], multiprocessing_context="fork"),
        "multiprocessing_context can only be used with multi-process loading",
    ),
    "start method": (
        lambda d, lib: d.DataLoader([1], num_workers=1, multiprocessing_context="x"),
        "should specify a valid start method in",
    ),
    "context type": (
        lambda d, lib: d.DataLoader([1], num_workers=1, multiprocessing_context=3),
        "should be a valid context object",
    ),
    "set": (
        lambda d, lib: setattr(d.DataLoader([1]), "batch_size", 3),
        "batch_size attribute should not be set after DataLoader is initialized",
    ),
    "collated": (lambda d, lib: d.default_collate([object()]), "batch must contain tensors"),
    "lengths": (lambda d, lib: d.default_collate([[1, 2], [1]]), "of equal size"),
    "shapes": (lambda d, lib: d.default_collate([lib.ones(2), lib.ones(3)]), "equal size"),
    "text": (lambda d, lib: d.default_collate([np.array(["a"])]), "found <U1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str) -> None:
    call, match = WRONG[case]
    check_raises(lambda lib: call(lib.utils.data, lib), match=match)


def test_options_that_iterable_datasets_exclude() -> None:
    class Empty(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(())

    loader: Any = jg.utils.data.DataLoader
    for option in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspec"):
            loader(Empty(), **option)
    with pytest.raises(TypeError):
        len(loader(Empty()))
