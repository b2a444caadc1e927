"""Facts about dtypes and tensors: finfo, iinfo, result_type and the ``is_*`` questions."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes, state
from .dispatch.make import NUMBERS, constant, result_dtype
from .dtypes import dtype
from .tensor import Tensor


class finfo:
    """Limits of a floating-point dtype (the default one unless given).

    Attributes:
        bits, eps, max, min, tiny, smallest_normal, resolution: as in NumPy.

    Raises:
        TypeError: for a dtype that is not floating-point.

    >>> finfo(dtypes.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: dtype | None = None) -> None:
        d = type or state.get_default_dtype()
        if not isinstance(d, dtype) or not d.is_floating_point:
            raise TypeError(
                "jitgrad.finfo() requires a floating point input type. Use jitgrad.iinfo to "
                f"handle '{d!r}'"
            )
        info = np.finfo(d.np)
        self.dtype = d.name
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(info.resolution)


class iinfo:
    """Limits of an integer dtype.

    Attributes:
        bits, max, min: as in NumPy.

    Raises:
        TypeError: for a dtype that is not an integer.
    """

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or type.category != dtypes.INTEGER:
            raise TypeError(
                f"jitgrad.iinfo() requires an integer input type. Use jitgrad.finfo to handle "
                f"'{type!r}'"
            )
        info = np.iinfo(type.np)
        self.dtype = type.name
        self.bits, self.max, self.min = int(info.bits), int(info.max), int(info.min)


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype of an arithmetic operation on two tensors or numbers."""
    operands = [constant(x) if x.__class__ in NUMBERS else x for x in (tensor1, tensor2)]
    return result_dtype([x.layout for x in operands])


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floats."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex."""
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero; RuntimeError where there are more or none."""
    return bool(input)
