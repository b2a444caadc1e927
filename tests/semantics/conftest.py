"""Every rule is tested on jitgrad and, where torch is installed, on torch by the same body."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle import libraries


@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Any:
    return libraries.jitgrad() if request.param == "jitgrad" else libraries.torch_or_skip()


@pytest.fixture
def no_gc() -> Iterator[None]:
    """What is freed inside is freed by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
