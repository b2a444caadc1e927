"""jitgrad's optimizers against PyTorch on its own database of options (see oracle/optimdb.py)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import optimdb
from tests.oracle.libraries import torch_or_skip
from tests.oracle.test_opdb import READY

ENTRIES = optimdb.present() if READY else ()


def test_every_optimizer_is_there() -> None:
    torch_or_skip()
    assert {info.name for info in optimdb.database()} == {info.name for info in ENTRIES}


@pytest.mark.parametrize("dtype", optimdb.DTYPES)
@pytest.mark.parametrize("info", ENTRIES, ids=lambda info: info.name)
def test_options(info: Any, dtype: str) -> None:
    if (why := optimdb.reason(info, "options")) is not None:
        pytest.skip(why)
    told = [line for case in optimdb.cases(info) for line in optimdb.compared(case, dtype)]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("info", ENTRIES, ids=lambda info: info.name)
def test_refused_options(info: Any) -> None:
    told = optimdb.error_differences(info)
    assert not told, "\n".join(told)


@pytest.mark.parametrize("info", ENTRIES, ids=lambda info: info.name)
def test_differentiable_steps(info: Any) -> None:
    if (why := optimdb.reason(info, "differentiable")) is not None:
        pytest.skip(why)
    told = optimdb.differentiated(info)
    assert not told, "\n".join(told)
