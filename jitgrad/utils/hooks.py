"""The handle that every ``register_*hook`` returns."""

from ..autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
