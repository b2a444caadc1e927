"""Parameters and buffers: the tensors that a module owns."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import dtypes
from ..dispatch.convert import clone
from ..dispatch.creation import empty
from ..layout import dense_layout
from ..state import get_default_dtype
from ..tensor import Size, Tensor, make


def _owned(cls: type, data: Tensor | None, requires_grad: bool) -> Any:
    """A leaf of type ``cls`` on the memory (and the version counter) of ``data``."""
    if data is None:
        data = empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__} data must be a Tensor, not {type(data).__name__}")
    result = make(data.storage, data.offset, data.layout, cls)
    result.counter = data.counter
    if requires_grad:
        result.requires_grad_()
    return result


def replace_data(tensor: Tensor, data: Tensor) -> None:
    """Let ``tensor`` take over memory, shape and dtype of ``data``; autograd is not told."""
    tensor.storage, tensor.offset, tensor.layout = data.storage, data.offset, data.layout


class Parameter(Tensor):
    """A tensor that a :class:`Module` trains: assigned to one, it joins its ``parameters()``.

    Args:
        data: the values; the memory is shared. Empty if None.
        requires_grad: whether gradients are computed (floating dtypes only).

    >>> import jitgrad as jg
    >>> jg.nn.Parameter(jg.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return _owned(cls, data, requires_grad)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Everything is done by ``__new__``."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A copy of the values, without the gradient."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(clone(self.detach()), self.requires_grad)
        return memo[id(self)]


class Buffer(Tensor):
    """A tensor that belongs to a module's state but is not trained.

    Args:
        data: the values; the memory is shared.
        persistent: whether it is part of the module's ``state_dict``.
    """

    __slots__ = ("persistent",)

    persistent: bool

    def __new__(
        cls, data: Tensor | None = None, *, requires_grad: bool = False, persistent: bool = True
    ) -> Buffer:
        result = _owned(cls, data, requires_grad)
        result.persistent = persistent
        return result

    def __init__(self, *args: Any, **options: Any) -> None:
        """Everything is done by ``__new__``."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(
                clone(self.detach()),
                requires_grad=self.requires_grad,
                persistent=self.persistent,
            )
        return memo[id(self)]


# Tensors whose shape is not known yet -------------------------------------------------------------
_layout: Any = Tensor.layout


class _Placeholder(Tensor):
    """A tensor that has a dtype, but no shape yet: everything else about it is refused."""

    __slots__ = ()
    cls_to_become: ClassVar[type[Tensor]]

    @property
    def layout(self) -> Any:
        """What every operation looks at first: ValueError."""
        raise ValueError(
            "Attempted to use an uninitialized parameter. This error happens when you are using a "
            "`LazyModule` or explicitly manipulating `torch.nn.parameter.UninitializedParameter` "
            "objects. When using LazyModules Call `forward` with a dummy batch to initialize the "
            "parameters before calling torch functions"
        )

    @layout.setter
    def layout(self, value: Any) -> None:
        _layout.__set__(self, value)

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype that the tensor will have."""
        return _layout.__get__(self).dtype

    @property
    def shape(self) -> Size:
        """RuntimeError: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def materialize(
        self, shape: Any, device: Any = None, dtype: dtypes.dtype | None = None
    ) -> None:
        """Become a tensor of this shape, with uninitialised values, in place."""
        data = empty(tuple(shape), dtype=dtype or self.dtype)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        replace_data(self, data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> _Placeholder:
        if id(self) not in memo:
            memo[id(self)] = _placeholder(type(self), self.requires_grad, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _placeholder, (type(self), self.requires_grad, self.dtype)


def _placeholder(cls: Any, requires_grad: bool, d: dtypes.dtype | None) -> Any:
    plain = empty(0, dtype=d or get_default_dtype())
    result = make(plain.storage, 0, dense_layout((0,), plain.dtype), cls)
    result.tracked = requires_grad
    return result


class UninitializedParameter(_Placeholder, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet.

    >>> import jitgrad as jg
    >>> p = UninitializedParameter()
    >>> p
    <UninitializedParameter>
    >>> p.materialize((2, 3))
    >>> p.shape
    jitgrad.Size([2, 3])
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: dtypes.dtype | None = None
    ) -> UninitializedParameter:
        return _placeholder(cls, requires_grad, dtype)

    def __init__(self, *args: Any, **options: Any) -> None:
        """Everything is done by ``__new__``."""


class UninitializedBuffer(_Placeholder):
    """A buffer whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: dtypes.dtype | None = None
    ) -> UninitializedBuffer:
        return _placeholder(cls, requires_grad, dtype)

    def __init__(self, *args: Any, **options: Any) -> None:
        """Everything is done by ``__new__``."""


def is_lazy(param: Any) -> bool:
    """Whether a tensor is one whose shape is not known yet."""
    return isinstance(param, _Placeholder)
