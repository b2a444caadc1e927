"""The partial inverse of max pooling."""

from __future__ import annotations

import numpy as np

from ..dtypes import int64
from ..layout import dense_layout, image_layout
from ..ops.table import structured
from ..tensor import Tensor
from .convert import unflipped
from .linear_maps import check_floating
from .make import fresh
from .places import extremes
from .planes import move, taken
from .pool_sizes import Sizes
from .record import node_class, record

_UNPOOLS = {
    rank: node_class(
        structured(
            f"max_unpool{rank}d",
            "self indices",
            grad={"self": lambda grad, indices, rank: taken(grad, indices, rank)},
            jvp={
                "self": lambda tangent, indices, rank, output_size: max_unpool(
                    rank, tangent, indices, output_size
                )
            },
            node=f"MaxUnpool{rank}DBackward0",
            fresh=True,
        )
    )
    for rank in (2, 3)
}


def max_unpool(rank: int, self: Tensor, indices: Tensor, output_size: Sizes) -> Tensor:
    """Zeros in planes of ``output_size`` but for the elements of ``self`` at their places.

    Args:
        rank: 2 or 3: how many dimensions a plane has.
        indices: the places, int64, as max pooling gives them; of several values for one place the
            last stays.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit, or a place outside.
    """
    self = unflipped(self)
    of, at = self.layout, indices.layout
    if of.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Input to max_unpooling{rank}d should be a {rank + 1}d or {rank + 2}d Tensor, but got "
            f"a tensor with {of.ndim} dimensions."
        )
    if at.dtype is not int64:
        raise RuntimeError(
            "elements in indices should be type int64 but got: "
            f"{at.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if at.shape != of.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(of.shape)}) but got indices tensor with shape: {list(at.shape)}"
        )
    for d, n in enumerate(of.shape):
        if n == 0 and d > 0:
            raise RuntimeError(
                f"max_unpooling{rank}d_forward_out_cpu(): Expected input to have non-zero size for "
                f"non-batch dimensions, but got {list(of.shape)} with dimension {d} being empty."
            )
    check_floating(f"max_unpool{rank}d", of)
    low, high = extremes(indices)
    volume = int(np.prod(output_size))
    if of.numel and (low < 0 or high >= volume):
        raise RuntimeError(
            f"Found an invalid max index: {low if low < 0 else high} (output volumes are of size "
            f"{'x'.join(map(str, output_size))}"
            ")"
        )
    shape = (*of.shape[: of.ndim - rank], *output_size)
    result = fresh(
        dense_layout(shape, of.dtype) if rank == 3 else image_layout(shape, of.dtype, of)
    )
    move("put", rank, self, indices, result)
    attributes = {"output_size": output_size, "rank": rank}
    record(_UNPOOLS[rank], (self, indices), (result,), attributes)
    return result
