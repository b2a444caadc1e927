"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...dispatch.shape import cat
from ...tensor import Tensor
from ..parameter import replace_data


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements one after the other, [total]; differentiable."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be consecutive parts of ``vec``, whose memory they then share.

    Raises:
        TypeError: if ``vec`` is no Tensor.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    start, plain = 0, vec.detach()
    for p in parameters:
        part = plain.narrow(0, start, p.numel())
        replace_data(p, part.reshape(p.shape))
        start += p.numel()
