"""Parameters and buffers: the tensors that a module owns."""

from __future__ import annotations

from typing import Any

from ..dispatch.convert import clone
from ..dispatch.creation import empty
from ..tensor import Tensor, make


def _owned(cls: type, data: Tensor | None, requires_grad: bool) -> Any:
    """A leaf of type ``cls`` on the memory (and the version counter) of ``data``."""
    if data is None:
        data = empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__} data must be a Tensor, not {type(data).__name__}")
    result = make(data.storage, data.offset, data.layout, cls)
    result.counter = data.counter
    if requires_grad:
        result.requires_grad_()
    return result


def replace_data(tensor: Tensor, data: Tensor) -> None:
    """Let ``tensor`` take over memory, shape and dtype of ``data``; autograd is not told."""
    tensor.storage, tensor.offset, tensor.layout = data.storage, data.offset, data.layout


class Parameter(Tensor):
    """A tensor that a :class:`Module` trains: assigned to one, it joins its ``parameters()``.

    Args:
        data: the values; the memory is shared. Empty if None.
        requires_grad: whether gradients are computed (floating dtypes only).

    >>> import jitgrad as jg
    >>> jg.nn.Parameter(jg.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return _owned(cls, data, requires_grad)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Everything is done by ``__new__``."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A copy of the values, without the gradient."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(clone(self.detach()), self.requires_grad)
        return memo[id(self)]


class Buffer(Tensor):
    """A tensor that belongs to a module's state but is not trained.

    Args:
        data: the values; the memory is shared.
        persistent: whether it is part of the module's ``state_dict``.
    """

    __slots__ = ("persistent",)

    persistent: bool

    def __new__(
        cls, data: Tensor | None = None, *, requires_grad: bool = False, persistent: bool = True
    ) -> Buffer:
        result = _owned(cls, data, requires_grad)
        result.persistent = persistent
        return result

    def __init__(self, *args: Any, **options: Any) -> None:
        """Everything is done by ``__new__``."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(
                clone(self.detach()),
                requires_grad=self.requires_grad,
                persistent=self.persistent,
            )
        return memo[id(self)]
