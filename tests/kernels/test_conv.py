"""Convolution kernels against sums written out, on vector units that this machine need not have."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from jitgrad.dtypes import from_numpy
from jitgrad.kernels.conv import Geometry, build, plan
from jitgrad.kernels.gemm import features
from jitgrad.layout import Layout, dense_layout

# n, channels, rows, input size, kernel, stride, padding, dilation, groups
CASES: dict[str, Any] = {
    "wide": (2, 3, 13, (9, 20), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "strided": (1, 4, 10, (8, 11), (3, 2), (2, 3), (2, 0), (1, 2), 2),
    "few rows": (2, 2, 2, (10, 19), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "few columns": (2, 2, 6, (11, 3), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "one line": (1, 2, 2, (1, 150), (1, 5), (1, 2), (0, 1), (1, 1), 2),
    "in place": (2, 2, 7, (6, 9), (2, 2), (1, 1), (0, 0), (1, 1), 1),
}


def layout_of(x: np.ndarray) -> Layout:
    return dense_layout(x.shape, from_numpy(x.dtype))


def run(launch: Any, *arrays: np.ndarray) -> None:
    launch(*(part for x in arrays for part in (x.reshape(-1).view(np.uint8), 0)))


def terms(case: str) -> Any:
    """Every product of a convolution: indices of the input, the weights and the result."""
    n, channels, rows, size, kernel, stride, padding, dilation, groups = CASES[case]
    out = tuple(
        (i + 2 * p - d * (k - 1) - 1) // s + 1
        for i, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    per, each = channels // groups, rows // groups
    x, w, y = [], [], []
    for b, r, c in itertools.product(range(n), range(rows), range(per)):
        for at, tap in itertools.product(np.ndindex(out), np.ndindex(kernel)):
            source = [
                o * s + t * d - p
                for o, s, t, d, p in zip(at, stride, tap, dilation, padding, strict=True)
            ]
            if all(0 <= i < m for i, m in zip(source, size, strict=True)):
                x.append((b, r // each * per + c, *source))
                w.append((r, c, *tap))
                y.append((b, r, *at))
    return [tuple(np.array(places).T) for places in (x, w, y)], out


@pytest.mark.parametrize("unit", [features.AVX2, features.NARROW], ids=lambda unit: unit.name)
@pytest.mark.parametrize("case", CASES)
def test_other_vector_units(case: str, unit: features.Target) -> None:
    n, channels, rows, size, kernel, stride, padding, dilation, groups = CASES[case]
    (at_x, at_w, at_y), out = terms(case)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, channels, *size)).astype(np.float32)
    w = rng.standard_normal((rows, channels // groups, *kernel)).astype(np.float32)
    y = rng.standard_normal((n, rows, *out)).astype(np.float32)
    bias = rng.standard_normal(rows).astype(np.float32)
    geometry = Geometry(stride, padding, dilation, groups)
    layouts = [layout_of(a) for a in (x, w, y)]

    expected = np.zeros(y.shape) + bias[:, None, None]
    np.add.at(expected, at_y, x[at_x].astype(float) * w[at_w])
    found = np.full(y.shape, 7, np.float32)
    run(plan.windows(*layouts, geometry, adjoint=False, bias=1, host=unit), x, w, bias, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    expected = np.zeros(x.shape)
    np.add.at(expected, at_x, y[at_y].astype(float) * w[at_w])
    found = np.full(x.shape, 7, np.float32)
    nothing = np.zeros(1, np.float32)
    launch = plan.windows(*layouts[::-1], geometry, adjoint=True, bias=0, host=unit)
    run(launch, y, w, nothing, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    expected = np.zeros(w.shape)
    np.add.at(expected, at_w, y[at_y].astype(float) * x[at_x])
    found = np.full(w.shape, 7, np.float32)
    first, second, size_of_sums = plan.weight_gradient(
        layouts[0], layouts[2], layouts[1], geometry, host=unit
    )
    sums = np.empty(size_of_sums, np.uint8)
    run(first, x, y, sums, sums)
    run(second, sums, found, found, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_rows_are_cut_into_the_tiles_that_take_least() -> None:
    heights = build.HEIGHTS["avx512"]
    for rows in (1, 5, 12, 16, 25, 64, 100, 1000):
        tiles = plan.cut(rows, heights)
        assert [first for first, _ in tiles] == list(
            itertools.accumulate((h for _, h in tiles[:-1]), initial=0)
        )
        assert sum(h for _, h in tiles) == rows
        assert all(h in heights for _, h in tiles)
    assert [h for _, h in plan.cut(16, heights)] == [8, 8]
    assert [h for _, h in plan.cut(9, heights)] == [9]
