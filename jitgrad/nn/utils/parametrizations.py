"""Parametrizations to use: weight and spectral normalization, orthogonal matrices."""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd.grad_mode import no_grad
from ...dispatch.arithmetic import allclose
from ...dispatch.creation import eye, zeros_like
from ...dispatch.factorize import matrix_exp, solve
from ...dispatch.matmul import dot, mv
from ...dispatch.orthogonal import geqrf, householder_product
from ...dispatch.random import randn
from ...dispatch.shape import cat
from ...dispatch.view import t
from ...tensor import Tensor
from ...typeinfo import finfo
from .. import functional
from ..module import Module
from . import parametrize
from .spectral_norm import as_matrix, default_dim
from .weight_norm import norm_except_dim, normalized

M = TypeVar("M", bound=Module)
_MAPS = ("matrix_exp", "cayley", "householder")


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normalized(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """A weight as ``g * v / |v|`` (Salimans & Kingma 2016), with the norm of each slice along
    ``dim``, or (None) of all of it.

    ``g`` is ``parametrizations.<name>.original0``, ``v`` is ``original1``; a ``state_dict`` of the
    older :func:`jitgrad.nn.utils.weight_norm` can be loaded.

    >>> import jitgrad as jg
    >>> weight_norm(jg.nn.Linear(2, 3)).parametrizations.weight.original0.shape
    jitgrad.Size([3, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def renamed(module: Module, state: dict[str, Any], prefix: str, *others: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state for key in old):
            for i, key in enumerate(old):
                state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(key)

    module.register_load_state_dict_pre_hook(renamed)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        rank = weight.dim()
        if not -rank <= dim < rank:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{rank}, {rank - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % rank
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if rank > 1:  # the only singular value of a vector is its norm
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    start = weight.new_empty(size).normal_(0, 1)
                    self.register_buffer(name, functional.normalize(start, dim=0, eps=eps))
                self._iterate(matrix, 15)

    @no_grad()
    def _iterate(self, matrix: Tensor, count: int) -> None:
        for _ in range(count):
            functional.normalize(mv(matrix, self._v), dim=0, eps=self.eps, out=self._u)
            functional.normalize(mv(t(matrix), self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies, because the next call writes them while backward may still need these.
        u, v = self._u.clone(), self._v.clone()
        return weight / dot(u, mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def _weight(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """A weight divided by its largest singular value (Miyato et al. 2018), which is followed by
    power iteration, ``n_power_iterations`` steps a call in training.

    Args:
        dim: of the outputs; by default 0, or 1 for transposed convolutions.
    """
    weight = _weight(module, name)
    if dim is None:
        dim = default_dim(module)
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, made)
    return module


# Orthogonal matrices ------------------------------------------------------------------------------
def _orthonormal(matrix: Tensor) -> Tensor:
    """The Q of the QR decomposition whose R has no negative diagonal."""
    reflectors, scales = geqrf(matrix)
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return householder_product(reflectors, scales) * signs


def _is_orthogonal(matrix: Tensor) -> bool:
    rows, columns = matrix.shape[-2:]
    near = 10.0 * rows * finfo(matrix.dtype).eps
    return allclose(matrix.mT @ matrix, eye(columns, dtype=matrix.dtype), atol=near)


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        if wide:
            x = x.mT
        rows, columns = x.shape[-2:]
        if self.orthogonal_map == "householder":
            lower = x.tril(-1)
            scales = 2.0 / (1.0 + (lower * lower).sum(-2))
            signs = x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
            q = householder_product(lower, scales) * signs
        else:
            lower = x.tril()
            if rows != columns:
                padding = x.new_zeros(rows, rows - columns).expand(*x.shape[:-2], -1, -1)
                lower = cat([lower, padding], -1)
            q = self._of_skew_symmetric(lower - lower.mT)[..., :columns]
        if "base" in self._buffers:
            q = self.base @ q
        return q.mT if wide else q

    def _of_skew_symmetric(self, a: Tensor) -> Tensor:
        if self.orthogonal_map == "matrix_exp":
            return matrix_exp(a)
        one = eye(a.shape[-1], dtype=a.dtype)
        return solve(one - 0.5 * a, one + 0.5 * a)

    @no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        given, wide = q, q.shape[-2] < q.shape[-1]
        if wide:
            q = q.mT
        rows, columns = q.shape[-2:]
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            reflectors, scales = geqrf(q)
            diagonal = reflectors.diagonal(dim1=-2, dim2=-1)
            diagonal.sign_()
            diagonal[scales == 0.0] *= -1
            return reflectors.mT if wide else reflectors
        if rows != columns:
            more = randn(*q.shape[:-2], rows, rows - columns, dtype=q.dtype)
            self.base = _orthonormal(cat([q, more], -1))
        else:
            self.base = q.clone() if _is_orthogonal(q) else _orthonormal(q)
        start = zeros_like(given)  # of which every map makes the identity
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> M:
    """A weight with orthonormal columns, or rows if it is wide (Lezcano-Casado 2019).

    Args:
        orthogonal_map: from what is trained to the weight: ``matrix_exp`` or ``cayley`` of a
            skew-symmetric matrix, or a product of ``householder`` reflections; by default the first
            for square matrices and the last for others.
        use_trivialization: train a factor beside a fixed orthogonal matrix, the buffer ``base``.

    Raises:
        ValueError: for a tensor that is no matrix, or an unknown map.
    """
    weight = _weight(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module
