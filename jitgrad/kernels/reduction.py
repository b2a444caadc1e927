"""Reductions: from a kind, layouts and dimensions to a program.

The interface::

    program = plan(kind, inputs, dims, outs, **parameters)  # per layouts; cached by the caller
    program.run(in_buffer, in_offset, ..., out_buffer, out_offset, ...)

``inputs`` and ``outs`` are layouts, ``dims`` normalised and unique; an out has either the input's
rank (kept dimensions of size one) or that of the kept dimensions alone. Dtypes are the caller's
choice: a sum folds in the out dtype, extremes in the input dtype, whatever is then stored is cast.
Empty reductions give the identity; whether that is an error is for the caller to know.

========================================  ======================================================
kind                                      inputs -> outs
========================================  ======================================================
sum nansum mean prod square_sum           x -> out
amax amin any all count_nonzero           x -> out
norm (p=)                                 x -> out: (sum |x|^p)^(1/p); any p, 0 and +-inf too
var std (degrees=)                        x -> out, or x, mean -> out, where the mean has the
                                          shape of out: sum (x - mean)^2 / degrees
logsumexp                                 x -> out
argmax argmin                             x -> indices; over all dims the row-major flat index
max min                                   x -> values, indices (along one dim, or flat)
========================================  ======================================================

    program = plan_along(kind, inputs, dim, out)           # one line in, one line out

========================================  ======================================================
softmax log_softmax                       x -> out
softmax_backward log_softmax_backward     grad, result -> out
cumsum cumprod logcumsumexp               x -> out
cummax cummin                             x -> values, indices (give both outs)
========================================  ======================================================

Method: the reduced dimensions are sorted by stride and merged; what does not merge into one takes
one pass per dimension, the innermost first, through temporaries in the accumulator's dtype. A long
reduction with few kept elements is cut into chunks by its size alone, so that threads can share it
and the bits do not depend on their number. fold.py has the kernels' methods and accuracy.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import NamedTuple

from .. import errors
from ..dtypes import PARTS, dtype
from ..layout import Layout, contiguous_strides, expand_strides, layout, parts
from . import extremum, fold, scan, softmax
from .expression import parse
from .fold import Combine, Row
from .launch import Builder, Nest, Operand, Program, parts_of

_SQUARE = "(x - mean) * (x - mean)"
_SPREAD = "total / degrees"
_SHIFT = "where(isfinite(peak), peak, 0)"  # exp(-inf - -inf) would be NaN

ROWS: dict[str, Row] = {
    "sum": Row(Combine.SUM),
    "nansum": Row(Combine.SUM, "where(isnan(x), 0, x)"),
    "mean": Row(Combine.SUM, "x", "total / count"),
    "prod": Row(Combine.PRODUCT),
    "amax": Row(Combine.LARGEST),
    "amin": Row(Combine.SMALLEST),
    "any": Row(Combine.LARGEST, "x != 0"),
    "all": Row(Combine.SMALLEST, "x != 0"),
    "count_nonzero": Row(Combine.SUM, "x != 0"),
    "norm1": Row(Combine.SUM, "abs(x)"),
    "norm2": Row(Combine.SUM, "x * x", "sqrt(total)"),
    "square_sum": Row(Combine.SUM, "x * x"),
    "norm_inf": Row(Combine.LARGEST, "abs(x)"),
    "norm_-inf": Row(Combine.SMALLEST, "abs(x)"),
    "norm_p": Row(Combine.SUM, "pow(abs(x), p)", "pow(total, 1 / p)", parameters=("p",)),
    "var": Row(Combine.SUM, _SQUARE, _SPREAD, kept=("mean",), parameters=("degrees",)),
    "std": Row(Combine.SUM, _SQUARE, f"sqrt({_SPREAD})", kept=("mean",), parameters=("degrees",)),
    "logsumexp": Row(
        Combine.SUM, f"exp(x - {_SHIFT})", f"log(total) + {_SHIFT}", kept=("peak",)
    ),
}  # fmt: skip

# What computes a kept input that the caller does not give.
_BEFORE = {"mean": "mean", "peak": "amax"}

_NORMS = {0.0: "count_nonzero", 1.0: "norm1", 2.0: "norm2", inf: "norm_inf", -inf: "norm_-inf"}


class Source(NamedTuple):
    """An operand of a fold: where it lies, and its strides along the kept dimensions."""

    operand: Operand
    dtype: dtype
    strides: tuple[int, ...]


def plan(
    kind: str,
    inputs: Sequence[Layout],
    dims: Sequence[int],
    outs: Sequence[Layout],
    **parameters: float,
) -> Program:
    """The program of a reduction; see the head of this module."""
    inputs, outs = list(inputs), list(outs)
    if kind in ("sum", "mean") and all(of.dtype in PARTS for of in (*inputs, *outs)):
        # Complex sums are those of both parts, which lie like one more dimension.
        if outs[0].ndim != inputs[0].ndim:
            outs = [_with_dims(outs[0], inputs[0], dims)]
        inputs, outs = [parts(x) for x in inputs], [parts(x) for x in outs]
    builder = Builder(len(inputs) + len(outs))
    x = inputs[0]
    dims = [d for d in dims if d < x.ndim]  # a 0-d tensor may be reduced along its dim 0
    keep = [d for d in range(x.ndim) if d not in dims]
    sizes = tuple(x.shape[d] for d in keep)

    def strides(of: Layout) -> tuple[int, ...]:
        """The strides along the kept dimensions of an operand of either rank."""
        if of.ndim == x.ndim:
            full = expand_strides(of.shape, of.strides, x.shape)
            return tuple(full[d] for d in keep)
        return expand_strides(of.shape, of.strides, sizes)

    def reduced(order: Sequence[int]) -> Nest:
        return Nest(tuple(x.shape[d] for d in order), (tuple(x.strides[d] for d in order),))

    layouts = (*inputs, *outs)
    if kind in extremum.KINDS:
        kept = Nest(sizes, tuple(strides(of) for of in layouts))
        # Its answer is an index, so the dimensions keep their order.
        extremum.build(builder, kind, x.dtype, kept, reduced(sorted(dims)).merged(in_order=True))
        return builder.program()

    if kind == "norm":
        kind = _NORMS.get(parameters["p"], "norm_p")
    row = ROWS[kind]
    if kind in ("amax", "amin") and x.dtype.is_complex:
        raise errors.unsupported(kind, x.dtype)
    nest = reduced(dims).merged()
    count = prod(x.shape[d] for d in dims)
    sources = [
        Source(operand, of.dtype, strides(of))
        for operand, of in zip(builder.operands, layouts, strict=True)
    ]
    target = sources.pop()
    for name in row.kept[len(inputs) - 1 :]:
        before = ROWS[_BEFORE[name]]
        # A mean keeps the accumulator's precision.
        d = fold.types_of(before, x.dtype, outs[0].dtype).total
        temporary = builder.temporary(prod(sizes) * d.itemsize)
        sources.append(Source(temporary, d, contiguous_strides(sizes)))
        _fold(builder, before, sources[:1], sources[-1], sizes, nest, count, {})
    _fold(builder, row, sources, target, sizes, nest, count, parameters)
    return builder.program()


def _with_dims(out: Layout, x: Layout, dims: Sequence[int]) -> Layout:
    """The layout of a result with the reduced dimensions put back, of size one."""
    strides = iter(out.strides)
    kept = [d not in dims for d in range(x.ndim)]
    shape = tuple(n if keep else 1 for n, keep in zip(x.shape, kept, strict=True))
    return layout(shape, tuple(next(strides) if keep else 0 for keep in kept), out.dtype)


def plan_along(
    kind: str, inputs: Sequence[Layout], dim: int, out: Layout | Sequence[Layout]
) -> Program:
    """The program of a kernel that maps each line along ``dim`` to a line of the same length.

    All layouts have one shape; in-place use is fine. Softmax computes in the out dtype.
    """
    outs = [out] if isinstance(out, Layout) else out
    if kind in softmax.LINES:
        return softmax.plan(kind, inputs, dim, outs[0])
    if kind == "cumsum" and inputs[0].dtype in PARTS and outs[0].dtype in PARTS:
        return scan.plan(kind, parts(inputs[0]), dim, [parts(outs[0])])
    return scan.plan(kind, inputs[0], dim, outs)


def bits(number: float) -> int:
    """A float64 as the int64 that holds its bits: a parameter among a kernel's extras."""
    return struct.unpack("<q", struct.pack("<d", number))[0]


def _fold(
    builder: Builder,
    row: Row,
    sources: Sequence[Source],
    target: Source,
    sizes: tuple[int, ...],
    reduced: Nest,
    count: int,
    parameters: Mapping[str, float],
    types: fold.Types | None = None,
) -> None:
    """Add the launches that fold ``reduced`` (of the first source) for each kept element.

    Args:
        sources: the reduced input, then the row's kept inputs.
        sizes: the kept sizes.
        reduced: sizes and strides of the reduced dimensions, merged, slowest first.
        count: what the row's ``result`` names so.
        types: of a fold of partial totals.
    """
    types = types or fold.types_of(row, sources[0].dtype, target.dtype)

    x, kept = sources[0], dict(zip(row.kept, sources[1:], strict=True))
    elements = prod(sizes)

    def launch(row: Row, piece: Piece, operands: Sequence[Source]) -> None:
        nest = Nest(piece.sizes + sizes, tuple(s.strides for s in operands)).merged()
        columns = nest.columnwise(piece.step)
        first, *others, out = (s.dtype for s in operands)
        extras = [piece.length, count, piece.step, piece.start * first.itemsize]
        builder.launch(
            fold.kernel(row, first, tuple(others), out, types, columns),
            nest,
            [s.dtype.itemsize for s in operands],
            [s.operand for s in operands],
            extras=extras + [bits(parameters[name]) for name in row.parameters],
            work=max(1, piece.length) * (1 + 4 * len(parse(row.term).functions)) // 2,
            columns=columns,
        )

    partial, final = row.staged(row.term, "total"), row.staged("x", row.result)
    pieces = _pieces(reduced, Nest(sizes, (x.strides,)).merged(), bool(partial.kept))
    if len(pieces) == 1 and not pieces[0].sizes:
        launch(row, pieces[0], [*sources, target])
        return

    # The totals of the pieces go to a temporary with the kept dimensions innermost, so that what is
    # left to fold is a single dimension of it.
    inner = contiguous_strides(sizes)
    d = types.total
    slots = sum(prod(piece.sizes) for piece in pieces)
    temporary = builder.temporary(slots * elements * d.itemsize)
    at = temporary
    for piece in pieces:
        outer = tuple(s * elements for s in contiguous_strides(piece.sizes))
        operands = [x._replace(strides=piece.strides + x.strides)]
        for name in partial.kept:
            operands.append(kept[name]._replace(strides=(0,) * len(outer) + kept[name].strides))
        launch(partial, piece, [*operands, Source(at, d, outer + inner)])
        at = at.moved(prod(piece.sizes) * elements * d.itemsize)
    _fold(
        builder,
        final,
        [Source(temporary, d, inner), *(kept[name] for name in final.kept)],
        target,
        sizes,
        Nest((slots,), ((elements,),)),
        count,
        parameters,
        fold.Types(d, d, d),
    )


class Piece(NamedTuple):
    """Part of a reduction that one launch does: a fold of ``length`` elements, ``step`` apart, for
    each element of a nest of further dimensions, ``start`` elements from the first."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    length: int
    step: int
    start: int = 0


NARROW = 128  # columns below which several rows are folded side by side
WIDE = 512  # columns that these make together
STACK = 512  # and rows of them in a piece


def _pieces(reduced: Nest, kept: Nest, dependent: bool) -> list[Piece]:
    """How a reduction is cut: by its geometry alone, never by the number of threads.

    Both nests are merged; ``dependent`` says that the term varies with the kept element.
    """
    *others, length = reduced.sizes or (1,)
    *other_strides, step = reduced.strides[0] or (1,)
    elements = prod(kept.sizes)
    if 0 in reduced.sizes:
        return [Piece((), (), 0, 1)]
    if others:
        return [Piece(tuple(others), tuple(other_strides), length, step)]
    packed = kept.strides[0] == (1,) and step == elements and elements < NARROW
    if packed and not dependent and length * elements >= 16 * WIDE:
        # A few columns, row after row: fold each of m neighbouring rows apart, as m times as many
        # columns.
        m = WIDE // elements
        tall = length // (m * STACK)
        rest = length % (m * STACK)
        pieces = [
            Piece((tall, m), (STACK * m * step, step), STACK, m * step),
            Piece((m,), (step,), rest // m, m * step, (length - rest) * step),
            Piece((1,), (0,), rest % m, step, (length - rest % m) * step),
        ]
        return [piece for piece in pieces if piece.length and prod(piece.sizes)]
    parts, size, rest = parts_of(length, elements)
    if parts == 1:
        return [Piece((), (), length, step)]
    pieces = [Piece((parts,), (size * step,), size, step)]
    if rest:
        pieces.append(Piece((1,), (0,), rest, step, parts * size * step))
    return pieces
