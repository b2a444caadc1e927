"""A line search for the strong Wolfe conditions (Nocedal & Wright, Numerical Optimization, 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..tensor import Tensor

DECREASE, CURVATURE = 1e-4, 0.9  # the constants of the two conditions
LONGEST = 10  # a next try is at most so many times as long
NARROWEST = 1e-9  # bracket, in what parameters change over it
MARGIN = 0.1  # of a bracket, that a try keeps from its ends when progress is slow


class Point(NamedTuple):
    """A step along the line, and what was found there; ``slope`` is the loss's along the line."""

    step: float
    loss: float
    grad: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    step: float,
    size: float,
    *,
    max_evaluations: int,
) -> tuple[Point, int]:
    """A point that has fallen enough and is flat enough; the best one if none is found in time.

    Args:
        evaluate: the point at a step.
        start: the point at 0; its slope is negative.
        step: the first try.
        size: the largest element of the direction, by which the width of a bracket is judged.
        max_evaluations: stop after so many tries, the first one not counted.

    Returns:
        The point, and the number of evaluations.
    """

    def too_high(point: Point) -> bool:
        return point.loss > start.loss + DECREASE * point.step * start.slope

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -CURVATURE * start.slope

    # Go on until a minimum lies between two points.
    before, point = start, evaluate(step)
    tries = 0
    while tries < max_evaluations:
        if too_high(point) or (tries > 1 and point.loss >= before.loss):
            break
        if flat(point):
            return point, tries + 1
        if point.slope >= 0:
            break
        lower = point.step + 0.01 * (point.step - before.step)
        step = _cubic_minimum(before, point, lower, LONGEST * point.step)
        before, point = point, evaluate(step)
        tries += 1
    else:
        before = start
    low, high = (before, point) if before.loss <= point.loss else (point, before)

    # Narrow the bracket down; `low` is the best point so far.
    slow = False
    while tries < max_evaluations and abs(high.step - low.step) * size >= NARROWEST:
        left, right = sorted((low.step, high.step))
        step = _cubic_minimum(*_ordered(low, high), left, right)
        margin = MARGIN * (right - left)
        if min(right - step, step - left) < margin:
            if slow or not left < step < right:
                nearer_right = abs(step - right) < abs(step - left)
                step = right - margin if nearer_right else left + margin
                slow = False
            else:
                slow = True
        else:
            slow = False
        point = evaluate(step)
        tries += 1
        if too_high(point) or point.loss >= low.loss:
            high = point
            if high.loss < low.loss:
                low, high = high, low
            continue
        if flat(point):
            return point, tries + 1
        if point.slope * (high.step - low.step) >= 0:
            high = low
        low = point
    return low, tries + 1


def _ordered(a: Point, b: Point) -> tuple[Point, Point]:
    return (a, b) if a.step <= b.step else (b, a)


def _cubic_minimum(a: Point, b: Point, lower: float, upper: float) -> float:
    """Where the cubic through two points and their slopes (``a`` left of ``b``) is least, held
    within bounds; their middle where it has no minimum."""
    mean = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = mean * mean - a.slope * b.slope
    if square < 0:
        return (lower + upper) / 2
    root = square**0.5
    step = b.step - (b.step - a.step) * ((b.slope + root - mean) / (b.slope - a.slope + 2 * root))
    return min(max(step, lower), upper)
