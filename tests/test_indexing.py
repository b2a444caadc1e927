"""Indexing: what brackets and the index functions read, write, differentiate and refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jitgrad
from tests.oracle import arg, check, check_raises, torch_or_skip

Function = Callable[..., Any]


def i(lib: Any, *values: Any, dtype: str = "int64") -> Any:
    return lib.tensor(values[0] if len(values) == 1 else values, dtype=getattr(lib, dtype))


# ------------------------------------------------------------------------------- literal facts


def test_basic_indexing_makes_views() -> None:
    x = jitgrad.arange(24).reshape(2, 3, 4)
    assert x[1, 2, 3].item() == 23
    assert x[-1, 0].tolist() == [12, 13, 14, 15]
    assert x[:, 1, ::2].tolist() == [[4, 6], [16, 18]]
    assert x[..., -1].tolist() == [[3, 7, 11], [15, 19, 23]]
    assert x[None, 0].shape == (1, 3, 4)
    y = x[1:, :, 1]
    assert y._is_view() and y.storage_offset() == 13 and y.stride() == (12, 4)
    y[0, 2] = -1
    assert x[1, 2, 1].item() == -1


def test_advanced_indexing_copies() -> None:
    x = jitgrad.arange(12).reshape(3, 4)
    assert x[[2, 0]].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[[0, 1, 2], [3, 2, -4]].tolist() == [3, 6, 8]
    assert x[:, [[0, 1], [2, 3]]].shape == (3, 2, 2)
    assert x[x % 5 == 0].tolist() == [0, 5, 10]
    assert x[np.array([1])].tolist() == [[4, 5, 6, 7]]
    assert x[range(0, 3, 2)].shape == (2, 4)
    assert not x[[0]]._is_view()
    assert x[True].shape == (1, 3, 4)
    assert x[False].shape == (0, 3, 4)
    z = jitgrad.arange(24).reshape(2, 3, 4)
    assert z[[0, 1], :, [0, 1]].tolist() == [[0, 4, 8], [13, 17, 21]]
    assert z[0, :, [3, 0]].tolist() == [[3, 0], [7, 4], [11, 8]]


def test_assignment() -> None:
    x = jitgrad.zeros(3, 4)
    x[0] = 1
    x[1, 1:3] = jitgrad.tensor([[2.0, 3.0]])
    x[[2, 2], [0, 3]] = 7.0
    assert x.tolist() == [[1, 1, 1, 1], [0, 2, 3, 0], [7, 0, 0, 7]]
    x[x > 2] = -1
    assert x.tolist() == [[1, 1, 1, 1], [0, 2, -1, 0], [-1, 0, 0, -1]]
    assert x._version == 4


def test_of_duplicates_the_last_is_kept_and_accumulation_counts_all() -> None:
    x = jitgrad.zeros(3)
    x[[1, 1, 1]] = jitgrad.tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [0, 3, 0]
    x.index_put_((jitgrad.tensor([1, 1, 0]),), jitgrad.tensor([1.0, 2.0, 3.0]), accumulate=True)
    assert x.tolist() == [3, 6, 0]


def test_gradients_of_repeated_indices_add_up() -> None:
    x = jitgrad.ones(3, requires_grad=True)
    (x[[0, 0, 2]] * jitgrad.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3, 0, 3]


def test_an_error_leaves_the_tensor_as_it_was() -> None:
    x = jitgrad.zeros(3, 4)
    for write in (
        lambda: x.__setitem__(jitgrad.tensor([0, 1, 9]), 1.0),
        lambda: x.index_add_(0, jitgrad.tensor([0, 9]), jitgrad.ones(2, 4)),
        lambda: x.scatter_(0, jitgrad.tensor([[0, 9]]), 1.0),
        lambda: x.put_(jitgrad.tensor([0, 99]), jitgrad.ones(2)),
        lambda: x.index_fill_(0, jitgrad.tensor([0, 9]), 1.0),
        lambda: x.index_copy_(0, jitgrad.tensor([0, 9]), jitgrad.ones(2, 4)),
    ):
        with pytest.raises((IndexError, RuntimeError), match="9"):
            write()
    assert x._version == 0 and not x.any()


def test_index_backward_does_not_save_what_it_indexed() -> None:
    x = jitgrad.arange(3.0, requires_grad=True) * 1
    y = x[[0, 2]]
    x.mul_(2)
    y.sum().backward()
    x = jitgrad.arange(4.0, requires_grad=True) * 1
    x[x > 1] = x[x > 1]
    x.sum().backward()


def test_changing_a_saved_index_is_noticed() -> None:
    x = jitgrad.arange(3.0, requires_grad=True)
    index = jitgrad.tensor([0, 2])
    y = x[index]
    index[0] = 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_graphs_of_views() -> None:
    x = jitgrad.zeros(3, 4, requires_grad=True)
    y = x[1:3, 0]
    assert y.grad_fn.name() == "SelectBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "SliceBackward0"
    assert x[...].grad_fn.name() == x[:, :].grad_fn.name() == "AliasBackward0"
    assert x[:].grad_fn.name() == "SliceBackward0"
    assert x[[0]].grad_fn.next_functions[0][0].variable is x


def test_results_do_not_depend_on_threads(threads: Callable[[int], None]) -> None:
    rng = np.random.default_rng(0)
    index = jitgrad.tensor(rng.integers(0, 50, 20000))
    values = jitgrad.tensor(rng.standard_normal((20000, 16)).astype("float32"))

    def run() -> list[bytes]:
        x = jitgrad.zeros(50, 16).index_add_(0, index, values)
        y = jitgrad.zeros(50, 16, requires_grad=True)
        (y[index] * values).sum().backward()
        z = jitgrad.zeros(50).scatter_add(0, index, values[:, 0])
        return [t.detach().numpy().tobytes() for t in (x, y.grad, z)]

    one = run()
    threads(2)
    assert run() == one


def test_functions_on_small_tables() -> None:
    x = jitgrad.arange(6.0).reshape(2, 3)
    at = jitgrad.tensor([[0, 1, 1]])
    assert x.gather(0, at).tolist() == [[0, 4, 5]]
    assert x.scatter(0, at, -1.0).tolist() == [[-1, 1, 2], [3, -1, -1]]
    assert x.scatter_add(0, at, x).tolist() == [[0, 1, 2], [3, 5, 7]]
    assert x.index_select(1, jitgrad.tensor([2, 0])).tolist() == [[2, 0], [5, 3]]
    assert x.take(jitgrad.tensor([-1, 0])).tolist() == [5, 0]
    assert x.masked_select(x > 3).tolist() == [4, 5]
    assert (x > 3).nonzero().tolist() == [[1, 1], [1, 2]]
    assert x.flip(0, 1).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert x.roll(1).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert x.repeat(1, 2).tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]
    assert x.tril().tolist() == [[0, 0, 0], [3, 4, 0]]
    assert x.triu(1).tolist() == [[0, 1, 2], [0, 0, 5]]
    assert jitgrad.tensor([1, 2]).repeat_interleave(2).tolist() == [1, 1, 2, 2]


# ------------------------------------------------------------------------------------- reading

READS: list[Function] = [
    lambda lib, x: x[0],
    lambda lib, x: x[-1],
    lambda lib, x: x[:],
    lambda lib, x: x[...],
    lambda lib, x: x[()],
    lambda lib, x: x[None],
    lambda lib, x: x[0, 1],
    lambda lib, x: x[1:3, 0],
    lambda lib, x: x[:, 0],
    lambda lib, x: x[:, :],
    lambda lib, x: x[:, 0:9],
    lambda lib, x: x[:, 1:],
    lambda lib, x: x[..., 0],
    lambda lib, x: x[0, ..., 1],
    lambda lib, x: x[None, 0, None],
    lambda lib, x: x[..., None],
    lambda lib, x: x[:1],
    lambda lib, x: x[::1],
    lambda lib, x: x[3:1],
    lambda lib, x: x[-9:9:2],
    lambda lib, x: x[..., ...],
    lambda lib, x: x[lib.tensor(1)],
    lambda lib, x: x[0, lib.tensor(-1)],
    lambda lib, x: x[i(lib, 1, dtype="int16")],
    lambda lib, x: x[lib.tensor(1) :],
    lambda lib, x: x[np.int64(1)],
    lambda lib, x: x[np.array(1)],
    lambda lib, x: x[True],
    lambda lib, x: x[False],
    lambda lib, x: x[True, 0],
    lambda lib, x: x[None, True],
    lambda lib, x: x[True, True],
    lambda lib, x: x[True, [0, 1]],
    lambda lib, x: x[lib.tensor(True)],
    lambda lib, x: x[1:, lib.tensor(False)],
    lambda lib, x: x[i(lib, 0, 1)],
    lambda lib, x: x[i(lib, -1, 0)],
    lambda lib, x: x[i(lib, 0, 1, dtype="int32")],
    lambda lib, x: x[i(lib, [[0, 1], [1, 1]])],
    lambda lib, x: x[i(lib, [])],
    lambda lib, x: x[[0, 1]],
    lambda lib, x: x[[]],
    lambda lib, x: x[[1.0]],
    lambda lib, x: x[range(2)],
    lambda lib, x: x[np.array([1, 0])],
    lambda lib, x: x[np.array([1, 0], dtype=np.int16)],
    lambda lib, x: x[np.array([True, False])],
    lambda lib, x: x[[True, False]],
    lambda lib, x: x[[0, 1], [1, 2]],
    lambda lib, x: x[([0, 1], [1, 2])],
    lambda lib, x: x[:, [0, 1], 0],
    lambda lib, x: x[[0, 1], :, [0, 1]],
    lambda lib, x: x[0, :, [0, 1]],
    lambda lib, x: x[:, [2, 0]],
    lambda lib, x: x[..., [2, 0, -1]],
    lambda lib, x: x[:, i(lib, [[0], [1]]), i(lib, 0, 3)],
    lambda lib, x: x[None, [0], None, [1]],
    lambda lib, x: x[[0, 1], None, [0, 1]],
    lambda lib, x: x[::2, [0, 1], ::2],
    lambda lib, x: x[[0, 1], ..., [0, 1]],
    lambda lib, x: x[x > 0],
    lambda lib, x: x[x > 9],
    lambda lib, x: x[i(lib, 1, 0, dtype="bool")],
    lambda lib, x: x[:, lib.ones(3, 4, dtype=lib.bool)],
    lambda lib, x: x[lib.ones(2, 3, dtype=lib.bool), :2],
    lambda lib, x: x[..., i(lib, 1, 0, 1, 0, dtype="bool")],
    lambda lib, x: x[i(lib, 1, 0, dtype="bool"), [2]],
    lambda lib, x: x[[0, 1], i(lib, [1, 0, 1], dtype="bool")],
    lambda lib, x: x[0][None][0],
    lambda lib, x: list(x),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(READS)))
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gapped"])
def test_reads_agree(number: int, layout: str) -> None:
    out = READS[number](jitgrad, jitgrad.ones(2, 3, 4))
    # The strides of what has no elements are nobody's business.
    empty = isinstance(out, jitgrad.Tensor) and not out.numel()
    check(READS[number], arg((2, 3, 4), layout=layout), strides="ignore" if empty else "exact")


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64", "float32"])
def test_reads_agree_for_every_size_of_element(dtype: str) -> None:
    x = arg((3, 4), dtype=dtype)
    check(lambda lib, x: (x[[2, 0]], x[:, [1]], x[[0, 1], [3, 2]], x[x > 0], x[1:]), x, grad=0)


@pytest.mark.oracle
def test_reads_of_permuted_tensors_keep_their_strides() -> None:
    def read(lib: Any, x: Any) -> Any:
        p = x.permute(2, 0, 1)
        a, b = i(lib, 0, 1), i(lib, [[0, 1, 1], [1, 0, 0]])
        return p[a], p[:, a], p[:, :, a], p[a, :, a], p[b], p[:, b], p[b.t()], x[:, b.t()]

    check(read, arg((2, 3, 4), layout="contiguous"))


@pytest.mark.oracle
def test_deprecated_forms_warn() -> None:
    nested = "Using a non-tuple sequence for multidimensional indexing is deprecated"
    check(lambda lib, x: x[[[0, 1], [1, 0]]], (2, 3), warns=nested)
    check(lambda lib, x: x[[0, slice(None)]], (2, 3), warns=nested)
    check(lambda lib, x: x[[None, 0]], (2, 3), warns=nested)
    check(lambda lib, x: x[i(lib, 1, 0, dtype="uint8")], (2, 3), warns="indexing with", grad=0)


REFUSED_READS: list[tuple[str, Function]] = [
    ("index 5 is out of bounds for dimension 0 with size 2", lambda lib, x: x[5]),
    ("index -3 is out of bounds for dimension 0 with size 2", lambda lib, x: x[-3]),
    ("index 5 is out of bounds for dimension 1 with size 3", lambda lib, x: x[0, 5]),
    ("index 5 is out of bounds for dimension 0 with size 2", lambda lib, x: x[[0, 5]]),
    ("index 9 is out of bounds for dimension 1 with size 3", lambda lib, x: x[[0], [9]]),
    ("index 9 is out of bounds for dimension 0 with size 3", lambda lib, x: x[:, [9]]),
    ("index is out of bounds for dimension with size 0", lambda lib, x: x[:0][[0]]),
    ("too many indices for tensor of dimension 3", lambda lib, x: x[0, 0, 0, 0]),
    ("too many indices for tensor of dimension 3", lambda lib, x: x[..., 0, :, 0, 0]),
    ("invalid index of a 0-dim tensor", lambda lib, x: x[0, 0, 0][0]),
    ("slice() cannot be applied to a 0-dim tensor.", lambda lib, x: x[0, 0, 0][:]),
    ("only integers, slices (`:`), ellipsis", lambda lib, x: x[1.0]),
    ("(got dict)", lambda lib, x: x[{}]),
    ("(got float)", lambda lib, x: x[0, 0.5]),
    ("must be long, int, byte or bool tensors", lambda lib, x: x[lib.tensor([0.5])]),
    ("must be long, int, byte or bool tensors", lambda lib, x: x[lib.tensor(0.5)]),
    ("must be long, int, byte or bool tensors", lambda lib, x: x[i(lib, 0, dtype="int16")[None]]),
    (
        "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor "
        "[2, 3, 4] at index 0",
        lambda lib, x: x[i(lib, 1, 0, 1, dtype="bool")],
    ),
    ("The shape of the mask [2, 4] at index 1", lambda lib, x: x[lib.ones(2, 4) > 0]),
    ("too many indices for tensor of dimension 3", lambda lib, x: x[lib.ones(2, 3, 4, 1) > 0]),
    (
        "indexing tensors could not be broadcast together with shapes [2], [3]",
        lambda lib, x: x[[0, 1], [0, 1, 2]],
    ),
    ("with shapes [0], [2]", lambda lib, x: x[False, [0, 1]]),
    ("slice indices must be integers or None", lambda lib, x: x[1.0:]),
    ("slice step cannot be zero", lambda lib, x: x[::0]),
    ("step must be greater than zero", lambda lib, x: x[::-1]),
    ("step must be greater than zero", lambda lib, x: x[0, ::-2]),
    ("invalid data type 'str'", lambda lib, x: x[0, "a"]),
    ("Overflow when unpacking long", lambda lib, x: x[2**70]),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(REFUSED_READS)))
@pytest.mark.parametrize("grad", [False, True])
def test_refused_reads_agree(number: int, grad: bool) -> None:
    match, read = REFUSED_READS[number]
    check_raises(read, arg((2, 3, 4), requires_grad=grad), match=match)


# ------------------------------------------------------------------------------------- writing


def assign(index: Function) -> Function:
    """`x[index] = value` on a tensor with history."""

    def write(lib: Any, x: Any, *value: Any) -> Any:
        y = x.clone()
        y[index(lib, y)] = value[0] if value else 1.5
        return y

    return write


TARGETS: list[tuple[tuple[int, ...], Function]] = [
    ((3, 4), lambda lib, x: 0),
    ((4,), lambda lib, x: (0, 1)),
    ((), lambda lib, x: (0, 1, 2)),
    ((2, 3, 4), lambda lib, x: slice(None)),
    ((2, 3, 4), lambda lib, x: ...),
    ((1, 2, 3, 4), lambda lib, x: None),
    ((2, 2), lambda lib, x: (slice(None), 1, slice(None, None, 2))),
    ((0, 3, 4), lambda lib, x: slice(2, None)),
    ((2, 3, 4), lambda lib, x: True),
    ((2, 3), lambda lib, x: (..., lib.tensor(1))),
    ((2, 3, 4), lambda lib, x: i(lib, 1, 0)),
    ((3, 4), lambda lib, x: i(lib, [1])),
    ((2, 4), lambda lib, x: ([0, 1], [2, 0])),
    ((2, 2), lambda lib, x: (slice(None), [2, 0], 1)),
    ((2, 3), lambda lib, x: ([0, 1], slice(None), [3, 1])),
    ((2, 2, 2), lambda lib, x: (slice(None), i(lib, [[0, 1], [2, 0]])[..., :2], 0)),
    ((), lambda lib, x: x.detach() > 0.5),
    ((2, 4), lambda lib, x: (i(lib, 1, 1, dtype="bool"), 1)),
    ((0, 3, 4), lambda lib, x: i(lib, [])),
    ((3, 4), lambda lib, x: (True, 0)),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(TARGETS)))
@pytest.mark.parametrize("value", ["number", "tensor", "row", "leading ones"])
def test_writes_agree(number: int, value: str) -> None:
    shape, index = TARGETS[number]
    if value == "number":
        check(assign(index), (2, 3, 4), grad_fn=False)
    elif value == "tensor":
        check(assign(index), (2, 3, 4), shape, grad_fn=False)
    elif value == "row":
        check(assign(index), (2, 3, 4), shape[-1:], grad_fn=False)
    else:
        check(assign(index), (2, 3, 4), (1, 1, *shape), grad_fn=False)


@pytest.mark.oracle
def test_writes_through_views_agree() -> None:
    def write(lib: Any, x: Any, v: Any) -> Any:
        y = x.clone()
        y[1:][[0, 1]] = v
        y.t()[2] *= 2
        y[y.detach() > 1] = 0
        row = y[0]
        row[[1, 2]] = v[0, :2]
        return y, row

    check(write, (3, 4), (2, 4), grad_fn=False)


@pytest.mark.oracle
def test_writes_that_nobody_records_agree() -> None:
    def run(lib: Any, x: Any, v: Any, w: Any) -> Any:
        before = x._version
        with lib.no_grad():
            view = x[:, 1]
        for _ in range(2):  # the second write finds a plan
            x[i(lib, 2, 0, 2)] = v
            x[i(lib, [1, -1])] = w
            x[i(lib, 3)[None]] = -1.5
            x[i(lib, 1, 0)] = x[1:3].clone()
        return x, view, lib.tensor(x._version - before)

    for layout in ("contiguous", "transposed", "gapped"):
        x = arg((4, 3), requires_grad=False, layout=layout)
        check(run, x, arg((3, 3), requires_grad=False), arg((1, 3), requires_grad=False))


def test_writes_into_a_plain_tensor_make_it_require_grad() -> None:
    def write(lib: Any, v: Any) -> Any:
        x, y = lib.zeros(3, 2, dtype=lib.float64), lib.zeros(3, 2, dtype=lib.float64)
        x[1] = v
        y[[0, 0]] = v
        return x, y

    check(write, (2,), grad_fn=False)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("value", [1, True, 2.5, 200])
def test_numbers_are_cast_when_written(dtype: str, value: Any) -> None:
    def write(lib: Any, x: Any) -> Any:
        x[0] = value
        x[1, [0, 1]] = value
        x[x == 0] = value

    check(write, arg((2, 3), dtype=dtype, requires_grad=False), grad=0)


@pytest.mark.oracle
def test_tensors_are_cast_where_a_view_is_written() -> None:
    def write(lib: Any, x: Any, v: Any) -> Any:
        x[0] = v
        x[x > 5] = v[0]

    check(write, arg((2, 3), dtype="int64"), arg((3,), dtype="float64", requires_grad=False))


REFUSED_WRITES: list[tuple[str, Function]] = [
    ("can't assign a list to a", lambda lib, x: [1, 2, 3, 4]),
    ("can't assign a numpy.ndarray to a", lambda lib, x: np.ones(4)),
    ("can't assign a numpy.float32 to a", lambda lib, x: np.float32(1)),
    ("can't assign a NoneType to a", lambda lib, x: None),
    ("can't assign a str to a", lambda lib, x: "a"),
    ("without overflow", lambda lib, x: 1j),
    ("Overflow when unpacking long", lambda lib, x: 10**30),
    ("must match the existing size (3)", lambda lib, x: lib.ones(3)),
    ("the number of sizes provided (1)", lambda lib, x: lib.ones(2, 4)),
    ("must match the existing size (0)", lambda lib, x: lib.ones(0)),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(REFUSED_WRITES)))
def test_refused_values_agree(number: int) -> None:
    match, value = REFUSED_WRITES[number]
    check_raises(
        lambda lib, x: x.__setitem__(0, value(lib, x)),
        arg((3, 4), requires_grad=False),
        match=match,
    )


REFUSED_PUTS: list[tuple[str, Function]] = [
    (
        "shape mismatch: value tensor of shape [4] cannot be broadcast to indexing result of "
        "shape [2]",
        lambda lib, x: x.__setitem__(([0, 1], [1, 2]), lib.ones(4, dtype=lib.float64)),
    ),
    (
        "shape mismatch: value tensor of shape [3] cannot",
        lambda lib, x: x.__setitem__(x > 99, lib.ones(3, dtype=lib.float64)),
    ),
    ("Index put requires the source and", lambda lib, x: x.__setitem__([0], lib.ones(4))),
    ("index 5 is out of bounds", lambda lib, x: x.__setitem__([0, 5], 1)),
    ("index 9 is out of bounds for dimension 1", lambda lib, x: x.__setitem__(([0], [9]), 1)),
    ("some elements of the input tensor", lambda lib, x: x.__setitem__([0, 1, 2], x)),
    ("some elements of the input tensor", lambda lib, x: x.index_put_((i(lib, 0, 1),), x[1:])),
    ("some elements of the input tensor", lambda lib, x: x.scatter_(0, i(lib, [[0]]), x)),
    ("more than one element of", lambda lib, x: x[0, 0].expand(3).scatter_(0, i(lib, [0]), 1.0)),
    ("too many indices", lambda lib, x: x.index_put_((i(lib, 0),) * 3, x.sum())),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(REFUSED_PUTS)))
def test_refused_puts_agree(number: int) -> None:
    match, write = REFUSED_PUTS[number]
    x = arg((3, 4), requires_grad=False, layout="contiguous")
    check_raises(write, x, match=match)


@pytest.mark.oracle
def test_leaves_refuse_writes() -> None:
    match = "a leaf Variable that requires grad"
    check_raises(lambda lib, x: x.__setitem__([0], 1.0), (3,), match=match)
    check_raises(lambda lib, x: x.__setitem__(0, 1.0), (3,), match="a view of " + match)
    check_raises(lambda lib, x: x.scatter_(0, i(lib, [0]), 1.0), (3,), match=match)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("dtype", "value", "match"),
    [
        ("int64", float("nan"), "without overflow"),
        ("int64", float("inf"), "without overflow"),
        ("uint8", 300, "without overflow"),
        ("int8", 200, "without overflow"),
        ("float32", 1e300, "without overflow"),
    ],
)
def test_numbers_that_do_not_fit(dtype: str, value: Any, match: str) -> None:
    x = arg((3,), dtype=dtype, requires_grad=False)
    check_raises(lambda lib, x: x.__setitem__(0, value), x, match=match)
    check_raises(lambda lib, x: x.__setitem__([0], value), x, match=match)


# ----------------------------------------------------------------------------------- functions

AT = [[0, 2, 1], [2, 2, 0]]  # along a dimension of size 3, with duplicates

FUNCTIONS: list[Function] = [
    lambda lib, x, y: x.index_select(0, i(lib, 2, 0, 2)),
    lambda lib, x, y: x.index_select(1, i(lib, 1, dtype="int32")),
    lambda lib, x, y: x.index_select(-1, i(lib, [])),
    lambda lib, x, y: x[0, 0].index_select(0, i(lib, 0)),
    lambda lib, x, y: x.gather(0, i(lib, AT)),
    lambda lib, x, y: x.gather(1, i(lib, AT).clamp(max=1)),
    lambda lib, x, y: x.gather(0, i(lib, AT, dtype="int32")),
    lambda lib, x, y: x.gather(1, i(lib, [[], []])),
    lambda lib, x, y: x[0, 0].gather(0, i(lib, 0)),
    lambda lib, x, y: lib.take_along_dim(x, i(lib, [[-1], [0], [2]]), 1),
    lambda lib, x, y: lib.take_along_dim(x.contiguous(), i(lib, 3, 0)),
    lambda lib, x, y: x.scatter(0, i(lib, AT), 2.0),
    lambda lib, x, y: x.scatter(1, i(lib, [[2, 0], [1, 3]]), y[:2, :2]),
    lambda lib, x, y: x.scatter(0, i(lib, [[]]), y.detach()),
    lambda lib, x, y: x.scatter_add(0, i(lib, AT), y[:2, :3]),
    lambda lib, x, y: x.scatter_add(1, i(lib, [[0, 0, 0, 3]] * 3), y),
    lambda lib, x, y: x[0, 0].scatter_add(0, i(lib, 0), y[0, 0]),
    lambda lib, x, y: x.index_add(0, i(lib, 2, 0, 2), y),
    lambda lib, x, y: x.index_add(1, i(lib, 1, 1), y[:, :2], alpha=3),
    lambda lib, x, y: x.index_copy(0, i(lib, 2, 0), y[:2]),
    lambda lib, x, y: x.index_copy(1, i(lib, 3), y[:, :1]),
    lambda lib, x, y: x.index_fill(0, i(lib, 0, -1), 5.0),
    lambda lib, x, y: x.index_fill(1, i(lib, 2), y[0, 0]),
    lambda lib, x, y: x.take(i(lib, [[0, -1], [5, 5]])),
    lambda lib, x, y: x.put(i(lib, 0, -1, 5), y[0, :3]),
    lambda lib, x, y: x.put(i(lib, 0, 0, 5), y[0, :3], accumulate=True),
    lambda lib, x, y: x.index_put((i(lib, 2, 0),), y[:2]),
    lambda lib, x, y: x.index_put((i(lib, 2, 0), i(lib, 1)), y[0, 0]),
    lambda lib, x, y: x.index_put((i(lib, 2, 2),), y[:2], accumulate=True),
    lambda lib, x, y: x.index_put((x.detach() > 0,), y[0, 0]),
    lambda lib, x, y: x.masked_select(x > 0),
    lambda lib, x, y: x.masked_select(i(lib, 1, 0, 0, 1, dtype="bool")),
    lambda lib, x, y: x[0].masked_select(y > 0),
    lambda lib, x, y: x.masked_scatter(x > 0, y),
    lambda lib, x, y: x.masked_scatter(i(lib, 1, 0, 0, 1, dtype="bool"), y),
    lambda lib, x, y: x[0].masked_scatter(y > 0, y),
    lambda lib, x, y: x.flip(0),
    lambda lib, x, y: x.flip((0, -1)),
    lambda lib, x, y: x.t().flip(1),
    lambda lib, x, y: (x.fliplr(), x.flipud()),
    lambda lib, x, y: x.roll(5),
    lambda lib, x, y: x.roll(-1, 1),
    lambda lib, x, y: x.roll((1, 2), (0, 1)),
    lambda lib, x, y: (x.rot90(), x.rot90(2), x.rot90(-1, (1, 0)), x.rot90(0)),
    lambda lib, x, y: x.repeat(2, 1),
    lambda lib, x, y: x.repeat(2, 3, 2),
    lambda lib, x, y: x.repeat(0, 1),
    lambda lib, x, y: x.tile(2),
    lambda lib, x, y: x.tile((2, 1, 2)),
    lambda lib, x, y: x.repeat_interleave(2),
    lambda lib, x, y: x.repeat_interleave(2, 1),
    lambda lib, x, y: x.repeat_interleave(i(lib, 1, 0, 2), 0),
    lambda lib, x, y: x.repeat_interleave(i(lib, [2]), 0),
    lambda lib, x, y: lib.repeat_interleave(i(lib, 1, 0, 2)),
    lambda lib, x, y: x.tril(),
    lambda lib, x, y: x.triu(),
    lambda lib, x, y: x.tril(1) + x.triu(-1),
    lambda lib, x, y: lib.stack((x, y)).tril(-2),
    lambda lib, x, y: lib.stack((x, y)).permute(2, 0, 1).triu(9),
    lambda lib, x, y: lib.nonzero(x > 0),
    lambda lib, x, y: lib.nonzero(x > 9),
    lambda lib, x, y: lib.nonzero(x[0, 0].detach()),
    lambda lib, x, y: lib.argwhere(x.detach()),
    lambda lib, x, y: lib.nonzero(x > 0, as_tuple=True),
    lambda lib, x, y: lib.nonzero(x[0, 0].detach(), as_tuple=True),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions_agree(number: int) -> None:
    check(FUNCTIONS[number], (3, 4), (3, 4))
    check(FUNCTIONS[number], arg((3, 4), layout="contiguous"), arg((3, 4), layout="transposed"))


WRITERS: list[Function] = [
    lambda lib, x, y: x.scatter_(0, i(lib, AT), 2.0),
    lambda lib, x, y: x.scatter_(0, i(lib, AT), y[:2, :3]),
    lambda lib, x, y: x.scatter_add_(0, i(lib, AT), y[:2, :3]),
    lambda lib, x, y: x.index_add_(0, i(lib, 2, 0, 2), y),
    lambda lib, x, y: x.index_copy_(0, i(lib, 2, 0), y[:2]),
    lambda lib, x, y: x.index_fill_(0, i(lib, 0, -1), 5.0),
    lambda lib, x, y: x.index_fill_(1, i(lib, 2), y[0, 0]),
    lambda lib, x, y: x.put_(i(lib, 0, -1, 5), y[0, :3]),
    lambda lib, x, y: x.index_put_((i(lib, 2, 0),), y[:2]),
    lambda lib, x, y: x.index_put_((i(lib, 2, 2),), y[:2], accumulate=True),
    lambda lib, x, y: x.masked_scatter_(x.detach() > 0, y),
    lambda lib, x, y: x.tril_(),
    lambda lib, x, y: x.triu_(1),
    *(
        lambda lib, x, y, how=how: x.scatter_reduce_(0, i(lib, [[0, 2, 1, 2]] * 2), y[:2], how)
        for how in ("sum", "mean", "amax", "amin", "prod")
    ),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(WRITERS)))
@pytest.mark.parametrize("view", [False, True])
def test_writers_agree(number: int, view: bool) -> None:
    def write(lib: Any, x: Any, y: Any) -> Any:
        whole = x.clone()
        part = whole[1:4, ::2] if view else whole
        return whole, WRITERS[number](lib, part, y)

    if view:
        check(write, (5, 8), (3, 4), grad_fn=False)
    else:
        check(write, (3, 4), (3, 4))


@pytest.mark.oracle
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("values", ["random", "ties and zeros"])
def test_scatter_reduce_agrees(how: str, include_self: bool, values: str) -> None:
    def reduce(lib: Any, x: Any, y: Any) -> Any:
        at = i(lib, [[0, 2, 0, 2], [0, 0, 1, 2]])
        return x.scatter_reduce(0, at, y, how, include_self=include_self)

    if values == "random":
        check(reduce, (3, 4), (2, 4))
    else:
        x = [[0.0, 1, 2, 0], [1, 1, 0, 2], [3, 0, 1, 0]]
        y = [[1.0, 1, 2, 2], [0, 2, 0, 2]]
        check(reduce, arg(x), arg(y), grad=1 if how == "prod" else 2)
    ints = arg((3, 4), dtype="int32"), arg((2, 4), dtype="int32")
    check(reduce, *ints, grad=0)


REFUSED_CALLS: list[tuple[str, Function]] = [
    ("index out of range in self", lambda lib, x: x.index_select(0, i(lib, [5]))),
    ("index out of range in self", lambda lib, x: x.index_select(0, i(lib, [-1]))),
    ("INDICES element is out of DATA bounds", lambda lib, x: x.index_select(1, i(lib, [9]))),
    ("Index is supposed to be a vector", lambda lib, x: x.index_select(0, i(lib, AT))),
    ("Expected dtype int32", lambda lib, x: x.index_select(0, i(lib, 0, dtype="int16"))),
    ("Dimension out of range", lambda lib, x: x.index_select(5, i(lib, 0))),
    ("index 5 is out of bounds for dim", lambda lib, x: x.gather(0, i(lib, [[5]]))),
    (
        "index -1 is out of bounds for dimension 0 with size 3",
        lambda lib, x: x.gather(0, i(lib, [[-1]])),
    ),
    ("Size does not match at dimension 1", lambda lib, x: x.gather(0, i(lib, [[0] * 5]))),
    ("Index tensor must have the same number", lambda lib, x: x.gather(0, i(lib, [0]))),
    ("Expected self.dtype to be equal to", lambda lib, x: x.scatter(0, i(lib, AT), x.float())),
    ("index 7 is out of bounds", lambda lib, x: x.scatter(0, i(lib, [[7]]), 1)),
    ("to be no larger than self [3, 4]", lambda lib, x: x.scatter(0, i(lib, [[0] * 5]), 1)),
    ("index 9 is out of bounds", lambda lib, x: x.scatter_add(0, i(lib, [[9]]), x)),
    (
        "reduce argument must be either sum, prod, mean, amax or amin, got foo",
        lambda lib, x: x.scatter_reduce(0, i(lib, AT), x, "foo"),
    ),
    ("Number of indices (2) should be", lambda lib, x: x.index_add(0, i(lib, 0, 1), x)),
    ("index 5 is out of bounds", lambda lib, x: x.index_add(0, i(lib, 5, 0), x[:2])),
    ("must have the same scalar type", lambda lib, x: x.index_add(0, i(lib, 0), x[:1].float())),
    ("source tensor shape must match", lambda lib, x: x.index_add(0, i(lib, 0), x[:1, :2])),
    ("Number of indices (2) should be", lambda lib, x: x.index_copy(0, i(lib, 0, 1), x)),
    ("index 5 is out of bounds", lambda lib, x: x.index_copy(0, i(lib, 5, 0), x[:2])),
    ("Expected a long tensor", lambda lib, x: x.index_copy(0, i(lib, 0, dtype="int32"), x)),
    ("only supports a 0-dimensional", lambda lib, x: x.index_fill(0, i(lib, 0), x[0])),
    ("index 9 is out of bounds", lambda lib, x: x.index_fill(0, i(lib, 9), 1)),
    ("Index has to be a vector/scalar", lambda lib, x: x.index_fill(0, i(lib, AT), 1)),
    ("tried to access index 12 on a tensor of 12", lambda lib, x: x.take(i(lib, 12))),
    ("Expected a long tensor", lambda lib, x: x.take(i(lib, 1, dtype="int32"))),
    ("to have the same number of elements", lambda lib, x: x.put(i(lib, 1, 2), x[0])),
    ("expected BoolTensor for mask", lambda lib, x: x.masked_select(x)),
    ("Number of elements of source <", lambda lib, x: x.masked_scatter(x == x, x[0])),
    ("only supports boolean masks", lambda lib, x: x.masked_scatter(x, x)),
    ("appears multiple times", lambda lib, x: x.flip(0, 0)),
    ("Dimension out of range", lambda lib, x: x.flip(3)),
    ("shifts and dimensions must align", lambda lib, x: x.roll((1, 2), 0)),
    ("can not be smaller than number of dim", lambda lib, x: x.repeat(2)),
    ("negative dimension", lambda lib, x: x.repeat(-1, 1)),
    ("repeats must have the same size as", lambda lib, x: x.repeat_interleave(i(lib, 1, 2), 0)),
    ("repeats can not be negative", lambda lib, x: x.repeat_interleave(i(lib, 1, 2, -1), 0)),
    ("must have at least 2 dimensions", lambda lib, x: x[0].tril()),
    ("same number of dimensions", lambda lib, x: lib.take_along_dim(x, i(lib, [0]), 1)),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(REFUSED_CALLS)))
def test_refused_calls_agree(number: int) -> None:
    match, call = REFUSED_CALLS[number]
    check_raises(call, arg((3, 4), requires_grad=False), match=match)


# ------------------------------------------------------------------------- random expressions

SHAPES = [(3,), (2, 3), (2, 3, 2), (1, 3), (0, 2), (2, 0, 3), ()]
_numbers = st.integers(-4, 4)
_bounds = st.none() | st.integers(-5, 5)
_basic = st.one_of(
    _numbers,
    st.builds(slice, _bounds, _bounds, st.none() | st.integers(-1, 3)),
    st.just(None),
    st.just(Ellipsis),
)
_advanced = st.one_of(
    st.booleans(),
    st.lists(_numbers, max_size=3),
    st.lists(st.booleans(), min_size=1, max_size=3).map(lambda v: ("mask", v)),
    st.tuples(st.sampled_from([(2,), (2, 1), (1, 3), (0,)]), st.integers(0, 99)).map(
        lambda s: ("index", s)
    ),
)
# After a second Ellipsis PyTorch counts dimensions that are not there.
_entries = st.lists(st.one_of(_basic, _basic, _advanced), max_size=4).filter(
    lambda entries: sum(e is Ellipsis for e in entries) < 2
)


def concrete(lib: Any, entry: Any) -> Any:
    """A drawn entry as an index of the library."""
    if isinstance(entry, tuple) and entry[0] == "mask":
        return lib.tensor(entry[1])
    if isinstance(entry, tuple):
        shape, seed = entry[1]
        return lib.tensor(np.random.default_rng(seed).integers(-2, 2, shape))
    return entry


def outcome(lib: Any, shape: tuple[int, ...], turned: bool, entries: Any, write: bool) -> Any:
    """All that can be seen of one indexing expression, its error included."""
    count = int(np.prod(shape))
    x = lib.arange(float(count)).reshape(shape[::-1] if turned else shape)
    x = (x.permute(tuple(reversed(range(len(shape))))) if turned else x).detach().requires_grad_()
    y = x * 1
    index = tuple(concrete(lib, e) for e in entries)
    try:
        if write:
            y[index] = 7.0
            out = y
        else:
            out = y[index]
        strides = tuple(out.stride()) if out.numel() else None
        facts = [tuple(out.shape), strides, out._is_view(), out.tolist(), y._version]
        if not write:
            facts.append(out.grad_fn.name())
        (grad,) = lib.autograd.grad((out * out).sum(), x)
        return [*facts, grad.tolist()]
    except (IndexError, ValueError, TypeError, RuntimeError) as error:
        words = str(error).partition(" (Triggered")[0].replace("jitgrad", "torch")
        if "is out of bounds for dimension" in words:  # of several, another one may be named
            words = "is out of bounds for dimension"
        # PyTorch may have written some elements before it finds the bad index.
        unchanged = y._version == 0 and y.tolist() == x.tolist()
        return type(error).__name__, words, unchanged or lib is not jitgrad


@pytest.mark.oracle
@given(st.sampled_from(SHAPES), st.booleans(), _entries, st.booleans())
def test_random_expressions_agree(
    shape: tuple[int, ...], turned: bool, entries: Any, write: bool
) -> None:
    torch = torch_or_skip()
    expected = outcome(torch, shape, turned, entries, write)
    assert outcome(jitgrad, shape, turned, entries, write) == expected


@given(
    st.sampled_from([(4,), (2, 3), (3, 2, 2)]),
    st.lists(st.one_of(_numbers, st.builds(slice, _bounds, _bounds)), max_size=3),
)
def test_basic_reads_agree_with_numpy(shape: tuple[int, ...], entries: Any) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    x = jitgrad.tensor(array)
    try:
        expected = array[tuple(entries)]
    except IndexError:
        with pytest.raises(IndexError):
            x[tuple(entries)]
        return
    np.testing.assert_array_equal(x[tuple(entries)].numpy(), expected)


def test_every_pair_of_entries_agrees_with_numpy() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    x = jitgrad.tensor(array)
    entries = [1, slice(None), slice(1, None), None, [0, 1], np.array([[1], [0]])]
    for pair in itertools.product(entries, repeat=2):
        np.testing.assert_array_equal(x[pair].numpy(), array[pair], err_msg=str(pair))
