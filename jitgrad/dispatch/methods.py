"""Attaches every operator to Tensor, as method, in-place method and Python operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes, printing, state
from ..autograd import api, hooks
from ..ops.table import ELEMENTWISE
from ..tensor import Tensor
from . import (
    arithmetic,
    convert,
    creation,
    index,
    indexing,
    matmul,
    positions,
    rearrange,
    reduction,
    rows,
    scatter,
    shape,
    view,
)
from .elementwise import functions, inplace_function, operators
from .make import NUMBERS, constant, python_number


def _reflected(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``number <op> tensor`` from the function of ``tensor <op> tensor``."""

    def reflected(self: Tensor, other: Any) -> Tensor:
        number = other if other.__class__ in NUMBERS else python_number(other)
        if number is None:
            return NotImplemented
        return function(constant(number), self)

    return reflected


def _attach_elementwise() -> None:
    for name, row in ELEMENTWISE.items():
        for public in (name, *row.aliases):
            if row.method:
                setattr(Tensor, public, functions[name])
            if row.inplace and row.method and name in operators:
                setattr(Tensor, f"{public}_", inplace_function(name))


def _repr(self: Tensor) -> str:
    """As PyTorch prints it: values, dtype where it is not the default, history."""
    node = self.grad_fn
    return printing.tensor_text(
        self._array(),
        dtype=repr(self.layout.dtype),
        default_dtype=repr(state.get_default_dtype()),
        requires_grad=self.requires_grad,
        grad_fn=None if node is None else node.name(),
    )


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip


def _attach_operators() -> None:
    for operator, name in _OPERATORS.items():
        function = functions[name]
        setattr(Tensor, f"__{operator}__", function)
        setattr(Tensor, f"__r{operator}__", _reflected(function))
        setattr(Tensor, f"__i{operator}__", inplace_function(name))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", functions[name])
    Tensor.__eq__ = _or_not_implemented(functions["eq"], False)  # type: ignore[method-assign, assignment]
    Tensor.__ne__ = _or_not_implemented(functions["ne"], True)  # type: ignore[method-assign, assignment]
    Tensor.__neg__ = functions["neg"]  # type: ignore[attr-defined]
    Tensor.__pos__ = arithmetic.positive  # type: ignore[attr-defined]
    Tensor.__abs__ = functions["abs"]  # type: ignore[attr-defined]
    Tensor.__invert__ = functions["bitwise_not"]  # type: ignore[attr-defined]
    Tensor.__matmul__ = matmul.matmul  # type: ignore[attr-defined]


def _or_not_implemented(function: Callable[..., Any], otherwise: bool) -> Callable[..., Any]:
    """``==`` with something that is not a number or tensor is Python's business, not an error."""

    def compare(self: Tensor, other: Any) -> Any:
        try:
            return function(self, other)
        except TypeError:
            return NotImplemented

    return compare


def attach(module: Any, names: str) -> None:
    """Make functions of a module methods of Tensor, under the same names."""
    for name in names.split():
        setattr(Tensor, name, getattr(module, name))


def _attach_rest() -> None:
    attach(
        arithmetic,
        "add sub add_ sub_ div div_ clamp clamp_ addcmul addcmul_ addcdiv addcdiv_ isclose allclose "
        "equal positive",
    )
    Tensor.clip, Tensor.clip_ = arithmetic.clamp, arithmetic.clamp_  # type: ignore[attr-defined]
    Tensor.subtract, Tensor.divide = arithmetic.sub, arithmetic.div  # type: ignore[attr-defined]
    Tensor.where = arithmetic.where_method  # type: ignore[attr-defined]
    Tensor.__repr__ = _repr  # type: ignore[method-assign]
    attach(
        view,
        "view view_as reshape flatten unflatten expand expand_as broadcast_to permute transpose t "
        "movedim squeeze unsqueeze select narrow diagonal unfold as_strided split chunk unbind "
        "detach",
    )
    attach(
        convert,
        "clone contiguous to type_as copy_ fill_ zero_ resize_ set_ cpu",
    )
    attach(
        creation,
        "new_tensor new_empty new_zeros new_ones new_full new_empty_strided",
    )
    attach(matmul, "mm bmm mv dot matmul addmm baddbmm outer")
    attach(
        reduction,
        "sum sum_to_size mean prod max min amax amin argmax argmin var std norm logsumexp softmax "
        "log_softmax cumsum",
    )
    for module in (index, positions, rearrange, rows, scatter):
        attach(module, module.METHODS)
    Tensor.__getitem__ = indexing.getitem  # type: ignore[attr-defined]
    Tensor.__setitem__ = indexing.setitem  # type: ignore[attr-defined]
    Tensor.any, Tensor.all = reduction.any_, reduction.all_  # type: ignore[attr-defined]
    Tensor.swapaxes = Tensor.swapdims = view.transpose  # type: ignore[attr-defined]
    Tensor.moveaxis = view.movedim  # type: ignore[attr-defined]
    Tensor.ravel = lambda self: view.flatten(self.contiguous())  # type: ignore[attr-defined]
    Tensor.T = property(lambda self: view.permute(self, tuple(reversed(range(self.layout.ndim)))))  # type: ignore[attr-defined]
    Tensor.mT = property(lambda self: view.transpose(self, -2, -1))  # type: ignore[attr-defined]
    Tensor.backward = api.tensor_backward  # type: ignore[attr-defined]
    attach(hooks, "register_hook register_post_accumulate_grad_hook")
    Tensor._embed = view.embed  # type: ignore[attr-defined]
    Tensor._as_strided_adjoint = view.as_strided_adjoint  # type: ignore[attr-defined]
    Tensor._unfold_adjoint = view.unfold_adjoint  # type: ignore[attr-defined]
    Tensor._like = convert.like  # type: ignore[attr-defined]
    Tensor._stack = staticmethod(shape.stack)  # type: ignore[attr-defined]
    Tensor._reduces_to = lambda self, to: convert.shapes_reduce(self.layout.shape, to)  # type: ignore[attr-defined]
    for name, d in (
        ("float", dtypes.float32), ("double", dtypes.float64), ("long", dtypes.int64),
        ("int", dtypes.int32), ("short", dtypes.int16), ("bool", dtypes.bool_),
        ("byte", dtypes.uint8), ("char", dtypes.int8),
    ):  # fmt: skip
        setattr(Tensor, name, convert.cast_method(d, name))


_attach_elementwise()
_attach_operators()
_attach_rest()
