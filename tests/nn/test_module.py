"""Module: registration, attributes, iterators, hooks, modes, conversions, text."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import jitgrad as jg
from jitgrad import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.act = nn.ReLU()
        self.scale = nn.Parameter(jg.ones(1))
        self.register_buffer("seen", jg.zeros(1))
        self.register_buffer("scratch", jg.zeros(1), persistent=False)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        return self.act(self.first(x)) * self.scale


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


def test_iterators() -> None:
    net = Net()
    assert names(net.named_parameters()) == ["scale", "first.weight", "first.bias"]
    assert names(net.named_parameters("p", recurse=False)) == ["p.scale"]
    assert names(net.named_buffers()) == ["seen", "scratch"]
    assert names(net.named_modules()) == ["", "first", "act"]
    assert names(net.named_children()) == ["first", "act"]
    assert len(list(net.parameters())) == 3 and len(list(net.modules())) == 3


def test_shared_parts_appear_once() -> None:
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, layer)
    assert names(net.named_parameters()) == ["0.weight", "0.bias"]
    assert names(net.named_parameters(remove_duplicate=False)) == [
        "0.weight", "0.bias", "1.weight", "1.bias",
    ]  # fmt: skip
    assert names(net.named_modules(remove_duplicate=False)) == ["", "0", "1"]
    assert names(net.named_children()) == ["0"]


def test_assignment_moves_names_between_registries() -> None:
    net = Net()
    net.plain = 3
    net.plain = nn.Parameter(jg.zeros(1))
    assert "plain" in net._parameters and "plain" not in net.__dict__
    net.seen = nn.Parameter(jg.zeros(1))
    assert "seen" in net._parameters and "seen" not in net._buffers
    net.act = None
    assert net.act is None and "act" in net._modules
    del net.scale
    assert "scale" not in dict(net.named_parameters())
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scale'"):
        net.scale
    net.extra = nn.Buffer(jg.zeros(2), persistent=False)
    assert "extra" in net._buffers and "extra" not in net.state_dict()


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("scale", 3, "cannot assign 'int' as parameter 'scale'"),
        ("first", 3, "cannot assign 'int' as child module 'first'"),
        ("seen", 3, "cannot assign 'int' as buffer 'seen'"),
    ],
)
def test_assignment_refuses_other_kinds(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        setattr(Net(), name, value)


@pytest.mark.parametrize("method", ["register_parameter", "register_buffer", "add_module"])
@pytest.mark.parametrize(
    "name, kind, message",
    [
        (3, TypeError, "name should be a string. Got int"),
        ("a.b", KeyError, 'name can\'t contain "."'),
        ("", KeyError, "name can't be empty string"),
        ("forward", KeyError, "attribute 'forward' already exists"),
    ],
)
def test_registration_checks_names(method: str, name: Any, kind: type, message: str) -> None:
    with pytest.raises(kind) as caught:
        getattr(nn.Module(), method)(name, None)
    assert message in caught.value.args[0]


def test_registration_checks_values() -> None:
    net = nn.Module()
    with pytest.raises(TypeError, match="cannot assign 'jitgrad.FloatTensor' object to parameter"):
        net.register_parameter("w", jg.zeros(1))
    with pytest.raises(TypeError, match="cannot assign 'int' object to buffer 'w'"):
        net.register_buffer("w", 3)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        net.add_module("w", 3)


def test_forgotten_super_init() -> None:
    class Early(nn.Module):
        def __init__(self, value: Any) -> None:
            self.x = value

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\)"):
        Early(nn.ReLU())
    with pytest.raises(AttributeError, match="cannot assign parameters before"):
        Early(nn.Parameter(jg.zeros(1)))


def test_paths() -> None:
    net = nn.Sequential(Net())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_submodule("") is net
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    assert net.get_buffer("0.seen") is net[0].seen
    with pytest.raises(AttributeError, match="Net has no attribute `nope`"):
        net.get_submodule("0.nope")
    with pytest.raises(AttributeError, match="`weight` is not an nn.Module"):
        net.get_submodule("0.first.weight")
    net.set_submodule("0.act", nn.Tanh())
    assert isinstance(net[0].act, nn.Tanh)


def test_forward_hooks() -> None:
    net, log = Net(), []
    first = net.register_forward_pre_hook(lambda m, args: log.append("pre"))
    net.register_forward_pre_hook(lambda m, args: (args[0] * 0,), prepend=True)
    net.register_forward_hook(lambda m, args, result: result + 1)
    net.register_forward_hook(
        lambda m, args, kwargs, result: log.append(sorted(kwargs)), with_kwargs=True
    )
    bias = net.first.bias.detach()
    assert net(jg.ones(1, 2)).tolist() == [(bias.relu() + 1).tolist()]
    assert log == ["pre", []]
    first.remove()
    net(jg.ones(1, 2))
    assert log == ["pre", [], []]


def test_hook_that_always_runs() -> None:
    class Broken(nn.Module):
        def forward(self) -> None:
            raise RuntimeError("broken")

    seen = []
    module = Broken()
    module.register_forward_hook(lambda m, args, result: seen.append(result), always_call=True)
    module.register_forward_hook(lambda m, args, result: seen.append("never"))
    with pytest.raises(RuntimeError, match="broken"):
        module()
    assert seen == [None]


def test_modes_and_conversions() -> None:
    net = Net()
    assert not net.eval().act.training and net.train().act.training
    assert net.double().first.weight.dtype is jg.float64 and net.seen.dtype is jg.float64
    weight = net.first.weight
    assert net.float().first.weight is weight and weight.dtype is jg.float32
    assert isinstance(weight, nn.Parameter) and weight.requires_grad
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(jg.int64)
    net(jg.ones(4, 2)).sum().backward()
    assert weight.grad is not None
    net.zero_grad(set_to_none=False)
    assert weight.grad.abs().sum().item() == 0
    net.double()
    assert weight.grad.dtype is jg.float64
    net.zero_grad()
    assert weight.grad is None
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_apply_goes_children_first() -> None:
    order: list[str] = []
    nn.Sequential(nn.Linear(1, 1), nn.ReLU()).apply(lambda m: order.append(type(m).__name__))
    assert order == ["Linear", "ReLU", "Sequential"]


def test_missing_forward() -> None:
    with pytest.raises(NotImplementedError, match=r"Module \[Module\] is missing the required"):
        nn.Module()()


def test_repr() -> None:
    assert repr(nn.Sequential(nn.Linear(2, 3, bias=False), nn.Sequential(nn.ReLU(True)))) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=False)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU(inplace=True)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Sequential()) == "Sequential()"
    assert repr(nn.Parameter(jg.ones(2))) == (
        "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    )


MODULES = """
ReLU() ReLU(True) LeakyReLU() LeakyReLU(0.2,True) Sigmoid() Tanh() GELU() GELU("tanh") SiLU()
SiLU(True) ELU() ELU(inplace=True) Softplus() Softmax(1) Softmax() LogSoftmax(1) Softmin(1)
Hardtanh() Hardtanh(0,1,True) ReLU6() SELU(True) CELU(2.0,True) Mish() Hardswish() Hardsigmoid(True)
Hardshrink() Softshrink() Softsign() Tanhshrink() LogSigmoid() Threshold(1,2) Threshold(1,2,True)
PReLU() GLU() RReLU() Softmax2d() Dropout() Dropout(0.1,True) Dropout2d() Identity(3) Flatten()
Unflatten(1,(2,3)) MSELoss() CrossEntropyLoss() KLDivLoss() Bilinear(1,2,3) CosineSimilarity()
PairwiseDistance() TripletMarginWithDistanceLoss() HuberLoss() ModuleList()
ModuleList([nn.ReLU(),nn.ReLU(),nn.Linear(1,2)]) ModuleDict({"a":nn.ReLU()}) ParameterList()
""".split()


@pytest.mark.oracle
@pytest.mark.parametrize("text", MODULES)
def test_repr_is_that_of_torch(text: str) -> None:
    import torch

    ours = eval(f"nn.{text}", {"nn": nn})
    theirs = eval(f"nn.{text}", {"nn": torch.nn})
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_copies() -> None:
    net = Net()
    net(jg.ones(1, 2)).sum().backward()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert repr(twin) == repr(net)
        assert twin.first.weight.data_ptr() != net.first.weight.data_ptr()
        assert isinstance(twin.first.weight, nn.Parameter) and twin.first.weight.requires_grad
        assert twin.first.weight.tolist() == net.first.weight.tolist()
    assert copy.deepcopy(net).first.weight.grad is None


def test_parameter_shares_memory_and_version() -> None:
    data = jg.zeros(2)
    parameter = nn.Parameter(data)
    data.add_(1)
    assert parameter.tolist() == [1, 1] and parameter._version == data._version
    assert parameter.is_leaf and not parameter._is_view()
    assert type(parameter + 0) is jg.Tensor and type(parameter.detach()) is jg.Tensor
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(jg.zeros(2, dtype=jg.int64))
    assert nn.Parameter().shape == (0,)


def test_full_backward_hooks_see_gradients_shaped_like_arguments_and_results() -> None:
    layer = jg.nn.Linear(3, 2)
    seen: list[object] = []
    layer.register_full_backward_hook(
        lambda module, into, out: seen.append(("hook", into[0].shape, out[0].shape))
    )
    handle = layer.register_full_backward_pre_hook(
        lambda module, out: (seen.append(("pre", out[0].shape)), (out[0] * 2,))[1]
    )
    x = jg.ones(4, 3, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [("pre", (4, 2)), ("hook", (4, 3), (4, 2))]
    doubled = x.grad.clone()
    handle.remove()
    x.grad = None
    layer(x).sum().backward()
    assert jg.equal(doubled, 2 * x.grad)


def test_floating_parts_in_16_bits_and_in_new_memory() -> None:
    module = nn.BatchNorm1d(3)
    for name in ("half", "bfloat16"):
        assert getattr(module, name)() is module
        of = jg.float16 if name == "half" else jg.bfloat16
        assert module.weight.dtype is module.running_var.dtype is of
        assert module.num_batches_tracked.dtype is jg.int64
    weight, pointer = module.weight, module.weight.data_ptr()
    assert module.to_empty(device="cpu") is module
    assert module.weight is weight and weight.data_ptr() != pointer and weight.requires_grad
    outer = nn.Sequential(module)
    pointer = weight.data_ptr()
    outer.to_empty(device="cpu", recurse=False)
    assert weight.data_ptr() == pointer
