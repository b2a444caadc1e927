"""Kernels of the negative log likelihood: a gather with weights, and the scatter that undoes it.

Both run over [n, inner] targets beside [n, classes, inner] values: the driver's line is n, the
inner loop and what else they need comes as extras:

==========  ====================================================================================
extras      classes, ignored class, inner size, class stride of the values, then the inner strides
            of the values, the targets and the results
``info``    float64[2]: the sum of the weights used; 1 + the first target out of range, negated if
            that is negative, or 0 where there is none
==========  ====================================================================================
"""

from __future__ import annotations

import functools

import numpy as np

from ..dtypes import BY_NAME, dtype
from ..layout import Layout, Shape, Strides
from . import cache, drivers
from .elementwise import numpy_name

_BODY = """
import numpy as np
from jitgrad.kernels.abi import p_int64, p_uint8, p_float64, p_{value}

def kernel({pointers}, {strides}, n, extras):
    x = p_{value}(p0)
    target = p_{index}(p1)
    weight = p_{value}(p2)
    out = p_{value}(p3)
    info = p_float64(p4)
    e = p_int64(extras)
    classes, ignored, inner, per_class = e[0], e[1], e[2], e[3]
    inner_x, inner_target, inner_out = e[4], e[5], e[6]
    {before}
    for i in range(n):
        for j in range(inner):
            t = np.int64(target[i * s1 + j * inner_target])
            if t == ignored:
                {ignore}
                continue
            if t < 0 or t >= classes:
                {refuse}
                continue
            w = {weight}
            {body}
    {after}
"""

_LOSS = {
    "before": "total = 0.0\n    used = 0.0\n    info[1] = 0.0",
    "refuse": "info[1] = t + 1.0 if t >= 0 else np.float64(t)",
    "body": "total -= np.float64(x[i * s0 + t * per_class + j * inner_x]) * np.float64(w)\n"
    "            used += np.float64(w)",
}
_VARIANTS = {
    "sum": _LOSS | {"ignore": "pass", "after": "out[0] = {T}(total)\n    info[0] = used"},
    "mean": _LOSS | {"ignore": "pass", "after": "out[0] = {T}(total / used)\n    info[0] = used"},
    "none": _LOSS
    | {
        "ignore": "out[i * s3 + j * inner_out] = 0",
        "body": "out[i * s3 + j * inner_out] = -x[i * s0 + t * per_class + j * inner_x] * w",
        "after": "info[0] = used",
    },
    # Here x is the incoming gradient (per_class unused) and out the zeroed gradient of the values.
    "sum_backward": {
        "before": "pass", "ignore": "pass", "refuse": "pass", "after": "pass",
        "body": "out[i * s3 + t * per_class + j * inner_out] = -x[i * s0 + j * inner_x] * w",
    },
    "mean_backward": {
        "before": "part = {T}(1.0 / info[0])", "ignore": "pass", "refuse": "pass", "after": "pass",
        "body": "out[i * s3 + t * per_class + j * inner_out] = -x[i * s0 + j * inner_x] * w * part",
    },
}  # fmt: skip
_VARIANTS["none_backward"] = _VARIANTS["sum_backward"]


@functools.cache
def kernel(kind: str, value: dtype, index: dtype, weighted: bool) -> int:
    """The address of ``sum``, ``mean``, ``none`` or their ``_backward``."""
    numbers = {"T": numpy_name(value)}
    parts = {name: text.format(**numbers) for name, text in _VARIANTS[kind].items()}
    weight = "weight[t * s2]" if weighted else f"{numpy_name(value)}(1)"
    text = _BODY.format(
        value=value.name,
        index=index.name,
        pointers=", ".join(f"p{i}" for i in range(5)),
        strides=", ".join(f"s{i}" for i in range(5)),
        weight=weight,
        **parts,
    )
    return cache.kernel(text, 5)


def _steps(shape: Shape, strides: Strides, rank: int) -> tuple[Shape, Strides]:
    """Sizes and strides brought to a rank: a lone row gets a first dimension, a matrix a last."""
    missing = rank - len(shape)
    lead, trail = ((1,) if missing > 1 else ()), ((1,) if missing else ())
    zeros = (0,) * len(lead), (0,) * len(trail)
    return (*lead, *shape, *trail), (*zeros[0], *strides, *zeros[1])


def plan(
    kind: str, values: Layout, target: Layout, weight: Layout | None, results: Layout, ignored: int
) -> tuple[drivers.Driver, np.ndarray]:
    """The driver and spec of a kernel.

    Args:
        values: log-probabilities, [n, classes, inner] or without inner or without both; or
            (backward) the gradient: a number, or of the shape of the targets.
        target: the shape of the log-probabilities without the classes.
        weight: [classes], or None.
        results: what is written: a number, or of the shape of the targets; or (backward) of the
            shape of the log-probabilities.
        ignored: the class that does not count.
    """
    backward = kind.endswith("_backward")
    of, other = (results, values) if backward else (values, results)
    (n, classes, inner), (outer, per_class, step) = _steps(of.shape, of.strides, 3)
    _, (outer_target, step_target) = _steps(target.shape, target.strides, 2)
    outer_other, step_other = 0, 0
    if other.shape == target.shape:
        _, (outer_other, step_other) = _steps(other.shape, other.strides, 2)
    x, out = (outer, step), (outer_other, step_other)
    if backward:
        x, out = out, x
    per_weight = weight.strides[0] if weight is not None else 0
    operands = [values.dtype, target.dtype, values.dtype, results.dtype, BY_NAME["float64"]]
    _, spec = drivers.plan_lines(
        kernel(kind, values.dtype, target.dtype, weight is not None),
        [n],
        [[x[0]], [outer_target], [per_weight], [out[0]], [0]],
        [d.itemsize for d in operands],
        extras=[classes, ignored, inner, per_class, x[1], step_target, out[1]],
    )
    return drivers.serial(5), spec  # one line: the totals are folded in order
