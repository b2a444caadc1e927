"""``x[index]`` and ``x[index] = value``: from what was written in brackets to views and indices.

An index is read from left to right. Numbers, slices, None and Ellipsis make views; what is a
tensor, or can become one (lists, ranges, NumPy arrays), is collected and applied to the view at the
end (dispatch/index.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.views import Creation, ViewMeta, creation_now, requires_grad
from ..dtypes import HALVES, INTEGER, dtype, uint8
from ..dtypes import bool_ as _BOOL
from ..dtypes import int64 as _INT64
from ..layout import Layout, dense_layout, layout
from ..state import GRAD, modes
from ..storage import INFERENCE_COUNTER
from ..tensor import Tensor
from . import convert
from .index import MASKS, index, index_put_, put_rows_
from .make import NUMBERS, check_fits, constant, dense, python_number
from .plans import PlanCache
from .view import view_of

Step = tuple[str, tuple[Any, ...]]  # a view and its arguments
_MAX_SEQUENCE = 32  # longer lists are never taken for tuples of indices
_BASIC = (slice, type(None), type(Ellipsis))  # make views on their own
_selects = PlanCache()
_numbers = PlanCache()


# Reading ------------------------------------------------------------------------------------------
def getitem(self: Tensor, item: Any) -> Tensor:
    """``self[item]``, with PyTorch's rules.

    Integers, slices (with a positive step), None, Ellipsis and 0-d integer tensors give views;
    integer tensors, lists, NumPy arrays, masks and bools give copies.

    Raises:
        IndexError: for too many indices, one out of bounds, or a thing that cannot index.
        ValueError: for a slice with a step that is not positive.

    Gradient: that of the views and copies it is made of.
    """
    kind = item.__class__
    if kind is int:
        return _first(self, item)
    if kind is slice:
        return view_of(self, "slice", _sliced(self.layout, item))
    if kind is tuple or kind in _BASIC:
        quick = _direct(self) and _quick(self, item if kind is tuple else (item,))
        if quick:
            return quick[0]
    elif kind is Tensor and _is_index(item, self):
        return index(self, (item,))
    result, indices = apply(self, as_tuple(item))
    if indices is not None:
        return index(result, indices)
    return view_of(self, "alias", ()) if result is self else result


def _sliced(of: Layout, item: slice) -> tuple[Any, ...]:
    """A slice alone, which makes a view even of the whole dimension, as arguments of that view."""
    start, stop, step = item.start, item.stop, item.step
    plain = start.__class__ in _BOUNDS and stop.__class__ in _BOUNDS and step.__class__ in _BOUNDS
    found = _slices.get((of, start, stop, step)) if plain else None
    if found is None:
        if not of.ndim:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        found = (0, *bounds(item, of.shape[0]))
        if plain:
            _slices.add((of, start, stop, step), found)
    return found


_BOUNDS = (int, type(None))
_slices = PlanCache()


def _is_index(item: Tensor, indexed: Tensor) -> bool:
    """Whether a tensor is an index that needs no reading: int64, and not a number."""
    return item.layout.dtype is _INT64 and item.layout.ndim > 0 and indexed.layout.ndim > 0


def _direct(self: Tensor) -> bool:
    """Whether a view need not be recorded, nor be told of by any other mode."""
    mode = modes.mode
    if mode > GRAD or self.counter is INFERENCE_COUNTER:
        return False
    return not (mode and self.tracked and requires_grad(self))


def _first(self: Tensor, position: int) -> Tensor:
    """``self[position]``: the shortest way to a view of one row."""
    of = self.layout
    plan = _selects.get(of)
    if plan is None:
        if not of.ndim:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
            )
        row = layout(of.shape[1:], of.strides[1:], of.dtype)
        plan = _selects.add(of, (of.shape[0], of.strides[0] * of.dtype.itemsize, row))
    size, step, row = plan
    if not -size <= position < size:
        raise _out_of_bounds(position, 0, size)
    # What is no view and is tracked requires grad: there is no need to ask.
    if (self.tracked is True and self.view_meta is None) or not _direct(self):
        return view_of(self, "select", (0, position))
    if position < 0:
        position += size
    return _unrecorded(self, row, position * step)


def _quick(self: Tensor, items: tuple[Any, ...]) -> tuple[Tensor] | None:
    """The view that basic entries make, at once instead of step by step.

    None for other entries, and for whatever is to raise.
    """
    of = self.layout
    shape, strides, ndim = of.shape, of.strides, of.ndim
    sizes: list[int] = []
    steps: list[int] = []
    offset = dim = 0
    for item in items:
        kind = item.__class__
        if item is None:
            sizes.append(1)
            steps.append(shape[dim] * strides[dim] if dim < ndim else 1)
            continue
        if item is Ellipsis:
            rest = dim + max(0, ndim - sum(i is not None and i is not Ellipsis for i in items))
            sizes += shape[dim:rest]
            steps += strides[dim:rest]
            dim = rest
            continue
        if dim == ndim:
            return None
        size, stride = shape[dim], strides[dim]
        dim += 1
        if kind is int:
            if item < 0:
                item += size
            if not 0 <= item < size:
                return None
            offset += item * stride
        elif kind is slice:
            start, end, step = item.indices(size)
            if step <= 0:
                return None
            sizes.append((end - start + step - 1) // step if end > start else 0)
            steps.append(stride * step)
            offset += start * stride
        else:
            return None
    geometry = layout((*sizes, *shape[dim:]), (*steps, *strides[dim:]), of.dtype)
    return (_unrecorded(self, geometry, offset * of.dtype.itemsize),)


def _unrecorded(source: Tensor, of: Layout, offset: int) -> Tensor:
    """A view at an offset in bytes, where :func:`_direct` holds."""
    result = _new(Tensor)
    result.storage = source.storage
    result.offset = source.offset + offset
    result.layout = of
    result.counter = counter = source.counter
    result.edge = result.meta = None
    result.tracked = True
    result.view_meta = view = _new(ViewMeta)
    now = _DEFAULT if modes.mode == GRAD else creation_now()
    parent = source.view_meta
    if parent is None:
        view.base, view.creation = source, now
    else:
        creation = parent.creation
        view.base = parent.base
        view.creation = creation if now is _DEFAULT or creation is Creation.INFERENCE else now
    view.edge = None
    view.version = counter.version
    view.requires_grad = False
    return result


_new = object.__new__
_DEFAULT = Creation.DEFAULT


def bounds(item: slice, size: int) -> tuple[int, int, int]:
    """Start, end and step of a slice of a dimension, clamped to it."""
    if item.step is not None and item.step.__class__ is not int:
        item = slice(item.start, item.stop, _integer(item.step))
    if item.step is not None and item.step < 0:
        raise ValueError("step must be greater than zero")
    return item.indices(size)


def _is_whole(item: slice, size: int) -> bool:
    """Whether a slice takes a dimension as it is, as written (PyTorch then makes no view)."""
    return (
        (item.start is None or item.start.__index__() == 0)
        and (item.stop is None or item.stop.__index__() >= size)
        and (item.step is None or item.step.__index__() == 1)
    )


def _integer(value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return value.__index__()


def _out_of_bounds(position: int, dim: int, size: int) -> Exception:
    if not -(1 << 63) <= position < 1 << 63:
        return ValueError("Overflow when unpacking long long")
    return IndexError(f"index {position} is out of bounds for dimension {dim} with size {size}")


# From what was written to steps -------------------------------------------------------------------
def as_tuple(item: Any) -> tuple[Any, ...]:
    """The index as a tuple, one entry per dimension.

    A list that holds sequences, tensors, slices, None or Ellipsis is taken for a tuple, as PyTorch
    (still) does, with its warning.
    """
    if isinstance(item, tuple):
        return item
    if isinstance(item, list) and len(item) < _MAX_SEQUENCE and any(map(_is_structured, item)):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be "
            "changed in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will "
            "be interpreted as tensor index, x[torch.tensor(seq)], which will result either in an "
            "error or a different result",
            UserWarning,
            stacklevel=3,
        )
        return tuple(item)
    return (item,)


def _is_structured(entry: Any) -> bool:
    return (
        entry is None
        or entry is Ellipsis
        or isinstance(entry, (slice, Tensor))
        or _is_sequence(entry)
    )


def _is_sequence(value: Any) -> bool:
    return (
        hasattr(value, "__getitem__") and hasattr(value, "__len__") and not isinstance(value, dict)
    )


def apply(self: Tensor, items: tuple[Any, ...]) -> tuple[Tensor, list[Tensor | None] | None]:
    """The view that the basic entries make, and the index tensors still to be applied to it.

    The view is ``self`` where no entry changes anything; the indices are None where there are none.
    """
    of = self.layout
    shape, strides = of.shape, of.strides
    sizes: list[int] = []
    steps_in: list[int] = []
    views: list[Step] = []
    indices: list[Tensor | None] = []
    advanced = False
    offset = dim = 0
    for position, (kind, entry) in enumerate(_entries(items, of)):
        place = len(sizes)
        if kind == "int":
            size = shape[dim]
            if not -size <= entry < size:
                raise _out_of_bounds(entry, position, size)
            entry = entry + size if entry < 0 else entry
            offset += entry * strides[dim]
            views.append(("select", (place, entry)))
            dim += 1
        elif kind == "slice":
            size = shape[dim]
            start, end, step = bounds(entry, size)
            if not _is_whole(entry, size):
                offset += start * strides[dim]
                size = max(0, -(-(end - start) // step))
                views.append(("slice", (place, start, end, step)))
            sizes.append(size)
            steps_in.append(strides[dim] * step)
            indices.append(None)
            dim += 1
        elif kind == "rest":
            sizes += shape[dim : dim + entry]
            steps_in += strides[dim : dim + entry]
            indices += [None] * entry
            dim += entry
        elif kind == "new" or kind == "bool":
            stride = shape[dim] * strides[dim] if dim < of.ndim else 1
            sizes.append(1)
            steps_in.append(stride)
            views.append(("unsqueeze", (place,)))
            indices.append(None if kind == "new" else entry)
            advanced = advanced or kind == "bool"
        else:
            covers = entry.layout.ndim if entry.layout.dtype in MASKS else 1
            sizes += shape[dim : dim + covers]
            steps_in += strides[dim : dim + covers]
            indices.append(entry)
            advanced = True
            dim += covers
    sizes += shape[dim:]
    steps_in += strides[dim:]
    result = self
    if views:
        if not _direct(self):
            for view, arguments in views:
                result = view_of(result, view, arguments)
        else:
            geometry = layout(tuple(sizes), tuple(steps_in), of.dtype)
            result = _unrecorded(self, geometry, offset * of.dtype.itemsize)
    return result, indices if advanced else None


def _entries(items: tuple[Any, ...], of: Layout) -> list[tuple[str, Any]]:
    """Every entry with its kind: int, slice, rest (of dimensions), new, bool or tensor."""
    entries: list[tuple[str, Any]] = []
    used = 0
    ellipsis = -1
    for item in items:
        kind = item.__class__
        if kind is int:
            entries.append(("int", item))
            used += 1
        elif kind is slice:
            entries.append(("slice", item))
            used += 1
        elif item is None:
            entries.append(("new", None))
        elif item is Ellipsis:
            if ellipsis < 0:
                ellipsis = len(entries)
            entries.append(("rest", 0))
        elif kind is bool:
            entries.append(("bool", _bool_index(item)))
        else:
            entry = _entry(item, kind)
            entries.append(entry)
            if entry[0] == "tensor" and entry[1].layout.dtype in MASKS:
                used += entry[1].layout.ndim
            elif entry[0] != "bool":
                used += 1
    if used > of.ndim:
        raise IndexError(f"too many indices for tensor of dimension {of.ndim}")
    if ellipsis >= 0:
        entries[ellipsis] = ("rest", of.ndim - used)
    return entries


def _entry(item: Any, kind: type) -> tuple[str, Any]:
    """An entry that is none of Python's own index types."""
    if isinstance(item, Tensor):
        return _tensor_entry(item)
    if isinstance(item, np.ndarray):
        return _tensor_entry(_from_array(item))
    if isinstance(item, (int, np.integer)):
        return "int", int(item)
    if isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    if _is_sequence(item) and not isinstance(item, np.generic):
        return _tensor_entry(_from_sequence(item))
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {name})"
    )


def _tensor_entry(t: Tensor) -> tuple[str, Any]:
    of = t.layout
    if of.dtype.category > INTEGER:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if of.ndim:
        return "tensor", t
    if of.dtype in MASKS:
        return "bool", _bool_index(bool(t.item()))
    return "int", t.item()


def _bool_index(value: bool) -> Tensor:
    """The index that a single bool is, in a new dimension of size one: all of it or nothing."""
    result = dense((int(value),), _INT64)
    if value:
        convert.copy_elements(constant(0), result)
    return result


def _from_array(array: np.ndarray) -> Tensor:
    """A NumPy array as an index: bools and uint8 are masks, other numbers positions."""
    if array.dtype.kind == "b":
        d = _BOOL
    elif array.dtype == np.uint8:
        d = uint8
    elif array.dtype.kind in "iuf":
        d = _INT64
    else:
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype.type.__module__}."
            f"{array.dtype.type.__name__}."
        )
    result = dense(array.shape, d)
    result._assign(array)
    return result


def _from_sequence(sequence: Sequence[Any]) -> Tensor:
    """A list of numbers (or lists, or tensors) as an index."""
    from .creation import tensor

    found = tensor(list(sequence)) if not isinstance(sequence, range) else tensor([*sequence])
    d = found.layout.dtype
    return (
        found
        if d in MASKS or d is _INT64
        else convert.copied(found, dense_layout(found.layout.shape, _INT64))
    )


# Writing ------------------------------------------------------------------------------------------
def setitem(self: Tensor, item: Any, value: Any) -> None:
    """``self[item] = value``.

    Where ``item`` makes a view, the value (a number or a tensor of any dtype) is cast, broadcast
    and copied into it; else it is put at the indexed places, and must have the dtype of ``self``.
    Leading dimensions of size one that the target does not have are dropped.

    Raises:
        IndexError, ValueError: as reading does.
        TypeError: for a value that is neither a number nor a tensor.
        RuntimeError: for a value that does not broadcast, or that ``self`` cannot hold.

    Gradient: zero for what was overwritten; ``value`` gets what is at its place.
    """
    if not isinstance(value, Tensor):
        value = _number(self.layout.dtype, value)
    kind = item.__class__
    if kind is int:
        _assign(_first(self, item), value)
        return
    if item is False:
        return
    if item is True:
        _assign(view_of(self, "unsqueeze", (0,)), value)
        return
    quick = None
    if (kind is tuple or kind in _BASIC) and _direct(self) and _direct(value):
        quick = _quick(self, item if kind is tuple else (item,))
    if quick:
        _assign(quick[0], value)
        return
    if kind is Tensor and _is_index(item, self):
        if not put_rows_(self, item, value):
            index_put_(self, (item,), _stripped(value))
        return
    target, indices = apply(self, as_tuple(item))
    if indices is None:
        _assign(target, value)
        return
    of = value.layout
    if of.dtype is not target.layout.dtype and of.numel == 1 and _single_mask(indices):
        value = value.to(target.layout.dtype)
    index_put_(target, indices, _stripped(value))


def _single_mask(indices: Sequence[Tensor | None]) -> bool:
    given = [t for t in indices if t is not None]
    return len(given) == 1 and given[0].layout.dtype in MASKS


def _assign(target: Tensor, value: Tensor) -> None:
    """Copy a value into a view, broadcast."""
    of = value.layout
    if of.shape == target.layout.shape:
        convert.copy_(target, value)
    elif not of.ndim:
        convert.fill_(target, value)
    else:
        # PyTorch takes a view here even where there is nothing to strip: the graph shows it.
        stripped = view_of(value, "view", (_stripped_shape(value),))
        shape = target.layout.shape
        same = stripped.layout.shape == shape
        convert.copy_(target, stripped if same else view_of(stripped, "expand", (shape,)))


def _stripped(value: Tensor) -> Tensor:
    """Without leading dimensions of size one."""
    shape = _stripped_shape(value)
    return value if shape == value.layout.shape else view_of(value, "view", (shape,))


def _stripped_shape(value: Tensor) -> tuple[int, ...]:
    shape = value.layout.shape
    first = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return shape[first:]


def _number(d: dtype, value: Any) -> Tensor:
    """A number as a 0-d tensor of the dtype it is assigned to; raises where it does not fit."""
    number = value
    if value.__class__ not in NUMBERS:
        fits = isinstance(value, (int, float, np.integer, np.bool_))
        number = python_number(value) if fits else None
        if number is None:
            name = type(value).__name__
            if isinstance(value, (np.generic, np.ndarray)):
                name = f"numpy.{name}"
            raise TypeError(f"can't assign a {name} to a jitgrad.{d.tensor_type}")
    key = (d, number.__class__, number)
    found = _numbers.get(key) if number else None  # 0.0 and -0.0 are equal
    if found is None:
        if number.__class__ is int and not -(1 << 63) <= number < 1 << 63:
            raise ValueError("Overflow when unpacking long long")
        # PyTorch lets 16-bit floats overflow to infinity here.
        if d not in HALVES or number.__class__ is complex:
            check_fits(d, number)
        found = dense((), d)
        convert.copy_elements(constant(number), found)
        if number:
            _numbers.add(key, found)
    return found


METHODS = ("__getitem__", "__setitem__")
