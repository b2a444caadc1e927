"""Orders of dimensions in memory: channels last and the rest."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

IMAGE, VOLUME = (2, 3, 4, 5), (2, 3, 2, 4, 3)


def of(lib: Any, name: str) -> Any:
    return getattr(lib, name)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("channels_last", IMAGE),
        ("channels_last", (2, 1, 4, 5)),
        ("channels_last", (2, 3, 1, 1)),
        ("channels_last", (0, 3, 2, 2)),
        ("channels_last_3d", VOLUME),
        ("contiguous_format", IMAGE),
        ("preserve_format", IMAGE),
    ],
)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gapped"])
def test_copies(name: str, shape: tuple[int, ...], layout: str) -> None:
    x = arg(shape, layout=layout)
    check(lambda lib, x: x.clone(memory_format=of(lib, name)), x)
    if name != "preserve_format":
        check(lambda lib, x: x.contiguous(memory_format=of(lib, name)), x)
    check(lambda lib, x: x.to(memory_format=of(lib, name)), x)
    check(lambda lib, x: x.to(lib.float32, memory_format=of(lib, name)), x)
    check(lambda lib, x: lib.zeros_like(x, memory_format=of(lib, name)), x)
    check(lambda lib, x: lib.full_like(x, 2.0, memory_format=of(lib, name)), x)
    check(lambda lib, x: lib.tensor(x.is_contiguous(memory_format=of(lib, name))), x)


def test_new_tensors() -> None:
    check(lambda lib: lib.empty(IMAGE, memory_format=lib.channels_last).zero_() + 0)
    check(lambda lib: lib.empty(VOLUME, memory_format=lib.channels_last_3d).zero_() + 0)
    check_raises(
        lambda lib: lib.empty((2, 3), memory_format=lib.channels_last),
        match="required rank 4 tensor to use channels_last format",
    )
    check_raises(
        lambda lib: lib.empty((2, 3), memory_format=lib.preserve_format),
        match="unsupported memory format Preserve",
    )


def test_wrong_formats() -> None:
    check_raises(lambda lib, x: x.contiguous(memory_format=3), (2, 3), match="'memory_format' must")
    check_raises(
        lambda lib, x: x.contiguous(memory_format=lib.channels_last), (2, 3), match="required rank"
    )
    assert repr(jg.channels_last) == "jitgrad.channels_last"
    assert isinstance(jg.channels_last, jg.memory_format)


def test_modules_and_results_stay_channels_last() -> None:
    model = jg.nn.Conv2d(3, 4, 3).to(memory_format=jg.channels_last)
    assert model.weight.is_contiguous(memory_format=jg.channels_last)
    x = jg.randn(2, 3, 6, 6).to(memory_format=jg.channels_last)
    assert model(x).relu().is_contiguous(memory_format=jg.channels_last)
