"""Automatic differentiation: the tape, its engine and the tools to look at it."""

from .api import backward, grad
from .grad_mode import enable_grad, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "no_grad", "set_grad_enabled"]
