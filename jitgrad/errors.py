"""Error messages that match PyTorch's key phrases, one function each.

Each returns the exception to raise. Where PyTorch leaves the search to the reader, the message goes
on to say which operator, which shapes and which line of the caller's code are concerned.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from . import config

# Where an operator was called: a code object and an instruction offset. Never a frame, which would
# keep the caller's locals alive; lines are looked up only when an error is raised.
Where = tuple[CodeType, int]
# What wrote a tensor in place, and where it was called.
Written = tuple[str, CodeType, int]


def line_of(where: Where | None) -> str:
    """``file:line`` of a recorded place, or a note that it is unknown."""
    if where is None:
        return "an unknown line"
    code, offset = where
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end and number is not None:
            line = number
    return f"{code.co_filename}:{line}"


_HERE = __file__.rpartition("errors.py")[0]


class _Files(dict[str, bool]):
    """File names of code: is it jitgrad's own?"""

    def __missing__(self, name: str) -> bool:
        self[name] = name.startswith((_HERE, "<jitgrad "))
        return self[name]


ours = _Files()


def caller(skip: int = 1) -> Where | None:
    """Where the user's code called into jitgrad; ``skip`` frames are known to be jitgrad's."""
    frame: FrameType | None = _frame(skip)
    while frame is not None:
        code = frame.f_code
        if not ours[code.co_filename]:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def _nowhere(skip: int = 1) -> Where | None:
    return None


_frame = sys._getframe
if not config.WHERE:
    caller = _nowhere


def writer(name: str, skip: int = 1) -> Written | None:
    """:func:`caller` with the name of the operator that writes there."""
    where = caller(skip + 1)
    return None if where is None else (name, *where)


def backward_twice(node: Any) -> RuntimeError:
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        f"calling backward. (What {node.name()} saved at {line_of(node._where)} was freed by the "
        f"backward pass at {line_of(node._saved.where)}.)"
    )


def modified_inplace(
    tensor: Any, expected: int, node: Any, nr: int | None, producer: Any, traced: bool
) -> RuntimeError:
    counter = tensor.counter
    output = "" if producer is None else f", which is output {nr} of {producer.name()},"
    hint = (
        "the backtrace further above shows the operation that failed to compute its gradient"
        if traced
        else "enable anomaly detection to find the operation that failed to compute its gradient, "
        "with jitgrad.autograd.set_detect_anomaly(True)"
    )
    wrote = ""
    if counter.writer is not None:
        name, *where = counter.writer
        wrote = f" It was last written by {name}() at {line_of(tuple(where))}."
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [jitgrad.{tensor.dtype.tensor_type} {list(tensor.shape)}]{output} is at "
        f"version {counter.version}; expected version {expected} instead. It was saved by "
        f"{node.name()} at {line_of(node._where)}.{wrote} Hint: {hint}."
    )


def detached_inplace(tensor: Any, node: Any) -> RuntimeError:
    return RuntimeError(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): a "
        f"[jitgrad.{tensor.dtype.tensor_type} {list(tensor.shape)}] that {node.name()} saved at "
        f"{line_of(node._where)} has been detached in-place; clone it before detach_(), or use "
        "detach()"
    )


def leaf_inplace(view: bool) -> RuntimeError:
    what = "a view of a leaf Variable" if view else "a leaf Variable"
    return RuntimeError(
        f"{what} that requires grad is being used in an in-place operation. To change its values "
        "without recording, write under `with no_grad():` or to `.detach()`; to record the change, "
        "write to a clone()."
    )


def inference_inplace() -> RuntimeError:
    return RuntimeError(
        "Inplace update to inference tensor outside InferenceMode is not allowed. Make a clone() "
        "to get a normal tensor before writing, or write inside inference_mode()."
    )


def no_grad_root(index: int, explanation: str) -> RuntimeError:
    return RuntimeError(
        f"element {index} of tensors does not require grad and does not have a grad_fn. "
        f"{explanation}"
    )


def nonscalar_root(shape: Any) -> RuntimeError:
    return RuntimeError(
        "grad can be implicitly created only for scalar outputs; this output has shape "
        f"{list(shape)}: pass gradient= (a tensor of that shape) or reduce it first"
    )


def grad_shape(index: int, grad: Any, output: Any) -> RuntimeError:
    return RuntimeError(
        f"Mismatch in shape: grad_output[{index}] has a shape of {grad} and output[{index}] "
        f"has a shape of {output}."
    )


def unused_input(index: int) -> RuntimeError:
    return RuntimeError(
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior."
    )


def invalid_gradient(node: Any, index: int, problem: str) -> RuntimeError:
    return RuntimeError(
        f"Function {node.name()} returned an invalid gradient at index {index} - {problem}"
    )


def argument(name: str, which: str, wanted: str, got: Any) -> TypeError:
    kind = got if isinstance(got, type) else type(got)
    return TypeError(f"{name}(): argument '{which}' must be {wanted}, not {kind.__name__}")


def unsupported(name: str, dtype: Any) -> NotImplementedError:
    """An operator that a dtype does not have."""
    why = ": it is not supported for complex numbers" if dtype.is_complex else ""
    return NotImplementedError(
        f"\"{name}\" not implemented for '{dtype.tensor_type.removesuffix('Tensor')}'{why}"
    )
