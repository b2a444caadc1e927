"""Sequential, the lists and the dictionaries."""

from __future__ import annotations

import pytest

import jitgrad as jg
from jitgrad import nn


def test_sequential() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net.append(nn.Tanh()).insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in net] == ["Linear", "Sigmoid", "ReLU", "Tanh"]
    assert list(net._modules) == ["0", "1", "2", "3"]
    assert len(net[1:3]) == 2 and isinstance(net[-1], nn.Tanh)
    del net[1]
    assert list(net._modules) == ["0", "1", "2"]
    net[0] = nn.Identity()
    assert len(net + nn.Sequential(nn.ReLU())) == 4 and len(net * 2) == 6
    assert isinstance(net.pop(0), nn.Identity) and len(net) == 2
    with pytest.raises(IndexError, match="index 9 is out of range"):
        net[9]
    named = nn.Sequential({"a": nn.ReLU(), "b": nn.Tanh()})
    assert list(named._modules) == ["a", "b"] and list(named[:1]._modules) == ["a"]


def test_module_list() -> None:
    modules = nn.ModuleList([nn.Linear(1, 1)])
    modules += [nn.ReLU(), nn.ReLU()]
    modules.insert(0, nn.Tanh())
    assert [type(m).__name__ for m in modules] == ["Tanh", "Linear", "ReLU", "ReLU"]
    assert repr(modules).splitlines()[-2:] == ["  (2-3): 2 x ReLU()", ")"]
    assert isinstance(modules[:2], nn.ModuleList) and len(modules + nn.ModuleList([nn.ReLU()])) == 5
    assert isinstance(modules.pop(), nn.ReLU) and len(list(modules.parameters())) == 2
    with pytest.raises(TypeError, match="should be called with an iterable"):
        modules.extend(3)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        modules()


def test_module_dict() -> None:
    modules = nn.ModuleDict({"a": nn.Linear(1, 1)})
    modules["b"] = nn.ReLU()
    modules.update([("c", nn.Tanh())])
    assert list(modules) == ["a", "b", "c"] and "b" in modules and len(modules) == 3
    assert isinstance(modules.pop("c"), nn.Tanh)
    del modules["b"]
    assert list(modules.state_dict()) == ["a.weight", "a.bias"]


def test_parameter_list() -> None:
    held = nn.ParameterList([jg.zeros(2), nn.Parameter(jg.ones(3)), 3])
    assert [isinstance(x, nn.Parameter) for x in held] == [True, True, False]
    assert list(held.state_dict()) == ["0", "1"]
    assert repr(held) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [jitgrad.float32 of size 2]\n"
        "    (1): Parameter containing: [jitgrad.float32 of size 3]\n"
        "    (2): Object of type: int\n"
        ")"
    )
    held[0] = jg.ones(1)
    assert held.pop(1).shape == (3,) and len(held) == 2 and held[-1] == 3
    with pytest.raises(RuntimeError, match="ParameterList should not be called."):
        held()


def test_parameter_dict() -> None:
    held = nn.ParameterDict({"a": jg.zeros(2)})
    held["b"] = nn.Parameter(jg.ones(1))
    assert list(held) == ["a", "b"] and isinstance(held["a"], nn.Parameter)
    assert held.get("z", 5) == 5 and held.setdefault("c", 1) == 1
    assert held.popitem() == ("c", 1) and [p.shape for p in held.parameters()] == [(2,), (1,)]
    with pytest.raises(KeyError):
        held["z"]
