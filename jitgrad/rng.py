"""The number streams of ``torch.Generator`` on the CPU: same seed, same calls, same numbers.

Everything is drawn from one Mersenne Twister, MT19937 (Matsumoto & Nishimura 1998), which delivers
32-bit words.  Two conventions turn words into numbers in [0, 1), and every distribution is built on
one of them:

* *single*: one word, its low 24 bits divided by 2**24 (a float32 mantissa);
* *double*: two words, the first one high, the low 53 bits of the pair divided by 2**53.

How many words each call uses is part of the contract (it fixes what the next call sees), so each
function states it.  The conventions were found by experiment against PyTorch 2.13 and are held by
``tests/test_rng.py``.

The functions know nothing of tensors: they take a `Generator` and a length and return a flat array
in row-major order of the tensor to be filled (`normal` says where memory order matters).  Arguments
are not validated here.  ``dtype`` is anything `numpy.dtype` accepts, or the string ``"bfloat16"``:
NumPy has no such type, so the values, already rounded to bfloat16, then come as float32.  ``out``,
where given, is a contiguous one-dimensional array of that dtype (float32 for bfloat16) to fill.

The loops are Numba kernels, compiled on first use.  The twist and the tempering vectorise there: a
million words take 0.15 ms, against 1.5 ms for NumPy's scalar generator of the same sequence.
"""

from __future__ import annotations

import functools
import math
import os
import secrets
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.extending import intrinsic

__all__ = [
    "Generator",
    "bernoulli",
    "cauchy",
    "exponential",
    "geometric",
    "integers",
    "log_normal",
    "multinomial",
    "normal",
    "permutation",
    "random",
    "uniform",
]

Array = np.ndarray
DType = Any  # what numpy.dtype() accepts, or "bfloat16"

DEFAULT_SEED = 67280421310721

_DEGREE = 624  # words of state
_BLOCK = 4096  # words drawn at a time: 16 KiB, still in the first-level cache when used

# Mantissa bits, the hidden one included: integers up to 2**bits are exact.
_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _jit(function: Callable, **options: Any) -> Any:
    """Compile lazily, keep the machine code on disk where some cache folder can be written."""
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # Numba found no writable folder
        return njit(**options)(function)


def _inline(function: Callable) -> Any:
    """The same for the scalar parts of loops, which vectorise only if nothing is called."""
    return _jit(function, forceinline=True)


# ------------------------------------------------------------------------------- the generator


@_inline
def _twist(low, high, far):
    """The recurrence: the top bit of ``low`` joined to the rest of ``high``, times the matrix."""
    joined = (low & np.uint32(0x80000000)) | (high & np.uint32(0x7FFFFFFF))
    odd = np.uint32(0) - (joined & np.uint32(1))  # all ones or all zeros: no branch, no multiply
    return far ^ (joined >> np.uint32(1)) ^ (odd & np.uint32(0x9908B0DF))


@_jit
def _draw(state, out):
    """Write the next ``out.size`` words (uint32) and advance the state."""
    filled = 0
    used = np.intp(state[624])
    while filled < out.size:
        if used == 624:
            # Word k needs words k, k+1 and k+397 (mod 624).  Split where k+397 wraps round: neither
            # loop then reads what it has just written within a vector's length.
            for k in range(227):
                state[k] = _twist(state[k], state[k + 1], state[k + 397])
            for k in range(227, 623):
                state[k] = _twist(state[k], state[k + 1], state[k - 227])
            state[623] = _twist(state[623], state[0], state[396])
            used = 0
        count = min(624 - used, out.size - filled)
        source = state[used : used + count]
        target = out[filled : filled + count]
        for k in range(count):
            y = source[k]
            y ^= y >> np.uint32(11)
            y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
            y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
            target[k] = y ^ (y >> np.uint32(18))
        filled += count
        used += count
    state[624] = used


# torch's own layout of a CPU generator's state, so that states can be exchanged with it.
_STATE = np.dtype(
    [
        ("seed", "<u8"),
        ("left", "<i4"),
        ("seeded", "<i4"),
        ("next", "<u8"),
        ("words", "<u8", (_DEGREE,)),
        ("normal_x", "<f8"),
        ("normal_spare", "<f8"),
        ("normal_rho", "<f8"),
        ("spare_valid", "<i4"),
        ("padding_1", "<i4"),
        ("float_spare", "<f4"),
        ("float_spare_valid", "<i4"),
    ]
)

_generators: weakref.WeakSet[Generator] = weakref.WeakSet()
_registry = threading.Lock()


class Generator:
    """One stream of random numbers.

    Each function of this module holds ``lock`` for the whole of its draw, so threads that share a
    generator get disjoint stretches of the stream.  A forked child continues with a copy.
    """

    __slots__ = ("__weakref__", "_initial_seed", "_scratch", "_spare", "_state", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._state = np.empty(_DEGREE + 1, np.uint32)  # the words, then how many of them are used
        self._scratch = np.empty(_BLOCK, np.uint32)
        # Normals are made in pairs; an odd draw leaves the second here: (1 if present, value).
        self._spare = np.zeros(2, np.float64)
        self.manual_seed(DEFAULT_SEED)
        with _registry:
            _generators.add(self)

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream; returns self.

        ``seed`` is any integer in [-2**63, 2**64), negative ones counting from 2**64.  The stream
        depends on its low 32 bits only.  Raises RuntimeError for what is not an integer, ValueError
        outside the range.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        value = int(seed)
        if not -(2**63) <= value < 2**64:
            raise ValueError("Overflow when unpacking long long")
        with self.lock:
            self._initial_seed = value % 2**64
            self._spare[:] = 0
            # NumPy seeds its own twister in the same way; and nothing is compiled before a draw.
            twister = np.random.RandomState(value % 2**32).get_state(legacy=False)
            self._state[:_DEGREE] = twister["state"]["key"]
            self._state[_DEGREE] = _DEGREE
        return self

    def seed(self) -> int:
        """Restart the stream from a seed of the operating system's making, and return that seed."""
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed of the last restart, as an unsigned 64-bit integer."""
        return self._initial_seed

    def get_state(self) -> Array:
        """The whole state as uint8[5056], byte for byte what torch's CPU generator gives."""
        with self.lock:
            words, used = self._state[:_DEGREE], int(self._state[_DEGREE])
            record = np.zeros((), _STATE)
            record["seed"] = self._initial_seed
            record["seeded"] = 1
            record["left"] = _DEGREE + 1 - used
            # torch tells a fresh seed (0 used) from an exhausted block (624), though both make the
            # next draw renew the block.  A fresh block still begins with its seed.
            fresh = used == _DEGREE and int(words[0]) == self._initial_seed % 2**32
            record["next"] = 0 if fresh else used
            record["words"] = words
            record["spare_valid"], record["normal_spare"] = self._spare
        return np.frombuffer(record.tobytes(), np.uint8).copy()

    def set_state(self, state: Array) -> Generator:
        """Continue from ``state``, as given by `get_state` or by torch; returns self.

        Raises TypeError unless it is uint8, RuntimeError if its size or content is not a state's.
        """
        state = np.asarray(state)
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.size != _STATE.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} but found the input "
                f"RNG state size to be {state.size}"
            )
        record = np.frombuffer(state.tobytes(), _STATE)[0]
        left, used = int(record["left"]), int(record["next"])
        if record["seeded"] != 1 or not 1 <= left <= _DEGREE or used > _DEGREE:
            raise RuntimeError("Invalid mt19937 state")
        with self.lock:
            self._initial_seed = int(record["seed"])
            self._state[:_DEGREE] = record["words"]
            self._state[_DEGREE] = _DEGREE if left == 1 else used
            valid = record["spare_valid"] != 0
            self._spare[:] = (1.0, record["normal_spare"]) if valid else 0.0
        return self

    def clone_state(self) -> Generator:
        """A new generator that will give the same numbers."""
        return type(self)().set_state(self.get_state())

    def words(self, n: int) -> Array:
        """The next ``n`` words of the stream, uint32[n]."""
        out = np.empty(n, np.uint32)
        with self.lock:
            _draw(self._state, out)
        return out


def _acquire_all() -> None:
    _registry.acquire()
    for generator in list(_generators):
        generator.lock.acquire()
        _held.append(generator)


def _release_all() -> None:
    while _held:
        _held.pop().lock.release()
    _registry.release()


# A thread may be in the middle of a draw when another one forks; its lock would then stay taken,
# and its state half renewed, in the child for ever.  So a fork waits for the draws in progress.
_held: list[Generator] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all
    )


# --------------------------------------------------------------------------------- conversions


@intrinsic
def _fma(_context, a, b, c):
    """a * b + c with one rounding.  torch's loops are compiled to it, so its last bits need it."""

    def codegen(_target, builder, _signature, args):
        return builder.fma(*args)

    return a(a, a, a), codegen


@_inline
def _single(word):
    return np.float32(np.int32(word & np.uint32(0xFFFFFF))) * np.float32(2.0**-24)


@_inline
def _pair(high, low):
    return (np.uint64(high) << np.uint64(32)) | np.uint64(low)


@_inline
def _double(high, low):
    return np.float64(np.int64(_pair(high, low) & np.uint64(2**53 - 1))) * 2.0**-53


@_jit
def _uniform32(state, scratch, low, span, out):
    low, span = np.float32(low), np.float32(span)
    for start in range(0, out.size, scratch.size):
        part = out[start : start + scratch.size]
        words = scratch[: part.size]
        _draw(state, words)
        for i in range(part.size):
            part[i] = _fma(_single(words[i]), span, low)


@_jit
def _uniform64(state, scratch, low, span, out):
    half = scratch.size // 2
    for start in range(0, out.size, half):
        part = out[start : start + half]
        words = scratch[: 2 * part.size]
        _draw(state, words)
        for i in range(part.size):
            part[i] = _fma(_double(words[2 * i], words[2 * i + 1]), span, low)


def _bfloat16(values: Array) -> Array:
    """float32 values rounded to the nearest bfloat16 (ties to even), still as float32."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), values, rounded.view(np.float32))


@functools.cache
def _name(dtype: DType) -> str:
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    return np.dtype(dtype).name


def _finish(values: Array, dtype: DType, out: Array | None) -> Array:
    """Convert ``values`` to ``dtype``, into ``out`` where given."""
    if values is out:
        return out
    name = _name(dtype)
    if name == "bfloat16":
        values = _bfloat16(values.astype(np.float32, copy=False))
    elif np.dtype(dtype).kind in "iub" and values.dtype.kind == "f":
        # C's conversion by way of int64, as torch's, also for what does not fit
        values = values.astype(np.int64).astype(dtype)
    else:
        if values.dtype == np.float64 and name == "float16":
            values = values.astype(np.float32)  # torch rounds twice
        with np.errstate(over="ignore"):
            values = values.astype(dtype, copy=False)
    if out is None:
        return values
    out[...] = values
    return out


def _buffer(n: int, working: type, dtype: DType, out: Array | None) -> Array:
    """Where to draw ``n`` numbers of the ``working`` type: into ``out`` itself where that fits."""
    if out is not None and _name(dtype) == _name(working):
        return out
    return np.empty(n, working)


def _uniform_double(gen: Generator, n: int) -> Array:
    values = np.empty(n, np.float64)
    with gen.lock:
        _uniform64(gen._state, gen._scratch, 0.0, 1.0, values)
    return values


# ------------------------------------------------------------------------------- distributions


def uniform(
    gen: Generator,
    n: int,
    low: float = 0.0,
    high: float = 1.0,
    dtype: DType = np.float32,
    out: Array | None = None,
) -> Array:
    """Uniform numbers in [low, high): ``rand``, ``uniform_``.

    float64 uses two words a number, the other types one.  The half-precision types are drawn in
    float32 and rounded.  What rounds up to ``high`` becomes ``low``: the end stays excluded.
    """
    name = _name(dtype)
    working, draw = (np.float64, _uniform64) if name == "float64" else (np.float32, _uniform32)
    bottom, top = working(low), working(high)
    values = _buffer(n, working, dtype, out)
    with gen.lock:
        draw(gen._state, gen._scratch, float(bottom), float(top - bottom), values)
    if name in ("float32", "float64") and bottom == 0 and top == 1:
        return values  # nothing was rounded
    values = _finish(values, dtype, values if values is out else None)
    ends = _finish(np.array([bottom, top], working), dtype, None)
    values[values == ends[1]] = ends[0]
    return _finish(values, dtype, out)


# Box & Muller (1958): from two uniforms u and v, two independent normals,
# sqrt(-2 log u) * cos(2 pi v) and sqrt(-2 log u) * sin(2 pi v).
#
# For float32, torch's vectorised loop takes logarithm, sine and cosine from the Cephes library
# (Moshier); with its polynomials, evaluated in the same order and with the same fused
# multiply-adds, every bit agrees.


@_inline
def _log(x):
    """Natural logarithm of a float32 in [2**-24, 1]."""
    bits = np.float32(x).view(np.int32)
    exponent = np.float32((bits >> 23) - 126)
    mantissa = np.int32((bits & 0x7FFFFF) | 0x3F000000).view(np.float32)  # in [0.5, 1)
    small = mantissa < np.float32(0.70710678118654752)
    exponent = exponent - np.float32(1) if small else exponent
    y = mantissa - np.float32(1)
    y = y + mantissa if small else y  # now log x = exponent * log 2 + log(1 + y)
    square = y * y
    p = np.float32(7.0376836292e-2)
    p = _fma(p, y, np.float32(-1.1514610310e-1))
    p = _fma(p, y, np.float32(1.1676998740e-1))
    p = _fma(p, y, np.float32(-1.2420140846e-1))
    p = _fma(p, y, np.float32(1.4249322787e-1))
    p = _fma(p, y, np.float32(-1.6668057665e-1))
    p = _fma(p, y, np.float32(2.0000714765e-1))
    p = _fma(p, y, np.float32(-2.4999993993e-1))
    p = _fma(p, y, np.float32(3.3333331174e-1))
    p = p * y
    # log 2 in two parts, the large one exact in few bits
    p = _fma(p, square, exponent * np.float32(-2.12194440e-4))
    p = _fma(-square, np.float32(0.5), p)
    return _fma(exponent, np.float32(0.693359375), y + p)


@_inline
def _octant(x):
    """For x >= 0: its even octant j and the rest x - j * pi/4, in [-pi/4, pi/4]."""
    j = (np.int32(x * np.float32(1.27323954473516)) + np.int32(1)) & np.int32(~1)
    y = np.float32(j)
    x = _fma(y, np.float32(-0.78515625), x)  # pi/4 in three parts
    x = _fma(y, np.float32(-2.4187564849853515625e-4), x)
    return j, _fma(y, np.float32(-3.77489497744594108e-8), x)


@_inline
def _cos_sin(x):
    """Cosine and sine of a float32 in [0, 2 pi]."""
    j, y = _octant(x)
    square = y * y
    c = np.float32(2.443315711809948e-5)
    c = _fma(c, square, np.float32(-1.388731625493765e-3))
    c = _fma(c, square, np.float32(4.166664568298827e-2))
    c = _fma(c * square, square, -(square * np.float32(0.5))) + np.float32(1)
    s = np.float32(-1.9515295891e-4)
    s = _fma(s, square, np.float32(8.3321608736e-3))
    s = _fma(s, square, np.float32(-1.6666654611e-1))
    s = _fma(s * square, y, y)
    swap = (j & np.int32(2)) != 0
    cosine = s if swap else c
    sine = c if swap else s
    cosine = cosine if ((j - np.int32(2)) & np.int32(4)) != 0 else -cosine
    sine = -sine if (j & np.int32(4)) != 0 else sine
    return cosine, sine


@_jit
def _box_muller32(words, mean, std, u, v, out):
    """From each 16 words, 16 normals: the first 8 are the u, the last 8 the v; cosines first.

    ``u`` and ``v`` (float32) take half of the numbers each, so that the long loop runs straight.
    """
    for block in range(out.size // 16):
        for i in range(8):
            u[8 * block + i] = np.float32(1) - _single(words[16 * block + i])
            v[8 * block + i] = np.float32(2 * math.pi) * _single(words[16 * block + i + 8])
    for i in range(out.size // 2):
        radius = math.sqrt(np.float32(-2) * _log(u[i]))
        cosine, sine = _cos_sin(v[i])
        u[i] = _fma(radius * cosine, std, mean)
        v[i] = _fma(radius * sine, std, mean)
    for block in range(out.size // 16):
        for i in range(8):
            out[16 * block + i] = u[8 * block + i]
            out[16 * block + i + 8] = v[8 * block + i]


@_jit
def _blocks32(state, scratch, mean, std, out):
    mean, std = np.float32(mean), np.float32(std)
    u = np.empty(min(scratch.size, out.size) // 2, np.float32)
    v = np.empty_like(u)
    for start in range(0, out.size, scratch.size):
        part = out[start : start + scratch.size]
        words = scratch[: part.size]
        _draw(state, words)
        _box_muller32(words, mean, std, u, v, part)


@_jit
def _box_muller64(words, mean, std, out):
    for block in range(0, out.size, 16):
        for i in range(block, block + 8):
            u = _double(words[2 * i], words[2 * i + 1])
            v = _double(words[2 * i + 16], words[2 * i + 17])
            radius = math.sqrt(-2.0 * math.log(1.0 - u))
            angle = 2.0 * math.pi * v
            out[i] = _fma(radius * math.cos(angle), std, mean)
            out[i + 8] = _fma(radius * math.sin(angle), std, mean)


@_jit
def _blocks64(state, scratch, mean, std, out):
    half = scratch.size // 2
    for start in range(0, out.size, half):
        part = out[start : start + half]
        words = scratch[: 2 * part.size]
        _draw(state, words)
        _box_muller64(words, mean, std, part)


@_jit
def _normal_serial(state, scratch, spare, mean, std, out):
    """Normals one after the other in float64, each second one kept in ``spare`` for the next."""
    words = scratch[:4]
    for i in range(out.size):
        if spare[0] != 0:
            normal = spare[1]
            spare[:] = 0
        else:
            _draw(state, words)
            v = _double(words[0], words[1])
            u = _double(words[2], words[3])
            radius = math.sqrt(-2.0 * math.log1p(-u))
            angle = 2.0 * math.pi * v
            spare[0] = 1
            spare[1] = radius * math.sin(angle)
            normal = radius * math.cos(angle)
        out[i] = _fma(normal, std, mean)


def normal(
    gen: Generator,
    n: int,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DType = np.float32,
    out: Array | None = None,
    contiguous: bool = True,
) -> Array:
    """Normal numbers: ``randn``, ``normal_``, and after scaling ``normal`` of tensors.

    From 16 elements on, in blocks of 16, one word a number (float64: two).  Where n is not a
    multiple of 16, the words for the rest are thrown away (half precision: not even drawn), and the
    last 16 numbers are drawn anew as a block of their own.  Below 16 elements, or if the tensor to
    fill is not ``contiguous``, one after the other in float64 from pairs of uniforms: 4 words for
    two numbers, the second of which the generator keeps for the next call.

    Complex tensors are their real view, filled with std / sqrt(2).  ``torch.normal(mean, std)`` of
    tensors is ``normal(...) * std + mean``, rounded twice.
    """
    name = _name(dtype)
    serial = n < 16 or not contiguous
    working = np.float64 if serial or name == "float64" else np.float32
    values = _buffer(n, working, dtype, out)
    mean, std = float(mean), float(std)  # NumPy scalars are slow to pass
    state, scratch = gen._state, gen._scratch
    with gen.lock:
        if serial:
            _normal_serial(state, scratch, gen._spare, mean, std, values)
        else:
            fill = _blocks64 if name == "float64" else _blocks32
            rest = n % 16
            fill(state, scratch, mean, std, values[: n - rest])
            if rest:
                if name in ("float32", "float64"):
                    _draw(state, scratch[: rest * values.itemsize // 4])
                fill(state, scratch, mean, std, values[-16:])
    return _finish(values, dtype, out)


@_jit
def _exp(values):
    for i in range(values.size):
        values[i] = math.exp(values[i])


def log_normal(
    gen: Generator,
    n: int,
    mean: float = 1.0,
    std: float = 2.0,
    dtype: DType = np.float32,
    out: Array | None = None,
) -> Array:
    """The exponential of normals made one after the other in float64: ``log_normal_``."""
    values = normal(gen, n, mean, std, np.float64, contiguous=False)
    _exp(values)
    return _finish(values, dtype, out)


# The next three invert a distribution function at a double: two words a number.  They keep to the
# C library's scalar functions, whose last bit NumPy's vectorised ones do not always share.


@_jit
def _exponential(values, rate):
    for i in range(values.size):
        values[i] = -1.0 / rate * math.log1p(-values[i])


def exponential(
    gen: Generator,
    n: int,
    rate: float = 1.0,
    dtype: DType = np.float32,
    out: Array | None = None,
) -> Array:
    """Exponential numbers of the given rate (mean 1 / rate): ``exponential_``."""
    values = _uniform_double(gen, n)
    _exponential(values, float(rate))
    return _finish(values, dtype, out)


@_jit
def _cauchy(values, median, sigma):
    for i in range(values.size):
        values[i] = median + sigma * math.tan(math.pi * (values[i] - 0.5))


def cauchy(
    gen: Generator,
    n: int,
    median: float = 0.0,
    sigma: float = 1.0,
    dtype: DType = np.float32,
    out: Array | None = None,
) -> Array:
    """Cauchy numbers: ``cauchy_``."""
    values = _uniform_double(gen, n)
    _cauchy(values, float(median), float(sigma))
    return _finish(values, dtype, out)


@_jit
def _geometric(values, log_miss):
    for i in range(values.size):
        values[i] = np.ceil(math.log(values[i]) / log_miss)


def geometric(
    gen: Generator, n: int, p: float, dtype: DType = np.float32, out: Array | None = None
) -> Array:
    """Trials up to the first success, each of probability ``p``: ``geometric_``."""
    values = _uniform_double(gen, n)
    _geometric(values, math.log1p(-p))
    return _finish(values, dtype, out)


def bernoulli(
    gen: Generator,
    n: int,
    p: float | Array,
    dtype: DType = np.float32,
    out: Array | None = None,
) -> Array:
    """Ones with probability ``p``, else zeros: ``bernoulli``, ``bernoulli_``, dropout's mask.

    A Python number ``p`` and a float64 array, of n elements or one, are compared with doubles (two
    words a number), an array of any other type, given as float32 or float16, with singles (one
    word).  Dropout with probability d is ``bernoulli(1 - d)``, divided by 1 - d.
    """
    if isinstance(p, np.ndarray) and p.dtype != np.float64:
        hit = uniform(gen, n) < p
    else:
        hit = _uniform_double(gen, n) < p
    return _finish(hit, dtype, out)


# ----------------------------------------------------------------------------------- integers


@_jit
def _modulo32(state, scratch, low, span, out):
    """low + word % span.  The quotient goes through float64, for integer division has no vectors;
    it may come out one too large or one too small, never more, as both operands are exact."""
    inverse = 1.0 / np.float64(span)
    for start in range(0, out.size, scratch.size):
        part = out[start : start + scratch.size]
        words = scratch[: part.size]
        _draw(state, words)
        for i in range(part.size):
            rest = np.int64(words[i]) - np.int64(np.float64(words[i]) * inverse) * span
            rest = rest + span if rest < 0 else rest
            part[i] = low + (rest - span if rest >= span else rest)


@_jit
def _modulo64(state, scratch, low, span, out):
    """low + pair % span in uint64, wrapping; span 0 stands for 2**64."""
    half = scratch.size // 2
    for start in range(0, out.size, half):
        part = out[start : start + half]
        words = scratch[: 2 * part.size]
        _draw(state, words)
        for i in range(part.size):
            pair = _pair(words[2 * i], words[2 * i + 1])
            part[i] = np.int64(low + (pair % span if span else pair))


def _draw_integers(gen: Generator, n: int, low: int, span: int, wide: bool) -> Array:
    values = np.empty(n, np.int64)
    with gen.lock:
        if wide:
            base = np.uint64(low % 2**64 if span < 2**64 else 0)
            _modulo64(gen._state, gen._scratch, base, np.uint64(span % 2**64), values)
        else:
            _modulo32(gen._state, gen._scratch, low, span, values)
    return values


def _largest(name: str) -> int:
    """The largest integer ``random_`` draws for a dtype: beyond it floats are no longer dense."""
    if name == "bool":
        return 1
    return 2 ** _MANTISSA[name] if name in _MANTISSA else int(np.iinfo(name).max)


def _rounded(name: str, value: int) -> tuple[int, int]:
    """``value`` as the floating type holds it (ties to even), and the type's spacing there."""
    spacing = 1 << max(abs(value).bit_length() - _MANTISSA[name], 0)
    quotient, rest = divmod(value, spacing)
    up = 2 * rest > spacing or (2 * rest == spacing and quotient % 2 == 1)
    return (quotient + up) * spacing, spacing


def integers(
    gen: Generator,
    n: int,
    low: int,
    high: int | None,
    dtype: DType = np.int64,
    out: Array | None = None,
) -> Array:
    """Integers in [low, high): ``randint``, ``random_(low, high)``; a remainder, hence not quite
    uniform.  ``high=None`` is ``random_(low, None)``: up to and including the type's largest.

    Ranges below 2**28 use one word a number, the others two.  Where a floating type's integers have
    grown sparse, so that rounding could pass an end, the end first moves inwards as in torch.
    """
    name = _name(dtype)
    if high is None:
        high = _largest(name) + 1
    elif name in _MANTISSA:
        first, spacing = _rounded(name, low + 1)
        if first < low:
            low = first + spacing
        last, spacing = _rounded(name, high - 1)
        if last >= high:
            high = last - spacing
    span = high - low
    return _finish(_draw_integers(gen, n, low, span, span >= 2**28), dtype, out)


def random(gen: Generator, n: int, dtype: DType = np.float32, out: Array | None = None) -> Array:
    """Integers from 0 to the type's largest: ``random_()``.

    For floating types the largest is the end of the dense range, 2**24 for float32.  int64 and
    float64 use two words a number, the others one.
    """
    name = _name(dtype)
    values = _draw_integers(gen, n, 0, _largest(name) + 1, name in ("int64", "float64"))
    return _finish(values, dtype, out)


@_jit
def _shuffle(state, scratch, out):
    """Fisher & Yates, from the front: swap element i with one of those from i on."""
    for start in range(0, out.size - 1, scratch.size):
        words = scratch[: min(scratch.size, out.size - 1 - start)]
        _draw(state, words)
        for k in range(words.size):
            i = start + k
            j = i + np.int64(words[k] % np.uint32(out.size - i))
            out[i], out[j] = out[j], out[i]


@_jit
def _shuffle_wide(state, scratch, out):
    """Its inside-out form: element i goes to a place up to i, what was there to the end."""
    half = scratch.size // 2
    for start in range(0, out.size, half):
        words = scratch[: 2 * min(half, out.size - start)]
        _draw(state, words)
        for k in range(words.size // 2):
            i = start + k
            j = np.int64(_pair(words[2 * k], words[2 * k + 1]) % np.uint64(i + 1))
            out[i] = out[j]
            out[j] = i


def permutation(gen: Generator, n: int, dtype: DType = np.int64, out: Array | None = None) -> Array:
    """0 .. n-1 in random order: ``randperm``; n - 1 words.

    From about 2.1e8 elements on, where the remainder of one word would show a bias, another
    algorithm with 2 n words.
    """
    values = np.arange(n, dtype=np.int64)
    with gen.lock:
        if n < (2**32 - 1) // 20:
            _shuffle(gen._state, gen._scratch, values)
        else:
            _shuffle_wide(gen._state, gen._scratch, values)
    return _finish(values, dtype, out)


def multinomial(
    gen: Generator,
    weights: Array,
    count: int,
    replacement: bool = False,
    dtype: DType = None,
) -> Array:
    """``torch.multinomial``: for each row of ``weights`` column numbers, int64[rows, count].

    ``weights`` is floating, [rows, columns], non-negative, each row with a positive sum; ``dtype``
    is its type, to be named for bfloat16 weights given as float32.  With replacement the
    distribution function is searched for a double (two words a number).  Without, and for one draw
    of either kind, the columns with the largest ``weight / e`` win, the e being exponential (two
    words a weight).  Equal quotients, not rare in half precision, go by column here; in torch their
    order is unspecified.
    """
    rows, columns = weights.shape
    dtype = weights.dtype if dtype is None else dtype
    if count == 1 or not replacement:
        clock = exponential(gen, rows * columns, 1.0, dtype).reshape(rows, columns)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            score = _finish(weights / clock, dtype, None)
        if count == 1:
            return score.argmax(axis=1).reshape(rows, 1)
        return np.argsort(-score, axis=1, kind="stable")[:, :count]
    chosen = np.empty((rows, count), np.int64)
    draws = _uniform_double(gen, rows * count).reshape(rows, count)
    working = np.float64 if _name(dtype) == "float64" else np.float32
    for row in range(rows):
        cumulative = np.cumsum(weights[row], dtype=working)
        cumulative = cumulative / cumulative[-1]
        cumulative[-1] = 1
        chosen[row] = np.searchsorted(cumulative, draws[row], side="left")
    return chosen
