"""linear and its kin, distances, and encodings."""

from __future__ import annotations

from .. import dtypes
from ..dispatch.creation import arange, zeros
from ..dispatch.elementwise import functions
from ..dispatch.matmul import addmm, matmul, mm
from ..dispatch.matmul import linear as matrix_linear
from ..dispatch.record import StructuredNode, node_class, record
from ..dispatch.reduction import norm, vector_norm
from ..dispatch.view import reshape, t, unsqueeze, view_of
from ..layout import dense_layout
from ..ops.table import structured
from ..tensor import Tensor, make


def _row(name: str, node: str) -> type[StructuredNode]:
    back = {"self": lambda grad, layout: reshape(grad, layout.shape)}
    return node_class(structured(name, "self", grad=back, node=node))


_UNSAFE_VIEW = _row("linear_unsafe_view", "UnsafeViewBackward0")


def _reshaped(result: Tensor, shape: tuple[int, ...], cls: type[StructuredNode]) -> Tensor:
    """A result that nobody else holds in another shape: its memory, but no view of it."""
    reshaped = make(result.storage, result.offset, dense_layout(shape, result.layout.dtype))
    record(cls, (result,), (reshaped,), {})
    return reshaped


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Args:
        input: [..., in_features].
        weight: [out_features, in_features], or [in_features].
        bias: [out_features].

    Raises:
        RuntimeError: if sizes or dtypes do not fit.
    """
    rank = input.layout.ndim
    if rank == 2 and bias is not None and weight.layout.ndim == 2:
        return matrix_linear(input, weight, bias)
    if weight.layout.ndim != 2:
        result = matmul(input, t(weight))
        return result if bias is None else result + bias
    if bias is not None and rank != 2 and not input.layout.contiguous:
        return linear(input, weight) + bias
    flat = input if rank == 2 else reshape(input, (-1, *input.shape[-1:]))
    result = mm(flat, t(weight)) if bias is None else addmm(bias, flat, t(weight))
    if flat is input:
        return result
    shape = (*input.shape[:-1], weight.shape[0])
    if bias is None:
        return _reshaped(result, shape, _UNSAFE_VIEW)
    return view_of(result, "view", (shape,))


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2`` for each output k, plus ``bias``.

    Args:
        input1, input2: [..., in1_features] and [..., in2_features].
        weight: [out_features, in1_features, in2_features].
    """
    lead, (out, n1, n2) = input1.shape[:-1], weight.shape
    if lead != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    if input1.shape[-1] != n1 or input2.shape[-1] != n2:
        raise RuntimeError(
            f"bilinear(): input sizes do not match weight sizes: got {input1.shape[-1]} and "
            f"{input2.shape[-1]} but expected {n1} and {n2}"
        )
    pairs = unsqueeze(input1, -1) * unsqueeze(input2, -2)
    result = linear(reshape(pairs, (*lead, n1 * n2)), reshape(weight, (out, n1 * n2)))
    return result if bias is None else result + bias


def normalize(input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12,
              out: Tensor | None = None) -> Tensor:  # fmt: skip
    """``input`` divided by its p-norm along ``dim``, which is taken as at least ``eps``."""
    length = vector_norm(input, p, dim, True)
    divisor = functions["clamp_min"](length, eps).expand_as(input)
    return functions["div"](input, divisor, out=out)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between ``x1`` and ``x2`` along ``dim``; norms are at least eps."""
    parts = []
    for x in (x1, x2):
        length = vector_norm(x, 2, dim, True)
        parts.append(x / functions["clamp_min"](length, eps))
    return (parts[0] * parts[1]).sum(dim)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 [..., num_classes] with a one at each class number, zeros elsewhere.

    Args:
        tensor: class numbers, int64.
        num_classes: by default one more than the largest.

    Raises:
        RuntimeError: for a negative number, one that is no class, or nothing to infer from.
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not tensor.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return zeros(*tensor.shape, num_classes, dtype=dtypes.int64)
    if tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = tensor.max().item()
    if num_classes == -1:
        num_classes = largest + 1
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    equal = functions["eq"](unsqueeze(tensor, -1), arange(num_classes))
    return equal.to(dtypes.int64)
