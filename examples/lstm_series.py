"""An LSTM that learns to predict a chaotic time series.

The series is that of Mackey & Glass (1977), a delay equation that models the number of blood cells:
it never repeats itself, and two of its courses part quickly. An LSTM reads it value by value and
says the next one; at the end it continues the series by itself, reading what it has said. The same
file runs on either library, with the same numbers::

    python examples/lstm_series.py
    python examples/lstm_series.py --backend torch
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

BAR = 0.02  # of the error of guessing that the next value is the last one, squared


class Config(NamedTuple):
    """The shape of the model, and how it is trained."""

    units: int = 48
    layers: int = 1
    length: int = 64  # steps of a sequence
    batch: int = 32
    rate: float = 5e-3


# The series ---------------------------------------------------------------------------------------
def mackey_glass(count: int, delay: int = 17, every: int = 3) -> np.ndarray:
    """Values of ``x' = 0.2 x(t - delay) / (1 + x(t - delay)^10) - 0.1 x``, of mean 0."""
    steps = 10  # of a unit of time
    x = np.full((count * every + 500 + delay) * steps, 1.2)
    for i in range(delay * steps, len(x) - 1):
        before = x[i - delay * steps]
        x[i + 1] = x[i] + (0.2 * before / (1 + before**10) - 0.1 * x[i]) / steps
    values = x[:: every * steps][-count:]
    return (values - values.mean()) / values.std()


class Series:
    """The series in two parts: what is learned, and the last fifth."""

    def __init__(self, count: int = 3000) -> None:
        values = mackey_glass(count)
        cut = count * 4 // 5
        self.learned, self.held_back = values[:cut], values[cut:]

    def batches(self, config: Config, seed: int = 0) -> Iterator[np.ndarray]:
        """Endless [length + 1, batch] pieces of what is learned."""
        rng = np.random.default_rng(seed)
        while True:
            starts = rng.integers(0, len(self.learned) - config.length, config.batch)
            yield self.learned[np.arange(config.length + 1)[:, None] + starts]


# The model ----------------------------------------------------------------------------------------
def build(lib: Any, config: Config) -> Any:
    """The model, from the modules of a library."""

    class Predictor(lib.nn.Module):
        """From [steps, batch] values, and the state before, to what follows each, and the state."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = lib.nn.LSTM(1, config.units, config.layers)
            self.head = lib.nn.Linear(config.units, 1)

        def forward(self, values: Any, state: Any = None) -> Any:
            hidden, state = self.lstm(values.unsqueeze(-1), state)
            return values + self.head(hidden).squeeze(-1), state

    return Predictor()


def loss_of(lib: Any, model: Any, piece: np.ndarray) -> Any:
    """The mean squared error of predicting each value from those before it."""
    dtype = next(model.parameters()).dtype
    values = lib.from_numpy(piece).to(dtype)
    predicted, _ = model(values[:-1])
    return lib.nn.functional.mse_loss(predicted, values[1:])


def train(lib: Any, model: Any, config: Config, batches: Iterator[np.ndarray]) -> Iterator[float]:
    """Take a step for each loss that is asked for."""
    optimizer = lib.optim.Adam(model.parameters(), lr=config.rate)
    for piece in batches:
        optimizer.zero_grad()
        loss = loss_of(lib, model, piece)
        loss.backward()
        optimizer.step()
        yield loss.item()


def held_back(lib: Any, model: Any, series: Series) -> tuple[float, float]:
    """The error on the last fifth, and that of guessing that nothing changes."""
    values = series.held_back
    with lib.no_grad():
        error = loss_of(lib, model, values[:, None]).item()
    return error, float(np.mean(np.diff(values) ** 2))


def carry_on(lib: Any, model: Any, known: np.ndarray, count: int) -> list[float]:
    """What the model says comes after known values, reading its own words."""
    dtype = next(model.parameters()).dtype
    said: list[float] = []
    with lib.no_grad():
        predicted, state = model(lib.from_numpy(known).to(dtype)[:, None])
        value = predicted[-1:]
        for _ in range(count):
            said.append(value.item())
            value, state = model(value, state)
    return said


def plot(lines: list[list[float]], height: int = 12) -> str:
    """Curves over each other, drawn in characters."""
    low, high = min(map(min, lines)), max(map(max, lines))
    rows = [[" "] * len(lines[0]) for _ in range(height)]
    for mark, line in zip(".o", lines, strict=True):
        for i, value in enumerate(line):
            rows[round((high - value) / (high - low) * (height - 1))][i] = mark
    return "\n".join("".join(row).rstrip() for row in rows)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--backend", choices=("jitgrad", "torch"), default="jitgrad")
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args(arguments)
    lib = importlib.import_module(options.backend)
    lib.manual_seed(0)
    config, series = Config(), Series()
    model = build(lib, config)
    size = sum(p.numel() for p in model.parameters())
    print(f"{options.backend}: {size:,} parameters, {len(series.learned):,} values to learn from")
    start = time.perf_counter()
    for step, loss in enumerate(train(lib, model, config, series.batches(config)), 1):
        if step == 1 or step % 100 == 0:
            print(f"step {step:5}  loss {loss:.5f}", flush=True)
        if step >= options.steps:
            break
    seconds = time.perf_counter() - start
    error, naive = held_back(lib, model, series)
    print(
        f"{1e3 * seconds / options.steps:.1f} ms a step; squared error on values held back "
        f"{error:.5f}, {100 * error / naive:.2f} % of that of guessing the last value\n"
    )
    known, following = series.held_back[:200], series.held_back[200:280]
    print(plot([following.tolist(), carry_on(lib, model, known, len(following))]))
    print("\n. the series, o as the model continues it")
    if error > BAR * naive:
        print(f"the error is above {100 * BAR:.0f} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
