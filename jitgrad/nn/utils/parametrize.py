"""Parametrizations: a parameter of a module as a function of other, trained tensors.

A parametrized module gets a class of its own, on which the tensor is a property: reading it
computes it, assigning to it inverts the computation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ...autograd.grad_mode import no_grad
from ...dispatch.convert import set_
from ...tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

_caching = 0  # how many `cached` blocks are open
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, every parametrized tensor is computed once, when it is first read."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _inverse(parametrization: Module) -> Callable[[Any], Any] | None:
    return getattr(parametrization, "right_inverse", None)


def _check_kept(what: str, before: Any, after: Any, names: tuple[str, str], flag: str) -> None:
    """ValueError if a parametrization changes the dtype or the shape."""
    if before != after:
        raise ValueError(
            f"Registering a parametrization may not change the {what} of the tensor, unless {flag} "
            f"flag is enabled.\n{names[0]} {what}: {before}\n{names[1]} {what}: {after}"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and what they start from.

    Attributes:
        original: the tensor that is trained; ``original0``, ``original1`` ... where the first
            parametrization takes several.
        is_tensor: whether it is one.
        unsafe: whether shape and dtype may change.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            found: Any = original
            for module in reversed(list(self)):
                inverse = _inverse(module)
                if inverse is not None:
                    with suppress(NotImplementedError):
                        found = inverse(found)
        if not isinstance(found, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(found).__name__}"
            )
        self.is_tensor = isinstance(found, Tensor)
        self.ntensors = 1 if self.is_tensor else len(found)
        if isinstance(found, Tensor):
            if found.dtype is not dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {found.dtype}"
                )
            with no_grad():
                set_(original, found)
            _register(self, "original", original)
        else:
            self._register_several(found, original)
        if not unsafe:
            value = self()
            if not isinstance(value, Tensor):
                raise ValueError(
                    f"A parametrization must return a tensor. Got {type(value).__name__}."
                )
            names = ("unparametrized", "parametrized")
            _check_kept("dtype", dtype, value.dtype, names, "`unsafe`")
            _check_kept("shape", shape, value.shape, names, "`unsafe`")

    def _register_several(self, found: Sequence[Any], original: Tensor) -> None:
        for i, part in enumerate(found):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", part)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrizations give ``value``.

        Raises:
            RuntimeError: if one of them has no ``right_inverse``.
            ValueError: if that gives something that does not fit.
        """
        with no_grad():
            found: Any = value
            for module in reversed(list(self)):
                inverse = _inverse(module)
                if inverse is None:
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                found = inverse(found)
            parts = [found] if self.is_tensor else found
            if not isinstance(parts, Sequence) or len(parts) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got {found}."
                )
            for part, original in zip(parts, self._originals(), strict=True):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(part).__name__}"
                    )
                if part.dtype is not original.dtype:
                    raise ValueError(
                        "The tensor returned by `right_inverse` has dtype "
                        f"{part.dtype} while `original` has dtype {original.dtype}"
                    )
                set_(original, part)

    def forward(self) -> Tensor:
        first, *others = self
        value = first(*self._originals())
        for parametrization in others:
            value = parametrization(value)
        return value


# The class of a parametrized module ---------------------------------------------------------------
def _refuse_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def _deepcopied(self: Module, memo: dict[int, Any]) -> Module:
    result = memo[id(self)] = type(self).__new__(type(self))
    result.__dict__.update(copy.deepcopy(self.__dict__, memo))
    plain = type_before_parametrizations(self)
    _make_class(result, plain)
    for name in self.parametrizations:
        _make_property(result, name)
    return result


def _make_class(module: Module, plain: type) -> None:
    module.__class__ = type(
        f"Parametrized{plain.__name__}",
        (plain,),
        {
            "__getstate__": _refuse_pickling,
            "__deepcopy__": getattr(plain, "__deepcopy__", _deepcopied),
            "__module__": __name__,
        },
    )


def _make_property(module: Module, name: str) -> None:
    def get(self: Module) -> Tensor:
        if not _caching:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


# Public functions ---------------------------------------------------------------------------------
def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations (of a certain tensor)."""
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def type_before_parametrizations(module: Module) -> type:
    """The class of a module as it was before it got parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a parameter or buffer be computed by ``parametrization``; returns ``module``.

    Args:
        parametrization: a module of one tensor (or of several, if its ``right_inverse`` returns so
            many). ``right_inverse(value)``, if it has one, says what to start from, and allows
            assignments to the tensor.
        unsafe: allow other shapes and dtypes.

    A tensor may have several, which are applied in the order they were registered in.

    Raises:
        ValueError: for a name that the module does not have, or a parametrization whose results do
            not fit.

    >>> import jitgrad as jg
    >>> class Positive(jg.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    ...     def right_inverse(self, x):
    ...         return x.log()
    >>> layer = register_parametrization(jg.nn.Linear(2, 2), "weight", Positive())
    >>> layer.weight = jg.ones(2, 2)
    >>> layer.parametrizations.weight.original.tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        held = module.parametrizations[tensor_name]
        held.append(parametrization)
        held.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _make_class(module, type(module))
            module.parametrizations = ModuleDict()
        _make_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_another(module: Module, name: str, parametrization: Module) -> None:
    """ValueError unless a further parametrization keeps dtype and shape, in both directions."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    names = (f"module.{name}", f"parametrization(module.{name})")
    _check_kept("dtype", before.dtype, after.dtype, names, "the `unsafe`")
    _check_kept("shape", before.shape, after.shape, names, "the `unsafe`")
    inverse = _inverse(parametrization)
    if inverse is None:
        return
    try:
        back = inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        expected, found = getattr(before, what), getattr(back, what)
        if expected != found:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {expected}\nreturned {what}: {found}"
            )


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor a plain parameter or buffer again; returns ``module``.

    Args:
        leave_parametrized: keep the computed value; otherwise that of the original.

    Raises:
        ValueError: if the tensor has no parametrizations, or its original is several tensors and
            should be kept.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with no_grad():
                set_(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        plain = type(module).__bases__[0]
        del module.parametrizations
        module.__class__ = plain
    _register(module, tensor_name, original)
    return module
