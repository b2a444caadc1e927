"""The kernels of an update rule: its texts and dtypes in, source out (see dispatch/rules.py)."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ..dtypes import dtype
from .elementwise import load, numpy_name, store
from .expression import parse, scalar_source

Steps = Sequence[tuple[str, str]]  # assignments: a name and what it becomes

_ELEMENTS = """
import numpy as np
{imports}
T = {compute}
{constants}

def kernel({pointers}, {strides}, n, extras):
    {heads}
    if {unit}:
        for i in range(n):
            {unit_body}
    else:
        for i in range(n):
            {body}
"""

_SCALARS = """
import numpy as np
{imports}

def kernel({pointers}, {strides}, n, extras):
    {heads}
"""


class Operands:
    """The operands of a rule's kernels: tensors, single elements, and last an array of numbers."""

    def __init__(
        self,
        tensors: Sequence[str],
        scalars: Sequence[str],
        numbers: Sequence[str],
        stored: Sequence[dtype],
    ) -> None:
        self.names = (*tensors, *scalars)
        self.wide = len(tensors)
        self.numbers = numbers
        self.stored = stored

    def _arguments(self) -> dict[str, str]:
        count = range(len(self.names) + 1)
        return {
            "pointers": ", ".join(f"p{i}" for i in count),
            "strides": ", ".join(f"s{i}" for i in count),
        }

    def _imports(self) -> str:
        pointers = sorted({f"p_{d.name}" for d in self.stored} | {"p_float64"})
        return f"from jitgrad.kernels.abi import {', '.join(pointers)}"

    def _heads(self, steps: Steps) -> list[str]:
        """What comes once per call: pointers, then single elements, numbers and ``steps``, all in
        float64."""
        lines = [f"a{i} = p_{d.name}(p{i})" for i, d in enumerate(self.stored)]
        lines.append(f"numbers = p_float64(p{len(self.stored)})")
        lines += [f"{x} = numbers[{i}]" for i, x in enumerate(self.numbers)]
        lines += [f"{x} = np.float64(a{i}[0])" for i, x in enumerate(self.names) if i >= self.wide]
        return lines + [f"{name} = {text}" for name, text in steps]

    def scalar_kernel(self, steps: Steps) -> str:
        """The source of the kernel that assigns to single elements."""
        assigned = {name for name, _ in steps}
        lines = self._heads(steps)
        for i, (x, d) in enumerate(zip(self.names, self.stored, strict=True)):
            if i >= self.wide and x in assigned:
                lines.append(f"a{i}[0] = {store(x, d)}")
        return _SCALARS.format(
            imports=self._imports(), heads="\n    ".join(lines), **self._arguments()
        )

    def element_kernel(self, once: Steps, each: Steps) -> str:
        """The source of the kernel that updates elements: ``once`` is computed in float64 for all
        of a call's elements, ``each`` for every one, in the parameters' dtype."""
        compute = self.stored[0]
        heads = self._heads(once)
        scalars = {x for i, x in enumerate(self.names) if i >= self.wide}
        single = {*self.numbers, *scalars, *(name for name, _ in once)}
        used = {x for _, text in each for x in parse(text).names} & single
        typed = {x: f"{x}_" for x in sorted(used)}
        heads += [f"{name} = T({x})" for x, name in typed.items()]
        constants: dict[str, str] = {}
        called: set[str] = set()
        lines = []
        for index, (name, text) in enumerate(each):
            called.update(parse(text).functions)
            body, definitions = scalar_source(text, compute)
            names = dict(typed)
            for line in definitions.splitlines():
                constant, value = line.split(" = ")
                names[constant] = f"k{index}_{constant}"
                constants[names[constant]] = value
            lines.append(f"{name} = {_renamed(body, names)}")
        assigned = {name for name, _ in each}
        tensors = self.names[: self.wide]

        def loop(index: str) -> str:
            places = [f"a{i}[{index.format(i=i)}]" for i in range(self.wide)]
            reads = [
                f"{x} = {load(place, d, compute)}"
                for x, place, d in zip(tensors, places, self.stored, strict=False)
            ]
            writes = [
                f"{place} = {store(x, d)}"
                for x, place, d in zip(tensors, places, self.stored, strict=False)
                if x in assigned and x != "grad"
            ]
            return ("\n" + " " * 12).join([*reads, *lines, *writes])

        imports = self._imports()
        if called:
            imports += f"\nfrom jitgrad.kernels.scalar import {', '.join(sorted(called))}"
        return _ELEMENTS.format(
            imports=imports,
            compute=numpy_name(compute),
            constants="\n".join(f"{name} = {value}" for name, value in constants.items()),
            heads="\n    ".join(heads),
            unit=" and ".join(f"s{i} == 1" for i in range(self.wide)),
            unit_body=loop("i"),
            body=loop("i * s{i}"),
            **self._arguments(),
        )


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return ast.unparse(_Renamer(names).visit(ast.parse(text, mode="eval")))
