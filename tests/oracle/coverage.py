"""Which of PyTorch's operators, modules and optimizers jitgrad has, and which of them pass on the
samples of PyTorch's databases.

    python -m tests.oracle.coverage [FILE]

Prints the table by family and writes FILE (docs/operators.md).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle import moduledb, opdb, optimdb
from tests.oracle.exceptions import EXCEPTIONS, reason
from tests.oracle.libraries import jitgrad

ROOT = Path(__file__).parents[2]
CLASSES = {
    "UnaryUfuncInfo": "elementwise, one input",
    "BinaryUfuncInfo": "elementwise, two inputs",
    "ReductionOpInfo": "reductions",
    "ShapeFuncInfo": "shapes",
    "SpectralFuncInfo": "fft",
}
PREFIXES = {
    "nn.functional": "neural networks",
    "linalg": "linear algebra",
    "fft": "fft",
    "special": "special functions",
    "masked": "masked tensors",
    "signal.windows": "windows",
}


@dataclass
class Operator:
    """All entries of a database with one name; modules and optimizers are families of their own."""

    name: str
    family: str
    present: bool
    differs: dict[str, str] = field(default_factory=dict)  # aspect -> the first difference


def family(op: Any) -> str:
    """The heading an entry is listed under."""
    for prefix, name in PREFIXES.items():
        if op.name.startswith(f"{prefix}."):
            return name
    return CLASSES.get(type(op).__name__, "other")


def operators() -> Iterator[Operator]:
    """Every operator of the database, run."""
    found: dict[str, Operator] = {}
    there = {op.name for op in opdb.present()}
    for op in opdb.database():
        found.setdefault(op.name, Operator(op.name, family(op), op.name in there))
    # Processes of their own, not forks: kernels have run in threads here.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context) as pool:
        for name, differs in pool.map(_differences, range(len(opdb.present())), chunksize=8):
            found[name].differs.update(differs)
    yield from found.values()


def _differences(index: int) -> tuple[str, dict[str, str]]:
    """What differs in one entry, exceptions left out: aspect -> the first difference."""
    op = opdb.present()[index]
    variant = op.variant_test_name
    found: dict[str, str] = {}
    jitgrad().set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = {
            d: opdb.compared(op, d)
            for d in opdb.dtypes_of(op)
            if reason(op.name, variant, "function", d) is None
        }
        if reason(op.name, variant, "errors") is None:
            results[""] = {"errors": opdb.error_differences(op)}
    for dtype, differences in results.items():
        for aspect, told in differences.items():
            if told and reason(op.name, variant, aspect, dtype) is None:
                found.setdefault(aspect, told[0])
    return op.name, found


def modules() -> Iterator[Operator]:
    """Every module of its database, run."""
    there = moduledb.present()
    for info in moduledb.database():
        differs = moduledb.compared(info) if info in there else {}
        first = {aspect: told[0] for aspect, told in differs.items()}
        yield Operator(moduledb.name_of(info), "modules", info in there, first)


def optimizers() -> Iterator[Operator]:
    """Every optimizer of its database, run."""
    there = optimdb.present()
    for info in optimdb.database():
        differs = optimdb.unexpected(info) if info in there else {}
        first = {aspect: told[0] for aspect, told in differs.items()}
        yield Operator(f"optim.{info.name}", "optimizers", info in there, first)


def table(entries: list[Operator]) -> str:
    """The counts by family, as Markdown."""
    families = sorted({entry.family for entry in entries})
    lines = ["| family | in PyTorch | present | passing | failing |", "|---|---|---|---|---|"]
    for name in [*families, "all"]:
        rows = [entry for entry in entries if name in (entry.family, "all")]
        present = [entry for entry in rows if entry.present]
        failing = [entry for entry in present if entry.differs]
        lines.append(
            f"| {name} | {len(rows)} | {len(present)} | {len(present) - len(failing)} | "
            f"{len(failing)} |"
        )
    return "\n".join(lines)


def _exceptions() -> dict[str, str]:
    of_optimizers = {f"optim.{key}": why for key, why in optimdb.EXCEPTIONS.items()}
    return EXCEPTIONS | moduledb.EXCEPTIONS | of_optimizers


def accuracy() -> str:
    """The stated errors of the float functions, as Markdown."""
    from jitgrad.kernels import scalar

    lines = ["| function | float32 | float64 | |", "|---|---|---|---|"]
    lines += [f"| {name} | {a} | {b} | |" for name, (a, b) in sorted(scalar.ULP.items())]
    lines += [
        f"| {name} | 0.51 | {bound} | {where} |"
        for name, (bound, where) in sorted(scalar.SPECIAL_ULP.items())
    ]
    return "\n".join(lines)


def document(entries: list[Operator]) -> str:
    """docs/operators.md."""
    text = [
        "# Operators",
        "Written by `python -m tests.oracle.coverage` from PyTorch's own operator database: every "
        "operator of it that jitgrad has by the same name is run on the database's samples in "
        f"{', '.join(opdb.DTYPES)} and compared with PyTorch in values, dtypes, shapes, strides, "
        "sharing of memory, gradients, second gradients, methods, in-place and `out=` variants "
        "and errors. Modules and optimizers are run on databases of their own: modules with the "
        "same parameters in training and in evaluation, optimizers for some steps along the same "
        "gradients.",
        table(entries),
        "## Accuracy",
        "The largest errors of the functions that formulas are made of, in units of the last place "
        "of the exact result, on a machine with fused multiply-add. `tests/kernels` measures them, "
        "those in the first part over the whole range; arithmetic, `sqrt` and rounding are exact.",
        accuracy(),
        "## Differences",
        "Where jitgrad differs from PyTorch, and why. A colon names the aspect or the dtype.",
        "\n".join(f"- `{key}`: {why}" for key, why in sorted(_exceptions().items())),
    ]
    failing = [entry for entry in entries if entry.differs]
    if failing:
        text += ["## Failing"]
        text += ["\n".join(f"- `{x.name}`: {', '.join(x.differs)}" for x in failing)]
    for title, there in (("Present", True), ("Missing", False)):
        text.append(f"## {title}")
        for name in sorted({entry.family for entry in entries}):
            names = [x.name for x in entries if x.family == name and x.present is there]
            if names:
                text.append(f"**{name}**: " + " ".join(f"`{x}`" for x in names))
    return "\n\n".join(text) + "\n"


def main() -> None:
    """Run, print, write."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "operators.md"
    jitgrad().set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = [*operators(), *modules(), *optimizers()]
    for entry in entries:
        for aspect, told in entry.differs.items():
            print(f"{entry.name}: {aspect}: {told}"[:300])
    print(table(entries))
    target.write_text(document(entries))


if __name__ == "__main__":
    main()
