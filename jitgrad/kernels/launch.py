"""Programs: a few kernel launches in a row, with temporaries between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ..layout import Layout, coalesce, iteration_order
from . import drivers

LANES = 256  # columns that a task of a column-wise kernel gets at least: whole cache lines
_BYTE = np.dtype(np.uint8)


class Program(NamedTuple):
    """A bound computation: ``run(buffer, offset, ...)``, inputs first, then results."""

    run: Callable[..., None]


class Nest(NamedTuple):
    """Loop sizes and, for each operand, its strides in elements."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    def merged(self, in_order: bool = False) -> Nest:
        """Neighbours merged and sizes of one dropped; by default sorted by stride before."""
        order: Sequence[int] = range(len(self.sizes))
        if not in_order:
            order = iteration_order(self.sizes, self.strides)
        sizes, strides = coalesce(
            [self.sizes[d] for d in order], [[s[d] for d in order] for s in self.strides]
        )
        return Nest(tuple(sizes), tuple(tuple(s) for s in strides))

    def columnwise(self, step: int) -> bool:
        """Whether a kernel should walk many lines at a time, because elements of neighbouring lines
        are nearer than those of one line (``step`` apart). For a merged nest."""
        return bool(self.sizes) and self.sizes[-1] >= 8 and self.strides[0][-1] < step != 1


CHUNK = 16384  # reduced elements that one task gets where few elements are kept
FEW = 16  # kept elements below which a long reduction is cut


def parts_of(length: int, kept: int) -> tuple[int, int, int]:
    """Into how many parts of which size a reduced dimension is cut, and what remains.

    A function of the sizes alone; one part where cutting does not pay.
    """
    if kept >= FEW or length * kept < 8 * CHUNK:
        return 1, length, 0
    size = max(1, CHUNK // kept)
    return length // size, size, length % size


class Operand:
    """A buffer of a program: one of the caller's (``index``), or a part of its scratch memory."""

    __slots__ = ("index", "offset")

    def __init__(self, index: int | None, offset: int = 0) -> None:
        self.index = index
        self.offset = offset

    def moved(self, nbytes: int) -> Operand:
        """The operand from a later byte on; only for scratch memory, whose offsets are known."""
        assert self.index is None
        return Operand(None, self.offset + nbytes)


class Builder:
    """Collects the launches of a program over ``count`` operands of the caller's."""

    def __init__(self, count: int) -> None:
        self.operands = [Operand(i) for i in range(count)]
        self._launches: list[tuple[drivers.Driver, np.ndarray, Sequence[Operand]]] = []
        self._scratch = 0

    def temporary(self, nbytes: int) -> Operand:
        """Scratch memory, allocated anew by each run."""
        offset = self._scratch
        self._scratch += -(-nbytes // 64) * 64
        return Operand(None, offset)

    def launch(
        self,
        address: int,
        nest: Nest,
        itemsizes: Sequence[int],
        operands: Sequence[Operand],
        *,
        extras: Sequence[int] = (),
        work: int = 1,
        columns: bool = False,
        whole: bool = False,
    ) -> None:
        """Add a launch of a kernel over a merged nest.

        ``work`` is the cost of a step in elements of a cheap operation; ``columns`` says that the
        kernel is faster on many steps at a time than on few, ``whole`` that it must get all steps
        of the innermost loop at once.
        """
        if prod(nest.sizes) == 0:
            return
        sizes, strides = nest.sizes or (1,), nest.strides
        if not nest.sizes:
            strides = ((1,),) * len(strides)
        run, spec = drivers.plan_lines(
            address, sizes, strides, itemsizes, extras=extras, work=max(1, work)
        )
        if whole:
            spec[5] = max(spec[2], 1)
        elif columns:
            spec[5] = min(max(spec[2], 1), max(spec[5], LANES))
        self._launches.append((run, spec, operands))

    def program(self) -> Program:
        """What was collected, bound."""
        count = len(self.operands)
        if len(self._launches) == 1 and self._launches[0][2] == self.operands:
            run, spec, _ = self._launches[0]
            return Program(partial(run, spec))
        constants: list[int] = []
        steps = []
        for run, spec, operands in self._launches:
            picked: list[int] = []
            for operand in operands:
                if operand.index is None:
                    picked += (2 * count, 2 * count + 1 + len(constants))
                    constants.append(operand.offset)
                else:
                    picked += (2 * operand.index, 2 * operand.index + 1)
            steps.append((run, spec, itemgetter(*picked)))
        size, offsets, empty = self._scratch, tuple(constants), np.empty

        def run_all(*operands: object) -> None:
            everything = (*operands, empty(size, _BYTE), *offsets)
            for run, spec, pick in steps:
                run(spec, *pick(everything))

        return Program(run_all)


def along(
    kernel: Callable[[bool], int], operands: Sequence[Layout], dim: int, *, work: int
) -> Program:
    """The program of one kernel that walks the lines along ``dim`` of operands of one shape.

    Its extras are the length and each operand's stride; ``work`` is the cost of an element.
    ``kernel(columns)`` is the address of its variant.
    """
    builder = Builder(len(operands))
    shape = operands[0].shape or (1,)
    strides = [x.strides or (1,) for x in operands]
    if shape[dim] == 0:
        return builder.program()
    kept = Nest(
        shape[:dim] + shape[dim + 1 :], tuple(s[:dim] + s[dim + 1 :] for s in strides)
    ).merged()
    columns = kept.columnwise(strides[0][dim])
    builder.launch(
        kernel(columns),
        kept,
        [x.dtype.itemsize for x in operands],
        builder.operands,
        extras=[shape[dim], *(s[dim] for s in strides)],
        work=work * shape[dim],
        columns=columns,
    )
    return builder.program()
