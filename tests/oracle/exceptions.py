"""Where jitgrad is known to differ from PyTorch on samples of its operator database, and why.

Keys are an operator of the database, or an operator and an aspect of it (``"sum: errors"``) or a
dtype (``"heaviside: bool"``). A name
of the database with a variant (``"std_mean.unbiased"``) counts as an operator of its own. The table
is also what docs/operators.md prints.
"""

from __future__ import annotations

# The aspects of an operator that are compared.
ASPECTS = (
    "function",  # values, dtypes, shapes, what shares memory with what
    "strides",
    "gradient",
    "second gradient",
    "method",
    "in-place",
    "out",
    "errors",
)

# Reason -> keys.
_BY_REASON: dict[str, tuple[str, ...]] = {
    "uninitialised memory has no values to compare": (
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    ),
    "new elements are uninitialised memory": (
        "resize_",
        "resize_as_",
    ),
    "jitgrad's sort is always stable; PyTorch's leaves the order of equal elements open": (
        "sort: bool",
        "argsort: bool",
    ),
    "which of several equal elements is named is open in PyTorch; jitgrad names the first": (
        "topk: int64",
        "kthvalue: int64",
    ),
    "which of several equal elements is named is open in PyTorch; jitgrad names the last": (
        "mode: int64",
        "mode: bool",
    ),
    "PyTorch's is right to 8 digits only where it oscillates": (
        "special.airy_ai: float64",
        "special.bessel_j0: float64",
        "special.bessel_j1: float64",
        "special.bessel_y0: float64",
        "special.bessel_y1: float64",
    ),
    "the samples' reflections are no reflections: their products amplify rounding errors": (
        "linalg.householder_product: second gradient",
    ),
    "PyTorch multiplies by 1/6 rounded to float32": ("nn.functional.hardsigmoid: gradient",),
    "PyTorch rounds a Python weight to float32": (
        "lerp: gradient",
        "lerp: second gradient",
    ),
    "PyTorch multiplies by a log(2) rounded to float32": (
        "ldexp: gradient",
        "ldexp: second gradient",
    ),
    "PyTorch's gradient loses digits by cancellation; jitgrad's is the nearer one": (
        "logcumsumexp: float32",
    ),
    "PyTorch adds logarithms in float32, jitgrad in float64": ("nn.functional.ctc_loss: float32",),
    "another Padé approximant: the results differ by a few 1e-4": ("matrix_exp: float32",),
    "strides of an empty result": (
        "kthvalue: float64",
        "kthvalue: float32",
    ),
    "strides of an empty result; an internal assertion of PyTorch's as error message": (
        "narrow_copy",
    ),
    "jitgrad's result is no view, PyTorch's is one of a temporary": (
        "cdist: function",
        "nn.functional.bilinear: function",
    ),
    "PyTorch's result lies in the memory of the taller right-hand sides": (
        "linalg.lstsq: strides",
        "linalg.lstsq.grad_oriented: strides",
    ),
    "the gradient of an empty batch is zero, PyTorch's undefined": ("ormqr: gradient",),
    "PyTorch's result is a view for some orders": ("linalg.cond",),
    "jitgrad returns the tensor itself where nothing changes": ("sum_to_size: function",),
    "PyTorch's gradient fills the triangle that is not read; jitgrad's is zero there": (
        "cholesky_inverse: gradient",
        "cholesky_inverse: second gradient",
        "cholesky_solve: gradient",
        "cholesky_solve: second gradient",
    ),
    "the signs of eigenvectors are LAPACK's choice": ("linalg.eigh",),
    "the samples are not symmetric, where it is a convention (of symmetric ones both agree)": (
        "linalg.eigvalsh: second gradient",
    ),
    "PyTorch has NaN at 0, jitgrad 0": ("linalg.norm.subgradients_at_zero: second gradient",),
    "NaN where everything is masked out": ("masked.norm: second gradient",),
    "with storage_offset=0 of a view PyTorch writes the gradient elsewhere": (
        "as_strided_scatter: gradient",
        "as_strided_scatter: second gradient",
    ),
    "integers are promoted to float; PyTorch casts the logarithm back": (
        "masked.logsumexp: int64",
    ),
    "PyTorch lets the product enlarge the tensor": ("addbmm: in-place",),
    "jitgrad has no limit of 64 dimensions": (
        "amax: errors",
        "amin: errors",
        "aminmax: errors",
    ),
    "TypeError in place of AttributeError": ("__rdiv__: errors",),
}
EXCEPTIONS = {key: why for why, keys in _BY_REASON.items() for key in keys}


def reason(name: str, variant: str, aspect: str, dtype: str = "") -> str | None:
    """Why an aspect of an operator may differ (in a dtype); None if it may not."""
    for entry in (f"{name}.{variant}" if variant else name, name):
        for key in (entry, f"{entry}: {aspect}", f"{entry}: {dtype}"):
            if key in EXCEPTIONS:
                return EXCEPTIONS[key]
    return None
