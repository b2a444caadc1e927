"""LU, LDL, Householder reflections and least squares: what the samples of op_db leave out."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


def test_lu_of_batches_wide_and_tall() -> None:
    for shape in ((2, 3, 3), (2, 5), (4, 2, 3), (5, 2), (0, 3, 3), (3, 0)):
        check(lambda lib, a: lib.linalg.lu(a), shape, grad_fn=False)
        check(lambda lib, a: lib.linalg.lu_factor_ex(a), shape, grad_fn=False)


def test_a_zero_pivot_is_named() -> None:
    check(lambda lib, a: lib.linalg.lu_factor_ex(a)[2], arg(SINGULAR, requires_grad=False))
    check_raises(lambda lib, a: lib.linalg.lu_factor(a), SINGULAR, match="U[2,2] is zero")
    check_raises(lambda lib, a: lib.linalg.lu_factor(a, pivot=False), (2, 2), match="not implem")


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_ldl_of_indefinite_matrices(n: int) -> None:
    """Pivots of one row and of two: a zero diagonal needs the latter."""
    for diagonal in (0.0, 1.0, 10.0):
        matrix = np.random.default_rng(n).normal(size=(n, n))
        matrix = matrix + matrix.T
        np.fill_diagonal(matrix, diagonal)
        if n == 1 and not diagonal:
            continue
        a = arg(matrix, requires_grad=False)
        check(lambda lib, a: lib.linalg.ldl_factor(a), a)
        check(lambda lib, a, b: lib.linalg.ldl_solve(*lib.linalg.ldl_factor(a), b), a,
              arg((n, 3), requires_grad=False))  # fmt: skip


@pytest.mark.parametrize("hermitian", [True, False])
def test_ldl_of_complex_matrices(hermitian: bool) -> None:
    draw = np.random.default_rng(1)
    for n, diagonal in ((2, 0.0), (5, 0.0), (6, 10.0), (12, 1.0)):
        matrix = draw.normal(size=(n, n)) + 1j * draw.normal(size=(n, n))
        matrix = matrix + (matrix.conj().T if hermitian else matrix.T)
        np.fill_diagonal(matrix, diagonal)
        b = draw.normal(size=(n, 2)) + 0j
        check(lambda lib, a: lib.linalg.ldl_factor(a, hermitian=hermitian),
              arg(matrix, requires_grad=False))  # fmt: skip
        tensors = jg.tensor(matrix), jg.tensor(b)
        factors = jg.linalg.ldl_factor(tensors[0], hermitian=hermitian)
        x = jg.linalg.ldl_solve(*factors, tensors[1], hermitian=hermitian)
        assert jg.allclose(tensors[0] @ x, tensors[1])


def test_what_has_no_derivative_says_so() -> None:
    for name in ("geqrf", "linalg.ldl_factor"):

        def call(lib, a, name=name):  # noqa: ANN
            for part in name.split("."):
                lib = getattr(lib, part)
            lib(a @ a.mT)[0].sum().backward()

        check_raises(call, (3, 3), match="is not implemented")


def test_reflections_make_the_q_of_qr() -> None:
    a = jg.randn(5, 3, dtype=jg.float64)
    h, tau = jg.geqrf(a)
    q = jg.linalg.householder_product(h, tau)
    assert jg.allclose(q @ h[:3].triu(), a)
    full = jg.ormqr(h, tau, jg.eye(5, dtype=jg.float64))
    assert jg.allclose(full[:, :3], q)
    assert jg.allclose(jg.ormqr(h, tau, full, transpose=True), jg.eye(5, dtype=jg.float64))


def test_least_squares_of_deficient_rank_is_the_shortest() -> None:
    a = [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    check(lambda lib, a, b: lib.linalg.lstsq(a, b, driver="gelsd"), arg(a, requires_grad=False),
          arg((3, 1), requires_grad=False), strides="ignore")  # fmt: skip


def test_one_tensor_as_both_inputs_of_a_composed_operator() -> None:
    check(lambda lib, a: lib.ormqr(a, a[0], a), (3, 3), grad_fn=False)
