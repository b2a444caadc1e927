"""Generators of random numbers, and the default one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import dtypes, errors, rng
from ..tensor import CPU, Tensor, device
from .creation import from_numpy


class Generator(rng.Generator):
    """A stream of random numbers of its own, equal to PyTorch's from the same seed.

    >>> import jitgrad as jg
    >>> g = jg.Generator().manual_seed(0)
    >>> bool((jg.rand(2, generator=g) == jg.rand(2, generator=jg.Generator().manual_seed(0))).all())
    True
    """

    __slots__ = ()

    def __init__(self, device: Any = "cpu") -> None:
        _device(device)
        super().__init__()

    @property
    def device(self) -> device:
        """Where its numbers are made."""
        return CPU

    def get_state(self) -> Any:
        """The whole state as a uint8 tensor, interchangeable with PyTorch's."""
        return from_numpy(super().get_state())

    def set_state(self, new_state: Any) -> Generator:
        """Continue from a state; TypeError unless it is a uint8 tensor, RuntimeError if broken."""
        if not isinstance(new_state, Tensor) or new_state.layout.dtype is not dtypes.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        super().set_state(new_state.numpy())
        return self

    def __reduce__(self) -> Any:
        return _restored, (self.get_state(),)


_device = device  # the class, inside a class that has a property of that name


def _restored(state: Tensor) -> Generator:
    return Generator().set_state(state)


default_generator = Generator()


def manual_seed(seed: Any) -> Generator:
    """Restart the default stream from ``int(seed)``; returns the generator."""
    default_generator.manual_seed(int(seed))
    return default_generator


def seed() -> int:
    """Restart the default stream from a seed of the system's making, and return that seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default stream was last restarted from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default stream, as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default stream from a state that :func:`get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **ignored: Any) -> Iterator[None]:
    """What is drawn inside does not change what is drawn afterwards."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


def stream(name: str, generator: Any) -> rng.Generator:
    if generator is None:
        return default_generator
    if not isinstance(generator, rng.Generator):
        raise errors.argument(name, "generator", "Generator", generator)
    return generator
