"""Inputs described once and built, alike to the last stride, for either library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# How an input lies in memory. "expanded" repeats its first row with stride 0, so it changes values.
LAYOUTS = ("contiguous", "transposed", "gapped", "offset", "expanded")

# "varied" hands these out in turn: contiguous memory is the exception, as it hides stride bugs.
VARIED = ("gapped", "transposed", "offset", "contiguous")

# Lies in the gaps between elements. Read by mistake it shows in the values; if it is gone,
# something wrote outside the tensor.
FILLER = 77

# Where values are drawn from if nothing is said, by NumPy's kind of dtype.
RANGE = {"b": (0, 1), "u": (0, 9), "i": (-9, 9), "f": (-2.0, 2.0), "c": (-2.0, 2.0)}

# dtypes NumPy does not have are drawn in this one and converted by each library.
STAND_INS = {"bfloat16": "float32"}


@dataclass(frozen=True)
class Arg:
    """One input; `None` leaves the choice to the options of the check."""

    shape: tuple[int, ...] = ()
    values: np.ndarray | None = None
    dtype: str | None = None
    requires_grad: bool | None = None
    layout: str | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        grad = ", requires_grad" if self.requires_grad else ""
        return f"{self.dtype}{list(self.shape)} {self.layout}{grad}"


Spec = Arg | tuple[int, ...] | Sequence[Any] | np.ndarray


def arg(what: tuple[int, ...] | Sequence[Any] | np.ndarray = (), **settings: Any) -> Arg:
    """A shape (a tuple) or exact values (a list or an array), with the settings of `Arg`."""
    if isinstance(what, tuple):
        return Arg(shape=what, **settings)
    values = np.asarray(what, dtype=numpy_dtype(settings.get("dtype")))
    settings.setdefault("dtype", values.dtype.name)
    return Arg(shape=values.shape, values=values, **settings)


def numpy_dtype(name: str | None) -> str | None:
    return STAND_INS.get(name, name) if name else name


def is_floating(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype


@dataclass(frozen=True)
class Defaults:
    """What holds for inputs that do not say it themselves."""

    dtype: str = "float64"
    layout: str = "varied"
    requires_grad: bool | None = None  # None: those that are floating
    low: float | None = None  # None: see RANGE
    high: float | None = None
    seed: int = 0


def settle(specs: Sequence[Spec], defaults: Defaults) -> list[Arg]:
    """The inputs in full: every choice made, every value drawn."""
    rng = np.random.default_rng(defaults.seed)
    settled = []
    for position, spec in enumerate(specs):
        given = spec if isinstance(spec, Arg) else arg(spec)
        chosen = {
            name: getattr(defaults if getattr(given, name) is None else given, name)
            for name in ("dtype", "layout", "requires_grad", "low", "high")
        }
        if chosen["layout"] == "varied":
            chosen["layout"] = VARIED[position % len(VARIED)]
        if chosen["requires_grad"] is None:
            chosen["requires_grad"] = is_floating(chosen["dtype"])
        full = replace(given, **chosen)
        settled.append(full if full.values is not None else replace(full, values=draw(rng, full)))
    return settled


def draw(rng: np.random.Generator, spec: Arg) -> np.ndarray:
    """Random values of the spec's dtype in its range: [low, high), for integers [low, high]."""
    dtype = np.dtype(numpy_dtype(spec.dtype))
    low, high = RANGE[dtype.kind]
    low = low if spec.low is None else spec.low
    high = high if spec.high is None else spec.high
    if dtype.kind in "biu":
        return rng.integers(int(low), int(high) + 1, spec.shape).astype(dtype)
    values = rng.uniform(low, high, spec.shape)
    if dtype.kind == "c":
        return (values + 1j * rng.uniform(low, high, spec.shape)).astype(dtype)
    return values.astype(dtype)


@dataclass(frozen=True)
class Built:
    """An input as one library sees it, with the whole memory it lies in."""

    tensor: Any
    memory: Any


def build(lib: Any, spec: Arg) -> Built:
    """A leaf that is nobody's view, lying in memory as the spec says."""
    assert spec.values is not None
    assert spec.layout is not None
    memory, strides, offset = lay_out(spec.values, spec.layout)
    # clone: memory borrowed from NumPy could not be resized.
    flat = lib.from_numpy(memory).clone()
    if spec.dtype in STAND_INS:
        flat = flat.to(getattr(lib, spec.dtype))
    tensor = flat.as_strided(spec.shape, strides, offset).detach()
    return Built(tensor.requires_grad_() if spec.requires_grad else tensor, flat)


def lay_out(values: np.ndarray, layout: str) -> tuple[np.ndarray, tuple[int, ...], int]:
    """Flat memory holding `values` in the given layout, and the strides and offset to read them."""
    shape = values.shape
    if layout == "contiguous":
        memory = np.empty(values.size, values.dtype)
        view = memory.reshape(shape)
    elif layout == "transposed":
        memory = np.empty(values.size, values.dtype)
        view = memory.reshape(shape[::-1]).T
    elif layout == "offset":
        memory = np.full(values.size + 3, FILLER, values.dtype)
        view = memory[3:].reshape(shape)
    elif layout == "gapped":
        rows, last = shape[:-1], shape[-1] if shape else 1
        memory = np.full(int(np.prod(rows)) * (2 * last + 1), FILLER, values.dtype)
        view = memory.reshape(*rows, 2 * last + 1)[..., 1::2]
        view = view if shape else view[0, ...]
    elif layout == "expanded":
        row = values[:1] if shape else values
        memory = row.ravel()
        view = np.broadcast_to(memory.reshape(row.shape), shape)
    else:
        raise ValueError(f"unknown layout {layout!r}: one of {', '.join(LAYOUTS)} or 'varied'")
    if layout != "expanded":
        view[...] = values
    itemsize = values.dtype.itemsize
    offset = (view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // (
        itemsize
    )
    return memory, tuple(stride // itemsize for stride in view.strides), offset
