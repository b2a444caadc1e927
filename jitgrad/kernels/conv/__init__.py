"""Convolutions: see plan.py for the launches, template.py for the kernels."""

from .geometry import Geometry
from .plan import weight_gradient, windows

__all__ = ["Geometry", "weight_gradient", "windows"]
