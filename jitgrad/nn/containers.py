"""Modules made of modules, and lists and dictionaries of modules and parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..tensor import Tensor
from .module import Module, typename
from .parameter import Parameter


def _position(index: Any, length: int) -> int:
    """A checked, non-negative index."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length


class _Numbered(Module):
    """Children named "0", "1", ...: what Sequential and ModuleList share."""

    def _names(self) -> list[str]:
        return list(self._modules)

    def _children(self) -> list[Any]:
        return list(self._modules.values())

    def _renumber(self, modules: Iterable[Any]) -> None:
        items = list(modules)
        self._modules.clear()
        for i, module in enumerate(items):
            self.add_module(str(i), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(index)
        return self._children()[_position(index, len(self))]

    def _part(self, index: slice) -> Any:
        return type(self)(self._children()[index])

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._names()[_position(index, len(self))], module)

    def __delitem__(self, index: Any) -> None:
        children = self._children()
        del children[index if isinstance(index, slice) else _position(index, len(self))]
        self._renumber(children)

    def append(self, module: Module) -> Any:
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before position ``index``."""
        children = self._children()
        children.insert(index, module)
        self._renumber(children)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any = -1) -> Module:
        """Remove and return the module at a position."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Calls its modules one after the other, each on the result of the one before.

    Args:
        modules: the modules, or one mapping from names to modules.

    >>> import jitgrad as jg
    >>> model = jg.nn.Sequential(jg.nn.Linear(2, 3), jg.nn.ReLU())
    >>> model(jg.ones(5, 2)).shape
    jitgrad.Size([5, 3])
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = len(modules) == 1 and isinstance(modules[0], Mapping)
        pairs = modules[0].items() if named else ((str(i), m) for i, m in enumerate(modules))
        for name, module in pairs:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _part(self, index: slice) -> Any:
        return type(self)(dict(list(self._modules.items())[index]))

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for name in self._names()[index]:
                delattr(self, name)
        else:
            delattr(self, self._names()[_position(index, len(self))])
        self._renumber(self._children())

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before position ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        return super().insert(index, module)

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )
        return type(self)(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(
                f"Non-positive multiplication factor {times} for {type(self)}"
            )
        return type(self)(*self._children() * times)

    __rmul__ = __mul__


class ModuleList(_Numbered):
    """A list of modules that are all children of it. It cannot be called."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Equal neighbours are shown once, with their number."""
        runs: list[list[Any]] = []
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dictionary of modules that are all children of it. It cannot be called."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return one."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add from a mapping or from pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{typename(modules)}"
            )
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for name, module in pairs:
            self[name] = module


class _Held(Module):
    """What ParameterList and ParameterDict share: values as attributes, tensors as parameters."""

    def _put(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, name, value)

    def _lines(self, pairs: Iterable[tuple[Any, Any]], old_names: bool) -> str:
        lines = []
        for name, value in pairs:
            if isinstance(value, Tensor):
                kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
                size = "x".join(map(str, value.shape))
                d = f"jitgrad.{value.dtype.tensor_type}" if old_names else value.dtype
                lines.append(f"  ({name}): {kind} containing: [{d} of size {size}]")
            elif isinstance(value, Module):
                inner = repr(value).replace("\n", "\n  ")
                lines.append(f"  ({name}): {inner}" if not old_names else f"  ({name}): Object of type: {type(value).__name__}")
            else:
                lines.append(f"  ({name}): Object of type: {type(value).__name__}")
        return "\n".join(lines)

    def _shown(self, pairs: Iterable[tuple[Any, Any]], old_names: bool = False) -> str:
        body = self._lines(pairs, old_names).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {body}\n)" if body else f"{self._get_name()}()"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{type(self).__name__} should not be called.")


class ParameterList(_Held):
    """A list of parameters (tensors become parameters) and other values."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(self._size)[index]])
        return getattr(self, str(_position(index, self._size)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._put(str(_position(index, self._size)), value)

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end; returns self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end; returns self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def pop(self, index: int = -1) -> Any:
        """Remove and return the value at a position."""
        value = self[index]
        rest = list(self)
        del rest[_position(index, self._size)]
        for i in range(self._size):
            delattr(self, str(i))
        self._size = 0
        self.extend(rest)
        return value

    def __repr__(self) -> str:
        return self._shown(enumerate(self))


class ParameterDict(_Held):
    """A dictionary of parameters (tensors become parameters) and other values."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, str(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        self._put(str(key), value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, str(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((key, self[key]) for key in self._keys)

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return one."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last, with its name."""
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or the default."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, which is set to the default if it is new."""
        if key not in self:
            self[key] = default
        return self[key]

    def copy(self) -> ParameterDict:
        """A new dictionary of the same parameters."""
        return ParameterDict(dict(self.items()))

    def update(self, parameters: Any) -> None:
        """Add from a mapping or from pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but "
                f"got {type(parameters).__name__}"
            )
        pairs = (
            parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters
        )
        for key, value in pairs:
            self[key] = value

    def __repr__(self) -> str:
        return self._shown(self.items(), old_names=True)


