"""The source of a core: the matrix product of one dtype, in Numba's Python.

HEADER gives the constants of the dtype and the tile shape and the intrinsics of micro.py; BODY is
the same for all. Addresses are integers; strides are in bytes throughout. `stored` points to the
elements of A, B and C, `at` to those computed with, which are float32 for the 16-bit floats: these
are converted while they are packed, and their C goes through a copy that is rounded once.

The scheme is that of Goto and van de Geijn (2008) in the arrangement of BLIS (Van Zee and van de
Geijn 2015): three loops cut n, k and m so that a piece of B fits the last cache, a piece of A the
second and a strip of B the first; two loops then walk the register tiles. Small operands skip the
packing, which exists only to make memory accesses contiguous.

Every element of C is one chain of multiply-adds in order of k, cut at places that depend on k
alone. The tiling of m and n, the packing and the number of threads can therefore never change a
bit of the result. (Products with a vector sum in another order, chosen by the whole shape.)
"""

HEADER = """
from numba import njit, {dtype} as T, {wide} as SUM
from jitgrad.kernels.abi import p_{dtype} as at, p_{stored} as stored, p_int64 as words
from jitgrad.kernels.gemm import micro
from jitgrad.kernels.gemm.micro import allocate, prefetch, release

SIZE, STORED, CONVERT = {size}, {stored_size}, {convert}
ROWS, LANES, MASKED = {rows}, {lanes}, {masked}
DEPTH, TALL, WIDE = {depth}, {tall}, {wide_columns}
DIRECT, DOT, STRIP, CHUNK = 1 << 20, 2048, 1024, 16
TRANSPOSABLE = {transposable}
OPTIONS = dict(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
REASSOCIATED = dict(OPTIONS, fastmath={{"reassoc", "contract"}})
tile = micro.tile_kernel("{dtype}", ROWS, {vectors}, LANES, MASKED)
transpose = micro.transpose_block("{dtype}", LANES if TRANSPOSABLE else 1)
copy_vector = micro.copy_vector("{dtype}", LANES)
multiply_add = micro.multiply_adder("{dtype}")
"""

# A part of its own, because convolutions pack as well.
PACK = '''
@njit(**OPTIONS)
def pack(source, x_step, k_step, readable, depth, target, width):
    """target[k, x] = source[x, k], as `depth` rows of `width` elements; source has `readable` x.

    Work goes by whole vectors: what sticks out of a row lands at the start of the next one, which
    is written later (hence the order of the loops), and from the last row in the padding behind the
    panel. Places from `readable` on hold anything, and only feed lanes that are never stored.
    """
    if CONVERT and x_step == STORED:
        for _ in range(depth):
            row, elements = at(target), stored(source)
            for x in range(min(width, readable)):
                row[x] = elements[x]
            for x in range(readable, width):
                row[x] = T(0)
            source += k_step
            target += width * SIZE
        return
    if TRANSPOSABLE and k_step == SIZE and depth >= LANES:
        for block in range((min(width, readable) + LANES - 1) // LANES - 1, -1, -1):
            x = block * LANES
            for first in range(0, depth, LANES):
                k = min(first, depth - LANES)
                transpose(source + x * x_step + k * SIZE, x_step, readable - x,
                          target + (k * width + x) * SIZE, width * SIZE)
        return
    whole = min(width + LANES - 1, readable) // LANES * LANES if x_step == SIZE else 0
    for _ in range(depth):
        for x in range(0, whole, LANES):
            copy_vector(source + x * SIZE, target + x * SIZE)
        row = at(target)
        for x in range(whole, min(width, readable)):
            row[x] = stored(source + x * x_step)[0]
        for x in range(readable, width):
            row[x] = T(0)
        source += k_step
        target += width * SIZE
'''

BODY = '''
@njit(**OPTIONS)
def multiply(m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, c_col, accumulate):
    """C (+)= A @ B; m, n, k at least 1. A C contiguous along neither axis goes through a copy."""
    pack_b = CONVERT or b_col != SIZE or (n * k * SIZE > DIRECT and m > 2 * ROWS)
    pack_a = CONVERT or (m * k * SIZE > DIRECT and n > 4 * LANES)
    copy_c = CONVERT or c_col != SIZE
    pieces = (k + DEPTH - 1) // DEPTH
    deepest = (k + pieces - 1) // pieces
    width = min(WIDE, (n + 2 * LANES - 1) // (2 * LANES) * (2 * LANES))
    edges = not MASKED and n % LANES != 0
    size = 0
    if pack_b:
        size += deepest * width
    elif edges:
        size += deepest * 2 * LANES
    a_place = size
    if pack_a:
        size += min(TALL, m) * deepest + LANES
    c_place = size
    if copy_c:
        size += m * n
    scratch = allocate(size * SIZE + 64) if size else 0
    panels = (scratch + 63) & -64
    a_panels = panels + a_place * SIZE
    out, out_row, adds = c, c_row, accumulate
    if copy_c:
        out, out_row, adds = panels + c_place * SIZE, n * SIZE, 0
    for left in range(0, n, WIDE):
        right = min(n, left + WIDE)
        for piece in range(pieces):
            start = k * piece // pieces
            depth = k * (piece + 1) // pieces - start
            b_piece = b + start * b_row
            if pack_b:
                # Rows of B that are contiguous are read a few at a time, from end to end.
                chunk = CHUNK if b_col == STORED else depth
                for p in range(0, depth, chunk):
                    for j in range(left, right, 2 * LANES):
                        pack(b_piece + p * b_row + j * b_col, b_col, b_row, n - j,
                             min(chunk, depth - p),
                             panels + ((j - left) * depth + p * 2 * LANES) * SIZE, 2 * LANES)
            elif edges and right == n:
                j = n // (2 * LANES) * (2 * LANES)
                pack(b_piece + j * b_col, b_col, b_row, n - j, depth, panels, 2 * LANES)
            for top in range(0, m, TALL):
                height = min(TALL, m - top)
                a_piece = a + top * a_row + start * a_col
                tiles = (height + ROWS - 1) // ROWS
                if pack_a:
                    for t in range(tiles):
                        i = height * t // tiles
                        rows = height * (t + 1) // tiles - i
                        pack(a_piece + i * a_row, a_row, a_col, height - i, depth,
                             a_panels + i * depth * SIZE, rows)
                for j in range(left, right, 2 * LANES):
                    columns = min(2 * LANES, right - j)
                    if pack_b:
                        b_tile, b_step = panels + (j - left) * depth * SIZE, 2 * LANES * SIZE
                    elif edges and columns % LANES != 0:
                        b_tile, b_step = panels, 2 * LANES * SIZE
                    else:
                        b_tile, b_step = b_piece + j * STORED, b_row
                    for t in range(tiles):
                        i = height * t // tiles
                        rows = height * (t + 1) // tiles - i
                        if pack_a:
                            a_tile, row_step = a_panels + i * depth * SIZE, SIZE
                            k_step = rows * SIZE
                        else:
                            a_tile, row_step, k_step = a_piece + i * a_row, a_row, a_col
                        place = out + (top + i) * out_row + j * SIZE
                        if depth >= 128:  # C is wanted only after the loop over k: fetch it now
                            for r in range(rows):
                                prefetch(place + r * out_row)
                                prefetch(place + r * out_row + LANES * SIZE)
                        tile(a_tile, row_step, k_step, b_tile, b_step, place, out_row, depth,
                             adds | (piece > 0), rows, columns)
    if copy_c:
        for i in range(m):
            for j in range(n):
                put(c + i * c_row + j * c_col, at(out + i * out_row + j * SIZE)[0], accumulate)
    if scratch != 0:
        release(scratch)


@njit(**REASSOCIATED)
def row_dots(m, k, a, a_row, x, y, y_step, accumulate):
    """y[i] (+)= A[i, :] . x with both contiguous in k: four rows share each load of x.

    Sums run in many vector lanes over at most DOT elements and are then added in SUM (double for
    float): a plain float32 sum over millions of elements would lose several digits.
    """
    xs = stored(x)
    for i in range(0, m - 3, 4):
        r0, r1 = stored(a + i * a_row), stored(a + (i + 1) * a_row)
        r2, r3 = stored(a + (i + 2) * a_row), stored(a + (i + 3) * a_row)
        t0, t1, t2, t3 = SUM(0), SUM(0), SUM(0), SUM(0)
        for start in range(0, k, DOT):
            s0, s1, s2, s3 = T(0), T(0), T(0), T(0)
            for p in range(start, min(k, start + DOT)):
                value = xs[p]
                s0 = T(s0 + r0[p] * value)
                s1 = T(s1 + r1[p] * value)
                s2 = T(s2 + r2[p] * value)
                s3 = T(s3 + r3[p] * value)
            t0, t1, t2, t3 = SUM(t0 + s0), SUM(t1 + s1), SUM(t2 + s2), SUM(t3 + s3)
        put(y + i * y_step, t0, accumulate)
        put(y + (i + 1) * y_step, t1, accumulate)
        put(y + (i + 2) * y_step, t2, accumulate)
        put(y + (i + 3) * y_step, t3, accumulate)
    for i in range(m // 4 * 4, m):
        r0, t0 = stored(a + i * a_row), SUM(0)
        for start in range(0, k, DOT):
            s0 = T(0)
            for p in range(start, min(k, start + DOT)):
                s0 = T(s0 + r0[p] * xs[p])
            t0 = SUM(t0 + s0)
        put(y + i * y_step, t0, accumulate)


@njit(**OPTIONS)
def put(place, value, accumulate):
    out = stored(place)
    if accumulate:
        value += out[0]
    out[0] = T(value)


@njit(**OPTIONS)
def column_sums(m, k, a, a_col, x, x_step, y, y_step, accumulate):
    """y (+)= sum over k of x[k] * A[:, k], columns contiguous: strips of y stay in the first cache
    while the columns stream by, four at a time."""
    strip = allocate(min(m, STRIP) * SIZE)
    sums = at(strip)
    for low in range(0, m, STRIP):
        count = min(STRIP, m - low)
        for start in range(0, k, DEPTH):
            end = min(k, start + DEPTH)
            for i in range(count):
                sums[i] = T(0)
            quads = start + (end - start) // 4 * 4
            for p in range(start, quads, 4):
                column = a + low * STORED + p * a_col
                c0, c1 = stored(column), stored(column + a_col)
                c2, c3 = stored(column + 2 * a_col), stored(column + 3 * a_col)
                x0, x1 = stored(x + p * x_step)[0], stored(x + (p + 1) * x_step)[0]
                x2, x3 = stored(x + (p + 2) * x_step)[0], stored(x + (p + 3) * x_step)[0]
                for i in range(count):
                    s = multiply_add(c1[i], x1, multiply_add(c0[i], x0, sums[i]))
                    sums[i] = multiply_add(c3[i], x3, multiply_add(c2[i], x2, s))
            for p in range(quads, end):
                column, factor = stored(a + low * STORED + p * a_col), stored(x + p * x_step)[0]
                for i in range(count):
                    sums[i] = multiply_add(column[i], factor, sums[i])
            more = accumulate | (start > 0)
            for i in range(count):
                put(y + (low + i) * y_step, sums[i], more)
    release(strip)


@njit(**OPTIONS)
def gather(source, step, count, target):
    """A strided vector copied to contiguous memory."""
    out = stored(target)
    for i in range(count):
        out[i] = stored(source + i * step)[0]


@njit(**OPTIONS)
def vector(m, k, a, a_row, a_col, x, x_step, y, y_step, accumulate, whole):
    """y (+)= A @ x. `whole` is the number of rows of all shares: the two methods round differently,
    so which is used must not depend on the cut."""
    if a_row == STORED and a_col != STORED and whole >= LANES:
        column_sums(m, k, a, a_col, x, x_step, y, y_step, accumulate)
        return
    # Dot products want both sides contiguous: copy x once, and the rows of A one by one.
    scratch, at_once, row = 0, m, a
    if x_step != STORED or a_col != STORED:
        scratch = allocate(2 * k * STORED)
        gather(x, x_step, k, scratch)
        x = scratch
        if a_col != STORED:
            at_once, row = 1, scratch + k * STORED
    for i in range(0, m, at_once):
        if a_col != STORED:
            gather(a + i * a_row, a_col, k, row)
        row_dots(at_once, k, row, a_row, x, y + i * y_step, y_step, accumulate)
    if scratch != 0:
        release(scratch)


@njit(**OPTIONS)
def share(extent, unit, part, parts):
    """Where part of parts starts, in whole units from the beginning of the extent."""
    units = (extent + unit - 1) // unit
    return min(extent, units * part // parts * unit)


def kernel(spec, a, b, c, task, tasks):
    """The share `task` of `tasks` of a batched product, described by spec (see drivers.py)."""
    s = words(spec)
    rank, m, n, k, accumulate = s[0], s[1], s[2], s[3], s[10]
    a_row, a_col, b_row, b_col = s[4] * STORED, s[5] * STORED, s[6] * STORED, s[7] * STORED
    c_row, c_col = s[8] * STORED, s[9] * STORED
    # An innermost batch dimension whose B is the same for all is just more rows.
    while rank > 0:
        last = 7 + 4 * rank
        if (s[last + 2] != 0 or s[last + 1] * STORED != m * a_row
                or s[last + 3] * STORED != m * c_row):
            break
        m *= s[last]
        rank -= 1
    batch = 1
    for d in range(rank):
        batch *= s[11 + 4 * d]
    if m == 0 or n == 0 or batch == 0:
        return
    if c_col != STORED and c_row == STORED:  # C^T = B^T A^T
        m, n, a, b = n, m, b, a
        a_row, a_col, b_row, b_col = b_col, b_row, a_col, a_row
        c_row, c_col = c_col, c_row
        swapped = 1
    else:
        swapped = 0

    # Shares: whole matrices if there are enough, else a grid over each matrix; never a cut of k.
    top, bottom, left, right, first, end = 0, m, 0, n, 0, batch
    if tasks > 1:
        if batch % tasks == 0 or batch >= 4 * tasks:
            first, end = batch * task // tasks, batch * (task + 1) // tasks
        else:
            down, cost = 1, m + n // tasks
            for d in range(2, tasks + 1):
                if tasks % d == 0 and m // d + n * d // tasks < cost:
                    down, cost = d, m // d + n * d // tasks
            across = tasks // down
            top = share(m, ROWS * 4, task // across, down)
            bottom = share(m, ROWS * 4, task // across + 1, down)
            left = share(n, LANES * 2, task % across, across)
            right = share(n, LANES * 2, task % across + 1, across)
            if top == bottom or left == right:
                return

    for index in range(first, end):
        a_item = a + top * a_row
        b_item = b + left * b_col
        c_item = c + top * c_row + left * c_col
        rest = index
        for d in range(rank - 1, -1, -1):
            where = 11 + 4 * d
            i = rest % s[where] * STORED
            rest //= s[where]
            a_item += i * s[where + 1 + swapped]
            b_item += i * s[where + 2 - swapped]
            c_item += i * s[where + 3]
        if k == 0:
            if not accumulate:
                for i in range(bottom - top):
                    for j in range(right - left):
                        stored(c_item + i * c_row + j * c_col)[0] = T(0)
        elif n == 1:
            vector(bottom - top, k, a_item, a_row, a_col, b_item, b_row, c_item, c_row,
                   accumulate, m)
        elif m == 1:
            vector(right - left, k, b_item, b_col, b_row, a_item, a_col, c_item, c_col,
                   accumulate, n)
        else:
            multiply(bottom - top, right - left, k, a_item, a_row, a_col, b_item, b_row, b_col,
                     c_item, c_row, c_col, accumulate)
'''
