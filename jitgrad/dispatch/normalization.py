"""Normalisation: layer_norm, rms_norm, group_norm, batch_norm and instance_norm.

Each says what its lines are (a :class:`~jitgrad.kernels.normalization.Form`); the rest is shared.
The gradient of a line is

    dx = rstd * (g - mean(g) - xhat * mean(g * xhat))
    where  g = grad * weight  and  xhat = (x - mean) * rstd

(without mean(g) where no mean was subtracted, and with g alone where the statistics were given).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from .. import errors
from ..dtypes import FLOATING, dtype, float32
from ..kernels import elementwise
from ..kernels import normalization as kernels
from ..kernels.normalization import Form
from ..layout import Layout, dense_layout
from ..ops.table import structured
from ..state import modes
from ..storage import Storage
from ..tensor import Tensor, make
from .convert import contiguous, copy_, copy_elements, flipped, to, unflipped
from .elementwise import functions, prepare_out
from .make import alias, constant, dense, fresh, ints_argument, number
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class
from .reduction import mean as mean_of
from .reduction import reduced
from .reduction import sum as sum_of
from .view import reshape, select


# Gradients ----------------------------------------------------------------------------------------
def _plain(x: Tensor) -> Tensor:
    """The same values, row-major, without history."""
    return x if x.layout.contiguous else contiguous(alias(x))


def _gradients(
    grad: Tensor, input: Tensor, weight: Tensor, statistics: Tensor, plan: _Plan, wanted: Any
) -> tuple[Tensor | None, ...]:
    """The gradients for input, weight and bias, by one kernel or by recorded operations."""
    if modes.mode:
        return _recorded(grad, input, weight, statistics, plan, wanted)
    sums = wanted[1] or wanted[2]
    grad, x, weight = _plain(grad), _plain(input), _plain(weight)
    result = fresh(plan.out)
    parts = fresh(plan.parts)
    buffer = parts.storage.buffer
    plan.backward(sums)(
        grad.storage.buffer,
        grad.offset,
        x.storage.buffer,
        x.offset,
        weight.storage.buffer,
        weight.offset,
        statistics.storage.buffer,
        0,
        result.storage.buffer,
        0,
        buffer,
        0,
        buffer,
        plan.weights.nbytes,
    )
    if not sums:
        return result, None, None
    if plan.parts.shape[0] != 1 or not plan.out.numel:
        (parts,) = reduced("sum", (parts,), (0,), (plan.parts.dtype,))
    d, of = plan.affine, plan.weights
    both = []  # a gradient is memory of its own: what remains of the other's is small
    for i in (0, 1):
        memory = parts.storage.buffer[i * of.nbytes : (i + 1) * of.nbytes]
        one = make(Storage(memory), 0, of) if wanted[1 + i] else None
        both.append(one if one is None or d is of.dtype else to(one, d))
    return result, both[0], both[1]


def _recorded(
    grad: Tensor, input: Tensor, weight: Tensor, statistics: Tensor, plan: _Plan, wanted: Any
) -> tuple[Tensor | None, ...]:
    """:func:`_gradients` by operations that are themselves differentiable."""
    form, wide = plan.form, input.layout.dtype.compute
    dtypes = (input.layout.dtype, plan.affine, plan.affine)
    input, grad, weight = (to(x, wide) for x in (input, grad, weight))
    x, g = reshape(input, form.shape), reshape(grad, form.shape)
    shape = tuple(n if d in form.affine else 1 for d, n in enumerate(form.shape))
    scale = reshape(weight, shape) if weight.layout.ndim else weight
    others = tuple(d for d in range(len(form.shape)) if d not in form.affine)

    def average(values: Tensor) -> Tensor:
        return mean_of(values, form.along, True)

    if form.given:
        kept = tuple(1 if d in form.along else n for d, n in enumerate(form.shape))
        centre, rstd = (reshape(select(statistics, 0, i), kept) for i in (0, 1))
        normal = (x - centre) * rstd
    else:
        deviation = x - average(x) if form.centered else x
        rstd = functions["rsqrt"](average(deviation * deviation) + form.eps)
        normal = deviation * rstd
    results: list[Tensor | None] = [None, None, None]
    if wanted[0]:
        inner = g * scale
        if not form.given:
            rest = inner - average(inner) if form.centered else inner
            inner = rest - normal * average(inner * normal)
        results[0] = reshape(inner * rstd, input.layout.shape)
    if wanted[1]:
        results[1] = reshape(sum_of(g * normal, others), form.weight_shape)
    if wanted[2]:
        results[2] = reshape(sum_of(g, others), form.weight_shape)
    return tuple(x if x is None else to(x, d) for x, d in zip(results, dtypes, strict=True))


def _row(name: str, node: str) -> type[StructuredNode]:
    inputs = "input weight bias"
    return node_class(structured(name, inputs, grad={inputs: _gradients}, node=node, fresh=True))


_LAYER = _row("native_layer_norm", "NativeLayerNormBackward0")
_RMS = _row("fused_rms_norm", "FusedRmsNormBackward0")
_GROUP = _row("native_group_norm", "NativeGroupNormBackward0")
_BATCH = _row("native_batch_norm", "NativeBatchNormBackward0")


# Forward ------------------------------------------------------------------------------------------
class _Plan:
    """How to normalise an input of one layout.

    Attributes:
        affine: the dtype of weight and bias.
        out, statistics, weights: the layouts of the result, the statistics, a weight's gradient.
        parts: of what the gradients of weight and bias are summed up from.
        run: the forward kernel.
    """

    __slots__ = ("_backward", "_weighted", "affine", "form", "out", "outcome", "parts", "run",
                 "statistics", "weights")  # fmt: skip

    def __init__(self, form: Form, of: Layout, affine: dtype, weighted: bool) -> None:
        wide = of.dtype.compute
        self.form = form
        self.affine = affine
        self.out = dense_layout(of.shape, of.dtype)
        self.statistics = dense_layout((kernels.STATISTICS, form.lines), wide)
        self.weights = dense_layout(form.weight_shape, wide)
        # Without elements there is nothing to sum.
        slots = kernels.slots(form) if of.numel else 0
        self.parts = dense_layout((slots, 2, self.weights.numel), wide)
        self._weighted = weighted  # a vector and a number have different steps
        self._backward: dict[bool, Any] = {}
        self.run = kernels.forward(form, of.dtype, affine, weighted).run
        weight = dense_layout(form.weight_shape if weighted else (), affine)
        self.outcome = Outcome((of, weight, weight), (self.out,))

    def backward(self, sums: bool) -> Any:
        """The backward kernel, with the gradients of weight and bias or without."""
        run = self._backward.get(sums)
        if run is None:
            program = kernels.backward(self.form, self.out.dtype, self.affine, self._weighted, sums)
            run = self._backward[sums] = program.run
        return run


def _normalized(
    plan: _Plan,
    cls: type[StructuredNode],
    inputs: tuple[Tensor, Tensor, Tensor],
    statistics: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The result for input, weight and bias, recorded; and the statistics, if not those given."""
    given, scale, shift = inputs
    x, weight, bias = _plain(given), _plain(scale), _plain(shift)
    result = fresh(plan.out)
    if statistics is None:
        statistics = fresh(plan.statistics)
    plan.run(
        x.storage.buffer,
        x.offset,
        weight.storage.buffer,
        weight.offset,
        bias.storage.buffer,
        bias.offset,
        result.storage.buffer,
        0,
        statistics.storage.buffer,
        0,
    )
    quiet = given.tracked is False and scale.tracked is False and shift.tracked is False
    if not quiet or modes.levels:
        attributes = {"statistics": statistics, "plan": plan}
        cls.record(given, scale, shift, result, attributes, plan.outcome)
    return result, statistics


def _affine(weight: Tensor | None, bias: Tensor | None, plan: _Plan) -> Any:
    """Weight and bias, or what stands for them: both vectors, or both numbers."""
    d, shape = plan.affine, plan.form.weight_shape
    if weight is None and bias is None:
        return number(1, d), number(0, d)
    if weight is None:
        return _filled(1, shape, d), bias
    return weight, bias if bias is not None else _filled(0, shape, d)


def _layout(x: Tensor | None) -> Layout | None:
    return None if x is None else x.layout


def _filled(value: int, shape: Any, d: dtype) -> Tensor:
    result = dense(shape, d)
    copy_elements(number(value, d), result)
    return result


def _affine_dtype(of: Layout, *parts: Tensor | None) -> dtype:
    """The dtype of weight, bias and running estimates, given or not.

    All have that of the input, or float32 where it has 16 bits.
    """
    d = of.dtype.plain
    given = [x.layout.dtype.plain for x in parts if x is not None]
    if d.itemsize == 2 and float32 in given:
        d = float32
    for other in given:
        if other is not d:
            rule = "all inputs must share same datatype"
            if of.dtype.itemsize <= 4:
                rule = "expect parameter to have scalar type of Float"
            raise RuntimeError(
                f"mixed dtype (CPU): {rule}. Got an input of {of.dtype.name} and a weight, bias or "
                f"running estimate of {other.name}"
            )
    return d


_plans = PlanCache()


def _along_last(
    name: str, cls: type[StructuredNode], input: Tensor, normalized_shape: Any,
    weight: Tensor | None, bias: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """layer_norm and rms_norm, with their statistics."""
    of, shape = input.layout, normalized_shape
    if shape.__class__ is not tuple:
        shape = _shape_argument(name, shape)
    key = (cls, of, shape, _layout(weight), _layout(bias), eps)
    plan = _plans.get(key)
    if plan is None:
        shape = _shape_argument(name, shape)
        if flipped(input, weight, bias):
            x, w, b = unflipped(input), unflipped(weight), unflipped(bias)
            return _along_last(name, cls, x, shape, w, b, eps)
        form = _form_along_last(name, of, shape, weight, bias, eps, cls is _LAYER)
        affine = _affine_dtype(of, weight, bias)
        plan = _plans.add(key, _Plan(form, of, affine, weight is not None or bias is not None))
    scale, shift = _affine(weight, bias, plan)
    return _normalized(plan, cls, (input, scale, shift))


def _form_along_last(
    name: str, of: Layout, shape: Any, weight: Any, bias: Any, eps: float, centered: bool
) -> Form:
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {list(shape)}"
        )
    for which, x in (("weight", weight), ("bias", bias)):
        if x is not None and x.layout.shape != shape:
            raise RuntimeError(
                f"Expected {which} to be of same shape as normalized_shape, but got {which} of "
                f"shape {list(x.layout.shape)} and normalized_shape = {list(shape)}"
            )
    if of.ndim < len(shape) or of.shape[of.ndim - len(shape) :] != shape:
        sizes = ", ".join(map(str, ("*" if centered else "", *shape) if centered else shape))
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[{sizes if centered else '*' + sizes}], but got input of size{list(of.shape)}"
        )
    if not of.dtype.is_floating_point:
        raise errors.unsupported("LayerNormKernelImpl" if centered else name, of.dtype)
    size = prod(shape)
    rows = prod(of.shape[: of.ndim - len(shape)])
    return Form((rows, size), (1,), (1,), eps, centered, weight_shape=shape)


def _shape_argument(name: str, shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int"
        )
    return ints_argument(name, "normalized_shape", shape)


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last dimensions.

    Args:
        input: [..., *normalized_shape], floating.
        normalized_shape: sizes of the dimensions that mean and (biased) variance are taken over.
        weight, bias: of shape ``normalized_shape``.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    Gradient: that of the head of this module (Ba, Kiros and Hinton 2016).
    """
    return _along_last("layer_norm", _LAYER, input, normalized_shape, weight, bias, eps)[0]


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`layer_norm`, and the means and reciprocal standard deviations (not differentiable)."""
    shape = _shape_argument("native_layer_norm", normalized_shape)
    result, statistics = _along_last("native_layer_norm", _LAYER, input, shape, weight, bias, eps)
    lead = input.layout.ndim - len(shape)
    kept = (*input.layout.shape[:lead], *(1 for _ in shape))
    d = _affine_dtype(input.layout, weight, bias)
    return result, _copied(statistics, 0, kept, d), _copied(statistics, 1, kept, d)


def _copied(statistics: Tensor, which: int, shape: Any, d: dtype) -> Tensor:
    """One of the statistics in a tensor of its own."""
    result = dense(shape, d)
    if result.layout.numel:
        copy_elements(reshape(select(alias(statistics), 0, which), shape), result)
    return result


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """``x / sqrt(mean(x ** 2) + eps) * weight`` over the last dimensions.

    Args:
        input: [..., *normalized_shape], floating.
        weight: of shape ``normalized_shape``.
        eps: by default the machine epsilon of the input's dtype.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    Gradient: that of the head of this module, no mean subtracted (Zhang and Sennrich 2019).
    """
    shape = _shape_argument("rms_norm", normalized_shape)
    if eps is None:
        d = input.layout.dtype
        eps = 2.0 ** (1 - d.digits) if d.category >= FLOATING else 0.0
    if input.is_complex():  # PyTorch's, which is the formula taken at its word
        dims = tuple(range(-len(shape), 0))
        scale = functions["rsqrt"](mean_of(input * input, dims, keepdim=True) + eps)
        return input * scale if weight is None else input * scale * weight
    return _along_last("rms_norm", _RMS, input, shape, weight, None, eps)[0]


def _group(
    input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    of = input.layout
    key = (_GROUP, of, groups, _layout(weight), _layout(bias), eps)
    plan = _plans.get(key)
    if plan is None:
        if flipped(input, weight, bias):
            x, w, b = unflipped(input), unflipped(weight), unflipped(bias)
            return _group(x, groups, w, b, eps)
        form = _group_form(of, groups, weight, bias, eps)
        affine = _affine_dtype(of, weight, bias)
        plan = _plans.add(key, _Plan(form, of, affine, weight is not None or bias is not None))
    scale, shift = _affine(weight, bias, plan)
    return _normalized(plan, _GROUP, (input, scale, shift))


def _group_form(of: Layout, groups: int, weight: Any, bias: Any, eps: float) -> Form:
    if of.ndim < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {of.ndim}"
        )
    n, channels = of.shape[:2]
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if channels % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(of.shape)} and num_groups={groups}"
        )
    for which, x in (("weight", weight), ("bias", bias)):
        if x is not None and x.layout.shape != (channels,):
            raise RuntimeError(
                f"Expected {which} to be a vector of size equal to the number of channels in "
                f"input, but got {which} of shape {list(x.layout.shape)} and input of shape "
                f"{list(of.shape)}"
            )
    if not of.dtype.is_floating_point:
        raise errors.unsupported("GroupNormKernelImpl", of.dtype)
    shape = (n, groups, channels // groups, prod(of.shape[2:]))
    return Form(shape, (2, 3), (1, 2), eps, weight_shape=(channels,))


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Each sample's groups of channels brought to mean 0 and variance 1, then scaled per channel.

    Args:
        input: [n, channels, ...], floating.
        num_groups: a divisor of the number of channels.
        weight, bias: [channels].

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    Gradient: that of the head of this module (Wu and He 2018).
    """
    return _group(input, num_groups, weight, bias, eps)[0]


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """:func:`group_norm` of [N, C, ...], with the groups' means and reciprocal deviations."""
    result, _ = _group(input, group, weight, bias, eps)
    groups = reshape(input, (N, group, C // group * HxW))
    groups = to(groups, _affine_dtype(input.layout, weight, bias))
    centre = mean_of(groups, -1)
    deviation = groups - centre.unsqueeze(-1)
    rstd = functions["rsqrt"](mean_of(deviation * deviation, -1) + eps)
    return result, centre, rstd


# Batches ------------------------------------------------------------------------------------------
_AVERAGE = "(1 - momentum) * kept + momentum * value"
_averages = PlanCache()


def _move(kept: Tensor, value: Tensor, momentum: Tensor) -> None:
    """Move a running estimate towards a value. PyTorch does not count this as a write either."""
    layouts = (kept.layout, value.layout, momentum.layout)
    plan = _averages.get(layouts)
    if plan is None:
        names = ("kept", "value", "momentum")
        of = kept.layout
        plan = elementwise.plan((_AVERAGE,), names, layouts, (of,), of.dtype)
        _averages.add(layouts, plan)
    run, spec = plan
    flat = [part for t in (kept, value, momentum, kept) for part in (t.storage.buffer, t.offset)]
    run(spec, *flat)


def _batch_form(
    of: Layout, running: Sequence[Tensor | None], affine: Sequence[Tensor | None], given: bool,
    eps: float,
) -> Form:  # fmt: skip
    if of.ndim < 2 and of.shape != (0,):
        raise IndexError(
            "Dimension out of range (expected to be in range of [-1, 0], but got 1): batch_norm "
            f"needs an input of [n, channels, ...], got {list(of.shape)}"
        )
    channels = of.shape[1] if of.ndim > 1 else 0
    named = zip(("running_mean", "running_var", "weight", "bias"), (*running, *affine), strict=True)
    for which, x in named:
        if x is None and given and which.startswith("running"):
            raise RuntimeError(f"{which} must be defined in evaluation mode")
        if x is not None and x.layout.numel != channels:
            raise RuntimeError(f"{which} should contain {channels} elements not {x.layout.numel}")
    if not of.dtype.is_floating_point:
        raise errors.unsupported("batch_norm", of.dtype)
    shape = (of.shape[0], channels, prod(of.shape[2:]))
    return Form(shape, (0, 2), (1,), eps, given=given, weight_shape=(channels,))


def _batch(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
    bias: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """batch_norm with its statistics, as [3, channels]; running estimates are updated."""
    of = input.layout
    key = (_BATCH, of, *map(_layout, (running_mean, running_var, weight, bias)), training, eps)
    plan = _plans.get(key)
    if plan is None:
        if flipped(input, weight, bias):
            x, w, b = unflipped(input), unflipped(weight), unflipped(bias)
            return _batch(x, running_mean, running_var, w, b, training, momentum, eps)
        form = _batch_form(of, (running_mean, running_var), (weight, bias), not training, eps)
        affine = _affine_dtype(of, running_mean, running_var, weight, bias)
        plan = _plans.add(key, _Plan(form, of, affine, weight is not None or bias is not None))
    scale, shift = _affine(weight, bias, plan)
    if not training:
        assert running_mean is not None and running_var is not None
        statistics = fresh(plan.statistics)
        means, rstds, _ = (select(statistics, 0, i) for i in range(3))
        copy_elements(running_mean, means)
        variances = to(running_var.detach(), rstds.layout.dtype)
        copy_elements(functions["rsqrt"](variances + eps), rstds)
        return _normalized(plan, _BATCH, (input, scale, shift), statistics)
    result, statistics = _normalized(plan, _BATCH, (input, scale, shift))
    if of.numel:
        for running, which in ((running_mean, 0), (running_var, 2)):
            if running is not None:
                _move(running, select(alias(statistics), 0, which), constant(float(momentum)))
    return result, statistics


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Each channel brought to mean 0 and variance 1 over the batch, then scaled and shifted.

    Args:
        input: [n, channels, ...], floating.
        weight, bias: [channels].
        running_mean, running_var: [channels]: used instead of the batch's statistics unless
            ``training``, else moved towards them (the variance: the unbiased one) by ``momentum``.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    Gradient: that of the head of this module (Ioffe and Szegedy 2015).
    """
    return _batch(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
    *, out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """:func:`batch_norm`, and the batch's means and reciprocal standard deviations.

    They are not differentiable, and empty unless ``training``.
    """
    result, statistics = _batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    shape = (input.layout.shape[1],) if training else (0,)
    d = _affine_dtype(input.layout, running_mean, running_var, weight, bias)
    results = result, _copied(statistics, 0, shape, d), _copied(statistics, 1, shape, d)
    if out is None:
        return results
    for target, value in zip(out, results, strict=True):
        prepare_out("native_batch_norm", (input,), target, value.layout.shape)
        copy_(target, value)
    return tuple(out)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """:func:`batch_norm` of each sample by itself.

    Args:
        use_input_stats: whether each sample's own statistics are used, or the running ones, which
            move towards the mean of the samples' statistics otherwise.
    """
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    n, channels = input.layout.shape[:2]
    repeat: Callable[[Tensor | None], Tensor | None] = lambda x: (  # noqa: E731
        None if x is None else x.repeat(n)
    )
    as_one = reshape(contiguous(input), (1, n * channels, *input.layout.shape[2:]))
    running = repeat(running_mean), repeat(running_var)
    result, _ = _batch(
        as_one, *running, repeat(weight), repeat(bias), use_input_stats, momentum, eps
    )
    if use_input_stats:
        for kept, repeated in zip((running_mean, running_var), running, strict=True):
            if kept is not None and repeated is not None:
                copy_elements(mean_of(reshape(repeated, (n, channels)), 0), kept)
                kept.counter.version += 1
    return reshape(result, input.layout.shape)


FUNCTIONS = (
    "layer_norm native_layer_norm rms_norm group_norm native_group_norm batch_norm "
    "native_batch_norm instance_norm"
)
