"""Operators whose gradient is that of a composition of recorded operators.

Calling the composition would record each of its steps, give views where PyTorch gives tensors of
their own, and keep every intermediate value. So it runs unrecorded, one node remembers the inputs,
and backward runs it once more, recorded, and differentiates that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..autograd import api
from ..ops.table import structured
from ..state import GRAD, modes, set_grad_mode
from ..tensor import Tensor
from .make import alias
from .record import StructuredNode, node_class, record
from .view import view_of


class Composed:
    """One such operator: call it with the inputs, and the attributes of the call.

    Args:
        name: of the row.
        inputs: names of the tensors, the first parameters of ``function``.
        function: the composition; its other parameters are attributes. It returns a tensor, or as
            many as ``outputs`` says.
        lay: what makes tensors of their own of the results, in the strides that PyTorch has.
    """

    def __init__(
        self,
        name: str,
        inputs: str,
        function: Callable[..., Any],
        lay: Callable[..., Tensor],
        *,
        outputs: int = 1,
        node: str = "",
    ) -> None:
        self.names = tuple(inputs.split())
        self.function = function
        self.outputs = outputs
        self.lay = lay
        self.__doc__ = function.__doc__
        grad: Mapping[str, Any] = {inputs: self._formula(len(self.names) > 1)}
        row = structured(
            name, inputs, grad=grad, node=node, outputs=outputs, fresh=True, holomorphic=False
        )
        self.cls: type[StructuredNode] = node_class(row)

    def __call__(self, *inputs: Tensor, **attributes: Any) -> Any:
        found = self.function(*(alias(x) for x in inputs), **attributes)
        outs = [self.lay(x) for x in (found if self.outputs > 1 else (found,))]
        record(self.cls, inputs, outs, attributes)
        return tuple(outs) if self.outputs > 1 else outs[0]

    def _formula(self, several: bool) -> Callable[..., Any]:
        """The gradients of all inputs at once, under the parameter names that a row reads."""

        parameters = ["grad", *inspect.signature(self.function).parameters]
        parameters += ["wanted"] if several else []

        def formula(*given: Any, **named: Any) -> Any:
            values = dict(zip(parameters, given, strict=False)) | named
            wanted = values.pop("wanted", (True,))
            grads = self._gradients(values.pop("grad"), wanted, values)
            return grads if several else grads[0]

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        formula.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(p, kind) for p in parameters]
        )
        return formula

    def _gradients(self, grad: Any, wanted: Sequence[bool], given: Mapping[str, Any]) -> Any:
        recorded = bool(modes.mode & GRAD)
        values = dict(given)
        set_grad_mode(True)
        try:
            for name, want in zip(self.names, wanted, strict=True):
                # Apart from each other, even if one tensor was given twice.
                x = values[name]
                values[name] = (
                    view_of(x, "view", (x.layout.shape,))
                    if recorded and x.requires_grad
                    else x.detach().requires_grad_(want)
                )
            sources = [values[n] for n, want in zip(self.names, wanted, strict=True) if want]
            found = self.function(**values)
            pairs = [
                (out, g)
                for out, g in zip(
                    found if self.outputs > 1 else (found,),
                    grad if self.outputs > 1 else (grad,),
                    strict=True,
                )
                if g is not None and out.requires_grad
            ]
            grads: Sequence[Tensor | None] = [None] * len(sources)
            if pairs:
                outs, seeds = zip(*pairs, strict=True)
                grads = api.grad(outs, sources, seeds, create_graph=recorded, allow_unused=True)
        finally:
            set_grad_mode(recorded)
        following = iter(grads)
        return tuple(next(following) if want else None for want in wanted)
