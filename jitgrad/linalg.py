"""Linear algebra by PyTorch's ``torch.linalg`` names."""

from __future__ import annotations

from .dispatch import factorize as _factorize
from .dispatch import linalg as _linalg
from .dispatch.matmul import matmul
from .dispatch.reduction import vector_norm

globals().update(_linalg.NAMESPACE)
globals().update(_factorize.NAMESPACE)

__all__ = ["matmul", "vector_norm"]  # and the names of both namespaces
