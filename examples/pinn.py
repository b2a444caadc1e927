"""A physics-informed network that solves the heat equation.

``u_t = D u_xx`` on a rod with cold ends, which begins as ``u(x, 0) = sin(pi x)``. A network N(x, t)
is trained until the equation holds at random points (Raissi, Perdikaris & Karniadakis 2019): its
loss is made of first and second derivatives of the network by its inputs, and so needs those to be
differentiable in turn. Start and ends hold by construction:
``u = sin(pi x) + t x (1 - x) N(x, t)``. The largest error, against the known solution, must be
below ``BAR``. The same file runs on either library, with the same points::

    python examples/pinn.py
    python examples/pinn.py --backend torch
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

DIFFUSION = 0.2
BAR = 1e-3  # of the largest error
QUICK_BAR = 2e-2


def build(lib: Any, size: int) -> Any:
    """The network: two hidden layers of tanh, smooth enough to be differentiated twice."""
    nn = lib.nn
    layers = (nn.Linear(2, size), nn.Tanh(), nn.Linear(size, size), nn.Tanh(), nn.Linear(size, 1))
    return nn.Sequential(*layers).double()


def solution(lib: Any, network: Any, x: Any, t: Any) -> Any:
    """The temperature that the network stands for."""
    inputs = lib.stack([x, t], 1)
    return lib.sin(math.pi * x) + t * x * (1 - x) * network(inputs).squeeze(1)


def residual(lib: Any, network: Any, x: Any, t: Any) -> Any:
    """By how much the heat equation fails at each point."""
    x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
    u = solution(lib, network, x, t)

    def derivative(of: Any, by: Any) -> Any:
        # Points do not see each other, so the gradient of the sum holds each point's derivative.
        return lib.autograd.grad(of.sum(), by, create_graph=True)[0]

    u_xx = derivative(derivative(u, x), x)
    return derivative(u, t) - DIFFUSION * u_xx


def points(lib: Any, count: int) -> tuple[Any, Any]:
    """Random points of the rod and of time."""
    drawn = np.random.default_rng(0).uniform(size=(2, count))
    return lib.from_numpy(drawn[0]), lib.from_numpy(drawn[1])


def train(lib: Any, network: Any, x: Any, t: Any, steps: int) -> Iterator[float]:
    """Minimise the mean square of the residual; yields the loss every few iterations."""
    optimizer = lib.optim.LBFGS(
        network.parameters(), max_iter=20, history_size=50, line_search_fn="strong_wolfe"
    )

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (residual(lib, network, x, t) ** 2).mean()
        loss.backward()
        return loss

    for _ in range(steps):
        yield optimizer.step(closure).item()


def largest_error(lib: Any, network: Any, count: int = 41) -> float:
    """The largest difference from the known solution on a grid."""
    axis = np.linspace(0, 1, count)
    x, t = (lib.from_numpy(a.ravel().copy()) for a in np.meshgrid(axis, axis))
    with lib.no_grad():
        exact = lib.exp(-DIFFUSION * math.pi**2 * t) * lib.sin(math.pi * x)
        return (solution(lib, network, x, t) - exact).abs().max().item()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 if the solution is good enough."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", choices=("jitgrad", "torch"), default="jitgrad")
    parser.add_argument("--quick", action="store_true", help="a small network, a rough solution")
    options = parser.parse_args(arguments)
    lib = importlib.import_module(options.backend)
    lib.manual_seed(0)
    started = time.perf_counter()
    size, count, steps, bar = (10, 64, 4, QUICK_BAR) if options.quick else (24, 400, 10, BAR)
    network = build(lib, size)
    x, t = points(lib, count)
    for step, loss in enumerate(train(lib, network, x, t, steps)):
        print(f"step {step}: loss {loss:.3e}")
    error = largest_error(lib, network)
    print(f"largest error {error:.2e}, less than {bar:g} is wanted", end="; ")
    print(f"{time.perf_counter() - started:.1f} s")
    return 0 if error < bar else 1


if __name__ == "__main__":
    sys.exit(main())
