"""The 16-bit floats: float16 and bfloat16, against torch.

Kernels load them as float32 and round once, where they store. PyTorch does so too for most
operators; where it rounds between the steps of a formula the results differ by that rounding.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import jitgrad
from jitgrad.kernels import half as kernels
from tests.oracle import torch_or_skip

HALVES = ("float16", "bfloat16")
half = pytest.mark.parametrize("name", HALVES)
Call = Callable[[Any, Any], Any]


def shown(lib: Any, call: Call, name: str) -> str:
    """What a call gives, as text; of an error its type and the beginning."""
    lib.manual_seed(0)
    try:
        return repr(call(lib, getattr(lib, name))).replace("torch.", "jitgrad.")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:50]}"


# Values, and their text ---------------------------------------------------------------------------
VALUES: list[Call] = [
    lambda lib, d: lib.tensor([1.5, 2.25, 3], dtype=d),
    lambda lib, d: lib.tensor(math.pi, dtype=d),
    lambda lib, d: lib.tensor([[1, 2], [3, 4]], dtype=d),
    lambda lib, d: lib.tensor([1e-3, 1e3, 7], dtype=d),
    lambda lib, d: lib.tensor([1e9, -1e9, math.nan, 7e4, 2**63], dtype=d),
    lambda lib, d: lib.tensor([True, False], dtype=d),
    lambda lib, d: lib.tensor([1 + 2**-11 + 2**-30], dtype=d).item(),  # by way of float32
    lambda lib, d: lib.tensor(np.arange(3.0) / 3, dtype=d),
    lambda lib, d: lib.tensor(np.arange(3), dtype=d).tolist(),
    lambda lib, d: lib.tensor([lib.tensor(1.1, dtype=d), 2]),
    lambda lib, d: lib.tensor([lib.tensor(1.1, dtype=d), 2.0]),
    lambda lib, d: lib.tensor(np.float16(1.1)),
    lambda lib, d: lib.from_numpy(np.array([1.1, 2], np.float16)).to(d),
    lambda lib, d: lib.full((2,), 1.1, dtype=d),
    lambda lib, d: lib.full((2,), 1e39, dtype=d),
    lambda lib, d: lib.zeros(2, dtype=d).fill_(-1e39),
    lambda lib, d: lib.arange(0, 1, 0.3, dtype=d),
    lambda lib, d: lib.linspace(-3, 10, 11, dtype=d),
    lambda lib, d: lib.eye(2, dtype=d),
    lambda lib, d: lib.arange(5).to(d),
    lambda lib, d: (lib.ones(2).half(), lib.ones(2).bfloat16()),
    lambda lib, d: (lib.HalfTensor([1, 2]), lib.BFloat16Tensor([1, 2])),
    lambda lib, d: lib.ones(2, dtype=d).type(),
    lambda lib, d: lib.ones(2, dtype=d).new([1, 2]),
    lambda lib, d: lib.scalar_tensor(1.1, dtype=d),
    lambda lib, d: (float(lib.tensor(1.1, dtype=d)), int(lib.tensor(3.9, dtype=d))),
    lambda lib, d: f"{lib.tensor(1.1, dtype=d):.3f}",
    lambda lib, d: lib.tensor([1.1, 2], dtype=d)[0].item(),
    lambda lib, d: list(lib.ones(2, dtype=d)),
    lambda lib, d: copy.deepcopy(lib.full((2,), 1.1, dtype=d)),
    lambda lib, d: pickle.loads(pickle.dumps(lib.full((2,), 1.1, dtype=d))),
    lambda lib, d: lib.full((2,), 1.1, dtype=d).view(lib.int16),
    lambda lib, d: lib.ones(2, dtype=d).requires_grad_().sum(),
    lambda lib, d: lib.finfo(d),
    lambda lib, d: (lib.finfo(d).bits, lib.finfo(d).eps, lib.finfo(d).max, lib.finfo(d).tiny),
    lambda lib, d: lib.nan_to_num(lib.tensor([math.nan, math.inf, -math.inf], dtype=d)),
]  # fmt: skip


@half
@pytest.mark.oracle
@pytest.mark.parametrize("call", VALUES)
def test_values_as_torch_shows_them(call: Call, name: str) -> None:
    assert shown(jitgrad, call, name) == shown(torch_or_skip(), call, name)


@half
@pytest.mark.oracle
def test_numpy(name: str) -> None:
    x = jitgrad.tensor([1.1, 2], dtype=getattr(jitgrad, name))
    if name == "float16":
        assert x.numpy().dtype == np.float16
        assert np.asarray(x).base is not None
        array = np.ones(3, np.float16)
        jitgrad.from_numpy(array).mul_(3)
        assert array.tolist() == [3, 3, 3]
        return
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            convert()


@half
@pytest.mark.oracle
def test_as_default_dtype(name: str) -> None:
    def call(lib: Any, d: Any) -> Any:
        lib.set_default_dtype(d)
        try:
            return (
                lib.tensor([1.5, 2]), lib.ones(2) * 1.5, lib.arange(3) / 2, lib.zeros(2),
                lib.full((2,), 1.1), lib.arange(0, 1, 0.5), lib.randn(2).dtype,
                lib.tensor(1.3) * lib.ones(2, dtype=lib.float32),
                lib.ones(2, dtype=lib.int32) + 1.5, lib.get_default_dtype(),
            )  # fmt: skip
        finally:
            lib.set_default_dtype(lib.float32)

    assert shown(jitgrad, call, name) == shown(torch_or_skip(), call, name)


RANDOM: list[Call] = [
    lambda lib, d: lib.rand(3, dtype=d),
    lambda lib, d: lib.randn(17, dtype=d),
    lambda lib, d: lib.empty(4, 5, dtype=d).t().uniform_(-1, 3),
    lambda lib, d: lib.empty(20, dtype=d)[::2].normal_(1, 3),
    lambda lib, d: lib.empty(20, dtype=d).exponential_(),
    lambda lib, d: lib.empty(20, dtype=d).bernoulli_(0.3),
    lambda lib, d: lib.bernoulli(lib.full((5,), 0.5, dtype=d)),
    lambda lib, d: lib.empty(20, dtype=d).geometric_(0.3),
    lambda lib, d: lib.empty(20, dtype=d).log_normal_(),
    lambda lib, d: lib.empty(20, dtype=d).random_().tolist(),
    lambda lib, d: lib.randint(0, 10, (5,), dtype=d),
    lambda lib, d: lib.randperm(5, dtype=d),
    lambda lib, d: lib.multinomial(lib.tensor([0.2, 0.3, 0.5], dtype=d), 2),
    lambda lib, d: lib.normal(lib.zeros(5, dtype=d), lib.ones(5, dtype=d)),
    lambda lib, d: lib.nn.functional.dropout(lib.ones(20, dtype=d)),
    lambda lib, d: lib.randn_like(lib.zeros(5, dtype=d)),
]


@half
@pytest.mark.oracle
@pytest.mark.parametrize("call", RANDOM)
def test_the_same_random_numbers(call: Call, name: str) -> None:
    assert shown(jitgrad, call, name) == shown(torch_or_skip(), call, name)


# Kernels: computed in float32 or better, rounded once ---------------------------------------------
def places(x: Any) -> np.ndarray:
    """Where the elements stand among all numbers of their dtype, counted in steps from zero."""
    bits = x.detach().contiguous().view(jitgrad.int16).numpy().astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def steps(result: Any, reference: np.ndarray) -> int:
    """How many steps of its dtype a result is off the reference at most; NaN must be NaN."""
    expected = jitgrad.from_numpy(np.array(reference, np.float64)).to(result.dtype)
    nan = np.isnan(reference)
    assert np.array_equal(np.isnan(result.double().detach().numpy()), nan)
    off = np.abs(places(result) - places(expected))
    return int(off[~nan].max(initial=0))


def every(name: str) -> Any:
    """Every bit pattern of a dtype."""
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    return jitgrad.from_numpy(bits).view(getattr(jitgrad, name))


UNARY = ("neg", "exp", "log", "sqrt", "tanh", "sin", "reciprocal", "floor", "square")


@half
@pytest.mark.parametrize("function", UNARY)
def test_every_number(function: str, name: str) -> None:
    x = every(name)
    wide = x.double().numpy()
    with np.errstate(all="ignore"):
        reference = {"neg": np.negative, "reciprocal": lambda v: 1 / v}.get(
            function, getattr(np, function, None)
        )(wide)
    assert steps(getattr(x, function)(), reference) <= 1


@half
@pytest.mark.oracle
def test_every_number_is_cast_as_by_torch(name: str) -> None:
    torch, x = torch_or_skip(), every(name)
    theirs = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(getattr(torch, name))
    ours = jitgrad.arange(-(1 << 15), 1 << 15, dtype=jitgrad.int16).view(x.dtype)
    for other in ("float32", "float64", "bool", *HALVES):
        a = theirs.to(getattr(torch, other)).double().numpy()
        b = ours.to(getattr(jitgrad, other)).double().numpy()
        assert np.array_equal(a, b, equal_nan=True), other
    # From float32: every rounding, ties and overflow among them.
    bits = np.arange(0, 1 << 32, 4099, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        bits = np.concatenate([bits, every(name).float().numpy() * np.float32(1 + 2**-8)])
    a = torch.from_numpy(bits.copy()).to(getattr(torch, name)).view(torch.int16).numpy()
    b = jitgrad.from_numpy(bits).to(x.dtype)
    nan = np.isnan(bits)
    assert np.array_equal(a[~nan], b.view(jitgrad.int16).numpy()[~nan])
    assert bool(b[jitgrad.from_numpy(nan)].isnan().all())


def log_sum(v: np.ndarray, axis: int) -> np.ndarray:
    peak = v.max(axis, keepdims=True)
    return np.squeeze(np.log(np.exp(v - peak).sum(axis, keepdims=True)) + peak, axis)


def softmax(v: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(v - v.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


ALONG: dict[str, tuple[Callable[[Any, int], Any], Callable[[np.ndarray, int], np.ndarray]]] = {
    "sum": (lambda x, dim: x.sum(dim), lambda v, axis: v.sum(axis)),
    "mean": (lambda x, dim: x.mean(dim), lambda v, axis: v.mean(axis)),
    "var": (lambda x, dim: x.var(dim), lambda v, axis: v.var(axis, ddof=1)),
    "norm": (lambda x, dim: x.norm(dim=dim), lambda v, axis: np.sqrt((v * v).sum(axis))),
    "amax": (lambda x, dim: x.amax(dim), lambda v, axis: v.max(axis)),
    "logsumexp": (lambda x, dim: x.logsumexp(dim), log_sum),
    "cumsum": (lambda x, dim: x.cumsum(dim), lambda v, axis: v.cumsum(axis)),
    "softmax": (lambda x, dim: x.softmax(dim), softmax),
    "log_softmax": (
        lambda x, dim: x.log_softmax(dim),
        lambda v, axis: v - np.expand_dims(log_sum(v, axis), axis),
    ),
}


# The kernels of both dtypes are the same text: two kinds are enough for the other one.
@pytest.mark.parametrize(
    ("kind", "name"),
    [*((kind, "bfloat16") for kind in ALONG), ("sum", "float16"), ("softmax", "float16")],
)
def test_lines_are_rounded_once(kind: str, name: str) -> None:
    call, reference = ALONG[kind]
    jitgrad.manual_seed(0)
    x = jitgrad.randn(300, 40, dtype=getattr(jitgrad, name)).add(0.25)
    for dim in (0, 1):
        assert steps(call(x, dim), reference(x.double().numpy(), dim)) <= 1
    long = jitgrad.full((20_000,), 0.1, dtype=x.dtype)
    assert steps(call(long, 0), reference(long.double().numpy(), 0)) <= 1


@half
def test_products_are_rounded_once(name: str) -> None:
    jitgrad.manual_seed(0)
    a, b = (jitgrad.randn(*s, dtype=getattr(jitgrad, name)) for s in ((2, 33, 700), (2, 700, 21)))
    exact = a.double().numpy() @ b.double().numpy()
    # Where a sum cancels, float32 rounding shows: 1e-4 of what 700 products may add up to.
    spread = 1e-4 * np.sqrt(700)
    for left, right in ((a, b), (a.mT.contiguous().mT, b.mT.contiguous().mT)):
        low, high = steps_between(left @ right, exact, spread)
        assert max(low, high) <= 1
    vector = a[0] @ b[0, :, 0]
    assert max(steps_between(vector, exact[0, :, 0], spread)) <= 1
    square = a[0] @ a[0].T
    assert square.dtype is a.dtype


def steps_between(result: Any, exact: np.ndarray, slack: float) -> tuple[int, int]:
    """Steps by which a result leaves the interval of the given half-width round the exact one."""
    got, kind = places(result), result.dtype
    low, high = (places(jitgrad.from_numpy(np.array(exact + s)).to(kind)) for s in (-slack, slack))
    return int((low - got).max()), int((got - high).max())


def test_every_number_in_order() -> None:
    x = every("bfloat16")
    x = x[x.isfinite()]
    values, indices = x.sort()
    assert np.all(np.diff(places(values)) >= 0)
    assert np.array_equal(places(values), places(x[indices]))
    assert x.argmax().item() == int(places(x).argmax())
    most, at = x.topk(5)
    assert np.array_equal(places(most), places(values)[:-6:-1])
    assert np.array_equal(places(x[at]), places(most))
    assert (
        int(jitgrad.searchsorted(values, jitgrad.zeros(1, dtype=x.dtype))) == len(values) // 2 - 1
    )


# Training -----------------------------------------------------------------------------------------
# PyTorch rounds AdamW's eps, 1e-8, to zero in float16, and then divides zeros by zeros.
@pytest.mark.oracle
@pytest.mark.parametrize(("method", "name"), [("SGD", "bfloat16"), ("AdamW", "bfloat16")])
def test_training(method: str, name: str) -> None:
    """Gradients, their accumulation and the optimizer's state in the dtype of the parameters."""

    def trained(lib: Any) -> tuple[Any, list[str]]:
        lib.manual_seed(0)
        model = lib.nn.Sequential(
            lib.nn.Linear(5, 8), lib.nn.LayerNorm(8), lib.nn.GELU(), lib.nn.Linear(8, 3)
        ).to(getattr(lib, name))
        optimizer = getattr(lib.optim, method)(model.parameters(), lr=0.05)
        x, target = lib.randn(16, 5, dtype=getattr(lib, name)), lib.arange(16) % 3
        for _ in range(5):
            optimizer.zero_grad()
            for part in (slice(0, 8), slice(8, 16)):
                lib.nn.functional.cross_entropy(model(x[part]), target[part]).backward()
            optimizer.step()
        first = model[0].weight
        kinds = [first.grad.dtype, *(v.dtype for v in optimizer.state[first].values())]
        return model(x).detach().float().numpy(), [str(d).rpartition(".")[2] for d in kinds]

    (ours, kinds), (theirs, expected) = trained(jitgrad), trained(torch_or_skip())
    assert kinds == expected
    assert np.allclose(ours, theirs, atol=0.1)


@pytest.mark.oracle
def test_recurrent_layers() -> None:
    def run(lib: Any) -> list[Any]:
        lib.manual_seed(0)
        layer = lib.nn.LSTM(3, 4).to(lib.bfloat16)
        x = lib.randn(5, 2, 3).to(lib.bfloat16).requires_grad_()
        out = layer(x)[0]
        out.sum().backward()
        assert out.dtype == layer.weight_ih_l0.grad.dtype == x.dtype
        return [t.detach().float().numpy() for t in (out, x.grad, layer.weight_hh_l0.grad)]

    for ours, theirs in zip(run(jitgrad), run(torch_or_skip()), strict=True):
        assert np.allclose(ours, theirs, rtol=3.2e-2, atol=1.6e-2)


# Conversions --------------------------------------------------------------------------------------
def test_float16_without_instructions_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What processors without F16C run, here: every number, and roundings of all kinds."""
    from jitgrad.kernels.abi import p_float16, p_float32

    monkeypatch.setattr(kernels, "_converts", lambda context: False)

    @numba.njit
    def narrow(source: int, target: int, n: int) -> None:
        a, b = p_float32(source), p_float16(target)
        for i in range(n):
            b[i] = a[i]

    @numba.njit
    def widen(source: int, target: int, n: int) -> None:
        a, b = p_float16(source), p_float32(target)
        for i in range(n):
            b[i] = a[i]

    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = np.empty(bits.size, np.float32)
    widen(bits.ctypes.data, wide.ctypes.data, bits.size)
    assert np.array_equal(wide, bits.view(np.float16).astype(np.float32), equal_nan=True)
    with np.errstate(all="ignore"):
        numbers = np.concatenate([wide, wide * np.float32(1 + 2**-11), wide * np.float32(1.0003)])
        numbers = np.concatenate([numbers, np.geomspace(1e-9, 1e6, 10_000, dtype=np.float32)])
        expected = numbers.astype(np.float16)
    found = np.empty(numbers.size, np.float16)
    narrow(numbers.ctypes.data, found.ctypes.data, numbers.size)
    assert np.array_equal(found, expected, equal_nan=True)


@half
@pytest.mark.oracle
def test_neighbours_of_every_number(name: str) -> None:
    def neighbours(lib: Any) -> list[np.ndarray]:
        x = lib.arange(-(1 << 15), 1 << 15, dtype=lib.int16).view(getattr(lib, name))
        found = [lib.nextafter(x, lib.full_like(x, y)) for y in (math.inf, -math.inf, 0.0)]
        return [y.float().numpy() for y in found]

    for ours, theirs in zip(neighbours(jitgrad), neighbours(torch_or_skip()), strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)
