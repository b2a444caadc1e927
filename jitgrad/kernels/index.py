"""Templates of everything that moves elements to or from places that another tensor names.

An index is first turned into *places*: for each indexed position the distance, in elements, from
the first element of the indexed tensor. Bounds are checked while that is done, so that nothing is
written if any index is bad. One template then moves the elements, a run of them for each place::

    take   values[i, j] = elements[place[i] * scale + i * step + j * inner_step]
    put    the same statement the other way round
    add .. the same, combined with what is there

Data is moved by size, not by dtype: four kernels of each kind serve all dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ..dtypes import BOOL, dtype
from ..layout import coalesce
from . import cache, drivers
from .elementwise import numpy_name

Plan = tuple[drivers.Driver, np.ndarray]

NOTHING_SEEN = (np.iinfo(np.int64).max, np.iinfo(np.int64).min)  # of `extremes`
BY_SIZE = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}

_MOVE = """
import numpy as np
from jitgrad.kernels.abi import p_int64, p_{element}, p_{value}
{imports}

def kernel(p0, p1, p2, s0, s1, s2, n, extras):
    sizes = p_int64(extras)
    run, scale, t1, t2 = sizes[0], sizes[1], sizes[2], sizes[3]
    places, elements, values = p_int64(p0), p_{element}(p1), p_{value}(p2)
    if run == 1:
        for i in range(n):
            e, v = places[i * s0] * scale + i * s1, i * s2
            {statement}
    elif t1 == 1 and t2 == 1:
        for i in range(n):
            first, other = places[i * s0] * scale + i * s1, i * s2
            for j in range(run):
                e, v = first + j, other + j
                {statement}
    else:
        for i in range(n):
            first, other = places[i * s0] * scale + i * s1, i * s2
            for j in range(run):
                e, v = first + j * t1, other + j * t2
                {statement}
"""

# How `combine` updates an element with a value, for numbers and for bools.
_COMBINE = {
    "add": ("a + b", "a | b"),
    "prod": ("a * b", "a & b"),
    "amax": ("maximum(a, b)", "a | b"),
    "amin": ("minimum(a, b)", "a & b"),
}

_EXTREMES = """
from jitgrad.kernels.abi import p_int64

def kernel(p0, p1, s0, s1, n, extras):
    x, seen = p_int64(p0), p_int64(p1)
    low, high = seen[0], seen[1]
    if s0 == 1:
        for i in range(n):
            low, high = min(low, x[i]), max(high, x[i])
    else:
        for i in range(n):
            low, high = min(low, x[i * s0]), max(high, x[i * s0])
    seen[0], seen[1] = low, high
"""

# extras: the size of the dimension, its stride, and whether earlier dimensions were located.
_LOCATE = """
from jitgrad.kernels.abi import p_int64

def kernel(p0, p1, s0, s1, n, extras):
    x, places, sizes = p_int64(p0), p_int64(p1), p_int64(extras)
    size, stride, more = sizes[0], sizes[1], sizes[2]
    for i in range(n):
        k = x[i * s0]
        place = (k + size if k < 0 else k) * stride
        places[i * s1] = place + places[i * s1] if more else place
"""

# extras: the number of elements, the rank, then sizes and strides from the fastest dimension on.
_UNRAVEL = """
from jitgrad.kernels.abi import p_int64

def kernel(p0, p1, s0, s1, n, extras):
    x, places, sizes = p_int64(p0), p_int64(p1), p_int64(extras)
    numel, rank = sizes[0], sizes[1]
    for i in range(n):
        k = x[i * s0]
        k = k + numel if k < 0 else k
        place = 0
        for d in range(rank):
            place += k % sizes[2 + 2 * d] * sizes[3 + 2 * d]
            k //= sizes[2 + 2 * d]
        places[i * s1] = place
"""

_COUNT = """
from jitgrad.kernels.abi import p_int64, p_uint8

def kernel(p0, p1, s0, s1, n, extras):
    mask, count = p_uint8(p0), p_int64(p1)
    total = 0
    if s0 == 1:
        for i in range(n):
            total += mask[i] != 0
    else:
        for i in range(n):
            total += mask[i * s0] != 0
    count[0] += total
"""

# p1 is never read: it walks the indexed tensor's strides as if its elements were bytes, so that its
# distance from p2, which stands still, is the place of the line's first element.
_COMPRESS = """
from jitgrad.kernels.abi import p_int64, p_uint8

def kernel(p0, p1, p2, p3, p4, s0, s1, s2, s3, s4, n, extras):
    mask, places, count = p_uint8(p0), p_int64(p3), p_int64(p4)
    first, k = p1 - p2, count[0]
    for i in range(n):
        places[k] = first + i * s1  # overwritten by the next one if the mask is false here
        k += mask[i * s0] != 0
    count[0] = k
"""

# extras: divisor and modulus of one dimension of a row-major position.
_COORDINATE = """
from jitgrad.kernels.abi import p_int64

def kernel(p0, p1, s0, s1, n, extras):
    x, coordinates, sizes = p_int64(p0), p_int64(p1), p_int64(extras)
    divisor, modulus = sizes[0], sizes[1]
    for i in range(n):
        coordinates[i * s1] = x[i * s0] // divisor % modulus
"""

# p2 - p3 is column - row at the start of the line, by the same trick as in _COMPRESS.
_TRIANGLE = """
from jitgrad.kernels.abi import p_int64, p_{element}

def kernel(p0, p1, p2, p3, s0, s1, s2, s3, n, extras):
    x, y, sizes = p_{element}(p0), p_{element}(p1), p_int64(extras)
    diagonal, upper = sizes[0], sizes[1]
    first = p2 - p3 - diagonal
    for i in range(n):
        distance = first + i * s2
        kept = distance >= 0 if upper else distance <= 0
        y[i * s1] = x[i * s0] if kept else 0
"""

_ARITY = {
    "extremes": (_EXTREMES, 2),
    "locate": (_LOCATE, 2),
    "unravel": (_UNRAVEL, 2),
    "count": (_COUNT, 2),
    "compress": (_COMPRESS, 5),
    "coordinate": (_COORDINATE, 2),
}


@functools.cache
def helper(name: str) -> int:
    """The address of a kernel that has only one version."""
    return cache.kernel(*_ARITY[name])


@functools.cache
def mover(how: str, d: dtype, given: dtype) -> int:
    """The address of a kernel that moves elements: ``take``, ``put``, or a way to combine them.

    ``d`` and ``given``, of elements and values, may differ in how they lie in memory.
    """
    element = value = BY_SIZE[d.itemsize]
    imports = ""
    if given is not d:
        element, value = d.name, given.name
    if how == "take":
        statement = "values[v] = elements[e]"
    elif how == "put":
        statement = "elements[e] = values[v]"
    else:
        element, value = d.name, given.name
        formula = _COMBINE[how][d.category == BOOL]
        stored = "np.uint8" if d.category == BOOL else numpy_name(d)
        if "maximum" in formula or "minimum" in formula:
            imports = "from jitgrad.kernels.scalar import maximum, minimum"
        statement = f"a, b = elements[e], values[v]; elements[e] = {stored}({formula})"
    text = _MOVE.format(element=element, value=value, imports=imports, statement=statement)
    return cache.kernel(text, 3)


def move(
    how: str,
    d: dtype,
    shape: Sequence[int],
    places: Sequence[int],
    elements: Sequence[int],
    values: Sequence[int],
    scale: int = 1,
    *,
    given: dtype,
) -> Plan:
    """The plan that moves ``values`` to or from ``elements``; operands in the order of the call.

    Args:
        how: ``take``, ``put``, ``add``, ``prod``, ``amax`` or ``amin``.
        d, given: the dtypes of elements and values.
        shape: of the values.
        places, elements, values: strides over that shape; 0 for ``places`` along dimensions that
            are not indexed, and for ``elements`` along those that are.
        scale: what places count in.

    A ``take`` may run in parallel; the others must not (two places may be the same), so they come
    with the serial driver, and write in the order of the values.
    """
    sizes, (p, e, v) = coalesce(shape, [places, elements, values])
    run, t1, t2 = 1, 0, 0
    if sizes and p[-1] == 0:
        run, t1, t2 = sizes.pop(), e.pop(), v.pop()
        p.pop()
    if not sizes:
        sizes, p, e, v = [1], [0], [0], [0]
    itemsizes = (8, d.itemsize, d.itemsize)
    extras = (run, scale, t1, t2)
    driver, spec = drivers.plan_lines(
        mover(how, d, given), sizes, [p, e, v], itemsizes, extras=extras, work=max(run, 1)
    )
    return (driver if how == "take" else drivers.serial(3)), spec


def one_by_one(
    name: str, shape: Sequence[int], source: Sequence[int], target: Sequence[int], *extras: int
) -> Plan:
    """The serial plan of a helper from int64 (for ``count`` from bools) to int64."""
    itemsizes = (1 if name == "count" else 8, 8)
    _, spec = drivers.plan_loops(helper(name), shape, [source, target], itemsizes, extras=extras)
    return drivers.serial(2), spec


def unravel(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The extras of ``unravel`` for a tensor: number of elements, rank, sizes and strides."""
    sizes, (steps,) = coalesce(shape, [strides])
    extras = [int(np.prod(shape, dtype=np.int64)), len(sizes)]
    for size, step in zip(reversed(sizes), reversed(steps), strict=True):
        extras += [size, step]
    return extras


def compress(shape: Sequence[int], mask: Sequence[int], indexed: Sequence[int]) -> Plan:
    """The serial plan that lists the places of a mask's true elements in row-major order.

    Operands: the mask; any buffer, twice; the places, with room for one more; the count so far.
    """
    still = [0] * len(shape)
    _, spec = drivers.plan_loops(
        helper("compress"), shape, [mask, indexed, still, still, still], (1, 1, 1, 8, 8)
    )
    return drivers.serial(5), spec


@functools.cache
def _triangle(itemsize: int) -> int:
    return cache.kernel(_TRIANGLE.format(element=BY_SIZE[itemsize]), 4)


def triangle(
    d: dtype,
    shape: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    diagonal: int,
    upper: bool,
) -> Plan:
    """The plan that copies matrices but for one side of a diagonal, which becomes zero.

    Operands: the source, the target, and any buffer twice.
    """
    batch = [0] * (len(shape) - 2)
    return drivers.plan_loops(
        _triangle(d.itemsize),
        shape,
        [source, target, [*batch, -1, 1], [0] * len(shape)],
        (d.itemsize, d.itemsize, 1, 1),
        extras=(diagonal, int(upper)),
    )
