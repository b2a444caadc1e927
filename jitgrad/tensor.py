"""The Tensor: a view of a storage, and its place on the tape. No operator logic lives here.

Operators are attached as methods by :mod:`jitgrad.dispatch`, from the operator table.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .autograd import views
from .autograd.hooks import HookDict, hooks_of
from .autograd.node import Edge, Node
from .dtypes import INTEGER, bfloat16, dtype
from .layout import Layout, Shape
from .layout import layout as intern_layout
from .memory_format import contiguous_format, is_in, memory_format
from .state import GRAD, modes
from .storage import INFERENCE_COUNTER, Storage, VersionCounter


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that can count elements."""

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        count = 1
        for n in self:
            count *= n
        return count

    def __repr__(self) -> str:
        return f"jitgrad.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))


class device:
    """Where a tensor lives. Only ``cpu`` exists so far."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | device = "cpu", index: int | None = None) -> None:
        name = str(type)
        name, _, number = name.partition(":")
        if name != "cpu":
            raise RuntimeError(f"device {name!r} is not available in this build: only 'cpu' is")
        self.type = name
        self.index = int(number) if number else index

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


CPU = device("cpu")


class AutogradMeta:
    """What only leaves and watched tensors need, made on demand."""

    __slots__ = (
        "accumulator",
        "forward_base",
        "grad",
        "hooks",
        "post_accumulate",
        "retains_grad",
        "tangents",
    )

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.accumulator: weakref.ref[Node] | None = None
        # Hooks on the gradient: a leaf's are read here, other tensors' are on their node as well.
        self.hooks: HookDict | None = None
        self.post_accumulate: HookDict | None = None
        self.retains_grad = False
        self.tangents: Any = None  # of forward-mode AD, by level (autograd/dual.py)
        self.forward_base: Any = None  # whose tangent a view shares; ... for its own


class Tensor:
    """A multi-dimensional array that records the operations applied to it.

    Attributes (internal; the public ones are properties and methods):
        storage: the shared bytes.
        offset: of the first element, in bytes.
        layout: shape, strides and dtype.
        counter: counts writes to the alias family.
        edge: where its gradient goes: ``(node, output number)``; None for leaves and views.
        tracked: whether it may require grad. Exact unless it is a view, which is always tracked
            (its base may start to require grad after it was made).
        view_meta: what a view knows about its base.
        meta: autograd state that most tensors never need.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "counter",
        "edge",
        "layout",
        "meta",
        "offset",
        "storage",
        "tracked",
        "view_meta",
    )

    if TYPE_CHECKING:
        # Operators are attached by jitgrad.dispatch, from the table; no checker can see them here.
        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    storage: Storage
    offset: int
    layout: Layout
    counter: VersionCounter
    edge: Edge | None
    tracked: Any  # True, False, or a Cut (autograd/cut.py), which is as false
    meta: AutogradMeta | None
    view_meta: views.ViewMeta | None
    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
    __array_priority__ = 1000

    # Geometry -------------------------------------------------------------------------------------
    @property
    def shape(self) -> Size:
        """The sizes of the dimensions."""
        return Size(self.layout.shape)

    @property
    def dtype(self) -> dtype:
        """The type of the elements."""
        return self.layout.dtype.plain

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.layout.ndim

    @property
    def device(self) -> device:
        """Where the tensor lives."""
        return CPU

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, shared or not."""
        return self.layout.numel * self.layout.dtype.itemsize

    is_cpu = True
    is_cuda = is_meta = is_mkldnn = is_mps = is_nested = is_quantized = is_sparse = False
    is_sparse_csr = is_vulkan = is_xla = is_xpu = False
    name = None

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension; IndexError outside the rank."""
        if dim is None:
            return Size(self.layout.shape)
        if self.layout.ndim == 0:
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        return self.layout.shape[self._dim(dim)]

    def stride(self, dim: int | None = None) -> Any:
        """Steps between elements along each dimension (or one), in elements."""
        return self.layout.strides if dim is None else self.layout.strides[self._dim(dim)]

    def _dim(self, dim: int) -> int:
        n = self.layout.ndim
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got "
                f"{dim})"
            )
        return dim % n

    def dim(self) -> int:
        """The number of dimensions."""
        return self.layout.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self.layout.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return self.layout.dtype.itemsize

    def storage_offset(self) -> int:
        """The place of the first element in the storage, in elements."""
        return self.offset // self.layout.dtype.itemsize

    def is_contiguous(self, memory_format: memory_format = contiguous_format) -> bool:
        """Whether the elements lie in this order (by default row-major), without gaps."""
        return is_in(self.layout, memory_format)

    def data_ptr(self) -> int:
        """The address of the first element (0 when empty)."""
        return self.storage.data_ptr() + self.offset if self.layout.numel else 0

    def untyped_storage(self) -> Storage:
        """The bytes, shared with every alias."""
        return self.storage

    def is_floating_point(self) -> bool:
        """Whether the elements are real floats."""
        return self.layout.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the elements are complex."""
        return self.layout.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the elements can be negative."""
        return self.layout.dtype.is_signed

    def is_conj(self) -> bool:
        """Whether the conjugate bit is set: the elements are the conjugates of what is stored."""
        return self.layout.dtype.conjugated

    def is_neg(self) -> bool:
        """Whether the negative bit is set: the elements are the negatives of what is stored."""
        return self.layout.dtype.negated

    @property
    def volatile(self) -> bool:
        """What no_grad() was before there was no_grad()."""
        warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
        return False

    # Values ---------------------------------------------------------------------------------------
    def _array(self) -> np.ndarray:
        """A NumPy view of the stored elements (dtypes.py), whatever autograd thinks of it."""
        layout = self.layout
        size = layout.dtype.itemsize
        return np.ndarray(
            layout.shape,
            layout.dtype.np,
            self.storage.buffer,
            self.offset if layout.numel else 0,
            tuple(s * size for s in layout.strides),
        )

    def _numbers(self) -> np.ndarray:
        """The elements as numbers that NumPy knows: a view where it has the dtype, else a copy."""
        return self.layout.dtype.decode(self._array())

    def _assign(self, numbers: np.ndarray) -> None:
        """Overwrite the elements, broadcast and cast; no checks, no history."""
        self._array()[...] = self.layout.dtype.encode(numbers)

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """A NumPy array on the same memory.

        Raises:
            RuntimeError: if the tensor requires grad in grad mode and ``force`` is not set.
            TypeError: for bfloat16, which NumPy has not.
        """
        if self.requires_grad and modes.mode & GRAD and not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if self.layout.dtype is bfloat16:
            raise TypeError(
                "Got unsupported ScalarType BFloat16: NumPy has no such dtype, convert by float()"
            )
        if self.layout.dtype is not self.layout.dtype.plain:
            bit, cure = ("conjugate", "conj") if self.is_conj() else ("negative", "neg")
            if force:
                return self._numbers().copy()
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use "
                f"tensor.resolve_{cure}().numpy() instead."
            )
        if self.storage.owner is None:
            self.storage.owner = self.storage.buffer  # NumPy holds the memory: no more resizing
        return self._array()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("a copy is needed to convert the dtype")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule that shares the memory, for other libraries' ``from_dlpack``.

        Raises:
            BufferError: for a tensor that requires grad.
        """
        if self.requires_grad:
            raise BufferError(
                "Can't export tensors that require gradient, use tensor.detach(): the other "
                "library would not record what it does to them"
            )
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array().__dlpack_device__()

    def item(self) -> Any:
        """The only element as a Python number; RuntimeError where there are more or none."""
        layout = self.layout
        if layout.numel != 1:
            raise RuntimeError(
                f"a Tensor with {layout.numel} elements cannot be converted to Scalar"
            )
        return layout.dtype.unpack(self.storage.buffer, self.offset)[0]

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers (a number for a 0-d tensor)."""
        return self._numbers().tolist()

    def __bool__(self) -> bool:
        if self.layout.numel == 1:
            return bool(self.item())
        if self.layout.numel == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")

    def _number(self) -> Any:
        if self.layout.numel != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars, this one has "
                f"{self.layout.numel}"
            )
        return self.item()

    def __float__(self) -> float:
        return float(self._real_number("double"))

    def __int__(self) -> int:
        return int(self._real_number("int64_t"))

    def _real_number(self, kind: str) -> Any:
        number = self._number()
        if number.__class__ is complex:
            if number.imag:
                raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
            return number.real
        return number

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        if self.layout.dtype.category > INTEGER or self.layout.numel != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if not self.layout.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.layout.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.layout.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, (Tensor, int, float, complex, bool)):
            return bool((element == self).any())  # type: ignore[attr-defined]
        raise RuntimeError(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
            f"{type(element)}."
        )

    def __format__(self, spec: str) -> str:
        if self.layout.ndim == 0 and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    # Autograd -------------------------------------------------------------------------------------
    def autograd_meta(self) -> AutogradMeta:
        """The autograd state, made if there is none."""
        if self.meta is None:
            self.meta = AutogradMeta()
        return self.meta

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor."""
        return views.requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("cannot delete requires_grad")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start (or, for leaves, stop) computing gradients for this tensor.

        Raises:
            RuntimeError: for an integer dtype, or when asked to stop on a non-leaf.
        """
        if self.is_inference() and not modes.inference and requires_grad:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed."
            )
        if not requires_grad:
            if self._last_edge() is not None:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use "
                    "a computed variable in a subgraph that doesn't require differentiation use "
                    "var_no_grad = var.detach()."
                )
        elif not (self.layout.dtype.is_floating_point or self.layout.dtype.is_complex):
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients, not "
                f"{self.layout.dtype}"
            )
        if self.view_meta is not None:
            self.view_meta.requires_grad = requires_grad
        elif self.edge is None:
            self.tracked = requires_grad
        return self

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor, None for leaves."""
        if self.edge is not None:
            return self.edge[0]
        if self.view_meta is not None:
            edge = views.view_edge(self, self.view_meta)
            return edge[0] if edge else None
        return None

    @property
    def _grad_fn(self) -> Node | None:
        return self.grad_fn

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("cannot delete _grad_fn")

    @property
    def output_nr(self) -> int:
        """Which of its node's results this tensor is."""
        edge = self._last_edge()
        return edge[1] if edge else 0

    def _last_edge(self) -> Edge | None:
        """The edge as it was when last asked for; never raises, but a view's may be stale."""
        return self.edge if self.view_meta is None else self.view_meta.edge

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self.grad_fn is None

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated so far; None before the first backward."""
        meta = self.meta
        if meta is None or meta.grad is None:
            retained = meta is not None and meta.retains_grad
            if not retained and self._last_edge() is not None:
                warnings.warn(
                    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                    "Its .grad attribute won't be populated during autograd.backward(). If you "
                    "indeed want the .grad field to be populated for a non-leaf Tensor, use "
                    ".retain_grad() on the non-leaf Tensor.",
                    UserWarning,
                    stacklevel=2,
                )
            return None
        return meta.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            if self.meta is not None:
                self.meta.grad = None
            return
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value)}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.layout.dtype.plain is not self.layout.dtype.plain:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with "
                f"dtype '{self.dtype}'. Please ensure that the gradient and the tensor have the "
                "same dtype"
            )
        if value.layout.shape != self.layout.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of "
                f"size '{list(self.shape)}'. Please ensure that the gradient and the tensor are "
                "the same size"
            )
        self.autograd_meta().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _version(self) -> int:
        """How often the alias family has been written."""
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return int(self.counter.version)

    @property
    def _base(self) -> Tensor | None:
        """The tensor this one is a view of; None if it is not a view."""
        return self.view_meta.base if self.view_meta is not None else None

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return self.counter is INFERENCE_COUNTER

    def _is_view(self) -> bool:
        """Whether this tensor is a differentiable view of another."""
        return self.view_meta is not None

    def retain_grad(self) -> None:
        """Keep the gradient of a non-leaf in ``.grad``; a no-op on leaves."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        meta = self.autograd_meta()
        if self._last_edge() is None or meta.retains_grad:
            return
        node = self.grad_fn  # which may raise, for a stale view
        meta.retains_grad = True
        hooks_of(node).retained[self.output_nr] = weakref.ref(self)  # type: ignore[arg-type]

    @property
    def _backward_hooks(self) -> HookDict | None:
        return None if self.meta is None else self.meta.hooks

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Any) -> None:
        self.autograd_meta().hooks = None if hooks is None else HookDict(hooks)

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("cannot delete _backward_hooks")

    @property
    def _post_accumulate_grad_hooks(self) -> HookDict | None:
        return None if self.meta is None else self.meta.post_accumulate

    @property
    def retains_grad(self) -> bool:
        """Whether :meth:`retain_grad` was called on this non-leaf."""
        return self.meta is not None and self.meta.retains_grad

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment. If you were attempting to deepcopy a module, this may be "
                "because of a torch.nn.utils.weight_norm usage, see "
                "https://github.com/pytorch/pytorch/pull/103001"
            )
        if id(self) in memo:
            return memo[id(self)]
        storage = memo.get(id(self.storage))
        if storage is None:
            storage = memo[id(self.storage)] = self.storage.clone()
        result = make(storage, self.offset, self.layout, type(self))
        result.tracked = self.requires_grad
        memo[id(self)] = result
        if self.meta is not None and self.meta.grad is not None:
            result.autograd_meta().grad = copy.deepcopy(self.meta.grad, memo)
        if self.__dict__:
            result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        layout = self.layout
        return rebuild, (
            type(self),
            self.storage,
            self.offset,
            (layout.shape, layout.strides, layout.dtype),
            self.requires_grad,
            self.__dict__ or None,
        )


_new = object.__new__


def make(storage: Storage, offset: int, layout: Layout, cls: type = Tensor) -> Any:
    """A plain tensor of an alias family of its own, whose counter is the storage."""
    result: Any = _new(cls)
    result.storage = storage
    result.offset = offset
    result.layout = layout
    result.counter = INFERENCE_COUNTER if modes.inference else storage
    result.edge = None
    result.tracked = False
    result.view_meta = None
    result.meta = None
    return result


def rebuild(
    cls: type, storage: Storage, offset: int, geometry: Any, requires_grad: bool, extra: Any
) -> Tensor:
    """Undo pickling."""
    result = make(storage, offset, intern_layout(*geometry), cls)
    result.tracked = requires_grad
    if extra:
        result.__dict__.update(extra)
    return result


def shape_argument(name: str, sizes: tuple[Any, ...]) -> Shape:
    """Sizes given as ``f(2, 3)`` or ``f((2, 3))``; TypeError for anything but integers."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    for n in sizes:
        if n.__class__ is not int:
            break
    else:
        return sizes
    result = []
    for i, n in enumerate(sizes):
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise TypeError(
                f"{name}(): argument 'size' must be tuple of ints, but found element of type "
                f"{type(n).__name__} at pos {i}"
            )
        result.append(n.__index__())
    return tuple(result)
