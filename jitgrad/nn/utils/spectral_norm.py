"""Spectral normalization (Miyato et al. 2018): a weight divided by its largest singular value.

That is approximated by power iteration: ``u`` and ``v`` follow the weight as it is trained.
"""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd.grad_mode import no_grad
from ...dispatch.matmul import dot, mv
from ...dispatch.view import permute, reshape, t
from ...tensor import Tensor
from .. import functional
from ..module import Module
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix with a row for each index along ``dim``."""
    if dim != 0:
        weight = permute(weight, dim, *(d for d in range(weight.dim()) if d != dim))
    return reshape(weight, (weight.shape[0], -1))


def default_dim(module: Module) -> int:
    """The dimension of a module's outputs in its weight."""
    return 1 if type(module).__name__.startswith("ConvTranspose") else 0


class SpectralNorm:
    """The hook that normalizes a weight before each call of its module."""

    _version = 1

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The normalized weight, after improving ``u`` and ``v``."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    functional.normalize(mv(t(matrix), u), dim=0, eps=self.eps, out=v)
                    functional.normalize(mv(matrix, v), dim=0, eps=self.eps, out=u)
                # Copies, because the next call writes them while backward may still need these.
                u, v = u.clone(), v.clone()
        return weight / dot(u, mv(matrix, v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def note_version(
        self, module: Module, state: Any, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        """Say in a ``state_dict`` which layout of the buffers it has, as PyTorch does."""
        noted = local_metadata.setdefault("spectral_norm", {})
        noted[f"{self.name}.version"] = self._version


def _hook(module: Module, name: str) -> tuple[int, SpectralNorm] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            return key, hook
    return None


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a weight by its largest singular value before each call.

    ``<name>_orig`` is what is trained, the buffers ``<name>_u`` and ``<name>_v`` the singular
    vectors. :func:`jitgrad.nn.utils.parametrizations.spectral_norm` is the newer form.

    Raises:
        RuntimeError: if it has been done already.
        ValueError: for a number of iterations that is not positive.
    """
    if _hook(module, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = default_dim(module)
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    with no_grad():
        height, width = as_matrix(weight, dim).shape
        u = functional.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
        v = functional.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(hook.note_version)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo :func:`spectral_norm`; ValueError if there is nothing to undo."""
    found = _hook(module, name)
    if found is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    key, hook = found
    with no_grad():
        weight = hook.compute_weight(module, False)
    for suffix in ("", "_u", "_v", "_orig"):
        delattr(module, name + suffix)
    module.register_parameter(name, Parameter(weight.detach()))
    del module._forward_pre_hooks[key]
    for number, noting in list(module._state_dict_hooks.items()):
        if noting == hook.note_version:
            del module._state_dict_hooks[number]
    return module
