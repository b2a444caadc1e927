"""Random tensors, from the number streams of jitgrad/rng.py: same seed, same numbers as PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, errors, rng, rng_counts
from ..dtypes import dtype
from ..tensor import Tensor
from .convert import to
from .creation import empty, empty_like, from_numpy
from .distributions import (
    BERNOULLI,
    BINOMIAL,
    NORMAL_OF,
    POISSON,
    Draw,
    bernoulli_,
    cauchy_,
    draw_bernoulli,
    draw_normal,
    draw_random,
    draw_uniform,
    exponential_,
    geometric_,
    log_normal_,
    normal_,
    pour,
    random_,
    text,
    uniform_,
)
from .elementwise import functions
from .generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    stream,
)
from .record import record

__all__ = [
    "Generator",
    "bernoulli",
    "binomial",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]


# New tensors --------------------------------------------------------------------------------------
def _poured(result: Tensor, draw: Draw, options: dict[str, Any]) -> Tensor:
    pour(result, draw)
    if options.get("out") is not None:
        result.counter.version += 1
    return result


def rand(*size: Any, generator: Any = None, **options: Any) -> Tensor:
    """Uniform numbers in [0, 1) of the given shape."""
    result = empty(*size, **options)
    return _poured(result, draw_uniform(result, 0, 1, generator), options)


def randn(*size: Any, generator: Any = None, **options: Any) -> Tensor:
    """Normal numbers of mean 0 and variance 1 of the given shape."""
    result = empty(*size, **options)
    return _poured(result, draw_normal(result, 0, 1, generator), options)


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
    return _poured(result, draw_random(result, low, high, generator), options)


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
    if n > (2**d.digits if d.is_floating_point else d.highest):
        raise RuntimeError(
            f"value cannot be converted to type {d.name} without overflow: randperm({n})"
        )
    result = empty(n, dtype=d, **options)
    return _poured(result, lambda n, d, out: rng.permutation(gen, n, d, out), options)


def rand_like(input: Tensor, *, generator: Any = None, **options: Any) -> Tensor:
    """Uniform numbers in the shape and dtype of ``input``."""
    result = empty_like(input, **options)
    return pour(result, draw_uniform(result, 0, 1, generator))


def randn_like(input: Tensor, *, generator: Any = None, **options: Any) -> Tensor:
    """Normal numbers in the shape and dtype of ``input``."""
    result = empty_like(input, **options)
    return pour(result, draw_normal(result, 0, 1, generator))


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
    return pour(result, draw_random(result, low, high, generator))


def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probability that ``input`` (or ``p``, where given) says, else zeros.

    Gradient: zero.
    """
    if out is not None:
        if out.layout.shape != input.layout.shape:
            out.resize_(input.layout.shape)
        return bernoulli_(out, input if p is None else p, generator=generator)
    result = empty_like(input)
    pour(result, draw_bernoulli(result, input if p is None else p, generator))
    record(BERNOULLI, (input,), (result,), {})
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
        return _poured(result, draw_normal(result, mean, std, generator), {"out": out})
    if size is not None:
        raise TypeError("normal() received an invalid combination of arguments - a tensor and size")
    if isinstance(std, Tensor) and std.layout.numel and bool((std._numbers() < 0).any()):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if not isinstance(std, Tensor) and not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {text(std)}")
    plain = [x.detach() if isinstance(x, Tensor) else x for x in (mean, std)]
    shape_like = functions["add"](*plain) if len(tensors) == 2 else tensors[0].detach()
    result = empty_like(shape_like) if out is None else out
    if out is not None and out.layout.shape != shape_like.layout.shape:
        out.resize_(shape_like.layout.shape)
    pour(result, draw_normal(result, 0, 1, generator))
    result.mul_(plain[1]).add_(plain[0])
    if out is None:
        given = {"mean": mean, "std": std}
        names = " ".join(name for name, x in given.items() if isinstance(x, Tensor))
        record(NORMAL_OF[names], tensors, (result,), {})
    return result


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson numbers of the rates in ``input``.

    Raises:
        RuntimeError: for a rate that is negative or NaN.

    Gradient: zero.
    """
    if not input.is_floating_point():
        raise errors.unsupported("poisson_cpu", input.layout.dtype)
    rates = input.detach()._numbers().astype(np.float64)
    if not bool((rates >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    drawn = rng_counts.poisson(stream("poisson", generator), rates)
    result = to(from_numpy(drawn), input.layout.dtype)
    record(POISSON, (input,), (result,), {})
    return result


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """How many of ``count`` trials succeed that do with the chances ``prob``, broadcast.

    Raises:
        ValueError: for integers.
        RuntimeError: for two dtypes.

    Gradient: zero.
    """
    for name, x in (("count", count), ("prob", prob)):
        if not x.is_floating_point():
            kind = x.layout.dtype.tensor_type.removesuffix("Tensor")
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {kind}"
            )
    d = count.layout.dtype
    if prob.layout.dtype is not d:
        raise RuntimeError(
            f"Found dtype {prob.layout.dtype.tensor_type.removesuffix('Tensor')} but expected "
            f"{d.tensor_type.removesuffix('Tensor')}"
        )
    both = [x.detach()._numbers().astype(np.float64) for x in (count, prob)]
    drawn = rng_counts.binomial(stream("binomial", generator), *np.broadcast_arrays(*both))
    result = to(from_numpy(drawn), d)
    record(BINOMIAL, (count, prob), (result,), {})
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
    if out is not None and out.layout.dtype is not dtypes.int64:
        kind = out.layout.dtype.tensor_type.removesuffix("Tensor")
        raise RuntimeError(f"multinomial expects Long tensor out, got: {kind}")
    weights = np.atleast_2d(input.detach()._numbers())
    if replacement and num_samples > 1:
        for wrong, what in (
            (weights < 0, "< 0"), (~np.isfinite(weights), "= infinity or NaN"),
        ):  # fmt: skip
            if bool(wrong.any()):
                raise RuntimeError(
                    f"invalid multinomial distribution (encountering probability entry {what})"
                )
    if not bool(np.isfinite(weights).all()) or bool((weights < 0).any()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if bool((weights.sum(axis=1) <= 0).any()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    drawn = rng.multinomial(
        stream("multinomial", generator), weights, num_samples, replacement, input.dtype.name
    )
    result = from_numpy(np.ascontiguousarray(drawn[0] if of.ndim == 1 else drawn))
    if out is None:
        return result
    if out.layout.shape != result.layout.shape:
        out.resize_(result.layout.shape)
    return out.copy_(result)


def _attach() -> None:
    for method in (uniform_, normal_, random_, exponential_, cauchy_, log_normal_, geometric_,
                   bernoulli_, bernoulli, multinomial):  # fmt: skip
        setattr(Tensor, method.__name__, method)


_attach()
