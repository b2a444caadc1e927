"""Linear algebra by PyTorch's ``torch.linalg`` names."""

from __future__ import annotations

from .dispatch.matmul import matmul
from .dispatch.reduction import vector_norm

__all__ = ["matmul", "vector_norm"]
