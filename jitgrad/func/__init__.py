"""Transformations of functions: gradients, Jacobians and products with them, of pytrees of tensors.

Each takes a function and returns one, and they compose: ``hessian`` is ``jacfwd(jacrev(f))``. A
pytree is a tensor, or a tuple, list, dictionary or named tuple of pytrees.

>>> import jitgrad as jg
>>> jg.func.grad(jg.func.grad(lambda x: x ** 3))(jg.tensor(2.0))
tensor(12.)
"""

from collections.abc import Callable
from typing import Any

from .forward import jacfwd, jvp
from .linear import linearize
from .module_call import functional_call
from .module_state import replace_all_batch_norm_modules_, stack_module_state
from .reverse import grad, grad_and_value, jacrev, value_and_grad, vjp
from .tree import ArgNums
from .vectorize import vmap


def hessian(func: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """The second derivatives of ``func``: ``jacfwd(jacrev(func, argnums), argnums)``."""
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``func`` itself: mutations and views are removed from programs for compilers, not results.

    Raises:
        RuntimeError: unless ``remove`` is "mutations" or "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are: remove='mutations' and remove='mutations_and_views'"
        )
    return func


__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]
