"""Linearisation: the derivative of a function at a point, as a function of the direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import api
from ..autograd.grad_mode import enable_grad
from .reverse import vjp
from .tree import flatten, structure, tensors_only


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """``(func(*primals), push)``: ``push(*tangents)`` is the derivative along the tangents.

    The function runs once. Its vjp is linear in the cotangents, so that derivative is the gradient
    of the vjp by the cotangents; what both need is kept, for any number of calls.

    Args:
        primals: pytrees of tensors.

    Raises:
        RuntimeError: by ``push``, for tangents of other forms, shapes or dtypes than the primals.

    >>> import jitgrad as jg
    >>> output, push = jg.func.linearize(jg.sin, jg.zeros(3))
    >>> push(jg.ones(3))
    tensor([1., 1., 1.])
    """
    given = tensors_only(flatten(primals)[0], "linearize(f, *primals)")
    output, pull = vjp(func, *primals)
    leaves, rebuild = flatten(output)
    with enable_grad():
        weights = [y.new_zeros(y.layout.shape) for y in leaves]
        for w in weights:
            w.requires_grad_(w.is_floating_point() or w.is_complex())
        pulled = flatten(pull(rebuild(iter(weights))))[0]

    def push(*tangents: Any) -> Any:
        if structure(tangents) != structure(primals):
            raise RuntimeError(
                f"Expected the tangents {structure(tangents)} to have the same argspec as the "
                f"primals {structure(primals)}"
            )
        directions = tensors_only(flatten(tangents)[0], "linearize: tangents")
        for i, (t, x) in enumerate(zip(directions, given, strict=True)):
            for what, got, wanted in (
                ("shape", t.layout.shape, x.layout.shape),
                ("dtype", t.dtype, x.dtype),
            ):
                if got != wanted:
                    raise RuntimeError(
                        f"tangent:{i} with {what} {got} in flattened pytree doesn't match the "
                        f"{what} {wanted} of the corresponding primal."
                    )
        pairs = [(g, t) for g, t in zip(pulled, directions, strict=True) if g.requires_grad]
        found: Any = [None] * len(weights)
        chosen = [i for i, w in enumerate(weights) if w.requires_grad]
        if pairs and chosen:
            grads = api.grad(
                [g for g, _ in pairs], [weights[i] for i in chosen], [t for _, t in pairs],
                retain_graph=True, allow_unused=True,
            )  # fmt: skip
            for i, g in zip(chosen, grads, strict=True):
                found[i] = g
        return rebuild(
            iter(
                w.detach().clone() if g is None else g for w, g in zip(weights, found, strict=True)
            )
        )

    return output, push
