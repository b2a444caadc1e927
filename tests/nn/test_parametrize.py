"""Parametrizations, and weight and spectral normalization in both forms, against PyTorch."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest

import jitgrad as jg
from tests.oracle import arg, check, check_raises

pytestmark = pytest.mark.usefixtures("reseeded")
LOOSE: dict[str, Any] = {"grad_fn": False, "version": False, "strides": "ignore"}


@pytest.fixture
def reseeded(seed: Any) -> None:
    """Tests seed both libraries as they like; undone afterwards."""


def parts(lib: Any) -> Any:
    """Parametrizations of either library."""

    class Symmetric(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

    class Positive(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp()

        def right_inverse(self, x: Any) -> Any:
            return x.abs().log()

    class Halves(lib.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

        def right_inverse(self, x: Any) -> Any:
            return x / 4, x * 0.75

    return Symmetric, Positive, Halves


def linear(lib: Any, *sizes: int) -> Any:
    lib.manual_seed(2)
    return lib.nn.Linear(*(sizes or (3, 3)), dtype=lib.float64)


def test_a_parametrized_module() -> None:
    def run(lib: Any, x: Any) -> Any:
        symmetric, positive, halves = parts(lib)
        register = lib.nn.utils.parametrize.register_parametrization
        layer = register(linear(lib), "weight", positive())
        register(layer, "weight", symmetric())
        register(layer, "bias", halves())
        kept = layer.parametrizations.weight.original
        out = layer(x)
        out.sum().backward(retain_graph=True)
        shown = [str(layer), type(layer).__name__, list(layer.state_dict())]
        grads = {name: p.grad for name, p in layer.named_parameters()}
        layer.bias = lib.arange(3, dtype=lib.float64)
        return out, shown, grads, kept is layer.parametrizations.weight.original, layer.bias

    check(run, (2, 3), **LOOSE)


def test_removing() -> None:
    def run(lib: Any) -> Any:
        _, positive, halves = parts(lib)
        tools = lib.nn.utils.parametrize
        layer = tools.register_parametrization(linear(lib), "weight", positive())
        tools.register_parametrization(layer, "bias", halves())
        flags = [tools.is_parametrized(layer), tools.is_parametrized(layer, "x")]
        names = [tools.type_before_parametrizations(layer).__name__]
        original = layer.parametrizations.weight.original
        tools.remove_parametrizations(layer, "weight")
        flags += [original is layer.weight, tools.is_parametrized(layer, "bias")]
        tools.remove_parametrizations(layer, "bias")
        again = tools.register_parametrization(linear(lib), "weight", positive())
        tools.remove_parametrizations(again, "weight", leave_parametrized=False)
        return flags, names, type(layer).__name__, dict(layer.named_parameters()), again.weight

    check(run, **LOOSE)


def test_caching_copying_and_pickling() -> None:
    _, positive, _ = parts(jg)
    layer = linear(jg)
    tools = jg.nn.utils.parametrize
    tools.register_parametrization(layer, "weight", positive())
    assert layer.weight is not layer.weight
    with tools.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight
    other = copy.deepcopy(layer)
    other.weight = jg.ones(3, 3, dtype=jg.float64)
    assert other.weight.tolist() == jg.ones(3, 3).tolist()
    assert layer.weight.tolist() != other.weight.tolist()
    tools.remove_parametrizations(other, "weight")
    assert tools.is_parametrized(layer)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


BAD = {
    "shape": ("lambda x: x[:1]", None, "may not change the shape of the tensor"),
    "dtype": ("lambda x: x.float()", None, "may not change the dtype of the tensor"),
    "no tensor": ("lambda x: 3", None, "A parametrization must return a tensor. Got int."),
    "inverse": ("lambda x: x", "lambda x: 3", "right_inverse"),
    "inverse shape": ("lambda x: x", "lambda x: x[:1]", "shape"),
    "inverse dtype": ("lambda x: x", "lambda x: x.float()", "dtype"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("second", [False, True])
def test_refused_parametrizations(case: str, second: bool) -> None:
    forward, inverse, match = BAD[case]

    def run(lib: Any) -> Any:
        class Bad(lib.nn.Module):
            def forward(self, x: Any) -> Any:
                return eval(forward)(x)

        if inverse:
            Bad.right_inverse = lambda self, x: eval(inverse)(x)
        register = lib.nn.utils.parametrize.register_parametrization
        layer = linear(lib)
        if second:
            register(layer, "weight", parts(lib)[1]())
        register(layer, "weight", Bad())

    check_raises(run, match=match)


REFUSED: dict[str, tuple[Any, str]] = {
    "name": (lambda u, m, p: u.parametrize.register_parametrization(m, "foo", p[1]()),
             "does not have a parameter, a buffer, or a parametrized element with name 'foo'"),
    "assigned": (lambda u, m, p: setattr(
        u.parametrize.register_parametrization(m, "weight", p[0]()), "weight", m.bias * 1),
                 "parametrization Symmetric does not implement right_inverse."),
    "not there": (lambda u, m, p: u.parametrize.remove_parametrizations(m, "weight"),
                  "does not have a parametrization on weight"),
    "several": (lambda u, m, p: u.parametrize.remove_parametrizations(
        u.parametrize.register_parametrization(m, "weight", p[2]()), "weight", False),
                "Cannot leave unparametrized"),
    "map": (lambda u, m, p: u.parametrizations.orthogonal(m, orthogonal_map="x"),
            'has to be one of "matrix_exp", "cayley", "householder". Got: x'),
    "vector": (lambda u, m, p: u.parametrizations.orthogonal(m, "bias"),
               "Expected a matrix or batch of matrices. Got a tensor of 1 dimensions."),
    "orthogonal name": (lambda u, m, p: u.parametrizations.orthogonal(m, "x"),
                        "has no parameter or buffer with name 'x'"),
    "iterations": (lambda u, m, p: u.parametrizations.spectral_norm(m, n_power_iterations=0),
                   "Expected n_power_iterations to be positive"),
    "legacy iterations": (lambda u, m, p: u.spectral_norm(m, n_power_iterations=0),
                          "Expected n_power_iterations to be positive"),
    "no weight norm": (lambda u, m, p: u.remove_weight_norm(m),
                       "weight_norm of 'weight' not found"),
    "no norm": (lambda u, m, p: u.remove_spectral_norm(m), "spectral_norm of 'weight' not found"),
    "twice": (lambda u, m, p: u.spectral_norm(u.spectral_norm(m)),
              "Cannot register two spectral_norm hooks on the same parameter weight"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, match = REFUSED[case]
    check_raises(lambda lib: call(lib.nn.utils, linear(lib), parts(lib)), match=match)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim: int | None) -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = lib.nn.utils.parametrizations.weight_norm(linear(lib, 3, 4), dim=dim)
        out = layer(x)
        out.sin().sum().backward(retain_graph=True)
        grads = {name: p.grad for name, p in layer.named_parameters()}
        layer.weight = lib.ones(4, 3, dtype=lib.float64)
        return out, grads, dict(layer.named_parameters())

    check(run, (2, 3), **LOOSE)


def test_the_older_weight_norm() -> None:
    def run(lib: Any, x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layer = lib.nn.utils.weight_norm(linear(lib, 3, 4))
            newer = lib.nn.utils.parametrizations.weight_norm(linear(lib, 3, 4))
        out = layer(x)
        out.sin().sum().backward(retain_graph=True)
        grads = {name: p.grad for name, p in layer.named_parameters()}
        newer.load_state_dict(layer.state_dict())
        names = list(layer.state_dict())
        lib.nn.utils.remove_weight_norm(layer)
        return out, grads, names, newer(x), dict(layer.named_parameters())

    check(run, (2, 3), **LOOSE)
    check(
        lambda lib: str(lib.nn.utils.weight_norm(lib.nn.Linear(2, 2))),
        warns="`torch.nn.utils.weight_norm` is deprecated",
    )


@pytest.mark.parametrize("newer", [True, False])
def test_spectral_norm(newer: bool) -> None:
    def run(lib: Any, x: Any) -> Any:
        tools = lib.nn.utils
        layer = (tools.parametrizations if newer else tools).spectral_norm(linear(lib, 3, 4))
        out = layer(x) + layer(x)
        out.sin().sum().backward(retain_graph=True)
        grads = {name: p.grad for name, p in layer.named_parameters()}
        state = layer.state_dict()
        layer.eval()
        evaluated = layer(x)
        if newer:
            tools.parametrize.remove_parametrizations(layer, "weight")
        else:
            tools.remove_spectral_norm(layer)
        return out, grads, dict(state), state._metadata[""], evaluated, list(layer.state_dict())

    check(run, (2, 3), **LOOSE)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 4), (4, 2)])
def test_orthogonal(kind: str, sizes: tuple[int, int]) -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = lib.nn.utils.parametrizations.orthogonal(linear(lib, *sizes), orthogonal_map=kind)
        w = layer.weight
        small = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        (w * x[: w.shape[0], : w.shape[1]]).sum().backward()
        grads = {name: p.grad for name, p in layer.named_parameters()}
        return small.round(decimals=9), w, grads, list(layer.state_dict())

    check(run, arg((4, 4), requires_grad=False), **LOOSE, rtol=1e-8, atol=1e-9)


def test_orthogonal_without_a_base() -> None:
    def run(lib: Any) -> Any:
        layer = lib.nn.utils.parametrizations.orthogonal(
            linear(lib, 2, 4), use_trivialization=False
        )
        return layer.weight, list(layer.state_dict())

    check(run, **LOOSE, rtol=1e-8, atol=1e-9)
    check_raises(
        lambda lib: setattr(
            lib.nn.utils.parametrizations.orthogonal(
                linear(lib), orthogonal_map="cayley", use_trivialization=False
            ),
            "weight",
            lib.eye(3, dtype=lib.float64),
        ),
        match="It is not possible to assign to the matrix exponential",
    )


def test_functional_call() -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = linear(lib)
        given = {"weight": lib.ones(3, 3, dtype=lib.float64)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return lib.nn.utils.stateless.functional_call(layer, given, (x,))

    check(run, (2, 3), **LOOSE)
