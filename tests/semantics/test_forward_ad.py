"""Forward-mode AD: rules W1 and W2, and the derivatives of every row of the table.

Every elementwise row and every structured row is checked against finite differences, backward
and forward, first and second order. That no row is left out is itself checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.autograd import forward_ad
from jitgrad.autograd.gradcheck import gradcheck, gradgradcheck
from jitgrad.dispatch.elementwise import functions
from jitgrad.dispatch.record import StructuredNode
from jitgrad.ops.table import ELEMENTWISE, STRUCTURED
from tests.oracle import libraries


@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Any:
    return libraries.jitgrad() if request.param == "jitgrad" else libraries.torch_or_skip()


def f64(lib: Any, values: Any, **options: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64, **options)


def dual(lib: Any, values: Any, tangent: Any) -> Any:
    return lib.autograd.forward_ad.make_dual(f64(lib, values), f64(lib, tangent))


def tangent(lib: Any, x: Any) -> Any:
    found = lib.autograd.forward_ad.unpack_dual(x).tangent
    return None if found is None else found.tolist()


# W1: levels ---------------------------------------------------------------------------------------
def test_one_level(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    assert fw._current_level == -1
    with fw.dual_level() as number:
        assert number == 0 == fw._current_level
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            fw.enter_dual_level()
        with pytest.raises(RuntimeError, match="not the last one"):
            fw.exit_dual_level(level=3)
    assert fw._current_level == -1
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fw.exit_dual_level()


def test_refusals_of_make_dual(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x, t = f64(lib, [1.0, 2.0]), f64(lib, [3.0, 4.0])
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(x, t)
    with fw.dual_level():
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fw.make_dual(fw.make_dual(x, t), t)
        with pytest.raises(RuntimeError, match="itself has a forward gradient"):
            fw.make_dual(x, fw.make_dual(x, t))
        with pytest.raises(RuntimeError, match=r"different size.*size \[2\] while.*size \[1\]"):
            fw.make_dual(x, t[:1])
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            fw.make_dual(x.long(), t)
        with pytest.raises(ValueError, match="Expected tangent to be floating point"):
            fw.make_dual(x, t.long())


def test_packing_shares_memory_and_version(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x, t = f64(lib, [1.0, 2.0]), f64(lib, [3.0, 4.0])
    assert fw.unpack_dual(x) == (x, None) if lib is jg else True
    with fw.dual_level():
        d = fw.make_dual(x, t)
        assert d._base is x
        primal, found = fw.unpack_dual(d)
        assert found is t and fw.unpack_dual(d).tangent is t
        assert primal is not fw.unpack_dual(d).primal
        assert primal.data_ptr() == x.data_ptr()
        x.add_(1)
        assert x._version == d._version == primal._version
        assert fw.unpack_dual(x).tangent is None
        assert fw.unpack_dual(primal).tangent is None
    assert fw.unpack_dual(d).tangent is None


def test_tangents_end_with_the_level(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    with fw.dual_level():
        d = dual(lib, [1.0], [1.0])
        y = d * 2
    with fw.dual_level():
        assert tangent(lib, d) is None and tangent(lib, y) is None
        assert tangent(lib, d * 2) is None


def test_the_level_does_not_keep_tangents_alive() -> None:
    import weakref

    with forward_ad.dual_level():
        t = jg.ones(2)
        d = forward_ad.make_dual(jg.ones(2), t)
        alive = weakref.ref(t)
        del t
        assert alive() is not None
        del d
        assert alive() is None


def test_dual_results_and_what_nodes_saved_die_with_the_level() -> None:
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        with forward_ad.dual_level():
            t = jg.ones(2, requires_grad=True)
            y = forward_ad.make_dual(jg.ones(2, requires_grad=True), t).exp()
            alive = weakref.ref(y)
            del y
        assert alive() is None
    finally:
        gc.enable()


def test_modes(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        with lib.no_grad():
            assert tangent(lib, d * 3) == [3.0, 3.0]
        assert tangent(lib, d.detach() * 3) is None
        if hasattr(lib, "inference_mode"):
            with lib.inference_mode():
                assert tangent(lib, d * 3) is None


def test_integer_results_and_comparisons_have_no_tangent(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        for y in (d > 0, d.long(), d.argmax()):
            assert tangent(lib, y) is None
        assert tangent(lib, d.floor()) == [0.0, 0.0]
        assert tangent(lib, lib.zeros_like(d)) is None


# W2: views and writes -----------------------------------------------------------------------------
def test_views_share_tangents_as_views(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]])
        for view, expected in (
            (d.t(), [[1.0, 3.0], [2.0, 4.0]]),
            (d[1], [3.0, 4.0]),
            (d[:, :1], [[1.0], [3.0]]),
            (d.view(4)[1:3], [2.0, 3.0]),
            (d.unbind(0)[1], [3.0, 4.0]),
            (d.split(1, 1)[1], [[2.0], [4.0]]),
            (d.diagonal(), [1.0, 4.0]),
            (d.unsqueeze(0)[0, 1], [3.0, 4.0]),
            (d.expand(2, 2, 2)[1, 1], [3.0, 4.0]),
        ):
            assert tangent(lib, view) == expected
            assert lib.autograd.forward_ad.unpack_dual(view).tangent._is_view()
        view = d[0]
        view.mul_(10)
        assert tangent(lib, d) == [[10.0, 20.0], [3.0, 4.0]]
        d.mul_(2)
        assert tangent(lib, view) == [20.0, 40.0]


def test_writing_a_dual_into_a_slice(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        base = f64(lib, [0.0, 0.0, 0.0])
        base[1:] = dual(lib, [5.0, 6.0], [1.0, 1.0])
        assert tangent(lib, base) == [0.0, 1.0, 1.0]
        assert tangent(lib, base * base) == [0.0, 10.0, 12.0]


def test_writing_the_base_reaches_earlier_views(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        base = f64(lib, [0.0, 0.0, 0.0])
        view = base[1:]
        base.copy_(dual(lib, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
        assert tangent(lib, view) == [5.0, 6.0]


def test_writes_in_place(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        y = d.clone()
        if lib is jg:  # PyTorch counts one of the factors after the write: [2, 6]
            assert tangent(lib, y.mul_(y)) == [2.0, 4.0]
        y = d.clone()
        assert tangent(lib, y.pow_(3)) == [3.0, 12.0]
        y = f64(lib, [1.0, 1.0])
        assert tangent(lib, y.mul_(d)) == [1.0, 1.0]
        y = d.clone()
        y.copy_(f64(lib, [0.0, 0.0]))
        assert tangent(lib, y) == [0.0, 0.0]
        y = d.clone()
        y[0] = 7.0
        assert tangent(lib, y) == [0.0, 1.0]
        y = d.clone()
        assert tangent(lib, y.zero_()) == [0.0, 0.0]
        y = d.clone()
        assert tangent(lib, y.masked_fill_(f64(lib, [0.0, 1.0]) > 0, 3.0)) == [1.0, 0.0]
        y = f64(lib, [0.0, 0.0, 0.0])
        y.scatter_add_(0, lib.tensor([2, 2]), d)
        assert tangent(lib, y) == [0.0, 0.0, 2.0]
        y = f64(lib, [0.0, 0.0, 0.0])
        y.index_put_((lib.tensor([2, 0]),), d)
        assert tangent(lib, y) == [1.0, 0.0, 1.0]


def test_a_dual_is_a_base_of_its_own(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        fw = lib.autograd.forward_ad
        x = f64(lib, [1.0, 2.0])
        d = fw.make_dual(x, f64(lib, [1.0, 1.0]))
        d *= 2
        assert tangent(lib, d) == [2.0, 2.0] and tangent(lib, x) is None
        assert x.tolist() == [2.0, 4.0]
        x.mul_(2)
        assert tangent(lib, x) is None and tangent(lib, d) == [2.0, 2.0]


def test_results_do_not_alias_tangents_of_inputs(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [1.0, 2.0], [1.0, 1.0])
        for y in (d + 1, d.clone(), d.contiguous() + 0):
            y.mul_(2)
            assert tangent(lib, d) == [1.0, 1.0]


def test_a_tangent_that_lies_otherwise_is_copied(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    with fw.dual_level():
        x, t = f64(lib, [[1.0, 2.0], [3.0, 4.0]]), f64(lib, [[1.0, 2.0], [3.0, 4.0]]).t()
        d = fw.make_dual(x, t)
        assert tangent(lib, d.view(4)) == [1.0, 3.0, 2.0, 4.0]
        part = fw.make_dual(f64(lib, [1.0, 2.0, 3.0])[:2].detach(), f64(lib, [4.0, 5.0]))
        assert tangent(lib, part.as_strided((3,), (1,), 0)) == [4.0, 5.0, 0.0]


def test_out_is_refused(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d, x = dual(lib, [1.0], [1.0]), f64(lib, [1.0])
        with pytest.raises(NotImplementedError, match="out= function"):
            lib.add(d, x, out=lib.empty(1, dtype=lib.float64))
        with pytest.raises(NotImplementedError, match="out= function"):
            lib.add(x, x, out=d)


# Together with the tape ---------------------------------------------------------------------------
def test_forward_over_reverse(lib: Any) -> None:
    with lib.autograd.forward_ad.dual_level():
        d = dual(lib, [0.5, 2.0], [1.0, 10.0]).requires_grad_()
        for create_graph in (False, True):
            (g,) = lib.autograd.grad(
                (d.exp() * d * d).sum(), d, create_graph=create_graph, retain_graph=True
            )
            x = np.array([0.5, 2.0])
            second = np.exp(x) * (x * x + 4 * x + 2) * np.array([1.0, 10.0])
            np.testing.assert_allclose(tangent(lib, g), second)


def test_reverse_over_forward(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x, t = f64(lib, [0.5, 2.0], requires_grad=True), f64(lib, [1.0, 10.0], requires_grad=True)
    with fw.dual_level():
        primal, moved = fw.unpack_dual(fw.make_dual(x, t).exp())
        gx, gt = lib.autograd.grad(moved.sum(), (x, t), retain_graph=True)
        np.testing.assert_allclose(gx.tolist(), np.exp([0.5, 2.0]) * [1.0, 10.0])
        np.testing.assert_allclose(gt.tolist(), np.exp([0.5, 2.0]))
        (gx,) = lib.autograd.grad(primal.sum(), x)
        np.testing.assert_allclose(gx.tolist(), np.exp([0.5, 2.0]))


def test_reverse_over_forward_through_a_write(lib: Any) -> None:
    fw = lib.autograd.forward_ad
    x = f64(lib, [0.5, 2.0], requires_grad=True)
    with fw.dual_level():
        y = fw.make_dual(x, f64(lib, [1.0, 10.0])).clone()
        y[:1].exp_()
        y = y * y
        moved = fw.unpack_dual(y).tangent
        (g,) = lib.autograd.grad(moved.sum(), x)
    np.testing.assert_allclose(moved.tolist(), [2 * np.exp(1.0), 40.0])
    np.testing.assert_allclose(g.tolist(), [4 * np.exp(1.0), 20.0])


# Every row ----------------------------------------------------------------------------------------
def check_all(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """First and second derivatives, both ways, against differences."""
    gradcheck(function, inputs, check_forward_ad=True)
    gradgradcheck(function, inputs, check_fwd_over_rev=True)


def sample(shape: Any, low: float, high: float, seed: int, gapped: bool = False) -> Any:
    random = np.random.default_rng(seed)
    wide = (*shape, 2) if gapped else shape
    x = jg.tensor(random.uniform(low, high, wide), dtype=jg.float64)
    return (x.select(-1, 0) if gapped else x).detach().requires_grad_()


DIFFERENTIABLE = [
    name for name, row in ELEMENTWISE.items() if row.grad and not name.startswith("_")
]


@pytest.mark.parametrize("kind", ["plain", "gapped", "broadcast"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_elementwise_row(name: str, kind: str) -> None:
    row = ELEMENTWISE[name]
    shapes = [(2, 3)] * len(row.inputs)
    if kind == "broadcast":
        if len(shapes) == 1:
            pytest.skip("one input has nothing to broadcast with")
        shapes = [(2, 3), (3,), (2, 1), ()][: len(shapes)]
    inputs = []
    for number, (which, shape) in enumerate(zip(row.inputs, shapes, strict=True)):
        if which in row.booleans:
            inputs.append(jg.tensor(np.random.default_rng(number).random(shape) > 0.5))
            continue
        x = sample(shape, *row.domain, seed=number, gapped=kind == "gapped")
        inputs.append(x if which in row.grad else x.detach())
    check_all(functions[name], tuple(inputs))


INDEX = jg.tensor([2, 0, 1])
DISTINCT = jg.tensor([[0, 1], [2, 1]])
PLACES = jg.tensor([[0, 1, 0], [1, 1, 0]])


def _written(how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A write in place, as a function of what was there."""

    def function(x: Any, *others: Any) -> Any:
        y = x.clone()
        how(y, *others)
        return y

    return function


STRUCTURED_CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "contiguous": (lambda x: x.t().contiguous(), [(2, 3)]),
    "copy": (_written(lambda y, s: y.copy_(s)), [(2, 3), (3,)]),
    "zero": (_written(lambda y: y[0].zero_()), [(2, 3)]),
    "fill": (_written(lambda y, v: y[0].fill_(v)), [(2, 3), ()]),
    "view": (lambda x: x.view(3, 2), [(2, 3)]),
    "reshape": (lambda x: x.t().reshape(6), [(2, 3)]),
    "expand": (lambda x: x.expand(2, 3), [(3,)]),
    "permute": (lambda x: x.permute(1, 0), [(2, 3)]),
    "transpose": (lambda x: x.transpose(0, 1), [(2, 3)]),
    "t": (lambda x: x.t(), [(2, 3)]),
    "unsqueeze": (lambda x: x.unsqueeze(1), [(2, 3)]),
    "squeeze": (lambda x: x.squeeze(), [(2, 1, 3)]),
    "squeeze_dim": (lambda x: x.squeeze(1), [(2, 1, 3)]),
    "select": (lambda x: x.select(1, 2), [(2, 3)]),
    "slice": (lambda x: x[:, ::2], [(2, 3)]),
    "diagonal": (lambda x: x.diagonal(1), [(2, 3)]),
    "unfold": (lambda x: x.unfold(0, 2, 1), [(4,)]),
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 1)), [(4,)]),
    "split": (lambda x: x.split(2), [(3, 2)]),
    "unbind": (lambda x: x.unbind(1), [(3, 2)]),
    "mm": (lambda a, b: a.mm(b), [(2, 3), (3, 2)]),
    "bmm": (lambda a, b: a.bmm(b), [(2, 2, 3), (2, 3, 2)]),
    "mv": (lambda a, b: a.mv(b), [(2, 3), (3,)]),
    "dot": (lambda a, b: a.dot(b), [(3,), (3,)]),
    "matmul": (lambda a, b: a @ b, [(2, 1, 2, 3), (3, 2)]),
    "addmm": (lambda c, a, b: jg.addmm(c, a, b, beta=2, alpha=3), [(2,), (2, 3), (3, 2)]),
    "baddbmm": (lambda c, a, b: jg.baddbmm(c, a, b), [(2, 2), (2, 2, 3), (2, 3, 2)]),
    "cat": (lambda a, b: jg.cat((a, b), 1), [(2, 3), (2, 1)]),
    "stack": (lambda a, b: jg.stack((a, b), 1), [(2, 3), (2, 3)]),
    "sum": (lambda x: x.sum(), [(2, 3)]),
    "sum_dim": (lambda x: x.sum(1, keepdim=True), [(2, 3)]),
    "mean": (lambda x: x.mean(), [(2, 3)]),
    "mean_dim": (lambda x: x.mean(0), [(2, 3)]),
    "prod": (lambda x: x.prod(), [(2, 3)]),
    "prod_dim": (lambda x: x.prod(1), [(2, 3)]),
    "max": (lambda x: x.max(), [(2, 3)]),
    "min": (lambda x: x.min(), [(2, 3)]),
    "max_dim": (lambda x: x.max(1).values, [(2, 3)]),
    "min_dim": (lambda x: x.min(0, keepdim=True).values, [(2, 3)]),
    "amax": (lambda x: x.amax(1), [(2, 3)]),
    "amin": (lambda x: x.amin((0, 1)), [(2, 3)]),
    "var": (lambda x: x.var(1), [(2, 3)]),
    "std": (lambda x: x.std(), [(2, 3)]),
    "norm": (lambda x: x.norm(), [(2, 3)]),
    "norm_3": (lambda x: x.norm(3, 1), [(2, 3)]),
    "logsumexp": (lambda x: x.logsumexp(1), [(2, 3)]),
    "softmax": (lambda x: x.softmax(1), [(2, 3)]),
    "log_softmax": (lambda x: x.log_softmax(0), [(2, 3)]),
    "cumsum": (lambda x: x.cumsum(1), [(2, 3)]),
    "flip": (lambda x: x.flip(1), [(2, 3)]),
    "roll": (lambda x: x.roll(1, 1), [(2, 3)]),
    "rot90": (lambda x: x.rot90(), [(2, 3)]),
    "repeat": (lambda x: x.repeat(2, 2), [(2, 3)]),
    "tril": (lambda x: x.tril(), [(2, 3)]),
    "triu": (lambda x: x.triu(), [(2, 3)]),
    "index": (lambda x: x[:, INDEX], [(2, 3)]),
    "index_put": (_written(lambda y, v: y.index_put_((INDEX,), v)), [(3,), (3,)]),
    "take": (lambda x: x.take(INDEX), [(2, 3)]),
    "put": (lambda x, s: x.put(INDEX, s), [(2, 3), (3,)]),
    "masked_select": (lambda x: x.masked_select(PLACES > 0), [(2, 3)]),
    "masked_scatter": (lambda x, s: x.masked_scatter(PLACES > 0, s), [(2, 3), (6,)]),
    "index_select": (lambda x: x.index_select(1, INDEX), [(2, 3)]),
    "index_add": (lambda x, s: x.index_add(1, INDEX, s), [(2, 3), (2, 3)]),
    "index_copy": (lambda x, s: x.index_copy(1, INDEX, s), [(2, 3), (2, 3)]),
    "index_fill": (lambda x: x.index_fill(1, INDEX[:2], 2.0), [(2, 3)]),
    "index_fill_tensor": (lambda x, v: x.index_fill(1, INDEX[:2], v), [(2, 3), ()]),
    "gather": (lambda x: x.gather(0, PLACES), [(2, 3)]),
    "scatter": (lambda x, s: x.scatter(1, DISTINCT, s), [(2, 3), (2, 3)]),
    "scatter_value": (lambda x: x.scatter(1, PLACES, 2.0), [(2, 3)]),
    "scatter_add": (lambda x, s: x.scatter_add(1, PLACES, s), [(2, 3), (2, 3)]),
    **{
        f"scatter_{how}": (
            lambda x, s, how=how: x.scatter_reduce(1, PLACES, s, how),  # type: ignore[misc]
            [(2, 3), (2, 3)],
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
    },
    "mse_loss": (lambda x, y: jg.nn.functional.mse_loss(x, y), [(2, 3), (2, 3)]),
    "l1_loss": (lambda x, y: jg.nn.functional.smooth_l1_loss(x, y), [(2, 3), (2, 3)]),
    "huber": (lambda x, y: jg.nn.functional.huber_loss(x, y), [(2, 3), (2, 3)]),
    "nll_loss": (
        lambda x: jg.nn.functional.nll_loss(x.log_softmax(1), jg.tensor([2, 0])),
        [(2, 3)],
    ),
    "nll_loss2d": (
        lambda x: jg.nn.functional.nll_loss(x, jg.tensor([[1, 0], [0, 0], [1, 1]])),
        [(3, 2, 2)],
    ),
    "cross_entropy": (
        lambda x: jg.nn.functional.cross_entropy(x, jg.tensor([2, 0])),
        [(2, 3)],
    ),
    "binary_cross_entropy": (
        lambda x: jg.nn.functional.binary_cross_entropy(x.sigmoid(), (PLACES > 0).double()),
        [(2, 3)],
    ),
    "binary_cross_entropy_with_logits": (
        lambda x: jg.nn.functional.binary_cross_entropy_with_logits(x, (PLACES > 0).double()),
        [(2, 3)],
    ),
    "soft_margin_loss": (
        lambda x: jg.nn.functional.soft_margin_loss(x, (PLACES > 0).double() * 2 - 1),
        [(2, 3)],
    ),
}


@pytest.mark.parametrize("gapped", [False, True], ids=["plain", "gapped"])
@pytest.mark.parametrize("name", STRUCTURED_CASES)
def test_structured_row(name: str, gapped: bool) -> None:
    function, shapes = STRUCTURED_CASES[name]
    gapped = gapped and name not in ("view", "as_strided")  # these are about memory
    inputs = [sample(shape, 0.3, 2.0, seed, gapped) for seed, shape in enumerate(shapes)]
    check_all(function, tuple(inputs))


def rows_of(tensors: Any) -> Iterator[str]:
    """The names of the structured rows in the graphs of some tensors."""
    stack = [x.grad_fn for x in tensors]
    seen = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, StructuredNode):
            yield node.row.name
        saved = [x for x in node.saved or () if hasattr(x, "next_edges")]
        stack += [*saved, *(edge[0] for edge in node.next_edges if edge is not None)]


# Rows that are not reached by a differentiable function of one's own: random draws have no
# derivative, casts and aliases are checked where they are tested.
WITHOUT_CASE = {"alias", "to"}


def test_every_structured_row_is_checked() -> None:
    seen = set()
    for function, shapes in STRUCTURED_CASES.values():
        inputs = [sample(shape, 0.3, 2.0, seed) for seed, shape in enumerate(shapes)]
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        seen |= set(rows_of(outputs))
        for order in range(2):
            if not any(y.requires_grad for y in outputs):
                break
            seeds = [(y * 0 + 1).detach().requires_grad_() for y in outputs]
            found = jg.autograd.grad(
                [y for y in outputs if y.requires_grad],
                inputs,
                [s for s, y in zip(seeds, outputs, strict=True) if y.requires_grad],
                create_graph=True,
                allow_unused=True,
            )
            outputs = tuple(g for g in found if g is not None)
            seen |= set(rows_of(outputs))
            inputs += seeds if order == 0 else []
    missing = {
        name
        for name, row in STRUCTURED.items()
        if row.grad and not name.startswith("random_") and name not in WITHOUT_CASE
    } - seen
    assert not missing, f"rows without a case in STRUCTURED_CASES: {sorted(missing)}"
