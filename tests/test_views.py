"""Views against torch: geometry, sharing, history, gradients, errors and in-place forms."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad
from tests.oracle.compare import check, check_raises
from tests.oracle.inputs import arg

LAYOUTS = ("contiguous", "transposed", "gapped", "offset")

# name: (shape, call). Each is a view of its input whatever the input's strides.
VIEWS: dict[str, tuple[tuple[int, ...], Any]] = {
    "view": ((2, 3), lambda x: x.view(2, 1, 3, 1)),
    "view same": ((2, 3), lambda x: x.view(2, 3)),
    "view_as": ((2, 3), lambda x: x.view_as(x)),
    "view 0-d": ((), lambda x: x.view(1, 1)),
    "view to 0-d": ((1, 1), lambda x: x.view(())),
    "view empty": ((0, 3), lambda x: x.view(3, 0, 5)),
    "t": ((2, 3), lambda x: x.t()),
    "t 1-d": ((3,), lambda x: x.t()),
    "t 0-d": ((), lambda x: x.t()),
    "T": ((2, 3), lambda x: x.T),
    "mT": ((2, 3, 4), lambda x: x.mT),
    "transpose": ((2, 3, 4), lambda x: x.transpose(0, 2)),
    "transpose negative": ((2, 3, 4), lambda x: x.transpose(-1, 1)),
    "transpose 0-d": ((), lambda x: x.transpose(0, -1)),
    "swapaxes": ((2, 3), lambda x: x.swapaxes(0, 1)),
    "swapdims": ((2, 3), lambda x: x.swapdims(0, 1)),
    "permute": ((2, 3, 4), lambda x: x.permute(2, 0, 1)),
    "permute tuple": ((2, 3, 4), lambda x: x.permute((-1, 0, -2))),
    "permute 0-d": ((), lambda x: x.permute(())),
    "movedim": ((2, 3, 4), lambda x: x.movedim(0, -1)),
    "movedim tuples": ((2, 3, 4), lambda x: x.movedim((0, 1), (2, 0))),
    "moveaxis": ((2, 3, 4), lambda x: x.moveaxis(2, 0)),
    "expand": ((3, 1), lambda x: x.expand(2, 3, 4)),
    "expand -1": ((3, 1), lambda x: x.expand(-1, 4)),
    "expand ones": ((3, 1), lambda x: x.expand(1, 1, 3, 1)),
    "expand 0-d": ((), lambda x: x.expand(2, 3)),
    "expand to empty": ((1, 3), lambda x: x.expand(0, 3)),
    "expand_as": ((3, 1), lambda x: x.expand_as(x.detach().expand(2, 3, 5))),
    "broadcast_to": ((3, 1), lambda x: x.broadcast_to((2, 3, 2))),
    "squeeze": ((1, 3, 1, 2), lambda x: x.squeeze()),
    "squeeze nothing": ((3, 2), lambda x: x.squeeze()),
    "squeeze 0-d": ((), lambda x: x.squeeze()),
    "squeeze dim": ((1, 3, 1), lambda x: x.squeeze(-1)),
    "squeeze dim kept": ((1, 3, 1), lambda x: x.squeeze(1)),
    "squeeze dim 0-d": ((), lambda x: x.squeeze(0)),
    "squeeze dims": ((1, 3, 1, 1), lambda x: x.squeeze((0, -1))),
    "squeeze dims empty": ((1, 3), lambda x: x.squeeze(())),
    "unsqueeze": ((2, 3), lambda x: x.unsqueeze(1)),
    "unsqueeze last": ((2, 3), lambda x: x.unsqueeze(-1)),
    "unsqueeze 0-d": ((), lambda x: x.unsqueeze(0)),
    "narrow": ((4, 3), lambda x: x.narrow(0, 1, 2)),
    "narrow negative": ((4, 3), lambda x: x.narrow(-1, -2, 1)),
    "narrow nothing": ((4, 3), lambda x: x.narrow(0, 4, 0)),
    "select": ((4, 3), lambda x: x.select(1, 2)),
    "select negative": ((4, 3), lambda x: x.select(0, -1)),
    "slice": ((5, 3), lambda x: x[1:4]),
    "slice step": ((7, 3), lambda x: x[1::3]),
    "slice clamped": ((4, 3), lambda x: x[-10:10, 3:1]),
    "slices and ints": ((4, 3, 5), lambda x: x[1, ..., ::2]),
    "none": ((2, 3), lambda x: x[None, :, None]),
    "ellipsis": ((2, 3), lambda x: x[...]),
    "diagonal": ((3, 4), lambda x: x.diagonal()),
    "diagonal above": ((3, 4, 2), lambda x: x.diagonal(1, 0, 1)),
    "diagonal below": ((2, 4, 3), lambda x: x.diagonal(-1, -2, -1)),
    "diagonal outside": ((3, 3), lambda x: x.diagonal(5)),
    "unfold": ((5, 2), lambda x: x.unfold(0, 3, 1)),
    "unfold apart": ((7,), lambda x: x.unfold(-1, 2, 3)),
    "unfold 0-d": ((), lambda x: x.unfold(0, 1, 1)),
    "unfold size 0": ((3,), lambda x: x.unfold(0, 0, 2)),
    "detach": ((2, 3), lambda x: x.detach()),
    "unflatten": ((6, 2), lambda x: x.unflatten(0, (2, -1))),
    "split": ((5, 2), lambda x: x.split(2)),
    "split dim": ((2, 5), lambda x: x.split(3, dim=1)),
    "split whole": ((2, 2), lambda x: x.split(9)),
    "split list": ((5, 2), lambda x: x.split([1, 0, 4])),
    "split empty": ((0, 2), lambda x: x.split(3)),
    "split_with_sizes": ((2, 5), lambda x: x.split_with_sizes([2, 3], -1)),
    "chunk": ((5, 2), lambda x: x.chunk(3)),
    "chunk fewer": ((4, 2), lambda x: x.chunk(3)),
    "chunk empty": ((0, 2), lambda x: x.chunk(2)),
    "tensor_split": ((7, 2), lambda x: x.tensor_split(3)),
    "tensor_split indices": ((7, 2), lambda x: x.tensor_split((2, -1))),
    "unbind": ((3, 2), lambda x: x.unbind()),
    "unbind dim": ((3, 2), lambda x: x.unbind(-1)),
    "iteration": ((3, 2), lambda x: tuple(x)),
    "hsplit": ((2, 4), lambda x: x.hsplit(2)),
    "hsplit 1-d": ((5,), lambda x: x.hsplit([1, 3])),
    "vsplit": ((4, 2), lambda x: x.vsplit((1, 2))),
    "dsplit": ((2, 1, 4), lambda x: x.dsplit(2)),
    "adjoint": ((2, 3, 4), lambda x: x.adjoint()),
    "H": ((2, 3), lambda x: x.H),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str, layout: str) -> None:
    shape, call = VIEWS[name]
    if name.startswith(("view to", "view empty")) and layout in ("gapped",) and 0 not in shape:
        layout = "contiguous"
    # On a leaf and on a view of a tensor with history: bases, offsets and nodes of both.
    check(lambda lib, x: call(x), arg(shape, layout=layout), exact=True)
    check(lambda lib, x: call((x * 2)[...]), arg(shape, layout=layout), offset=True)


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_ints_have_no_history(name: str) -> None:
    shape, call = VIEWS[name]
    check(lambda lib, x: call(x), arg(shape, dtype="int32"), exact=True, offset=True)


RESHAPES: dict[str, tuple[tuple[int, ...], Any]] = {
    "reshape": ((2, 3, 4), lambda x: x.reshape(6, 4)),
    "reshape -1": ((2, 3, 4), lambda x: x.reshape(-1, 2)),
    "reshape same": ((2, 3), lambda x: x.reshape((2, 3))),
    "reshape empty": ((0, 3), lambda x: x.reshape(-1, 3)),
    "reshape_as": ((2, 3), lambda x: x.reshape_as(x.detach().t())),
    "flatten": ((2, 3, 4), lambda x: x.flatten()),
    "flatten some": ((2, 3, 4), lambda x: x.flatten(1)),
    "flatten first": ((2, 3, 4), lambda x: x.flatten(0, -2)),
    "flatten one": ((2, 3), lambda x: x.flatten(1, 1)),
    "flatten 1-d": ((3,), lambda x: x.flatten()),
    "flatten 0-d": ((), lambda x: x.flatten()),
    "flatten empty": ((2, 0, 3), lambda x: x.flatten()),
    "ravel": ((2, 3), lambda x: x.ravel()),
    "contiguous": ((2, 3), lambda x: x.contiguous()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RESHAPES)
def test_views_where_strides_allow(name: str, layout: str) -> None:
    shape, call = RESHAPES[name]
    check(lambda lib, x: call(x), arg(shape, layout=layout), exact=True)


AS_STRIDED: dict[str, tuple[tuple[int, ...], tuple[int, ...], int | None]] = {
    "gaps": ((2, 2), (3, 1), None),
    "offset": ((2, 2), (1, 3), 1),
    "overlapping": ((3, 3), (1, 1), 2),
    "expanded": ((2, 3), (0, 1), 0),
    "0-d": ((), (), 3),
    "empty": ((0, 2), (1, 1), None),
}


@pytest.mark.parametrize("name", AS_STRIDED)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_strided(name: str, layout: str) -> None:
    if layout == "offset" and name != "empty":
        pytest.skip("its gradient would lie outside the tensor")
    check(lambda lib, x: x.as_strided(*AS_STRIDED[name]), arg((3, 4), layout=layout))


def test_as_strided_of_an_overlapping_input() -> None:
    def twice(lib: Any, x: Any) -> Any:
        y = (x * 1).expand(3, 4)
        return lib.as_strided(y, (2, 3), (0, 1))

    check(twice, (1, 4))


FUNCTIONS: dict[str, Any] = {
    "reshape": lambda lib, x: lib.reshape(x, (6, 4)),
    "reshape keyword": lambda lib, x: lib.reshape(x, shape=(6, 4)),
    "flatten": lambda lib, x: lib.flatten(x, start_dim=1, end_dim=2),
    "unflatten": lambda lib, x: lib.unflatten(x, 2, (2, 2)),
    "transpose": lambda lib, x: lib.transpose(x, dim0=0, dim1=1),
    "transpose method": lambda lib, x: x.transpose(dim0=0, dim1=1),
    "swapaxes": lambda lib, x: lib.swapaxes(x, 0, 1),
    "swapdims": lambda lib, x: lib.swapdims(x, 0, 1),
    "permute": lambda lib, x: lib.permute(x, (2, 1, 0)),
    "permute keyword": lambda lib, x: x.permute(dims=(2, 1, 0)),
    "movedim": lambda lib, x: lib.movedim(x, source=0, destination=1),
    "moveaxis": lambda lib, x: lib.moveaxis(x, 0, 1),
    "broadcast_to": lambda lib, x: lib.broadcast_to(x, (2, 2, 3, 4)),
    "squeeze": lambda lib, x: lib.squeeze(x[:1], dim=0),
    "unsqueeze": lambda lib, x: lib.unsqueeze(x, dim=0),
    "select": lambda lib, x: lib.select(x, dim=0, index=1),
    "narrow": lambda lib, x: lib.narrow(x, dim=1, start=0, length=2),
    "narrow tensor": lambda lib, x: lib.narrow(x, 1, lib.tensor(1), 2),
    "diagonal": lambda lib, x: lib.diagonal(x, offset=1, dim1=1, dim2=2),
    "unfold": lambda lib, x: x.unfold(dimension=1, size=2, step=1),
    "view size": lambda lib, x: x.view(size=(6, 4)),
    "view list": lambda lib, x: x.view([6, 4]),
    "view Size": lambda lib, x: (x * 1).view(lib.Size([6, 4])),
    "view tensors": lambda lib, x: (x * 1).view(lib.tensor(6), 4),
    "expand size": lambda lib, x: x.expand(size=(2, 2, 3, 4)),
    "split": lambda lib, x: lib.split(x, split_size_or_sections=2, dim=2),
    "split method": lambda lib, x: x.split(split_size=2, dim=2),
    "chunk": lambda lib, x: lib.chunk(x, chunks=2, dim=2),
    "tensor_split": lambda lib, x: lib.tensor_split(x, 2, dim=2),
    "tensor_split tensor": lambda lib, x: lib.tensor_split(x, lib.tensor([1, 3]), dim=2),
    "unbind": lambda lib, x: lib.unbind(x, dim=1),
    "hsplit": lambda lib, x: lib.hsplit(x, 3),
    "vsplit": lambda lib, x: lib.vsplit(x, 2),
    "dsplit": lambda lib, x: lib.dsplit(x, [1]),
    "detach": lambda lib, x: lib.detach(x),
    "ravel": lambda lib, x: lib.ravel(x),
    "adjoint": lambda lib, x: lib.adjoint(x),
    "t": lambda lib, x: lib.t(x[0]),
    "atleast_1d": lambda lib, x: lib.atleast_1d(x[0, 0, 0]),
    "atleast_2d": lambda lib, x: lib.atleast_2d(x[0, 0]),
    "atleast_3d": lambda lib, x: lib.atleast_3d(x[0]),
    "atleast list": lambda lib, x: lib.atleast_2d(x[0], x[0, 0, 0]),
    "broadcast_tensors": lambda lib, x: lib.broadcast_tensors(x, x[0], x[0, 0, 0]),
    "unsafe_split": lambda lib, x: lib.unsafe_split(x, 2, 2),
    "unsafe_chunk": lambda lib, x: lib.unsafe_chunk(x, 2, 2),
    "size": lambda lib, x: (x.size(), x.size(-1), x.stride(), x.stride(1), x.shape[1:], x.ndim),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_keywords(name: str) -> None:
    check(FUNCTIONS[name], arg((2, 3, 4), layout="contiguous"))


@pytest.mark.parametrize("call", [
    lambda x: x.view(lambda_dtype(x, "int32")),
    lambda x: x.view(lambda_dtype(x, "int64")),
    lambda x: x.view(lambda_dtype(x, "uint8")),
    lambda x: x.view(lambda_dtype(x, "float32")),
    lambda x: x.t().view(lambda_dtype(x, "int32")),
], ids=range(5))  # fmt: skip
def test_view_as_dtype(call: Any) -> None:
    check(lambda lib, x: call(x), arg((2, 4), dtype="float32", layout="contiguous"), grad=0,
          exact=True)  # fmt: skip


def lambda_dtype(x: Any, name: str) -> Any:
    """A dtype of the library that made ``x``."""
    return getattr(__import__(type(x).__module__.split(".")[0]), name)


ERRORS: dict[str, tuple[Any, Any, str]] = {
    "view size": (lambda x: x.view(4), (2, 3), "shape '[4]' is invalid for input of size 6"),
    "view strides": (lambda x: x.t().view(6), (2, 3), "view size is not compatible"),
    "view two -1": (lambda x: x.view(-1, -1), (2, 3), "only one dimension can be inferred"),
    "view ambiguous": (lambda x: x.view(-1, 0), (0, 3), "cannot reshape tensor of 0 elements"),
    "view -2": (lambda x: x.view(-2, 3), (2, 3), "invalid shape dimension -2"),
    "view str": (lambda x: x.view("a"), (2, 3), "view()"),
    "view float": (lambda x: x.view(2.0, 3), (2, 3), "view()"),
    "reshape": (lambda x: x.reshape(4, 2), (2, 3), "is invalid for input of size 6"),
    "flatten order": (lambda x: x.flatten(1, 0), (2, 3), "start_dim cannot come after end_dim"),
    "flatten range": (lambda x: x.flatten(2), (2, 3), "Dimension out of range"),
    "unflatten": (lambda x: x.unflatten(0, (4, 2)), (6,), "unflatten"),
    "unflatten empty": (lambda x: x.unflatten(0, ()), (6,), "unflatten: sizes must be non-empty"),
    "t 3-d": (lambda x: x.t(), (2, 3, 4), "t() expects a tensor with <= 2 dimensions"),
    "transpose range": (lambda x: x.transpose(0, 2), (2, 3), "Dimension out of range"),
    "permute length": (lambda x: x.permute(0), (2, 3), "number of dimensions in the tensor input"),
    "permute twice": (lambda x: x.permute(0, 0), (2, 3), "duplicate dims"),
    "permute range": (lambda x: x.permute(0, 5), (2, 3), "Dimension out of range"),
    "movedim length": (lambda x: x.movedim((0, 1), (0,)), (2, 3), "movedim: Invalid source"),
    "movedim twice": (lambda x: x.movedim((0, 0), (0, 1)), (2, 3), "movedim: repeated dim"),
    "expand size": (lambda x: x.expand(2, 4), (2, 3), "must match the existing size (3)"),
    "expand fewer": (lambda x: x.expand(3), (2, 3), "must be greater or equal to the number"),
    "expand -1": (lambda x: x.expand(-1, 2, 3), (2, 3), "isn't allowed in a leading"),
    "squeeze range": (lambda x: x.squeeze(2), (1, 3), "Dimension out of range"),
    "squeeze twice": (lambda x: x.squeeze((0, 0)), (1, 3), "appears multiple times"),
    "unsqueeze range": (lambda x: x.unsqueeze(3), (2,), "Dimension out of range"),
    "narrow length": (lambda x: x.narrow(0, 1, 4), (4,), "exceeds dimension size (4)"),
    "narrow start": (lambda x: x.narrow(0, 5, 0), (4,), "out of range"),
    "narrow negative": (lambda x: x.narrow(0, 0, -1), (4,), "length must be non-negative"),
    "narrow 0-d": (lambda x: x.narrow(0, 0, 1), (), "cannot be applied to a 0-dim tensor"),
    "select": (lambda x: x.select(0, 4), (4,), "index 4 out of range"),
    "select 0-d": (lambda x: x.select(0, 0), (), "cannot be applied to a 0-dim tensor"),
    "diagonal": (lambda x: x.diagonal(0, 1, 1), (2, 3), "diagonal dimensions cannot be identical"),
    "diagonal 1-d": (lambda x: x.diagonal(), (3,), "Dimension out of range"),
    "unfold size": (lambda x: x.unfold(0, 5, 1), (4,), "maximum size for tensor at dimension 0"),
    "unfold step": (lambda x: x.unfold(0, 2, 0), (4,), "step is 0 but must be > 0"),
    "unfold negative": (lambda x: x.unfold(0, -1, 1), (4,), "size is -1"),
    "as_strided outside": (lambda x: x.as_strided((9,), (9,)), (4,), "out of bounds for storage"),
    "as_strided lengths": (lambda x: x.as_strided((2,), (1, 1)), (4,), "mismatch in length"),
    "as_strided negative": (lambda x: x.as_strided((2,), (-1,), 2), (4,), "Negative strides"),
    "split 0": (lambda x: x.split(0), (4,), "split_size"),
    "split negative": (lambda x: x.split(-1), (4,), "split_size"),
    "split sum": (lambda x: x.split([1, 2]), (4,), "to sum exactly to 4"),
    "split 0-d": (lambda x: x.split(1), (), "at least a 1-dimensional tensor"),
    "chunk 0": (lambda x: x.chunk(0), (4,), "to be greater than 0"),
    "chunk 0-d": (lambda x: x.chunk(1), (), "chunk expects at least a 1-dimensional tensor"),
    "tensor_split 0": (lambda x: x.tensor_split(0), (4,), "number of sections must be larger"),
    "tensor_split 0-d": (lambda x: x.tensor_split(2), (), "at least a 1-dimensional tensor"),
    "hsplit": (lambda x: x.hsplit(3), (2, 4), "attempted to split along dimension 1"),
    "vsplit 1-d": (lambda x: x.vsplit(2), (4,), "at least 2 dimension"),
    "dsplit 2-d": (lambda x: x.dsplit(2), (4, 4), "at least 3 dimension"),
    "unbind 0-d": (lambda x: x.unbind(), (), "Dimension specified as 0 but tensor has no"),
    "iterate 0-d": (lambda x: list(x), (), "iteration over a 0-d tensor"),
    "size range": (lambda x: x.size(2), (2, 3), "Dimension out of range"),
    "mT 1-d": (lambda x: x.mT, (3,), "only supported on matrices"),
    "H 3-d": (lambda x: x.H, (2, 2, 2), "only supported on matrices (2-D tensors)"),
    "slice step": (lambda x: x[::-1], (4,), "step must be greater than zero"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, shape, phrase = ERRORS[name]
    check_raises(lambda lib, x: call(x), arg(shape, layout="contiguous"), match=phrase)


INPLACE: dict[str, tuple[tuple[int, ...], Any]] = {
    "t_": ((2, 3), lambda x: x.t_()),
    "transpose_": ((2, 3, 4), lambda x: x.transpose_(0, -1)),
    "swapaxes_": ((2, 3), lambda x: x.swapaxes_(0, 1)),
    "swapdims_": ((2, 3), lambda x: x.swapdims_(0, 1)),
    "squeeze_": ((1, 3, 1), lambda x: x.squeeze_()),
    "squeeze_ dim": ((1, 3, 1), lambda x: x.squeeze_(0)),
    "squeeze_ dims": ((1, 3, 1), lambda x: x.squeeze_((0, 2))),
    "unsqueeze_": ((2, 3), lambda x: x.unsqueeze_(-1)),
    "as_strided_": ((2, 3), lambda x: x.as_strided_((3,), (1,))),
}


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_views(name: str) -> None:
    shape, call = INPLACE[name]

    def on_intermediate(lib: Any, x: Any) -> Any:
        y = x * 1
        assert call(y) is y
        return y, y * 2

    def on_view(lib: Any, x: Any) -> Any:
        base = x * 1
        y = base[...]
        call(y)
        return base, y, y._base is base, y * 2

    check(on_intermediate, arg(shape, layout="contiguous"))
    check(on_view, arg(shape, layout="contiguous"))
    check(lambda lib, x: call(x), arg(shape, layout="contiguous", requires_grad=False))
    check_raises(lambda lib, x: call(x), shape, match="a leaf Variable that requires grad")
    check_raises(lambda lib, x: call(x[...]), shape, match="a view of a leaf Variable")


def test_inplace_views_under_no_grad() -> None:
    def squeeze(lib: Any, x: Any) -> Any:
        with lib.no_grad():
            x.t_()
        return x * 2, x._version

    check(squeeze, arg((2, 3), layout="contiguous"), untouched=False)

    def written(lib: Any, x: Any) -> Any:
        y = x * 1
        with lib.no_grad():
            v = y[...]
        v.squeeze_()

    check_raises(written, (1, 3), match="A view was created in no_grad mode")


def test_detach_in_place() -> None:
    def detach(lib: Any, x: Any) -> Any:
        y = x * 1
        assert y.detach_() is y
        return y

    check(detach, (2, 3), version=True)
    check(lambda lib, x: x.detach_(), (2, 3))
    check_raises(lambda lib, x: (x * 1)[0].detach_(), (2, 3), match="Can't detach views in-place")

    def saved(lib: Any, x: Any) -> Any:
        y = x * 1
        z = y * y
        y.detach_()
        z.sum().backward()

    check_raises(saved, (3,), match="has been detached in-place", untouched=False)


def test_views_share_one_root_and_one_counter() -> None:
    def facts(lib: Any, x: Any) -> Any:
        a = lib.zeros(3, 4)
        b, c, d = a[1], a[1][2:], a.t().unbind()[0]
        a.add_(1)
        b.mul_(2)
        aliases = (a, b, c, d, a.detach(), a.data, a.clone())
        return (
            [t._version for t in aliases],
            [t._is_view() for t in aliases],
            [t._base is a for t in aliases],
            c.tolist(),
        )

    check(facts, (1,))


def test_view_requires_grad_with_its_base() -> None:
    def later(lib: Any, x: Any) -> Any:
        a = lib.zeros(3)
        v = a[:2]
        a.requires_grad_()
        flags = (v.requires_grad, v.grad_fn, v.is_leaf)
        w = v * 2
        w.sum().backward()
        return flags, w.requires_grad, a.grad, v.grad

    def own(lib: Any, x: Any) -> Any:
        a = lib.zeros(3)
        v = a[:2]
        v.requires_grad_()
        (v * 3).sum().backward()
        return v.grad, a.requires_grad, v.is_leaf, v._is_view()

    check(later, (1,))
    check(own, (1,))

    def write(lib: Any, x: Any) -> Any:
        v = lib.zeros(3)[:2]
        v.requires_grad_()
        v.mul_(2)

    check_raises(write, (1,), match="a view of a leaf Variable")


@pytest.mark.parametrize("call", [lambda x: x.split(2), lambda x: x.unbind(), lambda x: x.chunk(2),
                                  tuple], ids=range(4))  # fmt: skip
def test_outputs_of_several_views_refuse_writes(call: Any) -> None:
    phrase = "function that returns multiple views"
    check_raises(lambda lib, x: call(x * 1)[0].add_(1), (4,), match=phrase)
    check_raises(lambda lib, x: call(x * 1)[0][...].add_(1), (4,), match=phrase)
    check(lambda lib, x: call(x * 1)[0].add_(1), arg((4,), requires_grad=False))


@pytest.mark.parametrize("name", ["unsafe_split", "unsafe_chunk", "tensor_split"])
def test_outputs_that_may_be_written(name: str) -> None:
    def write(lib: Any, x: Any) -> Any:
        y = x * 1
        parts = getattr(lib, name)(y, 2)
        parts[0].add_(1)
        return parts, y._version, [p._version for p in parts]

    check(write, (4, 2))


def test_only_some_of_several_views_are_used() -> None:
    check(lambda lib, x: x.split(2)[1] * 2, (5, 2))
    check(lambda lib, x: x.unbind(1)[0] * x.unbind(1)[1], (3, 2))
    check(lambda lib, x: x.chunk(2)[0].sum() + x.tensor_split(3)[2].sum(), (5, 2))


def test_chains_of_views() -> None:
    check(lambda lib, x: x.t()[1:].unsqueeze(0).expand(2, -1, -1).permute(2, 0, 1)[0], (3, 4))
    check(lambda lib, x: x.unfold(0, 2, 1).diagonal().flatten() ** 2, (4, 3))
    check(lambda lib, x: (x[::2] * x[1::2]).reshape(-1).squeeze(), (4, 3))
    check(lambda lib, x: x.movedim(0, 2).reshape(3, -1).split([1, 5], 1)[1], (2, 3, 3))


def test_view_owns_its_base() -> None:
    v = (jitgrad.arange(6.0) * 1)[2:4]
    assert v._base is not None
    assert v._base.tolist() == [0, 1, 2, 3, 4, 5]
    assert v[1:]._base is v._base
