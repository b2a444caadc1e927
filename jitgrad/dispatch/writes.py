"""Writes that an operator does to a copy of its first input, or in place.

An operator checks its arguments and describes the write once; its two variants, with the version
counter, the checks on memory and the history, follow from that.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import errors
from ..autograd.saved import pack_result
from ..autograd.views import check_inplace, rebase_history
from ..layout import (
    Layout,
    dense_layout,
    has_internal_overlap,
    may_overlap,
)
from ..ops.table import Structured
from ..state import GRAD, modes
from ..tensor import Tensor, make
from . import tangents
from .convert import copied, copy_, copy_elements
from .elementwise import check_memory, check_writable, prepare_out
from .make import like_layout
from .record import StructuredNode, record, record_history, wants_grad


# Recording ----------------------------------------------------------------------------------------
def record_indexed(
    cls: type[StructuredNode], inputs: Sequence[Tensor], result: Tensor, attributes: Mapping
) -> None:
    """Record, with edges for the differentiable inputs only: indices are saved, not followed."""
    record(cls, inputs, (result,), attributes)
    _drop_index_edges(cls, result)


def _drop_index_edges(cls: type[StructuredNode], result: Tensor) -> None:
    if result.edge is not None:
        node: Any = result.edge[0]
        node.next_edges = node.next_edges[: _differentiable(cls.row)]


@functools.cache
def _count_differentiable(names: tuple[str, ...], wanted: frozenset[str]) -> int:
    return 1 + max(i for i, name in enumerate(names) if name in wanted)


def _differentiable(row: Structured) -> int:
    return _count_differentiable(row.inputs, frozenset(row.grad))


class Write(NamedTuple):
    """A checked write, ready to be done to a copy or in place.

    Attributes:
        cls: the node class that records it.
        inputs: what the node's row names, the written tensor first.
        attributes: the other values its formulas ask for.
        run: writes to a tensor like the first input, or raises before anything is written.
        expanded: the name of an operator that only warns of an expanded target.
        may_share: whether operands may share memory with the target.
    """

    cls: type[StructuredNode]
    inputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any]
    run: Callable[[Tensor], None]
    expanded: str = ""
    may_share: bool = False


def to_copy(self: Tensor, write: Write, of: Layout) -> Tensor:
    """``self`` copied to layout ``of`` and written there."""
    result = copied(self, of)
    write.run(result)
    record_indexed(write.cls, write.inputs, result, write.attributes)
    return result


def in_place(self: Tensor, write: Write) -> Tensor:
    """``self`` written where it is, with PyTorch's checks, and the write made its history."""
    recorded = wants_grad(write.inputs)
    check_inplace(self, recorded)
    shares = _check_memory(self, write)
    history = None
    if recorded:
        # The node is made on a stand-in: `self` takes it as its history only once written.
        stand_in = make(self.storage, self.offset, self.layout)
        record_history(write.cls, write.inputs, (stand_in,), write.attributes)
        history = stand_in.edge
        _drop_index_edges(write.cls, stand_in)
    old = tangents.before(self, write.inputs) if modes.levels else None
    if shares:
        copy = copied(self, like_layout(self.layout))
        write.run(copy)
        copy_elements(copy, self)
    else:
        write.run(self)
    self.counter.version += 1
    self.counter.writer = errors.writer(f"{write.cls.row.name}_")
    if history is not None:
        node: Any = history[0]
        if node.names and node.names[-1] == "result":  # it is what it is after the write
            node._saved = (*node._saved[:-1], self.counter.version)
        if modes.mode != GRAD:
            pack_result(node)
        rebase_history(self, node)
    if old is not None:
        call = tangents.Call(write.cls.row, old, (self,), write.attributes)
        tangents.written(self, old, call.compute)
    return self


def _check_memory(self: Tensor, write: Write) -> bool:
    """Whether an operand shares memory with the target, so that the write must go by a copy.

    Raises:
        RuntimeError: for expanded or read-only targets, and operands that are the target or
            overlap it where both are dense (PyTorch computes others, whatever comes of it).
    """
    of = self.layout
    if of.dense:
        check_writable(self)
    elif write.expanded and has_internal_overlap(of.shape, of.strides):
        check_writable(self)
        warnings.warn(
            f"Use of {write.expanded} on expanded tensors is deprecated. Please clone() the tensor "
            "before performing this operation. This also applies to advanced indexing e.g. "
            "tensor[indices] = tensor",
            UserWarning,
            stacklevel=4,
        )
    else:
        check_memory(self, ())
    shares = False
    for t in write.inputs[1:]:
        if t.storage is self.storage and may_overlap(t.layout, t.offset, of, self.offset):
            same = t.layout.strides == of.strides and t.layout.shape == of.shape
            ill = (t.layout.dense and of.dense) or (same and t.offset == self.offset)
            if ill and not write.may_share:
                raise RuntimeError(
                    "unsupported operation: some elements of the input tensor and the written-to "
                    "tensor refer to a single memory location. Please clone() the tensor before "
                    "performing the operation."
                )
            shares = True
    return shares


def writer(name: str, preserve: bool = False) -> Callable[..., tuple[Any, Any]]:
    """Make an operator and its in-place variant from a function that checks and prepares a write.

    ``preserve``: whether the copy keeps the strides of a dense tensor.
    """

    def make_both(prepare: Callable[..., Write]) -> tuple[Any, Any]:
        @functools.wraps(prepare)
        def operator(self: Tensor, *args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
            of = self.layout
            of = like_layout(of) if preserve else dense_layout(of.shape, of.dtype)
            write = prepare(self, *args, **kwargs)
            if out is None:
                return to_copy(self, write, of)
            prepare_out(name, write.inputs, out, of.shape)
            return copy_(out, to_copy(self, write, of))

        @functools.wraps(prepare)
        def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return in_place(self, prepare(self, *args, **kwargs))

        operator.__name__ = operator.__qualname__ = name
        inplace.__name__ = inplace.__qualname__ = f"{name}_"
        return operator, inplace

    return make_both
