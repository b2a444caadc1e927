"""Switches, old names and questions that programs written for PyTorch may use."""

from __future__ import annotations

import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import settings
from tests.oracle import arg, check, check_raises, torch_or_skip


@pytest.fixture
def switches() -> Iterator[None]:
    yield
    jg.use_deterministic_algorithms(False)
    jg.set_float32_matmul_precision("highest")
    jg.set_default_dtype(jg.float32)


@pytest.mark.usefixtures("switches")
def test_switches_are_remembered() -> None:
    jg.use_deterministic_algorithms(True, warn_only=True)
    assert jg.are_deterministic_algorithms_enabled()
    assert jg.is_deterministic_algorithms_warn_only_enabled()
    jg.set_deterministic_debug_mode("error")
    assert jg.get_deterministic_debug_mode() == 2
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        jg.set_deterministic_debug_mode(7)
    with pytest.raises(TypeError, match="must be bool, not int"):
        jg.use_deterministic_algorithms(1)
    jg.set_float32_matmul_precision("high")
    with pytest.warns(UserWarning, match="has no effect"):
        jg.set_float32_matmul_precision("low")
    assert jg.get_float32_matmul_precision() == "high"
    assert jg.get_default_device() == jg.device("cpu")
    jg.set_default_device("cpu")
    with pytest.raises(RuntimeError, match="not available"):
        jg.set_default_device("cuda")


@pytest.mark.usefixtures("switches")
def test_the_default_tensor_type() -> None:
    jg.set_default_tensor_type(jg.DoubleTensor)
    assert jg.get_default_dtype() is jg.float64
    jg.set_default_tensor_type("jitgrad.FloatTensor")
    assert jg.tensor(1.0).dtype is jg.float32
    for wrong in (jg.LongTensor, "jitgrad.LongTensor", "nonsense", 3):
        with pytest.raises(TypeError, match="only floating-point types"):
            jg.set_default_tensor_type(wrong)


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_windows_by_their_old_names(name: str, periodic: bool, length: int) -> None:
    check(lambda lib: getattr(lib, f"{name}_window")(length, periodic))


def test_wrong_windows() -> None:
    check_raises(lambda lib: lib.hann_window(-1), match="non-negative window_length")
    check_raises(
        lambda lib: lib.kaiser_window(3, dtype=lib.int64), match="expects floating point dtypes"
    )


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (7, 2), (7, 3), (3, 3, 3), (0, 2)], ids=str)
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    check(lambda lib, x: x.clone().fill_diagonal_(2.5, wrap) + 0, shape)


def test_fill_diagonal_is_for_matrices() -> None:
    check_raises(lambda lib, x: x.detach().fill_diagonal_(1), (3,), match="dimensions must larger")
    check_raises(
        lambda lib, x: x.detach().fill_diagonal_(1), (2, 3, 3), match="must be of equal length"
    )


def test_python_functions_of_elements() -> None:
    # The copy, because PyTorch does not count these writes.
    check(lambda lib, x: x.detach().clone().apply_(lambda v: 2 * v + 1) + 0, (2, 3))
    check(lambda lib, x, y: x.detach().clone().map_(y, lambda a, b: a - b) + 0,
          arg((2, 3), requires_grad=False), arg((3,), requires_grad=False))  # fmt: skip
    check(lambda lib, x: x.clone().map2_(x, x, lambda a, b, c: a - b * c) + 0,
          arg((2, 3), requires_grad=False))  # fmt: skip
    check(lambda lib, x: x.detach().clone().apply_(lambda v: v - 1) + 0, ())
    check_raises(lambda lib, x: x.apply_(abs), (2,), match="Can't call apply_")


@pytest.mark.parametrize("dtype", ["int16", "float32", "bfloat16", "bool"])
def test_frombuffer(dtype: str) -> None:
    def read(lib: Any) -> Any:
        return lib.frombuffer(bytearray(range(16)), dtype=getattr(lib, dtype), offset=4, count=2)

    if dtype != "bool":
        check(read)
    assert read(jg).shape == (2,)


def test_frombuffer_shares_memory() -> None:
    numbers = array.array("d", [1.0, 2.0])
    x = jg.frombuffer(numbers, dtype=jg.float64, requires_grad=True)
    x.detach().mul_(3)
    assert list(numbers) == [3.0, 6.0]
    with pytest.warns(UserWarning, match="not writable"):
        y = jg.frombuffer(b"abc", dtype=jg.uint8)
    with pytest.raises(RuntimeError, match="read-only|not writable|writ"):
        y.add_(1)


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        (b"", {}, "both buffer length (0) and count"),
        (b"abc", {}, "must be a multiple of element size"),
        (b"abcd", {"offset": 9}, "must be non-negative and no greater than"),
        (b"abcd", {"count": 9}, "must not be greater than actual buffer length"),
    ],
)
def test_frombuffer_checks_sizes(data: bytes, options: dict[str, int], match: str) -> None:
    check_raises(
        lambda lib: lib.frombuffer(bytearray(data), dtype=lib.int16, **options), match=match
    )


def test_from_dlpack_shares_memory() -> None:
    source = np.arange(3.0)
    x = jg.from_dlpack(source)
    x[0] = 7
    assert source[0] == 7
    again = np.from_dlpack(jg.ones(2))
    assert again.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="invalid capsule"):
        jg.from_dlpack(3)


def test_questions() -> None:
    x = jg.zeros(2, 3)
    assert x.is_set_to(x.view(2, 3)) and not x.is_set_to(x.t())
    assert x.is_same_size(jg.ones(2, 3)) and not jg.is_same_size(x, x.t())
    assert x.t().dim_order() == (1, 0)
    assert x.get_device() == -1 and x.is_cpu and not x.is_xpu
    assert x.pin_memory() is x and not x.is_pinned() and not x.is_shared()
    assert jg.is_storage(x.untyped_storage()) and not jg.is_storage(x)
    assert jg.typename(x) == "jitgrad.FloatTensor" and jg.typename(3) == "int"
    assert jg.tensor(2).is_nonzero() and not jg.is_signed(jg.tensor(True))


def test_functions_of_networks_at_the_top() -> None:
    check(lambda lib, x: lib.selu(x) + lib.celu(x) + lib.threshold(x, 0.1, 2.0), (2, 3))
    check(lambda lib, x, w: lib.prelu(x, w), (2, 3), (3,))
    check(lambda lib, x, y: lib.cosine_similarity(x, y), (2, 3), (2, 3))
    check(lambda lib, x, y: 2 * lib.pairwise_distance(x, y), (2, 3), (2, 3))


def test_every_switch_is_a_name_of_the_package() -> None:
    assert all(callable(getattr(jg, name)) for name in settings.__all__)


# Tensors on files ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def test_from_file(name: str, tmp_path: Any) -> None:
    lib = jg if name == "jitgrad" else torch_or_skip()
    path = str(tmp_path / "numbers")
    with pytest.raises(RuntimeError, match="unable to open file"):
        lib.from_file(path, size=3)
    x = lib.from_file(path, shared=True, size=3)
    assert x.tolist() == [0.0] * 3 and (tmp_path / "numbers").stat().st_size == 12
    x.fill_(1.0)
    again = lib.from_file(path, True, 4, dtype=lib.int32)
    assert again.tolist() == [0x3F800000] * 3 + [0]
    again.zero_()
    assert x.tolist() == [0.0] * 3
    private = lib.from_file(path, size=2, requires_grad=True)
    assert private.requires_grad
    private.detach().fill_(5.0)
    assert private.tolist() == [5.0] * 2 and x.tolist() == [0.0] * 3
    assert lib.from_file(path, size=2, dtype=lib.bfloat16).tolist() == [0.0] * 2
    with pytest.raises(RuntimeError, match="is smaller than the required mapping size"):
        lib.from_file(path, False, 10)
    assert lib.from_file(path).shape == (0,)


def test_names_of_the_generator() -> None:
    with jg.random.fork_rng():
        jg.random.manual_seed(3)
        expected = jg.rand(2)
        assert jg.random.initial_seed() == 3
        jg.manual_seed(3)
        assert jg.equal(jg.rand(2), expected)
