"""Transformations by backward passes: grad, vjp, jacrev.

The function is called with tensors of its own in place of the arguments: leaves, or differentiable
views of arguments that require grad already (an outer ``grad`` did that, or the caller). Results
carry a graph only where there is something else to differentiate them by: such an argument, or a
tensor that requires grad and that the function knows from elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..autograd.dual import without_history
from ..autograd.grad_mode import enable_grad
from ..autograd.node import AccumulateGrad
from ..state import GRAD, modes
from ..tensor import Tensor
from .tree import (
    ArgNums,
    chosen,
    flatten,
    real_only,
    replaced,
    split_aux,
    structure,
    tensors_only,
    tree_map,
)


class Watched:
    """The tensors that stand for the differentiated arguments while the function runs."""

    def __init__(self, name: str, primals: Any) -> None:
        leaves, self.rebuild = flatten(primals)
        self.recorded = bool(modes.mode & GRAD)  # whether the caller records
        given = tensors_only(leaves, name)
        self.linked = self.recorded and any(x.requires_grad for x in given)
        with enable_grad():
            self.tensors = [self._own(x) for x in given]

    def _own(self, x: Tensor) -> Tensor:
        if self.recorded and x.requires_grad:
            return x.view_as(x)
        return without_history(x).requires_grad_()

    @property
    def tree(self) -> Any:
        """In the form of the primals."""
        return self.rebuild(iter(self.tensors))

    def matters_outside(self, outputs: Sequence[Tensor]) -> bool:
        """Whether derivatives of the outputs may be differentiated by something else than these."""
        if not self.recorded:
            return False
        if self.linked:
            return True
        own = {id(x) for x in self.tensors}
        stack = [x.grad_fn for x in outputs if x.requires_grad]
        seen = set()
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if isinstance(node, AccumulateGrad) and id(node.variable) not in own:
                return True
            stack += [edge[0] for edge in node.next_edges if edge is not None]
        return False

    def gradients(
        self, outputs: Sequence[Tensor], cotangents: Sequence[Any], create_graph: bool
    ) -> list[Tensor]:
        """The gradients of the watched tensors, zeros where the outputs do not depend on them."""
        pairs = [(y, v) for y, v in zip(outputs, cotangents, strict=True) if y.requires_grad]
        found: Sequence[Any] = [None] * len(self.tensors)
        if pairs:
            found = autograd.grad(
                [y for y, _ in pairs], self.tensors, [v for _, v in pairs],
                retain_graph=True, create_graph=create_graph, allow_unused=True,
            )  # fmt: skip
        return [
            x.new_zeros(x.layout.shape) if g is None else g
            for x, g in zip(self.tensors, found, strict=True)
        ]

    @staticmethod
    def released(tree: Any, keep: bool) -> Any:
        """Results as the caller gets them: with their graph only if it matters outside."""
        if keep:
            return tree
        return tree_map(lambda x: without_history(x) if isinstance(x, Tensor) else x, tree)


def _scalar(output: Any) -> Tensor:
    name = "grad_and_value(f)(*args): Expected f(*args) to return a"
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{name} Tensor, got {type(output)}")
    if output.layout.ndim:
        raise RuntimeError(
            f"{name} scalar Tensor, got tensor with {output.layout.ndim} dims. Maybe you wanted to "
            "use the vjp or jacrev APIs instead?"
        )
    return output


def grad_and_value(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns ``(gradient, value)``, or ``(gradient, (value, aux))``.

    Args:
        func: returns a tensor without dimensions (and anything besides it, with ``has_aux``).
        argnums: the arguments to differentiate by; a tuple of numbers gives a tuple of gradients.
    """

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        watched = Watched("grad_and_value(f)(*args)", chosen(argnums, args))
        with enable_grad():
            result = func(*replaced(args, argnums, watched.tree), **kwargs)
            output, aux = split_aux("grad_and_value(f)(*args)", result, has_aux)
            output = _scalar(output)
            keep = watched.matters_outside([output])
            found = watched.gradients([output], [None], keep)
        gradient = watched.rebuild(iter(watched.released(found, keep)))
        value = watched.released(output, keep)
        return gradient, ((value, watched.released(aux, keep)) if has_aux else value)

    return transformed


def grad(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient, or ``(gradient, aux)``; see :func:`grad_and_value`."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return transformed


def value_and_grad(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """:func:`grad_and_value` in the other order: ``(value, gradient)``, as JAX has it."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return transformed


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(func(*primals), pull)``, and aux: ``pull(*cotangents)`` gives the primals' gradients.

    ``pull`` may be called any number of times; it returns a tuple, of one element for one primal.
    Its argument has the form of the output (or its elements, if that is a tuple).
    """
    name = "vjp(f, *primals)"
    watched = Watched(name, primals)
    with enable_grad():
        output, aux = split_aux(name, func(*watched.tree), has_aux)
    leaves, rebuild = flatten(output)
    outputs = tensors_only(leaves, name)
    keep = watched.matters_outside(outputs)
    form = structure(output)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        if structure(given) != form and structure(cotangents) == form:
            given = cotangents
        if structure(given) != form:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {structure(given)}, primal output: {form}"
            )
        vectors = flatten(given)[0]
        record = bool(modes.mode & GRAD) if create_graph is None else create_graph
        record = record and (keep or any(v.requires_grad for v in vectors))
        with enable_grad():
            found = watched.gradients(outputs, vectors, record)
        return watched.rebuild(iter(watched.released(found, record)))

    result = watched.released(rebuild(iter(outputs)), keep)
    return (result, pull, watched.released(aux, keep)) if has_aux else (result, pull)


def jacrev(
    func: Callable[..., Any],
    argnums: ArgNums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that returns the Jacobian, a backward pass for each element of the output.

    Returns:
        For every output a tree like the chosen arguments, of tensors of the output's shape
        followed by the input's.

    ``chunk_size`` is accepted: rows are computed one by one in any case.
    """

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        watched = Watched("jacrev", chosen(argnums, args))
        real_only("jacrev", watched.tensors, "input")
        with enable_grad():
            result = func(*replaced(args, argnums, watched.tree), **kwargs)
            output, aux = split_aux("jacrev", result, has_aux)
            leaves, rebuild = flatten(output)
            outputs = tensors_only(leaves, "jacrev")
            real_only("jacrev", outputs, "output")
            keep = watched.matters_outside(outputs)
            matrices = [
                watched.rebuild(iter(watched.released(_rows(watched, y, keep), keep)))
                for y in outputs
            ]
        jacobian = rebuild(iter(matrices))
        return (jacobian, watched.released(aux, keep)) if has_aux else jacobian

    return transformed


def _rows(watched: Watched, output: Tensor, create_graph: bool) -> list[Tensor]:
    shape = output.layout.shape
    flat = output.reshape(-1)
    rows = [
        watched.gradients([flat.select(0, i)], [None], create_graph)
        for i in range(output.layout.numel)
    ]
    if not rows:
        return [x.new_zeros((*shape, *x.layout.shape)) for x in watched.tensors]
    return [
        output._stack(column).reshape((*shape, *x.layout.shape))
        for x, column in zip(watched.tensors, zip(*rows, strict=True), strict=True)
    ]
