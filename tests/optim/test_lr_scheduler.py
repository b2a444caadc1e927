"""Schedules of learning rates against PyTorch's."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import optim
from jitgrad.optim import lr_scheduler
from tests.oracle.libraries import jitgrad, torch_or_skip

EPOCHS = 24


def chained(lib: Any, o: Any) -> Any:
    s = lib.optim.lr_scheduler
    return s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)])


def sequential(lib: Any, o: Any) -> Any:
    s = lib.optim.lr_scheduler
    parts = [s.LinearLR(o, 0.1, 1.0, 3), s.CosineAnnealingLR(o, 6, 0.01), s.StepLR(o, 2, 0.5)]
    return s.SequentialLR(o, parts, [4, 12])


def nested(lib: Any, o: Any) -> Any:
    s = lib.optim.lr_scheduler
    first = s.SequentialLR(o, [s.LinearLR(o, 0.2, 1.0, 2), s.StepLR(o, 3, 0.7)], [3])
    o.step()  # or the next line is told that it steps too early
    return s.SequentialLR(o, [first, s.ExponentialLR(o, 0.9)], [9])


def make(name: str, **options: Any) -> tuple[str, Callable[[Any, Any], Any]]:
    described = ", ".join(f"{key}={value}" for key, value in options.items() if value is not None)
    described = re.sub(r"<function <lambda> at \w+>", "lambda", described)  # the same every time
    return f"{name}({described})", lambda lib, o: getattr(lib.optim.lr_scheduler, name)(
        o, **options
    )


SCHEDULES = [
    make("StepLR", step_size=3),
    make("StepLR", step_size=1, gamma=0.5),
    make("MultiStepLR", milestones=[3, 3, 7], gamma=0.5),
    make("ConstantLR"),
    make("ConstantLR", factor=0.5, total_iters=0),
    make("LinearLR"),
    make("LinearLR", start_factor=0.25, end_factor=0.5, total_iters=7),
    make("ExponentialLR", gamma=0.9),
    make("PolynomialLR", total_iters=30, power=2.0),
    make("PolynomialLR", total_iters=4),
    make("CosineAnnealingLR", T_max=5),
    make("CosineAnnealingLR", T_max=8, eta_min=0.01),
    make("CosineAnnealingWarmRestarts", T_0=3, T_mult=2, eta_min=0.01),
    make("CosineAnnealingWarmRestarts", T_0=4),
    make("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=3),
    make("CyclicLR", base_lr=[0.01, 0.02], max_lr=0.1, step_size_up=2, step_size_down=5,
         mode="triangular2"),
    make("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=3, mode="exp_range", gamma=0.9),
    make("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=3, cycle_momentum=False,
         scale_fn=lambda x: 1 / x, mode="own"),
    make("OneCycleLR", max_lr=0.3, total_steps=EPOCHS),
    make("OneCycleLR", max_lr=[0.3, 0.1], epochs=5, steps_per_epoch=5, three_phase=True,
         anneal_strategy="linear", pct_start=0.25),
    make("OneCycleLR", max_lr=0.3, total_steps=EPOCHS, cycle_momentum=False, div_factor=10.0),
    make("LambdaLR", lr_lambda=lambda epoch: 0.95**epoch),
    make("LambdaLR", lr_lambda=[lambda epoch: 1 / (1 + epoch), lambda epoch: 2.0]),
    make("MultiplicativeLR", lr_lambda=lambda epoch: 0.5 + 0.01 * epoch),
    ("ChainedScheduler", chained),
    ("SequentialLR", sequential),
    ("SequentialLR, nested", nested),
]  # fmt: skip
CLOSED = [
    "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR",
    "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "LambdaLR", "CyclicLR",
]  # fmt: skip


def optimizer_of(lib: Any, kind: str = "SGD", lr: Any = 0.1) -> Any:
    p, q = (lib.nn.Parameter(lib.ones(1)) for _ in range(2))
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(lib.optim, kind)([{"params": [p]}, {"params": [q], "lr": 0.05}], lr, **options)


def shown(scheduler: Any) -> list[Any]:
    """What a schedule has set, as plain numbers."""
    found = []
    for group in scheduler.optimizer.param_groups:
        found += [float(group["lr"]), group.get("momentum"), group.get("betas")]
    return [*found, *map(float, scheduler.get_last_lr()), getattr(scheduler, "last_epoch", None)]


def same(ours: Any, theirs: Any) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if b is None or isinstance(b, str):
            assert a == b
        else:
            np.testing.assert_allclose(a, b, 1e-12, 1e-15)


def alike(ours: Any, theirs: Any) -> None:
    """States that hold the same, keys included."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            alike(ours[key], theirs[key])
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            alike(a, b)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-12)
    else:
        assert ours == theirs


def ids(value: Any) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name, build", SCHEDULES, ids=ids)
def test_rates(name: str, build: Callable[..., Any], kind: str) -> None:
    runs = [build(lib, optimizer_of(lib, kind)) for lib in (jitgrad(), torch_or_skip())]
    for _ in range(EPOCHS):
        same(*map(shown, runs))
        for scheduler in runs:
            scheduler.optimizer.step()
            scheduler.step()
    alike(*(scheduler.state_dict() for scheduler in runs))


@pytest.mark.oracle
@pytest.mark.parametrize("name, build", SCHEDULES, ids=ids)
def test_going_on_from_a_state(name: str, build: Callable[..., Any]) -> None:
    """Loaded into new objects, a state goes on as if nothing had happened."""
    first = build(jg, optimizer_of(jg))
    for _ in range(5):
        first.optimizer.step()
        first.step()
    states = copy.deepcopy((first.state_dict(), first.optimizer.state_dict()))
    second = build(jg, optimizer_of(jg))
    second.load_state_dict(states[0])
    second.optimizer.load_state_dict(states[1])
    for _ in range(6):
        same(shown(second), shown(first))
        for scheduler in (first, second):
            scheduler.optimizer.step()
            scheduler.step()


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize(
    "name, build", [x for x in SCHEDULES if x[0].split("(")[0] in CLOSED], ids=ids
)
def test_any_epoch(name: str, build: Callable[..., Any]) -> None:
    runs = [build(lib, optimizer_of(lib)) for lib in (jitgrad(), torch_or_skip())]
    for epoch in (3, 11, 2, 0, 20):
        for scheduler in runs:
            scheduler.optimizer.step()
            scheduler.step(epoch)
        same(*map(shown, runs))


@pytest.mark.oracle
@pytest.mark.parametrize("name, build", SCHEDULES[:12], ids=ids)
def test_rates_that_are_tensors(name: str, build: Callable[..., Any]) -> None:
    runs = []
    for lib in (jitgrad(), torch_or_skip()):
        rate = lib.tensor(0.1, dtype=lib.float64)
        scheduler = build(lib, optimizer_of(lib, lr=rate))
        assert scheduler.optimizer.param_groups[0]["lr"] is rate
        runs.append(scheduler)
    for _ in range(8):
        same(*map(shown, runs))
        for scheduler in runs:
            scheduler.optimizer.step()
            scheduler.step()
    assert runs[0].get_last_lr()[0] is not runs[0].optimizer.param_groups[0]["lr"]


PLATEAUS = [
    {},
    {"patience": 2, "factor": 0.5},
    {"patience": 1, "cooldown": 3, "threshold": 0.1},
    {"patience": 0, "mode": "max", "threshold_mode": "abs", "threshold": 0.05},
    {"patience": 0, "min_lr": [0.01, 0.02], "eps": 1e-4},
    {"patience": 0, "mode": "max", "threshold": 0.2},
    {"patience": 1, "threshold_mode": "abs", "threshold": 0.3, "min_lr": 0.03},
]


@pytest.mark.oracle
@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateaus(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    measures = (np.linspace(1, 0.5, 40) + 0.2 * rng.normal(size=40)).tolist()
    runs = [
        lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer_of(lib), **options)
        for lib in (jitgrad(), torch_or_skip())
    ]
    for measure in measures:
        for scheduler in runs:
            scheduler.step(measure)
        same(*map(shown, runs))
    alike(*(scheduler.state_dict() for scheduler in runs))
    other = lr_scheduler.ReduceLROnPlateau(optimizer_of(jg), patience=99)
    other.load_state_dict(runs[0].state_dict())
    alike(other.state_dict(), runs[1].state_dict())


def told(act: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [str(w.message) for w in caught]


@pytest.mark.oracle
def test_warnings() -> None:
    def run(lib: Any) -> list[bool]:
        found = []

        def check(act: Callable[[], Any], phrase: str) -> None:
            found.append(any(phrase in message for message in told(act)))

        order = "Detected call of `lr_scheduler.step()` before `optimizer.step()`"
        overridden = "Seems like `optimizer.step()` has been overridden"
        o = optimizer_of(lib)
        o.step()  # before there is a schedule: does not count
        scheduler = lib.optim.lr_scheduler.StepLR(o, 2)
        check(scheduler.get_lr, "please use `get_last_lr()`")
        check(scheduler.step, order)
        check(scheduler.step, order)
        o = optimizer_of(lib)
        scheduler = lib.optim.lr_scheduler.ExponentialLR(o, 0.5)
        lib.optim.lr_scheduler.ExponentialLR(o, 0.5)
        o.step()
        check(scheduler.step, order)
        check(lambda: scheduler.step(3), "The epoch parameter in `scheduler.step()`")
        o = optimizer_of(lib)
        scheduler = lib.optim.lr_scheduler.ExponentialLR(o, 0.5)
        o.step = lambda: None
        check(scheduler.step, overridden)
        return found

    expected = [True, True, False, False, True, True]
    assert run(jitgrad()) == run(torch_or_skip()) == expected


class Halving:
    """A callable that has something to save."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, epoch: float) -> float:
        return self.base**epoch


def test_callables_keep_their_attributes() -> None:
    schedules = {
        "lr_lambdas": lambda f: lr_scheduler.LambdaLR(optimizer_of(jg), [f, lambda epoch: 1.0]),
        "_scale_fn_custom": lambda f: lr_scheduler.CyclicLR(
            optimizer_of(jg), 0.1, 0.2, 3, scale_fn=f
        ),
    }
    for key, build in schedules.items():
        state = build(Halving(0.5)).state_dict()
        saved = state[key]
        assert saved in ([{"base": 0.5}, None], {"base": 0.5})
        function = Halving(0.9)
        build(function).load_state_dict(state)
        assert function.base == 0.5 and state[key] is saved


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name, options",
    [
        ("LambdaLR", {"lr_lambda": [lambda epoch: 1.0]}),
        ("MultiplicativeLR", {"lr_lambda": 3}),
        ("ConstantLR", {"factor": 2}),
        ("LinearLR", {"start_factor": 0}),
        ("LinearLR", {"end_factor": 1.5}),
        ("ReduceLROnPlateau", {"factor": 1.0}),
        ("ReduceLROnPlateau", {"mode": "least"}),
        ("ReduceLROnPlateau", {"threshold_mode": "least"}),
        ("ReduceLROnPlateau", {"min_lr": [0.1]}),
        ("CyclicLR", {"base_lr": [0.1], "max_lr": 1}),
        ("CyclicLR", {"base_lr": 0.1, "max_lr": 1, "mode": "square"}),
        ("CosineAnnealingWarmRestarts", {"T_0": 0}),
        ("CosineAnnealingWarmRestarts", {"T_0": 1, "T_mult": 0}),
        ("CosineAnnealingWarmRestarts", {"T_0": 1, "eta_min": "0"}),
        ("OneCycleLR", {"max_lr": 1}),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 0}),
        ("OneCycleLR", {"max_lr": 1, "epochs": 0, "steps_per_epoch": 1}),
        ("OneCycleLR", {"max_lr": 1, "epochs": 1, "steps_per_epoch": 0}),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 3, "pct_start": 2}),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 3, "anneal_strategy": "square"}),
        ("StepLR", {"step_size": 1, "last_epoch": 3}),
        ("SequentialLR", {"schedulers": [], "milestones": []}),
        ("SequentialLR", {"schedulers": [3], "milestones": []}),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_refused(name: str, options: dict[str, Any]) -> None:
    messages = []
    for lib in (jitgrad(), torch_or_skip()):
        with pytest.raises((ValueError, TypeError, KeyError)) as caught:
            getattr(lib.optim.lr_scheduler, name)(optimizer_of(lib), **options)
        messages.append((caught.type, str(caught.value)[:40]))
    assert messages[0] == messages[1]


@pytest.mark.oracle
def test_refused_combinations() -> None:
    def attempts(lib: Any) -> list[Any]:
        s = lib.optim.lr_scheduler
        o, other = optimizer_of(lib), optimizer_of(lib)
        plain = lib.optim.Adagrad([lib.nn.Parameter(lib.ones(1))])
        one = s.OneCycleLR(o, 1.0, total_steps=1, cycle_momentum=False)
        o.step()
        one.step()
        acts = [
            lambda: s.StepLR(3, 1),
            lambda: s.ReduceLROnPlateau(3),
            lambda: s.CyclicLR(3, 1, 1),
            lambda: s.CyclicLR(plain, 0.1, 0.2),
            lambda: s.OneCycleLR(plain, 1.0, total_steps=3),
            one.step,
            lambda: s.SequentialLR(o, [s.StepLR(o, 1), s.StepLR(o, 1)], [1, 2]),
            lambda: s.SequentialLR(o, [s.StepLR(other, 1)], []),
            lambda: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
            lambda: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
            lambda: s.ChainedScheduler([]),
            lambda: s.CosineAnnealingWarmRestarts(o, 1).step(-1),
        ]
        found = []
        for act in acts:
            with pytest.raises((ValueError, TypeError)) as caught:
                act()
            found.append((caught.type, str(caught.value)[:40]))
        return found

    assert attempts(jitgrad()) == attempts(torch_or_skip())


def test_a_schedule_keeps_no_optimizer_alive() -> None:
    gc.disable()
    try:
        optimizer = optimizer_of(jg)
        scheduler = lr_scheduler.StepLR(optimizer, 1)
        optimizer.step()
        dead = weakref.ref(optimizer)
        del optimizer, scheduler
        assert dead() is None
    finally:
        gc.enable()


def test_copies() -> None:
    scheduler = lr_scheduler.StepLR(optimizer_of(jg), 1, 0.5)
    for twin in (copy.deepcopy(scheduler), pickle.loads(pickle.dumps(scheduler))):
        assert twin.optimizer is not scheduler.optimizer
        twin.optimizer.step()
        told(twin.step)
        assert twin.optimizer.param_groups[0]["lr"] == 0.05
    assert scheduler.optimizer.param_groups[0]["lr"] == 0.1


def test_the_base_class_has_no_rates() -> None:
    with pytest.raises(NotImplementedError):
        lr_scheduler.LRScheduler(optim.SGD([jg.nn.Parameter(jg.ones(1))]))
