"""Products of vectors, matrices and tensors made of matrix products and sums; distances, norms.

All are compositions of recorded operators, and so have derivatives of every order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, errors
from ..layout import normalize_dim
from ..tensor import Tensor
from . import convert
from .composed import Composed
from .creation import eye, from_numpy
from .diagonals import powers
from .elementwise import functions
from .make import int_argument, result_dtype
from .matmul import addmm, addmv, baddbmm, bmm, dot, factors, matmul, mm, outer
from .reduction import amax, amin, sum, vector_norm
from .rows import index_select
from .scatter import scatter_reduce
from .special import into
from .view import atleast_1d, diagonal, unsafe_view, unsqueeze, view_of

_f = functions


# Products with a sum ------------------------------------------------------------------------------
def _blend(self: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """``beta * self + alpha * product``; a zero beta ignores ``self``, NaN included."""
    d = result_dtype([self.layout, product.layout])
    if d.category < dtypes.FLOATING:
        for name, factor in (("beta", beta), ("alpha", alpha)):
            if isinstance(factor, float):
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point "
                    "number."
                )
    if d.category == dtypes.BOOL:
        beta, alpha = bool(beta), bool(alpha)
        product = product.to(d)
    if alpha != 1:
        product = _f["mul"](product, alpha)
    if beta == 0:
        return product
    return _f["add"](self if beta == 1 else _f["mul"](self, beta), product)


def addr(
    self: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * self + alpha * outer(vec1, vec2)``."""
    for i, v in enumerate((vec1, vec2)):
        if v.layout.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument vec{i + 1}, but got {v.layout.ndim}-D")
    return into("addr", _blend(self, outer(vec1, vec2), beta, alpha), out, (self, vec1, vec2))


def addbmm(
    self: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * self + alpha * sum_i batch1[i] @ batch2[i]``."""
    total = sum(bmm(batch1, batch2), 0)
    beta, alpha = factors(self, beta, alpha)
    return into("addbmm", _blend(self, total, beta, alpha), out, (self, batch1, batch2))


def _in_place(function: Any) -> Any:
    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # A copy: what the derivative needs of `self` is what was there before.
        result = function(convert.clone(self), *args, **kwargs)
        if result.layout.shape != self.layout.shape:
            raise RuntimeError(
                f"output with shape {list(self.layout.shape)} doesn't match the broadcast shape "
                f"{list(result.layout.shape)}"
            )
        return convert.copy_(self, result)

    inplace.__name__ = inplace.__qualname__ = f"{function.__name__}_"
    inplace.__doc__ = f":func:`{function.__name__}` in place."
    return inplace


addmm_, baddbmm_, addmv_, addr_, addbmm_ = map(_in_place, (addmm, baddbmm, addmv, addr, addbmm))


# Products of several ------------------------------------------------------------------------------
def vdot(self: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors (the first conjugated, for complex ones)."""
    return dot(self.conj(), other, out=out)


def inner(self: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimensions of both; with a number, the product."""
    if not self.layout.ndim or not other.layout.ndim:
        return _f["mul"](self, other, out=out)
    if self.layout.shape[-1] != other.layout.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(self.layout.shape)} and {list(other.layout.shape)}"
        )
    return into("inner", tensordot(self, other, ([-1], [-1])), out, (self, other))


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over pairs of dimensions, those left of ``a`` before those of ``b``.

    Args:
        dims: how many (the last of ``a``, the first of ``b``), or two lists.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.layout.ndim, b.layout.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = range(a.layout.ndim - dims, a.layout.ndim), range(dims)
    else:
        first, second = ((x,) if isinstance(x, int) else x for x in dims)  # type: ignore[assignment]
    left = [normalize_dim(d, a.layout.ndim) for d in first]
    right = [normalize_dim(d, b.layout.ndim) for d in second]
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    for i, j in zip(left, right, strict=True):
        n, m = a.layout.shape[i], b.layout.shape[j]
        if n != m and 1 not in (n, m):
            raise RuntimeError(
                "contracted dimensions need to match, but first has size "
                f"{n} in dim {i} and second has size {m} in dim {j}"
            )
        if n != m:  # a size of one is repeated: its sum is enough
            a, b = (sum(a, i, keepdim=True), b) if m == 1 else (a, sum(b, j, keepdim=True))
    rest_a = [d for d in range(a.layout.ndim) if d not in left]
    rest_b = [d for d in range(b.layout.ndim) if d not in right]
    shape = [a.layout.shape[d] for d in rest_a] + [b.layout.shape[d] for d in rest_b]
    size = math.prod(a.layout.shape[d] for d in left)
    rows = math.prod(a.layout.shape[d] for d in rest_a)
    columns = math.prod(b.layout.shape[d] for d in rest_b)
    x = a.permute(rest_a + left).reshape(rows, size)
    y = b.permute(right + rest_b).reshape(size, columns)
    return into("tensordot", mm(x, y).reshape(shape), out, (a, b))


def _letters(text: str) -> list[str]:
    """The subscripts of one operand; the dimensions of an ellipsis come as ``...``."""
    found, i = [], 0
    while i < len(text):
        if text[i : i + 3] == "...":
            found.append("...")
            i += 3
        elif text[i].isalpha():
            found.append(text[i])
            i += 1
        elif text[i] == " ":
            i += 1
        elif text[i] == ".":
            raise RuntimeError("einsum(): found '.' for operand that is not part of any ellipsis")
        else:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {i} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
    if found.count("...") > 1:
        raise RuntimeError(
            "einsum(): found '.' for operand for which an ellipsis was already found"
        )
    return found


def _equation(equation: Any, operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation string, also from the form of alternating operands and lists of numbers."""
    if isinstance(equation, str):
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = tuple(operands[0])
        return equation, operands

    def text(subscripts: Any) -> str:
        return "".join(
            "..." if s is Ellipsis else chr(ord("A") + s if s < 26 else ord("a") + s - 26)
            for s in subscripts
        )

    given = (equation, *operands)
    result = f"->{text(given[-1])}" if len(given) % 2 else ""
    pairs = given[: len(given) - len(given) % 2]
    return ",".join(text(s) for s in pairs[1::2]) + result, pairs[::2]


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Einstein's sum: the equation names dimensions, and those not in the result are summed.

    Operands are contracted from left to right, every pair by one batched matrix product.

    Raises:
        RuntimeError: for an equation that does not fit the operands.
    """
    equation, tensors = _equation(equation, operands)
    if not tensors:
        raise RuntimeError("einsum(): must provide at least one operand")
    left, arrow, right = equation.partition("->")
    names = [_letters(part) for part in left.split(",")]
    if len(names) < len(tensors):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if len(names) > len(tensors):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    # The dimensions of ellipses, aligned at the right, become names of their own.
    widest = 0
    for subscripts, t in zip(names, tensors, strict=True):
        extra = t.layout.ndim - (len(subscripts) - subscripts.count("..."))
        if extra < 0 or (extra and "..." not in subscripts):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(subscripts)}) does not "
                f"match the number of dimensions ({t.layout.ndim}) for operand"
            )
        widest = max(widest, extra)
    batch = [f"...{i}" for i in range(widest)]
    full = []
    for subscripts, t in zip(names, tensors, strict=True):
        extra = t.layout.ndim - (len(subscripts) - subscripts.count("..."))
        spread = batch[widest - extra :]
        full.append([y for x in subscripts for y in (spread if x == "..." else [x])])
    counts: dict[str, int] = {}
    for subscripts in full:
        for x in subscripts:
            counts[x] = counts.get(x, 0) + 1
    if arrow:
        given = _letters(right)
        target = [y for x in given for y in (batch if x == "..." else [x])]
        for x in target:
            if target.count(x) > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {x} appears more than once in the output"
                )
            if x not in counts and x not in batch:
                raise RuntimeError(
                    f"einsum(): output subscript {x} does not appear in the equation for any input "
                    "operand"
                )
    else:
        target = batch + sorted(x for x, n in counts.items() if n == 1 and x not in batch)
    # Sizes, and every operand without repeated names.
    sizes: dict[str, int] = {}
    operands_left: list[tuple[Tensor, list[str]]] = []
    for subscripts, t in zip(full, tensors, strict=True):
        for x, n in zip(subscripts, t.layout.shape, strict=True):
            if sizes.get(x, 1) != 1 and n not in (1, sizes[x]):
                raise RuntimeError(
                    f"einsum(): subscript {x} has size {n} for operand which does not broadcast "
                    f"with previously seen size {sizes[x]}"
                )
            sizes[x] = n if sizes.get(x, 1) == 1 else sizes[x]
        kept = list(subscripts)
        for x in dict.fromkeys(subscripts):
            while kept.count(x) > 1:
                i = kept.index(x)
                j = kept.index(x, i + 1)
                if t.layout.shape[i] != t.layout.shape[j]:
                    raise RuntimeError(
                        f"einsum(): subscript {x} is repeated for operand but the sizes don't "
                        f"match, {t.layout.shape[j]} != {t.layout.shape[i]}"
                    )
                t = diagonal(t, 0, i, j)
                kept = [k for p, k in enumerate(kept) if p not in (i, j)] + [x]
        operands_left.append((t, kept))
    now, have = operands_left[0]
    for position, (t, names_of) in enumerate(operands_left[1:], 1):
        later = {x for _, others in operands_left[position + 1 :] for x in others} | set(target)
        now, have = _contracted(now, have, t, names_of, later)
    gone = [i for i, x in enumerate(have) if x not in target]
    if gone:
        now = sum(now, gone)
        have = [x for x in have if x in target]
    missing = [x for x in target if x not in have]
    now = now[(slice(None),) * len(have) + (None,) * len(missing)] if missing else now
    have += missing
    order = [have.index(x) for x in target]
    return now if order == list(range(len(order))) else now.permute(order)


def _contracted(
    a: Tensor, names_a: list[str], b: Tensor, names_b: list[str], later: set[str]
) -> tuple[Tensor, list[str]]:
    """Two operands multiplied, and summed over what they share and nobody needs any more."""
    # What only one of them has, and nobody else needs, goes first.
    for_a = [i for i, x in enumerate(names_a) if x not in later and x not in names_b]
    for_b = [i for i, x in enumerate(names_b) if x not in later and x not in names_a]
    if for_a:
        a, names_a = sum(a, for_a), [x for i, x in enumerate(names_a) if i not in for_a]
    if for_b:
        b, names_b = sum(b, for_b), [x for i, x in enumerate(names_b) if i not in for_b]
    shared = [x for x in names_a if x in names_b]
    size_a = dict(zip(names_a, a.layout.shape, strict=True))
    size_b = dict(zip(names_b, b.layout.shape, strict=True))
    for x in [x for x in shared if x not in later and size_a[x] != size_b[x]]:
        if size_b[x] != 1:  # the one of size one is repeated: sum the other
            b = sum(b, names_b.index(x), keepdim=True)
        else:
            a = sum(a, names_a.index(x), keepdim=True)
        size_a[x] = size_b[x] = 1
    summed = [x for x in shared if x not in later]
    batch = [x for x in shared if x in later]
    only_a = [x for x in names_a if x not in shared]
    only_b = [x for x in names_b if x not in shared]
    if not summed:
        names = batch + only_a + only_b
        return _f["mul"](_arranged(a, names_a, names), _arranged(b, names_b, names)), names

    def matrix(
        t: Tensor, names: list[str], sizes: dict[str, int], inner: list[list[str]]
    ) -> Tensor:
        ordered = t.permute([names.index(x) for x in batch + inner[0] + inner[1]])
        lengths = [math.prod(sizes[x] for x in group) for group in inner]
        return ordered.reshape([*(sizes[x] for x in batch), *lengths])

    left = matrix(a, names_a, size_a, [only_a, summed])
    right = matrix(b, names_b, size_b, [summed, only_b])
    product = matmul(left, right)
    shape = [*product.layout.shape[: len(batch)], *(size_a[x] for x in only_a)]
    return product.reshape(shape + [size_b[x] for x in only_b]), batch + only_a + only_b


def _arranged(t: Tensor, names: list[str], wanted: list[str]) -> Tensor:
    """``t`` with the dimensions ``wanted``, those it lacks of size one."""
    present = [x for x in wanted if x in names]
    t = t.permute([names.index(x) for x in present])
    return t[tuple(slice(None) if x in names else None for x in wanted)]


def kron(self: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: every element of ``self`` times all of ``other``."""
    ndim = max(self.layout.ndim, other.layout.ndim)
    a, b = ((1,) * (ndim - x.layout.ndim) + x.layout.shape for x in (self, other))
    left = self.reshape([n for d in a for n in (d, 1)])
    right = other.reshape([n for d in b for n in (1, d)])
    product = _f["mul"](left, right).contiguous()
    result = unsafe_view(product, tuple(n * m for n, m in zip(a, b, strict=True)))
    return into("kron", result, out, (self, other))


def cross(
    self: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The cross product of vectors of three along ``dim`` (by default the first of that size)."""
    if dim is None:
        if self.layout.ndim != other.layout.ndim:
            raise RuntimeError(
                "inconsistent tensors dimensions input: "
                f"{self.layout.ndim} other: {other.layout.ndim}"
            )
        dim = next((d for d, n in enumerate(self.layout.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(self, other, dim=dim, out=out)


def linalg_cross(
    self: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None
) -> Tensor:
    """The cross product of vectors of three along ``dim``; the others broadcast.

    Gradient: ``cross(other, grad)`` and ``cross(grad, self)``.
    """
    if self.layout.ndim != other.layout.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = normalize_dim(dim, self.layout.ndim)
    if self.layout.shape[d] != 3 or other.layout.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got "
            f"{self.layout.shape[d]} and {other.layout.shape[d]}"
        )
    a, b = (_f["mul"](self.roll(i, d), other.roll(-i, d)) for i in (-1, 1))
    return into("linalg_cross", _f["sub"](a, b), out, (self, other))


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, in the cheapest order."""
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    if len(matrices) == 1:
        return matrices[0]
    return multi_dot(matrices, out=out)


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of several matrices (the first and the last may be vectors), in the cheapest
    order, found by dynamic programming (Cormen et al., Introduction to Algorithms, 15.2)."""
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(chain)}")
    ends = chain[0].layout.ndim == 1, chain[-1].layout.ndim == 1
    for i, t in enumerate(chain):
        allowed = (1, 2) if i in (0, len(chain) - 1) else (2,)
        if t.layout.ndim not in allowed:
            raise RuntimeError(
                f"multi_dot(): tensor {i} must be {' or '.join(f'{n}D' for n in allowed)} but got "
                f"{t.layout.ndim}D"
            )
    if ends[0]:
        chain[0] = unsqueeze(chain[0], 0)
    if ends[1]:
        chain[-1] = unsqueeze(chain[-1], 1)
    sizes = [chain[0].layout.shape[0], *(t.layout.shape[1] for t in chain)]
    for i, t in enumerate(chain[1:], 1):
        if t.layout.shape[0] != sizes[i]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes "
                f"{list(chain[i - 1].layout.shape)}"
                f" and {list(t.layout.shape)} cannot be multiplied"
            )
    count = len(chain)
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        k = best[i, j][1]
        return mm(product(i, k), product(k + 1, j))

    result = product(0, count - 1)
    shape = (() if ends[0] else (sizes[0],)) + (() if ends[1] else (sizes[-1],))
    return into("multi_dot", result.reshape(shape), out, tuple(tensors))


def matrix_power(self: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Square matrices to an integer power, by repeated squaring."""
    of = self.layout
    if of.ndim < 2 or of.shape[-1] != of.shape[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{of.shape[-2] if of.ndim > 1 else '?'} by {of.shape[-1] if of.ndim else '?'} matrices"
        )
    n = int_argument("matrix_power", "n", n)
    if n == 0:
        unit = eye(of.shape[-1], dtype=of.dtype).expand(of.shape)
        return into("matrix_power", convert.copy_(convert.clone(self), unit), out, (self,))
    if n < 0:
        from .factorize import inv

        self, n = inv(self), -n
    result: Tensor | None = None
    square = self
    while n:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        square = matmul(square, square) if n else square
    assert result is not None
    return into("matrix_power", result, out, (self,))


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Inner products along ``dim`` (``x`` conjugated, if complex); other dimensions broadcast."""
    if not x.layout.ndim or not y.layout.ndim:
        raise RuntimeError("linalg.vecdot: expected tensors with at least one dimension")
    if x.layout.shape[dim] != y.layout.shape[dim]:
        raise RuntimeError("linalg.vecdot: Expected x and y to have the same size along dim")
    return into("vecdot", sum(_f["mul"](x.conj(), y), dim), out, (x, y))


# Distances and norms ------------------------------------------------------------------------------
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The ``p``-norm distances between all rows of two (batches of) matrices."""
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if x.layout.ndim < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {name} got: {x.layout.ndim}D"
            )
    if x1.layout.shape[-1] != x2.layout.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.layout.shape[-1]} X2: "
            f"{x2.layout.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    return _CDIST(x1, x2, p=p)


def _distances(x1: Tensor, x2: Tensor, p: float) -> Tensor:
    return _norms(_f["sub"](unsqueeze(x1, -2), unsqueeze(x2, -3)), p)


def _norms(apart: Tensor, p: float) -> Tensor:
    if p == 0:  # how many coordinates differ, with a gradient of zero
        return sum(_f["clamp_max"](_f["ceil"](_f["abs"](apart)), 1), -1)
    return vector_norm(apart, p, -1)


_CDIST = Composed("cdist", "x1 x2", _distances, convert.clone)


def _pair_distances(self: Tensor, p: float) -> Tensor:
    n = self.layout.shape[0]
    row, column = (from_numpy(x) for x in np.triu_indices(n, 1))
    return _norms(_f["sub"](index_select(self, 0, row), index_select(self, 0, column)), p)


_PDIST = Composed("pdist", "self", _pair_distances, convert.clone)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm distances between the rows of a matrix, each pair once: the upper triangle of
    :func:`cdist` of it with itself, row by row."""
    if input.layout.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.layout.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return _PDIST(input, p=float(p))


def renorm(
    self: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """Slices along ``dim`` whose ``p``-norm is above ``maxnorm``, scaled down to it."""
    if self.layout.ndim < 2:
        raise RuntimeError("renorm: input needs at least 2 dimensions")
    d = normalize_dim(dim, self.layout.ndim)
    others = [i for i in range(self.layout.ndim) if i != d]
    norm = vector_norm(self, p, others, keepdim=True)
    scale = _f["div"](maxnorm * norm.new_ones(()), _f["add"](norm, 1e-7))
    factor = _f["where"](_f["gt"](norm, maxnorm), scale, 1)
    return into("renorm", _f["mul"](self, factor), out, (self,))


def matrix_norm(
    self: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Norms of matrices: "fro", "nuc", 2, -2 (of the singular values), 1, -1, inf, -inf."""
    if dtype is not None:
        self = convert.to(self, dtype)
    a, b = (normalize_dim(d, self.layout.ndim) for d in dim)
    if ord == "fro":
        result = vector_norm(self, 2, (a, b), keepdim)
    elif ord in ("nuc", 2, -2):
        from .factorize import svdvals

        values = svdvals(self.movedim((a, b), (-2, -1)))
        if ord == "nuc":
            result = sum(values, -1)
        else:
            result = (amax if ord == 2 else amin)(values, -1)
        if keepdim:
            for d in sorted((a, b)):
                result = unsqueeze(result, d)
    elif ord in (1, -1, math.inf, -math.inf):
        first, second = (a, b) if abs(ord) == 1 else (b, a)
        sums = vector_norm(self, 1, first, keepdim)
        place = second if keepdim or second < first else second - 1
        result = (amax if ord > 0 else amin)(sums, place, keepdim)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return into("matrix_norm", result, out, (self,))


def norm(
    self: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """A vector norm over one dimension or all, a matrix norm over two."""
    if dtype is not None:
        self = convert.to(self, dtype)
    dims = (dim,) if isinstance(dim, int) else dim
    if ord is not None and (
        isinstance(ord, str)
        or (dims is None and self.layout.ndim == 2)
        or (dims is not None and len(dims) == 2)
    ):
        result = matrix_norm(self, ord, (-2, -1) if dims is None else dims, keepdim)
    elif ord is not None and dims is None and self.layout.ndim > 2:
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{self.layout.ndim}D."
        )
    else:
        result = vector_norm(self, 2 if ord is None else ord, dims, keepdim)
    return into("norm", result, out, (self,))


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Diagonals of matrices, as a view."""
    return diagonal(A, offset, dim1, dim2)


def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers of elements along a new last dimension, increasing."""
    x = atleast_1d(x)
    n = x.layout.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    return powers(x, n)


# Writes along a dimension -------------------------------------------------------------------------
_REDUCTIONS = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}


def index_reduce(
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """Slices of ``source`` combined ("prod", "mean", "amax", "amin") into those ``index`` names."""
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if not isinstance(index, Tensor):
        raise errors.argument("index_reduce", "index", "Tensor", index)
    d = normalize_dim(dim, self.layout.ndim)
    if self.layout.ndim:
        places = index.reshape([-1 if i == d else 1 for i in range(self.layout.ndim)])
        places = view_of(places, "expand", (source.layout.shape,))
    else:
        places, source = index.reshape(()), source.reshape(())
    result = scatter_reduce(self, d, places, source, reduce, include_self=include_self)
    return into("index_reduce", result, out, (self, source))


index_reduce_ = _in_place(index_reduce)
renorm_ = _in_place(renorm)


def rmatmul(self: Tensor, other: Any) -> Tensor:
    """``other @ self``."""
    return matmul(other, self)


METHODS = (
    "addmv addmv_ addr addr_ addbmm addbmm_ addmm_ baddbmm_ vdot inner kron cross matrix_power "
    "renorm renorm_ index_reduce index_reduce_"
)
FUNCTIONS = (
    "addmv addr addbmm vdot inner tensordot einsum kron cross chain_matmul matrix_power cdist "
    "pdist renorm index_reduce"
)
NAMESPACE = {
    "multi_dot": multi_dot, "vecdot": vecdot, "cross": linalg_cross, "diagonal": linalg_diagonal,
    "vander": linalg_vander, "norm": norm, "matrix_norm": matrix_norm,
    "matrix_power": matrix_power,
}  # fmt: skip
