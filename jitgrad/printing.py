"""Tensors as text, character for character what PyTorch's ``repr`` gives.

`tensor_text` makes the text from an array of the values and a few facts about the tensor;
`set_printoptions` and `printoptions` change the style, for the whole process as in PyTorch.  The
rules were found by observing PyTorch 2.13 and are held by ``tests/test_printing.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

__all__ = ["printoptions", "set_printoptions", "tensor_text"]


@dataclass(frozen=True)
class _Options:
    precision: int = 4  # digits after the point
    threshold: float = 1000  # with more elements than this, only the edges are shown
    edgeitems: int = 3  # how many, at each end of each dimension
    linewidth: int = 80
    sci_mode: bool | None = None  # None: each tensor decides by its values


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}

_options = _PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    A ``profile`` ("default", "short" or "full"; any other name is ignored) is applied first, then
    the options given.  ``sci_mode`` is set by every call: to leave it out is to go back to None,
    which lets each tensor decide.
    """
    global _options
    chosen: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    base = _PROFILES.get(profile, _options) if profile is not None else _options
    _options = replace(base, sci_mode=sci_mode, **given)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions` for the length of a ``with`` block."""
    global _options
    before = _options
    set_printoptions(**(asdict(before) | options))
    try:
        yield
    finally:
        _options = before


# One element: a function from the element to its text, and the width the column is laid out for.
_Format = tuple[Callable[[Any], str], int]


def _discrete(values: np.ndarray) -> _Format:
    width = max(map(len, map(str, values.ravel().tolist())), default=1)
    return (lambda value: str(value).rjust(width)), width


def _real(values: np.ndarray) -> _Format:
    """Fixed-point for floats, without digits if all are whole numbers; scientific if they spread.

    Only finite nonzero elements decide and are measured: others may be wider than the column.
    """
    values = values.ravel().astype(np.float64, copy=False)
    typical = values[np.isfinite(values) & (values != 0)]
    whole = bool((np.trunc(typical) == typical).all())
    scientific = False
    if typical.size:
        sizes = np.abs(typical)
        low, high = float(sizes.min()), float(sizes.max())
        scientific = high / low > 1000 or high > 1e8 or (not whole and low < 1e-4)
        if _options.sci_mode is not None:
            scientific = _options.sci_mode

    point = ""
    if scientific:
        style = f".{_options.precision}e"
    elif whole:
        style, point = ".0f", "."
    else:
        style = f".{_options.precision}f"

    def text(value: float) -> str:
        return f"{value:{style}}" + (point if math.isfinite(value) else "")

    width = max((len(text(value)) for value in typical.tolist()), default=1)
    return (lambda value: text(value).rjust(width)), width


def _complex(values: np.ndarray) -> _Format:
    real, real_width = _real(values.real)
    imaginary, imaginary_width = _real(values.imag)

    def text(value: complex) -> str:
        second = imaginary(value.imag).lstrip()
        sign = "" if second.startswith("-") else "+"
        return f"{real(value.real)}{sign}{second}j"

    return text, real_width + imaginary_width + 1


def _format(values: np.ndarray) -> _Format:
    if values.dtype.kind == "c":
        return _complex(values)
    return _real(values) if values.dtype.kind == "f" else _discrete(values)


def _edges(size: int, summarize: bool) -> tuple[range, range]:
    """The indices shown along a dimension: before the dots, and after (none: no dots)."""
    if summarize and size > 2 * _options.edgeitems:
        return range(_options.edgeitems), range(size - _options.edgeitems, size)
    return range(size), range(0)


def _nested(values: np.ndarray, indent: int, summarize: bool, element: _Format) -> str:
    text, width = element
    if values.ndim == 0:
        return text(values.item())
    first, last = _edges(len(values), summarize)
    if values.ndim > 1:
        parts = [_nested(values[i], indent + 1, summarize, element) for i in first]
        parts += ["..."] if last else []
        parts += [_nested(values[i], indent + 1, summarize, element) for i in last]
        return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"

    parts = [text(value) for value in values[first.start : first.stop].tolist()]
    if last:
        parts += [" ...", *map(text, values[last.start : last.stop].tolist())]
    per_line = max(1, (_options.linewidth - indent) // (width + len(", ")))
    lines = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _is_implied(dtype: str, default_dtype: str) -> bool:
    """Whether the reader can tell the dtype from the values: it then goes without saying."""
    name, default = dtype.rpartition(".")[2], default_dtype.rpartition(".")[2]
    return name in (default, "complex128" if default == "float64" else "complex64", "int64", "bool")


def tensor_text(
    values: np.ndarray | None,
    *,
    dtype: str,
    default_dtype: str,
    requires_grad: bool = False,
    grad_fn: str | None = None,
    device: str | None = None,
    tangent: str | None = None,
    size: tuple[int, ...] | None = None,
    prefix: str = "tensor(",
) -> str:
    """The ``repr`` of a tensor.

    Parameters
    ----------
    values
        The values, of any shape and strides; bfloat16 ones as float32.  None for a tensor without
        data (the meta device), whose ``size`` must then be given.
    dtype, default_dtype
        As they are to be printed, such as ``"torch.float32"``; the second is the current default
        floating dtype.  What follows the last point says which may be left out.
    requires_grad, grad_fn
        The latter, the name of the node, takes the place of the former.
    device
        To be named unless it is None (as for the CPU).
    tangent
        The text of the forward-mode tangent, if there is one.
    prefix
        What opens the text; subclasses print their own name.
    """
    indent = len(prefix)
    facts = []
    if device is not None:
        facts.append(f"device='{device}'")
    if values is None:
        text = "..."
        facts.append(f"size={tuple(size or ())}")
        implied = dtype == default_dtype
    elif values.size == 0:
        text = "[]"
        if values.ndim != 1:
            facts.append(f"size={values.shape}")
        implied = dtype == default_dtype
    else:
        summarize = values.size > _options.threshold
        implied = _is_implied(dtype, default_dtype)
        if not _options.edgeitems:  # then the text need not show the shape
            facts.append(f"size={values.shape}")
        if summarize and values.ndim and not _options.edgeitems:
            text = "[...]"
        else:
            shown = values
            if summarize:
                for axis, length in enumerate(values.shape):
                    first, last = _edges(length, True)
                    shown = shown.take([*first, *last], axis)
            text = _nested(values, indent, summarize, _format(shown))
    if not implied:
        facts.append(f"dtype={dtype}")
    if grad_fn is not None:
        facts.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        facts.append("requires_grad=True")
    if tangent is not None:
        facts.append(f"tangent={tangent}")

    # Each fact stays on the line if it fits there with its comma and the bracket that may follow.
    text = prefix + text
    column = len(text) - text.rfind("\n") + 1
    for fact in facts:
        if column + len(fact) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + fact
            column = indent + len(fact)
        else:
            text += ", " + fact
            column += len(fact) + 2
    return text + ")"
