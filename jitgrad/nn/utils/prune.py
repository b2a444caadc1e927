"""Pruning: some elements of a parameter are held at zero.

A pruned parameter ``<name>`` is computed before each call as ``<name>_orig * <name>_mask``: the
first is trained, the second is a buffer of zeros and ones. What is pruned again keeps its zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ...autograd.grad_mode import no_grad
from ...dispatch.creation import ones_like, zeros_like
from ...dispatch.random import rand, rand_like
from ...dispatch.reduction import vector_norm
from ...dispatch.shape import cat
from ...dispatch.sorting import topk
from ...tensor import Tensor
from ..module import Module

M = TypeVar("M", bound=Module)
P = TypeVar("P", bound="BasePruningMethod")


class BasePruningMethod:
    """Decides what is pruned, and is the hook that applies it. Subclasses define ``compute_mask``.

    Attributes:
        PRUNING_TYPE: ``unstructured`` methods choose among elements, ``structured`` ones among the
            slices along ``dim``, ``global`` ones look at all elements, pruned or not.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str
    dim: int

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The new mask.

        Args:
            t: how important each element is.
            default_mask: the mask so far.
        """
        raise NotImplementedError("Subclasses of BasePruningMethod define compute_mask.")

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor of a module."""
        name = self._tensor_name
        original = getattr(module, f"{name}_orig")
        return getattr(module, f"{name}_mask").to(original.dtype) * original

    @no_grad()
    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A tensor with elements of it set to zero."""
        scores = _scores(t, importance_scores)
        return t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)

    @classmethod
    def apply(
        cls: type[P], module: Module, name: str, *args: Any,
        importance_scores: Tensor | None = None, **kwargs: Any,
    ) -> BasePruningMethod:  # fmt: skip
        """Prune a parameter of a module; ``args`` and ``kwargs`` are those of the class."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        found = _hook(module, name)
        hook: BasePruningMethod = method
        parameter = getattr(module, name if found is None else f"{name}_orig")
        with no_grad():
            scores = _scores(getattr(module, name), importance_scores)
            if found is None:
                mask = ones_like(parameter)
            else:
                mask = getattr(module, f"{name}_mask").clone()
                hook = PruningContainer(*found[1].methods(), method)
            mask = _chosen(method, scores, mask)
        if found is None:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", parameter)
        else:
            del module._forward_pre_hooks[found[0]]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def methods(self) -> list[BasePruningMethod]:
        """What was applied so far."""
        return [self]

    def remove(self, module: Module) -> None:
        """Make the pruned values the parameter itself, which is then trained as any other."""
        name = self._tensor_name
        original = module._parameters.pop(f"{name}_orig")
        assert original is not None
        mask = getattr(module, f"{name}_mask")
        original.data = mask.to(original.dtype) * original.detach()
        delattr(module, name)
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods that were applied to one tensor, in this order."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._methods: list[BasePruningMethod] = []
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method; TypeError for anything else, ValueError for one of another tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._methods and method._tensor_name != self._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._tensor_name = method._tensor_name
        self._methods.append(method)

    def methods(self) -> list[BasePruningMethod]:
        return list(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._methods)

    def __getitem__(self, index: Any) -> Any:
        return tuple(self._methods)[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask after the last method, which has not been applied yet."""
        return _chosen(self._methods[-1], t, default_mask)


def _hook(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def _scores(t: Tensor, given: Tensor | None) -> Tensor:
    if given is None:
        return t.detach()
    if given.shape != t.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as parameter: {list(given.shape)} and "
            f"{list(t.shape)}"
        )
    return given


def _chosen(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Tensor:
    """A mask with the choice of a method among what is not pruned yet."""
    if method.PRUNING_TYPE == "unstructured":
        place: Any = mask.eq(1)
    elif method.PRUNING_TYPE == "structured":
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {t.shape} with {t.dim()} dims"
            )
        _check_dim(t, method.dim)
        dim = method.dim % t.dim()
        kept = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
        place = tuple(kept if d == dim else slice(None) for d in range(t.dim()))
    elif method.PRUNING_TYPE == "global":
        place = (slice(None),) * t.dim()
    else:
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    mask = mask.clone()
    mask[place] = method.compute_mask(t[place], mask[place]).to(mask.dtype)
    return mask


# How much -----------------------------------------------------------------------------------------
def _check_dim(t: Tensor, dim: int) -> None:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count(amount: int | float, size: int) -> int:
    """How many of ``size`` things are pruned."""
    if not isinstance(amount, int):
        return round(amount * size)
    if amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return amount


def _without(mask: Tensor, scores: Tensor, count: int, largest: bool) -> Tensor:
    """The mask without so many of the elements with the largest or smallest scores."""
    mask = mask.clone()
    if count:
        places = topk(scores.reshape(-1), count, largest=largest).indices
        mask.view(-1)[places] = 0
    return mask


def _of_slices(chosen: Tensor, like: Tensor, dim: int) -> Tensor:
    """A mask with ones in the slices along ``dim`` that are chosen."""
    mask = zeros_like(like)
    mask[tuple(chosen if d == dim % like.dim() else slice(None) for d in range(like.dim()))] = 1
    return mask


# Methods ------------------------------------------------------------------------------------------
class Identity(BasePruningMethod):
    """Prunes nothing, but makes the parameter a pruned one."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: ``amount`` of them, or (a float) such a part."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.numel())
        return _without(default_mask, rand_like(t), count, True) if count else default_mask.clone()


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least magnitude."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, t.abs(), _count(self.amount, t.numel()), False)


class RandomStructured(BasePruningMethod):
    """Prunes slices along ``dim`` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if not count:
            return default_mask
        drawn = rand(size)
        threshold = drawn.sort().values[count - 1]
        return default_mask * _of_slices(drawn > threshold, t, self.dim)


class LnStructured(BasePruningMethod):
    """Prunes the slices along ``dim`` of least ``n``-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if not count:
            return default_mask
        dims = tuple(d for d in range(t.dim()) if d != self.dim % t.dim())
        kept = topk(vector_norm(t, self.n, dims), size - count).indices
        return default_mask * _of_slices(kept, t, self.dim)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# Public functions ---------------------------------------------------------------------------------
def identity(module: M, name: str) -> M:
    """Make a parameter a pruned one, with a mask of ones; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: int | float) -> M:
    """Prune elements of a parameter at random; returns the module.

    Args:
        amount: how many, or (a float) which part of those not pruned yet.

    Raises:
        ValueError: for an amount that is negative, or too large.
        TypeError: for one that is no number.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: int | float, importance_scores: Tensor | None = None
) -> M:
    """Prune the elements of least magnitude, or of least ``importance_scores``.

    >>> import jitgrad as jg
    >>> layer = jg.nn.Linear(3, 1, bias=False)
    >>> _ = layer.weight.data.copy_(jg.tensor([[3.0, 1.0, 2.0]]))
    >>> l1_unstructured(layer, "weight", 1).weight.tolist()
    [[3.0, 0.0, 2.0]]
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: int | float, dim: int) -> M:
    """Prune slices along ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M, name: str, amount: int | float, n: Any, dim: int,
    importance_scores: Tensor | None = None,
) -> M:  # fmt: skip
    """Prune the slices along ``dim`` of least ``n``-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune the elements where ``mask`` is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters, chosen among all of them together.

    Args:
        parameters: modules and names.
        pruning_method: an unstructured one; ``kwargs`` are its arguments.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores_of = importance_scores or {}
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    tensors = [getattr(module, name) for module, name in pairs]
    with no_grad():
        scores, masks = [], []
        for pair, t in zip(pairs, tensors, strict=True):
            scores.append(_scores(t, scores_of.get(pair)).reshape(-1))
            mask = getattr(pair[0], f"{pair[1]}_mask", None)
            masks.append((ones_like(t) if mask is None else mask).reshape(-1))
        chosen = _chosen(method, cat(scores), cat(masks))
        place = 0
        for (module, name), t in zip(pairs, tensors, strict=True):
            custom_from_mask(module, name, chosen[place : place + t.numel()].view_as(t))
            place += t.numel()


def remove(module: M, name: str) -> M:
    """Make a pruned parameter a plain one with zeros; ValueError if it is not pruned."""
    found = _hook(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a module, or one inside it, has pruned parameters."""
    return any(
        isinstance(hook, BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )
