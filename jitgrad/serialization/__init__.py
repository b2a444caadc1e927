"""Files: PyTorch's own format, written and read without PyTorch and without running any code."""

from __future__ import annotations

from . import safetensors
from .files import load, save

__all__ = ["load", "safetensors", "save"]
