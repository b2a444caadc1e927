"""``backward`` and ``grad``: what starts the engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import errors
from ..layout import Layout
from ..state import is_warn_always_enabled
from ..tensor import Size, Tensor
from . import cut, engine
from .function_outputs import filled
from .graph import GradientEdge
from .node import Edge
from .views import gradient_edge

_warned_about_cycles = False


def _tensors(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def _edge(output: Any) -> Edge | None:
    """Where the gradient of a tensor (or of a place in the graph) goes."""
    if isinstance(output, GradientEdge):
        return (output.node, output.output_nr)
    return gradient_edge(output)


def _roots(outputs: Sequence[Any], grads: Any, name: str) -> list[tuple[Edge, Tensor]]:
    """The edges to start from, each with the gradient that enters it."""
    if grads is None:
        grads = (None,) * len(outputs)
    else:
        grads = _tensors(grads)
        if len(grads) != len(outputs):
            raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients in {name}()")
    roots = []
    for index, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        if isinstance(output, Tensor) and not output.requires_grad:
            raise errors.no_grad_root(index, cut.explain(output))
        of = _layout(output)
        if grad is None:
            grad = _implicit(of)
        elif not isinstance(grad, Tensor):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(grad).__name__}"
            )
        elif grad.layout.shape != of.shape:
            raise errors.grad_shape(index, grad.shape, Size(of.shape))
        elif grad.layout.dtype.plain is not of.dtype.plain:
            if grad.layout.dtype.is_complex or of.dtype.is_complex:
                raise RuntimeError(
                    "For complex Tensors, both grad_output and output are required to have the "
                    f"same dtype. Mismatch in dtype: grad_output[{index}] has a dtype of "
                    f"{grad.dtype} and output[{index}] has a dtype of {of.dtype}."
                )
            grad = grad.to(of.dtype)
        edge = _edge(output)
        if edge is None:  # a view that was taken before its base required grad
            raise errors.no_grad_root(index, cut.explain(output))
        roots.append((edge, grad))
    return roots


def _implicit(of: Layout) -> Tensor:
    """The gradient that enters a scalar if none is given: one."""
    if of.numel != 1:
        raise errors.nonscalar_root(of.shape)
    if not of.dtype.is_floating_point:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {of.dtype}"
        )
    return filled(of, 1)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate into the leaves' ``.grad`` the gradient of the sum of ``tensors``.

    Args:
        tensors: a tensor or a sequence of them.
        grad_tensors: for each the gradient that enters it, of its shape; None for scalars.
        retain_graph: keep what the graph saved; by default as ``create_graph``.
        create_graph: record the backward pass, for higher derivatives.
        grad_variables: the deprecated name of ``grad_tensors``.
        inputs: accumulate only into these.

    Raises:
        RuntimeError: for outputs without history, non-scalar outputs without gradient, mismatched
            shapes, a second pass over released nodes.
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    outputs = _tensors(tensors)
    chosen = None if inputs is None else _tensors(inputs)
    if chosen is not None and not chosen:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _roots(outputs, grad_tensors, "backward")
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        _warn_about_cycles()
    if chosen is None:
        engine.run(roots, keep_graph=keep, create_graph=create_graph)
        return
    captures: engine.Capture = {}
    for t in chosen:
        edge = _edge(t)  # first: only then a stale view knows that it is no leaf
        if isinstance(t, Tensor):
            t.retain_grad()
        if edge is not None:
            captures.setdefault(edge[0], {})
    engine.run(roots, keep_graph=keep, create_graph=create_graph, captures=captures)


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
    roots = _roots(outs, grad_outputs, "grad")
    captures: engine.Capture = {}
    for index, t in enumerate(ins):
        edge = _edge(t)
        if edge is not None:
            captures.setdefault(edge[0], {}).setdefault(edge[1], []).append(index)
        elif not t.requires_grad:
            raise RuntimeError(
                f"One of the differentiated Tensors does not require grad (input {index}, of shape "
                f"{list(t.shape)})"
            )
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
        for place, t in enumerate(ins):
            if results[place] is None:
                if isinstance(t, GradientEdge):
                    raise RuntimeError(
                        "materialize_grads cannot be used when the given input is a GradientEdge"
                    )
                # As part of the graph if there is one, so that it can be differentiated again.
                results[place] = filled(t.layout, 0).requires_grad_(create_graph)
    elif not allow:
        for index, result in enumerate(results):
            if result is None:
                raise errors.unused_input(index)
    return tuple(results)


def _layout(t: Any) -> Layout:
    return t.node.shape_of(t.output_nr) if isinstance(t, GradientEdge) else t.layout


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
    for index, (output, batch) in enumerate(zip(outs, batches, strict=True)):
        if batch.layout.shape[1:] != _layout(output).shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                f"match the shape of corresponding output, but grad_output[{index}] has a shape of "
                f"{batch.shape} and output[{index}] has a shape of {Size(_layout(output).shape)}."
            )
    count = batches[0].shape[0]
    rows = []
    for i in range(count):
        keep = True if i < count - 1 else retain_graph
        rows.append(grad(outs, ins, tuple(b[i] for b in batches), keep, create_graph, allow_unused))
    return tuple(
        None if column[0] is None else column[0]._stack(column)
        for column in zip(*rows, strict=True)
    )


def _warn_about_cycles() -> None:
    global _warned_about_cycles
    if not _warned_about_cycles or is_warn_always_enabled():
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
    """Accumulate the gradient of this tensor into the leaves' ``.grad``: ``autograd.backward``."""
    backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)
