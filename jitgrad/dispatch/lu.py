"""LU and LDL factorisations, and what is solved with them.

The gradient of LU is that of Murray, "Differentiation of the Cholesky decomposition" (2016), and
Giles (2008), for the triangular factors of a matrix whose row interchanges are constant.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .. import dtypes, return_types
from ..kernels import factor
from ..layout import broadcast_shapes
from ..memory_format import contiguous_format
from ..ops.table import structured
from ..tensor import Tensor
from . import convert
from .composed import Composed
from .creation import eye
from .elementwise import functions
from .factorize import _check as check_matrix
from .factorize import _h as matrix_adjoint
from .factorize import _t as mirrored
from .factorize import by_columns, solve_triangular
from .make import dense
from .matmul import matmul
from .record import node_class, record
from .shape import cat
from .special import into

_f = functions


def _factored(kind: str, self: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The factors, pivots and info of a batch."""
    *batch, n, m = self.layout.shape
    matrix = by_columns(self)
    pivots = dense((*batch, min(n, m)), dtypes.int32)
    info = dense(tuple(batch), dtypes.int32)
    count = prod(batch)
    if n and m and count:
        sides = [n, m] if kind == "lu" else [n]
        buffers = [part for t in (matrix, pivots, info) for part in (t.storage.buffer, t.offset)]
        factor.run(kind, self.dtype, count, (n * m, min(n, m), 1), sides, buffers)
    else:
        info._array()[...] = 0
    return matrix, pivots, info


def _raise_for(name: str, info: Tensor) -> None:
    failed = info[info.ne(0)]
    if failed.layout.numel:
        at = int(failed[0].item())
        raise RuntimeError(
            f"torch.linalg.{name}: U[{at},{at}] is zero and using it on lu_solve would result in a "
            "division by zero. If you still want to perform the factorization, consider calling "
            "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )


# LU -----------------------------------------------------------------------------------------------
def _triangles(LU: Tensor) -> tuple[Tensor, Tensor]:
    """The factors that lie in one matrix: ``L`` with its diagonal of ones, and ``U``."""
    n, m = LU.layout.shape[-2:]
    k = min(n, m)
    lower = LU[..., :k].tril(-1)
    return _f["add"](lower, eye(n, k, dtype=LU.layout.dtype)), LU[..., :k, :].triu()


def _permutation(pivots: Tensor, n: int, d: dtypes.dtype) -> Tensor:
    """The matrix ``P`` with ``A`` = ``P @ L @ U``, of LAPACK's interchanges."""
    *batch, k = pivots.layout.shape
    order = np.broadcast_to(np.arange(n), (*batch, n)).copy()
    swaps = pivots._array().reshape(-1, k) if k else ()
    for row, interchanges in zip(order.reshape(-1, n), swaps, strict=False):
        for i, j in enumerate(interchanges.tolist()):
            row[i], row[j - 1] = row[j - 1], row[i]
    result = pivots.new_zeros((*batch, n, n), dtype=d)
    np.put_along_axis(result._array(), order[..., None, :], 1, -2)
    return result


def _lu_grad(grad: Tensor, result: Tensor, pivots: Tensor) -> Tensor:
    """P inv(L).T (tril(L.T dL, -1) + triu(dU U.T)) inv(U).T of the square part.

    What a wide matrix has more of U, or a tall one of L, is solved for and changes dL or dU.
    """
    n, m = result.layout.shape[-2:]
    k = min(n, m)
    lower, upper = _triangles(result)
    by_l, by_u = grad[..., :k].tril(-1), grad[..., :k, :].triu()
    rest = None
    if n < m:
        rest = solve_triangular(mirrored(lower), by_u[..., k:], upper=True, unitriangular=True)
        by_l = _f["sub"](by_l, matmul(rest, mirrored(upper[..., k:])))
        by_u, upper = by_u[..., :k], upper[..., :k]
    elif n > m:
        rest = solve_triangular(mirrored(upper), by_l[..., k:, :], upper=False, left=False)
        by_u = _f["sub"](by_u, matmul(mirrored(lower[..., k:, :]), rest))
        by_l, lower = by_l[..., :k, :], lower[..., :k, :]
    inner = _f["add"](matmul(mirrored(lower), by_l).tril(-1), matmul(by_u, mirrored(upper)).triu())
    inner = solve_triangular(mirrored(upper), inner, upper=False, left=False)
    square = solve_triangular(mirrored(lower), inner, upper=True, unitriangular=True)
    if rest is not None:
        square = cat([square, rest], -1 if n < m else -2)
    return matmul(_permutation(pivots, n, result.layout.dtype), square)


_LU = node_class(
    structured("lu_factor", "A", grad={"A": _lu_grad}, node="LinalgLuFactorExBackward0")
)


def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """``LU, pivots, info``: ``L`` below the diagonal and ``U`` from it on, the row interchanges.

    Args:
        A: batches of n x m matrices.
        pivot: only True; False is not implemented on the CPU.
        check_errors: raise for a zero on the diagonal of ``U``, which ``info`` names otherwise.

    Gradient: of ``LU``, with constant interchanges.
    """
    return _lu_factor("lu_factor_ex", A, pivot, check_errors, out)


def _lu_factor(name: str, A: Tensor, pivot: bool, check: bool, out: Any) -> Any:
    check_matrix("linalg.lu_factor", A, square=False)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    three: Any = _factored("lu", A)
    if check:
        _raise_for(name, three[2])
    record(_LU, (A,), three[:1], {"pivots": three[1]})
    if out is not None:
        three = tuple(into(name, x, o, (A,)) for x, o in zip(three, out, strict=True))
    return return_types.linalg_lu_factor_ex(three)


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """:func:`lu_factor_ex` that raises for a zero on the diagonal of ``U``."""
    pair = _lu_factor("lu_factor", A, pivot, True, None)[:2]
    if out is not None:
        pair = tuple(into("lu_factor", x, o, (A,)) for x, o in zip(pair, out, strict=True))
    return return_types.linalg_lu_factor(pair)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """``P, L, U`` from a packed factorisation; empty where they are not wanted."""
    if unpack_pivots and LU_pivots.layout.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype"
        )
    nothing = LU_data.new_empty((0,))
    lower, upper = _triangles(LU_data) if unpack_data else (nothing, nothing)
    of = LU_data.layout
    p = _permutation(LU_pivots, of.shape[-2], of.dtype) if unpack_pivots else nothing
    three: Any = (p, lower, upper)
    if out is not None:
        three = tuple(into("lu_unpack", x, o, (LU_data,)) for x, o in zip(three, out, strict=True))
    return return_types.lu_unpack(three)


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """``P, L, U`` with ``P @ L @ U`` = ``A``: a permutation, and two triangular matrices."""
    LU, pivots, _ = _lu_factor("lu", A, pivot, False, None)
    return return_types.linalg_lu(lu_unpack(LU, pivots, out=out))


def _solved(LU: Tensor, B: Tensor, pivots: Tensor, left: bool, adjoint: bool) -> Tensor:
    if not left:  # X A = B is A.H X.H = B.H
        return matrix_adjoint(_solved(LU, matrix_adjoint(B), pivots, True, not adjoint))
    p = _permutation(pivots, LU.layout.shape[-1], LU.layout.dtype)
    if adjoint:
        turned = matrix_adjoint(LU)
        half = solve_triangular(turned, B, upper=False)
        half = solve_triangular(turned, half, upper=True, unitriangular=True)
        return matmul(p, half)
    half = solve_triangular(LU, matmul(mirrored(p), B), upper=False, unitriangular=True)
    return solve_triangular(LU, half, upper=True)


_BY_COLUMNS = Composed("lu_solve", "LU B", _solved, by_columns, node="LinalgLuSolveBackward0")
_BY_ROWS = Composed(
    "lu_solve_rows",
    "LU B",
    _solved,
    lambda x: convert.clone(x, memory_format=contiguous_format),
    node="LinalgLuSolveBackward0",
)


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``X`` with ``A @ X = B``, ``A`` given by its factors.

    Args:
        LU, pivots: what :func:`lu_factor` gives.
        B: batches of matrices.
        left: False for ``X @ A = B``.
        adjoint: take ``A.H`` in place of ``A``.

    Gradient: that of the triangular solves it consists of, for ``LU`` and ``B``.
    """
    check_matrix("linalg.lu_solve", LU)
    if LU.dtype is not B.dtype:
        raise RuntimeError(
            "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type "
            f"{_kind(LU)} and B of type {_kind(B)} instead"
        )
    if pivots.layout.dtype is not dtypes.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    n, b = LU.layout.shape[-1], B.layout.shape
    if pivots.layout.shape[-1:] != (n,):
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
            "matrix"
        )
    if LU.layout.shape[:-2] != pivots.layout.shape[:-1]:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
            f"pivots with shape {list(pivots.layout.shape)} instead"
        )
    if len(b) < 2 or b[-2 if left else -1] != n:
        raise RuntimeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation "
            f"{'AX' if left else 'XA'} = B ({n}x{n} and {'x'.join(map(str, b[-2:]))})"
        )
    solve = _BY_COLUMNS if left else _BY_ROWS
    result = solve(LU, B, pivots=pivots, left=left, adjoint=adjoint)
    return into("lu_solve", result, out, (LU, B))


def _kind(x: Tensor) -> str:
    return x.layout.dtype.tensor_type.removesuffix("Tensor")


def old_lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """``LU, pivots`` (and ``info``) of :func:`lu_factor_ex`, as a tuple."""
    three = _lu_factor("lu_factor_ex", A, pivot, not get_infos, None)
    found = tuple(three) if get_infos else tuple(three[:2])
    if out is not None:
        found = tuple(into("lu", x, o, (A,)) for x, o in zip(found, out, strict=True))
    return found


def old_lu_solve(
    b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """:func:`lu_solve` with its arguments in another order."""
    return lu_solve(LU_data, LU_pivots, b, out=out)


def _with_coefficient(
    b: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    side = A.triu() if upper else A.tril()
    of = mirrored(side) if transpose else side
    return solve_triangular(of, b, upper=upper is not transpose, unitriangular=unitriangular), A


_TRIANGULAR = Composed("triangular_solve", "b A", _with_coefficient, by_columns, outputs=2)


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False,
    *, out: Any = None,
) -> Any:  # fmt: skip
    """``X`` with ``A @ X = b`` for a triangle of ``A`` (or its transpose), and a copy of ``A``."""
    check_matrix("triangular_solve", A)
    pair = _TRIANGULAR(b, A, upper=upper, transpose=transpose, unitriangular=unitriangular)
    if out is not None:
        pair = tuple(into("triangular_solve", x, o, (b, A)) for x, o in zip(pair, out, strict=True))
    return return_types.triangular_solve(pair)


# LDL ----------------------------------------------------------------------------------------------
def _refused(name: str) -> Any:
    def refuse(grad: Any) -> Any:
        raise NotImplementedError(
            f"derivative for aten::{name} is not implemented: detach() inputs"
        )

    return refuse


_LDL = node_class(
    structured(
        "ldl_factor",
        "self",
        grad={"self": _refused("linalg_ldl_factor_ex")},
        node="NotImplemented",
    )
)
_LDL_SOLVE = node_class(
    structured(
        "ldl_solve",
        "LD B",
        grad={name: _refused("linalg_ldl_solve") for name in ("LD", "B")},
        node="NotImplemented",
    )
)


def _kind_of(kernel: str, x: Tensor, hermitian: bool) -> str:
    """The kernel's variant: of real matrices there is but one."""
    return f"{kernel}_hermitian" if hermitian and x.is_complex() else kernel


def ldl_factor_ex(
    self: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """``LD, pivots, info`` of symmetric (or Hermitian) matrices, by Bunch and Kaufman.

    ``LD`` holds the block-diagonal ``D`` and below it ``L``; a negative pivot, twice, means a block
    of two rows. The lower triangle is read. There is no derivative.
    """
    check_matrix("torch.linalg.ldl_factor_ex", self)
    three: Any = _factored(_kind_of("ldl", self, hermitian), self)
    if check_errors and bool(three[2].any()):
        at = int(three[2].max().item())
        raise RuntimeError(
            f"torch.linalg.ldl_factor_ex: D[{at},{at}] is zero and using it on ldl_solve would "
            "result in a division by zero"
        )
    record(_LDL, (self,), three[:1], {})
    if out is not None:
        three = tuple(into("ldl_factor_ex", x, o, (self,)) for x, o in zip(three, out, strict=True))
    return return_types.linalg_ldl_factor_ex(three)


def ldl_factor(self: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """:func:`ldl_factor_ex` without ``info``; a zero pivot raises."""
    pair = ldl_factor_ex(self, hermitian=hermitian, check_errors=True)[:2]
    if out is not None:
        pair = tuple(into("ldl_factor", x, o, (self,)) for x, o in zip(pair, out, strict=True))
    return return_types.linalg_ldl_factor(pair)


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """``X`` with ``A @ X = B`` from the factors of ``A`` by :func:`ldl_factor`. No derivative."""
    check_matrix("torch.linalg.ldl_solve", LD)
    n, b = LD.layout.shape[-1], B.layout.shape
    if len(b) < 2 or b[-2] != n:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Incompatible matrix sizes for ldl_solve: each LD matrix is "
            f"{n} by {n} but each B matrix is {'x'.join(map(str, b[-2:]))}"
        )
    if LD.dtype is not B.dtype:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD and B to have the same dtype, but found LD of "
            f"type {_kind(LD)} and B of type {_kind(B)} instead"
        )
    if pivots.layout.dtype.category != dtypes.INTEGER:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected pivots to be integers, but got "
            f"{pivots.layout.dtype.name}"
        )
    batch = broadcast_shapes(LD.layout.shape[:-2], b[:-2])
    matrix = by_columns(LD.detach().expand((*batch, n, n)))
    swaps = pivots.detach().expand((*batch, n)).to(dtypes.int32).contiguous()
    result = by_columns(B.detach().expand((*batch, *b[-2:])))
    if result.layout.numel:
        buffers = [part for t in (matrix, swaps, result) for part in (t.storage.buffer, t.offset)]
        steps = (n * n, n, n * b[-1])
        kind = _kind_of("ldl_solve", LD, hermitian)
        factor.run(kind, LD.dtype, prod(batch), steps, [n, b[-1]], buffers)
    record(_LDL_SOLVE, (LD, B), (result,), {})
    return into("ldl_solve", result, out, (LD, B))


METHODS = ""
FUNCTIONS = "lu_unpack"
METHODS_BY_NAME = {"lu": old_lu, "lu_solve": old_lu_solve, "triangular_solve": triangular_solve}
NAMESPACE = {
    "lu": lu, "lu_factor": lu_factor, "lu_factor_ex": lu_factor_ex, "lu_solve": lu_solve,
    "ldl_factor": ldl_factor, "ldl_factor_ex": ldl_factor_ex, "ldl_solve": ldl_solve,
}  # fmt: skip
