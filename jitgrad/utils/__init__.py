"""Helpers around the library."""

from . import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
