"""Data types and PyTorch's promotion rules.

A :class:`dtype` is a singleton that says how an element is stored (``np``), in which type kernels
compute with it, and which category (bool < integer < floating < complex) it has in promotion.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """The type of a tensor's elements, e.g. ``jitgrad.float32``.

    Attributes:
        name: PyTorch's name (``"float32"``).
        np: the NumPy dtype of the stored element.
        itemsize: bytes per element.
        category: BOOL, INTEGER, FLOATING or COMPLEX, in promotion order.
    """

    __slots__ = (
        "category",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "np",
        "tensor_type",
        "unpack",
    )

    def __init__(self, name: str, tensor_type: str, category: int) -> None:
        self.name = name
        self.np = np.dtype(name)
        self.itemsize: int = self.np.itemsize
        self.category = category
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.is_signed = category >= FLOATING or self.np.kind == "i"
        # PyTorch's legacy name of a tensor of this dtype; its error messages still use it.
        self.tensor_type = tensor_type
        # ``unpack(buffer, offset)``: the element there as a Python number, in a tuple of its own.
        self.unpack = struct.Struct(self.np.char).unpack_from

    def __repr__(self) -> str:
        return f"jitgrad.{self.name}"

    def __reduce__(self) -> Any:
        return by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self


bool_ = dtype("bool", "BoolTensor", BOOL)
uint8 = dtype("uint8", "ByteTensor", INTEGER)
int8 = dtype("int8", "CharTensor", INTEGER)
int16 = dtype("int16", "ShortTensor", INTEGER)
int32 = dtype("int32", "IntTensor", INTEGER)
int64 = dtype("int64", "LongTensor", INTEGER)
float32 = dtype("float32", "FloatTensor", FLOATING)
float64 = dtype("float64", "DoubleTensor", FLOATING)


def by_name(name: str) -> dtype:
    """The dtype of that name (for pickling)."""
    return BY_NAME[name]


ALL = (bool_, uint8, int8, int16, int32, int64, float32, float64)
BY_NAME = {d.name: d for d in ALL}
ALIASES = {
    "float": float32,
    "double": float64,
    "half": None,
    "long": int64,
    "int": int32,
    "short": int16,
    "bool": bool_,
}
_BY_NUMPY = {d.np: d for d in ALL}

# What a Python number is before promotion looks at the tensors it meets.
PYTHON_TYPES: dict[type, dtype] = {bool: bool_, int: int64, float: float64}


_BY_PYTHON: dict[Any, dtype] = {bool: bool_, int: int64, float: float64}


def dtype_argument(name: str, given: Any) -> dtype | None:
    """The ``dtype=`` of a call: None, a dtype, or Python's bool, int or float; else TypeError."""
    if given is None or given.__class__ is dtype:
        return given
    found = _BY_PYTHON.get(given) if isinstance(given, type) else None
    if found is None:
        raise TypeError(
            f"{name}(): argument 'dtype' must be jitgrad.dtype, not {type(given).__name__}"
        )
    return found


def from_numpy(np_dtype: np.dtype) -> dtype:
    """The dtype of a NumPy array's elements; TypeError where there is none."""
    found = _BY_NUMPY.get(
        np_dtype.newbyteorder("=") if np_dtype.byteorder not in "=|" else np_dtype
    )
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {np_dtype.type.__module__}.{np_dtype.type.__name__}."
            f" The only supported types are: {', '.join(d.name for d in reversed(ALL))}."
        )
    return found


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.category == INTEGER and a.is_signed != b.is_signed:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        if signed.itemsize > unsigned.itemsize:
            return signed
        return BY_NAME[f"int{16 * unsigned.itemsize}"]
    return a if a.itemsize >= b.itemsize else b


_PROMOTIONS = {(a, b): _promote(a, b) for a in ALL for b in ALL}


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that both can be cast to without leaving their categories.

    >>> promote_types(uint8, int8)
    jitgrad.int16
    >>> promote_types(int64, float32)
    jitgrad.float32
    """
    return _PROMOTIONS[a, b]


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether PyTorch lets an operation with result ``from_`` be written to a ``to`` tensor.

    Only a step down in category is refused (float to int, number to bool).
    """
    return from_.category <= to.category


def combine_categories(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """Promotion between priority classes (dimensioned > 0-d > Python number).

    The lower class matters only if its category is higher: int tensor + 1.5 is a float.
    """
    if higher is None or lower is None:
        return higher or lower
    if higher.category >= FLOATING and not (lower.is_complex and not higher.is_complex):
        return higher
    if higher.category == BOOL or lower.category >= FLOATING:
        return _PROMOTIONS[higher, lower]
    return higher
