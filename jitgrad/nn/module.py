"""Module: a function with parameters, buffers, submodules and hooks."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .. import dtypes
from ..autograd.grad_mode import no_grad
from ..dispatch.convert import to as convert_tensor
from ..dispatch.lists import zero_
from ..dtypes import dtype
from ..memory_format import RANKS, format_argument, preserve_format
from ..tensor import CPU, Tensor, device
from ._calling import Calling
from ._state import StateDict
from ._traverse import Traversal
from .parameter import Buffer, Parameter, replace_data

T = TypeVar("T", bound="Module")
_set = object.__setattr__


def typename(value: Any) -> str:
    """The type of a value as messages name it, with its module unless that is builtin."""
    if isinstance(value, Tensor) and type(value) is Tensor:
        return f"jitgrad.{value.layout.dtype.tensor_type}"
    cls = value if isinstance(value, type) else type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def _check_name(kind: str, name: Any, taken: bool) -> None:
    """Raise unless ``name`` can name a parameter, buffer or submodule."""
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
    if taken:
        raise KeyError(f"attribute '{name}' already exists")
    if "." in name:
        got = f", got: {name}" if kind == "module" else ""
        raise KeyError(f'{kind} name can\'t contain "."{got}')
    if not name:
        raise KeyError(f'{kind} name can\'t be empty string ""')


class Module(Calling, StateDict, Traversal):
    """The base of everything that has parameters. Subclasses assign them in ``__init__``, after
    ``super().__init__()``, and define ``forward``.

    Attributes:
        training: whether layers such as dropout are in training mode.

    >>> import jitgrad as jg
    >>> class Scale(jg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = jg.nn.Parameter(jg.ones(1) * 2)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(jg.ones(2))
    tensor([2., 2.], grad_fn=<MulBackward0>)
    """

    training: bool
    call_super_init = False
    dump_patches = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            got = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {got}")
        _set(self, "training", True)
        _set(self, "_parameters", {})
        _set(self, "_buffers", {})
        _set(self, "_modules", {})
        _set(self, "_non_persistent_buffers_set", set())
        for name in _HOOKS:
            _set(self, name, OrderedDict())

    # Attributes -----------------------------------------------------------------------------------
    def _registry(self, name: str, what: str) -> Any:
        held = self.__dict__.get(name)
        if held is None:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        return held

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (or None, a place for one).

        Raises:
            KeyError: for an empty name, one with a dot, one that is taken.
            TypeError: if the value is not a Parameter.
            ValueError: if it is not a leaf.
        """
        held = self._registry("_parameters", "parameter")
        _check_name("parameter", name, hasattr(self, str(name)) and name not in held)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        held[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but not trained.

        Args:
            persistent: whether it is saved in the ``state_dict``.

        Raises:
            KeyError, TypeError: as :meth:`register_parameter`.
        """
        held = self._registry("_buffers", "buffer")
        _check_name("buffer", name, hasattr(self, str(name)) and name not in held)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or "
                "None required)"
            )
        held[name] = tensor
        forget = self._non_persistent_buffers_set
        forget.discard(name) if persistent else forget.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module (or None, a place for one)."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        _check_name(
            "module",
            name,
            hasattr(self, str(name)) and name not in self._registry("_modules", "module"),
        )
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """:meth:`add_module` by its other name."""
        self.add_module(name, module)

    def _forget(self, name: str, *registries: str) -> None:
        """Remove a name from the plain attributes and from other registries."""
        self.__dict__.pop(name, None)
        for registry in registries:
            self.__dict__.get(registry, {}).pop(name, None)
        if "_buffers" in registries:
            self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__
        if isinstance(value, Parameter):
            self._registry("_parameters", "parameters")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif name in held.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            modules = self._registry("_modules", "module")
            self._forget(name, "_parameters", "_buffers")
            modules[name] = value
        elif name in held.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            self._modules[name] = None
        elif isinstance(value, Buffer):
            self._registry("_buffers", "buffer")
            self._forget(name)
            self.register_buffer(name, value, value.persistent)
        elif name in held.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            self._buffers[name] = value
        else:
            _set(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for registry in ("_parameters", "_buffers", "_modules"):
            held = self.__dict__.get(registry)
            if held is not None and name in held:
                return held[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(registry, ()):
                self._forget(name, registry)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {
            *dir(type(self)),
            *self.__dict__,
            *self._parameters,
            *self._buffers,
            *self._modules,
        }
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # Modes and conversions ------------------------------------------------------------------------
    def train(self: T, mode: bool = True) -> T:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        _set(self, "training", mode)
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: T) -> T:
        """Set evaluation mode here and below: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Set ``requires_grad`` of every parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every parameter's gradient, or fill it with zeros."""
        clear_grads(self.parameters(), set_to_none)

    def apply(self: T, fn: Callable[[Module], Any]) -> T:
        """Call ``fn`` on every module, children first: to initialise, say."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replace every parameter's, gradient's and buffer's memory by what ``fn`` makes of it."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            gradient = parameter.grad
            with no_grad():
                replace_data(parameter, fn(parameter))
                if gradient is not None:
                    parameter.grad = fn(gradient).requires_grad_(gradient.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _cast(self: T, d: dtype) -> T:
        return self._apply(lambda t: convert_tensor(t, d) if t.is_floating_point() else t)

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Move floating parameters and buffers to a dtype, or everything to a device; in place.

        ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` and ``to(tensor)`` are accepted;
        ``memory_format=`` is for tensors of its rank.

        Raises:
            TypeError: for a dtype that is not floating.
        """
        kwargs.pop("non_blocking", None)
        format = format_argument("to", kwargs.pop("memory_format", preserve_format))
        d, where = kwargs.pop("dtype", None), kwargs.pop("device", None)
        if kwargs:
            raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
        for argument in args:
            if isinstance(argument, dtype):
                d = argument
            elif isinstance(argument, Tensor):
                d = argument.layout.dtype
            elif argument is not None and not isinstance(argument, bool):
                where = argument
        if where is not None:
            device(where)
        if format in RANKS:
            self._apply(
                lambda t: t.contiguous(memory_format=format) if t.ndim == RANKS[format] else t
            )
        if d is None:
            return self
        if d.category < dtypes.FLOATING:
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={d}"
            )
        if d.is_complex:
            warnings.warn(
                "Complex modules are a new feature: not every module works with complex tensors as "
                "parameters or buffers.",
                UserWarning,
                stacklevel=2,
            )
        return self._apply(
            lambda t: convert_tensor(t, d) if t.is_floating_point() or t.is_complex() else t
        )

    def float(self: T) -> T:
        """Floating parameters and buffers as float32."""
        return self._cast(dtypes.float32)

    def double(self: T) -> T:
        """Floating parameters and buffers as float64."""
        return self._cast(dtypes.float64)

    def half(self: T) -> T:
        """Floating parameters and buffers as float16."""
        return self._cast(dtypes.float16)

    def bfloat16(self: T) -> T:
        """Floating parameters and buffers as bfloat16."""
        return self._cast(dtypes.bfloat16)

    def share_memory(self: T) -> T:
        """Not supported: NotImplementedError by ``Tensor.share_memory_``."""
        return self._apply(lambda t: t.share_memory_())

    def to_empty(self: T, *, device: Any = None, recurse: bool = True) -> T:
        """Every parameter and buffer in new memory, with whatever values it holds."""
        return self._apply(lambda t: t.new_empty(t.shape, device=device), recurse=recurse)

    def type(self: T, dst_type: dtype) -> T:
        """Every parameter and buffer in another dtype."""
        return self._apply(lambda t: convert_tensor(t, dst_type))

    def cpu(self: T) -> T:
        """On the CPU, where everything is already."""
        return self._apply(lambda t: convert_tensor(t, CPU))

    # Text -----------------------------------------------------------------------------------------
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What a subclass shows between the brackets of its ``repr``."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = own.split("\n") if own else []
        if len(lines) == 1 and not self._modules:
            return f"{self._get_name()}({own})"
        lines += [f"({name}): {_indented(repr(child))}" for name, child in self._modules.items()]
        body = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({body})"


_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def clear_grads(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Drop the gradients of parameters, or make them zeros without history."""
    kept = []
    for parameter in parameters:
        meta = parameter.meta
        if meta is None or meta.grad is None:
            continue
        if set_to_none:
            meta.grad = None
            continue
        if meta.grad.grad_fn is not None:
            meta.grad = meta.grad.detach()
        kept.append(meta.grad.requires_grad_(False))
    if kept:
        zero_(kept)
