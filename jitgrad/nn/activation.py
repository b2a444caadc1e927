"""Activation functions as modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from ..dispatch.creation import full
from ..dtypes import dtype
from ..tensor import Tensor
from . import functional
from .module import Module
from .parameter import Parameter


class Activation(Module):
    """Applies a function of :mod:`jitgrad.nn.functional`; its parameters are attributes.

    A subclass names the function and the parameters with their defaults, in order.
    """

    function: ClassVar[Callable[..., Tensor]]
    defaults: ClassVar[dict[str, Any]] = {}
    _signature: ClassVar[inspect.Signature] = inspect.Signature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        cls._signature = inspect.Signature(
            [inspect.Parameter(name, kind, default=value) for name, value in cls.defaults.items()]
        )
        setattr(cls, "__signature__", cls._signature)  # noqa: B010
        cls.__doc__ = (
            f"{cls.__doc__ or ''}\n\nThe module of ``functional.{cls.function.__name__}``."
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Tensor:
        held = self.__dict__
        return type(self).function(input, **{name: held[name] for name in self.defaults})

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in self.defaults if name != "inplace"]
        if getattr(self, "inplace", False):
            shown.append("inplace=True")
        return ", ".join(shown)


class ReLU(Module):
    """``max(0, x)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Activation):
    """``x`` where positive, else ``negative_slope * x``."""

    function = functional.leaky_relu
    defaults = {"negative_slope": 0.01, "inplace": False}


class ReLU6(Activation):
    """``x`` limited to [0, 6]."""

    function = functional.relu6
    defaults = {"inplace": False}


class ELU(Activation):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""

    function = functional.elu
    defaults = {"alpha": 1.0, "inplace": False}


class SELU(Activation):
    """The scaled ELU that keeps mean 0 and variance 1."""

    function = functional.selu
    defaults = {"inplace": False}


class CELU(Activation):
    """``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``."""

    function = functional.celu
    defaults = {"alpha": 1.0, "inplace": False}


class RReLU(Activation):
    """A leaky ReLU of random slope."""

    function = functional.rrelu
    defaults = {"lower": 1.0 / 8, "upper": 1.0 / 3, "inplace": False}

    def forward(self, input: Tensor) -> Tensor:
        held = self.__dict__
        return functional.rrelu(input, held["lower"], held["upper"], self.training, held["inplace"])


class GELU(Activation):
    """``x * Phi(x)``, Phi being the normal distribution function."""

    function = functional.gelu
    defaults = {"approximate": "none"}

    def extra_repr(self) -> str:
        return f"approximate={self.__dict__['approximate']!r}"


class SiLU(Activation):
    """``x * sigmoid(x)``."""

    function = functional.silu
    defaults = {"inplace": False}


class Mish(Activation):
    """``x * tanh(softplus(x))``."""

    function = functional.mish
    defaults = {"inplace": False}


class Sigmoid(Activation):
    """``1 / (1 + exp(-x))``."""

    function = functional.sigmoid


class Tanh(Activation):
    """The hyperbolic tangent."""

    function = functional.tanh


class LogSigmoid(Activation):
    """``log(sigmoid(x))``."""

    function = functional.logsigmoid


class Softplus(Activation):
    """``log(1 + exp(beta * x)) / beta``."""

    function = functional.softplus
    defaults = {"beta": 1.0, "threshold": 20.0}


class Softsign(Activation):
    """``x / (1 + |x|)``."""

    function = functional.softsign


class Tanhshrink(Activation):
    """``x - tanh(x)``."""

    function = functional.tanhshrink


class Hardtanh(Activation):
    """``x`` limited to [min_val, max_val]."""

    function = functional.hardtanh
    defaults = {"min_val": -1.0, "max_val": 1.0, "inplace": False}


class Hardsigmoid(Activation):
    """``relu6(x + 3) / 6``."""

    function = functional.hardsigmoid
    defaults = {"inplace": False}

    def extra_repr(self) -> str:
        return ""


class Hardswish(Hardsigmoid):
    """``x * hardsigmoid(x)``."""

    function = functional.hardswish


class Hardshrink(Activation):
    """``x``, but 0 in [-lambd, lambd]."""

    function = functional.hardshrink
    defaults = {"lambd": 0.5}

    def extra_repr(self) -> str:
        return str(self.__dict__["lambd"])


class Softshrink(Hardshrink):
    """``x`` moved towards 0 by lambd."""

    function = functional.softshrink


class Threshold(Module):
    """``x`` where it is above the threshold, else ``value``."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        inplace = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{inplace}"


class GLU(Activation):
    """The first half of ``x`` along ``dim``, times the sigmoid of the second."""

    function = functional.glu
    defaults = {"dim": -1}


class PReLU(Module):
    """``x`` where positive, else ``weight * x`` with a learned weight.

    Attributes:
        weight: [num_parameters]: one, or one for each channel.
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the weight to its initial value."""
        self.weight.detach().fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax(Activation):
    """``exp(x)`` divided by its sum along ``dim``."""

    function = functional.softmax
    defaults = {"dim": None}


class LogSoftmax(Activation):
    """The logarithm of the softmax along ``dim``."""

    function = functional.log_softmax
    defaults = {"dim": None}


class Softmin(Activation):
    """The softmax of ``-x`` along ``dim``."""

    function = functional.softmin
    defaults = {"dim": None}


class Softmax2d(Module):
    """The softmax over the channels of [n, channels, h, w] or [channels, h, w]."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return functional.softmax(input, -3)
