"""The base of all optimizers: parameter groups, state, hooks."""

from __future__ import annotations

import copy
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from .. import state
from ..autograd.grad_mode import enable_grad
from ..dispatch.convert import clone, to
from ..dispatch.creation import from_numpy, full, full_like
from ..dtypes import float32, float64
from ..nn.hooks import RemovableHandle, add_hook
from ..nn.module import clear_grads, typename
from ..tensor import Tensor


class _Required:
    """The default of an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_HOOKS = (
    "_step_pre_hooks",
    "_step_post_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_post_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


# Hooks on the steps of all optimizers.
_every_step_before: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_every_step_after: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(optimizer, args, kwargs)`` before each step of any optimizer; may return new
    arguments."""
    return add_hook(_every_step_before, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(optimizer, args, kwargs)`` after each step of any optimizer."""
    return add_hook(_every_step_after, hook)


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step with its hooks before and after."""

    @functools.wraps(step)
    def hooked_step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before, after = self._step_pre_hooks, self._step_post_hooks
        if not (before or after or _every_step_before or _every_step_after):
            return step(self, *args, **kwargs)
        for hook in [*_every_step_before.values(), *before.values()]:
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"{step.__qualname__} must return None or a tuple of (new_args, "
                        f"new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in [*after.values(), *_every_step_after.values()]:
            hook(self, args, kwargs)
        return result

    setattr(hooked_step, "hooked", True)  # noqa: B010
    return hooked_step


class Optimizer:
    """Holds parameters in groups with options of their own, and a state for each parameter.

    Args:
        params: tensors, pairs of a name and a tensor, or groups: dictionaries with ``params`` and
            the options that differ from ``defaults``.
        defaults: the options of groups that say nothing.

    Attributes:
        param_groups: the groups; options may be changed between steps.
        state: for each parameter what the rule remembers.

    Raises:
        TypeError: for what is not a tensor, or an unordered collection.
        ValueError: for no parameters, a non-leaf, or one that is in two groups.
    """

    _step_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _step_post_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "hooked"):
            setattr(cls, "step", _hooked(step))  # noqa: B010

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups if not isinstance(params, set) else params}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, to train layers unfrozen later, say."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        held = param_group["params"]
        if isinstance(held, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        held = [held] if isinstance(held, Tensor) else list(held)
        named = [isinstance(p, tuple) for p in held]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            param_group["param_names"] = [name for name, _ in held]
            held = [p for _, p in held]
        param_group["params"] = held
        differentiable = self.defaults.get("differentiable", False)
        for p in held:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {typename(p)}"
                )
            if not (differentiable or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        if len(held) != len({id(p) for p in held}):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if 'param_names' in param_group else 'without'} names to the "
                    "optimizer"
                )
        before = {id(p) for group in self.param_groups for p in group["params"]}
        if not before.isdisjoint(id(p) for p in held):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    # Stepping -------------------------------------------------------------------------------------
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        clear_grads(
            chain.from_iterable(group["params"] for group in self.param_groups), set_to_none
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss anew, with gradients; called once.

        Returns:
            The closure's result.
        """
        raise NotImplementedError

    def _evaluate(self, closure: Callable[[], Any] | None) -> Any:
        """What the closure returns, run in grad mode; None without one."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(optimizer, args, kwargs)`` before each step; may return new arguments."""
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(optimizer, args, kwargs)`` after each step."""
        return add_hook(self._step_post_hooks, hook)

    # State ----------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """State and groups, with parameters replaced by their numbers, in the order of groups."""
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        by_number = {
            numbers[id(p)] if isinstance(p, Tensor) else p: held for p, held in self.state.items()
        }
        result = {"state": by_number, "param_groups": groups}
        for hook in list(self._state_dict_post_hooks.values()):
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and options; tensors are copied, in the dtype of their parameter.

        Raises:
            ValueError: if the groups are not of the same sizes.
        """
        state_dict = dict(state_dict)
        for hook in list(self._load_state_dict_pre_hooks.values()):
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = copy.deepcopy(state_dict["param_groups"])
        groups = self.param_groups
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        held = chain.from_iterable(group["params"] for group in groups)
        numbers = chain.from_iterable(group["params"] for group in saved)
        by_number = dict(zip(numbers, held, strict=True))
        loaded: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for number, value in state_dict["state"].items():
            if number in by_number:
                p = by_number[number]
                loaded[p] = {k: _loaded(k, v, p) for k, v in value.items()}
            else:
                loaded[number] = value
        for new, old in zip(saved, groups, strict=True):
            new["params"] = old["params"]
            if "param_names" in old and "param_names" not in new:
                new["param_names"] = old["param_names"]
        self.__setstate__({"state": loaded, "param_groups": saved})
        for hook in list(self._load_state_dict_post_hooks.values()):
            hook(self)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(optimizer)`` before each ``state_dict()``."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(optimizer, state_dict)`` after each ``state_dict()``; may return another."""
        return add_hook(self._state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(optimizer, state_dict)`` before each load; may return another."""
        return add_hook(self._load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(optimizer)`` after each load."""
        return add_hook(self._load_state_dict_post_hooks, hook, prepend=prepend)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return text + ")"


def _loaded(name: str, value: Any, p: Tensor) -> Any:
    """One entry of a saved state, as the parameter's optimizer will hold it.

    Tensors are copied in the parameter's dtype, but for counts of steps; those of other libraries
    are taken through NumPy.
    """
    if hasattr(value, "__dlpack__") and not isinstance(value, Tensor):
        value = from_numpy(np.asarray(value))
    if isinstance(value, Tensor):
        wanted = p.layout.dtype if p.is_floating_point() and name != "step" else value.layout.dtype
        plain = value.detach()
        return clone(plain) if wanted is value.layout.dtype else to(plain, wanted)
    if isinstance(value, dict):
        return {k: _loaded(k, v, p) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_loaded(name, v, p) for v in value)
    return copy.deepcopy(value)


# What the rules share -----------------------------------------------------------------------------
def number(value: Any) -> float:
    """An option that may be a tensor of one element, as a number."""
    return value.item() if isinstance(value, Tensor) else value


def to_scalar(value: Any) -> Any:
    """A tensor of one element without dimensions; anything else as it is."""
    return value.squeeze() if isinstance(value, Tensor) and value.ndim else value


def filled_like(x: Tensor, value: float) -> Tensor:
    """A state tensor of one value, which the parts of complex numbers have each."""
    result = full_like(x, value, requires_grad=False)
    if x.is_complex():
        result._array()[...] = complex(value, value)
    return result


def sign_of(group: Mapping[str, Any]) -> int:
    """What gradients are multiplied by: -1 where the group ascends."""
    return -1 if group["maximize"] else 1


def check_lr(lr: Any, message: str = "Invalid learning rate: {}") -> None:
    """Raise ValueError for a learning rate that is negative or of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    at_least_0(lr, message)


def at_least_0(value: Any, message: str) -> None:
    """Raise ValueError for an option that is negative or NaN."""
    if not number(value) >= 0.0:
        raise ValueError(message.format(value))


def check_betas(betas: tuple[Any, Any]) -> None:
    """Raise ValueError unless both decay rates are in [0, 1)."""
    for index, beta in enumerate(betas):
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def check_implementation(foreach: Any, fused: Any, differentiable: bool) -> None:
    """Raise RuntimeError for flags that PyTorch does not let stand together."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def new_scalar(value: float = 0.0) -> Tensor:
    """A single number of the state, such as a count of steps: a float tensor, as PyTorch has it."""
    return full((), value, dtype=float64 if state.get_default_dtype() is float64 else float32)
