"""From the layouts of two batches of matrices and of their products to a launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...layout import Layout, dense_layout, expand_strides
from .. import elementwise
from . import complexes, drivers


def _unflipped(a: Layout, b: Layout, out: Layout, accumulate: bool) -> Any:
    """The product of copies of operands that lie in memory with the other sign."""
    left, right = copies = dense_layout(a.shape, a.dtype), dense_layout(b.shape, b.dtype)
    run, spec = plan(left, right, out, accumulate)
    passes = [
        elementwise.plan(("x",), ("x",), (x,), (copy,), copy.dtype)
        for x, copy in zip((a, b), copies, strict=True)
    ]

    def multiply(_: Any, a: Any, i: int, b: Any, j: int, out: Any, k: int) -> None:
        buffers = [np.empty(copy.nbytes, np.uint8) for copy in copies]
        for (pack, how), x, at, to in zip(passes, (a, b), (i, j), buffers, strict=True):
            pack(how, x, at, to, 0)
        run(spec, buffers[0], 0, buffers[1], 0, out, k)

    return multiply


def plan(a: Layout, b: Layout, out: Layout, accumulate: bool) -> tuple[Any, Any]:
    """``run, spec``: ``run(spec, a, a_offset, b, b_offset, out, out_offset)`` computes ``a @ b``.

    Batch dimensions of ``a`` and ``b`` broadcast to those of ``out``; ``accumulate`` adds to what
    is there.
    """
    if out.dtype.is_complex:
        return complexes.plan(a, b, out, accumulate, plan), None
    if a.dtype.negated or b.dtype.negated:
        return _unflipped(a, b, out, accumulate), None
    batch = out.shape[:-2]
    m, n = out.shape[-2:]
    k = a.shape[-1]
    strides = [expand_strides(x.shape[:-2], x.strides[:-2], batch) for x in (a, b, out)]
    spec = [len(batch), m, n, k, *a.strides[-2:], *b.strides[-2:], *out.strides[-2:]]
    spec.append(int(accumulate))
    count = 1
    for size, *steps in zip(batch, *strides, strict=True):
        spec += (size, *steps)
        count *= size
    name = out.dtype.name
    threaded = drivers.worth_threads(m, n, k, count)
    run = drivers.parallel(name) if threaded else drivers.serial(name)
    return run, np.array(spec, np.int64)
