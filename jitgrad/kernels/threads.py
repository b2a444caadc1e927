"""The number of threads, and what keeps parallel launches safe.

Numba's threading layers each have a hole: ``workqueue`` aborts the process when two Python threads
enter it, ``omp`` kills a forked child that launches in parallel, ``tbb`` hangs at exit after a
fork. So ``omp`` is preferred, launches under ``workqueue`` hold a lock, and a forked child runs
serially. See docs/decisions/0003-threads.md.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numba

from .. import config

numba.config.THREADING_LAYER_PRIORITY = ["omp", "workqueue", "tbb"]


class _Threads(threading.local):
    launched_with = 0  # what this Python thread last told Numba


_local = _Threads()
_count = config.NUM_THREADS or numba.config.NUMBA_NUM_THREADS
_forked = False
_launch_lock: Any = None


def available() -> int:
    """The most threads that :func:`set_num_threads` can give (fixed at start by Numba)."""
    return 1 if _forked else numba.config.NUMBA_NUM_THREADS


def get_num_threads() -> int:
    """Threads used for large operations."""
    return _count


def set_num_threads(count: int) -> None:
    """Set the number of threads for large operations.

    Results do not depend on it. More than the process has is taken as all it has; RuntimeError for
    less than one.
    """
    global _count
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if count < 1:
        raise RuntimeError("set_num_threads: expected a positive number of threads")
    _count = min(count, numba.config.NUMBA_NUM_THREADS)


def guarded(
    load: Callable[[], Callable[..., None]], serial: Callable[..., None]
) -> Callable[..., None]:
    """A launcher that runs the parallel function where it is safe and useful, else ``serial``.

    ``load`` gives the parallel function when it is first needed: loading one starts Numba's
    threading layer, which a program that keeps to one thread should never see.
    """
    parallel: Callable[..., None] | None = None

    def launch(*arguments: Any) -> None:
        nonlocal parallel
        if _count == 1 or _forked:
            serial(*arguments)
            return
        if parallel is None:
            parallel = load()
        with _launch_lock or _first_launch():
            if _local.launched_with != _count:
                numba.set_num_threads(_count)
                _local.launched_with = _count
            parallel(*arguments)

    return launch


def _first_launch() -> Any:
    global _launch_lock
    numba.set_num_threads(_count)  # starts the layer, so that its name is known
    layer = numba.threading_layer()
    _launch_lock = threading.Lock() if layer == "workqueue" else nullcontext()
    return _launch_lock


def _after_fork_in_child() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
