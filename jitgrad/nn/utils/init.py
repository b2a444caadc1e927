"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from ..init import skipped
from ..module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters are left as they were allocated; no random numbers are drawn.

    Args:
        module_cls: a class of modules that take a ``device`` and initialise by ``nn.init``.
        args, kwargs: of its constructor.

    Raises:
        RuntimeError: for other classes.

    >>> import jitgrad as jg
    >>> jg.nn.utils.skip_init(jg.nn.Linear, 5, 1).weight.shape
    jitgrad.Size([1, 5])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with skipped():
        return module_cls(*args, **kwargs)
