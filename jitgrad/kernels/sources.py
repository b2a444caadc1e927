"""Which source files of this package a generated kernel depends on.

Read off the text of the imports, because importing the scalar functions themselves costs 0.2 s,
which a process that finds all its kernels in the cache need not pay.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent
_PACKAGE = "jitgrad.kernels"
_IMPORT = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)


def fingerprint(source: str) -> bytes:
    """A hash of every file whose code may be compiled into ``source``.

    >>> fingerprint("from jitgrad.kernels.abi import p_int64") == fingerprint("x = 1")
    False
    """
    files: set[str] = set()
    for module, names in _imports(source, _PACKAGE):
        files |= _reached(module, names)
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(_digest(file))
    return digest.digest()


def _imports(text: str, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The imports from this package in a text: a module's full name, and what is taken from it."""
    for module, listed in _IMPORT.findall(text):
        name = module
        if module.startswith("."):
            above = len(module) - len(module.lstrip(".")) - 1
            base = package.split(".")[: len(package.split(".")) - above]
            name = ".".join([*base, *filter(None, [module.lstrip(".")])])
        if name == _PACKAGE or name.startswith(_PACKAGE + "."):
            words = [part.split(" as ")[0].strip() for part in listed.strip("()").split(",")]
            yield name, tuple(filter(None, words))


@functools.cache
def _reached(module: str, names: tuple[str, ...]) -> frozenset[str]:
    """The files that ``from module import names`` depends on, by their paths in this package.

    A package's own file only passes names on: what counts is where they come from.
    """
    path = module.removeprefix(_PACKAGE).removeprefix(".").replace(".", "/")
    found: set[str] = set()
    if (_HERE / path).is_dir():
        passed = list(_imports(_content(f"{path}/__init__.py".lstrip("/")), module))
        for name in names:
            if _exists(path, name):
                found |= _reached(f"{module}.{name}", ())
            for origin, exported in passed:
                if name in exported:
                    found |= _reached(origin, (name,))
        return frozenset(found)
    file = f"{path}.py"
    found.add(file)
    package = module.rpartition(".")[0]
    for inner, taken in _imports(_content(file), package):
        if inner != module:
            found |= _reached(inner, taken)
    return frozenset(found)


def _exists(path: str, name: str) -> bool:
    return (_HERE / path / f"{name}.py").is_file() or (_HERE / path / name).is_dir()


@functools.cache
def _digest(file: str) -> bytes:
    return hashlib.sha256(f"{file}\n{_content(file)}".encode()).digest()


@functools.cache
def _content(file: str) -> str:
    path = _HERE / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""
