"""Copies and casts: clone, contiguous, to, copy_, fill_, zero_, and resizing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import dtypes, errors
from ..autograd.cut import unrecorded
from ..autograd.views import check_inplace, rebase_history, requires_grad
from ..kernels import elementwise
from ..layout import Layout, broadcast_shapes, contiguous_strides, dense_layout, layout
from ..memory_format import (
    contiguous_format,
    copy_layout,
    format_argument,
    is_in,
    memory_format,
    preserve_format,
    suggested,
)
from ..ops.table import structured
from ..state import GRAD, modes
from ..storage import INFERENCE_COUNTER, ReadOnly, Storage
from ..tensor import CPU, Tensor, device, make
from . import tangents
from .elementwise import check_memory, check_writable, functions
from .make import NUMBERS, check_fits, constant, fresh, like_layout, python_number
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record, record_history, wants_grad

_copies = PlanCache()


def copy_plan(source: Layout, target: Layout) -> Any:
    """The driver and spec that cast and copy from one layout to another."""
    plan = _copies.get((source, target))
    if plan is None:
        plan = elementwise.plan(("self",), ("self",), (source,), (target,), target.dtype.plain)
        _copies.add((source, target), plan)
    return plan


def copy_elements(source: Tensor, target: Tensor) -> None:
    """Cast and copy, broadcasting ``source``; no checks, no history."""
    run, spec = copy_plan(source.layout, target.layout)
    run(spec, source.storage.buffer, source.offset, target.storage.buffer, target.offset)


def copied(source: Tensor, of: Layout) -> Tensor:
    """A fresh tensor of the given dense layout with the values of ``source``; no history."""
    result = fresh(of)
    copy_elements(source, result)
    return result


def resolved(x: Tensor) -> Tensor:
    """In a formula: the tensor, or a copy if its elements lie in memory with other signs."""
    return x if x.layout.dtype is x.layout.dtype.plain else copied(x, like_layout(x.layout))


def flipped(*tensors: Tensor | None) -> bool:
    """Whether elements of any of these lie in memory with other signs (a conj or neg bit)."""
    return any(x is not None and x.layout.dtype is not x.layout.dtype.plain for x in tensors)


def unflipped(x: Any) -> Any:
    """:func:`resolved` with the history of a copy; None as it is."""
    return clone(x) if x is not None and flipped(x) else x


_CONTIGUOUS_CLONE = node_class(
    structured(
        "contiguous_clone",
        "self",
        grad={"self": lambda grad: grad},
        jvp={"self": lambda tangent: tangent},
        node="CloneBackward0",
    )
)
_TO = node_class(
    structured(
        "to",
        "self",
        grad={"self": lambda grad, layout: adjoint_cast(grad, layout)},
        jvp={"self": lambda tangent: tangent},
        node="ToCopyBackward0",
    )
)


def adjoint_cast(grad: Tensor, of: Layout) -> Tensor:
    """A gradient in the dtype of what it is for: of a real tensor's it is the real part."""
    if grad.layout.dtype.is_complex and not of.dtype.is_complex:
        grad = grad.real
    return to(grad, of.dtype)


def clone(self: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
    """A copy in memory of its own; the gradient passes through.

    Args:
        memory_format: ``preserve_format`` keeps a dense tensor's strides, ``contiguous_format``
            makes the copy row-major, ``channels_last`` puts the channels of images together.

    Raises:
        RuntimeError: if the format is for tensors of another rank.
    """
    format = format_argument("clone", memory_format)
    of = self.layout
    if format == preserve_format or (format == contiguous_format and of.contiguous):
        return functions["clone"](self)
    result = copied(self, copy_layout(of, of.dtype, format))
    record(_CONTIGUOUS_CLONE, (self,), (result,), {})
    return result


def contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """This tensor if it lies so (by default: row-major, without gaps), else a copy that does."""
    format = format_argument("contiguous", memory_format)
    return self if is_in(self.layout, format) else clone(self, memory_format=format)


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype (or on another device); itself if nothing changes.

    Accepts ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` and ``to(other)``, with
    ``copy=True`` to copy in any case.

    Gradient: cast back to the dtype of ``self``.
    """
    if not kwargs and len(args) == 1 and args[0].__class__ is dtypes.dtype:  # the common form
        given = args[0].plain
        return self if given is self.layout.dtype.plain else _cast(self, given, preserve_format)
    d = dtypes.dtype_argument("to", kwargs.pop("dtype", None))
    copy = kwargs.pop("copy", False)
    where = kwargs.pop("device", None)
    kwargs.pop("non_blocking", None)
    format = format_argument("to", kwargs.pop("memory_format", preserve_format))
    other = kwargs.pop("other", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if other is not None:
        args = (other, *args)
    flags: list[bool] = []
    for argument in args:
        if isinstance(argument, (dtypes.dtype, type)):
            d = dtypes.dtype_argument("to", argument)
        elif isinstance(argument, Tensor):
            d = argument.layout.dtype
        elif isinstance(argument, (str, device)):
            where = argument
        elif isinstance(argument, bool):
            flags.append(argument)  # non_blocking, then copy
        elif argument is not None:
            raise TypeError(
                "to() received an invalid combination of arguments - got "
                f"({type(argument).__name__})"
            )
    copy = copy or (len(flags) > 1 and flags[1])
    if where is not None:
        device(where)
    old = self.layout
    d = (d or old.dtype).plain
    if d is old.dtype.plain and not copy and format in (preserve_format, suggested(old)):
        return self
    return _cast(self, d, format)


def _cast(self: Tensor, d: dtypes.dtype, format: memory_format = preserve_format) -> Tensor:
    """A copy in dtype ``d``, recorded if that is a float."""
    key = (self.layout, d, format)
    plan = _casts.get(key)
    if plan is None:
        old = self.layout
        of = copy_layout(old, d, format)
        plan = _casts.add(key, (of, *copy_plan(old, of), Outcome((old,), (of,))))
    of, run, spec, outcome = plan
    if self.layout.dtype.is_complex and not of.dtype.is_complex:
        warn_of_parts(of.dtype)
    result = fresh(of)
    run(spec, self.storage.buffer, self.offset, result.storage.buffer, 0)
    if self.tracked is not False or modes.levels:
        if d.category >= dtypes.FLOATING:
            _TO.record(self, result, _NO_ATTRIBUTES, outcome)
        else:
            unrecorded((self,), result, f"it was converted to {d.name}")
    return result


def warn_of_parts(d: dtypes.dtype) -> None:
    """Say that a cast leaves imaginary parts out (a cast to bool asks for zeros, and does not)."""
    if d is not dtypes.bool_:
        warnings.warn(
            "Casting complex values to real discards the imaginary part (take .real to say that "
            "this is meant)",
            UserWarning,
            stacklevel=4,
        )


_casts = PlanCache()
_NO_ATTRIBUTES: dict[str, Any] = {}


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """In the dtype of ``other``."""
    return to(self, other.layout.dtype)


def cast_method(d: dtypes.dtype, name: str) -> Any:
    """``Tensor.float()`` and its kin."""

    def cast(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
        if memory_format is not preserve_format:
            return to(self, d, memory_format=memory_format)
        return self if d is self.layout.dtype.plain else _cast(self, d)

    cast.__name__ = name
    cast.__doc__ = f"In dtype {d.name}; the tensor itself if it is already."
    return cast


# Overwriting --------------------------------------------------------------------------------------
_COPY = node_class(
    structured(
        "copy",
        "self src",
        grad={
            "self": lambda grad: grad.new_zeros(grad.layout.shape),
            "src": lambda grad, layout: adjoint_cast(grad.sum_to_size(layout.shape), layout),
        },
        node="CopyBackwards",
    )
)
_ZERO = node_class(
    structured("zero", "self", grad={"self": lambda grad: grad.new_zeros(grad.layout.shape)})
)
_FILL = node_class(
    structured(
        "fill",
        "self value",
        grad={
            "self": lambda grad: grad.new_zeros(grad.layout.shape),
            "value": lambda grad, layout: adjoint_cast(grad.sum(), layout),
        },
        node="FillBackward3",
    )
)
_FILL_NUMBER = node_class(
    structured(
        "fill_number",
        "self",
        grad={"self": lambda grad: grad.new_zeros(grad.layout.shape)},
        node="FillBackward2",
    )
)


_unchecked = PlanCache()  # of writes whose layouts need no further checks


def writes_freely(self: Tensor, source: Tensor) -> bool:
    """Whether ``source`` may be written to a tensor without a record, and nothing forbids it but
    perhaps their layouts."""
    mode = modes.mode
    if mode > GRAD or (
        mode
        and ((self.tracked and requires_grad(self)) or (source.tracked and requires_grad(source)))
    ):
        return False
    storage = self.storage
    return not (
        source.storage is storage
        or self.counter is INFERENCE_COUNTER
        or storage.owner.__class__ is ReadOnly
    )


def _overwritten(self: Tensor, source: Tensor, name: str) -> bool:
    """The short way to replace every element, where there is nothing to check or to record."""
    plan = _unchecked.get((source.layout, self.layout))
    if plan is None or not writes_freely(self, source):
        return False
    run, spec = plan
    run(spec, source.storage.buffer, source.offset, self.storage.buffer, self.offset)
    counter = self.counter
    counter.version += 1
    counter.writer = errors.writer(name, 3)
    return True


def _copied_tangent(given: Sequence[Any]) -> Sequence[Any]:
    return [clone(given[0])]  # the source keeps its own


def _overwrite(self: Tensor, source: Tensor, cls: type[StructuredNode], inputs: Any) -> Tensor:
    """Replace every element by the broadcast ``source``, and record it."""
    recorded = self.layout.dtype.category >= dtypes.FLOATING and wants_grad(inputs)
    check_inplace(self, recorded)
    if cls is _FILL_NUMBER or cls is _ZERO:
        check_writable(self)  # all elements become the same: it is no matter if some share memory
    else:
        (source,) = check_memory(self, (source,))
    history = None
    if recorded:
        # The node is made on a stand-in: `self` takes it as its new history only once written.
        stand_in = make(self.storage, self.offset, self.layout)
        record_history(cls, inputs, (stand_in,), {})
        history = stand_in.edge
    copy_elements(source, self)
    if self.layout.dense:
        _unchecked.add((source.layout, self.layout), copy_plan(source.layout, self.layout))
    self.counter.version += 1
    self.counter.writer = errors.writer(cls.row.name.removesuffix("_number") + "_")
    if history is not None:
        rebase_history(self, history[0])
    if modes.levels and self.layout.dtype.category >= dtypes.FLOATING:
        # Nothing of what was there is left: only the source's tangent counts.
        tangents.written(self, inputs[1:], _copied_tangent)
    return self


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Copy ``src`` into this tensor, broadcast and cast to its dtype.

    Gradient: zero for what was overwritten, that of the result for ``src``.
    """
    if not isinstance(src, Tensor):
        if python_number(src) is None:
            raise errors.argument("copy_", "other", "Tensor", src)
        src = number_tensor(src, "copy_", "other")
    if _overwritten(self, src, "copy_"):
        return self
    if src.layout.dtype.is_complex and not self.layout.dtype.is_complex:
        if src.layout.wrapped:
            check_fits(self.layout.dtype, src.item())
        warn_of_parts(self.layout.dtype)
    shape = self.layout.shape
    if src.layout.shape != shape and broadcast_shapes(src.layout.shape, shape) != shape:
        check_inplace(self, wants_grad((self, src)))
        raise RuntimeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape "
            f"{list(broadcast_shapes(src.layout.shape, shape))} in copy_()"
        )
    return _overwrite(self, src, _COPY, (self, src))


def fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element to a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        if value.layout.ndim:
            check_inplace(self, wants_grad((self, value)))
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.layout.ndim} dimensions."
            )
        if not _overwritten(self, value, "fill_"):
            _overwrite(self, value, _FILL, (self, value))
        return self
    number = number_tensor(value, "fill_", "value")
    check_fits(self.layout.dtype, value)
    if not _overwritten(self, number, "fill_"):
        _overwrite(self, number, _FILL_NUMBER, (self,))
    return self


def number_tensor(value: Any, name: str, argument: str) -> Tensor:
    """A number as a constant; TypeError for anything else."""
    number = value if value.__class__ in NUMBERS else python_number(value)
    if number is None:
        raise errors.argument(name, argument, "Number", value)
    return constant(number)


def zero_(self: Tensor) -> Tensor:
    """Set every element to zero; the gradient of what was there is zero."""
    if not _overwritten(self, _NOTHING, "zero_"):
        _overwrite(self, _NOTHING, _ZERO, (self,))
    return self


_NOTHING = constant(0)


# Geometry in place --------------------------------------------------------------------------------
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape, row-major, over a storage that grows as needed (new elements undefined)."""
    from ..tensor import shape_argument

    shape = shape_argument("resize_", sizes)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"resize_(): sizes must be non-negative, got {list(shape)}")
    if shape == self.layout.shape:
        return self
    check_inplace(self, recorded=False)
    of = layout(shape, contiguous_strides(shape), self.layout.dtype)
    needed = self.offset + of.numel * of.dtype.itemsize
    if needed > self.storage.nbytes():
        self.storage.resize_(needed)
    self.layout = of
    self.counter.version += 1
    return self


def resize_as_(self: Tensor, other: Tensor, *, memory_format: Any = None) -> Tensor:
    """:func:`resize_` to the shape of ``other``."""
    return resize_(self, other.layout.shape)


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The legacy name of the tensor's type; or the tensor in a dtype, given as one or by that name.

    Raises:
        ValueError: for an unknown name.
    """
    if dtype is None:
        return f"jitgrad.{self.layout.dtype.tensor_type}"
    if isinstance(dtype, str):
        found = dtypes.by_tensor_type(dtype)
        if found is None:
            raise ValueError(f"invalid type: '{dtype}'")
        return to(self, found)
    return to(self, getattr(dtype, "dtype", None) or dtype)  # a dtype, or DoubleTensor and kin


def _no_derivative(grad: Tensor) -> Tensor:
    raise RuntimeError("the derivative for 'set_' is not implemented")


_SET = node_class(
    structured(
        "set",
        "self source",
        grad={"self": _no_derivative, "source": _no_derivative},
        node="NotImplemented",
    )
)


def set_(self: Tensor, source: Any = None, *args: Any) -> Tensor:
    """Take over the storage and geometry of ``source`` (or become empty)."""
    inputs = (self, source) if isinstance(source, Tensor) else (self,)
    recorded = wants_grad(inputs)
    check_inplace(self, recorded)
    stand_in = make(self.storage, self.offset, self.layout)
    if recorded:
        record_history(_SET, inputs, (stand_in,), {})
    if source is None:
        of = layout((0,), (1,), self.layout.dtype)
        self.storage, self.offset, self.layout = Storage.allocate(0), 0, of
    elif isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError("Could not set tensor to a storage of another dtype")
        self.storage, self.offset, self.layout = source.storage, source.offset, source.layout
    else:
        offset, shape, *strides = args
        of = layout(
            tuple(shape),
            tuple(strides[0]) if strides else contiguous_strides(tuple(shape)),
            self.layout.dtype,
        )
        self.storage, self.offset, self.layout = source, offset * of.dtype.itemsize, of
    self.counter.version += 1
    self.counter.writer = errors.writer("set_")
    if stand_in.edge is not None:
        rebase_history(self, stand_in.edge[0])
    if self.meta is not None:
        self.meta.accumulator = None  # what was computed before belongs to another leaf
    return self


def cpu(self: Tensor) -> Tensor:
    """On the CPU: the tensor itself if it is there already."""
    return to(self, CPU)


def like(of: Tensor, values: Tensor) -> Tensor:
    """A copy of ``values`` in the strides of ``of`` if that is dense, else row-major."""
    geometry = of.layout if of.layout.dense else dense_layout(of.layout.shape, of.layout.dtype)
    if geometry.dtype.plain is not values.layout.dtype.plain:
        geometry = layout(geometry.shape, geometry.strides, values.layout.dtype)
    if not wants_grad((values,)):
        return copied(values, geometry)
    result = fresh(geometry)
    return copy_(result, values)


def shapes_reduce(shape: Sequence[int], to_shape: Sequence[int]) -> bool:
    """Whether summing over broadcast dimensions can turn ``shape`` into ``to_shape``."""
    lead = len(shape) - len(to_shape)
    return lead >= 0 and all(a == b or b == 1 for a, b in zip(shape[lead:], to_shape, strict=True))
