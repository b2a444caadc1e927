"""Update rules as text, one compiled kernel each.

An update is a sequence of assignments over the names of a parameter, its gradient, its state and
some numbers, for instance SGD with momentum::

    momentum_buffer = momentum * momentum_buffer + rate * grad
    param = param - lr * momentum_buffer

The kernel reads every tensor once and writes back those that are assigned to, whatever their
strides. Numbers are read from one array of float64, so that a new learning rate compiles nothing.
The same text, read as expressions over Tensors, is the differentiable form of the update.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..dispatch.elementwise import check_memory, check_writable, functions
from ..dispatch.plans import PlanCache
from ..dtypes import BY_NAME, dtype
from ..errors import Written
from ..kernels import cache, drivers
from ..kernels.elementwise import load, numpy_name, store
from ..kernels.expression import parse, scalar_source
from ..layout import Layout, iteration_order
from ..tensor import Tensor

_SOURCE = """
import numpy as np
{imports}
T = {compute}
{constants}

def kernel({pointers}, {strides}, n, extras):
    {casts}
    numbers = p_float64({numbers_pointer})
    {numbers}
    if {unit}:
        for i in range(n):
            {unit_body}
    else:
        for i in range(n):
            {body}
"""


class Update:
    """An update rule.

    Args:
        tensors: names of the tensors; ``param`` first, then ``grad`` (which is never written).
        numbers: names of the numbers.
        steps: the assignments, in order; names that are neither are temporaries.
    """

    def __init__(self, tensors: str, numbers: str, steps: Sequence[str]) -> None:
        self.tensors = tuple(tensors.split())
        self.numbers = tuple(numbers.split())
        assignments = [step.partition(" = ") for step in steps]
        self.steps = [(name, text) for name, _, text in assignments]
        assigned = {name for name, _ in self.steps}
        self.written = tuple(x for x in self.tensors if x in assigned and x != "grad")
        self._positions = [self.tensors.index(x) for x in self.written]
        self._plans = PlanCache()

    def _source(self, stored: Sequence[dtype], compute: dtype) -> str:
        constants: dict[str, str] = {}
        called: set[str] = set()
        lines = []
        for index, (name, text) in enumerate(self.steps):
            called.update(parse(text).functions)
            body, definitions = scalar_source(text, compute)
            names = {}
            for line in definitions.splitlines():
                constant, value = line.split(" = ")
                names[constant] = f"k{index}_{constant}"
                constants[names[constant]] = value
            lines.append(f"{name} = {_renamed(body, names)}")

        def loop(steps: Sequence[str]) -> str:
            reads = [
                f"{x} = {load(f'a{i}[{step}]', d, compute)}"
                for i, (x, step, d) in enumerate(zip(self.tensors, steps, stored, strict=True))
            ]
            writes = [
                f"a{i}[{steps[i]}] = {store(self.tensors[i], stored[i])}" for i in self._positions
            ]
            return ("\n" + " " * 12).join([*reads, *lines, *writes])

        count = len(self.tensors)
        pointers = sorted({f"p_{d.name}" for d in stored} | {"p_float64"})
        imports = f"from jitgrad.kernels.abi import {', '.join(pointers)}"
        if called:
            imports += f"\nfrom jitgrad.kernels.scalar import {', '.join(sorted(called))}"
        numbers = [f"{x} = T(numbers[{i}])" for i, x in enumerate(self.numbers)]
        return _SOURCE.format(
            imports=imports,
            compute=numpy_name(compute),
            constants="\n".join(f"{name} = {value}" for name, value in constants.items()),
            pointers=", ".join(f"p{i}" for i in range(count + 1)),
            strides=", ".join(f"s{i}" for i in range(count + 1)),
            casts="; ".join(f"a{i} = p_{d.name}(p{i})" for i, d in enumerate(stored)),
            numbers_pointer=f"p{count}",
            numbers="\n    ".join(numbers),
            unit=" and ".join(f"s{i} == 1" for i in range(count)),
            unit_body=loop(["i"] * count),
            body=loop([f"i * s{i}" for i in range(count)]),
        )

    def _plan(self, layouts: tuple[Layout, ...]) -> tuple[drivers.Driver, np.ndarray]:
        stored = [x.dtype for x in layouts]
        address = cache.kernel(self._source(stored, stored[0]), len(layouts) + 1)
        shape = layouts[0].shape
        strides = [list(x.strides) for x in layouts]
        order = iteration_order(shape, [tuple(s) for s in strides])
        return drivers.plan_loops(
            address,
            [shape[d] for d in order],
            [[s[d] for d in order] for s in strides] + [[0] * len(order)],
            [*(d.itemsize for d in stored), BY_NAME["float64"].itemsize],
            work=len(self.steps),
        )

    def run(self, tensors: tuple[Tensor, ...], numbers: np.ndarray, where: Written | None) -> None:
        """Apply the rule in place, unrecorded.

        Args:
            tensors: in the order of the names, all of one shape.
            numbers: float64, in the order of the names.
            where: the caller's line, for errors about what was overwritten.
        """
        key = tuple([t.layout for t in tensors])
        try:
            run, spec = self._plans[key]
        except KeyError:
            run, spec = self._plans.add(key, self._plan(key))
            check_memory(tensors[0], ())
        arguments: list[Any] = [spec]
        for t in tensors:
            arguments += (t.storage.buffer, t.offset)
        if tensors[0].storage.owner is not None:
            check_writable(tensors[0])
        run(*arguments, numbers, 0)
        for i in self._positions:
            counter = tensors[i].counter
            counter.version += 1
            counter.writer = where

    def run_recorded(self, tensors: tuple[Tensor, ...], numbers: Mapping[str, Any]) -> None:
        """The same by recorded operations, for ``differentiable=True``."""
        values: dict[str, Any] = dict(zip(self.tensors, tensors, strict=True)) | dict(numbers)
        scope = {"__builtins__": {}, **functions}
        for name, text in self.steps:
            values[name] = eval(text, scope, values)
        for name, tensor in zip(self.tensors, tensors, strict=True):
            if name in self.written:
                tensor.copy_(values[name])


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return ast.unparse(_Renamer(names).visit(ast.parse(text, mode="eval")))
