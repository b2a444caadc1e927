"""Convolutions as a family of three operators that are each other's derivatives.

With an input x, weights w and results y, ``sum(y * convolved(x, w))`` is linear in each of the
three, and leaving out one of them gives an operator: the convolution itself, its *adjoint* (of y
and w: what a transposed convolution computes) and the *weight gradient* (of x and y). The gradients
of each are the other two, so derivatives of every order need no more than these.

Checks of what users write, and their many forms, are in dispatch/conv.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..dtypes import dtype
from ..kernels.conv import Geometry, weight_gradient, windows
from ..layout import Layout, dense_layout, image_layout
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor
from . import convert
from .make import constant, fresh
from .plans import PlanCache
from .record import Outcome, StructuredNode, node_class, record
from .reduction import sum as reduce_sum
from .view import expand, reshape

_plans = PlanCache()


def no_bias() -> Tensor:
    """What stands for a bias where there is none: a zero for all rows."""
    return constant(0.0)


def _in_computed_dtype(d: dtype) -> bool:
    if d.np.kind not in "fiu" or d.name == "bool":
        raise errors.unsupported("slow_conv2d_cpu", d)
    return d.compute is d


def _windows(x: Tensor, weight: Tensor, bias: Tensor, out: Layout, geometry: Geometry,
             adjoint: bool) -> Tensor:  # fmt: skip
    """The convolution, or its adjoint; no history."""
    d = out.dtype
    if not _in_computed_dtype(d):  # 16-bit floats
        x, weight, bias = (convert.to(t.detach(), d.compute) for t in (x, weight, bias))
        of = image_layout(out.shape, d.compute, out)
        return convert.to(_windows(x, weight, bias, of, geometry, adjoint), d)
    if not x.layout.numel or not weight.layout.numel:
        return _nothing_but(bias, out)
    result = fresh(out)
    key = (x.layout, weight.layout, bias.layout, out, geometry, adjoint)
    run = _plans.get(key)
    if run is None:
        if convert.flipped(x, weight, bias):
            x, weight, bias = (convert.resolved(t) for t in (x, weight, bias))
            return _windows(x, weight, bias, out, geometry, adjoint)
        step = bias.layout.strides[0] if bias.layout.ndim else 0
        launch = (
            windows(x.layout, weight.layout, out, geometry, adjoint=adjoint, bias=step)
            if out.numel
            else None
        )
        run = _plans.add(key, launch or _nothing)
    run(
        x.storage.buffer,
        x.offset,
        weight.storage.buffer,
        weight.offset,
        bias.storage.buffer,
        bias.offset,
        result.storage.buffer,
        0,
    )
    return result


def _nothing(*operands: Any) -> None:
    """The launch that fills no results."""


def _nothing_but(bias: Tensor, out: Layout) -> Tensor:
    """The results where there is nothing to add up."""
    result = fresh(out)
    values = bias.detach()
    if values.layout.ndim and values.layout.numel == out.shape[1]:
        values = reshape(values, (-1, *(1,) * (out.ndim - 2)))
    elif values.layout.ndim:
        values = no_bias()
    convert.copy_elements(values, result)
    return result


def _weight_gradient(x: Tensor, y: Tensor, out: Layout, geometry: Geometry) -> Tensor:
    d = out.dtype
    if not _in_computed_dtype(d):
        x, y = (convert.to(t.detach(), d.compute) for t in (x, y))
        return convert.to(_weight_gradient(x, y, dense_layout(out.shape, d.compute), geometry), d)
    result = fresh(dense_layout(out.shape, d))
    if not x.layout.numel or not y.layout.numel or not out.numel:
        convert.copy_elements(constant(0), result)
        return result
    if not y.layout.contiguous:
        y = convert.copied(y, dense_layout(y.layout.shape, d))
    key = (x.layout, y.layout, result.layout, geometry)
    plan = _plans.get(key)
    if plan is None:
        if convert.flipped(x, y):
            return _weight_gradient(convert.resolved(x), convert.resolved(y), out, geometry)
        plan = _plans.add(key, weight_gradient(x.layout, y.layout, result.layout, geometry))
    first, second, nbytes = plan
    sums = np.empty(nbytes, np.uint8)
    buffer = result.storage.buffer
    first(x.storage.buffer, x.offset, y.storage.buffer, y.offset, sums, 0, sums, 0)
    second(sums, 0, buffer, 0, buffer, 0, buffer, 0)
    return result


# The rows -----------------------------------------------------------------------------------------
class Call(NamedTuple):
    """What a call computes, and how it is recorded."""

    row: type[StructuredNode]
    out: Layout
    geometry: Geometry
    adjoint: bool
    attributes: Mapping[str, Any]
    outcome: Outcome


def convolved(input: Tensor, weight: Tensor, bias: Tensor, call: Call) -> Tensor:
    """The convolution of an input [n, channels, ...], or the adjoint of one, of an input [n, rows,
    ...]."""
    result = _windows(input, weight, bias, call.out, call.geometry, call.adjoint)
    if (
        input.tracked is not False
        or weight.tracked is not False
        or bias.tracked is not False
        or modes.levels
    ):
        call.row.record(input, weight, bias, result, call.attributes, call.outcome)
    return result


# What follows is called by formulas, which are recorded only where the mode says so.
def _again(row: type[StructuredNode], input: Tensor, weight: Tensor, of: Layout,
           geometry: Geometry, adjoint: bool) -> Tensor:  # fmt: skip
    bias, out = no_bias(), image_layout(of.shape, of.dtype, of)
    result = _windows(input, weight, bias, out, geometry, adjoint)
    if modes.mode:
        record(row, (input, weight, bias), (result,), {"geometry": geometry})
    return result


def _plain(input: Tensor, weight: Tensor, out: Layout, geometry: Geometry) -> Tensor:
    return _again(_FORWARD, input, weight, out, geometry, False)


def _back(input: Tensor, weight: Tensor, out: Layout, geometry: Geometry) -> Tensor:
    return _again(_ADJOINT, input, weight, out, geometry, True)


def _weights_of(input: Tensor, output: Tensor, out: Layout, geometry: Geometry) -> Tensor:
    """The gradient of weights from a convolution's input and that of its results."""
    result = _weight_gradient(input, output, out, geometry)
    if modes.mode:
        record(_WEIGHT, (input, output), (result,), {"geometry": geometry, "out": out})
    return result


def _bias_gradient(grad: Tensor) -> Tensor:
    return reduce_sum(grad, [d for d in range(grad.layout.ndim) if d != 1])


def _bias_tangent(tangent: Tensor, result: Tensor) -> Tensor:
    of = result.layout
    return expand(reshape(tangent, (-1, *(1,) * (of.ndim - 2))), of.shape)


def _row(name: str, node: str, adjoint: bool) -> type[StructuredNode]:
    """A convolution (or the adjoint of one), under a node name."""
    apply, other = (_back, _plain) if adjoint else (_plain, _back)

    def weight_grad(grad: Tensor, input: Tensor, layout: Layout, geometry: Geometry) -> Tensor:
        pair = (grad, input) if adjoint else (input, grad)
        return _weights_of(*pair, layout, geometry)

    return node_class(
        structured(
            name,
            "input weight bias",
            node=node,
            grad={
                "input": lambda grad, weight, layout, geometry: other(
                    grad, weight, layout, geometry
                ),
                "weight": weight_grad,
                "bias": _bias_gradient,
            },
            jvp={
                "input": lambda tangent, weight, result, geometry: apply(
                    tangent, weight, result.layout, geometry
                ),
                "weight": lambda tangent, input, result, geometry: apply(
                    input, tangent, result.layout, geometry
                ),
                "bias": _bias_tangent,
            },
            fresh=True,
        )
    )


CONVOLUTION = _row("convolution", "ConvolutionBackward0", False)
TRANSPOSED = _row("convolution_transposed", "ConvolutionBackward0", True)
_FORWARD = _row("convolution_again", "ConvolutionBackwardBackward0", False)
_ADJOINT = _row("convolution_backward", "ConvolutionBackwardBackward0", True)
_WEIGHT = node_class(
    structured(
        "convolution_backward_weight",
        "input output",
        node="ConvolutionBackwardBackward0",
        grad={
            "input": lambda grad, output, layout, geometry: _back(output, grad, layout, geometry),
            "output": lambda grad, input, layout, geometry: _plain(input, grad, layout, geometry),
        },
        jvp={
            "input": lambda tangent, output, out, geometry: _weights_of(
                tangent, output, out, geometry
            ),
            "output": lambda tangent, input, out, geometry: _weights_of(
                input, tangent, out, geometry
            ),
        },
        fresh=True,
    )
)
