"""Custom functions: a forward and a backward of the user's own, as one node of the tape.

The node is the ``ctx`` that forward and backward get, as in PyTorch: ``result.grad_fn`` is an
instance of ``<Name>Backward`` on which ``ctx.anything = ...`` can be read.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import errors
from ..state import GRAD, modes, next_sequence_number
from ..tensor import Tensor
from .forward_ad import function_jvp
from .function_outputs import Outputs, attach_fresh, filled, saved_values, wrap
from .node import Edge, Grads, OperationNode, Released, accumulator_edge
from .saved import SavedTensor, recorded, unpack
from .views import gradient_edge

_LEGACY = (
    "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
    "autograd function with static forward method."
)


class FunctionCtx:
    """What a custom function may do with the ``ctx`` that it gets."""

    to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads: bool = True
    # Whether outputs marked as non-differentiable get zeros as well; set on ctx by those who mind.
    _materialize_non_diff_grads: bool = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs (or None) for backward, where ``saved_tensors`` gives them.

        They are checked: backward raises if one was written in place meanwhile.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; you should save "
                    "non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward wrote in place; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs carry no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that are missing reach backward as zeros (the default) or as None."""
        self.materialize_grads = value


class BackwardCFunction(OperationNode, FunctionCtx):
    """The node of a custom function, and its ``ctx``."""

    _forward_cls: ClassVar[type[Function]]
    _trusted = False
    _accessed = False  # what was saved was handed out, for good
    _saved: tuple[Any, ...]

    def __init__(self, args: Sequence[Any]) -> None:
        self._seq = next_sequence_number()
        self._hooks = self._plan = None
        self._where = errors.caller()
        self._saved = ()
        self._outputs = 1
        needs: list[bool] = []
        edges: list[Edge | None] = []
        inputs: list[int | None] = []  # for each argument its edge; None where it is no tensor
        for x in args:
            if isinstance(x, Tensor):
                needs.append(x.requires_grad)
                inputs.append(len(edges))
                edges.append((x.edge or gradient_edge(x)) if needs[-1] else None)
            else:
                needs.append(False)
                inputs.append(None)
        self._inputs = inputs
        self.needs_input_grad = tuple(needs)
        self.next_edges = tuple(edges)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What :meth:`save_for_backward` was given; RuntimeError once it was released."""
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        if self._saved.__class__ is Released:
            raise errors.backward_twice(self)
        if self._accessed:
            raise RuntimeError(
                f"saved_tensors of {self.name()} can only be accessed once: its Function set "
                "clear_saved_tensors_on_access."
            )
        tensors = tuple(
            None if self._saved[2 * i] is None else unpack(self, i)
            for i in range(len(self._saved) // 2)
        )
        if self._forward_cls.clear_saved_tensors_on_access and modes.task is not None:
            self._saved, self._accessed = (), True
        return tensors

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """The deprecated name of :attr:`saved_tensors`."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        if self._saved.__class__ is Released:
            raise errors.backward_twice(self)
        return tuple(SavedTensor(self, i) for i in range(len(self._saved) // 2))

    def shape_of(self, nr: int) -> Any:
        return self._plan.differentiable[nr]

    def apply(self, *args: Any) -> Grads:
        """The gradients of the tensor inputs, by the function's ``backward`` (or ``vjp``)."""
        grad = args[0] if len(args) == 1 else list(args)
        grads = [grad] if self._outputs == 1 else grad or [None] * self._outputs
        if self.materialize_grads:
            plan = self._plan
            layouts = plan.layouts if self._materialize_non_diff_grads else plan.differentiable
            grads = [
                filled(of, 0) if g is None and of is not None else g
                for g, of in zip(grads, layouts, strict=True)
            ]
        returned = _backward_of(self._forward_cls)(self, *grads)
        return self._checked(returned if isinstance(returned, tuple) else (returned,))

    def _checked(self, returned: tuple[Any, ...]) -> Grads:
        """One gradient per tensor input, from one returned value per input."""
        wanted = len(self._inputs)
        if len(returned) != wanted and (
            len(returned) < wanted or any(g is not None for g in returned[wanted:])
        ):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{wanted}, got {len(returned)})"
            )
        grads: list[Tensor | None] = []
        for index, (grad, place) in enumerate(zip(returned, self._inputs, strict=False)):
            if place is not None:
                if grad is not None and not isinstance(grad, Tensor):
                    raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
                grads.append(grad)
            elif grad is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position "
                    f"{index + 1}, but the corresponding forward input was not a Variable"
                )
        return tuple(grads)


def _backward_of(cls: type[Function]) -> Callable[..., Any]:
    if cls.vjp is Function.vjp:
        return cls.backward
    if cls.backward is not Function.backward:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
            "should only implement one of them."
        )
    return cls.vjp


class FunctionMeta(type):
    """Gives every custom function the class of its nodes."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        node = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls})
        cls._backward_cls = node


class Function(metaclass=FunctionMeta):
    """Base of custom functions: override the static methods, call ``apply``.

    ``forward(ctx, *args)`` computes, unrecorded; ``backward(ctx, *grad_outputs)`` returns one
    gradient (or None) per argument of forward. Alternatively ``forward(*args)`` without ctx and
    ``setup_context(ctx, inputs, output)``. ``jvp(ctx, *tangents)`` serves forward-mode AD.

    >>> import jitgrad as jg
    >>> class Cube(jg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = jg.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    generate_vmap_rule = False
    # Whether backward may read ``saved_tensors`` only once, and then holds the only references.
    clear_saved_tensors_on_access = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(_LEGACY)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results; recorded as one node."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill ``ctx`` after a forward without ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of forward's arguments."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for :meth:`backward`."""
        return Function.backward(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of forward's results."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Accepted for compatibility; nothing calls it."""
        raise NotImplementedError("vmap is not available for custom autograd.Function.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function and record it, if grad mode is on and a tensor argument requires grad.

        Raises:
            TypeError: for arguments that forward does not have.
        """
        split = cls.setup_context is not Function.setup_context
        if split:
            args = _bound(cls.forward, args, kwargs, defaults=True)
        elif kwargs:
            args = _bound(cls.forward, (None, *args), kwargs, defaults=False)[1:]
        mode, levels = modes.mode, modes.levels
        ctx = cls._backward_cls(args)
        executable = bool(mode & GRAD) and True in ctx.needs_input_grad and not modes.inference
        if not executable:
            ctx.next_edges = ()
        modes.mode, modes.levels = mode & ~GRAD, ()
        try:
            if split:
                raw = cls.forward(*args)
                cls.setup_context(ctx, args, raw)
            else:
                raw = cls.forward(ctx, *args)
        finally:
            modes.mode, modes.levels = mode, levels
        single = not isinstance(raw, tuple)
        outs = (raw,) if single else raw
        ctx._outputs = len(outs)
        ctx._plan = Outputs(outs, ctx.non_differentiable if executable else outs)
        if not (executable and single and attach_fresh(ctx, args, raw)):
            outs = wrap(ctx, args, outs, executable, split)
        if levels:
            function_jvp(ctx, None if cls.jvp is Function.jvp else cls.jvp, args, outs)
        saved = saved_values(ctx, outs)
        # Before the hooks that pack: if one raises, ctx and results must not hold each other.
        for name in _FORGOTTEN & ctx.__dict__.keys():
            del ctx.__dict__[name]
        if executable:
            ctx._saved = saved
            if mode != GRAD:
                recorded(ctx)
        return outs[0] if single else outs


# What is said on ``ctx`` in forward, and of no use afterwards.
_FORGOTTEN = frozenset(("to_save", "saved_for_forward", "dirty_tensors", "non_differentiable"))


@functools.lru_cache(maxsize=256)
def _signature(forward: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(forward)


def _bound(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], defaults: bool
) -> tuple[Any, ...]:
    """All arguments by position, with or without those that were not given."""
    bound = _signature(forward).bind(*args, **kwargs)
    if defaults:
        bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"forward() got an unexpected keyword argument '{next(iter(bound.kwargs))}'"
        )
    return bound.args


class InplaceFunction(Function):
    """A function that remembers whether it was asked to work in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


# once_differentiable ------------------------------------------------------------------------------
class Error(OperationNode):
    """A node that only says why there is no derivative here."""

    __slots__ = ("_outputs", "message")

    def __init__(self, message: str, edges: tuple[Edge | None, ...]) -> None:
        self._seq = next_sequence_number()
        self._hooks = self._plan = None
        self._where = errors.caller()
        self._saved = ()
        self.message = message
        self.next_edges = edges
        self._outputs = len(edges)

    def shape_of(self, nr: int) -> Any:
        edge = self.next_edges[nr]
        return None if edge is None else edge[0].shape_of(edge[1])

    def apply(self, grad: Any) -> Grads:
        raise RuntimeError(self.message)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` whose own derivative would be wrong: taking it raises."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        mode = modes.mode
        modes.mode = mode & ~GRAD
        try:
            outs = backward(ctx, *grads)
        finally:
            modes.mode = mode
        wanted = any(isinstance(g, Tensor) and g.requires_grad for g in grads)
        if not mode & GRAD or not wanted:
            return outs
        results = [
            g.detach() if isinstance(g, Tensor) else g
            for g in (outs if isinstance(outs, tuple) else (outs,))
        ]
        edges = [_leaf_edge(g) if isinstance(g, Tensor) else None for g in results]
        node = Error(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            tuple(edges),
        )
        for nr, result in enumerate(results):
            if isinstance(result, Tensor):
                result.edge, result.tracked = (node, nr), True
        return tuple(results) if isinstance(outs, tuple) else results[0]

    return wrapper


def _leaf_edge(values: Tensor) -> Edge:
    """An edge that ends at a leaf nobody sees."""
    leaf = values.detach()
    leaf.tracked = True
    return accumulator_edge(leaf)
