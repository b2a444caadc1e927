"""Tensors from values, from NumPy arrays, and from nothing but a shape."""

from __future__ import annotations

import functools
import math
import warnings
from array import array as packed
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, errors, state
from ..dtypes import dtype, dtype_argument
from ..layout import Layout, layout, span
from ..memory_format import (
    contiguous_format,
    copy_layout,
    format_argument,
    memory_format,
    preserve_format,
    shape_layout,
)
from ..storage import ReadOnly, Storage
from ..tensor import Tensor, device, make, shape_argument
from . import convert
from .elementwise import resize_out
from .make import (
    NUMBERS,
    check_fits,
    constant,
    dense,
    fresh,
    like_layout,
    python_number,
    strided,
)
from .plans import PlanCache


def _finish(
    tensor: Tensor, requires_grad: bool, where: Any = None, unknown: dict[str, Any] | None = None
) -> Tensor:
    """The keyword arguments that every factory shares."""
    if where is not None:
        device(where)
    for name in unknown or ():
        if name not in ("layout", "pin_memory", "names"):
            raise TypeError(f"got an unexpected keyword argument '{name}'")
    if requires_grad:
        tensor.requires_grad_()
    return tensor


# From values --------------------------------------------------------------------------------------
def _first(data: Any) -> Any:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _plain(data: Any, kinds: set[dtype]) -> Any:
    """Nested sequences with Tensors in them as nested lists of numbers; collects the dtypes that
    tensors and NumPy's scalars bring with them."""
    if isinstance(data, (list, tuple)):
        return [_plain(item, kinds) for item in data]
    if isinstance(data, Tensor):
        kinds.add(data.layout.dtype)
        return data.detach().tolist()
    if isinstance(data, np.generic) and data.dtype.kind in "biufc":
        kinds.add(dtypes.from_numpy(data.dtype))
    return data


def _check_rectangular(data: Any, dim: int = 0) -> None:
    if isinstance(data, (list, tuple)):
        lengths = {len(x) if isinstance(x, (list, tuple)) else -1 for x in data}
        if len(lengths) > 1:
            nested = isinstance(data[0], (list, tuple))
            if nested and -1 not in lengths:
                first, other = len(data[0]), next(len(x) for x in data if len(x) != len(data[0]))
                raise ValueError(
                    f"expected sequence of length {first} at dim {dim + 1} (got {other})"
                )
            if nested:
                raise TypeError("not a sequence: numbers and sequences are mixed in one list")
            kind = type(next(x for x in data if isinstance(x, (list, tuple)))).__name__
            raise TypeError(
                f"'{kind}' object cannot be interpreted as a number: numbers and sequences are "
                "mixed in one list"
            )
        for x in data:
            _check_rectangular(x, dim + 1)


def _not_numbers(values: np.ndarray, data: Any) -> Exception:
    """The error for values that no dtype holds."""
    first = _first(data)
    if isinstance(first, str) and not isinstance(data, str):
        return ValueError("too many dimensions 'str'")
    if values.dtype.kind in "SU":
        return TypeError("new(): invalid data type 'str'")
    if isinstance(first, int):
        return ValueError("Overflow when unpacking long long")
    return RuntimeError(f"Could not infer dtype of {type(first).__name__}")


def _infer(array: np.ndarray, data: Any, kinds: set[dtypes.dtype]) -> dtype:
    """What the elements promote to: ``kinds``, and the dtypes of Python's numbers."""
    if kinds:
        kinds = kinds | _python_kinds(data)
        return functools.reduce(dtypes.promote_types, kinds)
    if array.dtype.kind == "c":
        return state.get_default_complex_dtype()
    if array.dtype.kind == "f" or array.size == 0:
        return state.get_default_dtype()
    return dtypes.from_numpy(array.dtype)


def _python_kinds(data: Any) -> set[dtype]:
    if isinstance(data, (list, tuple)):
        return set().union(*map(_python_kinds, data))
    kind = dtypes.PYTHON_TYPES.get(type(data))
    if kind is dtypes.float64:
        kind = state.get_default_dtype()
    return set() if kind is None else {kind}


def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf tensor that copies ``data`` (nested lists, numbers, a NumPy array or a Tensor).

    The dtype is inferred from the values unless given: Python floats become the default dtype,
    ints int64, bools bool.

    Raises:
        ValueError: for ragged lists.
        TypeError: for elements that are not numbers.

    >>> import jitgrad as jg
    >>> jg.tensor([[1, 2], [3, 4]]).shape
    jitgrad.Size([2, 2])
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            "rather than jitgrad.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        of = like_layout(data.layout, dtype)
        return _finish(convert.copied(data, of), requires_grad, device)
    d = dtype_argument("tensor", dtype)
    if isinstance(data, np.ndarray):
        source = borrowed(data)
        return _finish(convert.copied(source, like_layout(source.layout, d)), requires_grad, device)
    quick = _numbers(data, d) if data.__class__ in _SEQUENCES and data else None
    if quick is not None:
        return _finish(quick, requires_grad, device) if requires_grad or device else quick
    _check_rectangular(data)
    kinds: set[dtypes.dtype] = set()
    plain = _plain(data, kinds)
    try:
        values = np.array(plain)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"too many dimensions or bad values for a tensor: {error}") from None
    if d is dtypes.uint64 and values.dtype.kind in "fO":
        values = _beyond_int64(plain, values)
    if values.dtype.kind not in "biufc" or (values.dtype == np.uint64 and _is_small(d)):
        raise _not_numbers(values, plain)
    d = d or _infer(values, data, kinds)
    if values.dtype.kind == "c" and not d.is_complex:
        raise TypeError("must be real number, not complex")
    if d.category == dtypes.INTEGER:
        _check_range(values, d)
    result = dense(values.shape, d)
    result._assign(values)
    return _finish(result, requires_grad, device)


def _beyond_int64(plain: Any, values: np.ndarray) -> np.ndarray:
    """Integers that NumPy, on its own, took for floats or objects; OverflowError beyond uint64."""
    exact = np.array(plain, np.object_)
    return exact.astype(np.uint64) if all(type(x) is int for x in exact.flat) else values


def _is_small(d: dtype | None) -> bool:
    """Whether numbers of a dtype must fit into int64 on their way there."""
    return d is None or (d.category == dtypes.INTEGER and d is not dtypes.uint64)


def _check_range(values: np.ndarray, d: dtype) -> None:
    """The error for numbers that an integer dtype does not hold; negative ones wrap round."""
    if d is dtypes.uint64:
        if values.dtype.kind in "fc":
            raise TypeError("an integer is required for uint64: use jitgrad.tensor(..).to(uint64)")
        if values.dtype.kind == "i" and values.size and values.min() < 0:
            raise OverflowError("can't convert negative int to unsigned")
    elif values.dtype.kind in "iuf" and values.size:
        for extreme in (values.min().item(), values.max().item()):
            check_fits(d, extreme)


_SEQUENCES = (list, tuple)


def _numbers(data: Sequence[Any], d: dtype | None) -> Tensor | None:
    """A vector of Python numbers of one kind, at once; None for anything else."""
    kinds = set(map(type, data))
    kind = kinds.pop()
    natural = dtypes.PYTHON_TYPES.get(kind)
    if kinds or natural is None:
        return None
    if natural.is_complex:
        return None
    if natural.is_floating_point:
        natural = d if d is not None and d.is_floating_point else state.get_default_dtype()
    if (d is not None and d is not natural) or natural.compute is not natural:
        return None
    try:
        values = packed("B" if natural is dtypes.bool_ else natural.np.char, data)
    except OverflowError:
        return None
    of = layout((len(data),), (1,), natural)
    return make(Storage(np.frombuffer(values, np.uint8)), 0, of)


def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, sharing memory where it can (a Tensor or NumPy array of that dtype)."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray):
        result = from_numpy(data)
        return result if dtype is None else result.to(dtype)
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """:func:`as_tensor` with a choice whether to copy."""
    result = as_tensor(obj, dtype=dtype, device=device)
    if copy and (isinstance(obj, np.ndarray) or result is obj):
        result = result.clone()
    return _finish(result, requires_grad) if requires_grad else result


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the memory of a NumPy array: writes to either are seen by both.

    Raises:
        TypeError: if it is not an ndarray, or its dtype has no counterpart.
        ValueError: for negative strides or a foreign byte order (copy the array first).
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and jitgrad does not support non-writable "
            "tensors: writing to this tensor raises. Copy the array to get one you can write to.",
            UserWarning,
            stacklevel=2,
        )
    return borrowed(array)


def borrowed(array: np.ndarray) -> Tensor:
    """A tensor on the memory of an array, or the error that says why there is none."""
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported; use array.astype(array.dtype."
            "newbyteorder('='))."
        )
    d = dtypes.from_numpy(array.dtype)
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().)"
        )
    if any(s % d.itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy "
            "array to reallocate the memory."
        )
    strides = tuple(s // d.itemsize for s in array.strides)
    count = span(array.shape, strides)
    flat = np.lib.stride_tricks.as_strided(
        array, (count,), (d.itemsize,), writeable=array.flags.writeable
    )
    storage = Storage(
        flat.view(np.uint8), owner=array if array.flags.writeable else ReadOnly(array)
    )
    return make(storage, 0, layout(array.shape, strides, d))


# From a shape -------------------------------------------------------------------------------------
def _factory(name: str, doc: str, value: float | None) -> Any:
    plans = PlanCache()
    filler = constant(0 if value is None else value)

    def plan(shape: Any, dtype: dtype | None, format: memory_format) -> Any:
        """The layout of a result, and how it is filled."""
        if any(n < 0 for n in shape):
            raise RuntimeError(
                f"{name}: Dimension size must be non-negative, but got negative dimension "
                f"{min(shape)} in {list(shape)}"
            )
        d = dtype_argument(name, dtype) or state.get_default_dtype()
        of = shape_layout(shape, d, format_argument(name, format))
        fill = (None, None) if value is None else convert.copy_plan(filler.layout, of)
        return plans.add((shape, dtype, format), (of, *fill))

    def create(
        *size: Any,
        out: Tensor | None = None,
        dtype: dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: memory_format = contiguous_format,
        **ignored: Any,
    ) -> Tensor:
        if "size" in ignored:
            size = (ignored.pop("size"),)
        elif not size:
            raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
        shape = shape_argument(name, size)
        try:
            of, run, spec = plans[shape, dtype, memory_format]
        except KeyError:
            of, run, spec = plan(shape, dtype, memory_format)
        result = fresh(of) if out is None else out.resize_(shape)
        if out is not None:
            if value is not None:
                convert.copy_elements(filler, result)
        elif run is not None:
            run(spec, filler.storage.buffer, 0, result.storage.buffer, 0)
        if requires_grad or device is not None or ignored:
            _finish(result, requires_grad, device, ignored)
        return result

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


def _like_factory(name: str, doc: str, value: float | None) -> Any:
    plans = PlanCache()
    filler = constant(0 if value is None else value)

    def plan(like: Layout, dtype: dtype | None, format: memory_format) -> Any:
        of = copy_layout(
            like, dtype_argument(name, dtype) or like.dtype, format_argument(name, format)
        )
        fill = (None, None) if value is None else convert.copy_plan(filler.layout, of)
        return plans.add((like, dtype, format), (of, *fill))

    def create(
        input: Tensor,
        *,
        dtype: dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: memory_format = preserve_format,
        **ignored: Any,
    ) -> Tensor:
        key = (input.layout, dtype, memory_format)
        of, run, spec = plans.get(key) or plan(*key)
        result = fresh(of)
        if run is not None:
            run(spec, filler.storage.buffer, 0, result.storage.buffer, 0)
        if requires_grad or device is not None or ignored:
            _finish(result, requires_grad, device, ignored)
        return result

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


empty = _factory("empty", "A tensor of the given shape whose values are undefined.", None)
zeros = _factory("zeros", "A tensor of the given shape filled with 0.", 0)
ones = _factory("ones", "A tensor of the given shape filled with 1.", 1)
empty_like = _like_factory("empty_like", "Undefined values in the shape of ``input``.", None)
zeros_like = _like_factory("zeros_like", "Zeros in the shape and dtype of ``input``.", 0)
ones_like = _like_factory("ones_like", "Ones in the shape and dtype of ``input``.", 1)


def _fill_number(name: str, value: Any) -> tuple[Any, dtype]:
    """A fill value as a Python number, and the dtype it calls for."""
    if isinstance(value, Tensor):
        value = value.item()
    number = python_number(value)
    if number is None:
        raise errors.argument(name, "fill_value", "Number", value)
    found = dtypes.PYTHON_TYPES[type(number)]
    if found.is_complex:
        return number, state.get_default_complex_dtype()
    return number, state.get_default_dtype() if found.is_floating_point else found


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: memory_format = contiguous_format,
    **ignored: Any,
) -> Tensor:
    """A tensor of shape ``size`` filled with ``fill_value``, of its dtype unless given."""
    if isinstance(size, int):
        raise errors.argument("full", "size", "tuple of ints", size)
    shape = shape_argument("full", (size,))
    number, d = _fill_number("full", fill_value)
    d = dtype_argument("full", dtype) or d
    result = fresh(shape_layout(shape, d, format_argument("full", memory_format)))
    check_fits(result.layout.dtype, number)
    convert.copy_elements(constant(number), result)
    return _finish(result, requires_grad, device, ignored)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: memory_format = preserve_format,
    **ignored: Any,
) -> Tensor:
    """``fill_value`` in the shape and dtype of ``input``."""
    number, _ = _fill_number("full_like", fill_value)
    d = dtype_argument("full_like", dtype) or input.layout.dtype
    result = fresh(copy_layout(input.layout, d, format_argument("full_like", memory_format)))
    check_fits(result.layout.dtype, number)
    convert.copy_elements(constant(number), result)
    return _finish(result, requires_grad, device, ignored)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """Undefined values with the given strides."""
    d = dtype_argument("empty_strided", dtype) or state.get_default_dtype()
    result = strided(tuple(size), tuple(stride), d)
    return _finish(result, requires_grad, device, ignored)


def scalar_tensor(value: Any, *, dtype: dtype | None = None, **options: Any) -> Tensor:
    """A 0-d tensor of a number, of the default dtype unless given."""
    return full((), value, dtype=dtype or state.get_default_dtype(), **options)


def _numeric(name: str, *values: Any) -> list[Any]:
    numbers = []
    for value in values:
        if value.__class__ in NUMBERS:
            numbers.append(value)
            continue
        number = python_number(value.item() if isinstance(value, Tensor) else value)
        if number is None:
            raise errors.argument(name, "start", "Number", value)
        numbers.append(number)
    return numbers


def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """``start, start + step, ...`` below ``end``: int64 for integers, else the default dtype.

    Raises:
        RuntimeError: for a zero step, or bounds that the step leads away from.
    """
    if end is None:
        start, end = 0, start
    start, end, step = _numeric("arange", start, end, step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not all(math.isfinite(x) for x in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    integral = all(isinstance(x, int) for x in (start, end, step))
    d = dtype_argument("arange", dtype)
    if d is None:
        integral_out = out is not None and out.layout.dtype.category < dtypes.FLOATING
        d = dtypes.int64 if integral or integral_out else state.get_default_dtype()
    if d is dtypes.int64 and not integral:  # PyTorch cuts the bounds first, for this dtype alone
        start, end, step, integral = int(start), int(end), int(step), True
        if step == 0:
            raise ValueError("step must be nonzero")
    if integral:
        count = -((start - end) // step)
    else:
        count = math.ceil((end - start) / step)
    steps = np.arange(max(count, 0))
    values = start + steps * step
    result = _of_values(values, d)
    result = result if out is None else _into("arange", out, result)
    return _finish(result, requires_grad, device, ignored)


def _of_values(values: np.ndarray, d: dtype) -> Tensor:
    result = dense(values.shape, d)
    result._assign(values)
    return result


def _into(name: str, out: Tensor, result: Tensor) -> Tensor:
    if out.layout.shape != result.layout.shape:
        resize_out(name, out, result.layout.shape)
    return convert.copy_(out, result)


def _check_ends(name: str, start: Any, end: Any) -> None:
    """The ends of a row of numbers are numbers, or 0-d tensors."""
    ranks = [x.layout.ndim if isinstance(x, Tensor) else 0 for x in (start, end)]
    if any(ranks):
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got start with "
            f"{ranks[0]} dimension(s) and end with {ranks[1]} dimension(s)."
        )


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """``steps`` values from ``start`` to ``end``, both included."""
    _check_ends("linspace", start, end)
    start, end = _numeric("linspace", start, end)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    complex_ = isinstance(start, complex) or isinstance(end, complex)
    default = state.get_default_complex_dtype() if complex_ else state.get_default_dtype()
    d = dtype_argument("linspace", dtype) or default
    if d.category < dtypes.FLOATING:
        start, end = int(start), int(end)
    # As PyTorch: counted from the nearer end, every operation rounded to the dtype of the result.
    kind = d if d.category >= dtypes.FLOATING else dtypes.float64

    def rounded(x: Any) -> np.ndarray:
        return kind.decode(kind.encode(np.asarray(x)))

    first, last, index = rounded(start), rounded(end), np.arange(steps)
    step = rounded(rounded(last - first) / rounded(max(steps - 1, 1)))
    rising = first + rounded(step * rounded(index))
    falling = last - rounded(step * rounded(steps - 1 - index))
    values = np.where(index < steps // 2, rising, falling) if steps != 1 else first.reshape(1)
    result = _of_values(np.trunc(values) if d.category < dtypes.FLOATING else values, d)
    result = result if out is None else _into("linspace", out, result)
    return _finish(result, requires_grad, device, ignored)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """``base`` to the powers of :func:`linspace`, computed in float64."""
    _check_ends("logspace", start, end)
    complex_ = any(isinstance(x, complex) for x in (start, end, base))
    default = state.get_default_complex_dtype() if complex_ else state.get_default_dtype()
    d = dtype_argument("logspace", dtype) or default
    wide = dtypes.complex128 if d.is_complex else dtypes.float64
    powers = linspace(start, end, steps, dtype=wide)._array()
    with np.errstate(all="ignore"):
        values = np.power(wide.np.type(base), powers)
    result = _of_values(np.trunc(values) if d.category < dtypes.FLOATING else values, d)
    result = result if out is None else _into("logspace", out, result)
    return _finish(result, requires_grad, device, ignored)


def range_(start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Tensor:
    """:func:`arange` that includes ``end``, and is float unless told otherwise. Deprecated."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    count = math.floor((end - start) / step) + 1
    if step == 0 or count < 1:
        raise RuntimeError(
            "step must be nonzero" if step == 0
            else "upper bound and lower bound inconsistent with step sign"
        )  # fmt: skip
    d = options.pop("dtype", None) or state.get_default_dtype()
    result = _of_values(np.float64(start) + np.float64(step) * np.arange(count), d)
    return _finish(
        result, options.pop("requires_grad", False), options.pop("device", None), options
    )


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """Undefined values whose dimensions lie in memory in the given order, slowest first."""
    rank = len(size)
    if len(physical_layout) != rank:
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {rank} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    strides, step = [0] * rank, 1
    for at, d in enumerate(physical_layout):
        if not 0 <= d < rank:
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {rank - 1}, but got {d} at "
                f"index {at}).  NB: negative dims not currently supported; file an issue if you "
                "want it."
            )
        if d in physical_layout[:at]:
            raise RuntimeError("Duplicate dim not allowed")
    for d in reversed(physical_layout):
        strides[d] = step
        step *= max(size[d], 1)
    return empty_strided(size, strides, **options)


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """The ``n`` by ``m`` identity."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n must be greater or equal to 0, got {min(n, m or 0)}")
    result = _of_values(np.eye(n, m), dtype_argument("eye", dtype) or state.get_default_dtype())
    result = result if out is None else _into("eye", out, result)
    return _finish(result, requires_grad, device, ignored)


# In the image of a tensor -------------------------------------------------------------------------
def new_tensor(self: Tensor, data: Any, *, dtype: dtype | None = None, **options: Any) -> Tensor:
    """:func:`tensor` in the dtype of ``self`` unless given."""
    return tensor(data, dtype=dtype or self.layout.dtype, **options)


def new_empty(self: Tensor, *size: Any, dtype: dtype | None = None, **options: Any) -> Tensor:
    """:func:`empty` in the dtype of ``self`` unless given."""
    return empty(*size, dtype=dtype or self.layout.dtype, **options)


def new_zeros(self: Tensor, *size: Any, dtype: dtype | None = None, **options: Any) -> Tensor:
    """:func:`zeros` in the dtype of ``self`` unless given."""
    return zeros(*size, dtype=dtype or self.layout.dtype, **options)


def new_ones(self: Tensor, *size: Any, dtype: dtype | None = None, **options: Any) -> Tensor:
    """:func:`ones` in the dtype of ``self`` unless given."""
    return ones(*size, dtype=dtype or self.layout.dtype, **options)


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: dtype | None = None, **options: Any
) -> Tensor:
    """:func:`full` in the dtype of ``self`` unless given."""
    return full(size, fill_value, dtype=dtype or self.layout.dtype, **options)


def new_empty_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: dtype | None = None
) -> Tensor:
    """:func:`empty_strided` in the dtype of ``self`` unless given."""
    return empty_strided(size, stride, dtype=dtype or self.layout.dtype)
