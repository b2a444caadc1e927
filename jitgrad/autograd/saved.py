"""What nodes save, and what becomes of it until backward.

A node's ``saved`` holds ``(tensor, version)`` pairs flattened into one tuple. An input is kept as
the object it is; an output as an alias without history, so that node and output form no cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import errors
from ..tensor import Tensor, make

if TYPE_CHECKING:
    from .node import Node


class SavedResult(Tensor):
    """A saved output: the memory and the counter of the result, but not its history."""

    __slots__ = ()


def save_result(result: Tensor) -> Tensor:
    """What a node keeps of its own output."""
    kept = make(result.storage, result.offset, result.layout, SavedResult)
    kept.counter = result.counter
    return kept


def unpack(node: Node, index: int) -> Tensor:
    """The saved tensor number ``index`` of a node, checked and ready to be used in a formula.

    Raises:
        RuntimeError: if it was released, or written in place since it was saved.
    """
    if node.saved is None:
        raise errors.backward_twice(node)
    tensor, version = node.saved[2 * index], node.saved[2 * index + 1]
    if tensor.counter.version != version:
        raise _modified(node, tensor, version)
    if tensor.__class__ is SavedResult:
        result = make(tensor.storage, tensor.offset, tensor.layout)
        result.counter = tensor.counter
        result.edge = (node, 0)
        result.tracked = True
        return result
    return tensor


def _modified(node: Node, tensor: Tensor, version: int) -> RuntimeError:
    if tensor.__class__ is SavedResult:
        return errors.modified_inplace(tensor, version, node, 0, node)
    edge: Any = tensor.edge or (tensor.view_meta and tensor.view_meta.edge)
    producer, nr = edge or (None, 0)
    return errors.modified_inplace(tensor, version, node, nr, producer)
