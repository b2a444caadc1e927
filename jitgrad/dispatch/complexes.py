"""Complex numbers: their parts, conjugates and how they are made of real ones.

A conjugate is a view whose layout has a dtype that kernels load and store conjugated (see
docs/decisions/0013-complex.md); the imaginary part of one is a view that they negate.
"""

from __future__ import annotations

from typing import Any

from .. import dtypes, errors
from ..layout import Layout, broadcast_shapes, layout, result_strides
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .elementwise import functions, prepare_out
from .make import fresh, fresh_like
from .record import node_class, record
from .view import conj, conjugated, neg_view, select, view_of

_f = functions


def real(self: Tensor) -> Tensor:
    """The real part, as a view; a real tensor itself. Gradient: a complex one of that real part."""
    if not self.layout.dtype.is_complex:
        return self
    return select(view_of(_stored(self), "view_as_real", ()), -1, 0)


def imag(self: Tensor) -> Tensor:
    """The imaginary part, as a view (of a conjugate: one with the negative bit set).

    Raises:
        RuntimeError: for real tensors.
    """
    if not self.layout.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    parts = view_of(_stored(self), "view_as_real", ())
    return select(neg_view(parts) if self.layout.dtype.conjugated else parts, -1, 1)


def _stored(self: Tensor) -> Tensor:
    """The elements as they are stored: the conjugate of a conjugate."""
    return conj(self) if self.layout.dtype.conjugated else self


def _set_real(self: Tensor, value: Any) -> None:
    convert.copy_(real(self), value)


def _set_imag(self: Tensor, value: Any) -> None:
    convert.copy_(imag(self), value)


def view_as_real(self: Tensor) -> Tensor:
    """A complex tensor as a real one with a last dimension of size 2, as a view.

    Raises:
        RuntimeError: for real tensors, and those with the conjugate bit set.
    """
    return view_of(self, "view_as_real", ())


def view_as_complex(self: Tensor) -> Tensor:
    """A real tensor whose last dimension has size 2 and stride 1 as a complex one, as a view."""
    return view_of(self, "view_as_complex", ())


def resolve_conj(self: Tensor) -> Tensor:
    """A copy if the conjugate bit is set, else the tensor itself."""
    return convert.clone(self) if self.layout.dtype.conjugated else self


def resolve_neg(self: Tensor) -> Tensor:
    """A copy if the negative bit is set, else the tensor itself."""
    return convert.clone(self) if self.layout.dtype.negated else self


def conj_physical(self: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate in memory of its own; a real tensor itself."""
    if not self.layout.dtype.is_complex:
        return self if out is None else _into("conj_physical", self, out, (self,))
    result = fresh_like(self)
    convert.copy_elements(conjugated(self.detach()), result)
    record(_CONJ_PHYSICAL, (self,), (result,), {})
    return result if out is None else _into("conj_physical", result, out, (self,))


_CONJ_PHYSICAL = node_class(
    structured(
        "conj_physical",
        "self",
        grad={"self": lambda grad: conj_physical(grad)},
        jvp={"self": lambda tangent: conj_physical(tangent)},
        fresh=True,
    )
)


def conj_physical_(self: Tensor) -> Tensor:
    """:func:`conj_physical` in place."""
    return convert.copy_(self, conj_physical(self)) if self.layout.dtype.is_complex else self


def _into(name: str, result: Tensor, out: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
    prepare_out(name, inputs, out, result.layout.shape)
    return convert.copy_(out, result)


_COMPLEX = node_class(
    structured(
        "complex",
        "real imag",
        grad={
            "real": lambda grad, layout: real(grad).sum_to_size(layout.shape),
            "imag": lambda grad, layout: imag(grad).sum_to_size(layout.shape),
        },
        jvp={
            "real": lambda tangent, result: _joined(tangent, None, result),
            "imag": lambda tangent, result: _joined(None, tangent, result),
        },
    )
)
_POLAR = node_class(
    structured(
        "polar",
        "abs angle",
        grad={
            "abs": lambda grad, angle, layout: _along(grad, _turned(angle), layout),
            "angle": lambda grad, result, layout: _along(grad, _f["mul"](result, 1j), layout),
        },
        jvp={
            "abs": lambda tangent, angle: _f["mul"](_turned(angle), tangent),
            "angle": lambda tangent, result: _f["mul"](_f["mul"](result, 1j), tangent),
        },
        holomorphic=False,
    )
)


def _joined(first: Tensor | None, second: Tensor | None, of: Tensor) -> Tensor:
    """A complex tensor of parts, one of which may be zero."""
    given: Any = first if first is not None else second
    zeros = given.new_zeros(of.layout.shape)
    return complex(zeros if first is None else first, zeros if second is None else second)


def _turned(angle: Tensor) -> Tensor:
    return complex(_f["cos"](angle), _f["sin"](angle))


def _along(grad: Tensor, direction: Tensor, layout: Layout) -> Tensor:
    return real(_f["mul"](grad, conjugated(direction))).sum_to_size(layout.shape)


def _parts(name: str, first: Any, second: Any) -> None:
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        which, value = (second, "imag") if isinstance(first, Tensor) else (first, "real")
        raise errors.argument(name, value, "Tensor", which)
    a, b = first.layout.dtype.plain, second.layout.dtype.plain
    known = (*dtypes.OF_PARTS, dtypes.float16)
    if a not in known or b not in known:
        words = [d.tensor_type.removesuffix("Tensor") for d in (a, b)]
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {words[0]} and "
            f"{words[1]} in {name}()"
        )
    if a is not b:
        raise RuntimeError(
            f"Expected object of scalar type {a.tensor_type.removesuffix('Tensor')} but got scalar "
            f"type {b.tensor_type.removesuffix('Tensor')} for second argument in {name}()"
        )
    if a is dtypes.float16:
        raise RuntimeError(f"{name}(): complex numbers of float16 parts are not supported")


def _result_dtype(a: Tensor, out: Tensor | None) -> dtypes.dtype:
    """The complex dtype of numbers with parts like ``a``; RuntimeError if ``out`` has another."""
    d = dtypes.complex_of(a.layout.dtype)
    if out is not None and out.layout.dtype.plain is not d:
        raise RuntimeError(
            f"Expected object of scalar type {d.tensor_type.removesuffix('Tensor')} but got scalar "
            f"type {out.layout.dtype.tensor_type.removesuffix('Tensor')} for argument 'out'"
        )
    return d


def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``real + i imag`` of two real tensors of one float dtype, broadcast.

    Raises:
        RuntimeError: for other dtypes.

    Gradient: the real part of the incoming one for ``real``, the imaginary part for ``imag``.
    """
    _parts("complex", real, imag)
    d = _result_dtype(real, out)
    result = _empty(real, imag, d)
    place = view_of(result.detach(), "view_as_real", ())
    convert.copy_elements(real.detach(), select(place, -1, 0))
    convert.copy_elements(imag.detach(), select(place, -1, 1))
    record(_COMPLEX, (real, imag), (result,), {})
    return result if out is None else _into("complex", result, out, (real, imag))


def _empty(a: Tensor, b: Tensor, d: dtypes.dtype) -> Tensor:
    """An uninitialised tensor as an elementwise operation on both would allocate it."""
    shape = broadcast_shapes(a.layout.shape, b.layout.shape)
    given = [(x.layout.shape, x.layout.strides) for x in (a, b)]
    return fresh(layout(shape, result_strides(shape, given), d))


def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``abs (cos angle + i sin angle)`` of two real tensors of one float dtype, broadcast.

    Gradient: the part of the incoming one along the number's direction for ``abs``, across it
    (times ``abs``) for ``angle``.
    """
    _parts("polar", abs, angle)
    _result_dtype(abs, out)
    x, y = abs.detach(), angle.detach()
    result = complex(_f["mul"](x, _f["cos"](y)), _f["mul"](x, _f["sin"](y)))
    record(_POLAR, (abs, angle), (result,), {})
    return result if out is None else _into("polar", result, out, (abs, angle))


def isreal(self: Tensor) -> Tensor:
    """Whether every element is real: of a complex tensor where the imaginary part is 0."""
    if self.layout.dtype.is_complex:
        return _f["eq"](imag(self), 0)
    return self.new_ones(self.layout.shape, dtype=dtypes.bool_)


# What formulas call: of numbers too.
functions["conj"] = conjugated
functions["real"] = lambda x: real(x) if isinstance(x, Tensor) else x


def is_conj(input: Tensor) -> bool:
    """Whether the conjugate bit is set; see :meth:`Tensor.is_conj`."""
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Whether the negative bit is set; see :meth:`Tensor.is_neg`."""
    return input.is_neg()


METHODS = "conj conj_physical conj_physical_ resolve_conj resolve_neg isreal"
FUNCTIONS = (
    "real imag conj conj_physical resolve_conj resolve_neg view_as_real view_as_complex complex "
    "polar isreal is_conj is_neg"
)
PROPERTIES = {"real": property(real, _set_real), "imag": property(imag, _set_imag)}
