"""The kernel cache: hits, misses, torn files, read-only folders, many processes at once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jitgrad.kernels import cache, sources

PROGRAM = """
import jitgrad as jg
print((jg.arange(5.0) * {factor} + 1).sum().item())
"""
EXPECTED = {2: "25.0", 3: "35.0"}


def start(folder: Path, factor: int = 2, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(factor=factor)],
        env={**os.environ, "JITGRAD_CACHE_DIR": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.strip()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert finish(start(tmp_path)) == EXPECTED[2]
    before = files(tmp_path)
    assert before
    assert finish(start(tmp_path, factor=3)) == EXPECTED[3]
    assert files(tmp_path) == before


def test_processes_that_start_together_leave_whole_files(tmp_path: Path) -> None:
    processes = [start(tmp_path) for _ in range(3)]
    assert [finish(p) for p in processes] == [EXPECTED[2]] * 3
    assert all(name.endswith(".bin") for name in files(tmp_path)), "a temporary file was left"
    assert finish(start(tmp_path)) == EXPECTED[2]


def test_torn_and_foreign_files_are_misses(tmp_path: Path) -> None:
    assert finish(start(tmp_path)) == EXPECTED[2]
    paths = sorted(tmp_path.iterdir())
    paths[0].write_bytes(paths[0].read_bytes()[:100])
    for path in paths[1:]:
        path.write_bytes(b"not a kernel")
    assert finish(start(tmp_path)) == EXPECTED[2]
    assert all(len(data) > 1000 for data in files(tmp_path).values()), "not written again"


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    filled, empty = tmp_path / "filled", tmp_path / "empty"
    filled.mkdir()
    assert finish(start(filled)) == EXPECTED[2]
    before = files(filled)
    empty.mkdir()
    for folder in (filled, empty):
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert finish(start(filled)) == EXPECTED[2]
        assert finish(start(empty)) == EXPECTED[2]
        assert files(filled) == before
    finally:
        for folder in (filled, empty):
            folder.chmod(stat.S_IRWXU)


def test_a_write_that_fails_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full disk or a read-only folder does, for whoever runs the tests."""

    def refuse(**_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(cache.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(cache, "_folder", lambda: tmp_path)
    source = "def kernel(p0, s0, n, extras):\n    pass\n# for this test alone\n"
    assert cache.kernel.__wrapped__(source, 1) != 0
    assert not list(tmp_path.iterdir())


def test_a_path_that_is_no_folder_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert finish(start(blocked, TMPDIR=str(tmp_path))) == EXPECTED[2]


def test_another_cpu_compiles_its_own(tmp_path: Path) -> None:
    assert finish(start(tmp_path)) == EXPECTED[2]
    before = set(files(tmp_path))
    assert finish(start(tmp_path, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")) == EXPECTED[2]
    assert set(files(tmp_path)) - before


def test_the_key_covers_source_signature_options_and_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two functions that differ in any of these must not share a file."""
    import hashlib

    seen: list[bytes] = []
    sha256 = hashlib.sha256

    def spy(data: bytes = b"") -> object:
        seen.append(data)
        return sha256(data)

    source = "def kernel(p0, s0, n, extras):\n    pass\n"
    monkeypatch.setattr(cache.hashlib, "sha256", spy)
    cache.kernel.__wrapped__(source, 1)
    cache.kernel.__wrapped__(source + "# another\n", 1)
    cache.kernel.__wrapped__(source, 1, fastmath=frozenset())
    keys = {data for data in seen if b"kernel" in data}
    assert len(keys) == 3
    assert all(data.startswith(cache._fingerprint()) for data in keys)


def test_the_key_follows_imports_through_packages() -> None:
    def reached(text: str) -> set[str]:
        (imported,) = sources._imports(text, "jitgrad.kernels")
        return set(sources._reached(*imported))

    pointers = reached("from jitgrad.kernels.abi import p_int64 as words")
    assert pointers == {"abi.py", "flipped.py", "half.py"}
    several = reached("    from jitgrad.kernels.scalar import exp")  # not the package's own file
    assert {"scalar/exponential.py", "scalar/bits.py"} <= several
    assert "scalar/__init__.py" not in several
    assert "scalar/error.py" not in several
    assert reached("from jitgrad.kernels.scalar.bits import select") == {"scalar/bits.py"}
    assert reached("from jitgrad.kernels.gemm import micro") == {"gemm/micro.py"}


def test_every_file_of_scalar_functions_is_followed() -> None:
    """Whatever Numba can call by name is found from the name's import."""
    import importlib

    scalar = importlib.import_module("jitgrad.kernels.scalar")
    for name, value in vars(scalar).items():
        module = getattr(value, "__module__", "")
        if callable(value) and module.startswith(scalar.__name__):
            file = module.removeprefix("jitgrad.kernels.").replace(".", "/") + ".py"
            assert file in sources._reached(scalar.__name__, (name,)), name
