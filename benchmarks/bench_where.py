"""What it costs to note where operators are called, so that errors can name the line.

Two processes run the same recorded chain, one with JITGRAD_WHERE=0, in turns of a few milliseconds
each: whatever else the machine does then meets both alike.

    python -m benchmarks.bench_where
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import Any

import pytest

PART = """
import sys, time
import jitgrad as jg

jg.set_num_threads(1)
x = jg.ones(8, dtype=jg.float64, requires_grad=True)

def recorded():  # forward and backward of 150 operators
    y = x
    for _ in range(50):
        y = (y * x).sin() + x
    y.sum().backward()

def written():  # 100 writes in place, half of them recorded, and what leads through them
    y = x * 1
    for _ in range(50):
        y.mul_(0.5)
        y.add_(x)
    y.sum().backward()

work = {"recorded": recorded, "written": written}
for name in sys.stdin:
    call = work[name.strip()]
    start = time.perf_counter()
    for _ in range(5):
        call()
    print(time.perf_counter() - start, flush=True)
"""


def ratio(workload: str, rounds: int = 200) -> float:
    """Median time of the workload with the lines noted, over that without."""
    parts = [
        subprocess.Popen(
            [sys.executable, "-c", PART],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JITGRAD_WHERE": on},
        )
        for on in ("1", "0")
    ]

    def turn(part: Any) -> float:
        part.stdin.write(f"{workload}\n")
        part.stdin.flush()
        return float(part.stdout.readline())

    try:
        for _ in range(20):  # warm
            turn(parts[0]), turn(parts[1])
        return statistics.median(turn(parts[0]) / turn(parts[1]) for _ in range(rounds))
    finally:
        for part in parts:
            part.communicate()  # ends its input, waits, and closes the pipes


@pytest.mark.parametrize("workload", ["recorded", "written"])
def bench_where(workload: str) -> None:
    found = ratio(workload)
    print(f"noting lines, {workload}: {100 * (found - 1):+.1f} % of the time without")


if __name__ == "__main__":
    for workload in ("recorded", "written"):
        print(f"{workload}: {100 * (ratio(workload) - 1):+.1f} %")
