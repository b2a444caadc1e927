"""Optimizers against PyTorch, and what an optimizer is."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from itertools import product
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn, optim

SHAPES = ((5, 4), (4,), (3, 2, 2), ())


def options() -> list[tuple[str, dict[str, Any]]]:
    """Every combination of the options that change what a kernel computes."""
    cases: list[tuple[str, dict[str, Any]]] = []
    for momentum, dampening, decay, nesterov, maximize in product(
        (0, 0.9), (0, 0.1), (0, 0.01), (False, True), (False, True)
    ):
        if not (nesterov and (not momentum or dampening)):
            cases.append(
                ("SGD", {"lr": 0.1, "momentum": momentum, "dampening": dampening,
                         "weight_decay": decay, "nesterov": nesterov, "maximize": maximize})
            )  # fmt: skip
    for name, amsgrad, decay, maximize in product(
        ("Adam", "AdamW"), (False, True), (0, 0.1), (False, True)
    ):
        common = {"lr": 0.01, "weight_decay": decay, "maximize": maximize}
        cases.append((name, common | {"amsgrad": amsgrad}))
    return cases


def train(lib: Any, name: str, dtype: str, options: dict[str, Any], steps: int = 12) -> Any:
    """Parameters and optimizer after some steps along the same gradients."""
    rng = np.random.default_rng(0)

    def draw(shape: tuple[int, ...]) -> Any:
        return lib.tensor(rng.normal(size=shape).astype(dtype))

    parameters = [lib.nn.Parameter(draw(shape)) for shape in SHAPES]
    optimizer = getattr(lib.optim, name)(parameters, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        for p in parameters:
            p.grad = draw(tuple(p.shape))
        optimizer.step()
    return parameters, optimizer


@pytest.mark.oracle
@pytest.mark.parametrize("dtype, rtol", [("float32", 3e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("name, options", options(), ids=lambda x: x if isinstance(x, str) else "")
def test_steps_are_those_of_torch(name: str, options: Any, dtype: str, rtol: float) -> None:
    import torch

    ours, optimizer = train(jg, name, dtype, options)
    theirs, oracle = train(torch, name, dtype, options)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol, rtol)
    assert repr(optimizer) == repr(oracle)
    mine, yours = optimizer.state_dict(), oracle.state_dict()
    assert mine["param_groups"] == yours["param_groups"]
    assert {k: list(v) for k, v in mine["state"].items()} == {
        k: list(v) for k, v in yours["state"].items()
    }
    for number, held in mine["state"].items():
        for key, value in held.items():
            np.testing.assert_allclose(
                value.numpy(), yours["state"][number][key].numpy(), rtol, rtol
            )


MORE = [
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 1.0}),
    ("ASGD", {"t0": 3, "lambd": 0.1}),
    ("Rprop", {"etas": (0.4, 1.3)}),
    ("NAdam", {"betas": (0.5, 0.8)}),
    ("RAdam", {"betas": (0.5, 0.8), "weight_decay": 0.1, "decoupled_weight_decay": True}),
]


@pytest.mark.oracle
@pytest.mark.parametrize("name, options", MORE, ids=lambda x: x if isinstance(x, str) else "")
def test_options_that_the_database_leaves_out(name: str, options: Any) -> None:
    import torch

    ours, _ = train(jg, name, "float64", options)
    theirs, _ = train(torch, name, "float64", options)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-7, 1e-7)


def steps_of(name: str, parameters: list[Any], steps: int = 3, **options: Any) -> Any:
    """An optimizer that has followed the same gradients for some steps."""
    rng = np.random.default_rng(1)
    optimizer = getattr(optim, name)(parameters, **options)
    for _ in range(steps):
        for p in parameters:
            p.grad = jg.tensor(rng.normal(size=p.shape)).to(p.dtype)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("name", ["Adam", "ASGD"])
def test_one_launch_updates_as_many_do(name: str) -> None:
    """Rows of all sizes, dtypes and strides in one group, against optimizers of their own."""

    def build() -> list[Any]:
        jg.manual_seed(0)
        shapes = ((7,), (0,), (), (300, 5), (0, 3), (1,), (4, 4))
        made = [jg.randn(shape) for shape in shapes]
        made += [jg.randn(6, 5, dtype=jg.float64), jg.randn(6, 5).t(), jg.randn(8, 6)[::2, ::3]]
        return [nn.Parameter(x) for x in made]

    together, apart = build(), build()
    optimizers = [getattr(optim, name)(together)] + [getattr(optim, name)([p]) for p in apart]
    for _ in range(3):
        for p, q in zip(together, apart, strict=True):
            p.grad = jg.randn_like(p)
            q.grad = p.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for p, q in zip(together, apart, strict=True):
        assert jg.equal(p, q) and p.stride() == q.stride()


def test_steps_do_not_depend_on_threads(threads: Any) -> None:
    def run() -> list[Any]:
        jg.manual_seed(0)
        parameters = [nn.Parameter(jg.randn(n)) for n in (3, 200_000, 17, 150_001, 5)]
        optimizer = steps_of("Adam", parameters)
        assert [optimizer.state[p]["step"].item() for p in parameters] == [3.0] * 5
        return parameters

    single = run()
    threads(2)
    for a, b in zip(single, run(), strict=True):
        assert jg.equal(a, b)


def test_a_state_that_does_not_fit_is_refused() -> None:
    p = nn.Parameter(jg.ones(3))
    optimizer = steps_of("Adam", [p])
    optimizer.state[p]["exp_avg"] = jg.zeros(4)
    with pytest.raises(RuntimeError, match=r"'exp_avg' has shape \[4\].*parameter of shape \[3\]"):
        optimizer.step()


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "ASGD", "Rprop", "LBFGS"])
def test_states_move_between_the_libraries(name: str) -> None:
    import torch

    options = {"SGD": {"momentum": 0.9}, "LBFGS": {"max_iter": 3}}.get(name, {})

    def follow(lib: Any, values: Any, load: Any = None) -> Any:
        p = lib.nn.Parameter(lib.tensor(values))
        optimizer = getattr(lib.optim, name)([p], **options)
        if load is not None:
            optimizer.load_state_dict(load)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (p**4).sum() + (p.sin() * p).sum()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        return p.detach().numpy(), copy.deepcopy(optimizer.state_dict())

    def to_torch(value: Any) -> Any:
        if isinstance(value, jg.Tensor):
            return torch.from_numpy(value.numpy().copy())
        if isinstance(value, dict):
            return {key: to_torch(x) for key, x in value.items()}
        return [to_torch(x) for x in value] if isinstance(value, list) else value

    start = np.array([0.5, -0.25, 0.1])
    half, state = follow(torch, start)
    expected, _ = follow(torch, half, copy.deepcopy(state))
    ours, own = follow(jg, start)
    np.testing.assert_allclose(follow(jg, half, state)[0], expected, 1e-6)
    np.testing.assert_allclose(follow(torch, ours, to_torch(own))[0], expected, 1e-6)


def test_named_parameters() -> None:
    model = nn.Linear(2, 1)
    optimizer = optim.Adam(model.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="cannot add param group without names"):
        optimizer.add_param_group({"params": [nn.Parameter(jg.ones(1))]})


def test_hooks_on_all_optimizers() -> None:
    from jitgrad.optim import optimizer as module

    log: list[str] = []
    before = module.register_optimizer_step_pre_hook(lambda o, args, kwargs: log.append("before"))
    after = module.register_optimizer_step_post_hook(lambda o, args, kwargs: log.append("after"))
    own = optim.SGD([nn.Parameter(jg.ones(1))])
    own.register_step_post_hook(lambda o, args, kwargs: log.append("own"))
    own.step()
    before.remove()
    after.remove()
    own.step()
    assert log == ["before", "own", "after", "own"]


def test_recorded_steps_differentiate() -> None:
    """Several steps of Adam as a function of what came before: gradcheck."""

    def run(start: Any, rate: Any, *gradients: Any) -> Any:
        p = start.clone()
        optimizer = optim.Adam([p], lr=rate, amsgrad=True, differentiable=True)
        for gradient in gradients:
            p.grad = gradient.clone()
            optimizer.step()
        return p

    rng = np.random.default_rng(0)
    inputs = [jg.tensor(rng.normal(size=3), requires_grad=True) for _ in range(3)]
    rate = jg.tensor(0.1, dtype=jg.float64, requires_grad=True)
    assert jg.autograd.gradcheck(run, (inputs[0], rate, *inputs[1:]))


@pytest.mark.oracle
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_minimises_rosenbrock_as_torch_does(search: str | None) -> None:
    import torch

    def run(lib: Any) -> tuple[Any, Any]:
        p = lib.nn.Parameter(lib.tensor([-1.2, 1.0], dtype=lib.float64))
        rate = 1 if search else 0.002
        optimizer = lib.optim.LBFGS([p], lr=rate, line_search_fn=search, history_size=5)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(2)]
        return optimizer.state[p]["func_evals"], [*losses, closure().item(), *p.tolist()]

    calls, ours = run(jg)
    expected, theirs = run(torch)
    assert calls == expected
    np.testing.assert_allclose(ours, theirs, 1e-6, 1e-9)


def test_lbfgs_refuses() -> None:
    p, q = (nn.Parameter(jg.ones(1)) for _ in range(2))
    with pytest.raises(ValueError, match="parameter groups"):
        optim.LBFGS([{"params": [p]}, {"params": [q]}])
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optim.LBFGS([p], line_search_fn="golden").step(lambda: p.sum())
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([p]).step()


def test_sparse_adam_names_adam() -> None:
    p = nn.Parameter(jg.ones(1))
    optimizer = optim.SparseAdam([p])
    optimizer.step()
    p.grad = jg.ones(1)
    with pytest.raises(RuntimeError, match="does not support dense gradients.*Adam"):
        optimizer.step()


def test_muon_takes_matrices() -> None:
    with pytest.raises(ValueError, match="only supports 2D parameters"):
        optim.Muon([nn.Parameter(jg.ones(2))])
    p = nn.Parameter(jg.zeros(3, 2))
    p.grad = jg.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    optim.Muon([p], lr=1.0, weight_decay=0, ns_steps=10).step()
    values = [abs(p[i][i].item()) for i in range(2)]  # near 1, whatever they were
    assert all(0.6 < x < 1.6 for x in values)


def test_sgd_literally() -> None:
    p = nn.Parameter(jg.tensor([1.0, 2.0]))
    optimizer = optim.SGD([p], lr=0.5, momentum=0.5)
    for expected in ([0.5, 1.5], [-0.25, 0.75]):
        p.grad = jg.ones(2)
        optimizer.step()
        assert p.tolist() == expected
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1.5, 1.5]


def test_adam_first_step_literally() -> None:
    p = nn.Parameter(jg.tensor([1.0, -2.0], dtype=jg.float64))
    optimizer = optim.Adam([p], lr=0.1)
    p.grad = jg.tensor([5.0, -0.01], dtype=jg.float64)
    optimizer.step()
    assert p.tolist() == pytest.approx([0.9, -1.9], abs=1e-6)  # a step of lr whatever the size
    assert optimizer.state[p]["step"].item() == 1


def test_strided_parameters_and_gradients() -> None:
    base = jg.zeros(4, 6)
    p = nn.Parameter(base.t()[::2])
    p.grad = jg.ones(4, 3).t()
    optim.SGD([p], lr=1.0, momentum=0.9).step()
    assert p.detach().tolist() == [[-1.0] * 4] * 3
    assert base.sum().item() == -12.0


def test_version_counts_and_errors_name_the_step() -> None:
    p = nn.Parameter(jg.ones(2))
    loss = (p * p).sum()
    p.grad = jg.ones(2)
    optimizer = optim.SGD([p], lr=0.1)
    before = p._version
    optimizer.step()
    assert p._version == before + 1 and p.is_leaf and p.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_saved_values_survive_a_step_where_mutation_is_allowed() -> None:
    p = nn.Parameter(jg.tensor([2.0, 3.0]))
    p.grad = jg.ones(2)
    with jg.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (p * p).sum()
        optim.SGD([p], lr=1.0).step()
        p.grad = None
        loss.backward()
    assert p.tolist() == [1.0, 2.0] and p.grad.tolist() == [4.0, 6.0]


def test_a_refused_step_changes_nothing() -> None:
    with jg.inference_mode():
        p = jg.ones(2)
        p.grad = jg.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        optim.SGD([p], lr=1.0).step()
    assert p.tolist() == [1.0, 1.0]


def test_a_parameter_given_twice_is_updated_twice() -> None:
    p = nn.Parameter(jg.ones(1))
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([p, p], lr=0.25)
    p.grad = jg.ones(1)
    optimizer.step()
    assert p.item() == 0.5


def test_groups_closures_and_skipped_parameters() -> None:
    a, b, c = (nn.Parameter(jg.ones(1)) for _ in range(3))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.5)
    optimizer.add_param_group({"params": [c], "lr": 2.0})

    def closure() -> Any:
        optimizer.zero_grad()
        loss = a.sum() + b.sum()
        loss.backward()
        return loss

    with jg.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert (a.item(), b.item(), c.item()) == (0.5, 0.0, 1.0)
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.item() == 0 and c.grad is None
    optimizer.zero_grad()
    assert a.grad is None


def test_state_dict_round_trip() -> None:
    parameters, optimizer = train(jg, "Adam", "float32", {"lr": 0.01})
    state = optimizer.state_dict()
    assert list(state["state"]) == [0, 1, 2, 3] and state["param_groups"][0]["params"] == [
        0,
        1,
        2,
        3,
    ]
    twins = [nn.Parameter(p.detach().double()) for p in parameters]
    other = optim.Adam(twins, lr=5.0)
    other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == 0.01 and other.param_groups[0]["params"][0] is twins[0]
    moments = other.state[twins[0]]["exp_avg"]
    assert moments.dtype is jg.float64 and other.state[twins[0]]["step"].dtype is jg.float32
    same = optim.Adam(parameters, lr=5.0)
    same.load_state_dict(state)
    same.state[parameters[0]]["exp_avg"].zero_()
    assert optimizer.state[parameters[0]]["exp_avg"].abs().sum().item() > 0  # copied on load
    with pytest.raises(ValueError, match="different number of parameter groups"):
        other.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size"):
        other.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})


@pytest.mark.parametrize("name", ["Adam", "ASGD"])
def test_states_of_old_have_numbers_in_place_of_tensors(name: str) -> None:
    p, q = (nn.Parameter(jg.ones(2)) for _ in range(2))
    first = steps_of(name, [p])
    state = copy.deepcopy(first.state_dict())
    for key, value in state["state"][0].items():
        if value.ndim == 0:
            state["state"][0][key] = value.item()
    second = getattr(optim, name)([q])
    second.load_state_dict(state)
    q.data.copy_(p.data)
    for optimizer, parameter in ((first, p), (second, q)):
        parameter.grad = jg.ones(2)
        optimizer.step()
    assert jg.equal(p, q) and second.state[q]["step"].item() == 4


def test_copies_keep_their_groups() -> None:
    for twin in (f(train(jg, "SGD", "float32", {"momentum": 0.9})) for f in
                 (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)))):  # fmt: skip
        parameters, optimizer = twin
        assert optimizer.param_groups[0]["params"][0] is parameters[0]
        assert list(optimizer.state) == parameters
        optimizer.step()


def test_hooks() -> None:
    p = nn.Parameter(jg.ones(1))
    optimizer, log = optim.SGD([p]), []
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append("after"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: log.append("load"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert log == ["before", "after", "after", "load"] and state["extra"] == 1


def test_differentiable_step() -> None:
    weight = jg.tensor([2.0], dtype=jg.float64, requires_grad=True)
    start = jg.tensor([3.0], dtype=jg.float64, requires_grad=True)
    p = start.clone()
    p.retain_grad()
    (p * weight).sum().backward(create_graph=False, retain_graph=True)
    p.grad = (weight * weight).clone()
    optimizer = optim.SGD([p], lr=0.5, differentiable=True)
    optimizer.step()
    assert p.item() == 1.0
    assert jg.autograd.grad(p, weight)[0].item() == -2.0  # d(start - 0.5 w^2) / dw


def test_no_cycle_keeps_an_optimizer_alive() -> None:
    gc.disable()
    try:
        parameters, optimizer = train(jg, "Adam", "float32", {}, steps=2)
        dead = weakref.ref(optimizer), weakref.ref(parameters[0])
        del parameters, optimizer
        assert [ref() for ref in dead] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("SGD", {"lr": -1}, "Invalid learning rate: -1"),
        ("SGD", {"momentum": -1}, "Invalid momentum value: -1"),
        ("SGD", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        ("Adam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ("Adam", {"eps": -1}, "Invalid epsilon value: -1"),
        ("AdamW", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        getattr(optim, name)([nn.Parameter(jg.ones(1))], **options)
    assert str(caught.value) == message


def test_bad_parameters() -> None:
    p = nn.Parameter(jg.ones(1))
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.SGD([])
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        optim.SGD(p)
    with pytest.raises(TypeError, match="one of the params is int"):
        optim.SGD([3])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([p * 1])
    with pytest.raises(TypeError, match="ordered collections"):
        optim.SGD([{"params": {p}}])
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p])
    with pytest.raises(NotImplementedError):
        optim.Optimizer([p], {}).step()


def test_tensor_learning_rate() -> None:
    p = nn.Parameter(jg.ones(1))
    rate = jg.tensor(0.5)
    optimizer = optim.SGD([p], lr=rate)
    p.grad = jg.ones(1)
    optimizer.step()
    rate.mul_(0)
    optimizer.step()
    assert p.item() == 0.5


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "Rprop"])
def test_complex_parameters_are_pairs_of_real_ones(name: str) -> None:
    import torch

    def run(lib: Any) -> Any:
        p = lib.from_numpy(np.array([1 + 2j, 3 - 1j])).requires_grad_()
        p.grad = lib.from_numpy(np.array([0.5 - 1j, 2 + 0.1j]))
        optimizer = getattr(lib.optim, name)([p], lr=0.1)
        for _ in range(3):
            optimizer.step()
        return p.detach().numpy()

    np.testing.assert_allclose(run(jg), run(torch), 1e-12)


@pytest.mark.oracle
def test_half_precision_parameters() -> None:
    import torch

    def run(lib: Any) -> Any:
        p = lib.nn.Parameter(lib.tensor([1.0, -2.0, 3.0]).to(lib.bfloat16))
        p.grad = lib.tensor([0.5, 1.0, -2.0]).to(lib.bfloat16)
        optimizer = lib.optim.Adam([p], lr=0.1)
        for _ in range(3):
            optimizer.step()
        assert optimizer.state[p]["exp_avg"].dtype is lib.bfloat16
        return p.detach().to(lib.float32).numpy()

    np.testing.assert_allclose(run(jg), run(torch), 0.02)
