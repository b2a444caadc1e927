"""The names that stand in files, PyTorch's, and what they mean here."""

from __future__ import annotations

from ..dtypes import BY_NAME, dtype

# The storage classes of PyTorch, each of which stands for a dtype in a file.
STORAGES: dict[str, dtype] = {
    f"{name}Storage": BY_NAME[d]
    for name, d in {
        "Float": "float32",
        "Double": "float64",
        "Half": "float16",
        "BFloat16": "bfloat16",
        "Long": "int64",
        "Int": "int32",
        "Short": "int16",
        "Char": "int8",
        "Byte": "uint8",
        "Bool": "bool",
        "ComplexFloat": "complex64",
        "ComplexDouble": "complex128",
    }.items()
}
OF_DTYPE = {d: name for name, d in STORAGES.items()}
UNTYPED = ("torch.storage", "UntypedStorage")  # of dtypes without a class of their own
