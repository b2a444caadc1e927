"""What runs in a worker process of a loader, and what travels between it and its loader."""

from __future__ import annotations

import pickle
import queue
import random
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.random import manual_seed
from ...kernels.threads import set_num_threads
from . import transfer
from .dataset import IterableDataset


class WorkerInfo(NamedTuple):
    """What a worker knows of itself.

    Attributes:
        id: its number, from 0.
        num_workers: how many there are.
        seed: what its generators were seeded with; different for each worker and epoch.
        dataset: its copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process, what that is to know of itself; None elsewhere."""
    return _info


class Fetcher:
    """Makes batches of a dataset from what the sampler says."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self._dataset = dataset
        self._auto = auto_collation
        self._collate = collate
        self._drop_last = drop_last
        self._samples: Iterator[Any] | None = None
        if isinstance(dataset, IterableDataset):
            self._samples = iter(dataset)

    def fetch(self, index: Any) -> Any:
        """The batch of some indices; StopIteration at the end of an iterable dataset."""
        if self._samples is None:
            return self._collate(self._by_index(index))
        if not self._auto:
            return self._collate(next(self._samples))
        batch = [sample for _, sample in zip(index, self._samples, strict=False)]
        if not batch or (self._drop_last and len(batch) < len(index)):
            raise StopIteration
        return self._collate(batch)

    def _by_index(self, index: Any) -> Any:
        if not self._auto:
            return self._dataset[index]
        many = getattr(self._dataset, "__getitems__", None)
        return many(index) if callable(many) else [self._dataset[i] for i in index]


# Messages -----------------------------------------------------------------------------------------
class Failure(NamedTuple):
    """An exception in a worker, as text: it may not survive pickling."""

    kind: type[BaseException]
    text: str
    where: str

    @classmethod
    def current(cls, where: str) -> Failure:
        """The exception that is being handled."""
        kind, _, _ = sys.exc_info()
        assert kind is not None
        return cls(kind, traceback.format_exc(), where)

    def raise_(self) -> None:
        """Raise it here, with the worker's traceback in the message."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            raise KeyError(_Verbatim(message))
        try:
            error = self.kind(message)
        except Exception:  # its constructor takes something else
            raise RuntimeError(message) from None
        raise error


class _Verbatim(str):
    """A string whose repr is itself, so that a KeyError shows its lines."""

    def __repr__(self) -> str:
        return str(self)


class Ended:
    """An iterable dataset's worker has no more."""


class Restart:
    """Start over, for another epoch."""


class Settings(NamedTuple):
    """What a worker is started with."""

    id: int
    num_workers: int
    base_seed: int
    dataset: Any
    auto_collation: bool
    collate: Callable[[Any], Any]
    drop_last: bool
    init: Callable[[int], Any] | None
    folder: str


def run(settings: Settings, connection: Any, others: Iterable[Any]) -> None:
    """The life of a worker: batches on demand, until the loader is gone."""
    for other in others:  # of the loader's ends that a fork has copied: else nobody sees it go
        other.close()
    # Read at once, so that the loader never waits to be read while a worker waits for the same.
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    listen = threading.Thread(
        target=_listen, args=(connection, requests, settings.folder), daemon=True
    )
    listen.start()
    with suppress(OSError, KeyboardInterrupt):  # the loader is gone, or going
        _serve(settings, connection, requests)
    listen.join()


def _listen(connection: Any, requests: queue.SimpleQueue[Any], folder: str) -> None:
    try:
        while (request := connection.recv()) is not None:
            requests.put(request)
    except (EOFError, OSError):  # the loader died, and cannot clean up itself
        shutil.rmtree(folder, ignore_errors=True)
    requests.put(None)


def _serve(settings: Settings, connection: Any, requests: queue.SimpleQueue[Any]) -> None:
    global _info
    seed = settings.base_seed + settings.id
    set_num_threads(1)
    random.seed(seed)
    manual_seed(seed)
    entropy = [settings.id, settings.base_seed & 0xFFFFFFFF, settings.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(entropy).generate_state(4))  # noqa: NPY002 (user code's)
    _info = WorkerInfo(settings.id, settings.num_workers, seed, settings.dataset)
    where = f"in DataLoader worker process {settings.id}"

    fetcher: Fetcher | None = None
    failed: Failure | None = None
    try:
        if settings.init is not None:
            settings.init(settings.id)
    except Exception:
        failed = Failure.current(where)
    while (request := requests.get()) is not None:
        if isinstance(request, Restart):
            fetcher = None
            continue
        number, index = request
        answer: Any
        try:
            if fetcher is None:
                fetcher = Fetcher(settings.dataset, *settings[4:7])
            answer = failed or transfer.pack(fetcher.fetch(index), settings.folder)
        except StopIteration:
            answer = Ended()
        except Exception:
            answer = Failure.current(where)
        failed = None
        try:
            connection.send((number, answer))
        except (TypeError, AttributeError, pickle.PicklingError):  # a class nobody else knows
            connection.send((number, answer._replace(kind=RuntimeError)))
