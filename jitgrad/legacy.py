"""Types of tensors by their old names: ``FloatTensor(2, 3)``, ``isinstance(t, LongTensor)``."""

from __future__ import annotations

from typing import Any

from . import dtypes, state
from .dispatch.creation import empty, tensor
from .dtypes import dtype
from .tensor import Size, Tensor


def constructed(d: dtype, args: tuple[Any, ...]) -> Tensor:
    """What the old constructors make: of sizes uninitialised memory, of anything else its values.

    A tensor of the same dtype is not copied.
    """
    if len(args) == 1 and not isinstance(args[0], int):
        (data,) = args
        if isinstance(data, Size):
            return empty(data, dtype=d)
        if not isinstance(data, Tensor):
            return tensor(data, dtype=d)
        if data.dtype is not d:
            raise TypeError(f"expected {d} (got {data.dtype})")
        return data.detach()
    return empty(args or (0,), dtype=d)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """The old form of ``new_empty(*sizes)`` and ``new_tensor(data)``."""
    return constructed(self.dtype, args)


def _make(cls: type, *args: Any, **kwargs: Any) -> Any:
    """``Tensor(...)``: of the default dtype; subclasses take over the memory of a tensor."""
    of = args[0].dtype if args and isinstance(args[0], Tensor) else state.get_default_dtype()
    result = constructed(of, args)
    if cls is not Tensor:
        alias: Any = object.__new__(cls)
        for slot in ("storage", "offset", "layout", "counter", "edge", "tracked", "view_meta"):
            setattr(alias, slot, getattr(result, slot))
        alias.meta = None
        return alias
    return result


class TensorType(type):
    """The class of ``FloatTensor`` and its kin: says which tensors are of one, and makes them."""

    dtype: dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return constructed(cls.dtype, args)


TYPES = {d.tensor_type: TensorType(d.tensor_type, (), {"dtype": d}) for d in dtypes.ALL}

Tensor.__new__ = _make  # type: ignore[method-assign]
Tensor.new = new  # type: ignore[attr-defined]

# In-place methods that are functions of the package too.
INPLACE = (
    "abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ "
    "asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ "
    "deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ "
    "lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ "
    "relu_ resize_as_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ "
    "xlogy_ zero_"
)
