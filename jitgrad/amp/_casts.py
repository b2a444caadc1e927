"""Which functions autocast casts the inputs of, and how.

Operators know nothing of it: a check in each would cost everybody some time at every call. Instead
the public functions and methods are replaced by ones that cast, for as long as any thread is in an
enabled autocast. Modules call functions by their public names, and so are served as well.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .. import linalg
from ..dtypes import dtype, float32, float64
from ..nn import functional
from ..state import modes
from ..tensor import Tensor

# By place; names that are missing there are passed over. In the 16-bit dtype:
LOWER = {
    "": "mm bmm matmul addmm addbmm baddbmm chain_matmul einsum tensordot prelu conv1d "
    "conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "linalg": "matmul multi_dot vecdot",
    "nn.functional": "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d prelu scaled_dot_product_attention multi_head_attention_forward",
    "Tensor": "mm bmm matmul __matmul__ __rmatmul__ addmm addbmm baddbmm",
}
# In float32:
FLOAT32 = {
    "": "cdist cholesky cholesky_inverse cholesky_solve inverse nanquantile prod "
    "quantile svd trace",
    "linalg": "cholesky cholesky_ex cond eigh eigvalsh householder_product inv lstsq matrix_rank "
    "qr slogdet solve svd svdvals tensorinv tensorsolve",
    "nn.functional": "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d "
    "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy "
    "ctc_loss fractional_max_pool2d fractional_max_pool3d grid_sample hinge_embedding_loss "
    "huber_loss kl_div l1_loss margin_ranking_loss max_unpool1d max_unpool2d max_unpool3d mse_loss "
    "multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss "
    "soft_margin_loss triplet_margin_loss",
    "Tensor": "cholesky cholesky_inverse cholesky_solve inverse nanquantile prod quantile "
    "svd trace",
}

_lock = threading.Lock()
_entered = 0
_replaced: list[tuple[Any, str, Any]] = []


def install() -> None:
    """Let the functions cast; once for every context that is entered."""
    global _entered
    with _lock:
        _entered += 1
        if _entered > 1:
            return
        for names, lower in ((LOWER, True), (FLOAT32, False)):
            for place, name in _known(names):
                function = getattr(place, name)
                _replaced.append((place, name, function))
                setattr(place, name, _casting(function, lower))


def uninstall() -> None:
    """Undo one :func:`install`; the last one puts the functions back."""
    global _entered
    with _lock:
        _entered -= 1
        if not _entered:
            while _replaced:
                setattr(*_replaced.pop())


def _known(names: dict[str, str]) -> Iterator[tuple[Any, str]]:
    package = sys.modules[__name__.partition(".")[0]]
    places = {"": package, "linalg": linalg, "nn.functional": functional, "Tensor": Tensor}
    for place, listed in names.items():
        for name in listed.split():
            if name in vars(places[place]):
                yield places[place], name


def _casting(function: Callable[..., Any], lower: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        fast = modes.autocast
        if fast is None or kwargs.get("out") is not None:
            return function(*args, **kwargs)
        to = fast if lower else float32
        modes.autocast = None  # what the function calls in turn works on what it is given
        try:
            return function(*cast(args, to), **cast(kwargs, to))
        finally:
            modes.autocast = fast

    return call


def cast(value: Any, to: dtype) -> Any:
    """Arguments with float tensors in another dtype, those in float64 left as they are."""
    if isinstance(value, Tensor):
        own = value.layout.dtype
        eligible = own.is_floating_point and own is not float64 and own is not to
        return value.to(to) if eligible else value
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(cast(x, to) for x in value)
    if isinstance(value, dict):
        return {key: cast(x, to) for key, x in value.items()}
    return value
