"""Recurrent layers and cells, and their weights."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..dispatch.creation import empty, zeros
from ..dispatch.rows import index_select
from ..dispatch.view import squeeze, unsqueeze
from ..dtypes import dtype
from ..tensor import Tensor
from . import _recurrent as functions
from . import init
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The slices of a tensor in another order."""
    return index_select(tensor, dim, permutation)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: weights, checks, and the order of states.

    Args:
        mode: ``RNN_TANH``, ``RNN_RELU``, ``LSTM`` or ``GRU``.
        input_size: features of the input.
        hidden_size: units of each layer.
        num_layers: layers on top of each other.
        bias: whether there are ``bias_ih`` and ``bias_hh``.
        batch_first: whether input and output are [batch, steps, features].
        dropout: probability of dropping an element between two layers, in training.
        bidirectional: whether each layer also reads the sequence backwards.
        proj_size: size that an LSTM's output is projected to; 0 for no projection.

    Attributes:
        weight_ih_l<k>, weight_hh_l<k>, bias_ih_l<k>, bias_hh_l<k>, weight_hr_l<k>: of layer k, with
            ``_reverse`` appended for the other direction; uniform in +-1/sqrt(hidden_size) at
            first.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        self.dropout = float(dropout)
        self._all_weights: list[list[str]] = []
        gates, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                features = input_size if layer == 0 else out * (1 + bidirectional)
                shapes = {"weight_ih": (gates, features), "weight_hh": (gates, out)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}  # type: ignore[dict-item]
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    setattr(self, name, Parameter(empty(*shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    def _check_arguments(self, dropout: Any) -> None:
        if (
            isinstance(dropout, bool)
            or not isinstance(dropout, (int, float))
            or not 0 <= dropout <= 1
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                UserWarning,
                stacklevel=4,
            )
        if not isinstance(self.hidden_size, int):
            raise TypeError(
                f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}"
            )
        if self.hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for names in self._all_weights for name in names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing: weights need not lie side by side."""

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    # Checks ---------------------------------------------------------------------------------------
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise unless the input has the right rank, size and dtype."""
        weight = self._flat_weights[0]
        if input.dtype is not weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the hidden state."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0].item())
        else:
            batch = input.shape[0 if self.batch_first else 1]
        directions = 2 if self.bidirectional else 1
        return self.num_layers * directions, batch, self.proj_size or self.hidden_size

    def check_hidden_size(
        self, hx: Tensor, expected: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:  # fmt: skip
        """RuntimeError unless a state has the expected shape."""
        if tuple(hx.shape) != expected:
            raise RuntimeError(msg.format(expected, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise for an input or states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in the order of sorted sequences, or back."""
        return hx if permutation is None else apply_permutation(hx, permutation)

    # Calling --------------------------------------------------------------------------------------
    def _initial(self, count: int, batch: int, input: Tensor) -> Any:
        """States of zeros."""
        return zeros(count, batch, self.proj_size or self.hidden_size, dtype=input.dtype)

    def _with_batch(self, hx: Any) -> Any:
        """States of an input without batch, with one."""
        if hx.dim() != 2:
            raise RuntimeError(
                f"For unbatched 2-D input, hx should also be 2-D but got {hx.dim()}-D tensor"
            )
        return unsqueeze(hx, 1)

    def _check_batched(self, hx: Any) -> None:
        if hx.dim() != 3:
            raise RuntimeError(
                f"For batched 3-D input, hx should also be 3-D but got {hx.dim()}-D tensor"
            )

    def _without_batch(self, hx: Any) -> Any:
        return squeeze(hx, 1)

    def _run(self, input: Tensor, batch_sizes: Tensor | None, hx: Any) -> tuple[Tensor, Any]:
        """The layers, on checked arguments."""
        options = (
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )
        function = getattr(functions, self.mode.lower())
        if batch_sizes is None:
            out, *states = function(input, hx, *options, self.batch_first)
        else:
            out, *states = function(input, batch_sizes, hx, *options)
        return out, tuple(states) if len(states) > 1 else states[0]

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The output of the last layer at all steps, and the final states of all layers.

        Args:
            input: [steps, batch, features], [steps, features], or a :class:`PackedSequence`.
            hx: the initial states; zeros by default.
        """
        count = self.num_layers * (2 if self.bidirectional else 1)
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            if hx is None:
                hx = self._initial(count, int(sizes[0].item()), data)
            else:
                hx = self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, sizes)
            out, states = self._run(data, sizes, hx)
            packed = PackedSequence(out, sizes, order, back)
            return packed, self.permute_hidden(states, back)
        if input.dim() not in (2, 3):
            name = "RNN" if self.mode.startswith("RNN") else self.mode
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched, dim = input.dim() == 3, 0 if self.batch_first else 1
        if not batched:
            input = unsqueeze(input, dim)
        if hx is None:
            hx = self._initial(count, input.shape[dim], input)
        elif batched:
            self._check_batched(hx)
        else:
            hx = self._with_batch(hx)
        self.check_forward_args(input, hx, None)
        out, states = self._run(input, None, hx)
        if not batched:
            return squeeze(out, dim), self._without_batch(states)
        return out, states

    def extra_repr(self) -> str:
        shown = [str(self.input_size), str(self.hidden_size)]
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                    "dropout": 0, "bidirectional": False}  # fmt: skip
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join(shown)


class RNN(RNNBase):
    """``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` at every step (Elman 1990), or with ReLU.

    Args: those of :class:`RNNBase` from ``input_size`` on, with ``nonlinearity`` (``tanh`` or
    ``relu``) after ``num_layers``.

    >>> import jitgrad as jg
    >>> out, h = jg.nn.RNN(3, 4)(jg.zeros(5, 2, 3))
    >>> out.shape, h.shape
    (jitgrad.Size([5, 2, 4]), jitgrad.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units (Cho et al. 2014).

    ``r, z = sigmoid(...)``, ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))``,
    ``h = (1 - z) * n + z * h``. Args: those of :class:`RNNBase` from ``input_size`` on.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; projections: Sak et al. 2014).

    ``i, f, o = sigmoid(...)``, ``g = tanh(...)``, ``c = f * c + i * g``, ``h = o * tanh(c)``. Args:
    those of :class:`RNNBase` from ``input_size`` on. States are pairs ``(h, c)``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the cell state."""
        count, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return count, batch, self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise for an input or states that do not fit."""
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for i, expected in enumerate(sizes):
            self.check_hidden_size(hidden[i], expected, f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in the order of sorted sequences, or back."""
        if permutation is None:
            return hx
        return tuple(apply_permutation(x, permutation) for x in hx)

    def _initial(self, count: int, batch: int, input: Tensor) -> Any:
        hidden = super()._initial(count, batch, input)
        return hidden, zeros(count, batch, self.hidden_size, dtype=input.dtype)

    def _with_batch(self, hx: Any) -> Any:
        if hx[0].dim() != 2 or hx[1].dim() != 2:
            raise RuntimeError(
                "For unbatched 2-D input, hx and cx should also be 2-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        return tuple(unsqueeze(x, 1) for x in hx)

    def _check_batched(self, hx: Any) -> None:
        if hx[0].dim() != 3 or hx[1].dim() != 3:
            raise RuntimeError(
                "For batched 3-D input, hx and cx should also be 3-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def _without_batch(self, hx: Any) -> Any:
        return tuple(squeeze(x, 1) for x in hx)


class RNNCellBase(Module):
    """What the cells share: ``weight_ih``, ``weight_hh``, ``bias_ih``, ``bias_hh``."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        return shown if self.bias else f"{shown}, bias={self.bias}"

    def _batch(self, input: Tensor, *states: tuple[str, Tensor | None]) -> tuple[bool, list[Any]]:
        """Whether there is a batch dimension; input and states with one, states filled in."""
        name = type(self).__name__
        for what, x in (("input", input), *states):
            if x is not None and x.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {x.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = unsqueeze(input, 0)
        found: list[Any] = [input]
        for _, x in states:
            if x is None:
                x = zeros(input.shape[0], self.hidden_size, dtype=input.dtype)
            elif not batched:
                x = unsqueeze(x, 0)
            found.append(x)
        # A state without batch beside an input with one: its size is taken for a batch size.
        for i, x in enumerate(found[1:]):
            if x.dim() == 1:
                raise RuntimeError(
                    f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size "
                    f"{x.shape[0]}"
                )
        return batched, found

    @property
    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class RNNCell(RNNCellBase):
    """One step of :class:`RNN`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        shown = super().extra_repr()
        same = self.nonlinearity == "tanh"
        return shown if same else f"{shown}, nonlinearity={self.nonlinearity}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        batched, (input, state) = self._batch(input, ("hidden", hx))
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = getattr(functions, f"rnn_{self.nonlinearity}_cell")
        result = function(input, state, *self._weights)
        return result if batched else squeeze(result, 0)


class LSTMCell(RNNCellBase):
    """One step of :class:`LSTM`: from ``(h, c)`` to the next ``(h, c)``."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = hx or (None, None)
        batched, (input, *states) = self._batch(input, ("hx[0]", h), ("hx[1]", c))
        h, c = functions.lstm_cell(input, states, *self._weights)
        return (h, c) if batched else (squeeze(h, 0), squeeze(c, 0))


class GRUCell(RNNCellBase):
    """One step of :class:`GRU`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        batched, (input, state) = self._batch(input, ("hidden", hx))
        result = functions.gru_cell(input, state, *self._weights)
        return result if batched else squeeze(result, 0)
