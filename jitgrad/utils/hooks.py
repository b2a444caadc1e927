"""The handle that every ``register_*hook`` returns, and the hooks around a module's call."""

from ..autograd.hooks import RemovableHandle
from ..autograd.module_hooks import BackwardHook

__all__ = ["BackwardHook", "RemovableHandle"]
