"""Checkpoints: give up what a function saves for backward, and run it again when it is needed.

Without reentrancy (the better kind) saved-tensor hooks replace what the function saves by numbered
holders. The first holder that backward opens runs the function once more, and the values found on
the way wait, per backward pass, for the holders that ask for them. With reentrancy the function is
one node, whose backward records it anew and runs a backward pass of its own.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from .. import errors
from ..autograd import api
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..dispatch.creation import empty
from ..dispatch.random import get_rng_state, set_rng_state
from ..state import GRAD, modes
from ..tensor import Tensor

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]

_early_stop: bool | None = None  # what set_checkpoint_early_stop() says
_debug: bool | None = None  # what set_checkpoint_debug_enabled() says


class CheckpointError(RuntimeError):
    """The function did not do the same when it ran again."""


class _StopRecomputation(Exception):
    """Everything that was saved has been recomputed."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """No contexts."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """In this block, whether recomputation stops as soon as all that was saved is there again."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """In this block, whatever calls say, whether errors tell where tensors were saved."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call ``function(*args, **kwargs)`` without keeping what it saves; backward runs it again.

    Args:
        use_reentrant: which of the two kinds (see the module); say False.
        context_fn: returns two context managers, for the forward run and for the second one.
        determinism_check: "default" compares shapes and dtypes of the two runs, "none" does not.
        debug: keep the lines that saved something, for the error if the second run differs.
        early_stop: whether the second run may stop once everything that was saved is there.
        preserve_rng_state: whether the second run draws the same random numbers (default True).

    Raises:
        ValueError: for keyword arguments with the reentrant kind.
        CheckpointError: at backward, if the second run saves something else.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> jg.utils.checkpoint.checkpoint(lambda x: x.exp(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; the default is True.",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _checkpointed(
            function, args, kwargs, context_fn, determinism_check, debug, early_stop, preserve
        )
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Apply functions (or the modules of a Sequential) one after the other, in checkpoints.

    Args:
        functions: each takes what the one before returned.
        segments: into how many checkpoints they are divided; the last segment is not one.
        input: what the first function gets.
        use_reentrant: as for :func:`checkpoint`.
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; the default is True.",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def segment(part: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return run

    size = max(len(steps) // segments, 1)
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            segment(steps[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return segment(steps[last:])(input)


@contextmanager
def _random_state(state: Tensor | None) -> Iterator[None]:
    """Draw from the given state inside, and go on as before afterwards."""
    if state is None:
        yield
        return
    present = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(present)


# Without reentrancy -------------------------------------------------------------------------------
class _Inputs(Function):
    """Saves the tensor arguments as a node saves them: outer checkpoints may drop them in turn."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("nothing depends on this node")


class _Holder:
    """Stands for one saved tensor."""

    __slots__ = ("__weakref__", "index")

    def __init__(self, index: int) -> None:
        self.index = index


class _Frame:
    """One checkpointed call, kept by its holders."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
        check: bool,
        debug: bool,
        early_stop: bool,
        preserve: bool,
    ) -> None:
        self.function = function
        self.complete = False  # whether the first run is over
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.node = _Inputs.apply(empty(0, requires_grad=True), *(args[i] for i in places)).grad_fn
        self.places = places
        self.args = [None if isinstance(a, Tensor) else a for a in args]
        self.kwargs = kwargs
        self.context = context
        self.check = check
        self.lines: list[str] | None = [] if debug else None
        self.early_stop = early_stop
        self.random_state = get_rng_state() if preserve else None
        self.holders: list[weakref.ref[_Holder]] = []
        self.metadata: list[Any] = []

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.metadata.append(_metadata(tensor))
        if self.lines is not None:
            self.lines.append(errors.line_of(errors.caller()))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        if modes.task is None:
            # Outside a backward pass nobody knows how long the values would be wanted.
            return self._recomputed()[holder.index]
        memory = modes.task.memory
        if self not in memory:
            memory[self] = self._recomputed()
        found: dict[int, Tensor] = memory[self]
        if holder.index not in found:
            raise CheckpointError(
                "checkpoint: Unpack is being triggered for a tensor that was already unpacked once "
                "in this backward pass. If you are calling ctx.saved_tensors in backward, make "
                "sure to do so only once."
            )
        # It must not outlive the node that asks for it.
        return found.pop(holder.index)

    def _recomputed(self) -> dict[int, Tensor]:
        """What the function saves when it is run again, for the holders that still exist."""
        values: dict[int, Tensor] = {}
        differ: list[str] = []
        lines: list[str] = []
        count = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count
            if self.lines is not None:
                lines.append(errors.line_of(errors.caller()))
            if count < len(self.holders):
                if self.check and _metadata(tensor) != self.metadata[count]:
                    differ.append(
                        f"tensor at position {count}:\nsaved metadata: {self.metadata[count]}\n"
                        f"recomputed metadata: {_metadata(tensor)}"
                    )
                if self.holders[count]() is not None:
                    values[count] = tensor.detach() if tensor.requires_grad else tensor
            count += 1
            if self.early_stop and count == len(self.holders):
                raise _StopRecomputation
            return tensor.detach()

        args = list(self.args)
        for place, tensor in zip(self.places, self.node.saved_tensors, strict=True):
            args[place] = tensor
        with enable_grad(), _random_state(self.random_state):
            try:
                with saved_tensors_hooks(pack, _as_it_is), self.context:
                    self.function(*args, **self.kwargs)
            except _StopRecomputation:
                pass
        # A function that asks for gradients itself may want values while it still runs.
        if count < len(self.holders) or (count > len(self.holders) and self.complete):
            more = (
                "checkpoint is trying to save more tensors during recomputation than during the "
                "original forward pass.\n"
                if count > len(self.holders)
                else ""
            )
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation.\n{more}Number of tensors saved during forward: "
                f"{len(self.holders)}\nNumber of tensors saved during recomputation: {count}"
                + self._where(lines)
            )
        if differ:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata "
                "than during the forward pass.\n" + "\n".join(differ) + self._where(lines)
            )
        return values

    def _where(self, lines: list[str]) -> str:
        """For the debug mode: which lines saved what, in the first run and in the second."""
        if self.lines is None:
            return "\nPass `debug=True` to checkpoint to be told where they were saved."
        first, second = (
            "\n".join(f"  {i}: {x}" for i, x in enumerate(s)) for s in (self.lines, lines)
        )
        return (
            "\nYou are seeing this error because you passed `debug=True` to checkpoint. Saved "
            f"during forward at\n{first}\nand during recomputation at\n{second}"
        )


def _metadata(tensor: Tensor) -> Any:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def _as_it_is(value: Tensor) -> Tensor:
    return value


def _checkpointed(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    context_fn: Contexts,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
    preserve: bool,
) -> Any:
    if not modes.mode & GRAD:
        return function(*args, **kwargs)
    stop = early_stop if _early_stop is None else _early_stop
    forward_context, again = context_fn()
    check = determinism_check == "default"
    told = debug if _debug is None else _debug
    frame = _Frame(function, args, kwargs, again, check, told, stop, preserve)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
    frame.complete = True
    return result


# With reentrancy ----------------------------------------------------------------------------------
class CheckpointFunction(Function):
    """A function as one node, whose backward records it and runs a backward pass through it."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        if not any(isinstance(x, Tensor) and x.requires_grad for x in args):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None",
                UserWarning,
                stacklevel=4,
            )
        ctx.function = function
        ctx.random_state = get_rng_state() if preserve else None
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.arguments = [None if isinstance(x, Tensor) else x for x in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if modes.task is None or modes.task.needed is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.arguments)
        for place, saved in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = saved.detach().requires_grad_(saved.requires_grad)
        with _random_state(ctx.random_state), enable_grad():
            outs = ctx.function(*inputs)
        outs = outs if isinstance(outs, tuple) else (outs,)
        pairs = [
            (out, grad)
            for out, grad in zip(outs, grads, strict=True)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        api.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in inputs))
