"""The larger and the smaller of two numbers, as instructions that reductions vectorise over."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _pick(name: str, doc: str) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.return_type
        flags: tuple[str, ...] = ()
        if isinstance(kind, types.Float):
            # No flag but nsz: NaN must come through. LLVM knows it as a reduction all the same.
            full, flags = f"llvm.{name}imum", ("nsz",)
        else:
            full = f"llvm.{'s' if kind.signed else 'u'}{name}"
        declared = builder.module.declare_intrinsic(
            full, [args[0].type], ir.FunctionType(args[0].type, [args[0].type] * 2)
        )
        return builder.call(declared, args, fastmath=flags)

    def typed(typingctx: Any, x: Any, y: Any) -> Any:
        return (x(x, y), emit) if x == y else None

    typed.__doc__ = doc
    return intrinsic(typed)


larger = _pick("max", "The larger of two numbers of one type; NaN if either is.")
smaller = _pick("min", "The smaller of two numbers of one type; NaN if either is.")
