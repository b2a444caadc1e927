"""Tensors from values, shapes and NumPy arrays, and back, against torch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.oracle.compare import check, check_raises

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")

VALUES: dict[str, Any] = {
    "int": 3,
    "negative": -(2**40),
    "float": 1.5,
    "bool": True,
    "nan": float("nan"),
    "empty": [],
    "empty rows": [[], []],
    "ints": [[1, 2], [3, 4]],
    "floats": (1.0, 2),
    "int then float": [1, 2.5],
    "bools": [True, False],
    "bool then int": [True, 2],
    "bool then float": [True, 2.5],
    "deep": [[[1.0], [2.0]], [[3.0], [4.0]]],
    "np.float64": np.float64(1.5),
    "np.float32": np.float32(1.5),
    "np.int16": np.int16(3),
    "np.bool": np.bool_(True),
    "np scalars": [np.float64(1.0), np.float64(2.0)],
    "np.float32 scalars": [np.float32(1.0)],
    "array": np.arange(6, dtype=np.int32).reshape(2, 3),
    "array float": np.linspace(0, 1, 3),
    "array strided": np.arange(12.0).reshape(3, 4).T[1:, ::2],
    "array 0-d": np.array(2.5, np.float32),
    "range": range(3),
}


@pytest.mark.parametrize("name", VALUES)
def test_tensor_infers_the_dtype(name: str) -> None:
    value = VALUES[name]
    check(lambda lib: lib.tensor(value), exact=True)
    check(lambda lib: lib.as_tensor(value), exact=True)
    check(lambda lib: lib.tensor(value, dtype=lib.float64, requires_grad=True), exact=True)


def test_tensor_of_tensors() -> None:
    check(lambda lib: lib.tensor([lib.tensor(1), lib.tensor(2)]))
    check(lambda lib: lib.tensor([[lib.tensor(1.5), 2.0], [3.0, 4.0]]))
    check(lambda lib: lib.tensor(lib.ones(2, 3).t()), warns="To copy construct from a tensor")
    check(lambda lib, x: lib.as_tensor(x) is x, (2,))
    check(lambda lib, x: lib.as_tensor(x, dtype=lib.float32), (2,))
    check(lambda lib: lib.asarray([1.0, 2.0], dtype=lib.float64))


def test_default_dtype() -> None:
    def changed(lib: Any) -> Any:
        lib.set_default_dtype(lib.float64)
        try:
            return (
                lib.tensor(1.5), lib.tensor([]), lib.zeros(2), lib.arange(2.0), lib.eye(2),
                lib.ones(2, dtype=lib.int64) / 2, lib.tensor([1, 2]) * 1.5, lib.full((2,), 1.0),
                lib.linspace(0, 1, 3), lib.tensor(np.float32(1)), lib.tensor(1.5).dtype,
                lib.get_default_dtype(), repr(lib.tensor(1.5)), repr(lib.tensor(1.5).float()),
            )  # fmt: skip
        finally:
            lib.set_default_dtype(lib.float32)

    check(changed)
    check_raises(lambda lib: lib.set_default_dtype(lib.int64), match="only floating-point types")


@pytest.mark.parametrize("dtype", DTYPES)
def test_factories(dtype: str) -> None:
    def make(lib: Any) -> Any:
        d = getattr(lib, dtype)
        x = lib.zeros((2, 3), dtype=d).t()
        return (
            lib.zeros(2, 3, dtype=d), lib.ones((2, 3), dtype=d), lib.ones([2], dtype=d),
            lib.zeros((), dtype=d), lib.zeros(0, 3, dtype=d), lib.zeros(size=(2,), dtype=d),
            lib.full((2, 2), 1, dtype=d), lib.full((), True, dtype=d), lib.eye(3, dtype=d),
            lib.eye(2, 3, dtype=d), lib.eye(0, dtype=d), lib.zeros_like(x), lib.ones_like(x),
            lib.full_like(x, 1), lib.zeros_like(x, dtype=lib.float32),
            x.new_zeros(2, 3), x.new_ones((2,)), x.new_full((2,), 1), x.new_tensor([0, 1]),
            x.new_zeros((2,), dtype=lib.float64), lib.scalar_tensor(1, dtype=d),
            lib.zeros(2, dtype=float), lib.zeros(2, dtype=int), lib.tensor([0, 1], dtype=bool),
            x.to(float), lib.empty(2, 3, dtype=d).shape,
            lib.empty_like(x).stride(), x.new_empty(2, 3).dtype,
            lib.empty_strided((2, 3), (1, 2), dtype=d).stride(),
            x.new_empty_strided((2, 3), (1, 2)).stride(), lib.tensor([0, 1], dtype=d),
        )  # fmt: skip

    check(make, exact=True)


RANGES = [(5,), (0,), (2, 7), (2, 8, 3), (5, 0, -2), (5.0,), (0.5, 3), (0, 1, 0.3), (1, 0, -0.25),
          (3, 3), (True,), (np.int64(3),), (0, 1e-5, 1e-6)]  # fmt: skip


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_arange(bounds: Any) -> None:
    check(lambda lib: lib.arange(*bounds))
    for dtype in ("float64", "int32", "float32"):
        if dtype == "int32" and any(isinstance(b, float) for b in bounds):
            continue
        check(lambda lib, d=dtype: lib.arange(*bounds, dtype=getattr(lib, d)))


def test_arange_keywords() -> None:
    check(lambda lib: lib.arange(start=1, end=4), exact=True)
    check(lambda lib: lib.arange(end=4), exact=True)
    check(lambda lib: lib.arange(0, 4, step=2, requires_grad=False), exact=True)
    check(lambda lib: lib.arange(3, out=lib.empty(0, dtype=lib.int64)), version=False)
    check(lambda lib: lib.arange(3.0, requires_grad=True), exact=True)


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_linspace(steps: int, dtype: str) -> None:
    check(lambda lib: lib.linspace(-3, 10, steps, dtype=getattr(lib, dtype)))
    check(lambda lib: lib.linspace(1.5, -2, steps=steps, dtype=getattr(lib, dtype)))


def test_full_infers_the_dtype() -> None:
    check(lambda lib: [lib.full((2,), v) for v in (1, 1.5, True)])
    check(lambda lib: lib.full((2,), lib.tensor(3)))
    check(lambda lib: lib.full_like(lib.zeros(2, dtype=lib.int32), 2.7))
    check(lambda lib: lib.scalar_tensor(3))
    check(lambda lib: lib.zeros(2, requires_grad=True), grad=0)
    check(lambda lib: lib.ones_like(lib.zeros(2, 2), requires_grad=True), grad=0)


ERRORS: dict[str, tuple[Any, str]] = {
    "ragged": (lambda lib: lib.tensor([[1, 2], [3]]), "expected sequence of length 2 at dim 1"),
    "mixed": (lambda lib: lib.tensor([[1], 2]), "not a sequence"),
    "mixed later": (lambda lib: lib.tensor([1, [2]]), ""),
    "string": (lambda lib: lib.tensor("abc"), "new(): invalid data type 'str'"),
    "strings": (lambda lib: lib.tensor(["a"]), "too many dimensions 'str'"),
    "some strings": (lambda lib: lib.tensor([1, "a"]), "invalid data type 'str'"),
    "none": (lambda lib: lib.tensor(None), "Could not infer dtype of NoneType"),
    "str dtype": (lambda lib: lib.zeros(2, dtype="float32"), "argument 'dtype' must be"),
    "object": (lambda lib: lib.tensor([object()]), "object"),
    "overflow": (lambda lib: lib.tensor(2**70), "Overflow when unpacking long"),
    "ints with grad": (
        lambda lib: lib.tensor([1, 2], requires_grad=True), "floating point and complex dtype"),
    "int zeros with grad": (
        lambda lib: lib.zeros(2, dtype=lib.int64, requires_grad=True), "floating point and"),
    "bool requires_grad_": (
        lambda lib: lib.tensor([True]).requires_grad_(), "only Tensors of floating point"),
    "negative size": (lambda lib: lib.zeros(-1), "Dimension size must be non-negative"),
    "float size": (lambda lib: lib.zeros(2.5), "zeros()"),
    "unknown keyword": (lambda lib: lib.zeros(2, colour=1), "colour"),
    "tensor keyword": (lambda lib: lib.tensor(2, colour=1), "colour"),
    "zero step": (lambda lib: lib.arange(0, 3, 0), "step must be nonzero"),
    "wrong way": (lambda lib: lib.arange(0, 3, -1), "bound"),
    "infinite": (lambda lib: lib.arange(0, float("inf")), "unsupported range"),
    "arange str": (lambda lib: lib.arange("a"), "arange()"),
    "linspace": (lambda lib: lib.linspace(0, 1, -1), "number of steps must be non-negative"),
    "eye": (lambda lib: lib.eye(-1), "n must be greater or equal to 0"),
    "full": (lambda lib: lib.full(2, 1.0), "full()"),
    "from_numpy list": (lambda lib: lib.from_numpy([1.0]), "expected np.ndarray (got list)"),
    "negative stride": (lambda lib: lib.from_numpy(np.arange(3)[::-1]), "negative"),
    "byte order": (lambda lib: lib.from_numpy(np.arange(3).astype(">i8")), "byte order"),
    "object array": (lambda lib: lib.from_numpy(np.array([object()])), "can't convert np.ndarray"),
    "str array": (lambda lib: lib.from_numpy(np.array(["a"])), "can't convert np.ndarray"),
    "tensor of object array": (lambda lib: lib.tensor(np.array([object()])), "can't convert np"),
    "as_tensor reversed": (lambda lib: lib.as_tensor(np.arange(3)[::-1]), "negative"),
    "item of many": (lambda lib: lib.ones(2).item(), "cannot be converted to Scalar"),
    "item of none": (lambda lib: lib.ones(0).item(), "cannot be converted to Scalar"),
    "bool of many": (lambda lib: bool(lib.ones(2)), "more than one value is ambiguous"),
    "bool of none": (lambda lib: bool(lib.ones(0)), "no values is ambiguous"),
    "float of many": (lambda lib: float(lib.ones(2)), "can be converted"),
    "int of many": (lambda lib: int(lib.ones(2)), "can be converted"),
    "index of float": (lambda lib: [1, 2][lib.tensor(1.0)], "only integer tensors"),
    "index of many": (lambda lib: [1, 2][lib.tensor([1, 0])], "only integer tensors"),
    "int of nan": (lambda lib: int(lib.tensor(float("nan"))), "cannot convert float NaN"),
    "int of inf": (lambda lib: int(lib.tensor(float("inf"))), "infinity"),
    "len of 0-d": (lambda lib: len(lib.tensor(1)), "len() of a 0-d tensor"),
    "iter of 0-d": (lambda lib: iter(lib.tensor(1)), "iteration over a 0-d tensor"),
    "in": (lambda lib: "a" in lib.ones(2), "only supports Tensor or scalar"),
    "format": (lambda lib: format(lib.ones(2), ".2f"), "unsupported format string"),
    "numpy with grad": (lambda lib: lib.ones(2, requires_grad=True).numpy(), "requires grad"),
    "asarray with grad": (lambda lib: np.asarray(lib.ones(2, requires_grad=True)), "requires grad"),
    "deepcopy": (lambda lib: copy.deepcopy(lib.ones(2, requires_grad=True) * 2), "graph leaves"),
    "resize numpy": (lambda lib: lib.from_numpy(np.ones(2)).resize_(5), "not resizable"),
    "resize after numpy": (lambda lib: (lambda x: (x.numpy(), x.resize_(9)))(lib.ones(2)), "resiz"),
    "float = ": (lambda lib: setattr(lib.ones(2), "data", 3), "has to be a tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fn, phrase = ERRORS[name]
    check_raises(fn, match=phrase)


ARRAYS = {
    "contiguous": lambda a: a,
    "steps": lambda a: a[::2, 1::2],
    "transposed": lambda a: a.T,
    "row": lambda a: a[1],
    "0-d": lambda a: a[1, 2, ...],
    "empty": lambda a: a[:0],
    "broadcast rows": lambda a: np.lib.stride_tricks.as_strided(a, (2, 6), (0, a.strides[1])),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8"])
def test_from_numpy_shares_memory_both_ways(name: str, dtype: str) -> None:
    def shared(lib: Any) -> Any:
        whole = np.arange(24).reshape(4, 6).astype(dtype)
        part = ARRAYS[name](whole)
        x = lib.from_numpy(part)
        facts = (x.shape, x.stride(), x.storage_offset(), x.dtype, x.is_contiguous(), x.tolist())
        if name != "broadcast rows":
            x.fill_(1)
        written = whole.copy()
        part[...] = 0
        return (*facts, written, x, x._version)

    check(shared, exact=True)


def test_numpy_shares_memory_both_ways() -> None:
    def shared(lib: Any, x: Any) -> Any:
        view = x[1:, ::2]
        a = view.numpy()
        a[0, 0] = 42
        view[1, 1] = 7
        b = np.asarray(x)
        return a, b, x._version, a.dtype.name, np.shares_memory(a, b)

    check(shared, (3, 4), requires_grad=False, exact=True)
    check(lambda lib, x: x.detach().numpy(), (2, 3), exact=True)
    check(lambda lib, x: x.numpy(force=True), (2, 3), exact=True)
    check(lambda lib: lib.ones(2, 0).numpy().shape)
    check(lambda lib: lib.tensor(2.5).numpy(), exact=True)
    check(lambda lib: np.sqrt(lib.tensor([4.0, 9.0]).numpy()), exact=True)
    check(lambda lib: np.asarray(lib.arange(4).reshape(2, 2).t()), exact=True)
    assert np.array(jitgrad.arange(3), dtype=np.float32).tolist() == [0, 1, 2]
    assert np.stack([jitgrad.ones(2), jitgrad.zeros(2)]).tolist() == [[1, 1], [0, 0]]

    def under_no_grad(lib: Any, x: Any) -> Any:
        with lib.no_grad():
            return x.numpy()

    check(under_no_grad, (2,), exact=True)


def test_read_only_arrays_warn() -> None:
    a = np.ones(3)
    a.flags.writeable = False
    # PyTorch warns once in a process, so only jitgrad can be asked here.
    with pytest.warns(UserWarning, match="not writable"):
        x = jitgrad.from_numpy(a)
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    assert a.tolist() == [1, 1, 1]


NUMPY_SCALARS = [np.float64(2.5), np.float32(2.5), np.int64(2), np.int32(2), np.uint8(2)]


@pytest.mark.parametrize("scalar", NUMPY_SCALARS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_arithmetic_with_numpy_scalars(scalar: Any, dtype: str) -> None:
    def both(lib: Any) -> Any:
        x = lib.tensor([1, 2, 3], dtype=getattr(lib, dtype))
        results = [x * scalar, x + scalar, x / scalar, x == scalar, x >= scalar, x**scalar]
        return [*results, scalar * x, scalar + x]

    check(both)


def test_operators_between_numbers_and_tensors() -> None:
    def mixed(lib: Any, x: Any) -> Any:
        return (2 * x, 2 - x, 2 / x, 2**x, x % 2, -x, +x, abs(x), x**2, x - 1)

    check(mixed, (3,), low=0.5, high=2, grad=1)
    check(lambda lib, x: (7 // x, x // 2, 7 % x), (3,), low=0.5, high=2, requires_grad=False)
    check(lambda lib: (lib.ones(2) == "a", lib.ones(2) != None, lib.ones(2) == None))  # noqa: E711
    check_raises(lambda lib, x: x + "a", (2,), match="unsupported operand type")
    check_raises(lambda lib, x: "a" + x, (2,), match="")
    check_raises(lambda lib, x: x < "a", (2,), match="")
    check_raises(lambda lib, x: x @ 2, (2,), match="")


class Foreign:
    """Somebody else's class that knows what to do with tensors."""

    def __radd__(self, other: Any) -> str:
        return "added"

    __rmatmul__ = __rpow__ = __gt__ = __radd__


def test_operators_leave_foreign_operands_to_them() -> None:
    check(lambda lib: (lib.ones(2) + Foreign(), lib.ones(2) ** Foreign(), lib.ones(2) < Foreign()))
    check(lambda lib: lib.ones(2, 2) @ Foreign())
    assert (jitgrad.ones(2) + np.array([1.0, 2.0])).tolist() == [2, 3]
    assert np.sqrt(jitgrad.tensor([4.0, 9.0])).dtype is jitgrad.float32


def test_python_values() -> None:
    def values(lib: Any) -> Any:
        x, i, b = lib.tensor([[1.5, -2.0]]), lib.tensor([3]), lib.tensor(True)
        return (
            x.tolist(), i.item(), b.item(), float(i), int(lib.tensor(2.7)), bool(b), complex(i),
            [10, 20, 30, 40][i], len(x), 1.5 in x, 9 in x, lib.tensor(1.5) in x, f"{i[0]:03d}",
            f"{lib.tensor(1.25):.1f}", hash(x) == hash(x), x.numel(), x.nelement(), x.dim(), x.ndim,
            x.element_size(), x.nbytes, x.itemsize, x.is_floating_point(), i.is_floating_point(),
            x.device.type, x.is_contiguous(), x.storage_offset(), round(float(lib.tensor(2.5))),
            lib.tensor([1, 2]).tolist(), lib.ones(0, 2).tolist(), lib.tensor(3).tolist(),
            lib.is_tensor(x), lib.is_tensor(3), lib.numel(x), x.is_signed(), list(range(i)),
        )  # fmt: skip

    check(values)


def test_repr() -> None:
    def texts(lib: Any, x: Any) -> Any:
        leaf = lib.ones(2, requires_grad=True)
        shown = [
            lib.tensor(1), lib.tensor([1.5, 2.0]), lib.tensor([[True, False]]), lib.zeros(0),
            lib.zeros(0, 2), lib.zeros(2, dtype=lib.float64), lib.tensor([1e-8, 1.0]), leaf,
            leaf * 2, (leaf * 2).sum(), lib.arange(2000), lib.tensor([float("nan"), float("inf")]),
            leaf[0], leaf.detach(), lib.zeros(2, dtype=lib.int32), lib.tensor([], dtype=lib.int64),
        ]  # fmt: skip
        return [repr(t) for t in shown], str(leaf), f"{leaf}", repr(lib.float32), repr(x.shape)

    check(texts, (1,))


def test_deepcopy() -> None:
    def copied(lib: Any, x: Any) -> Any:
        x.grad = lib.ones_like(x)
        y = copy.deepcopy(x)
        a, b = copy.deepcopy((x, x))
        base = lib.zeros(4)
        c, d = copy.deepcopy((base, base[1:3]))
        d.fill_(5)
        return y, y.grad, y.grad is x.grad, a is b, c, d, copy.copy(x) is x, copy.copy(base)

    check(copied, (2, 3), grad=0, version=False)  # torch's copies count their making


def test_pickle_keeps_sharing() -> None:
    base = jitgrad.arange(6.0)
    pair = (base, base[2:4], base.reshape(2, 3).t())
    loaded = pickle.loads(pickle.dumps(pair))
    assert [x.tolist() for x in loaded] == [x.tolist() for x in pair]
    assert loaded[2].stride() == (1, 3)
    loaded[1].fill_(9)
    assert loaded[0].tolist() == [0, 1, 9, 9, 4, 5]
    assert base.tolist() == [0, 1, 2, 3, 4, 5]

    for d in (getattr(jitgrad, name) for name in DTYPES):
        x = jitgrad.ones(2, dtype=d)
        y = pickle.loads(pickle.dumps(x))
        assert y.dtype is d
        assert y.tolist() == x.tolist()
    leaf = pickle.loads(pickle.dumps(jitgrad.ones(2, requires_grad=True)))
    assert leaf.requires_grad
    assert leaf.is_leaf
    result = pickle.loads(pickle.dumps(leaf * 2))  # its history stays behind
    assert result.requires_grad
    assert result.is_leaf
    assert pickle.loads(pickle.dumps(jitgrad.float32)) is jitgrad.float32
    assert pickle.loads(pickle.dumps(base.shape)) == (6,)


def test_every_name_resolves() -> None:
    for x in (jitgrad.ones(2, 2), jitgrad.ones(2, 2, requires_grad=True) * 1):
        for name in dir(x):
            if name in ("imag", "grad", "volatile"):  # torch's own exceptions: they raise or warn
                continue
            assert hasattr(x, name), name
    assert all(hasattr(jitgrad, name) for name in dir(jitgrad))
