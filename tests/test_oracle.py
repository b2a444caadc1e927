"""The oracle helper itself: it passes what agrees and names what does not.

PyTorch stands on both sides; `Altered` makes one of them lie about a single function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle import LAYOUTS, arg, check, check_raises, torch_or_skip
from tests.oracle.inputs import lay_out

pytestmark = pytest.mark.oracle


class Altered:
    """A library that is PyTorch but for a few functions of its own."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return self._functions.get(name) or getattr(torch_or_skip(), name)


def add(lib: Any, x: Any, y: Any) -> Any:
    return lib.add(x, y)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3), (2, 1, 4)])
def test_inputs_have_the_values_they_were_given_in_every_layout(
    layout: str, shape: tuple[int, ...]
) -> None:
    values = np.random.default_rng(0).uniform(size=shape)
    memory, strides, offset = lay_out(values, layout)
    read = np.lib.stride_tricks.as_strided(
        memory[offset:], shape, tuple(8 * stride for stride in strides)
    )
    expected = values[:1].repeat(shape[0], 0) if layout == "expanded" and shape else values
    np.testing.assert_array_equal(read, expected)


def test_inputs_are_the_same_on_both_sides_and_leaves_of_their_own() -> None:
    def look(lib: Any, x: Any, y: Any) -> Any:
        assert x.is_leaf and not x._is_view() and x.requires_grad and not y.requires_grad
        assert not x.is_contiguous()
        return x.stride(), x.storage_offset(), x.tolist(), y.dtype

    (strides, offset, _, dtype) = check(look, (2, 3), arg([1, 2]), subject=Altered())
    assert (strides, offset, str(dtype)) == ((7, 2), 1, "torch.int64")


@pytest.mark.parametrize(
    "fn",
    [
        add,
        lambda lib, x, y: (x * y).sin().sum(0, keepdim=True),
        lambda lib, x, y: x.max(0),
        lambda lib, x, y: [x.t(), {"a": y[0], "b": (x.shape, x.dtype, x.sum().item(), None)}],
        lambda lib, x, y: x.clone().mul_(y),
        lambda lib, x, y: x.split(1),
        lambda lib, x, y: repr(x),
        lambda lib, x, y: (x.detach().numpy(), float("nan")),
        lambda lib, x, y: lib.full((2,), float("nan"), dtype=lib.bfloat16),
    ],
)
def test_what_agrees_passes(fn: Callable[..., Any]) -> None:
    check(fn, (2, 3), (2, 3), subject=Altered())


def fake_add(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """torch.add whose result goes through `change`."""
    return lambda x, y: change(torch_or_skip().add(x, y))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: out + 1e-9, "output: value: 6 of 6 differ"),
        (lambda out: out.float(), "output: dtype: torch 'float64', jitgrad 'float32'"),
        (lambda out: out.t().contiguous().t(), "output: strides: torch (3, 1), jitgrad (1, 2)"),
        (lambda out: out[None], "output: shape: torch (2, 3), jitgrad (1, 2, 3)"),
        (lambda out: out.detach(), "output: requires_grad: torch True, jitgrad False"),
        (lambda out: out.view(2, 3), "output: is a view: torch False, jitgrad True"),
        (lambda out: out.clone(), "grad_fn: torch 'AddBackward0', jitgrad 'CloneBackward0'"),
        (lambda out: out.add_(0), "output: version: torch 0, jitgrad 1"),
        (lambda out: (out,), "output: container: only with jitgrad"),
        (lambda out: out.sum().item(), "output: type: torch 'Tensor', jitgrad 'float'"),
    ],
)
def test_what_differs_is_named(change: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(AssertionError) as failure:
        check(add, (2, 3), (2, 3), subject=Altered(add=fake_add(change)))
    assert message in str(failure.value)
    assert "input 1 was float64[2, 3] transposed, requires_grad" in str(failure.value)


def test_wrong_gradients_are_named() -> None:
    torch = torch_or_skip()

    class WrongGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return -x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    with pytest.raises(AssertionError, match=r"gradient of input 0: value: 3 of 3 differ"):
        check(
            lambda lib, x: lib.neg(x),
            (3,),
            grad_fn=False,
            subject=Altered(neg=WrongGradient.apply),
        )


def test_wrong_second_gradients_are_named() -> None:
    torch = torch_or_skip()

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 2 * x.detach()

    with pytest.raises(AssertionError) as failure:
        check(
            lambda lib, x: lib.square(x),
            (3,),
            grad_fn=False,
            subject=Altered(square=Square.apply),
        )
    assert "second gradient of input 0: value" in str(failure.value)
    assert "\n  gradient of" not in str(failure.value)


def test_writing_to_an_input_or_its_gaps_is_named() -> None:
    def scribble(x: Any) -> Any:
        with torch_or_skip().no_grad():
            x.as_strided((1,), (1,), 0).zero_()
        return -x

    with pytest.raises(AssertionError, match="input 0 afterwards: memory: 1 of 7 differ"):
        check(
            lambda lib, x: lib.neg(x),
            arg((3,), layout="gapped"),
            grad=0,
            subject=Altered(neg=scribble),
        )


def test_sharing_is_compared() -> None:
    with pytest.raises(AssertionError, match=r"shares memory with: torch 'input 0', jitgrad None"):
        check(lambda lib, x: lib.t(x), (2, 3), subject=Altered(t=lambda x: x.t().clone()))
    with pytest.raises(AssertionError, match=r"output\[1\]: shares memory with: torch 'output\[0"):
        check(
            lambda lib, x: lib.chunk(x.clone(), 2),
            (4,),
            subject=Altered(chunk=lambda x, n: tuple(c.clone() for c in x.chunk(n))),
        )


def test_exact_tells_zeros_apart() -> None:
    lie = Altered(abs=lambda x: -x.abs())
    check(lambda lib, x: lib.abs(x), arg([0.0]), grad=0, grad_fn=False, subject=lie)
    with pytest.raises(AssertionError, match="to agree exactly"):
        check(lambda lib, x: lib.abs(x), arg([0.0]), grad=0, grad_fn=False, exact=True, subject=lie)


def test_warnings_are_compared() -> None:
    def noisy(lib: Any, x: Any) -> Any:
        return lib.add(x, x, out=lib.empty(1))

    options = {"requires_grad": False, "dtype": "float32", "warns": "An output with one or more"}
    check(noisy, (2, 3), **options, subject=Altered())
    with pytest.raises(AssertionError, match="did not warn with 'An output with one or more'"):
        check(
            noisy,
            (2, 3),
            **options,
            subject=Altered(add=lambda x, y, out: out.resize_(x.shape).copy_(x).add_(y)),
        )


def test_an_error_on_one_side_only_is_a_failure() -> None:
    def refuse(x: Any, y: Any) -> Any:
        raise RuntimeError("not today")

    with pytest.raises(AssertionError, match="only jitgrad raised RuntimeError: not today"):
        check(add, (2,), (2,), subject=Altered(add=refuse))
    with pytest.raises(AssertionError, match="torch itself raised, use check_raises"):
        check(add, (2,), (3,), subject=Altered())


def raising(error: Exception) -> Altered:
    def add(x: Any, y: Any) -> Any:
        raise error

    return Altered(add=add)


def test_errors_must_agree_in_type_and_phrase() -> None:
    class Special(RuntimeError):
        pass

    phrase = "must match the size of tensor b"
    check_raises(add, (2,), (3,), match=phrase, subject=raising(Special(phrase)))
    with pytest.raises(AssertionError, match="jitgrad must raise RuntimeError"):
        check_raises(add, (2,), (3,), match=phrase, subject=raising(ValueError(phrase)))
    with pytest.raises(AssertionError, match="in jitgrad's message"):
        check_raises(add, (2,), (3,), match=phrase, subject=raising(RuntimeError("no")))
    with pytest.raises(AssertionError, match="jitgrad must raise"):
        check_raises(add, (2,), (3,), match=phrase, subject=Altered(add=lambda x, y: x))


def test_a_refused_call_must_leave_its_inputs_alone() -> None:
    def half(x: Any, y: Any) -> Any:
        with torch_or_skip().no_grad():
            x[0] = 0
        return torch_or_skip().add(x, y)

    with pytest.raises(AssertionError, match="input 0 afterwards: version: before 0, after 1"):
        check_raises(add, (2,), (3,), match="must match the size", subject=Altered(add=half))
