"""Loading in worker processes, forked and spawned, after kernels have run on several threads."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.utils.data import DataLoader, get_worker_info, transfer
from tests.data.samples import Counting, Seeds, Squares, Trouble, refuse
from tests.oracle import libraries

METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]
pytestmark = [
    pytest.mark.usefixtures("reseeded"),
    # Threads that only compute when asked are no danger to a fork; see kernels/threads.py.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@pytest.fixture
def reseeded(seed: Any) -> None:
    seed(0)


def loader(dataset: Any, **options: Any) -> DataLoader:
    return DataLoader(dataset, **{"num_workers": 2, "timeout": 60, **options})


@pytest.mark.parametrize("method", METHODS)
def test_workers_after_parallel_kernels(method: str, threads: Any) -> None:
    threads(2)
    x = jg.ones(300_000)
    assert (x * 2).sum().item() == 600_000  # the threading layer has started
    batches = list(loader(Squares(6), batch_size=2, multiprocessing_context=method))
    assert [index.tolist() for index, _, _ in batches] == [[0, 1], [2, 3], [4, 5]]
    assert [square.tolist() for _, square, _ in batches] == [[0, 1], [4, 9], [16, 25]]
    assert batches[2][2] == {"text": ["4", "5"]}
    assert (x * 2).sum().item() == 600_000


def test_seeds() -> None:
    torch = libraries.torch_or_skip()
    torch.manual_seed(0)
    ours = [[v.item() for v in row] for row in loader(Seeds(), batch_size=1)]
    seed = torch.empty((), dtype=torch.int64).random_().item()
    assert [row[:2] for row in ours] == [[0, seed], [1, seed], [0, seed], [1, seed]]
    from torch.utils.data._utils.worker import _generate_state

    for worker in (0, 1):
        numbers = np.random.RandomState(_generate_state(seed, worker))
        uniform = torch.Generator().manual_seed(seed + worker)
        for row in ours[worker::2]:
            assert row[2] == numbers.randint(1 << 30)
            assert row[3] == torch.rand(1, generator=uniform).item()
    assert get_worker_info() is None


def test_order_and_shuffling_as_without_workers() -> None:
    data = jg.arange(23)
    jg.manual_seed(4)
    expected = [b.tolist() for b in DataLoader(data, 4, shuffle=True)]
    jg.manual_seed(4)
    assert [b.tolist() for b in loader(data, batch_size=4, shuffle=True)] == expected
    loose = loader(data, batch_size=4, in_order=False)
    assert sorted(i for b in loose for i in b.tolist()) == list(range(23))


def test_iterable_datasets_end_worker_by_worker() -> None:
    batches = [b.tolist() for b in loader(Counting(7), batch_size=2)]
    assert batches == [[0, 2], [1, 3], [4, 6], [5]]
    assert [b.tolist() for b in loader(Counting(7), batch_size=2, drop_last=True)] == batches[:3]
    assert list(loader(Counting(3), batch_size=None)) == [0, 1, 2]


def test_persistent_workers() -> None:
    kept = loader(Counting(8), batch_size=2, persistent_workers=True)
    first = [b.tolist() for b in kept]
    assert kept._workers is not None
    pids = [p.pid for p in kept._workers.processes]
    half = iter(kept)
    next(half)
    assert [b.tolist() for b in kept] == first
    assert list(half) == []
    assert [p.pid for p in kept._workers.processes] == pids
    processes = list(kept._workers.processes)
    del half, kept
    assert not any(p.is_alive() for p in processes)


def test_an_epoch_given_up_leaves_nothing_behind() -> None:
    batches = iter(loader(jg.ones(40, 10_000), batch_size=2))
    workers: Any = batches._workers  # type: ignore[attr-defined]
    first = next(batches)
    folder = workers.stop.peek()[2][2]
    processes = list(workers.processes)
    assert os.path.isdir(folder)
    del batches, workers
    assert not os.path.isdir(folder)
    assert not any(p.is_alive() for p in processes)
    first.add_(1)  # the memory of a batch is its own
    assert first.sum().item() == 40_000


KILLED = """
import os, sys
import jitgrad as jg
batches = iter(jg.utils.data.DataLoader(jg.ones(400, 10_000), 2, num_workers=2))
next(batches)
print(batches._workers.stop.peek()[2][2], flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by signal")
def test_workers_do_not_outlive_their_loader() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        folder = one.stdout.read().strip()  # ends when nobody who could write is left
    assert folder
    assert not os.path.exists(folder)


@pytest.mark.parametrize("size", [3, 100_000])
def test_transfer(tmp_path: Any, size: int) -> None:
    x = jg.arange(size)
    sent = {"x": x, "y": x[1:], "z": np.ones(size), "w": "text"}
    message = transfer.pack(sent, str(tmp_path))
    assert (message.file is not None) == (size > 1000)
    got = transfer.unpack(message)
    assert not list(tmp_path.iterdir())
    assert got["w"] == "text"
    assert got["x"].storage is got["y"].storage
    got["x"].add_(1)
    assert got["y"][0].item() == 2
    got["z"] += 1
    transfer.discard(transfer.pack(sent, str(tmp_path)))
    assert not list(tmp_path.iterdir())


# Trouble ------------------------------------------------------------------------------------------
TROUBLE = {
    "raise": (
        ValueError,
        r"Caught ValueError in DataLoader worker process 1\.\nOriginal Traceback",
    ),
    "key": (KeyError, r"Caught KeyError in DataLoader worker process 1\.\nOriginal Traceback"),
    "local": (RuntimeError, r"(?s)Caught .*Original Traceback.*Unknown: three"),
    "kill": (RuntimeError, r"DataLoader worker \(pid \d+\) is killed by signal: Killed"),
    "exit": (RuntimeError, r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly \(exit code 7"),
}


@pytest.mark.parametrize("what", TROUBLE)
def test_trouble_in_a_worker(what: str) -> None:
    kind, message = TROUBLE[what]
    batches = iter(loader(Trouble(what)))
    assert [next(batches).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(kind, match=message) as caught:
        next(batches)
    if what == "raise":
        assert re.search(r"in __getitem__\n(?s:.*)ValueError: three is too many", str(caught.value))
    with pytest.raises(StopIteration):
        next(batches)


def test_timeout() -> None:
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.2 seconds"):
        list(loader(Trouble("sleep"), timeout=0.2, num_workers=4))


def test_a_worker_that_cannot_start() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Caught RuntimeError in .*worker 0 will not"):
        list(loader(jg.ones(3), worker_init_fn=refuse))


def test_a_persistent_loader_recovers() -> None:
    kept = loader(Trouble("exit"), persistent_workers=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="exited unexpectedly"):
            list(kept)
