"""Scalar formulas of the operator table, turned into source for a given dtype.

A formula is one Python expression over the names of an operator's inputs (``grad * other``). It is
read here as scalar code for a kernel; the same text is read elsewhere as an expression over
Tensors. Numba's own promotion is not PyTorch's (float32 * 2 is float64, uint8 + uint8 is int64), so
every literal gets the type of the computation, and integer results are wrapped after each step.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..dtypes import BOOL, COMPLEX, HALVES, INTEGER, dtype


class Formula(NamedTuple):
    """A parsed formula.

    Attributes:
        text: as written in the table.
        names: the free names, in order of appearance, functions left out.
        functions: the functions it calls (from kernels/scalar).
    """

    text: str
    names: tuple[str, ...]
    functions: tuple[str, ...]


@functools.cache
def parse(text: str) -> Formula:
    """Parse a formula; ValueError where it is more than one expression of names and calls."""
    tree = ast.parse(text, mode="eval")
    functions = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    names = [
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id not in functions
    ]
    return Formula(text, tuple(dict.fromkeys(names)), tuple(sorted(functions)))


# What a formula says for complex numbers alone: of a real number it is the number itself.
_COMPLEX_ONLY = ("conj", "real")


def imports(texts: Iterable[str], compute: dtype) -> str:
    """The import of the scalar functions that formulas call when computed in a dtype."""
    complex_ = compute.category == COMPLEX
    names = {name for text in texts for name in parse(text).functions}
    names = names | {"divide"} if complex_ else names.difference(_COMPLEX_ONLY)
    if compute in HALVES and "nextafter" in names:  # the neighbours are those of the stored format
        names = names - {"nextafter"} | {f"nextafter_{compute.name} as nextafter"}
    module = "jitgrad.kernels.scalar.complexes" if complex_ else "jitgrad.kernels.scalar"
    return f"from {module} import {', '.join(sorted(names))}" if names else ""


# Functions with a version without branches, ``short_<name>``, for arguments whose quotient is short
# enough to be exact; ``is_short`` of the arguments tells.
_DIVISIONS = ("fmod", "remainder", "floor_divide")


@functools.cache
def shortened(text: str) -> tuple[str, tuple[str, ...]]:
    """A formula for short quotients, and the conditions it holds on.

    >>> shortened("-grad * floor_divide(self, other)")
    ('-grad * short_floor_divide(self, other)', ('is_short(self, other)',))
    """
    tree, conditions = ast.parse(text, mode="eval"), []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in _DIVISIONS:
            conditions.append(ast.unparse(ast.Call(ast.Name("is_short"), node.args, [])))
            node.func.id = f"short_{node.func.id}"
    return ast.unparse(tree), tuple(conditions)


@functools.cache
def conjugated(text: str, but: frozenset[str]) -> str:
    """A formula with every name conjugated save those of ``but``.

    >>> conjugated("grad * other", frozenset({"grad"}))
    'grad * conj(other)'
    """
    tree = _Conjugated(but).visit(ast.parse(text, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree))


class _Conjugated(ast.NodeTransformer):
    def __init__(self, but: frozenset[str]) -> None:
        self.but = but

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.but:
            return node
        return ast.Call(ast.Name("conj", ast.Load()), [node], [])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.args = [self.visit(argument) for argument in node.args]
        return node


class _Typed(ast.NodeTransformer):
    """Types the literals of a formula, and wraps the steps of integer arithmetic.

    Complex quotients are calls of a function that does not overflow half-way.
    """

    def __init__(self, compute: dtype) -> None:
        self.compute = compute
        self.constants: dict[Any, str] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, bool) or self.compute.category == BOOL:
            return node
        name = self.constants.setdefault(node.value, f"c{len(self.constants)}")
        return ast.Name(name, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if self.compute.category != COMPLEX and getattr(node.func, "id", "") in _COMPLEX_ONLY:
            return node.args[0]
        return node

    def _wrapped(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        if self.compute.category == COMPLEX:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                return ast.Call(ast.Name("divide", ast.Load()), [node.left, node.right], [])
            return node
        if self.compute.category != INTEGER:
            return node
        return ast.Call(ast.Name("T", ast.Load()), [node], [])

    visit_BinOp = _wrapped

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        # `not` yields a bool whatever it is applied to.
        if isinstance(node.op, ast.Not):
            self.generic_visit(node)
            return node
        return self._wrapped(node)


def scalar_source(text: str, compute: dtype) -> tuple[str, str]:
    """The formula as typed scalar source, and the definitions of the constants it names."""
    typed = _Typed(compute)
    tree = typed.visit(ast.parse(text, mode="eval"))
    constants = "\n".join(f"{name} = T({value!r})" for value, name in typed.constants.items())
    return ast.unparse(ast.fix_missing_locations(tree)), constants
