"""Attaches every operator to Tensor, as method, in-place method and Python operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes, printing, state
from ..autograd import api, forward_ad, hooks
from ..ops.table import ELEMENTWISE
from ..tensor import Tensor
from . import (
    arithmetic,
    complexes,
    convert,
    creation,
    diagonals,
    factorize,
    facts,
    histogram,
    index,
    indexing,
    interchange,
    linalg,
    lines,
    lu,
    matmul,
    orthogonal,
    positions,
    rearrange,
    reduction,
    reshaping,
    rows,
    running,
    scatter,
    shape,
    sorting,
    special,
    split,
    statistics,
    stft,
    view,
)
from .elementwise import functions, inplace_function, operators
from .make import NUMBERS, constant, python_number


def _reflected(function: Callable[..., Tensor], swapped: bool) -> Callable[..., Tensor]:
    """``number <op> tensor``, by a function of (tensor, number) that computes it, or of the two in
    their order (``swapped``)."""

    def reflected(self: Tensor, other: Any) -> Tensor:
        if isinstance(other, Tensor):  # called by its name
            return function(other, self) if swapped else function(self, other)
        number = other if other.__class__ in NUMBERS else python_number(other)
        if number is None:
            return NotImplemented
        return function(constant(number), self) if swapped else function(self, number)

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
    try:
        node = self.grad_fn
        history = None if node is None else node.name()
    except RuntimeError:  # a view that may no longer have one
        history = "Invalid"
    tangent = forward_ad.unpack_dual(self).tangent if state.modes.levels else None
    return printing.tensor_text(
        self._numbers(),
        dtype=repr(self.layout.dtype),
        default_dtype=repr(state.get_default_dtype()),
        requires_grad=self.requires_grad,
        grad_fn=history,
        tangent=None if tangent is None else repr(tangent),
    )


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip


_reflections = {
    "add": (functions["add"], False),
    "mul": (functions["mul"], False),
    "sub": (functions["rsub"], False),
    "div": (arithmetic.reflected_div, False),
}


def _attach_operators() -> None:
    for operator, name in _OPERATORS.items():
        setattr(Tensor, f"__{operator}__", operators[name].python_operator())
        reflected = _reflected(*_reflections.get(name, (functions[name], True)))
        setattr(Tensor, f"__r{operator}__", reflected)
        setattr(Tensor, f"__i{operator}__", inplace_function(name))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", operators[name].python_operator())


def _matmul(self: Tensor, other: Any) -> Any:
    """``self @ other``: the matrix product."""
    return matmul.matmul(self, other) if isinstance(other, Tensor) else NotImplemented


def _array_wrap(
    self: Tensor, array: Any, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """What NumPy's functions of a tensor give: a tensor on the memory of their result."""
    return creation.from_numpy(array)


# Modules and those of their functions that are methods under the same names.
_FUNCTIONS: tuple[tuple[Any, str], ...] = (
    (
        arithmetic,
        "add sub add_ sub_ div div_ clamp clamp_ addcmul addcmul_ addcdiv addcdiv_ isclose "
        "allclose "
        "equal positive",
    ),
    (
        view,
        "view view_as reshape flatten unflatten expand expand_as broadcast_to permute transpose t "
        "movedim squeeze unsqueeze select narrow diagonal unfold as_strided detach reshape_as "
        "ravel swapaxes adjoint",
    ),
    (convert, "clone contiguous to type_as copy_ fill_ zero_ resize_ resize_as_ set_ cpu"),
    (creation, "new_tensor new_empty new_zeros new_ones new_full new_empty_strided"),
    (matmul, "mm bmm mv dot matmul addmm addmv baddbmm outer"),
    (
        reduction,
        "sum sum_to_size mean prod max min amax amin argmax argmin var std norm logsumexp",
    ),
    (lines, "softmax log_softmax cumsum"),
    (hooks, "register_hook register_post_accumulate_grad_hook"),
    *(
        (module, module.METHODS)
        for module in (
            index,
            positions,
            rearrange,
            reshaping,
            rows,
            scatter,
            special,
            split,
            statistics,
            diagonals,
            running,
            sorting,
            linalg,
            factorize,
            histogram,
            complexes,
            stft,
            lu,
            orthogonal,
            facts,
            interchange,
        )
    ),
)


def _reversed(self: Tensor) -> Tensor:
    """The dimensions in reverse order."""
    return view.permute(self, tuple(reversed(range(self.layout.ndim))))


def _reduces_to(self: Tensor, shape: Any) -> bool:
    """Whether summing over broadcast dimensions can give ``shape``."""
    return convert.shapes_reduce(self.layout.shape, shape)


# Methods whose function has another name.
_METHODS: dict[str, Any] = {
    "clip": arithmetic.clamp,
    "clip_": arithmetic.clamp_,
    "subtract": arithmetic.sub,
    "divide": arithmetic.div,
    "true_divide": arithmetic.div,
    "where": arithmetic.where_method,
    "any": reduction.any_,
    "all": reduction.all_,
    "split": split.split_method,
    "type": convert.type_,
    "ger": matmul.outer,
    "swapdims": view.transpose,
    "swapdims_": reshaping.transpose_,
    "moveaxis": view.movedim,
    "polygamma": special.polygamma_method,
    **complexes.PROPERTIES,
    "_neg_view": view.neg_view,
    "_conjugated": view.conjugated,
    "__rdiv__": special.rdiv,
    **factorize.METHODS_BY_NAME,
    **lu.METHODS_BY_NAME,
    **orthogonal.METHODS_BY_NAME,
    "__rmatmul__": linalg.rmatmul,
    "T": property(_reversed),
    "mT": property(view.matrix_transpose),
    "mH": property(view.adjoint),
    "H": property(view.matrix_adjoint),
    "fill_diagonal_": diagonals.fill_diagonal_,
    "data": property(reshaping.get_data, reshaping.set_data, reshaping.delete_data),
    "backward": api.tensor_backward,
    "__repr__": _repr,
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__neg__": functions["neg"],
    "__pos__": arithmetic.positive,
    "__abs__": functions["abs"],
    "__invert__": functions["bitwise_not"],
    "__matmul__": _matmul,
    "__array_wrap__": _array_wrap,
    # What autograd, a layer below, asks tensors for.
    "_seen": view.seen,
    "_reshaped": view.reshaped,
    "_embed": view.embed,
    "_as_strided_adjoint": view.as_strided_adjoint,
    "_unfold_adjoint": view.unfold_adjoint,
    "_like": convert.like,
    "_stack": staticmethod(shape.stack),
    "_reduces_to": _reduces_to,
    **{
        name: convert.cast_method(d, name)
        for name, d in (
            ("float", dtypes.float32),
            ("double", dtypes.float64),
            ("half", dtypes.float16),
            ("bfloat16", dtypes.bfloat16),
            ("long", dtypes.int64),
            ("int", dtypes.int32),
            ("short", dtypes.int16),
            ("bool", dtypes.bool_),
            ("byte", dtypes.uint8),
            ("char", dtypes.int8),
            ("cfloat", dtypes.complex64),
            ("cdouble", dtypes.complex128),
        )
    },
}


def _attach_rest() -> None:
    for module, names in _FUNCTIONS:
        for name in names.split():
            setattr(Tensor, name, getattr(module, name))
    for name, method in _METHODS.items():
        setattr(Tensor, name, method)


_attach_elementwise()
_attach_operators()
_attach_rest()
