"""Fit a curve by least squares with L-BFGS.

A damped oscillation is measured with noise; its amplitude, decay, frequency, phase and offset are
found by minimising the squared residuals, and their standard errors follow from the Jacobian of the
model. The fit must agree with the truth within ``BAR`` standard errors. Data and fit are drawn to
an SVG file if asked for. The same file runs on either library::

    python examples/lbfgs_fit.py --plot fit.svg
    python examples/lbfgs_fit.py --backend torch
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NAMES = ("amplitude", "decay", "frequency", "phase", "offset")
TRUTH = (2.0, 0.3, 2.5, 0.5, 1.0)
START = (1.0, 0.1, 2.2, 0.0, 0.0)
NOISE = 0.1
BAR = 4.0  # standard errors


class Fit(NamedTuple):
    """What was found: parameters, their standard errors, and how the losses fell."""

    values: np.ndarray
    errors: np.ndarray
    losses: list[float]
    evaluations: int


def measure(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the oscillation at them with noise."""
    times = np.linspace(0, 10, count)
    noise = NOISE * np.random.default_rng(0).normal(size=count)
    a, b, w, p, c = TRUTH
    return times, a * np.exp(-b * times) * np.cos(w * times + p) + c + noise


def model(lib: Any, parameters: Any, times: Any) -> Any:
    """The damped oscillation."""
    amplitude, decay, frequency, phase, offset = parameters.unbind()
    wave = lib.cos(frequency * times + phase)
    return amplitude * lib.exp(-decay * times) * wave + offset


def fit(lib: Any, times: np.ndarray, values: np.ndarray, steps: int = 20) -> Fit:
    """Minimise the mean of the squared residuals."""
    t, y = lib.from_numpy(times), lib.from_numpy(values)
    parameters = lib.tensor(START, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.LBFGS(
        [parameters], max_iter=5, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((model(lib, parameters, t) - y) ** 2).mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(steps)]
    losses.append(closure().item())
    found = parameters.detach()
    jacobian = lib.autograd.functional.jacobian(lambda p: model(lib, p, t), found)
    variance = losses[-1] * len(times) / (len(times) - len(START))
    covariance = lib.linalg.inv(jacobian.t() @ jacobian) * variance
    errors = lib.sqrt(lib.diagonal(covariance))
    calls = optimizer.state[parameters]["func_evals"]
    return Fit(found.numpy(), errors.numpy(), losses, calls)


# The picture --------------------------------------------------------------------------------------
WIDTH, HEIGHT, MARGIN = 640, 360, 30


def svg(times: np.ndarray, values: np.ndarray, curve: np.ndarray) -> str:
    """The measured points and the fitted curve, as an SVG document."""
    low, high = min(values.min(), curve.min()), max(values.max(), curve.max())

    def place(t: float, y: float) -> str:
        x = MARGIN + (t - times[0]) / (times[-1] - times[0]) * (WIDTH - 2 * MARGIN)
        return f"{x:.1f},{HEIGHT - MARGIN - (y - low) / (high - low) * (HEIGHT - 2 * MARGIN):.1f}"

    points = [place(t, y).split(",") for t, y in zip(times, values, strict=True)]
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2"/>' for x, y in points)
    line = " ".join(place(t, y) for t, y in zip(times, curve, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<rect width="100%" height="100%" fill="white"/><g fill="#888">{dots}</g>'
        f'<polyline points="{line}" fill="none" stroke="#c33" stroke-width="2"/></svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 if the fit is good."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", choices=("jitgrad", "torch"), default="jitgrad")
    parser.add_argument("--quick", action="store_true", help="fewer points and steps")
    parser.add_argument("--plot", type=Path, help="an SVG file to draw")
    options = parser.parse_args(arguments)
    lib = importlib.import_module(options.backend)
    times, values = measure(60 if options.quick else 400)
    found = fit(lib, times, values, steps=8 if options.quick else 20)
    print(f"loss {found.losses[0]:.4f} -> {found.losses[-1]:.6f}, {found.evaluations} evaluations")
    worst = 0.0
    for name, value, error, truth in zip(NAMES, found.values, found.errors, TRUTH, strict=True):
        worst = max(worst, abs(value - truth) / error)
        print(f"{name:>10} {value:8.4f} +- {error:.4f}   (true {truth})")
    if options.plot is not None:
        curve = model(lib, lib.from_numpy(found.values), lib.from_numpy(times)).numpy()
        options.plot.write_text(svg(times, values, curve))
        print(f"drawn to {options.plot}")
    print(f"largest error: {worst:.2f} standard errors, at most {BAR} are accepted")
    return 0 if worst <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
