"""Filling tensors with random numbers, in place.

Numbers are written in memory order, as PyTorch's iterators do, so that a tensor and its transpose
filled from the same seed hold the same bytes. Every filler is recorded where its tensor requires
grad: what was there before has a gradient of zero.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, errors, rng
from ..autograd.views import check_inplace, rebase_history
from ..dtypes import dtype
from ..layout import Layout, iteration_order
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor, make
from . import tangents
from .elementwise import check_memory, functions
from .generator import stream
from .record import StructuredNode, node_class, record_history, wants_grad

# Filling memory -----------------------------------------------------------------------------------
Draw = Callable[[int, Any, "np.ndarray | None"], np.ndarray]


def _memory_order(tensor: Tensor) -> np.ndarray:
    """A NumPy view of the stored elements whose row-major order is that of memory."""
    of = tensor.layout
    return tensor._array().transpose(iteration_order(of.shape, [of.strides]))


def pour(tensor: Tensor, draw: Draw) -> Tensor:
    """Fill a tensor; no checks, no history."""
    of = tensor.layout
    if not of.numel:
        return tensor
    d = of.dtype
    if of.dense and d is not dtypes.bfloat16:
        flat = tensor.storage.buffer[tensor.offset : tensor.offset + of.nbytes]
        draw(of.numel, d.np, flat.view(d.np))
    else:
        place = _memory_order(tensor)
        place[...] = d.encode(draw(of.numel, d.name, None)).reshape(place.shape)
    return tensor


def _row(name: str, number: int = 0, inputs: str = "self") -> type[StructuredNode]:
    zero = dict.fromkeys(inputs.split(), _zero)
    node = f"{name.capitalize() if '_' not in name else 'LogNormal'}Backward{number}"
    return node_class(structured(f"random_{name}{number}", inputs, grad=zero, node=node))


def _zero(grad: Tensor, layout: Layout) -> Tensor:
    return functions["mul"](grad, 0).sum_to_size(layout.shape)


_NODES = {
    "uniform_": _row("uniform"), "normal_": _row("normal"), "exponential_": _row("exponential"),
    "cauchy_": _row("cauchy"), "geometric_": _row("geometric"), "log_normal_": _row("log_normal"),
    "bernoulli_": _row("bernoulli", 2), "random_": _row("random", 2),
}  # fmt: skip
BERNOULLI = _row("bernoulli", 0)
POISSON = _row("poisson")
BINOMIAL = _row("binomial", 0, "count prob")
_BERNOULLI_OF = _row("bernoulli", 1)
NORMAL_OF = {
    "mean": _row("normal", 1, "mean"),
    "std": _row("normal", 2, "std"),
    "mean std": _row("normal", 3, "mean std"),
}


def _fill(self: Tensor, cls: type[StructuredNode], draw: Draw) -> Tensor:
    """Fill a tensor in place, and record that its old values are gone."""
    recorded = wants_grad((self,))
    check_inplace(self, recorded)
    check_memory(self, ())
    history = None
    if recorded:
        stand_in = make(self.storage, self.offset, self.layout)
        record_history(cls, (self,), (stand_in,), {})
        history = stand_in.edge
    pour(self, draw)
    self.counter.version += 1
    self.counter.writer = errors.writer(f"{cls.row.name}_")
    if history is not None:
        rebase_history(self, history[0])
    if modes.levels:
        tangents.written(self, (), lambda given: given)
    return self


def _need_floats(self: Tensor, kernel: str, complex_too: bool = False) -> None:
    known = (
        self.layout.dtype.category >= dtypes.FLOATING if complex_too else self.is_floating_point()
    )
    if not known:
        kind = self.layout.dtype.tensor_type.removesuffix("Tensor")
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind}'")


def text(value: float) -> str:
    """A number as PyTorch's messages print it: six significant digits."""
    return f"{value:g}"


# The distributions --------------------------------------------------------------------------------
def draw_uniform(self: Tensor, low: float, high: float, generator: Any) -> Draw:
    _need_floats(self, "check_uniform_bounds", complex_too=True)
    gen, limit = stream("uniform_", generator), self.layout.dtype.highest
    kind = self.layout.dtype.tensor_type.removesuffix("Tensor")
    for name, bound in (("from", low), ("to", high)):
        if not -limit <= bound <= limit:
            raise RuntimeError(f"{name} is out of bounds for {kind.lower()}")
    if low > high:
        raise RuntimeError(
            "uniform_ expects to return a [from, to) range, but found "
            f"from={text(low)} > to={text(high)}"
        )
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{kind}>::max(), but found "
            f"to={text(high)} and from={text(low)} which result in to-from to exceed the limit"
        )
    return _of_parts(self, lambda n, d, out: rng.uniform(gen, n, low, high, d, out))


def draw_normal(self: Tensor, mean: float, std: float, generator: Any) -> Draw:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {text(std)}")
    _need_floats(self, "normal_kernel_cpu", complex_too=True)
    gen, contiguous = stream("normal_", generator), self.layout.contiguous
    if self.is_complex():  # each part has half the variance
        std /= math.sqrt(2)
    return _of_parts(self, lambda n, d, out: rng.normal(gen, n, mean, std, d, out, contiguous))


def _of_parts(self: Tensor, draw: Draw) -> Draw:
    """How a tensor is filled: a complex one part by part."""
    d = self.dtype
    if not d.is_complex:
        return draw
    part = d.to_real()

    def pairs(n: int, kind: Any, out: Any) -> Any:
        values = draw(2 * n, part.name, None if out is None else out.view(part.np))
        return values.view(d.np)

    return pairs


_C_NAMES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short",
    "int32": "int", "int64": "long",
}  # fmt: skip


def _check_integers(low: int, last: int, d: dtype) -> None:
    """Whether all integers from ``low`` to ``last`` exist in a dtype."""
    if d.is_floating_point:
        limit = 2**d.digits
        for name, value in (("from", low), ("to - 1", last)):
            if abs(value) > limit:
                warnings.warn(
                    f"{name} is out of bounds [-(2^{d.digits}), 2^{d.digits}]: "
                    f"beyond it not every integer is a {d.name}",
                    UserWarning,
                    stacklevel=4,
                )
        return
    for name, value in (("from", low), ("to - 1", last)):
        if not d.lowest <= value <= d.highest:
            raise RuntimeError(f"{name} is out of bounds for {_C_NAMES[d.name]}")


def draw_random(self: Tensor, low: int | None, high: int | None, generator: Any) -> Draw:
    gen, d = stream("random_", generator), self.layout.dtype
    if low is None:
        if d is dtypes.uint64:
            raise errors.unsupported("random_kernel_cpu", d)
        return lambda n, d, out: rng.random(gen, n, d, out)
    if high is None:
        _check_integers(low, low, d)
    else:
        if low >= high:
            raise RuntimeError(
                f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
            )
        _check_integers(low, high - 1, d)
    return lambda n, d, out: rng.integers(gen, n, low, high, d, out)


def uniform_(self: Tensor, from_: float = 0, to: float = 1, *, generator: Any = None,
             **named: float) -> Tensor:  # fmt: skip
    """Fill with uniform numbers in ``[from, to)``; floating dtypes only.

    Raises:
        RuntimeError: if ``from`` is greater than ``to``, or either does not fit the dtype.
    """
    low = named.pop("from", from_)  # a Python keyword: it can be given by name only in a dict
    if named:
        raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(named))}'")
    return _fill(self, _NODES["uniform_"], draw_uniform(self, low, to, generator))


def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers; RuntimeError for a negative ``std``."""
    return _fill(self, _NODES["normal_"], draw_normal(self, mean, std, generator))


def random_(self: Tensor, *bounds: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fill with integers: all the dtype has, ``random_(to)`` or ``random_(from, to)``.

    Raises:
        RuntimeError: for an empty range, or one that leaves the dtype.
    """
    low: int | None
    high: int | None
    low, high = {0: (None, None), 1: (0, *bounds), 2: bounds}[len(bounds)]
    low, high = named.pop("from", low), named.pop("to", high)
    if named:
        raise TypeError(f"random_() got an unexpected keyword argument '{next(iter(named))}'")
    if high is not None and low is None:
        low = 0
    return _fill(self, _NODES["random_"], draw_random(self, low, high, generator))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with exponential numbers of rate ``lambd`` (mean 1 / lambd)."""
    if not self.layout.dtype.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            "floating point but you specified "
            f"{self.layout.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={text(lambd)}")
    gen = stream("exponential_", generator)
    return _fill(
        self, _NODES["exponential_"], lambda n, d, out: rng.exponential(gen, n, lambd, d, out)
    )


def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy numbers."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={text(sigma)}")
    _need_floats(self, "cauchy_cpu")
    gen = stream("cauchy_", generator)
    return _fill(
        self, _NODES["cauchy_"], lambda n, d, out: rng.cauchy(gen, n, median, sigma, d, out)
    )


def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fill with exponentials of normal numbers."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={text(std)}")
    _need_floats(self, "log_normal_cpu")
    gen = stream("log_normal_", generator)
    return _fill(
        self, _NODES["log_normal_"], lambda n, d, out: rng.log_normal(gen, n, mean, std, d, out)
    )


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials, each of probability ``p``, up to the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={text(p)}")
    gen = stream("geometric_", generator)
    return _fill(self, _NODES["geometric_"], lambda n, d, out: rng.geometric(gen, n, p, d, out))


def draw_bernoulli(self: Tensor, p: Any, generator: Any) -> Draw:
    gen = stream("bernoulli_", generator)
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={text(p)}")
        return lambda n, d, out: rng.bernoulli(gen, n, p, d, out)
    if not p.layout.dtype.is_floating_point:
        _need_floats(p, "bernoulli_tensor_cpu_p_")
    order = iteration_order(self.layout.shape, [self.layout.strides])
    odds = p.detach().expand(self.layout.shape)._numbers().transpose(order)
    if not bool(((odds >= 0) & (odds <= 1)).all()):
        raise RuntimeError(
            "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got false. Every "
            "probability must be in [0, 1]"
        )
    return lambda n, d, out: rng.bernoulli(gen, n, odds.reshape(n), d, out)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones of probability ``p`` (a number, or a tensor that broadcasts), else zeros."""
    cls = _BERNOULLI_OF if isinstance(p, Tensor) else _NODES["bernoulli_"]
    return _fill(self, cls, draw_bernoulli(self, p, generator))
