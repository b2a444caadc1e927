"""A differentiable function for each structured row of neural networks, with its inputs' shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgrad as jg
from jitgrad.nn import functional as F

Case = tuple[Callable[..., Any], list[Any]]
PLACES = jg.tensor([[0, 2], [1, 1]])
# What a line, a plane and a volume are here.
SPACES = {1: (1, 2, 4), 2: (1, 1, 4, 3), 3: (1, 1, 3, 2, 3)}


def _padding() -> dict[str, Case]:
    cases: dict[str, Case] = {"constant_pad_nd": (lambda x: F.pad(x, (1, 2)), [(2, 3)])}
    for mode in ("reflect", "replicate", "circular"):
        for rank, shape in SPACES.items():
            cases[f"{mode}_{rank}"] = (
                lambda x, mode=mode, rank=rank: F.pad(x, (1, 1) * rank, mode), [shape],
            )  # fmt: skip
    return cases


def _resampling() -> dict[str, Case]:
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}
    cases: dict[str, Case] = {}
    for rank, shape in SPACES.items():
        for mode in ["nearest", "nearest-exact", *modes[rank]]:
            cases[f"{mode}_{rank}"] = (
                lambda x, mode=mode: F.interpolate(x, scale_factor=1.6, mode=mode), [shape],
            )  # fmt: skip
    for mode in ("bilinear", "bicubic", "lanczos"):
        cases[f"{mode}_antialias"] = (
            lambda x, mode=mode: F.interpolate(x, size=(2, 2), mode=mode, antialias=True),
            [(1, 1, 4, 5)],
        )
    return cases


def _pooling() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for rank in (2, 3):
        shape = {2: (1, 1, 4, 4), 3: (1, 1, 2, 4, 4)}[rank]
        draws = jg.full((1, 1, rank), 0.4, dtype=jg.float64)
        for name in ("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"):
            pool = getattr(F, f"{name}{rank}d")
            cases[f"{name}{rank}d"] = (lambda x, pool=pool: pool(x, 2), [shape])
        fractional = getattr(F, f"fractional_max_pool{rank}d")
        sizes = {"output_size": 2, "_random_samples": draws}
        cases[f"fractional_max_pool{rank}d"] = (
            lambda x, pool=fractional, sizes=sizes: pool(x, 1, **sizes), [shape],
        )  # fmt: skip
        whole, pooled = getattr(F, f"max_unpool{rank}d"), (1, 1, *(1,) * (rank - 2), 2, 2)
        at = jg.tensor([0, 3, 9, 14]).reshape(pooled)
        out = shape[2:]
        cases[f"max_unpool{rank}d"] = (
            lambda x, whole=whole, at=at, out=out: whole(x, at, 2, output_size=out), [pooled],
        )  # fmt: skip
    return cases


def _convolutions() -> dict[str, Case]:
    return {
        "conv1d": (F.conv1d, [(1, 2, 4), (2, 2, 2), (2,)]),
        "conv2d": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), [(1, 1, 3, 3), (2, 1, 2, 2)]),
        "conv_transpose": (F.conv_transpose2d, [(1, 2, 2, 2), (2, 1, 2, 2), (1,)]),
        "conv_tbc": (F.conv_tbc, [(3, 1, 2), (2, 2, 1), (1,)]),
        "unfold": (lambda x: F.unfold(x, 2), [(1, 1, 3, 3)]),
        "fold": (lambda x: F.fold(x, (3, 3), 2), [(1, 4, 4)]),
    }


def _recurrent() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for kind, gates in {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}.items():
        for bias in (False, True):
            for projected in (False, True) if kind == "lstm" else (False,):
                width = 1 if projected else 2  # of the output, for two units
                shapes: list[Any] = [(2, 1, 3), (1, 1, width)]
                shapes += [(1, 1, 2)] if kind == "lstm" else []
                shapes += [(gates * 2, 3), (gates * 2, width)]
                shapes += [(gates * 2,)] * 2 if bias else []
                shapes += [(width, 2)] if projected else []

                def run(x: Any, *given: Any, kind: str = kind, bias: bool = bias) -> Any:
                    count = 2 if kind == "lstm" else 1
                    states, weights = given[:count], list(given[count:])
                    hx = states if kind == "lstm" else states[0]
                    options = (bias, 1, 0.0, True, False, False)
                    return getattr(jg, kind)(x, hx, weights, *options)

                cases[f"{kind}{'_bias' * bias}{'_projected' * projected}"] = (run, shapes)
    return cases


NN_CASES: dict[str, Case] = {
    **_padding(),
    **_resampling(),
    **_pooling(),
    **_convolutions(),
    **_recurrent(),
    "native_dropout": (lambda x: jg.native_dropout(x, 0.0, True)[0], [(2, 3)]),  # keeps all
    "embedding": (lambda w: F.embedding(PLACES, w), [(3, 2)]),
    "embedding_bag": (
        lambda w, s: F.embedding_bag(PLACES, w, mode="sum", per_sample_weights=s), [(3, 2), (2, 2)],
    ),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), [(2, 3), (3,), (3,)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (3,), w), [(2, 3), (3,)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 2), (4,), (4,)]),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [(3, 2, 2), (2,), (2,)],
    ),
    "attention": (F.scaled_dot_product_attention, [(2, 2), (3, 2), (3, 2)]),
    "grid_sample_2d": (
        lambda x, g: F.grid_sample(x, g - 1.1, align_corners=False), [(1, 1, 3, 3), (1, 2, 1, 2)],
    ),
    "grid_sample_3d": (
        lambda x, g: F.grid_sample(x, g - 1.1, align_corners=False),
        [(1, 1, 2, 3, 2), (1, 1, 2, 1, 3)],
    ),
    "affine_grid": (
        lambda t: F.affine_grid(t, (1, 1, 2, 2), align_corners=False), [(1, 2, 3)],
    ),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [(1, 4, 1, 2)]),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), [(1, 1, 2, 4)]),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), [(1, 4, 2)]),
    "pack_padded_sequence": (
        lambda x: jg.nn.utils.rnn.pack_padded_sequence(x, jg.tensor([3, 1])).data, [(3, 2, 2)],
    ),
}  # fmt: skip
