"""Batch normalisation merged into the layer before it; convolutions of [time, batch, channels]."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval
from tests.oracle import check, check_raises


def _settled(bn: Any) -> Any:
    """A normalisation that has seen something."""
    with jg.no_grad():
        for _ in range(3):
            bn(jg.randn(8, bn.num_features, *(2,) * (2 if isinstance(bn, nn.BatchNorm2d) else 0)))
        bn.weight.copy_(jg.rand(bn.num_features) + 0.5)
        bn.bias.copy_(jg.randn(bn.num_features))
    return bn.eval()


@pytest.mark.parametrize("bias", [True, False])
def test_fused_layers_do_the_same(bias: bool) -> None:
    x = jg.randn(2, 3, 5, 5)
    bn = _settled(nn.BatchNorm2d(4))
    for conv, transpose in (
        (nn.Conv2d(3, 4, 2, bias=bias), False), (nn.ConvTranspose2d(3, 4, 2, bias=bias), True),
    ):  # fmt: skip
        fused = fuse_conv_bn_eval(conv.eval(), bn, transpose)
        assert jg.allclose(fused(x), bn(conv(x)), atol=1e-5)
        assert isinstance(fused.weight, nn.Parameter) and fused.weight is not conv.weight
    linear, flat = nn.Linear(3, 4, bias=bias).eval(), _settled(nn.BatchNorm1d(4))
    y = jg.randn(5, 3)
    assert jg.allclose(fuse_linear_bn_eval(linear, flat)(y), flat(linear(y)), atol=1e-5)


def test_what_cannot_be_fused() -> None:
    conv, bn = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
    with pytest.raises(AssertionError, match="only for eval"):
        fuse_conv_bn_eval(conv, bn)
    with pytest.raises(AssertionError, match="running_mean"):
        fuse_conv_bn_eval(conv.eval(), nn.BatchNorm2d(4, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match="To fuse"):
        fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(4).eval())


def test_conv_tbc() -> None:
    # PyTorch's backward raises for gradients that are not contiguous.
    check(lambda lib, x, w, b: lib.conv_tbc(x, w, b, 1), (4, 2, 3), (2, 3, 5), (5,), grad=0,
          grad_fn=False, strides="ignore")  # fmt: skip
    inputs = [
        jg.rand(s, dtype=jg.float64, requires_grad=True) for s in ((3, 1, 2), (2, 2, 1), (1,))
    ]
    assert jg.autograd.gradcheck(jg.conv_tbc, inputs)
    check_raises(
        lambda lib, x, w, b: lib.conv_tbc(x, w, b), (4, 3), (2, 3, 5), (5,), match="3 dims"
    )
    check_raises(lambda lib, x, w, b: lib.conv_tbc(x, w, b), (4, 1, 2), (2, 3, 5), (5,),
                 match="input channels")  # fmt: skip
