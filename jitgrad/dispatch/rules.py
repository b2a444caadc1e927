"""Update rules as text: one compiled kernel, and one launch, for any number of tensors.

A rule is a sequence of assignments over the names of a parameter, its gradient, its state and some
numbers, for instance SGD with momentum::

    momentum_buffer = momentum * momentum_buffer + rate * grad
    param = param - lr * momentum_buffer

Every tensor is read once, and those that are assigned to are written back. What depends on single
numbers alone (a count of steps and what follows from it) has texts of its own, computed in float64
once per parameter. Options are read from an array, so a new learning rate compiles nothing. The
same texts, read as expressions over Tensors, are the differentiable form of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .. import errors
from ..autograd.grad_mode import no_grad
from ..dtypes import BY_NAME, dtype
from ..errors import Written
from ..kernels import batch, cache, drivers
from ..kernels.rule import Operands
from ..layout import Layout, iteration_order, layout
from ..state import modes
from ..tensor import Tensor
from .elementwise import check_memory, check_writable, functions
from .plans import PlanCache

Launch = Callable[[tuple[np.ndarray, ...], np.ndarray, np.ndarray], None]
_FLOAT64 = BY_NAME["float64"]


class Rule:
    """An update rule.

    Args:
        tensors: names of what has one shape, a parameter's say; of those ``grad`` is never written.
        scalars: names of the state's single numbers.
        numbers: names of the options.
        before: assignments to scalars that come first.
        once: what is computed of scalars and options, once for all elements of a parameter.
        each: what is computed for each element; names that are nothing else are temporaries.
        after: assignments to scalars that come last.
    """

    def __init__(
        self,
        tensors: str,
        scalars: str,
        numbers: str,
        each: Sequence[str],
        *,
        before: Sequence[str] = (),
        once: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> None:
        self.tensors = tuple(tensors.split())
        self.scalars = tuple(scalars.split())
        self.numbers = tuple(numbers.split())
        self.names = (*self.tensors, *self.scalars)
        self.before, self.once, self.each, self.after = map(_split, (before, once, each, after))
        assigned = {name for name, _ in (*self.before, *self.each, *self.after)}
        self._written = [i for i, x in enumerate(self.names) if x in assigned and x != "grad"]
        self._wide = tuple(x in self.tensors for x in self.names)
        self._plans = PlanCache()

    # Compiled -------------------------------------------------------------------------------------
    def run(
        self, tensors: Sequence[Tensor], numbers: Sequence[float], where: Written | None
    ) -> None:
        """Apply the rule in place, unrecorded, by one launch for all parameters of a dtype.

        Args:
            tensors: in the order of the names, the ones of all parameters in a row.
            numbers: the options, in the order of their names.
            where: the caller's line, for errors about what was overwritten.
        """
        count = len(self.names)
        first = tensors[::count]
        if len(set(map(id, first))) < len(first):  # one is written to twice: in turn, then
            for i in range(0, len(tensors), count):
                self.run(tensors[i : i + count], numbers, where)
            return
        key = tuple([t.layout for t in tensors])
        launches = self._plans.get(key)
        if launches is None:
            for p in first:
                check_memory(p, ())
            launches = self._plans.add(key, self._launches(key))
        for p in first:
            if p.storage.owner is not None:
                check_writable(p)
        written = [tensors[i::count] for i in self._written]
        if modes.before_write is not None:
            for t in chain.from_iterable(written):
                modes.before_write(t)
        try:
            for several in written:
                for t in several:
                    counter = t.counter
                    counter.version += 1
                    counter.writer = where
        except RuntimeError:  # writes to these are not counted
            raise errors.inference_inplace() from None
        buffers = tuple([t.storage.buffer for t in tensors])
        offsets = np.array([t.offset for t in tensors], np.int64)
        values = np.array(numbers, np.float64)
        for launch in launches:
            launch(buffers, offsets, values)

    def _launches(self, layouts: tuple[Layout, ...]) -> list[Launch]:
        """One launch for all rows of the same dtypes; rows that have gaps get one each."""
        count, wide = len(self.names), len(self.tensors)
        together: dict[tuple[dtype, ...], list[int]] = {}
        launches = []
        for place in range(0, len(layouts), count):
            row = tuple(map(_as_real, layouts[place : place + count]))
            self._check(row)
            if all(x.dense and x.strides == row[0].strides for x in row[:wide]):
                together.setdefault(tuple(x.dtype for x in row), []).append(place)
            else:
                launches.append(self._apart(place, row))
        for stored, places in together.items():
            lengths = [_as_real(layouts[i]).numel for i in places]
            launches.append(self._together(stored, places, lengths))
        return launches

    def _check(self, row: tuple[Layout, ...]) -> None:
        """Raise if a state (loaded from elsewhere, say) does not fit its parameter."""
        for name, wide, x in zip(self.names, self._wide, row, strict=True):
            if x.shape != row[0].shape if wide else x.numel != 1:
                raise RuntimeError(
                    f"optimizer step: {name!r} has shape {list(x.shape)}, which does not fit its "
                    f"parameter of shape {list(row[0].shape)}: it must match the size of the "
                    "parameter"
                    if wide
                    else f"optimizer step: {name!r} has {x.numel} elements, but must have one"
                )

    def _kernels(self, stored: Sequence[dtype]) -> tuple[int, int, int]:
        """The addresses of what runs on elements, before them and after them."""
        operands = Operands(self.tensors, self.scalars, self.numbers, stored)
        arity = len(self.names) + 1
        main = cache.kernel(operands.element_kernel(self.once, self.each), arity)
        before, after = (
            cache.kernel(operands.scalar_kernel(steps), arity) if steps else 0
            for steps in (self.before, self.after)
        )
        return main, before, after

    def _together(
        self, stored: tuple[dtype, ...], places: Sequence[int], lengths: Sequence[int]
    ) -> Launch:
        run, spec = batch.plan(
            self._kernels(stored),
            self._wide,
            [d.itemsize for d in stored],
            places,
            lengths,
            work=len(self.each),
        )
        return lambda buffers, offsets, numbers: run(spec, buffers, offsets, numbers)

    def _apart(self, place: int, row: tuple[Layout, ...]) -> Launch:
        """The launches of one row, whatever its strides."""
        stored = [x.dtype for x in row]
        itemsizes = [*(d.itemsize for d in stored), _FLOAT64.itemsize]
        shape = row[0].shape
        strides = [
            x.strides if wide else (0,) * len(shape)
            for x, wide in zip((*row, row[0]), (*self._wide, False), strict=True)
        ]
        order = iteration_order(shape, strides)
        main, before, after = self._kernels(stored)
        single = [[0]] * len(itemsizes)
        plans = [
            drivers.plan_loops(before, [1], single, itemsizes) if before else None,
            drivers.plan_loops(
                main,
                [shape[d] for d in order],
                [[s[d] for d in order] for s in strides],
                itemsizes,
                work=len(self.each),
            ),
            drivers.plan_loops(after, [1], single, itemsizes) if after else None,
        ]
        steps = [plan for plan in plans if plan]

        def launch(
            buffers: tuple[np.ndarray, ...], offsets: np.ndarray, numbers: np.ndarray
        ) -> None:
            arguments: list[Any] = []
            for i in range(place, place + len(row)):
                arguments += (buffers[i], int(offsets[i]))
            for run, spec in steps:
                run(spec, *arguments, numbers, 0)

        return launch

    # Recorded -------------------------------------------------------------------------------------
    def run_recorded(self, tensors: Sequence[Tensor], numbers: Mapping[str, Any]) -> None:
        """The same for one parameter by recorded operations, for ``differentiable=True``."""
        values: dict[str, Any] = dict(zip(self.names, tensors, strict=True)) | dict(numbers)
        for x in self.scalars:
            values[x] = values[x].item()
        self._evaluate(self.before, values)
        self._write_scalars(self.before, tensors, values)
        self._evaluate(self.once, values)
        assigned = {name for name, _ in self.each} - {"grad"}
        targets = {x: t for x, t in zip(self.names, tensors, strict=True) if x in assigned}
        # Formulas save copies: what they save must not change when the result is written.
        values |= {name: tensor.clone() for name, tensor in targets.items()}
        self._evaluate(self.each, values)
        for name, tensor in targets.items():
            tensor.copy_(values[name])
        self._evaluate(self.after, values)
        self._write_scalars(self.after, tensors, values)

    def _evaluate(self, steps: Sequence[tuple[str, str]], values: dict[str, Any]) -> None:
        scope = {"__builtins__": {}, **functions, "clamp": functions["clamp_both"], "max": max}
        for name, text in steps:
            values[name] = eval(text, scope, values)

    def _write_scalars(
        self, steps: Sequence[tuple[str, str]], tensors: Sequence[Tensor], values: dict[str, Any]
    ) -> None:
        with no_grad():
            for name, _ in steps:
                if name in self.scalars:
                    target = tensors[self.names.index(name)]
                    target.fill_(float(values[name]))
                    values[name] = target.item()  # rounded, as the kernel finds it


def _as_real(x: Layout) -> Layout:
    """A complex layout as that of its real and imaginary parts: a rule updates each by itself."""
    if not x.dtype.is_complex:
        return x
    strides = (*(2 * s for s in x.strides), 1)
    return layout(
        (*x.shape, 2), strides, BY_NAME["float64" if x.dtype.itemsize == 16 else "float32"]
    )


def _split(steps: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, text) for name, _, text in (step.partition(" = ") for step in steps)]
