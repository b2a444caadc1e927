"""The pieces of the matrix product that are written in LLVM vector IR.

Numba compiles scalar Python; it has no way to say "keep these 24 vectors in registers". So the
register tile (`tile_kernel`) and the in-register transposition used by packing (`transpose_block`)
are built here, instruction by instruction, as intrinsics. LLVM legalises vectors of any width, so
the same code is right on every target, merely slower where the width was chosen badly.

All addresses and strides are integers in bytes: a kernel then has one signature for all dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
ADDRESS = I8.as_pointer()
I = types.intp


def element(dtype: str) -> ir.Type:
    """The LLVM type of one element."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return ir.FloatType() if kind.itemsize == 4 else ir.DoubleType()
    return ir.IntType(8 * kind.itemsize)


class Vectors:
    """Vector instructions on `lanes` elements of one dtype, at byte addresses."""

    def __init__(self, builder: ir.IRBuilder, dtype: str, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.scalar = element(dtype)
        self.type = ir.VectorType(self.scalar, lanes)
        self.float = np.dtype(dtype).kind == "f"
        self.size = np.dtype(dtype).itemsize
        self.suffix = f"v{lanes}{'f' if self.float else 'i'}{8 * self.size}"
        self.zero = ir.Constant(self.type, [0] * lanes)
        self.undefined = ir.Constant(self.type, ir.Undefined)

    def at(self, base: ir.Value, *offsets: ir.Value | int) -> ir.Value:
        """base advanced by byte offsets."""
        for offset in offsets:
            if not isinstance(offset, int):
                base = self.builder.gep(base, [offset])
            elif offset:
                base = self.builder.gep(base, [I64(offset)])
        return base

    def load(self, address: ir.Value, mask: ir.Value | None = None) -> ir.Value:
        b = self.builder
        pointer = b.bitcast(address, self.type.as_pointer())
        if mask is None:
            return b.load(pointer, align=self.size)
        kind = ir.FunctionType(self.type, [pointer.type, I32, mask.type, self.type])
        name = f"llvm.masked.load.{self.suffix}.p0"
        function = cgutils.get_or_insert_function(b.module, kind, name)
        return b.call(function, [pointer, I32(self.size), mask, self.zero])

    def store(self, value: ir.Value, address: ir.Value, mask: ir.Value | None = None) -> None:
        b = self.builder
        pointer = b.bitcast(address, self.type.as_pointer())
        if mask is None:
            b.store(value, pointer, align=self.size)
            return
        kind = ir.FunctionType(ir.VoidType(), [self.type, pointer.type, I32, mask.type])
        name = f"llvm.masked.store.{self.suffix}.p0"
        function = cgutils.get_or_insert_function(b.module, kind, name)
        b.call(function, [value, pointer, I32(self.size), mask])

    def broadcast(self, address: ir.Value) -> ir.Value:
        """The one element at an address, in every lane."""
        b = self.builder
        one = b.load(b.bitcast(address, self.scalar.as_pointer()), align=self.size)
        first = b.insert_element(self.undefined, one, I32(0))
        return b.shuffle_vector(first, self.undefined, lane_numbers([0] * self.lanes))

    def multiply_add(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x * y + z: fused where the machine can (fmuladd), wrapping for integers."""
        b = self.builder
        if not self.float:
            return b.add(b.mul(x, y), z)
        kind = ir.FunctionType(self.type, [self.type] * 3)
        function = cgutils.get_or_insert_function(b.module, kind, f"llvm.fmuladd.{self.suffix}")
        return b.call(function, [x, y, z])

    def add(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.builder.fadd(x, y) if self.float else self.builder.add(x, y)

    def first_lanes(self, count: ir.Value) -> ir.Value:
        """A mask of the first `count` lanes (all of them if count is larger)."""
        b = self.builder
        wide = ir.VectorType(I64, self.lanes)
        first = b.insert_element(ir.Constant(wide, ir.Undefined), count, I32(0))
        every = b.shuffle_vector(
            first, ir.Constant(wide, ir.Undefined), lane_numbers([0] * self.lanes)
        )
        return b.icmp_signed("<", ir.Constant(wide, list(range(self.lanes))), every)


def lane_numbers(lanes: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)


def tile_function(
    module: ir.Module, dtype: str, rows: int, vectors: int, lanes: int, masked: bool
) -> ir.Function:
    """void(a, a_row, a_k, b, b_k, c, c_row, depth, accumulate, last): one tile of C.

    C[i, :] (+)= sum over k of A[i, k] * B[k, :], every C element one multiply-add chain in order of
    k, kept in a register. Because the order is the same in every tile shape, the bits of C do not
    depend on how C was cut into tiles. `last` counts the valid lanes of each row's last vector;
    depth is at least 1.
    """
    name = f"tile_{dtype}_{rows}x{vectors}"
    existing = module.globals.get(name)
    if existing is not None:
        return existing
    kind = ir.FunctionType(
        ir.VoidType(), [ADDRESS, I64, I64, ADDRESS, I64, ADDRESS, I64, I64, I64, I64]
    )
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    a, a_row, a_k, b, b_k, c, c_row, depth, accumulate, last = function.args
    entry, loop, done, adding, storing = (
        function.append_basic_block(n) for n in ("entry", "loop", "done", "adding", "storing")
    )
    builder = ir.IRBuilder(entry)
    v = Vectors(builder, dtype, lanes)
    width = lanes * v.size
    mask = v.first_lanes(last)
    # One pointer per three rows, the others by [pointer + stride] and [pointer + 2 * stride]: the
    # addressing modes of x86 then cover twelve rows with four registers.
    second = builder.shl(a_row, I64(1))
    third = builder.add(a_row, second)
    starts = [a]
    for _ in range(3, rows, 3):
        starts.append(v.at(starts[-1], third))
    builder.branch(loop)

    builder.position_at_end(loop)
    count = builder.phi(I64)
    count.add_incoming(depth, entry)
    heads = [builder.phi(ADDRESS) for _ in starts]
    for head, start in zip(heads, starts, strict=True):
        head.add_incoming(start, entry)
    b_head = builder.phi(ADDRESS)
    b_head.add_incoming(b, entry)
    sums = [[builder.phi(v.type) for _ in range(vectors)] for _ in range(rows)]
    b_row = [
        v.load(v.at(b_head, j * width), mask if masked and j == vectors - 1 else None)
        for j in range(vectors)
    ]
    result = []
    for i in range(rows):
        scalar = v.broadcast(v.at(heads[i // 3], (0, a_row, second)[i % 3]))
        result.append([v.multiply_add(scalar, b_row[j], sums[i][j]) for j in range(vectors)])
    for old_row, new_row in zip(sums, result, strict=True):
        for old, new in zip(old_row, new_row, strict=True):
            old.add_incoming(v.zero, entry)
            old.add_incoming(new, loop)
    for head in heads:
        head.add_incoming(v.at(head, a_k), loop)
    b_head.add_incoming(v.at(b_head, b_k), loop)
    remaining = builder.sub(count, I64(1))
    count.add_incoming(remaining, loop)
    builder.cbranch(builder.icmp_signed(">", remaining, I64(0)), loop, done)

    builder.position_at_end(done)
    builder.cbranch(builder.icmp_signed("!=", accumulate, I64(0)), adding, storing)
    for block, adds in ((adding, True), (storing, False)):
        builder.position_at_end(block)
        row = c
        for i in range(rows):
            for j in range(vectors):
                lanes_valid = mask if j == vectors - 1 else None
                place = v.at(row, j * width)
                value = result[i][j]
                if adds:
                    value = v.add(v.load(place, lanes_valid), value)
                v.store(value, place, lanes_valid)
            row = v.at(row, c_row)
        builder.ret_void()
    return function


def tile_kernel(dtype: str, rows: int, vectors: int, lanes: int, masked: bool) -> Any:
    """tile(a, a_row, a_k, b, b_k, c, c_row, depth, accumulate, height, columns).

    One compiled function for every height 1..rows and vector count 1..vectors, chosen at run time,
    so that no lane computes rows or vectors that are not there.
    """

    @intrinsic
    def tile(context, a, a_row, a_k, b, b_k, c, c_row, depth, accumulate, height, columns):
        def generate(context, builder, signature, arguments):
            a, a_row, a_k, b, b_k, c, c_row, depth, accumulate, height, columns = arguments
            a, b, c = (builder.inttoptr(x, ADDRESS) for x in (a, b, c))
            count = builder.sdiv(builder.add(columns, I64(lanes - 1)), I64(lanes))
            last = builder.sub(columns, builder.mul(builder.sub(count, I64(1)), I64(lanes)))
            which = builder.add(builder.mul(builder.sub(count, I64(1)), I64(rows)), height)
            end = builder.append_basic_block("tile.end")
            unreachable = builder.append_basic_block("tile.never")
            switch = builder.switch(which, unreachable)
            for vector in range(vectors):
                for row in range(rows):
                    block = builder.append_basic_block("tile.case")
                    switch.add_case(I64(vector * rows + row + 1), block)
                    builder.position_at_end(block)
                    function = tile_function(
                        builder.module, dtype, row + 1, vector + 1, lanes, masked
                    )
                    builder.call(
                        function, [a, a_row, a_k, b, b_k, c, c_row, depth, accumulate, last]
                    )
                    builder.branch(end)
            builder.position_at_end(unreachable)
            builder.unreachable()
            builder.position_at_end(end)
            return context.get_dummy_value()

        return types.void(*[I] * 11), generate

    return tile


def transpose_function(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """void(source, row, valid, target, step): see transpose_block."""
    name = f"transpose_{dtype}_{lanes}"
    existing = module.globals.get(name)
    if existing is not None:
        return existing
    kind = ir.FunctionType(ir.VoidType(), [ADDRESS, I64, I64, ADDRESS, I64])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    source, row, valid, target, step = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    v = Vectors(builder, dtype, lanes)
    final = builder.sub(valid, I64(1))
    block = []
    for i in range(lanes):
        inside = builder.icmp_signed("<", I64(i), valid)
        index = builder.select(inside, I64(i), final)
        block.append(v.load(v.at(source, builder.mul(index, row))))
    half = lanes // 2
    while half:
        for i in range(lanes):
            if i & half:
                continue
            upper, lower = block[i], block[i + half]
            take = [x if not x & half else lanes + x - half for x in range(lanes)]
            block[i] = builder.shuffle_vector(upper, lower, lane_numbers(take))
            take = [x + half if not x & half else lanes + x for x in range(lanes)]
            block[i + half] = builder.shuffle_vector(upper, lower, lane_numbers(take))
        half //= 2
    for value in block:
        v.store(value, target)
        target = v.at(target, step)
    builder.ret_void()
    return function


def transpose_block(dtype: str, lanes: int) -> Any:
    """transpose(source, row, valid, target, step): a lanes x lanes block, transposed in registers.

    Reads `lanes` elements from each of the rows source + i * row (rows from `valid` on repeat the
    last valid one, so nothing outside the matrix is read) and writes column i of the block at
    target + i * step. log2(lanes) rounds of two-vector shuffles, each round exchanging
    the off-diagonal halves of ever smaller squares.
    """

    @intrinsic
    def transpose(context, source, row, valid, target, step):
        def generate(context, builder, signature, arguments):
            source, row, valid, target, step = arguments
            source, target = (builder.inttoptr(x, ADDRESS) for x in (source, target))
            function = transpose_function(builder.module, dtype, lanes)
            builder.call(function, [source, row, valid, target, step])
            return context.get_dummy_value()

        return types.void(*[I] * 5), generate

    return transpose


def multiply_adder(dtype: str) -> Any:
    """multiply_add(x, y, z) = x * y + z on scalars, fused where the machine can.

    Said explicitly because a compiler free to fuse may do so in a vector loop and not in its scalar
    remainder, and then the bits of a result would depend on where it lies.
    """
    scalar = from_dtype(np.dtype(dtype))

    @intrinsic
    def multiply_add(context, x, y, z):
        def generate(context, builder, signature, arguments):
            x, y, z = arguments
            if np.dtype(dtype).kind != "f":
                return builder.add(builder.mul(x, y), z)
            kind = ir.FunctionType(x.type, [x.type] * 3)
            name = f"llvm.fmuladd.f{8 * np.dtype(dtype).itemsize}"
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(function, [x, y, z])

        return scalar(scalar, scalar, scalar), generate

    return multiply_add


@intrinsic
def call_core(context, function, spec, a, b, c, task, tasks):
    """Call the core at an address: void(spec, a, b, c, task, tasks), all intp."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [I64] * 6)
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(*[I] * 7), generate


def copy_vector(dtype: str, lanes: int) -> Any:
    """copy(source, target): one whole vector."""

    @intrinsic
    def copy(context, source, target):
        def generate(context, builder, signature, arguments):
            v = Vectors(builder, dtype, lanes)
            source, target = (builder.inttoptr(x, ADDRESS) for x in arguments)
            v.store(v.load(source), target)
            return context.get_dummy_value()

        return types.void(I, I), generate

    return copy


@intrinsic
def allocate(context, size):
    """The address of `size` fresh bytes."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(context.nrt.allocate(builder, arguments[0]), I64)

    return I(I), generate


@intrinsic
def release(context, address):
    """Give back what allocate gave."""

    def generate(context, builder, signature, arguments):
        context.nrt.free(builder, builder.inttoptr(arguments[0], ADDRESS))
        return context.get_dummy_value()

    return types.void(I), generate


@intrinsic
def prefetch(context, address):
    """Ask for the cache line at an address, to be written soon."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ADDRESS)
        kind = ir.FunctionType(ir.VoidType(), [ADDRESS, I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, I32(1), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(I), generate
