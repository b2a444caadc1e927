"""PyTorch's operator database, run on both libraries: what differs, operator by operator.

The wheel of PyTorch carries it (``torch.testing._internal``): sample inputs and error inputs of
some 600 operators. A sample is rebuilt for each library with the same memory, strides and
``requires_grad``; what a call then shows is compared by the facts of ``compare.py``.
"""

from __future__ import annotations

import itertools
import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from tests.oracle import compare
from tests.oracle.exceptions import reason
from tests.oracle.libraries import jitgrad, torch_or_skip

DTYPES = ("float64", "float32", "complex128", "int64", "bool")
# One operator or two for each template of kernels are run in these too, on the first samples.
FEW = {
    "bfloat16": (
        "add", "where", "sum", "prod", "std", "amax", "argmax", "cumsum", "cummax", "softmax",
        "log_softmax", "searchsorted", "gather", "scatter_add", "index_put",
        "index_add", "masked_fill", "cat", "tril", "matmul", "nn.functional.linear", "trace",
        "nn.functional.cross_entropy", "nn.functional.mse_loss", "nn.functional.gelu",
        "nn.functional.layer_norm", "nn.functional.batch_norm", "nn.functional.conv2d",
        "nn.functional.conv_transpose1d", "nn.functional.max_pool2d", "nn.functional.avg_pool2d",
        "nn.functional.interpolate", "nn.functional.embedding", "nn.functional.embedding_bag",
        "nn.functional.pad", "linspace", "clone", "unique",
    ),
    "float16": ("mul", "mean", "softmax", "matmul", "nn.functional.conv2d", "index_select"),
    "complex64": (
        "add", "mul", "div", "abs", "exp", "sum", "mean", "prod", "cumsum", "matmul", "fft.fft",
        "fft.irfft", "index_select", "linalg.inv", "linalg.svd",
    ),
}  # fmt: skip
FIRST, SPREAD, DRAWN = 3, 4, 64  # samples taken from the front, over the rest, of so many at most
LARGEST = 20_000  # elements of an input; larger samples test nothing that smaller ones do not

# Sums in another order, elementary functions rounded another way, both amplified by a formula.
_TOLERANCE = {
    "float64": (1e-9, 1e-9),
    "complex128": (1e-9, 1e-9),
    "float32": (1e-4, 2e-5),
    "complex64": (1e-4, 2e-5),
    "float16": (4e-3, 2e-3),
    "bfloat16": (3e-2, 1.6e-2),
}


class Inconvertible(Exception):
    """A sample holds what jitgrad does not have (a dtype, a layout, a callable)."""


@cache
def database() -> tuple[Any, ...]:
    """The entries of PyTorch's database; ImportError if its own dependencies are missing."""
    torch_or_skip()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return tuple(op_db)


def full_name(op: Any) -> str:
    """The name of an entry, its variant included."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def resolve(lib: Any, name: str) -> Any:
    """The function, Tensor method or attribute, or in-place method that a library has by this name.

    None if it has none.
    """
    found = lib
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            break
    if callable(found) or "." in name:
        return found if callable(found) else None
    method = getattr(lib.Tensor, name, None)
    if callable(method):
        return method
    if method is not None:  # x.T
        return lambda self: getattr(self, name)
    written = getattr(lib.Tensor, f"{name}_", None)  # exponential_
    if written is None:
        return None
    return lambda self, *args, **kwargs: written(self.clone(), *args, **kwargs)


@cache
def present() -> tuple[Any, ...]:
    """The entries whose operator jitgrad has by the same name."""
    return tuple(op for op in database() if resolve(jitgrad(), op.name) is not None)


def dtypes_of(op: Any) -> tuple[str, ...]:
    """Those of DTYPES that PyTorch supports for an entry, and of FEW that name it."""
    torch = torch_or_skip()
    supported = op.supported_dtypes("cpu")
    few = (d for d, names in FEW.items() if op.name in names)
    return tuple(d for d in (*DTYPES, *few) if getattr(torch, d) in supported)


# Samples ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Memory:
    """A tensor as its memory and the way to read it; bfloat16, which NumPy has not, as its bits."""

    flat: np.ndarray
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    requires_grad: bool
    bits: tuple[str, ...] = ()  # conj, neg

    @staticmethod
    def of(tensor: Any) -> Memory:
        torch = torch_or_skip()
        name = str(tensor.dtype).removeprefix("torch.")
        there = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not there or not hasattr(jitgrad(), name):
            raise Inconvertible(f"{tensor.layout}, {tensor.device}, {name}")
        if tensor.numel() > LARGEST:
            raise Inconvertible("size")
        plain = tensor.detach()
        bits = tuple(bit for bit in ("conj", "neg") if getattr(tensor, f"is_{bit}")())
        for bit in bits:
            plain = plain.conj() if bit == "conj" else torch._neg_view(plain)
        itemsize = plain.element_size()
        count = plain.untyped_storage().nbytes() // itemsize
        memory = plain.as_strided((count,), (1,), 0)
        flat = (memory.view(torch.int16) if name == "bfloat16" else memory).numpy().copy()
        return Memory(
            flat, name, tuple(plain.shape), plain.stride(), plain.storage_offset(),
            tensor.requires_grad, bits,
        )  # fmt: skip

    def build(self, lib: Any) -> Any:
        flat = lib.from_numpy(self.flat.copy()).view(getattr(lib, self.dtype)).clone()
        tensor = flat.as_strided(self.shape, self.strides, self.offset).detach()
        for bit in self.bits:
            tensor = (tensor.conj() if bit == "conj" else tensor._neg_view()).detach()
        return tensor.requires_grad_() if self.requires_grad else tensor


@dataclass(frozen=True)
class Name:
    """A constant that both libraries have (a dtype, a memory format)."""

    text: str


def describe(value: Any) -> Any:
    """A value of a sample without PyTorch in it; Inconvertible if that cannot be."""
    torch = torch_or_skip()
    if isinstance(value, torch.Tensor):
        return Memory.of(value)
    if isinstance(value, torch.dtype | torch.memory_format):
        name = str(value).removeprefix("torch.")
        if not hasattr(jitgrad(), name):
            raise Inconvertible(name)
        return Name(name)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.layout):
        raise Inconvertible(str(value))
    if type(value).__module__.startswith("torch.nn"):  # options of a function
        raise Inconvertible(repr(value))
    if isinstance(value, tuple):
        return tuple(describe(x) for x in value)
    if isinstance(value, list):
        return [describe(x) for x in value]
    if isinstance(value, dict):
        return {key: describe(x) for key, x in value.items()}
    if callable(value):
        raise Inconvertible(repr(value))
    return value


def rebuild(lib: Any, value: Any, tensors: list[Any]) -> Any:
    """The described value in one library; its tensors are also added to ``tensors``."""
    if isinstance(value, Memory):
        tensors.append(value.build(lib))
        return tensors[-1]
    if isinstance(value, Name):
        return getattr(lib, value.text)
    if isinstance(value, tuple):
        return tuple(rebuild(lib, x, tensors) for x in value)
    if isinstance(value, list):
        return [rebuild(lib, x, tensors) for x in value]
    if isinstance(value, dict):
        return {key: rebuild(lib, x, tensors) for key, x in value.items()}
    return value


def brief(x: Any) -> str:
    """A described value in few words."""
    if isinstance(x, Memory):
        dense = "" if np.prod(x.shape) == x.flat.size else f" strides {x.strides}"
        return f"{x.dtype}{list(x.shape)}{dense}"
    if isinstance(x, tuple | list):
        return f"[{', '.join(map(brief, x))}]"
    if isinstance(x, dict):
        return ", ".join(f"{key}={brief(value)}" for key, value in x.items())
    return x.text if isinstance(x, Name) else repr(x)


def tensors_in(described: Any) -> list[Memory]:
    """The tensors of a described value."""
    if isinstance(described, Memory):
        return [described]
    if isinstance(described, dict):
        described = list(described.values())
    if isinstance(described, tuple | list):
        return [found for x in described for found in tensors_in(x)]
    return []


@dataclass(frozen=True)
class Sample:
    """One call: its first argument, the others, the keywords."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @staticmethod
    def of(sample: Any) -> Sample:
        return Sample(describe(sample.input), describe(sample.args), describe(sample.kwargs))

    def __str__(self) -> str:
        words = [brief(self.input), *map(brief, self.args)]
        return ", ".join(words + [f"{key}={brief(x)}" for key, x in self.kwargs.items()])

    def without_gradients(self) -> Sample:
        return Sample(*(_no_grad(x) for x in (self.input, self.args, self.kwargs)))


def _memories(value: Any) -> Iterator[Memory]:
    if isinstance(value, Memory):
        yield value
    elif isinstance(value, tuple | list | dict):
        for x in value.values() if isinstance(value, dict) else value:
            yield from _memories(x)


def _no_grad(value: Any) -> Any:
    if isinstance(value, Memory):
        return replace(value, requires_grad=False)
    if isinstance(value, tuple | list):
        return type(value)(_no_grad(x) for x in value)
    if isinstance(value, dict):
        return {key: _no_grad(x) for key, x in value.items()}
    return value


def samples(op: Any, dtype: str) -> Iterator[Sample]:
    """The first samples of an entry, and some spread over the rest."""
    torch = torch_or_skip()
    d = getattr(torch, dtype)
    wants = (
        ("float" in dtype or "complex" in dtype)
        and op.supports_autograd
        and d in op.supported_backward_dtypes("cpu")
    )
    with warnings.catch_warnings(), _generators_kept():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        drawn = list(itertools.islice(op.sample_inputs("cpu", d, requires_grad=wants), DRAWN))
    step = max(1, (len(drawn) - FIRST) // SPREAD)
    for sample in drawn[:FIRST] + ([] if dtype in FEW else drawn[FIRST::step][:SPREAD]):
        try:
            yield Sample.of(sample)
        except Inconvertible:
            continue


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Puts back the process-wide generators, which the database draws from."""
    mine, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(mine)
        np.random.set_state(numpy_state)  # noqa: NPY002


# Running ------------------------------------------------------------------------------------------
Facts = dict[str, Any]


@dataclass
class Run:
    """What one library shows of a call."""

    facts: Facts = field(default_factory=dict)
    error: Exception | None = None


def run(lib: Any, sample: Sample, call: Callable[..., Any], options: compare.Options) -> Run:
    """Call, and write down outputs, inputs afterwards and derivatives."""
    tensors: list[Any] = []
    built = rebuild(lib, (sample.input, sample.args, sample.kwargs), tensors)
    known = {f"input {i}": t for i, t in enumerate(tensors)}
    sources = {name: t for name, t in known.items() if t.requires_grad}
    facts: Facts = {}
    lib.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(built[0], *built[1], **built[2])
            outputs = dict(compare._flatten("output", result, facts))
            for path, leaf in outputs.items():
                facts.update(compare._leaf_facts(lib, path, leaf, known, options))
            for i, t in enumerate(tensors):
                facts[f"input {i} afterwards: value"] = compare._values(t)
            roots = {
                path: x
                for path, x in outputs.items()
                if isinstance(x, lib.Tensor) and x.requires_grad
            }
            if options.grad and roots:
                facts.update(compare._gradient_facts(lib, roots, sources, options))
        except Exception as error:
            return Run(error=error)
    return Run(facts)


def _aspect(key: str, variant: str) -> str:
    if key.startswith("second gradient"):
        return "second gradient"
    if variant != "function":
        return variant
    if key.startswith("gradient"):
        return "gradient"
    return "strides" if key.endswith((": strides", ": storage_offset")) else "function"


def _ignored(key: str) -> bool:
    return key.endswith((": type", ": container", ": is_leaf"))


def differences(
    theirs: Run, ours: Run, variant: str, options: compare.Options
) -> Iterator[tuple[str, str]]:
    """Pairs of an aspect and what differs in it."""
    if ours.error is not None:
        yield variant, f"only jitgrad raised {type(ours.error).__name__}: {ours.error}"
        return
    for key in dict.fromkeys((*theirs.facts, *ours.facts)):
        if _ignored(key):
            continue
        if key not in theirs.facts or key not in ours.facts:
            who = "torch" if key in theirs.facts else "jitgrad"
            yield _aspect(key, variant), f"{key}: only with {who}"
            continue
        a, b = theirs.facts[key], ours.facts[key]
        told = compare._difference(key, a, b, "float32", options, ("torch", "jitgrad"))
        if told:
            yield _aspect(key, variant), f"{key}: {told}"


# Their samples have the table before the row numbers, unlike their arguments.
TABLE_FIRST = ("nn.functional.embedding", "nn.functional.embedding_bag")


def _table_first(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda table, index, *args, **kwargs: function(index, table, *args, **kwargs)


def _variants(op: Any, sample: Sample) -> Iterator[tuple[str, Callable[[Any], Any], int]]:
    """The ways to make the call: aspect, the call per library, derivatives to compare."""
    torch, lib = torch_or_skip(), jitgrad()
    name = op.name
    if name in TABLE_FIRST:
        yield "function", lambda of: _table_first(resolve(of, name)), 2
        return
    yield "function", lambda of: resolve(of, name), 2
    if not isinstance(sample.input, Memory) or "." in name:
        return

    def method(of: Any) -> Any:
        return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)

    def inplace(of: Any) -> Any:
        def write(self: Any, *args: Any, **kwargs: Any) -> Any:
            target = self.clone()
            result = getattr(target, f"{name}_")(*args, **kwargs)
            assert result is target, "the in-place variant returns its tensor"
            return result

        return write

    if hasattr(torch.Tensor, name) and hasattr(torch, name):
        yield "method", method, 0
    if op.inplace_variant is not None and hasattr(torch.Tensor, f"{name}_"):
        yield "in-place", inplace, 1
    if hasattr(lib, name) and hasattr(torch, name) and op.supports_out:

        def written(of: Any) -> Any:
            function = resolve(of, name)

            def write(self: Any, *args: Any, **kwargs: Any) -> Any:
                expected = function(self, *args, **kwargs)
                if isinstance(expected, of.Tensor):
                    out = of.empty_like(expected)
                else:
                    out = tuple(of.empty_like(x) for x in expected)
                function(self, *args, out=out, **kwargs)
                return out if isinstance(out, of.Tensor) else list(out)

            return write

        yield "out", written, 0


def _tolerance(dtype: str, sample: Sample) -> tuple[float, float]:
    """The errors allowed for a sample: those of its coarsest dtype."""
    names = {dtype, *(x.dtype for x in _memories((sample.input, sample.args, sample.kwargs)))}
    known = (_TOLERANCE[name] for name in names if name in _TOLERANCE)
    return max(known, default=_TOLERANCE["float32"])


def compared(op: Any, dtype: str) -> dict[str, list[str]]:
    """What differs between the libraries on an entry's samples, by aspect."""
    torch, lib = torch_or_skip(), jitgrad()
    found: dict[str, list[str]] = {}
    for sample in samples(op, dtype):
        rtol, atol = _tolerance(dtype, sample)
        for variant, call, order in _variants(op, sample):
            if dtype in FEW and variant != "function":  # the same kernels
                continue
            second = order == 2 and dtype in ("float64", "complex128") and op.supports_gradgrad
            options = compare.Options(
                grad=2 if second else min(order, 1), grad_fn=False, version=False, rtol=rtol,
                atol=atol, strides="loose",
            )  # fmt: skip
            case = sample if order else sample.without_gradients()
            theirs = run(torch, case, call(torch), options)
            if theirs.error is not None and options.grad == 2:
                options = replace(options, grad=1)
                theirs = run(torch, case, call(torch), options)
            if theirs.error is not None:
                continue
            ours = run(lib, case, call(lib), options)
            for aspect, told in differences(theirs, ours, variant, options):
                found.setdefault(aspect, []).append(f"({case}) {told}")
    return found


def unexpected(op: Any, found: dict[str, list[str]], dtype: str = "") -> dict[str, list[str]]:
    """Those differences that no exception covers."""
    variant = op.variant_test_name
    return {a: told for a, told in found.items() if reason(op.name, variant, a, dtype) is None}


# Errors -------------------------------------------------------------------------------------------
ALIKE = 0.3  # of the words of PyTorch's message must be in ours
# jitgrad takes numbers wherever it takes tensors, and may name a missing tensor otherwise.
_STRICTER = ("must be Tensor, not", "invalid combination of arguments", "for 'torch._C.TensorBase'")
_STOP = {"a", "an", "the", "of", "to", "in", "is", "be", "but", "got", "and", "or", "for", "with"}


def _words(message: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", message.lower().replace("torch.", ""))) - _STOP


def error_differences(op: Any) -> list[str]:
    """Error inputs that jitgrad accepts, or refuses by another type or in other words."""
    torch, lib = torch_or_skip(), jitgrad()
    if op.error_inputs_func is None:
        return []
    options = compare.Options(grad=0, grad_fn=False, version=False)
    told = []
    with warnings.catch_warnings(), _generators_kept():
        warnings.simplefilter("ignore")
        cases = list(itertools.islice(op.error_inputs("cpu"), 24))
    for case in cases:
        try:
            sample = Sample.of(case.sample_input)
        except Inconvertible:
            continue
        theirs = run(torch, sample, resolve(torch, op.name), options)
        if theirs.error is None:
            continue
        if any(phrase in str(theirs.error) for phrase in _STRICTER):
            continue
        ours = run(lib, sample, resolve(lib, op.name), options)
        expected = compare._builtin_type(theirs.error)
        if ours.error is None:
            told.append(f"({sample}) must raise {theirs.error!r}")
        elif not isinstance(ours.error, expected):
            told.append(f"({sample}) torch {theirs.error!r}, jitgrad {ours.error!r}")
        else:
            said = str(theirs.error)
            wanted = set() if "invalid combination" in said else _words(said.split("\n")[0])
            if wanted and len(wanted & _words(str(ours.error))) < ALIKE * len(wanted):
                told.append(f"({sample}) torch {theirs.error!r}, jitgrad {ours.error!r}")
    return told


def report(found: dict[str, list[str]]) -> str:
    """The first differences of every aspect, for a failing test."""
    lines: list[str] = []
    for aspect, told in found.items():
        lines.append(f"{aspect}: {len(told)} differences")
        lines += [f"    {line}" for line in told[:4]]
    return "\n".join(lines)


__all__: Sequence[str] = ("compared", "database", "dtypes_of", "error_differences", "present")
