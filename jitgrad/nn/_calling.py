"""Calling a module: its forward, and the hooks before and after."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..autograd.module_hooks import BackwardHook
from .hooks import Hooks, RemovableHandle, add_hook

# Hooks of every module, run before a module's own.
_global_forward_hooks: Hooks = OrderedDict()
_global_forward_pre_hooks: Hooks = OrderedDict()


class Calling:
    """``__call__`` of :class:`Module`, with its hooks."""

    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: Hooks
    _backward_pre_hooks: Hooks

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # Calling --------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_hooked(args, kwargs)

    def _call_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for key, hook in [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]:
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, "
                            f"new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        called: set[int] = set()
        result = None
        try:
            watch = None
            if self._backward_hooks or self._backward_pre_hooks:
                hooks, pre_hooks = self._backward_hooks.values(), self._backward_pre_hooks.values()
                watch = BackwardHook(self, hooks, pre_hooks)
                args = watch.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for key, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
                called.add(key)
                changed = self._after(key, hook, args, kwargs, result)
                if changed is not None:
                    result = changed
            if watch is not None:
                result = watch.setup_output_hook(result)
        except Exception:
            for key, hook in list(self._forward_hooks.items()):
                if key in self._forward_hooks_always_called and key not in called:
                    self._after(key, hook, args, kwargs, result)
            raise
        return result

    def _after(self, key: int, hook: Any, args: Any, kwargs: Any, result: Any) -> Any:
        if key in self._forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """``hook(module, args)`` before each call; what it returns replaces the arguments.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)`` and returns both or None.
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return add_hook(self._forward_pre_hooks, hook, *marks, prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """``hook(module, args, result)`` after each call; what it returns replaces the result.

        With ``with_kwargs`` it is ``hook(module, args, kwargs, result)``. With ``always_call`` it
        runs (on None) even if the call raised.
        """
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        return add_hook(self._forward_hooks, hook, *marks, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(module, grad_input, grad_output)`` when the gradients of a call's arguments are
        known; tuples shaped like the positional arguments and the results, None where there is no
        gradient. What it returns replaces ``grad_input``.
        """
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(module, grad_output)`` before a call is differentiated; what it returns replaces
        ``grad_output``."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)


def register_module_forward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, args, result)`` after each call of any module."""
    return add_hook(_global_forward_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, args)`` before each call of any module."""
    return add_hook(_global_forward_pre_hooks, hook)
