"""Where the two libraries come from, and what happens when PyTorch is not there."""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from typing import Any

import pytest

# Set by `make test ORACLE=1`: a run without PyTorch is then a failure, never a row of skips.
REQUIRED = os.environ.get("JITGRAD_ORACLE") == "1"
MISSING = "PyTorch, the oracle, is not installed (make test ORACLE=1 installs it)"


def torch_installed() -> bool:
    """Answers without importing it: PyTorch's import takes longer than most test files."""
    return importlib.util.find_spec("torch") is not None


def torch_or_skip() -> Any:
    """PyTorch; where it is missing the running test is skipped, or fails if it is REQUIRED."""
    if not torch_installed():
        if REQUIRED:
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return _torch()


@cache
def _torch() -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)  # as jitgrad in every test: the processes of a run share the cores
    return torch


def jitgrad() -> Any:
    return importlib.import_module("jitgrad")
