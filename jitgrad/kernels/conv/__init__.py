"""Convolutions: see plan.py for the launches, template.py for the kernels."""

from .plan import Geometry, weight_gradient, windows

__all__ = ["Geometry", "weight_gradient", "windows"]
