"""A step on other parameters and another state than the optimizer's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..tensor import Tensor
from .optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: Mapping[str, Tensor],
    swapin_optim_state: Mapping[str, Any],
) -> Iterator[None]:
    """Let an optimizer work on these parameters, with this state, inside a ``with`` block.

    Args:
        optimizer: it has made a step before, so that it has a state.
        swapin_parameters: in the order of the optimizer's own; their names do not matter.
        swapin_optim_state: as ``state_dict()`` returns it; its tensors are written to.

    Raises:
        RuntimeError: for a state that is not of this optimizer's form.
    """
    groups = _checked_groups(optimizer, swapin_optim_state)
    parameters = list(swapin_parameters.values())
    if sum(len(group["params"]) for group in groups) > len(parameters):
        raise _refused("the explicit parameter state to match optimizer.param_groups ordering")
    numbers = [number for group in groups for number in group["params"]]
    entries = swapin_optim_state["state"]
    if extra := [key for key in entries if key not in numbers]:
        raise _refused(
            "swapin_optim_state['state'] to be keyed only by packed parameter ids; got extra "
            f"keys {extra!r}"
        )
    own, own_state = [dict(group) for group in optimizer.param_groups], optimizer.state
    state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    for p, number in zip(parameters, numbers, strict=False):
        state[p] = dict(entries.get(number, {}))
    try:
        at = 0
        for live, group in zip(optimizer.param_groups, groups, strict=True):
            count = len(group["params"])
            live.update(group)
            live["params"] = parameters[at : at + count]
            at += count
        optimizer.state = state
        yield
    finally:
        for live, before in zip(optimizer.param_groups, own, strict=True):
            live.clear()
            live.update(before)
        optimizer.state = own_state


def _refused(what: str) -> RuntimeError:
    return RuntimeError(f"swap_in_optimizer_params_and_state requires {what}.")


def _checked_groups(optimizer: Optimizer, given: Any) -> list[dict[str, Any]]:
    """The groups of a state, if that could be a state of this optimizer."""
    if not optimizer.state:
        raise _refused("initialized optimizer state")
    if not isinstance(given, dict):
        raise _refused("a DCP-style optimizer state_dict")
    entries, groups = given.get("state"), given.get("param_groups")
    if not isinstance(entries, dict):
        raise _refused(
            "swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param "
            f"state dicts, got {type(entries).__name__}"
        )
    if any(isinstance(key, Tensor) for key in entries):
        raise _refused("optimizer.state_dict()-style state keyed by packed parameter ids")
    if not all(isinstance(held, dict) for held in entries.values()):
        raise _refused("per-parameter optimizer state entries to be dictionaries")
    if not isinstance(groups, list):
        raise _refused(
            "swapin_optim_state['param_groups'] to be a list of param-group dicts, got "
            f"{type(groups).__name__}"
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    for i, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        numbers = group.get("params") if isinstance(group, dict) else None
        if not isinstance(numbers, list) or not all(isinstance(x, int) for x in numbers):
            raise _refused("param_groups[*]['params'] entries keyed by packed parameter ids")
        if len(numbers) != len(live["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {i} has a different number of params than the "
                "live optimizer param group."
            )
        if set(group) != set(live):
            raise _refused(
                f"group keys to exactly match the live optimizer group keys for group {i}. Keys "
                f"in one only: {sorted(set(group) ^ set(live))}"
            )
    return groups
