"""Attention against PyTorch: the function, the modules, the masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises, torch_or_skip

QKV = [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)]


def plain(lib: Any, *args: Any, **kwargs: Any) -> Any:
    return lib.nn.functional.scaled_dot_product_attention(*args, **kwargs)


def additive_mask() -> np.ndarray:
    mask = np.random.default_rng(0).normal(size=(2, 1, 5, 7))
    mask[0, 0, 1, :4] = -np.inf
    mask[1, 0, 2] = -np.inf  # nothing to look at
    return mask


CALLS: dict[str, tuple[Any, list[Any]]] = {
    "plain": (plain, QKV),
    "scale": (lambda lib, *x: plain(lib, *x, scale=0.3), QKV),
    "causal, more keys": (lambda lib, *x: plain(lib, *x, is_causal=True), QKV),
    "causal, fewer keys": (
        lambda lib, *x: plain(lib, *x, is_causal=True),
        [(1, 2, 70, 4), (1, 2, 50, 4), (1, 2, 50, 4)],
    ),
    "several blocks": (
        lambda lib, *x: plain(lib, *x, is_causal=True), [(1, 600, 2), (1, 700, 2), (1, 700, 2)],
    ),
    "bools": (
        lambda lib, *x: plain(lib, *x[:3], attn_mask=x[3]),
        [*QKV, arg((additive_mask() > -0.5)[0, 0], requires_grad=False)],
    ),
    "numbers": (
        lambda lib, *x: plain(lib, *x[:3], attn_mask=x[3]),
        [*QKV, arg(additive_mask(), requires_grad=False)],
    ),
    "a mask that learns": (lambda lib, *x: plain(lib, *x[:3], attn_mask=x[3]), [*QKV, (5, 7)]),
    "matrices": (plain, [(5, 4), (7, 4), (7, 6)]),
    "broadcast": (plain, [(2, 3, 5, 4), (1, 3, 7, 4), (3, 7, 6)]),
    "groups of heads": (
        lambda lib, *x: plain(lib, *x, enable_gqa=True),
        [(2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)],
    ),
    "as transformers call it": (
        lambda lib, *x: plain(lib, *(t.transpose(1, 2) for t in x)),
        [(2, 5, 3, 4), (2, 7, 3, 4), (2, 7, 3, 4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name: str) -> None:
    call, specs = CALLS[name]
    check(call, *specs, grad=1, rtol=1e-9, atol=1e-11, grad_fn=False, strides="ignore")


def test_the_node_and_the_layout_of_the_result() -> None:
    check(plain, *(arg(s, layout="contiguous") for s in QKV), grad=1, rtol=1e-9, atol=1e-11)
    turned = CALLS["as transformers call it"]
    check(
        turned[0], *(arg(s, layout="contiguous") for s in turned[1]),
        grad=1, rtol=1e-9, atol=1e-11, strides="loose",
    )  # fmt: skip


def test_single_precision() -> None:
    check(plain, *QKV, dtype="float32", grad=1, rtol=1e-4, atol=1e-5, grad_fn=False,
          strides="ignore")  # fmt: skip


@pytest.mark.parametrize("name", ["plain", "causal, more keys", "numbers", "a mask that learns"])
def test_derivatives_of_every_kind(name: str) -> None:
    """PyTorch's fused kernel has no second derivative."""
    call, specs = CALLS[name]
    inputs = []
    for spec in specs:
        values = np.random.default_rng(len(inputs)).normal(size=spec) if spec in QKV else None
        if values is None:
            values = additive_mask() if name == "numbers" else np.ones(spec)
        inputs.append(jg.from_numpy(values[..., :3] if spec in QKV else values))
    inputs = [
        x.requires_grad_() if i < 3 or name == "a mask that learns" else x
        for i, x in enumerate(inputs)
    ]
    function = lambda *xs: call(jg, *xs)  # noqa: E731
    assert jg.autograd.gradcheck(function, inputs, check_forward_ad=name == "plain", fast_mode=True)
    assert jg.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("shapes", [
    [(2, 0, 4), (2, 3, 4), (2, 3, 4)],
    [(2, 3, 4), (2, 0, 4), (2, 0, 4)],
    [(0, 3, 4), (0, 3, 4), (0, 3, 4)],
])  # fmt: skip
def test_nothing_to_look_at(shapes: Any) -> None:
    check(plain, *shapes, grad=1, grad_fn=False, strides="ignore")


@pytest.mark.oracle
def test_dropout_draws_the_numbers_of_torch(seed: Any) -> None:
    shown = []
    for lib in (torch_or_skip(), jg):
        seed(3)
        q, k, v = (
            lib.from_numpy(np.random.default_rng(i).normal(size=s)) for i, s in enumerate(QKV)
        )
        shown.append(plain(lib, q, k, v, dropout_p=0.4).numpy())
    np.testing.assert_allclose(*shown, rtol=1e-9)


def test_long_rows_of_large_scores() -> None:
    q = jg.full((1, 1, 8), 60.0)
    k = jg.arange(4096).reshape(4096, 1).expand(1, 4096, 8) / 4096.0
    result = plain(jg, q, k, k)
    assert result.isfinite().all() and result.min().item() > 0.97


def test_threads_do_not_change_a_bit(threads: Any) -> None:
    q, k, v, g = (jg.randn(2, 3, 200, 16) for _ in range(4))

    def run() -> list[bytes]:
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        y = plain(jg, *leaves, is_causal=True)
        return [t.detach().numpy().tobytes() for t in (y, *jg.autograd.grad(y, leaves, g))]

    threads(1)
    alone = run()
    threads(2)
    assert run() == alone


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda lib, q, m: plain(lib, q, q, q, m, is_causal=True), "should not be set when"),
        (lambda lib, q, m: plain(lib, q, q.float(), q), "to have the same dtype"),
        (lambda lib, q, m: plain(lib, q, q, q, m.long()), "Expected attn_mask dtype to be bool"),
        (lambda lib, q, m: plain(lib, q[0, 0, 0], q, q), "all be  at least 2 dimensional"),
        (lambda lib, q, m: plain(lib, q, q[:, :2], q[:, :2]), "must match the size of tensor b"),
        (lambda lib, q, m: plain(lib, q, q, q, dropout_p=1.5), "has to be between 0 and 1"),
        (
            lambda lib, q, m: plain(lib, q, q[:, :2], q[:, :2], enable_gqa=True),
            "Number of heads in key and value must divide",
        ),
        (lambda lib, q, m: plain(lib, q, q, q[:, :, :4]), "Expected size for first two dimensions"),
        (lambda lib, q, m: plain(lib, q, q, q, m[:3]), "must match the size of tensor b"),
    ],
)
def test_errors(call: Any, match: str) -> None:
    check_raises(lambda lib, q, m: call(lib, q, m), (2, 3, 5, 4), (5, 5), match=match)


def test_the_choice_of_an_implementation_is_accepted() -> None:
    from jitgrad.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        plain(jg, jg.ones(2, 3), jg.ones(2, 3), jg.ones(2, 3))
    with pytest.raises(TypeError, match="SDPBackend"), sdpa_kernel(["fast"]):  # type: ignore[list-item]
        pass
