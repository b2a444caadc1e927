"""Loss scaling, and autocast where it is switched off."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

import jitgrad as jg
from tests.oracle.libraries import jitgrad, torch_or_skip


def problem(lib: Any) -> tuple[Any, Any]:
    p = lib.nn.Parameter(lib.tensor([1.0, 2.0]))
    return p, lib.optim.SGD([p], lr=0.1)


@pytest.mark.oracle
def test_a_scaled_training_is_that_of_torch() -> None:
    def run(lib: Any) -> list[Any]:
        p, optimizer = problem(lib)
        scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        found: list[Any] = [scaler.state_dict()]
        for factor in (1.0, math.inf, 1.0, 2.0, 1.0, math.nan, 1.0):
            optimizer.zero_grad()
            loss = (p * p).sum() * factor
            scaler.scale(loss).backward()
            if factor == 2.0:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            found += [p.tolist(), scaler.get_scale(), scaler.state_dict()]
        scaler.update(8.0)
        scaled = scaler.scale([p, (p[0],)])
        return [*found, scaler.get_scale(), scaled[0].tolist(), scaled[1][0].tolist()]

    assert run(jitgrad()) == run(torch_or_skip())


@pytest.mark.oracle
def test_calls_in_the_wrong_order() -> None:
    def attempts(lib: Any) -> list[Any]:
        found = []

        def check(act: Any) -> None:
            with pytest.raises((RuntimeError, AssertionError, ValueError)) as caught:
                act()
            found.append((caught.type, str(caught.value)[:40]))

        p, optimizer = problem(lib)
        scaler = lib.amp.GradScaler("cpu")
        check(lambda: scaler.step(optimizer))
        check(scaler.update)
        scaler.scale(p.sum()).backward()
        check(scaler.update)
        scaler.unscale_(optimizer)
        check(lambda: scaler.unscale_(optimizer))
        check(lambda: pickle.dumps(scaler))
        scaler.step(optimizer)
        check(lambda: scaler.step(optimizer))
        check(lambda: scaler.unscale_(optimizer))
        check(lambda: scaler.step(optimizer, closure=lambda: 0))
        check(lambda: scaler.scale(3))
        check(lambda: scaler.load_state_dict({}))
        check(lambda: lib.amp.GradScaler("cpu", growth_factor=1.0))
        check(lambda: lib.amp.GradScaler("cpu", backoff_factor=1.0))
        return found

    assert attempts(jitgrad()) == attempts(torch_or_skip())


def test_a_scaler_goes_on_from_its_state() -> None:
    p, optimizer = problem(jg)
    scaler = jg.amp.GradScaler("cpu", init_scale=2.0, growth_interval=5)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    other = jg.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    for twin in (other, pickle.loads(pickle.dumps(scaler))):
        assert twin.state_dict() == scaler.state_dict()
        assert twin.scale(jg.ones(1)).item() == 2.0
    other.set_growth_factor(3.0)
    other.set_backoff_factor(0.25)
    other.set_growth_interval(7)
    assert (other.get_growth_factor(), other.get_backoff_factor()) == (3.0, 0.25)
    assert other.get_growth_interval() == 7


def test_a_disabled_scaler_does_nothing() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = jg.amp.GradScaler()
    assert not scaler.is_enabled() and not jg.amp.GradScaler("cpu", enabled=False).is_enabled()
    p, optimizer = problem(jg)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == pytest.approx([0.9, 1.9])
    assert scaler.get_scale() == 1.0 and scaler.state_dict() == {}


def test_autocast() -> None:
    with jg.autocast("cpu", enabled=False):
        assert (jg.ones(1) + 1).dtype is jg.float32
    assert jg.amp.autocast("cpu", enabled=False)(lambda x: x)(3) == 3
    with pytest.raises(NotImplementedError, match=r"enabled=False.*\.to\(dtype\)"):
        jg.autocast("cpu", dtype=jg.bfloat16)
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        jg.autocast(3)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="CUDA is not available"):
        jg.autocast("cuda")
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        jg.autocast("cpu", dtype=jg.float64)
    assert not jg.amp.is_autocast_available("cpu")

    class Square(jg.autograd.Function):
        @staticmethod
        @jg.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @jg.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * grad

    x = jg.tensor(3.0, requires_grad=True)
    Square.apply(x).backward()
    assert x.grad.item() == 6.0
