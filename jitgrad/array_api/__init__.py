"""The Python array API standard, version 2024.12, on jitgrad's tensors.

``x.__array_namespace__()`` gives this module, so that libraries written for the standard run on
jitgrad, with gradients.

>>> import jitgrad as jg
>>> x = jg.tensor([[3.0, 4.0]], requires_grad=True)
>>> xp = x.__array_namespace__()
>>> xp.linalg.vector_norm(xp.permute_dims(x, (1, 0))).backward()
>>> x.grad
tensor([[0.6000, 0.8000]])

The functions follow the standard where it differs from PyTorch: dtypes do not depend on ranks, a
``std`` has no correction, sums of small unsigned integers are uint64. The methods and operators of
a tensor stay PyTorch's: ``x.size`` is a method, and ``x + y`` of a 0-d tensor has the dtype of the
other.
"""

from __future__ import annotations

from math import e, inf, nan, pi
from types import ModuleType
from typing import Any

from ..tensor import Tensor
from . import _creation, _dtypes, _elementwise, _manipulation, _reductions, fft, linalg
from .linalg import matmul, tensordot, vecdot

__array_api_version__ = "2024.12"
newaxis = None
_PARTS = (_creation, _dtypes, _elementwise, _manipulation, _reductions)
for _part in _PARTS:
    globals().update(_part.FUNCTIONS)


def _namespace(self: Tensor, /, *, api_version: str | None = None) -> ModuleType:
    """The module of the array API standard.

    Raises:
        ValueError: for a version that it does not offer.
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", __array_api_version__):
        raise ValueError(
            f"array API version {api_version} is not there: {__array_api_version__} is"
        )
    import sys

    return sys.modules[__name__]


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device; on "cpu" already."""
    return self.to(device)


Tensor.__array_namespace__ = _namespace  # type: ignore[attr-defined]
Tensor.to_device = _to_device  # type: ignore[attr-defined]

__all__ = [
    "e", "fft", "inf", "linalg", "matmul", "nan", "newaxis", "pi", "tensordot", "vecdot",
]  # fmt: skip
__all__ += sorted(name for part in _PARTS for name in part.FUNCTIONS)  # noqa: PLE0605
