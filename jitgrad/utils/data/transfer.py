"""Batches from one process to another, through shared memory.

A batch is pickled with its large buffers left out (pickle protocol 5), which are written to one
file in memory instead. The receiver maps the file and removes its name, and reads the batch with
the mapped memory as its buffers: the data are copied once, by the sender, and live as long as the
batch does. What is too small to be worth a file, or finds no room in memory, goes inline.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_SMALLEST = 1 << 14  # bytes that are worth a file
_ALIGNED = 64


class Message(NamedTuple):
    """A batch on its way: the pickle, and its buffers, inline or as a file with their places."""

    pickled: bytes
    buffers: list[bytes]
    file: str | None
    places: list[tuple[int, int]]


def new_folder() -> str:
    """A private folder for the files of one loader, in memory if there is such a file system."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    return tempfile.mkdtemp(prefix="jitgrad-", dir=memory if usable else None)


def pack(value: Any, folder: str) -> Message:
    """What to send of a value."""
    left_out: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=left_out.append)
    buffers = [b.raw() for b in left_out]
    places, size = [], 0
    for buffer in buffers:
        places.append((size, buffer.nbytes))
        size += -(-buffer.nbytes // _ALIGNED) * _ALIGNED
    if size >= _SMALLEST:
        file = _written(buffers, places, size, folder)
        if file is not None:
            return Message(pickled, [], file, places)
    return Message(pickled, [bytes(b) for b in buffers], None, [])


def _written(
    buffers: list[memoryview], places: list[tuple[int, int]], size: int, folder: str
) -> str | None:
    """The name of a new file with these contents; None if there is no room for it."""
    try:
        handle, name = tempfile.mkstemp(dir=folder)
    except OSError:
        return None
    try:
        # Without room reserved, a write to mapped memory would end the process.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        else:
            os.truncate(handle, size)
        with mmap.mmap(handle, size) as memory:
            for buffer, (start, length) in zip(buffers, places, strict=True):
                memory[start : start + length] = buffer
    except OSError:
        Path(name).unlink(missing_ok=True)
        return None
    finally:
        os.close(handle)
    return name


def unpack(message: Message) -> Any:
    """The value that was sent. Its memory is writable, and nobody else's."""
    if message.file is None:
        return pickle.loads(message.pickled, buffers=[bytearray(b) for b in message.buffers])
    with open(message.file, "r+b") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0))
    _remove(message.file)
    parts = [memory[start : start + length] for start, length in message.places]
    return pickle.loads(message.pickled, buffers=parts)


def discard(message: Message) -> None:
    """Forget a message that nobody will unpack."""
    if message.file is not None:
        _remove(message.file)


def _remove(name: str) -> None:
    with suppress(OSError):  # Windows keeps mapped files; the folder is removed in the end
        os.unlink(name)
