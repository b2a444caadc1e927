"""Modes that say whether operations are recorded, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Callable, Generator
from typing import Any, ClassVar, TypeVar

from ..state import GRAD, INFERENCE, modes, set_grad_mode, set_special

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
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
                stacklevel=2,
            )
        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                return (yield from _driven(self, function(*args, **kwargs)))

            return generator  # type: ignore[return-value]
        elif inspect.iscoroutinefunction(function):
            awaited = types.coroutine(_driven)

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                return await awaited(self, function(*args, **kwargs))

            return coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]


def _driven(mode: _Mode, inner: Any) -> Generator[Any, Any, Any]:
    """Run a generator or coroutine: the mode holds while it runs, not while it is suspended."""
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


class _GradMode(_Mode):
    enabled: bool

    def __new__(cls, function: Any = None) -> Any:
        """``@no_grad`` works with and without parentheses."""
        self = object.__new__(cls)
        if function is None:
            return self
        self._previous = []
        return self(function)

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
        self.prev = bool(modes.mode & GRAD)
        self.mode = bool(mode)
        set_grad_mode(self.mode)

    def __enter__(self) -> None:
        set_grad_mode(self.mode)

    def __exit__(self, *exc: object) -> None:
        set_grad_mode(self.prev)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __call__(self, function: F) -> F:
        # Used as a decorator, the switch that construction made is undone.
        set_grad_mode(self.prev)
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"


class inference_mode(_Mode):
    """Like :class:`no_grad`, and what is made inside can never take part in autograd.

    Tensors made inside have no version counter, may be written outside only after a ``clone()``,
    and cannot be saved for backward. Tensors made outside stay what they are.

    Args:
        mode: False leaves inference mode for the block (and switches recording on).

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> with jg.inference_mode():
    ...     y = x * 2
    >>> y.requires_grad, y.is_inference()
    (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._previous: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._previous.append((modes.inference, bool(modes.mode & GRAD)))
        self._switch(self.mode, not self.mode)

    def __exit__(self, *exc: object) -> None:
        self._switch(*self._previous.pop())

    def clone(self) -> inference_mode:
        return type(self)(self.mode)

    @staticmethod
    def _switch(inference: bool, grad: bool) -> None:
        modes.inference = inference
        set_special(INFERENCE, inference)
        set_grad_mode(grad)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return modes.inference


class _Accepted(_Mode):
    """A switch that changes nothing here, but can be asked how it stands."""

    enabled: ClassVar[bool]

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before = type(self).enabled
        type(self).enabled = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        type(self).enabled = self._before

    def clone(self) -> _Accepted:
        return type(self)(self.mode)


class set_multithreading_enabled(_Accepted):
    """A backward pass always runs on the thread that calls it."""

    enabled = True


def is_multithreading_enabled() -> bool:
    """What :class:`set_multithreading_enabled` was last told."""
    return set_multithreading_enabled.enabled


class _force_original_view_tracking(_Accepted):
    """Views are never replayed: after a write through one its history is AsStridedBackward0."""

    enabled = False


def is_view_replay_enabled() -> bool:
    """What :class:`_force_original_view_tracking` was last told."""
    return _force_original_view_tracking.enabled


class _unsafe_preserve_version_counter(_Mode):
    """What is written inside does not count: the versions of these tensors are put back."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors if isinstance(tensors, tuple) else (tensors,)
        self.versions: list[int] = []

    def __enter__(self) -> None:
        self.versions = [t._version for t in self.tensors]

    def __exit__(self, *exc: object) -> None:
        for tensor, version in zip(self.tensors, self.versions, strict=True):
            tensor.counter.version = version

    def clone(self) -> _unsafe_preserve_version_counter:
        return type(self)(self.tensors)
