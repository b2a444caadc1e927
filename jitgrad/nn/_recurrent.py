"""Recurrent layers as functions: stacks of layers over a sequence, and single cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.plans import PlanCache
from ..dispatch.recurrent import layer, steps_of
from ..dispatch.reshaping import transpose_
from ..dispatch.shape import cat, stack
from ..dispatch.split import unbind
from ..dispatch.view import transpose
from ..kernels.recurrent import CELLS
from ..tensor import Tensor
from ._dropout import dropout as drop_out


def _weights(
    params: Sequence[Tensor], has_biases: bool, projected: bool, count: int
) -> list[dict[str, Tensor]]:
    """The flat list of weights, cut into those of each layer and direction."""
    names = ["w_ih", "w_hh"] + ["b_ih", "b_hh"] * has_biases + ["w_hr"] * projected
    if len(params) != count * len(names):
        raise RuntimeError(
            f"got an incorrect number of RNN parameters: {len(params)}, expected "
            f"{count * len(names)} ({', '.join(names)} for each of {count} layers and directions)"
        )
    return [
        dict(zip(names, params[i : i + len(names)], strict=True))
        for i in range(0, len(params), len(names))
    ]


def _check_sizes(kind: str, input: Tensor, states: Sequence[Tensor], weights: dict[str, Tensor],
                 batch: int) -> None:  # fmt: skip
    """RuntimeError for what does not fit, before anything is computed."""
    features, (rows, width) = input.shape[-1], weights["w_hh"].shape
    w_ih = weights["w_ih"].shape
    if features != w_ih[1]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({input.numel() // max(features, 1)}x"
            f"{features} and {w_ih[1]}x{w_ih[0]}): the input of {kind} has {features} features, "
            f"its weights are for {w_ih[1]}"
        )
    units = rows // CELLS[kind].gates
    for x, size in zip(states, (width, units), strict=False):
        if tuple(x.shape) != (batch, size):
            raise RuntimeError(
                f"The size of tensor a must match the size of tensor b: a hidden state of {kind} "
                f"has size {list(x.shape)}, expected [{batch}, {size}]"
            )
    for x in (*states, *weights.values()):
        if x.dtype is not input.dtype:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {input.dtype} != {x.dtype} "
                f"in {kind}()"
            )


def _stacked(
    kind: str, input: Tensor, sizes: tuple[int, ...], hx: Sequence[Tensor],
    params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """All layers: the output and the final states, each [layers * directions, batch, size]."""
    directions = 2 if bidirectional else 1
    count = num_layers * directions
    projected = len(hx) == 2 and hx[0].shape[2] != hx[1].shape[2]
    weights = _weights(params, has_biases, projected, count)
    if any(x.shape[0] < count for x in hx):
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    states = list(zip(*(unbind(x) for x in hx), strict=True))
    finals: list[tuple[Tensor, ...]] = []
    for number in range(num_layers):
        if number and dropout and train:
            input = drop_out(input, dropout)
        outs = []
        for direction in range(directions):
            index = number * directions + direction
            _check_sizes(kind, input, states[index], weights[index], sizes[0])
            initial = dict(zip(("hx", "cx"), states[index], strict=False))
            steps = steps_of(sizes, direction == 1)
            out, *final = layer(kind, steps, input=input, **initial, **weights[index])
            outs.append(out)
            finals.append(tuple(final))
        input = outs[0] if directions == 1 else cat(outs, input.dim() - 1)
    return (input, *(stack(x) for x in zip(*finals, strict=True)))


def _function(kind: str, several: bool) -> Any:
    """``torch.lstm`` and its kin, for padded and for packed input."""

    def function(input: Tensor, second: Any, *args: Any) -> tuple[Tensor, ...]:
        packed = not isinstance(args[1], bool)  # where has_biases stands for padded input
        hx, params, has_biases, num_layers, dropout, train, bidirectional, *rest = (
            args if packed else (second, *args)
        )
        batch_first = not packed and bool(rest[0])
        if several and len(hx) != 2:
            raise RuntimeError("lstm expects two hidden states")
        states = tuple(hx) if several else (hx,)
        if packed:
            sizes = tuple(second.tolist())
        else:
            if batch_first:
                input = transpose(input, 0, 1)
            if not input.shape[0]:
                raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
            sizes = (input.shape[1],) * input.shape[0]
        out, *finals = _stacked(
            kind, input, sizes, states, params, has_biases, num_layers, dropout, train,
            bidirectional,
        )  # fmt: skip
        if batch_first:
            out = (transpose if several else transpose_)(out, 0, 1)  # as PyTorch has it
        return (out, *finals)

    function.__name__ = function.__qualname__ = kind
    states = "a pair of hidden and cell state" if several else "the initial hidden state"
    function.__doc__ = (
        f"{kind}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, "
        f"batch_first), or {kind}(data, batch_sizes, hx, params, has_biases, num_layers, dropout, "
        "train, bidirectional) on a packed sequence.\n\n"
        "Args:\n"
        "    input: [steps, batch, features], or [batch, steps, features] with batch_first.\n"
        f"    hx: {states}, [layers * directions, batch, size].\n"
        "    params: the weights of each layer and direction: w_ih, w_hh, then b_ih and b_hh if\n"
        "        has_biases, then the projection's.\n\n"
        "Returns: the output [steps, batch, directions * size] and the final state(s).\n\n"
        "Gradient: backpropagation through time, one launch over all steps."
    )
    return function


lstm = _function("lstm", True)
gru = _function("gru", False)
rnn_tanh = _function("rnn_tanh", False)
rnn_relu = _function("rnn_relu", False)


def _check_cell(kind: str, input: Tensor, states: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor,
                biases: Sequence[Tensor]) -> None:  # fmt: skip
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]} "
            f"in {kind}_cell()"
        )
    size = w_hh.shape[1]
    for i, x in enumerate(states):
        if x.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size "
                f"{x.shape[0]} in {kind}_cell()"
            )
        if x.shape[1] != size:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {x.shape[1]}, expected {size} "
                f"in {kind}_cell()"
            )
    for x in (*states, w_ih, w_hh, *biases):
        if x.dtype is not input.dtype:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {input.dtype} != {x.dtype} "
                f"in {kind}_cell()"
            )


def _cell(kind: str, input: Tensor, states: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor,
          b_ih: Tensor | None, b_hh: Tensor | None) -> tuple[Tensor, ...]:  # fmt: skip
    """One step: a sequence of length one."""
    biases = {} if b_ih is None or b_hh is None else {"b_ih": b_ih, "b_hh": b_hh}
    key = (kind, *[x.layout for x in (input, *states, w_ih, w_hh, *biases.values())])
    if key not in _fitting:
        _check_cell(kind, input, states, w_ih, w_hh, tuple(biases.values()))
        _fitting.add(key, True)
    initial = dict(zip(("hx", "cx"), states, strict=False))
    steps = steps_of((input.shape[0],), False)
    return layer(kind, steps, input=input, **initial, w_ih=w_ih, w_hh=w_hh, **biases)[1:]


_fitting = PlanCache()  # layouts of cells' operands that were found to fit


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: the next hidden and cell state, each [batch, units].

    Args:
        input: [batch, features].
        hx: the hidden and the cell state.
        w_ih, w_hh: [4 * units, features] and [4 * units, units], input, forget, cell, output gate.
        b_ih, b_hh: [4 * units].
    """
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    hidden, memory = _cell("lstm", input, hx, w_ih, w_hh, b_ih, b_hh)
    return hidden, memory


def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor,
             b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """One step of a GRU: the next hidden state; weights are for reset, update and new gate."""
    return _cell("gru", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor,
                  b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """``tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``."""
    return _cell("rnn_tanh", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor,
                  b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """``relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``."""
    return _cell("rnn_relu", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
