"""Calling a module as a function of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with other tensors in place of its parameters and buffers, for this call.

    Args:
        module: an ``nn.Module``.
        parameter_and_buffer_dicts: from the names of ``named_parameters()`` and
            ``named_buffers()`` to tensors, or a sequence of such dictionaries.
        args, kwargs: of the call; a single argument need not be in a tuple.
        tie_weights: replace a tensor under all its names if one of them is given.
        strict: raise for names that are unknown and for parameters that are not given.

    Raises:
        RuntimeError: with ``strict``; KeyError for a name that the module does not have.
        ValueError: for a name in two of the dictionaries.
    """
    values = _merged(parameter_and_buffer_dicts)
    places = _places(module)
    if strict:
        unknown, missing = sorted(values.keys() - places), sorted(places.keys() - values)
        if unknown or missing:
            raise RuntimeError(
                f"Error(s) in functional_call: Unexpected key(s): {unknown}. Missing key(s): "
                f"{missing}."
            )
    if tie_weights:
        values = _tied(values, places)
    kept = []
    try:
        for name, value in values.items():
            slots, key = places[name]
            kept.append((slots, key, slots[key]))
            slots[key] = value
        given = args if isinstance(args, tuple) else (args,)
        return module(*given, **(kwargs or {}))
    finally:
        for slots, key, value in reversed(kept):
            slots[key] = value


def _merged(dictionaries: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if isinstance(dictionaries, Mapping):
        return dict(dictionaries)
    result: dict[str, Any] = {}
    for one in dictionaries:
        twice = result.keys() & one.keys()
        if twice:
            raise ValueError(f"{sorted(twice)} appeared in multiple dictionaries")
        result.update(one)
    return result


def _places(module: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """For the full name of every parameter and buffer the dictionary that holds it, and its key."""
    return {
        f"{prefix}.{key}" if prefix else key: (slots, key)
        for prefix, part in module.named_modules(remove_duplicate=False)
        for slots in (part._parameters, part._buffers)
        for key, value in slots.items()
        if value is not None
    }


def _tied(values: Mapping[str, Any], places: Mapping[str, Any]) -> dict[str, Any]:
    """With the other names of every tensor that is replaced."""
    names: dict[int, list[str]] = {}
    for name, (slots, key) in places.items():
        names.setdefault(id(slots[key]), []).append(name)
    result: dict[str, Any] = {}
    for name, value in values.items():
        slots, key = places[name]
        for other in names[id(slots[key])]:
            if result.setdefault(other, value) is not value:
                raise ValueError(f"functional_call: tied weights {name} and {other} differ")
    return result
