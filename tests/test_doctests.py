"""Every example in a docstring runs, also of functions that are generated and live in no file.

pytest's own --doctest-modules finds what a module's source defines; most of jitgrad's functions
and methods come from the operator table instead, so the public namespaces are walked as well.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import jitgrad

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def modules() -> Iterator[ModuleType]:
    """jitgrad's modules; one that needs an optional package which is missing is left out."""
    yield jitgrad
    for found in pkgutil.walk_packages(jitgrad.__path__, "jitgrad.", onerror=lambda name: None):
        if found.name.rpartition(".")[2] == "__main__":
            continue
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] == "jitgrad":
                raise


def members(owner: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Whatever of ours carries a docstring in a module, one level into its classes."""
    yield path, owner
    for name, member in vars(owner).items():
        origin = getattr(member, "__module__", None) or "jitgrad"  # properties do not say
        if name.startswith("_") or isinstance(member, ModuleType) or "jitgrad" not in origin:
            continue
        if inspect.isclass(member) and not inspect.isclass(owner):
            yield from members(member, f"{path}.{name}")
        else:
            yield f"{path}.{name}", member


def examples() -> Iterator[Any]:
    """One case per docstring with an example, whichever of its names comes first."""
    parser = doctest.DocTestParser()
    seen = set()
    for module in modules():
        for path, member in members(module, module.__name__):
            text = inspect.getdoc(member)
            if text is None or ">>>" not in text or text in seen:
                continue
            seen.add(text)
            # As in any doctest, an example sees what its function sees.
            home = sys.modules.get(getattr(member, "__module__", None) or "", module)
            names = {**vars(home), "jitgrad": jitgrad, "torch": jitgrad}
            yield pytest.param(parser.get_doctest(text, names, path, path, 0), id=path)


@pytest.mark.parametrize("example", list(examples()))
def test_example(example: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(example, out=report.append)
    assert not report, "".join(report)
