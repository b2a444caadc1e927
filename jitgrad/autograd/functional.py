"""Products with Jacobians and Hessians of functions of tensors, and the matrices themselves.

All work on tensors of their own in place of the inputs, so that an input counts as one even where
the function also knows the same tensor from elsewhere. Without ``create_graph`` the results carry
no graph; with it they are differentiable with respect to the inputs that require grad.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..state import GRAD, modes
from ..tensor import Tensor
from . import forward_ad
from .api import grad
from .functional_checks import (
    OF_INPUT,
    OF_OUTPUT,
    STRICT,
    Function,
    Grads,
    Tensors,
    as_tuple,
    evaluated,
    filled,
    finished,
    must_require_grad,
    own,
    scalar,
    single_element,
    unpacked,
    vector,
    zeros,
)
from .grad_mode import enable_grad, set_grad_enabled


def _gradients(
    outputs: Grads, inputs: Tensors, vectors: Grads | None = None, create_graph: bool = False
) -> Grads:
    """Gradients, None for inputs that the outputs do not depend on."""
    pairs = [
        (x, None if vectors is None else vectors[i])
        for i, x in enumerate(outputs)
        if x is not None and x.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    roots, entering = zip(*pairs, strict=True)
    return grad(roots, inputs, entering, create_graph=create_graph, allow_unused=True)


def _graph_mode(create_graph: bool) -> set_grad_enabled:
    """The last step is recorded if its result is to be differentiable."""
    return set_grad_enabled(create_graph or bool(modes.mode & GRAD))


# Products -----------------------------------------------------------------------------------------
def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """``(func(*inputs), v @ J)``: the gradients with ``v`` for that of the outputs.

    Args:
        func: from tensors to a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: like the outputs; may be left out where there is one, of one element.
        create_graph: make the results differentiable.
        strict: raise where an output does not depend on an input, instead of zeros.
    """
    with enable_grad():
        packed_in, given = as_tuple(inputs, "inputs", "vjp")
        given = own(given, create_graph)
        packed_out, outputs = evaluated(func, given, "vjp", strict)
        if v is None:
            single_element(outputs, OF_OUTPUT)
            vectors: Grads | None = None
        else:
            vectors = vector(v, "vjp", outputs, packed_out, create_graph)
    with _graph_mode(create_graph):
        found = _gradients(outputs, given, vectors, create_graph)
        product = filled(found, given, strict, create_graph, "back")
    return (
        unpacked(finished(outputs, create_graph), packed_out),
        unpacked(finished(product, create_graph), packed_in),
    )


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """``(func(*inputs), J @ v)``: how the outputs move when the inputs move along ``v``.

    By differentiating a vector-Jacobian product with respect to its vector. Arguments as for
    :func:`vjp`, with ``v`` like the inputs.
    """
    with enable_grad():
        packed_in, given = as_tuple(inputs, "inputs", "jvp")
        given = own(given, create_graph)
        vectors = _input_vector(v, "jvp", given, packed_in, create_graph)
        packed_out, outputs = evaluated(func, given, "jvp", strict)
        seeds = tuple(zeros(x, requires_grad=True) for x in outputs)
        found = _gradients(outputs, given, seeds, create_graph=True)
        if strict:
            must_require_grad(found, "grad_inputs")
    with _graph_mode(create_graph):
        moved = _gradients(found, seeds, vectors, create_graph)
        product = filled(moved, outputs, strict, create_graph, "back_trick")
    return (
        unpacked(finished(outputs, create_graph), packed_out),
        unpacked(finished(product, create_graph), packed_out),
    )


def _input_vector(
    v: Any, name: str, inputs: Tensors, packed: bool, create_graph: bool
) -> Grads | None:
    if v is not None:
        return vector(v, name, inputs, packed, create_graph)
    single_element(inputs, OF_INPUT)
    return None


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """``(func(*inputs), v @ H)`` for a function with one value; arguments as for :func:`jvp`."""
    with enable_grad():
        packed, given = as_tuple(inputs, "inputs", "vhp")
        given = own(given, create_graph)
        vectors = _input_vector(v, "vhp", given, packed, create_graph)
        output = scalar(func, given, "vhp", strict)
        slopes = _gradients((output,), given, create_graph=True)
        if strict:
            must_require_grad(slopes, "jacobian")
    with _graph_mode(create_graph):
        found = _gradients(slopes, given, vectors, create_graph)
        product = filled(found, given, strict, create_graph, "double_back")
    return finished(output, create_graph), unpacked(finished(product, create_graph), packed)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """``(func(*inputs), H @ v)`` for a function with one value; arguments as for :func:`jvp`.

    By differentiating ``v @ H`` with respect to ``v``, which PyTorch does too; where H is
    symmetric, :func:`vhp` gives the same for less.
    """
    with enable_grad():
        packed, given = as_tuple(inputs, "inputs", "hvp")
        given = own(given, create_graph)
        vectors = _input_vector(v, "hvp", given, packed, create_graph)
        output = scalar(func, given, "hvp", strict)
        slopes = _gradients((output,), given, create_graph=True)
        if strict:
            must_require_grad(slopes, "jacobian")
        seeds = tuple(zeros(x, requires_grad=True) for x in given)
        bent = _gradients(slopes, given, seeds, create_graph=True)
    with _graph_mode(create_graph):
        found = _gradients(bent, seeds, vectors, create_graph)
        product = filled(found, given, strict, create_graph, "double_back_trick")
    return finished(output, create_graph), unpacked(finished(product, create_graph), packed)


# Matrices -----------------------------------------------------------------------------------------
_STRATEGIES = ("forward-mode", "reverse-mode")


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of every output element by every input element.

    Args:
        func, inputs, create_graph, strict: as for :func:`vjp`.
        vectorize: accepted; the rows (or columns) are computed one by one in any case.
        strategy: "reverse-mode", by rows, or "forward-mode", by columns.

    Returns:
        For one output and one input a tensor of the output's shape followed by the input's; a tuple
        over outputs or inputs where these came as tuples (of tuples where both did).

    Raises:
        NotImplementedError, RuntimeError: for the combinations that PyTorch does not have.
    """
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". The former is for '
            "functions with more outputs than inputs."
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` '
                "are not supported together (yet)."
            )
        return _by_columns(func, inputs, strict, vectorize)
    with enable_grad():
        packed_in, given = as_tuple(inputs, "inputs", "jacobian")
        given = own(given, create_graph)
        packed_out, outputs = evaluated(func, given, "jacobian", strict)
        if vectorize and strict:
            raise RuntimeError(
                "autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together."
            )
        result = tuple(
            _rows(output, given, number, create_graph, strict)
            for number, output in enumerate(outputs)
        )
    return unpacked(finished(result, create_graph), packed_out, packed_in)


def _rows(
    output: Tensor, inputs: Tensors, number: int, create_graph: bool, strict: bool
) -> Tensors:
    """The Jacobians of one output, a backward pass for each of its elements."""
    rows = []
    flat = output.reshape(-1)
    for place in range(output.layout.numel):
        found: Grads = (None,) * len(inputs)
        if output.requires_grad:
            found = grad(
                flat.select(0, place), inputs, retain_graph=True, create_graph=create_graph,
                allow_unused=True,
            )  # fmt: skip
        for i, x in enumerate(found):
            if strict and x is None:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {i}. "
                    f"{STRICT}."
                )
            if strict and create_graph and x is not None and not x.requires_grad:
                raise RuntimeError(
                    "The jacobian of the user-provided function is independent of input "
                    f"{i}. {STRICT} when create_graph=True."
                )
        rows.append([zeros(of) if x is None else x for x, of in zip(found, inputs, strict=True)])
    if not rows:
        shape = output.layout.shape
        return tuple(x.new_zeros((*shape, *x.layout.shape)) for x in inputs)
    return tuple(
        output._stack(column).reshape((*output.layout.shape, *of.layout.shape))
        for column, of in zip(zip(*rows, strict=True), inputs, strict=True)
    )


def _by_columns(func: Function, inputs: Any, strict: bool, vectorize: bool) -> Any:
    """The Jacobian by forward-mode AD, a call of ``func`` for each element of the inputs."""
    if strict:
        raise RuntimeError(
            'autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
            "supported together (yet)."
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`."
        )
    packed_in, given = as_tuple(inputs, "inputs", "jacobian")
    packed_out = False
    matrices = []  # by input, then output
    for number, x in enumerate(given):
        columns, one = [], x.layout.dtype.encode(np.ones(()))
        for place in range(x.layout.numel):
            direction = zeros(x)
            direction._array().flat[place] = one
            with forward_ad.dual_level():
                moved = [y.view_as(y) for y in given]
                moved[number] = forward_ad.make_dual(x, direction)
                packed_out, outputs = as_tuple(func(*moved), "outputs", "jacobian")
                pairs = [forward_ad.unpack_dual(y) for y in outputs]
            columns.append([zeros(y) if t is None else t for y, t in pairs])
        matrices.append(
            [
                column[0]._stack(column, -1).reshape((*column[0].layout.shape, *x.layout.shape))
                for column in zip(*columns, strict=True)
            ]
        )
    return unpacked(tuple(zip(*matrices, strict=True)), packed_out, packed_in)


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one value: the Jacobian of its Jacobian.

    Arguments as for :func:`jacobian`; the outer one of the two may be taken forward.
    """
    packed, _ = as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def value(*given: Tensor) -> Tensor:
        return scalar(func, given, "hessian", strict).reshape(())

    def slopes(*given: Tensor) -> Tensors:
        if outer_jacobian_strategy == "forward-mode":
            given = tuple(x.requires_grad_() for x in given)
        found: Tensors = jacobian(value, given, create_graph=True)
        if strict:
            must_require_grad(found, "jacobian")
        return found

    found = jacobian(slopes, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if packed else found[0]
