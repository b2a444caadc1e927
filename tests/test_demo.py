"""The demo: a program of its own, as its users start it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


def run(*arguments: str, hidden: str = "") -> subprocess.CompletedProcess[str]:
    """The demo in a process of its own, with some module made impossible to import."""
    program = (
        f"import sys; sys.modules[{hidden!r}] = None\n" if hidden else "import sys\n"
    ) + "from jitgrad.demo import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_learns_the_digits() -> None:
    pytest.importorskip("sklearn", reason="the demo extra (scikit-learn) is not installed")
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"first gradient +[\d.]+ s after the start of the process", done.stdout)
    assert re.search(r"time per epoch +[\d.]+ ms", done.stdout)
    found = re.search(r"test accuracy +([\d.]+) %", done.stdout)
    assert found and float(found[1]) >= 97
    assert "agree with finite differences in float64" in done.stdout


def test_fails_when_it_learns_too_little() -> None:
    pytest.importorskip("sklearn", reason="the demo extra (scikit-learn) is not installed")
    done = run("--epochs", "1")
    assert done.returncode == 1 and "below 97 %" in done.stderr


def test_says_what_is_missing() -> None:
    done = run("--epochs", "1", hidden="sklearn.datasets")
    assert done.returncode == 1 and "needs scikit-learn" in done.stderr
