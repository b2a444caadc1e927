"""Determinants, inverses, solutions and factorisations of matrices, by LAPACK through NumPy.

Batches of matrices in the last two dimensions. Gradients are compositions of recorded operators,
after Giles, "An extended collection of matrix derivative results" (2008), and so have derivatives
of every order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, errors, return_types
from ..layout import Layout
from ..memory_format import contiguous_format
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .composed import Composed
from .elementwise import functions
from .make import dense, strided
from .matmul import matmul
from .record import node_class, record
from .reduction import prod, sum
from .special import into
from .view import unsafe_view, unsqueeze

_f = functions


def _t(x: Tensor) -> Tensor:
    return x.transpose(-2, -1)


def _h(x: Tensor) -> Tensor:
    """The adjoint: transposed, and conjugated if complex."""
    return _t(x)._conjugated()


def _check(name: str, x: Tensor, square: bool = True) -> None:
    of = x.layout
    if of.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if of.dtype.category < dtypes.FLOATING:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {of.dtype.name}"
        )
    if of.dtype in dtypes.HALVES:
        raise NotImplementedError(
            f"{errors.unsupported(name, of.dtype)}: Low precision dtypes not supported, convert to "
            "float32"
        )
    if square and of.shape[-1] != of.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {of.shape[-2]} by "
            f"{of.shape[-1]} matrices"
        )


def _columns(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of batches of matrices laid out column by column, as LAPACK leaves them."""
    *batch, n, m = shape
    sizes = [*batch, m, n]
    steps = list(
        itertools.accumulate(reversed([max(x, 1) for x in sizes]), lambda a, b: a * b, initial=1)
    )
    strides = list(reversed(steps[:-1]))
    return (*strides[:-2], strides[-1], strides[-2])


def by_columns(x: Tensor) -> Tensor:
    """A copy, without history, of matrices that lies column by column."""
    to = strided(x.layout.shape, _columns(x.layout.shape), x.layout.dtype)
    to._array()[...] = x._numbers()
    return to


def _numpy(function: Callable[..., Any], *inputs: Tensor, by_columns: bool = True) -> list[Tensor]:
    """NumPy's results as fresh tensors, matrices column by column."""
    try:
        with np.errstate(all="ignore"):
            found = function(*(x.detach()._numbers() for x in inputs))
    except np.linalg.LinAlgError as error:
        raise LinAlgError(str(error)) from None
    results = []
    for values in found if isinstance(found, tuple) else (found,):
        array = np.asarray(values)
        of = inputs[0].layout.dtype
        kinds = {"f": dtypes.real_of(of), "c": dtypes.complex_of(of)}
        d = kinds.get(array.dtype.kind, dtypes.int64)
        if array.ndim >= 2 and by_columns:
            to = strided(array.shape, _columns(array.shape), d)
        else:
            to = dense(array.shape, d)
        to._array()[...] = array
        results.append(to)
    return results


class LinAlgError(RuntimeError):
    """A matrix does not have what was asked for: it is singular, or not positive definite."""


# Inverses and solutions ---------------------------------------------------------------------------
_INV = node_class(
    structured(
        "inv",
        "self",
        grad={"self": lambda grad, result: -matmul(_t(result), matmul(grad, _t(result)))},
        node="LinalgInvExBackward0",
    )
)


def inv(self: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverses of square matrices. Gradient: ``-inv.T @ grad @ inv.T``."""
    _check("linalg.inv", self)
    try:
        (result,) = _numpy(np.linalg.inv, self)
    except LinAlgError:
        raise LinAlgError(
            "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed "
            "because the input matrix is singular."
        ) from None
    record(_INV, (self,), (result,), {})
    return into("linalg.inv", result, out, (self,))


def _solve_left(grad: Tensor, A: Tensor, layout: Any) -> Tensor:
    return solve(_t(A), grad).sum_to_size(layout.shape)


_SOLVE = node_class(
    structured(
        "solve",
        "A B",
        grad={
            "A": lambda grad, A, result, layout: (
                -matmul(solve(_t(A), grad), _t(result)).sum_to_size(layout.shape)
            ),
            "B": _solve_left,
        },
        node="LinalgSolveExBackward0",
    )
)


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """``X`` with ``A @ X = B`` (or ``X @ A = B``); ``B`` may be (batches of) vectors.

    Gradient: ``G = solve(A.T, grad)`` for ``B``, ``-G @ X.T`` for ``A``.
    """
    _check("linalg.solve", A)
    a, b = A.layout.shape, B.layout.shape
    if A.layout.dtype.plain is not B.layout.dtype.plain:
        raise RuntimeError(
            "linalg.solve: Expected A and B to have the same dtype, but found A of type "
            f"{A.layout.dtype.name} and B of type {B.layout.dtype.name} instead"
        )
    vector = B.layout.ndim == 1 or (len(a) - 1 == len(b) and b == a[:-1])
    if vector:
        if not left:
            raise RuntimeError(
                "linalg.solve: Vector broadcasting of the left hand side is not supported for "
                "left=False."
            )
        columns = solve(A, unsqueeze(B, -1))
        return into("linalg.solve", unsafe_view(columns, columns.layout.shape[:-1]), out, (A, B))
    if not left:
        return into("linalg.solve", _t(solve(_t(A), _t(B))), out, (A, B))
    if b[-2] != a[-1]:
        raise RuntimeError(
            "linalg.solve: Incompatible shapes of A and B for the equation AX = B "
            f"({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})"
        )
    try:
        (result,) = _numpy(np.linalg.solve, A, B)
    except LinAlgError:
        raise LinAlgError(
            "torch.linalg.solve: The solver failed because the input matrix is singular."
        ) from None
    record(_SOLVE, (A, B), (result,), {})
    return into("linalg.solve", result, out, (A, B))


# Determinants -------------------------------------------------------------------------------------
def _det_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """det * inv.T; of singular matrices by the singular value decomposition."""
    scale = unsqueeze(unsqueeze(_f["mul"](grad, result), -1), -1)
    if not bool(_f["eq"](result, 0).any()):
        return _f["mul"](scale, _t(inv(self)))
    u, s, vh = svd(self, full_matrices=False)
    n = self.layout.shape[-1]
    others = [prod(_without(s, i), -1) for i in range(n)]
    from .shape import stack

    cofactors = stack(others, -1)
    sign = _f["mul"](det(u), det(vh))
    u, vh = u._conjugated(), vh._conjugated()
    inner = matmul(_f["mul"](u, unsqueeze(cofactors, -2)), vh)
    return _f["mul"](unsqueeze(unsqueeze(_f["mul"](grad, sign), -1), -1), inner)


def _without(s: Tensor, i: int) -> Tensor:
    from .shape import cat

    return cat([s[..., :i], s[..., i + 1 :]], -1)


def _slogdet_grad(grad: Any, self: Tensor, result: Tensor) -> Tensor | None:
    """inv.H times the logarithm's gradient, plus i times the sign's along its circle."""
    by_sign, scale = grad
    if by_sign is not None and self.is_complex():
        turned = (by_sign._conjugated() * result * 1j).real * 1j
        scale = turned if scale is None else _f["add"](scale, turned)
    if scale is None:
        return None
    return _f["mul"](unsqueeze(unsqueeze(scale, -1), -1), _h(inv(self)))


_DET = node_class(structured("det", "self", grad={"self": _det_grad}, node="LinalgDetBackward0"))
_SLOGDET = node_class(
    structured(
        "slogdet",
        "self",
        grad={"self": lambda grad, self, result: _slogdet_grad(grad, self, result)},
        outputs=2,
        node="LinalgSlogdetBackward0",
    )
)


def det(self: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinants of square matrices. Gradient: ``grad * det * inv.T``."""
    _check("linalg.det", self)
    (result,) = _numpy(np.linalg.det, self, by_columns=False)
    record(_DET, (self,), (result,), {})
    return into("linalg.det", result, out, (self,))


def slogdet(self: Tensor, *, out: Any = None) -> Any:
    """The signs of determinants, and the logarithms of their magnitudes.

    Gradient: ``grad * inv.H`` of the logarithm; of the sign what turns it, if it is complex.
    """
    _check("linalg.slogdet", self)
    both = _numpy(lambda a: tuple(np.linalg.slogdet(a)), self, by_columns=False)
    record(_SLOGDET, (self,), both, {})
    if out is not None:
        both = [into("slogdet", x, o, (self,)) for x, o in zip(both, out, strict=True)]
    return return_types.slogdet(both)


def logdet(self: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where that is negative."""
    sign, logarithm = slogdet(self)
    if self.is_complex():
        return _f["add"](_f["log"](sign), logarithm)
    return _f["where"](_f["eq"](sign, -1), float("nan"), logarithm)


# Cholesky -----------------------------------------------------------------------------------------
def _cholesky_grad(grad: Tensor, result: Tensor, upper: bool) -> Tensor:
    """inv(L).H @ sym(phi(L.H @ grad)) @ inv(L), phi: the lower triangle with half its diagonal."""
    if upper:
        grad, result = _h(grad), _h(result)
    phi = matmul(_h(result), grad)
    phi = _f["add"](phi.tril(), _h(phi.tril(-1)))
    inverse = inv(result)
    return matmul(_h(inverse), matmul(_f["mul"](phi, 0.5), inverse))


def _mirrored(x: Tensor) -> Tensor:
    """The Hermitian matrix with the lower triangle of ``x`` (of its diagonal, the real part)."""
    result = _f["add"](x.tril(), _h(x.tril(-1)))
    if x.is_complex():
        result = _f["mul"](_f["add"](result, _h(result)), 0.5)
    return result


_CHOLESKY = node_class(
    structured(
        "cholesky",
        "self",
        grad={"self": _cholesky_grad},
        node="LinalgCholeskyExBackward0",
        holomorphic=False,
    )
)


def cholesky(self: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangular ``L`` with ``L @ L.H`` = ``self`` (or ``L.H``, if ``upper``).

    Raises:
        LinAlgError: if a matrix is not positive definite.
    """
    _check("linalg.cholesky", self)
    try:
        (result,) = _numpy(functools.partial(np.linalg.cholesky, upper=upper), self)
    except LinAlgError:
        raise LinAlgError(
            "linalg.cholesky: The factorization could not be completed because the input is not "
            "positive-definite."
        ) from None
    record(_CHOLESKY, (self,), (result,), {"upper": upper})
    return into("linalg.cholesky", result, out, (self,))


# Eigenvalues and singular values ------------------------------------------------------------------
def _inverse_gaps(values: Tensor) -> Tensor:
    """1 / (v_j - v_i), zero on the diagonal."""
    gaps = _f["sub"](unsqueeze(values, -2), unsqueeze(values, -1))
    from .creation import eye

    n = values.layout.shape[-1]
    itself = eye(n, dtype=dtypes.bool_)
    return _f["where"](itself, 0, _f["reciprocal"](_f["where"](itself, 1, gaps)))


def _eigh_grad(grad: Any, self: Tensor, triangle: str) -> Tensor | None:
    by_values, by_vectors = grad
    values, vectors = eigh(self, triangle)
    inner = None if by_values is None else by_values.diag_embed()
    if by_vectors is not None:
        across = matmul(_h(vectors), by_vectors)
        _check_phases("linalg_eigh_backward: The eigenvectors", across)
        turned = _f["mul"](across, _inverse_gaps(values))
        inner = turned if inner is None else _f["add"](inner, turned)
    if inner is None:
        return None
    return matmul(vectors, matmul(_like(inner, self), _h(vectors)))


def _like(x: Tensor, of: Tensor) -> Tensor:
    """In the dtype of ``of``: a real factor beside complex ones."""
    return x if x.dtype is of.dtype else convert.to(x, of.dtype)


def _check_phases(what: str, *across: Tensor) -> None:
    """Raise where a gradient depends on the phases of complex vectors, which are arbitrary."""
    if not across[0].is_complex():
        return
    turned = functools.reduce(_f["add"], [x.detach().diagonal(0, -2, -1) for x in across])
    if bool(_f["gt"](_f["abs"](turned.imag), 1e-2).any()):
        raise RuntimeError(
            f"{what} in the complex case are specified up to multiplication by e^{{i phi}}. The "
            "specified loss function depends on this quantity, so it is ill-defined."
        )


_EIGH = node_class(
    structured(
        "eigh",
        "self",
        grad={"self": _eigh_grad},
        outputs=2,
        node="LinalgEighBackward0",
        holomorphic=False,
    )
)


def eigh(self: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """Eigenvalues (ascending) and eigenvectors of symmetric matrices; one triangle is read.

    Gradient: ``V (diag(dw) + (V.T dV) / (w_j - w_i)) V.T``.
    """
    _check("linalg.eigh", self)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    both = _numpy(lambda a: tuple(np.linalg.eigh(a, "U" if UPLO in "Uu" else "L")), self)
    if both[0].layout.ndim > 1:
        both[0] = convert.clone(both[0], memory_format=contiguous_format).detach()
    record(_EIGH, (self,), both, {"triangle": UPLO})
    if out is not None:
        both = [into("eigh", x, o, (self,)) for x, o in zip(both, out, strict=True)]
    return return_types.linalg_eigh(both)


def eigvalsh(self: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues (ascending) of symmetric matrices."""
    return into("linalg.eigvalsh", eigh(self, UPLO)[0], out, (self,))


def _eig_grad(grad: Any, self: Tensor, layout: Layout) -> Tensor | None:
    """inv(V).H (diag(dw) + (V.H dV - V.H V diag(Re(V.H dV))) / conj(w_j - w_i)) V.H."""
    by_values, by_vectors = grad
    values, vectors = eig(self)
    inner = None if by_values is None else by_values.diag_embed()
    if by_vectors is not None:
        across = matmul(_h(vectors), by_vectors)
        _check_phases("linalg_eig_backward: The eigenvectors", across)
        lengths = _f["mul"](
            matmul(_h(vectors), vectors), across.diagonal(0, -2, -1).real[..., None, :]
        )
        turned = _f["mul"](_f["sub"](across, lengths), _inverse_gaps(values._conjugated()))
        inner = turned if inner is None else _f["add"](inner, turned)
    if inner is None:
        return None
    return convert.adjoint_cast(solve(_h(vectors), matmul(inner, _h(vectors))), layout)


_EIG = node_class(
    structured(
        "eig",
        "self",
        grad={"self": _eig_grad},
        outputs=2,
        node="LinalgEigBackward0",
        holomorphic=False,
    )
)


def eig(self: Tensor, *, out: Any = None) -> Any:
    """Eigenvalues and eigenvectors (columns of unit length) of square matrices, complex.

    Gradient: ``inv(V).H (diag(dw) + (V.H dV - V.H V diag(Re(V.H dV))) / conj(w_j - w_i)) V.H``;
    of a real matrix the real part.
    """
    _check("linalg.eig", self)
    kind = dtypes.complex_of(self.layout.dtype).np
    both = _numpy(lambda a: tuple(x.astype(kind) for x in np.linalg.eig(a)), self)
    if both[0].layout.ndim > 1:
        both[0] = convert.clone(both[0], memory_format=contiguous_format).detach()
    record(_EIG, (self,), both, {})
    if out is not None:
        both = [into("eig", x, o, (self,)) for x, o in zip(both, out, strict=True)]
    return return_types.linalg_eig(both)


def eigvals(self: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of square matrices, complex, in no particular order."""
    return into("linalg.eigvals", eig(self)[0], out, (self,))


def _svd_grad(grad: Any, self: Tensor, full: bool) -> Tensor | None:
    """Giles 3.4 (the thin decomposition)."""
    gu, gs, gvh = grad
    if 0 in self.layout.shape:
        return self.new_zeros(self.layout.shape)
    if full and gu is not None:  # columns past the thin decomposition are not determined
        gu = gu[..., : min(self.layout.shape[-2:])]
    if full and gvh is not None:
        gvh = gvh[..., : min(self.layout.shape[-2:]), :]
    if gu is None and gs is None and gvh is None:
        return None
    u, s, vh = svd(self, full_matrices=False)
    inner = None if gs is None else gs.diag_embed()
    total = None
    n, m, k = self.layout.shape[-2], self.layout.shape[-1], s.layout.shape[-1]
    if gu is not None or gvh is not None:
        squares = _inverse_gaps(_f["mul"](s, s))
        both = [] if gu is None else [matmul(_h(u), gu)]
        both += [] if gvh is None else [matmul(vh, _h(gvh))]
        _check_phases("svd_backward: The singular vectors", *both)
        if gu is not None and gvh is not None and self.is_complex():
            turned = _f["mul"](both[0].diagonal(0, -2, -1).imag, 1j)
            part = _f["div"](turned, s).diag_embed()
            inner = part if inner is None else _f["add"](inner, part)
        if gu is not None:
            skew = both[0]
            part = _f["mul"](_f["mul"](_f["sub"](skew, _h(skew)), squares), unsqueeze(s, -2))
            inner = part if inner is None else _f["add"](inner, part)
            if n > k:
                left = _f["div"](_f["sub"](gu, matmul(u, skew)), unsqueeze(s, -2))
                total = matmul(left, vh)
        if gvh is not None:
            skew = both[-1]
            part = _f["mul"](unsqueeze(s, -1), _f["mul"](_f["sub"](skew, _h(skew)), squares))
            inner = part if inner is None else _f["add"](inner, part)
            if m > k:
                right = _f["div"](_f["sub"](gvh, matmul(_h(skew), vh)), unsqueeze(s, -1))
                more = matmul(u, right)
                total = more if total is None else _f["add"](total, more)
    assert inner is not None
    main = matmul(u, matmul(_like(inner, self), vh))
    return main if total is None else _f["add"](main, total)


_SVD = node_class(
    structured(
        "svd",
        "self",
        grad={"self": _svd_grad},
        outputs=3,
        node="LinalgSvdBackward0",
        holomorphic=False,
    )
)


def svd(
    self: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> Any:
    """``U, S, Vh`` with ``U @ diag(S) @ Vh`` = ``self``, the singular values descending."""
    _check("linalg.svd", self, square=False)
    three = _numpy(lambda a: tuple(np.linalg.svd(a, full_matrices)), self)
    if three[1].layout.ndim > 1:
        three[1] = convert.clone(three[1], memory_format=contiguous_format).detach()
    record(_SVD, (self,), three, {"full": full_matrices})
    if out is not None:
        three = [into("svd", x, o, (self,)) for x, o in zip(three, out, strict=True)]
    return return_types.linalg_svd(three)


def svdvals(self: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values, descending."""
    return into("linalg.svdvals", svd(self, False)[1], out, (self,))


def _pinv_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """-P.H G P.H + (I - A P) G.H P P.H + P.H P G.H (I - P A): Golub & Pereyra (1973)."""
    inverse, turned = _h(result), _h(grad)
    left = matmul(turned, matmul(result, inverse))
    left = _f["sub"](left, matmul(self, matmul(result, left)))
    right = matmul(matmul(inverse, result), turned)
    right = _f["sub"](right, matmul(matmul(right, result), self))
    return _f["sub"](_f["add"](left, right), matmul(inverse, matmul(grad, inverse)))


_PINV = node_class(
    structured(
        "pinv",
        "self",
        grad={"self": _pinv_grad},
        node="LinalgPinvBackward0",
        holomorphic=False,
    )
)


def pinv(
    self: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudo-inverses ``P``, singular values below ``max(atol, rtol * largest)`` taken as 0.

    Gradient: ``-P.H G P.H + (I - A P) G.H P P.H + P.H P G.H (I - P A)``, at constant rank.
    """
    _check("linalg.pinv", self, square=hermitian)
    of = self.detach()
    if not self.layout.numel:
        result = self.new_zeros((*self.layout.shape[:-2], *reversed(self.layout.shape[-2:])))
    elif hermitian:
        values, vectors = eigh(of)
        kept = _f["gt"](_f["abs"](values), _threshold(of, _f["abs"](values), rcond, atol, rtol))
        inverse = _f["where"](kept, _f["reciprocal"](_f["where"](kept, values, 1)), 0)
        result = matmul(_f["mul"](vectors, unsqueeze(inverse, -2)), _h(vectors))
    else:
        u, s, vh = svd(of, False)
        kept = _f["gt"](s, _threshold(of, s, rcond, atol, rtol))
        inverse = _f["where"](kept, _f["reciprocal"](_f["where"](kept, s, 1)), 0)
        result = matmul(_h(vh), _f["mul"](unsqueeze(inverse, -1), _h(u)))
    record(_PINV, (self,), (result,), {})
    return into("linalg.pinv", result, out, (self,))


def _threshold(self: Tensor, s: Tensor, rcond: Any, atol: Any, rtol: Any) -> Tensor:
    rtol = rcond if rtol is None else rtol
    if rtol is None:
        eps = 2.0 ** (1 - self.layout.dtype.digits)
        rtol = eps * max(self.layout.shape[-2:]) if atol is None else 0.0
    largest = s.detach().amax(-1, keepdim=True)
    relative = _f["mul"](largest, unsqueeze(rtol, -1) if isinstance(rtol, Tensor) else rtol)
    if atol is None:
        return relative
    absolute = unsqueeze(atol, -1) if isinstance(atol, Tensor) else relative.new_full((), atol)
    return _f["maximum"](relative, absolute)


def matrix_rank(
    self: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values are above ``max(atol, rtol * largest)`` (int64)."""
    _check("linalg.matrix_rank", self, square=hermitian)
    s = svdvals(self.detach())
    if not s.layout.numel:
        return self.new_zeros(self.layout.shape[:-2], dtype=dtypes.int64)
    above = _f["gt"](s, _threshold(self, s, None, tol if atol is None else atol, rtol))
    return into("linalg.matrix_rank", sum(above, -1), out, ())


# Orthogonal factors -------------------------------------------------------------------------------
def _qr_grad(grad: Any, self: Tensor, mode: str) -> Tensor | None:
    """(gQ + Q copyltu(R gR.H - gQ.H Q)) inv(R).H, of the square part of wide matrices.

    The rest of a wide R is Q.H times the rest of the matrix (Roberts & Roberts, arXiv:2009.10071).
    """
    gq, gr = grad
    if gq is None and gr is None:
        return None
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to require gradients."
        )
    rows, columns = self.layout.shape[-2:]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    q, r = qr(self)
    right = None
    if rows < columns:
        rest = self[..., rows:]
        if gr is not None:
            right = matmul(q, gr[..., rows:])
            more = matmul(rest, _h(gr[..., rows:]))
            gq = more if gq is None else _f["add"](gq, more)
            gr = gr[..., :rows]
        else:
            right = rest.new_zeros(rest.layout.shape)
        r = r[..., :rows]
    inner = None if gr is None else matmul(r, _h(gr))
    if gq is not None:
        part = matmul(_h(gq), q)
        inner = _f["neg"](part) if inner is None else _f["sub"](inner, part)
    assert inner is not None
    left = matmul(q, _mirrored(inner))
    if gq is not None:
        left = _f["add"](left, gq)
    result = _h(solve(r, _h(left)))
    if right is None:
        return result
    from .shape import cat

    return cat([result, right], -1)


_QR = node_class(
    structured(
        "qr",
        "self",
        grad={"self": _qr_grad},
        outputs=2,
        node="LinalgQrBackward0",
        holomorphic=False,
    )
)


def qr(self: Tensor, mode: str = "reduced", *, out: Any = None) -> Any:
    """``Q`` with orthonormal columns and upper triangular ``R`` with ``Q @ R`` = ``self``."""
    _check("linalg.qr", self, square=False)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    if mode == "r":
        both = [self.new_empty((0,)), *_numpy(lambda a: np.linalg.qr(a, "r"), self)]
    else:
        both = _numpy(
            lambda a: tuple(np.linalg.qr(a, "complete" if mode == "complete" else "reduced")), self
        )
    record(_QR, (self,), both, {"mode": mode})
    if out is not None:
        both = [into("qr", x, o, (self,)) for x, o in zip(both, out, strict=True)]
    return return_types.linalg_qr(both)


# Tensors as matrices ------------------------------------------------------------------------------
def tensorinv(self: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of a tensor as a map between its first ``ind`` dimensions and the others."""
    shape = self.layout.shape
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape"
            f"[:ind]), but got {columns} != {rows}"
        )
    result = inv(self.reshape(rows, columns)).reshape((*shape[ind:], *shape[:ind]))
    return into("linalg.tensorinv", result, out, (self,))


def tensorsolve(
    A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``X`` with ``tensordot(A, X, X.ndim)`` = ``B``; ``dims`` of ``A`` are moved to its end."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.layout.ndim - len(dims), A.layout.ndim)))
    shape = A.layout.shape[B.layout.ndim :]
    size = math.prod(shape)
    if size != B.layout.numel:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {size} != {B.layout.numel}"
        )
    result = solve(A.reshape(size, size), B.reshape(-1)).reshape(shape)
    return into("linalg.tensorsolve", result, out, (A, B))


# Variants -----------------------------------------------------------------------------------------
def _no_errors(result: Tensor, batch: tuple[int, ...]) -> Tensor:
    """LAPACK's ``info`` of a success: int32 zeros, one for each matrix."""
    return result.new_zeros(batch, dtype=dtypes.int32)


def inv_ex(self: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """:func:`inv`, and an int32 ``info`` of zeros; singular matrices raise."""
    result = inv(self)
    return return_types.linalg_inv_ex((result, _no_errors(result, self.layout.shape[:-2])))


def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """:func:`solve`, and an int32 ``info`` of zeros; singular matrices raise."""
    result = solve(A, B, left=left)
    return return_types.linalg_solve_ex((result, _no_errors(result, A.layout.shape[:-2])))


def cholesky_ex(
    self: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """:func:`cholesky`, and an int32 ``info`` of zeros; other matrices raise."""
    result = cholesky(self, upper=upper)
    return return_types.linalg_cholesky_ex((result, _no_errors(result, self.layout.shape[:-2])))


def old_cholesky(self: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """:func:`cholesky` with ``upper`` as a positional argument."""
    return into("cholesky", cholesky(self, upper=upper), out, (self,))


def old_qr(self: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """:func:`qr`, "reduced" if ``some``, else "complete"."""
    return return_types.qr(qr(self, "reduced" if some else "complete", out=out))


def old_svd(self: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """:func:`svd` that gives ``V`` in place of ``Vh``; without ``compute_uv`` zeros for both."""
    if not compute_uv:
        n, m = self.layout.shape[-2:]
        batch = self.layout.shape[:-2]
        zero = (self.new_zeros((*batch, k, k)) for k in (n, m))
        three: Any = (next(zero), svdvals(self), next(zero))
    else:
        u, s, vh = svd(self, not some)
        three = (u, s, _h(vh))
    if out is not None:
        three = tuple(into("svd", x, o, (self,)) for x, o in zip(three, out, strict=True))
    return return_types.svd(three)


def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """:func:`solve` that reads one triangle of ``A`` (and takes its diagonal for ones)."""
    _check("linalg.solve_triangular", A)
    side = A.triu(int(unitriangular)) if upper else A.tril(-int(unitriangular))
    if unitriangular:
        side = _f["add"](side, A.new_ones(A.layout.shape[-1:]).diag_embed())
    result = solve(side, B, left=left)
    if not left:  # the transpose of another solution
        result = convert.clone(result)
    return into("linalg.solve_triangular", result, out, (A, B))


def _solved_twice(self: Tensor, L: Tensor, upper: bool) -> Tensor:
    lower = _h(L) if upper else L
    return solve_triangular(_h(lower), solve_triangular(lower, self, upper=False), upper=True)


def _inverted(self: Tensor, upper: bool) -> Tensor:
    factor = inv(self.triu() if upper else self.tril())
    return matmul(factor, _h(factor)) if upper else matmul(_h(factor), factor)


_CHOLESKY_SOLVE = Composed("cholesky_solve", "self L", _solved_twice, by_columns)
_CHOLESKY_INVERSE = Composed("cholesky_inverse", "self", _inverted, by_columns)


def cholesky_solve(
    B: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """``X`` with ``(L @ L.H) @ X`` = ``B`` (with ``upper``: ``L.H @ L``)."""
    return into("cholesky_solve", _CHOLESKY_SOLVE(B, L, upper=upper), out, (B, L))


def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the matrix whose Cholesky factor is ``L``."""
    _check("cholesky_inverse", L)
    return into("cholesky_inverse", _CHOLESKY_INVERSE(L, upper=upper), out, (L,))


def cond(self: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Condition numbers: the norm of a matrix times that of its inverse (2: of singular values)."""
    from .linalg import matrix_norm

    _check("linalg.cond", self, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(self)
        a, b = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        result = _f["div"](a, b)
    else:
        result = _f["mul"](matrix_norm(self, p), matrix_norm(inv(self), p))
    return into("linalg.cond", result, out, (self,))


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
         129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
         40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip


def matrix_exp(self: Tensor) -> Tensor:
    """The exponentials of square matrices, by scaling, a Padé approximant of degree 13 and squaring
    (Higham, "The scaling and squaring method for the matrix exponential revisited", 2005)."""
    from .creation import eye

    d = self.layout.dtype
    if d in dtypes.HALVES:  # the coefficients are beyond the range of 16 bits
        return convert.to(matrix_exp(convert.to(self, d.compute)), d)
    _check("linalg.matrix_exp", self)
    if not self.layout.numel:
        return convert.clone(self)
    largest = float(_f["abs"](self.detach()).sum(-2).max())
    halvings = max(0, math.ceil(math.log2(largest / 5.37))) if 5.37 < largest < math.inf else 0
    a = _f["mul"](self, 2.0**-halvings)
    a2 = matmul(a, a)
    powers = [eye(self.layout.shape[-1], dtype=self.layout.dtype), a2]
    while len(powers) < 7:
        powers.append(matmul(powers[-1], a2))
    odd = even = None
    for k, power in enumerate(powers):
        e, o = _f["mul"](power, _PADE[2 * k]), _f["mul"](power, _PADE[2 * k + 1])
        even, odd = (e, o) if even is None else (_f["add"](even, e), _f["add"](odd, o))
    assert even is not None and odd is not None
    u = matmul(a, odd)
    result = solve(_f["sub"](even, u), _f["add"](even, u))
    for _ in range(halvings):
        result = matmul(result, result)
    return result


METHODS = "det slogdet logdet pinverse inverse cholesky_solve cholesky_inverse matrix_exp"
FUNCTIONS = METHODS
METHODS_BY_NAME = {"cholesky": old_cholesky, "qr": old_qr, "svd": old_svd}
inverse = inv
pinverse = pinv
NAMESPACE = {
    "inv": inv, "solve": solve, "det": det, "slogdet": slogdet, "cholesky": cholesky, "eigh": eigh,
    "eig": eig, "eigvals": eigvals,
    "eigvalsh": eigvalsh, "svd": svd, "svdvals": svdvals, "pinv": pinv, "matrix_rank": matrix_rank,
    "qr": qr, "tensorinv": tensorinv, "tensorsolve": tensorsolve, "inv_ex": inv_ex,
    "solve_ex": solve_ex, "cholesky_ex": cholesky_ex, "solve_triangular": solve_triangular,
    "cond": cond, "matrix_exp": matrix_exp, "LinAlgError": LinAlgError,
}  # fmt: skip
