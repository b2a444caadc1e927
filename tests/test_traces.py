"""The check that tests leave no traces notices each kind, and puts the library's state back."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import jitgrad
from tests import traces


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: jitgrad.set_grad_enabled(False), "grad mode: True before, False after"),
        (lambda: jitgrad.set_default_dtype(jitgrad.float64), "default dtype: "),
        (lambda: jitgrad.set_num_threads(2), "number of threads: 1 before, 2 after"),
        (lambda: jitgrad.manual_seed(7), "seed: 0 before, 7 after"),
    ],
)
def test_state_left_changed_is_named_and_put_back(
    change: Callable[[], object], named: str, threads: Callable[[int], None]
) -> None:
    threads(2)  # skips where there are not two cores to set
    jitgrad.set_num_threads(1)
    before = [get() for _, get, _ in traces.STATE]
    with pytest.raises(AssertionError, match=named), traces.none_left():
        change()
    assert [get() for _, get, _ in traces.STATE] == before


def test_foreign_generators_are_watched() -> None:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with pytest.raises(AssertionError, match="Python's global"), traces.none_left():
            random.random()
        with pytest.raises(AssertionError, match="NumPy's global"), traces.none_left():
            np.random.rand(1)  # noqa: NPY002
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def test_drawing_random_numbers_is_no_trace_and_starts_anew() -> None:
    with traces.none_left():
        first = jitgrad.rand(3)
    with traces.none_left():
        assert jitgrad.rand(3).tolist() == first.tolist()
