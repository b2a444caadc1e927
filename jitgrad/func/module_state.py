"""The state of modules, prepared for transformations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.shape import stack
from ..tensor import Tensor


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one class, each stacked under its name.

    What comes of parameters that require grad are leaves, unrelated to the modules'. With
    ``vmap`` over them ``functional_call`` of one module is a call of all.

    Raises:
        RuntimeError: for no modules, or other than of one class, one mode, and one requires_grad.

    >>> import jitgrad as jg
    >>> models = [jg.nn.Linear(3, 2) for _ in range(5)]
    >>> parameters, buffers = jg.func.stack_module_state(models)
    >>> call = lambda p, x: jg.func.functional_call(models[0], p, x)
    >>> jg.func.vmap(call, (0, None))(parameters, jg.ones(4, 3)).shape
    jitgrad.Size([5, 4, 2])
    """
    name = "stack_module_state"
    if len(models) == 0:
        raise RuntimeError(f"{name}: Expected at least one model, got 0.")
    if len({bool(m.training) for m in models}) > 1:
        raise RuntimeError(f"{name}: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(f"{name}: Expected all models to be of the same class.")
    return (
        _stacked([dict(m.named_parameters()) for m in models]),
        _stacked([dict(m.named_buffers()) for m in models]),
    )


def _stacked(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    result = {}
    for key in states[0]:
        held = [state[key] for state in states]
        requires_grad = held[0].requires_grad
        if any(x.requires_grad is not requires_grad for x in held):
            raise RuntimeError(f"Expected {key} from each model to have the same .requires_grad")
        result[key] = stack([x.detach() for x in held]).requires_grad_(requires_grad)
    return result


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make every BatchNorm in ``root`` do without running estimates, in place; returns ``root``.

    Those are buffers that a call writes to, which transformations of functions do not allow.
    """
    for part in root.modules():
        forget = getattr(part, "_forget_running_stats", None)
        if forget is not None:
            forget()
    return root
