"""What plain Numba lacks: bit casts, fused multiply-add, selects and the rounding instructions.

Each of these is one or a few LLVM instructions with a vector form, so a loop over them still
vectorises. They exist only inside compiled code; the stubs of the other modules are what plain
Python calls.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

# What every scalar function is compiled with: IEEE division, and a*b+c fused where the machine can.
# Nothing here may reassociate or assume away NaN, infinities or signed zeros. A call left in a loop
# would keep it from vectorising, so inlining is not left to LLVM's taste.
OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True}


def implement(stub, float32=None, float64=None, integer=None, boolean=None):
    """Give ``stub`` its compiled implementations; the type of the first argument picks one.

    All arguments must have that type (kernels cast before they call): a mixed call is a typing
    error, not a silent promotion to float64.
    """

    def choose(*args):
        kind = types.unliteral(args[0])
        if any(types.unliteral(a) != kind for a in args[1:]):
            return None
        if kind == types.float32:
            return float32
        if kind == types.float64:
            return float64
        if isinstance(kind, types.Boolean):
            return boolean
        return integer if isinstance(kind, types.Integer) else None

    overload(stub, jit_options=OPTIONS, strict=False)(choose)


def _integer_of(kind):
    return types.int32 if kind == types.float32 else types.int64


def _declare(builder, name, kinds):
    signature = ir.FunctionType(kinds[0], kinds)
    return builder.module.declare_intrinsic(name, kinds[:1], signature)


@intrinsic
def to_bits(typingctx, x):
    """The bits of a float as the signed integer of its width."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(x.bitwidth))

    return _integer_of(x)(x), codegen


@intrinsic
def from_bits(typingctx, i, like):
    """The float of ``like``'s type with the low bits of ``i`` (Numba widens integer arithmetic to
    int64).
    """

    def codegen(context, builder, signature, args):
        value = context.cast(builder, args[0], i, _integer_of(like))
        return builder.bitcast(value, context.get_value_type(like))

    return like(i, like), codegen


@intrinsic
def power_of_two(typingctx, n, like):
    """2^n in the type of ``like``, for the exponents of normal numbers; of n only the lowest bits
    count.
    """

    def codegen(context, builder, signature, args):
        width, digits, bias = (32, 23, 127) if like == types.float32 else (64, 52, 1023)
        kind = ir.IntType(width)
        value = context.cast(builder, args[0], n, _integer_of(like))
        field = builder.shl(builder.add(value, kind(bias)), kind(digits))
        return builder.bitcast(field, context.get_value_type(like))

    return like(n, like), codegen


@intrinsic
def as_type(typingctx, value, like):
    """``value`` converted to the type of ``like``; integers wrap."""

    def codegen(context, builder, signature, args):
        return context.cast(builder, args[0], value, like)

    return like(value, like), codegen


@intrinsic
def select(typingctx, condition, a, b):
    """``a if condition else b`` without a branch: both sides are computed."""
    if a != b or not isinstance(condition, types.Boolean):
        return None

    def codegen(context, builder, signature, args):
        test = context.cast(builder, args[0], condition, types.boolean)
        return builder.select(builder.trunc(test, ir.IntType(1)), args[1], args[2])

    return a(condition, a, b), codegen


@intrinsic
def horner(typingctx, x, coefficients):
    """The polynomial with ``coefficients``, highest power first, at ``x``; fused where the machine
    can.
    """
    kind = coefficients.dtype if isinstance(coefficients, types.UniTuple) else None
    if kind != x:
        return None

    def codegen(context, builder, signature, args):
        point, table = args
        step = _declare(builder, "llvm.fmuladd", [point.type] * 3)
        total = builder.extract_value(table, 0)
        for i in range(1, coefficients.count):
            total = builder.call(step, [total, point, builder.extract_value(table, i)])
        return total

    return x(x, coefficients), codegen


def _llvm(name, doc):
    """The LLVM instruction ``name``, on one, two or three floats of one type."""

    def codegen(context, builder, signature, args):
        call = _declare(builder, name, [a.type for a in args])
        return builder.call(call, list(args))

    def one(typingctx, x):
        return x(x), codegen

    def two(typingctx, x, y):
        return (x(x, y), codegen) if x == y else None

    def three(typingctx, x, y, z):
        return (x(x, y, z), codegen) if x == y == z else None

    count = {"llvm.copysign": 2, "llvm.fma": 3}.get(name, 1)
    typing = (one, two, three)[count - 1]
    typing.__doc__ = doc
    return intrinsic(typing)


magnitude = _llvm("llvm.fabs", "The absolute value of a float.")
square_root = _llvm("llvm.sqrt", "The correctly rounded square root; NaN below zero.")
round_down = _llvm("llvm.floor", "Rounded towards minus infinity.")
round_up = _llvm("llvm.ceil", "Rounded towards infinity.")
round_to_zero = _llvm("llvm.trunc", "Rounded towards zero.")
round_to_even = _llvm("llvm.rint", "Rounded to the nearest integer, ties to even.")
with_sign = _llvm("llvm.copysign", "The magnitude of the first with the sign of the second.")
fma = _llvm("llvm.fma", "x*y + z rounded once, also where the machine has no such instruction.")


@intrinsic
def library_fmod(typingctx, x, y):
    """C's fmod. A plain call and not LLVM's frem, which would be hoisted out of the branch that
    avoids it.
    """
    if x != y:
        return None

    def codegen(context, builder, signature, args):
        kind = args[0].type
        name = "fmodf" if x == types.float32 else "fmod"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind, kind]), name
        )
        return builder.call(function, args)

    return x(x, y), codegen


@intrinsic
def funnel(typingctx, high, low, count):
    """The upper half of ``high:low << count``, for unsigned integers of one width."""
    if not high == low == count:
        return None

    def codegen(context, builder, signature, args):
        return builder.call(_declare(builder, "llvm.fshl", [a.type for a in args]), list(args))

    return high(high, low, count), codegen
