"""A variational autoencoder (Kingma & Welling 2014) that learns to draw digits.

The 8x8 digits are those of scikit-learn (1797 images from the UCI repository). The model squeezes
each image into a few numbers and back; afterwards numbers drawn at random are made into digits that
nobody has written, in a picture. The same file runs on either library, with the same numbers::

    python examples/vae_digits.py
    python examples/vae_digits.py --backend torch --picture torch.png
"""

from __future__ import annotations

import argparse
import importlib
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BAR = 25.0  # nats an image, a bound on its improbability; without a model 64 log 2 = 44.4
SIDE = 8  # pixels


class Config(NamedTuple):
    """The shape of the model, and how it is trained."""

    hidden: int = 256
    code: int = 8
    batch: int = 64
    rate: float = 2e-3


# The digits ---------------------------------------------------------------------------------------
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images to learn from and images held back, [images, 64] from 0 to 1."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit(
            "This example needs scikit-learn, which ships the digits: pip install scikit-learn"
        )
    pixels = load_digits().data.astype(np.float32) / 16
    np.random.default_rng(0).shuffle(pixels)
    return pixels[:1500], pixels[1500:]


def loader(lib: Any, images: np.ndarray, config: Config) -> Any:
    """Batches of images, in another order in each epoch."""
    data = lib.utils.data
    return data.DataLoader(
        data.TensorDataset(lib.from_numpy(images)), config.batch, shuffle=True, drop_last=True
    )


# The model ----------------------------------------------------------------------------------------
def build(lib: Any, config: Config) -> Any:
    """The model, from the modules of a library."""
    nn = lib.nn

    class Autoencoder(nn.Module):
        """From images to logits of their pixels, and the distribution of their codes."""

        def __init__(self) -> None:
            super().__init__()
            pixels = SIDE * SIDE
            self.encoder = nn.Sequential(
                nn.Linear(pixels, config.hidden),
                nn.SiLU(),
                nn.Linear(config.hidden, 2 * config.code),
            )
            self.decoder = nn.Sequential(
                nn.Linear(config.code, config.hidden), nn.SiLU(), nn.Linear(config.hidden, pixels)
            )

        def forward(self, images: Any) -> tuple[Any, Any, Any]:
            mean, log_variance = self.encoder(images).chunk(2, dim=1)
            noise = lib.randn_like(mean)
            return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance

    return Autoencoder()


def loss_of(lib: Any, model: Any, images: Any) -> Any:
    """The negative evidence lower bound of an image, in nats."""
    logits, mean, log_variance = model(images)
    functional = lib.nn.functional
    pixels = functional.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    code = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    return (pixels + code) / len(images)


def train(lib: Any, model: Any, config: Config, batches: Any) -> Iterator[float]:
    """Take a step for each loss that is asked for; epoch after epoch."""
    optimizer = lib.optim.Adam(model.parameters(), lr=config.rate)
    dtype = next(model.parameters()).dtype
    while True:
        for (images,) in batches:
            optimizer.zero_grad()
            loss = loss_of(lib, model, images.to(dtype))
            loss.backward()
            optimizer.step()
            yield loss.item()


def held_back(lib: Any, model: Any, images: np.ndarray) -> float:
    """The bound on images held back."""
    with lib.no_grad():
        return loss_of(lib, model, lib.from_numpy(images)).item()


# The picture --------------------------------------------------------------------------------------
def samples(lib: Any, model: Any, config: Config, count: int) -> np.ndarray:
    """Images of codes drawn at random, [count, 8, 8] from 0 to 1."""
    with lib.no_grad():
        images = lib.sigmoid(model.decoder(lib.randn(count, config.code)))
    return images.numpy().reshape(count, SIDE, SIDE)


def sheet(images: np.ndarray, columns: int, zoom: int = 6) -> np.ndarray:
    """Images beside and below each other, enlarged, as bytes."""
    rows = -(-len(images) // columns)
    page = np.zeros((rows * (SIDE + 1) + 1, columns * (SIDE + 1) + 1))
    for i, image in enumerate(images):
        top, left = i // columns * (SIDE + 1) + 1, i % columns * (SIDE + 1) + 1
        page[top : top + SIDE, left : left + SIDE] = image
    return np.kron(np.rint(255 * page), np.ones((zoom, zoom))).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    """A grey picture, [height, width] bytes, as a PNG file."""

    def chunk(name: bytes, content: bytes) -> bytes:
        check = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)

    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # each line unfiltered
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--backend", choices=("jitgrad", "torch"), default="jitgrad")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--picture", type=Path, default=Path("digits.png"))
    options = parser.parse_args(arguments)
    lib = importlib.import_module(options.backend)
    lib.manual_seed(0)
    config, (learned, others) = Config(), digits()
    model = build(lib, config)
    batches = loader(lib, learned, config)
    size = sum(p.numel() for p in model.parameters())
    print(f"{options.backend}: {size:,} parameters, {len(learned)} images to learn from")
    steps, start = train(lib, model, config, batches), time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        mean = np.mean([next(steps) for _ in range(len(batches))])
        if epoch == 1 or epoch % 10 == 0:
            print(f"epoch {epoch:3}  loss {mean:.2f}", flush=True)
    seconds = time.perf_counter() - start
    bound = held_back(lib, model, others)
    print(f"{1e3 * seconds / options.epochs:.0f} ms an epoch; {bound:.2f} nats on images held back")
    options.picture.write_bytes(png(sheet(samples(lib, model, config, 64), 8)))
    print(f"64 digits that nobody has written: {options.picture}")
    if bound > BAR:
        print(f"the bound is above {BAR}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
