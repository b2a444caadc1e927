"""The engine: runs a graph backward, once per call, without recursion.

Order: a node runs when every gradient it waits for has arrived; among the ready ones the one
created last runs first, and accumulators run as soon as they are ready. Contributions to one output
are summed before any hook sees them.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from .. import errors
from ..state import GRAD, modes
from .hooks import run_on_value, run_post_accumulate, run_posthooks, run_prehooks, run_tensor_hooks
from .node import FOREVER, AccumulateGrad, Edge, Node, Released

if TYPE_CHECKING:
    from ..tensor import Tensor

Capture = dict[Node, dict[int, list[int]]]  # node -> output number -> places in the result

# A backward pass inside a backward pass nests Python frames. Past this depth it continues on a new
# thread, whose stack is empty, so that thousands may nest.
MAX_DEPTH = 24

_next_id = itertools.count().__next__


class GraphTask:
    """One backward pass: what the thread that runs it, hooks and tools may ask about it.

    Attributes:
        id: its number.
        waiting: every reachable node, and how many gradients it still waits for.
        needed: the nodes that will run; None for all of them.
        captures: nodes whose incoming gradients are asked for (in ``results``).
        callbacks: called once the pass is over.
        node: the node that is running.
        memory: what tools remember while the pass runs, by a key of their own.
        depth: how many passes of this thread it is nested in.
        released: what takes the place of what nodes saved, unless the graph is kept.
        anomaly: what watches the pass (autograd/anomaly.py).
    """

    __slots__ = (
        "anomaly",
        "callbacks",
        "captures",
        "create_graph",
        "depth",
        "id",
        "keep_graph",
        "memory",
        "needed",
        "node",
        "released",
        "results",
        "waiting",
    )

    def __init__(self, keep_graph: bool, create_graph: bool) -> None:
        self.id = _next_id()
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.waiting: dict[Node, int] = {}
        self.needed: set[Node] | None = None
        self.captures: Capture | None = None
        self.results: list[Any] = []
        self.callbacks: list[Callable[[], Any]] = []
        self.node: Node | None = None
        self.memory: dict[Any, Any] = {}
        self.depth = 0
        self.released = Released()
        self.anomaly: Any = None

    def executes(self, node: Node) -> bool:
        """Whether this pass runs a node, or at least its tensor hooks."""
        if self.needed is None:
            return node in self.waiting
        return node in self.needed or (self.captures is not None and node in self.captures)

    def evaluate(self, node: Node, grad: Any) -> Sequence[Any] | None:
        """Run a node with its hooks and captures, in PyTorch's order; None if it does not run.

        Without the node itself only its tensor hooks run, and the captured gradient is what they
        made of it; of a node that does run the gradient is captured as it came in.
        """
        single = node._outputs == 1
        grads = [grad] if single else grad or [None] * node._outputs
        runs = self.needed is None or node in self.needed
        if not runs:
            run_tensor_hooks(node, grads)
        if self.captures is not None:
            for nr, places in self.captures.get(node, {}).items():
                for place in places:
                    self.results[place] = grads[nr]
        if not runs:
            return None
        self.node = node
        if self.anomaly is None:
            return self._run(node, list(grads))
        with self.anomaly.watching(node):
            outs = self._run(node, list(grads))
            self.anomaly.check(node, outs)
        return outs

    def _run(self, node: Node, grads: list[Any]) -> Sequence[Any]:
        run_tensor_hooks(node, grads)
        hooks = node._hooks
        if hooks is not None and hooks.pre:
            grads = run_prehooks(hooks.pre, grads)
        grad = grads[0] if node._outputs == 1 else grads
        # Dual gradients (or saved values) need operations that carry tangents along.
        recorded = self.create_graph or modes.levels
        outs: Sequence[Any] = node.apply_recorded(grad) if recorded else node.apply(grad)
        if not node._trusted:
            outs = checked(node, outs)
        if hooks is not None and hooks.post:
            outs = run_posthooks(hooks.post, outs, grads)
        if not self.keep_graph and node._saved:
            node._saved = self.released  # type: ignore[misc]
        return outs

    def evaluate_leaf(self, node: AccumulateGrad, grad: Any, owned: bool) -> None:
        """:meth:`evaluate` for the accumulator of a leaf, whose tensor hooks the leaf holds."""
        meta = node.variable.autograd_meta()
        runs = self.needed is None or node in self.needed
        hooked = grad if meta.hooks is None else run_on_value(meta.hooks, grad)
        places = () if self.captures is None else self.captures.get(node, {}).get(0, ())
        for place in places:
            self.results[place] = grad if runs else hooked
        if not runs:
            return
        self.node = node
        if self.anomaly is None:
            self._run_leaf(node, hooked, owned)
        else:
            with self.anomaly.watching(node):
                self._run_leaf(node, hooked, owned)

    def _run_leaf(self, node: AccumulateGrad, grad: Any, owned: bool) -> None:
        meta, hooks = node.variable.autograd_meta(), node._hooks
        if hooks is not None and hooks.pre:
            (grad,) = run_prehooks(hooks.pre, [grad])
            owned = False  # the hook may hold what it saw or made
        if grad is not None:
            node.accumulate(grad, owned, self.create_graph)
        if meta.post_accumulate:  # even if there was nothing to add
            run_post_accumulate(meta.post_accumulate, node.variable)
        if hooks is not None and hooks.post:
            run_posthooks(hooks.post, (), [grad])


def _dependencies(roots: Iterable[Node], oldest: int = 0) -> dict[Node, int]:
    """For every reachable node how many edges lead to it from reachable nodes.

    What lies behind nodes recorded before number ``oldest`` is left out.
    """
    stack = list(dict.fromkeys(roots))
    count: dict[Node, int] = dict.fromkeys(stack, 0)
    while stack:
        for edge in stack.pop().next_edges:
            if edge is not None:
                node = edge[0]
                if node in count:
                    count[node] += 1
                else:
                    count[node] = 1
                    if node._seq >= oldest:
                        stack.append(node)
    return count


def _on_paths(nodes: dict[Node, int], targets: Iterable[Node], accumulate: bool) -> set[Node]:
    """The nodes that must run to reach ``targets``; these themselves only to accumulate.

    A node's edges lead to nodes recorded before it, or to accumulators, so in the order of sequence
    numbers what a node leads to is decided before the node.
    """
    wanted = set(targets)
    needed = {node for node in wanted if accumulate and node in nodes}
    for node in sorted(nodes, key=_sequence_number):
        if any(e is not None and (e[0] in needed or e[0] in wanted) for e in node.next_edges):
            needed.add(node)
    return needed


def _sequence_number(node: Node) -> int:
    return node._seq


def checked(node: Node, grads: Sequence[Any]) -> Sequence[Tensor | None]:
    """Gradients from code of the user's, made to look like what the next nodes expect."""
    result: list[Tensor | None] = []
    for index, (edge, grad) in enumerate(zip(node.next_edges, grads, strict=True)):
        if edge is None or grad is None:
            result.append(None)
            continue
        wanted = edge[0].shape_of(edge[1])
        if wanted is None:  # an output without gradient: nothing to compare with
            result.append(grad)
            continue
        if grad.layout.shape != wanted.shape:
            if not grad._reduces_to(wanted.shape):
                raise errors.invalid_gradient(
                    node,
                    index,
                    f"got {list(grad.shape)} but expected shape compatible with "
                    f"{list(wanted.shape)}",
                )
            grad = grad.sum_to_size(wanted.shape)
        if grad.layout.dtype.plain is not wanted.dtype.plain:
            if grad.layout.dtype.is_complex and not wanted.dtype.is_complex:
                grad = grad.real
            grad = grad.to(wanted.dtype)
        result.append(grad)
    return result


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call ``callback()`` when the backward pass that is running (the innermost one) is over.

    Raises:
        RuntimeError: outside a backward pass.
    """
    if modes.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    modes.task.callbacks.append(callback)


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
        captures: run only what leads to these nodes.
        results: where the captured gradients go.
        accumulate: the captured nodes run too, as ``backward(inputs=)`` wants it, and nothing is
            put into ``results``.
    """
    task = GraphTask(keep_graph, create_graph)
    if not keep_graph:
        task.released.where = errors.caller(2)
    root_nodes = [edge[0] for edge, _ in roots]
    if captures is None:
        task.waiting = _dependencies(root_nodes)
    else:
        # Edges lead to earlier nodes, so no node older than all targets leads to one; a leaf's
        # accumulator, which has no age, may be anywhere.
        leaf = any(node._seq == FOREVER for node in captures)
        oldest = 0 if leaf else min(map(_sequence_number, captures), default=0)
        task.waiting = _dependencies(root_nodes, oldest)
        task.needed = _on_paths(task.waiting, captures, accumulate)
        if not accumulate:
            task.captures = captures
            task.results = results if results is not None else []
    outer = modes.task
    if outer is not None:
        task.depth = outer.depth + 1
        if task.depth % MAX_DEPTH == 0:
            _on_new_thread(lambda: _run_in_modes(task, roots))
            return
    _run_in_modes(task, roots)


def _run_in_modes(task: GraphTask, roots: Sequence[tuple[Edge, Any]]) -> None:
    """Run a task as this thread's innermost, with grad mode as create_graph says."""
    mode, outer, saved_hooks = modes.mode, modes.task, modes.saved_hooks
    modes.mode = mode | GRAD if task.create_graph else mode & ~GRAD
    modes.task = task
    try:
        if task.anomaly is None and watch is not None:
            task.anomaly = watch()
        _execute(task, roots)
        for callback in task.callbacks:  # a callback may queue another
            callback()
    finally:
        modes.saved_hooks = saved_hooks  # whatever blocks were entered or left meanwhile
        modes.mode = mode
        modes.task = outer


# Set by autograd/anomaly.py: what watches a pass that begins now, or None.
watch: Callable[[], Any] | None = None


def _on_new_thread(function: Callable[[], None]) -> None:
    """Call ``function`` on a fresh stack, under this thread's modes; its error is raised here."""
    state = dict(modes.__dict__)
    failure: list[BaseException] = []

    def target() -> None:
        modes.__dict__.update(state)
        try:
            function()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="jitgrad-backward")
    thread.start()
    thread.join()
    if failure:
        raise failure.pop()


def _execute(task: GraphTask, roots: Sequence[tuple[Edge, Any]]) -> None:
    """The loop: take the next ready node, run it, pass its gradients on."""
    create_graph, keep_graph, released = task.create_graph, task.keep_graph, task.released
    recorded = create_graph or modes.levels
    waiting, needed, captures = task.waiting, task.needed, task.captures
    watched = captures is not None or needed is not None or task.anomaly is not None
    buffers: dict[Node, Any] = {}
    owned: set[Node] = set()  # whose gradient is memory that nobody else holds
    ready: list[tuple[int, Node]] = []
    leaves: deque[Node] = deque()

    def deliver(node: Node, nr: int, grad: Any) -> None:
        """Put a gradient into the buffer of a node of several outputs, or add it to one there."""
        if node._outputs == 1:
            held = buffers.get(node)
            buffers[node] = grad if held is None else held if grad is None else held + grad
        else:
            slots = buffers.setdefault(node, [None] * node._outputs)
            held = slots[nr]
            slots[nr] = grad if held is None else held if grad is None else held + grad

    for (node, nr), grad in roots:
        deliver(node, nr, grad)
    for (node, _), _ in roots:
        # A single root is looked at (its tensor hooks run) even if it leads to no captured node.
        if waiting[node] == 0 and (not watched or len(roots) == 1 or task.executes(node)):
            waiting[node] = -1  # a node may be given as a root twice
            if node._seq == FOREVER:
                leaves.append(node)
            else:
                heappush(ready, (-node._seq, node))
    while True:
        if leaves:
            node = leaves.popleft()
            grad = buffers.pop(node, None)
            meta = node.variable.meta  # type: ignore[attr-defined]
            if (
                watched
                or node._hooks is not None
                or meta is None
                or meta.hooks is not None
                or meta.post_accumulate is not None
            ):
                owns = node in owned and (meta is None or meta.hooks is None)
                task.evaluate_leaf(node, grad, owns)  # type: ignore[arg-type]
            elif grad is not None:
                node.accumulate(grad, node in owned, create_graph)  # type: ignore[attr-defined]
            continue
        if not ready:
            return
        node = task.node = heappop(ready)[1]
        grad = buffers.pop(node, None)
        if watched or node._hooks is not None:
            outs = task.evaluate(node, grad)
            if outs is None:
                continue
            fresh: tuple[bool, ...] = ()
            entered = None  # a hook or a result may hold what passed
        else:
            fresh = node._fresh
            entered = grad.storage if fresh and grad is not None and node._outputs == 1 else None
            outs = node.apply_recorded(grad) if recorded else node.apply(grad)
            if not node._trusted:
                outs = checked(node, outs)
            if not keep_graph and node._saved:
                node._saved = released  # type: ignore[misc]
        index = 0
        edges = node.next_edges
        # What is passed on (a view of what entered) is owned by the only one who gets it.
        relays = node in owned and len(edges) - edges.count(None) == 1
        for edge in edges:
            if edge is not None:
                child = edge[0]
                grad = outs[index]
                if child._outputs == 1:
                    if grad is not None:
                        held = buffers.get(child)
                        if held is None:
                            buffers[child] = grad
                            if fresh and fresh[index] and (relays or grad.storage is not entered):
                                owned.add(child)
                        else:
                            buffers[child] = held + grad
                            owned.add(child)
                else:
                    deliver(child, edge[1], grad)
                left = waiting[child] - 1
                waiting[child] = left
                if left == 0 and (not watched or task.executes(child)):
                    if child._seq == FOREVER:
                        leaves.append(child)
                    else:
                        heappush(ready, (-child._seq, child))
            index += 1  # noqa: SIM113
