"""The layers hold: imports point downward only (CONTRIBUTING.md has the picture).

Parts of one layer may use each other as long as that has a direction too: no cycles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = "jitgrad"

# Each name stands for a module, or for a package and all in it; the longest that fits counts.
LAYERS = {
    "jitgrad.config": 0,
    "jitgrad.errors": 0,
    "jitgrad.dtypes": 0,
    "jitgrad.state": 0,
    "jitgrad.storage": 1,
    "jitgrad.layout": 1,
    "jitgrad.memory_format": 1,
    "jitgrad.printing": 1,
    "jitgrad.return_types": 1,
    "jitgrad.kernels": 2,
    "jitgrad.ops": 2,
    "jitgrad.rng": 2,
    "jitgrad.rng_counts": 2,
    "jitgrad.autograd.hooks": 3,
    "jitgrad.autograd.node": 3,
    "jitgrad.autograd.views": 3,
    "jitgrad.tensor": 4,
    "jitgrad.autograd": 5,
    "jitgrad.dispatch": 6,
    "jitgrad.amp": 7,
    "jitgrad.array_api": 7,
    "jitgrad.compile": 7,
    "jitgrad.distributed": 7,
    "jitgrad.fft": 7,
    "jitgrad.func": 7,
    "jitgrad.interop": 7,
    "jitgrad._C": 7,
    "jitgrad.legacy": 7,
    "jitgrad.linalg": 7,
    "jitgrad.masked": 7,
    "jitgrad.nn": 7,
    "jitgrad.optim": 7,
    "jitgrad.random": 7,
    "jitgrad.serialization": 7,
    "jitgrad.settings": 7,
    "jitgrad.signal": 7,
    "jitgrad.special": 7,
    "jitgrad.utils": 7,
    "jitgrad.typeinfo": 7,
    "jitgrad.viz": 7,
    "jitgrad": 8,  # __init__ alone: every other module has its own line
    "jitgrad.demo": 8,
}


class Import(NamedTuple):
    target: str
    line: int


def part_of(module: str) -> str | None:
    """The line of LAYERS that a module falls under; the package itself stands for no submodule."""
    name = module
    while name not in LAYERS or (name == PACKAGE and module != PACKAGE):
        if "." not in name:
            return None
        name = name.rpartition(".")[0]
    return name


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path) -> dict[str, Path]:
    return {module_name(path, root): path for path in sorted((root / PACKAGE).rglob("*.py"))}


def imports(module: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """Every import of this package in a file, wherever it stands, but for TYPE_CHECKING blocks."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"), str(path))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            # `from package import name` imports a module where there is one of that name.
            joined = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in known else base for name in joined]
        else:
            continue
        for name in dict.fromkeys(names):
            if name == PACKAGE or name.startswith(PACKAGE + "."):
                yield Import(name, node.lineno)


def violations(root: Path) -> list[str]:
    known = modules(root)
    found = []
    uses: dict[str, dict[str, str]] = {}  # part -> part of the same layer -> where
    for module, path in known.items():
        here = part_of(module)
        place = path.relative_to(root)
        if here is None:
            found.append(f"{place}:1: {module} has no layer: give it a line in LAYERS")
            continue
        for target, line in imports(module, path, known):
            there = part_of(target)
            if there is None or there == here:
                continue  # a target without a layer is reported at its own file
            if LAYERS[there] == LAYERS[here]:
                uses.setdefault(here, {}).setdefault(there, f"{place}:{line}")
            elif LAYERS[there] > LAYERS[here]:
                found.append(
                    f"{place}:{line}: {module} (layer {LAYERS[here]}) imports {target} "
                    f"(layer {LAYERS[there]}): imports point downward only"
                )
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]
        steps = (f"{user} imports {used} at {uses[user][used]}" for user, used in pairwise(cycle))
        found.append("parts of one layer import each other: " + ", ".join(steps))
    return found


def test_imports_point_downward() -> None:
    assert modules(ROOT), f"no modules of {PACKAGE} under {ROOT}"
    found = violations(ROOT)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import jitgrad.tensor", "storage.py:1: jitgrad.storage (layer 1) imports jitgrad.tensor"),
        ("from . import nn", "storage.py:1: jitgrad.storage (layer 1) imports jitgrad.nn"),
        ("from .nn.functional import relu", "(layer 1) imports jitgrad.nn.functional"),
        ("def f():\n    from jitgrad import Tensor", "storage.py:2: jitgrad.storage"),
        ("from .layout import strides", None),
        ("from .tensor import Tensor", "storage.py:1: jitgrad.storage (layer 1)"),
        ("if TYPE_CHECKING:\n    from .tensor import Tensor", None),
        ("from . import config\nfrom .errors import shape_error\nimport numpy", None),
    ],
)
def test_the_check_itself(tmp_path: Path, source: str, expected: str | None) -> None:
    package = tmp_path / PACKAGE
    for name in ("__init__", "config", "errors", "layout", "tensor", "nn/__init__"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / f"{name}.py").touch()
    (package / "storage.py").write_text(source)
    found = violations(tmp_path)
    assert bool(found) == bool(expected)
    assert expected is None or expected in found[0]


def test_a_cycle_within_a_layer_is_refused(tmp_path: Path) -> None:
    (tmp_path / PACKAGE).mkdir()
    (tmp_path / PACKAGE / "storage.py").write_text("from .layout import strides")
    (tmp_path / PACKAGE / "layout.py").write_text("\nfrom .storage import Storage")
    (found,) = violations(tmp_path)
    assert "jitgrad.storage imports jitgrad.layout at jitgrad/storage.py:1" in found
    assert "jitgrad.layout imports jitgrad.storage at jitgrad/layout.py:2" in found


def test_a_module_without_a_layer_is_refused(tmp_path: Path) -> None:
    (tmp_path / PACKAGE).mkdir()
    (tmp_path / PACKAGE / "novel.py").touch()
    assert violations(tmp_path) == [
        "jitgrad/novel.py:1: jitgrad.novel has no layer: give it a line in LAYERS"
    ]
