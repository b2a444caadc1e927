"""Pointers to 16-bit floats: float32 to whoever loads and stores through them.

Numba's CPU target knows neither float16 nor bfloat16, and LLVM turns its own ``half``, where the
processor has no instructions for it, into calls of a library that compiled code cannot count on. So
the conversions are integer work on the bits, without branches: a loop over them vectorises; only
float16 is left to the instructions of x86 where they exist. Stores round to nearest, ties to even.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

_I16, _I32, _F32, _F16 = ir.IntType(16), ir.IntType(32), ir.FloatType(), ir.HalfType()


class HalfPointer(types.Type):
    """A pointer to elements of ``format``, ``float16`` or ``bfloat16``."""

    def __init__(self, format: str) -> None:
        super().__init__(name=f"{format}*")
        self.format = format


FLOAT16_POINTER = HalfPointer("float16")
BFLOAT16_POINTER = HalfPointer("bfloat16")


@register_model(HalfPointer)
class _HalfPointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: HalfPointer) -> None:
        super().__init__(manager, kind, _I16.as_pointer())


def _converts(context: Any) -> bool:
    """Whether the code that is generated may use instructions for float16 (x86's F16C)."""
    return "+f16c" in getattr(context.codegen(), "_tm_features", "").split(",")


def _float(builder: Any, bits: Any) -> Any:
    return builder.bitcast(bits, _F32)


def _widen_float16(context: Any, builder: Any, bits: Any) -> Any:
    if _converts(context):
        return builder.fpext(builder.bitcast(bits, _F16), _F32)
    wide = builder.zext(bits, _I32)
    sign = builder.shl(builder.and_(wide, _I32(0x8000)), _I32(16))
    magnitude = builder.shl(builder.and_(wide, _I32(0x7FFF)), _I32(13))
    # The exponent field means 2^112 times as much as in float32; a product mends that, for
    # subnormal numbers too.
    finite = builder.bitcast(builder.fmul(_float(builder, magnitude), _F32(2.0**112)), _I32)
    special = builder.or_(magnitude, _I32(0x7F800000))
    large = builder.icmp_unsigned(">=", magnitude, _I32(0x7C00 << 13))
    return _float(builder, builder.or_(builder.select(large, special, finite), sign))


def _narrow_float16(context: Any, builder: Any, value: Any) -> Any:
    if _converts(context):
        return builder.bitcast(builder.fptrunc(value, _F16), _I16)
    bits = builder.bitcast(value, _I32)
    sign = builder.lshr(builder.and_(bits, _I32(0x80000000)), _I32(16))
    x = builder.and_(bits, _I32(0x7FFFFFFF))
    odd = builder.and_(builder.lshr(x, _I32(13)), _I32(1))
    rounded = builder.add(builder.add(x, _I32(0xFFF)), odd)
    normal = builder.sub(builder.lshr(rounded, _I32(13)), _I32(112 << 10))
    # Beside 0.5 a float32 has the steps of float16's subnormals: the addition rounds to them.
    shifted = builder.bitcast(builder.fadd(_float(builder, x), _F32(0.5)), _I32)
    tiny = builder.sub(shifted, _I32(0x3F000000))
    result = builder.select(builder.icmp_unsigned("<", x, _I32(113 << 23)), tiny, normal)
    large = builder.icmp_unsigned(">=", x, _I32(143 << 23))
    nan = builder.icmp_unsigned(">", x, _I32(0x7F800000))
    result = builder.select(large, builder.select(nan, _I32(0x7E00), _I32(0x7C00)), result)
    return builder.trunc(builder.or_(result, sign), _I16)


def _widen_bfloat16(context: Any, builder: Any, bits: Any) -> Any:
    return _float(builder, builder.shl(builder.zext(bits, _I32), _I32(16)))


def _narrow_bfloat16(context: Any, builder: Any, value: Any) -> Any:
    bits = builder.bitcast(value, _I32)
    odd = builder.and_(builder.lshr(bits, _I32(16)), _I32(1))
    rounded = builder.lshr(builder.add(builder.add(bits, _I32(0x7FFF)), odd), _I32(16))
    nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.select(nan, _I32(0x7FC0), rounded), _I16)


_WIDEN = {"float16": _widen_float16, "bfloat16": _widen_bfloat16}
_NARROW = {"float16": _narrow_float16, "bfloat16": _narrow_bfloat16}


@infer_global(operator.getitem)
class _Load(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], HalfPointer) and isinstance(args[1], types.Integer):
            return signature(types.float32, args[0], types.intp)
        return None


@infer_global(operator.setitem)
class _Store(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], HalfPointer) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.intp, types.float32)
        return None


@lower_builtin(operator.getitem, HalfPointer, types.Integer)
def _load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    bits = builder.load(builder.gep(args[0], [args[1]]))
    return _WIDEN[sig.args[0].format](context, builder, bits)


@lower_builtin(operator.setitem, HalfPointer, types.Integer, types.Float)
def _store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    narrow = _NARROW[sig.args[0].format]
    builder.store(narrow(context, builder, args[2]), builder.gep(args[0], [args[1]]))
    return context.get_dummy_value()
