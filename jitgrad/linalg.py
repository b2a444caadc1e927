"""Linear algebra by PyTorch's ``torch.linalg`` names."""

from __future__ import annotations

from .dispatch import factorize as _factorize
from .dispatch import linalg as _linalg
from .dispatch import lu as _lu
from .dispatch import orthogonal as _orthogonal
from .dispatch.matmul import matmul
from .dispatch.reduction import vector_norm

globals().update(_linalg.NAMESPACE)
globals().update(_factorize.NAMESPACE)
globals().update(_lu.NAMESPACE)
globals().update(_orthogonal.NAMESPACE)

__all__ = ["matmul", "vector_norm"]  # and the names of the namespaces
