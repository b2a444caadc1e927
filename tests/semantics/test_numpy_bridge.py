"""To NumPy and back: rules B1 and B2 of the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.semantics.common import f64, leaf


# B1: to NumPy -------------------------------------------------------------------------------------
def test_numpy_shares_memory_and_counts_nothing(lib: Any) -> None:
    x = f64(lib, [1.0, 2.0, 3.0])
    array = x.numpy()
    array[0] = 7
    x[1] = 8
    assert x.tolist() == array.tolist() == [7.0, 8.0, 3.0]
    assert x._version == 1
    assert np.shares_memory(np.asarray(x), array)


def test_numpy_of_views(lib: Any) -> None:
    x = f64(lib, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert x.t()[1:].numpy().strides == (8, 24)
    assert x[:, 1].numpy().tolist() == [2.0, 5.0]


def test_numpy_of_what_requires_grad(lib: Any) -> None:
    t = leaf(lib)
    for make in (lambda: t.numpy(), lambda: np.asarray(t), lambda: (t * 2).numpy()):
        with pytest.raises(
            RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"
        ):
            make()
    assert t.numpy(force=True).tolist() == [1.0, 2.0, 3.0]
    assert t.detach().numpy().tolist() == [1.0, 2.0, 3.0]


def test_an_exported_tensor_cannot_grow(lib: Any) -> None:
    x = f64(lib, [1.0, 2.0])
    x.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(10)


def test_a_write_by_numpy_goes_unnoticed(lib: Any) -> None:
    t = leaf(lib)
    b = t * 1
    y = b * b
    b.detach().numpy()[...] = 0
    y.sum().backward()
    assert t.grad.tolist() == [0.0, 0.0, 0.0]


# B2: from NumPy -----------------------------------------------------------------------------------
def test_from_numpy_shares_memory(lib: Any) -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = lib.from_numpy(array.T)
    assert (x.dtype, x.shape, x.stride()) == (lib.float64, (3, 2), (1, 3))
    x[0, 1] = 9
    assert array[1, 0] == 9
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(50)


def test_what_from_numpy_refuses(lib: Any) -> None:
    with pytest.raises(TypeError, match="expected np.ndarray"):
        lib.from_numpy([1.0])
    with pytest.raises(ValueError, match="negative"):
        lib.from_numpy(np.arange(3.0)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        lib.from_numpy(np.arange(3.0).astype(">f8"))
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.object_"):
        lib.from_numpy(np.array([None]))


def test_read_only_arrays_warn(lib: Any) -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        lib.from_numpy(array)


def test_dlpack_of_what_requires_grad(lib: Any) -> None:
    with pytest.raises(BufferError, match="require"):
        leaf(lib).__dlpack__()
    x = f64(lib, [1.0, 2.0])
    assert np.shares_memory(np.from_dlpack(x), x.numpy())


# B2: single values --------------------------------------------------------------------------------
def test_values(lib: Any) -> None:
    x = f64(lib, [1.0, 2.0])
    assert (x[0].item(), float(x[1]), int(x[1]), bool(x[0])) == (1.0, 2.0, 2, True)
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()
    with pytest.raises(RuntimeError, match="is ambiguous"):
        bool(x)
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(x[0])
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(x[0])


def test_as_tensor_and_tensor(lib: Any) -> None:
    t = leaf(lib)
    assert lib.as_tensor(t) is t
    with pytest.warns(UserWarning, match="it is recommended to use"):
        copied = lib.tensor(t)
    assert (copied.requires_grad, copied.data_ptr() == t.data_ptr()) == (False, False)
    array = np.arange(3.0)
    assert lib.as_tensor(array).data_ptr() == array.ctypes.data
