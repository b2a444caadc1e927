"""Loss scaling and autocast."""

from __future__ import annotations

import math
import pickle
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.amp import _casts
from tests.oracle import opdb
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


LISTED = sorted(
    {
        f"{place}.{name}".lstrip(".")
        for lists in (_casts.LOWER, _casts.FLOAT32)
        for place, names in lists.items()
        if place != "Tensor"
        for name in names.split()
    }
)


# The database calls einsum in a way of its own, and max_pool3d with indices, which casts nothing.
NOT_RUN = ("einsum", "nn.functional.max_pool3d")


def entry_of(name: str) -> Any:
    """The entry of PyTorch's database for an operator; None if it has none."""
    found = [op for op in opdb.database() if op.name == name and not op.variant_test_name]
    return found[0] if found else None


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", LISTED)
def test_autocast_casts_as_torch_does(name: str, dtype: str) -> None:
    op = entry_of(name)
    if op is None or name in NOT_RUN:
        pytest.skip("not in the database, or in another form")
    torch, lib = torch_or_skip(), jitgrad()
    # Samples in float32 and cast here: the database has none for a dtype PyTorch refuses.
    sample = next(iter(opdb.samples(op, "float32")))

    def run(of: Any) -> Any:
        def cast(x: Any) -> Any:
            if isinstance(x, of.Tensor):
                return x.detach().to(getattr(of, dtype)) if x.is_floating_point() else x
            if isinstance(x, list | tuple):
                return type(x)(map(cast, x))
            return {k: cast(v) for k, v in x.items()} if isinstance(x, dict) else x

        built = cast(opdb.rebuild(of, (sample.input, sample.args, sample.kwargs), []))
        of.manual_seed(0)
        with of.autocast("cpu"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = opdb.resolve(of, name)(built[0], *built[1], **built[2])
        tensors = [result] if isinstance(result, of.Tensor) else list(result)
        return [t for t in tensors if isinstance(t, of.Tensor)]

    try:
        theirs = run(torch)
    except RuntimeError:
        pytest.skip("PyTorch refuses the sample")
    for a, b in zip(run(lib), theirs, strict=True):
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        if b.is_floating_point() and not name.startswith("linalg"):  # not unique, or noise in it
            expected = b.double().numpy()
            noise = 0.05 * np.abs(expected).max(initial=1)
            np.testing.assert_allclose(a.double().numpy(), expected, 0.05, noise)


@pytest.mark.oracle
def test_a_training_in_autocast_is_that_of_torch() -> None:
    def run(lib: Any) -> list[Any]:
        rng = np.random.default_rng(0)
        nn = lib.nn
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
        with lib.no_grad():
            for p in model.parameters():
                p.copy_(lib.tensor(rng.normal(size=tuple(p.shape)).astype("float32")))
        x = lib.tensor(rng.normal(size=(6, 4)).astype("float32"))
        optimizer, scaler = lib.optim.SGD(model.parameters(), lr=0.1), lib.amp.GradScaler("cpu")
        found: list[Any] = []
        for _ in range(3):
            optimizer.zero_grad()
            with lib.autocast("cpu", dtype=lib.bfloat16):
                output = model(x)
                loss = nn.functional.mse_loss(output, lib.ones_like(output))
                with lib.autocast("cpu", enabled=False):
                    inner = nn.functional.linear(x, model[0].weight)
            dtypes = [str(t.dtype).split(".")[1] for t in (output, loss, inner)]
            assert dtypes == ["bfloat16", "float32", "float32"]
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.item())
        return [*found, *(p.detach().numpy() for p in model.parameters())]

    for a, b in zip(run(jitgrad()), run(torch_or_skip()), strict=True):
        np.testing.assert_allclose(a, b, 0.03, 0.03)


def test_autocast_puts_everything_back() -> None:
    before = jg.mm, jg.Tensor.__matmul__, jg.nn.functional.linear
    x = jg.ones(2, 2)
    assert not jg.is_autocast_enabled("cpu") and jg.get_autocast_dtype("cpu") is jg.bfloat16
    with pytest.raises(ZeroDivisionError), jg.autocast("cpu", dtype=jg.float16):
        assert jg.is_autocast_enabled("cpu") and jg.get_autocast_dtype("cpu") is jg.float16
        assert (x @ x).dtype is jg.float16 and (x @ x.double().float()).dtype is jg.float16
        with jg.autocast("cpu"):
            assert x.mm(x).dtype is jg.bfloat16
        with jg.autocast("cpu", enabled=False):
            assert not jg.is_autocast_enabled("cpu") and x.mm(x).dtype is jg.float32
        assert jg.mm(x, x).dtype is jg.float16 and x.double().mm(x.double()).dtype is jg.float64
        out = jg.empty(2, 2)
        assert jg.mm(x, x, out=out) is out and out.dtype is jg.float32
        1 / 0
    assert (jg.mm, jg.Tensor.__matmul__, jg.nn.functional.linear) == before
    assert jg.autocast("cpu")(lambda: x @ x)().dtype is jg.bfloat16


def test_autocast_is_one_threads_own() -> None:
    entered, checked = threading.Event(), threading.Event()

    def other() -> None:
        with jg.autocast("cpu"):
            entered.set()
            checked.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(10)
    x = jg.ones(2, 2)
    here = (x @ x).dtype, jg.is_autocast_enabled("cpu")
    checked.set()
    thread.join()
    assert here == (jg.float32, False)


def test_autocast_that_is_not_enabled() -> None:
    with jg.autocast("cpu", enabled=False):
        assert (jg.ones(1) + 1).dtype is jg.float32
    assert jg.amp.autocast("cpu", enabled=False)(lambda x: x)(3) == 3
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        jg.autocast(3)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="CUDA is not available"):
        jg.autocast("cuda")
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        jg.autocast("cpu", dtype=jg.float64)
    assert jg.amp.is_autocast_available("cpu") and not jg.amp.is_autocast_available("cuda")


@pytest.mark.oracle
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_functions_in_autocast(enabled: bool, cast: bool) -> None:
    def run(lib: Any) -> list[str]:
        seen: list[Any] = []

        class Product(lib.autograd.Function):
            @staticmethod
            @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32 if cast else None)
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(x, y)
                seen.extend((x.dtype, lib.is_autocast_enabled("cpu")))
                return x @ y

            @staticmethod
            @lib.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, grad: Any) -> Any:
                x, y = ctx.saved_tensors
                seen.extend((grad.dtype, lib.is_autocast_enabled("cpu")))
                return grad.to(y.dtype) @ y.t(), x.t() @ grad.to(x.dtype)

        x = lib.ones(2, 2, requires_grad=True)
        with lib.autocast("cpu", enabled=enabled):
            result = Product.apply(x.bfloat16() if cast and enabled else x, x)
        result.float().sum().backward()
        seen.extend((result.dtype, x.grad.dtype))
        return [str(value).split(".")[-1] for value in seen]

    assert run(jitgrad()) == run(torch_or_skip())
