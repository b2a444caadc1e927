"""A small convolutional network (LeCun et al. 1998) that reads handwritten digits.

The 8x8 digits are those of scikit-learn (1797 images from the UCI repository). The network sees
each of them moved a little in every epoch, and must read at least 98.5 % of those held back. The
same file runs on either library, with the same numbers::

    python examples/cnn_digits.py
    python examples/cnn_digits.py --backend torch
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

BAR = 0.985  # of the images held back
SIDE, CLASSES = 8, 10


class Config(NamedTuple):
    """The shape of the network, and how it is trained."""

    channels: tuple[int, int] = (32, 64)
    hidden: int = 128
    batch: int = 64
    epochs: int = 25
    rate: float = 0.1
    momentum: float = 0.9
    decay: float = 5e-4


# The digits ---------------------------------------------------------------------------------------
class Digits(NamedTuple):
    """Images [count, 1, 8, 8] from 0 to 1, and which digit each shows."""

    images: np.ndarray
    labels: np.ndarray


def digits() -> tuple[Digits, Digits]:
    """Those to learn from, and those held back."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit(
            "This example needs scikit-learn, which ships the digits: pip install scikit-learn"
        )
    data = load_digits()
    images = data.images.astype(np.float32)[:, None] / 16
    order = np.random.default_rng(0).permutation(len(images))
    learned, others = order[:1297], order[1297:]
    return (
        Digits(images[learned], data.target[learned]),
        Digits(images[others], data.target[others]),
    )


def batches(data: Digits, config: Config, epoch: int) -> Iterator[Digits]:
    """Batches of images in a new order, each moved by up to a pixel in either direction."""
    rng = np.random.default_rng(epoch)
    order = rng.permutation(len(data.images))
    padded = np.pad(data.images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(order), 2))
    pixels = np.arange(SIDE)
    rows, columns = moves[:, :1] + pixels, moves[:, 1:] + pixels
    moved = padded[np.arange(len(order))[:, None, None], 0, rows[:, :, None], columns[:, None]]
    for start in range(0, len(order) - config.batch + 1, config.batch):
        chosen = order[start : start + config.batch]
        yield Digits(moved[chosen][:, None], data.labels[chosen])


# The network --------------------------------------------------------------------------------------
def build(lib: Any, config: Config) -> Any:
    """The network, from the modules of a library."""
    nn = lib.nn
    first, second = config.channels
    return nn.Sequential(
        nn.Conv2d(1, first, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(second, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * (SIDE // 4) ** 2, config.hidden),
        nn.ReLU(),
        nn.Linear(config.hidden, CLASSES),
    )


def train(lib: Any, model: Any, config: Config, data: Digits) -> Iterator[float]:
    """Learn from a batch for each loss that is asked for; the rate falls from epoch to epoch."""
    optimizer = lib.optim.SGD(
        model.parameters(), lr=config.rate, momentum=config.momentum, weight_decay=config.decay
    )
    for epoch in range(config.epochs):
        for group in optimizer.param_groups:
            group["lr"] = config.rate / 2 * (1 + np.cos(np.pi * epoch / config.epochs))
        for batch in batches(data, config, epoch):
            images, labels = lib.from_numpy(batch.images), lib.from_numpy(batch.labels)
            optimizer.zero_grad()
            loss = lib.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            yield loss.item()


def accuracy(lib: Any, model: Any, data: Digits) -> float:
    """The share of images that are read right."""
    with lib.no_grad():
        read = model(lib.from_numpy(data.images)).argmax(1).numpy()
    return float((read == data.labels).mean())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--backend", choices=("jitgrad", "torch"), default="jitgrad")
    parser.add_argument("--epochs", type=int, default=Config().epochs)
    options = parser.parse_args(arguments)
    lib = importlib.import_module(options.backend)
    lib.manual_seed(0)
    config, (learned, others) = Config(epochs=options.epochs), digits()
    model = build(lib, config)
    size = sum(p.numel() for p in model.parameters())
    print(f"{options.backend}: {size:,} parameters, {len(learned.images)} images to learn from")
    start = time.perf_counter()
    losses = train(lib, model, config, learned)
    steps = len(learned.images) // config.batch
    for epoch in range(1, config.epochs + 1):
        loss = sum(islice(losses, steps)) / steps
        if epoch == 1 or epoch % 5 == 0:
            print(f"epoch {epoch:3}  loss {loss:.4f}", flush=True)
    seconds = time.perf_counter() - start
    right = accuracy(lib, model, others)
    print(f"{1e3 * seconds / config.epochs:.0f} ms an epoch; {100 * right:.2f} % read right")
    if right < BAR:
        print(f"that is less than {100 * BAR} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
