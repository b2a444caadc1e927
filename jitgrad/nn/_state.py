"""state_dict and load_state_dict."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from ..autograd.grad_mode import no_grad
from ..tensor import Tensor
from .hooks import Hooks, RemovableHandle, add_hook
from .parameter import Parameter

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What :meth:`StateDict.load_state_dict` did not find, and what it found too many."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


class StateDict:
    """Saving and loading of :class:`Module`."""

    _version: int | None = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Hooks
    _state_dict_pre_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    def get_extra_state(self) -> Any:
        """What a subclass saves beside its tensors, under ``_extra_state``; it overrides this."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: a module "
            "that overrides set_extra_state must override get_extra_state too"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore what :meth:`get_extra_state` gave; a subclass overrides both."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: a module "
            "that overrides get_extra_state must override set_extra_state too"
        )

    def _has(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateDict, method)

    def _persistent(self) -> dict[str, Tensor]:
        """The tensors of this module alone that are saved, parameters first."""
        buffers = {
            k: b for k, b in self._buffers.items() if k not in self._non_persistent_buffers_set
        }
        return {k: v for k, v in (*self._parameters.items(), *buffers.items()) if v is not None}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the state of this module alone into ``destination``; to be overridden, not called."""
        for name, tensor in self._persistent().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._has("get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by name, sharing memory with the module's.

        Args:
            destination: the mapping to fill; a new OrderedDict by default.
            prefix: put before every name.
            keep_vars: give the parameters themselves instead of detached aliases.
        """
        if args:
            given = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local: dict[str, Any] = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in list(self._state_dict_hooks.values()):
            replaced = hook(self, destination, prefix, local)
            if replaced is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = replaced
        return destination

    # Loading --------------------------------------------------------------------------------------
    def _load_one(self, key: str, name: str, held: Tensor, given: Any, assign: bool) -> str | None:
        """Load one tensor; the complaint if it cannot be."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(given)}"
            )
        if not held.shape and len(given.shape) == 1:
            given = given[0]  # scalars were once saved with one dimension
        if given.shape != held.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {held.shape}."
            )
        try:
            with no_grad():
                if not assign:
                    held.copy_(given)
                elif isinstance(held, Parameter) and not isinstance(given, Parameter):
                    setattr(self, name, Parameter(given, held.requires_grad))
                else:
                    setattr(self, name, given)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{held.shape} and whose dimensions in the checkpoint are {given.shape}, an "
                f"exception occurred : {error.args}."
            )
        return None

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module alone; a subclass overrides it to read what older versions wrote."""
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        local = self._persistent()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, held in local.items():
            key = prefix + name
            if key in state_dict:
                complaint = self._load_one(key, name, held, state_dict[key], assign)
                if complaint:
                    error_msgs.append(complaint)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if self._has("set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else local):
                        unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the values of ``state_dict`` into this module's parameters and buffers.

        Args:
            strict: names must match exactly.
            assign: take the given tensors themselves instead of copying their values.

        Raises:
            TypeError: if it is not a mapping.
            RuntimeError: for missing or unexpected names (``strict``) and for other shapes, all
                named at once.

        Returns:
            The missing and the unexpected names.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        own: Any = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            own._metadata = metadata

        def load(module: Any, given: Any, prefix: str) -> None:
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(given, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    path = f"{prefix}{name}."
                    load(child, {k: v for k, v in given.items() if k.startswith(path)}, path)
            keys = IncompatibleKeys(missing, unexpected)
            for hook in list(module._load_state_dict_post_hooks.values()):
                if hook(module, keys) is not None:
                    raise RuntimeError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, own, "")
        if strict:
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
            if unexpected:
                errors.insert(
                    0 if not missing else 1,
                    f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ",
                )
        if errors:
            lines = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}"
            )
        return IncompatibleKeys(missing, unexpected)

    # Hooks ----------------------------------------------------------------------------------------
    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(module, state_dict, prefix, metadata) -> None`` after each ``state_dict()``."""
        setattr(hook, "_from_public_api", True)  # noqa: B010
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(module, prefix, keep_vars) -> None`` before each ``state_dict()``."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)``."""

        def with_module(*args: Any) -> None:
            hook(self, *args)

        return add_hook(self._load_state_dict_pre_hooks, with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(module, incompatible_keys) -> None``, which may edit the two lists of keys."""
        return add_hook(self._load_state_dict_post_hooks, hook)
