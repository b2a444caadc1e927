"""PyTorch as the oracle: run one lambda on both libraries and compare all that can be seen.

check(lambda lib, x, y: lib.add(x, y), (2, 3), (3,))
check_raises(lambda lib, x: x.view(7), (2, 3), match="is invalid for input of size")
"""

from tests.oracle.compare import Options, check, check_raises
from tests.oracle.inputs import LAYOUTS, Arg, arg
from tests.oracle.libraries import REQUIRED, torch_or_skip

__all__ = [
    "check",
    "check_raises",
    "Options",
    "arg",
    "Arg",
    "LAYOUTS",
    "torch_or_skip",
    "REQUIRED",
]
