"""Calling a module with other parameters: :func:`jitgrad.func.functional_call`, by its old name."""

from __future__ import annotations

from ...func.module_call import functional_call

__all__ = ["functional_call"]
