"""Rules that a backward keeps besides being right, as gradcheck checks them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..state import next_sequence_number
from ..tensor import Tensor, make
from . import jacobians
from .api import grad
from .checking import Checked, GradcheckError
from .jacobians import SEED, as_tuple, flat, length, like
from .node import Grads, OperationNode
from .views import gradient_edge


def check_batches(checked: Checked) -> None:
    """A batch of gradients gives what its members give one by one."""
    random = np.random.default_rng(SEED)
    for output in checked.outputs:
        seeds = [like(output, random.random(length(output))) for _ in range(2)]
        try:
            batch = output._stack(seeds)
            found = grad(
                output, checked.variables, batch, retain_graph=True, allow_unused=True,
                is_grads_batched=True,
            )  # fmt: skip
        except RuntimeError as error:
            raise GradcheckError(
                "gradcheck or gradgradcheck failed while testing batched gradient computation: "
                f"While computing batched gradients, got: {error}"
            ) from error
        rows = jacobians.backward_rows(output, checked.variables, iter(seeds))
        for place, grads in enumerate(zip(*rows, strict=True)):
            one, several = grads, found[place]
            if several is None:
                continue
            expected = np.stack([flat(g) for g in one])
            if not np.allclose(flat(several).reshape(expected.shape), expected):
                raise GradcheckError(
                    f"For input {place}, the batch of gradients differs from its members one by "
                    f"one: gradcheck or gradgradcheck failed while testing batched gradient "
                    f"computation.\nGot:\n{several}\nExpected:\n{expected}"
                )


def check_zero_gradients(checked: Checked) -> None:
    """Zero in, zero out, in the geometry of the inputs."""
    zeros = [like(x, np.zeros(length(x))) for x in checked.outputs]
    found = grad(checked.outputs, checked.variables, zeros, retain_graph=True, allow_unused=True)
    for x, g in zip(checked.variables, found, strict=True):
        if g is None:
            continue
        if flat(g).any():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.layout.dtype.plain is not x.layout.dtype.plain:
            raise GradcheckError(f"grad is incorrect type: {g.dtype} for {x.dtype}")
        if g.layout.shape != x.layout.shape:
            raise GradcheckError(f"grad is incorrect size: {list(g.shape)} for {list(x.shape)}")


class UndefinedGrad(OperationNode):
    """Whatever arrives, nothing is passed on."""

    __slots__ = ()

    def __init__(self, of: Tensor) -> None:
        self._seq = next_sequence_number()
        self.next_edges = (gradient_edge(of),)
        self._saved = ()
        self._hooks = None
        self._where = None
        self._plan = None

    def shape_of(self, nr: int) -> Any:
        return None

    def apply(self, grad: Any) -> Grads:
        return (None,)


def _undefined(output: Tensor) -> Tensor:
    """The same values, with a history that lets no gradient through."""
    result = make(output.storage, output.offset, output.layout)
    result.edge = (UndefinedGrad(output), 0)
    result.tracked = True
    return result


def check_undefined(checked: Checked) -> None:
    """Undefined gradients, of one output or of all, are handled and give nothing or zero."""
    outputs = as_tuple(checked.function(*checked.inputs))
    outputs = tuple(outputs[i] for i in checked.which)
    choices = [range(len(outputs))]
    if len(outputs) > 1:
        choices += [range(i, i + 1) for i in range(len(outputs))]
    for chosen in choices:
        roots = [_undefined(x) if i in chosen else x for i, x in enumerate(outputs)]
        zeros = [like(x, np.zeros(length(x))) for x in outputs]
        try:
            found = grad(roots, checked.variables, zeros, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            warnings.warn(
                "Backwards compatibility: New undefined gradient support checking feature is "
                "enabled by default, but it may break existing callers of this function. If this "
                'is true for you, call this function with "check_undefined_grad=False" to disable '
                "the feature",
                stacklevel=4,
            )
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. A custom backward "
                "may receive None where it switched materialised gradients off; this one raised: "
                f"{type(error).__name__}: {error}"
            ) from error
        for g in found:
            if g is not None and flat(g).any():
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are "
                    "undefined or zero."
                )
