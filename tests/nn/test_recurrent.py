"""Recurrent layers and cells, packed sequences: against PyTorch with the same seed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.oracle import arg, check, check_raises

KINDS = ("RNN", "LSTM", "GRU")
# What PyTorch records for a layer are its many small operations.
OPTIONS: dict[str, Any] = {"grad_fn": False, "version": False, "rtol": 1e-9, "atol": 1e-11}


pytestmark = pytest.mark.usefixtures("reseeded")


@pytest.fixture
def reseeded(seed: Any) -> None:
    """Tests seed both libraries as they like; undone afterwards."""


def states(kind: str, *tensors: Any) -> Any:
    return tensors if kind == "LSTM" else tensors[0]


def network(lib: Any, kind: str, *sizes: int, **options: Any) -> Any:
    lib.manual_seed(3)
    return getattr(lib.nn, kind)(*sizes, dtype=lib.float64, **options)


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "bidirectional": {"bidirectional": True, "num_layers": 2},
    "batch first": {"batch_first": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_layers_and_their_derivatives(kind: str, options: dict[str, Any]) -> None:
    def run(lib: Any, x: Any, h: Any, c: Any) -> Any:
        layer = network(lib, kind, 3, 4, **options)
        out, last = layer(x, states(kind, h, c))
        loss = out.sin().sum()
        lib.autograd.grad(loss, list(layer.parameters()), retain_graph=True)
        return out, last, dict(layer.named_parameters())

    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    shape = (2, 5, 3) if options.get("batch_first") else (5, 2, 3)
    check(run, shape, (count, 2, 4), (count, 2, 4), **OPTIONS, grad=2)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_weights(kind: str) -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = network(lib, kind, 3, 4, 2, bidirectional=True)
        out, last = layer(x)
        last = last[1] if kind == "LSTM" else last
        (out.sin().sum() + (last * last).sum()).backward()
        return {name: p.grad for name, p in layer.named_parameters()}

    check(run, (5, 3, 3), **OPTIONS, grad=0)


def test_relu() -> None:
    def run(lib: Any, x: Any) -> Any:
        return network(lib, "RNN", 3, 4, 1, "relu")(x)

    check(run, (5, 2, 3), **OPTIONS)


@pytest.mark.parametrize("options", [{}, {"bias": False, "bidirectional": True, "num_layers": 2}])
def test_projections(options: dict[str, Any]) -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = network(lib, "LSTM", 3, 5, proj_size=2, **options)
        out, (h, c) = layer(x)
        (out.sin().sum() + (h * h).sum() + c.sum()).backward(retain_graph=True)
        return out, h, c, {name: p.grad for name, p in layer.named_parameters()}

    check(run, (4, 3, 3), **OPTIONS)


@pytest.mark.parametrize("kind", KINDS)
def test_without_batch(kind: str) -> None:
    def run(lib: Any, x: Any, h: Any, c: Any) -> Any:
        layer = network(lib, kind, 3, 4)
        return layer(x, states(kind, h, c)), layer(x), layer(x.unsqueeze(1))

    check(run, (5, 3), (1, 4), (1, 4), **OPTIONS, grad=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sort", [True, False])
def test_packed_sequences(kind: str, sort: bool) -> None:
    lengths = [5, 3, 3, 1] if sort else [3, 1, 5, 3]

    def run(lib: Any, x: Any, h: Any, c: Any) -> Any:
        rnn = lib.nn.utils.rnn
        layer = network(lib, kind, 3, 4, 2, bidirectional=True)
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=sort)
        out, last = layer(packed, states(kind, h, c))
        padded, sizes = rnn.pad_packed_sequence(out)
        both = padded.sin().sum() + (last[0] if kind == "LSTM" else last).sum()
        both.backward(retain_graph=True)
        return padded, sizes, last, {name: p.grad for name, p in layer.named_parameters()}

    check(run, (5, 4, 3), (4, 4, 4), (4, 4, 4), **OPTIONS)


def test_inputs_with_other_signs_than_their_memory() -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = network(lib, "GRU", 3, 4)
        negative = lib.complex(x.detach(), x).conj().imag
        assert negative.is_neg()
        return layer(negative)

    check(run, (5, 2, 3), **OPTIONS, grad=1)


def test_many_rows_and_units() -> None:
    """More of both than one task and one tile of the kernel takes."""

    def run(lib: Any, x: Any) -> Any:
        layer = network(lib, "LSTM", 3, 130)
        out, _ = layer(x)
        out.sum().backward()
        return out, {name: p.grad for name, p in layer.named_parameters()}

    check(run, (3, 21, 3), **OPTIONS, grad=0)


def test_threads_do_not_change_a_bit(threads: Any) -> None:
    jitgrad.manual_seed(0)
    layer = jitgrad.nn.GRU(64, 64)
    x = jitgrad.randn(20, 40, 64)

    def run() -> list[Any]:
        layer.zero_grad()
        out, last = layer(x)
        (out.sum() + last.sum()).backward()
        return [out.detach().numpy(), *(p.grad.numpy().copy() for p in layer.parameters())]

    threads(1)
    one = run()
    threads(2)
    for a, b in zip(one, run(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_float32() -> None:
    def run(lib: Any, x: Any) -> Any:
        lib.manual_seed(0)
        layer = lib.nn.LSTM(8, 16)
        out, (h, c) = layer(x)
        out.sum().backward(retain_graph=True)
        return out, h, c, {name: p.grad for name, p in layer.named_parameters()}

    check(run, arg((6, 4, 8), dtype="float32"), grad=1, rtol=1e-4, atol=1e-5)


def test_dropout_between_layers() -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = network(lib, "GRU", 3, 4, 3, dropout=0.5)
        trained = layer(x)
        return trained, layer.eval()(x)

    check(run, (5, 2, 3), **OPTIONS, grad=1)


def test_empty_batch() -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = network(lib, "LSTM", 3, 4)
        out, last = layer(x)
        out.sum().backward()
        return out, last, {name: p.grad for name, p in layer.named_parameters()}

    check(run, (5, 0, 3), **OPTIONS, grad=0)


def test_forward_mode() -> None:
    jitgrad.manual_seed(0)
    layer = jitgrad.nn.GRU(2, 3, dtype=jitgrad.float64)
    x = jitgrad.randn(4, 2, 2, dtype=jitgrad.float64)
    v = jitgrad.randn(4, 2, 2, dtype=jitgrad.float64)
    _, tangent = jitgrad.func.jvp(lambda x: layer(x)[0], (x,), (v,))
    small = 1e-6
    difference = (layer(x + small * v)[0] - layer(x - small * v)[0]) / (2 * small)
    assert (tangent - difference).abs().max().item() < 1e-8


def test_released_and_written_tensors_are_refused() -> None:
    layer = jitgrad.nn.LSTM(2, 3)
    x = jitgrad.randn(4, 2, 2, requires_grad=True)
    out, _ = layer(x)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()
    out, _ = layer(x)
    loss = out.sum()
    with jitgrad.no_grad():
        layer.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Modules ------------------------------------------------------------------------------------------
def test_text_and_state_dict() -> None:
    def run(lib: Any) -> Any:
        nn = lib.nn
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layers = [
                nn.LSTM(3, 4),
                nn.LSTM(3, 4, 2, False, True, 0.5, True, 2),
                nn.RNN(3, 4, 2, "relu", False, True, 0.5, True),
                nn.GRU(3, 4, dropout=0.5),
                nn.RNNCell(3, 4, False, "relu"),
                nn.LSTMCell(3, 4),
                nn.GRUCell(3, 4, bias=False),
            ]
        layers[0].flatten_parameters()
        weights = [[tuple(p.shape) for p in group] for group in layers[1].all_weights]
        return [str(x) for x in layers], [list(x.state_dict()) for x in layers], weights

    check(run)
    check(
        lambda lib: lib.nn.GRU(2, 3, dropout=0.5).num_layers,
        warns="dropout option adds dropout after all but last recurrent layer",
    )


@pytest.mark.parametrize("kind", [*KINDS, "RNNCell", "LSTMCell", "GRUCell"])
def test_initial_values(kind: str) -> None:
    def run(lib: Any) -> Any:
        lib.manual_seed(1)
        return dict(getattr(lib.nn, kind)(3, 4).named_parameters())

    check(run, exact=True)


BAD: dict[str, Any] = {
    "RNN nonlinearity": (lambda nn: nn.RNN(3, 4, nonlinearity="x"), "Unknown nonlinearity 'x'"),
    "projection": (lambda nn: nn.LSTM(3, 4, proj_size=4), "proj_size has to be smaller"),
    "negative": (lambda nn: nn.LSTM(3, 4, proj_size=-1), "should be a positive integer"),
    "GRU projection": (lambda nn: nn.GRU(3, 4, proj_size=2), "only supported for LSTM"),
    "units": (lambda nn: nn.LSTM(3, 0), "hidden_size must be greater than zero"),
    "layers": (lambda nn: nn.LSTM(3, 4, num_layers=0), "num_layers must be greater than zero"),
    "type": (lambda nn: nn.LSTM(3, 4.0), "hidden_size should be of type int, got: float"),
    "dropout": (lambda nn: nn.LSTM(3, 4, dropout=2), "dropout should be a number in range [0, 1]"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_arguments(case: str) -> None:
    make, match = BAD[case]
    check_raises(lambda lib: make(lib.nn), match=match)


INPUTS: list[tuple[str, tuple[int, ...], Any, str]] = [
    ("LSTM", (5, 2, 4), None, "input.size(-1) must be equal to input_size. Expected 3, got 4"),
    ("LSTM", (5, 2, 3, 1), None, "LSTM: Expected input to be 2D or 3D, got 4D instead"),
    ("GRU", (3,), None, "GRU: Expected input to be 2D or 3D, got 1D instead"),
    ("RNN", (0, 2, 3), None, "Expected sequence length to be larger than 0 in RNN"),
    ("LSTM", (5, 2, 3), [(1, 3, 4), (1, 2, 4)], "Expected hidden[0] size (1, 2, 4), got [1, 3, 4]"),
    ("LSTM", (5, 2, 3), [(1, 2, 4), (1, 2, 5)], "Expected hidden[1] size (1, 2, 4), got [1, 2, 5]"),
    ("LSTM", (5, 3), [(1, 2, 4), (1, 2, 4)], "hx and cx should also be 2-D but got (3-D, 3-D)"),
    ("LSTM", (5, 2, 3), [(1, 4), (1, 4)], "hx and cx should also be 3-D but got (2-D, 2-D)"),
    ("GRU", (5, 2, 3), [(1, 3, 4)], "Expected hidden size (1, 2, 4), got [1, 3, 4]"),
    ("GRU", (5, 2, 3), [(1, 4)], "hx should also be 3-D but got 2-D tensor"),
    ("GRU", (5, 3), [(1, 2, 4)], "hx should also be 2-D but got 3-D tensor"),
    ("LSTMCell", (2, 4), None, "input has inconsistent input_size: got 4 expected 3"),
    ("LSTMCell", (2, 4, 1), None, "LSTMCell: Expected input to be 1D or 2D, got 3D instead"),
    ("GRUCell", (2, 3), [(2, 5)], "hidden0 has inconsistent hidden_size: got 5, expected 4"),
    ("RNNCell", (2, 3), [(3, 4)], "Input batch size 2 doesn't match hidden0 batch size 3"),
    ("GRUCell", (2, 3), [(4,)], "Input batch size 2 doesn't match hidden0 batch size 4"),
    ("RNNCell", (3,), [(2, 4)], "hidden0 has inconsistent hidden_size: got 2, expected 4"),
    ("LSTMCell", (2, 3), [(1, 2, 4)] * 2, "LSTMCell: Expected hx[0] to be 1D or 2D, got 3D"),
    ("LSTMCell", (2, 3), [(2, 4), (2, 5)], "hidden1 has inconsistent hidden_size: got 5"),
]


@pytest.mark.parametrize("kind, shape, hidden, match", INPUTS)
def test_refused_inputs(kind: str, shape: tuple[int, ...], hidden: Any, match: str) -> None:
    def run(lib: Any, x: Any) -> Any:
        layer = getattr(lib.nn, kind)(3, 4, dtype=lib.float64)
        if hidden is None:
            return layer(x)
        given = [lib.zeros(s, dtype=lib.float64) for s in hidden]
        return layer(x, tuple(given) if kind.startswith("LSTM") else given[0])

    check_raises(run, shape, match=match)


def test_refused_dtype() -> None:
    check_raises(
        lambda lib, x: lib.nn.LSTM(3, 4)(x), (5, 2, 3), match="does not match weight dtype"
    )


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("batch", [(2,), ()])
def test_cells(kind: str, batch: tuple[int, ...]) -> None:
    def run(lib: Any, x: Any, h: Any, c: Any) -> Any:
        cell = network(lib, kind, 3, 4)
        result = cell(x, (h, c) if kind == "LSTMCell" else h)
        return result, cell(x)

    check(run, (*batch, 3), (*batch, 4), (*batch, 4), **OPTIONS, strides="ignore")


def test_functions() -> None:
    def run(lib: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b: Any) -> Any:
        weights = [w_ih, w_hh, b, b]
        packed = lib.nn.utils.rnn.pack_padded_sequence(x, [4, 2])
        return (
            lib.gru(x, h, weights, True, 1, 0.0, False, False, False),
            lib.gru(packed.data, packed.batch_sizes, h, weights, True, 1, 0.0, False, False),
            lib.gru_cell(x[0], h[0], *weights),
            lib.rnn_relu_cell(x[0], h[0], w_ih[:2], w_hh[:2]),
            lib.rnn_tanh(x, h, [w_ih[:2], w_hh[:2]], False, 1, 0.0, False, False, False),
            lib.lstm_cell(x[0], (h[0], h[0]), w_ih.repeat(2, 1)[:8], w_hh.repeat(2, 1)[:8]),
        )

    check(run, (4, 2, 3), (1, 2, 2), (6, 3), (6, 2), (6,), **OPTIONS, strides="ignore")
    check_raises(
        lambda lib, x, h, w: lib.lstm(x, (h,), [w, w], False, 1, 0.0, False, False, False),
        (4, 2, 3), (1, 2, 3), (12, 3), match="lstm expects two hidden states",
    )  # fmt: skip
    check_raises(
        lambda lib, x, h, w: lib.gru(x, h, [w], False, 1, 0.0, False, False, False),
        (4, 2, 3), (1, 2, 3), (9, 3), match="got an incorrect number of RNN parameters",
    )  # fmt: skip


# Packed sequences ---------------------------------------------------------------------------------
def test_packing() -> None:
    def run(lib: Any, x: Any) -> Any:
        rnn = lib.nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, [4, 2, 1])
        loose = rnn.pack_padded_sequence(
            x.transpose(0, 1), lib.tensor([2, 4, 1]), batch_first=True, enforce_sorted=False
        )
        padded = rnn.pad_packed_sequence(loose, batch_first=True, padding_value=-1, total_length=6)
        return packed, loose, rnn.unpack_sequence(loose), padded

    check(run, (4, 3, 2), strides="ignore", grad_fn=False, version=False)


def test_padding() -> None:
    def run(lib: Any, x: Any, y: Any) -> Any:
        rnn = lib.nn.utils.rnn
        return (
            rnn.pad_sequence([x, y]),
            rnn.pad_sequence([x, y], True, 7.0, "left"),
            rnn.unpad_sequence(rnn.pad_sequence([x, y]), lib.tensor([2, 3])),
            rnn.pack_sequence([y, x]),
            rnn.pack_sequence([x, y], enforce_sorted=False),
        )

    check(run, (2, 2), (3, 2), strides="ignore", version=False, grad_fn=False)
    check(lambda lib: lib.nn.utils.rnn.invert_permutation(lib.tensor([2, 0, 1])), version=False)


def test_packed_sequence_itself() -> None:
    def run(lib: Any) -> Any:
        rnn = lib.nn.utils.rnn
        packed = rnn.PackedSequence(lib.ones(3, 2), lib.tensor([2, 1]), lib.tensor([1, 0]))
        same = rnn.PackedSequence((packed.data, packed.batch_sizes))
        return (
            packed, same, packed.double(), packed.cpu() is packed, packed.to(lib.float64).data,
            packed.is_cuda, packed.is_pinned(), packed.float() is packed,
        )  # fmt: skip

    check(run, version=False)


REFUSED: list[tuple[Any, str]] = [
    (lambda r, x: r.pack_padded_sequence(x, [2, 4]), "must be sorted in decreasing order"),
    (lambda r, x: r.pack_padded_sequence(x, [4, 0]), "Length of all samples has to be greater"),
    (lambda r, x: r.pack_padded_sequence(x, [4]), "Expected `len(lengths)` to be equal to batch"),
    (lambda r, x: r.pack_padded_sequence(x, [[4, 3]]), "should be a 1D CPU int64 tensor, but got"),
    (lambda r, x: r.pad_packed_sequence(r.pack_padded_sequence(x, [4, 2]), total_length=3),
     "Expected total_length to be at least the length of the longest sequence"),
    (lambda r, x: r.pad_sequence([x], padding_side="x"), "one of left or right, but got x"),
    (lambda r, x: r.pad_sequence(3), "Expected iterable for input sequences"),
    (lambda r, x: r.pad_sequence([]), "received an empty list of sequences"),
    (lambda r, x: r.pack_sequence([x[:1], x]), "must be sorted in decreasing order"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused_sequences(case: int) -> None:
    call, match = REFUSED[case]
    check_raises(lambda lib, x: call(lib.nn.utils.rnn, x), (4, 2, 3), match=match)
