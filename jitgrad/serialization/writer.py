"""From objects to a pickle in which tensors are what PyTorch makes of its own.

Written opcode by opcode, since Python's pickler only names what it can import; the types are few.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from pickle import PicklingError, encode_long
from typing import Any

from ..dtypes import dtype
from ..nn.parameter import Parameter
from ..storage import Storage
from ..tensor import Size, Tensor, device
from .names import OF_DTYPE, UNTYPED


class Writer:
    """Makes one pickle (protocol 2).

    Attributes:
        storages: those of the tensors met, each with how many of its bytes count.
    """

    def __init__(self) -> None:
        self.storages: list[tuple[Storage, int]] = []
        self._out = bytearray()
        self._memo: dict[Any, tuple[int, Any]] = {}  # what was met: its number, kept alive
        self._keys: dict[int, tuple[int, dtype]] = {}  # storage -> its key, and read as what

    def dump(self, value: Any) -> bytes:
        """The pickle of a value."""
        self._out += b"\x80\x02"
        self._write(value)
        self._out += b"."
        return bytes(self._out)

    # Opcodes --------------------------------------------------------------------------------------
    def _known(self, key: Any) -> bool:
        """Fetch what was written before under this key; False if nothing was."""
        if key not in self._memo:
            return False
        number = self._memo[key][0]
        self._out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)
        return True

    def _remember(self, key: Any, value: Any) -> None:
        number = len(self._memo)
        self._memo[key] = (number, value)
        self._out += b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)

    def _global(self, module: str, name: str) -> None:
        key = (module, name)
        if not self._known(key):
            self._out += f"c{module}\n{name}\n".encode()
            self._remember(key, None)

    def _call(self, module: str, name: str, arguments: tuple[Any, ...]) -> None:
        self._global(module, name)
        self._tuple(arguments)
        self._out += b"R"

    def _write(self, value: Any) -> None:
        if self._known(id(value)):
            return
        write = _TYPES.get(type(value))
        if write is None:
            raise PicklingError(
                f"save(): cannot save an object of type {type(value).__module__}."
                f"{type(value).__qualname__}. Tensors, numbers, strings and plain containers of "
                "them can be: of a module or an optimizer save its state_dict(), of a NumPy number "
                "its .item()."
            )
        write(self, value)

    # Plain values ---------------------------------------------------------------------------------
    def _none(self, value: None) -> None:
        self._out += b"N"

    def _bool(self, value: bool) -> None:
        self._out += b"\x88" if value else b"\x89"

    def _int(self, value: int) -> None:
        if 0 <= value < 256:
            self._out += b"K" + bytes([value])
        elif -(1 << 31) <= value < 1 << 31:
            self._out += b"J" + struct.pack("<i", value)
        else:
            digits = encode_long(value)
            if len(digits) > 255:
                raise PicklingError("save(): cannot save an integer of more than 255 bytes")
            self._out += b"\x8a" + bytes([len(digits)]) + digits

    def _float(self, value: float) -> None:
        self._out += b"G" + struct.pack(">d", value)

    def _complex(self, value: complex) -> None:
        self._call("__builtin__", "complex", (value.real, value.imag))

    def _str(self, value: str) -> None:
        if not self._known(("str", value)):
            encoded = value.encode("utf-8", "surrogatepass")
            self._out += b"X" + struct.pack("<I", len(encoded)) + encoded
            self._remember(("str", value), value)

    def _bytes(self, value: bytes) -> None:
        self._call("_codecs", "encode", (value.decode("latin1"), "latin1"))
        self._remember(id(value), value)

    def _bytearray(self, value: bytearray) -> None:
        self._call("__builtin__", "bytearray", (bytes(value),))
        self._remember(id(value), value)

    # Containers -----------------------------------------------------------------------------------
    def _tuple(self, value: tuple[Any, ...]) -> None:
        self._out += b"("
        for item in value:
            self._write(item)
        self._out += b"t"

    def _remembered_tuple(self, value: tuple[Any, ...]) -> None:
        self._tuple(value)
        self._remember(id(value), value)

    def _list(self, value: list[Any]) -> None:
        self._out += b"]"
        self._remember(id(value), value)
        self._out += b"("
        for item in value:
            self._write(item)
        self._out += b"e"

    def _items(self, items: Iterable[tuple[Any, Any]]) -> None:
        self._out += b"("
        for key, item in items:
            self._write(key)
            self._write(item)
        self._out += b"u"

    def _dict(self, value: dict[Any, Any]) -> None:
        self._out += b"}"
        self._remember(id(value), value)
        self._items(value.items())

    def _ordered(self, value: OrderedDict[Any, Any]) -> None:
        self._call("collections", "OrderedDict", ())
        self._remember(id(value), value)
        self._items(value.items())
        metadata = getattr(value, "_metadata", None)  # of a module's state_dict
        if metadata is not None:
            self._write({"_metadata": metadata})
            self._out += b"b"

    def _counter(self, value: Counter[Any]) -> None:
        self._call("collections", "Counter", (dict(value),))
        self._remember(id(value), value)

    def _set(self, value: set[Any]) -> None:
        self._call("__builtin__", "set", (list(value),))
        self._remember(id(value), value)

    # Tensors --------------------------------------------------------------------------------------
    def _dtype(self, value: dtype) -> None:
        self._global("torch", value.name)

    def _size(self, value: Size) -> None:
        self._call("torch", "Size", (tuple(value),))

    def _device(self, value: device) -> None:
        self._call("torch", "device", (str(value),))

    def _storage(self, storage: Storage, d: dtype) -> None:
        """The reference to a storage, which is not part of the pickle."""
        key, known = self._keys.setdefault(id(storage), (len(self.storages), d))
        count = storage.nbytes() // d.itemsize
        if key == len(self.storages):
            self.storages.append((storage, count * d.itemsize))
        if known is not d:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                f"types: {known} and {d}. clone() one of them."
            )
        self._out += b"("
        self._write("storage")
        if d in OF_DTYPE:
            self._global("torch", OF_DTYPE[d])
        else:
            self._global(*UNTYPED)
            count *= d.itemsize
        self._write(str(key))
        self._write("cpu")
        self._write(count)
        self._out += b"tQ"

    def _tensor(self, value: Tensor, requires_grad: bool | None = None) -> None:
        of, d = value.layout, value.dtype
        typed = d in OF_DTYPE
        self._global("torch._utils", "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3")
        self._out += b"("
        self._storage(value.storage, d)
        self._write(value.offset // d.itemsize)
        self._tuple(of.shape)
        self._tuple(of.strides)
        self._write(value.requires_grad if requires_grad is None else requires_grad)
        self._call("collections", "OrderedDict", ())  # hooks
        if not typed:
            self._dtype(d)
        if of.dtype is not d:  # a view with other signs than its memory
            self._write({"conj" if of.dtype.conjugated else "neg": True})
        self._out += b"tR"
        if requires_grad is None:
            self._remember(id(value), value)

    def _parameter(self, value: Parameter) -> None:
        self._global("torch._utils", "_rebuild_parameter")
        self._out += b"("
        self._tensor(value, False)
        self._write(value.requires_grad)
        self._call("collections", "OrderedDict", ())
        self._out += b"tR"
        self._remember(id(value), value)


_TYPES: dict[type, Callable[[Writer, Any], None]] = {
    type(None): Writer._none,
    bool: Writer._bool,
    int: Writer._int,
    float: Writer._float,
    complex: Writer._complex,
    str: Writer._str,
    bytes: Writer._bytes,
    bytearray: Writer._bytearray,
    tuple: Writer._remembered_tuple,
    list: Writer._list,
    dict: Writer._dict,
    OrderedDict: Writer._ordered,
    Counter: Writer._counter,
    set: Writer._set,
    dtype: Writer._dtype,
    Size: Writer._size,
    device: Writer._device,
    Tensor: Writer._tensor,
    Parameter: Writer._parameter,
}
