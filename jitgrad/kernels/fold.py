"""Kernels that fold one dimension: sum, product, largest, smallest of a formula.

A row says what is folded and how: ``combine`` the values of ``term``, then ``result`` of the total.
A kernel folds, for each of its n kept steps, the whole reduced dimension. There are two of each:

* by rows, in blocks of 1024 elements, where elements of a row are neighbours: many independent
  accumulators inside a block (LLVM vectorises), then the blocks' totals one after the other;
* by columns, where elements of different rows are neighbours: a tile of accumulators, one for each
  column, four rows at a time, vectorised along the columns.

Accuracy: a long sum is one of short sums (Higham, "The accuracy of floating point summation",
1993). float32 is summed in blocks of at most 1024 elements, of which no more than 32 (rows) or 64
(columns) follow one another in float32; the blocks' totals are added in float64, so the error does
not grow with the length. The totals of float64 blocks are added with their rounding errors (Knuth's
TwoSum). Products are formed in float64, integers in int64.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from .. import dtypes
from ..dtypes import BOOL, dtype
from . import cache
from .elementwise import load, numpy_name, store
from .expression import imports, parse, scalar_source

BLOCK = 1024  # elements of a row that are summed before their total is rounded to the accumulator
TILE = 1024  # columns at a time
ROWS = 256  # rows of a tile that are summed before their totals are added to the accumulators


class Combine(enum.Enum):
    """An associative operation; ``{a}`` and ``{b}`` have the type ``{t}``."""

    SUM = "{t}({a} + {b})"
    PRODUCT = "{t}({a} * {b})"
    LARGEST = "larger({a}, {b})"
    SMALLEST = "smaller({a}, {b})"


class Row(NamedTuple):
    """A reduction.

    Attributes:
        combine: how values are combined.
        term: formula of what is combined; names ``x``, ``kept`` and ``parameters``.
        result: formula of the result; names ``total``, ``count``, ``kept`` and ``parameters``.
        kept: inputs that do not vary along the reduced dimensions (a mean).
        parameters: numbers given by the caller.
    """

    combine: Combine
    term: str = "x"
    result: str = "total"
    kept: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()

    def staged(self, term: str, result: str) -> Row:
        """The row with another term or result, and only the names that these use."""
        used = parse(term).names + parse(result).names
        kept = tuple(name for name in self.kept if name in used)
        parameters = tuple(name for name in self.parameters if name in used)
        return Row(self.combine, term, result, kept, parameters)


class Types(NamedTuple):
    """The dtypes of a fold: of the term, of partial totals, and of totals."""

    term: dtype
    partial: dtype
    total: dtype


def types_of(row: Row, stored: dtype, out: dtype) -> Types:
    """The dtypes in which a row folds ``stored`` elements to an ``out`` result."""
    predicate = "!=" in row.term
    raw = dtypes.uint8 if stored.category == BOOL else stored.plain  # a bool is a byte, 0 or 1
    if row.combine in (Combine.LARGEST, Combine.SMALLEST):
        folded = dtypes.uint8 if predicate else dtypes.real_of(raw)
        return Types(raw, folded, folded)
    if out.is_floating_point:
        term = raw if predicate else out
        wide = row.combine is Combine.PRODUCT
        return Types(term, dtypes.float64 if wide else out, dtypes.float64)
    if out.is_complex:
        wide = row.combine is Combine.PRODUCT
        return Types(out, dtypes.complex128 if wide else out, dtypes.complex128)
    narrow = row.combine is Combine.SUM and (predicate or raw.itemsize < 4)
    return Types(raw, dtypes.int32 if narrow else dtypes.int64, dtypes.int64)


_HEAD = """
import numpy as np
from numba import njit
from jitgrad.kernels.abi import {pointers}
from jitgrad.kernels.extremes import larger, smaller
{functions}
T, P, A, F = {T}, {P}, {A}, {F}
{constants}
partial_identity, identity = P({partial_identity}), A({identity})
"""

# LLVM makes a vectorised version of each loop for strides of one, chosen when the loop is entered.
# For other strides it would, where sums may be reordered, gather elements: slower than to load
# them one by one.
_ROWS = """
@njit(error_model="numpy", fastmath={{"contract", "nsz"}})
def fold_apart(p0, r0, {scalars}n):
    a0 = p_{x}(p0)
    total = partial_identity
    total1, total2, total3 = partial_identity, partial_identity, partial_identity
    for i in range(n // 4):  # four apart, as an addition takes several cycles
        {read_four}
        {fold_four}
    total = {fold_apart}
    for i in range(n // 4 * 4, n):
        {read}
        total = {fold}
    return total

@njit(error_model="numpy", fastmath={{"reassoc", "contract", "nsz"}})
def fold(p0, r0, {scalars}n):
    if r0 != 1:
        return fold_apart(p0, r0, {scalars}n)
    a0 = p_{x}(p0)
    total = partial_identity
    for i in range(n):
        {read_unit}
        total = {fold}
    return total

def kernel({arguments}, n, extras):
    {unpack}
    block = {block} if r0 == 1 else {block} // 8
    for k in range(n):
        {kept}
        total, error = identity, identity
        for start in range(0, length, block):
            part = A(fold(p0 + start * r0 * {size}, r0, {scalars}min(block, length - start)))
            {combine}
        {finish}
        p0 += s0 * {size}
"""

_COLUMNS = """
def kernel({arguments}, n, extras):
    {unpack}
    a0 = p_{x}(p0)
    part, totals = scratch_{partial}({tile}), scratch_{total}({tile})
    {errors}
    for first in range(0, n, {tile}):
        w = min({tile}, n - first)
        for j in range(w):
            {clear}
        for start in range(0, length, {rows}):
            stop = min(start + {rows}, length)
            for j in range(w):
                part[j] = partial_identity
            for i in range(start, stop - 3, 4):
                for j in range(w):
                    {kept}
                    {read_four}
                    part[j] = {fold_four}
            for i in range(stop - (stop - start) % 4, stop):
                for j in range(w):
                    {kept}
                    {read}
                    part[j] = {fold}
            for j in range(w):
                {combine}
        for j in range(w):
            k = first + j
            {load_total}
            {finish}
"""


def _lines(lines: Sequence[str], spaces: int) -> str:
    return ("\n" + " " * spaces).join(lines) or "pass"


def _formula(text: str, d: dtype, kind: str) -> tuple[str, list[str]]:
    """Typed source of a formula in the type named ``kind``, with constants of its own names."""
    body, constants = scalar_source(text, d)

    def rename(line: str) -> str:
        return re.sub(r"\bc(\d+)\b", rf"{kind}\1", re.sub(r"\bT\b", kind, line))

    return rename(body), [rename(line) for line in constants.splitlines()]


def _identity(combine: Combine, d: dtype) -> str:
    if combine is Combine.SUM:
        return "0"
    if combine is Combine.PRODUCT:
        return "1"
    low = combine is Combine.LARGEST
    if d.is_floating_point:
        return "-np.inf" if low else "np.inf"
    return f"np.iinfo({numpy_name(d)}).{'min' if low else 'max'}"


def source(
    row: Row,
    x: dtype,
    kept: tuple[dtype, ...],
    out: dtype,
    t: Types,
    columns: bool,
) -> str:
    """The text of a fold kernel; operands are the reduced input, the kept ones, the result.

    Extras: the length, the count for ``result``, the input's step, the bytes from its first element
    to where the fold starts; then the parameters.
    """
    m = len(kept)
    raw = dtypes.uint8 if x.category == BOOL else x
    in_term, in_result = parse(row.term).names, parse(row.result).names
    term, constants = _formula(row.term, t.term, "T")
    result, result_constants = _formula(row.result, t.total, "F")
    leveled = t.partial is not t.total or t.total is dtypes.float64
    compensated = row.combine is Combine.SUM and x is dtypes.float64 is t.partial

    def combine(a: str, b: str, kind: str) -> str:
        return row.combine.value.format(a=a, b=b, t=kind)

    def read(index: str) -> str:
        return f"x = {load(f'a0[{index}]', raw, t.term)}"

    def read_kept(step: str) -> list[str]:
        return [
            f"{name} = T(b{i}[{step} * s{i}])"
            for i, name in enumerate(row.kept, 1)
            if name in in_term
        ]

    unpack = ["e, q = p_int64(extras), p_float64(extras)", "length, count = e[0], F(e[1])"]
    unpack += ["r0 = e[2]", "p0 += e[3]"]
    unpack += [f"b{i} = p_{d.name}(p{i})" for i, d in enumerate(kept, 1)]
    for i, name in enumerate(row.parameters):
        unpack += [f"q_{name} = q[{4 + i}]", f"{name} = T(q_{name})"]
    unpack.append(f"out = p_{out.name}(p{m + 1})")

    # The result is computed in another type than the term: under names of its own. A compensation
    # is NaN where the total is not finite.
    finish = ["total = total + error if error == error else total"] if compensated else []
    for i, name in enumerate((*row.kept, *row.parameters), 1):
        if name in in_result:
            value = f"b{i}[k * s{i}]" if i <= m else f"q_{name}"
            finish.append(f"{name}_ = F({value})")
            result = re.sub(rf"\b{name}\b", f"{name}_", result)
    finish += [f"answer = {result}", f"out[k * s{m + 1}] = {store('answer', out, t.total)}"]

    names = {f"p_{d.name}" for d in (raw, *kept, out)} | {"p_int64", "p_float64"}
    names |= {f"scratch_{d.name}" for d in (t.partial, t.total)}
    head = _HEAD.format(
        pointers=", ".join(sorted(names)),
        functions=_imports(row, t),
        T=numpy_name(t.term),
        P=numpy_name(t.partial),
        A=numpy_name(t.total),
        F=numpy_name(t.total),
        constants="\n".join(constants + result_constants),
        partial_identity=_identity(row.combine, t.partial),
        identity=_identity(row.combine, t.total),
    )
    arguments = ", ".join(f"{a}{i}" for a in "ps" for i in range(m + 2))

    def four(index: str) -> list[str]:
        return [line for u in range(4) for line in (read(index.format(u=u)), f"t{u} = P({term})")]

    pairs = combine(combine("t0", "t1", "P"), combine("t2", "t3", "P"), "P")
    if not columns:
        totals = ("total", "total1", "total2", "total3")
        scalars = [name for name in (*row.kept, *row.parameters) if name in in_term]
        return head + _ROWS.format(
            scalars="".join(f"{name}, " for name in scalars),
            x=raw.name,
            size=raw.itemsize,
            read_unit=read("i"),
            read_four=_lines(four("(4 * i + {u}) * r0"), 8),
            fold_four="; ".join(
                f"{total} = {combine(total, f't{u}', 'P')}" for u, total in enumerate(totals)
            ),
            fold_apart=combine(
                combine("total", "total1", "P"), combine("total2", "total3", "P"), "P"
            ),
            read=read("i * r0"),
            fold=combine("total", f"P({term})", "P"),
            arguments=arguments,
            unpack=_lines(unpack, 4),
            kept=_lines(read_kept("k"), 8),
            block=BLOCK if leveled else 1 << 30,
            combine=_lines(_two_sum("total", "error"), 12)
            if compensated
            else f"total = {combine('total', 'part', 'A')}",
            finish=_lines(finish, 8),
        )
    return head + _COLUMNS.format(
        arguments=arguments,
        unpack=_lines(unpack, 4),
        x=raw.name,
        partial=t.partial.name,
        total=t.total.name,
        tile=TILE,
        errors=f"errors = scratch_{t.total.name}({TILE})" if compensated else "",
        clear="totals[j], errors[j] = identity, identity"
        if compensated
        else "totals[j] = identity",
        rows=ROWS if leveled else 1 << 30,
        kept=_lines(read_kept("(first + j)"), 20),
        read_four=_lines(four("(i + {u}) * r0 + (first + j) * s0"), 20),
        fold_four=combine("part[j]", pairs, "P"),
        read=read("i * r0 + (first + j) * s0"),
        fold=combine("part[j]", f"P({term})", "P"),
        combine=_lines(_two_sum("totals[j]", "errors[j]", "part[j]"), 16)
        if compensated
        else f"totals[j] = {combine('totals[j]', 'A(part[j])', 'A')}",
        load_total="total, error = totals[j], errors[j]" if compensated else "total = totals[j]",
        finish=_lines(finish, 12),
    )


def _imports(row: Row, t: Types) -> str:
    if t.term.is_complex == t.total.is_complex:
        return imports((row.term, row.result), t.term)
    return imports((row.term,), t.term) + "\n" + imports((row.result,), t.total)


def _two_sum(total: str, error: str, part: str = "part") -> list[str]:
    """Add a part to a total, and what was rounded off to an error: exact, and without a branch."""
    return [
        f"new = {total} + {part}",
        f"back = new - {total}",
        f"{error} += ({total} - (new - back)) + ({part} - back)",
        f"{total} = new",
    ]


@functools.cache
def kernel(
    row: Row,
    x: dtype,
    kept: tuple[dtype, ...],
    out: dtype,
    types: Types,
    columns: bool,
) -> int:
    """The address of the kernel of a row for these dtypes, which goes by rows or by columns."""
    text = source(row, x, kept, out, types, columns)
    return cache.kernel(text, len(kept) + 2)
