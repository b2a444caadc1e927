"""Modes that say whether operations are recorded, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..state import GRAD, modes, set_grad_mode

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that is also a decorator, for functions, generators and coroutines."""

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def clone(self) -> _Mode:
        """A fresh context of the same kind: one instance may decorate and nest at once."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return _in_generator(self, function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self.clone():
                    return await function(*args, **kwargs)

            return coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]


def _in_generator(mode: _Mode, function: Any) -> Any:
    """Decorate a generator: the mode holds while it runs, not while it is suspended."""

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Any:
        inner = function(*args, **kwargs)
        send: Any = None
        throw: BaseException | None = None
        while True:
            try:
                with mode.clone():
                    item = inner.throw(throw) if throw is not None else inner.send(send)
            except StopIteration as stop:
                return stop.value
            send, throw = None, None
            try:
                send = yield item
            except GeneratorExit:
                with mode.clone():
                    inner.close()
                raise
            except BaseException as error:
                throw = error

    return generator


class _GradMode(_Mode):
    enabled: bool

    def __new__(cls, function: Any = None) -> Any:
        """``@no_grad`` works with and without parentheses."""
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(bool(modes.mode & GRAD))
        set_grad_mode(self.enabled)

    def __exit__(self, *exc: object) -> None:
        set_grad_mode(self._previous.pop())


class no_grad(_GradMode):
    """Nothing is recorded inside; results do not require grad.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> with jg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    enabled = False


class enable_grad(_GradMode):
    """Operations are recorded inside, also within :class:`no_grad`."""

    enabled = True


class set_grad_enabled(_Mode):
    """Switch recording on or off: at once when called, and undone at the end of a ``with``."""

    def __init__(self, mode: bool) -> None:
        self._previous = bool(modes.mode & GRAD)
        self.mode = bool(mode)
        set_grad_mode(self.mode)

    def __enter__(self) -> None:
        set_grad_mode(self.mode)

    def __exit__(self, *exc: object) -> None:
        set_grad_mode(self._previous)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __call__(self, function: F) -> F:
        # Used as a decorator, the switch that construction made is undone.
        set_grad_mode(self._previous)
        return super().__call__(function)
