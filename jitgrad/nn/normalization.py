"""Modules that normalise their input."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..dispatch.creation import empty, ones, tensor, zeros
from ..dtypes import dtype
from ..tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter


class _Affine(Module):
    """A module with a weight of ones and a bias of zeros, or without them."""

    weight: Parameter | None
    bias: Parameter | None

    def _register(
        self, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, d: dtype | None
    ) -> None:
        for name, there in (("weight", weight), ("bias", bias)):
            made = Parameter(empty(shape, device=device, dtype=d)) if there else None
            self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self._parameters.get("bias") is not None:
            init.zeros_(self.bias)  # type: ignore[arg-type]


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)  # type: ignore[arg-type]


class LayerNorm(_Affine):
    """:func:`~jitgrad.nn.functional.layer_norm` over the last dimensions, with parameters.

    Attributes:
        weight: ones of ``normalized_shape``; None with ``elementwise_affine=False``.
        bias: zeros of ``normalized_shape``; None with that, or ``bias=False``.

    >>> import jitgrad as jg
    >>> jg.nn.LayerNorm(4)
    LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)
    """

    __constants__ = ("normalized_shape", "eps", "elementwise_affine")

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        self._register(self.normalized_shape, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """:func:`~jitgrad.nn.functional.rms_norm` over the last dimensions, with a weight.

    Attributes:
        weight: ones of ``normalized_shape``; None with ``elementwise_affine=False``.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = empty(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(made) if elementwise_affine else None)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """:func:`~jitgrad.nn.functional.group_norm` of [n, num_channels, ...], with parameters.

    Attributes:
        weight, bias: ones and zeros, [num_channels]; None with ``affine=False``.

    Raises:
        ValueError: if the channels cannot be divided evenly.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._register((num_channels,), affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _Running(_Affine):
    """Normalisation per channel, with running estimates of mean and variance.

    Attributes:
        weight, bias: ones and zeros, [num_features]; None with ``affine=False``.
        running_mean, running_var: buffers, [num_features]; None with
            ``track_running_stats=False``.
        num_batches_tracked: how often they were updated.
    """

    _version = 2
    ranks: tuple[int, ...]  # of inputs
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: dtype | None,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._register((num_features,), affine, affine and bias, device, dtype)
        tracked = track_running_stats
        where = {"device": device}
        self.register_buffer(
            "running_mean", zeros(num_features, dtype=dtype, **where) if tracked else None
        )
        self.register_buffer(
            "running_var", ones(num_features, dtype=dtype, **where) if tracked else None
        )
        self.register_buffer(
            "num_batches_tracked", tensor(0, dtype=dtypes.int64) if tracked else None
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Means of 0, variances of 1, no batches."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero, and estimates as at first."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            wanted = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {wanted} input (got {input.ndim}D input)")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        # Version 2 added the count of batches; dictionaries from before have none.
        version = local_metadata.get("version")
        key = f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            held = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=dtypes.int64) if held is None else held
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Running):
    """:func:`~jitgrad.nn.functional.batch_norm` with parameters and running estimates.

    In training the batch's statistics are used, and the estimates move towards them by ``momentum``
    (None: they are plain averages of all batches). In evaluation the estimates are used, if there
    are any.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        estimates = self.running_mean, self.running_var
        training = self.training or estimates == (None, None)
        if self.training and not self.track_running_stats:
            estimates = None, None
        return functional.batch_norm(
            input, *estimates, self.weight, self.bias, training, momentum, self.eps
        )

    def _forget_running_stats(self) -> None:
        """From now on use the batch's statistics only."""
        if self.track_running_stats:
            self.running_mean = self.running_var = self.num_batches_tracked = None
            self.track_running_stats = False


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of [n, channels] or [n, channels, length] (Ioffe and Szegedy 2015).

    >>> import jitgrad as jg
    >>> jg.nn.BatchNorm1d(3)
    BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of [n, channels, height, width]."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of [n, channels, depth, height, width]."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of any rank; on one process, and so what the others compute."""

    ranks = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")


class _InstanceNorm(_Running):
    """:func:`~jitgrad.nn.functional.instance_norm`, perhaps with parameters and estimates.

    An input without a dimension of samples is one sample.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input(input)
        alone = input.ndim == self.ranks[0]
        dim = 0 if alone else 1
        if input.shape[dim] != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features "
                f"({self.num_features}), but got: {input.shape[dim]}."
            )
        given = input.unsqueeze(0) if alone else input
        result = functional.instance_norm(
            given,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return result.squeeze(0) if alone else result


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of [n, channels, length] or [channels, length] (Ulyanov 2016)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of [n, channels, height, width], or without n."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of [n, channels, depth, height, width], or without n."""

    ranks = (4, 5)
