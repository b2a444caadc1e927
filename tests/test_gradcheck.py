"""gradcheck and gradgradcheck: right derivatives pass, wrong ones are named."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.oracle import libraries


@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Any:
    return libraries.jitgrad() if request.param == "jitgrad" else libraries.torch_or_skip()


def double(lib: Any, values: Any, requires_grad: bool = True) -> Any:
    return lib.tensor(values, dtype=lib.float64, requires_grad=requires_grad)


MODES = [{}, {"fast_mode": True}]


def wrong_by(lib: Any, factor: float) -> Any:
    """A function whose backward is off by a factor."""

    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3 * factor

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 3 * factor

    return Wrong.apply


@pytest.mark.parametrize("options", MODES)
def test_right_derivatives_pass(lib: Any, options: Any) -> None:
    x, y = double(lib, [[0.5, 1.0], [2.0, -1.0]]), double(lib, [0.3, -0.2])
    check, again = lib.autograd.gradcheck, lib.autograd.gradgradcheck
    assert check(lambda x, y: (x * y).exp(), (x, y), check_forward_ad=True, **options)
    assert check(lambda x: (x.sum(), x * x), x, **options)
    assert check(lambda x: x * x, x.detach().t().requires_grad_(), **options)
    assert again(lambda x, y: (x * y).exp(), (x, y), check_fwd_over_rev=True, **options)
    assert again(lambda x: x * x * x, x, gen_non_contig_grad_outputs=True, **options)
    assert again(lambda x: x.sin(), x, (double(lib, [[1.0, 2.0], [3.0, 4.0]]),), **options)


@pytest.mark.parametrize("options", MODES)
def test_a_wrong_backward_is_caught(lib: Any, options: Any) -> None:
    x, f = double(lib, [1.0, 2.0]), wrong_by(lib, 2.0)
    with pytest.raises(RuntimeError, match="mismatch for output 0 with respect to input 0"):
        lib.autograd.gradcheck(f, x, **options)
    assert not lib.autograd.gradcheck(f, x, raise_exception=False, **options)


@pytest.mark.parametrize("options", MODES)
def test_a_wrong_jvp_is_caught(lib: Any, options: Any) -> None:
    x = double(lib, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="computed with forward mode mismatch for output 0"):
        lib.autograd.gradcheck(
            wrong_by(lib, 2.0), x, check_forward_ad=True, check_backward_ad=False, **options
        )


@pytest.mark.parametrize("options", MODES)
def test_a_wrong_second_derivative_is_caught(lib: Any, options: Any) -> None:
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x.detach()

    x = double(lib, [1.0, 2.0])
    assert lib.autograd.gradcheck(Cube.apply, x, **options)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        lib.autograd.gradgradcheck(Cube.apply, x, **options)


def test_the_message_shows_both_matrices(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="(?s)numerical:.*3.*analytical:.*6"):
        lib.autograd.gradcheck(wrong_by(lib, 2.0), double(lib, [1.0]))


def test_a_message_of_the_fast_mode_shows_the_whole_matrices(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="(?s)fast mode.*Numerical:.*Analytical:.*max per-elem"):
        lib.autograd.gradcheck(wrong_by(lib, 2.0), double(lib, [1.0, 2.0]), fast_mode=True)


def test_cut_history_is_caught(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        lib.autograd.gradcheck(lambda x: x.detach() * 2, double(lib, [1.0, 2.0]))
    assert lib.autograd.gradcheck(lambda x: lib.ones(2, dtype=lib.float64), double(lib, [1.0]))


def test_a_backward_that_differs_from_pass_to_pass_is_caught(lib: Any) -> None:
    class Drifting(lib.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            Drifting.calls += 1
            return grad * (2 + 1e-9 * Drifting.calls)

    x = double(lib, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="Backward is not reentrant"):
        lib.autograd.gradcheck(Drifting.apply, x)
    assert lib.autograd.gradcheck(Drifting.apply, x, nondet_tol=1e-6)


def test_a_backward_that_ignores_its_gradient_is_caught(lib: Any) -> None:
    class Constant(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 0 + 2

    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        lib.autograd.gradcheck(Constant.apply, double(lib, [1.0]))


def test_a_backward_that_cannot_take_none_is_caught(lib: Any) -> None:
    class Needy(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if grad is None:
                raise RuntimeError("nothing to do")
            return grad * 2

    x = double(lib, [1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="handle undefined output grads"):
            lib.autograd.gradcheck(Needy.apply, x)
    assert lib.autograd.gradcheck(Needy.apply, x, check_undefined_grad=False)


def test_inputs_are_checked(lib: Any) -> None:
    check = lib.autograd.gradcheck
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        check(lambda x: x * 2, double(lib, [1.0], requires_grad=False))
    single = lib.tensor([1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precis"):
        check(lambda x: x * 2, single, eps=1e-2, atol=1e-2)
    wide = double(lib, [1.0], requires_grad=False).expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        check(lambda x: x * 2, wide)
    with pytest.raises(AssertionError, match="check_forward_ad or check_backward_ad"):
        check(lambda x: x * 2, double(lib, [1.0]), check_backward_ad=False)


def test_a_shape_that_depends_on_values_is_refused(lib: Any) -> None:
    def grows(x: Any) -> Any:
        return x * 2 if float(x.detach().sum()) <= 1 else (x * 2).expand(2)

    with pytest.raises(AssertionError, match="with the same shape"):
        lib.autograd.gradcheck(grows, double(lib, [1.0]))


def test_only_inputs_that_require_grad_are_differentiated(lib: Any) -> None:
    x, y = double(lib, [1.0, 2.0]), double(lib, [3.0, 4.0], requires_grad=False)
    before = y.clone()
    assert lib.autograd.gradcheck(lambda x, n, y: x * y * n, (x, 3, y))
    assert bool((y == before).all())


def test_batches_are_checked(lib: Any) -> None:
    x = double(lib, [[1.0, 2.0], [3.0, 4.0]])
    assert lib.autograd.gradcheck(lambda x: x * x, x, check_batched_grad=True)


def test_dtypes_are_checked(lib: Any) -> None:
    x = double(lib, [1.0, 2.0])
    assert lib.autograd.gradcheck(lambda x: x * x, x, check_grad_dtypes=True)
    assert lib.autograd.gradgradcheck(lambda x: x * x * x, x, check_grad_dtypes=True)


def test_the_inputs_come_out_as_they_went_in(lib: Any) -> None:
    x = double(lib, [1.0, 2.0])
    lib.autograd.gradcheck(lambda x: x * x, x)
    assert x.tolist() == [1.0, 2.0]
    assert x.grad is None and x.is_leaf
