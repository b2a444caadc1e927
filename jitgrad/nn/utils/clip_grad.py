"""Limits on gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...dispatch.creation import tensor as new_tensor
from ...dispatch.lists import clamp_, scale_, sum_of_squares
from ...dispatch.reduction import vector_norm
from ...dispatch.shape import stack
from ...tensor import Tensor


def _gradients(parameters: Any) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [t.grad for t in tensors if t.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector.

    Raises:
        RuntimeError: with ``error_if_nonfinite``, where the norm is infinite or NaN.
    """
    held = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not held:
        return new_tensor(0.0)
    norm_type = float(norm_type)
    squares = sum_of_squares(held) if norm_type == 2.0 else None
    if squares is not None:
        total = new_tensor(squares**0.5, dtype=held[0].layout.dtype)
    else:
        total = vector_norm(stack([vector_norm(t, norm_type) for t in held]), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients by ``max_norm / (total_norm + 1e-6)``, but never up."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp_max(1.0)
    gradients = _gradients(parameters)
    if gradients:
        scale_(gradients, factor.item())


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients down, in place, so that their norm together is at most ``max_norm``.

    Returns:
        The norm before (Pascanu et al. 2013).
    """
    held = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(held), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(held, max_norm, total, foreach)
    return total


clip_grad_norm = clip_grad_norm_


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of every gradient to [-clip_value, clip_value], in place."""
    limit = float(clip_value)
    gradients = _gradients(parameters)
    if gradients:
        clamp_(gradients, -limit, limit)
