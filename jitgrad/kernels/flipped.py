"""Pointers to elements that lie in memory conjugated or negated.

Whoever loads through one gets the conjugate (the negative) of what is there, whoever stores leaves
it there; so a view with PyTorch's conj or neg bit is an operand like any other, and the change of
signs costs the kernel's loop next to nothing.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model


class FlippedPointer(types.Type):
    """A pointer to ``element``s; complex ones are stored conjugated, real ones negated."""

    def __init__(self, element: Any) -> None:
        super().__init__(name=f"flipped {element}*")
        self.element = element


@register_model(FlippedPointer)
class _FlippedPointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: FlippedPointer) -> None:
        element = manager.lookup(kind.element).get_data_type()
        super().__init__(manager, kind, element.as_pointer())


@infer_global(operator.getitem)
class _Load(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], FlippedPointer) and isinstance(args[1], types.Integer):
            return signature(args[0].element, args[0], types.intp)
        return None


@infer_global(operator.setitem)
class _Store(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], FlippedPointer) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.intp, args[0].element)
        return None


def _flip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if not isinstance(kind, types.Complex):
        return builder.fneg(value)
    number = context.make_complex(builder, kind, value)
    number.imag = builder.fneg(number.imag)
    return number._getvalue()


@lower_builtin(operator.getitem, FlippedPointer, types.Integer)
def _load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    value = builder.load(builder.gep(args[0], [args[1]]))
    return _flip(context, builder, sig.args[0].element, value)


@lower_builtin(operator.setitem, FlippedPointer, types.Integer, types.Number)
def _store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    value = _flip(context, builder, sig.args[0].element, args[2])
    builder.store(value, builder.gep(args[0], [args[1]]))
    return context.get_dummy_value()
