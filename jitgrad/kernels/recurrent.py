"""Recurrent layers: a whole sequence as one launch, gates fused forward and backward.

A kernel walks all steps of a sequence for a few rows of the batch, which do not depend on the other
rows, so the drivers' usual cut of a line into tasks gives every thread sequences of its own and no
two threads ever wait for each other. Each step is one matrix product (the core of kernels/gemm) and
one pass over the units, which is what a row of :data:`CELLS` says.

Rows of a sequence lie step by step: step t has the rows ``start[t]`` to ``start[t] + count[t]``,
counts never growing with t (all alike, or PyTorch's packed sequences). The states of all rows are
updated in place; what a row's state is after its last step is therefore its final state, and in the
backward pass its gradient after its first step is that of its initial state.

==========  ====================================================================================
extras      address of the gemm core, number of steps, units, width of the output, whether it is
            projected, whether there is a bias (backward: a gradient of the output), distance of the
            weights of neighbouring states and columns; then start and count of each step in the
            order of the forward pass
==========  ====================================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..dtypes import dtype
from . import cache, drivers
from .gemm import drivers as gemm

ARITY = 11
TILE = 128  # units computed at a time, in arrays that LLVM knows to be no one else's
ROWS = 8  # of the batch that one task takes


class Cell(NamedTuple):
    """One kind of recurrent layer, for one unit of one row.

    Attributes:
        gates: rows of the weights for each unit.
        keeps: what is kept for the backward pass; before, these columns hold the products of the
            weights with the input and the state, ``x0``, ``x1`` ...
        blocks: where the products with the input go, and their bias: first gate, number of gates,
            first column. The products with the state, and their bias, go to the first columns.
        carried: which state the formulas name as ``c``: the cell's, the hidden one, or none.
        forward: from the columns (with the bias) and ``c`` to what is kept, ``c`` and ``h``.
        backward: from what is kept, ``c`` before the step, ``dh`` and ``dc`` to the gradients of
            the columns, ``g0``, ``g1`` ..., and what ``dh`` and ``dc`` of the step before get.
        direct: whether ``dh`` passes to the step before other than through the weights.
    """

    gates: int
    keeps: str
    blocks: tuple[tuple[int, int, int], ...]
    carried: str
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    direct: bool = False

    @property
    def kept(self) -> int:
        """The number of columns for each unit."""
        return len(self.keeps.split())


CELLS = {
    "lstm": Cell(  # Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000
        4, "i f u o", ((0, 4, 0),), "cell",
        ("i, f = sigmoid(x0), sigmoid(x1)", "u, o = tanh(x2), sigmoid(x3)",
         "c = f * c + i * u", "h = o * tanh(c)"),
        ("s = tanh(f * c + i * u)", "dc += dh * o * (one - s * s)",
         "g0, g1 = dc * u * i * (one - i), dc * c * f * (one - f)",
         "g2, g3 = dc * i * (one - u * u), dh * s * o * (one - o)", "dc *= f"),
    ),
    "gru": Cell(  # Cho et al. 2014, with the reset gate behind the product
        3, "r z v u", ((0, 2, 0), (2, 1, 3)), "hidden",
        ("r, z, v = sigmoid(x0), sigmoid(x1), x2", "u = tanh(x3 + r * v)", "h = u + z * (c - u)"),
        ("g3 = dh * (one - z) * (one - u * u)", "g1 = dh * (c - u) * z * (one - z)",
         "g0, g2 = g3 * v * r * (one - r), g3 * r", "dh *= z"),
        direct=True,
    ),
    "rnn_tanh": Cell(
        1, "y", ((0, 1, 0),), "none", ("y = tanh(x0)", "h = y"), ("g0 = dh * (one - y * y)",)
    ),
    "rnn_relu": Cell(
        1, "y", ((0, 1, 0),), "none", ("y = maximum(x0, zero)", "h = y"),
        ("g0 = where(y > zero, dh, zero)",),
    ),
}  # fmt: skip

_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import p_int64, p_{t}, scratch_{t}
from jitgrad.kernels.gemm.micro import allocate, call_core, release
from jitgrad.kernels.scalar import maximum, sigmoid, tanh, where
zero, one = np.{t}(0), np.{t}(1)

@njit(error_model="numpy")
def product(core, spec, m, n, k, a, a_row, b, b_row, b_col, c, c_row, accumulate):
    s = p_int64(spec)
    s[0], s[1], s[2], s[3], s[4], s[5] = 0, m, n, k, a_row, 1
    s[6], s[7], s[8], s[9], s[10] = b_row, b_col, c_row, 1, accumulate
    call_core(core, spec, a, b, c, 0, 1)

@njit(error_model="numpy")
def copy(source, target, n):
    a, b = p_{t}(source), p_{t}(target)
    for j in range(n):
        b[j] = a[j]

def kernel({pointers}, {strides}, n, extras):
    e = p_int64(extras)
    core, steps, units, width, projected, given = e[0], e[1], e[2], e[3], e[4], e[5]
    w_row, w_col = e[6], e[7]
    spec = allocate(88)
    own = p_int64(p10)[0]
    {scratch}
    {body}
    release(spec)
"""

# gates, weight, bias of the states, hidden state, cell state, output, previous, raw, weight of the
# projection, bias of the inputs
_FORWARD = """
    carried = {carried}
    sums = allocate({kept} * units * {size})
    bias, of_state, of_input = p_{t}(sums), p_{t}(p2), p_{t}(p9)
    for j in range({kept} * units):
        bias[j] = zero
    if given:
        for j in range({hidden} * units):
            bias[j] = of_state[j]
        {add_bias}
    for t in range(steps):
        start, count = e[8 + 2 * t], min(n, e[9 + 2 * t] - own)
        if count <= 0:
            continue
        gates, out = p0 + start * s0 * {size}, p5 + start * s5 * {size}
        product(core, spec, count, {hidden} * units, width, p3, s3, p1, w_row, w_col, gates, s0, 1)
        raw = p7 + start * s7 * {size} if projected else out
        raw_row = s7 if projected else s5
        for b in range(count):
            state = carried + b * {carried_step} * {size}
            if {carries}:
                copy(state, p6 + (start * s6 + b * s6) * {size}, units)
            for low in range(0, units, {tile}):
                m = min({tile}, units - low)
                place = gates + (b * s0 + low) * {size}
                shift = sums + low * {size}
                {views}
                c_ = p_{t}(state + low * {size})
                for j in range(m):
                    {read}
                    c = c_[j]
                    {formula}
                    {keep}
                    new_c[j] = c
                    new_h[j] = h
                for j in range(m):
                    {write}
                if {cell}:
                    for j in range(m):
                        c_[j] = new_c[j]
                target = p_{t}(raw + (b * raw_row + low) * {size})
                for j in range(m):
                    target[j] = new_h[j]
        if projected:
            product(core, spec, count, width, units, raw, raw_row, p8, width, 1, out, s5, 0)
        for b in range(count):
            copy(out + b * s5 * {size}, p3 + b * s3 * {size}, width)
    release(sums)
"""

# gates, weight, gradient of the output, of the hidden state, of the cell state, of the columns,
# previous, total gradient of the output, weight of the projection
_BACKWARD = """
    inner = allocate(n * units * {size}) if projected else 0
    for back in range(steps):
        t = steps - 1 - back
        start, count = e[8 + 2 * t], min(n, e[9 + 2 * t] - own)
        if count <= 0:
            continue
        columns = p5 + start * s5 * {size}
        if projected:
            for b in range(count):
                passed = p_{t}(p3 + b * s3 * {size})
                total = p_{t}(p7 + (start * s7 + b * s7) * {size})
                given_row = p_{t}(p2 + (start * s2 + b * s2) * {size})
                for j in range(width):
                    total[j] = passed[j] + given_row[j] if given else passed[j]
            product(core, spec, count, units, width, p7 + start * s7 * {size}, s7, p8, units, 1,
                    inner, units, 0)
        for b in range(count):
            for low in range(0, units, {tile}):
                m = min({tile}, units - low)
                place = p0 + (start * s0 + b * s0 + low) * {size}
                shift = columns + (b * s5 + low) * {size}
                {views}
                c_ = p_{t}(p6 + (start * s6 + b * s6 + low) * {size}) if {carries} else g_0
                dh_ = p_{t}(p3 + (b * s3 + low) * {size})
                dc_ = p_{t}(p4 + (b * s4 + low) * {size}) if {cell} else g_0
                if projected:
                    source = p_{t}(inner + (b * units + low) * {size})
                    for j in range(m):
                        new_h[j] = source[j]
                elif given:
                    source = p_{t}(p2 + (start * s2 + b * s2 + low) * {size})
                    for j in range(m):
                        new_h[j] = dh_[j] + source[j]
                else:
                    for j in range(m):
                        new_h[j] = dh_[j]
                for j in range(m):
                    {read}
                    c, dc, dh = c_[j], dc_[j], new_h[j]
                    {formula}
                    {keep}
                    new_c[j] = dc
                    new_h[j] = dh
                for j in range(m):
                    {write}
                if {cell}:
                    for j in range(m):
                        dc_[j] = new_c[j]
                if {direct}:
                    for j in range(m):
                        dh_[j] = new_h[j]
        product(core, spec, count, width, {hidden} * units, columns, s5, p1, w_row, w_col, p3, s3,
                {direct})
    if projected:
        release(inner)
"""


def source(cell: Cell, t: dtype, backward: bool) -> str:
    """The text of a kernel."""
    columns, names = range(cell.kept), cell.keeps.split()

    def each(pattern: str, separator: str = "; ") -> str:
        return separator.join(pattern.format(i=i, name=names[i], t=t.name, size=t.itemsize)
                              for i in columns)  # fmt: skip

    shift = "place + {i} * units * {size}"
    if backward:
        views = each("a_{i} = p_{t}(" + shift + ")") + "; "
        views += each("g_{i} = p_{t}(shift + {i} * units * {size})")
        read, keep, write = (
            each("{name} = a_{i}[j]"),
            each("k_{i}[j] = g{i}"),
            "g_{i}[j] = k_{i}[j]",
        )
    else:
        views = each("a_{i} = p_{t}(" + shift + ")") + "; "
        views += each("b_{i} = p_{t}(shift + {i} * units * {size})")
        read, keep = each("x{i} = a_{i}[j] + b_{i}[j]"), each("k_{i}[j] = {name}")
        write = "a_{i}[j] = k_{i}[j]"
    body = (_BACKWARD if backward else _FORWARD).format(
        t=t.name,
        size=t.itemsize,
        tile=TILE,
        hidden=cell.gates,
        kept=cell.kept,
        add_bias="".join(
            f"shift, place = {first} * units, {column} * units\n        for j in range({count} * "
            "units):\n            bias[place + j] += of_input[shift + j]\n        "
            for first, count, column in cell.blocks
        ),
        carries=cell.carried != "none",
        cell=cell.carried == "cell",
        carried="p4" if cell.carried == "cell" else "p3",
        carried_step="s4" if cell.carried == "cell" else "s3",
        direct=int(cell.direct),
        views=views,
        read=read,
        keep=keep,
        formula="; ".join(cell.backward if backward else cell.forward),
        write=each(write),
    )
    scratch = [f"k_{i} = scratch_{t.name}({TILE})" for i in columns]
    scratch += [f"new_{x} = scratch_{t.name}({TILE})" for x in "ch"]
    return _HEAD.format(
        t=t.name,
        pointers=", ".join(f"p{i}" for i in range(ARITY)),
        strides=", ".join(f"s{i}" for i in range(ARITY)),
        scratch="; ".join(scratch),
        body=body,
    )


@functools.cache
def _kernel(kind: str, t: dtype, backward: bool) -> int:
    return cache.kernel(source(CELLS[kind], t, backward), ARITY)


def plan(
    kind: str,
    t: dtype,
    backward: bool,
    rows: Sequence[int],
    steps: Sequence[tuple[int, int]],
    units: int,
    width: int,
    weight: tuple[int, int],
    *,
    projected: bool,
    given: bool,
) -> tuple[drivers.Driver, np.ndarray]:
    """The driver and spec of a pass over a sequence.

    Args:
        rows: the distance between rows of each operand but the last, which numbers the rows; 0 for
            what all rows share.
        steps: start and count of each step.
        width: of the output: ``units``, unless that is projected.
        weight: the distances of neighbouring states and columns in the weights.
        given: whether there is a bias, or (backward) a gradient of the output.
    """
    batch = max(count for _, count in steps)
    extras = [gemm.core(t.name, None), len(steps), units, width, int(projected), int(given)]
    extras += weight
    for step in steps:
        extras += step
    strides = [[x] for x in (*rows, 1)]
    sizes = [t.itemsize] * (ARITY - 1) + [8]
    work = len(steps) * units * CELLS[kind].kept * (width // 4 + 16)
    run, spec = drivers.plan_lines(
        _kernel(kind, t, backward), [batch], strides, sizes, extras=extras, work=work
    )
    spec[5] = ROWS
    return run, spec
