"""The safetensors format: a JSON header, then the bytes of all tensors.

The functions have the names, arguments and files of the package ``safetensors.torch``, which is not
needed. The file starts with the length of the header (8 bytes); in the header each tensor has a
dtype, a shape, and the places where its bytes begin and end.
"""

from __future__ import annotations

import json
import os
from math import prod
from typing import Any

import numpy as np

from ..dispatch.convert import contiguous, resolved
from ..dtypes import BY_NAME
from ..layout import dense_layout
from ..storage import Storage
from ..tensor import Tensor, make
from ..tensor import device as as_device

_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U16": "uint16", "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip
_CODES = {BY_NAME[name]: code for code, name in _NAMES.items()}
_LONGEST = 100_000_000  # bytes of a header


def _checked(tensors: Any) -> dict[str, Tensor]:
    """Contiguous tensors, widest dtypes first; errors for what the format cannot hold."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, Tensor] but received {type(tensors)}")
    owners: dict[int, str] = {}
    for name, x in tensors.items():
        if not isinstance(name, str) or not isinstance(x, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected a Tensor but received {type(x)}")
        if x.dtype not in _CODES:
            raise ValueError(f"Key `{name}`: the format has no dtype {x.dtype}")
        other = owners.setdefault(id(x.storage), name)
        if other != name:
            raise RuntimeError(
                f"Some tensors share memory: {other!r} and {name!r}. The format cannot say so: "
                "clone() one of them."
            )
    order = sorted(tensors, key=lambda name: (-tensors[name].layout.dtype.itemsize, name))
    return {name: contiguous(resolved(tensors[name].detach())) for name in order}


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file with these tensors.

    Raises:
        ValueError: for anything but a dict of tensors.
        RuntimeError: for tensors that share memory, which the format cannot express.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    parts: list[bytes] = []
    place = 0
    for name, x in _checked(tensors).items():
        of, end = x.layout, place + x.layout.nbytes
        header[name] = {
            "dtype": _CODES[of.dtype],
            "shape": list(of.shape),
            "data_offsets": [place, end],
        }
        parts.append(x.storage.buffer[x.offset : x.offset + of.nbytes].tobytes())
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def save_file(
    tensors: dict[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write tensors to a file; errors as for :func:`save`, before anything is written."""
    content = save(tensors, metadata)
    with open(filename, "wb") as file:
        file.write(content)


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The description of each tensor, and where their bytes start."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_LONGEST, len(data) - 8):
        raise ValueError("not a safetensors file: its header is longer than the file")
    try:
        header = json.loads(data[8 : 8 + length].decode())
        header.pop("__metadata__", None)
        entries = {
            name: (_NAMES[e["dtype"]], tuple(e["shape"]), tuple(e["data_offsets"]))
            for name, e in header.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"not a safetensors file: its header is damaged ({type(error).__name__}: {error})"
        ) from None
    return entries, 8 + length


def _part(data: bytes, start: int, end: int) -> np.ndarray:
    """Bytes of a file, as new memory."""
    if end > len(data):
        raise ValueError(f"safetensors: the file is cut short at {len(data)} of {end} bytes")
    return np.frombuffer(data[start:end], np.uint8).copy()


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that was read already.

    Raises:
        ValueError: if it is damaged, or of another format.
    """
    entries, start = _header(data)
    found = {}
    expected = 0
    for name, (d, shape, place) in sorted(entries.items(), key=lambda item: item[1][2]):
        numbers = (*shape, *place)
        if any(type(n) is not int or n < 0 for n in numbers) or len(place) != 2:
            raise ValueError(f"safetensors: tensor {name!r} has sizes or offsets {numbers}")
        first, end = place
        of = BY_NAME[d]
        if first != expected or end - first != prod(shape) * of.itemsize:
            raise ValueError(
                f"safetensors: tensor {name!r} of shape {shape} and dtype {d} cannot lie at bytes "
                f"{first} to {end}"
            )
        buffer = _part(data, start + first, start + end)
        if d == "bool":
            buffer = (buffer != 0).view(np.uint8)
        found[name] = make(Storage(buffer), 0, dense_layout(shape, of))
        expected = end
    if start + expected != len(data):
        raise ValueError(
            f"safetensors: {len(data) - start} bytes of tensors, the header says {expected}"
        )
    return {name: found[name] for name in entries}


def load_file(
    filename: str | os.PathLike[str], device: str | as_device = "cpu"
) -> dict[str, Tensor]:
    """The tensors of a file; ValueError if it is damaged, or of another format."""
    as_device(device)
    with open(filename, "rb") as file:
        return load(file.read())
