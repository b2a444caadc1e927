"""Memory that tensors free is there for the next ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import jitgrad as jg

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    x = jg.ones(1 << 20)  # 4 MiB
    return [x * 2 for _ in range(3)]

step(), step()
before = faults()
for _ in range(10):
    step()
print(faults() - before)
"""


def run(**environment: str) -> int:
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith("MALLOC_") and k != "GLIBC_TUNABLES"
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc's malloc")
def test_no_page_is_asked_for_twice() -> None:
    # 40 tensors of 1024 pages each would be 40960 faults.
    assert run() < 2000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc's malloc")
@pytest.mark.parametrize("setting", ["JITGRAD_KEEP_MEMORY", "MALLOC_ARENA_MAX"])
def test_malloc_can_be_left_alone(setting: str) -> None:
    assert run(**{setting: "0" if setting.startswith("JITGRAD") else "8"}) >= 0
