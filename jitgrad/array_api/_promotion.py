"""Which dtype operands have together, by the rules of the standard.

They are stricter than PyTorch's: the dtype does not depend on the rank of an operand, and a Python
number takes the dtype of the array beside it.
"""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..dispatch.convert import to
from ..dispatch.creation import full
from ..dispatch.make import python_number
from ..dtypes import BOOL, COMPLEX, FLOATING, INTEGER, dtype
from ..tensor import Tensor

_SIGNED = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}
_KINDS = {bool: BOOL, int: INTEGER, float: FLOATING, complex: COMPLEX}


def promoted(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that holds both.

    Raises:
        TypeError: where the standard leaves it open: of bools and numbers, integers and floats, and
            uint64 and signed integers.
    """
    if a is b:
        return a
    if a.category == b.category == INTEGER:
        if a.is_signed == b.is_signed:
            return a if a.itemsize >= b.itemsize else b
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        size = max(signed.itemsize, 2 * unsigned.itemsize)
        if size <= 8:
            return _SIGNED[size]
    elif min(a.category, b.category) >= FLOATING:
        return dtypes.promote_types(a, b)
    raise TypeError(f"{a.name} and {b.name} have no common dtype: convert one of them")


def number_as_array(value: Any, d: dtype) -> Tensor:
    """A Python number as a 0-d array of the dtype of the array beside it.

    Raises:
        TypeError: for a number of a higher kind than the array, or something else.
    """
    number = python_number(value) if not isinstance(value, complex) else value
    kind = _KINDS.get(type(number))
    if kind is None:
        raise TypeError(f"expected an array or a Python number, got {type(value).__name__}")
    if kind > d.category or (kind == BOOL) != (d.category == BOOL):
        raise TypeError(f"a Python {type(value).__name__} does not go with an array of {d.name}")
    return full((), number, dtype=d)


def common(*operands: Any) -> list[Tensor]:
    """The operands as arrays of their common dtype; at least one must be an array."""
    arrays = [x.dtype for x in operands if isinstance(x, Tensor)]
    if not arrays:
        raise TypeError("at least one operand must be an array")
    d = arrays[0]
    for other in arrays[1:]:
        d = promoted(d, other)
    return [to(x, d) if isinstance(x, Tensor) else number_as_array(x, d) for x in operands]
