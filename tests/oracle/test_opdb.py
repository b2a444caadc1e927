"""jitgrad against PyTorch on the samples of PyTorch's own operator database (see opdb.py)."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.oracle import opdb
from tests.oracle.exceptions import reason
from tests.oracle.libraries import REQUIRED, torch_installed, torch_or_skip

# PyTorch's testing package needs this one to be imported.
READY = torch_installed() and importlib.util.find_spec("expecttest") is not None
ENTRIES = opdb.present() if READY else ()
CASES = [(op, dtype) for op in ENTRIES for dtype in opdb.dtypes_of(op)]
WITH_ERRORS = [op for op in ENTRIES if op.error_inputs_func is not None]


def test_the_database_is_there() -> None:
    torch_or_skip()
    if not READY:
        (pytest.fail if REQUIRED else pytest.skip)("PyTorch's test helper expecttest is missing")
    assert len(CASES) > 400


@pytest.mark.parametrize(
    "op, dtype", CASES, ids=[f"{opdb.full_name(op)}-{dtype}" for op, dtype in CASES]
)
def test_samples(op: Any, dtype: str) -> None:
    if (why := reason(op.name, op.variant_test_name, "function", dtype)) is not None:
        pytest.skip(why)
    wrong = opdb.unexpected(op, opdb.compared(op, dtype), dtype)
    assert not wrong, opdb.report(wrong)


@pytest.mark.parametrize("op", WITH_ERRORS, ids=[opdb.full_name(op) for op in WITH_ERRORS])
def test_error_inputs(op: Any) -> None:
    if (why := reason(op.name, op.variant_test_name, "errors")) is not None:
        pytest.skip(why)
    wrong = opdb.error_differences(op)
    assert not wrong, opdb.report({"errors": wrong})
