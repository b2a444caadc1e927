"""From a pickle to objects, by a machine that knows a few opcodes and a few names.

Python's unpickler imports and calls whatever a file names. This one calls nothing but the functions
of its own table, and refuses every other name and opcode.
"""

from __future__ import annotations

import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, NamedTuple

from ..dtypes import ALL, CONJUGATED, NEGATED, bool_, dtype
from ..layout import layout
from ..nn.parameter import Parameter
from ..storage import Storage
from ..tensor import Size, Tensor, device, make
from .archive import Archive
from .names import STORAGES, UNTYPED

_MARK = object()


class _Callable(NamedTuple):
    """Something that a file may call."""

    function: Callable[..., Any]


class _StorageKind(NamedTuple):
    """A storage class; None for bytes."""

    of: dtype | None


class _Loaded(NamedTuple):
    """A storage as a file refers to it."""

    storage: Storage
    of: dtype | None


# What files may call ------------------------------------------------------------------------------
def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding != "latin1":
        raise UnpicklingError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin1")


def _bytearray(content: bytes = b"") -> bytearray:
    if not isinstance(content, bytes):
        raise UnpicklingError("a bytearray of something else than bytes")
    return bytearray(content)


def _integers(values: Any) -> tuple[int, ...]:
    if type(values) not in (tuple, Size) or any(type(n) is not int or n < 0 for n in values):
        raise UnpicklingError(f"sizes or strides {values!r}")
    return tuple(values)


def _tensor(
    loaded: Any, offset: Any, size: Any, strides: Any, d: dtype, signs: Any = None
) -> Tensor:
    if not isinstance(loaded, _Loaded) or (loaded.of is not None and loaded.of is not d):
        raise UnpicklingError("a tensor without its storage")
    (start,), shape, steps = _integers((offset,)), _integers(size), _integers(strides)
    if len(steps) != len(shape):
        raise UnpicklingError(f"a tensor of size {shape} with strides {steps}")
    for name in signs or ():
        if name not in _SIGNS or d not in _SIGNS[name]:
            raise UnpicklingError(f"a tensor of dtype {d} with {name!r}")
        if signs[name]:
            d = _SIGNS[name][d]
    of = layout(shape, steps, d)
    if (start + of.span()) * d.itemsize > loaded.storage.nbytes() and of.numel:
        raise UnpicklingError(
            f"a tensor of size {shape}, strides {steps} and offset {start} that reaches beyond its "
            f"storage of {loaded.storage.nbytes()} bytes"
        )
    return make(loaded.storage, start * d.itemsize, of)


# What a file says of a view whose elements have other signs than their memory.
_SIGNS = {"conj": CONJUGATED, "neg": NEGATED}


def _rebuild_tensor(loaded: Any, offset: Any, size: Any, strides: Any) -> Tensor:
    return _tensor(loaded, offset, size, strides, _dtype_of(loaded))


def _rebuild_tensor_v2(
    loaded: Any, offset: Any, size: Any, strides: Any, requires_grad: bool, hooks: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    result = _tensor(loaded, offset, size, strides, _dtype_of(loaded), metadata)
    return result.requires_grad_() if requires_grad is True else result


def _rebuild_tensor_v3(
    loaded: Any, offset: Any, size: Any, strides: Any, requires_grad: bool, hooks: Any,
    d: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    if not isinstance(d, dtype):
        raise UnpicklingError(f"a tensor of dtype {d!r}")
    result = _tensor(loaded, offset, size, strides, d, metadata)
    return result.requires_grad_() if requires_grad is True else result


def _dtype_of(loaded: Any) -> dtype:
    if not isinstance(loaded, _Loaded) or loaded.of is None:
        raise UnpicklingError("a tensor without its storage")
    return loaded.of


def _rebuild_parameter(data: Any, requires_grad: bool, hooks: Any, state: Any = None) -> Parameter:
    if not isinstance(data, Tensor):
        raise UnpicklingError("a parameter without its tensor")
    return Parameter(data, requires_grad is True)


def _rebuild_from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor with attributes, which are left behind."""
    if not isinstance(function, _Callable) or not isinstance(kind, type):
        raise UnpicklingError("a tensor of an unknown type")
    made = function.function(*arguments)
    return made if isinstance(made, kind) else Parameter(made, made.requires_grad)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Callable(OrderedDict),
    ("collections", "Counter"): _Callable(Counter),
    ("builtins", "set"): _Callable(set),
    ("builtins", "frozenset"): _Callable(frozenset),
    ("builtins", "complex"): _Callable(complex),
    ("builtins", "bytes"): _Callable(lambda: b""),
    ("builtins", "bytearray"): _Callable(_bytearray),
    ("_codecs", "encode"): _Callable(_encode),
    ("torch", "Size"): _Callable(lambda sizes: Size(_integers(sizes))),
    ("torch", "device"): _Callable(lambda *parts: device(*parts)),
    ("torch", "Tensor"): Tensor,
    ("torch.nn.parameter", "Parameter"): Parameter,
    ("torch._utils", "_rebuild_tensor"): _Callable(_rebuild_tensor),
    ("torch._utils", "_rebuild_tensor_v2"): _Callable(_rebuild_tensor_v2),
    ("torch._utils", "_rebuild_tensor_v3"): _Callable(_rebuild_tensor_v3),
    ("torch._utils", "_rebuild_parameter"): _Callable(_rebuild_parameter),
    ("torch._utils", "_rebuild_parameter_with_state"): _Callable(_rebuild_parameter),
    ("torch._tensor", "_rebuild_from_type_v2"): _Callable(_rebuild_from_type),
    UNTYPED: _StorageKind(None),
    **{("torch", name): _StorageKind(d) for name, d in STORAGES.items()},
    **{("torch", d.name): d for d in ALL},
}
_CONSTANTS = {
    "NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (),
}  # fmt: skip
_LITERALS = frozenset(
    "BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8".split()
)


class Reader:
    """Reads the pickle of one archive."""

    def __init__(self, archive: Archive, place: Callable[[str], str]) -> None:
        self._archive = archive
        self._place = place
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._storages: dict[str, Storage] = {}

    def read(self) -> Any:
        """What was saved.

        Raises:
            pickle.UnpicklingError: for anything unexpected.
        """
        try:
            for opcode, argument, _ in pickletools.genops(self._archive.bytes("data.pkl")):
                if opcode.name == "STOP":
                    (result,) = self._stack
                    return result
                self._step(opcode.name, argument)
        except UnpicklingError as error:
            text = str(error).removeprefix("load(): ")
            raise UnpicklingError(
                f"load(): refused {text}. Only tensors and plain containers are loaded, and no "
                "code of a file is ever run."
            ) from None
        except RuntimeError:  # a device that is not there
            raise
        except Exception as error:
            raise UnpicklingError(
                f"load(): the file is damaged ({type(error).__name__}: {error})"
            ) from None
        raise UnpicklingError("load(): the file is damaged (its pickle has no end)")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("PROTO", "FRAME"):
            pass
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        else:
            step = _STEPS.get(name)
            if step is None:
                raise UnpicklingError(f"the pickle opcode {name}")
            step(self) if argument is None else step(self, argument)

    def _marked(self) -> list[Any]:
        """What was put on the stack since the last mark."""
        at = max(i for i, value in enumerate(self._stack) if value is _MARK)
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    # Names and calls ------------------------------------------------------------------------------
    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        module = {"__builtin__": "builtins"}.get(module, module)
        found = _ALLOWED.get((module, name))
        if found is None:
            raise UnpicklingError(f"the name {module}.{name}")
        self._stack.append(found)

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._global(f"{module} {name}")

    def _reduce(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, _Callable) or type(arguments) is not tuple:
            raise UnpicklingError(f"a call of {function!r}")
        self._stack.append(function.function(*arguments))

    def _build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if (
            type(target) is not OrderedDict
            or type(state) is not dict
            or set(state) != {"_metadata"}
        ):
            raise UnpicklingError(f"attributes of an object of type {type(target).__name__}")
        target.__dict__.update(state)

    def _persistent(self) -> None:
        tag, kind, key, location, count = self._stack.pop()
        if tag != "storage" or not isinstance(kind, _StorageKind) or not isinstance(key, str):
            raise UnpicklingError(f"a reference to {tag!r}")
        (number,) = _integers((count,))
        if key not in self._storages:
            where = self._place(location)
            if where != "cpu":
                raise RuntimeError(
                    f"load(): attempting to deserialize a tensor saved on {location!r}, which is "
                    "not available. Use map_location='cpu' to map storages to the CPU."
                )
            self._storages[key] = self._storage(key, kind, number)
        self._stack.append(_Loaded(self._storages[key], kind.of))

    def _storage(self, key: str, kind: _StorageKind, count: int) -> Storage:
        size = 1 if kind.of is None else kind.of.itemsize
        buffer = self._archive.storage(f"data/{key}", count * size)
        if self._archive.swapped and size > 1:
            part = size // 2 if kind.of is not None and kind.of.is_complex else size
            buffer = buffer.reshape(-1, part)[:, ::-1].reshape(-1).copy()
        if kind.of is bool_:
            buffer = (buffer != 0).view(buffer.dtype)
        return Storage(buffer)

    # Containers -----------------------------------------------------------------------------------
    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _tuple_of(self, count: int) -> None:
        values = tuple(self._stack[-count:])
        if any(value is _MARK for value in values) or len(values) < count:
            raise UnpicklingError("a tuple of what is not there")
        self._stack[-count:] = [values]

    def _append(self) -> None:
        value = self._stack.pop()
        self._list().append(value)

    def _extend(self) -> None:
        values = self._marked()
        self._list().extend(values)

    def _list(self) -> list[Any]:
        if type(self._stack[-1]) is not list:
            raise UnpicklingError("an element of what is no list")
        return self._stack[-1]

    def _set_items(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise UnpicklingError("an item of what is no dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[key] = value

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items([key, value])

    def _add_items(self) -> None:
        values = self._marked()
        if type(self._stack[-1]) is not set:
            raise UnpicklingError("an element of what is no set")
        self._stack[-1].update(values)


_STEPS: dict[str, Callable[..., None]] = {
    "GLOBAL": Reader._global,
    "STACK_GLOBAL": Reader._stack_global,
    "REDUCE": Reader._reduce,
    "BUILD": Reader._build,
    "BINPERSID": Reader._persistent,
    "MARK": lambda self: self._push(_MARK),
    "TUPLE": lambda self: self._push(tuple(self._marked())),
    "TUPLE1": lambda self: self._tuple_of(1),
    "TUPLE2": lambda self: self._tuple_of(2),
    "TUPLE3": lambda self: self._tuple_of(3),
    "EMPTY_LIST": lambda self: self._push([]),
    "EMPTY_DICT": lambda self: self._push({}),
    "EMPTY_SET": lambda self: self._push(set()),
    "APPEND": Reader._append,
    "APPENDS": Reader._extend,
    "SETITEM": Reader._set_item,
    "SETITEMS": lambda self: self._set_items(self._marked()),
    "ADDITEMS": Reader._add_items,
    "FROZENSET": lambda self: self._push(frozenset(self._marked())),
}
