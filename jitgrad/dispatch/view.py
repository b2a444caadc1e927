"""Views as functions of Tensors, and the adjoints of those that leave elements out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes, errors
from ..autograd.cut import cut, found
from ..autograd.node import Edge
from ..autograd.saved import recorded
from ..autograd.views import (
    Creation,
    ViewMeta,
    creation_now,
    gradient_edge,
    requires_grad,
)
from ..layout import (
    Layout,
    Shape,
    Strides,
    dense_layout,
    has_internal_overlap,
    infer_shape,
    layout,
    normalize_dim,
    view_strides,
)
from ..layout import span as span_of
from ..memory_format import contiguous_format
from ..ops.table import structured
from ..ops.views import VIEWS, View, attributes
from ..state import GRAD, modes, next_sequence_number
from ..storage import INFERENCE_COUNTER
from ..tensor import Tensor, make, shape_argument
from . import tangents
from .make import alias, int_argument, ints_argument
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record

_new = object.__new__


class _Kind:
    """What the views of one kind share: their row, its node class, their plans."""

    __slots__ = ("cls", "plans", "recorded", "row")

    def __init__(self, row: View) -> None:
        self.row = row
        self.cls = node_class(row.row)
        self.plans = PlanCache()
        self.recorded: type[StructuredNode] | None = None  # the class of a node with an edge

    def first_recorded(self) -> type[StructuredNode]:
        self.recorded = self.cls.variants[1][1]
        return self.recorded

    def plan(self, of: Layout, arguments: tuple[Any, ...]) -> tuple[Layout, int, Any, Outcome]:
        """The view's layout, its offset in bytes, its named arguments, what a node remembers."""
        shape, strides, offset, *reread = self.row.geometry(of, *arguments)
        result = layout(shape, strides, reread[0] if reread else of.dtype)
        named = attributes(self.row, arguments)
        outcome = Outcome((of,), (result,))
        plan = (result, offset * of.dtype.itemsize, named, outcome)
        return self.plans.add((of, arguments), plan)


_kinds = {name: _Kind(row) for name, row in VIEWS.items()}


def plan_of(kind: str, of: Layout, arguments: tuple[Any, ...]) -> Any:
    """How the view ``kind`` of a layout comes out (see _Kind.plan)."""
    known = _kinds[kind]
    return known.plans.get((of, arguments)) or known.plan(of, arguments)


def class_of(kind: str) -> type[StructuredNode]:
    """The node class of the views of a kind."""
    return _kinds[kind].cls


def node_of_view(
    cls: type[StructuredNode], source: Tensor, outcome: Outcome, named: Any, skip: int = 3
) -> Edge | None:
    """The edge of a new view, None if its source does not require grad."""
    edge = source.edge or gradient_edge(source)
    if edge is None and not requires_grad(source):
        return None
    node = _new(cls.variants[1][0 if edge is None else 1])
    node._seq = next_sequence_number()
    node.next_edges = (edge,)
    node._hooks = None
    node._where = errors.caller(skip)
    node._plan = outcome
    node.attributes = named
    node._saved = ()
    if modes.mode != GRAD:
        recorded(node)
    return (node, 0)


def view_of(source: Tensor, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """The view ``kind`` of a tensor, recorded if the tensor requires grad."""
    known = _kinds[kind]
    try:
        of, offset, named, outcome = known.plans[source.layout, arguments]
    except KeyError:
        of, offset, named, outcome = known.plan(source.layout, arguments)
    result = _new(Tensor)
    result.storage = source.storage
    result.offset = source.offset + offset
    result.layout = of
    result.counter = counter = source.counter
    result.edge = result.meta = result.view_meta = None
    if counter is INFERENCE_COUNTER:
        result.tracked = False
        return result  # no view, but an inference tensor of its own
    result.tracked = True
    mode = modes.mode
    result.view_meta = view = _new(ViewMeta)
    if mode == GRAD and source.tracked and (edge := source.edge or gradient_edge(source)):
        # node_of_view, spelled out
        node = _new(known.recorded or known.first_recorded())
        node._seq = next_sequence_number()
        node.next_edges = (edge,)
        node._hooks = None
        node._where = errors.caller(2)
        node._plan = outcome
        node.attributes = named
        node._saved = ()
        view.edge = (node, 0)
    elif mode & GRAD and source.tracked:
        view.edge = node_of_view(known.cls, source, outcome, named, 4)
    else:
        view.edge = None
    parent = source.view_meta
    creation = _DEFAULT if mode == GRAD else creation_now()
    if parent is None:
        view.base = source
    else:
        view.base = parent.base
        if creation is _DEFAULT or parent.creation is _INFERENCE:
            creation = parent.creation
    view.version = counter.version
    view.creation = creation
    view.requires_grad = False
    if mode > GRAD and modes.levels:
        tangents.view(result, source, lambda tangent: view_of(tangent, kind, arguments))
    return result


_DEFAULT, _INFERENCE = Creation.DEFAULT, Creation.INFERENCE


def bare_view_of(source: Tensor, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """The memory of a view as a tensor of its own: for formulas, which nobody else sees."""
    plan = plan_of(kind, source.layout, arguments)
    result = make(source.storage, source.offset + plan[1], plan[0])
    result.counter = source.counter
    return result


def seen(source: Tensor, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """A view in a formula: recorded where the formula is, else bare."""
    return (view_of if modes.mode else bare_view_of)(source, kind, arguments)


def reshaped(source: Tensor, shape: Shape) -> Tensor:
    """:func:`reshape` in a formula."""
    if source.layout.contiguous:
        return seen(source, "view", (shape,))
    return reshape(source, shape)


# Views with PyTorch's signatures ------------------------------------------------------------------
def view(self: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same elements in another shape, without a copy; one size may be -1.

    With a dtype instead of a shape: the same bytes read as that dtype, without history.

    Raises:
        RuntimeError: if the strides do not allow it (use reshape).
    """
    if size is None and dtype is None and shape:
        for n in shape:
            if n.__class__ is not int:
                break
        else:
            return view_of(self, "view", (shape,))
    if size is not None:
        shape = (size,)
    elif dtype is not None or (len(shape) == 1 and isinstance(shape[0], dtypes.dtype)):
        return _reinterpreted(self, dtype or shape[0])
    elif not shape:
        raise TypeError("view() received an invalid combination of arguments - got ()")
    return view_of(self, "view", (shape_argument("view", shape),))


def _reinterpreted(self: Tensor, d: dtypes.dtype) -> Tensor:
    """``view(dtype)``: an alias that reads the bytes as ``d``."""
    of = self.layout
    old, new = of.dtype.itemsize, d.itemsize
    shape, strides = of.shape, of.strides
    if old != new:
        ratio = max(old, new) // min(old, new)
        what = f"to view {of.dtype.name} as {d.name} (different element sizes), but got"
        if of.ndim == 0:
            raise RuntimeError(f"self.dim() cannot be 0 {what.removesuffix(', but got')}")
        if strides[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {what} {strides[-1]}")
        if old > new:
            shape = (*shape[:-1], shape[-1] * ratio)
            strides = (*(s * ratio for s in strides[:-1]), 1)
        else:
            for part, value in (
                ("self.size(-1)", shape[-1]),
                ("self.storage_offset()", self.offset // old),
                *((f"self.stride({i})", s) for i, s in enumerate(strides[:-1])),
            ):
                if value % ratio:
                    raise RuntimeError(f"{part} must be divisible by {ratio} {what} {value}")
            shape = (*shape[:-1], shape[-1] // ratio)
            strides = (*(s // ratio for s in strides[:-1]), 1)
    result = make(self.storage, self.offset, layout(shape, strides, d))
    result.counter = self.counter
    return result


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """:func:`view` in the shape of ``other``."""
    return view_of(self, "view", (other.layout.shape,))


def reshape(self: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy."""
    of = self.layout
    new = shape_argument("reshape", sizes if shape is None else (shape,))
    if of.contiguous:
        return view_of(self, "view", (new,))
    new = infer_shape(new, of.numel)
    if view_strides(of.shape, of.strides, new) is not None:
        return view_of(self, "reshape_alias", (new,))
    return unsafe_view(self.clone(memory_format=contiguous_format), new)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """:func:`reshape` to the shape of ``other``."""
    return reshape(self, other.layout.shape)


def ravel(self: Tensor) -> Tensor:
    """One dimension, without a copy where the tensor is contiguous."""
    return view(self.contiguous(), -1)


_UNSAFE_VIEW = node_class(
    structured(
        "unsafe_view",
        "self",
        grad={"self": lambda grad, layout: grad.reshape(layout.shape)},
        jvp={"self": lambda tangent, result: reshape(tangent, result.shape)},
        node="UnsafeViewBackward0",
    )
)


def unsafe_view(copy: Tensor, shape: Shape) -> Tensor:
    """A fresh copy in another shape: not a view, since nobody else has the copy."""
    result = make(copy.storage, copy.offset, view_of(copy.detach(), "view", (shape,)).layout)
    record(_UNSAFE_VIEW, (copy,), (result,), {})
    return result


def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one."""
    of = self.layout
    start = normalize_dim(int_argument("flatten", "start_dim", start_dim), of.ndim)
    end = normalize_dim(int_argument("flatten", "end_dim", end_dim), of.ndim)
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
    of = self.layout
    dim = normalize_dim(int_argument("unflatten", "dim", dim), of.ndim)
    sizes = ints_argument("unflatten", "sizes", sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not of.ndim:
        raise RuntimeError("unflatten: got a 0-dim tensor, which has no dimension to split")
    try:
        new = infer_shape(sizes, of.shape[dim])
    except RuntimeError as error:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({of.shape[dim]}) in the input tensor ({error})"
        ) from None
    return view(self, (*of.shape[:dim], *new, *of.shape[dim + 1 :]))


def expand(self: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Dimensions of size one repeated without a copy; -1 keeps a size."""
    given = sizes if size is None else (size,)
    return view_of(self, "expand", (shape_argument("expand", given),))


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """:func:`expand` to the shape of ``other``."""
    return view_of(self, "expand", (other.layout.shape,))


def broadcast_to(self: Tensor, shape: Sequence[int]) -> Tensor:
    """:func:`expand` to ``shape``."""
    return view_of(self, "expand", (ints_argument("broadcast_to", "size", shape),))


def permute(self: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The dimensions in another order."""
    order = shape_argument("permute", order if dims is None else (dims,))
    return view_of(self, "permute", (tuple(d % (len(order) or 1) if d < 0 else d for d in order),))


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped."""
    return view_of(
        self,
        "transpose",
        (int_argument("transpose", "dim0", dim0), int_argument("transpose", "dim1", dim1)),
    )


def swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """:func:`transpose` by NumPy's name."""
    return transpose(self, axis0, axis1)


def matrix_transpose(self: Tensor, what: str = "mT") -> Tensor:
    """The last two dimensions swapped."""
    if self.layout.ndim < 2:
        raise RuntimeError(
            f"tensor.{what} is only supported on matrices or batches of matrices. Got "
            f"{self.layout.ndim}-D tensor."
        )
    return view_of(self, "transpose", (-2, -1))


def adjoint(self: Tensor) -> Tensor:
    """The last two dimensions swapped, and conjugated if complex."""
    return conj(matrix_transpose(self, "adjoint()"))


def matrix_adjoint(self: Tensor) -> Tensor:
    """``Tensor.H``: the adjoint of a matrix."""
    if self.layout.ndim != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.layout.ndim}-D "
            "tensor. For batches of matrices, consider using tensor.mH"
        )
    return conj(view_of(self, "transpose", (0, 1)))


def conj(self: Tensor) -> Tensor:
    """The complex conjugate, as a view that has the conjugate bit set; a real tensor itself.

    Gradient: that of the result, conjugated.
    """
    return view_of(self, "conj", ()) if self.layout.dtype.is_complex else self


def conjugated(self: Tensor) -> Tensor:
    """:func:`conj` in a formula."""
    return seen(self, "conj", ()) if self.layout.dtype.is_complex else self


def neg_view(self: Tensor) -> Tensor:
    """The negative of a real tensor, as a view that has the negative bit set."""
    return view_of(self, "neg_view", ())


def t(self: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are."""
    return view_of(self, "t", ())


def movedim(self: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other places, the others keeping their order."""
    if hasattr(source, "__index__"):
        source, destination = (source,), (int_argument("movedim", "destination", destination),)
    sources = ints_argument("movedim", "source", source)
    targets = ints_argument("movedim", "destination", destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should "
            f"contain the same number of dims as destination ({list(targets)} dims)"
        )
    n = self.layout.ndim
    for name, dims in (("source", sources), ("destination", targets)):
        if len({normalize_dim(d, n) for d in dims}) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
    if not n:
        return view_of(self, "alias", ())
    moved = {
        normalize_dim(b, n): normalize_dim(a, n) for a, b in zip(sources, targets, strict=True)
    }
    rest = iter(d for d in range(n) if d not in moved.values())
    return permute(self, tuple(moved[d] if d in moved else next(rest) for d in range(n)))


def squeeze(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without its dimensions of size one (or those of ``dim`` that are)."""
    return view_of(self, *squeezing(dim))


def squeezing(dim: Any) -> tuple[str, tuple[Any, ...]]:
    """The kind of view that ``squeeze`` takes, and its arguments."""
    if dim is None:
        return "squeeze_all", ()
    if isinstance(dim, Sequence):
        return "squeeze_dims", (ints_argument("squeeze", "dim", dim),)
    return "squeeze_dim", (int_argument("squeeze", "dim", dim),)


def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """With a new dimension of size one at ``dim``."""
    return view_of(self, "unsqueeze", (int_argument("unsqueeze", "dim", dim),))


def select(self: Tensor, dim: int, index: int) -> Tensor:
    """One index of a dimension, which disappears; IndexError if out of range."""
    return view_of(
        self, "select", (int_argument("select", "dim", dim), int_argument("select", "index", index))
    )


def slice_(self: Tensor, dim: int, start: int | None, end: int | None, step: int = 1) -> Tensor:
    """``self[start:end:step]`` along ``dim``."""
    return view_of(self, "slice", (dim, start, end, step))


def narrow(self: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """``length`` indices of a dimension from ``start`` on."""
    of = self.layout
    if of.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    dim = normalize_dim(int_argument("narrow", "dim", dim), of.ndim)
    if isinstance(start, Tensor):
        if start.layout.ndim or start.layout.dtype.category != dtypes.INTEGER:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.item()
    start, length = int_argument("narrow", "start", start), int_argument("narrow", "length", length)
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
    arguments = ints_argument("diagonal", "offset", (offset, dim1, dim2))
    return view_of(self, "diagonal", arguments)


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` every ``step`` along a dimension; they overlap if step < size."""
    return view_of(self, "unfold", ints_argument("unfold", "dimension", (dimension, size, step)))


def as_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Any shape and strides over the storage; RuntimeError where it would leave the storage."""
    size = ints_argument("as_strided", "size", size)
    stride = ints_argument("as_strided", "stride", stride)
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


def atleast(ndim: int) -> Any:
    """``atleast_<ndim>d``: leading dimensions added until there are that many (as NumPy does)."""

    def one(x: Tensor) -> Tensor:
        rank = x.layout.ndim
        if rank >= ndim:
            return x
        if rank == 0:
            return reshape(x, (1,) * ndim)
        if rank == 1:
            x = unsqueeze(x, 0)
        return unsqueeze(x, -1) if ndim == 3 else x

    def atleast_nd(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return one(tensors[0])
        several = tensors[0] if len(tensors) == 1 else tensors
        return tuple(one(x) for x in several)

    atleast_nd.__name__ = atleast_nd.__qualname__ = f"atleast_{ndim}d"
    atleast_nd.__doc__ = f"Each tensor with at least {ndim} dimension(s), as a view if it changes."
    return atleast_nd


atleast_1d, atleast_2d, atleast_3d = atleast(1), atleast(2), atleast(3)


# Adjoints -----------------------------------------------------------------------------------------
def embed(grad: Tensor, of: Layout, kind: str, arguments: tuple[Any, ...]) -> Tensor:
    """Zeros in the shape of ``of`` with ``grad`` at a view's place: the adjoint of the view."""
    result = grad.new_zeros(of.shape)
    place = view_of(result.detach(), kind, arguments)
    place.copy_(grad.detach())
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
        source = source.sum(flat)
    # A buffer that covers everything the view reaches, with the input's first element at `lead`.
    lead = max(0, -storage_offset)
    reach = max(of.span(), storage_offset + span_of(size, stride)) + lead
    buffer = grad.new_zeros((reach,))
    place = as_strided(
        buffer, [size[d] for d in kept], [stride[d] for d in kept], storage_offset + lead
    )
    accumulate_serially(place, source)
    result = as_strided(buffer, of.shape, of.strides, lead).clone()
    if has_internal_overlap(of.shape, of.strides):
        result = result / _multiplicity(grad, of)
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
    """The adjoint of the adjoint: ``grad`` laid out in memory like the input, and viewed."""
    lead = max(0, -storage_offset)
    reach = max(of.span(), storage_offset + span_of(size, stride)) + lead
    if has_internal_overlap(of.shape, of.strides):
        grad = grad / _multiplicity(grad, of)
    memory = as_strided_adjoint(grad, dense_layout((reach,), of.dtype), of.shape, of.strides, lead)
    return view_of(memory, "as_strided", (size, stride, storage_offset + lead))


def _multiplicity(grad: Tensor, of: Layout) -> Tensor:
    """How many elements of a tensor of layout ``of`` share each one's place, in its shape."""
    ones = grad.new_ones(of.shape)
    count = as_strided_adjoint(ones, dense_layout((of.span(),), of.dtype), of.shape, of.strides, 0)
    return as_strided(count, of.shape, of.strides, 0)


_AS_STRIDED_ADJOINT = node_class(
    structured("as_strided_adjoint", "self", grad={"self": _strided_again})
)


def unfold_adjoint(grad: Tensor, of: Layout, dimension: int, size: int, step: int) -> Tensor:
    """The adjoint of ``unfold``: windows that overlap add up."""
    result = grad.new_zeros(of.shape)
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
    result = _new(Tensor)
    result.storage = self.storage
    result.offset = self.offset
    result.layout = self.layout
    result.counter = self.counter
    result.edge = result.view_meta = result.meta = None
    tracked = self.tracked
    if tracked is False:
        result.tracked = False
    elif tracked and requires_grad(self):
        cut(result, "it was detached", 2)
    else:
        result.tracked = found((self,))
    return result
