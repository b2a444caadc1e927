"""What every test may rely on: one thread, a fixed seed, no traces of the test before."""

from __future__ import annotations

import os

# Before NumPy or torch starts its pools. Test processes run side by side, one per core: each must
# keep to one thread, or they fight. `threads` below lifts that for a single test.
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

import hypothesis
import pytest

import jitgrad
from tests import traces
from tests.oracle import libraries

hypothesis.settings.register_profile(
    "ci", max_examples=25, deadline=None, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile("dev", max_examples=50, deadline=None)
hypothesis.settings.register_profile("fuzz", max_examples=5000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("JITGRAD_HYPOTHESIS", "ci"))


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pytest_configure(config: pytest.Config) -> None:
    if libraries.REQUIRED and not libraries.torch_installed():
        raise pytest.UsageError(f"JITGRAD_ORACLE=1, but {libraries.MISSING}")


def pytest_report_header() -> str:
    def of(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"{package} missing"

    return "libraries: " + ", ".join(map(of, ("jitgrad", "numba", "numpy", "torch")))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("oracle"):
        libraries.torch_or_skip()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    jitgrad.set_num_threads(1)


@pytest.fixture(autouse=True)
def _leaves_no_trace() -> Iterator[None]:
    with traces.none_left():
        yield


@pytest.fixture
def seed() -> Iterator[Callable[[int], None]]:
    """Seeds jitgrad, and torch if the test has imported it; undone after the test."""

    def set_seed(value: int) -> None:
        jitgrad.manual_seed(value)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(value)

    yield set_seed
    jitgrad.manual_seed(traces.SEED)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Lets one test use several threads; skips where the machine has fewer. Undone afterwards."""
    before = jitgrad.get_num_threads()

    def use(count: int) -> None:
        if count > cores():
            pytest.skip(f"needs {count} cores")
        jitgrad.set_num_threads(count)

    yield use
    jitgrad.set_num_threads(before)
