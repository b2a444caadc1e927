"""Householder reflections, least squares, and factorisations of low rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, return_types
from ..memory_format import contiguous_format
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .composed import Composed
from .creation import eye
from .elementwise import functions
from .factorize import _check as check_matrix
from .factorize import _h as mirrored
from .factorize import _numpy as by_numpy
from .factorize import by_columns, pinv, qr, svd, svdvals
from .factorize import matrix_rank as rank_of
from .matmul import matmul
from .random import randn
from .record import node_class, record
from .reduction import sum
from .shape import cat
from .special import into
from .view import squeeze, unsqueeze

_f = functions


# Reflections --------------------------------------------------------------------------------------
def _no_derivative(grad: Any) -> Any:
    raise NotImplementedError(
        "the derivative for 'geqrf' is not implemented: linalg.qr() has one, or detach() the input"
    )


_GEQRF = node_class(structured("geqrf", "self", grad={"self": _no_derivative}, outputs=2))


def geqrf(self: Tensor, *, out: Any = None) -> Any:
    """LAPACK's QR factorisation: ``R``, with the reflections' vectors below it, and ``tau``.

    There is no derivative; that of :func:`jitgrad.linalg.qr` is.
    """
    check_matrix("geqrf", self, square=False)

    def raw(a: np.ndarray) -> Any:
        transposed, tau = np.linalg.qr(a, "raw")
        return np.swapaxes(transposed, -2, -1), tau

    a, tau = by_numpy(raw, self)
    if tau.layout.ndim > 1:
        tau = convert.clone(tau, memory_format=contiguous_format).detach()
    record(_GEQRF, (self,), (a, tau), {})
    pair: Any = (a, tau)
    if out is not None:
        pair = tuple(into("geqrf", x, o, (self,)) for x, o in zip(pair, out, strict=True))
    return return_types.geqrf(pair)


def _reflected(input: Tensor, tau: Tensor, other: Tensor, backwards: bool) -> Tensor:
    """``H_1 H_2 ... H_k @ other`` with ``H_i = I - tau_i v_i v_i.H``; backwards the adjoint."""
    count = tau.layout.shape[-1]
    tau = tau.conj() if backwards else tau
    for i in range(count) if backwards else reversed(range(count)):
        below = input[..., i + 1 :, i : i + 1]
        v = cat([below.new_ones((*below.layout.shape[:-2], 1, 1)), below], -2)
        rows = other[..., i:, :]
        scaled = _f["mul"](v, unsqueeze(tau[..., i : i + 1], -1))
        rows = _f["sub"](rows, matmul(scaled, matmul(mirrored(v), rows)))
        other = cat([other[..., :i, :].expand((*rows.layout.shape[:-2], i, -1)), rows], -2)
    return other


def _check_reflections(name: str, input: Tensor, tau: Tensor) -> None:
    n, of = input.layout.shape[-1], tau.layout
    if input.layout.ndim != of.ndim + 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {of.ndim} and input.ndim is equal to {input.layout.ndim}"
        )
    if n < of.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if input.layout.shape[:-2] != of.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(of.shape[:-1])}"
        )
    if input.dtype is not tau.dtype:
        raise RuntimeError(
            f"{name}: Expected input and tau to have the same dtype, but input has dtype "
            f"{input.layout.dtype.tensor_type.removesuffix('Tensor')} and tau has dtype "
            f"{of.dtype.tensor_type.removesuffix('Tensor')}"
        )


def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of reflections that :func:`geqrf` gives: the ``Q`` of QR.

    Args:
        input: batches of n x m matrices, n >= m, whose columns below the diagonal are the vectors.
        tau: batches of at most m factors.
    """
    name = "torch.linalg.householder_product"
    if input.layout.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    n, m = input.layout.shape[-2:]
    if n < m:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    _check_reflections(name, input, tau)
    return into("linalg.householder_product", _HOUSEHOLDER(input, tau), out, (input, tau))


def _columns_of_product(input: Tensor, tau: Tensor) -> Tensor:
    columns = eye(*input.layout.shape[-2:], dtype=input.layout.dtype)
    return _reflected(input, tau, columns.expand(input.layout.shape), False)


def _product(input: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool) -> Tensor:
    if left:
        return _reflected(input, tau, other, transpose)
    # other @ Q is (Q.H @ other.H).H
    return mirrored(_reflected(input, tau, mirrored(other), not transpose))


_HOUSEHOLDER = Composed(
    "householder_product",
    "input tau",
    _columns_of_product,
    by_columns,
    node="LinalgHouseholderProductBackward0",
)
_ORMQR = Composed("ormqr", "input tau other", _product, by_columns)


def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``Q @ other`` (or ``other @ Q``, or with ``Q.H``) for the whole ``Q`` of reflections.

    Args:
        input, tau: what :func:`geqrf` gives.
        other: batches of matrices; the side that meets ``Q`` has as many rows as ``input``.
    """
    if input.layout.ndim < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    if other.layout.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.layout.shape[side] < tau.layout.shape[-1]:
        raise RuntimeError(
            f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]"
        )
    if other.layout.shape[side] != input.layout.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.layout.shape[-1] > input.layout.shape[-1]:
        raise RuntimeError(
            "torch.ormqr: tau.shape[-1] must be less than or equal to input.shape[-1]"
        )
    _check_reflections("torch.ormqr", input, tau)
    result = _ORMQR(input, tau, other, left=left, transpose=transpose)
    return into("ormqr", result, out, (input, tau, other))


# Least squares ------------------------------------------------------------------------------------
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _solution(self: Tensor, B: Tensor, rcond: float, with_residuals: bool) -> Any:
    solution = matmul(pinv(self, rtol=rcond), B)
    missed = _f["sub"](matmul(self, solution), B)
    residuals = sum(_f["mul"](missed, missed.conj()).real, -2)
    return solution, residuals if with_residuals else residuals.new_empty((0,))


def _own(x: Tensor) -> Tensor:
    return by_columns(x) if x.layout.ndim > 1 else convert.clone(x)


_LSTSQ = Composed("lstsq", "self B", _solution, _own, outputs=2, node="LinalgLstsqBackward0")


def lstsq(
    self: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """The ``X`` that makes ``|self @ X - B|`` least, and of these the shortest.

    By the pseudo-inverse, whatever the driver; ``driver`` decides what is returned beside it, as in
    PyTorch: "gelsy" (default) and "gelsd", "gelss" the rank, the last two the singular values, and
    all but "gelsy" the squared residuals of matrices of full rank with more rows than columns.

    Args:
        self: batches of matrices.
        B: batches of matrices, or of vectors.
        rcond: singular values below ``rcond`` times the largest count as 0.

    Gradient: that of ``pinv(self) @ B``.
    """
    check_matrix("torch.linalg.lstsq", self, square=False)
    a, b = self.layout, B.layout
    if b.ndim < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension")
    if a.ndim - b.ndim not in (0, 1):
        raise RuntimeError(
            "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and "
            "(input.dim() - other.dim()) <= 1"
        )
    if self.dtype is not B.dtype:
        raise RuntimeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's "
            f"dtype {a.dtype.name} and other's dtype {b.dtype.name}"
        )
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    driver = driver or "gelsy"
    vector = a.ndim - 1 == b.ndim and b.shape == a.shape[:-1]
    if not vector and b.shape[-2] != a.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    rows, columns = a.shape[-2:]
    if rcond is None:
        rcond = 2.0 ** (1 - a.dtype.digits) * max(rows, columns)
    right = unsqueeze(B, -1) if vector else B
    rank = rank_of(self, rtol=rcond)
    overdetermined = rows > columns and bool(_f["eq"](rank, columns).all())
    solution, residuals = _LSTSQ(
        self, right, rcond=rcond, with_residuals=driver != "gelsy" and overdetermined
    )
    result = squeeze(solution, -1) if vector else solution
    with_values = driver in ("gelsd", "gelss")
    none = self.new_empty((0,), dtype=self.dtype.to_real())
    values = svdvals(self.detach()) if with_values else none
    if driver == "gels":
        rank = rank.new_empty((0,))
    four: Any = (result, residuals, rank, values)
    if out is not None:
        four = tuple(into("linalg.lstsq", x, o, (self, B)) for x, o in zip(four, out, strict=True))
    return return_types.linalg_lstsq(four)


# Low rank -----------------------------------------------------------------------------------------
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> Any:
    """``U, S, V`` of rank ``q`` by random projections.

    Halko, Martinsson & Tropp, "Finding structure with randomness" (2011), algorithm 5.1.

    Args:
        niter: steps of subspace iteration.
        M: a mean that is subtracted from ``A``.
    """
    if M is not None:
        A = _f["sub"](A, M.expand(A.layout.shape))
    if A.layout.shape[-2] < A.layout.shape[-1]:
        u, s, v = svd_lowrank(mirrored(A), q, niter)
        return v, s, u
    basis = _basis(A, q, niter)
    u, s, vh = svd(matmul(mirrored(basis), A), False)
    return matmul(basis, u), s, mirrored(vh)


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that span most of ``A``'s range: algorithm 4.4 of the same paper."""
    directions = randn((A.layout.shape[-1], q), dtype=A.layout.dtype)
    basis = qr(matmul(A, directions)).Q
    for _ in range(niter):
        basis = qr(matmul(mirrored(A), basis)).Q
        basis = qr(matmul(A, basis)).Q
    return basis


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """:func:`svd_lowrank` of ``A``, its columns centred unless ``center`` is False.

    Raises:
        ValueError: for a ``q`` above the smaller size of ``A``, or a negative ``niter``.
    """
    n, m = A.layout.shape[-2:]
    if q is None:
        q = min(6, n, m)
    elif not 0 <= q <= min(n, m):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(n, m)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if A.layout.dtype.category < dtypes.FLOATING:
        raise ValueError(f"pca_lowrank: expected a floating point tensor, got {A.layout.dtype}")
    if center:
        A = _f["sub"](A, A.mean(-2, keepdim=True))
    return svd_lowrank(A, q, niter)


METHODS = "ormqr geqrf"
FUNCTIONS = "ormqr geqrf svd_lowrank pca_lowrank"
METHODS_BY_NAME = {"orgqr": householder_product}
NAMESPACE = {"householder_product": householder_product, "lstsq": lstsq}
