"""Tensors on the memory of others: buffers and DLPack; elements handed to Python functions."""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import dtype as Dtype
from ..errors import writer
from ..state import GRAD, get_default_dtype, modes
from ..tensor import Tensor
from .creation import borrowed, empty, from_numpy
from .elementwise import check_writable

FUNCTIONS = "from_dlpack from_file frombuffer to_dlpack"
METHODS = "apply_ map_ map2_"


def frombuffer(
    buffer: Any, *, dtype: Dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A one-dimensional tensor on the memory of an object with Python's buffer interface.

    Args:
        buffer: ``bytes``, ``bytearray``, ``array.array``, ``mmap`` ...
        count: how many elements; -1 for all there are.
        offset: bytes to skip.

    Raises:
        ValueError: if the buffer has not the bytes asked for.

    >>> import jitgrad as jg
    >>> jg.frombuffer(bytearray([1, 0, 2, 0]), dtype=jg.int16)
    tensor([1, 2], dtype=jitgrad.int16)
    """
    memory = np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)
    size, itemsize = memory.size, dtype.itemsize
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({size} bytes) minus 1"
        )
    if count < 0 and (size - offset) % itemsize:
        raise ValueError(
            f"buffer length ({size} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size ({itemsize})"
        )
    length = (size - offset) // itemsize if count < 0 else count
    if offset + length * itemsize > size:
        raise ValueError(
            f"requested buffer length ({length} * {itemsize} bytes) after offset ({offset} bytes) "
            f"must not be greater than actual buffer length ({size} bytes)"
        )
    elements = memory[offset : offset + length * itemsize].view(dtype.np)
    if not elements.flags.writeable:
        warnings.warn(
            "The given buffer is not writable, and jitgrad does not support non-writable tensors: "
            "writing to this tensor raises. Copy the buffer to get one you can write to.",
            stacklevel=2,
        )
    result = borrowed(elements)
    if result.layout.dtype is not dtype:
        result = result.view(dtype)  # bfloat16, which NumPy has not
    return result.requires_grad_() if requires_grad else result


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Dtype | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A one-dimensional tensor whose memory is a file's, from its beginning.

    Args:
        filename: of the file; made, or made longer, if it is to be shared.
        shared: whether what is written to the tensor is written to the file, and so seen by every
            process that shows it too. Otherwise the tensor has the values of the file at first.
        size: how many elements.

    Raises:
        RuntimeError: if the file cannot be opened, or is too short and not shared.
    """
    d = get_default_dtype() if dtype is None else dtype
    length = size * d.itemsize
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        file = os.open(filename, flags, 0o600)
    except OSError as error:
        way = "read-write" if shared else "read-only"
        raise RuntimeError(f"unable to open file <{filename}> in {way} mode: {error}") from error
    try:
        held = os.fstat(file).st_size
        if length > held:
            if not shared:
                raise RuntimeError(
                    f"file <{filename}> size <{held}> is smaller than the required mapping size "
                    f"<{length}>"
                )
            os.truncate(file, length)
        if not length:  # which to mmap means all of the file
            return empty(0, dtype=d, requires_grad=requires_grad)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        memory = mmap.mmap(file, length, access=access)
    finally:
        os.close(file)
    return frombuffer(memory, dtype=d, requires_grad=requires_grad)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor on the memory of another library's array (NumPy, PyTorch, JAX ...).

    Raises:
        RuntimeError: for what does not speak DLPack.

    >>> from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(
            "from_dlpack received an invalid capsule: pass the array itself, an object with "
            f"__dlpack__ and __dlpack_device__, not {type(ext_tensor).__name__}"
        )
    return from_numpy(np.from_dlpack(ext_tensor))


def to_dlpack(tensor: Tensor) -> Any:
    """``tensor.__dlpack__()``: a capsule that shares the memory."""
    return tensor.__dlpack__()


def _by_python(name: str, self: Tensor, others: tuple[Tensor, ...], function: Any) -> Tensor:
    if modes.mode & GRAD and any(t.requires_grad for t in (self, *others)):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            "instead."
        )
    check_writable(self)
    operands = [t.expand(self.layout.shape).reshape(-1).tolist() for t in (self, *others)]
    results = [function(*elements) for elements in zip(*operands, strict=True)]
    made = np.array(results).reshape(self.layout.shape)
    self._array()[...] = self.layout.dtype.encode(made)
    self.counter.version += 1
    self.counter.writer = writer(name)
    return self


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by a Python function of it. Slow; for experiments.

    Raises:
        RuntimeError: for a tensor that requires grad: the function has no derivative.
    """
    return _by_python("apply_", self, (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element by a function of it and of the (broadcast) tensor's."""
    return _by_python("map_", self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace every element by a function of it and of the two (broadcast) tensors'."""
    return _by_python("map2_", self, (x, y), callable)
