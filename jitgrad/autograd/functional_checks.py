"""What the functions of ``autograd.functional`` ask of their arguments and of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor import Tensor

Function = Callable[..., Any]
Tensors = tuple[Tensor, ...]
Grads = Sequence[Tensor | None]

STRICT = "This is not allowed in strict mode"


# Arguments and results ----------------------------------------------------------------------------
def as_tuple(value: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """Whether a value came as a tuple, and the tuple; TypeError unless it is made of tensors."""
    came_as_tuple = isinstance(value, tuple)
    values = value if came_as_tuple else (value,)
    for index, x in enumerate(values):
        if not isinstance(x, Tensor):
            place = f"value at index {index}" if came_as_tuple else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the "
                f"{place} has type {type(x)}."
            )
    return came_as_tuple, values


def own(inputs: Tensors, create_graph: bool, requires_grad: bool = True) -> Tensors:
    """Tensors that stand for the inputs: differentiable views of them, or leaves."""
    return tuple(
        x.view_as(x)
        if create_graph and x.requires_grad
        else x.detach().requires_grad_(requires_grad)
        for x in inputs
    )


def finished(result: Any, create_graph: bool) -> Any:
    """A result as the caller gets it: without its graph, unless that was asked for."""
    if isinstance(result, Tensor):
        return result if create_graph else result.detach()
    return tuple(finished(x, create_graph) for x in result)


def unpacked(result: Any, *packed: bool) -> Any:
    """Nested tuples, those of one element opened where a single tensor was given."""
    if not packed:
        return result
    result = tuple(unpacked(x, *packed[1:]) for x in result)
    return result if packed[0] else result[0]


def zeros(of: Tensor, requires_grad: bool = False) -> Tensor:
    return of.new_zeros(of.layout.shape, requires_grad=requires_grad)


def vector(v: Any, name: str, refs: Tensors, packed: bool, create_graph: bool) -> Tensors:
    """The vector of a product, of as many tensors as ``refs`` and of their sizes."""
    _, vectors = as_tuple(v, "v", name)
    vectors = own(vectors, create_graph, requires_grad=False)
    if len(vectors) != len(refs):
        if not packed:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(refs)} but got {len(vectors)}."
        )
    for index, (x, of) in enumerate(zip(vectors, refs, strict=True)):
        if x.layout.shape != of.layout.shape:
            entry = f"Entry {index} in " if packed else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {of.shape} but got {x.shape}."
            )
    return vectors


def single_element(tensors: Tensors, whose: str) -> None:
    if len(tensors) != 1 or tensors[0].layout.numel != 1:
        raise RuntimeError(
            f"The vector v can only be None if {whose} a single Tensor with a single element."
        )


OF_INPUT = "the input to the user-provided function is"
OF_OUTPUT = "the user-provided function returns"


def evaluated(func: Function, inputs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    packed, outputs = as_tuple(func(*inputs), "outputs of the user-provided function", name)
    if strict:
        must_require_grad(outputs, "outputs")
    return packed, outputs


def scalar(func: Function, inputs: Tensors, name: str, strict: bool) -> Tensor:
    """The value of a function that must return one tensor of one element."""
    packed, outputs = evaluated(func, inputs, name, strict)
    if packed:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].layout.numel != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
    return outputs[0]


# Strictness ---------------------------------------------------------------------------------------
_NO_GRAD = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs "
    "must be computed in a differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the "
    f"user-provided function. {STRICT}.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided "
    f"function with respect to input {{i}} is independent of the input. {STRICT}. The function "
    "must be twice differentiable, and not linear.",
}
_INDEPENDENT = {
    "back": f"The output of the user-provided function is independent of input {{i}}. {STRICT}.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the "
    "grad_outputs when using the double backward trick to compute forward mode gradients. "
    f"{STRICT}.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. "
    f"{STRICT}.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in "
    f"the grad_jacobian. {STRICT} as it prevents from using the double backward trick to replace "
    "forward mode AD.",
}


def must_require_grad(tensors: Grads, what: str) -> None:
    for i, x in enumerate(tensors):
        if x is None:
            raise RuntimeError(_INDEPENDENT["back"].format(i=i))
        if not x.requires_grad:
            raise RuntimeError(_NO_GRAD[what].format(i=i))


def filled(grads: Grads, refs: Tensors, strict: bool, create_graph: bool, stage: str) -> Tensors:
    """Gradients with zeros for None; in strict mode None is refused, and results without graph."""
    result = []
    for i, (x, of) in enumerate(zip(grads, refs, strict=True)):
        if x is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[stage].format(i=i))
            x = zeros(of)
        elif strict and create_graph and not x.requires_grad:
            which = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {which} of the user-provided function is independent of input {i}. {STRICT} "
                "when create_graph=True."
            )
        result.append(x)
    return tuple(result)
