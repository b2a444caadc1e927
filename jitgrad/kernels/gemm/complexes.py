"""Products of complex matrices, as products of real ones.

With the rows of A read as interleaved real and imaginary parts (no copy), and every row of B put
before i times it, a complex product is one real product of twice the depth and twice the width::

    [re a, im a, ..] @ [re b, im b, ..; -im b, re b, ..; ..]  =  [re c, im c, ..]

which is as many multiplications as four real products, on contiguous operands and with the results
in their places. Conjugates cost nothing: that of B is taken where its rows are copied, that of A by
changing the sign of the second rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dtypes import PARTS, dtype
from ...layout import Layout, contiguous_strides, dense_layout, layout
from .. import elementwise

_BYTE = np.dtype(np.uint8)
Plan = Callable[[Layout, Layout, Layout, bool], tuple[Any, Any]]


def _turned(x: Layout) -> Layout:
    """A batch of matrices transposed."""
    shape, strides = list(x.shape), list(x.strides)
    shape[-2:], strides[-2:] = shape[:-3:-1], strides[:-3:-1]
    return layout(tuple(shape), tuple(strides), x.dtype)


def _real(x: Layout, strides: tuple[int, ...]) -> Layout:
    """The layout of the parts of matrices with rows without gaps."""
    shape = (*x.shape[:-1], 2 * x.shape[-1])
    return layout(shape, (*(2 * s for s in strides[:-1]), 1), PARTS[x.dtype.plain])


def plan(a: Layout, b: Layout, out: Layout, accumulate: bool, real_plan: Plan) -> Any:
    """``run(spec, a, a_offset, b, b_offset, out, out_offset)`` of a product; see gemm.plan().

    ``out`` has rows or columns without gaps.
    """
    if out.strides[-1] != 1 and out.shape[-1] != 1:  # by columns: the transposed product
        run = plan(_turned(b), _turned(a), _turned(out), accumulate, real_plan)

        def swapped(spec: Any, a: Any, i: int, b: Any, j: int, out: Any, k: int) -> None:
            run(spec, b, j, a, i, out, k)

        return swapped
    d: dtype = out.dtype
    depth, columns = b.shape[-2:]
    if not depth or not out.numel:
        return _nothing if accumulate else _zeros(out)

    # B, and i times it (-i times for a conjugated A), row by row.
    wide = dense_layout((*b.shape[:-2], depth, 2, columns), d)
    halves = layout(b.shape, wide.strides[:-2] + wide.strides[-1:], d)
    unit = "x * -1j" if a.dtype.conjugated else "x * 1j"
    copy, copy_spec = elementwise.plan(("x", unit), ("x",), (b,), (halves, halves), d)
    step = columns * d.itemsize
    second = dense_layout((*b.shape[:-2], 2 * depth, columns), d)

    gapless = a.strides[-1] == 1 or depth == 1
    packed = layout(a.shape, a.strides if gapless else contiguous_strides(a.shape), d)
    pack, pack_spec = (None, None)
    if not gapless:
        stored = layout(a.shape, a.strides, d)  # as it lies: its conjugation is in the other's
        pack, pack_spec = elementwise.plan(("x",), ("x",), (stored,), (packed,), d)
    run, spec = real_plan(
        _real(packed, packed.strides), _real(second, second.strides), _real(out, out.strides),
        accumulate,
    )  # fmt: skip

    def multiply(_: Any, a: Any, i: int, b: Any, j: int, out: Any, k: int) -> None:
        turned = np.empty(wide.nbytes, _BYTE)
        copy(copy_spec, b, j, turned, 0, turned, step)
        if pack is not None:
            source, i0 = a, i
            a, i = np.empty(packed.nbytes, _BYTE), 0
            pack(pack_spec, source, i0, a, 0)
        run(spec, a, i, turned, 0, out, k)

    return multiply


def _nothing(*operands: Any) -> None:
    """Adds a product that is zero."""


def _zeros(out: Layout) -> Callable[..., None]:
    constant = np.zeros(8, _BYTE)
    zero = layout((), (), PARTS[out.dtype])
    fill, fill_spec = elementwise.plan(("x",), ("x",), (zero,), (out,), out.dtype)

    def clear(_: Any, a: Any, i: int, b: Any, j: int, out: Any, k: int) -> None:
        fill(fill_spec, constant, 0, out, k)

    return clear
