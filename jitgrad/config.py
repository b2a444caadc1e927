"""Environment flags, read once at import.

==========================  ==================================================================
``JITGRAD_DEVICE``          default device: ``cpu`` (default) or ``cuda``
``JITGRAD_CACHE_DIR``       folder of compiled kernels (default: the platform's user cache)
``JITGRAD_NUM_THREADS``     threads for large operations (default: all cores of the process)
``JITGRAD_WHERE``           ``0``: do not note lines for error messages (for benchmarks/bench_where)
``JITGRAD_KEEP_MEMORY``     MiB of freed memory kept for later tensors (default 64); ``0``: none
==========================  ==================================================================
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _user_cache() -> Path:
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif sys.platform == "darwin":
        root = os.path.expanduser("~/Library/Caches")
    else:
        root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root) / "jitgrad"


DEVICE: str = os.environ.get("JITGRAD_DEVICE", "cpu")
CACHE_DIR: Path = Path(os.environ.get("JITGRAD_CACHE_DIR") or _user_cache())
WHERE: bool = os.environ.get("JITGRAD_WHERE") != "0"
KEEP_MEMORY: int = int(os.environ.get("JITGRAD_KEEP_MEMORY", "64"))
NUM_THREADS: int | None = int(os.environ.get("JITGRAD_NUM_THREADS", "0")) or None
