"""Views as functions of Tensors, and the adjoints of those that leave elements out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .. import errors
from ..autograd.node import Edge
from ..autograd.saved import recorded
from ..autograd.views import Creation, ViewMeta, creation_now, gradient_edge, requires_grad
from ..layout import (
    Layout,
    Shape,
    Strides,
    has_internal_overlap,
    layout,
    normalize_dim,
)
from ..layout import span as span_of
from ..ops.table import structured
from ..ops.views import VIEWS, View, attributes
from ..state import GRAD, modes, next_sequence_number
from ..storage import INFERENCE_COUNTER
from ..tensor import Tensor, make, shape_argument
from . import tangents
from .make import alias, strided
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record

_new = object.__new__


class _Kind:
    """What the views of one kind share: their row, its node class, their plans."""

    __slots__ = ("cls", "plans", "row")

    def __init__(self, row: View) -> None:
        self.row = row
        self.cls = node_class(row.row)
        self.plans = PlanCache()

    def plan(self, of: Layout, arguments: tuple[Any, ...]) -> tuple[Layout, int, Any, Outcome]:
        """The view's layout, its offset in bytes, its named arguments, what a node remembers."""
        shape, strides, offset = self.row.geometry(of, *arguments)
        result = layout(shape, strides, of.dtype)
        named = attributes(self.row, arguments)
        outcome = Outcome((of,), (result,))
        plan = (result, offset * of.dtype.itemsize, named, outcome)
        return self.plans.add((of, arguments), plan)


_kinds = {name: _Kind(row) for name, row in VIEWS.items()}


def _node(cls: type[StructuredNode], source: Tensor, outcome: Outcome, named: Any) -> Edge | None:
    """The edge of a new view, None if its source does not require grad."""
    edge = source.edge or gradient_edge(source)
    if edge is None and not requires_grad(source):
        return None
    node = _new(cls)
    node.seq = next_sequence_number()
    node.next_edges = (edge,)
    node.hooks = None
    node.where = errors.caller(3)
    node.plan = outcome
    node.attributes = named
    node.names = node.saved = ()
    if modes.mode != GRAD:
        recorded(node)
    return (node, 0)


def view_of(source: Tensor, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """The view ``kind`` of a tensor, recorded if the tensor requires grad."""
    known = _kinds[kind]
    plan = known.plans.get((source.layout, arguments)) or known.plan(source.layout, arguments)
    result = _new(Tensor)
    result.storage = source.storage
    result.offset = source.offset + plan[1]
    result.layout = plan[0]
    result.counter = counter = source.counter
    result.edge = result.meta = result.view_meta = None
    result.tracked = False
    if counter is INFERENCE_COUNTER:
        return result  # no view, but an inference tensor of its own
    result.tracked = True
    mode = modes.mode
    edge = _node(known.cls, source, plan[3], plan[2]) if mode & GRAD and source.tracked else None
    parent = source.view_meta
    creation = _DEFAULT if mode == GRAD else creation_now()
    view = _new(ViewMeta)
    if parent is None:
        view.base = source
    else:
        view.base = parent.base
        if creation is _DEFAULT or parent.creation is Creation.INFERENCE:
            creation = parent.creation
    view.edge = edge
    view.version = counter.version
    view.creation = creation
    view.requires_grad = False
    result.view_meta = view
    if modes.levels:
        tangents.view(result, source, lambda tangent: view_of(tangent, kind, arguments))
    return result


_DEFAULT = Creation.DEFAULT


def unrecorded(source: Tensor, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """The memory of a view as a tensor of its own: for formulas, which nobody else sees."""
    known = _kinds[kind]
    plan = known.plans.get((source.layout, arguments)) or known.plan(source.layout, arguments)
    result = make(source.storage, source.offset + plan[1], plan[0])
    result.counter = source.counter
    return result


# Views with PyTorch's signatures ------------------------------------------------------------------
def view(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape, without a copy; one size may be -1.

    Raises:
        RuntimeError: if the strides do not allow it (use reshape).
    """
    return view_of(self, "view", (shape_argument("view", shape),))


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """:func:`view` in the shape of ``other``."""
    return view_of(self, "view", (other.layout.shape,))


def reshape(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy."""
    from ..layout import infer_shape, view_strides

    of = self.layout
    new = infer_shape(shape_argument("reshape", shape), of.numel)
    if view_strides(of.shape, of.strides, new) is None:
        return _unsafe_view(self.clone(memory_format="contiguous"), new)  # type: ignore[attr-defined]
    return view_of(self, "view", (new,))


_UNSAFE_VIEW = node_class(
    structured(
        "unsafe_view",
        "self",
        grad={"self": lambda grad, layout: grad.reshape(layout.shape)},
        jvp={"self": lambda tangent, result: reshape(tangent, result.shape)},
        node="UnsafeViewBackward0",
    )
)


def _unsafe_view(copy: Tensor, shape: Shape) -> Tensor:
    """A fresh copy in another shape: not a view, since nobody else has the copy."""
    result = make(copy.storage, copy.offset, view_of(copy.detach(), "view", (shape,)).layout)  # type: ignore[attr-defined]
    record(_UNSAFE_VIEW, (copy,), (result,), {})
    return result


def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one."""
    of = self.layout
    start, end = normalize_dim(start_dim, of.ndim), normalize_dim(end_dim, of.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if of.ndim == 0:
        return reshape(self, (1,))
    if start == end:
        return self
    count = 1
    for n in of.shape[start : end + 1]:
        count *= n
    return reshape(self, (*of.shape[:start], count, *of.shape[end + 1 :]))


def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split one dimension into several."""
    from ..layout import infer_shape

    of = self.layout
    dim = normalize_dim(dim, of.ndim)
    new = infer_shape(tuple(sizes), of.shape[dim])
    return view(self, (*of.shape[:dim], *new, *of.shape[dim + 1 :]))


def expand(self: Tensor, *sizes: Any) -> Tensor:
    """Dimensions of size one repeated without a copy; -1 keeps a size."""
    return view_of(self, "expand", (shape_argument("expand", sizes),))


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """:func:`expand` to the shape of ``other``."""
    return view_of(self, "expand", (other.layout.shape,))


def broadcast_to(self: Tensor, shape: Sequence[int]) -> Tensor:
    """:func:`expand` to ``shape``."""
    return view_of(self, "expand", (tuple(shape),))


def permute(self: Tensor, *dims: Any) -> Tensor:
    """The dimensions in another order."""
    order = shape_argument("permute", dims)
    return view_of(self, "permute", (tuple(d % (len(order) or 1) if d < 0 else d for d in order),))


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped."""
    return view_of(self, "transpose", (dim0, dim1))


def t(self: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are."""
    return view_of(self, "t", ())


def movedim(self: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other places, the others keeping their order."""
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (destination,) if isinstance(destination, int) else tuple(destination)
    n = self.layout.ndim
    moved = {
        normalize_dim(b, n): normalize_dim(a, n) for a, b in zip(sources, targets, strict=True)
    }
    rest = iter(d for d in range(n) if d not in moved.values())
    return permute(self, tuple(moved[d] if d in moved else next(rest) for d in range(n)))


def squeeze(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without its dimensions of size one (or those of ``dim`` that are)."""
    if dim is None:
        return view_of(self, "squeeze_all", ())
    return view_of(self, "squeeze_dims", ((dim,) if isinstance(dim, int) else tuple(dim),))


def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """With a new dimension of size one at ``dim``."""
    return view_of(self, "unsqueeze", (dim,))


def select(self: Tensor, dim: int, index: int) -> Tensor:
    """One index of a dimension, which disappears; IndexError if out of range."""
    return view_of(self, "select", (dim, index))


def slice_(self: Tensor, dim: int, start: int | None, end: int | None, step: int = 1) -> Tensor:
    """``self[start:end:step]`` along ``dim``."""
    return view_of(self, "slice", (dim, start, end, step))


def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` indices of a dimension from ``start`` on."""
    of = self.layout
    if of.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    dim = normalize_dim(dim, of.ndim)
    n = of.shape[dim]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(
            f"start out of range (expected to be in range of [{-n}, {n}], but got {start})"
        )
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return view_of(self, "slice", (dim, start, start + length, 1))


def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions, as the last dimension of the result."""
    return view_of(self, "diagonal", (offset, dim1, dim2))


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` every ``step`` along a dimension; they overlap if step < size."""
    return view_of(self, "unfold", (dimension, size, step))


def as_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Any shape and strides over the storage; RuntimeError where it would leave the storage."""
    size, stride = tuple(size), tuple(stride)
    first = self.storage_offset()
    start = first if storage_offset is None else storage_offset
    if len(size) == len(stride) and all(s >= 0 for s in stride):
        itemsize = self.layout.dtype.itemsize
        end = (start + span_of(size, stride)) * itemsize
        if span_of(size, stride) and (end > self.storage.nbytes() or start < 0):
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, "
                f"and itemsize {itemsize} requiring a storage size of {end} are out of bounds for "
                f"storage of size {self.storage.nbytes()}"
            )
    return view_of(self, "as_strided", (size, stride, start - first))


# Several views at once ----------------------------------------------------------------------------
def split(self: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given size (the last may be smaller) or of the given sizes, as views."""
    of = self.layout
    if of.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = normalize_dim(dim, of.ndim)
    n = of.shape[dim]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size < 0 or (size == 0 and n):
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
        sections = [size] * (n // size if size else 1)
        if size and (n % size or not sections):
            sections.append(n % size)
    else:
        sections = list(split_size_or_sections)
        if sum(sections) != n or any(s < 0 for s in sections):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size "
                f"at dimension {dim}), but got split_sizes={sections}"
            )
    starts = [sum(sections[:i]) for i in range(len(sections))]
    node = "split" if isinstance(split_size_or_sections, int) else "split_with_sizes"
    return _several(
        self, node, [("slice", (dim, a, a + s, 1)) for a, s in zip(starts, sections, strict=True)]
    )


def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts of equal size (the last may be smaller), as views."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if self.layout.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    n = self.layout.shape[normalize_dim(dim, self.layout.ndim)]
    size = -(-n // chunks)
    if size == 0:
        return split(self, [0] * chunks, dim)
    return split(self, size, dim)


def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Every index of a dimension, as views."""
    if self.layout.ndim == 0:
        raise RuntimeError("Dimension specified as 0 but tensor has no dimensions")
    dim = normalize_dim(dim, self.layout.ndim)
    return _several(
        self, "unbind", [("select", (dim, i)) for i in range(self.layout.shape[dim])]
    )


def _gathered(grad: Any, layout: Layout, places: Any) -> Tensor:
    """The gradient of a tensor from the gradients of its disjoint views."""
    parts = [
        (g._embed(layout, *place))
        for g, place in zip(grad, places, strict=True)
        if g is not None
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
    from ..ops.table import Structured

    return Structured(name, ("self",), {"self": _gathered}, outputs=outputs)


def _several(
    self: Tensor, name: str, places: Sequence[tuple[str, tuple[Any, ...]]]
) -> tuple[Tensor, ...]:
    """Views that share one node; none of them may be written in place under grad mode."""
    results = []
    for kind, arguments in places:
        row = VIEWS[kind]
        shape, strides, offset = row.geometry(self.layout, *arguments)
        d = self.layout.dtype
        result = make(
            self.storage, self.offset + offset * d.itemsize, layout(shape, strides, d)
        )
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
        edge = _node(cls, self, outcome, {"places": tuple(places)})
    creation = creation_now()
    if creation is Creation.DEFAULT:
        creation = Creation.MULTI_OUTPUT
    base = self if self.view_meta is None else self.view_meta.base
    for nr, result in enumerate(results):
        own = None if edge is None else (edge[0], nr)
        result.view_meta = ViewMeta(base, own, self.counter.version, creation)
        if modes.levels:
            kind, arguments = places[nr]
            tangents.view(result, self, functools.partial(view_of, kind=kind, arguments=arguments))
    return tuple(results)


# Adjoints -----------------------------------------------------------------------------------------
def embed(grad: Tensor, of: Layout, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """Zeros in the shape of ``of`` with ``grad`` at the place of a view: the adjoint of the view."""
    result = grad.new_zeros(of.shape)  # type: ignore[attr-defined]
    place = view_of(result.detach(), kind, arguments)
    place.copy_(grad.detach())  # type: ignore[attr-defined]
    record(_EMBED, (grad,), (result,), {"kind": kind, "arguments": arguments})
    return result


_EMBED = node_class(
    structured(
        "embed",
        "self",
        grad={"self": lambda grad, kind, arguments: view_of(grad, kind, arguments)},
        node="EmbedBackward0",
        fresh=False,
    )
)


def as_strided_adjoint(
    grad: Tensor, of: Layout, size: Shape, stride: Strides, storage_offset: int
) -> Tensor:
    """The adjoint of ``as_strided`` on a tensor with layout ``of``: overlaps add up."""
    source = grad.detach()
    # Dimensions of stride 0 address one element each: sum them first, so that what is left of a
    # line addresses every element once.
    flat = tuple(d for d, (n, s) in enumerate(zip(size, stride, strict=True)) if s == 0 and n != 1)
    kept = tuple(d for d in range(len(size)) if d not in flat)
    if flat:
        source = source.sum(flat)  # type: ignore[attr-defined]
    # A buffer that covers everything the view reaches, with the input's first element at `lead`.
    lead = max(0, -storage_offset)
    reach = max(of.span(), storage_offset + span_of(size, stride)) + lead
    buffer = grad.new_zeros((reach,))  # type: ignore[attr-defined]
    place = as_strided(
        buffer, [size[d] for d in kept], [stride[d] for d in kept], storage_offset + lead
    )
    accumulate_serially(place, source)
    result = as_strided(buffer, of.shape, of.strides, lead).clone()  # type: ignore[attr-defined]
    if has_internal_overlap(of.shape, of.strides):
        ones = grad.new_zeros((reach,))  # type: ignore[attr-defined]
        counted = as_strided(ones, of.shape, of.strides, lead)
        accumulate_serially(counted, grad.new_ones(of.shape))  # type: ignore[attr-defined]
        result = result / as_strided(ones, of.shape, of.strides, lead)
    record(
        _AS_STRIDED_ADJOINT,
        (grad,),
        (result,),
        {"of": of, "size": size, "stride": stride, "storage_offset": storage_offset},
    )
    return result


def _strided_again(
    grad: Tensor, of: Layout, size: Shape, stride: Strides, storage_offset: int
) -> Tensor:
    laid_out = strided(of.shape, of.strides, of.dtype).copy_(grad)  # type: ignore[attr-defined]
    return view_of(laid_out, "as_strided", (size, stride, storage_offset))


_AS_STRIDED_ADJOINT = node_class(
    structured("as_strided_adjoint", "self", grad={"self": _strided_again})
)


def unfold_adjoint(grad: Tensor, of: Layout, dimension: int, size: int, step: int) -> Tensor:
    """The adjoint of ``unfold``: windows that overlap add up."""
    result = grad.new_zeros(of.shape)  # type: ignore[attr-defined]
    place = view_of(alias(result), "unfold", (dimension, size, step))
    accumulate_serially(place, grad.detach())
    record(
        _UNFOLD_ADJOINT, (grad,), (result,), {"dimension": dimension, "size": size, "step": step}
    )
    return result


_UNFOLD_ADJOINT = node_class(
    structured(
        "unfold_adjoint",
        "self",
        grad={
            "self": lambda grad, dimension, size, step: view_of(
                grad, "unfold", (dimension, size, step)
            )
        },
        node="UnfoldBackwardBackward0",
    )
)


def accumulate_serially(place: Tensor, values: Tensor) -> None:
    """``place += values`` where elements of ``place`` may overlap between, not within, lines."""
    from .elementwise import operators

    operators["add"].accumulate(place, values)


def detach(self: Tensor) -> Tensor:
    """The same memory and version counter, without history."""
    return alias(self)
