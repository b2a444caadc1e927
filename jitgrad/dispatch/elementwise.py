"""Elementwise operators: for each row its function, in-place and ``out=`` forms, and its nodes."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import dtypes, errors
from ..autograd.cut import found, unrecorded
from ..autograd.node import Grads, Node, OperationNode, Released
from ..autograd.saved import note_inputs, pack_result, unpack, wants_grad
from ..autograd.saved import recorded as note_recorded
from ..autograd.views import check_inplace, gradient_edge, rebase_history, requires_grad
from ..kernels import drivers
from ..kernels.expression import parse
from ..layout import Layout, has_internal_overlap, may_overlap
from ..ops import elementwise as _rows  # noqa: F401  (fills the table)
from ..ops.table import ELEMENTWISE, Elementwise
from ..state import GRAD, modes, next_sequence_number
from ..storage import INFERENCE_COUNTER, ReadOnly, Storage
from ..tensor import Tensor
from . import plans, tangents, templates
from .make import NUMBERS, constant, python_number
from .record import saver

BYTE = np.dtype(np.uint8)
_new = object.__new__

functions: dict[str, Callable[..., Tensor]] = {}


class ElementwiseNode(OperationNode):
    """A node of an elementwise row; ``apply`` is expanded per set of inputs that want gradients."""

    __slots__ = ()

    row: Elementwise
    wanted: tuple[str, ...]
    saves: tuple[str, ...]
    formulas: dict[str, Callable[..., Any]]

    @property
    def saved_names(self) -> Mapping[str, int | None]:
        return {
            name: self.saves.index(name) if name in self.saves else None
            for name in plans.formula_names(self.row, tuple(self.row.grad))[1:]
        }

    def _visible(self) -> tuple[int, ...]:
        # Of conditions and parameters, which can have no gradient, PyTorch's nodes have no edge;
        # nor of numbers where it has another node for them.
        row = self.row
        numbers = self.name() == row.node_name
        return tuple(
            i
            for i, (name, of) in enumerate(zip(row.inputs, self._plan.inputs, strict=True))
            if (name in row.grad or name in row.underived) and (numbers or not of.wrapped)
        )

    def name(self) -> str:
        row = self.row
        if row.node_in_place and self._plan.existing:
            return row.node_in_place
        if row.node_of_number and self._plan.inputs[-1].wrapped:
            return row.node_of_number
        if row.node_of_left_number and self._plan.inputs[0].wrapped:
            return row.node_of_left_number
        return row.node_name

    def apply_recorded(self, grad: Tensor | None) -> Grads:
        """The same formulas, read as expressions over Tensors and so recorded."""
        if self._saved.__class__ is Released:
            raise errors.backward_twice(self)
        if grad is None:
            return (None,) * len(self.next_edges)
        values: dict[str, Any] = {"grad": grad}
        for index, name in enumerate(self.saves):
            value = unpack(self, index)
            if value.layout.wrapped:  # or a formula of it alone (log(2)) would be float32
                value = value.to(self._plan.compute)
            values[name] = value
        grads: list[Tensor | None] = []
        for name, layout in zip(self.row.inputs, self._plan.inputs, strict=True):
            if name not in self.wanted:
                grads.append(None)
                continue
            text = self.row.gradient(name, self._plan.compute)
            result = self.formulas[text](*(values[x] for x in parse(text).names))
            shape = self._plan.out.shape
            if result.layout.shape != shape:
                result = result.expand(shape)
            grads.append(_finish(result, layout))
        return tuple(grads)


def _finish(grad: Tensor, layout: Layout) -> Tensor:
    """Sum a gradient over the dimensions its input was broadcast along, in the input's dtype."""
    if grad.layout.shape != layout.shape:
        grad = grad.sum_to_size(layout.shape)
    if grad.layout.dtype is not layout.dtype:
        if grad.layout.dtype.is_complex and not layout.dtype.is_complex:
            grad = grad.real
        grad = grad.to(layout.dtype)
    return grad


def _passed_on(count: int, positions: Sequence[int]) -> Callable[[Node, Any], Grads]:
    """``apply`` where every gradient is the incoming one (add): nothing to launch."""

    def apply(node: Node, grad: Any) -> Grads:
        if grad is None:
            return (None,) * count
        result: list[Any] = [None] * count
        for i in positions:
            layout = node._plan.inputs[i]
            same = grad.layout.shape == layout.shape and grad.layout.dtype is layout.dtype
            result[i] = grad if same else _finish(grad, layout)
        return tuple(result)

    return apply


def _node_class(row: Elementwise, wanted: tuple[str, ...]) -> type[ElementwiseNode]:
    """The node class for one choice of inputs that want gradients."""
    refused = [text for name, text in row.underived.items() if name in wanted]
    if refused:
        return _refusing(row, refused[0])
    names = plans.formula_names(row, wanted)
    saves = names[1:]
    positions = [row.inputs.index(w) for w in wanted]
    passes_on = all(row.grad[w] == "grad" for w in wanted)
    if passes_on:
        apply = _passed_on(len(row.inputs), positions)
    else:
        source = templates.apply_source(saves, positions, len(row.inputs), fused=True)

        def backward(operands: tuple[Layout, ...], plan: plans.Plan) -> plans.BackwardPlan:
            return plans.BackwardPlan(row, wanted, names, operands, plan)

        apply = templates.define(
            source,
            "apply",
            {
                "backward_twice": errors.backward_twice,
                "backward": backward,
                "plans": plans.PlanCache(),
                "unpack": unpack,
                "finish": _finish,
                "empty": np.empty,
                "BYTE": BYTE,
                "new": _new,
                "Storage": Storage,
                "Tensor": Tensor,
            },
        )
    members = {
        "__slots__": (),
        "row": row,
        "wanted": wanted,
        "saves": saves,
        "apply": apply,
        "save": staticmethod(saver(saves, row.inputs)) if saves else None,
        "_fresh": tuple(x in wanted for x in row.inputs),
        "formulas": _formulas,
    }
    return type(row.node_name, (ElementwiseNode,), members)


def _refusing(row: Elementwise, what: str) -> type[ElementwiseNode]:
    """The node class where an input wants a gradient that there is no formula for."""

    def refuse(node: Node, grad: Any) -> Grads:
        raise NotImplementedError(
            f"the derivative for '{what}' is not implemented: {row.name}() has none for it, so "
            "detach() that input"
        )

    members = {"__slots__": (), "row": row, "wanted": (), "saves": (), "save": None,
               "apply": refuse, "apply_recorded": refuse}  # fmt: skip
    return type(row.node_name, (ElementwiseNode,), members)


class _LazyFormulas(dict[str, Callable[..., Any]]):
    """Derivative formulas as functions of Tensors, compiled when first differentiated."""

    def __missing__(self, text: str) -> Callable[..., Any]:
        source = f"lambda {', '.join(parse(text).names)}: {text}"
        self[text] = eval(source, dict(functions))
        return self[text]


_formulas = _LazyFormulas()


class _LazyClasses(dict[int, Any]):
    """The node classes of a row by the bit mask of inputs that want gradients."""

    def __init__(self, row: Elementwise) -> None:
        super().__init__()
        self._row = row

    def __missing__(self, mask: int) -> type[ElementwiseNode] | None:
        wanted = tuple(
            x
            for i, x in enumerate(self._row.inputs)
            if mask >> i & 1 and (x in self._row.grad or x in self._row.underived)
        )
        self[mask] = _node_class(self._row, wanted) if wanted else None
        return self[mask]


class _Operator:
    """What the expanded function of one row calls off its hot path."""

    def __init__(self, row: Elementwise, defaults: dict[str, str]) -> None:
        self.row = row
        self.classes = _LazyClasses(row)
        self.defaults = defaults
        self.inplace_plans = plans.PlanCache()
        self.unchecked_plans = plans.PlanCache()  # of writes whose layouts need no further checks
        self.checked = row.integer_zero_division or row.name == "pow"
        source = templates.forward_source(
            row.name, row.inputs, defaults, bool(row.grad or row.underived), self.checked
        )
        self.function: Callable[..., Tensor] = templates.define(
            source,
            row.name,
            {
                "__name__": "jitgrad",
                "row": row,
                "plans": plans.PlanCache(),
                "forward": plans.forward,
                "operands": self.operands,
                "write": self.write,
                "check": self.check,
                "special": self.special,
                "untracked": self.untracked,
                "classes": self.classes,
                "NUMBERS": NUMBERS,
                "constant": constant,
                "modes": modes,
                "GRAD": GRAD,
                "gradient_edge": gradient_edge,
                "next_seq": next_sequence_number,
                "getframe": sys._getframe,
                "caller": errors.caller,
                "ours": errors.ours,
                "empty": np.empty,
                "BYTE": BYTE,
                "new": _new,
                "Storage": Storage,
                "Tensor": Tensor,
            },
        )
        self.function.__doc__ = docstring(row)
        self.function.__qualname__ = row.name

    def python_operator(self) -> Callable[..., Any]:
        """The function as a Python operator: NotImplemented for operands it does not know."""
        known: Any = self.function
        meant = types.FunctionType(known.__code__, {**known.__globals__, "operands": self.known})
        meant.__kwdefaults__ = known.__kwdefaults__
        meant.__doc__ = known.__doc__
        return meant

    def known(self, *given: Any) -> tuple[Tensor, ...] | None:
        """:meth:`operands`, or None if one of them is somebody else's."""
        try:
            return self.operands(*given)
        except TypeError:
            return None

    @functools.cached_property
    def inplace_function(self) -> Callable[..., Tensor]:
        """``<name>_``: expanded like the function, for writes that are not recorded."""
        source = templates.inplace_source(self.row.name, self.row.inputs, self.defaults)
        namespace = {
            "__name__": "jitgrad",
            "plans": self.unchecked_plans,
            "write_in_place": self.inplace,
            "requires_grad": requires_grad,
            "NUMBERS": NUMBERS,
            "INFERENCE_COUNTER": INFERENCE_COUNTER,
            "ReadOnly": ReadOnly,
            "constant": constant,
            "modes": modes,
            "GRAD": GRAD,
            "getframe": sys._getframe,
            "writer": errors.writer,
            "ours": errors.ours,
        }
        function = templates.define(source, f"{self.row.name}_", namespace)
        function.__doc__ = f"In-place :func:`{self.row.name}`: {self.row.doc}, elementwise."
        return function

    def operands(self, *given: Any) -> tuple[Tensor, ...]:
        """The arguments as Tensors; TypeError for what cannot be one."""
        result = []
        left = self.row.left_number and any(
            isinstance(x, Tensor) and not x.layout.wrapped for x in given
        )
        for i, (name, value) in enumerate(zip(self.row.inputs, given, strict=True)):
            if isinstance(value, Tensor):
                result.append(value)
                continue
            number = python_number(value) if i or left else None
            if number is None:
                wanted = "Tensor" if i == 0 or name in self.row.booleans else "Tensor or Number"
                raise errors.argument(self.row.name, name, wanted, value)
            result.append(constant(number))
        return tuple(result)

    def check(self, operands: Sequence[Tensor], plan: plans.Plan) -> None:
        """Errors that depend on values, for integers: division by zero, negative exponents."""
        if plan.compute.category > dtypes.INTEGER:
            return
        last = operands[-1]
        if self.row.name == "pow":
            # An exponent tensor is PyTorch's to wrap; only a negative number is refused.
            if last.layout.wrapped and last.item() < 0:
                raise RuntimeError("Integers to negative integer powers are not allowed.")
        elif (
            self.row.integer_zero_division
            and plan.out.numel
            and not bool(functions["ne"](last, 0).all())
        ):
            raise RuntimeError(f"ZeroDivisionError: integer division by zero in {self.row.name}()")

    def untracked(self, operands: Sequence[Tensor], plan: plans.Plan, result: Tensor) -> None:
        """No input has somewhere for its gradient to go.

        A view taken before its base required grad does require grad, and its gradient goes nowhere
        (PyTorch's rule); the result then requires grad too.
        """
        for t in operands:
            if t.tracked and requires_grad(t):
                self._attach(operands, plan, result)
                return
        result.tracked = found(operands)

    def special(self, operands: Sequence[Tensor], plan: plans.Plan, result: Tensor) -> None:
        """Recording under modes other than plain grad mode, and of rows without derivatives."""
        if modes.inference:
            result.counter = INFERENCE_COUNTER
            unrecorded(operands, result, "it was computed in inference mode")
        elif modes.task is not None and not modes.mode & GRAD:
            pass  # a formula at work in a backward pass: nobody asks where its history went
        elif not (self.row.grad or self.row.underived):
            unrecorded(operands, result, f"{self.row.name}() has no derivative")
        elif not modes.mode & GRAD:
            unrecorded(operands, result, "it was computed in a no_grad block")
        elif any(t.tracked and requires_grad(t) for t in operands):
            self._attach(operands, plan, result)
        else:
            result.tracked = found(operands)
        if modes.levels:
            compute = tangents.by_formula(self.row, _formulas, operands, result, plan.compute)
            tangents.propagate(operands, (result,), compute)

    def _node(
        self, operands: Sequence[Tensor], saved: Sequence[Tensor], plan: plans.Plan, result: Tensor
    ) -> Node | None:
        """The node of a call: edges of ``operands``, values of ``saved``."""
        edges = tuple(gradient_edge(t) for t in operands)
        mask = sum(1 << i for i, e in enumerate(edges) if e is not None)
        cls = self.classes[mask or (1 << len(edges)) - 1]
        if cls is None:
            return None
        node = _new(cls)
        node._seq = next_sequence_number()
        node.next_edges = edges
        node._plan = plan
        node._hooks = None
        node._where = errors.caller(4)  # at least so many frames are ours
        node._saved = cls.save(*saved, result) if cls.save is not None else ()
        return node

    def _attach(self, operands: Sequence[Tensor], plan: plans.Plan, result: Tensor) -> None:
        node = self._node(operands, operands, plan, result)
        if node is not None:
            if modes.mode != GRAD:
                note_recorded(node)
            result.edge = (node, 0)
            result.tracked = True

    def inplace(self, *given: Any) -> Tensor:
        """``self.<name>_(...)``: computes into the first argument and records its new history."""
        operands = self.operands(*given)
        return self._store(operands, operands[0], records=True)

    def write(self, given: Sequence[Any], out: Tensor, name: str) -> Tensor:
        """``out=``: computes into ``out``, resized if need be; never recorded."""
        operands = self.operands(*given)
        if not isinstance(out, Tensor):
            raise errors.argument(name, "out", "Tensor", out)
        prepare_out(name, operands, out, plans.shape_of(self.row, [t.layout for t in operands]))
        return self._store(operands, out, records=False)

    def _store(self, operands: tuple[Tensor, ...], target: Tensor, records: bool) -> Tensor:
        recorded = records and wants_grad(operands)
        check_inplace(target, recorded)
        key = (target.layout, *(t.layout for t in operands))
        plan = self.inplace_plans.get(key)
        if plan is None:
            layouts = key[1:]
            shape = plans.shape_of(self.row, layouts)
            if shape != target.layout.shape:
                raise RuntimeError(
                    f"output with shape {list(target.layout.shape)} doesn't match the broadcast "
                    f"shape {list(shape)} in {self.row.name}()"
                )
            plan = self.inplace_plans.add(key, plans.into(self.row, layouts, target.layout))
            if target is operands[0] and not self.checked and target.layout.dense:
                self.unchecked_plans.add(layouts if len(layouts) > 1 else layouts[0], plan)
        sources = check_memory(target, operands)
        self.check(operands, plan)
        old = tangents.before(target, operands) if modes.levels and records else None
        saved = operands
        if recorded and self._overwrites_what_it_saves(operands):
            # With its history: the derivative itself may be differentiated.
            kept = functions["clone"](operands[0]) if old is None else old[0]
            saved = (kept, *operands[1:])
        # What the node saves of other operands is what they were before this write: a node that
        # saved the very tensor it overwrites must find the versions apart.
        node = self._node(operands, saved, plan, target) if recorded else None
        if node is not None and modes.mode != GRAD:
            note_inputs(node)
        if any(a is not b for a, b in zip(sources, operands, strict=True)):
            layouts = tuple(t.layout for t in sources)
            plan = plans.into(self.row, layouts, target.layout)
        buffers: list[Any] = []
        for t in sources:
            buffers += (t.storage.buffer, t.offset)
        plan.run(plan.spec, *buffers, target.storage.buffer, target.offset)
        target.counter.version += 1
        where = errors.caller(3) if node is None else node._where
        target.counter.writer = where and (self.row.name + "_" * records, *where)
        if node is not None:
            _resave_result(node, target)
            if modes.mode != GRAD:
                pack_result(node)
            rebase_history(target, node)
        if old is not None:
            compute = tangents.by_formula(self.row, _formulas, old, target, plan.compute)
            tangents.written(target, old, compute)
        return target

    def accumulate(self, place: Tensor, values: Tensor) -> None:
        """Into ``place``, whose lines may overlap: one after the other, unchecked, unrecorded."""
        plan = plans.into(self.row, (place.layout, values.layout), place.layout)
        target = (place.storage.buffer, place.offset)
        drivers.serial(3)(plan.spec, *target, values.storage.buffer, values.offset, *target)

    def _overwrites_what_it_saves(self, operands: Sequence[Tensor]) -> bool:
        first = self.row.inputs[0]
        return any(
            first in plans.formula_names(self.row, (name,)) and requires_grad(t)
            for name, t in zip(self.row.inputs, operands, strict=True)
            if name in self.row.grad
        )


def _resave_result(node: Any, target: Tensor) -> None:
    """A result saved before an in-place write counts from after it."""
    saved = node._saved
    if saved and "result" in node.saves:
        node._saved = (*saved[:-1], target.counter.version)


def check_memory(target: Tensor, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The operands of a write to ``target``, none of which the write can change half-way.

    An operand is the target itself, or lies apart, or is copied. Where both are dense and overlap
    in part PyTorch refuses, and so do we; where they merely share a span (``x[::2] += x[1::2]``) it
    computes whatever happens, and a copy makes that the right answer.

    Raises:
        RuntimeError: for expanded or read-only targets, and dense partial overlap.
    """
    layout = target.layout
    if has_internal_overlap(layout.shape, layout.strides):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    check_writable(target)
    result = []
    for t in operands:
        if t.storage is target.storage and t is not target:
            same = t.offset == target.offset and t.layout.strides == layout.strides
            if not (same and t.layout.shape == layout.shape) and may_overlap(
                t.layout, t.offset, layout, target.offset
            ):
                if t.layout.dense and layout.dense:
                    raise RuntimeError(
                        "unsupported operation: some elements of the input tensor and the "
                        "written-to tensor refer to a single memory location. Please clone() the "
                        "tensor before performing the operation."
                    )
                t = functions["clone"](t.detach())
        result.append(t)
    return tuple(result)


def refuse_overlap(target: Tensor, operands: Sequence[Tensor]) -> None:
    """Raise for an ``out=`` that is written while operands in the same memory are still read."""
    check_memory(target, ())
    for t in operands:
        if t.storage is target.storage and may_overlap(
            t.layout, t.offset, target.layout, target.offset
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def check_writable(target: Tensor) -> None:
    """Raise for a tensor on a read-only NumPy array."""
    if target.storage.owner.__class__ is ReadOnly:
        raise RuntimeError(
            "this tensor shares the memory of a read-only NumPy array: clone() it before writing"
        )


def prepare_out(name: str, operands: Sequence[Tensor], out: Tensor, shape: Any) -> None:
    """Checks of ``out=``, and its resize where the shape is another."""
    if modes.mode & GRAD and any(requires_grad(t) for t in (*operands, out)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if modes.levels:
        tangents.refuse_out(name, (*operands, out))
    if out.layout.shape != shape:
        resize_out(name, out, shape)


def resize_out(name: str, out: Tensor, shape: Any) -> None:
    """Give ``out`` the shape of the result; a warning unless it was empty."""
    if out.layout.numel:
        import warnings

        warnings.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(out.layout.shape)}, which does not match the required output shape "
            f"{list(shape)} of {name}().",
            UserWarning,
            stacklevel=4,
        )
    version = out.counter.version
    out.resize_(shape)
    out.counter.version = version  # the write that follows counts


def docstring(row: Elementwise) -> str:
    """The documentation that follows from a row."""
    arguments = "\n".join(
        f"    {x}: {'a Tensor' if i == 0 else 'a Tensor or a number'}, broadcast with the others."
        for i, x in enumerate(row.inputs)
    )
    gradients = "\n".join(f"    d/d{x}: {text}" for x, text in row.grad.items()) or "    none"
    dtypes_text = {
        plans.Promotion.ARITHMETIC: "the promoted dtype of the inputs",
        plans.Promotion.INTEGRAL: "the promoted dtype, int64 for bools",
        plans.Promotion.FLOAT: "the promoted dtype, the default float dtype for integers",
        plans.Promotion.COMPARE: "bool",
        plans.Promotion.LOGICAL: "bool",
    }[row.promote]
    return (
        f"{row.doc}, elementwise.\n\nComputes ``{row.forward}``.\n\nArgs:\n{arguments}\n"
        f"    out: write the result here.\n\nReturns:\n    A Tensor of the broadcast shape, of "
        f"{dtypes_text}.\n\nRaises:\n    RuntimeError: if the shapes cannot be broadcast, or the "
        f"dtype is not supported.\n    TypeError: if an argument is neither a Tensor nor a number."
        f"\n\nGradient:\n{gradients}\n"
    )


_DEFAULTS: dict[str, dict[str, str]] = {"leaky_relu": {"negative_slope": "0.01"}}

operators = {name: _Operator(row, _DEFAULTS.get(name, {})) for name, row in ELEMENTWISE.items()}
functions.update({name: operator.function for name, operator in operators.items()})


def inplace_function(name: str) -> Callable[..., Tensor]:
    """``<name>_`` of a row."""
    return operators[name].inplace_function
