"""PyTorch's database of modules, run on both libraries.

``torch.testing._internal.common_modules.module_db`` lists for every module of ``torch.nn``
arguments of its constructor and of its call. Each is built in both libraries with the same
parameters; what it returns in training and in evaluation, the gradients of inputs and parameters,
its buffers afterwards, its ``repr`` and its state must then agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tests.oracle import opdb
from tests.oracle.libraries import jitgrad, torch_or_skip

ASPECTS = ("made", "forward", "gradient", "state", "repr")
SAMPLES = 8  # of a module, spread over all
_TOLERANCE = 1e-8

# A module, or a module and an aspect of it ("nn.Linear: gradient"), or a sample's description
# ("nn.Linear: no_batch_dim") -> why it may differ.
_BY_REASON: dict[str, tuple[str, ...]] = {
    "its arguments are modules, which the database hands over made": ("nn.TransformerEncoder",),
}
EXCEPTIONS = {key: why for why, keys in _BY_REASON.items() for key in keys}


@cache
def database() -> tuple[Any, ...]:
    """The entries of PyTorch's database."""
    torch_or_skip()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    return tuple(module_db)


@cache
def present() -> tuple[Any, ...]:
    """The entries whose module jitgrad has by the same name."""
    return tuple(info for info in database() if opdb.resolve(jitgrad(), name_of(info)))


def name_of(info: Any) -> str:
    """The name under which a module is found in a library: ``nn.Linear``."""
    return f"nn.{info.module_cls.__name__}"


@dataclass(frozen=True)
class Sample:
    """How to make a module and how to call it, without PyTorch in it."""

    made: tuple[Any, Any]  # arguments and keywords of the constructor
    called: tuple[Any, Any]
    training: bool
    description: str

    def __str__(self) -> str:
        mode = "training" if self.training else "evaluation"
        parts = [opdb.brief(x) for x in (*self.made, *self.called) if x]
        return f"{self.description or 'sample'}, {mode}: {' '.join(parts)}"


def samples(info: Any) -> Iterator[Sample]:
    """The samples of an entry, some of them, in both modes where they differ."""
    torch = torch_or_skip()
    for training in (True, False) if info.train_and_eval_differ else (True,):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            drawn = info.module_inputs_func(
                info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
            )
        for given in drawn[:: max(1, len(drawn) // SAMPLES)]:
            if given.forward_input is None:
                continue
            try:
                yield Sample(
                    _described(given.constructor_input),
                    _described(given.forward_input),
                    training,
                    str(given.desc),
                )
            except opdb.Inconvertible:
                continue


def _described(given: Any) -> tuple[Any, Any]:
    return opdb.describe(tuple(given.args)), opdb.describe(given.kwargs)


def _build(lib: Any, info: Any, sample: Sample) -> Any:
    args, kwargs = opdb.rebuild(lib, sample.made, [])
    lib.manual_seed(0)
    module = opdb.resolve(lib, name_of(info))(*args, **kwargs).double()
    if hasattr(module, "has_uninitialized_params") and module.has_uninitialized_params():
        args, kwargs = opdb.rebuild(lib, sample.called, [])
        module(*args, **kwargs)  # a lazy module takes its shapes from its first input
    return module.train(sample.training)


def _tensors(value: Any) -> list[Any]:
    """The tensors of an output, in order."""
    if isinstance(value, list | tuple):
        return [t for x in value for t in _tensors(x)]
    return [value] if hasattr(value, "detach") else []


def _run(lib: Any, module: Any, sample: Sample) -> dict[str, dict[str, np.ndarray]]:
    """What a module shows, by aspect: outputs, gradients, buffers afterwards."""
    inputs: list[Any] = []
    args, kwargs = opdb.rebuild(lib, sample.called, inputs)
    lib.manual_seed(0)
    outputs = _tensors(module(*args, **kwargs))
    found = {"forward": {f"output {i}": _plain(t) for i, t in enumerate(outputs)}}
    sources = {f"input {i}": t for i, t in enumerate(inputs) if t.requires_grad}
    sources |= {name: p for name, p in module.named_parameters() if p.requires_grad}
    roots = [t for t in outputs if t.requires_grad]
    if roots and sources:
        rng = np.random.default_rng(0)
        weights = [lib.tensor(rng.uniform(0.5, 1.5, tuple(t.shape))) for t in roots]
        grads = lib.autograd.grad(roots, list(sources.values()), weights, allow_unused=True)
        found["gradient"] = {
            name: np.zeros(tuple(t.shape)) if g is None else _plain(g)
            for (name, t), g in zip(sources.items(), grads, strict=True)
        }
    found["state"] = {name: _plain(t) for name, t in module.state_dict().items()}
    return found


def _plain(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy()


def compared(info: Any) -> dict[str, list[str]]:
    """What differs between the libraries on an entry's samples, by aspect."""
    torch, lib = torch_or_skip(), jitgrad()
    found: dict[str, list[str]] = {}

    def tell(aspect: str, text: str) -> None:
        if reason(info, aspect, sample.description) is None:
            found.setdefault(aspect, []).append(f"({sample}) {text}")

    given = list(samples(info))
    if not given and reason(info, "made") is None:
        found["made"] = ["no sample of it can be made"]
    for sample in given:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            oracle = _build(torch, info, sample)
            try:
                module = _build(lib, info, sample)
                _load(lib, module, oracle)
            except Exception as error:
                tell("made", f"{type(error).__name__}: {error}")
                continue
            if repr(module) != repr(oracle):
                tell("repr", f"torch {oracle!r}, jitgrad {module!r}")
            theirs = _run(torch, oracle, sample)
            try:
                ours = _run(lib, module, sample)
            except Exception as error:
                tell("forward", f"{type(error).__name__}: {error}")
                continue
        for aspect in dict.fromkeys((*theirs, *ours)):
            for text in _told(theirs.get(aspect, {}), ours.get(aspect, {})):
                tell(aspect, text)
    return found


def _load(lib: Any, module: Any, oracle: Any) -> None:
    """Take over PyTorch's parameters, through a state that must fit exactly."""
    state = {name: lib.from_numpy(_plain(t).copy()) for name, t in oracle.state_dict().items()}
    assert list(module.state_dict()) == list(state), f"{list(module.state_dict())}, {list(state)}"
    module.load_state_dict(state)


def _told(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> Iterator[str]:
    if list(theirs) != list(ours):
        yield f"torch has {list(theirs)}, jitgrad {list(ours)}"
        return
    for name, a in theirs.items():
        b = ours[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            yield f"{name}: torch {a.dtype}{a.shape}, jitgrad {b.dtype}{b.shape}"
        elif not np.allclose(a, b, _TOLERANCE, _TOLERANCE, equal_nan=True):
            yield f"{name}: differs by {np.nanmax(np.abs(a - b)):.3g}"


def reason(info: Any, aspect: str, description: str = "") -> str | None:
    """Why an aspect of a module, or one of its samples, may differ; None if it may not."""
    name = name_of(info)
    for key in (name, f"{name}: {aspect}", f"{name}: {description}"):
        if key in EXCEPTIONS:
            return EXCEPTIONS[key]
    return None
