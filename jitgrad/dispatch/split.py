"""Functions of several views: split, chunk, unbind and their kin."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ..autograd.views import Creation, ViewMeta, creation_now
from ..layout import Layout, dense_layout, layout, normalize_dim
from ..ops.table import Structured
from ..ops.views import VIEWS
from ..state import GRAD, modes
from ..storage import INFERENCE_COUNTER, VersionCounter
from ..tensor import Tensor, make
from . import tangents
from .convert import copy_elements
from .make import fresh, int_argument, ints_argument, number
from .record import Outcome, StructuredNode, node_class
from .view import node_of_view, seen, slice_, view_of


def split(self: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given size (the last may be smaller) or of the given sizes, as views."""
    node, places = _parts(self, split_size_or_sections, dim)
    return _several(self, node, places)


def split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes, as views."""
    return split(self, ints_argument("split_with_sizes", "split_sizes", split_sizes), dim)


def unsafe_split(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`split` whose results are no views: they may be written in place, at one's own risk."""
    node, places = _parts(self, split_size, dim)
    return _several(self, f"unsafe_{node}", places, views=False)


def unsafe_split_with_sizes(
    self: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """:func:`split_with_sizes` whose results are no views (see :func:`unsafe_split`)."""
    return unsafe_split(self, ints_argument("split_with_sizes", "split_sizes", split_sizes), dim)


def split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given size (the last may be smaller) or of the given sizes, as views."""
    return split(self, split_size, dim)


def _parts(self: Tensor, split_size_or_sections: Any, dim: int) -> tuple[str, list[Any]]:
    """The node's name and the slices of a split."""
    of = self.layout
    if of.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = normalize_dim(int_argument("split", "dim", dim), of.ndim)
    n = of.shape[dim]
    whole = hasattr(split_size_or_sections, "__index__")
    if whole:
        size = int_argument("split", "split_size", split_size_or_sections)
        if size < 0 or (size == 0 and n):
            raise RuntimeError(
                f"split expects split_size be non-negative, but got split_size={size}"
            )
        sections = [size] * (n // size if size else 1)
        if size and (n % size or not sections):
            sections.append(n % size)
    else:
        sections = list(ints_argument("split_with_sizes", "split_sizes", split_size_or_sections))
        if sum(sections) != n or any(s < 0 for s in sections):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size "
                f"at dimension {dim}), but got split_sizes={sections}"
            )
    ends = list(itertools.accumulate(sections))
    places = [("slice", (dim, end - s, end, 1)) for end, s in zip(ends, sections, strict=True)]
    return "split" if whole else "split_with_sizes", places


def tensor_split(
    self: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    sections: Any = None,
    indices: Any = None,
) -> tuple[Tensor, ...]:
    """``n`` parts of sizes as equal as can be, or the parts between the given indices, as views."""
    given = indices_or_sections
    if given is None:
        given = sections if indices is None else indices
    if self.layout.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = normalize_dim(int_argument("tensor_split", "dim", dim), self.layout.ndim)
    n = self.layout.shape[dim]
    if isinstance(given, Tensor):
        given = given.tolist()
    if isinstance(given, Iterable):
        bounds = [0, *ints_argument("tensor_split", "indices", given), n]
    else:
        count = int_argument("tensor_split", "sections", given)
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        small, larger = divmod(n, count)
        bounds = [0, *itertools.accumulate(small + (i < larger) for i in range(count))]
    return tuple(slice_(self, dim, a, b) for a, b in itertools.pairwise(bounds))


def _split_along(name: str, self: Tensor, given: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    of = self.layout
    if of.ndim < least:
        raise RuntimeError(
            f"{name} requires a tensor with at least {least} dimension, but got a tensor with "
            f"{of.ndim} dimensions!"
        )
    if not isinstance(given, Iterable):
        count = int_argument(name, "sections", given)
        if count <= 0 or of.shape[dim] % count:
            raise RuntimeError(
                f"{name} attempted to split along dimension {dim}, but the size of the dimension "
                f"{of.shape[dim]} is not divisible by the split_size {count}!"
            )
    return tensor_split(self, given, dim)


def hsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along columns; the sizes must come out equal."""
    dim = 0 if self.layout.ndim == 1 else 1
    return _split_along("hsplit", self, indices_or_sections, dim, 1)


def vsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along rows; the sizes must come out equal."""
    return _split_along("vsplit", self, indices_or_sections, 0, 2)


def dsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along the third dimension; the sizes must come out equal."""
    return _split_along("dsplit", self, indices_or_sections, 2, 3)


def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts of equal size (the last may be smaller), as views."""
    return split(self, _chunk_size(self, chunks, dim), dim)


def unsafe_chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`chunk` whose results are no views (see :func:`unsafe_split`)."""
    return unsafe_split(self, _chunk_size(self, chunks, dim), dim)


def _chunk_size(self: Tensor, chunks: int, dim: int) -> Any:
    """The size of every chunk, or a list of sizes where there is nothing to divide."""
    chunks = int_argument("chunk", "chunks", chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if self.layout.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    n = self.layout.shape[normalize_dim(dim, self.layout.ndim)]
    return -(-n // chunks) or [0] * chunks


def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Every index of a dimension, as views."""
    if self.layout.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = normalize_dim(int_argument("unbind", "dim", dim), self.layout.ndim)
    return _several(self, "unbind", [("select", (dim, i)) for i in range(self.layout.shape[dim])])


def _gathered(grad: Any, layout: Layout, places: Any) -> Tensor:
    """The gradient of a tensor from those of its views, which cover it without overlapping."""
    grads = (grad,) if isinstance(grad, Tensor) else grad
    if not modes.mode:
        total = fresh(dense_layout(layout.shape, layout.dtype))
        for g, (kind, arguments) in zip(grads, places, strict=True):
            part = seen(total, kind, arguments)
            copy_elements(number(0, layout.dtype) if g is None else g, part)
        return total
    parts = [
        (g._embed(layout, *place)) for g, place in zip(grads, places, strict=True) if g is not None
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _multi_node(name: str, outputs: int) -> type[StructuredNode]:
    row = structured_once(name, outputs)
    return node_class(row)


_multi: dict[tuple[str, int], type[StructuredNode]] = {}


def structured_once(name: str, outputs: int) -> Any:
    """The row of a function of several views, which depends on how many there are."""

    return Structured(name, ("self",), {"self": _gathered}, outputs=outputs, fresh=True)


def _several(
    self: Tensor, name: str, places: Sequence[tuple[str, tuple[Any, ...]]], views: bool = True
) -> tuple[Tensor, ...]:
    """Views that share one node; none of them may be written in place under grad mode.

    ``views`` False: tensors of families of their own that happen to share memory.
    """
    results = []
    for kind, arguments in places:
        row = VIEWS[kind]
        shape, strides, offset, *_ = row.geometry(self.layout, *arguments)
        d = self.layout.dtype
        result = make(self.storage, self.offset + offset * d.itemsize, layout(shape, strides, d))
        result.counter = self.counter
        result.tracked = self.counter is not INFERENCE_COUNTER
        results.append(result)
    if self.counter is INFERENCE_COUNTER:
        return tuple(results)  # no views, but inference tensors of their own
    edge = None
    if results and modes.mode & GRAD and self.tracked:
        key = (name, len(results))
        cls = _multi.get(key)
        if cls is None:
            cls = _multi[key] = _multi_node(*key)
        outcome = Outcome.of((self,), results)
        edge = node_of_view(cls, self, outcome, {"places": tuple(places)})
    creation = creation_now()
    if creation is Creation.DEFAULT:
        creation = Creation.MULTI_OUTPUT
    base, parent = self, self.view_meta
    if parent is not None:
        base = parent.base
        if parent.creation is Creation.INFERENCE:
            creation = parent.creation
    for nr, result in enumerate(results):
        own = None if edge is None else (edge[0], nr)
        if views:
            result.view_meta = ViewMeta(base, own, self.counter.version, creation)
        else:
            result.counter = VersionCounter()
            result.edge = own
            result.tracked = own is not None
        if modes.levels:
            kind, arguments = places[nr]
            tangents.view(result, self, functools.partial(view_of, kind=kind, arguments=arguments))
    return tuple(results)


METHODS = (
    "split_with_sizes unsafe_split unsafe_split_with_sizes unsafe_chunk tensor_split hsplit vsplit "
    "dsplit chunk unbind"
)
FUNCTIONS = (
    "split split_with_sizes unsafe_split unsafe_split_with_sizes unsafe_chunk tensor_split hsplit "
    "vsplit dsplit chunk unbind"
)
