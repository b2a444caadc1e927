"""jitgrad.func, compared with torch.func."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from tests.oracle import libraries


@pytest.fixture(params=["jitgrad", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Any:
    return libraries.jitgrad() if request.param == "jitgrad" else libraries.torch_or_skip()


def f64(lib: Any, values: Any, **options: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64, **options)


def equal(x: Any, expected: Any) -> None:
    np.testing.assert_allclose(x.detach().numpy(), np.array(expected), rtol=1e-12)


X = [0.5, 1.0, 2.0]


def cubes(x: Any) -> Any:
    return x * x * x


# Gradients ----------------------------------------------------------------------------------------
def test_grad_of_every_order(lib: Any) -> None:
    f = lambda x: x**4  # noqa: E731
    for expected in (16.0, 32.0, 48.0, 48.0, 24.0):
        equal(f(f64(lib, 2.0)), expected)
        f = lib.func.grad(f)


def test_grad_leaves_no_graph(lib: Any) -> None:
    x = f64(lib, X)
    g = lib.func.grad(lambda x: cubes(x).sum())(x)
    equal(g, [0.75, 3.0, 12.0])
    assert not g.requires_grad and x.grad is None and not x.requires_grad


def test_grad_is_differentiable_by_what_required_grad_before(lib: Any) -> None:
    x, w = f64(lib, 2.0, requires_grad=True), f64(lib, 3.0, requires_grad=True)
    (second,) = lib.autograd.grad(lib.func.grad(lambda x: x**3)(x), x)
    equal(second, 12.0)
    (mixed,) = lib.autograd.grad(lib.func.grad(lambda x: w * x * x)(f64(lib, 2.0)), w)
    equal(mixed, 4.0)
    with lib.no_grad():
        g = lib.func.grad(lambda x: x**3)(x)
    equal(g, 12.0)
    assert not g.requires_grad


def test_inner_and_outer_variables_are_not_confused(lib: Any) -> None:
    func, x = lib.func, f64(lib, 2.0)
    equal(func.grad(lambda x: x * func.grad(lambda y: x + y)(x))(x), 1.0)
    one = f64(lib, 1.0)

    def derivative(f: Any, x: Any) -> Any:
        return func.jvp(f, (x,), (one,))[1]

    equal(derivative(lambda x: x * derivative(lambda y: x + y, one), x), 1.0)
    equal(derivative(lambda x: x * func.grad(lambda y: x * y)(one), x), 4.0)
    equal(func.grad(lambda x: x * derivative(lambda y: x * y, one))(x), 4.0)


def test_pytrees_of_arguments(lib: Any) -> None:
    Pair = namedtuple("Pair", ["a", "b"])
    tree = {"w": f64(lib, X), "pair": Pair(f64(lib, 2.0), [f64(lib, 3.0)])}
    g = lib.func.grad(lambda t: (t["w"] * t["pair"].a * t["pair"].b[0]).sum())(tree)
    assert type(g) is dict and type(g["pair"]) is Pair and type(g["pair"].b) is list
    equal(g["w"], [6.0, 6.0, 6.0])
    equal(g["pair"].a, 10.5)
    equal(g["pair"].b[0], 7.0)


def test_argnums_aux_and_value(lib: Any) -> None:
    func, x, y = lib.func, f64(lib, 2.0), f64(lib, 3.0)
    f = lambda x, y: x * x * y  # noqa: E731
    equal(func.grad(f, argnums=1)(x, y), 4.0)
    equal(func.grad(f, argnums=-2)(x, y), 12.0)
    gx, gy = func.grad(f, argnums=(0, 1))(x, y)
    equal(gx, 12.0)
    equal(gy, 4.0)
    g, value = func.grad_and_value(f)(x, y)
    equal(value, 12.0)
    g, (value, aux) = func.grad_and_value(lambda x: (x * x, {"seen": x}), has_aux=True)(x)
    equal(g, 4.0)
    equal(aux["seen"], 2.0)
    assert not aux["seen"].requires_grad
    g, aux = func.grad(lambda x: (x * x, x + 1), has_aux=True)(x)
    equal(aux, 3.0)


def test_value_and_grad_is_the_other_order() -> None:
    jg = libraries.jitgrad()
    value, g = jg.func.value_and_grad(lambda x: x * x)(f64(jg, 3.0))
    equal(value, 9.0)
    equal(g, 6.0)


def test_errors(lib: Any) -> None:
    func, x = lib.func, f64(lib, X)
    for f, args, message in (
        (func.grad(cubes), (x,), "to return a scalar Tensor, got tensor with 1 dims"),
        (func.grad(lambda x: 3.0), (x,), "to return a Tensor, got"),
        (func.grad(lambda x: x.sum(), has_aux=True), (x,), r"should be a tuple: \(output, aux\)"),
        (func.grad(lambda x: x.sum(), argnums=2), (x,), "Got argnum=2, but only 1 positional"),
        (func.grad(lambda x: x.sum(), argnums="x"), (x,), "argnums must be int or Tuple"),
        (func.jacrev(cubes, argnums=(0, 0)), (x,), "must be unique"),
        (func.jvp, (cubes, x, x), "Expected primals to be a tuple"),
        (func.jvp, (cubes, (x,), (x, x)), "same python structure"),
        (lambda: func.jvp(lambda x: f64(lib, 1.0), (x,), (x,), strict=True), (), "is independent"),
    ):
        with pytest.raises(RuntimeError, match=message):
            f(*args)


# Products and matrices ----------------------------------------------------------------------------
def test_vjp(lib: Any) -> None:
    x, y = f64(lib, X), f64(lib, 3.0)
    value, pull = lib.func.vjp(lambda x, y: {"a": x * y, "b": [x.sum()]}, x, y)
    equal(value["a"], [1.5, 3.0, 6.0])
    for _ in range(2):
        gx, gy = pull({"a": x, "b": [y]})
        equal(gx, [4.5, 6.0, 9.0])
        equal(gy, 5.25)
    (g,) = lib.func.vjp(cubes, x)[1](x)
    equal(g, [0.375, 3.0, 24.0])
    _, _, aux = lib.func.vjp(lambda x: (x * 2, x), x, has_aux=True)
    equal(aux, X)


def test_jvp(lib: Any) -> None:
    x, t = f64(lib, X), f64(lib, [1.0, 0.0, 2.0])
    _, moved = lib.func.jvp(lambda d: (cubes(d["x"]), d["x"].sum()), ({"x": x},), ({"x": t},))
    equal(moved[0], [0.75, 0.0, 24.0])
    equal(moved[1], 3.0)
    _, moved, aux = lib.func.jvp(lambda x: (x * 2, x), (x,), (t,), has_aux=True)
    equal(aux, X)
    equal(lib.func.jvp(lambda x: f64(lib, 1.0), (x,), (t,))[1], 0.0)


def test_jacobians_of_pytrees(lib: Any) -> None:
    x = f64(lib, X)
    for transform in (lib.func.jacrev, lib.func.jacfwd):
        first, rest = transform(lambda x, y: (x * y, {"k": (x * x).sum()}), argnums=(0, 1))(x, x)
        equal(first[0], np.diag(X))
        equal(first[1], np.diag(X))
        equal(rest["k"][0], [1.0, 2.0, 4.0])
        equal(rest["k"][1], [0.0] * 3)
        matrix, aux = transform(lambda x: (cubes(x), x), has_aux=True)(x)
        equal(matrix, np.diag([0.75, 3.0, 12.0]))
        equal(aux, X)


def test_jacobians_compose_in_every_order(lib: Any) -> None:
    func, x = lib.func, f64(lib, X)
    f = lambda x: cubes(x).sum() * x.exp().sum()  # noqa: E731
    a, e = np.array(X), np.exp(X)
    expected = (
        np.diag(6 * a * e.sum() + (a**3).sum() * e)
        + np.outer(3 * a * a, e)
        + np.outer(e, 3 * a * a)
    )
    for outer in (func.jacrev, func.jacfwd):
        for inner in (func.jacrev, func.jacfwd, func.grad):
            equal(outer(inner(f))(x), expected)
    equal(func.hessian(f)(x), expected)
    third = func.jacfwd(func.jacfwd(func.jacrev(lambda x: cubes(x).sum())))(x)
    equal(third, 6 * np.eye(3)[:, :, None] * np.eye(3)[:, None, :])


def test_hessian_through_every_kind_of_row(lib: Any) -> None:
    w = f64(lib, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def f(x: Any) -> Any:
        y = (w @ x).softmax(0).log() + x[1:].logsumexp(0)
        z = x.clone()
        z[0] = y.sum()
        return (z.cumsum(0) * z).norm() + z.prod() + z.var()

    x = f64(lib, X)
    found = lib.func.hessian(f)(x)
    equal(found, lib.func.jacrev(lib.func.jacrev(f))(x).detach().numpy())
    equal(found, found.t().numpy())


# vmap and functional_call -------------------------------------------------------------------------
def test_vmap(lib: Any) -> None:
    x = f64(lib, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    v = f64(lib, X)
    equal(lib.func.vmap(lambda r: r.sum())(x), [6.0, 15.0])
    equal(lib.func.vmap(lambda r, v: (r * v).sum(), in_dims=(0, None))(x, v), [8.5, 19.0])
    equal(lib.func.vmap(lambda c: c * 2, in_dims=1, out_dims=1)(x), (x * 2).numpy())
    out = lib.func.vmap(lambda d: {"s": d["r"].sum()}, in_dims=({"r": 0},))({"r": x})
    equal(out["s"], [6.0, 15.0])
    equal(lib.func.vmap(lib.func.grad(lambda r: cubes(r).sum()))(x), (3 * x * x).numpy())
    equal(lib.func.jacrev(lib.func.vmap(lambda r: r.sum()))(x)[0], [[1.0] * 3, [0.0] * 3])
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        lib.func.vmap(lambda a, b: a)(x, v)
    with pytest.raises(ValueError):
        lib.func.vmap(lambda a, b: a, in_dims=(0,))(x, x)


def test_functional_call(lib: Any) -> None:
    model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 1)).double()
    values = {name: p.detach() * 0 + 1 for name, p in model.named_parameters()}
    x = f64(lib, [[1.0, 2.0]])
    before = model(x).detach()
    equal(lib.func.functional_call(model, values, (x,)), [[9.0]])
    equal(lib.func.functional_call(model, {"1.bias": f64(lib, [0.0])}, x),
          (before - model[1].bias.detach()).numpy())  # fmt: skip
    equal(model(x), before.numpy())
    g = lib.func.grad(lambda p: lib.func.functional_call(model, p, (x,)).sum())(values)
    assert g.keys() == values.keys()
    equal(g["0.weight"], [[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(RuntimeError, match="Missing key"):
        lib.func.functional_call(model, {"1.bias": f64(lib, [0.0])}, x, strict=True)


# linearize and the state of modules ---------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_linearize(lib: Any) -> None:
    def f(x: Any, d: Any) -> Any:
        return {"a": x.sin() * d["k"], "b": (x * x).sum()}

    x, k, t = (f64(lib, v) for v in (X, [3.0, 2.0, -1.0], [1.0, -2.0, 0.5]))
    output, push = lib.func.linearize(f, x, {"k": k})
    equal(output["a"], (x.sin() * k).numpy())
    for scale in (1.0, 3.0):
        found = push(t * scale, {"k": k * scale})
        expected = lib.func.jvp(f, (x, {"k": k}), (t * scale, {"k": k * scale}))[1]
        for key in "ab":
            assert not found[key].requires_grad
            equal(found[key], expected[key].numpy())
    _, push = lib.func.linearize(lambda x: x.clone(), x)
    equal(push(t), t.numpy())
    with pytest.raises(RuntimeError, match="tangent:0 with shape"):
        push(t[:2])
    with pytest.raises(RuntimeError, match="tangent:0 with dtype"):
        push(t.float())
    with pytest.raises(RuntimeError, match="to have the same argspec as the primals"):
        push(t, t)


def test_linearize_runs_the_function_once() -> None:
    lib = libraries.jitgrad()
    runs = []

    def f(x: Any) -> Any:
        runs.append(1)
        return x.exp(), x.detach() * 2, x.long(), x

    x = f64(lib, X)
    _, push = lib.func.linearize(f, x)
    x.zero_()  # what was linearised are the values of then
    moved = push(f64(lib, [1.0, 1.0, 1.0]))
    equal(moved[0], np.exp(X))
    equal(moved[1], [0.0] * 3)
    assert moved[2].dtype is lib.int64 and moved[2].tolist() == [0, 0, 0]
    equal(moved[3], [1.0] * 3)
    assert len(runs) == 1
    w = lib.tensor([1 + 2j])
    found = lib.func.linearize(lambda z: z * w, lib.tensor([2.0 + 1j]))[1](lib.tensor([1j]))
    assert found.tolist() == [(1 + 2j) * 1j]


def test_stack_module_state(lib: Any) -> None:
    models = [lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2)) for _ in range(3)]
    for m in models:
        m[0].bias.requires_grad_(False)
    parameters, buffers = lib.func.stack_module_state(models)
    assert list(parameters) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(buffers) == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert tuple(parameters["0.weight"].shape) == (3, 2, 3)
    assert parameters["0.weight"].is_leaf and parameters["0.weight"].requires_grad
    assert not parameters["0.bias"].requires_grad and buffers["1.running_mean"].is_leaf
    equal(parameters["0.weight"][1], models[1][0].weight.detach().numpy())
    with pytest.raises(RuntimeError, match="at least one model"):
        lib.func.stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        lib.func.stack_module_state([models[0], models[0][0]])
    models[1][0].bias.requires_grad_(True)
    with pytest.raises(RuntimeError, match="0.bias from each model to have the same"):
        lib.func.stack_module_state(models)
    models[1].eval()
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        lib.func.stack_module_state(models)


def test_functionalize_and_batch_norms_without_estimates(lib: Any) -> None:
    x = f64(lib, X)
    equal(lib.func.functionalize(lambda x: x.add_(1))(x), [1.5, 2.0, 3.0])
    equal(x, [1.5, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="invalid argument for remove=views"):
        lib.func.functionalize(lambda x: x, remove="views")
    held = lib.nn.Sequential(
        lib.nn.BatchNorm2d(2), lib.nn.InstanceNorm1d(2, track_running_stats=True)
    )
    assert lib.func.replace_all_batch_norm_modules_(held) is held
    assert held[0].running_mean is held[0].num_batches_tracked is None
    assert not held[0].track_running_stats and held[1].track_running_stats
    assert list(held.state_dict())[:2] == ["0.weight", "0.bias"]
    alone = lib.func.replace_all_batch_norm_modules_(lib.nn.BatchNorm1d(2))
    assert alone.running_var is None


# Control flow -------------------------------------------------------------------------------------
def test_cond_and_while_loop() -> None:
    lib = libraries.jitgrad()
    x = f64(lib, X, requires_grad=True)
    for pred in (True, lib.tensor([True]), lib.tensor(1.0)):
        equal(lib.cond(pred, lambda x: x * 2, lambda x: x, (x,)), [1.0, 2.0, 4.0])
    equal(lib.cond(False, lambda: x * 2, lambda: x), X)
    for arguments, match in (
        ((None, abs, abs), "Expected pred to be bool or tensor"),
        ((x > 0, abs, abs, (x,)), "single-element tensor"),
        ((True, abs, None), "both branches to be callable"),
        ((True, abs, abs, x), "operands to be a tuple"),
    ):
        with pytest.raises(RuntimeError, match=match):
            lib.cond(*arguments)

    count, y = lib.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), (lib.tensor(0), x))
    assert count.item() == 3
    y.sum().backward()
    equal(x.grad, [8 * a**7 for a in X])
    for arguments, match in (
        ((None, abs, (x,)), "to be callable"),
        ((abs, abs, x), "carried_inputs to be a tuple"),
        ((lambda x: x > 0, abs, (x,)), "cond_fn must return a boolean"),
        ((lambda x: True, lambda x: (x, x), (x,)), "in the structure of carried_inputs"),
    ):
        with pytest.raises(RuntimeError, match=match):
            lib.while_loop(*arguments)
