"""save and load."""

from __future__ import annotations

import os
from typing import Any

from ..tensor import device
from .archive import Archive, write_archive
from .reader import Reader
from .writer import Writer

Source = Any  # str, os.PathLike, or an open binary file


def save(
    obj: Any,
    f: Source,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, and containers of them, to a file that ``torch.load`` reads too.

    Args:
        obj: tensors, parameters, numbers, strings, bytes, dtypes, and lists, tuples, dicts and sets
            of them: what a ``state_dict()`` of a module or an optimizer holds. Tensors on one
            storage are still on one when they are loaded.
        f: a path, or a file open for writing bytes.
        pickle_module, pickle_protocol: accepted; the format fixes both.

    Raises:
        pickle.PicklingError: for any other object, before anything is written.
        ValueError: for the format that PyTorch had before 1.6.

    >>> import io
    >>> import jitgrad as jg
    >>> file = io.BytesIO()
    >>> save({"weight": jg.ones(2), "epoch": 3}, file)
    >>> load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if not _use_new_zipfile_serialization:
        raise ValueError(
            "save(): only the zip format is written (_use_new_zipfile_serialization=True)"
        )
    writer = Writer()
    pickled = writer.dump(obj)
    write_archive(f, pickled, writer.storages)


def load(
    f: Source,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what :func:`save` or ``torch.save`` wrote.

    Nothing in a file is ever run: objects other than those :func:`save` takes are refused.

    Args:
        f: a path, or a file open for reading bytes, which must be seekable.
        map_location: where tensors go that were saved on another device; only the CPU is there.
        pickle_module, mmap, pickle_load_args: accepted, and without effect.
        weights_only: True or None.

    Raises:
        pickle.UnpicklingError: for a file that is damaged, of another format, or names what is not
            allowed; the message says what.
        ValueError: for ``weights_only=False``.
        RuntimeError: for tensors of another device without a ``map_location``.
    """
    if weights_only is False:
        raise ValueError(
            "load(): weights_only=False is not supported, because it lets a file run any code it "
            "likes. Load whole objects with PyTorch, and save their state_dict()."
        )
    with Archive(f) as archive:
        return Reader(archive, _placing(map_location)).read()


def _placing(map_location: Any) -> Any:
    """From the location that a file says to whether it can be loaded here."""
    if map_location is None or callable(map_location):
        return lambda location: location if map_location is None else "cpu"
    if isinstance(map_location, dict):
        return lambda location: map_location.get(location, location)
    where = map_location if isinstance(map_location, (str, os.PathLike)) else str(map_location)
    device(str(where))
    return lambda location: "cpu"
