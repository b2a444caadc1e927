"""Complex numbers: what PyTorch's operator database does not ask for (views, writes, text)."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.autograd.checking import GradcheckError
from jitgrad.kernels.scalar import complexes
from tests.oracle import arg, check, check_raises

Z = arg((3,), dtype="complex128")
M = arg((2, 3), dtype="complex128")
LEAF = arg((3,), dtype="complex128", requires_grad=False)


# Numbers in and out -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "made",
    [
        lambda lib: lib.tensor([1 + 2j, 3]),
        lambda lib: lib.tensor(1j, dtype=lib.complex128),
        lambda lib: lib.tensor([True, 2.0, 1j]),
        lambda lib: lib.full((2,), 1 - 1j),
        lambda lib: lib.ones(2) * 1j,
        lambda lib: lib.ones(2, dtype=lib.float64) + 1j,
        lambda lib: lib.ones(2, dtype=lib.int64) * 1j,
        lambda lib: lib.ones(2, dtype=lib.bfloat16) * 1j,
        lambda lib: 1j - lib.ones(2, dtype=lib.complex128),
        lambda lib: lib.linspace(0, 1 + 1j, 4),
        lambda lib: lib.eye(2, dtype=lib.complex64),
        lambda lib: lib.zeros(2, dtype=lib.complex64).fill_(2j),
        lambda lib: lib.complex(lib.ones(2), lib.zeros(2)),
        lambda lib: lib.polar(lib.ones(2), lib.ones(2)),
        lambda lib: lib.ones(2, dtype=lib.complex128).to(lib.complex64),
        lambda lib: lib.promote_types(lib.float64, lib.complex64),
        lambda lib: lib.result_type(lib.ones(2, dtype=lib.float64), 1j),
        lambda lib: lib.can_cast(lib.complex64, lib.float64),
        lambda lib: lib.complex64.to_real(),
        lambda lib: lib.tensor([1j]).item(),
        lambda lib: complex(lib.tensor(1j)),
        lambda lib: float(lib.tensor(2 + 0j)),
        lambda lib: lib.tensor([1 + 2j]).conj().tolist(),
        lambda lib: lib.tensor([1j, 2]).is_complex(),
        lambda lib: lib.isreal(lib.tensor([1j, 2])),
        lambda lib: bool(lib.tensor(1j)),
        lambda lib: f"{lib.tensor(1.5 + 2j):.2f}",
        lambda lib: lib.finfo(lib.complex64).eps,
        lambda lib: lib.is_conj(lib.tensor(1j).conj()),
        lambda lib: lib.tensor([1j], dtype=lib.complex128) / 0,
        lambda lib: lib.tensor([1j]) / 0,
    ],
)
def test_values_and_dtypes(made: Callable[[Any], Any]) -> None:
    check(made)


@pytest.mark.oracle
def test_the_default_dtype_has_a_complex_one() -> None:
    def made(lib: Any) -> Any:
        lib.set_default_dtype(lib.float64)
        try:
            return lib.tensor(1j), lib.ones(1) * 1j, lib.ones(1, dtype=lib.float32) * 1j
        finally:
            lib.set_default_dtype(lib.float32)

    check(made)


@pytest.mark.parametrize(
    "values",
    [
        [1 + 2j, 1e-5 + 3j, 1e10],
        [0.25 - 1j, complex("inf"), complex("nan")],
        [[1j, -2.5], [3 - 0.125j, 100]],
        [],
    ],
)
def test_text(values: Any) -> None:
    def text(lib: Any) -> str:
        x = lib.tensor(values, dtype=lib.complex64)
        return f"{x} {x.conj()} {lib.view_as_real(x)} {x.to(lib.complex128)}"

    check(text)


def test_text_names_nodes() -> None:
    check(lambda lib, x: f"{x.conj()} {x.real} {x.abs()}", arg([1 + 2j], dtype="complex128"))


def test_casts_to_real_say_what_they_leave_out() -> None:
    phrase = "Casting complex values to real discards the imaginary part"
    for cast in (
        lambda x: x.to(jg.float64),
        lambda x: x.int(),
        lambda x: jg.zeros(2).copy_(x),
    ):
        with pytest.warns(UserWarning, match=phrase):
            assert cast(jg.tensor([1 + 2j, 3j])).tolist() == [1, 0]
    assert jg.tensor([0j, 1j]).bool().tolist() == [False, True]


@pytest.mark.parametrize(
    "name, phrase",
    [
        ("lt", "not implemented for 'ComplexDouble'"),
        ("ge", "not implemented for 'ComplexDouble'"),
        ("max", "not implemented for 'ComplexDouble'"),
        ("amin", "not implemented for 'ComplexDouble'"),
        ("argmax", "complex"),
        ("sort", "complex"),
        ("clamp", "complex"),
        ("maximum", "complex"),
        ("floor", "complex"),
        ("sign", "complex"),
        ("floor_divide", "not implemented for 'ComplexDouble'"),
        ("median", "not implemented for 'ComplexDouble'"),
        ("erf", "not implemented for 'ComplexDouble'"),
    ],
)
def test_what_has_no_order(name: str, phrase: str) -> None:
    def call(lib: Any, x: Any) -> Any:
        more = {"lt": (x,), "ge": (x,), "maximum": (x,), "floor_divide": (x,), "clamp": (0, 1)}
        return getattr(lib, name)(x, *more.get(name, ()))

    check_raises(call, LEAF, match=phrase)


@pytest.mark.parametrize(
    "call, phrase",
    [
        (lambda lib, x: x.abs_(), "In-place abs is not supported for complex tensors"),
        (lambda lib, x: lib.ones(3).add_(x), "can't be cast to the desired output type"),
        (lambda lib, x: lib.ones(3).fill_(1j), "without overflow"),
        (lambda lib, x: float(x[0]), "without overflow"),
        (lambda lib, x: x.conj().numpy(), "conjugate bit set"),
        (lambda lib, x: x.conj().imag.numpy(), "negative bit set"),
        (lambda lib, x: lib.view_as_real(x.conj()), "unresolved conjugated tensors"),
        (lambda lib, x: x.real.imag, "imag is not implemented for tensors with non-complex dtypes"),
        (lambda lib, x: lib.view_as_complex(x.real), "Tensor must have a last dimension"),
        (lambda lib, x: lib.view_as_complex(lib.ones(3)), "last dimension of size 2"),
        (lambda lib, x: lib.complex(x.real, x.real.float()), "Expected object of scalar type"),
        (lambda lib, x: lib.polar(lib.arange(3), lib.arange(3)), "Float or Double tensors"),
        (lambda lib, x: lib.func.jacrev(lambda z: z * 2)(x), "Expected all inputs to be real"),
        (lambda lib, x: lib.ones(3).sub(lib.ones(3), alpha=1j), "must not be a complex number"),
    ],
)
def test_refusals(call: Any, phrase: str) -> None:
    check_raises(call, LEAF, match=phrase)


# Views and bits -----------------------------------------------------------------------------------
def _bits(x: Any) -> Any:
    return x, x.is_conj(), x.is_neg(), x._is_view()


@pytest.mark.parametrize(
    "view",
    [
        lambda lib, x: x.conj(),
        lambda lib, x: x.conj().conj(),
        lambda lib, x: x.real,
        lambda lib, x: x.imag,
        lambda lib, x: x.conj().real,
        lambda lib, x: x.conj()[:, 1],
        lambda lib, x: x.mH,
        lambda lib, x: x.H,
        lambda lib, x: x.adjoint(),
        lambda lib, x: lib.view_as_real(x),
        lambda lib, x: lib.view_as_complex(lib.view_as_real(x)),
        lambda lib, x: x.conj().detach(),
        lambda lib, x: x.resolve_conj(),
        lambda lib, x: x.conj().resolve_conj(),
        lambda lib, x: x.conj().imag.resolve_neg(),
        lambda lib, x: x.conj_physical(),
        lambda lib, x: lib.conj_physical(x.conj()),
        lambda lib, x: x.conj().clone(),
        lambda lib, x: x.conj().contiguous(),
        lambda lib, x: x.conj().to(lib.complex64),
        lambda lib, x: lib.empty_like(x.conj()).fill_(1j),
        lambda lib, x: x.real.conj(),
    ],
)
def test_views(view: Callable[[Any, Any], Any]) -> None:
    check(lambda lib, x: _bits(view(lib, x)), M)


def test_the_imaginary_part_of_a_conjugate_is_a_negative() -> None:
    def shown(lib: Any, x: Any) -> Any:
        y = x.conj().imag
        return y * 1, y.is_neg(), y.is_conj(), y.sum(), y.tolist()

    check(shown, Z)


WITH_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda lib, x: x + 1,
    "abs": lambda lib, x: x.abs(),
    "exp": lambda lib, x: x.exp(),
    "sum": lambda lib, x: x.sum(0),
    "mean": lambda lib, x: x.mean(),
    "prod": lambda lib, x: x.prod(1),
    "cumsum": lambda lib, x: x.cumsum(1),
    "cumprod": lambda lib, x: x.cumprod(0),
    "std": lambda lib, x: x.std(0),
    "norm": lambda lib, x: x.norm(),
    "any": lambda lib, x: x.any(),
    "matmul": lambda lib, x: x @ x.mH,
    "mv": lambda lib, x: x @ x[0],
    "vdot": lambda lib, x: lib.vdot(x[0], x[1]),
    "einsum": lambda lib, x: lib.einsum("ij,kj->ik", x, x.conj()),
    "cat": lambda lib, x: lib.cat([x, x.conj()]),
    "stack": lambda lib, x: lib.stack([x, x.resolve_conj()]),
    "index": lambda lib, x: x[lib.tensor([1, 0, 1])],
    "mask": lambda lib, x: x[x.real > 0],
    "gather": lambda lib, x: x.gather(1, lib.tensor([[0, 2], [1, 1]])),
    "index_select": lambda lib, x: x.index_select(1, lib.tensor([2, 0])),
    "where": lambda lib, x: lib.where(x.real > 0, x, 0),
    "flip": lambda lib, x: x.flip(0),
    "roll": lambda lib, x: x.roll(1, 1),
    "tril": lambda lib, x: x.tril(),
    "repeat": lambda lib, x: x.repeat(2, 1),
    "reshape": lambda lib, x: x.t().reshape(6),
    "pad": lambda lib, x: lib.nn.functional.pad(x, (1, 1)),
    "reflect": lambda lib, x: lib.nn.functional.pad(x, (1, 1), "reflect"),
    "pixel_shuffle": lambda lib, x: lib.pixel_shuffle(x.reshape(1, 2, 3), 1),
    "conv1d": lambda lib, x: lib.nn.functional.conv1d(x, x.unsqueeze(0)[..., :2]),
    "inv": lambda lib, x: lib.linalg.inv(x @ x.mH + lib.eye(2)),
    "fft": lambda lib, x: lib.fft.fft(x),
    "diag": lambda lib, x: x.diagonal().sum(),
    "sgn": lambda lib, x: x.sgn(),
    "pow": lambda lib, x: x**2,
    "lerp": lambda lib, x: lib.lerp(x, x.conj(), 0.5),
    "nonzero": lambda lib, x: x.nonzero(),
    "scatter_add": lambda lib, x: x.scatter_add(1, lib.tensor([[0], [1]]), x[:, :1]),
    "index_put": lambda lib, x: x.index_put((lib.tensor([0]),), x[1]),
    "masked_scatter": lambda lib, x: x.masked_scatter(x.real > 0, x.conj()),
    "unfold": lambda lib, x: x.unfold(1, 2, 1) * 1,
    "kron": lambda lib, x: lib.kron(x, x[:1]),
}


@pytest.mark.parametrize("name", WITH_BITS)
def test_operators_on_conjugates(name: str) -> None:
    check(lambda lib, x: WITH_BITS[name](lib, x.conj()), M, grad_fn=False, version=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x: x.sum(0),
        lambda lib, x: x @ x.t(),
        lambda lib, x: x.sort(1)[0],
        lambda lib, x: x.amax(0),
        lambda lib, x: lib.softmax(x, 0),
        lambda lib, x: x[lib.tensor([1, 0])],
        lambda lib, x: x.cumsum(0),
        lambda lib, x: x.cummax(0)[0],
        lambda lib, x: lib.searchsorted(x.sort(1)[0], x),
        lambda lib, x: lib.nn.functional.nll_loss(x, lib.tensor([1, 0])),
        lambda lib, x: lib.nn.functional.layer_norm(x, (3,)),
        lambda lib, x: lib.nn.functional.max_pool1d(x.unsqueeze(0), 2),
        lambda lib, x: lib.fft.rfft(x),
        lambda lib, x: lib.nn.functional.pad(x, (1, 1), "reflect"),
        lambda lib, x: x.floor() + x,
        lambda lib, x: lib.linalg.svdvals(x),
        lambda lib, x: x.median(),
        lambda lib, x: lib.complex(x, x),
        lambda lib, x: x.flip(0),
        lambda lib, x: x.std(),
    ],
)
def test_operators_on_negatives(call: Callable[[Any, Any], Any]) -> None:
    check(lambda lib, x: call(lib, x.conj().imag), M, grad_fn=False, version=False)


# Writing ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "write",
    [
        lambda lib, y, x: y.conj().mul_(x),
        lambda lib, y, x: y.conj().copy_(x),
        lambda lib, y, x: y.real.mul_(x.imag),
        lambda lib, y, x: y.imag.copy_(x.real),
        lambda lib, y, x: y.conj().imag.add_(x.real),
        lambda lib, y, x: lib.view_as_real(y).mul_(x.real.unsqueeze(1)),
        lambda lib, y, x: y.conj()[1:].zero_(),
        lambda lib, y, x: y.conj().__setitem__(0, x[1]),
        lambda lib, y, x: y.conj().index_put_((lib.tensor([2, 0]),), x[:2]),
        lambda lib, y, x: setattr(y, "real", x.imag),
        lambda lib, y, x: setattr(y, "imag", x.real),
        lambda lib, y, x: y.conj_physical_().mul_(x),
        lambda lib, y, x: y.add_(y.conj()),
        lambda lib, y, x: y.fill_(1j),
    ],
)
def test_writes_through_views(write: Callable[[Any, Any, Any], Any]) -> None:
    def written(lib: Any, x: Any) -> Any:
        y = x * 2
        write(lib, y, x)
        return y, y._version

    check(written, Z, grad_fn=False, version=False, grad=2)


def test_views_share_a_version() -> None:
    x = jg.tensor([1 + 2j, 3j], requires_grad=True)
    y = x * 1
    squared = y * y
    y.conj().imag.mul_(2)
    assert y._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.real.sum().backward()


def test_bits_outlive_copies() -> None:
    c = jg.tensor([1 + 2j]).conj()
    for copied in (pickle.loads(pickle.dumps(c)), copy.deepcopy(c)):
        assert copied.is_conj()
        assert copied.tolist() == [1 - 2j]


def test_a_module_in_complex_numbers() -> None:
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        layer = jg.nn.Linear(2, 1).to(jg.complex128)
    y = layer(jg.ones(3, 2, dtype=jg.complex128) * 1j)
    (y.abs() ** 2).sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype is jg.complex128
    jg.optim.Adam(layer.parameters()).step()


# Derivatives --------------------------------------------------------------------------------------
def test_gradients_start_from_real_numbers() -> None:
    check_raises(
        lambda lib, x: (x * x).sum().backward(), Z, match="only for real scalar outputs but got"
    )
    check_raises(
        lambda lib, x: lib.autograd.backward((x * x).sum(), lib.tensor(1.0)),
        Z,
        match="required to have the same dtype",
    )


def test_the_gradient_points_up() -> None:
    """dL/dx + i dL/dy, the direction of steepest ascent."""
    z = jg.tensor([1 + 2j], dtype=jg.complex128, requires_grad=True)
    (z.abs() ** 2).sum().backward()
    assert z.grad is not None and z.grad.tolist() == [2 + 4j]
    assert not z.grad.is_conj()


def test_real_inputs_get_real_gradients() -> None:
    check(lambda lib, x, z: x * z + x.to(lib.complex128), (3,), Z, grad=2, grad_fn=False)


def test_differences_of_complex_functions() -> None:
    def function(z: Any, x: Any) -> Any:
        return (z.conj() * x).exp() / z, z.abs() * x

    z = jg.tensor([0.5 + 1j, -1.5 + 0.25j], dtype=jg.complex128, requires_grad=True)
    x = jg.tensor([0.75, -0.5], dtype=jg.float64, requires_grad=True)
    for fast in (False, True):
        assert gradcheck(function, (z, x), check_forward_ad=True, fast_mode=fast)
    assert gradgradcheck(function, (z, x), check_fwd_over_rev=True)


def test_a_wrong_complex_gradient_is_found() -> None:
    class Wrong(jg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            return z * 1j

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 1j  # without the conjugate

    z = jg.tensor([0.5 + 1j], dtype=jg.complex128, requires_grad=True)
    with pytest.raises(GradcheckError):
        gradcheck(Wrong.apply, (z,))


def test_phases_of_vectors_have_no_gradient() -> None:
    for name in ("eigh", "eig"):
        check_raises(
            lambda lib, x, name=name: getattr(lib.linalg, name)(x @ x.mH)[1].real.sum().backward(),
            arg((3, 3), dtype="complex128"),
            match="specified up to multiplication by e",
        )


# Scalar functions ---------------------------------------------------------------------------------
_POINTS = np.array(
    [
        complex(a, b)
        for a in (0.0, 1e-12, 0.3, 0.999999, 1.0, 1.5, 7.0, 600.0)
        for b in (0.0, 1e-9, 0.4, 1.0, 2.5, 30.0)
    ]
)
_POINTS = np.concatenate([_POINTS, -_POINTS, _POINTS.conj(), -_POINTS.conj()])
_FUNCTIONS = "exp log log2 log10 sqrt sin cos tan sinh cosh tanh asinh acosh atanh asin acos atan"
_NUMPY = {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "asin": "arcsin",
          "acos": "arccos", "atan": "arctan"}  # fmt: skip


@pytest.mark.parametrize("name", _FUNCTIONS.split())
def test_scalar_functions(name: str) -> None:
    """Against NumPy's in extended precision; the error of both parts by the size of the number."""
    assert hasattr(complexes, name)
    x = jg.from_numpy(_POINTS)
    with np.errstate(all="ignore"):
        expected = getattr(np, _NUMPY.get(name, name))(_POINTS.astype(np.clongdouble))
        found = getattr(jg, name)(x).numpy()
        finite = np.isfinite(expected) & (np.abs(expected) < 1e300)
        error = np.abs(found - expected)[finite] / np.abs(expected)[finite].clip(1e-300)
    assert error.max() < 4 * np.finfo(np.float64).eps


def test_functions_near_zero() -> None:
    """log1p and expm1, whose own cancellations NumPy's do not mind."""
    x = _POINTS.astype(np.clongdouble)
    a, b = x.real, x.imag
    with np.errstate(all="ignore"):
        size, turn = np.log1p(a * (2 + a) + b * b) / 2, np.arctan2(b, 1 + a)
        grown = np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2
        for name, expected in (
            ("log1p", size + 1j * turn),
            ("expm1", grown + 1j * np.exp(a) * np.sin(b)),
        ):
            found = getattr(jg, name)(jg.from_numpy(_POINTS)).numpy()
            good = np.isfinite(expected) & (np.abs(x) < 0.9)
            np.testing.assert_allclose(found[good], expected[good].astype(complex), rtol=1e-15)


def test_single_precision_is_rounded_once() -> None:
    points = (_POINTS[np.abs(_POINTS) < 20]).astype(np.complex64)
    for name in ("exp", "log", "sqrt", "tanh", "asin"):
        with np.errstate(all="ignore"):
            expected = getattr(np, _NUMPY.get(name, name))(points.astype(np.complex128))
            found = getattr(jg, name)(jg.from_numpy(points)).numpy()
        good = np.isfinite(expected)
        np.testing.assert_allclose(found[good], expected[good], rtol=2e-7)


def test_quotients_do_not_overflow() -> None:
    x = jg.tensor([1e300 + 1e300j, 1e-300 + 1e-300j, 3 + 4j], dtype=jg.complex128)
    np.testing.assert_allclose((x / x).numpy(), np.ones(3), rtol=1e-15)
    np.testing.assert_allclose((1 / x[2]).item(), (3 - 4j) / 25, rtol=1e-15)
    assert jg.tensor([1e200 + 1e200j], dtype=jg.complex128).abs().isfinite().all()
