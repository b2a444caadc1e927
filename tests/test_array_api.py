"""Conformance to the Python array API standard 2024.12: names, signatures, dtypes, values.

NumPy 2 implements the standard, so it is the oracle for values and dtypes.
"""

from __future__ import annotations

import inspect
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import array_api as xp

UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag "
    "isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round "
    "sign signbit sin sinh square sqrt tan tanh trunc"
).split()
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and "
    "logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"
).split()
SIGNATURES = dict.fromkeys(UNARY, "x, /") | dict.fromkeys(BINARY, "x1, x2, /")
SIGNATURES |= {
    "__array_namespace_info__": "",
    "all": "x, /, *, axis=None, keepdims=False",
    "any": "x, /, *, axis=None, keepdims=False",
    "arange": "start, /, stop=None, step=1, *, dtype=None, device=None",
    "argmax": "x, /, *, axis=None, keepdims=False",
    "argmin": "x, /, *, axis=None, keepdims=False",
    "argsort": "x, /, *, axis=-1, descending=False, stable=True",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None",
    "astype": "x, dtype, /, *, copy=True, device=None",
    "broadcast_arrays": "*arrays",
    "broadcast_to": "x, /, shape",
    "can_cast": "from_, to, /",
    "clip": "x, /, min=None, max=None",
    "concat": "arrays, /, *, axis=0",
    "count_nonzero": "x, /, *, axis=None, keepdims=False",
    "cumulative_prod": "x, /, *, axis=None, dtype=None, include_initial=False",
    "cumulative_sum": "x, /, *, axis=None, dtype=None, include_initial=False",
    "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    "empty": "shape, *, dtype=None, device=None",
    "empty_like": "x, /, *, dtype=None, device=None",
    "expand_dims": "x, /, axis=0",
    "eye": "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None",
    "finfo": "type, /",
    "flip": "x, /, *, axis=None",
    "from_dlpack": "x, /, *, device=None, copy=None",
    "full": "shape, fill_value, *, dtype=None, device=None",
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "iinfo": "type, /",
    "isdtype": "dtype, kind",
    "linspace": "start, stop, /, num, *, dtype=None, device=None, endpoint=True",
    "matmul": "x1, x2, /",
    "matrix_transpose": "x, /",
    "max": "x, /, *, axis=None, keepdims=False",
    "mean": "x, /, *, axis=None, keepdims=False",
    "meshgrid": "*arrays, indexing='xy'",
    "min": "x, /, *, axis=None, keepdims=False",
    "moveaxis": "x, source, destination, /",
    "nonzero": "x, /",
    "ones": "shape, *, dtype=None, device=None",
    "ones_like": "x, /, *, dtype=None, device=None",
    "permute_dims": "x, /, axes",
    "prod": "x, /, *, axis=None, dtype=None, keepdims=False",
    "repeat": "x, repeats, /, *, axis=None",
    "reshape": "x, /, shape, *, copy=None",
    "result_type": "*arrays_and_dtypes",
    "roll": "x, /, shift, *, axis=None",
    "searchsorted": "x1, x2, /, *, side='left', sorter=None",
    "sort": "x, /, *, axis=-1, descending=False, stable=True",
    "squeeze": "x, /, axis",
    "stack": "arrays, /, *, axis=0",
    "std": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "sum": "x, /, *, axis=None, dtype=None, keepdims=False",
    "take": "x, indices, /, *, axis=None",
    "take_along_axis": "x, indices, /, *, axis=-1",
    "tensordot": "x1, x2, /, *, axes=2",
    "tile": "x, repetitions, /",
    "tril": "x, /, *, k=0",
    "triu": "x, /, *, k=0",
    "unique_all": "x, /",
    "unique_counts": "x, /",
    "unique_inverse": "x, /",
    "unique_values": "x, /",
    "unstack": "x, /, *, axis=0",
    "var": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "vecdot": "x1, x2, /, *, axis=-1",
    "where": "condition, x1, x2, /",
    "zeros": "shape, *, dtype=None, device=None",
    "zeros_like": "x, /, *, dtype=None, device=None",
}
LINALG = {
    "cholesky": "x, /, *, upper=False",
    "cross": "x1, x2, /, *, axis=-1",
    "det": "x, /",
    "diagonal": "x, /, *, offset=0",
    "eigh": "x, /",
    "eigvalsh": "x, /",
    "inv": "x, /",
    "matmul": "x1, x2, /",
    "matrix_norm": "x, /, *, keepdims=False, ord='fro'",
    "matrix_power": "x, n, /",
    "matrix_rank": "x, /, *, rtol=None",
    "matrix_transpose": "x, /",
    "outer": "x1, x2, /",
    "pinv": "x, /, *, rtol=None",
    "qr": "x, /, *, mode='reduced'",
    "slogdet": "x, /",
    "solve": "x1, x2, /",
    "svd": "x, /, *, full_matrices=True",
    "svdvals": "x, /",
    "tensordot": "x1, x2, /, *, axes=2",
    "trace": "x, /, *, offset=0, dtype=None",
    "vecdot": "x1, x2, /, *, axis=-1",
    "vector_norm": "x, /, *, axis=None, keepdims=False, ord=2",
}
FFT = {
    "fft": "x, /, *, n=None, axis=-1, norm='backward'",
    "fftn": "x, /, *, s=None, axes=None, norm='backward'",
    "fftfreq": "n, /, *, d=1.0, dtype=None, device=None",
    "fftshift": "x, /, *, axes=None",
}
FFT |= dict.fromkeys(("ifft", "rfft", "irfft", "hfft", "ihfft"), FFT["fft"])
FFT |= dict.fromkeys(("ifftn", "rfftn", "irfftn"), FFT["fftn"])
FFT |= {"rfftfreq": FFT["fftfreq"], "ifftshift": FFT["fftshift"]}
CONSTANTS = {"e", "inf", "nan", "newaxis", "pi"}
REAL = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()


# Names and signatures -----------------------------------------------------------------------------
def written(function: Any) -> str:
    """A signature without annotations."""
    signature = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(inspect.Signature(plain))
    return text[1:-1]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    assert written(getattr(xp, name)) == SIGNATURES[name]


@pytest.mark.parametrize("name", LINALG)
def test_linalg_signature(name: str) -> None:
    assert written(getattr(xp.linalg, name)) == LINALG[name]


@pytest.mark.parametrize("name", FFT)
def test_fft_signature(name: str) -> None:
    assert written(getattr(xp.fft, name)) == FFT[name]


def test_every_public_name_is_in_the_standard() -> None:
    dtypes = set(xp.__array_namespace_info__().dtypes())
    known = {*SIGNATURES, *CONSTANTS, *dtypes, "linalg", "fft"}
    assert set(xp.__all__) == known
    assert set(xp.linalg.__all__) == set(LINALG) and set(xp.fft.__all__) == set(FFT)
    assert all(hasattr(xp, name) for name in known)


def test_namespace_of_an_array() -> None:
    x = jg.zeros(2)
    for version in (None, "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match=r"2024\.12 is"):
        x.__array_namespace__(api_version="1999.01")
    assert xp.__array_api_version__ == "2024.12"
    assert x.to_device(x.device) is x


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.devices() == [info.default_device()] == [jg.zeros(1).device]
    assert info.default_dtypes()["real floating"] is jg.float32
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {
        "bool", "uint8", "uint16", "uint32", "uint64",
    }  # fmt: skip


# Dtypes -------------------------------------------------------------------------------------------
def test_promotion_is_numpys_within_a_kind_and_refused_between_kinds() -> None:
    for a, b in itertools.product([*REAL, "bool"], repeat=2):
        integers = [not x.startswith(("float", "bool")) for x in (a, b)]
        open_ = len({integers[0], integers[1], a == "bool", b == "bool"}) and (
            integers[0] is not integers[1] or (a == "bool") is not (b == "bool")
            or ("uint64" in (a, b) and not (a[0] == b[0] == "u"))
        )  # fmt: skip
        pair = getattr(xp, a), getattr(xp, b)
        if open_:
            with pytest.raises(TypeError, match="no common dtype"):
                xp.result_type(*pair)
        else:
            assert xp.result_type(*pair).name == np.promote_types(a, b).name, (a, b)


def test_dtypes_do_not_depend_on_ranks_nor_on_numbers() -> None:
    wide, narrow = jg.tensor(1.0, dtype=jg.float64), jg.tensor([1.0], dtype=jg.float32)
    assert xp.add(wide, narrow).dtype is jg.float64
    assert xp.multiply(narrow, 2).dtype is jg.float32
    assert xp.where(narrow > 0, narrow, 0.5).dtype is jg.float32
    assert xp.result_type(jg.float32, 1.0, jg.int64 if False else jg.float64) is jg.float64
    for number in (1.5, True):
        with pytest.raises(TypeError, match="does not go with"):
            xp.add(jg.tensor([1]), number)
    with pytest.raises(TypeError, match="at least one"):
        xp.add(1, 2)


def test_casts_and_kinds() -> None:
    assert xp.can_cast(jg.int8, jg.int16) and not xp.can_cast(jg.int16, jg.int8)
    assert xp.can_cast(jg.zeros(2), jg.float64) and not xp.can_cast(jg.int64, jg.float64)
    assert xp.isdtype(jg.int8, ("integral", "bool")) and not xp.isdtype(jg.float32, "integral")
    with pytest.raises(ValueError, match="unknown kind"):
        xp.isdtype(jg.int8, "number")
    assert xp.finfo(jg.zeros(1)).dtype is jg.float32 and xp.iinfo(jg.uint8).max == 255
    x = jg.zeros(2)
    assert xp.astype(x, jg.float32, copy=False) is x
    assert xp.astype(x, jg.float32).data_ptr() != x.data_ptr()


# Values, against NumPy ----------------------------------------------------------------------------
A = np.array([[3.0, -1.5, 0.25], [2.0, 8.0, -4.0]])
B = np.array([[1.5, 2.0, 0.5], [0.25, 3.0, 1.0]])
I = np.array([[7, -3, 2], [1, 0, 5]])
U = np.array([[200, 3], [255, 1]], np.uint8)
M = A @ A.T + np.eye(2)
V = np.array([3, 1, 3, 2, 1])
C = np.array([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
NANS = np.array([np.nan, 1.0, np.nan])


def same(got: Any, expected: Any, path: str = "result") -> None:
    if isinstance(expected, tuple | list):
        assert len(got) == len(expected), path
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            same(a, b, f"{path}[{i}]")
        return
    if not isinstance(expected, np.ndarray | np.generic):
        assert got == expected, path
        return
    assert tuple(got.shape) == expected.shape, path
    assert got.dtype.name.removesuffix("_") == expected.dtype.name, path
    values = got.detach().resolve_conj().numpy()
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12, err_msg=path)


CASES: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (lambda n, a: (n.sum(a, axis=0), n.sum(a, axis=(0, 1), keepdims=True), n.sum(a, axis=())),
     (A,)),
    (lambda n, u: (n.sum(u), n.prod(u, axis=1), n.cumulative_sum(u, axis=0)), (U,)),
    (lambda n, i: (n.sum(i, dtype=n.int32), n.prod(i), n.max(i, axis=1), n.min(i)), (I,)),
    (lambda n, a: (n.mean(a), n.var(a), n.std(a, axis=1, correction=1, keepdims=True)), (A,)),
    (lambda n, a: (n.max(a, axis=(0, 1)), n.min(a, axis=0), n.argmax(a), n.argmin(a, axis=1)),
     (A,)),
    (lambda n, i: (n.all(i), n.any(i, axis=0), n.all(i, axis=(0, 1), keepdims=True)), (I,)),
    (lambda n, i: (n.count_nonzero(i, axis=1), n.nonzero(i), n.argmax(i, keepdims=True)), (I,)),
    (lambda n, a: (n.cumulative_sum(a, axis=1, include_initial=True),
                   n.cumulative_prod(a, axis=0)), (A,)),
    (lambda n, a: (n.diff(a), n.diff(a, axis=0), n.diff(a, n=2)), (A,)),
    (lambda n, v: n.searchsorted(n.sort(v), v, side="right"), (V,)),
    (lambda n, a, b: (n.where(a > 0, a, b), n.clip(a, 0, 2), n.clip(a, max=b), n.clip(a)), (A, B)),
    (lambda n, i: n.clip(i, 0, 4), (I,)),
    (lambda n, v: (n.unique_all(v), n.unique_counts(v), n.unique_inverse(v)), (V,)),
    (lambda n, v: (n.sort(n.unique_values(v)), n.unique_inverse(n.reshape(v, (5, 1)))), (V,)),
    (lambda n, x: n.unique_values(x), (NANS[1:2],)),
    (lambda n, v: (n.sort(v), n.sort(n.flip(v)), n.argsort(v, stable=True)), (V,)),
    (lambda n, a: (n.take(a, n.asarray([1, 0, -1]), axis=1), n.flip(a, axis=0), n.flip(a)), (A,)),
    (lambda n, a: n.take_along_axis(a, n.asarray([[0, -1], [2, 1]]), axis=1), (A,)),
    (lambda n, a, b: (n.concat([a, b], axis=1), n.concat([a, b], axis=None)), (A, B)),
    (lambda n, a, b: (n.stack([a, b], axis=-1), n.unstack(a, axis=1)), (A, B)),
    (lambda n, a: (n.expand_dims(a, axis=1), n.permute_dims(a, (1, 0)), n.matrix_transpose(a)),
     (A,)),
    (lambda n, a: (n.moveaxis(a, 0, 1), n.reshape(a, (3, -1)), n.tile(a, (2, 1, 2))), (A,)),
    (lambda n, a: (n.repeat(a, 2, axis=1), n.repeat(a, n.asarray([1, 3]), axis=0), n.repeat(a, 2)),
     (A,)),
    (lambda n, a: (n.roll(a, 1), n.roll(a, (1, -1), axis=(0, 1)), n.roll(a, 2, axis=1)), (A,)),
    (lambda n, a: (n.squeeze(n.reshape(a, (1, 6, 1)), (0, 2)), n.broadcast_to(a, (2, 2, 3))), (A,)),
    (lambda n, a, b: n.broadcast_arrays(a, n.reshape(b, (2, 1, 3))), (A, B)),
    (lambda n, v: (n.meshgrid(v, v), n.meshgrid(v, v, indexing="ij")), (V,)),
    (lambda n, a: (n.tril(a), n.triu(a, k=1), n.eye(2, 3, k=-1, dtype=n.float64)), (A,)),
    (lambda n: (n.arange(5), n.arange(2, 8, 3), n.arange(5, 2), n.arange(5, 0, -2)), ()),
    (lambda n: (n.linspace(0.0, 1.0, 5, dtype=n.float64, endpoint=False),
                n.full((2, 1), 7), n.full((2,), True), n.zeros(3, dtype=n.int8)), ()),
    (lambda n, a: (n.ones_like(a), n.zeros_like(a, dtype=n.int16), n.full_like(a, 2)), (A,)),
    (lambda n, a, b: (n.matmul(a, n.matrix_transpose(b)), n.vecdot(a, b),
                      n.tensordot(a, b, axes=2)),
     (A, B)),
    (lambda n, m: (n.linalg.det(m), n.linalg.inv(m), n.linalg.cholesky(m), n.linalg.svdvals(m)),
     (M,)),
    (lambda n, m: (n.linalg.slogdet(m), n.linalg.eigvalsh(m), n.linalg.matrix_power(m, 3)), (M,)),
    (lambda n, m, a: (n.linalg.solve(m, a), n.linalg.pinv(a), n.linalg.matrix_rank(a)), (M, A)),
    (lambda n, m: n.linalg.solve(n.stack([m, m]), m), (M,)),
    (lambda n, a: (n.linalg.vector_norm(a), n.linalg.vector_norm(a, axis=1, ord=1, keepdims=True)),
     (A,)),
    (lambda n, a: (n.linalg.matrix_norm(a), n.linalg.matrix_norm(a, ord=1, keepdims=True)), (A,)),
    (lambda n, a: (n.linalg.diagonal(a, offset=1), n.linalg.outer(a[0], a[1])), (A,)),
    (lambda n, u: n.linalg.trace(u), (U,)),
    (lambda n, a, b: n.linalg.cross(a, b), (A, B)),
    (lambda n, a: (n.fft.rfft(a), n.fft.rfftn(a), n.fft.ihfft(a, axis=0), n.fft.fftshift(a)), (A,)),
    (lambda n, c: (n.fft.fft(c, n=3), n.fft.ifft(c, axis=0, norm="ortho"), n.fft.irfft(c)), (C,)),
    (lambda n, c: (n.fft.fftn(c), n.fft.ifftn(c, norm="forward"), n.fft.hfft(c)), (C,)),
    (lambda n, c: (n.fft.fftn(c, s=(3, 4), axes=(0, 1)), n.fft.ifftshift(c, axes=1)), (C,)),
    (lambda n, c: (n.conj(c), n.real(c), n.imag(c), n.abs(c), n.round(n.multiply(c, 1.7))), (C,)),
    (lambda n, c: (n.exp(c), n.sqrt(c), n.sum(c, axis=0), n.prod(c), n.mean(c), n.sign(c)), (C,)),
    (lambda n, c: (n.matmul(c, c), n.vecdot(c, c), n.linalg.inv(c), n.linalg.solve(c, c)), (C,)),
    (lambda n, c: (n.multiply(c, 2), n.add(c, 1j), n.pow(c, 2), n.where(n.real(c) > 0, c, 0)),
     (C,)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_values_and_dtypes_are_numpys(case: int) -> None:
    function, arrays = CASES[case]
    expected = function(np, *arrays)
    same(function(xp, *(xp.asarray(x.copy()) for x in arrays)), expected)


ON_INTEGERS = (
    "abs ceil floor round trunc negative positive sign square bitwise_invert isfinite".split()
)
DOMAINS = {"acos": 4.0, "asin": 4.0, "atanh": 4.0}
SHIFTED = {"acosh", "log", "log2", "log10", "sqrt", "log1p"}


@pytest.mark.parametrize("name", UNARY)
def test_elementwise_of_one_array(name: str) -> None:
    if name in ("bitwise_invert", "logical_not"):
        x = I if name == "bitwise_invert" else I > 0
    else:
        x = np.abs(A) + 1 if name in SHIFTED else A / 8.5
    same(getattr(xp, name)(xp.asarray(x.copy())), getattr(np, name)(x))
    if name in ON_INTEGERS:
        for d in ("int8", "int64"):
            values = I.astype(d)
            same(getattr(xp, name)(xp.asarray(values.copy())), getattr(np, name)(values))


@pytest.mark.parametrize("name", BINARY)
def test_elementwise_of_two_arrays(name: str) -> None:
    x, y = A, B
    if name.startswith("bitwise"):
        x, y = np.abs(I), np.abs(I[::-1]) % 3
    elif name.startswith("logical"):
        x, y = A > 0, B > 1
    elif name == "pow":
        x = np.abs(A)
    function, expected = getattr(xp, name), getattr(np, name)
    same(function(xp.asarray(x.copy()), xp.asarray(y.copy())), expected(x, y))
    same(function(xp.asarray(x[0].copy()), xp.asarray(y.copy())), expected(x[0], y))
    number = True if name.startswith("logical") else 2
    same(function(xp.asarray(x.copy()), number), expected(x, number))
    same(function(number, xp.asarray(y.copy())), expected(number, y))


# What else the standard asks for ------------------------------------------------------------------
def test_copies_on_demand() -> None:
    x = jg.arange(6)
    array = np.arange(3)
    assert xp.asarray(x, copy=False) is x and xp.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert xp.asarray(array, copy=False).numpy() is not None
    with pytest.raises(ValueError, match="needs a copy"):
        xp.asarray([1, 2], copy=False)
    assert xp.reshape(x, (2, 3)).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (2, 3), copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="needs a copy"):
        xp.reshape(xp.permute_dims(xp.reshape(x, (2, 3)), (1, 0)), (6,), copy=False)


def test_errors() -> None:
    x = jg.zeros(2, 3)
    for call in (
        lambda: xp.squeeze(x, 0), lambda: xp.nonzero(jg.tensor(1)), lambda: xp.take(x, jg.zeros(1)),
        lambda: xp.cumulative_sum(x), lambda: xp.searchsorted(x[0], x[0], side="middle"),
        lambda: xp.meshgrid(x[0], indexing="yx"), lambda: xp.vecdot(x, x, axis=1),
        lambda: xp.matrix_transpose(x[0]), lambda: xp.result_type(1),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError):
        xp.positive(jg.tensor([True]))


def test_every_nan_is_a_value_of_its_own() -> None:
    assert xp.unique_values(jg.tensor([np.nan, 1.0, np.nan])).numel() == 3


def test_gradients_go_through() -> None:
    x = jg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=jg.float64, requires_grad=True)

    def function(x: Any) -> Any:
        n = x.__array_namespace__()
        y = n.cumulative_sum(n.take(x, n.asarray([1, 0, 1]), axis=0), axis=1)
        return n.std(n.concat([y, n.astype(n.clip(y, 0, 4), n.float64)], axis=0), axis=(0, 1))

    assert jg.autograd.gradcheck(function, (x,))


SCIPY = """
import numpy as np, jitgrad as jg
from scipy import signal, special, stats

a = np.random.default_rng(0).normal(size=(6, 4))
for f in (
    lambda x: stats.skew(x, axis=0),
    lambda x: stats.zscore(x),
    lambda x: stats.ttest_1samp(x, 0.0).statistic,
    lambda x: special.logsumexp(x, axis=1),
    lambda x: signal.detrend(x),
):
    got = f(jg.tensor(a))
    assert isinstance(got, jg.Tensor)
    assert np.allclose(got.numpy(), f(a))
assert jg.autograd.gradcheck(stats.kurtosis, (jg.tensor(a[:, 0], requires_grad=True),))
"""


def test_scipy_runs_on_it_with_gradients() -> None:
    """SciPy takes arrays of the standard if told so before it is imported."""
    pytest.importorskip("scipy", minversion="1.16")
    subprocess.run(
        [sys.executable, "-c", SCIPY], env={**os.environ, "SCIPY_ARRAY_API": "1"}, check=True
    )
