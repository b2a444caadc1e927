"""Several threads and processes: the same bits, no crash after fork, no crash in threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

import jitgrad as jg

SIZE = 300_001


def workload() -> list[jg.Tensor]:
    x = jg.arange(SIZE, dtype=jg.float32) * 1e-3
    matrix = x[:250_000].reshape(500, 500)
    return [x.exp(), x.sum(), matrix.sum(0), matrix.sum(1), matrix @ matrix.t(), matrix.softmax(0)]


def test_results_are_the_same_bits_for_any_number_of_threads(
    threads: Callable[[int], None],
) -> None:
    threads(1)
    one = workload()
    threads(2)
    two = workload()
    for a, b in zip(one, two, strict=True):
        assert jg.equal(a, b)


def test_set_num_threads_checks_its_argument(threads: Callable[[int], None]) -> None:
    threads(1)
    assert jg.get_num_threads() == 1
    with pytest.raises(RuntimeError, match="positive"):
        jg.set_num_threads(0)
    with pytest.raises(TypeError, match="int"):
        jg.set_num_threads("two")  # type: ignore[arg-type]


def test_python_threads_may_launch_at_once(threads: Callable[[int], None]) -> None:
    threads(2)
    expected = workload()
    failures: list[str] = []

    def run() -> None:
        for _ in range(5):
            for a, b in zip(workload(), expected, strict=True):
                if not jg.equal(a, b):
                    failures.append("another result")

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


FORK = """
import os, sys
import jitgrad as jg
jg.set_num_threads({threads})
x = jg.ones(400_000)
expected = (x * 2).sum().item()
child = os.fork()
if child == 0:
    os._exit(0 if (x * 2).sum().item() == expected else 3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), (x * 2).sum().item() == expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_a_forked_child_computes_too(layer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK.format(threads=2)],
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.split() == ["0", "True"], done.stderr
