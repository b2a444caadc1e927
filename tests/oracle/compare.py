"""The comparison: what one library shows of a call, as plain facts, against the other's.

Both sides run the same lambda on the same inputs. What can be seen afterwards (outputs, inputs,
gradients, second gradients, exceptions) is written down as a flat dict of facts, path -> value;
the two dicts are then compared key by key, so that a failure names every difference at once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.oracle.inputs import STAND_INS, Arg, Built, Defaults, Spec, build, draw, settle
from tests.oracle.libraries import jitgrad, torch_installed, torch_or_skip

Facts = dict[str, Any]

# Relative and absolute error allowed per dtype: a few units in the last place, for sums taken in
# another order and elementary functions rounded another way.
TOLERANCES = {
    "float64": (1e-12, 1e-13),
    "float32": (2e-6, 1e-6),
    "float16": (2e-3, 1e-4),
    "bfloat16": (1.6e-2, 1e-3),
    "complex128": (1e-12, 1e-13),
    "complex64": (2e-6, 1e-6),
}

# Errors grow with each derivative: how many times the tolerance, by its order.
GROWTH = (1, 2, 4)


@dataclass(frozen=True)
class Options(Defaults):
    """What to compare and how; every field, with those of `Defaults`, is a keyword of `check`."""

    grad: int = 2  # derivatives compared: 0 none, 1 gradients, 2 also their gradients
    exact: bool = False  # bit for bit, NaN payloads apart: for data movement
    rtol: float | None = None  # overrides TOLERANCES
    atol: float | None = None
    strides: str = "exact"  # "loose" ignores dimensions of size <= 1, "ignore" all of them
    offset: bool = False  # storage offsets even of outputs that share memory with nothing
    grad_fn: bool = True  # the names of nodes
    version: bool = True  # version counters
    warns: str | None = None  # a phrase both libraries must warn with
    untouched: bool = True  # check_raises: the inputs must be as before the call
    # the library under test; only the tests of this helper put something else here
    subject: Any = None


def check(fn: Callable[..., Any], *specs: Spec, **options: Any) -> Any:
    """Asserts that `fn(lib, *inputs)` shows the same on PyTorch and jitgrad; returns the latter's.

    A spec is a shape (a tuple), exact values (a list or an array) or `arg(...)`. Floating inputs
    require grad and lie non-contiguously unless told otherwise. Without PyTorch the test still
    runs jitgrad's side, so that it cannot crash, and is then skipped.
    """
    __tracebackhide__ = True
    chosen = Options(**options)
    settled = settle(specs, chosen)
    ours = _observe(chosen.subject or jitgrad(), fn, settled, chosen)
    if ours.error is not None and not torch_installed():
        raise ours.error
    theirs = _observe(torch_or_skip(), fn, settled, chosen)

    if theirs.error is not None:
        raise AssertionError(
            f"{_quote(fn)}: torch itself raised, use check_raises (or grad=, warns=): "
            f"{_show_error(theirs.error)}\n{_show_inputs(settled)}"
        ) from theirs.error
    if ours.error is not None:
        raise AssertionError(
            f"{_quote(fn)}: only jitgrad raised {_show_error(ours.error)}\n{_show_inputs(settled)}"
        ) from ours.error
    _compare(theirs.facts, ours.facts, fn, settled, chosen)
    return ours.outputs


def check_raises(
    fn: Callable[..., Any],
    *specs: Spec,
    match: str,
    kind: type[BaseException] | None = None,
    **options: Any,
) -> None:
    """Asserts that both libraries refuse `fn` with the same type and with `match` in the message.

    jitgrad may raise a subclass of torch's type (or of `kind`). `match` is a phrase, not a
    pattern. The inputs must come out as they went in (values, version), unless `untouched=False`.
    """
    __tracebackhide__ = True
    chosen = Options(**{"grad": 0, **options})
    settled = settle(specs, chosen)
    lib = chosen.subject or jitgrad()
    sides = {"jitgrad": _observe(lib, fn, settled, chosen)}
    if torch_installed():
        sides["torch"] = _observe(torch_or_skip(), fn, settled, chosen)

    said = "".join(
        f"\n  {name} {_show_error(side.error) if side.error else 'raised nothing'}"
        for name, side in sides.items()
    )
    context = f"{said}\n{_show_inputs(settled)}"
    for name, side in sides.items():
        if side.error is None:
            raise AssertionError(f"{_quote(fn)}: {name} must raise{context}")
        if match not in str(side.error):
            raise AssertionError(
                f"{_quote(fn)}: no {match!r} in {name}'s message{context}"
            ) from side.error
    expected = kind or _builtin_type(sides.get("torch", sides["jitgrad"]).error)
    for name, side in sides.items():
        if not isinstance(side.error, expected):
            raise AssertionError(
                f"{_quote(fn)}: {name} must raise {expected.__name__}{context}"
            ) from side.error
    if chosen.untouched:
        before = _input_facts([build(lib, spec) for spec in settled], chosen)
        # A backward pass that fails half-way has filled some leaves' .grad, in torch as well.
        before = {key: fact for key, fact in before.items() if not key.endswith(": grad")}
        after = {key: sides["jitgrad"].facts.get(key) for key in before}
        _compare(before, after, fn, settled, chosen, names=("before", "after"))
    torch_or_skip()  # what could be checked without torch has been


@dataclass
class Observation:
    facts: Facts
    outputs: Any = None
    error: Exception | None = None


def _observe(lib: Any, fn: Callable[..., Any], settled: list[Arg], chosen: Options) -> Observation:
    """Runs one side and writes down what it shows; its exception is a result like any other."""
    inputs = [build(lib, spec) for spec in settled]
    known = {f"input {i}": built.tensor for i, built in enumerate(inputs)}
    facts: Facts = {}
    try:
        result = _call(fn, lib, list(known.values()), chosen)
        outputs = dict(_flatten("output", result, facts))
        for path, leaf in outputs.items():
            facts.update(_leaf_facts(lib, path, leaf, known, chosen))
        facts.update(_input_facts(inputs, chosen))
        if chosen.grad:
            sources = {
                f"input {i}": built.tensor
                for i, (built, spec) in enumerate(zip(inputs, settled, strict=True))
                if spec.requires_grad
            }
            roots = {
                path: leaf
                for path, leaf in outputs.items()
                if isinstance(leaf, lib.Tensor) and leaf.requires_grad
            }
            facts.update(_gradient_facts(lib, roots, sources, chosen))
        return Observation(facts, result)
    except Exception as error:
        return Observation(_input_facts(inputs, chosen), error=error)


def _call(fn: Callable[..., Any], lib: Any, tensors: list[Any], chosen: Options) -> Any:
    if chosen.warns is None:
        return fn(lib, *tensors)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs = fn(lib, *tensors)
    if not any(chosen.warns in str(warning.message) for warning in caught):
        said = [str(warning.message) for warning in caught]
        raise AssertionError(f"did not warn with {chosen.warns!r} but with {said}")
    return outputs


# --------------------------------------------------------------------------------- facts


def _flatten(path: str, value: Any, facts: Facts) -> Iterator[tuple[str, Any]]:
    """The leaves of nested outputs; the containers' types and lengths go into `facts`."""
    if isinstance(value, dict):
        facts[f"{path}: keys"] = list(value)
        for key, item in value.items():
            yield from _flatten(f"{path}[{key!r}]", item, facts)
    elif isinstance(value, tuple | list):
        # Named results (torch.return_types.max) are the same kind if their fields are.
        fields = getattr(type(value), "__match_args__", ())
        name = type(value).__name__
        facts[f"{path}: container"] = fields or name
        facts[f"{path}: length"] = len(value)
        for i, item in enumerate(value):
            yield from _flatten(f"{path}[{i}]", item, facts)
    else:
        yield path, value


def _leaf_facts(lib: Any, path: str, value: Any, known: dict[str, Any], chosen: Options) -> Facts:
    if isinstance(value, lib.Tensor):
        return _tensor_facts(path, value, known, chosen)
    facts: Facts = {f"{path}: type": type(value).__name__}
    if isinstance(value, np.ndarray):
        facts[f"{path}: strides"] = _strides(value.shape, value.strides, chosen)
        facts[f"{path}: value"] = Values(value.copy(), value.dtype.name)
    elif isinstance(value, str) or type(value).__module__.split(".")[0] in ("torch", "jitgrad"):
        facts[f"{path}: value"] = _without_library(str(value))  # text, dtype, device, layout ...
    else:
        facts[f"{path}: value"] = value
    return facts


def _tensor_facts(path: str, tensor: Any, known: dict[str, Any], chosen: Options) -> Facts:
    facts: Facts = {
        f"{path}: type": type(tensor).__name__,
        f"{path}: dtype": _without_library(str(tensor.dtype)),
        f"{path}: shape": tuple(tensor.shape),
        f"{path}: strides": _strides(tensor.shape, tensor.stride(), chosen),
        f"{path}: requires_grad": tensor.requires_grad,
        f"{path}: is_leaf": tensor.is_leaf,
        f"{path}: is a view": tensor._is_view(),
        f"{path}: value": _values(tensor),
    }
    if chosen.grad_fn:
        node = tensor.grad_fn
        facts[f"{path}: grad_fn"] = None if node is None else _without_library(node.name())
    if chosen.version:
        facts[f"{path}: version"] = _version(tensor)
    same = next((name for name, other in known.items() if other is tensor), None)
    facts[f"{path}: is the same object as"] = same
    if same is None:
        shared = next((name for name, other in known.items() if _share(tensor, other)), None)
        facts[f"{path}: shares memory with"] = shared
        if shared or chosen.offset:
            facts[f"{path}: storage_offset"] = tensor.storage_offset()
        known[path] = tensor
    return facts


def _input_facts(inputs: list[Built], chosen: Options) -> Facts:
    """What the call did to its inputs, down to the gaps between their elements."""
    facts: Facts = {}
    for i, built in enumerate(inputs):
        path = f"input {i} afterwards"
        facts.update(_tensor_facts(path, built.tensor, {"itself": built.tensor}, chosen))
        facts[f"{path}: memory"] = _values(built.memory)
        if built.tensor.is_leaf:
            facts.update(_grad_facts(f"{path}: grad", built.tensor.grad))
    return facts


def _gradient_facts(
    lib: Any, roots: dict[str, Any], sources: dict[str, Any], chosen: Options
) -> Facts:
    """Gradients of all roots together under random cotangents, then the gradients of those."""
    if not roots or not sources:
        return {}
    second = chosen.grad >= 2
    rng = np.random.default_rng(chosen.seed + 1)
    # Transposed in memory: a backward kernel that takes its gradient for contiguous shows here.
    cotangents = [_cotangent(lib, rng, root, second) for root in roots.values()]
    first = lib.autograd.grad(
        list(roots.values()),
        list(sources.values()),
        cotangents,
        create_graph=second,
        allow_unused=True,
    )
    facts: Facts = {}
    for name, grad in zip(sources, first, strict=True):
        facts.update(_grad_facts(f"gradient of {name}", grad))
    if not second:
        return facts

    # Whether a vanishing second derivative is undefined or zeros is left to the formulas.
    wrt = sources | {f"cotangent of {p}": c for p, c in zip(roots, cotangents, strict=True)}
    again: Any = [None] * len(wrt)
    differentiable = [grad for grad in first if grad is not None and grad.requires_grad]
    if differentiable:
        again = lib.autograd.grad(
            differentiable,
            list(wrt.values()),
            [_cotangent(lib, rng, grad, False) for grad in differentiable],
            allow_unused=True,
        )
    for (name, source), grad in zip(wrt.items(), again, strict=True):
        facts[f"second gradient of {name}: value"] = _values(
            lib.zeros_like(source) if grad is None else grad
        )
    return facts


def _grad_facts(path: str, grad: Any) -> Facts:
    if grad is None:
        return {path: None}
    return {
        f"{path}: dtype": _without_library(str(grad.dtype)),
        f"{path}: shape": tuple(grad.shape),
        f"{path}: value": _values(grad),
    }


def _cotangent(lib: Any, rng: np.random.Generator, output: Any, requires_grad: bool) -> Any:
    spec = Arg(
        shape=tuple(output.shape),
        dtype=_without_library(str(output.dtype)),
        layout="transposed",
        requires_grad=requires_grad,
        low=-1.0,
        high=1.0,
    )
    return build(lib, replace(spec, values=draw(rng, spec))).tensor


@dataclass(frozen=True)
class Values:
    """A tensor's values, and the dtype they had before NumPy, which lacks some, took them."""

    array: np.ndarray
    dtype: str


def _values(tensor: Any) -> Values:
    plain = tensor.detach()
    dtype = _without_library(str(plain.dtype))
    if dtype in STAND_INS:
        plain = plain.float()
    return Values(plain.numpy(force=True).copy(), dtype)  # force: also torch's lazy zeros


def _version(tensor: Any) -> int | None:
    try:
        return tensor._version
    except RuntimeError:  # inference tensors have none
        return None


def _share(a: Any, b: Any) -> bool:
    mine, yours = a.untyped_storage(), b.untyped_storage()
    return mine.nbytes() > 0 and mine.data_ptr() == yours.data_ptr()


def _strides(shape: Any, strides: Any, chosen: Options) -> Any:
    if chosen.strides == "ignore":
        return None
    if chosen.strides == "loose":
        return tuple(
            stride if size > 1 else "any" for size, stride in zip(shape, strides, strict=True)
        )
    return tuple(strides)


def _without_library(text: str) -> str:
    return re.sub(r"\b(torch|jitgrad)(\.|::autograd::)", "", text)


def _builtin_type(error: BaseException | None) -> type[BaseException]:
    """The exception's type, or where torch has one of its own the builtin it derives from."""
    assert error is not None
    return next(t for t in type(error).__mro__ if t.__module__ == "builtins")


# ---------------------------------------------------------------------------- comparison


def _compare(
    expected: Facts,
    actual: Facts,
    fn: Callable[..., Any],
    settled: list[Arg],
    chosen: Options,
    names: tuple[str, str] = ("torch", "jitgrad"),
) -> None:
    __tracebackhide__ = True
    # Python floats, and values cast on the way, are as inaccurate as the coarsest input.
    coarsest = max(
        (spec.dtype for spec in settled if spec.dtype in TOLERANCES),
        key=lambda dtype: TOLERANCES[dtype],
        default="float64",
    )
    differences = []
    for key in [*expected, *(key for key in actual if key not in expected)]:
        if key not in expected or key not in actual:
            name, facts = (names[0], expected) if key in expected else (names[1], actual)
            differences.append(f"{key}: only with {name}: {_brief(facts[key])}")
            continue
        difference = _difference(key, expected[key], actual[key], coarsest, chosen, names)
        if difference:
            differences.append(f"{key}: {difference}")
    if differences:
        lines = "\n  ".join(differences)
        raise AssertionError(
            f"{_quote(fn)}: {names[1]} differs from {names[0]}\n  {lines}\n{_show_inputs(settled)}"
        )


def _difference(
    key: str, a: Any, b: Any, coarsest: str, chosen: Options, names: tuple[str, str]
) -> str | None:
    if isinstance(a, Values) and isinstance(b, Values):
        return _values_difference(key, a, b, chosen, names)
    same = type(a) is type(b)
    if same and isinstance(a, float | complex):
        rtol, atol = _tolerance(key, coarsest, chosen)
        same = bool(np.isclose(b, a, rtol, atol, equal_nan=True))
    elif same:
        same = a == b
    return None if same else f"{names[0]} {_brief(a)}, {names[1]} {_brief(b)}"


def _values_difference(
    key: str, expected: Values, actual: Values, chosen: Options, names: tuple[str, str]
) -> str | None:
    a, b = expected.array, actual.array
    if a.shape != b.shape or expected.dtype != actual.dtype:
        return f"{names[0]} {_brief(expected)}, {names[1]} {_brief(actual)}"
    if chosen.exact or expected.dtype not in TOLERANCES:
        allowed = "exactly"
        wrong = ~((a == b) | ((a != a) & (b != b)))
        if a.dtype.kind == "f" and "grad" not in key:  # sums of gradients may turn -0.0 into 0.0
            wrong |= (np.signbit(a) != np.signbit(b)) & (a == a)
    else:
        rtol, atol = _tolerance(key, expected.dtype, chosen)
        allowed = f"within rtol {rtol:.2g}, atol {atol:.2g}"
        with np.errstate(invalid="ignore", over="ignore"):
            wrong = ~np.isclose(b, a, rtol, atol, equal_nan=True)
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f" at {where}" if where else ""
    return (
        f"{int(wrong.sum())} of {a.size} differ (to agree {allowed}), first{at}: "
        f"{names[0]} {a[where]!s}, {names[1]} {b[where]!s}"
    )


def _tolerance(key: str, dtype: str, chosen: Options) -> tuple[float, float]:
    rtol, atol = TOLERANCES[dtype]
    growth = GROWTH[2 if key.startswith("second") else 1 if "grad" in key else 0]
    return (
        rtol * growth if chosen.rtol is None else chosen.rtol,
        atol * growth if chosen.atol is None else chosen.atol,
    )


# ------------------------------------------------------------------------------ messages


def _quote(fn: Callable[..., Any]) -> str:
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__qualname__", repr(fn)).replace(".<locals>", "")
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def _show_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _show_inputs(settled: list[Arg]) -> str:
    lines = (f"input {i} was {spec}: {_brief(spec.values)}" for i, spec in enumerate(settled))
    return "\n".join(lines)


def _brief(value: Any) -> str:
    if isinstance(value, Values):
        value = value.array
    if isinstance(value, np.ndarray):
        with np.printoptions(precision=6, threshold=12, edgeitems=2):
            body = np.array2string(value, separator=", ").replace("\n", "")
        return f"{value.dtype}{list(value.shape)} {body}"
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
