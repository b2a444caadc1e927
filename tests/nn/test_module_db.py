"""jitgrad's modules against PyTorch on its own database of them (see oracle/moduledb.py)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import moduledb, opdb
from tests.oracle.libraries import torch_or_skip
from tests.oracle.test_opdb import READY

ENTRIES = moduledb.present() if READY else ()


def test_the_database_is_there() -> None:
    torch_or_skip()
    assert len(ENTRIES) > 60


@pytest.mark.parametrize("info", ENTRIES, ids=moduledb.name_of)
def test_samples(info: Any) -> None:
    wrong = moduledb.compared(info)
    assert not wrong, opdb.report(wrong)
