"""The zip archive that a file is: a pickle, and a record with the bytes of each storage."""

from __future__ import annotations

import os
import sys
import zipfile
from pickle import UnpicklingError
from typing import Any

import numpy as np

from ..storage import Storage

_ALIGNED = 64  # where a storage's bytes start in the file, for those who map it
_HEADER = 30  # bytes of a record's header without name and extra field
_RECORDS = {".format_version": b"1", ".storage_alignment": b"64", "version": b"3\n"}


def write_archive(target: Any, pickled: bytes, storages: list[tuple[Storage, int]]) -> None:
    """Write a pickle and the first so many bytes of each storage."""
    root = "archive"
    if isinstance(target, (str, os.PathLike)):
        target = os.fspath(target)
        root = os.path.splitext(os.path.basename(target))[0] or root
    place = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:

        def add(name: str, data: Any) -> None:
            nonlocal place
            record = zipfile.ZipInfo(f"{root}/{name}")
            start = place + _HEADER + len(record.filename.encode())
            padding = -(start + 4) % _ALIGNED
            record.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            archive.writestr(record, data)
            place = start + len(record.extra) + len(data)

        add("data.pkl", pickled)
        add("byteorder", sys.byteorder.encode())
        for name, content in _RECORDS.items():
            add(name, content)
        for key, (storage, nbytes) in enumerate(storages):
            add(f"data/{key}", storage.buffer[:nbytes].data)


class Archive:
    """An archive open for reading.

    Raises:
        pickle.UnpicklingError: if it is not one.
    """

    def __init__(self, source: Any) -> None:
        try:
            self._zip = zipfile.ZipFile(source)
        except zipfile.BadZipFile as error:
            raise UnpicklingError(
                f"load(): not a file of jitgrad.save or torch.save, or damaged ({error}); the "
                "format that PyTorch had before 1.6 is not supported"
            ) from None
        roots = [n[: -len("data.pkl")] for n in self._zip.namelist() if n.endswith("data.pkl")]
        if len(roots) != 1 or not (roots[0] == "" or roots[0].endswith("/")):
            self._zip.close()
            raise UnpicklingError("load(): a zip archive without a data.pkl: not a saved file")
        self._root = roots[0]
        names = self._zip.namelist()
        order = self.bytes("byteorder") if f"{self._root}byteorder" in names else b"little"
        self.swapped = order.decode("ascii", "replace") != sys.byteorder

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: Any) -> None:
        self._zip.close()

    def _info(self, name: str) -> zipfile.ZipInfo:
        try:
            info = self._zip.getinfo(self._root + name)
        except KeyError:
            raise UnpicklingError(f"load(): the archive has no record {name!r}") from None
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise UnpicklingError(f"load(): record {name!r} is compressed, which is refused")
        return info

    def bytes(self, name: str) -> bytes:
        """The content of a record."""
        try:
            return self._zip.read(self._info(name))
        except (zipfile.BadZipFile, EOFError) as error:
            raise UnpicklingError(f"load(): record {name!r} is damaged ({error})") from None

    def storage(self, name: str, nbytes: int) -> np.ndarray:
        """The content of a record, which must have this size, as new memory."""
        info = self._info(name)
        if info.file_size != nbytes:
            raise UnpicklingError(
                f"load(): record {name!r} has {info.file_size} bytes, expected {nbytes}"
            )
        content = self.bytes(name)
        if len(content) != nbytes:
            raise UnpicklingError(f"load(): record {name!r} is cut short")
        return np.frombuffer(content, np.uint8).copy()
