"""What a row of the operator table says.

A row names an operator, its inputs and its derivatives. Everything else follows from it: compiled
kernels, the function, the method, the in-place and ``out=`` variants, the autograd node, the
documentation and the derived tests.

A derivative is a formula over names: the operator's inputs, ``result``, the incoming ``grad`` and,
for structured operators, attributes such as ``dim``. The names it uses decide what a node saves,
and each is saved only if the input the formula belongs to requires grad.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..dtypes import BOOL, COMPLEX, dtype
from ..kernels.elementwise import CONDITIONS
from ..kernels.expression import conjugated, parse

_NOT_CONJUGATED = CONDITIONS | {"grad"}


class Promotion(enum.Enum):
    """How the dtype of the computation and of the result follow from the inputs."""

    ARITHMETIC = "both are the promoted dtype"
    INTEGRAL = "as ARITHMETIC, bools become int64"
    FLOAT = "as ARITHMETIC, integers become the default float dtype"
    COMPARE = "computed in the promoted dtype, the result is bool"
    LOGICAL = "every input is read as a bool, the result is bool"


@dataclass(frozen=True)
class Elementwise:
    """An elementwise operator.

    Attributes:
        name: the function's name; ``<name>_`` is the in-place variant.
        inputs: argument names, PyTorch's; all but the first may be Python numbers.
        forward: the formula of the result.
        grad: the formula of each differentiable input's gradient.
        underived: inputs whose derivative is refused in backward, and how the error names it.
        real_result: whether the result of complex numbers is real (a magnitude).
        complex_forward: the formula of complex numbers, where it is another.
        complex_grad: those of gradients, where the function is not holomorphic.
        complex_jvp: and how its tangents follow, where that is not the same formula.
        doc: one sentence for the docstring; the rest of it is derived.
        promote: how dtypes follow.
        categories: the lowest and the highest dtype category that is accepted.
        domain: an interval inside which the function is smooth (for tests).
        inplace, method: whether ``<name>_`` and ``Tensor.<name>`` exist.
        aliases: other public names of the same function.
        node: the autograd node's name; by default CamelCase of the name + ``Backward0``.
        node_of_number: the node's name where the last input is a Python number, if it is another.
        node_of_left_number: and where the first is.
        node_in_place: and where the result is written in place.
        integer_zero_division: whether an integer zero as last input is an error.
        left_number: whether the first input may be a Python number if another is a tensor.
        inline: whether kernels have this row's formula in the place of calls of it in other rows'
            formulas. Expressions over Tensors call the operator itself, which is recorded under its
            own name and brings its own derivatives.
        row_major: whether results and gradients are row-major whatever the strides of the inputs.
    """

    name: str
    inputs: tuple[str, ...]
    forward: str
    grad: Mapping[str, str] = field(default_factory=dict)
    underived: Mapping[str, str] = field(default_factory=dict)
    real_result: bool = False
    complex_forward: str = ""
    complex_grad: Mapping[str, str] = field(default_factory=dict)
    complex_jvp: Mapping[str, str] = field(default_factory=dict)
    doc: str = ""
    promote: Promotion = Promotion.ARITHMETIC
    categories: tuple[int, int] = (BOOL, COMPLEX)
    domain: tuple[float, float] = (-2.0, 2.0)
    inplace: bool = True
    method: bool = True
    aliases: tuple[str, ...] = ()
    node: str = ""
    node_of_number: str = ""
    node_of_left_number: str = ""
    node_in_place: str = ""
    integer_zero_division: bool = False
    left_number: bool = False
    inline: bool = False
    row_major: bool = False

    def __post_init__(self) -> None:
        known = {*self.inputs, "grad", "result"}
        derivatives = (self.grad, self.complex_grad, self.complex_jvp)
        for text in (self.forward, *(text for d in derivatives for text in d.values())):
            unknown = set(parse(text).names) - known
            if unknown:
                raise ValueError(f"{self.name}: formula {text!r} names unknown {sorted(unknown)}")
        taken = {"n", "i", "extras", "T", "np", "kernel"} & set(self.inputs)
        if taken:
            raise ValueError(f"{self.name}: inputs named like parts of a kernel: {sorted(taken)}")
        unknown = {*self.grad, *self.underived} - set(self.inputs)
        if unknown:
            raise ValueError(f"{self.name}: gradients of unknown inputs {sorted(unknown)}")

    @property
    def node_name(self) -> str:
        return self.node or camel_case(self.name) + "Backward0"

    def formula(self, compute: dtype) -> str:
        """The formula of the result in the dtype of the computation."""
        return self.complex_forward if self.complex_forward and compute.is_complex else self.forward

    def gradient(self, name: str, compute: dtype) -> str:
        """The formula of an input's gradient in the dtype of the computation.

        Of complex numbers it is PyTorch's: dL/dx + i dL/dy for z = x + iy. Of a holomorphic
        function with the derivative f' that is ``grad * conj(f')``; a formula is linear in
        ``grad``, and its functions commute with conj, so its other names are conjugated.
        """
        if not compute.is_complex:
            return self.grad[name]
        found = self.complex_grad.get(name)
        return found or conjugated(self.grad[name], _NOT_CONJUGATED)

    def tangent(self, name: str, compute: dtype) -> str:
        """The formula of the part that an input's tangent, named ``grad``, has in the result's."""
        if not compute.is_complex:
            return self.grad[name]
        for formulas in (self.complex_jvp, self.complex_grad):
            if name in formulas:
                return formulas[name]
        return self.grad[name]

    @property
    def booleans(self) -> frozenset[str]:
        """Inputs that are conditions: read as bools."""
        return CONDITIONS & frozenset(self.inputs)

    @property
    def passive(self) -> frozenset[str]:
        """Inputs left out of promotion: conditions, and a ``value`` that is cast to the result."""
        return (CONDITIONS | {"value"}) & frozenset(self.inputs)


@dataclass(frozen=True)
class Structured:
    """An operator whose derivative is a short function over Tensors (reductions, matmul, ...).

    Attributes:
        name: the operator's name.
        inputs: names of its tensor inputs.
        grad: for each differentiable input a function whose parameter names say what it needs:
            inputs, ``result``, ``grad``, attributes of the call, the input's ``layout``, or its
            ``position`` among the inputs. A function that makes the gradients of several inputs at
            once stands under all their names ("input weight"); it gets ``wanted``, a bool for each
            of them, and returns as many gradients.
        node: the autograd node's name.
        outputs: how many results carry gradients; with several, ``grad`` arrives as a tuple.
        fresh: whether every formula returns memory of its own (which a leaf may keep as .grad) or
            that of the incoming gradient.
        jvp: for inputs, a function that turns the input's ``tangent`` into its part of the
            result's, of parameters named as for ``grad``. Without it the gradient formula is
            transposed (dispatch/tangents.py), which is right for every row, and slower.
        holomorphic: whether formulas are those of complex numbers too, once all but the incoming
            gradient is conjugated (see Elementwise.gradient); else they say themselves what to do.
        edges: how many inputs a node has edges for: what follows the last differentiable one (an
            index, a weight) is saved, but not followed.
        together: the inputs whose gradients are made by one function, ``joint``; ``grad`` has
            functions for each of them too.
    """

    name: str
    inputs: tuple[str, ...]
    grad: Mapping[str, Callable[..., Any]]
    node: str = ""
    outputs: int = 1
    fresh: bool = False
    jvp: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    holomorphic: bool = True
    parameters: Mapping[str, tuple[str, ...]] = field(init=False)
    jvp_parameters: Mapping[str, tuple[str, ...]] = field(init=False)
    edges: int = field(init=False)
    together: tuple[str, ...] = field(init=False, default=())
    joint: Callable[..., Any] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        taken = {"grad", "tangent", "result", "layout", "position", "wanted"} & set(self.inputs)
        if taken:
            raise ValueError(f"{self.name}: inputs named like what formulas get: {sorted(taken)}")
        grad: dict[str, Callable[..., Any]] = {}
        parameters: dict[str, tuple[str, ...]] = {}
        for names, formula in self.grad.items():
            several = tuple(names.split())
            for index, name in enumerate(several):
                grad[name] = formula
                parameters[name] = tuple(inspect.signature(formula).parameters)
                if len(several) > 1:
                    grad[name] = functools.partial(_one_of_several, formula, index, len(several))
                    parameters[name] = tuple(p for p in parameters[name] if p != "wanted")
            if len(several) > 1:
                object.__setattr__(self, "together", several)
                object.__setattr__(self, "joint", formula)
        object.__setattr__(self, "grad", grad)
        object.__setattr__(self, "parameters", parameters)
        tangents = {
            name: tuple(inspect.signature(formula).parameters) for name, formula in self.jvp.items()
        }
        object.__setattr__(self, "jvp_parameters", tangents)
        followed = [i + 1 for i, name in enumerate(self.inputs) if name in self.grad]
        object.__setattr__(self, "edges", max(followed, default=len(self.inputs)))

    @property
    def node_name(self) -> str:
        return self.node or camel_case(self.name) + "Backward0"


def _one_of_several(joint: Callable[..., Any], index: int, count: int, **values: Any) -> Any:
    """One of the gradients that a function makes together."""
    return joint(wanted=tuple(i == index for i in range(count)), **values)[index]


ELEMENTWISE: dict[str, Elementwise] = {}
STRUCTURED: dict[str, Structured] = {}


def camel_case(name: str) -> str:
    """PyTorch's node name of an operator: ``log_softmax`` -> ``LogSoftmax``."""
    return "".join(part.capitalize() for part in name.split("_"))


def op(name: str, inputs: str, forward: str, **details: Any) -> Elementwise:
    """Add an elementwise operator to the table."""
    row = Elementwise(name, tuple(inputs.split()), forward, **details)
    if ELEMENTWISE.setdefault(name, row) is not row:
        raise ValueError(f"operator {name} is in the table twice")
    return row


class _Inlined(ast.NodeTransformer):
    """Replaces calls of inline rows by their formulas."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        row = ELEMENTWISE.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if row is None or not row.inline:
            return node
        given = dict(zip(row.inputs, node.args, strict=True))
        return _Substituted(given).visit(ast.parse(row.forward, mode="eval").body)


class _Substituted(ast.NodeTransformer):
    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.given.get(node.id, node)


@functools.cache
def inlined(text: str) -> str:
    """A formula as kernels read it: calls of inline rows replaced by what those compute."""
    tree = _Inlined().visit(ast.parse(text, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree))


def structured(name: str, inputs: str, **details: Any) -> Structured:
    """Add a structured operator to the table."""
    row = Structured(name, tuple(inputs.split()), **details)
    if STRUCTURED.setdefault(name, row) is not row:
        raise ValueError(f"operator {name} is in the table twice")
    return row
