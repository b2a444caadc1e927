"""Initial values, in place and unrecorded, from the same random streams as PyTorch's.

Every function changes the tensor it is given and returns it.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec

import numpy as np

from ..autograd.grad_mode import no_grad
from ..dispatch.creation import empty_like, from_numpy
from ..dispatch.elementwise import functions
from ..dispatch.random import randperm
from ..tensor import Tensor

where = functions["where"]
P = ParamSpec("P")

_skipped = ContextVar("_skipped", default=False)


@contextmanager
def skipped() -> Iterator[None]:
    """While this lasts, the functions of this module leave tensors as they are."""
    token = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(token)


def _initializer(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Run unrecorded, or not at all while :func:`skipped`."""
    unrecorded = no_grad()(function)

    @functools.wraps(function)
    def initialize(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        if _skipped.get():
            held: Any = args[0] if args else kwargs["tensor"]
            return held
        result: Tensor = unrecorded(*args, **kwargs)
        return result

    return initialize


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights must grow so that a nonlinearity keeps the variance.

    Raises:
        ValueError: for an unknown nonlinearity, or a slope that is no number.

    >>> round(calculate_gain("relu"), 4)
    1.4142
    """
    linear = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
              "conv_transpose3d", "sigmoid")  # fmt: skip
    if nonlinearity in linear:
        return 1
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in gains:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return gains[nonlinearity]


@_initializer
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@_initializer
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal."""
    return tensor.normal_(mean, std, generator=generator)


@_initializer
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normal, but every value in [a, b]: what falls outside is drawn again.

    Where the interval holds less than 30 % of the distribution, candidates are uniform in it, and
    accepted with the ratio of the density to its peak (von Neumann 1951).
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=3,
        )

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    def candidates() -> Any:
        return empty_like(tensor).normal_(mean, std, generator=generator)

    def outside(values: Any) -> Any:
        return (values < low) | (values > high)

    if below(b) - below(a) > 0.3:
        low, high = (tensor.new_full((), end).item() for end in (a, b))
        tensor.normal_(mean, std, generator=generator)
        while bool((again := outside(tensor)).any()):
            tensor.copy_(where(again, candidates(), tensor))
        return tensor

    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def refused(values: Any) -> Any:
        ratio = ((values - mean) / std) ** 2 * -0.5 - peak
        return empty_like(values).uniform_(generator=generator).log() > ratio

    again = refused(tensor.uniform_(a, b, generator=generator))
    while bool(again.any()):
        fresh = empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(where(again, fresh, tensor))
        again = again & refused(fresh)
    return tensor


@_initializer
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


@_initializer
def eye_(tensor: Tensor) -> Tensor:
    """The identity; ValueError unless the tensor is a matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_().diagonal().fill_(1)
    return tensor


@_initializer
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The kernel of a convolution that passes as many channels as it can through unchanged."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out_channels, in_channels, *kernel = tensor.shape
    if out_channels % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    per_group = out_channels // groups
    for group in range(groups):
        for d in range(min(per_group, in_channels)):
            place = tensor.select(0, group * per_group + d).select(0, d)
            for size in kernel:
                place = place.select(0, size // 2)
            place.fill_(1)
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs feed an output of a weight, and how many outputs an input feeds."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    mode = mode.lower()
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform, of variance ``gain**2 * 2 / (fan_in + fan_out)`` (Glorot & Bengio 2010)."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal, of the variance of :func:`xavier_uniform_`."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform, of variance ``gain**2 / fan`` (He et al. 2015).

    Args:
        a: the slope of the leaky ReLU that follows.
        mode: ``fan_in`` keeps the variance forwards, ``fan_out`` backwards.
    """
    if _empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal, of the variance of :func:`kaiming_uniform_`."""
    if _empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


@_initializer
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix, rows against all other dimensions (Saxe et al. 2013)."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    flat = tensor.new_empty((rows, tensor.numel() // rows))
    values = flat.normal_(0, 1, generator=generator).numpy()
    wide = rows < values.shape[1]
    q, r = np.linalg.qr(values.T if wide else values)
    q = q * np.sign(np.diag(r))  # the factorisation is unique once the diagonal is positive
    result = from_numpy(np.ascontiguousarray(q.T if wide else q))
    return tensor.copy_(result.reshape(tensor.shape)).mul_(gain)


@_initializer
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal, with a fraction ``sparsity`` of each column zero (Martens 2010)."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        for row in randperm(rows).tolist()[:zeros]:
            tensor.select(0, row).select(0, column).zero_()
    return tensor


# Old names ----------------------------------------------------------------------------------------
def _deprecated(old: str) -> Callable[..., Tensor]:
    new = globals()[f"{old}_"]

    def initialize(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{old}_`.",
            FutureWarning,
            stacklevel=2,
        )
        result: Tensor = new(*args, **kwargs)
        return result

    initialize.__name__ = initialize.__qualname__ = old
    initialize.__doc__ = f"The old name of :func:`{old}_`."
    return initialize


for _old in (
    "uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal "
    "orthogonal sparse"
).split():
    globals()[_old] = _deprecated(_old)
