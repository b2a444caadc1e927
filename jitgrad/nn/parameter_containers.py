"""Lists and dictionaries of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..tensor import Tensor
from .containers import position
from .module import Module
from .parameter import Parameter


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
        return getattr(self, str(position(index, self._size)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._put(str(position(index, self._size)), value)

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
        del rest[position(index, self._size)]
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
        return self[key] if key in self._keys else default

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
