"""``backward`` and ``grad``: what starts the engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import errors
from ..tensor import Tensor
from . import engine
from .node import AccumulateGrad, Edge
from .views import gradient_edge

_warned_about_cycles = False


def _tensors(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _roots(outputs: Sequence[Tensor], grads: Any, name: str) -> list[tuple[Edge, Tensor]]:
    """The edges to start from, each with the gradient that enters it."""
    if grads is None:
        grads = (None,) * len(outputs)
    else:
        grads = _tensors(grads)
        if len(grads) != len(outputs):
            raise RuntimeError(
                f"got {len(outputs)} tensors and {len(grads)} gradients in {name}()"
            )
    roots = []
    for index, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        edge = gradient_edge(output)
        if edge is None and not output.requires_grad:
            raise errors.no_grad_root(index)
        if grad is None:
            if output.layout.numel != 1:
                raise errors.nonscalar_root(output.shape)
            if not output.layout.dtype.is_floating_point:
                raise RuntimeError("grad can be implicitly created only for real scalar outputs")
            grad = output.new_ones(output.shape)  # type: ignore[attr-defined]
        elif not isinstance(grad, Tensor):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(grad).__name__}"
            )
        elif grad.layout.shape != output.layout.shape:
            raise errors.grad_shape(index, grad.shape, output.shape)
        elif grad.layout.dtype is not output.layout.dtype:
            grad = grad.to(output.layout.dtype)  # type: ignore[attr-defined]
        if edge is not None:
            roots.append((edge, grad))
    return roots


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    inputs: Any = None,
) -> None:
    """Accumulate into the leaves' ``.grad`` the gradient of the sum of ``tensors``.

    Args:
        tensors: a tensor or a sequence of them.
        grad_tensors: for each the gradient that enters it, of its shape; None for scalars.
        retain_graph: keep what the graph saved; by default as ``create_graph``.
        create_graph: record the backward pass, for higher derivatives.
        inputs: accumulate only into these.

    Raises:
        RuntimeError: for outputs without history, non-scalar outputs without gradient, mismatched
            shapes, a second pass over released nodes.
    """
    outputs = _tensors(tensors)
    if inputs is not None and not isinstance(inputs, Tensor) and not len(tuple(inputs)):
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _roots(outputs, grad_tensors, "backward")
    if create_graph:
        _warn_about_cycles()
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        engine.run(roots, keep_graph=keep, create_graph=create_graph)
        return
    chosen = _tensors(inputs)
    captures: engine.Capture = {}
    for t in chosen:
        edge = gradient_edge(t)
        if edge is None:
            raise RuntimeError(
                "One of the differentiated Tensors does not require grad: can't retain_grad on "
                "Tensor that has requires_grad=False"
            )
        if not isinstance(edge[0], AccumulateGrad):
            t.retain_grad()
        captures.setdefault(edge[0], {}).setdefault(edge[1], [])
    engine.run(roots, keep_graph=keep, create_graph=create_graph, captures=captures, results=[])


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of ``outputs`` with respect to ``inputs``; ``.grad`` is untouched.

    Args:
        outputs, inputs: a tensor or a sequence of them.
        grad_outputs: for each output the gradient that enters it; None for scalars.
        retain_graph, create_graph: as for :func:`backward`.
        allow_unused: return None for inputs that the outputs do not depend on, instead of raising.
        is_grads_batched: the first dimension of ``grad_outputs`` counts independent passes.
        materialize_grads: zeros instead of None for unused inputs.

    >>> import jitgrad as jg
    >>> x = jg.tensor(3.0, requires_grad=True)
    >>> jg.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    outs, ins = _tensors(outputs), _tensors(inputs)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if is_grads_batched:
        return _batched(outs, ins, grad_outputs, retain_graph, create_graph, allow_unused)
    allow = materialize_grads if allow_unused is None else allow_unused
    captures: engine.Capture = {}
    for index, t in enumerate(ins):
        edge = gradient_edge(t)
        if edge is None:
            raise RuntimeError(
                f"One of the differentiated Tensors (input {index}, shape {list(t.shape)}) does not "
                "require grad"
            )
        captures.setdefault(edge[0], {}).setdefault(edge[1], []).append(index)
    roots = _roots(outs, grad_outputs, "grad")
    results: list[Any] = [None] * len(ins)
    engine.run(
        roots,
        keep_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        captures=captures,
        results=results,
        accumulate=False,
    )
    if materialize_grads:
        results = [
            t.new_zeros(t.shape) if g is None else g  # type: ignore[attr-defined]
            for t, g in zip(ins, results, strict=True)
        ]
    elif not allow and any(g is None for g in results):
        raise errors.unused_input()
    return tuple(results)


def _batched(
    outs: tuple[Tensor, ...],
    ins: tuple[Tensor, ...],
    grad_outputs: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
) -> tuple[Tensor | None, ...]:
    """One pass per index of the gradients' first dimension, stacked."""
    batches = _tensors(grad_outputs)
    count = batches[0].shape[0]
    rows = []
    for i in range(count):
        keep = True if i < count - 1 else retain_graph
        rows.append(
            grad(outs, ins, tuple(b[i] for b in batches), keep, create_graph, allow_unused)  # type: ignore[index]
        )
    return tuple(
        None if column[0] is None else column[0]._stack(column)  # type: ignore[attr-defined]
        for column in zip(*rows, strict=True)
    )


def _warn_about_cycles() -> None:
    global _warned_about_cycles
    if not _warned_about_cycles:
        _warned_about_cycles = True
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the "
            "parameter and its gradient which can cause a memory leak. We recommend using "
            "autograd.grad when creating the graph to avoid this.",
            UserWarning,
            stacklevel=4,
        )


def tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradient of this tensor into the leaves' ``.grad`` (see ``autograd.backward``)."""
    backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)
