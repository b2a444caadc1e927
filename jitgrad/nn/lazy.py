"""Modules that learn the size of their input from the first one they get.

Until then their parameters are placeholders without shape or values; the first call fills them in,
with the values that the plain module would have drawn at that moment, and turns the module into a
plain one.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from .. import dtypes
from ..autograd.grad_mode import no_grad
from ..dispatch.creation import empty
from ..layout import dense_layout
from ..tensor import Tensor
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear
from .module import Module
from .normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy


def _infer(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The hook before the first call: fills in the parameters and changes the class."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    for key, hook in list(module._forward_pre_hooks.items()):
        if hook is _infer:
            del module._forward_pre_hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)
    del module._arguments
    module.__class__ = module.cls_to_become


class LazyModuleMixin(Module):
    """A module without its first argument, the size of its input.

    Attributes:
        cls_to_become: the plain module's class.
    """

    cls_to_become: ClassVar[type[Module]]
    _size: ClassVar[str]  # the attribute that the first argument becomes

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        plain = cls.__bases__[-1]
        if not issubclass(plain, LazyModuleMixin):
            cls.cls_to_become = plain  # type: ignore[assignment]
            first, *rest = inspect.signature(plain).parameters.values()
            cls._size = first.name
            if cls.__init__ is LazyModuleMixin.__init__:
                cls.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
            name = plain.__name__
            cls.__doc__ = f":class:`{name}`, whose {first.name} is that of the first input."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, *args, **kwargs)
        self._arguments = (args, kwargs)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = UninitializedParameter(dtype=parameter.dtype)
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.dim():
                self._buffers[name] = UninitializedBuffer(dtype=buffer.dtype)
        self.register_forward_pre_hook(_infer, with_kwargs=True)

    def reset_parameters(self) -> None:
        """Draw new initial values, once it is known of what size."""
        if getattr(self, self._size) and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def _lazy(self) -> dict[str, Any]:
        held = {**self._parameters, **self._buffers}
        return {name: x for name, x in held.items() if is_lazy(x)}

    def has_uninitialized_params(self) -> bool:
        """Whether there are parameters or buffers without a shape."""
        return bool(self._lazy())

    def _input_size(self, input: Tensor) -> int:
        """The size of an input that the module must know."""
        return input.shape[1]

    @no_grad()
    def initialize_parameters(self, input: Tensor, *others: Any, **options: Any) -> None:
        """Give the parameters shapes and values for inputs such as this one."""
        size, waiting = self._input_size(input), self._lazy()
        if waiting:
            args, kwargs = self._arguments
            made = inspect.signature(self.cls_to_become).bind(size, *args, **kwargs)
            made.arguments["dtype"] = next(iter(waiting.values())).dtype
            plain: Any = self.cls_to_become(*made.args, **made.kwargs)
            for name, x in waiting.items():
                values = getattr(plain, name)
                x.materialize(values.shape)
                x.copy_(values)
        setattr(self, self._size, size)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        waiting = self._lazy()
        for name, x in waiting.items():
            d = fn(empty(0, dtype=x.dtype)).dtype
            x.layout = dense_layout((0,), d)
            (self._parameters if name in self._parameters else self._buffers)[name] = None
        try:
            return super()._apply(fn, recurse)
        finally:
            for name, x in waiting.items():
                (self._parameters if name in self._parameters else self._buffers)[name] = x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, x in self._persistent().items():
            destination[prefix + name] = x if keep_vars or is_lazy(x) else x.detach()

    def _load_one(self, key: str, name: str, held: Tensor, given: Any, assign: bool) -> str | None:
        if is_lazy(held) and isinstance(given, Tensor):
            if is_lazy(given):
                return None
            with no_grad():
                held.materialize(given.shape)
        return super()._load_one(key, name, held, given, assign)


class LazyLinear(LazyModuleMixin, Linear):
    def _input_size(self, input: Tensor) -> int:
        return input.shape[-1]


class _LazyConvolution(LazyModuleMixin):
    rank: ClassVar[int]

    def _input_size(self, input: Tensor) -> int:
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise RuntimeError(
                f"Expected {self.rank + 1}D (unbatched) or {self.rank + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[-self.rank - 1]


class LazyConv1d(_LazyConvolution, Conv1d):
    pass


class LazyConv2d(_LazyConvolution, Conv2d):
    pass


class LazyConv3d(_LazyConvolution, Conv3d):
    pass


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    pass


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    pass


class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d):
    pass


class LazyBatchNorm1d(LazyModuleMixin, BatchNorm1d):
    pass


class LazyBatchNorm2d(LazyModuleMixin, BatchNorm2d):
    pass


class LazyBatchNorm3d(LazyModuleMixin, BatchNorm3d):
    pass


class _LazyInstanceNorm(LazyModuleMixin):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    pass


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    pass


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    pass
