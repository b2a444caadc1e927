"""The elementwise template: formulas and dtypes in, one compiled loop out.

One kernel may write several results (an operator's gradients for all its inputs). Inside it has a
loop for unit strides, which LLVM vectorises, one for each input that may be a broadcast scalar, and
one for any strides; drivers do the rest (kernels/drivers.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from ..dtypes import BOOL, BY_NAME, COMPLEX, FLOATING, HALVES, INTEGER, PARTS, dtype
from ..layout import Layout, expand_strides, iteration_order
from . import cache, drivers
from .expression import imports as imports_of
from .expression import parse, scalar_source, shortened

CONDITIONS = frozenset({"condition", "mask"})

_SOURCE = """
import numpy as np
{imports}
T = {compute}
{constants}

def kernel({pointers}, {strides}, n, extras):
    {casts}
    {branches}
"""


# A loop without branches, which vectorises, where a block's quotients allow; see `shortened`.
_BLOCKS = """
for start in range(0, n, 1024):
    stop, long = min(start + 1024, n), 0
    for i in range(start, stop):
        {count}
    if long == 0:
        for i in range(start, stop):
            {short}
    else:
        for i in range(start, stop):
            {exact}"""


def _indent(text: str, spaces: int) -> str:
    return text.replace("\n", "\n" + " " * spaces)


def numpy_name(d: dtype) -> str:
    """The NumPy scalar type that elements of a dtype have in generated source."""
    return "np.bool_" if d.category == BOOL else f"np.{d.compute.name}"


def load(source: str, stored: dtype, compute: dtype) -> str:
    """Source that reads a stored element as the type of the computation."""
    if stored.category == BOOL:
        source = f"({source} != 0)"
    elif compute.category == BOOL:
        return f"({source} != 0)"
    elif stored.category == COMPLEX and compute.category != COMPLEX:
        return load(f"{source}.real", PARTS[stored.plain], compute)
    elif stored.category == FLOATING and compute.category == INTEGER:
        # What does not fit leaves its low bits, as with C's conversions.
        if compute.itemsize < 4:
            source = f"np.int32({source})"
        elif compute.name == "uint64":
            beyond = f"np.int64({source} - 2.0**63) ^ np.int64(-(2**63))"
            source = f"(np.int64({source}) if not {source} >= 2.0**63 else {beyond})"
        elif not compute.is_signed:
            source = f"np.int64({source})"
    return source if stored.compute is compute.compute else f"T({source})"


def store(source: str, stored: dtype, compute: dtype | None = None) -> str:
    """Source that converts a value, of the type of the computation, to what is stored."""
    if stored.category == BOOL:
        return f"np.uint8(({source}) != 0)"
    if compute is not None and compute.category == COMPLEX != stored.category:
        return f"{numpy_name(stored)}(({source}).real)"
    return f"{numpy_name(stored)}({source})"


def source(
    formulas: Sequence[str],
    names: Sequence[str],
    inputs: Sequence[dtype],
    outputs: Sequence[dtype],
    compute: dtype,
) -> str:
    """The text of an elementwise kernel; ``names`` are the formulas' names of the inputs.

    Inputs named in CONDITIONS are read as bools, whatever the dtype of the computation.
    """
    k_in, k_out = len(inputs), len(outputs)
    everything = [*inputs, *outputs]
    reads_as = [BY_NAME["bool"] if name in CONDITIONS else compute for name in names]
    pairs = [shortened(text) for text in formulas]
    conditions = sorted({c for _, found in pairs for c in found})
    short: list[str] = []
    if conditions and compute.category == FLOATING:
        short = [text for text, _ in pairs] + conditions
    typed = [scalar_source(text, compute) for text in (*formulas, *short)]
    constants: dict[str, str] = {}
    bodies = []
    for index, (body, definitions) in enumerate(typed):
        # Each formula numbers its constants from zero; keep them apart by a prefix.
        for line in definitions.splitlines():
            name, value = line.split(" = ")
            constants[f"f{index}{name}"] = value
            body = _rename(body, name, f"f{index}{name}")
        bodies.append(body)

    def loop(index: Sequence[str], hoisted: int | None) -> str:
        reads = [
            f"{names[i]} = {load(f'a{i}[{index[i] if i != hoisted else 0}]', d, reads_as[i])}"
            for i, d in enumerate(inputs)
        ]
        lines = [] if hoisted is None else [reads.pop(hoisted)]

        def steps(bodies: Sequence[str]) -> list[str]:
            stores = [
                f"a{k_in + j}[{index[k_in + j]}] = {store(body, d, compute)}"
                for j, (body, d) in enumerate(zip(bodies, outputs, strict=True))
            ]
            return [*reads, *stores]

        if not short:
            lines += ["for i in range(n):", *(f"    {line}" for line in steps(bodies))]
            return "\n".join(lines)
        conditions = " & ".join(bodies[2 * k_out :])
        count = [*reads, f"long += 0 if {conditions} else 1"]
        return "\n".join(lines) + _BLOCKS.format(
            count=_indent("\n".join(count), 8),
            short=_indent("\n".join(steps(bodies[k_out : 2 * k_out])), 12),
            exact=_indent("\n".join(steps(bodies[:k_out])), 12),
        )

    unit = ["i"] * (k_in + k_out)
    branches = []
    for hoisted in (None, *range(k_in if k_in <= 3 else 0)):
        tests = [f"s{i} == {int(i != hoisted)}" for i in range(k_in + k_out)]
        branches.append((" and ".join(tests), loop(unit, hoisted)))
    if tuple(formulas) == tuple(names) and set(inputs) == set(outputs) and k_in == 1:
        branches.append(("s0 == -1 and s1 == 1", loop(["-i", "i"], None)))  # a copy, turned round
    general = loop([f"i * s{i}" for i in range(k_in + k_out)], None)
    text = ""
    for keyword, (test, body) in zip(["if"] + ["elif"] * len(branches), branches, strict=False):
        text += f"{keyword} {test}:\n    {_indent(body, 4)}\n"
    text += f"else:\n    {_indent(general, 4)}"
    imports = (
        f"from jitgrad.kernels.abi import {', '.join(sorted({f'p_{d.name}' for d in everything}))}"
    )
    if functions := imports_of((*formulas, *short), compute):
        imports += f"\n{functions}"
    return _SOURCE.format(
        imports=imports,
        compute=numpy_name(compute),
        constants="\n".join(f"{name} = {value}" for name, value in constants.items()),
        pointers=", ".join(f"p{i}" for i in range(k_in + k_out)),
        strides=", ".join(f"s{i}" for i in range(k_in + k_out)),
        casts="; ".join(f"a{i} = p_{d.name}(p{i})" for i, d in enumerate(everything)),
        branches=_indent(text, 4),
    )


def _rename(body: str, old: str, new: str) -> str:

    return re.sub(rf"\b{old}\b", new, body)


@functools.cache
def kernel(
    formulas: tuple[str, ...],
    names: tuple[str, ...],
    inputs: tuple[dtype, ...],
    outputs: tuple[dtype, ...],
    compute: dtype,
) -> int:
    """The address of the kernel that computes ``formulas`` of ``inputs`` in ``compute``."""
    if compute in HALVES and {*inputs, *outputs} == {compute} and set(formulas) <= set(names):
        # Nothing is computed: the bits are copied, unconverted.
        compute = BY_NAME["int16"]
        inputs, outputs = (compute,) * len(inputs), (compute,) * len(outputs)
    text = source(formulas, names, inputs, outputs, compute)
    return cache.kernel(text, len(inputs) + len(outputs))


def plan(
    formulas: tuple[str, ...],
    names: tuple[str, ...],
    inputs: Sequence[Layout],
    outputs: Sequence[Layout],
    compute: dtype,
) -> tuple[drivers.Driver, np.ndarray]:
    """The driver and spec for these operands; inputs broadcast to the outputs' shape."""
    address = kernel(
        formulas, names, tuple(x.dtype for x in inputs), tuple(x.dtype for x in outputs), compute
    )
    shape = outputs[0].shape
    strides = [o.strides for o in outputs]
    strides = [expand_strides(x.shape, x.strides, shape) for x in inputs] + strides
    # Walk memory in the order of the results, so that their stores are sequential.
    order = iteration_order(shape, [*strides[len(inputs) :], *strides[: len(inputs)]])
    calls = sum(len(parse(text).functions) for text in formulas)
    return drivers.plan_loops(
        address,
        [shape[d] for d in order],
        [[s[d] for d in order] for s in strides],
        [x.dtype.itemsize for x in (*inputs, *outputs)],
        work=1 + 4 * calls,
    )
