"""A function at a point, and how its derivatives found in two ways are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tensor import Tensor
from .jacobians import as_tuple, differentiable, is_real_input


class GradcheckError(RuntimeError):
    """A derivative is wrong (or a function does not keep the rules of backward)."""


@dataclass(frozen=True)
class Settings:
    """The keywords of :func:`gradcheck`."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool


class Checked:
    """A function at a point: its inputs, those to differentiate, and its differentiable outputs."""

    def __init__(self, function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
        self.function = function
        self.inputs = inputs
        self.numbers = [i for i, x in enumerate(inputs) if is_real_input(x)]
        self.variables = tuple(inputs[i] for i in self.numbers)
        self.all_outputs = as_tuple(function(*inputs))
        self.outputs = differentiable(self.all_outputs)
        self.which = [
            i for i, x in enumerate(self.all_outputs) if isinstance(x, Tensor) and x.requires_grad
        ]


def close(found: np.ndarray, expected: np.ndarray, atol: float, rtol: float) -> bool:
    return found.shape == expected.shape and np.allclose(found, expected, rtol=rtol, atol=atol)


def compare(
    found: np.ndarray, expected: np.ndarray, output: int, place: int, settings: Settings, mode: str
) -> None:
    if found.size == expected.size == 0 or close(found, expected, settings.atol, settings.rtol):
        return
    raise mismatch(found, expected, output, place, mode)


def mismatch(
    found: np.ndarray, expected: np.ndarray, output: int, place: int, mode: str, more: str = ""
) -> GradcheckError:
    prefix = "Jacobian computed with forward mode" if mode else "Jacobian"
    worst = ""
    if found.shape == expected.shape and found.ndim == 2:
        difference = np.nan_to_num(np.abs(found - expected), nan=np.inf)
        row, column = np.unravel_index(int(np.argmax(difference)), difference.shape)
        worst = (
            f"The largest difference is {difference[row, column]:.3g}: element {column} of the "
            f"output by element {row} of the input.\n"
        )
    return GradcheckError(
        f"{prefix} mismatch for output {output} with respect to input {place},\n"
        f"numerical:{expected}\nanalytical:{found}\n{worst}{more}"
    )


def check_dtypes(found: Sequence[Any], of: Sequence[Tensor], what: str) -> None:
    for x, y in zip(found, of, strict=True):
        if x is not None and x.layout.dtype.plain is not y.layout.dtype.plain:
            raise GradcheckError(f"{what} has dtype mismatch: {x.dtype} for {y.dtype}")


def check_shapes(grads: Sequence[Any], of: Sequence[Tensor]) -> None:
    for x, y in zip(grads, of, strict=True):
        if x is not None and x.layout.shape != y.layout.shape:
            raise GradcheckError(
                f"Analytical gradient has incorrect size: {list(x.shape)} for {list(y.shape)}"
            )


def check_deterministic(one: np.ndarray, other: np.ndarray, settings: Settings) -> None:
    if one.size and not close(one, other, settings.nondet_tol, 0.0):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output "
            "multiple times gives different values, although analytical gradient matches numerical "
            f"gradient. The tolerance for nondeterminism was {settings.nondet_tol}."
        )
