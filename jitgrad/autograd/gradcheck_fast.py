"""The fast mode of gradcheck: products of the Jacobians with random vectors.

One random direction per input and one random gradient per output, instead of all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor
from . import jacobians
from .checking import (
    Checked,
    GradcheckError,
    Settings,
    check_deterministic,
    check_dtypes,
    check_shapes,
    close,
    mismatch,
)
from .jacobians import SEED, flat, length, like


def compare_along_vectors(checked: Checked, settings: Settings) -> None:
    """One random direction per input and one random gradient per output, instead of all."""
    random = np.random.default_rng(SEED)

    def vector(count: int) -> np.ndarray:
        v = random.random(count)
        return v / (np.linalg.norm(v) or 1.0)

    directions = [vector(length(x)) for x in checked.variables]
    weights = [vector(length(x)) for x in checked.outputs]
    gradients: dict[int, list[np.ndarray]] = {}
    if settings.check_backward_ad:
        for index, (output, weight) in enumerate(zip(checked.outputs, weights, strict=True)):
            gradients[index] = _gradients_along(output, weight, checked, settings)
    for place, (number, direction) in enumerate(zip(checked.numbers, directions, strict=True)):
        slopes = jacobians.numerical_along(
            checked.function, checked.inputs, checked.which, number, direction, settings.eps
        )
        moved: list[Any] = []
        if settings.check_forward_ad:
            moved = jacobians.tangents_along(
                checked.function, checked.inputs, checked.which, number,
                like(checked.variables[place], direction),
            )  # fmt: skip
            if settings.check_grad_dtypes:
                check_dtypes(moved, checked.outputs, "Forward AD gradient")
        for index, weight in enumerate(weights):
            expected = np.asarray(slopes[index] @ weight)
            # Each element of the Jacobian may be off by `atol`, and the product adds them up.
            atol = settings.atol * direction.sum() * weight.sum()
            if moved:
                tangent = 0.0 if moved[index] is None else flat(moved[index]) @ weight
                if not close(np.asarray(tangent), expected, atol, settings.rtol):
                    raise _fast_mismatch(tangent, expected, index, place, checked, settings, True)
            if gradients:
                product = np.asarray(gradients[index][place] @ direction)
                if not close(product, expected, atol, settings.rtol):
                    raise _fast_mismatch(product, expected, index, place, checked, settings, False)


def _gradients_along(
    output: Tensor, weight: np.ndarray, checked: Checked, settings: Settings
) -> list[np.ndarray]:
    results = []
    for _ in range(2):
        seed = like(output, weight)
        (grads,) = jacobians.backward_rows(output, checked.variables, iter((seed,)))
        if settings.check_grad_dtypes:
            check_dtypes(grads, checked.variables, "Gradient")
        check_shapes(grads, checked.variables)
        results.append(
            [
                np.zeros(length(x)) if g is None else flat(g)
                for x, g in zip(checked.variables, grads, strict=True)
            ]
        )
    for one, other in zip(*results, strict=True):
        check_deterministic(one, other, settings)
    return results[0]


def _fast_mismatch(
    found: Any, expected: Any, output: int, place: int, checked: Checked, settings: Settings,
    forward: bool,
) -> GradcheckError:  # fmt: skip
    """The error of the fast mode, with the whole matrices that the products are made of."""
    number = checked.numbers[place]
    full = jacobians.numerical(
        checked.function, checked.inputs, checked.which, number, settings.eps
    )[output]
    if forward:
        matrices, _ = jacobians.by_forward(
            checked.function, checked.inputs, checked.outputs, checked.which, number
        )
        analytical = matrices[output]
    else:
        analytical = jacobians.by_backward(checked.outputs[output], checked.variables)[0][place]
    worst = np.max(np.abs(full - analytical), initial=0.0) if full.size else 0.0
    more = (
        "These are products of the Jacobians with random vectors (fast mode). The Jacobians "
        f"themselves are\nNumerical:\n{full}\nAnalytical:\n{analytical}\n"
        f"The max per-element difference (slow mode) is: {worst}.\n"
    )
    if close(analytical, full, settings.atol, settings.rtol):
        more += "They agree: fast_mode=False, or float64 inputs and a looser atol, will do.\n"
    return mismatch(np.asarray(found), expected, output, place, "forward " * forward, more)
