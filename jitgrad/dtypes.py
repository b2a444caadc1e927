"""Data types and PyTorch's promotion rules.

A :class:`dtype` is a singleton that says how an element is stored (``np``), in which type kernels
compute with it, and which category (bool < integer < floating < complex) it has in promotion.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """The type of a tensor's elements, e.g. ``jitgrad.float32``.

    Attributes:
        name: PyTorch's name (``"float32"``).
        np: the NumPy dtype of the stored element; uint16 for bfloat16, which NumPy has not.
        itemsize: bytes per element.
        category: BOOL, INTEGER, FLOATING or COMPLEX, in promotion order.
        compute: the dtype that kernels compute in; float32 for the 16-bit floats, which are
            converted by the kernels' loads and stores (kernels/abi.py), else the dtype itself.
        lowest, highest: the smallest and largest finite number (of complex dtypes, of a part).
        digits: binary digits of a float's mantissa, with the one that is not stored; else 0.
        plain: what ``Tensor.dtype`` shows: the dtype itself, save for the formats below.
    """

    __slots__ = (
        "category",
        "compute",
        "conjugated",
        "digits",
        "highest",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "lowest",
        "name",
        "negated",
        "np",
        "plain",
        "tensor_type",
        "unpack",
    )

    def __init__(
        self, name: str, tensor_type: str, category: int, *, stored: str = "", compute: Any = None
    ) -> None:
        self.name = name
        self.np = np.dtype(stored or name)
        self.itemsize: int = self.np.itemsize
        self.category = category
        self.compute: dtype = compute or self
        self.plain: dtype = self
        self.conjugated = self.negated = False
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.is_signed = category >= FLOATING or self.np.kind == "i"
        self.lowest: Any
        self.highest: Any
        self.lowest, self.highest, self.digits = self._limits()
        # PyTorch's legacy name of a tensor of this dtype; its error messages still use it.
        self.tensor_type = tensor_type
        # ``unpack(buffer, offset)``: the element there as a Python number, in a tuple of its own.
        self.unpack: Callable[..., tuple[Any]]
        if self.is_complex or stored:
            self.unpack = self._unpack
        else:
            self.unpack = struct.Struct(self.np.char).unpack_from

    def _limits(self) -> tuple[Any, Any, int]:
        if self.category == BOOL:
            return False, True, 0
        if self.category == INTEGER:
            whole = np.iinfo(self.np)
            return int(whole.min), int(whole.max), 0
        if self.np.kind == "u":  # bfloat16
            highest = (2 - 2**-7) * 2.0**127
            return -highest, highest, 8
        info = np.finfo(self.np)
        return float(info.min), float(info.max), int(info.nmant) + 1

    def _unpack(self, buffer: Any, offset: int) -> tuple[Any]:
        """``unpack`` for what Python's struct does not know."""
        return (self.decode(np.frombuffer(buffer, self.np, 1, offset)).item(),)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Numbers of any NumPy dtype as stored elements; 16-bit floats by way of float32.

        >>> bfloat16.encode(np.array([1.0, np.pi]))
        array([16256, 16457], dtype=uint16)
        """
        if self.plain is not self:
            return self.decode(self.plain.encode(values))
        with np.errstate(invalid="ignore", over="ignore"):
            if self.compute is not self and values.dtype != self.np:
                values = values.astype(np.float32, copy=False)
            if self is not bfloat16:
                return values.astype(self.np, copy=False)
            single = np.asarray(values, np.float32)
        bits = single.view(np.uint32)
        rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16  # ties to even
        return np.where(np.isnan(single), 0x7FC0, rounded).astype(np.uint16)

    def decode(self, elements: np.ndarray) -> np.ndarray:
        """Stored elements as an array of numbers: float32 for bfloat16, else the elements.

        >>> bfloat16.decode(np.array([16256, 16457], np.uint16))
        array([1.      , 3.140625], dtype=float32)
        """
        if self.conjugated:
            return np.asarray(np.conjugate(elements))
        if self.negated:
            return np.asarray(np.negative(elements))
        if self is not bfloat16:
            return elements
        return np.asarray(elements.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def __repr__(self) -> str:
        return f"jitgrad.{self.plain.name}"

    def __reduce__(self) -> Any:
        return by_name, (self.name,)

    def to_real(self) -> dtype:
        """The dtype of the parts of a complex dtype; a real one itself."""
        return real_of(self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts are of this dtype."""
        return complex_of(self)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self


bool_ = dtype("bool", "BoolTensor", BOOL)
uint8 = dtype("uint8", "ByteTensor", INTEGER)
uint16 = dtype("uint16", "UInt16Tensor", INTEGER)
uint32 = dtype("uint32", "UInt32Tensor", INTEGER)
uint64 = dtype("uint64", "UInt64Tensor", INTEGER)
int8 = dtype("int8", "CharTensor", INTEGER)
int16 = dtype("int16", "ShortTensor", INTEGER)
int32 = dtype("int32", "IntTensor", INTEGER)
int64 = dtype("int64", "LongTensor", INTEGER)
float32 = dtype("float32", "FloatTensor", FLOATING)
float64 = dtype("float64", "DoubleTensor", FLOATING)
float16 = dtype("float16", "HalfTensor", FLOATING, compute=float32)
bfloat16 = dtype("bfloat16", "BFloat16Tensor", FLOATING, stored="uint16", compute=float32)
complex64 = dtype("complex64", "ComplexFloatTensor", COMPLEX)
complex128 = dtype("complex128", "ComplexDoubleTensor", COMPLEX)


def _format(of: dtype, suffix: str) -> dtype:
    """How the elements of a view with a bit set lie in memory: see docs/decisions/0013-complex.md.

    A format is found in layouts alone, where it picks the pointers that kernels load and store by.
    """
    result = dtype(f"{of.name}_{suffix}", of.tensor_type, of.category, stored=of.name, compute=of)
    result.plain = of
    result.conjugated, result.negated = suffix == "conj", suffix == "neg"
    return result


CONJUGATED = {d: _format(d, "conj") for d in (complex64, complex128)}
NEGATED = {d: _format(d, "neg") for d in (float32, float64)}
FORMATS = (*CONJUGATED.values(), *NEGATED.values())
# A bit set twice is none.
CONJUGATED.update({f: d for d, f in CONJUGATED.items()})
NEGATED.update({f: d for d, f in NEGATED.items()})

# The dtype of a complex dtype's parts, and the other way round.
PARTS = {complex64: float32, complex128: float64}
OF_PARTS = {d: c for c, d in PARTS.items()}


def complex_of(d: dtype) -> dtype:
    """The complex dtype of numbers whose parts are of ``d``; complex64 for narrower floats.

    >>> complex_of(float64)
    jitgrad.complex128
    """
    return d.plain if d.is_complex else OF_PARTS.get(d.plain, complex64)


def real_of(d: dtype) -> dtype:
    """The dtype of magnitudes: of a complex dtype that of its parts, else the dtype itself.

    >>> real_of(complex64)
    jitgrad.float32
    """
    return PARTS.get(d.plain, d.plain)


def by_name(name: str) -> dtype:
    """The dtype of that name (for pickling)."""
    return BY_NAME[name]


def by_tensor_type(name: str) -> dtype | None:
    """The dtype of tensors of a legacy type, by its name with or without the package's.

    >>> by_tensor_type("jitgrad.LongTensor")
    jitgrad.int64
    """
    return _BY_TENSOR_TYPE.get(name.rpartition(".")[2])


# PyTorch keeps these for storage and interchange: they promote with floats alone.
BAREBONES = (uint16, uint32, uint64)
HALVES = (float16, bfloat16)
ALL = (
    bool_, uint8, int8, int16, int32, int64, *BAREBONES,
    *HALVES, float32, float64, complex64, complex128,
)  # fmt: skip
BY_NAME = {d.name: d for d in (*ALL, *FORMATS)}
_BY_TENSOR_TYPE = {d.tensor_type: d for d in ALL}
ALIASES = {
    "float": float32,
    "double": float64,
    "half": float16,
    "cfloat": complex64,
    "cdouble": complex128,
    "long": int64,
    "int": int32,
    "short": int16,
    "bool": bool_,
}
_BY_NUMPY = {d.np: d for d in ALL if d is not bfloat16}

# What a Python number is before promotion looks at the tensors it meets.
PYTHON_TYPES: dict[type, dtype] = {
    bool: bool_,
    int: int64,
    float: float64,
    complex: complex128,
}


def dtype_argument(name: str, given: Any) -> dtype | None:
    """The ``dtype=`` of a call: None, a dtype, or a Python type of numbers; else TypeError."""
    if given is None or given.__class__ is dtype:
        return given
    found = PYTHON_TYPES.get(given) if isinstance(given, type) else None
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


def _promote(a: dtype, b: dtype) -> dtype | None:
    if a is b:
        return a
    if a.category > b.category:
        a, b = b, a
    if a in BAREBONES or b in BAREBONES:
        return b if b.category == FLOATING else None
    if b.is_complex:
        wide = float64 in (a, b) or complex128 in (a, b)
        return complex128 if wide else complex64
    if a.category != b.category:
        return b
    if a.category == INTEGER and a.is_signed != b.is_signed:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        if signed.itemsize > unsigned.itemsize:
            return signed
        return BY_NAME[f"int{16 * unsigned.itemsize}"]
    if a.itemsize == b.itemsize:
        return float32  # float16 and bfloat16: neither holds the other
    return a if a.itemsize > b.itemsize else b


_PROMOTIONS = {
    (a, b): d
    for a in (*ALL, *FORMATS)
    for b in (*ALL, *FORMATS)
    if (d := _promote(a.plain, b.plain)) is not None
}


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that both can be cast to without leaving their categories.

    >>> promote_types(uint8, int8)
    jitgrad.int16
    >>> promote_types(int64, float32)
    jitgrad.float32

    Raises:
        RuntimeError: for uint16, uint32 or uint64 with anything but itself or a float.
    """
    try:
        return _PROMOTIONS[a, b]
    except KeyError:
        names = [d.tensor_type.removesuffix("Tensor") for d in (a, b)]
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{names[0]} and {names[1]}; convert one of them first"
        ) from None


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
    if higher.is_floating_point and lower.is_complex:
        return complex_of(higher)
    if higher.category >= FLOATING:
        return higher.plain
    if lower.is_complex:
        return lower.plain
    if higher.category == BOOL or lower.category >= FLOATING:
        return promote_types(higher, lower)
    return higher
