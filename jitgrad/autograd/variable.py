"""``Variable``: what tensors that require grad were called once."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import engine


class _IsTensor(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_IsTensor):
    """A tensor by another name: ``Variable(t)`` is an alias of ``t``, without its history."""

    _execution_engine = engine

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)
