"""Timing several libraries against each other on a machine that is not quiet.

Timing one library after the other compares them under different loads. A race takes turns: each
round times every library once, in changing order, and ratios are formed within rounds before
their median is taken, so a slow second hits both sides of a ratio.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, sleep

Work = Callable[[], object]

# A round repeats short work until it takes about this long, far above the clock's grain.
ROUND_SECONDS = 0.005
RACE_SECONDS = 1.0  # about how long a race goes on, per library
MIN_ROUNDS, MAX_ROUNDS = 3, 100
# An idle pool spins for a while before it sleeps, on cores that the next library needs.
POOL_SLEEPS_AFTER = 0.005


@dataclass
class Race:
    """Seconds a call takes, one sample per round; sample i of all libraries is the same moment."""

    samples: dict[str, list[float]] = field(default_factory=dict)

    def median(self, library: str) -> float:
        return statistics.median(self.samples[library])

    def ratio(self, library: str, to: str) -> float:
        """How many times as long `library` takes, by the median of the rounds."""
        pairs = zip(self.samples[library], self.samples[to], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def run(works: Mapping[str, Work]) -> Race:
    """Times the works in turns. The garbage collector stays on: it is part of what users pay."""
    repeats = {library: _calibrate(work) for library, work in works.items()}
    race = Race({library: [] for library in works})
    order = list(works)
    deadline = perf_counter() + RACE_SECONDS * len(works)
    for turn in range(MAX_ROUNDS):
        if turn >= MIN_ROUNDS and perf_counter() > deadline:
            break
        for library in order:
            sleep(POOL_SLEEPS_AFTER)
            if repeats[library] > 1:
                works[library]()  # wakes its own pool and brings back its caches
            race.samples[library].append(_time(works[library], repeats[library]))
        order.append(order.pop(0))  # nobody always runs on another's warm or spoilt cache
    return race


def _time(work: Work, repeats: int) -> float:
    turns = range(repeats)
    start = perf_counter()
    for _ in turns:
        work()
    return (perf_counter() - start) / repeats


def _calibrate(work: Work) -> int:
    """How often to repeat in a round. The first call, which may compile, is not looked at."""
    work()
    repeats = 1
    while (seconds := _time(work, repeats) * repeats) < ROUND_SECONDS:
        repeats = max(2 * repeats, int(repeats * ROUND_SECONDS / max(seconds, 1e-9)))
    return repeats
