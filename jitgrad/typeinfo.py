"""Facts about dtypes and tensors: finfo, iinfo, result_type and the ``is_*`` questions."""

from __future__ import annotations

import math
from typing import Any

from . import dtypes, state
from .dispatch.make import NUMBERS, constant, result_dtype
from .dtypes import dtype
from .tensor import Tensor


class finfo:
    """Limits of a floating-point dtype (the default one unless given), or of a complex one's parts.

    Attributes:
        bits, eps, max, min, tiny, smallest_normal, resolution: as in NumPy.

    Raises:
        TypeError: for a dtype that is not floating-point.

    >>> finfo(dtypes.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: dtype | None = None) -> None:
        d = type or state.get_default_dtype()
        if isinstance(d, dtype) and d.is_complex:
            d = d.to_real()
        if not isinstance(d, dtype) or not d.is_floating_point:
            raise TypeError(
                "jitgrad.finfo() requires a floating point input type. Use jitgrad.iinfo to "
                f"handle '{d!r}'"
            )
        self.dtype = d.name
        self.bits = 8 * d.itemsize
        self.eps = 2.0 ** (1 - d.digits)
        self.max, self.min = d.highest, d.lowest
        exponent = math.frexp(d.highest)[1]  # the largest; the smallest is its mirror image
        self.tiny = self.smallest_normal = math.ldexp(1, 2 - exponent)
        self.resolution = 10.0 ** -int((d.digits - 1) * math.log10(2))

    def __repr__(self) -> str:
        facts = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        numbers = ", ".join(f"{name}={getattr(self, name):g}" for name in facts)
        return f"finfo({numbers}, dtype={self.dtype})"


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
        self.dtype = type.name
        self.bits, self.max, self.min = 8 * type.itemsize, type.highest, type.lowest

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


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
