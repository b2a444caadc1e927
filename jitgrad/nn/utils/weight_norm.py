"""Weight normalization (Salimans & Kingma 2016): a weight as a length times a direction."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from ...dispatch.reduction import vector_norm
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of each slice along ``dim``, with all dimensions kept; of all of ``v`` for -1."""
    if dim == -1:
        return vector_norm(v, pow)
    return vector_norm(v, pow, tuple(d for d in range(v.dim()) if d != dim), True)


def normalized(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``g * v / |v|``."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook that computes a weight before each call of its module."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight from its length and direction."""
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return normalized(v, g, self.dim)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _hook(module: Module, name: str) -> tuple[int, WeightNorm] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return key, hook
    return None


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace a weight by ``<name>_g`` and ``<name>_v``, its length and direction.

    Deprecated in favour of :func:`jitgrad.nn.utils.parametrizations.weight_norm`.

    Raises:
        RuntimeError: if it has been replaced already.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    if _hook(module, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    length = norm_except_dim(weight, 2, hook.dim)
    module.register_parameter(f"{name}_g", Parameter(length.detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo :func:`weight_norm`; ValueError if there is nothing to undo."""
    found = _hook(module, name)
    if found is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    key, hook = found
    weight = hook.compute_weight(module)
    delattr(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    setattr(module, name, Parameter(weight.detach()))
    del module._forward_pre_hooks[key]
    return module
