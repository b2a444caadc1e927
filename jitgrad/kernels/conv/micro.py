"""The register tiles of convolutions, in LLVM vector IR, with the pieces of gemm/micro.py.

Four tiles, all of some rows by some vectors, each sum one chain of multiply-adds kept in a
register:

- ``window``: results lie along the vectors, a filter's weights are broadcast. What it multiplies
  them with is not copied into a matrix: it is read in place, at an address per channel and tap.
- ``narrow``: the same for few rows, with more vectors, and every vector in one line of results.
- ``outer``: channels of the gradient lie along the vectors, elements of the input are broadcast:
  gradients of weights.
- ``inner``: the same sums where there are few channels: places lie along the vectors, whose lanes
  are added up in the end.

Addresses and strides are integers in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..gemm.micro import ADDRESS, I32, I64, I, Vectors

Emit = Callable[[ir.IRBuilder, Vectors, Sequence[ir.Value], int, int], None]


def _function(module: ir.Module, name: str, count: int) -> tuple[ir.Function, bool]:
    """The function of so many integers by this name, and whether it is new."""
    existing = module.globals.get(name)
    if existing is not None:
        return existing, False
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * count), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function, True


def _tile(kind: str, dtype: str, lanes: int, shapes: Sequence[tuple[int, int]], count: int,
          emit: Emit) -> Any:  # fmt: skip
    """An intrinsic ``tile(height, vectors, *arguments)`` with a function for each of ``shapes``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        height, vectors, *rest = arguments
        end = builder.append_basic_block("tile.end")
        never = builder.append_basic_block("tile.never")
        which = builder.add(builder.mul(height, I64(16)), vectors)
        switch = builder.switch(which, never)
        for shape in shapes:
            block = builder.append_basic_block("tile.case")
            switch.add_case(I64(shape[0] * 16 + shape[1]), block)
            builder.position_at_end(block)
            name = f"{kind}_{dtype}_{shape[0]}x{shape[1]}"
            function, new = _function(builder.module, name, count)
            if new:
                inside = ir.IRBuilder(function.append_basic_block("entry"))
                emit(inside, Vectors(inside, dtype, lanes), function.args, *shape)
            builder.call(function, rest)
            builder.branch(end)
        builder.position_at_end(never)
        builder.unreachable()
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[I] * (count + 2)), generate


def _loop(b: ir.IRBuilder, count: ir.Value, carried: Sequence[ir.Value],
          body: Callable[[list[ir.Value]], list[ir.Value]]) -> list[ir.Value]:  # fmt: skip
    """``carried = body(carried)``, ``count`` times (at least once); continues behind the loop."""
    before = b.block
    head = b.append_basic_block("loop")
    b.branch(head)
    b.position_at_end(head)
    left = b.phi(I64)
    left.add_incoming(count, before)
    phis = []
    for value in carried:
        phis.append(b.phi(value.type))
        phis[-1].add_incoming(value, before)
    results = body(list(phis))
    remaining = b.sub(left, I64(1))
    left.add_incoming(remaining, b.block)
    for phi, value in zip(phis, results, strict=True):
        phi.add_incoming(value, b.block)
    after = b.append_basic_block("after")
    b.cbranch(b.icmp_signed(">", remaining, I64(0)), head, after)
    b.position_at_end(after)
    return results


def _address(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return b.inttoptr(value, ADDRESS)


def _between(v: Vectors, low: ir.Value, high: ir.Value) -> ir.Value:
    """A mask of the lanes from ``low`` to below ``high``."""
    b = v.builder
    below = v.first_lanes(high)
    return b.and_(below, b.not_(v.first_lanes(low)))


Load = Callable[[ir.Value, int, Any], ir.Value]


def _summed(v: Vectors, rows: int, vectors: int, filters: Sequence[ir.Value],
            source: Sequence[ir.Value], walk: Sequence[ir.Value], bias: Sequence[ir.Value],
            load: Load, masks: Sequence[ir.Value] = ()) -> list[ir.Value]:  # fmt: skip
    """``bias[i] + sum of a[i, channel, tap] * b[channel, tap]`` for each row and vector.

    Args:
        filters: the address of a, and its strides from row to row and from channel to channel.
        source: the address of b, and its stride from channel to channel.
        walk: the table of taps with their offsets in a and b, how many taps, how many channels.
        bias: its address and stride.
        load: reads vector j at an address, with its mask.
        masks: the address of the first tap's masks, a word for each vector, and the stride from
            tap to tap; without them masks are None.
    """
    b = v.builder
    a, a_row, a_channel = filters
    start, b_channel = source
    taps, count, channels = walk
    second = b.shl(a_row, I64(1))
    third = b.add(a_row, second)
    steps = (I64(0), a_row, second)
    heads = [_address(b, a)]
    for _ in range(3, rows, 3):
        heads.append(v.at(heads[-1], third))
    sums = []
    at = _address(b, bias[0])
    for _ in range(rows):
        sums += [v.broadcast(at)] * vectors
        at = v.at(at, bias[1])

    lanes_of = ir.IntType(v.lanes)
    first = masks[0] if masks else I64(0)

    def mask(words: ir.Value, j: int) -> Any:
        if not masks:
            return None
        word = b.load(b.bitcast(v.at(words, 8 * j), lanes_of.as_pointer()))
        return b.bitcast(word, ir.VectorType(ir.IntType(1), v.lanes))

    def channel(state: list[ir.Value]) -> list[ir.Value]:
        start, *rest = state
        starts, sums = rest[: len(heads)], rest[len(heads) :]

        def tap(state: list[ir.Value]) -> list[ir.Value]:
            entry, words, *sums = state
            pair = b.bitcast(entry, I64.as_pointer())
            a_offset = b.load(pair)
            read = v.at(start, b.load(b.gep(pair, [I64(1)])))
            row = [load(read, j, mask(words, j)) for j in range(vectors)]
            shifted = [v.at(head, a_offset) for head in starts]
            result = []
            for i in range(rows):
                weight = v.broadcast(v.at(shifted[i // 3], steps[i % 3]))
                for j in range(vectors):
                    result.append(v.multiply_add(weight, row[j], sums[i * vectors + j]))
            return [v.at(entry, 16), v.at(words, masks[1]) if masks else words, *result]

        _, _, *sums = _loop(b, count, [_address(b, taps), _address(b, first), *sums], tap)
        return [v.at(start, b_channel), *(v.at(s, a_channel) for s in starts), *sums]

    state = _loop(b, channels, [_address(b, start), *heads, *sums], channel)
    return state[1 + len(heads) :]


def window_tile(dtype: str, lanes: int, masked: bool, shapes: Sequence[tuple[int, int]]) -> Any:
    """tile(height, vectors, a, a_row, a_channel, b, b_channel, taps, count, channels, bias,
    bias_step, masks, mask_step, c, c_row, low, width, pitch, c_step, lines).

    ``sums[i, x] = bias[i] + sum of a[i, channel, tap] * b[channel, tap + x]`` over channels and
    taps, where ``taps`` lists the offsets of each tap in a and b. Where loads are masked, ``masks``
    says which columns x may be read, a word of bits for each vector, and counts the others as
    zeros; the next tap's masks are ``mask_step`` behind.

    The columns belong to ``lines`` rows of results: the first from column ``low`` (which may be
    negative), each ``width`` long and ``pitch`` behind the last. Only those columns are stored:
    column x of a row at c + x, and c advances by ``c_step`` from row to row.
    """
    size = np.dtype(dtype).itemsize

    def emit(b: ir.IRBuilder, v: Vectors, arguments: Any, rows: int, vectors: int) -> None:
        (a, a_row, a_channel, source, b_channel, taps, count, channels, bias, bias_step, masks,
         mask_step, target, c_row, low, width, pitch, c_step, lines) = arguments  # fmt: skip
        places = [I64(j * lanes) for j in range(vectors)]

        def load(at: ir.Value, j: int, mask: Any) -> ir.Value:
            return v.load(v.at(at, j * lanes * size), mask)

        results = _summed(v, rows, vectors, (a, a_row, a_channel), (source, b_channel),
                          (taps, count, channels), (bias, bias_step), load,
                          (masks, mask_step) if masked else ())  # fmt: skip

        def line(state: list[ir.Value]) -> list[ir.Value]:
            at, first = state
            end = b.add(first, width)
            for j, place in enumerate(places):
                mask = _between(v, b.sub(first, place), b.sub(end, place))
                row = at
                for i in range(rows):
                    v.store(results[i * vectors + j], v.at(row, j * lanes * size), mask)
                    row = v.at(row, c_row)
            return [v.at(at, c_step), b.add(first, pitch)]

        _loop(b, lines, [_address(b, target), low], line)
        b.ret_void()

    return intrinsic(_signature(21, lambda: _tile("window", dtype, lanes, shapes, 19, emit)))


def narrow_tile(dtype: str, lanes: int, masked: bool, shapes: Sequence[tuple[int, int]]) -> Any:
    """tile(height, vectors, a, a_row, a_channel, b, b_channel, b_vector, taps, count, channels,
    bias, bias_step, c, c_row, c_vector, width).

    The sums of ``window_tile``, whose vectors are apart: each is ``width`` elements of one line, at
    ``b_vector`` from the one before in b and ``c_vector`` in c.
    """

    def emit(b: ir.IRBuilder, v: Vectors, arguments: Any, rows: int, vectors: int) -> None:
        (a, a_row, a_channel, source, b_channel, b_vector, taps, count, channels, bias, bias_step,
         target, c_row, c_vector, width) = arguments  # fmt: skip
        mask = v.first_lanes(width)
        places = [b.mul(b_vector, I64(j)) for j in range(vectors)]

        def load(at: ir.Value, j: int, _: Any) -> ir.Value:
            return v.load(v.at(at, places[j]), mask if masked else None)

        results = _summed(v, rows, vectors, (a, a_row, a_channel), (source, b_channel),
                          (taps, count, channels), (bias, bias_step), load)  # fmt: skip
        row = _address(b, target)
        for i in range(rows):
            at = row
            for j in range(vectors):
                v.store(results[i * vectors + j], at, mask)
                at = v.at(at, c_vector)
            row = v.at(row, c_row)
        b.ret_void()

    return intrinsic(_signature(17, lambda: _tile("narrow", dtype, lanes, shapes, 15, emit)))


def outer_tile(dtype: str, lanes: int, shapes: Sequence[tuple[int, int]]) -> Any:
    """tile(height, vectors, x, rows, y, count, skip, lines, c, c_row).

    ``c[i, :] += sum over lines and places of x[rows[i] + place] * y[place, :]``: ``rows`` lists the
    offset of each row of c in x; y is packed, so many vectors a place; each of the ``lines`` has
    ``count`` places, and x skips so many bytes behind one.
    """
    size = np.dtype(dtype).itemsize

    def emit(b: ir.IRBuilder, v: Vectors, arguments: Any, rows: int, vectors: int) -> None:
        x, table, y, count, skip, lines, c, c_row = arguments
        starts = _starts(b, v, x, table, rows)
        step = vectors * lanes * size

        def line(state: list[ir.Value]) -> list[ir.Value]:
            def place(state: list[ir.Value]) -> list[ir.Value]:
                offset, packed, *sums = state
                row = [v.load(v.at(packed, j * lanes * size)) for j in range(vectors)]
                result = []
                for i in range(rows):
                    value = v.broadcast(v.at(starts[i], offset))
                    for j in range(vectors):
                        result.append(v.multiply_add(value, row[j], sums[i * vectors + j]))
                return [b.add(offset, I64(size)), v.at(packed, step), *result]

            offset, packed, *sums = _loop(b, count, state, place)
            return [b.add(offset, skip), packed, *sums]

        state = [I64(0), _address(b, y), *[v.zero] * (rows * vectors)]
        _, _, *sums = _loop(b, lines, state, line)
        row = _address(b, c)
        for i in range(rows):
            for j in range(vectors):
                at = v.at(row, j * lanes * size)
                v.store(v.add(v.load(at), sums[i * vectors + j]), at)
            row = v.at(row, c_row)
        b.ret_void()

    return intrinsic(_signature(10, lambda: _tile("outer", dtype, lanes, shapes, 8, emit)))


def inner_tile(dtype: str, lanes: int, shapes: Sequence[tuple[int, int]]) -> Any:
    """tile(height, 1, x, rows, y, y_step, count, skip, lines, c, c_row).

    ``c[i] += sum over lines and places of x[rows[i] + place] * y[place]``, as ``outer_tile`` has
    it, but for one y, which is read in place and lies contiguously along a line, ``y_step`` from
    line to line.
    """
    size = np.dtype(dtype).itemsize

    def emit(b: ir.IRBuilder, v: Vectors, arguments: Any, rows: int, vectors: int) -> None:
        x, table, y, y_step, count, skip, lines, c, c_row = arguments
        starts = _starts(b, v, x, table, rows)
        pieces = b.sdiv(b.add(count, I64(lanes - 1)), I64(lanes))
        pitch = b.add(b.mul(count, I64(size)), skip)

        def line(state: list[ir.Value]) -> list[ir.Value]:
            first, at, *sums = state

            def piece(state: list[ir.Value]) -> list[ir.Value]:
                left, offset, read, *sums = state
                mask = v.first_lanes(left)
                value = v.load(read, mask)
                result = [
                    v.multiply_add(v.load(v.at(start, offset), mask), value, total)
                    for start, total in zip(starts, sums, strict=True)
                ]
                step = lanes * size
                return [
                    b.sub(left, I64(lanes)), b.add(offset, I64(step)), v.at(read, step), *result
                ]  # fmt: skip

            _, _, _, *sums = _loop(b, pieces, [count, first, at, *sums], piece)
            return [b.add(first, pitch), v.at(at, y_step), *sums]

        _, _, *sums = _loop(b, lines, [I64(0), _address(b, y), *[v.zero] * rows], line)
        at = _address(b, c)
        for total in sums:
            place = b.bitcast(at, v.scalar.as_pointer())
            value = b.load(place, align=size)
            for lane in range(lanes):
                part = b.extract_element(total, I32(lane))
                value = b.fadd(value, part) if v.float else b.add(value, part)
            b.store(value, place, align=size)
            at = v.at(at, c_row)
        b.ret_void()

    return intrinsic(_signature(11, lambda: _tile("inner", dtype, lanes, shapes, 9, emit)))


def _starts(b: ir.IRBuilder, v: Vectors, x: ir.Value, table: ir.Value, rows: int) -> list[ir.Value]:
    offsets = b.inttoptr(table, I64.as_pointer())
    base = _address(b, x)
    return [v.at(base, b.load(b.gep(offsets, [I64(i)]))) for i in range(rows)]


def _signature(count: int, make: Callable[[], Any]) -> Any:
    """A typing function of ``count`` arguments for ``intrinsic``, which reads its signature."""
    names = ", ".join(f"x{i}" for i in range(count))
    return eval(f"lambda context, {names}: make()", {"make": make})


def copy_lines(dtype: str, lanes: int) -> Any:
    """copy(source, source_step, target, target_step, lines, count): lines of ``count`` contiguous
    elements (both at least one) by whole vectors."""
    size = np.dtype(dtype).itemsize
    step = lanes * size

    @intrinsic
    def copy(context, source, source_step, target, target_step, lines, count):
        def generate(context, builder, signature, arguments):
            function, new = _function(builder.module, f"copy_lines_{dtype}", 6)
            if new:
                b = ir.IRBuilder(function.append_basic_block("entry"))
                v = Vectors(b, dtype, lanes)
                source, source_step, target, target_step, lines, count = function.args
                pieces = b.sdiv(b.add(count, I64(lanes - 1)), I64(lanes))
                first = b.mul(b.sub(pieces, I64(1)), I64(step))
                last = v.first_lanes(b.sub(count, b.mul(b.sub(pieces, I64(1)), I64(lanes))))
                whole = ir.Constant(last.type, [1] * lanes)

                def line(state):
                    read, write = state

                    def piece(state):
                        # From the last, which may be cut short, to the first.
                        offset, mask = state
                        v.store(v.load(v.at(read, offset), mask), v.at(write, offset), mask)
                        return [b.sub(offset, I64(step)), whole]

                    _loop(b, pieces, [first, last], piece)
                    return [v.at(read, source_step), v.at(write, target_step)]

                _loop(b, lines, [_address(b, source), _address(b, target)], line)
                b.ret_void()
            builder.call(function, arguments)
            return context.get_dummy_value()

        return types.void(*[I] * 6), generate

    return copy


@intrinsic
def clear(context, address, size):
    """Write zeros to ``size`` bytes."""

    def generate(context, builder, signature, arguments):
        address, size = arguments
        kind = ir.FunctionType(ir.VoidType(), [ADDRESS, ir.IntType(8), I64, ir.IntType(1)])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.memset.p0.i64")
        zero, plain = ir.Constant(ir.IntType(8), 0), ir.Constant(ir.IntType(1), 0)
        builder.call(function, [builder.inttoptr(address, ADDRESS), zero, size, plain])
        return context.get_dummy_value()

    return types.void(I, I), generate


@intrinsic
def fetch(context, address):
    """Ask for the cache line at an address, to be read later from the second cache."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [ADDRESS, I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.inttoptr(arguments[0], ADDRESS), I32(0), I32(2), I32(1)])
        return context.get_dummy_value()

    return types.void(I), generate
