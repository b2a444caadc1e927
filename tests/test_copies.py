"""Copies, casts, overwriting, and tensors that change their memory, against torch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.compare import check, check_raises
from tests.oracle.inputs import arg

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")
CASTS = ("bool", "byte", "char", "short", "int", "long", "float", "double")


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype: str) -> None:
    spec = arg((2, 3), dtype=dtype, low=0, high=3 if dtype != "bool" else 1, layout="transposed")

    def cast(lib: Any, x: Any) -> Any:
        return [getattr(x, name)() for name in CASTS], [x.to(getattr(lib, d)) for d in DTYPES]

    check(cast, spec, grad=1)
    check(lambda lib, x: x.type(lib.float64), spec)
    check(lambda lib, x: (x.type_as(lib.ones(1)), x.type(f"{lib.__name__}.DoubleTensor")), spec)
    check(lambda lib, x: x.type().split(".")[-1], spec)


def test_float_to_int_truncates_and_wraps() -> None:
    values = [-2.7, -0.5, 0.0, 0.5, 2.7, 100.0]
    check(lambda lib, x: [x.to(getattr(lib, d)) for d in DTYPES], arg(values), grad=1)
    check(lambda lib, x: [x.to(getattr(lib, d)) for d in DTYPES], arg([300, -1]))


TO: dict[str, Any] = {
    "same": lambda lib, x: x.to(x.dtype) is x,
    "copy": lambda lib, x: x.to(x.dtype, copy=True),
    "device": lambda lib, x: x.to("cpu") is x,
    "device object": lambda lib, x: x.to(lib.device("cpu"), lib.float32),
    "keyword": lambda lib, x: x.to(dtype=lib.float32),
    "device keyword": lambda lib, x: x.to(device="cpu", dtype=lib.float32),
    "other": lambda lib, x: x.to(lib.ones(1, dtype=lib.int32)),
    "cpu": lambda lib, x: x.cpu() is x,
    "non_blocking": lambda lib, x: x.to(lib.float32, non_blocking=True),
    "contiguous": lambda lib, x: x.to(lib.float32, memory_format=lib.contiguous_format),
    "positional copy": lambda lib, x: x.to(lib.float64, False, True),
    "int": lambda lib, x: x.to(lib.int64),
    "int and back": lambda lib, x: x.long().double(),
    "chain": lambda lib, x: (x.float() * x.double()).float(),
    "type_as": lambda lib, x: x.type_as(x) is x,
}


@pytest.mark.parametrize("name", TO)
def test_to(name: str) -> None:
    check(TO[name], arg((2, 3), layout="transposed"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gapped", "expanded"])
@pytest.mark.parametrize("memory", ["default", "preserve_format", "contiguous_format"])
def test_clone(layout: str, memory: str) -> None:
    def clone(lib: Any, x: Any) -> Any:
        return x.clone() if memory == "default" else x.clone(memory_format=getattr(lib, memory))

    check(clone, arg((2, 3, 4), layout=layout), exact=True)
    check(lambda lib, x: lib.clone(x), arg((2, 3, 4), layout=layout), exact=True)
    check(lambda lib, x: x.contiguous(), arg((2, 3, 4), layout=layout), exact=True)
    check(lambda lib, x: (x.is_contiguous(), x.contiguous() is x), arg((2, 3, 4), layout=layout))


def test_clones_of_little() -> None:
    check(lambda lib, x: x.clone(), (), exact=True)
    check(lambda lib, x: x.clone(), (0, 3), exact=True)
    check(lambda lib, x: x.clone(), arg((3,), dtype="bool"), exact=True)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", ["bool", "uint8", "int32", "float32", "float64"])
def test_copy_between_dtypes(source: str, target: str) -> None:
    def copy(lib: Any, x: Any) -> Any:
        y = lib.zeros((2, 3), dtype=getattr(lib, target))
        return y.copy_(x)

    check(copy, arg((2, 3), dtype=source, low=0, high=1 if source == "bool" else 3), grad=1)


COPIES: dict[str, Any] = {
    "broadcast": lambda lib, x, y: (x * 1).copy_(y[0]),
    "into view": lambda lib, x, y: (x * 1)[:, 1:].copy_(y[:, :1]),
    "through view": lambda lib, x, y: (lambda z: (z[0].copy_(y[1]), z))(x * 1),
    "transposed": lambda lib, x, y: (x * 1).t().copy_(y.t()),
    "plain target": lambda lib, x, y: lib.zeros(2, 3, dtype=lib.float64).copy_(y),
    "plain view": lambda lib, x, y: (lambda z: (z[0].copy_(y[1]), z))(
        lib.zeros(2, 3, dtype=lib.float64)),
    "cast": lambda lib, x, y: (x.float() * 1).copy_(y),
    "number": lambda lib, x, y: (x * 1).copy_(3),
    "itself": lambda lib, x, y: (lambda z: z.copy_(z))(x * 1),
    "number source": lambda lib, x, y: (x * 1).copy_(lib.tensor(3)),
    "0-d source": lambda lib, x, y: (x * 1).copy_(y[0, 0]),
    "overlapping rows": lambda lib, x, y: (lambda z: (z[:, ::2].copy_(z[:, 1:].clone()), z))(x * 1),
    "fill number": lambda lib, x, y: (x * 1).fill_(2),
    "fill tensor": lambda lib, x, y: (x * 1).fill_(y[0, 0]),
    "fill view": lambda lib, x, y: (lambda z: (z[1].fill_(3.5), z))(x * 1),
    "zero": lambda lib, x, y: (x * 1).zero_() + y,
    "zero view": lambda lib, x, y: (lambda z: (z[:, 0].zero_(), z))(x * 1),
    "masked": lambda lib, x, y: (x * 1).masked_fill_(y > 0, 2.0),
    "setitem": lambda lib, x, y: (lambda z: (z.__setitem__((slice(None), 1), y[:, 0]), z))(x * 1),
    "setitem number": lambda lib, x, y: (lambda z: (z.__setitem__(0, 5), z))(x * 1),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_overwriting(name: str) -> None:
    check(COPIES[name], (2, 3), (2, 3), rtol=1e-6, atol=1e-6)


def test_versions_of_writes() -> None:
    def versions(lib: Any) -> Any:
        x = lib.zeros(3, 4)
        seen = []
        for write in (
            lambda: x.zero_(), lambda: x.fill_(1), lambda: x.copy_(lib.ones(4)), lambda: x.copy_(x),
            lambda: x[0].add_(1), lambda: x.requires_grad_(), lambda: x.detach_(),
            lambda: x.resize_(3, 4), lambda: x.resize_(2, 2), lambda: x.t_(),
            lambda: x.data.add_(1),
            lambda: lib.add(x.detach(), 1, out=x), lambda: x.__setitem__(0, 1),
            lambda: x.set_(lib.ones(2)), lambda: x.numpy().fill(3), lambda: x.detach().mul_(2),
        ):  # fmt: skip
            write()
            seen.append((x._version, tuple(x.shape)))
        return seen, x

    check(versions)


ERRORS: dict[str, tuple[Any, str]] = {
    "copy shape": (lambda lib, x: lib.zeros(2).copy_(lib.zeros(3)), "must match"),
    "copy larger": (lambda lib, x: lib.zeros(3).copy_(lib.zeros(2, 3)), "doesn't match the"),
    "copy str": (lambda lib, x: lib.zeros(2).copy_("a"), "copy_(): argument 'other'"),
    "copy leaf": (lambda lib, x: x.copy_(lib.zeros(3)), "a leaf Variable that requires grad"),
    "zero leaf": (lambda lib, x: x.zero_(), "a leaf Variable that requires grad"),
    "fill leaf view": (lambda lib, x: x[:1].fill_(1), "a view of a leaf Variable"),
    "fill shape": (lambda lib, x: lib.zeros(3).fill_(lib.ones(2)), "fill_ only supports 0-dim"),
    "fill str": (lambda lib, x: lib.zeros(3).fill_("a"), "fill_"),
    "copy expanded": (lambda lib, x: lib.zeros(1).expand(3).copy_(lib.ones(3)), "single memory"),
    "resize grad": (lambda lib, x: x.resize_(5), "cannot resize variables that require grad"),
    "resize negative": (lambda lib, x: lib.zeros(2).resize_(-1), ""),
    "to unknown type": (lambda lib, x: x.type("jitgrad.Tensor3"), "invalid type"),
    "to keyword": (lambda lib, x: x.to(colour=1), "colour"),
    "data int": (lambda lib, x: setattr(x, "data", lib.ones(3).long()), "must be floating point"),
    "grad shape": (lambda lib, x: setattr(x, "grad", lib.ones(2).double()), "a gradient of size"),
    "grad dtype": (lambda lib, x: setattr(x, "grad", lib.ones(3)), "a gradient with dtype"),
    "grad number": (lambda lib, x: setattr(x, "grad", 1.0), "to be a Tensor or None"),
    "grad itself": (lambda lib, x: setattr(x, "grad", x), "as its own grad"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fn, phrase = ERRORS[name]
    check_raises(fn, (3,), match=phrase)


def test_data_shares_memory_without_the_counter() -> None:
    def read(lib: Any, x: Any) -> Any:
        y = x * 1
        d = y.data
        d.add_(1)
        return y, d.requires_grad, d._version, y._version, d._is_view(), (y * y.data)

    check(read, (3,))

    def hole(lib: Any, x: Any) -> Any:
        y = x * 1
        z = y * y
        y.data.zero_()
        return lib.autograd.grad(z.sum(), x)[0]

    check(hole, (3,), grad=0)


def test_data_takes_over_memory() -> None:
    def assign(lib: Any, x: Any) -> Any:
        view = x.detach()[:1]
        x.data.add_(1)
        other = lib.full((2, 2), 3.0, dtype=lib.float64)
        version = x._version
        x.data = other
        x.data[0, 0] = 9
        (x * 2).sum().backward()
        return view, x.shape, x.is_leaf, x.requires_grad, x._version == version, x.grad, other

    check(assign, (3,), grad=0, version=False)

    def dtype(lib: Any, x: Any) -> Any:
        x.data = x.data.float()
        (x * x).sum().backward()
        return x.dtype, x.grad

    check(dtype, (3,), grad=0, version=False)


def test_resize() -> None:
    def resize(lib: Any) -> Any:
        x = lib.arange(6)
        seen = [x.resize_(2, 2).tolist(), x.storage_offset(), x.untyped_storage().nbytes()]
        y = lib.arange(6)[2:]
        seen += [y.resize_(2).tolist(), y.resize_((4,)).tolist(), y.storage_offset()]
        z = lib.arange(4).reshape(2, 2).t()
        seen += [z.resize_(4).tolist(), z.stride(), lib.zeros(2).resize_(0).shape]
        w = lib.arange(3)
        w.resize_as_(lib.zeros(2, 1))
        return seen, w, lib.zeros(3).resize_(3, 3).shape

    check(resize)


def test_set() -> None:
    def adopt(lib: Any) -> Any:
        x, y = lib.zeros(3), lib.arange(4.0)
        x.set_(y)
        y[0] = 7
        z = lib.zeros(1).set_(y.untyped_storage(), 1, (2,), (2,))
        return x, z, x._version, lib.zeros(2).set_()

    check(adopt)


def test_gradients_of_casts() -> None:
    check(lambda lib, x, y: x.float() * y, arg((2, 3)), arg((2, 3), dtype="float32"), rtol=1e-5,
          atol=1e-5)  # fmt: skip
    check(lambda lib, x: x.to(lib.float32).to(lib.float64) ** 2, (3,), rtol=1e-5, atol=1e-5)
    check(lambda lib, x: lib.where(x > 0, x.float(), 0.0).sum(), (3,), rtol=1e-5, atol=1e-5)
