"""The sources of the convolution kernels of one dtype, in Numba's Python.

The cores are called as ``kernel(spec, a, b, c, d, task)`` with the address of an int64 spec whose
words are named by FIELDS (plan.py writes them) and the addresses of four operands:

- ``window``: input, weights, bias, results. Convolutions and their adjoints (transposed ones, which
  are the gradients of the input) are sums over taps of weights and shifted inputs; they differ only
  in which taps a result sees. ``narrow`` is the same for few rows of results.
- ``outer``: input, incoming gradient, sums. The gradient of the weights, in a few parts over
  different images. ``inner`` is the same for few rows.
- ``total``: sums, gradient of the weights. Adds those parts up and brings them in order.

No matrix of input windows is ever made. Where there are strides, a block of the input is copied
once, with its padding as zeros and the elements of each remainder together, so that whatever a tap
reads for neighbouring results lies side by side; then tap t of result p is element p + offset(t) of
the block, rows following each other as one long line. The few places of that line that belong to no
result (as many as a filter is wide, less one, at the end of a row) are computed and not stored.

Without strides the image is such a line as it lies in memory. If loads can be masked, the lanes of
each tap that lie outside are zeros by a table of masks, and nothing is copied at all.
"""

from __future__ import annotations

from ..gemm.template import PACK

FIELDS = """
tasks slices batch images groups channels rows
size_d size_h size_w block_d block_h block_w blocks_d blocks_h blocks_w
x_n x_g x_c x_d x_h x_w
stride_d stride_h stride_w low_d low_h low_w phases_d phases_h phases_w residues
extent_d extent_h extent_w line pitch plane phase channel scratch direct masked ahead
w_g w_row w_channel bias_step vectors tiles tile_count at_once
o_n o_g o_row subs sub_number
out_d out_h out_w y_n y_g y_c y_d y_h taps tap_rows parts padded panel
""".split()

SUB_FIELDS = "offset size_d size_h size_w o_d o_h o_w taps count masks plane_tiles".split()

HEADER = """
from numba import njit, {dtype} as T
from jitgrad.kernels.abi import p_{dtype} as at, p_{dtype} as stored, p_int64 as words
from jitgrad.kernels.gemm import micro
from jitgrad.kernels.gemm.micro import allocate, release
from jitgrad.kernels.conv import micro as tiles
from jitgrad.kernels.conv.micro import clear, fetch

SIZE, LANES, TRANSPOSABLE, SUB_SIZE = {size}, {lanes}, {transposable}, {sub_size}
AT_NEXT = 2  # of the words in front of the tile's buffer: two masks, an address to fetch from
STORED, CONVERT = SIZE, False  # what `pack` asks for
{fields}
OPTIONS = dict(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""

FILL = '''
copy = tiles.copy_lines("{dtype}", LANES)

@njit(**OPTIONS)
def fill(spec, source, first, last, start_d, start_h, start_w, target):
    """Copy the block of channels first..last of an image, which begins at the given results."""
    s = words(spec)
    clear(target, (last - first) * s[CHANNEL])
    step = s[STRIDE_W] * s[X_W]
    for c in range(first, last):
        for a in range(s[PHASES_D]):
            d = start_d * s[STRIDE_D] + s[s[RESIDUES] + a] - s[LOW_D]
            for b in range(s[PHASES_H]):
                h = start_h * s[STRIDE_H] + s[s[RESIDUES] + s[PHASES_D] + b] - s[LOW_H]
                for e in range(s[PHASES_W]):
                    w = (start_w * s[STRIDE_W]
                         + s[s[RESIDUES] + s[PHASES_D] + s[PHASES_H] + e] - s[LOW_W])
                    low, high = inside(w, s[STRIDE_W], s[SIZE_W], s[EXTENT_W])
                    if low >= high:
                        continue
                    block = (target + (c - first) * s[CHANNEL] + low * SIZE
                             + ((a * s[PHASES_H] + b) * s[PHASES_W] + e) * s[PHASE])
                    image = source + c * s[X_C] + (w + low * s[STRIDE_W]) * s[X_W]
                    from_d, to_d = inside(d, s[STRIDE_D], s[SIZE_D], s[EXTENT_D])
                    from_h, to_h = inside(h, s[STRIDE_H], s[SIZE_H], s[EXTENT_H])
                    if from_h >= to_h:
                        continue
                    for i in range(from_d, to_d):
                        read = (image + (d + i * s[STRIDE_D]) * s[X_D]
                                + (h + from_h * s[STRIDE_H]) * s[X_H])
                        write = block + i * s[PLANE] + from_h * s[LINE]
                        if step == SIZE:
                            copy(read, s[STRIDE_H] * s[X_H], write, s[LINE], to_h - from_h,
                                 high - low)
                            continue
                        for _ in range(from_h, to_h):
                            line = at(write)
                            for k in range(high - low):
                                line[k] = at(read + k * step)[0]
                            read += s[STRIDE_H] * s[X_H]
                            write += s[LINE]


@njit(**OPTIONS)
def inside(first, step, size, count):
    """Which of first, first + step, .. (so many) lie in [0, size): a range of their numbers."""
    low = max(0, (step - 1 - first) // step)
    return low, min(count, (size - 1 - first) // step + 1)
'''

SWEEP = '''
tile = tiles.window_tile("{dtype}", LANES, {masked}, {shapes})

@njit(**OPTIONS)
def sweep(spec, sub, z, base, weights, bias, target, lines, width, first, last, buffer):
    """All results of plane z, for the row tiles first..last."""
    s = words(spec)
    f = s[SUBS] + sub * SUB_SIZE
    pitch = s[PITCH]
    total = (lines - 1) * pitch + width
    taps = spec + 8 * s[f + SUB_TAPS]
    count = s[f + SUB_COUNT]
    o_h, o_w = s[f + SUB_O_H], s[f + SUB_O_W]
    masks, mask_step = buffer, 16 * s[MASKED]
    entry = s[f + SUB_MASKS] + z * s[f + SUB_PLANE_TILES]
    place = 0
    while place < total:
        line = place // pitch
        if place - line * pitch >= width:
            line += 1
            place = line * pitch
        vectors = s[VECTORS]
        while vectors > 1 and vectors // 2 * LANES >= total - place:
            vectors //= 2
        columns = vectors * LANES
        low = line * pitch - place
        if s[MASKED]:
            masks = spec + 8 * s[entry]
            entry += 1
        else:  # whatever lies before the end may be read
            for j in range(vectors):
                left = total - place - j * LANES
                words(masks)[j] = -1 if left >= LANES else (1 << max(left, 0)) - 1
        for i in range(s[AHEAD]):  # the next image, which is read where it lies
            fetch(words(buffer)[AT_NEXT] + 64 * i)
        words(buffer)[AT_NEXT] += 64 * s[AHEAD]
        number = min((place + columns - 1) // pitch, lines - 1) - line + 1
        for t in range(first, last):
            row, height = s[s[TILES] + 2 * t], s[s[TILES] + 2 * t + 1]
            a = weights + row * s[W_ROW]
            b = base + place * SIZE
            start = target + row * s[O_ROW] + line * o_h
            if o_w == SIZE:
                tile(height, vectors, a, s[W_ROW], s[W_CHANNEL], b, s[CHANNEL], taps, count,
                     s[CHANNELS], bias + row * s[BIAS_STEP], s[BIAS_STEP], masks, mask_step,
                     start - low * SIZE, s[O_ROW], low, width, pitch, o_h - pitch * SIZE, number)
            else:
                tile(height, vectors, a, s[W_ROW], s[W_CHANNEL], b, s[CHANNEL], taps, count,
                     s[CHANNELS], bias + row * s[BIAS_STEP], s[BIAS_STEP], masks, mask_step,
                     buffer + 64, columns * SIZE, 0, columns, columns, 0, 1)
                for i in range(height):
                    values = at(buffer + 64 + i * columns * SIZE)
                    for r in range(number):
                        at_row = start + i * s[O_ROW] + r * o_h
                        for x in range(max(0, low + r * pitch),
                                       min(columns, low + r * pitch + width)):
                            at(at_row + (x - low - r * pitch) * o_w)[0] = values[x]
        place += columns
'''

NARROW = '''
tile = tiles.narrow_tile("{dtype}", LANES, {masked}, {shapes})

@njit(**OPTIONS)
def sweep(spec, sub, z, base, weights, bias, target, lines, width, first, last, buffer):
    """All results of plane z, for the row tiles first..last.

    A vector begins at every LANES columns, the last one where it ends with the line. A tile has
    those of several lines, or of one line where there is but one.
    """
    s = words(spec)
    f = s[SUBS] + sub * SUB_SIZE
    taps, count = spec + 8 * s[f + SUB_TAPS], s[f + SUB_COUNT]
    o_h, o_w = s[f + SUB_O_H], s[f + SUB_O_W]
    across, columns = lines == 1, min(width, LANES)
    line = 0
    while line < lines:
        x = 0
        vectors = fitting(lines - line, s[VECTORS])
        while x < width:
            if across:
                vectors = max(1, fitting((width - x) // LANES, s[VECTORS]))
            x = max(0, min(x, width - LANES))
            step = LANES if across else s[PITCH]
            c_step = LANES * o_w if across else o_h
            for t in range(first, last):
                row, height = s[s[TILES] + 2 * t], s[s[TILES] + 2 * t + 1]
                a = weights + row * s[W_ROW]
                b = base + line * s[PITCH] * SIZE + x * SIZE
                start = target + row * s[O_ROW] + line * o_h + x * o_w
                if o_w == SIZE:
                    tile(height, vectors, a, s[W_ROW], s[W_CHANNEL], b, s[CHANNEL], step * SIZE,
                         taps, count, s[CHANNELS], bias + row * s[BIAS_STEP], s[BIAS_STEP],
                         start, s[O_ROW], c_step, columns)
                    continue
                tile(height, vectors, a, s[W_ROW], s[W_CHANNEL], b, s[CHANNEL], step * SIZE,
                     taps, count, s[CHANNELS], bias + row * s[BIAS_STEP], s[BIAS_STEP],
                     buffer, vectors * LANES * SIZE, LANES * SIZE, columns)
                for i in range(height):
                    for j in range(vectors):
                        values = at(buffer + (i * vectors + j) * LANES * SIZE)
                        place = start + i * s[O_ROW] + j * c_step
                        for k in range(columns):
                            at(place + k * o_w)[0] = values[k]
            x += LANES * vectors if across else LANES
        line += vectors if not across else 1


@njit(**OPTIONS)
def fitting(count, most):
    """How many vectors a tile takes of so many: there are tiles of 8, of 4 and of one."""
    return min(most, 8 if count >= 8 else 4 if count >= 4 else 1)
'''

WINDOW = '''
@njit(**OPTIONS)
def only_bias(spec, f, bias, target, depth, lines, width, first, last):
    """Results that no tap reaches."""
    s = words(spec)
    for t in range(first, last):
        row = s[s[TILES] + 2 * t]
        for i in range(row, row + s[s[TILES] + 2 * t + 1]):
            value = at(bias + i * s[BIAS_STEP])[0]
            for z in range(depth):
                for y in range(lines):
                    at_row = target + i * s[O_ROW] + z * s[f + SUB_O_D] + y * s[f + SUB_O_H]
                    for x in range(width):
                        at(at_row + x * s[f + SUB_O_W])[0] = value


@njit(**OPTIONS)
def results(spec, base, weights, bias, out, start_d, start_h, start_w, first, last, buffer):
    """The results of a block, which begins at the given ones, for the row tiles first..last."""
    s = words(spec)
    for sub in range(s[SUB_NUMBER]):
        f = s[SUBS] + sub * SUB_SIZE
        depth = min(s[BLOCK_D], s[f + SUB_SIZE_D] - start_d)
        lines = min(s[BLOCK_H], s[f + SUB_SIZE_H] - start_h)
        width = min(s[BLOCK_W], s[f + SUB_SIZE_W] - start_w)
        if depth <= 0 or lines <= 0 or width <= 0:
            continue
        target = (out + s[f + SUB_OFFSET] + start_d * s[f + SUB_O_D] + start_h * s[f + SUB_O_H]
                  + start_w * s[f + SUB_O_W])
        if s[f + SUB_COUNT] == 0:
            only_bias(spec, f, bias, target, depth, lines, width, first, last)
            continue
        for z in range(depth):
            sweep(spec, sub, z, base + z * s[PLANE], weights, bias, target + z * s[f + SUB_O_D],
                  lines, width, first, last, buffer)


def kernel(spec, x, w, bias, out, task):
    """Some blocks, for some of the rows.

    Row tiles go in groups whose weights stay in the second cache; where images are small, several
    of them use a group before the next one comes.
    """
    s = words(spec)
    blocks = s[BLOCKS_D] * s[BLOCKS_H] * s[BLOCKS_W]
    units = (s[BATCH] + s[IMAGES] - 1) // s[IMAGES] * s[GROUPS] * blocks
    slices, parts = s[SLICES], s[TASKS] // s[SLICES]
    part, piece = task // slices, task % slices
    first = s[TILE_COUNT] * piece // slices
    last = s[TILE_COUNT] * (piece + 1) // slices
    memory = allocate(s[SCRATCH] + 64)
    buffer = (memory + 63) & -64
    scratch, image_size = buffer + s[PANEL], s[CHANNEL] * s[CHANNELS]
    for unit in range(units * part // parts, units * (part + 1) // parts):
        g, block = unit // blocks % s[GROUPS], unit % blocks
        n = unit // blocks // s[GROUPS] * s[IMAGES]
        images = min(s[IMAGES], s[BATCH] - n)
        start_w = block % s[BLOCKS_W] * s[BLOCK_W]
        start_h = block // s[BLOCKS_W] % s[BLOCKS_H] * s[BLOCK_H]
        start_d = block // (s[BLOCKS_W] * s[BLOCKS_H]) * s[BLOCK_D]
        base, step = x + n * s[X_N] + g * s[X_G], s[X_N]
        if s[DIRECT]:
            base += start_d * s[X_D] + start_h * s[X_H] + start_w * SIZE
        else:
            for i in range(images):
                fill(spec, base + i * step, 0, s[CHANNELS], start_d, start_h, start_w,
                     scratch + i * image_size)
            base, step = scratch, image_size
        for few in range(first, last, s[AT_ONCE]):
            for i in range(images):
                if images > 1 or few == first:
                    words(buffer)[AT_NEXT] = base + i * step + s[X_G]
                results(spec, base + i * step, w + g * s[W_G], bias + g * s[ROWS] * s[BIAS_STEP],
                        out + (n + i) * s[O_N] + g * s[O_G], start_d, start_h, start_w, few,
                        min(few + s[AT_ONCE], last), buffer)
    release(memory)
'''

OUTER = """
transpose = micro.transpose_block("{dtype}", LANES if TRANSPOSABLE else 1)
copy_vector = micro.copy_vector("{dtype}", LANES)
tile = tiles.outer_tile("{dtype}", LANES, {shapes})

@njit(**OPTIONS)
def multiply(spec, image, gradient, lines, width, table, count, target, panel):
    \"\"\"Add to ``count`` rows of sums what a plane contributes.\"\"\"
    s = words(spec)
    skip, row = s[LINE] - width * SIZE, s[PADDED] * SIZE
    for column in range(0, s[PADDED], 2 * LANES):
        vectors = min(2, (s[PADDED] - column) // LANES)
        wide = vectors * LANES
        top = gradient + column * s[Y_C]
        if s[Y_H] == width * SIZE:
            pack(top, s[Y_C], SIZE, s[ROWS] - column, lines * width, panel, wide)
        else:
            for j in range(lines):
                pack(top + j * s[Y_H], s[Y_C], SIZE, s[ROWS] - column, width,
                     panel + j * width * wide * SIZE, wide)
        t, done = table, 0
        while done < count:
            height = s[t + 1]
            tile(height, vectors, image, spec + 8 * (s[TAPS] + s[t]), panel, width, skip, lines,
                 target + s[t] * row + column * SIZE, row)
            done += height
            t += 2
"""

INNER = """
tile = tiles.inner_tile("{dtype}", LANES, {shapes})

@njit(**OPTIONS)
def multiply(spec, image, gradient, lines, width, table, count, target, panel):
    \"\"\"Add to ``count`` rows of sums what a plane contributes.\"\"\"
    s = words(spec)
    skip, row = s[LINE] - width * SIZE, s[PADDED] * SIZE
    for column in range(s[ROWS]):
        t, done = table, 0
        while done < count:
            height = s[t + 1]
            tile(height, 1, image, spec + 8 * (s[TAPS] + s[t]), gradient + column * s[Y_C],
                 s[Y_H], width, skip, lines, target + s[t] * row + column * SIZE, row)
            done += height
            t += 2
"""

WEIGHTS = """
def kernel(spec, x, y, sums, unused, task):
    s = words(spec)
    blocks = s[BLOCKS_D] * s[BLOCKS_H] * s[BLOCKS_W]
    units = s[BATCH] * blocks
    piece = task % s[SLICES]
    g = task // s[SLICES] % s[GROUPS]
    part = task // (s[SLICES] * s[GROUPS])
    low = s[CHANNELS] * piece // s[SLICES]
    high = s[CHANNELS] * (piece + 1) // s[SLICES]
    taps, padded = s[TAP_ROWS], s[PADDED]
    row = padded * SIZE
    target = sums + ((part * s[GROUPS] + g) * s[CHANNELS] + low) * taps * row
    clear(target, (high - low) * taps * row)
    memory = allocate(s[SCRATCH] + 64)
    panel = (memory + 63) & -64
    scratch = panel + s[PANEL]
    table = s[TILES] + 2 * s[TILE_COUNT] * (high - low > s[CHANNELS] // s[SLICES])
    for unit in range(units * part // s[PARTS], units * (part + 1) // s[PARTS]):
        n, block = unit // blocks, unit % blocks
        start_w = block % s[BLOCKS_W] * s[BLOCK_W]
        start_h = block // s[BLOCKS_W] % s[BLOCKS_H] * s[BLOCK_H]
        start_d = block // (s[BLOCKS_W] * s[BLOCKS_H]) * s[BLOCK_D]
        base = x + n * s[X_N] + g * s[X_G]
        if s[DIRECT]:
            base += low * s[X_C] + start_d * s[X_D] + start_h * s[X_H] + start_w * SIZE
        else:
            fill(spec, base, low, high, start_d, start_h, start_w, scratch)
            base = scratch
        depth = min(s[BLOCK_D], s[OUT_D] - start_d)
        lines = min(s[BLOCK_H], s[OUT_H] - start_h)
        width = min(s[BLOCK_W], s[OUT_W] - start_w)
        source = (y + n * s[Y_N] + g * s[Y_G] + start_d * s[Y_D] + start_h * s[Y_H]
                  + start_w * SIZE)
        for z in range(depth):
            multiply(spec, base + z * s[PLANE], source + z * s[Y_D], lines, width, table,
                     (high - low) * taps, target, panel)
    release(memory)
"""

TOTAL = '''
transpose = micro.transpose_block("{dtype}", LANES if TRANSPOSABLE else 1)

def kernel(spec, sums, out, unused, unused_too, task):
    """The parts of a few channels of a group added up and transposed to [rows, channels, taps]."""
    s = words(spec)
    g, piece = task // s[SLICES], task % s[SLICES]
    low = s[CHANNELS] * piece // s[SLICES] * s[TAP_ROWS]
    high = s[CHANNELS] * (piece + 1) // s[SLICES] * s[TAP_ROWS]
    rows, padded, all_taps = s[ROWS], s[PADDED], s[CHANNELS] * s[TAP_ROWS]
    part_size = s[GROUPS] * all_taps * padded * SIZE
    source = sums + g * all_taps * padded * SIZE
    target = out + g * rows * all_taps * SIZE
    for part in range(1, s[PARTS]):
        total, more = at(source), at(source + part * part_size)
        for i in range(low * padded, high * padded):
            total[i] = T(total[i] + more[i])
    if TRANSPOSABLE and high - low >= LANES and rows >= LANES:
        for first in range(low, high, LANES):
            r = min(first, high - LANES)
            for column in range(0, rows, LANES):
                c = min(column, rows - LANES)
                transpose(source + (r * padded + c) * SIZE, padded * SIZE, LANES,
                          target + (c * all_taps + r) * SIZE, all_taps * SIZE)
        return
    for r in range(low, high):
        values = at(source + r * padded * SIZE)
        for c in range(rows):
            at(target + (c * all_taps + r) * SIZE)[0] = values[c]
'''

# The parts of each core's source, in order.
PARTS = {
    "window": (HEADER, FILL, SWEEP, WINDOW),
    "narrow": (HEADER, FILL, NARROW, WINDOW),
    "outer": (HEADER, PACK, FILL, OUTER, WEIGHTS),
    "inner": (HEADER, FILL, INNER, WEIGHTS),
    "total": (HEADER, TOTAL),
}
