"""A character-level GPT that learns to write Python's documentation.

A decoder-only transformer (Radford et al. 2018) is trained on the docstrings of Python's own
library, which every machine has, until the loss on text held back is below ``BAR``; then it writes
a little. The same file runs on either library, with the same batches::

    python examples/gpt.py
    python examples/gpt.py --backend torch
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

BAR = 1.9  # nats a character; always guessing by frequency alone costs 3.2
MODULES = "argparse asyncio collections csv datetime enum functools heapq inspect "
MODULES += "json logging os pathlib pickle random re shutil socket statistics string subprocess "
MODULES += "tarfile textwrap threading typing unittest zipfile"


class Config(NamedTuple):
    """The shape of the model, and how it is trained."""

    characters: int
    context: int = 64
    size: int = 128
    heads: int = 4
    layers: int = 2
    batch: int = 16
    rate: float = 1e-3


# The text -----------------------------------------------------------------------------------------
def documentation() -> str:
    """The docstrings of some modules and of what is in them."""
    found: dict[str, None] = {}  # in order; what is inherited is there once
    for name in MODULES.split():
        module = importlib.import_module(name)
        members = [getattr(module, name) for name in sorted(module.__all__)]
        for member in (module, *members):
            things = (member, *vars(member).values()) if isinstance(member, type) else (member,)
            for thing in things:
                text = getattr(thing, "__doc__", None)
                if isinstance(text, str) and len(text) > 40:
                    found[text.strip() + "\n\n"] = None
    return "".join(found)


class Text:
    """Text as numbers, one for each character; the last tenth is held back."""

    def __init__(self, text: str) -> None:
        printable = "".join(c for c in text if c == "\n" or " " <= c <= "~")
        self.characters = sorted(set(printable))
        number = {c: i for i, c in enumerate(self.characters)}
        numbers = np.array([number[c] for c in printable])
        cut = len(numbers) * 9 // 10
        self.parts = {"train": numbers[:cut], "held back": numbers[cut:]}

    def batches(self, config: Config, part: str, seed: int = 0) -> Iterator[Any]:
        """Endless pairs of [batch, context]: characters, and those that follow them."""
        numbers, rng = self.parts[part], np.random.default_rng(seed)
        while True:
            starts = rng.integers(0, len(numbers) - config.context, config.batch)
            window = starts[:, None] + np.arange(config.context)
            yield numbers[window], numbers[window + 1]


# The model ----------------------------------------------------------------------------------------
def build(lib: Any, config: Config) -> Any:
    """The model, from the modules of a library."""
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        """Attention to what came before, then two linear maps; each added to its input."""

        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(config.size), nn.LayerNorm(config.size)
            self.attention = nn.Linear(config.size, 3 * config.size)
            self.project = nn.Linear(config.size, config.size)
            self.widen = nn.Linear(config.size, 4 * config.size)
            self.narrow = nn.Linear(4 * config.size, config.size)

        def forward(self, x: Any) -> Any:
            batch, length, size = x.shape
            parts = self.attention(self.norm1(x)).split(size, dim=2)
            shape = (batch, length, config.heads, size // config.heads)
            q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(batch, length, size))
            return x + self.narrow(functional.gelu(self.widen(self.norm2(x))))

    class GPT(nn.Module):
        """Logits [batch, length, characters] of what follows each character."""

        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(config.characters, config.size)
            self.places = nn.Embedding(config.context, config.size)
            self.blocks = nn.Sequential(*(Block() for _ in range(config.layers)))
            self.norm = nn.LayerNorm(config.size)
            self.head = nn.Linear(config.size, config.characters, bias=False)
            for name, p in self.named_parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(p)

        def forward(self, characters: Any) -> Any:
            places = self.places(lib.arange(characters.shape[1]))
            return self.head(self.norm(self.blocks(self.tokens(characters) + places)))

    return GPT()


def loss_of(lib: Any, model: Any, batch: Any) -> Any:
    """The mean negative log likelihood of the characters that follow, in nats."""
    given, following = (lib.from_numpy(x) for x in batch)
    logits = model(given)
    return lib.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def train(lib: Any, model: Any, config: Config, batches: Iterator[Any]) -> Iterator[float]:
    """Take a step for each loss that is asked for."""
    optimizer = lib.optim.AdamW(model.parameters(), lr=config.rate, weight_decay=0.01)
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(lib, model, batch)
        loss.backward()
        lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def held_back(lib: Any, model: Any, text: Text, config: Config, count: int = 20) -> float:
    """The mean loss on text that was held back."""
    batches = text.batches(config, "held back", seed=1)
    with lib.no_grad():
        return sum(loss_of(lib, model, next(batches)).item() for _ in range(count)) / count


def write(lib: Any, model: Any, text: Text, config: Config, length: int) -> str:
    """Characters drawn one after the other, each from what the model expects to follow."""
    known = lib.tensor([[text.characters.index("\n")]])
    with lib.no_grad():
        for _ in range(length):
            logits = model(known[:, -config.context :])[:, -1]
            shares = lib.nn.functional.softmax(logits / 0.8, dim=-1)
            known = lib.cat([known, lib.multinomial(shares, 1)], dim=1)
    return "".join(text.characters[i] for i in known[0].tolist())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--backend", choices=("jitgrad", "torch"), default="jitgrad")
    parser.add_argument("--seconds", type=float, default=100, help="train for at most so long")
    parser.add_argument("--steps", type=int, default=1500, help="and at most so many steps")
    parser.add_argument("--length", type=int, default=300, help="characters to write at the end")
    options = parser.parse_args(arguments)
    text = Text(documentation())  # first: a backend may bring docstrings along
    lib = importlib.import_module(options.backend)
    lib.manual_seed(0)
    config = Config(len(text.characters))
    model = build(lib, config)
    size = sum(p.numel() for p in model.parameters())
    learned = len(text.parts["train"])
    print(f"{options.backend}: {size:,} parameters, {learned:,} characters to learn from")
    start = time.perf_counter()
    steps = train(lib, model, config, text.batches(config, "train"))
    for step, loss in enumerate(steps, 1):
        seconds = time.perf_counter() - start
        if step == 1 or step % 100 == 0:
            print(f"step {step:5}  loss {loss:.3f}  {seconds:6.1f} s", flush=True)
        if step >= options.steps or seconds > options.seconds:
            break
    final = held_back(lib, model, text, config)
    print(f"{1e3 * seconds / step:.1f} ms a step; loss on text held back {final:.3f}\n")
    print(write(lib, model, text, config, options.length))
    if final > BAR:
        print(f"the loss is above {BAR}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
