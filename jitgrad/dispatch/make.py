"""Allocation, aliases, and Python numbers as tensors."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import dtypes, errors, state
from ..layout import Layout, Shape, Strides, dense_layout, layout
from ..memory_format import copy_layout, preserve_format
from ..state import modes
from ..storage import INFERENCE_COUNTER, Storage
from ..tensor import Tensor, make

_new = object.__new__
_empty = np.empty
_BYTE = np.dtype(np.uint8)


def fresh(of: Layout) -> Tensor:
    """An uninitialised tensor with a storage of its own (dense layouts only)."""
    storage = _new(Storage)
    storage.version = 0
    storage.buffer = _empty(of.nbytes, _BYTE)
    storage.owner = storage.writer = None
    result = _new(Tensor)
    result.storage = storage
    result.counter = INFERENCE_COUNTER if modes.inference else storage
    result.offset = 0
    result.layout = of
    result.edge = result.view_meta = result.meta = None
    result.tracked = False
    return result


def fresh_like(tensor: Tensor, d: dtypes.dtype | None = None) -> Tensor:
    """Uninitialised, dense, laid out like ``tensor`` if that is dense."""
    return fresh(like_layout(tensor.layout, d))


def like_layout(of: Layout, d: dtypes.dtype | None = None) -> Layout:
    """The dense layout PyTorch's preserve_format gives to a copy of ``of``."""
    return copy_layout(of, d or of.dtype, preserve_format)


def alias(tensor: Tensor) -> Tensor:
    """The same memory and the same counter, without history."""
    result = make(tensor.storage, tensor.offset, tensor.layout)
    result.counter = tensor.counter
    return result


_MAX_CONSTANTS = 1024
_constants: dict[Any, Tensor] = {}
_WRAPPED = {kind: Layout((), (), d, wrapped=True) for kind, d in dtypes.PYTHON_TYPES.items()}
NUMBERS = frozenset(_WRAPPED)


def constant(number: Any) -> Tensor:
    """A Python number as a 0-d tensor that promotes like a number; shared, so never written."""
    kind = number.__class__
    key = (kind, number) if number else (kind, repr(number))  # 0.0 and -0.0 are equal
    found = _constants.get(key)
    if found is None:
        if len(_constants) >= _MAX_CONSTANTS:
            _constants.clear()
        of = _WRAPPED[kind]
        found = fresh(of)
        found.counter = found.storage  # not of inference mode, in which it may be made
        try:
            found._array()[()] = number
        except OverflowError as error:
            raise RuntimeError(
                f"value cannot be converted to type {of.dtype.name} without overflow: {number}"
            ) from error
        _constants[key] = found
    return found


@functools.cache
def number(value: float, d: dtypes.dtype) -> Tensor:
    """A number as a 0-d tensor of a dtype; shared, so never written."""
    result = fresh(dense_layout((), d))
    result.counter = result.storage  # not of inference mode, in which it may be made
    result._assign(np.asarray(value))
    return result


def python_number(value: Any) -> Any:
    """A NumPy scalar (or a subclass of a number) as the plain Python number; None if it is none."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (numbers.Real, np.floating)):
        return float(value)
    if isinstance(value, (numbers.Complex, np.complexfloating)):
        return complex(value)
    return None


_C_NAMES = {
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>", "bool": "bool",
}  # fmt: skip


def does_not_fit(d: dtypes.dtype) -> RuntimeError:
    """The error for a number beyond the range of a dtype."""
    name = _C_NAMES.get(d.name, f"{d.name}_t")
    return RuntimeError(
        f"value cannot be converted to type {name} without overflow: it has {d.name} numbers from "
        f"{d.lowest} to {d.highest}"
    )


def check_fits(d: dtypes.dtype, number: Any) -> None:
    """RuntimeError for a number beyond the dtype; as in PyTorch, negative numbers wrap round to
    unsigned dtypes, bools take any number and floats also what is not finite."""
    if number.__class__ is complex:
        if number.imag and not d.is_complex:
            raise does_not_fit(d)
        check_fits(d, number.real)
        check_fits(d, number.imag)
        return
    if d.lowest <= number <= d.highest or d.category == dtypes.BOOL:
        return
    if d.category >= dtypes.FLOATING:
        if math.isfinite(number):
            raise does_not_fit(d)
    elif d.is_signed or not -d.highest <= number < 0:
        raise does_not_fit(d)


def result_dtype(layouts: Any) -> dtypes.dtype:
    """PyTorch's promotion over tensors (by rank) and Python numbers."""
    classes: list[dtypes.dtype | None] = [None, None, None]  # dimensioned, 0-d, numbers
    for of in layouts:
        d = of.dtype.plain
        if of.wrapped and d.category >= dtypes.FLOATING:
            d = state.get_default_complex_dtype() if d.is_complex else state.get_default_dtype()
        rank = 2 if of.wrapped else 1 if of.ndim == 0 else 0
        held = classes[rank]
        classes[rank] = d if held is None else dtypes.promote_types(held, d)
    combined = dtypes.combine_categories(
        classes[0], dtypes.combine_categories(classes[1], classes[2])
    )
    assert combined is not None
    return combined


def dense(shape: Shape, d: dtypes.dtype) -> Tensor:
    """An uninitialised row-major tensor."""
    return fresh(dense_layout(shape, d))


def strided(shape: Shape, strides: Strides, d: dtypes.dtype) -> Tensor:
    """An uninitialised tensor with the given strides, on a storage just large enough."""
    of = layout(shape, strides, d.plain)
    return make(Storage.allocate(of.span() * d.itemsize), 0, of)


# Arguments ----------------------------------------------------------------------------------------
def int_argument(name: str, argument: str, value: Any) -> int:
    """An integer argument as a plain int; TypeError for anything else."""
    if value.__class__ is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise errors.argument(name, argument, "int", value)
    return value.__index__()


def ints_argument(name: str, argument: str, values: Any) -> tuple[int, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise errors.argument(name, argument, "tuple of ints", values)
    return tuple(int_argument(name, argument, v) for v in values)
