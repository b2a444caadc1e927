"""vmap, as a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .tree import children, flatten


def _spread(dims: Any, tree: Any, what: str) -> list[Any]:
    """``dims``, a prefix of the tree (a number stands for all below it), for every leaf."""
    found = children(tree)
    if found is None or dims is None or isinstance(dims, int):
        if dims is not None and not isinstance(dims, int):
            raise ValueError(f"vmap: {what} {dims!r} do not fit a {type(tree).__name__}")
        return [dims] * len(flatten(tree)[0])
    parts = found[0]
    given = children(dims)
    if given is None or len(given[0]) != len(parts):
        raise ValueError(
            f"vmap: {what} must be an int, None, or have the structure of what they are for; got "
            f"{dims!r} for {len(parts)} parts"
        )
    return [x for d, part in zip(given[0], parts, strict=True) for x in _spread(d, part, what)]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function over batches: ``func`` called for every member, the results stacked.

    This is a loop: it means what PyTorch's vmap means, and is as fast as calling ``func`` so often.
    The code of ``func`` may do anything (branch on values, call ``item()``), and every call draws
    random numbers of its own, whatever ``randomness`` says. ``chunk_size`` is accepted.

    Args:
        in_dims: the batch dimension of every argument (None: the same for all members), an int for
            all of them or a tree like the arguments.
        out_dims: where the batch dimension of the results goes.

    Raises:
        ValueError: if there is no batch dimension, or its sizes differ.
    """

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        leaves, rebuild = flatten(args)
        dims = _spread(in_dims if isinstance(in_dims, int) else _tuple(in_dims), args, "in_dims")
        sizes = {x.layout.shape[d] for x, d in zip(leaves, dims, strict=True) if _batched(x, d)}
        if not sizes:
            raise ValueError("vmap: at least one input must be a tensor with a batch dimension")
        if len(sizes) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sorted(sizes)} for the mapped dimension"
            )
        results = []
        for i in range(sizes.pop()):
            member = [
                x.select(d, i) if _batched(x, d) else x for x, d in zip(leaves, dims, strict=True)
            ]
            results.append(func(*rebuild(iter(member)), **kwargs))
        return _stacked(results, out_dims)

    return transformed


def _tuple(dims: Any) -> Any:
    return tuple(dims) if isinstance(dims, list) else dims


def _batched(x: Any, dim: Any) -> bool:
    return dim is not None and isinstance(x, Tensor)


def _stacked(results: list[Any], out_dims: Any) -> Any:
    if not results:
        raise ValueError("vmap: the mapped dimension has size 0")
    rows = [flatten(result)[0] for result in results]
    rebuild = flatten(results[0])[1]
    dims = _spread(out_dims, results[0], "out_dims")
    stacked = []
    for column, dim in zip(zip(*rows, strict=True), dims, strict=True):
        first = column[0]
        if not isinstance(first, Tensor):
            raise ValueError(f"vmap: func must only return Tensors, got type {type(first)}")
        stacked.append(first if dim is None else first._stack(column, dim))
    return rebuild(iter(stacked))
