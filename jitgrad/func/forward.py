"""Transformations by forward-mode AD: jvp, jacfwd. Each call opens a level of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.dual import Level, level
from ..autograd.forward_ad import attach, detach_level
from ..tensor import Tensor
from .tree import ArgNums, chosen, flatten, real_only, replaced, split_aux, structure, tensors_only


def _parts(output: Any, at: Level, strict: bool = False) -> tuple[Any, Any]:
    """The primals and the tangents of a tree of duals."""
    leaves, rebuild = flatten(output)
    primals, tangents = [], []
    for x in tensors_only(leaves, "jvp(f, primals, tangents): expected f(*args)"):
        primal, tangent = detach_level(x, at)
        if tangent is None:
            if strict:
                raise RuntimeError(
                    "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
                    "inputs. This is not allowed with strict=True."
                )
            tangent = primal.new_zeros(primal.layout.shape)
        primals.append(primal)
        tangents.append(tangent)
    return rebuild(iter(primals)), rebuild(iter(tangents))


def _plain(aux: Any, at: Level) -> Any:
    leaves, rebuild = flatten(aux)
    return rebuild(iter(detach_level(x, at).primal if isinstance(x, Tensor) else x for x in leaves))


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """``(func(*primals), derivative along tangents)``, and aux, in one forward pass.

    Args:
        primals, tangents: tuples of pytrees of the same form.
        strict: raise where an output does not depend on the primals, instead of zeros.
    """
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    if structure(primals) != structure(tangents):
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. Got primals "
            f"with structure {structure(primals)} and tangents with structure "
            f"{structure(tangents)}"
        )
    leaves, rebuild = flatten(primals)
    given = tensors_only(leaves, f"{name}: Expected primals")
    directions = tensors_only(flatten(tangents)[0], f"{name}: Expected tangents")
    with level() as at:
        duals = [attach(x, t, at) for x, t in zip(given, directions, strict=True)]
        output, aux = split_aux(name, func(*rebuild(iter(duals))), has_aux)
        primal, tangent = _parts(output, at, strict)
        if has_aux:
            return primal, tangent, _plain(aux, at)
        return primal, tangent


def jacfwd(
    func: Callable[..., Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that returns the Jacobian, a call of ``func`` for each element of the inputs.

    Results as for :func:`jitgrad.func.jacrev`. ``randomness`` is accepted: every call draws anew.
    """

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        leaves, rebuild_in = flatten(chosen(argnums, args))
        given = tensors_only(leaves, "jacfwd")
        real_only("jacfwd", given, "input")
        aux: Any = None
        rebuild_out: Any = None
        shapes: list[Any] = []
        columns: list[list[list[Tensor]]] = []  # by input, its element, output
        for number, x in enumerate(given):
            columns.append([])
            one = x.layout.dtype.encode(np.ones(()))
            for place in range(x.layout.numel):
                direction = x.new_zeros(x.layout.shape)
                direction._array().flat[place] = one
                with level() as at:
                    moved = list(given)
                    moved[number] = attach(x, direction, at)
                    values = replaced(args, argnums, rebuild_in(iter(moved)))
                    output, aux = split_aux("jacfwd", func(*values, **kwargs), has_aux)
                    tangents, rebuild_out = flatten(_parts(output, at)[1])
                    shapes = [t.layout.shape for t in tangents]
                    aux = _plain(aux, at) if has_aux else None
                columns[-1].append(tangents)
        if rebuild_out is None:
            raise RuntimeError("jacfwd: the chosen inputs have no elements")
        matrices = []
        for index, shape in enumerate(shapes):
            of_inputs = [
                _matrix([tangents[index] for tangents in column], shape, x)
                for x, column in zip(given, columns, strict=True)
            ]
            matrices.append(rebuild_in(iter(of_inputs)))
        jacobian = rebuild_out(iter(matrices))
        return (jacobian, aux) if has_aux else jacobian

    return transformed


def _matrix(columns: list[Tensor], shape: Any, of: Tensor) -> Tensor:
    full = (*shape, *of.layout.shape)
    if not columns:
        return of.new_zeros(full)
    return columns[0]._stack(columns, -1).reshape(full)
