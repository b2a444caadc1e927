"""Multi-head attention and transformers against PyTorch: initial values, results, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.oracle import check_raises, torch_or_skip


def values(index: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(index).normal(size=shape)


def both(build: Callable[[Any], Any], run: Callable[..., Any], *shapes: Any, seed: Any) -> None:
    """A module of each library from one seed, and what it makes of the same inputs."""
    shown: list[dict[str, Any]] = []
    for lib in (torch_or_skip(), jg):
        seed(7)
        module = build(lib).double()
        inputs = [
            lib.from_numpy(values(i, *shape)).requires_grad_() for i, shape in enumerate(shapes)
        ]
        results = run(lib, module, *inputs)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum((r * r).sum() for r in results if r is not None)
        loss.backward()
        facts: dict[str, Any] = {f"result {i}": r for i, r in enumerate(results) if r is not None}
        facts.update({f"gradient of input {i}": x.grad for i, x in enumerate(inputs)})
        for name, p in module.named_parameters():
            facts[name] = p
            if p.grad is not None:
                facts[f"gradient of {name}"] = p.grad
        shown.append({k: v.detach().numpy() for k, v in facts.items()})
        shown[-1]["text"] = repr(module)
    theirs, ours = shown
    assert list(theirs) == list(ours)
    assert theirs.pop("text") == ours.pop("text")
    for name, value in theirs.items():
        # Drawn in single precision by routines that may differ in the last place.
        np.testing.assert_allclose(ours[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def hidden(lib: Any, batch: int, keys: int) -> Any:
    """True for keys that are padding: the last ones, more in later samples."""
    return lib.from_numpy(np.arange(keys) >= keys - np.arange(batch)[:, None])


def causal(lib: Any, size: int) -> Any:
    return lib.nn.Transformer.generate_square_subsequent_mask(size, dtype=lib.float64)


ATTENTION: dict[str, tuple[dict[str, Any], Any, list[Any]]] = {
    "self": ({}, lambda lib, m, x: m(x, x, x), [(5, 3, 8)]),
    "batch first": ({"batch_first": True}, lambda lib, m, x: m(x, x, x), [(3, 5, 8)]),
    "without weights": (
        {"batch_first": True},
        lambda lib, m, x: m(x, x, x, need_weights=False), [(3, 5, 8)],
    ),
    "without bias, all heads": (
        {"bias": False},
        lambda lib, m, q, k: m(q, k, k, average_attn_weights=False), [(5, 3, 8), (4, 3, 8)],
    ),
    "no batch": ({}, lambda lib, m, q, k, v: m(q, k, v), [(5, 8), (4, 8), (4, 8)]),
    "other sizes": (
        {"kdim": 6, "vdim": 4},
        lambda lib, m, q, k, v: m(q, k, v), [(5, 3, 8), (4, 3, 6), (4, 3, 4)],
    ),
    "one more key, and zeros": (
        {"add_bias_kv": True, "add_zero_attn": True},
        lambda lib, m, q, k: m(
            q, k, k, attn_mask=lib.from_numpy(values(9, 5, 4) > 0.5),
            key_padding_mask=hidden(lib, 3, 4),
        ),
        [(5, 3, 8), (4, 3, 8)],
    ),
    "padding": (
        {"batch_first": True},
        lambda lib, m, x: m(
            x, x, x, key_padding_mask=hidden(lib, 3, 5), need_weights=False,
        ),
        [(3, 5, 8)],
    ),
    "a mask for each head": (
        {},
        lambda lib, m, x: m(x, x, x, attn_mask=lib.from_numpy(values(8, 6, 5, 5))),
        [(5, 3, 8)],
    ),
    "causal hint": (
        {},
        lambda lib, m, x: m(x, x, x, attn_mask=causal(lib, 5), is_causal=True, need_weights=False),
        [(5, 3, 8)],
    ),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", ATTENTION)
def test_multi_head_attention(name: str, seed: Any) -> None:
    settings, run, shapes = ATTENTION[name]
    both(lambda lib: lib.nn.MultiheadAttention(8, 2, **settings), run, *shapes, seed=seed)


@pytest.mark.oracle
def test_static_keys_and_dropout(seed: Any) -> None:
    shown = []
    for lib in (torch_or_skip(), jg):
        seed(3)
        w, x = lib.from_numpy(values(0, 24, 8)), lib.from_numpy(values(1, 5, 3, 8))
        out = lib.from_numpy(values(2, 8, 8))
        k, v = (lib.from_numpy(values(i, 6, 4, 4)) for i in (3, 4))
        results = [
            lib.nn.functional.multi_head_attention_forward(
                x, x, x, 8, 2, w, None, None, None, False, 0.3, out, None, static_k=k, static_v=v,
                need_weights=weights,
            )[0].numpy()
            for weights in (True, False)
        ]  # fmt: skip
        shown.append(results)
    np.testing.assert_allclose(*shown, rtol=1e-9)


LAYERS: dict[str, tuple[Any, Any, list[Any]]] = {
    "encoder layer": (
        lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0), lambda lib, m, x: m(x),
        [(5, 3, 8)],
    ),
    "encoder layer, norm first": (
        lambda lib: lib.nn.TransformerEncoderLayer(
            8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True, bias=False
        ),
        lambda lib, m, x: m(x, src_key_padding_mask=hidden(lib, 3, 5)), [(3, 5, 8)],
    ),
    "encoder": (
        lambda lib: lib.nn.TransformerEncoder(
            lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, lib.nn.functional.silu), 2,
            lib.nn.LayerNorm(8), enable_nested_tensor=False,
        ),
        lambda lib, m, x: m(x, mask=causal(lib, 5)), [(5, 3, 8)],
    ),
    "decoder": (
        lambda lib: lib.nn.TransformerDecoder(
            lib.nn.TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True), 2
        ),
        lambda lib, m, x, y: m(
            x, y, tgt_mask=causal(lib, 5), memory_key_padding_mask=hidden(lib, 3, 4)
        ),
        [(5, 3, 8), (4, 3, 8)],
    ),
    "transformer": (
        lambda lib: lib.nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True),
        lambda lib, m, x, y: m(
            x, y, tgt_mask=causal(lib, 4), tgt_is_causal=True,
            src_key_padding_mask=hidden(lib, 3, 5),
        ),
        [(3, 5, 8), (3, 4, 8)],
    ),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_stacks(name: str, seed: Any) -> None:
    build, run, shapes = LAYERS[name]
    both(build, run, *shapes, seed=seed)


@pytest.mark.oracle
def test_dropout_in_training_draws_the_numbers_of_torch(seed: Any) -> None:
    both(
        lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16, 0.4),
        lambda lib, m, x: m(x), (5, 3, 8), seed=seed,
    )  # fmt: skip


@pytest.mark.oracle
def test_the_causal_mask() -> None:
    for size in (1, 4):
        a, b = (
            lib.nn.Transformer.generate_square_subsequent_mask(size)
            for lib in (torch_or_skip(), jg)
        )
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert b.dtype is jg.float32


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda lib, m, x: m(x, x, x, attn_mask=x[:4, 0, :5]), "The shape of the 2D attn_mask is"),
        (
            lambda lib, m, x: m(x, x, x, attn_mask=lib.zeros(3, 5, 5)),
            "The shape of the 3D attn_mask is",
        ),
        (
            lambda lib, m, x: m(x, x, x, key_padding_mask=lib.zeros(5, 3)),
            "Expected key_padded_mask.shape[0] to be 3, but got 5",
        ),
        (lambda lib, m, x: m(x, x[:4], x), "does not match value shape"),
        (lambda lib, m, x: m(x[..., :7], x, x), "was expecting embedding dimension of 8"),
        (
            lambda lib, m, x: m(x, x, x, is_causal=True),
            "Need attn_mask if specifying",
        ),
        (
            lambda lib, m, x: m(x, x, x, attn_mask=lib.zeros(5, 5).long()),
            "only bool and floating types of attn_mask are supported",
        ),
        (lambda lib, m, x: m(x[0, 0], x, x), "query should be unbatched 2D or batched 3D"),
        (lambda lib, m, x: m(x[:, 0], x, x), "expected `key` and `value` to be 2-D"),
        (lambda lib, m, x: lib.nn.MultiheadAttention(8, 3), "divisible by num_heads"),
        (lambda lib, m, x: lib.nn.MultiheadAttention(8, 0), "must be greater than 0"),
        (
            lambda lib, m, x: lib.nn.TransformerEncoderLayer(8, 2, 16, activation="tanh"),
            "activation should be relu/gelu",
        ),
        (
            lambda lib, m, x: lib.nn.Transformer(8, 2, 0, 0, 16, batch_first=True)(x, x[:4]),
            "the batch number of src and tgt must be equal",
        ),
        (
            lambda lib, m, x: lib.nn.Transformer(4, 2, 0, 0, 16, batch_first=True)(x, x),
            "must be equal to d_model",
        ),
    ],
)
def test_errors(call: Any, match: str, seed: Any) -> None:
    seed(0)
    check_raises(
        lambda lib, x: call(lib, lib.nn.MultiheadAttention(8, 2).double(), x), (5, 3, 8),
        match=match,
    )  # fmt: skip


def test_masks_of_two_kinds_are_warned_of() -> None:
    attention, x = jg.nn.MultiheadAttention(4, 1), jg.zeros(2, 1, 4)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        attention(x, x, x, attn_mask=jg.zeros(2, 2), key_padding_mask=jg.zeros(1, 2, dtype=jg.bool))
    jg.manual_seed(0)
