"""What a test must not leave changed for the next one, on whichever worker that runs."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import jitgrad

# Every test starts from this seed, so drawing random numbers is no leak; seeding anew is.
SEED = 0

# State of the library: what, its getter, its setter.
STATE: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("grad mode", jitgrad.is_grad_enabled, jitgrad.set_grad_enabled),
    ("default dtype", jitgrad.get_default_dtype, jitgrad.set_default_dtype),
    ("number of threads", jitgrad.get_num_threads, jitgrad.set_num_threads),
    ("seed", jitgrad.initial_seed, jitgrad.manual_seed),
)


@contextmanager
def none_left() -> Iterator[None]:
    """Raises AssertionError if the block left state behind, after putting the library's back."""
    jitgrad.manual_seed(SEED)
    before = [get() for _, get, _ in STATE]
    generators = foreign_generators()

    yield

    leaks = []
    for (what, get, put), old in zip(STATE, before, strict=True):
        new = get()
        if new != old:
            put(old)
            leaks.append(f"{what}: {old} before, {new} after")
    for what, state in foreign_generators().items():
        if state != generators[what]:
            leaks.append(f"{what} was used: take a generator of your own")
    if leaks:
        raise AssertionError("state was left behind: " + "; ".join(leaks))


def foreign_generators() -> dict[str, object]:
    """States of the process-wide generators, which are not ours to draw from or to seed."""
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002
    return {
        "Python's global random generator": random.getstate(),
        "NumPy's global random generator": pickle.dumps(numpy_state),
    }
