"""PyTorch's database of optimizers, run on both libraries.

``torch.testing._internal.common_optimizers.optim_db`` lists for every optimizer the options worth
trying and those that it must refuse. Each set of options trains the same parameters for some steps
in both libraries; parameters, the optimizer's state and its ``repr`` must then agree.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from tests.oracle import opdb
from tests.oracle.libraries import jitgrad, torch_or_skip

STEPS = 10
DTYPES = ("float64", "float32")
_TOLERANCE = {"float64": 1e-11, "float32": 2e-5}
_ROUNDED = 1e-6  # where PyTorch computes in float32 whatever the parameters' dtype
_SHAPES = ((5, 4), (4,), (3, 2, 2), ())
_MATRICES = ((5, 4), (3, 6))

# An optimizer, or an optimizer and an aspect of it ("Adam: options") -> why it may differ.
EXCEPTIONS = {
    "SparseAdam: options": "there are no sparse gradients; dense ones are refused as by PyTorch",
    "SGD: differentiable": "PyTorch detaches the first gradient before it becomes the momentum",
}


@cache
def database() -> tuple[Any, ...]:
    """The entries of PyTorch's database."""
    torch_or_skip()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_optimizers import optim_db
    return tuple(optim_db)


@cache
def present() -> tuple[Any, ...]:
    """The entries whose optimizer jitgrad has by the same name."""
    return tuple(info for info in database() if hasattr(jitgrad().optim, info.name))


@dataclass(frozen=True)
class Case:
    """Options of an optimizer, and how its parameters are given."""

    name: str
    options: dict[str, Any]  # described as the samples of operators are (see opdb.py)
    groups: bool = False

    def __str__(self) -> str:
        return f"{self.name}({opdb.brief(self.options)}{', two groups' if self.groups else ''})"


def cases(info: Any) -> Iterator[Case]:
    """The options to try: the database's, those flags that PyTorch has on a CPU, two groups."""
    # Asked for another device, the database adds options that its CPU does not have.
    for given in info.optim_inputs_func(device="cuda"):
        yield Case(info.name, opdb.describe(given.kwargs))
    for flag in info.supported_impls:
        if flag != "differentiable":
            yield Case(info.name, {flag: True})
    if info.supports_param_groups:
        yield Case(info.name, {"lr": 0.02}, groups=True)


def _train(lib: Any, case: Case, dtype: str) -> tuple[list[Any], Any]:
    """Parameters and optimizer after the steps."""
    options = opdb.rebuild(lib, case.options, [])
    if lib is not jitgrad():
        options.pop("capturable", None)  # which PyTorch refuses on a CPU
    if case.name == "LBFGS":
        options["max_iter"] = 3  # where it has not converged yet, and everything is noise
    rng = np.random.default_rng(0)
    shapes = _MATRICES if case.name == "Muon" else _SHAPES
    starts = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    goals = [lib.tensor(rng.normal(size=shape).astype(dtype)) for shape in shapes]
    curved = [lib.tensor(rng.uniform(0.5, 2, size=shape).astype(dtype)) for shape in shapes]
    parameters = [lib.nn.Parameter(lib.tensor(start)) for start in starts]
    given: Any = parameters
    if case.groups:
        given = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.1}]
    optimizer = getattr(lib.optim, case.name)(given, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum(
            (weight * (p - goal) ** 2).sum() + (0.1 * p.sin()).sum()
            for p, goal, weight in zip(parameters, goals, curved, strict=True)
        )
        loss.backward()
        return loss

    # PyTorch's Muon rounds to bfloat16 on the way, which jitgrad does not have.
    torch = torch_or_skip()
    with mock.patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone):
        for _ in range(2 if case.name == "LBFGS" else STEPS):
            optimizer.step(closure)
    return parameters, optimizer


def plain(value: Any) -> Any:
    """A state without tensors: arrays, numbers and containers."""
    if hasattr(value, "detach"):
        return value.detach().numpy()
    if isinstance(value, dict):
        return {key: plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [plain(x) for x in value]
    return value


def _told(path: str, theirs: Any, ours: Any, tolerance: float) -> Iterator[str]:
    """Where two plain states differ."""
    if isinstance(theirs, dict):
        if not isinstance(ours, dict) or set(theirs) != set(ours):
            yield f"{path}: torch has {list(theirs)}, jitgrad {list(ours)}"
            return
        for key, value in theirs.items():
            yield from _told(f"{path}.{key}", value, ours[key], tolerance)
    elif isinstance(theirs, list):
        if len(theirs) != len(ours):
            yield f"{path}: torch has {len(theirs)} entries, jitgrad {len(ours)}"
            return
        for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            yield from _told(f"{path}[{i}]", a, b, tolerance)
    elif isinstance(theirs, np.ndarray | float):
        a, b = np.asarray(theirs), np.asarray(ours)
        both = isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray)
        if a.shape != b.shape or (both and a.dtype != b.dtype):
            yield f"{path}: torch {a.dtype}{a.shape}, jitgrad {b.dtype}{b.shape}"
        elif not np.allclose(a, b, tolerance, max(tolerance, _ROUNDED * (a.dtype == np.float32))):
            yield f"{path}: differs by {np.abs(a - b).max():.3g}"
    elif theirs != ours:
        yield f"{path}: torch {theirs!r}, jitgrad {ours!r}"


def compared(case: Case, dtype: str) -> list[str]:
    """What differs after the steps."""
    theirs, oracle = _train(torch_or_skip(), case, dtype)
    ours, optimizer = _train(jitgrad(), case, dtype)
    tolerance = _TOLERANCE[dtype]
    if opdb.tensors_in(case.options) or case.name == "NAdam":  # in tensors of float32
        tolerance = max(tolerance, _ROUNDED)
    if case.name == "LBFGS" and dtype == "float32":  # differences of nearly equal gradients
        tolerance = 5e-3
    expected = {"param": plain(theirs), **plain(oracle.state_dict())}
    got = {"param": plain(ours), **plain(optimizer.state_dict())}
    for group in (*expected["param_groups"], *got["param_groups"]):
        group.pop("capturable", None)
    told = list(_told(str(case), expected, got, tolerance))
    texts = (re.sub("    capturable: .*\n", "", repr(x)) for x in (oracle, optimizer))
    if len(set(texts)) > 1:
        told.append(f"{case}: torch shows {oracle!r}, jitgrad {optimizer!r}")
    return told


def differentiated(info: Any) -> list[str]:
    """What differs in the gradients of a loss after a recorded step (``differentiable``)."""
    if "differentiable" not in info.supported_impls:
        return []
    told: list[str] = []
    for given in info.optim_inputs_func(device="cpu"):
        case = Case(info.name, opdb.describe(given.kwargs))
        theirs, ours = (_gradients(lib, case) for lib in (torch_or_skip(), jitgrad()))
        told += _told(f"differentiable {case}", theirs, ours, _ROUNDED)
    return told


def _gradients(lib: Any, case: Case) -> list[Any]:
    """Derivatives with respect to where parameters began and to the gradients they followed.

    One step: PyTorch's formulas write over what they have saved in the one before.
    """
    rng = np.random.default_rng(0)

    def draw(shape: tuple[int, ...]) -> Any:
        return lib.tensor(rng.normal(size=shape), requires_grad=True)

    starts = [draw(shape) for shape in _SHAPES]
    followed = [draw(shape) for shape in _SHAPES]
    parameters = [start.clone() for start in starts]
    options = opdb.rebuild(lib, case.options, [])
    optimizer = getattr(lib.optim, case.name)(parameters, **options, differentiable=True)
    for p, gradient in zip(parameters, followed, strict=True):
        p.grad = gradient.clone()
    optimizer.step()
    loss = sum((p * p).sum() for p in parameters)
    sources = [*starts, *followed]
    found = lib.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)
    return plain(list(found))


def error_differences(info: Any) -> list[str]:
    """Options that jitgrad accepts though PyTorch refuses them, or refuses in other words."""
    torch, lib = torch_or_skip(), jitgrad()
    told: list[str] = []
    if info.optim_error_inputs_func is None:
        return told
    for wrong in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        given = wrong.optimizer_error_input
        params = [torch.nn.Parameter(torch.ones(2, 3))] if given.params is None else given.params
        try:
            built, options = _converted((params, given.kwargs), {})
        except opdb.Inconvertible:
            continue  # sparse parameters, which cannot even be made
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer = getattr(lib.optim, info.name)(built, **options)
                if wrong.error_on.name == "STEP_ERROR":
                    for p in built:
                        p.grad = p.detach().clone()
                    optimizer.step()
        except wrong.error_type as error:
            if not re.search(wrong.error_regex, str(error)):
                told.append(f"{given.desc}: {error} does not match {wrong.error_regex!r}")
        except Exception as error:
            told.append(f"{given.desc}: {error!r} is no {wrong.error_type.__name__}")
        else:
            told.append(f"{given.desc}: not refused")
    return told


def _converted(value: Any, known: dict[int, Any]) -> Any:
    """A value with jitgrad's tensors for PyTorch's; the same one for the same one."""
    torch, lib = torch_or_skip(), jitgrad()
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            tensor = opdb.Memory.of(value).build(lib)
            parameter = isinstance(value, torch.nn.Parameter)
            known[id(value)] = lib.nn.Parameter(tensor.detach()) if parameter else tensor
        return known[id(value)]
    if isinstance(value, dict):
        return {key: _converted(x, known) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_converted(x, known) for x in value)
    return value


def reason(info: Any, aspect: str) -> str | None:
    """Why an aspect of an optimizer may differ; None if it may not."""
    return EXCEPTIONS.get(info.name, EXCEPTIONS.get(f"{info.name}: {aspect}"))


def unexpected(info: Any) -> dict[str, list[str]]:
    """What differs in an optimizer, by aspect, exceptions left out."""
    found: dict[str, list[str]] = {}
    if reason(info, "options") is None:
        found["options"] = [
            line for case in cases(info) for dtype in DTYPES for line in compared(case, dtype)
        ]
    if reason(info, "differentiable") is None:
        found["differentiable"] = differentiated(info)
    found["errors"] = error_differences(info)
    return {aspect: told for aspect, told in found.items() if told}
