"""Jacobian matrices of a function of tensors, in three ways: differences, backward, forward.

Used by :mod:`jitgrad.autograd.gradcheck`. A Jacobian is a NumPy matrix with a row for every element
of the input and a column for every element of the output. A complex element counts as two, its
parts: with gradients dL/dx + i dL/dy nothing else is particular about it. Tensors are read and
perturbed through NumPy views, so that nothing here shows on the tape or in a version counter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..tensor import Tensor
from . import forward_ad
from .api import grad

SEED = 0  # of random vectors: a check is repeatable
Matrix = np.ndarray
Function = Callable[..., Any]
Tensors = tuple[Tensor, ...]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A function's result as a tuple."""
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def is_real_input(value: Any) -> bool:
    """Whether gradients are checked with respect to this argument."""
    return isinstance(value, Tensor) and value.requires_grad


def differentiable(outputs: Any) -> Tensors:
    """The outputs that carry gradients."""
    return tuple(x for x in as_tuple(outputs) if isinstance(x, Tensor) and x.requires_grad)


def flat(tensor: Tensor) -> np.ndarray:
    """The values of a tensor in a vector of their own."""
    kind = np.complex128 if tensor.is_complex() else np.float64
    return tensor._numbers().astype(kind).reshape(-1).view(np.float64)


def length(tensor: Tensor) -> int:
    """How many real numbers a tensor has."""
    return tensor.layout.numel * (2 if tensor.is_complex() else 1)


def _shaped(of: Tensor, vector: np.ndarray) -> np.ndarray:
    """A vector as :func:`flat` makes them, in a tensor's shape."""
    values = np.ascontiguousarray(vector, np.float64).reshape(-1)
    if of.is_complex():
        values = values.view(np.complex128)
    return values.reshape(of.layout.shape)


def like(of: Tensor, vector: np.ndarray) -> Tensor:
    """A tensor with the geometry and dtype of ``of`` and other values."""
    result = of.detach().clone()
    result._assign(_shaped(of, vector))
    return result


def basis(of: Tensor) -> Iterator[Tensor]:
    """For every element the tensor that is one there and zero elsewhere."""
    count = length(of)
    for i in range(count):
        yield like(of, np.eye(1, count, i))


# Differences --------------------------------------------------------------------------------------
def _values(function: Function, inputs: Sequence[Any], which: Sequence[int]) -> list[Tensor]:
    outputs = as_tuple(function(*inputs))
    return [outputs[i].detach().clone() for i in which]


def _difference(low: Tensor, high: Tensor, width: float) -> np.ndarray:
    """A central difference; AssertionError if the two sides do not look alike."""
    for what in ("shape", "dtype"):
        one, other = getattr(low, what), getattr(high, what)
        if one != other:
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are "
                f"perturbed, but got {one} and {other}"
            )
    return (flat(high) - flat(low)) / width


def numerical(
    function: Function, inputs: Sequence[Any], which: Sequence[int], number: int, eps: float
) -> list[Matrix]:
    """The Jacobians of the outputs ``which`` with respect to input ``number``, by differences."""
    array, encode = inputs[number]._array(), inputs[number].layout.dtype.encode
    numbers = inputs[number]._numbers()
    columns: list[list[np.ndarray]] = [[] for _ in which]
    units = (1.0, 1.0j) if inputs[number].is_complex() else (1.0,)
    for place, unit in itertools.product(np.ndindex(array.shape), units):
        kept, number_there = array[place], numbers[place]
        sides = []
        for step in (-eps, eps):
            array[place] = encode(np.asarray(number_there + step * unit))
            sides.append(_values(function, inputs, which))
        array[place] = kept
        for rows, low, high in zip(columns, *sides, strict=True):
            rows.append(_difference(low, high, 2 * eps))
    return [np.stack(rows) if rows else np.zeros((0, 1)) for rows in columns]


def numerical_along(
    function: Function,
    inputs: Sequence[Any],
    which: Sequence[int],
    number: int,
    direction: np.ndarray,
    eps: float,
) -> list[np.ndarray]:
    """For each output its derivative along one direction of input ``number``, by differences."""
    x = inputs[number]
    kept = x._numbers().copy()
    step = _shaped(x, direction) * eps
    sides = []
    for moved in (kept - step, kept + step):
        x._assign(moved)
        sides.append(_values(function, inputs, which))
    x._assign(kept)
    return [_difference(low, high, 2 * eps) for low, high in zip(*sides, strict=True)]


# Backward -----------------------------------------------------------------------------------------
def backward_rows(output: Tensor, inputs: Tensors, seeds: Iterator[Tensor]) -> list[list[Any]]:
    """For every gradient in ``seeds`` that enters ``output`` the gradients of the inputs."""
    return [
        list(grad(output, inputs, seed, retain_graph=True, allow_unused=True)) for seed in seeds
    ]


def by_backward(output: Tensor, inputs: Tensors) -> tuple[list[Matrix], list[list[Any]]]:
    """The Jacobian of ``output`` with respect to each input, and the gradients it was made from."""
    rows = backward_rows(output, inputs, basis(output))
    matrices = []
    for number, x in enumerate(inputs):
        matrix = np.zeros((length(x), length(output)))
        for column, grads in enumerate(rows):
            found = grads[number]
            if found is not None and found.layout.shape == x.layout.shape:
                matrix[:, column] = flat(found)
        matrices.append(matrix)
    return matrices, rows


# Forward ------------------------------------------------------------------------------------------
def tangents_along(
    function: Function, inputs: Sequence[Any], which: Sequence[int], number: int, direction: Tensor
) -> list[Tensor | None]:
    """The tangents of the outputs where input ``number`` moves along ``direction``."""
    with forward_ad.dual_level():
        # The others stand still: they are dual as well, for functions that look at tangents.
        moved = [
            forward_ad.make_dual(x.detach(), like(x, np.zeros(length(x))))
            if is_real_input(x) and place != number
            else x
            for place, x in enumerate(inputs)
        ]
        moved[number] = forward_ad.make_dual(inputs[number].detach(), direction)
        outputs = as_tuple(function(*moved))
        return [forward_ad.unpack_dual(outputs[i]).tangent for i in which]


def by_forward(
    function: Function, inputs: Sequence[Any], outputs: Tensors, which: Sequence[int], number: int
) -> tuple[list[Matrix], list[list[Any]]]:
    """For each output its Jacobian with respect to input ``number``, and the tangents it is of."""
    count = length(inputs[number])
    matrices = [np.zeros((count, length(x))) for x in outputs]
    rows = [
        tangents_along(function, inputs, which, number, direction)
        for direction in basis(inputs[number])
    ]
    for row, tangents in enumerate(rows):
        for matrix, tangent in zip(matrices, tangents, strict=True):
            if tangent is not None:
                matrix[row] = flat(tangent)
    return matrices, rows
