"""Flat byte buffers and the version counters of the tensors that share them."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

from . import config
from .state import modes

_BYTE = np.dtype(np.uint8)
_empty = np.empty

# From malloc.h: what larger blocks get pages of their own, and how much may lie free at the end.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 32 << 20  # the most that glibc takes for the former


def _keep_freed_memory() -> None:
    """Have malloc keep what tensors free for the next ones, instead of giving it back at once.

    A page that the system hands out costs 1.6 us when it is first written: as much as everything
    else that is done to it (docs/decisions/0007-freed-memory.md). Nothing where malloc is not
    glibc's, or its user has given it settings of their own.
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if config.KEEP_MEMORY <= 0 or chosen or os.name != "posix":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, config.KEEP_MEMORY << 20)


_keep_freed_memory()


class VersionCounter:
    """Counts writes to one alias family (a base, its views, its detached aliases).

    ``writer`` says where the last write came from; it is read only when an error is reported.
    """

    __slots__ = ("version", "writer")

    def __init__(self) -> None:
        self.version = 0
        self.writer: Any = None


class _Version(int):
    """A version of a tensor since it was detached in place; earlier ones, plain ints, differ."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other.__class__ is _Version and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class DetachedCounter:
    """The counter of a tensor that ``detach_()`` cut off its history.

    It counts with its family, but what saved the tensor before must find the versions apart: its
    gradient would be lost.
    """

    __slots__ = ("family",)

    def __init__(self, family: Any) -> None:
        self.family: VersionCounter = family

    @property
    def version(self) -> int:
        return _Version(self.family.version)

    @version.setter
    def version(self, value: int) -> None:
        self.family.version = int(value)

    @property
    def writer(self) -> Any:
        return self.family.writer

    @writer.setter
    def writer(self, value: Any) -> None:
        self.family.writer = value


class InferenceCounter:
    """The counter of all tensors made in inference mode, whose writes nobody counts.

    Outside that mode asking for the version means that a tensor is to be saved for backward.
    """

    __slots__ = ("writer",)

    def __init__(self) -> None:
        self.writer: Any = None

    @property
    def version(self) -> int:
        if modes.inference:
            return 0
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Make a clone() to get a normal tensor "
            "and use that in computations tracked by autograd, or use no_grad() instead of "
            "inference_mode()."
        )

    @version.setter
    def version(self, value: int) -> None:
        pass


INFERENCE_COUNTER: Any = InferenceCounter()


class ReadOnly:
    """The owner of a storage that must not be written: a NumPy array that is not writable."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class Storage(VersionCounter):
    """A flat byte buffer. The dtype lives in the tensor, as in PyTorch's untyped storage.

    A storage is also the version counter of the alias family it was allocated for: one object
    fewer for every result. ``Tensor.data`` starts a family of its own on the same storage, with a
    counter of its own, which is why tensors name their counter instead of asking their storage.

    Attributes:
        buffer: ``uint8[nbytes]``; replaced by :meth:`resize_`, so kernels look it up at launch.
        owner: the foreign object that owns the memory (a NumPy array), if any; such a storage
            cannot be resized.
    """

    __slots__ = ("__weakref__", "buffer", "owner")

    def __init__(self, buffer: np.ndarray, owner: Any = None) -> None:
        self.version = 0
        self.writer = None
        self.buffer = buffer
        self.owner = owner

    @staticmethod
    def allocate(nbytes: int) -> Storage:
        """A new storage of ``nbytes`` uninitialised bytes."""
        return Storage(_empty(nbytes, _BYTE))

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self.buffer.ctypes.data if self.buffer.size else 0

    def nbytes(self) -> int:
        """The size in bytes."""
        return self.buffer.size

    def size(self) -> int:
        """The size in bytes (an untyped storage's elements are bytes)."""
        return self.buffer.size

    def __len__(self) -> int:
        return self.buffer.size

    def __call__(self) -> Storage:
        """``tensor.storage()``, as it is written in PyTorch; here the storage is an attribute."""
        return self

    def resize_(self, nbytes: int) -> Storage:
        """Change the size in place, keeping the common prefix; every alias sees it."""
        if self.owner is not None:
            raise RuntimeError("Trying to resize storage that is not resizable")
        buffer = _empty(nbytes, _BYTE)
        kept = min(nbytes, self.buffer.size)
        buffer[:kept] = self.buffer[:kept]
        self.buffer = buffer
        return self

    def clone(self) -> Storage:
        """A copy in memory of its own."""
        return Storage(self.buffer.copy())

    def tolist(self) -> list[int]:
        """The bytes as a list of ints."""
        return self.buffer.tolist()

    def __getitem__(self, index: int) -> int:
        return int(self.buffer[index])

    def __reduce__(self) -> Any:
        return Storage, (self.buffer.copy(),)

    def __repr__(self) -> str:
        return f"[jitgrad.storage.Storage of size {self.buffer.size}]"
