"""Arrays from values and from shapes, by the signatures of the standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch import creation, interchange, rearrange
from ..dispatch.convert import clone
from ..dispatch.diagonals import meshgrid as grids
from ..dtypes import dtype as DType
from ..tensor import Tensor

_Shape = int | Sequence[int]


def _sizes(shape: _Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: DType | None = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Numbers from ``start`` to before ``stop``; from 0 to before ``start`` if that is alone."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step < 0:  # the standard: nothing, where PyTorch raises
        stop = start
    return creation.arange(start, stop, step, dtype=dtype, device=device)


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """An array of numbers, sequences, another array, or what speaks DLPack or the buffer protocol.

    Raises:
        ValueError: with ``copy=False`` for what cannot be had without a copy.
    """
    shared = isinstance(obj, Tensor) or hasattr(obj, "__array_interface__")
    if copy is False:
        same = not isinstance(obj, Tensor) or dtype is None or obj.dtype is dtype
        if not (shared and same):
            raise ValueError("asarray(): this needs a copy, which copy=False does not allow")
    return creation.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array on the memory of another library's array, or a copy of it."""
    result = interchange.from_dlpack(x)
    return clone(result) if copy else result


def full(
    shape: _Shape, fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """An array filled with one value."""
    return creation.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """:func:`full` in the shape and (by default) dtype of ``x``."""
    return creation.full_like(x, fill_value, dtype=dtype, device=device)


def _filled(name: str) -> Callable[..., Tensor]:
    make = getattr(creation, name)

    def function(shape: _Shape, *, dtype: DType | None = None, device: Any = None) -> Tensor:
        return make(_sizes(shape), dtype=dtype, device=device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = make.__doc__
    return function


def _filled_like(name: str) -> Callable[..., Tensor]:
    make = getattr(creation, name)

    def function(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
        return make(x, dtype=dtype, device=device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = make.__doc__
    return function


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Ones on the ``k``-th diagonal (above the main one, if positive), zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    result = creation.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: DType | None = None, device: Any = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which is left out on demand."""
    if endpoint:
        return creation.linspace(start, stop, num, dtype=dtype, device=device)
    return creation.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid; ``xy`` counts columns first, ``ij`` rows."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing must be 'xy' or 'ij', got {indexing!r}")
    return tuple(grids(*arrays, indexing=indexing)) if arrays else ()


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices with zeros above the ``k``-th diagonal."""
    return rearrange.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices with zeros below the ``k``-th diagonal."""
    return rearrange.triu(x, k)


FUNCTIONS: dict[str, Any] = {
    **{name: _filled(name) for name in ("empty", "ones", "zeros")},
    **{name: _filled_like(name) for name in ("empty_like", "ones_like", "zeros_like")},
    "arange": arange, "asarray": asarray, "eye": eye, "from_dlpack": from_dlpack, "full": full,
    "full_like": full_like, "linspace": linspace, "meshgrid": meshgrid, "tril": tril, "triu": triu,
}  # fmt: skip
