"""Compiled functions, kept on disk under the hash of everything that went into them.

Numba's own cache hashes a function's file by its time stamp, not the helpers it calls; cannot cache
generated source; and spends 0.2 s on typing machinery before its first hit. So compiled object code
is stored here instead: one file per function, named by a hash of its source, signature and options,
of every source file it takes code from (kernels/sources.py), of the versions of Numba, llvmlite and
Python, and of the CPU. A hit costs about 1 ms. Files appear atomically (``os.replace``), so any
number of processes may start at once; whatever cannot be read is a miss; whatever cannot be written
is compiled for this process only. See docs/decisions/0002-kernel-cache.md.
"""

from __future__ import annotations

import functools
import hashlib
import linecache
import os
import pickle
import platform
import tempfile
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import registry, types
from numba.core.ccallback import CFunc
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

from .. import config
from . import sources

POINTER_SIZED = types.intp
_object_code = attrgetter("library")


class Compiled(NamedTuple):
    """A function ready to be called: from Python (``entry``) or by address from other kernels."""

    entry: Callable[..., Any] | None
    address: int
    result: CompileResult  # keeps the machine code alive


@functools.cache
def _target() -> Any:
    """Numba's CPU target with its runtime started, without its typing machinery."""
    context = registry.cpu_target.target_context
    rtsys.initialize(context)
    return context


@functools.cache
def _fingerprint() -> bytes:
    """What every compiled function depends on beside sources."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    versions = numba.__version__, llvmlite.__version__, platform.python_version()
    digest.update(repr((versions, _target().codegen().magic_tuple())).encode())
    return digest.digest()


@functools.cache
def _folder() -> Path | None:
    """The cache folder, made if need be; a private one where it cannot be; None where none can."""
    for folder in (config.CACHE_DIR, Path(tempfile.gettempdir()) / f"jitgrad-{_user()}"):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        return folder
    return None


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def _read(path: Path) -> CompileResult | None:
    try:
        return CompileResult._rebuild(_target(), *pickle.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except Exception:  # torn, foreign or outdated: whatever the reason, compile again
        return None


def _write(path: Path, result: CompileResult) -> None:
    try:
        data = pickle.dumps(result._reduce(), protocol=pickle.HIGHEST_PROTOCOL)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
    except (OSError, AttributeError, TypeError, pickle.PicklingError):
        return  # a read-only folder, or a Numba whose internals moved: this process still works
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)


def _define(source: str, name: str, key: str) -> Callable[..., Any]:
    """Run generated source; its lines stay visible to tracebacks and debuggers."""
    filename = f"<jitgrad kernel {key[:12]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    # Numba finds a function's globals again through its module, so it must be importable.
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, filename, "exec"), namespace)
    # Numba names a symbol by qualified name, argument types and a count that starts anew in each
    # process. Object code of several processes meets in one here, so names must tell sources apart:
    # otherwise one kernel may be linked against another's helper of the same name.
    for value in namespace.values():
        own = getattr(value, "py_func", value)
        if getattr(own, "__module__", None) == __name__ and hasattr(own, "__qualname__"):
            own.__qualname__ = f"{own.__name__}_{key[:16]}"
    return namespace[name]


def _compile(
    source: str, name: str, key: str, arguments: Sequence[Any], callback: bool, options: dict
) -> CompileResult:
    function = _define(source, name, key)
    signature = types.void(*arguments)
    if callback:
        options = dict(options, nopython=True)
        compiler: Any = CFunc(function, (signature.args, types.void), {}, options)
        return compiler._compile_uncached()
    dispatcher = numba.njit(signature, nogil=True, **options)(function)
    return dispatcher.overloads[signature.args]


def _load(
    source: str, name: str, arguments: Sequence[Any], callback: bool, options: dict[str, Any]
) -> Compiled:
    described = repr((source, name, str(arguments), callback, sorted(options.items(), key=str)))
    parts = _fingerprint() + sources.fingerprint(source) + described.encode()
    key = hashlib.sha256(parts).hexdigest()
    folder = _folder()
    path = folder / f"{key[:40]}.bin" if folder else None
    with global_compiler_lock:
        result = _read(path) if path else None
        if result is None:
            result = _compile(source, name, key, arguments, callback, options)
            if path:
                _write(path, result)
        if callback:
            symbol = result.fndesc.llvm_cfunc_wrapper_name
            return Compiled(None, _object_code(result).get_pointer_to_function(symbol), result)
        return Compiled(result.entry_point, 0, result)


@functools.cache
def kernel(source: str, arity: int, *, fastmath: frozenset[str] = frozenset({"contract"})) -> int:
    """The address of the inner loop ``kernel`` defined by ``source``.

    Args:
        source: Python text that defines ``kernel(p0.., s0.., n, extras)`` with ``arity`` pointers
            and strides, all integers (see kernels/abi.py).
        arity: the number of operands.
        fastmath: LLVM fast-math flags of the loop.
    """
    arguments = (POINTER_SIZED,) * (2 * arity + 2)
    options = {"error_model": "numpy", "fastmath": set(fastmath) or False}
    compiled = _load(source, "kernel", arguments, True, options)
    _alive.append(compiled)
    return compiled.address


def function(
    source: str, name: str, arguments: Sequence[Any], *, parallel: bool = False
) -> Callable[..., None]:
    """The fast callable of ``name`` in ``source``: no dispatch on types, the GIL released."""
    options = {"error_model": "numpy", "parallel": parallel}
    compiled = _load(source, name, arguments, False, options)
    _alive.append(compiled)
    assert compiled.entry is not None
    return compiled.entry


_alive: list[Compiled] = []
