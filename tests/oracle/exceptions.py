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

EXCEPTIONS: dict[str, str] = {
    "empty": "uninitialised memory has no values to compare",
    "empty_like": "uninitialised memory has no values to compare",
    "empty_strided": "uninitialised memory has no values to compare",
    "new_empty": "uninitialised memory has no values to compare",
    "new_empty_strided": "uninitialised memory has no values to compare",
    "resize_": "new elements are uninitialised memory",
    "resize_as_": "new elements are uninitialised memory",
}


def reason(name: str, variant: str, aspect: str, dtype: str = "") -> str | None:
    """Why an aspect of an operator may differ (in a dtype); None if it may not."""
    for entry in (f"{name}.{variant}" if variant else name, name):
        for key in (entry, f"{entry}: {aspect}", f"{entry}: {dtype}"):
            if key in EXCEPTIONS:
                return EXCEPTIONS[key]
    return None
