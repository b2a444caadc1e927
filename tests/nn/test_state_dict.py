"""state_dict and load_state_dict."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn


def model() -> nn.Module:
    return nn.Sequential(OrderedDict(a=nn.Linear(2, 3), act=nn.PReLU(3), b=nn.Linear(3, 1)))


def test_keys_and_sharing() -> None:
    net = model()
    state = net.state_dict()
    assert list(state) == ["a.weight", "a.bias", "act.weight", "b.weight", "b.bias"]
    assert state["a.weight"].data_ptr() == net.a.weight.data_ptr()
    assert not state["a.weight"].requires_grad
    assert net.state_dict(keep_vars=True)["a.weight"] is net.a.weight
    assert list(net.a.state_dict(prefix="p.")) == ["p.weight", "p.bias"]
    assert state._metadata["a"] == {"version": 1}


def test_round_trip() -> None:
    source, target = model(), model()
    weight = target.a.weight
    assert repr(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert target.a.weight is weight
    assert weight.tolist() == source.a.weight.tolist()
    assert weight.data_ptr() != source.a.weight.data_ptr()
    target.load_state_dict(source.state_dict(), assign=True)
    assert target.a.weight.data_ptr() == source.a.weight.data_ptr()
    assert isinstance(target.a.weight, nn.Parameter) and target.a.weight.requires_grad


def test_strict_report_names_everything() -> None:
    bad = {"a.weight": jg.zeros(2, 2), "x": jg.zeros(1), "a.foo": jg.zeros(1), "a.bias": 3}
    with pytest.raises(RuntimeError) as caught:
        model().load_state_dict(bad)
    lines = str(caught.value).split("\n\t")
    assert lines == [
        "Error(s) in loading state_dict for Sequential:",
        'Missing key(s) in state_dict: "act.weight", "b.weight", "b.bias". ',
        'Unexpected key(s) in state_dict: "x", "a.foo". ',
        "size mismatch for a.weight: copying a param with shape jitgrad.Size([2, 2]) from "
        "checkpoint, the shape in current model is jitgrad.Size([3, 2]).",
        'While copying the parameter named "a.bias", expected torch.Tensor or Tensor-like object '
        "from checkpoint but received <class 'int'>",
    ]
    result = model().load_state_dict({"x": jg.zeros(1)}, strict=False)
    assert result.unexpected_keys == ["x"] and len(result.missing_keys) == 5
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        model().load_state_dict(3)  # type: ignore[arg-type]


def test_nothing_is_half_written_by_a_wrong_shape() -> None:
    net = model()
    before = net.a.weight.tolist()
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict(net.state_dict() | {"a.weight": jg.zeros(1, 1)})
    assert net.a.weight.tolist() == before


def test_hooks_and_extra_state() -> None:
    class Extra(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = 1

        def get_extra_state(self) -> Any:
            return self.value

        def set_extra_state(self, state: Any) -> None:
            self.value = state

    net = nn.Sequential(Extra())
    state = net.state_dict()
    assert state == {"0._extra_state": 1}
    net.load_state_dict({"0._extra_state": 5})
    assert net[0].value == 5
    log: list[str] = []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append("before"))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: log.append("after"))
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    net.state_dict()
    net.load_state_dict({})
    assert log == ["before", "after"]


@pytest.mark.oracle
def test_weights_move_between_torch_and_jitgrad() -> None:
    import torch

    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.PReLU(3), torch.nn.Linear(3, 1))
    ours = nn.Sequential(nn.Linear(2, 3), nn.PReLU(3), nn.Linear(3, 1))
    ours.load_state_dict({k: jg.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    np.testing.assert_allclose(
        ours(jg.from_numpy(x)).detach().numpy(),
        theirs(torch.from_numpy(x)).detach().numpy(),
        rtol=1e-5,
        atol=1e-6,
    )
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()})
