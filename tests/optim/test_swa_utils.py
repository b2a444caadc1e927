"""Averaged models against PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.optim import swa_utils
from tests.optim.test_lr_scheduler import alike, optimizer_of, same, shown
from tests.oracle.libraries import jitgrad, torch_or_skip


def model_of(lib: Any) -> Any:
    nn = lib.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).double()
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for p in model.parameters():
            p.copy_(lib.tensor(rng.normal(size=tuple(p.shape))))
    return model


def batches(lib: Any) -> list[Any]:
    rng = np.random.default_rng(1)
    return [lib.tensor(rng.normal(size=(5, 3))) for _ in range(4)]


def averaged(lib: Any, function: str | None, multi: bool, buffers: bool) -> Any:
    """An averaged model after some steps of training, and what it returns."""
    utils, model = lib.optim.swa_utils, model_of(lib)
    options: dict[str, Any] = {}
    if function is not None:
        name = f"get_{function}_{'multi_' if multi else ''}avg_fn"
        given = getattr(utils, name)(*([0.7] if function == "ema" else []))
        options = {"multi_avg_fn" if multi else "avg_fn": given}
    mean = utils.AveragedModel(model, use_buffers=buffers, **options)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(lib):
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step()
        mean.update_parameters(model)
    utils.update_bn([[x, None] for x in batches(lib)], mean)
    return mean, mean(batches(lib)[0])


@pytest.mark.oracle
@pytest.mark.parametrize("buffers", [False, True])
@pytest.mark.parametrize(
    "function, multi", [(None, False), ("swa", False), ("swa", True), ("ema", False), ("ema", True)]
)
def test_averages(function: str | None, multi: bool, buffers: bool) -> None:
    if buffers and (function, multi) == ("swa", True):
        pytest.skip("PyTorch has no such division of an integer buffer")
    runs = [averaged(lib, function, multi, buffers) for lib in (jitgrad(), torch_or_skip())]
    (ours, output), (theirs, expected) = runs
    np.testing.assert_allclose(output.detach().numpy(), expected.detach().numpy(), 1e-6)
    state, oracle = ours.state_dict(), theirs.state_dict()
    assert list(state) == list(oracle)
    for key, value in oracle.items():
        np.testing.assert_allclose(state[key].numpy(), value.numpy(), 1e-6)
    assert ours.module[1].momentum == 0.1 and ours.training


def test_update_bn_of_a_model_without_any() -> None:
    model = jg.nn.Linear(1, 1).eval()
    swa_utils.update_bn([jg.ones(1, 1)], model)
    assert not model.training


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        {"swa_lr": 0.01},
        {"swa_lr": [0.01, 0.2], "anneal_epochs": 4, "anneal_strategy": "linear"},
        {"swa_lr": 0.01, "anneal_epochs": 0},
    ],
    ids=str,
)
def test_swalr(options: dict[str, Any]) -> None:
    runs = []
    for lib in (jitgrad(), torch_or_skip()):
        optimizer = optimizer_of(lib)
        before = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        runs.append((before, lib.optim.swa_utils.SWALR(optimizer, **options)))
    for step in range(14):
        for before, scheduler in runs:
            scheduler.optimizer.step()
            (before if step % 4 == 3 else scheduler).step()
        same(*(shown(scheduler) for _, scheduler in runs))
    alike(*(scheduler.state_dict() for _, scheduler in runs))
    _, scheduler = runs[0]
    twin = swa_utils.SWALR(optimizer_of(jg), **options)
    twin.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    alike(twin.state_dict(), scheduler.state_dict())


@pytest.mark.oracle
def test_refused() -> None:
    def attempts(lib: Any) -> list[Any]:
        utils = lib.optim.swa_utils
        found = []
        for act in (
            lambda: utils.get_ema_avg_fn(1.5),
            lambda: utils.get_ema_multi_avg_fn(-0.5),
            lambda: utils.SWALR(optimizer_of(lib), 0.1, anneal_strategy="square"),
            lambda: utils.SWALR(optimizer_of(lib), 0.1, anneal_epochs=-1),
            lambda: utils.SWALR(optimizer_of(lib), [0.1]),
            lambda: utils.AveragedModel(lib.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max),
        ):
            with pytest.raises((ValueError, AssertionError)) as caught:
                act()
            found.append((caught.type, str(caught.value)[:40]))
        return found

    assert attempts(jitgrad()) == attempts(torch_or_skip())
