"""Activation functions, softmax and dropout."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, errors, rng
from ..dispatch import lines
from ..dispatch.creation import empty_like, from_numpy, zeros_like
from ..dispatch.elementwise import functions, operators
from ..dispatch.generator import default_generator
from ..dispatch.reduction import argmax
from ..dtypes import dtype
from ..tensor import Tensor


def _call(name: str, inplace: bool, input: Tensor, *parameters: Any) -> Tensor:
    """A row of the table, into ``input`` itself where that is asked for."""
    return (operators[name].inplace if inplace else functions[name])(input, *parameters)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(0, input)``; the gradient at 0 is 0."""
    return _call("relu", True, input) if inplace else functions["relu"](input)


def relu_(input: Tensor) -> Tensor:
    """:func:`relu` in place."""
    return relu(input, True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where positive, else ``negative_slope * input``."""
    return _call("leaky_relu", inplace, input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where positive, else ``alpha * (exp(input) - 1)`` (Clevert et al. 2015)."""
    return _call("elu", inplace, input, alpha, 1.0, 1.0)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled :func:`elu` that keeps mean 0 and variance 1 (Klambauer et al. 2017)."""
    return _call("elu", inplace, input, _SELU_ALPHA, _SELU_SCALE, 1.0)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where positive, else ``alpha * (exp(input / alpha) - 1)`` (Barron 2017)."""
    return _call("celu", inplace, input, alpha)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input * Phi(input)``; with ``approximate="tanh"`` Phi is approximated."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return functions["gelu" if approximate == "none" else "gelu_tanh"](input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    return _call("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``."""
    return _call("mish", inplace, input)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, and ``input`` where ``beta * input > threshold``."""
    return functions["softplus"](input, beta, threshold)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """``input`` limited to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    d = input.dtype
    if d is dtypes.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if not d.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)
        if min_val < 0 and not d.is_signed:
            raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return _call("hardtanh", inplace, input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``input`` limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(input + 3) / 6``."""
    return _call("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``."""
    return _call("hardswish", inplace, input)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input``, but 0 in [-lambd, lambd]."""
    return functions["hardshrink"](input, lambd)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` moved towards 0 by ``lambd``; RuntimeError if that is negative."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return functions["softshrink"](input, lambd)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above the threshold, else ``value``."""
    if input.dtype is dtypes.bool_:
        raise errors.unsupported("threshold_cpu", input.dtype)
    if not input.dtype.is_floating_point:
        threshold, value = int(threshold), int(value)
    return _call("threshold", inplace, input, threshold, value)


def softsign(input: Tensor) -> Tensor:
    """``input / (1 + |input|)``."""
    return input / (abs(input) + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``."""
    return input - functions["tanh"](input)


def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(input))``."""
    return functions["log_sigmoid"](input)


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``."""
    return functions["sigmoid"](input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return functions["tanh"](input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``input`` where positive, else ``weight * input``.

    Args:
        weight: one number, or one for each channel (the second dimension of ``input``).
    """
    if weight.numel() != 1:
        if not input.ndim:
            raise RuntimeError("prelu: Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.ndim:
        shape = [1] * input.ndim
        if input.ndim:
            shape[min(1, input.ndim - 1)] = weight.numel()
        weight = weight.reshape(shape)
    return functions["prelu_kernel"](input, weight)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second (Dauphin et al. 2017)."""
    if not input.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = input.size(dim)
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    first, second = input.chunk(2, dim)
    return first * functions["sigmoid"](second)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """A leaky ReLU whose slope is drawn uniformly when training, else the middle one."""
    for side, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {side} bound must be finite, got {bound}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return _call("rrelu_with_noise", inplace, input, (lower + upper) / 2)
    # One draw, in float64, for each element that needs one, in row-major order.
    low = input.detach()._numbers() <= 0
    drawn = rng.uniform(default_generator, int(low.sum()), lower, upper, "float64")
    noise = np.ones(low.shape)
    noise[low] = drawn
    return _call("rrelu_with_noise", inplace, input, from_numpy(noise).to(input.dtype))


# Softmax ------------------------------------------------------------------------------------------
def _default_dim(name: str, ndim: int) -> int:
    """What PyTorch takes when ``dim`` is left out, with its warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """``exp(input)`` divided by its sum along ``dim``."""
    if dim is None:
        dim = _default_dim("softmax", input.ndim)
    return lines.softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """:func:`softmax` of ``-input``."""
    if dim is None:
        dim = _default_dim("softmin", input.ndim)
    return lines.softmax(functions["neg"](input), dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """The logarithm of :func:`softmax`, computed without overflow."""
    if dim is None:
        dim = _default_dim("log_softmax", input.ndim)
    return lines.log_softmax(input, dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draws from the Gumbel-softmax distribution (Jang et al. 2016; Maddison et al. 2016).

    Args:
        tau: the temperature.
        hard: give one-hot vectors, with the gradient of the soft ones.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = functions["neg"](functions["log"](empty_like(logits).exponential_()))
    soft = lines.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = argmax(soft, dim, keepdim=True)
    one = zeros_like(logits).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft


# In place -----------------------------------------------------------------------------------------
def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``<name>_``: an activation into its input."""

    def inplace(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, inplace=True, **kwargs)

    inplace.__name__ = inplace.__qualname__ = f"{function.__name__}_"
    inplace.__doc__ = f":func:`{function.__name__}` in place."
    return inplace


celu_ = _in_place(celu)
elu_ = _in_place(elu)
hardtanh_ = _in_place(hardtanh)
leaky_relu_ = _in_place(leaky_relu)
rrelu_ = _in_place(rrelu)
selu_ = _in_place(selu)
threshold_ = _in_place(threshold)
