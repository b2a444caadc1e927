"""The kernel ABI, and the intrinsics that generated source is written with.

A kernel is one C-callable inner loop over raw addresses::

    kernel(p0, .., pk, s0, .., sk, n, extras)

``p`` are addresses, ``s`` strides in elements, ``n`` the number of steps and ``extras`` the address
of the int64 parameters that some templates need (a reduction's length, say). Every argument has the
size of a pointer, whatever the dtypes, so a few drivers (kernels/drivers.py) launch every kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

from . import flipped, half

I64 = ir.IntType(64)


class BufferType(types.Type):
    """A NumPy array passed to a driver as nothing but the address of its first byte.

    Numba unpacks an array argument into a structure and makes a reference-counted record of its
    owner, about 35 ns each; a driver needs only the address, which lies in the array object itself
    right behind its header. The caller keeps the array alive during the call.
    """

    def __init__(self) -> None:
        super().__init__(name="JitgradBuffer")


BUFFER = BufferType()


@register_model(BufferType)
class _BufferModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: BufferType) -> None:
        super().__init__(manager, kind, I64)


@unbox(BufferType)
def _unbox_buffer(kind: BufferType, array: Any, c: Any) -> NativeValue:
    data = c.builder.gep(
        c.builder.bitcast(array, ir.IntType(8).as_pointer()), [I64(object.__basicsize__)]
    )
    return NativeValue(c.builder.load(c.builder.bitcast(data, I64.as_pointer())))


@intrinsic
def address(typingctx: Any, buffer: Any) -> Any:
    """The address of a buffer argument."""
    return types.intp(BUFFER), lambda context, builder, signature, args: args[0]


class BufferTupleType(types.Type):
    """A Python tuple of NumPy arrays passed to a driver as the address of the tuple.

    How many arrays there are is no part of the type, so one driver serves any number of them. The
    caller keeps the tuple, and so the arrays, alive during the call.
    """

    def __init__(self) -> None:
        super().__init__(name="JitgradBufferTuple")


BUFFER_TUPLE = BufferTupleType()


@register_model(BufferTupleType)
class _BufferTupleModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: BufferTupleType) -> None:
        super().__init__(manager, kind, I64)


@unbox(BufferTupleType)
def _unbox_buffer_tuple(kind: BufferTupleType, items: Any, c: Any) -> NativeValue:
    return NativeValue(c.builder.ptrtoint(items, I64))


@intrinsic
def item_address(typingctx: Any, items: Any, index: Any) -> Any:
    """The address of the memory of one array of a tuple."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def load(at: Any) -> Any:
            return builder.load(builder.inttoptr(at, I64.as_pointer()))

        place = builder.add(args[0], builder.mul(args[1], I64(8)))
        array = load(builder.add(place, I64(tuple.__basicsize__)))
        return load(builder.add(array, I64(object.__basicsize__)))

    return types.intp(BUFFER_TUPLE, types.intp), codegen


def _pointer(pointer: Any) -> Any:
    @intrinsic
    def as_pointer(typingctx: Any, address: Any) -> Any:
        """View an address as a pointer to elements."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(pointer))

        return pointer(types.intp), codegen

    return as_pointer


# Keyed as `p_<dtype name>` in generated source. A bool is stored as a byte that is 0 or 1; 16-bit
# floats are float32 to whoever loads and stores them (kernels/half.py).
p_bool = p_uint8 = _pointer(types.CPointer(types.uint8))
p_int8 = _pointer(types.CPointer(types.int8))
p_int16 = _pointer(types.CPointer(types.int16))
p_int32 = _pointer(types.CPointer(types.int32))
p_int64 = _pointer(types.CPointer(types.int64))
p_uint16 = _pointer(types.CPointer(types.uint16))
p_uint32 = _pointer(types.CPointer(types.uint32))
p_uint64 = _pointer(types.CPointer(types.uint64))
p_float16 = _pointer(half.FLOAT16_POINTER)
p_bfloat16 = _pointer(half.BFLOAT16_POINTER)
p_float32 = _pointer(types.CPointer(types.float32))
p_float64 = _pointer(types.CPointer(types.float64))
p_complex64 = _pointer(types.CPointer(types.complex64))
p_complex128 = _pointer(types.CPointer(types.complex128))
# Views whose elements lie in memory with other signs (kernels/flipped.py).
p_complex64_conj = _pointer(flipped.FlippedPointer(types.complex64))
p_complex128_conj = _pointer(flipped.FlippedPointer(types.complex128))
p_float32_neg = _pointer(flipped.FlippedPointer(types.float32))
p_float64_neg = _pointer(flipped.FlippedPointer(types.float64))


def _scratch(element: Any) -> Any:
    pointer = types.CPointer(element)

    @intrinsic(prefer_literal=True)
    def scratch(typingctx: Any, count: Any) -> Any:
        """``count`` (a literal) uninitialised elements on the stack of the calling function."""
        if not isinstance(count, types.IntegerLiteral):
            return None
        length = count.literal_value

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element_type = context.get_data_type(element)
            array = cgutils.alloca_once(builder, ir.ArrayType(element_type, length))
            return builder.bitcast(array, element_type.as_pointer())

        return pointer(count), codegen

    return scratch


scratch_uint8 = _scratch(types.uint8)
scratch_int8 = _scratch(types.int8)
scratch_int16 = _scratch(types.int16)
scratch_int32 = _scratch(types.int32)
scratch_int64 = _scratch(types.int64)
scratch_uint16 = _scratch(types.uint16)
scratch_uint32 = _scratch(types.uint32)
scratch_uint64 = _scratch(types.uint64)
scratch_float32 = scratch_float16 = scratch_bfloat16 = _scratch(types.float32)
scratch_float64 = _scratch(types.float64)
scratch_complex64 = _scratch(types.complex64)
scratch_complex128 = _scratch(types.complex128)


def _caller(arity: int) -> Any:
    count = 2 * arity + 2

    @intrinsic
    def call_kernel(typingctx: Any, address: Any, arguments: Any) -> Any:
        """Call the kernel at ``address`` with a tuple of its arguments."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kernel_type = ir.FunctionType(ir.VoidType(), [I64] * count)
            kernel = builder.inttoptr(args[0], kernel_type.as_pointer())
            builder.call(kernel, cgutils.unpack_tuple(builder, args[1], count))
            return context.get_dummy_value()

        return types.void(types.intp, types.UniTuple(types.intp, count)), codegen

    return call_kernel


MAX_ARITY = 12
call_kernel = {arity: _caller(arity) for arity in range(1, MAX_ARITY + 1)}
for _arity, _call in call_kernel.items():
    globals()[f"call_kernel_{_arity}"] = _call
