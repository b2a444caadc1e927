"""Train a small network on real handwritten digits: ``python -m jitgrad.demo``.

The 8x8 digits are those of scikit-learn (1797 images from the UCI repository). The program exits
with an error unless the network learns them (97 % of the test images) and its gradients agree with
finite differences.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_IMPORTED = time.monotonic()

import jitgrad as jg  # noqa: E402  (the clock starts first)
from jitgrad import nn, optim  # noqa: E402

REQUIRED_ACCURACY = 0.97
LARGEST_ERROR = 1e-5


def process_age() -> tuple[float, str]:
    """Seconds that this process has run, and since when; since this import where unknown."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started, "the start of the process"
    except (OSError, AttributeError, ValueError, IndexError):
        return time.monotonic() - _IMPORTED, "the import of this program"


def build() -> nn.Module:
    """The network: 64 pixels, two hidden layers, 10 digits."""
    return nn.Sequential(
        *(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.3)),
        nn.Linear(128, 10),
    )


def first_gradient(model: nn.Module) -> None:
    """One pass forwards and backwards, on noise: no data is loaded yet."""
    loss = nn.functional.cross_entropy(model(jg.rand(64, 64)), jg.randint(10, (64,)))
    loss.backward()


def load_digits() -> tuple[jg.Tensor, jg.Tensor, jg.Tensor, jg.Tensor]:
    """Images and labels for training (80 %) and test, shuffled, always in the same way."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError:
        sys.exit(
            "The demo needs scikit-learn, which ships the digits. Install it with the demo extra "
            "(pip install 'jitgrad[demo]'), or run `make demo`, which does."
        )
    pixels, labels = load(return_X_y=True)
    order = jg.randperm(len(labels), generator=jg.Generator().manual_seed(0))
    x = jg.tensor(pixels / 16, dtype=jg.float32)[order]
    y = jg.tensor(labels, dtype=jg.int64)[order]
    split = len(labels) * 4 // 5
    return x[:split], y[:split], x[split:], y[split:]


def accuracy(model: nn.Module, x: jg.Tensor, y: jg.Tensor) -> float:
    """The fraction of images whose largest output is the right digit."""
    model.eval()
    with jg.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def progress(epochs: int) -> Iterable[int]:
    """The numbers of the epochs, with a progress bar where tqdm is installed."""
    try:
        from tqdm import trange
    except ImportError:
        return range(epochs)
    return trange(epochs, unit="epoch", file=sys.stdout, ncols=80, mininterval=0.2)


def show(epochs: Any, epoch: int, loss: float) -> None:
    """Put the loss beside the bar; without a bar, a line every tenth epoch."""
    if hasattr(epochs, "set_postfix_str"):
        epochs.set_postfix_str(f"loss {loss:.4f}")
    elif (epoch + 1) % 10 == 0:
        print(f"epoch {epoch + 1:3d}   loss {loss:.4f}", flush=True)


def train(model: nn.Module, x: jg.Tensor, y: jg.Tensor, epochs: int, batch: int) -> list[float]:
    """Train with AdamW; returns the seconds that each epoch took."""
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    seconds = []
    bar = progress(epochs)
    for epoch in bar:
        start = time.perf_counter()
        order = jg.randperm(len(y))
        total = 0.0
        for rows in order.split(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        seconds.append(time.perf_counter() - start)
        show(bar, epoch, total / len(y))
    return seconds


def gradient_error(model: nn.Module, x: jg.Tensor, y: jg.Tensor, samples: int = 50) -> float:
    """The largest relative error of gradients against central differences, in float64.

    For randomly chosen weights w the gradient is compared with
    ``(loss(w + h) - loss(w - h)) / (2 h)``.
    """
    exact = build().double().eval()
    exact.load_state_dict(model.state_dict())
    x = x.double()

    def loss() -> jg.Tensor:
        return nn.functional.cross_entropy(exact(x), y)

    loss().backward()
    h, worst = 1e-5, 0.0
    with jg.no_grad():
        for parameter in exact.parameters():
            assert parameter.grad is not None
            weights, gradient = parameter.view(-1), parameter.grad.view(-1)
            scale = gradient.abs().max().item()
            for i in jg.randperm(len(weights)).tolist()[:samples]:
                weight = weights[i].item()
                weights[i] = weight + h
                above = loss().item()
                weights[i] = weight - h
                below = loss().item()
                weights[i] = weight
                difference = (above - below) / (2 * h)
                error = abs(difference - gradient[i].item())
                worst = max(worst, error / max(abs(difference), 1e-3 * scale))
    return worst


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m jitgrad.demo", description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    jg.set_num_threads(1)  # layers as small as these gain nothing from more
    jg.manual_seed(options.seed)
    model = build()
    first_gradient(model)
    age, since = process_age()
    print(f"first gradient         {age:.2f} s after {since}", flush=True)

    x, y, test_x, test_y = load_digits()
    seconds = train(model, x, y, options.epochs, options.batch_size)
    right = accuracy(model, test_x, test_y)
    error = gradient_error(model, test_x[:32], test_y[:32])

    typical = sorted(seconds)[len(seconds) // 2]
    print(f"time per epoch         {1000 * typical:.1f} ms ({len(y)} images)")
    print(f"test accuracy          {100 * right:.2f} % of {len(test_y)} images")
    agrees = error <= LARGEST_ERROR
    verdict = "agree" if agrees else "DO NOT agree"
    print(
        f"gradients              {verdict} with finite differences in float64 "
        f"(largest relative error {error:.1e})"
    )
    if right < REQUIRED_ACCURACY:
        print(f"error: the accuracy is below {100 * REQUIRED_ACCURACY:.0f} %", file=sys.stderr)
    return 0 if right >= REQUIRED_ACCURACY and agrees else 1


if __name__ == "__main__":
    sys.exit(main())
