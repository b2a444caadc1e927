"""Forward-mode differentiation: dual tensors, whose tangents operations carry along.

What tangents and levels are is in ``autograd/dual.py``, what operations do with them in
``dispatch/tangents.py``. Users see one level; ``jitgrad.func`` nests more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..state import modes
from ..tensor import Tensor
from .dual import Level, below, fitted, hold, pop_level, push_level, set_levels, tangent_of
from .grad_mode import _Mode


class UnpackedDualTensor(NamedTuple):
    """The two parts of a dual tensor; ``tangent`` is None for a tensor that is not dual."""

    primal: Tensor
    tangent: Tensor | None


# Levels -----------------------------------------------------------------------------------------
def enter_dual_level() -> int:
    """Open the level of forward-mode AD; returns 0, its number.

    Raises:
        RuntimeError: if one is open.
    """
    if modes.levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    push_level()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level, which forgets all tangents; RuntimeError if it is not the open one."""
    if not modes.levels:
        raise RuntimeError(
            "Dual level must be a positive number: there is no level of forward mode AD to exit"
        )
    if level is not None and level != len(modes.levels) - 1:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    pop_level(modes.levels[-1])


class dual_level(_Mode):
    """Forward-mode AD inside the block (or the decorated function).

    >>> import jitgrad as jg
    >>> from jitgrad.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(jg.tensor(3.0), jg.tensor(1.0))
    ...     forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:  # type: ignore[override]
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


class _set_fwd_grad_enabled(_Mode):
    """Whether open levels take part; off, operations know nothing of tangents."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._previous: list[tuple[Level, ...]] = []

    def clone(self) -> _set_fwd_grad_enabled:
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        self._previous.append(modes.levels)
        if not self.mode:
            set_levels(())

    def __exit__(self, *exc: object) -> None:
        set_levels(self._previous.pop())


def __getattr__(name: str) -> Any:
    if name == "_current_level":
        return len(modes.levels) - 1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Packing ------------------------------------------------------------------------------------------
def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of ``tensor`` that carries ``tangent``, which is not copied if it lies alike.

    Raises:
        RuntimeError: outside a level, for a tensor or a tangent that is dual already, for sizes
            that differ.
        ValueError: for integers.
    """
    if not modes.levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for what, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {x.dtype}")
    return attach(tensor, tangent, modes.levels[-1])


def attach(tensor: Tensor, tangent: Tensor, at: Level) -> Tensor:
    """:func:`make_dual` for a level of one's own."""
    if tangent_of(tensor, at) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            "same level 0 is not supported."
        )
    if tangent_of(tangent, at) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not "
            "supported."
        )
    _check_size(tangent, tensor)
    with below(at.depth):
        dual = tensor.view_as(tensor)
        part = fitted(tangent, dual, cast=False)
    hold(dual, at, part)
    dual.autograd_meta().forward_base = ...  # tangents of its views are parts of this one's
    return dual


def _check_size(tangent: Tensor, of: Tensor) -> None:
    if tangent.layout.shape != of.layout.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(of.shape)} while the given "
            f"forward gradient is of size {list(tangent.shape)}."
        )


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal (as a view) and the tangent of a dual tensor; (tensor, None) outside a level."""
    if not modes.levels:
        return UnpackedDualTensor(tensor, None)
    return detach_level(tensor, modes.levels[-1])


def detach_level(tensor: Tensor, at: Level) -> UnpackedDualTensor:
    """:func:`unpack_dual` for a level of one's own."""
    tangent = tangent_of(tensor, at)
    with below(at.depth):
        primal = tensor.view_as(tensor)
    if primal.view_meta is not None:
        primal.autograd_meta().forward_base = ...
    return UnpackedDualTensor(primal, tangent)


# Custom functions ---------------------------------------------------------------------------------
def function_jvp(ctx: Any, jvp: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Carry tangents through a custom Function: call its ``jvp`` and hand out what it returns.

    Args:
        ctx: what ``jvp`` gets first; its ``saved_tensors`` are those of ``save_for_forward``.
        jvp: the static method of the user, or None.
        inputs: all arguments of ``apply``, in order.
        outputs: all results, in order, as the caller will see them.

    Raises:
        NotImplementedError: if the Function has no ``jvp``.
        RuntimeError: if it returns the wrong number of tangents or of the wrong size, or does not
            mirror what forward did in place or returned as a view.
    """
    if modes.inference:
        return
    for at in modes.levels:
        tangents = [tangent_of(x, at) if isinstance(x, Tensor) else None for x in inputs]
        if all(t is None for t in tangents):
            continue
        if jvp is None:
            raise NotImplementedError(
                "You must implement the jvp function for custom autograd.Function to use it with "
                "forward mode AD."
            )
        with below(at.depth):
            given = [
                _zero_like(x) if t is None and _differentiable(x) else t
                for x, t in zip(inputs, tangents, strict=True)
            ]
            versions = [None if t is None else t.counter.version for t in given]
            found = jvp(ctx, *given)
            found = found if isinstance(found, tuple) else (found,)
            _check_count(found, outputs)
            for index, (output, tangent) in enumerate(zip(outputs, found, strict=True)):
                if tangent is None or not isinstance(output, Tensor):
                    continue
                if any(output is x for x in ctx.non_differentiable):
                    raise RuntimeError(
                        f"jvp returned a tangent for output {index}, which forward marked as "
                        "non-differentiable. You should return None at that position instead."
                    )
                if not isinstance(tangent, Tensor):
                    raise RuntimeError(
                        f"expected Variable or None (got {type(tangent).__name__}) for grad output "
                        f"{index}."
                    )
                _check_size(tangent, output)
                _check_alias(output, tangent, inputs, given, versions)
                hold(output, at, fitted(tangent, output))


def _differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def _zero_like(x: Tensor) -> Tensor:
    return x.new_zeros(x.layout.shape)


def _check_count(found: Sequence[Any], outputs: Sequence[Any]) -> None:
    if len(found) != len(outputs):
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected "
            f"{len(outputs)} but got {len(found)})"
        )


def _check_alias(
    output: Tensor,
    tangent: Tensor,
    inputs: Sequence[Any],
    given: Sequence[Any],
    versions: Sequence[Any],
) -> None:
    """What forward did to an input (write it, look at it), jvp must do to the input's tangent."""
    for x, t, version in zip(inputs, given, versions, strict=True):
        if not isinstance(x, Tensor) or t is None:
            continue
        if x is output:
            if tangent is not t or t.counter.version == version:
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients "
                    "inplace. If the forward is modifying an input inplace, then the jvp function "
                    "must modify the corresponding gradient inplace."
                )
            return
        if x.storage is output.storage:
            wrong: str | None = None
            if not tangent._is_view():
                wrong = "view"
            elif t._base is None:
                if tangent._base is not t:
                    wrong = "view of the given gradient"
            elif tangent._base is not t._base:
                wrong = "view of the same base"
            if wrong is not None:
                raise RuntimeError(
                    "A custom Function's forward is returning a view (or an input as-is) but the "
                    f"jvp is not returning a {wrong}."
                )
            return
