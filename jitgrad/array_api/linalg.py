"""The linear algebra extension of the standard; :func:`matmul` and its kin are in both places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch import factorize, reduction
from ..dispatch import linalg as operators
from ..dispatch import matmul as products
from ..dispatch.view import diagonal as diagonal_view
from ..dtypes import dtype as DType
from ..tensor import Tensor
from ._manipulation import matrix_transpose
from ._promotion import common
from ._reductions import sum as _sum


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product, batched over leading dimensions."""
    return products.matmul(*common(x1, x2))


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Products summed over the last and first ``axes``, or over pairs of axes."""
    x1, x2 = common(x1, x2)
    return operators.tensordot(x1, x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Inner products along an axis, counted from the end; the first vector is conjugated."""
    if axis >= 0:
        raise ValueError("vecdot(): axis must be negative")
    return operators.vecdot(*common(x1, x2), dim=axis)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular ``L`` with ``L @ L.T`` = ``x`` (or its transpose)."""
    return factorize.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of three elements along an axis."""
    return operators.linalg_cross(*common(x1, x2), dim=axis)


def det(x: Tensor, /) -> Tensor:
    """Determinants."""
    return factorize.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return diagonal_view(x, offset, -2, -1)


def eigh(x: Tensor, /) -> Any:
    """``eigenvalues`` (ascending) and ``eigenvectors`` of symmetric matrices."""
    return factorize.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return factorize.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Inverses."""
    return factorize.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Norms of matrices."""
    return operators.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Integer powers of matrices."""
    return operators.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values exceed ``rtol`` times the largest."""
    return factorize.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of the elements of two vectors."""
    return products.outer(*common(x1, x2))


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Pseudo-inverses; singular values below ``rtol`` times the largest count as 0."""
    return factorize.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """``Q`` with orthonormal columns and triangular ``R``; ``mode`` reduced or complete."""
    return factorize.qr(x, mode)


def slogdet(x: Tensor, /) -> Any:
    """``sign`` and ``logabsdet`` of determinants."""
    return factorize.slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """``X`` with ``x1 @ X = x2``; only a 1-d ``x2`` is a vector."""
    x1, x2 = common(x1, x2)
    while 1 < x2.ndim < x1.ndim:  # or it might be taken for a batch of vectors
        x2 = x2.unsqueeze(0)
    return factorize.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """``U``, ``S`` and ``Vh``, the singular values descending."""
    return factorize.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values, descending."""
    return factorize.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sums of diagonals."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False,
    ord: float = 2,
) -> Tensor:  # fmt: skip
    """Norms of vectors along axes; of the flattened array by default."""
    return reduction.vector_norm(x, ord, axis, keepdims)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
