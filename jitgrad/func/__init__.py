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
from .module_call import functional_call
from .reverse import grad, grad_and_value, jacrev, value_and_grad, vjp
from .tree import ArgNums
from .vectorize import vmap


def hessian(func: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """The second derivatives of ``func``: ``jacfwd(jacrev(func, argnums), argnums)``."""
    return jacfwd(jacrev(func, argnums), argnums)


__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
    "vmap",
]
