"""Automatic differentiation: the tape, its engine and the tools to look at it."""

from . import forward_ad, functional
from .api import backward, grad
from .grad_mode import enable_grad, no_grad, set_grad_enabled
from .gradcheck import gradcheck, gradgradcheck

__all__ = [
    "backward",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "no_grad",
    "set_grad_enabled",
]
