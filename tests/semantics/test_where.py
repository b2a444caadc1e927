"""Errors that tell you where: each names the lines of this file that are to blame."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import jitgrad as jg
from tests.semantics.common import leaf

HERE = re.escape(__file__)


def line(offset: int = 0) -> int:
    """The number of the caller's line."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno + offset


@contextmanager
def says(*phrases: str) -> Iterator[None]:
    """The block raises a RuntimeError with all the phrases, in this order."""
    with pytest.raises(RuntimeError, match=".*".join(phrases)):
        yield


def at(number: int) -> str:
    return f"{HERE}:{number}\\b"


# An overwritten tensor ----------------------------------------------------------------------------
WRITES: dict[str, tuple[str, Callable[[jg.Tensor], object]]] = {
    "method": ("add_", lambda b: b.add_(1)),
    "operator": ("mul_", lambda b: b.__imul__(2)),
    "zero_": ("zero_", lambda b: b.zero_()),
    "fill_": ("fill_", lambda b: b.fill_(3)),
    "copy_": ("copy_", lambda b: b.copy_(b.detach() + 1)),
    "item": ("copy_|fill_", lambda b: b.__setitem__(0, 1.0)),
    "indexed": ("index_put_", lambda b: b.__setitem__([0], 1.0)),
    "through a view": ("sin_", lambda b: b[:2].sin_()),
    "through detach": ("exp_", lambda b: b.detach().exp_()),
    "geometry": ("unsqueeze_", lambda b: b.unsqueeze_(0)),
}


@pytest.mark.parametrize("kind", WRITES)
def test_what_saved_and_what_overwrote(kind: str) -> None:
    name, write = WRITES[kind]
    b = leaf(jg) * 1
    y, saved = b * b, line()
    write(b)
    written = write.__code__.co_firstlineno
    with says(
        "modified by an inplace operation", "saved by MulBackward0 at", at(saved),
        f"written by ({name})\\(\\) at", at(written),
    ):  # fmt: skip
        y.sum().backward()


def test_a_write_under_no_grad() -> None:
    b = leaf(jg) * 1
    y = b.exp().log()
    kept = y.grad_fn._saved_self
    with jg.no_grad():
        written = line(+1)
        kept.add_(1)
    with says("saved by LogBackward0", "written by add_\\(\\) at", at(written)):
        y.sum().backward()


def test_a_write_by_out() -> None:
    b = leaf(jg) * 1
    y = b * b
    with jg.no_grad():
        jg.add(b, 1, out=b.detach())
        written = line(-1)
    with says("written by add\\(\\) at", at(written)):
        y.sum().backward()


def test_a_write_by_an_optimizer() -> None:
    w = leaf(jg)
    loss, saved = (w * w).sum(), line()
    loss.backward(retain_graph=True)
    jg.optim.SGD([w], lr=0.1).step()
    written = line(-1)
    with says("saved by MulBackward0 at", at(saved), "written by SGD.step\\(\\) at", at(written)):
        loss.backward()


def test_the_operator_that_saved_may_lie_deep() -> None:
    def forward(x: jg.Tensor) -> tuple[jg.Tensor, int]:
        return x.sigmoid(), line()

    y, saved = forward(leaf(jg))
    z = y.sum()
    y.data += 1  # hidden from the counter
    y += 1
    written = line(-1)
    with says("saved by SigmoidBackward0 at", at(saved), "written by add_", at(written)):
        z.backward()


# A second backward --------------------------------------------------------------------------------
def test_the_first_of_two_backward_passes() -> None:
    t = leaf(jg)
    y, recorded = t * t, line()
    y.sum().backward()
    first = line(-1)
    with says(
        "a second time", "MulBackward0 saved at", at(recorded), "freed by the backward pass at",
        at(first),
    ):  # fmt: skip
        y.sum().backward()


def test_the_first_pass_may_be_grad() -> None:
    t = leaf(jg)
    y = (t * t).sum()
    jg.autograd.grad(y, t)
    first = line(-1)
    with says("a second time", at(first)):
        y.backward()


def test_a_pass_that_kept_the_graph_is_not_to_blame() -> None:
    y = leaf(jg).exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    second = line(-1)
    with says("a second time", at(second)):
        y.backward()


def test_saved_tensors_of_a_function_name_the_pass() -> None:
    class Square(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    y, recorded = Square.apply(leaf(jg)).sum(), line()
    y.backward()
    first = line(-1)
    with says("SquareBackward saved at", at(recorded), at(first)):
        y.backward()


# Leaves written in place --------------------------------------------------------------------------
def test_the_cures_of_writing_to_a_leaf() -> None:
    t = leaf(jg)
    with says("a leaf Variable that requires grad", "no_grad\\(\\)", "\\.detach\\(\\)"):
        t += 1
    with says("a view of a leaf Variable", "no_grad\\(\\)", "\\.detach\\(\\)"):
        t[0] = 1
    with jg.no_grad():
        t += 1
    t.detach().add_(1)
    assert t.tolist() == [3.0, 4.0, 5.0]


# Where history was cut ----------------------------------------------------------------------------
def test_detach() -> None:
    x = leaf(jg)
    h, cut = (x * 2).detach(), line()
    y = (h + 1).exp().sum()
    with says("does not require grad", at(cut), "shape \\[3\\]", "detached"):
        y.backward()


def test_data() -> None:
    x = leaf(jg)
    h, cut = x.data * 2, line()
    with says("does not require grad", at(cut), "read by .data"):
        h.sum().backward()


def test_detach_in_place() -> None:
    h = leaf(jg) * 2
    h.detach_()
    cut = line(-1)
    with says("does not require grad", at(cut), "detached in place"):
        h.sum().backward()


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_modes(mode: str) -> None:
    x = leaf(jg)
    with getattr(jg, mode)():
        h, cut = x * 2, line()
    words = mode.replace("_mode", " mode")
    with says("does not require grad", at(cut), f"computed in .*{words}"):
        (h + 1).sum().backward()
    with getattr(jg, mode)():
        h, cut = x.sum(), line()
    with says("does not require grad", at(cut), f"computed in .*{words}"):
        h.backward()


def test_integers() -> None:
    x = leaf(jg)
    h, cut = x.long(), line()
    with says("does not require grad", at(cut), "converted to int64"):
        (h * 0.5).sum().backward()


def test_operators_without_derivative() -> None:
    x = leaf(jg)
    h, cut = x > 1, line()
    with says("does not require grad", at(cut), "gt\\(\\) has no derivative"):
        (h * 0.5).sum().backward()
    h, cut = x.argmax(), line()
    with says("does not require grad", at(cut), "argmax\\(\\) gives indices"):
        (h * 0.5).backward()


def test_plain_leaves() -> None:
    x = jg.ones(3)
    with says("does not require grad", "None of the tensors", "requires_grad_\\(\\)"):
        (x * 2).sum().backward()


def test_views_that_lead_nowhere() -> None:
    x = jg.ones(3)
    v = x[:2]
    x.requires_grad_()
    with says("does not require grad", "taken in a no_grad block, or before"):
        v.backward(jg.ones(2))


def test_the_first_cut_is_named() -> None:
    x = leaf(jg)
    h, cut = x.detach(), line()
    h = h.detach() * 2
    with jg.no_grad():
        h = h + 1
    with says("does not require grad", at(cut)):
        h.sum().backward()
