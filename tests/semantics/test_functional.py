"""autograd.functional: products, Jacobians and Hessians, and strictness (point 63)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle import libraries


@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Any:
    return libraries.jitgrad() if request.param == "jitgrad" else libraries.torch_or_skip()


def f64(lib: Any, values: Any, **options: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64, **options)


def equal(x: Any, expected: Any) -> None:
    np.testing.assert_allclose(x.detach().numpy(), np.array(expected), rtol=1e-12)


X = [1.0, 2.0, 3.0]
PRODUCTS = ("vjp", "jvp", "vhp", "hvp")


def cubes(x: Any) -> Any:
    return x * x * x


def total(x: Any) -> Any:
    return (x * x * x).sum()


# Values -------------------------------------------------------------------------------------------
def test_products(lib: Any) -> None:
    functional, x, v = lib.autograd.functional, f64(lib, X), f64(lib, [1.0, 0.0, 2.0])
    value, product = functional.vjp(cubes, x, v)
    equal(value, [1.0, 8.0, 27.0])
    equal(product, [3.0, 0.0, 54.0])
    equal(functional.jvp(cubes, x, v)[1], [3.0, 0.0, 54.0])
    equal(functional.vhp(total, x, v)[1], [6.0, 0.0, 36.0])
    value, product = functional.hvp(total, x, v)
    equal(value, 36.0)
    equal(product, [6.0, 0.0, 36.0])


def test_structure_follows_inputs_and_outputs(lib: Any) -> None:
    functional, x, y = lib.autograd.functional, f64(lib, X), f64(lib, 2.0)

    def both(x: Any, y: Any) -> Any:
        return x * y, x.sum()

    jacobian = functional.jacobian(both, (x, y))
    assert [[tuple(m.shape) for m in row] for row in jacobian] == [[(3, 3), (3,)], [(3,), ()]]
    equal(jacobian[0][0], np.eye(3) * 2)
    assert isinstance(functional.jacobian(cubes, x), lib.Tensor)
    assert isinstance(functional.jacobian(cubes, (x,)), tuple)
    values, products = functional.vjp(both, (x, y), (x, y))
    assert len(values) == len(products) == 2
    equal(products[1], 14.0)
    hessian = functional.hessian(lambda x, y: (x * x).sum() * y, (x, y))
    assert [[tuple(m.shape) for m in row] for row in hessian] == [[(3, 3), (3,)], [(3,), ()]]
    equal(hessian[0][1], [2.0, 4.0, 6.0])


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {
    "vectorize": True, "strategy": "forward-mode"}])  # fmt: skip
def test_jacobian_strategies_agree(lib: Any, options: Any) -> None:
    found = lib.autograd.functional.jacobian(cubes, f64(lib, X), **options)
    equal(found, np.diag([3.0, 12.0, 27.0]))


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {
    "vectorize": True, "outer_jacobian_strategy": "forward-mode"}])  # fmt: skip
def test_hessian_strategies_agree(lib: Any, options: Any) -> None:
    found = lib.autograd.functional.hessian(total, f64(lib, X), **options)
    equal(found, np.diag([6.0, 12.0, 18.0]))


def test_independent_inputs_give_zeros(lib: Any) -> None:
    functional, x, y = lib.autograd.functional, f64(lib, X), f64(lib, 2.0)
    equal(functional.jacobian(lambda x, y: x * 2, (x, y))[1], [0.0, 0.0, 0.0])
    equal(functional.jacobian(lambda x: f64(lib, [1.0, 2.0]), x), np.zeros((2, 3)))
    equal(functional.vjp(lambda x: f64(lib, 1.0), x)[1], [0.0] * 3)
    equal(functional.jvp(lambda x: f64(lib, 1.0), x, x)[1], 0.0)
    equal(functional.hessian(lambda x: x.sum(), x), np.zeros((3, 3)))
    equal(functional.hvp(lambda x: x.sum(), x, x)[1], [0.0] * 3)
    equal(functional.vhp(lambda x: x.sum(), x, x)[1], [0.0] * 3)


# Graphs -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("create_graph", [False, True])
def test_results_carry_a_graph_only_if_asked(lib: Any, create_graph: bool) -> None:
    functional = lib.autograd.functional
    x, v = f64(lib, X, requires_grad=True), f64(lib, [1.0, 0.0, 2.0], requires_grad=True)
    results = [
        functional.jacobian(cubes, x, create_graph=create_graph),
        functional.hessian(total, x, create_graph=create_graph),
    ]
    for name in PRODUCTS:
        function = cubes if name in ("vjp", "jvp") else total
        results += getattr(functional, name)(function, x, v, create_graph=create_graph)
    assert all(r.requires_grad == create_graph for r in results)
    assert x.grad is None
    if create_graph:
        for r in results:
            assert lib.autograd.grad(r.sum(), x, retain_graph=True)[0].shape == (3,)


def test_without_grad_mode_derivatives_are_computed_all_the_same(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    with lib.no_grad():
        equal(functional.jacobian(cubes, x), np.diag([3.0, 12.0, 27.0]))
        equal(functional.hvp(total, x, x)[1], [6.0, 24.0, 54.0])
        assert not lib.is_grad_enabled()


def test_the_input_counts_even_where_the_function_knows_it_otherwise(lib: Any) -> None:
    x = f64(lib, X, requires_grad=True)
    equal(lib.autograd.functional.jacobian(lambda y: x * y, x), np.diag(X))


# Errors -------------------------------------------------------------------------------------------
def test_arguments_are_checked(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    for name in (*PRODUCTS, "jacobian", "hessian"):
        function = getattr(functional, name)
        with pytest.raises(TypeError, match=f"The inputs given to {name} must be either a Tensor"):
            function(total, 3.0)
        with pytest.raises(TypeError, match="but the value at index 1 has type"):
            function(total, (x, 3.0))
        single = f64(lib, [1.0])
        args = () if name in ("jacobian", "hessian") else (single,)
        with pytest.raises(TypeError, match=f"user-provided function given to {name}"):
            function(lambda x: 3.0, single, *args)
    for name in ("vhp", "hvp", "hessian"):
        function = getattr(functional, name)
        args = () if name == "hessian" else (x,)
        with pytest.raises(RuntimeError, match=f"given to {name} should return a single Tensor"):
            function(lambda x: (x.sum(), x.sum()), x, *args)
        with pytest.raises(RuntimeError, match=f"given to {name} should contain a single element"):
            function(lambda x: x * 2, x, *args)


def test_the_vector_is_checked(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    with pytest.raises(RuntimeError, match="only be None if the user-provided function returns"):
        functional.vjp(cubes, x)
    for name in ("jvp", "vhp", "hvp"):
        function = getattr(functional, name)
        with pytest.raises(RuntimeError, match="only be None if the input to the user-provided fu"):
            function(total, x)
        with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
            function(total, x, (x, x))
        with pytest.raises(RuntimeError, match="invalid length: should be 1 but got 2"):
            function(total, (x,), (x, x))
        with pytest.raises(RuntimeError, match="^v has invalid size"):
            function(total, x, x[:2])
        with pytest.raises(RuntimeError, match="^Entry 0 in v has invalid size"):
            function(total, (x,), (x[:2],))


def test_strategies_are_checked(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    with pytest.raises(AssertionError, match="Expected strategy to be either"):
        functional.jacobian(cubes, x, strategy="sideways")
    with pytest.raises(AssertionError, match="Expected strategy to be either"):
        functional.hessian(total, x, outer_jacobian_strategy="sideways")
    with pytest.raises(NotImplementedError, match="`create_graph=True`"):
        functional.jacobian(cubes, x, create_graph=True, strategy="forward-mode")
    with pytest.raises(NotImplementedError, match="implemented for `vectorize=True`"):
        functional.jacobian(cubes, x, strategy="forward-mode")
    with pytest.raises(RuntimeError, match="not supported together"):
        functional.jacobian(cubes, x, strict=True, strategy="forward-mode")
    with pytest.raises(RuntimeError, match="not supported together"):
        functional.jacobian(cubes, x, strict=True, vectorize=True)


def test_strict_outputs_must_require_grad(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    for name in (*PRODUCTS, "jacobian", "hessian"):
        args = () if name in ("jacobian", "hessian") else (f64(lib, 1.0) if name == "vjp" else x,)
        with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not"):
            getattr(functional, name)(lambda x: x.detach().sum(), x, *args, strict=True)


def test_strict_outputs_must_depend_on_inputs(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    other = f64(lib, 2.0, requires_grad=True)

    def free(x: Any) -> Any:
        return other * 2

    for name in PRODUCTS:
        v = f64(lib, 1.0) if name == "vjp" else x
        with pytest.raises(RuntimeError, match="is independent of input 0"):
            getattr(functional, name)(free, x, v, strict=True)
    with pytest.raises(RuntimeError, match="found that the jacobian .* input 0 is independent"):
        functional.hessian(free, x, strict=True)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function is ind"):
        functional.jacobian(free, x, strict=True)


def test_strict_derivatives_must_depend_on_inputs(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    for name in ("vhp", "hvp", "hessian"):
        args = () if name == "hessian" else (x,)
        with pytest.raises(RuntimeError, match="jacobian of the user-provided function"):
            getattr(functional, name)(lambda x: x.sum(), x, *args, strict=True)
    linear = {"strict": True, "create_graph": True}
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function is indep"):
        functional.vjp(lambda x: x.sum(), x, **linear)
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function is indep"):
        functional.jacobian(lambda x: x * 2, x, **linear)


def test_strict_passes_what_depends(lib: Any) -> None:
    functional, x = lib.autograd.functional, f64(lib, X)
    equal(functional.jacobian(cubes, x, strict=True), np.diag([3.0, 12.0, 27.0]))
    equal(functional.hessian(total, x, strict=True), np.diag([6.0, 12.0, 18.0]))
    for name in PRODUCTS:
        function = cubes if name in ("vjp", "jvp") else total
        getattr(functional, name)(function, x, x, strict=True)
