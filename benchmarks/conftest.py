"""The `race` fixture: workloads parametrised by library, timed in turns, summed up in a table.

A benchmark hands `race` a function that builds its work for a library:

    def bench_add(race, threads):
        race(lambda lib: partial(lib.add, array(lib, X), array(lib, Y)))

The first library of a workload to come up runs the whole race; the others only report their part
to pytest-benchmark. `--benchmark-only` prints its tables and ours; `--benchmark-disable` runs
every work once, untimed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from benchmarks import race as racing

LIBRARIES = ("jitgrad", "torch", "numpy")
REFERENCE = "torch"

Build = Callable[[Any], racing.Work]


class Replay:
    """A timer for pytest-benchmark that lets the durations pass which a race has measured."""

    __name__ = "race"

    def __init__(self) -> None:
        self.durations: Iterator[float] = iter(())
        self.started = False

    def __call__(self) -> float:
        self.started = not self.started
        return 0.0 if self.started else next(self.durations)


REPLAY = Replay()


@dataclass
class Results:
    """Races run so far, by workload, and who takes part in each according to what was collected."""

    races: dict[str, racing.Race] = field(default_factory=dict)
    entrants: dict[str, list[str]] = field(default_factory=dict)


RESULTS = pytest.StashKey[Results]()


def installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def workload(item: pytest.Item) -> str:
    """The benchmark's name without its library: `elementwise: exp [2 threads, transposed]`."""
    module = item.nodeid.partition("::")[0].rpartition("bench_")[2].removesuffix(".py")
    function = getattr(item, "originalname", item.name).removeprefix("bench_")
    others = [part for part in _parameters(item) if part not in LIBRARIES]
    return f"{module}: {function}" + (f" [{', '.join(others)}]" if others else "")


def _parameters(item: pytest.Item) -> list[str]:
    callspec = getattr(item, "callspec", None)
    return callspec.id.split("-") if callspec else []


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = Results()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "race" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("libraries")
        metafunc.parametrize("library", marker.args if marker else LIBRARIES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "race" in getattr(item, "fixturenames", ()):
            # The timer of pytest-benchmark can only be set by this marker.
            item.add_marker(pytest.mark.benchmark(timer=REPLAY))


def pytest_collection_finish(session: pytest.Session) -> None:
    # After -k and the like: a race is run among the libraries that were asked for.
    entrants = session.config.stash[RESULTS].entrants
    for item in session.items:
        callspec = getattr(item, "callspec", None)
        library = callspec.params.get("library") if callspec else None
        if library is not None and installed(library):
            entrants.setdefault(workload(item), []).append(library)


@pytest.fixture
def race(request: pytest.FixtureRequest, benchmark: Any, library: str) -> Callable[[Build], None]:
    """Races the libraries over one workload and reports the part of the running test's library."""
    if not installed(library):
        pytest.skip(f"{library} is not installed")
    results = request.config.stash[RESULTS]
    name = workload(request.node)

    def start(build: Build) -> None:
        if benchmark.disabled:
            benchmark.pedantic(build(importlib.import_module(library)))
            return
        if name not in results.races:
            libraries = results.entrants[name]
            works = {lib: build(importlib.import_module(lib)) for lib in libraries}
            results.races[name] = racing.run(works)
        finished = results.races[name]
        samples = finished.samples[library]
        REPLAY.durations = iter(samples)
        benchmark.group = name
        benchmark.extra_info["library"] = library
        if REFERENCE in finished.samples:
            benchmark.extra_info[f"ratio to {REFERENCE}"] = finished.ratio(library, REFERENCE)
        benchmark.pedantic(lambda: None, rounds=len(samples))

    return start


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request: pytest.FixtureRequest, library: str) -> Iterator[int]:
    """Holds every library to a number of threads; skips where there are fewer cores."""
    count = request.param
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if count > (cores or 1):
        pytest.skip(f"needs {count} cores")
    libraries = _with_pools_started()
    before = [lib.get_num_threads() for lib in libraries]
    for lib in libraries:
        lib.set_num_threads(count)
    with _blas_threads(count):
        yield count
    for lib, number in zip(libraries, before, strict=True):
        lib.set_num_threads(number)


@cache
def _with_pools_started() -> list[Any]:
    """The libraries that have pools, started: a pool that starts sets OpenMP's count anew for
    everybody in the process, and would undo what the others have just been told."""
    libraries = [importlib.import_module(lib) for lib in ("jitgrad", "torch") if installed(lib)]
    for lib in libraries:
        lib.ones(1 << 20) + 1
    return libraries


def _blas_threads(count: int) -> Any:
    """NumPy's BLAS has no switch of its own; without threadpoolctl it runs as it pleases."""
    if not installed("threadpoolctl"):
        return nullcontext()
    # By name: limiting OpenMP as well would overrule what torch and jitgrad were just told.
    return importlib.import_module("threadpoolctl").threadpool_limits(count, user_api="blas")


@pytest.hookimpl(trylast=True)  # below pytest-benchmark's own tables
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    races = config.stash[RESULTS].races
    if not races:
        return
    libraries = [lib for lib in LIBRARIES if any(lib in race.samples for race in races.values())]
    compared = [lib for lib in libraries if lib != REFERENCE]
    rows = [["workload", *libraries, *(f"{lib} / {REFERENCE}" for lib in compared)]]
    for name, race in races.items():
        times = [_seconds(race.median(lib)) if lib in race.samples else "" for lib in libraries]
        ratios = [
            f"{race.ratio(lib, REFERENCE):.2f}"
            if lib in race.samples and REFERENCE in race.samples
            else ""
            for lib in compared
        ]
        rows.append([name, *times, *ratios])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    versions = ", ".join(f"{lib} {_version(lib)}" for lib in libraries)
    terminalreporter.section("medians and ratios (timed in turns, one run)")
    terminalreporter.write_line(f"Python {sys.version.split()[0]}, {versions}")
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        terminalreporter.write_line("  ".join(cells).rstrip())


def _seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def _version(library: str) -> str:
    return getattr(importlib.import_module(library), "__version__", "")
