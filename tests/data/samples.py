"""Datasets of the tests, in a module that spawned workers import quickly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import jitgrad as jg
from jitgrad.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset[Any]):
    """(i, i * i, a row of noise): computed by kernels, on as many threads as there are."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> Any:
        x = jg.full((70_000,), float(i))
        return i, (x * x).mean(), {"text": str(i)}


class Seeds(Dataset[Any]):
    """What the random generators of a worker give."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return info.id, info.seed - info.id, int(np.random.randint(1 << 30)), jg.rand(1).item()  # noqa: NPY002


class Counting(IterableDataset[int]):
    """0 .. size - 1, shared out among the workers."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.size, step))

    def __len__(self) -> int:
        return self.size


class Trouble(Dataset[int]):
    """What goes wrong at index 3: an exception, a death, or a long sleep."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> int:
        if i == 3:
            if self.what == "raise":
                raise ValueError("three is too many")
            if self.what == "key":
                raise KeyError("three")
            if self.what == "local":

                class Unknown(Exception):
                    pass

                raise Unknown("three")
            if self.what == "kill":
                os.kill(os.getpid(), 9)
            if self.what == "exit":
                os._exit(7)
            if self.what == "sleep":
                time.sleep(60)
        return i


def refuse(worker: int) -> None:
    """A ``worker_init_fn`` that fails."""
    raise RuntimeError(f"worker {worker} will not")
