"""Random tensors: the number streams of jitgrad/rng.py, poured into memory.

Numbers are written in memory order, as PyTorch's iterators do, so that a tensor and its transpose
filled from the same seed hold the same bytes. Every in-place filler is recorded where its tensor
requires grad: what was there before has a gradient of zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, errors, rng
from ..autograd.views import check_inplace, rebase_history
from ..dtypes import dtype
from ..layout import iteration_order
from ..ops.table import structured
from ..state import modes
from ..tensor import Tensor, make
from . import tangents
from .convert import to
from .creation import empty, empty_like, from_numpy
from .elementwise import check_memory, functions
from .generator import (
    stream,
)
from .record import StructuredNode, node_class, record, record_history, wants_grad

# Filling memory -----------------------------------------------------------------------------------
Draw = Callable[[int, np.dtype, "np.ndarray | None"], np.ndarray]


def _memory_order(tensor: Tensor) -> np.ndarray:
    """A NumPy view of the elements whose row-major order is that of memory."""
    of = tensor.layout
    return tensor._array().transpose(iteration_order(of.shape, [of.strides]))


def _pour(tensor: Tensor, draw: Draw) -> Tensor:
    """Fill a tensor; no checks, no history."""
    of = tensor.layout
    if not of.numel:
        return tensor
    kind = of.dtype.np
    if of.dense:
        flat = tensor.storage.buffer[tensor.offset : tensor.offset + of.numel * kind.itemsize]
        draw(of.numel, kind, flat.view(kind))
    else:
        place = _memory_order(tensor)
        place[...] = draw(of.numel, kind, None).reshape(place.shape)
    return tensor


def _row(name: str, number: int = 0) -> type[StructuredNode]:
    zero = {"self": lambda grad: functions["mul"](grad, 0)}
    node = f"{name.capitalize() if '_' not in name else 'LogNormal'}Backward{number}"
    return node_class(structured(f"random_{name}{number}", "self", grad=zero, node=node))


_NODES = {
    "uniform_": _row("uniform"), "normal_": _row("normal"), "exponential_": _row("exponential"),
    "cauchy_": _row("cauchy"), "geometric_": _row("geometric"), "log_normal_": _row("log_normal"),
    "bernoulli_": _row("bernoulli", 2), "random_": _row("random", 2),
}  # fmt: skip
_BERNOULLI = _row("bernoulli", 0)
_BERNOULLI_OF = _row("bernoulli", 1)
_NORMAL_OF = _row("normal", 1)


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
    _pour(self, draw)
    self.counter.version += 1
    self.counter.writer = errors.caller()
    if history is not None:
        rebase_history(self, history[0])
    if modes.levels:
        tangents.written(self, (), lambda given: given)
    return self


def _need_floats(self: Tensor, kernel: str) -> None:
    if not self.layout.dtype.is_floating_point:
        kind = self.layout.dtype.tensor_type.removesuffix("Tensor")
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind}'")


def _text(value: float) -> str:
    """A number as PyTorch's messages print it: six significant digits."""
    return f"{value:g}"


# The distributions --------------------------------------------------------------------------------
def _uniform(self: Tensor, low: float, high: float, generator: Any) -> Draw:
    _need_floats(self, "check_uniform_bounds")
    gen, limit = stream("uniform_", generator), np.finfo(self.layout.dtype.np).max
    kind = self.layout.dtype.tensor_type.removesuffix("Tensor")
    for name, bound in (("from", low), ("to", high)):
        if not -limit <= bound <= limit:
            raise RuntimeError(f"{name} is out of bounds for {kind.lower()}")
    if low > high:
        raise RuntimeError(
            "uniform_ expects to return a [from, to) range, but found "
            f"from={_text(low)} > to={_text(high)}"
        )
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{kind}>::max(), but found "
            f"to={_text(high)} and from={_text(low)} which result in to-from to exceed the limit"
        )
    return lambda n, d, out: rng.uniform(gen, n, low, high, d, out)


def _normal(self: Tensor, mean: float, std: float, generator: Any) -> Draw:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {_text(std)}")
    _need_floats(self, "normal_kernel_cpu")
    gen, contiguous = stream("normal_", generator), self.layout.contiguous
    return lambda n, d, out: rng.normal(gen, n, mean, std, d, out, contiguous)


_C_NAMES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short",
    "int32": "int", "int64": "long",
}  # fmt: skip
_DIGITS = {"float32": 24, "float64": 53}


def _check_integers(low: int, last: int, d: dtype) -> None:
    """Whether all integers from ``low`` to ``last`` exist in a dtype."""
    if d.is_floating_point:
        limit = 2 ** _DIGITS[d.name]
        for name, value in (("from", low), ("to - 1", last)):
            if abs(value) > limit:
                warnings.warn(
                    f"{name} is out of bounds [-(2^{_DIGITS[d.name]}), 2^{_DIGITS[d.name]}]: "
                    f"beyond it not every integer is a {d.name}",
                    UserWarning,
                    stacklevel=4,
                )
        return
    lowest, highest = (0, 1) if d is dtypes.bool_ else (np.iinfo(d.np).min, np.iinfo(d.np).max)
    for name, value in (("from", low), ("to - 1", last)):
        if not lowest <= value <= highest:
            raise RuntimeError(f"{name} is out of bounds for {_C_NAMES[d.name]}")


def _random(self: Tensor, low: int | None, high: int | None, generator: Any) -> Draw:
    gen, d = stream("random_", generator), self.layout.dtype
    if low is None:
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
    return _fill(self, _NODES["uniform_"], _uniform(self, low, to, generator))


def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers; RuntimeError for a negative ``std``."""
    return _fill(self, _NODES["normal_"], _normal(self, mean, std, generator))


def random_(self: Tensor, *bounds: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fill with integers: all the dtype has, ``random_(to)`` or ``random_(from, to)``.

    Raises:
        RuntimeError: for an empty range, or one that leaves the dtype.
    """
    low: int | None
    high: int | None
    low, high = {0: (None, None), 1: (0, *bounds), 2: bounds}[len(bounds)]  # type: ignore[assignment]
    low, high = named.pop("from", low), named.pop("to", high)
    if named:
        raise TypeError(f"random_() got an unexpected keyword argument '{next(iter(named))}'")
    if high is not None and low is None:
        low = 0
    return _fill(self, _NODES["random_"], _random(self, low, high, generator))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with exponential numbers of rate ``lambd`` (mean 1 / lambd)."""
    if not self.layout.dtype.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            "floating point but you specified "
            f"{self.layout.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={_text(lambd)}")
    gen = stream("exponential_", generator)
    return _fill(
        self, _NODES["exponential_"], lambda n, d, out: rng.exponential(gen, n, lambd, d, out)
    )


def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy numbers."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={_text(sigma)}")
    _need_floats(self, "cauchy_cpu")
    gen = stream("cauchy_", generator)
    return _fill(
        self, _NODES["cauchy_"], lambda n, d, out: rng.cauchy(gen, n, median, sigma, d, out)
    )


def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fill with exponentials of normal numbers."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={_text(std)}")
    _need_floats(self, "log_normal_cpu")
    gen = stream("log_normal_", generator)
    return _fill(
        self, _NODES["log_normal_"], lambda n, d, out: rng.log_normal(gen, n, mean, std, d, out)
    )


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials, each of probability ``p``, up to the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={_text(p)}")
    gen = stream("geometric_", generator)
    return _fill(self, _NODES["geometric_"], lambda n, d, out: rng.geometric(gen, n, p, d, out))


def _bernoulli(self: Tensor, p: Any, generator: Any) -> Draw:
    gen = stream("bernoulli_", generator)
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={_text(p)}")
        return lambda n, d, out: rng.bernoulli(gen, n, p, d, out)
    if not p.layout.dtype.is_floating_point:
        _need_floats(p, "bernoulli_tensor_cpu_p_")
    order = iteration_order(self.layout.shape, [self.layout.strides])
    odds = p.detach().expand(self.layout.shape)._array().transpose(order)  # type: ignore[attr-defined]
    if not bool(((odds >= 0) & (odds <= 1)).all()):
        raise RuntimeError(
            "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got false: every "
            "probability must be in [0, 1]"
        )
    return lambda n, d, out: rng.bernoulli(gen, n, odds.reshape(n), d, out)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones of probability ``p`` (a number, or a tensor that broadcasts), else zeros."""
    cls = _BERNOULLI_OF if isinstance(p, Tensor) else _NODES["bernoulli_"]
    return _fill(self, cls, _bernoulli(self, p, generator))


# New tensors --------------------------------------------------------------------------------------
def _poured(result: Tensor, draw: Draw, options: dict[str, Any]) -> Tensor:
    _pour(result, draw)
    if options.get("out") is not None:
        result.counter.version += 1
    return result


def rand(*size: Any, generator: Any = None, **options: Any) -> Tensor:
    """Uniform numbers in [0, 1) of the given shape."""
    result = empty(*size, **options)
    return _poured(result, _uniform(result, 0, 1, generator), options)


def randn(*size: Any, generator: Any = None, **options: Any) -> Tensor:
    """Normal numbers of mean 0 and variance 1 of the given shape."""
    result = empty(*size, **options)
    return _poured(result, _normal(result, 0, 1, generator), options)


def _integer(name: str, argument: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise errors.argument(name, argument, "int", value)
    return value.__index__()


def randint(*args: Any, low: Any = 0, high: Any = None, size: Any = None, generator: Any = None,
            dtype: dtype | None = None, **options: Any) -> Tensor:  # fmt: skip
    """Integers from ``low`` (default 0) up to but without ``high``: ``randint(low, high, size)``.

    >>> import jitgrad as jg
    >>> jg.randint(3, (2, 4)).shape
    jitgrad.Size([2, 4])
    """
    given = list(args)
    if size is None:
        if not given or not isinstance(given[-1], (tuple, list)):
            raise TypeError("randint(): argument 'size' must be tuple of ints")
        size = given.pop()
    if high is None:
        if not given:
            raise TypeError("randint() missing 1 required positional argument: 'high'")
        high = given.pop()
    if given:
        low = given.pop()
    low, high = _integer("randint", "low", low), _integer("randint", "high", high)
    result = empty(tuple(size), dtype=dtype or dtypes.int64, **options)
    return _poured(result, _random(result, low, high, generator), options)


def randperm(
    n: int, *, generator: Any = None, dtype: dtype | None = None, **options: Any
) -> Tensor:
    """The integers 0 .. n-1 in random order."""
    n = _integer("randperm", "n", n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    gen, d = stream("randperm", generator), dtype or dtypes.int64
    if d is dtypes.bool_:
        raise NotImplementedError("\"randperm\" not implemented for 'Bool'")
    highest = 2 ** _DIGITS[d.name] if d.is_floating_point else int(np.iinfo(d.np).max)
    if n > highest:
        raise RuntimeError(
            f"value cannot be converted to type {d.name} without overflow: randperm({n})"
        )
    result = empty(n, dtype=d, **options)
    return _poured(result, lambda n, d, out: rng.permutation(gen, n, d, out), options)


def rand_like(input: Tensor, *, generator: Any = None, **options: Any) -> Tensor:
    """Uniform numbers in the shape and dtype of ``input``."""
    result = empty_like(input, **options)
    return _pour(result, _uniform(result, 0, 1, generator))


def randn_like(input: Tensor, *, generator: Any = None, **options: Any) -> Tensor:
    """Normal numbers in the shape and dtype of ``input``."""
    result = empty_like(input, **options)
    return _pour(result, _normal(result, 0, 1, generator))


def randint_like(input: Tensor, *bounds: Any, low: Any = 0, high: Any = None, generator: Any = None,
                 **options: Any) -> Tensor:  # fmt: skip
    """Integers in ``[low, high)`` in the shape and dtype of ``input``."""
    given = list(bounds)
    if high is None:
        if not given:
            raise TypeError("randint_like() missing 1 required positional argument: 'high'")
        high = given.pop()
    if given:
        low = given.pop()
    low, high = _integer("randint_like", "low", low), _integer("randint_like", "high", high)
    result = empty_like(input, **options)
    return _pour(result, _random(result, low, high, generator))


def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probability that ``input`` (or ``p``, where given) says, else zeros.

    Gradient: zero.
    """
    if out is not None:
        if out.layout.shape != input.layout.shape:
            out.resize_(input.layout.shape)
        return bernoulli_(out, input if p is None else p, generator=generator)
    result = empty_like(input)
    _pour(result, _bernoulli(result, input if p is None else p, generator))
    record(_BERNOULLI, (input,), (result,), {})
    return result


def normal(mean: Any = 0.0, std: Any = 1.0, size: Sequence[int] | None = None, *,
           generator: Any = None, out: Any = None, **options: Any) -> Tensor:  # fmt: skip
    """Normal numbers whose mean and standard deviation are numbers or tensors.

    Args:
        mean, std: broadcast with each other; two numbers need a ``size``.

    Raises:
        RuntimeError: for a negative ``std``.

    Gradient: zero.
    """
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not tensors:
        if size is None:
            raise TypeError(
                "normal() received an invalid combination of arguments - got two numbers "
                f"({type(mean).__name__}, {type(std).__name__}): a size is needed as well"
            )
        result = empty(tuple(size), out=out, **options)
        return _poured(result, _normal(result, mean, std, generator), {"out": out})
    if size is not None:
        raise TypeError("normal() received an invalid combination of arguments - a tensor and size")
    if isinstance(std, Tensor) and std.layout.numel and bool((std._array() < 0).any()):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if not isinstance(std, Tensor) and not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {_text(std)}")
    plain = [x.detach() if isinstance(x, Tensor) else x for x in (mean, std)]  # type: ignore[attr-defined]
    shape_like = functions["add"](*plain) if len(tensors) == 2 else tensors[0].detach()  # type: ignore[attr-defined]
    result = empty_like(shape_like) if out is None else out
    if out is not None and out.layout.shape != shape_like.layout.shape:
        out.resize_(shape_like.layout.shape)
    _pour(result, _normal(result, 0, 1, generator))
    result.mul_(plain[1]).add_(plain[0])  # type: ignore[attr-defined]
    if out is None:
        record(_NORMAL_OF, tensors[:1], (result,), {})
    return result


def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *,
                generator: Any = None, out: Any = None) -> Tensor:  # fmt: skip
    """Indices drawn with the probabilities that the rows of ``input`` are proportional to.

    Args:
        input: [columns] or [rows, columns], floating, not negative; rows need not sum to 1.

    Returns:
        int64 [num_samples] or [rows, num_samples].
    """
    of = input.layout
    if of.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not of.dtype.is_floating_point:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{of.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > of.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    weights = np.atleast_2d(input.detach()._array())  # type: ignore[attr-defined]
    if not bool(np.isfinite(weights).all()) or bool((weights < 0).any()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if bool((weights.sum(axis=1) <= 0).any()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    drawn = rng.multinomial(stream("multinomial", generator), weights, num_samples, replacement)
    result = from_numpy(np.ascontiguousarray(drawn[0] if of.ndim == 1 else drawn))
    if out is None:
        return result
    if out.layout.shape != result.layout.shape:
        out.resize_(result.layout.shape)
    return out.copy_(to(result, out.layout.dtype))


def _attach() -> None:
    for method in (uniform_, normal_, random_, exponential_, cauchy_, log_normal_, geometric_,
                   bernoulli_, bernoulli, multinomial):  # fmt: skip
        setattr(Tensor, method.__name__, method)


_attach()
