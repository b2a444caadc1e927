"""Operators of several kinds, beyond what the samples of op_db reach."""

from __future__ import annotations

import pytest

from tests.oracle import arg, check, check_raises

PLAIN = {"requires_grad": False}


def test_gradient_with_coordinates_and_orders() -> None:
    for order in (1, 2):
        check(lambda lib, x, o=order: lib.gradient(x, edge_order=o), (4, 3), grad_fn=False)
        check(
            lambda lib, x, t, o=order: lib.gradient(x, spacing=(t,), dim=0, edge_order=o),
            (4, 3), arg([0.0, 1.0, 3.0, 4.5], **PLAIN), grad_fn=False,
        )  # fmt: skip
    check(lambda lib, x: lib.gradient(x, spacing=(2.0, 0.5)), (4, 3), grad_fn=False)
    check(lambda lib, x: lib.gradient(x, dim=1)[0], arg((4, 3), dtype="int32", **PLAIN))
    for kwargs in ({"edge_order": 3}, {"spacing": (1.0,)}, {"dim": (0, 0)}):
        check_raises(lambda lib, x, kw=kwargs: lib.gradient(x, **kw), (3, 3), match="")


def test_histogram_edges_and_weights() -> None:
    x = arg([1.0, 2.0, 4.0, 7.0, 11.0, 16.0], **PLAIN)
    check(lambda lib, x: lib.histogram(x, 3), x)
    check(lambda lib, x: lib.histogram(x, lib.tensor([1.0, 4.0, 16.0]).to(x.dtype)), x)
    check(lambda lib, x: x.histogram(3, range=(0.0, 4.0), weight=x, density=True), x)
    check(lambda lib, x: lib.histogram(x * 0, 3), x)
    check(lambda lib, x: lib.histogram(x, 4), arg((0,), **PLAIN))
    check(lambda lib, x: lib.histogramdd(x, [2, 3], weight=x[:, 0]), arg((5, 2), **PLAIN))
    check(lambda lib, x: lib.histogramdd(x, 2, range=[0.0, 1.0, -1.0, 1.0], density=True),
          arg((5, 2), **PLAIN))  # fmt: skip
    check_raises(lambda lib, x: lib.histogram(x, 0), x, match="bins must be > 0")
    check_raises(lambda lib, x: lib.histogram(x, 2, range=(3.0, 1.0)), x, match="should not exceed")


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_segments(reduce: str) -> None:
    for initial in (None, 3.0):
        check(
            lambda lib, x, start=initial: lib.segment_reduce(
                x, reduce, lengths=lib.tensor([2, 0, 3]), initial=start
            ),
            (5, 2), grad_fn=False, grad=0,
        )  # fmt: skip
    check(
        lambda lib, x: lib.segment_reduce(x, reduce, lengths=lib.tensor([[2, 2], [1, 3]]), axis=1),
        (2, 4), grad_fn=False, grad=1,
    )  # fmt: skip
    check_raises(
        lambda lib, x: lib.segment_reduce(x, reduce, lengths=lib.tensor([2, 2])), (5,),
        match="to sum to",
    )  # fmt: skip


def test_shapes() -> None:
    check(lambda lib: tuple(lib.broadcast_shapes((2,), (3, 1), 1)))
    check_raises(lambda lib: lib.broadcast_shapes((2, 3), (3, 2)), match="at -1! Mismatching")
    check(lambda lib: lib.empty_permuted((2, 3, 4), (0, 2, 1)).stride())
    check_raises(lambda lib: lib.empty_permuted((2, 3), (0, 0)), match="Duplicate dim")


def test_nonzero_of_a_fixed_size() -> None:
    x = arg([[0, 1], [1, 1]], dtype="int64", **PLAIN)
    for size in (0, 2, 5):
        check(lambda lib, x, n=size: x.nonzero_static(size=n, fill_value=7), x)


def test_rows_of_numbers() -> None:
    check(lambda lib: lib.logspace(0, 2, 5, dtype=lib.float64), rtol=1e-14)
    check(lambda lib: lib.logspace(0, 2, 5, dtype=lib.int64))
    check(lambda lib: lib.logspace(0, 8, 1, base=2))
    check(lambda lib: lib.range(0, 1, 0.3), warns="range is deprecated")


def test_activations_of_integers() -> None:
    x = arg([-3, -1, 0, 2, 8], dtype="int64", **PLAIN)
    check(lambda lib, x: lib.nn.functional.threshold(x, 1.5, 5.5), x)
    check(lambda lib, x: lib.nn.functional.hardtanh(x, -1.5, 2.5), x)
    check(lambda lib, x: lib.nn.functional.relu6(x), x)
    check_raises(lambda lib, x: lib.nn.functional.relu6(x.bool()), x, match="Bool inputs not")
    check_raises(lambda lib, x: lib.nn.functional.hardtanh(x.to(lib.uint8), -1, 1), x,
                 match="unsigned type with negative")  # fmt: skip
    for bounds in ((0.5, 0.1), (float("nan"), 1.0)):
        check_raises(lambda lib, x, b=bounds: lib.nn.functional.rrelu(x, *b), (3,), match="bound")


def test_gradients_that_are_zero_are_there() -> None:
    check(lambda lib, m, s: lib.normal(m, s * s) * 0, (3,), (3,))
    check(lambda lib, a, b: lib.cdist(a, b, p=0), (3, 2), (4, 2), grad=1)
    check(lambda lib, a: lib.linalg.matrix_power(a, 0), (2, 3, 3), version=False)
    check(lambda lib, a, b: lib.nextafter(a, b), (3,), (3,))


def test_out_must_not_overlap() -> None:
    def expanded(lib, x, joined):  # noqa: ANN
        out = lib.zeros(1, dtype=x.dtype).expand(4)
        lib.cat([x, x], out=out) if joined else lib.index_select(x, 0, lib.arange(4) % 2, out=out)

    def shifted(lib, x, joined):  # noqa: ANN
        z = lib.ones(6, dtype=x.dtype)
        if joined:
            lib.cat([z[:2], z[2:4]], out=z[1:5])
        else:
            lib.index_select(z, 0, lib.arange(2), out=z[1:3])

    for joined in (True, False):
        check_raises(lambda lib, x, j=joined: expanded(lib, x, j), arg((2,), **PLAIN),
                     match="more than one element of the written-to tensor")  # fmt: skip
        check_raises(lambda lib, x, j=joined: shifted(lib, x, j), arg((2,), **PLAIN),
                     match="some elements of the input tensor")  # fmt: skip
