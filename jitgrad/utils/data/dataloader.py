"""DataLoader: batches of a dataset, made here or in worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.connection
import shutil
import signal
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from ...dispatch.random import Generator
from . import transfer
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler, new_seed
from .worker import Ended, Failure, Fetcher, Restart, Settings, run

_GRACE = 5.0  # seconds a worker has to finish what it is at, once it is no longer needed


class _Endless:
    """The sampler of an iterable dataset, which knows itself when it ends."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader:
    """Iterates over batches of a dataset, in the order that PyTorch has for the same seed.

    Args:
        dataset: with ``__getitem__`` and ``__len__``, or an :class:`IterableDataset`.
        batch_size: samples of a batch; None for samples as they are.
        shuffle: in random order.
        sampler: an iterable of indices.
        batch_sampler: an iterable of lists of indices.
        num_workers: processes that make batches; 0 makes them here, when they are asked for.
        collate_fn: from a list of samples to a batch; by default :func:`default_collate`.
        pin_memory: accepted; memory of the CPU needs none.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a worker; 0 for ever.
        worker_init_fn: called with the worker's number when it starts.
        multiprocessing_context: a start method or a context of ``multiprocessing``.
        generator: what draws the order and the seeds of workers.
        prefetch_factor: batches that each worker makes in advance; 2 by default.
        persistent_workers: keep the workers between epochs.
        in_order: give batches in the sampler's order, not as workers finish them.

    Raises:
        ValueError: for options that exclude each other.

    Errors of a worker are raised here, with its traceback; RuntimeError if it dies, or takes longer
    than ``timeout``.

    >>> import jitgrad as jg
    >>> [batch.tolist() for batch in DataLoader(jg.arange(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing.let num_workers "
                "> 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = _context(multiprocessing_context, num_workers)
        self.in_order = in_order
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                        f"got {name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            if self._iterable:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._workers: _Workers | None = None
        self._initialized = True

    _FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset",
              "persistent_workers")  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIXED and self.__dict__.get("_initialized"):
            raise ValueError(f"{name} attribute should not be set after DataLoader is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self._workers is not None and self._workers.stop.alive:
            return self._workers.epoch(restart=True)
        seed = new_seed(self.generator)  # PyTorch draws it even where there are no workers
        if not self.num_workers:
            return self._here()
        workers = _Workers(self, seed)
        if self.persistent_workers:
            self._workers = workers
        return workers.epoch(restart=False)

    def _here(self) -> Iterator[Any]:
        fetcher = Fetcher(self.dataset, self._auto_collation, self.collate_fn, self.drop_last)
        for index in self._index_sampler:
            try:
                batch = fetcher.fetch(index)
            except StopIteration:
                return
            yield batch

    def __len__(self) -> int:
        """The number of batches; TypeError where the dataset does not know its length."""
        if not self._iterable:
            return len(self._index_sampler)  # type: ignore[arg-type]
        length = len(self.dataset)
        if self.batch_size is None:
            return length
        full, rest = divmod(length, self.batch_size)
        return full + bool(rest and not self.drop_last)


def _context(given: Any, num_workers: int) -> Any:
    """The context of ``multiprocessing`` that a name or a context stands for; None for default."""
    if given is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            f"0), but got num_workers={num_workers}"
        )
    if isinstance(given, str):
        known = multiprocessing.get_all_start_methods()
        if given not in known:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{known!r}, but got multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={given}"
        )
    return given


# Worker processes ---------------------------------------------------------------------------------
class _Workers:
    """The processes of a loader, one pipe to each: no locks that a dead one could hold."""

    def __init__(self, loader: DataLoader, seed: int) -> None:
        self.indices = loader._index_sampler
        self.prefetch = loader.prefetch_factor or 1
        self.timeout = loader.timeout
        self.in_order = loader.in_order
        self.keep = loader.persistent_workers
        folder = transfer.new_folder()
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self._epoch: weakref.ref[_Epoch] | None = None
        self._count = 0
        self.processes: list[Any] = []
        self.pipes: list[Any] = []
        self.stop = weakref.finalize(self, _shut_down, self.processes, self.pipes, folder)
        forked = context.get_start_method() == "fork"
        for number in range(loader.num_workers):
            ours, theirs = context.Pipe()
            settings = Settings(
                number, loader.num_workers, seed, loader.dataset, loader._auto_collation,
                loader.collate_fn, loader.drop_last, loader.worker_init_fn, folder,
            )  # fmt: skip
            inherited = [*self.pipes, ours] if forked else []
            process = context.Process(target=run, args=(settings, theirs, inherited), daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(ours)

    def epoch(self, restart: bool) -> Iterator[Any]:
        """The batches of one epoch, started at once; an earlier one that is not over ends here."""
        earlier = None if self._epoch is None else self._epoch()
        if earlier is not None:
            earlier.forget()
        if restart:
            for pipe in self.pipes:
                self.send(pipe, Restart())
        self._count += 1
        epoch = _Epoch(self, self._count)
        self._epoch = weakref.ref(epoch)
        epoch.fill()
        return epoch

    def send(self, pipe: Any, what: Any) -> None:
        try:
            pipe.send(what)
        except OSError:
            self.raise_death()

    def raise_death(self) -> None:
        """RuntimeError for a worker that has died."""
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            for process in self.processes:
                process.join(0.01)
                if not process.is_alive():
                    self.stop()
                    raise RuntimeError(_obituary(process))
        raise RuntimeError("DataLoader worker closed its connection")

    def receive(self) -> tuple[tuple[int, int], Any]:
        """The next answer of any worker."""
        timeout = self.timeout or None
        ready: list[Any] = multiprocessing.connection.wait(self.pipes, timeout)
        if not ready:
            for process in self.processes:
                process.terminate()
            self.stop()
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        try:
            return ready[0].recv()
        except (EOFError, OSError):
            self.raise_death()
            raise


def _obituary(process: Any) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        try:
            name = signal.strsignal(-code) or f"signal {-code}"
        except ValueError:
            name = f"signal {-code}"
        return f"DataLoader worker (pid {process.pid}) is killed by signal: {name}."
    return f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly (exit code {code})"


def _shut_down(processes: list[Any], pipes: list[Any], folder: str) -> None:
    """End the workers, and remove what they sent that nobody read."""
    for pipe in pipes:
        with suppress(OSError):
            pipe.send(None)
        pipe.close()
    deadline = time.monotonic() + _GRACE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join()
    processes.clear()
    pipes.clear()
    shutil.rmtree(folder, ignore_errors=True)


class _Epoch:
    """The batches of an epoch: requests sent ahead, answers brought back into order."""

    def __init__(self, workers: _Workers, number: int) -> None:
        self._workers = workers
        self._number = number
        self._indices = enumerate(iter(workers.indices))
        self._active = list(range(len(workers.pipes)))  # workers that have more to give
        self._turns = 0
        self._asked: dict[int, int] = {}  # batches that are being made, and by whom
        self._answers: dict[int, Any] = {}
        self._next = 0
        self._done = False

    def fill(self) -> None:
        """Keep every worker busy with as many batches as it may make in advance."""
        ahead = self._workers.prefetch * len(self._workers.pipes)
        while self._active and len(self._asked) + len(self._answers) < ahead:
            request = next(self._indices, None)
            if request is None:
                self._active = []
                return
            number, index = request
            worker = self._active[self._turns % len(self._active)]
            self._turns += 1
            self._asked[number] = worker
            self._workers.send(self._workers.pipes[worker], ((self._number, number), index))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while not self._done:
            try:
                answer = self._take()
            except BaseException:
                self.forget()
                raise
            if answer is None:
                self._end()
            elif isinstance(answer, Failure):
                self._end()
                answer.raise_()
            elif not isinstance(answer, Ended):
                return transfer.unpack(answer)
        raise StopIteration

    def _take(self) -> Any:
        """The answer whose turn it is; None when there are no more."""
        while True:
            wanted = self._next if self._workers.in_order else next(iter(self._answers), -1)
            if wanted in self._answers:
                self._next += 1
                answer = self._answers.pop(wanted)
                self.fill()
                return answer
            if not self._asked:
                return None
            (epoch, number), answer = self._workers.receive()
            if epoch != self._number:  # asked for by one that was given up
                _discard(answer)
                continue
            worker = self._asked.pop(number)
            self._answers[number] = answer
            if isinstance(answer, Ended) and worker in self._active:
                self._active.remove(worker)

    def _end(self) -> None:
        self.forget()
        if not self._workers.keep:
            self._workers.stop()

    def forget(self) -> None:
        """Give no more; what is still being made will be discarded."""
        self._done = True
        for answer in self._answers.values():
            _discard(answer)
        self._answers.clear()


def _discard(answer: Any) -> None:
    if isinstance(answer, transfer.Message):
        transfer.discard(answer)
