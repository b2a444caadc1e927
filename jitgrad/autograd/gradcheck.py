"""Checks of derivatives against finite differences: :func:`gradcheck`, :func:`gradgradcheck`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import complex128, float64
from ..tensor import Tensor
from . import jacobians
from .api import grad
from .checking import (
    Checked,
    GradcheckError,
    Settings,
    check_deterministic,
    check_dtypes,
    check_shapes,
    compare,
)
from .gradcheck_fast import compare_along_vectors
from .gradcheck_rules import check_batches, check_undefined, check_zero_gradients
from .jacobians import SEED, as_tuple, differentiable, is_real_input

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of ``func`` at ``inputs`` against central differences.

    Args:
        func: from tensors to a tensor or a tuple of them.
        inputs: its arguments; gradients are checked for those that require grad, which should be
            float64 or complex128 and must not overlap in memory.
        eps: how far inputs are moved.
        atol, rtol: how far derivatives may be apart.
        raise_exception: raise :class:`GradcheckError`, else return False.
        nondet_tol: how far two backward passes over one graph may be apart.
        check_undefined_grad: also check that undefined incoming gradients are handled.
        check_grad_dtypes: also check that gradients have the dtypes of what they belong to.
        check_batched_grad, check_batched_forward_grad: also check batches of gradients. A batch is
            a loop here, so there is nothing that could differ for the latter.
        check_forward_ad, check_backward_ad: which derivatives to check.
        fast_mode: compare products of the Jacobians with random vectors, not whole Jacobians.
        masked: for PyTorch's sparse tensors; there are none here.

    Raises:
        GradcheckError: if a derivative is wrong.
        ValueError: if no input requires grad.
        RuntimeError: for an input with a stride of zero, whose elements cannot be moved one by one.

    >>> import jitgrad as jg
    >>> x = jg.tensor([0.5, 1.0], dtype=jg.float64, requires_grad=True)
    >>> jg.autograd.gradcheck(jg.exp, x)
    True
    """
    _at_least_one("check_forward_ad or check_backward_ad", check_forward_ad or check_backward_ad)
    _needs("check_batched_grad", check_batched_grad, "check_backward_ad", check_backward_ad)
    _needs("check_batched_forward_grad", check_batched_forward_grad,
           "check_forward_ad", check_forward_ad)  # fmt: skip
    settings = Settings(
        eps, atol, rtol, nondet_tol, check_undefined_grad and check_backward_ad, check_grad_dtypes,
        check_batched_grad, check_forward_ad, check_backward_ad, fast_mode,
    )  # fmt: skip
    try:
        _run(func, as_tuple(inputs), settings)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _at_least_one(what: str, given: bool) -> None:
    if not given:
        raise AssertionError(f"Expected at least one of {what} to be True")


def _needs(which: str, given: bool, other: str, other_given: bool) -> None:
    if given and not other_given:
        raise AssertionError(f"Setting {which}=True requires {other} to be True")


def _run(function: Callable[..., Any], inputs: tuple[Any, ...], settings: Settings) -> None:
    _check_inputs(inputs)
    checked = Checked(function, inputs)
    if not checked.outputs:
        _check_constant(checked, settings)
        return
    if settings.fast_mode:
        compare_along_vectors(checked, settings)
    else:
        _compare_matrices(checked, settings)
    if not settings.check_backward_ad:
        return
    if settings.check_batched_grad:
        check_batches(checked)
    check_zero_gradients(checked)
    if settings.check_undefined_grad:
        check_undefined(checked)


# Before -------------------------------------------------------------------------------------------
def _check_inputs(inputs: tuple[Any, ...]) -> None:
    if not any(is_real_input(x) for x in inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them "
            "have requires_grad=True."
        )
    for index, x in enumerate(inputs):
        if not is_real_input(x):
            continue
        if x.dtype not in (float64, complex128):
            warnings.warn(
                f"Input #{index} requires gradient and is not a double precision floating point or "
                f"complex, but {x.dtype}: differences in it are too coarse, and the check will "
                "likely fail.",
                UserWarning,
                stacklevel=4,
            )
        of = x.layout
        if any(s == 0 and n > 1 for s, n in zip(of.strides, of.shape, strict=True)):
            raise RuntimeError(
                f"The {index}th input has a dimension with stride 0: its elements share memory and "
                "cannot be moved one by one. Call .contiguous() on it first."
            )
        x.retain_grad()


def _check_constant(checked: Checked, settings: Settings) -> None:
    """A function without differentiable outputs must not depend on its inputs."""
    which = [
        i
        for i, x in enumerate(checked.all_outputs)
        if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())
    ]
    for number in checked.numbers:
        for found in jacobians.numerical(
            checked.function, checked.inputs, which, number, settings.eps
        ):
            if not np.allclose(found, 0, atol=1e-12):
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero: no output requires grad, "
                    f"but the outputs change with input {number} (was history cut, by detach() or "
                    ".data?)"
                )


# Whole matrices -----------------------------------------------------------------------------------
def _compare_matrices(checked: Checked, settings: Settings) -> None:
    by_differences = [
        jacobians.numerical(checked.function, checked.inputs, checked.which, n, settings.eps)
        for n in checked.numbers
    ]
    if settings.check_backward_ad:
        _compare_backward(checked, settings, by_differences)
    if settings.check_forward_ad:
        _compare_forward(checked, settings, by_differences)


def _compare_forward(checked: Checked, settings: Settings, by_differences: list[Any]) -> None:
    for place, number in enumerate(checked.numbers):
        found, rows = jacobians.by_forward(
            checked.function, checked.inputs, checked.outputs, checked.which, number
        )
        if settings.check_grad_dtypes:
            for tangents in rows:
                check_dtypes(tangents, checked.outputs, "Forward AD gradient")
        for index, matrix in enumerate(found):
            compare(matrix, by_differences[place][index], index, place, settings, "forward ")


def _compare_backward(checked: Checked, settings: Settings, by_differences: list[Any]) -> None:
    for index, output in enumerate(checked.outputs):
        matrices, rows = jacobians.by_backward(output, checked.variables)
        for grads in rows:
            if settings.check_grad_dtypes:
                check_dtypes(grads, checked.variables, "Gradient")
            check_shapes(grads, checked.variables)
        for place, matrix in enumerate(matrices):
            compare(matrix, by_differences[place][index], index, place, settings, "")
        again, _ = jacobians.by_backward(output, checked.variables)
        for one, other in zip(matrices, again, strict=True):
            check_deterministic(one, other, settings)


# Second derivatives -------------------------------------------------------------------------------
def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check second derivatives: :func:`gradcheck` of the gradients of ``func``.

    Args:
        grad_outputs: the gradients that enter the outputs, by default random ones.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev: check forward derivatives of the gradients.
        check_rev_over_rev: check gradients of the gradients.

    The other arguments and what is raised are those of :func:`gradcheck`.
    """
    _at_least_one("check_fwd_over_rev or check_rev_over_rev",
                  check_fwd_over_rev or check_rev_over_rev)  # fmt: skip
    _needs("check_undefined_grad", check_undefined_grad, "check_rev_over_rev", check_rev_over_rev)
    _needs("check_batched_grad", check_batched_grad, "check_rev_over_rev", check_rev_over_rev)
    arguments = as_tuple(inputs)
    if grad_outputs is None:
        outputs = differentiable(func(*arguments))
        seeds = _random_gradients(outputs, gen_non_contig_grad_outputs)
    else:
        seeds = as_tuple(grad_outputs)
    watched = {i for i, x in enumerate(arguments) if is_real_input(x)}
    count = len(seeds)

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        # The forward check hands over inputs that do not require grad: make them again.
        given = tuple(
            x.requires_grad_() if i in watched else x
            for i, x in enumerate(values[: len(values) - count])
        )
        outputs = differentiable(func(*given))
        entering = tuple(
            g.requires_grad_() if isinstance(g, Tensor) and not g.requires_grad else g
            for g in values[len(values) - count :]
        )
        found = grad(
            outputs,
            tuple(given[i] for i in sorted(watched)),
            entering,
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*arguments, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _random_gradients(outputs: Sequence[Tensor], gapped: bool) -> tuple[Tensor, ...]:
    random = np.random.default_rng(SEED)
    seeds = []
    for x in outputs:
        shape = (*x.layout.shape, 2) if gapped else x.layout.shape
        values = x.new_zeros(shape, dtype=x.dtype)
        values = jacobians.like(values, random.random(jacobians.length(values)))
        seeds.append(values.select(-1, 0) if gapped else values)
    return tuple(s.detach().requires_grad_() for s in seeds)
