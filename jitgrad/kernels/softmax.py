"""Kernels that read a line, fold it, and write it changed: softmax, log_softmax, their gradients.

A row of the table has up to three stages along the line: its largest element ``peak``; the sum
``total`` of ``term``, which may be kept in the result meanwhile, where the last stage finds it as
``y``; and ``write``, the result. One launch does all three for each of its n lines. Lines whose
elements are neighbours are walked one by one; otherwise a tile of neighbouring lines is walked
element by element, each stage vectorised across the tile. Sums are accumulated as in fold.py.
16-bit floats compute ``term`` twice instead: kept in the result it would be rounded.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..dtypes import dtype
from ..layout import Layout
from . import cache
from .elementwise import load, numpy_name
from .expression import parse
from .launch import Program, along

TILE = 256  # lines walked together: so few that the later stages find their elements in a cache


class Line(NamedTuple):
    """What is done to a line.

    Formulas name ``inputs``, ``peak``, ``total``, ``log_total`` and ``y``.
    """

    inputs: tuple[str, ...]
    peak: bool
    term: str
    keep: bool
    write: str


LINES = {
    "softmax": Line(("x",), True, "exp(x - peak)", True, "y / total"),
    "log_softmax": Line(("x",), True, "exp(x - peak)", False, "x - peak - log_total"),
    "softmax_backward": Line(("grad", "y"), False, "grad * y", False, "y * (grad - total)"),
    "log_softmax_backward": Line(("grad", "y"), False, "grad", False, "grad - exp(y) * total"),
}

_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import {pointers}
from jitgrad.kernels.extremes import larger
from jitgrad.kernels.scalar import exp, log
T = {T}
lowest = T(-np.inf)
"""

_LARGEST = """
@njit(error_model="numpy")
def largest(p0, r0, n):
    a0 = p_{x}(p0)
    peak = lowest
    for i in range(n):
        peak = larger(peak, {read})
    return peak
"""

_ROWS = """
@njit(error_model="numpy", fastmath={{"reassoc", "contract", "nsz"}})
def fold({addresses}, {steps}, peak, n):
    {views}
    total = T(0)
    for i in range(n):
        {read_term}
        value = {term}
        {keep}
        total += value
    return total

def kernel({arguments}, n, extras):
    {unpack}
    for k in range(n):
        {views}
        peak = {peak}
        exact = 0.0
        for start in range(0, length, 1024):
            exact += np.float64(fold({block}, {steps}, peak, min(1024, length - start)))
        total, log_total = T(exact), {log_total}
        for i in range(length):
            {read_write}
            {out} = {write}
        {advance}
"""

_COLUMNS = """
def kernel({arguments}, n, extras):
    {unpack}
    {views}
    peaks, logs, part = scratch_{t}({tile}), scratch_{t}({tile}), scratch_{t}({tile})
    totals = scratch_float64({tile})
    for first in range(0, n, {tile}):
        w = min({tile}, n - first)
        for j in range(w):
            peaks[j], totals[j] = lowest, 0.0
        {peak}
        for start in range(0, length, 256):
            for j in range(w):
                part[j] = T(0)
            for i in range(start, min(start + 256, length)):
                for j in range(w):
                    peak = peaks[j]
                    {read_term}
                    value = {term}
                    {keep}
                    part[j] += value
            for j in range(w):
                totals[j] += np.float64(part[j])
        for j in range(w):
            exact = totals[j]
            part[j], logs[j] = T(exact), {log_total}
        for i in range(length):
            for j in range(w):
                peak, total, log_total = peaks[j], part[j], logs[j]
                {read_write}
                {out} = {write}
"""

_COLUMN_PEAKS = """for i in range(length):
            for j in range(w):
                peaks[j] = larger(peaks[j], {read})"""


def source(line: Line, inputs: Sequence[dtype], t: dtype, columns: bool) -> str:
    """The text of a kernel: operands are the inputs and the result, which has dtype ``t``."""
    k = len(inputs)
    operands = [*inputs, t]
    if line.keep and t.compute is not t:
        line = line._replace(keep=False, write=re.sub(r"\by\b", f"({line.term})", line.write))
    in_term, in_write = parse(line.term).names, parse(line.write).names
    at = "i * r{i} + (first + j) * s{i}" if columns else "i * r{i}"
    out = f"a{k}[{at.format(i=k)}]"

    def each(pattern: str, separator: str = "; ") -> str:
        return separator.join(
            pattern.format(i=i, d=d.name, b=d.itemsize) for i, d in enumerate(operands)
        )

    def element(i: int) -> str:
        return load(f"a{i}[{at.format(i=i)}]", inputs[i], t)

    def reads(used: Sequence[str]) -> str:
        return "; ".join(
            f"{name} = {element(i)}" for i, name in enumerate(line.inputs) if name in used
        )

    names = {f"p_{d.name}" for d in operands} | {f"scratch_{t.name}"}
    pointers = ", ".join(sorted(names | {"p_int64", "scratch_float64"}))
    head = _HEAD.format(pointers=pointers, T=numpy_name(t))
    largest = ""
    if line.peak:
        largest = (_COLUMN_PEAKS if columns else _LARGEST).format(x=inputs[0].name, read=element(0))
    common = {
        "arguments": ", ".join(f"{a}{i}" for a in "ps" for i in range(k + 1)),
        "unpack": "e = p_int64(extras); length = e[0]; "
        + "; ".join(f"r{i} = e[{1 + i}]" for i in range(k + 1)),
        "views": each("a{i} = p_{d}(p{i})"),
        "read_term": reads(in_term),
        "term": line.term,
        "keep": f"{out} = value" if line.keep else "pass",
        "read_write": f"y = {out}" if line.keep else reads(in_write),
        "log_total": "T(log(exact))" if "log_total" in in_write else "T(0)",
        "write": line.write,
    }
    if columns:
        return head + _COLUMNS.format(
            t=t.name, tile=TILE, peak=largest or "pass", out=out, **common
        )
    return (
        head
        + largest
        + _ROWS.format(
            addresses=each("p{i}", ", "),
            steps=each("r{i}", ", "),
            peak="largest(p0, r0, length)" if line.peak else "lowest",
            block=each("p{i} + start * r{i} * {b}", ", "),
            out=out,
            advance=each("p{i} += s{i} * {b}"),
            **common,
        )
    )


def plan(kind: str, inputs: Sequence[Layout], dim: int, out: Layout) -> Program:
    """The program of a kind of :data:`LINES` along ``dim``; all layouts have one shape.

    It computes in the out dtype, which must be floating. The result may be an input itself.
    """

    def kernel(columns: bool) -> int:
        return _kernel(kind, tuple(x.dtype for x in inputs), out.dtype, columns)

    return along(kernel, (*inputs, out), dim, work=8)


@functools.cache
def _kernel(kind: str, inputs: tuple[dtype, ...], t: dtype, columns: bool) -> int:
    return cache.kernel(source(LINES[kind], inputs, t, columns), len(inputs) + 1)
