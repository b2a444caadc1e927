"""Pytrees: nested tuples, lists, dictionaries and named tuples, taken apart and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..tensor import Tensor

Rebuild = Callable[[Iterator[Any]], Any]


def children(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """The parts of a container and what puts such parts together again; None for a leaf."""
    if isinstance(tree, dict):
        keys = list(tree)
        kind = type(tree)
        return list(tree.values()), lambda parts: kind(zip(keys, parts, strict=True))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        named = type(tree)
        return list(tree), lambda parts: named(*parts)
    if isinstance(tree, (tuple, list)):
        plain = tuple if isinstance(tree, tuple) else list
        return list(tree), plain
    return None


def flatten(tree: Any) -> tuple[list[Any], Rebuild]:
    """The leaves in order, and a function that makes the same tree of an iterator of others."""
    found = children(tree)
    if found is None:
        return [tree], next
    parts, assemble = found
    leaves: list[Any] = []
    rebuilds: list[Rebuild] = []
    for part in parts:
        inner, rebuild = flatten(part)
        leaves += inner
        rebuilds.append(rebuild)
    return leaves, lambda values: assemble([rebuild(values) for rebuild in rebuilds])


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """A tree of the results for every leaf (and the leaves at its place in other trees)."""
    leaves, rebuild = flatten(tree)
    rest = [flatten(other)[0] for other in others]
    return rebuild(iter([function(*x) for x in zip(leaves, *rest, strict=True)]))


def structure(tree: Any) -> Any:
    """Something that is equal for trees of the same form."""
    found = children(tree)
    if found is None:
        return "*"
    keys = tuple(tree) if isinstance(tree, dict) else None
    return (type(tree).__name__, keys, tuple(structure(part) for part in found[0]))


def tensors_only(leaves: Sequence[Any], what: str) -> list[Tensor]:
    """The leaves, all of which must be tensors."""
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{what}: expected only Tensors, got unsupported type {type(x)}")
    return list(leaves)


def real_only(name: str, tensors: Sequence[Tensor], side: str) -> None:
    """RuntimeError for complex tensors, of which a Jacobian would need two."""
    for i, x in enumerate(tensors):
        if x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {side}s to be real but received complex tensor at flattened "
                f"{side} idx: {i}"
            )


# Arguments ----------------------------------------------------------------------------------------
ArgNums = int | tuple[int, ...]


def _position(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int) or isinstance(argnum, bool):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def chosen(argnums: ArgNums, args: tuple[Any, ...]) -> Any:
    """The arguments to differentiate: one, or a tuple of them; RuntimeError for wrong numbers."""
    if isinstance(argnums, int):
        return args[_position(argnums, len(args))]
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    places = [_position(a, len(args)) for a in argnums]
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple(args[p] for p in places)


def replaced(args: tuple[Any, ...], argnums: ArgNums, values: Any) -> tuple[Any, ...]:
    """The arguments with others in place of the chosen ones."""
    result = list(args)
    if isinstance(argnums, int):
        result[argnums] = values
    else:
        for argnum, value in zip(argnums, values, strict=True):
            result[argnum] = value
    return tuple(result)


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """The output and the auxiliary value that a function returns."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result
