"""Functions of the package whose namesakes in ``nn.functional`` are called differently.

Losses take ``reduction`` as a number (0: none, 1: the mean, 2: the sum), and dropout takes its
flags by position and has in-place forms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..dispatch.creation import empty_like
from ..dispatch.linalg import matrix_norm
from ..dispatch.record import node_class, record
from ..dispatch.reduction import vector_norm
from ..dtypes import bool_
from ..ops.table import structured
from ..tensor import Tensor
from . import functional
from ._activations import hardshrink, prelu
from ._dropout import drop, drop_alpha
from ._losses import reduce_values
from .utils.weight_norm import norm_except_dim as norm_except_dim

# Losses -------------------------------------------------------------------------------------------
_REDUCTIONS = ("none", "mean", "sum")


def _reduction(name: str, number: Any) -> str:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(
            f"{name}(): argument 'reduction' must be int (0 for none, 1 for mean, 2 for sum), not "
            f"{type(number).__name__}"
        )
    if not 0 <= number < len(_REDUCTIONS):
        raise ValueError(f"{name}(): reduction must be 0, 1 or 2, but got {number}")
    return _REDUCTIONS[number]


def _numbered(function: Callable[..., Tensor], order: str = "") -> Callable[..., Tensor]:
    """A loss that takes its reduction as a number, and not the arguments of old."""
    old = ("size_average", "reduce")
    names = order.split() or [n for n in inspect.signature(function).parameters if n not in old]
    name = function.__name__

    def loss(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) > len(names):
            raise TypeError(f"{name}() takes {len(names)} positional arguments, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key not in names or key in given:
                raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
            given[key] = value
        return function(**{**given, "reduction": _reduction(name, given.get("reduction", 1))})

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = (
        f":func:`jitgrad.nn.functional.{name}`, called as ``{name}({', '.join(names)})``: the "
        "reduction is 0 for none, 1 for the mean or 2 for the sum."
    )
    return loss


binary_cross_entropy_with_logits = _numbered(
    functional.binary_cross_entropy_with_logits, "input target weight pos_weight reduction"
)
cosine_embedding_loss = _numbered(functional.cosine_embedding_loss)
ctc_loss = _numbered(functional.ctc_loss)
hinge_embedding_loss = _numbered(functional.hinge_embedding_loss)
margin_ranking_loss = _numbered(functional.margin_ranking_loss)
poisson_nll_loss = _numbered(functional.poisson_nll_loss)
triplet_margin_loss = _numbered(functional.triplet_margin_loss)


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """:func:`jitgrad.nn.functional.kl_div` with a number for the reduction: 0 for none, 1 for the
    mean over all elements, 2 for the sum."""
    chosen = _reduction("kl_div", reduction)
    values = functional.kl_div(input, target, reduction="none", log_target=log_target)
    return reduce_values(values, chosen)


# Dropout ------------------------------------------------------------------------------------------
def _dropping(
    name: str, function: Callable[..., Tensor], inplace: bool, per_channel: bool
) -> Callable[[Tensor, float, bool], Tensor]:
    def dropping(input: Tensor, p: float, train: bool) -> Tensor:
        if not 0.0 <= p <= 1.0:
            raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
        return function(input, p, train, inplace, per_channel)

    dropping.__name__ = dropping.__qualname__ = name
    what = "the elements" if not per_channel else "whole channels, the second dimension"
    kept = ", mean and variance kept behind a selu" if function is drop_alpha else ""
    dropping.__doc__ = (
        f"Dropout of {what}{kept}{', in place' if inplace else ''}.\n\n"
        "RuntimeError unless ``p`` is a probability."
    )
    return dropping


dropout = _dropping("dropout", drop, False, False)
dropout_ = _dropping("dropout_", drop, True, False)
feature_dropout = _dropping("feature_dropout", drop, False, True)
feature_dropout_ = _dropping("feature_dropout_", drop, True, True)
alpha_dropout = _dropping("alpha_dropout", drop_alpha, False, False)
alpha_dropout_ = _dropping("alpha_dropout_", drop_alpha, True, False)
feature_alpha_dropout = _dropping("feature_alpha_dropout", drop_alpha, False, True)
feature_alpha_dropout_ = _dropping("feature_alpha_dropout_", drop_alpha, True, True)


def _native_gradient(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad * mask * scale


_NATIVE = node_class(
    structured("native_dropout", "input", grad={"input": _native_gradient}, fresh=True)
)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout, and the mask of what was kept, of bools. Unless ``train`` (None: it is) all is.

    Gradient: ``grad * mask / (1 - p)``.
    """
    mask = empty_like(input, dtype=bool_, requires_grad=False)
    if train is not None and not train:
        mask.fill_(True)
        scale = 1.0
    else:
        mask.bernoulli_(1 - p)
        scale = 1 / (1 - p) if p < 1 else 0.0
    result = input.detach() * mask * scale
    record(_NATIVE, (input,), (result,), {"mask": mask, "scale": scale})
    return result, mask


# Norms --------------------------------------------------------------------------------------------
def frobenius_norm(
    input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The roots of the sums of squares along one or two dimensions (none given: along all).

    The old name of ``linalg.vector_norm`` and ``linalg.matrix_norm``.
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(
            f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead."
        )
    return vector_norm(input, 2.0, dims or None, keepdim, out=out)


def nuclear_norm(
    input: Tensor, dim: Any = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The sums of singular values of matrices: ``linalg.matrix_norm(input, "nuc", dim)``.

    ``nuclear_norm(input, keepdim)`` is accepted too.
    """
    if isinstance(dim, bool):
        dim, keepdim = (-2, -1), dim
    return matrix_norm(input, "nuc", dim, keepdim, out=out)


FUNCTIONS = (
    "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss kl_div "
    "margin_ranking_loss poisson_nll_loss triplet_margin_loss dropout dropout_ feature_dropout "
    "feature_dropout_ alpha_dropout alpha_dropout_ feature_alpha_dropout feature_alpha_dropout_ "
    "native_dropout frobenius_norm nuclear_norm norm_except_dim"
)


# Methods ------------------------------------------------------------------------------------------
def _module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What becomes of a parameter when ``other`` is loaded into it; subclasses may say otherwise.

    Args:
        assign: whether the parameter is replaced, not written to.
    """
    return other.detach() if assign else self.copy_(other).detach()


Tensor.hardshrink = hardshrink  # type: ignore[attr-defined]
Tensor.prelu = prelu  # type: ignore[attr-defined]
Tensor.module_load = _module_load  # type: ignore[attr-defined]
