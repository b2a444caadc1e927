"""The engine: runs a graph backward, once per call, without recursion.

Order: a node runs when every gradient it waits for has arrived; among the ready ones the one
created last runs first, and accumulators run as soon as they are ready. Contributions to one output
are summed before any hook sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from .. import errors
from ..state import GRAD, modes
from .node import FOREVER, AccumulateGrad, Edge, Hooks, Node

if TYPE_CHECKING:
    from ..tensor import Tensor

Capture = dict[Node, dict[int, list[int]]]  # node -> output number -> places in the result


def _dependencies(roots: Iterable[Node]) -> dict[Node, int]:
    """For every reachable node how many edges lead to it from nodes that will run."""
    count: dict[Node, int] = {}
    stack = list(dict.fromkeys(roots))
    seen = set(stack)
    while stack:
        for edge in stack.pop().next_edges:
            if edge is not None:
                node = edge[0]
                if node in count:
                    count[node] += 1
                else:
                    count[node] = 1
                    if node not in seen:
                        stack.append(node)
    return count


def _on_paths(roots: Iterable[Node], captures: Capture, accumulate: bool) -> set[Node]:
    """The nodes that must run: those from which a captured node is reached.

    A captured node itself runs only if it lies on the way to another, or, for ``backward``, if it
    is a leaf's accumulator.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(r, False) for r in roots]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(e[0], False) for e in node.next_edges if e is not None]
    needed: set[Node] = set()
    for node in order:  # children first
        if any(e is not None and (e[0] in needed or e[0] in captures) for e in node.next_edges) or (
            accumulate and node in captures and isinstance(node, AccumulateGrad)
        ):
            needed.add(node)
    return needed


def _checked(node: Node, grads: Sequence[Any], recorded: bool) -> tuple[Tensor | None, ...]:
    """Gradients from code of the user's, made to look like what the next nodes expect."""
    edges = node.next_edges
    if len(grads) > len(edges):
        if any(g is not None for g in grads[len(edges) :]):
            raise RuntimeError(
                f"{node.name()} returned an incorrect number of gradients (expected {len(edges)}, "
                f"got {len(grads)})"
            )
        grads = grads[: len(edges)]
    elif len(grads) < len(edges):
        raise RuntimeError(
            f"{node.name()} returned an incorrect number of gradients (expected {len(edges)}, got "
            f"{len(grads)})"
        )
    result: list[Tensor | None] = []
    for index, (edge, grad) in enumerate(zip(edges, grads, strict=True)):
        if edge is None or grad is None:
            result.append(None)
            continue
        wanted = edge[0].shape_of(edge[1])
        if grad.shape != wanted.shape:
            if not grad._reduces_to(wanted.shape):
                raise errors.invalid_gradient(
                    node, index, f"got {list(grad.shape)} but expected shape compatible with "
                    f"{list(wanted.shape)}")
            grad = grad.sum_to_size(wanted.shape)
        if grad.dtype is not wanted.dtype:
            grad = grad.to(wanted.dtype)
        result.append(grad)
    return tuple(result)


def _run_tensor_hooks(hooks: Hooks, grads: list[Any]) -> None:
    """Tensor hooks in order of registration, then what retain_grad() asked for."""
    for nr, registered in list(hooks.tensor.items()):
        for hook in list(registered):
            if grads[nr] is None:
                replaced = hook(None)
            else:
                replaced = hook(grads[nr])
            if replaced is not None:
                grads[nr] = _replacement(hook, replaced, grads[nr])
    for nr, reference in list(hooks.retained.items()):
        tensor = reference()
        if tensor is not None and grads[nr] is not None:
            meta = tensor.autograd_meta()
            meta.grad = grads[nr].clone() if meta.grad is None else meta.grad + grads[nr]


def _replacement(hook: Any, replaced: Any, grad: Any) -> Any:
    name = getattr(hook, "__name__", type(hook).__name__)
    if not hasattr(replaced, "layout"):
        raise TypeError(
            f"expected Variable, but hook '{name}': hook returned '{type(replaced).__name__}'"
        )
    if grad is not None and replaced.shape != grad.shape:
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    if grad is not None and replaced.dtype is not grad.dtype:
        raise RuntimeError(f"hook '{name}' has changed the type of value")
    return replaced


def _run_prehooks(hooks: Hooks, grads: list[Any]) -> list[Any]:
    for hook in list(hooks.pre):
        replaced = hook(tuple(grads))
        if replaced is not None:
            if not isinstance(replaced, tuple):
                raise TypeError(
                    f"expected a tuple from a prehook, got {type(replaced).__name__}"
                )
            if len(replaced) != len(grads):
                raise RuntimeError("a prehook returned an incorrect number of values")
            grads = list(replaced)
    return grads


def _run_posthooks(hooks: Hooks, outs: tuple[Any, ...], grads: list[Any]) -> tuple[Any, ...]:
    for hook in list(hooks.post):
        replaced = hook(outs, tuple(grads))
        if replaced is not None:
            outs = (replaced,) if not isinstance(replaced, tuple) else replaced
    return outs


def run(
    roots: Sequence[tuple[Edge, Any]],
    *,
    keep_graph: bool,
    create_graph: bool,
    captures: Capture | None = None,
    results: list[Any] | None = None,
    accumulate: bool = True,
) -> None:
    """Run the graph backward from ``roots``, pairs of an edge and the gradient that enters it.

    Args:
        keep_graph: keep what the nodes saved.
        create_graph: record the backward operations too.
        captures: gradients to keep (in ``results``) instead of running the whole graph.
        accumulate: whether captured leaves also accumulate into ``.grad``.
    """
    root_nodes = [edge[0] for edge, _ in roots]
    waiting = _dependencies(root_nodes)
    needed = None if captures is None else _on_paths(root_nodes, captures, accumulate)
    buffers: dict[Node, Any] = {}
    summed: set[Node] = set()  # accumulators whose gradient is a sum made here
    ready: list[tuple[int, Node]] = []
    leaves: list[Node] = []
    owned: dict[Node, bool] = {}

    def deliver(node: Node, nr: int, grad: Any) -> None:
        """Put a gradient into the buffer of a node of several outputs, or add it to one there."""
        if node.outputs == 1:
            held = buffers.get(node)
            buffers[node] = grad if held is None else held if grad is None else held + grad
        else:
            slots = buffers.setdefault(node, [None] * node.outputs)
            held = slots[nr]
            slots[nr] = grad if held is None else held if grad is None else held + grad

    mode = modes.mode
    modes.mode = mode | GRAD if create_graph else mode & ~GRAD
    try:
        for (node, nr), grad in roots:
            deliver(node, nr, grad)
        for node in dict.fromkeys(root_nodes):
            if waiting.get(node, 0) == 0:
                if node.seq == FOREVER:
                    leaves.append(node)
                else:
                    heappush(ready, (-node.seq, node))
        while True:
            if leaves:
                node = leaves.pop()
            elif ready:
                node = heappop(ready)[1]
            else:
                break
            grad = buffers.pop(node, None)
            hooks = node.hooks
            if hooks is not None:
                grads = [grad] if node.outputs == 1 else grad or [None] * node.outputs
                _run_tensor_hooks(hooks, grads)
                grad = grads[0] if node.outputs == 1 else grads
            if captures is not None:
                places = captures.get(node)
                if places is not None:
                    assert results is not None
                    for nr, indices in places.items():
                        value = grad if node.outputs == 1 else grad and grad[nr]
                        for index in indices:
                            results[index] = value
                assert needed is not None
                if node not in needed:
                    continue
            if hooks is not None and hooks.pre:
                grads = _run_prehooks(hooks, [grad] if node.outputs == 1 else grad)
                grad = grads[0] if node.outputs == 1 else grads
            if node.seq == FOREVER:
                if grad is not None:
                    node.accumulate(  # type: ignore[attr-defined]
                        grad, node in summed or (hooks is None and owned.get(node, False)), create_graph
                    )
                if hooks is not None:
                    node.after_accumulation(hooks, grad)  # type: ignore[attr-defined]
                continue
            outs = node.apply_recorded(grad) if create_graph else node.apply(grad)
            if not node.trusted:
                outs = _checked(node, outs, create_graph)
            if hooks is not None and hooks.post:
                outs = _run_posthooks(hooks, outs, [grad] if node.outputs == 1 else grad)
            if not keep_graph and node.saved:
                node.saved = None
            index = 0
            for edge in node.next_edges:
                if edge is not None:
                    child = edge[0]
                    grad = outs[index]
                    if child.outputs == 1:
                        if grad is not None:
                            held = buffers.get(child)
                            if held is None:
                                buffers[child] = grad
                                if child.seq == FOREVER and node.fresh:
                                    owned[child] = node.fresh[index]
                            else:
                                buffers[child] = held + grad
                                if child.seq == FOREVER:
                                    summed.add(child)
                    else:
                        deliver(child, edge[1], grad)
                    left = waiting[child] - 1
                    waiting[child] = left
                    if left == 0 and (needed is None or child in needed or child in captures):  # type: ignore[operator]
                        if child.seq == FOREVER:
                            leaves.append(child)
                        else:
                            heappush(ready, (-child.seq, child))
                index += 1
    finally:
        modes.mode = mode
