"""Tensors as text: torch's own repr, character for character, under every print option."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from jitgrad import printing
from tests.oracle import torch_or_skip

nan, inf = math.nan, math.inf


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    yield
    printing.set_printoptions(profile="default")


def text(values: Any, dtype: str | None = None, **facts: Any) -> str:
    array = np.asarray(values, dtype)
    facts.setdefault("default_dtype", "torch.float32")
    return printing.tensor_text(array, dtype=f"torch.{array.dtype.name}", **facts)


# ------------------------------------------------------------------------------- without torch


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (1.5, "float32", "tensor(1.5000)"),
        (3, "int64", "tensor(3)"),
        (True, "bool", "tensor(True)"),
        ([1, 2], "float32", "tensor([1., 2.])"),
        ([1, 2.5], "float32", "tensor([1.0000, 2.5000])"),
        ([1, -20.25], "float32", "tensor([  1.0000, -20.2500])"),
        ([True, False], "bool", "tensor([ True, False])"),
        ([1, -200], "int16", "tensor([   1, -200], dtype=torch.int16)"),
        ([1, 2], "uint8", "tensor([1, 2], dtype=torch.uint8)"),
        ([1, 2], "float64", "tensor([1., 2.], dtype=torch.float64)"),
        ([nan, 1], "float32", "tensor([nan, 1.])"),
        ([nan, 1.5, -inf], "float32", "tensor([   nan, 1.5000,   -inf])"),
        ([-0.0, 0], "float32", "tensor([-0., 0.])"),
        ([-0.0, 1.5], "float32", "tensor([-0.0000, 1.5000])"),
        ([1, 1000], "float32", "tensor([   1., 1000.])"),
        ([1, 1001], "float32", "tensor([1.0000e+00, 1.0010e+03])"),
        ([1e8], "float64", "tensor([100000000.], dtype=torch.float64)"),
        ([1e9], "float32", "tensor([1.0000e+09])"),
        ([1e-4], "float64", "tensor([0.0001], dtype=torch.float64)"),
        ([1e-5, nan, 0], "float32", "tensor([1.0000e-05,        nan, 0.0000e+00])"),
        ([1.1], "float16", "tensor([1.0996], dtype=torch.float16)"),
        (1 + 2j, "complex64", "tensor(1.+2.j)"),
        ([1 - 2j, 1.5 + 20j], "complex64", "tensor([1.0000-2.j, 1.5000+20.j])"),
        ([complex(nan, 1), complex(1, nan)], "complex64", "tensor([nan+1.j, 1.+nanj])"),
        ([complex(0, -0.0)], "complex128", "tensor([0.-0.j], dtype=torch.complex128)"),
        ([], "float32", "tensor([])"),
        ([], "int64", "tensor([], dtype=torch.int64)"),
        (np.zeros((0, 3)), "float32", "tensor([], size=(0, 3))"),
        (np.zeros((2, 0)), "int32", "tensor([], size=(2, 0), dtype=torch.int32)"),
        ([[1, 2], [3, 4]], "float32", "tensor([[1., 2.],\n        [3., 4.]])"),
        (
            np.zeros((2, 1, 2)),
            "int64",
            "tensor([[[0, 0]],\n\n        [[0, 0]]])",
        ),
        (np.arange(2000), "int64", "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
        (
            np.arange(2000).reshape(1000, 2),
            "int64",
            "tensor([[   0,    1],\n        [   2,    3],\n        [   4,    5],\n        ...,\n"
            "        [1994, 1995],\n        [1996, 1997],\n        [1998, 1999]])",
        ),
    ],
)
def test_values(values: Any, dtype: str, expected: str) -> None:
    assert text(values, dtype) == expected


ONES = "tensor([" + "1., " * 14 + "1.]"


@pytest.mark.parametrize(
    ("n", "facts", "expected"),
    [
        (1, {"requires_grad": True}, "tensor([1.], requires_grad=True)"),
        (1, {"grad_fn": "AddBackward0"}, "tensor([1.], grad_fn=<AddBackward0>)"),
        (
            1,
            {"grad_fn": "AddBackward0", "requires_grad": True},
            "tensor([1.], grad_fn=<AddBackward0>)",
        ),
        (15, {"requires_grad": True}, ONES + ",\n       requires_grad=True)"),
        (
            1,
            {"default_dtype": "torch.float64", "requires_grad": True},
            "tensor([1.], dtype=torch.float32, requires_grad=True)",
        ),
        (1, {"device": "cuda:0"}, "tensor([1.], device='cuda:0')"),
        (1, {"tangent": "tensor([2.])"}, "tensor([1.], tangent=tensor([2.]))"),
        (1, {"prefix": "Image("}, "Image([1.])"),
    ],
)
def test_facts(n: int, facts: dict[str, Any], expected: str) -> None:
    assert text(np.ones(n), "float32", **facts) == expected


def test_the_dtype_is_printed_as_given() -> None:
    spelled = printing.tensor_text(
        np.ones(1), dtype="jitgrad.float64", default_dtype="jitgrad.float32"
    )
    assert spelled == "tensor([1.], dtype=jitgrad.float64)"


def test_bfloat16_values_come_as_float32() -> None:
    spelled = printing.tensor_text(
        np.array([1.1015625], np.float32), dtype="torch.bfloat16", default_dtype="torch.float32"
    )
    assert spelled == "tensor([1.1016], dtype=torch.bfloat16)"


def test_without_data() -> None:
    spelled = printing.tensor_text(
        None, dtype="torch.int64", default_dtype="torch.float32", device="meta", size=(2, 3)
    )
    assert spelled == "tensor(..., device='meta', size=(2, 3), dtype=torch.int64)"


def test_options() -> None:
    printing.set_printoptions(precision=2)
    assert text([1.234], "float32") == "tensor([1.23])"
    printing.set_printoptions(sci_mode=True)
    assert text([1.234], "float32") == "tensor([1.23e+00])"
    printing.set_printoptions(linewidth=5)  # and sci_mode goes back to None
    assert text([1.234, 2], "float32") == "tensor([1.23,\n        2.00])"
    printing.set_printoptions(profile="short", linewidth=100)
    assert text(np.arange(1001), "int64") == "tensor([   0,    1,  ...,  999, 1000])"
    printing.set_printoptions(profile="full")
    assert "..." not in text(np.arange(1001), "int64")
    printing.set_printoptions(profile="default", threshold=3, edgeitems=1)
    assert text(np.arange(10), "int64") == "tensor([0,  ..., 9])"
    printing.set_printoptions(edgeitems=0)
    assert text(np.arange(10), "int64") == "tensor([...], size=(10,))"


def test_printoptions_ends_with_its_block() -> None:
    printing.set_printoptions(precision=3, sci_mode=False)
    with pytest.raises(KeyError), printing.printoptions(precision=1):
        assert text([1e9, 1.25], "float64").startswith("tensor([1000000000.0,")
        raise KeyError
    assert text([1.25], "float32") == "tensor([1.250])"


# --------------------------------------------------------------------------------- against torch


@pytest.fixture
def torch() -> Iterator[Any]:
    library = torch_or_skip()
    default = library.get_default_dtype()
    yield library
    library.set_printoptions(profile="default")
    library.set_default_dtype(default)


def ours(torch: Any, tensor: Any) -> str:
    """What `tensor_text` makes of a torch tensor's values and facts."""
    values = tensor.detach()
    values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return printing.tensor_text(
        values,
        dtype=str(tensor.dtype),
        default_dtype=str(torch.get_default_dtype()),
        requires_grad=tensor.requires_grad,
        grad_fn=None if tensor.grad_fn is None else type(tensor.grad_fn).__name__,
    )


OPTIONS: list[dict[str, Any]] = [
    {},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "no such profile", "precision": 0},
    {"precision": 8, "linewidth": 120},
    {"linewidth": 5},
    {"linewidth": 77, "threshold": 0},
    {"edgeitems": 1, "threshold": 5},
    {"edgeitems": 0, "threshold": 5},
    {"sci_mode": True, "precision": 1},
    {"sci_mode": False, "precision": 3},
]
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DISCRETE = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16")
SHAPES = ((), (0,), (1,), (14,), (15,), (17,), (1001,), (0, 3), (3, 5), (30, 40), (8, 8, 8, 2))


def cases(torch: Any, dtype: str) -> Iterator[Any]:
    """Tensors of a dtype: many shapes, scales, whole numbers, special values, grad or not."""
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(0)
    for shape in SHAPES:
        if dtype in DISCRETE:
            low, high = (0, 2) if dtype == "bool" else (-99, 100)
            for scale in (1, 10_000):
                tensor = torch.randint(low * scale, high * scale, shape, generator=generator)
                yield tensor.to(kind)
            continue
        working = torch.complex128 if dtype in COMPLEX else torch.float64
        base = torch.randn(shape, dtype=working, generator=generator)
        spread = torch.randn(shape, dtype=torch.float64, generator=generator) * 3
        parts = torch.view_as_real(base) if dtype in COMPLEX else base
        whole = (parts * 50).round()
        whole = torch.view_as_complex(whole) if dtype in COMPLEX else whole
        for values in (base, base * 1e-6, base * 3e4, base * 1e9, base * 10**spread, whole):
            yield values.to(kind)
        for special in (0.0, -0.0, nan, inf, -inf, 1e-5):
            values = whole.clone().reshape(-1)
            values[: len(values) // 2] = complex(special, -special) if dtype in COMPLEX else special
            yield values.reshape(shape).to(kind)
        yield base.to(kind).requires_grad_()
        yield base.to(kind).requires_grad_() * 2
        yield base.to(kind).t() if len(shape) == 2 else base.to(kind).requires_grad_().sum()


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, *DISCRETE])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_repr_as_torch(torch: Any, dtype: str, options: dict[str, Any]) -> None:
    torch.set_printoptions(**options)
    printing.set_printoptions(**options)
    for tensor in cases(torch, dtype):
        assert ours(torch, tensor) == repr(tensor)


@pytest.mark.oracle
@pytest.mark.parametrize("default", FLOATS)
def test_default_dtype_as_torch(torch: Any, default: str) -> None:
    torch.set_default_dtype(getattr(torch, default))
    for dtype in (*FLOATS, *COMPLEX, *DISCRETE):
        for shape in ((2,), (0,), (0, 2), ()):
            tensor = torch.ones(shape, dtype=getattr(torch, dtype))
            assert ours(torch, tensor) == repr(tensor)


@pytest.mark.oracle
def test_options_persist_as_in_torch(torch: Any) -> None:
    tensor = torch.linspace(0, 1, 1500).reshape(3, 500)
    for options in (*OPTIONS, {}, {"precision": 2}, {"threshold": 9}, {"profile": "short"}, {}):
        torch.set_printoptions(**options)
        printing.set_printoptions(**options)
        assert ours(torch, tensor) == repr(tensor)
        assert ours(torch, tensor[0, 1]) == repr(tensor[0, 1])


@pytest.mark.oracle
@pytest.mark.parametrize("options", [{"precision": -1}, {"precision": 2.5}, {"threshold": "a"}])
def test_bad_options_fail_as_in_torch(torch: Any, options: dict[str, Any]) -> None:
    tensor = torch.tensor([1.5])
    torch.set_printoptions(**options)
    printing.set_printoptions(**options)
    with pytest.raises((TypeError, ValueError)) as theirs:
        repr(tensor)
    with pytest.raises(theirs.type) as raised:
        ours(torch, tensor)
    assert str(raised.value) == str(theirs.value)


@pytest.mark.oracle
def test_meta_subclass_and_tangent_as_torch(torch: Any) -> None:
    for shape in ((), (3,), (2, 2)):
        tensor = torch.zeros(shape, dtype=torch.float64, device="meta", requires_grad=True)
        spelled = printing.tensor_text(
            None,
            dtype="torch.float64",
            default_dtype="torch.float32",
            device="meta",
            size=shape,
            requires_grad=True,
        )
        assert spelled == repr(tensor)

    class Image(torch.Tensor):
        pass

    tensor = torch.rand(3, 30).as_subclass(Image)
    assert text(tensor.numpy(), prefix="Image(") == repr(tensor)

    dual = torch.autograd.forward_ad
    with dual.dual_level():
        for shape in ((3,), (13,), (13, 2)):
            primal = torch.ones(shape, requires_grad=True) * 1.5
            tensor = dual.make_dual(primal, torch.ones(shape))
            tangent = repr(dual.unpack_dual(tensor).tangent)
            name = type(tensor.grad_fn).__name__
            spelled = text(primal.detach().numpy(), grad_fn=name, tangent=tangent)
            assert spelled == repr(tensor)


@pytest.mark.oracle
@given(
    st.sampled_from(["float16", "float32", "float64", "complex64", "int32", "int64", "bool"]),
    st.fixed_dictionaries(
        {
            "precision": st.integers(0, 9),
            "threshold": st.integers(0, 40),
            "edgeitems": st.integers(0, 4),
            "linewidth": st.integers(1, 120),
            "sci_mode": st.sampled_from([None, True, False]),
        }
    ),
    st.data(),
)
def test_any_array_as_torch(dtype: str, options: dict[str, Any], data: st.DataObject) -> None:
    torch = torch_or_skip()
    shape = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
    values = data.draw(hnp.arrays(dtype, shape))
    tensor = torch.from_numpy(values)
    try:
        torch.set_printoptions(**options)
        printing.set_printoptions(**options)
        assert ours(torch, tensor) == repr(tensor)
    finally:
        torch.set_printoptions(profile="default")
        printing.set_printoptions(profile="default")
