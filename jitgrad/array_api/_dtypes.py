"""Questions about dtypes, casts, and what this implementation offers."""

from __future__ import annotations

from typing import Any

from .. import dtypes, typeinfo
from ..dispatch.convert import clone, to
from ..dispatch.make import python_number
from ..dtypes import BOOL, COMPLEX, FLOATING, INTEGER
from ..dtypes import dtype as DType
from ..state import get_default_dtype
from ..tensor import Tensor
from ..tensor import device as Device
from ._promotion import number_as_array, promoted

NAMES = {
    "bool": dtypes.bool_, "int8": dtypes.int8, "int16": dtypes.int16, "int32": dtypes.int32,
    "int64": dtypes.int64, "uint8": dtypes.uint8, "uint16": dtypes.uint16,
    "uint32": dtypes.uint32, "uint64": dtypes.uint64, "float32": dtypes.float32,
    "float64": dtypes.float64, "complex64": dtypes.complex64, "complex128": dtypes.complex128,
}  # fmt: skip
_KINDS = {
    "bool": lambda d: d.category == BOOL,
    "signed integer": lambda d: d.category == INTEGER and d.is_signed,
    "unsigned integer": lambda d: d.category == INTEGER and not d.is_signed,
    "integral": lambda d: d.category == INTEGER,
    "real floating": lambda d: d.category == FLOATING,
    "complex floating": lambda d: d.category == COMPLEX,
    "numeric": lambda d: d.category != BOOL,
}


def _dtype_of(x: Any) -> DType:
    return x.dtype if isinstance(x, Tensor) else x


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """``x`` in another dtype; ``x`` itself only with ``copy=False`` and if nothing changes."""
    result = to(x, dtype)
    return clone(result) if copy and result is x else result


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype (or an array's) can become another by promotion."""
    try:
        return promoted(_dtype_of(from_), _dtype_of(to)) is _dtype_of(to)
    except TypeError:
        return False


class finfo(typeinfo.finfo):
    """Limits of a floating-point dtype, or of an array's; of the parts of complex ones."""

    dtype: Any

    def __init__(self, type: Any, /) -> None:
        d = _dtype_of(type)
        parts = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
        super().__init__(parts.get(d, d))
        self.dtype = parts.get(d, d)


class iinfo(typeinfo.iinfo):
    """Limits of an integer dtype, or of an array's."""

    dtype: Any

    def __init__(self, type: Any, /) -> None:
        super().__init__(_dtype_of(type))
        self.dtype = _dtype_of(type)


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a name such as ``integral``, or a tuple of both.

    Raises:
        ValueError: for an unknown name.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in _KINDS:
        raise ValueError(f"unknown kind of dtype {kind!r}: expected one of {', '.join(_KINDS)}")
    return _KINDS[kind](dtype)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The common dtype of arrays, dtypes and Python numbers, of which one is no number."""
    known = [_dtype_of(x) for x in arrays_and_dtypes if isinstance(x, Tensor | DType)]
    if not known:
        raise ValueError("result_type() needs at least one array or dtype")
    d = known[0]
    for other in known[1:]:
        d = promoted(d, other)
    for x in arrays_and_dtypes:
        if not isinstance(x, Tensor | DType):
            d = _with_number(d, x)
    return d


def _with_number(d: DType, value: Any) -> DType:
    if isinstance(value, complex) and d.category == FLOATING:
        return dtypes.complex64 if d is dtypes.float32 else dtypes.complex128
    if python_number(value) is None and not isinstance(value, complex):
        raise TypeError(f"expected an array, a dtype or a number, got {type(value).__name__}")
    return number_as_array(value, d).dtype


class Info:
    """What :func:`__array_namespace_info__` tells."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean masks, shapes that depend on data, and no limit to dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Any:
        """The only device there is."""
        return Device("cpu")

    def devices(self) -> list[Any]:
        """All devices."""
        return [Device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """What a creation function uses where it is not told."""
        real = get_default_dtype()
        pair = dtypes.complex128 if real is dtypes.float64 else dtypes.complex64
        return {
            "real floating": real, "complex floating": pair, "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes by name, all or of a kind (see :func:`isdtype`)."""
        return {name: d for name, d in NAMES.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:
    """Facts about this implementation, for inspection."""
    return Info()


FUNCTIONS: dict[str, Any] = {
    **NAMES, "__array_namespace_info__": __array_namespace_info__, "astype": astype,
    "can_cast": can_cast, "finfo": finfo, "iinfo": iinfo, "isdtype": isdtype,
    "result_type": result_type,
}  # fmt: skip
