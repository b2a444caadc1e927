"""Reductions over any dimensions."""

from __future__ import annotations

import builtins
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from .. import dtypes, errors, return_types, state
from ..autograd.cut import unrecorded
from ..kernels import reduction as kernels
from ..layout import (
    Layout,
    Shape,
    dense_layout,
    normalize_dim,
    normalize_dims,
)
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor, make
from . import convert
from .elementwise import functions, prepare_out
from .make import fresh, int_argument, ints_argument
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record
from .view import plan_of, reshape, reshaped, view_of

_f = functions
_plans = PlanCache()


# Launching ----------------------------------------------------------------------------------------
def _shape(of: Layout, dims: Sequence[int], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(of.shape))
    return tuple(n for d, n in enumerate(of.shape) if d not in dims)


def reduced(
    kind: str,
    inputs: Sequence[Tensor],
    dims: tuple[int, ...],
    outs: Sequence[dtypes.dtype],
    keepdim: bool = False,
    **parameters: Any,
) -> tuple[Tensor, ...]:
    """Run a reduction kernel: fresh results of the given dtypes, no history.

    The kernels write results with the reduced dimensions kept at size one.
    """
    of = inputs[0].layout
    key = (kind, dims, keepdim, *(x.layout for x in inputs), *outs, *parameters.items())
    plan = _plans.get(key)
    if plan is None:
        kept = [dense_layout(_shape(of, dims, True), d) for d in outs]
        program = kernels.plan(kind, [x.layout for x in inputs], dims, kept, **parameters)
        finals = [dense_layout(_shape(of, dims, keepdim), d) for d in outs]
        plan = _plans.add(key, (program, finals))
    program, finals = plan
    results = tuple(fresh(x) for x in finals)
    buffers: list[Any] = []
    for t in (*inputs, *results):
        buffers += (t.storage.buffer, t.offset)
    program.run(*buffers)
    return results


def _restored(grad: Tensor, of: Layout, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced tensor seen again in the shape before the reduction."""
    if not modes.mode:
        key = (grad.layout, of, dims, keepdim)
        seen_as = _restored_layouts.get(key)
        if seen_as is None:
            kept = grad.layout
            if not keepdim:
                kept = plan_of("view", kept, (_shape(of, dims, True),))[0]
            seen_as = _restored_layouts.add(key, plan_of("expand", kept, (of.shape,))[0])
        result = make(grad.storage, grad.offset, seen_as)
        result.counter = grad.counter
        return result
    if not keepdim and grad.layout.ndim:  # a number expands to any shape
        grad = reshaped(grad, _shape(of, dims, True))
    return view_of(grad, "expand", (of.shape,))


_restored_layouts = PlanCache()


class Call(NamedTuple):
    """What a reduction's node remembers of the call."""

    dims: tuple[int, ...]
    keepdim: bool

    def restore(self, x: Tensor, of: Layout) -> Tensor:
        """A reduced tensor seen again in the shape before the reduction."""
        return _restored(x, of, self.dims, self.keepdim)

    def count(self, of: Layout) -> int:
        """How many elements were reduced to one."""
        return _count(of, self.dims)


def reduction_dims(self: Tensor, dim: Any, name: str) -> tuple[int, ...]:
    if not isinstance(self, Tensor):
        raise errors.argument(name, "input", "Tensor", self)
    if dim is not None and not isinstance(dim, int):
        one = not isinstance(dim, Sequence) or isinstance(dim, str)
        dim = int_argument(name, "dim", dim) if one else ints_argument(name, "dim", dim)
    if self.layout.ndim == 0 and dim is not None and dim != ():
        normalize_dims(dim, 0)
        return ()
    return normalize_dims(dim, self.layout.ndim)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def numpy_names(function: _Function) -> _Function:
    """``function`` that also takes ``dim`` and ``keepdim`` by NumPy's names."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if options:
            for name, ours in (("axis", "dim"), ("keepdims", "keepdim")):
                if name in options:
                    options[ours] = options.pop(name)
        return function(*args, **options)

    return call  # type: ignore[return-value]


def finish(name: str, result: Tensor, out: Tensor | None, self: Tensor) -> Tensor:
    if out is None:
        return result
    prepare_out(name, (self,), out, result.layout.shape)
    return convert.copy_(out, result)


def _pair(name: str, dim: Any, plain: type, dimmed: type) -> type[StructuredNode]:
    """PyTorch names the node of ``sum()`` SumBackward0, of ``sum(dim)`` SumBackward1."""
    return plain if dim is None else dimmed


def _numbered(
    name: str, grad: Any, jvp: Any = None
) -> tuple[type[StructuredNode], type[StructuredNode]]:
    base = "".join(part.capitalize() for part in name.split("_"))
    formulas: dict[str, Any] = {"grad": {"self": grad}, "jvp": {"self": jvp} if jvp else {}}
    formulas["fresh"] = True
    first = structured(f"{name}_all", "self", node=f"{base}Backward0", **formulas)
    second = structured(f"{name}reduction_dims", "self", node=f"{base}Backward1", **formulas)
    return node_class(first), node_class(second)


# Sums ---------------------------------------------------------------------------------------------
_SUM = _numbered(
    "sum",
    lambda grad, layout, call: cast_to(call.restore(grad, layout), layout),
    lambda tangent, call: sum(tangent, call.dims, call.keepdim),
)
_MEAN = _numbered(
    "mean",
    lambda grad, layout, call, count: cast_to(_f["div"](call.restore(grad, layout), count), layout),
    lambda tangent, call: mean(tangent, call.dims, call.keepdim),
)


def cast_to(x: Tensor, of: Layout) -> Tensor:
    return x if x.layout.dtype is of.dtype else convert.adjoint_cast(x, of)


def _count(of: Layout, dims: Sequence[int]) -> int:
    return math.prod(of.shape[d] for d in dims)


class _Sum:
    """A sum-like reduction; its plans are kept by the arguments as the caller gave them."""

    def __init__(
        self,
        kind: str,
        classes: tuple[type[StructuredNode], type[StructuredNode]],
        result_dtype: Callable[[dtypes.dtype], dtypes.dtype],
    ) -> None:
        self.kind = kind
        self.classes = classes
        self.result_dtype = result_dtype
        self.plans = PlanCache()

    def _plan(self, x: Tensor, dim: Any, keepdim: bool, dtype: dtypes.dtype | None) -> Any:
        dims = reduction_dims(x, dim, self.kind)
        of = x.layout
        d = dtype or self.result_dtype(of.dtype)
        program = kernels.plan(self.kind, [of], dims, [dense_layout(_shape(of, dims, True), d)])
        out = dense_layout(_shape(of, dims, keepdim), d)
        cls = self.classes[0] if dim is None else self.classes[1]
        attributes = {"call": Call(dims, keepdim), "count": _count(of, dims)}
        return program.run, out, cls, attributes, Outcome((of,), (out,))

    def __call__(
        self, x: Tensor, dim: Any, keepdim: bool, dtype: dtypes.dtype | None, out: Tensor | None
    ) -> Tensor:
        if dim.__class__ is list:
            dim = tuple(dim)
        try:
            plan = self.plans[x.layout, dim, keepdim, dtype]
        except (KeyError, AttributeError):
            plan = self._plan(x, dim, keepdim, dtype)
            self.plans.add((x.layout, dim, keepdim, dtype), plan)
        run, of, cls, attributes, outcome = plan
        result = fresh(of)
        run(x.storage.buffer, x.offset, result.storage.buffer, 0)
        if x.tracked is not False or modes.levels:
            cls.record(x, result, attributes, outcome)
        return result if out is None else finish(self.kind, result, out, x)


def accumulated(d: dtypes.dtype) -> dtypes.dtype:
    """The dtype of a sum: integers and bools add up in int64."""
    return d if d.category >= dtypes.FLOATING else dtypes.int64


def _averaged(d: dtypes.dtype) -> dtypes.dtype:
    if d.category < dtypes.FLOATING:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {d.tensor_type.removesuffix('Tensor')}"
        )
    return d


_sum = _Sum("sum", _SUM, accumulated)
_mean = _Sum("mean", _MEAN, _averaged)


def sum(
    self: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum over all dimensions or those of ``dim``; integers and bools are summed as int64.

    float32 sums are accumulated in blocks whose totals are added in float64.

    Raises:
        IndexError: for a dimension out of range.
        RuntimeError: for one that appears twice.

    Gradient: ``grad``, expanded to the shape of ``self``.
    """
    if axis is not None or keepdims:
        dim, keepdim = axis if dim is None else dim, keepdims or keepdim
    return _sum(self, dim, keepdim, dtype, out)


def mean(
    self: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """The mean over all dimensions or those of ``dim``.

    Raises:
        RuntimeError: for integer tensors without ``dtype``.

    Gradient: ``grad / n``, expanded to the shape of ``self``.
    """
    if dtype is not None:
        _averaged(dtype)
    if axis is not None or keepdims:
        dim, keepdim = axis if dim is None else dim, keepdims or keepdim
    return _mean(self, dim, keepdim, dtype, out)


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over broadcast dimensions down to ``size``; the adjoint of :func:`expand`."""
    from ..tensor import shape_argument

    shape = shape_argument("sum_to_size", size)
    of = self.layout.shape
    if shape == of:
        return self
    if not modes.mode and self.tracked is False:
        return _summed(self, shape)
    if not convert.shapes_reduce(of, shape):
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(of)}.")
    lead = len(of) - len(shape)
    dims = tuple(range(lead)) + tuple(
        d + lead for d, n in enumerate(shape) if n == 1 and of[d + lead] != 1
    )
    result = sum(self, dims, keepdim=True) if dims else self
    return reshape(result, shape) if lead else result


def _summed(self: Tensor, shape: Shape) -> Tensor:
    """:func:`sum_to_size` in a formula: one kernel, no history."""
    key = (self.layout, shape)
    plan = _summing_plans.get(key)
    if plan is None:
        plan = _summing_plans.add(key, _summing_plan(self.layout, shape))
    run, out = plan
    result = fresh(out)
    run(self.storage.buffer, self.offset, result.storage.buffer, 0)
    return result


_summing_plans = PlanCache()


def _summing_plan(of: Layout, shape: Shape) -> Any:
    if not convert.shapes_reduce(of.shape, shape):
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(of.shape)}.")
    full = (1,) * (of.ndim - len(shape)) + shape
    dims = [d for d, n in enumerate(of.shape) if full[d] != n]
    d = accumulated(of.dtype)
    program = kernels.plan("sum", [of], dims, [dense_layout(full, d)])
    return program.run, dense_layout(shape, d)


# Products -----------------------------------------------------------------------------------------
def _prod_grad(grad: Tensor, self: Tensor, result: Tensor, layout: Layout, call: Call) -> Tensor:
    """Each element's gradient is the product of the others; with a zero among them no division."""
    restored = call.restore(_f["mul"](grad, result), layout)
    if not bool(any_(_f["eq"](self, 0))):
        return cast_to(_f["div"](restored, self), layout)
    if not call.dims:
        return cast_to(call.restore(grad, layout), layout)
    if not modes.mode and len(call.dims) == layout.ndim and sum(_f["eq"](self, 0)).item() > 1:
        return grad.new_zeros(layout.shape, dtype=layout.dtype)
    return cast_to(
        _f["mul"](call.restore(grad, layout), _product_of_others(self, call.dims)), layout
    )


def _product_of_others(self: Tensor, dims: tuple[int, ...]) -> Tensor:
    """For each element the product of the other elements along ``dims``.

    Made from products alone (each with one factor replaced by 1), so that it can be differentiated
    again at zeros. Quadratic in the reduced size; only used where there are zeros.
    """
    from .creation import eye

    kept = [d for d in range(self.layout.ndim) if d not in dims]
    order = [*kept, *dims]
    moved = view_of(self, "permute", (tuple(order),))
    n = _count(self.layout, dims)
    flat = reshape(moved, (*(self.layout.shape[d] for d in kept), 1, n))
    mask = eye(n, dtype=dtypes.bool_)
    others = prod(_f["where"](mask, 1, flat), -1)
    back = sorted(range(len(order)), key=order.__getitem__)
    return view_of(reshape(others, moved.layout.shape), "permute", (tuple(back),))


_PROD = _numbered("prod", _prod_grad)


@numpy_names
def prod(
    self: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The product over all dimensions or ``dim``; integers and bools are multiplied as int64.

    Gradient: ``grad`` times the product of the other elements, also where some are zero.
    """
    dims = reduction_dims(self, dim, "prod")
    of = self.layout.dtype
    d = (dtype or (of if of.category >= dtypes.FLOATING else dtypes.int64)).plain
    (result,) = reduced("prod", (self,), dims, (d,), keepdim)
    cls = _PROD[0] if dim is None else _PROD[1]
    record(cls, (self,), (result,), {"call": Call(dims, keepdim)})
    return finish("prod", result, out, self)


# Extremes -----------------------------------------------------------------------------------------
def _evenly(grad: Tensor, self: Tensor, result: Tensor, layout: Layout, call: Call) -> Tensor:
    """The gradient shared evenly by the elements that are the extreme (or NaN, if it is)."""
    extreme = call.restore(result, layout)
    ties = _f["eq"](self, extreme)
    if layout.dtype.is_floating_point:
        ties = _f["logical_or"](ties, _f["logical_and"](_f["isnan"](self), _f["isnan"](extreme)))
    count = sum(ties, call.dims, keepdim=True)
    share = _f["div"](call.restore(grad, layout), count)
    return _f["where"](ties, share, 0)


def per_line(grad: Tensor, self: Tensor, result: Tensor, layout: Layout, call: Call) -> Tensor:
    """As :func:`_evenly`, but a line whose extreme is NaN has the gradient NaN (PyTorch's amax)."""
    ties = _f["eq"](self, call.restore(result, layout))
    count = sum(ties, call.dims, keepdim=True)
    return _f["div"](_f["mul"](call.restore(grad, layout), ties), count)


def _at_index(grad: Tensor, layout: Layout, dim: int, keepdim: bool, indices: Any) -> Tensor:
    """The gradient put at the chosen index of each line, zeros elsewhere."""
    if not layout.ndim:
        return grad
    if not keepdim:
        grad, indices = view_of(grad, "unsqueeze", (dim,)), view_of(indices, "unsqueeze", (dim,))
    zeros = grad.new_zeros(layout.shape)
    return zeros.scatter(dim, indices, grad)


_EXTREME = {
    name: node_class(
        structured(
            f"{name}_all", "self", grad={"self": _evenly}, node=f"{name.capitalize()}Backward1"
        )
    )
    for name in ("max", "min")
}
_EXTREME_DIM = {
    name: node_class(
        structured(
            f"{name}_dim", "self", grad={"self": _at_index}, node=f"{name.capitalize()}Backward0"
        )
    )
    for name in ("max", "min")
}
_AEXTREME = {
    name: node_class(structured(name, "self", grad={"self": per_line})) for name in ("amax", "amin")
}


def _check_not_empty(name: str, self: Tensor, dims: Sequence[int]) -> None:
    if self.layout.numel == 0 and (not dims or any(self.layout.shape[d] == 0 for d in dims)):
        if not self.layout.ndim or len(dims) == self.layout.ndim:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                "the reduction dim with the 'dim' argument."
            )
        bad = next(d for d in dims if self.layout.shape[d] == 0)
        raise IndexError(f"{name}(): Expected reduction dim {bad} to have non-zero size.")


_extreme_plans = PlanCache()


def _extreme_plan(name: str, of: Layout, dim: Any, keepdim: bool) -> Any:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise errors.argument(name, "dim", "int", dim)
    dim = normalize_dim(dim, of.ndim)
    if of.ndim and of.shape[dim] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")
    kept = [dense_layout(_shape(of, (dim,), True), d) for d in (of.dtype, dtypes.int64)]
    outs = [dense_layout(_shape(of, (dim,), keepdim), d) for d in (of.dtype, dtypes.int64)]
    program = kernels.plan(name, [of], (dim,), kept)
    return program.run, *outs, dim, Outcome((of,), tuple(outs))


def _extreme(name: str, self: Tensor, args: tuple[Any, ...], keepdim: bool, out: Any) -> Any:
    if args and isinstance(args[0], Tensor):
        return _f["maximum" if name == "max" else "minimum"](self, args[0], out=out)
    if not args:
        dims = reduction_dims(self, None, name)
        _check_not_empty(name, self, dims)
        (result,) = reduced(f"a{name}", (self,), dims, (self.layout.dtype,))
        record(_EXTREME[name], (self,), (result,), {"call": Call(dims, False)})
        return finish(name, result, out, self)
    dim = args[0]
    if len(args) > 1:
        keepdim = args[1]
    key = (name, self.layout, dim.__class__, dim, keepdim)
    plan = _extreme_plans.get(key)
    if plan is None:
        if self.is_neg():
            return _extreme(name, convert.clone(self), (dim,), keepdim, out)
        plan = _extreme_plans.add(key, _extreme_plan(name, self.layout, dim, keepdim))
    run, first, second, dim, outcome = plan
    values, indices = fresh(first), fresh(second)
    run(
        self.storage.buffer,
        self.offset,
        values.storage.buffer,
        0,
        indices.storage.buffer,
        0,
    )
    if self.tracked is not False or modes.levels:
        attributes = {"dim": dim, "keepdim": keepdim, "indices": indices}
        _EXTREME_DIM[name].record(self, values, attributes, outcome)
    if out is not None:
        return getattr(return_types, name)(
            (finish(name, values, out[0], self), finish(name, indices, out[1], self))
        )
    return getattr(return_types, name)((values, indices))


@numpy_names
def max(self: Tensor, *args: Any, dim: Any = None, keepdim: bool = False, out: Any = None) -> Any:
    """``max()``: the largest element. ``max(dim)``: values and indices along a dimension.
    ``max(other)``: elementwise. NaN counts as the largest.

    Gradient: without ``dim`` shared evenly between ties; with it, all to the returned index.
    """
    return _extreme("max", self, args if dim is None else (dim,), keepdim, out)


@numpy_names
def min(self: Tensor, *args: Any, dim: Any = None, keepdim: bool = False, out: Any = None) -> Any:
    """``min()``, ``min(dim)`` and ``min(other)``: as :func:`max`, for the smallest."""
    return _extreme("min", self, args if dim is None else (dim,), keepdim, out)


def _aextreme(name: str, self: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Tensor:
    dims = reduction_dims(self, None if dim == () else dim, name)
    _check_not_empty(name, self, dims)
    (result,) = reduced(name, (self,), dims, (self.layout.dtype,), keepdim)
    record(_AEXTREME[name], (self,), (result,), {"call": Call(dims, keepdim)})
    return finish(name, result, out, self)


@numpy_names
def amax(
    self: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The largest element over ``dim`` (all by default). Gradient: shared evenly between ties."""
    return _aextreme("amax", self, dim, keepdim, out)


@numpy_names
def amin(
    self: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The smallest element over ``dim`` (all by default). Gradient: shared evenly between ties."""
    return _aextreme("amin", self, dim, keepdim, out)


def _arg(name: str, self: Tensor, dim: int | None, keepdim: bool, out: Tensor | None) -> Tensor:
    dims = reduction_dims(self, dim, name)
    if self.layout.numel == 0 and (dim is None or self.layout.shape[dims[0]] == 0):
        raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0")
    if not dims:
        return finish(name, self.new_zeros((), dtype=dtypes.int64), out, self)
    (result,) = reduced(name, (convert.resolved(self),), dims, (dtypes.int64,), keepdim)
    unrecorded((self,), result, f"{name}() gives indices, which have no derivative")
    return finish(name, result, out, self)


@numpy_names
def argmax(
    self: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The index (int64) of the first largest element, along ``dim`` or of the flattened tensor."""
    return _arg("argmax", self, dim, keepdim, out)


@numpy_names
def argmin(
    self: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The index (int64) of the first smallest element, along ``dim`` or of the flattened tensor."""
    return _arg("argmin", self, dim, keepdim, out)


# Logic --------------------------------------------------------------------------------------------
def _logical(name: str, self: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Tensor:
    dims = reduction_dims(self, dim, name)
    d = dtypes.uint8 if self.layout.dtype is dtypes.uint8 else dtypes.bool_
    (result,) = reduced(name, (self,), dims, (d,), keepdim)
    return finish(name, result, out, self)


@numpy_names
def any_(
    self: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether any element is nonzero (uint8 for uint8 tensors, else bool)."""
    return _logical("any", self, dim, keepdim, out)


@numpy_names
def all_(
    self: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether every element is nonzero (uint8 for uint8 tensors, else bool)."""
    return _logical("all", self, dim, keepdim, out)


# Moments ------------------------------------------------------------------------------------------
def _centered(self: Tensor, dims: tuple[int, ...]) -> Tensor:
    return _f["sub"](self, mean(self, dims, keepdim=True))


def _degrees(layout: Layout, dims: tuple[int, ...], correction: float) -> float:
    return builtins.max(_count(layout, dims) - correction, 0)


def _ratio(a: float, b: float) -> float:
    return a / b if b else math.inf


def var_grad(grad: Tensor, self: Tensor, layout: Layout, call: Call, correction: float) -> Tensor:
    scale = _ratio(2.0, _degrees(layout, call.dims, correction))
    return _f["mul"](_f["mul"](call.restore(grad, layout), scale), _centered(self, call.dims))


def std_grad(
    grad: Tensor, self: Tensor, result: Tensor, layout: Layout, call: Call, correction: float
) -> Tensor:
    inner = _f["where"](_f["eq"](result, 0), 0, _f["div"](grad, _f["mul"](result, 2)))
    return var_grad(inner, self, layout, call, correction)


_VAR = node_class(structured("var", "self", grad={"self": var_grad}, holomorphic=False))
_STD = node_class(structured("std", "self", grad={"self": std_grad}, holomorphic=False))


def _moment(name: str, self: Tensor, dim: Any, keepdim: bool, correction: float) -> Tensor:
    dims = reduction_dims(self, dim, name)
    d = self.layout.dtype
    if d.category < dtypes.FLOATING:
        raise RuntimeError(f"{name}: only support floating point and complex dtypes, got {d}")
    if d.is_complex:
        # The variances of both parts add up.
        parts = view_of(convert.resolved(self.detach()), "view_as_real", ())
        result = sum(_moment("var", parts, dims, keepdim, correction) if dims else parts * 0, -1)
        result = result if name == "var" else _f["sqrt"](result)
        _record_moment(name, self, result, dims, keepdim, correction)
        return result
    source = self.detach()
    center = mean(source, dims, keepdim=True) if dims else source
    if dims and d is dtypes.float64:
        # Its sums are not taken in a wider dtype: equal values must be found equal to their mean.
        error = mean(_f["sub"](source, center), dims, keepdim=True)
        center = _f["where"](_f["isfinite"](error), _f["add"](center, error), center)
    degrees = _degrees(self.layout, dims, correction)
    if degrees == 0:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=3,
        )
    (result,) = reduced(name, (source, center), dims, (d,), keepdim, degrees=float(degrees))
    _record_moment(name, self, result, dims, keepdim, correction)
    return result


def _record_moment(
    name: str, self: Tensor, result: Tensor, dims: Any, keepdim: bool, correction: float
) -> None:
    cls = _VAR if name == "var" else _STD
    record(cls, (self,), (result,), {"call": Call(dims, keepdim), "correction": correction})


def correction_of(args: tuple[Any, ...], dim: Any, unbiased: Any, correction: Any) -> Any:
    """The legacy ``var(unbiased)``, ``var(dim, unbiased)`` and today's ``correction``."""
    if args and isinstance(args[0], bool):
        unbiased, args = args[0], args[1:]
    elif args:
        dim, args = args[0], args[1:]
    if args:
        unbiased, args = args[0], args[1:]
    keepdim = args[0] if args else None
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, keepdim, correction


@numpy_names
def var(
    self: Tensor,
    *args: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    correction: float | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The variance over ``dim``, divided by ``n - correction`` (1 by default).

    Gradient: ``2 * grad * (self - mean) / (n - correction)``.
    """
    dim, kept, correction = correction_of(args, dim, unbiased, correction)
    return finish("var", _moment("var", self, dim, kept or keepdim, correction), out, self)


@numpy_names
def std(
    self: Tensor,
    *args: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    correction: float | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The standard deviation: the root of :func:`var`. Gradient: 0 where it is 0."""
    dim, kept, correction = correction_of(args, dim, unbiased, correction)
    return finish("std", _moment("std", self, dim, kept or keepdim, correction), out, self)


# Norms --------------------------------------------------------------------------------------------
def _norm_grad(
    grad: Tensor, self: Tensor, result: Tensor, layout: Layout, call: Call, p: float
) -> Tensor | None:
    """d|x|_p = grad * sign(x) * (|x| / |x|_p) ** (p - 1), and 0 where the norm is 0."""
    g, norm = call.restore(grad, layout), call.restore(result, layout)
    if p == 0:
        return None
    if p == 1:
        return _f["mul"](g, _f["sgn"](self))
    if p == 2:
        return _f["mul"](self, _masked_div(g, norm))
    if math.isinf(p):
        ties = _f["eq"](_f["abs"](self), norm)
        share = _f["div"](g, sum(ties, call.dims, keepdim=True))
        return _f["where"](ties, _f["mul"](share, _f["sgn"](self)), 0)
    magnitude = _f["abs"](self)
    if p < 1:
        power = _f["where"](_f["eq"](self, 0), 0, _f["pow"](magnitude, p - 1))
    else:
        power = _f["pow"](magnitude, p - 1)
    scale = _masked_div(g, _f["pow"](norm, p - 1))
    return _f["mul"](_f["mul"](_f["sgn"](self), power), scale)


def _masked_div(a: Tensor, b: Tensor) -> Tensor:
    return _f["where"](_f["eq"](b, 0), 0, _f["div"](a, b))


_NORM = node_class(
    structured(
        "norm",
        "self",
        grad={"self": _norm_grad},
        node="LinalgVectorNormBackward0",
        holomorphic=False,
    )
)


def vector_norm(
    self: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``sum(|x| ** ord) ** (1 / ord)`` over ``dim``; 0 counts nonzeros, +-inf are the extremes.

    Gradient: ``grad * sgn(x) * (|x| / norm) ** (ord - 1)``, 0 where the norm is 0.
    """
    if dtype is not None:
        self = convert.to(self, dtype)
    dims = reduction_dims(self, dim, "norm")
    d = self.layout.dtype
    if d.category < dtypes.FLOATING:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{d.tensor_type.removesuffix('Tensor')}"
        )
    if d.is_complex and float(ord) == 2.0:  # the squares of both parts add up
        parts = view_of(convert.resolved(self.detach()), "view_as_real", ())
        over = (*dims, self.layout.ndim)
        (result,) = reduced("norm", (parts,), over, (d.to_real(),), keepdim, p=2.0)
        if keepdim:
            of = dense_layout(result.layout.shape[:-1], result.layout.dtype)
            result = make(result.storage, 0, of)
    else:
        source = _f["abs"](self.detach()) if d.is_complex else self
        (result,) = reduced("norm", (source,), dims, (d.to_real(),), keepdim, p=float(ord))
    record(_NORM, (self,), (result,), {"call": Call(dims, keepdim), "p": float(ord)})
    return finish("norm", result, out, self)


@numpy_names
def norm(
    self: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """The vector norm of order ``p`` over ``dim`` ("fro": 2); see :func:`vector_norm`.

    "nuc" is the nuclear norm of a matrix, the sum of its singular values.
    """
    if p == "nuc":
        from .linalg import matrix_norm

        pair = (-2, -1) if dim is None else dim
        return matrix_norm(self, "nuc", pair, keepdim, dtype=dtype, out=out)
    return vector_norm(self, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype, out=out)


# Exponential sums ---------------------------------------------------------------------------------
_LOGSUMEXP = node_class(
    structured(
        "logsumexp",
        "self",
        grad={
            "self": lambda grad, self, result, layout, call: _f["mul"](
                call.restore(grad, layout),
                _f["exp"](_f["sub"](self, call.restore(result, layout))),
            )
        },
        jvp={
            "self": lambda tangent, self, result, layout, call: sum(
                _f["mul"](tangent, _f["exp"](_f["sub"](self, call.restore(result, layout)))),
                call.dims,
                call.keepdim,
            )
        },
    )
)


@numpy_names
def logsumexp(
    self: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """``log(sum(exp(self)))`` over ``dim``, without overflow.

    Gradient: ``grad * exp(self - result)``.
    """
    dims = reduction_dims(self, dim, "logsumexp")
    if self.layout.dtype.category < dtypes.FLOATING:
        self = convert.to(self, state.get_default_dtype())
    if self.layout.dtype.is_complex:
        result = _complex_logsumexp(self.detach(), dims, keepdim)
    else:
        (result,) = reduced("logsumexp", (self,), dims, (self.layout.dtype,), keepdim)
    record(_LOGSUMEXP, (self,), (result,), {"call": Call(dims, keepdim)})
    return finish("logsumexp", result, out, self)


def _complex_logsumexp(self: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    peak = amax(self.real, dims, keepdim=True)
    peak = _f["where"](_f["isfinite"](peak), peak, 0)
    total = _f["log"](sum(_f["exp"](_f["sub"](self, peak)), dims, keepdim))
    return _f["add"](total, reshape(peak, total.layout.shape))
