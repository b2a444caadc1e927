"""Batch normalisation in evaluation is a linear map: it can be merged into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from ...dispatch.creation import ones_like, zeros_like
from ...dispatch.elementwise import functions
from ...tensor import Tensor
from ..parameter import Parameter


def _merged(
    weight: Tensor, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float,
    scale: Tensor | None, shift: Tensor | None, shape: list[int],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    of = weight.dtype if bias is None else bias.dtype
    bias = zeros_like(mean) if bias is None else bias
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * functions["rsqrt"](variance + eps)
    merged = (weight * factor.reshape(shape)).to(weight.dtype)
    moved = ((bias - mean) * factor + shift).to(of)
    return (
        Parameter(merged.detach(), weight.requires_grad),
        Parameter(moved.detach(), bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a convolution that does what it and a batch normalisation did.

    Args:
        conv_w, conv_b: of the convolution.
        bn_rm, bn_rv, bn_eps: running mean and variance, and what is added to the latter.
        bn_w, bn_b: of the normalisation.
        transpose: whether the convolution is a transposed one.
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _merged(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor, bn_b: Tensor,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a linear layer that does what it and a batch normalisation did."""
    return _merged(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution with the batch normalisation behind it merged in.

    Raises:
        AssertionError: unless both are in evaluation mode.
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear layer with the batch normalisation behind it merged in.

    Raises:
        AssertionError: unless both are in evaluation mode, and of the same features.
    """
    _check(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Only support fusing with running_mean and running_var")
