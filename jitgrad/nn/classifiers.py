"""Last layers of classifiers together with their losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..dispatch.elementwise import functions
from ..dispatch.positions import nonzero
from ..dispatch.scatter import gather
from ..dispatch.shape import cat
from ..tensor import Tensor
from . import functional
from ._projected import LinearCrossEntropyOptions
from .containers import ModuleList, Sequential
from .linear import Linear
from .loss import _WeightedLoss
from .module import Module


class LinearCrossEntropyLoss(_WeightedLoss):
    """A :class:`Linear` and the cross entropy of its scores.

    Attributes:
        linear: the map to the scores of all classes (and places).
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        scores = math.prod((num_classes, *out_features))
        self.linear = Linear(in_features, scores, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return functional.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class Likelihoods(NamedTuple):
    """What :class:`AdaptiveLogSoftmaxWithLoss` gives: the targets' log-probabilities, the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax over classes sorted by frequency: frequent ones at once, rare ones by clusters.

    The head scores the first classes and each cluster; the tail of a cluster scores its classes,
    through fewer features the rarer they are (Grave et al., "Efficient softmax approximation for
    GPUs", 2017).

    Args:
        cutoffs: where clusters begin, ascending.
        div_value: by what the features of each next cluster are divided.
        head_bias: whether the head has a bias.

    Raises:
        ValueError: for cutoffs that are not ascending integers between 1 and n_classes - 1.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        if not given:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        inside = all(int(c) == c and 1 <= c <= n_classes - 1 for c in given)
        if not inside or given != sorted(set(given)):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.div_value = in_features, n_classes, div_value
        self.cutoffs = [*given, n_classes]
        self.shortlist_size, self.n_clusters = given[0], len(given)
        self.head_bias = head_bias
        options = {"device": device, "dtype": dtype}
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **options),
                    Linear(hidden, size, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """New initial values."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> Likelihoods:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.ndim != target.ndim + 1:
            raise RuntimeError(
                f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
                f"inputs with size {list(input.shape)}"
            )
        if target.ndim and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        rows = input.reshape((-1, input.shape[-1]))
        labels = target.reshape((-1,))
        if labels.numel() and not (int(labels.min()) >= 0 and int(labels.max()) < self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(labels.min())}, {int(labels.max())}] were found. "
            )
        column = labels
        output = rows.new_zeros((rows.shape[0],))
        for i, tail in enumerate(self.tail):
            low, high = self.cutoffs[i : i + 2]
            inside = (labels >= low) & (labels < high)
            column = functions["where"](inside, self.shortlist_size + i, column)
            place = nonzero(inside).reshape((-1,))
            if not place.numel():
                continue
            scores = functional.log_softmax(tail(rows.index_select(0, place)), dim=1)
            local = labels.index_select(0, place) - low
            found = gather(scores, 1, local.unsqueeze(1)).squeeze(1)
            output = output.index_add(0, place, found)
        head = functional.log_softmax(self.head(rows), dim=1)
        chosen = gather(head, 1, column.unsqueeze(1)).squeeze(1)
        output = output + chosen
        loss = (-output).mean()
        return Likelihoods(output if target.ndim else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes, [n, n_classes], of an input [n, in_features]."""
        head = functional.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            cluster = head[:, self.shortlist_size + i : self.shortlist_size + i + 1]
            parts.append(functional.log_softmax(tail(input), dim=1) + cluster)
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest classes, [n]."""
        return self.log_prob(input).argmax(1)
