"""Questions about tensors whose answers need no kernel."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..storage import Storage
from ..tensor import Tensor
from .convert import to

FUNCTIONS = "get_device is_nonzero is_same_size is_signed is_storage typename"
METHODS = (
    "dim_order get_device is_nonzero is_pinned is_same_size is_set_to is_shared pin_memory "
    "const_data_ptr share_memory_ dense_dim sparse_dim to_dense"
)


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return self.layout.shape == other.layout.shape


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both show the same memory in the same shape and strides."""
    return (
        self.storage is tensor.storage
        and self.offset == tensor.offset
        and self.layout.shape == tensor.layout.shape
        and self.layout.strides == tensor.layout.strides
    )


def dim_order(self: Tensor) -> tuple[int, ...]:
    """The dimensions in the order in which they lie in memory, the slowest first."""
    strides = self.layout.strides
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


def get_device(self: Tensor) -> int:
    """The number of the tensor's GPU; -1 on the CPU."""
    return -1


def is_nonzero(self: Tensor) -> bool:
    """Whether the only element is not zero; RuntimeError where there are more or none."""
    return bool(self)


def is_signed(input: Tensor) -> bool:
    """Whether the elements can be negative."""
    return input.is_signed()


def is_pinned(self: Tensor) -> bool:
    """Whether the memory is locked for copies to a GPU: never."""
    return False


def is_shared(self: Tensor) -> bool:
    """Whether the tensor was made to be seen by other processes: never (but see from_file)."""
    return False


def share_memory_(self: Tensor) -> Tensor:
    """What PyTorch has to move a tensor into memory that processes share; not supported here.

    Raises:
        NotImplementedError: always, rather than to leave writes unseen by other processes.
    """
    raise NotImplementedError(
        "share_memory_(): tensors here live in the memory of one process; send a copy to another, "
        "or have both show one file by from_file(shared=True)"
    )


def dense_dim(self: Tensor) -> int:
    """The number of dimensions that are not sparse: all."""
    return self.layout.ndim


def sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions: none."""
    return 0


def to_dense(
    self: Tensor, dtype: dtypes.dtype | None = None, *, masked_grad: bool = True
) -> Tensor:
    """The tensor itself, which is not sparse, or it in another dtype."""
    return self if dtype is None else to(self, dtype)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: memory of the CPU needs no locking."""
    return self


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element (0 when empty)."""
    return self.data_ptr()


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is the storage of tensors."""
    return isinstance(obj, Storage)


def typename(obj: Any) -> str:
    """The full name of an object's type; a tensor's says its dtype.

    >>> import jitgrad as jg
    >>> jg.typename(jg.tensor([1.0]))
    'jitgrad.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return f"jitgrad.{obj.layout.dtype.tensor_type}"
    cls = obj if isinstance(obj, type) else type(obj)
    module = "" if cls.__module__ in ("builtins", "__builtin__") else f"{cls.__module__}."
    return f"{module}{cls.__qualname__}"
