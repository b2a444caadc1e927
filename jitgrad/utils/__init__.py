"""Helpers around the library."""

from . import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]
