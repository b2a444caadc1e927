"""Anomaly detection: which forward line made the node that failed, and which node made a NaN."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import state
from ..state import ANOMALY, GRAD, modes
from . import engine
from .node import Node

TRACEBACK = "traceback_"
PARENT = "parent_"

# Of the whole process, as in PyTorch.
_enabled = False
_check_nan = True


def enabled() -> bool:
    """Whether anomalies are looked for."""
    return _enabled


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return _enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for NaN in gradients."""
    return _check_nan


def _switch(mode: bool, check_nan: bool) -> None:
    global _enabled, _check_nan
    _enabled, _check_nan = bool(mode), bool(check_nan)
    engine.watch = _Watch if _enabled else None
    state.set_special_everywhere(ANOMALY, _enabled)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection on or off, for good."""
    _switch(enabled, check_nan)


class set_detect_anomaly:
    """Switch anomaly detection on or off: at once, and back at the end of a ``with`` block.

    Args:
        mode: whether to detect anomalies.
        check_nan: whether a NaN in a gradient is one.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = (_enabled, _check_nan)
        _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(*self.prev)


class detect_anomaly:
    """In this block nodes remember the forward line that made them, and NaN gradients raise.

    A failing backward pass then warns with the forward traceback of the node that failed. Slow:
    meant for debugging.

    >>> import warnings
    >>> import jitgrad as jg
    >>> x = jg.tensor([0.0], requires_grad=True)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with jg.autograd.detect_anomaly():
    ...         try:
    ...             (jg.sqrt(x) * 0).backward(jg.ones(1))
    ...         except RuntimeError as error:
    ...             print(error)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = (_enabled, _check_nan)
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.prev = (_enabled, _check_nan)
        _switch(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        _switch(*self.prev)


def note(node: Node) -> None:
    """Remember where a node was recorded, and during the backward of which node."""
    metadata = node.metadata
    metadata[TRACEBACK] = traceback.format_stack()
    task = modes.task
    if task is not None and task.node is not None:
        metadata[PARENT] = task.node


class _Watch:
    """Watches one backward pass."""

    __slots__ = ()

    @contextmanager
    def watching(self, node: Node) -> Iterator[None]:
        """Tell where the node was recorded if what happens inside fails."""
        try:
            yield
        except Exception:
            _report(node)
            raise

    def check(self, node: Node, grads: Sequence[Any]) -> None:
        """RuntimeError if a gradient that leaves the node has a NaN."""
        if not _check_nan:
            return
        mode = modes.mode
        modes.mode &= ~GRAD
        try:
            for index, grad in enumerate(grads):
                if grad is not None and bool((grad != grad).any()):
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {index}th output."
                    )
        finally:
            modes.mode = mode


def _report(node: Node) -> None:
    """Warn with the forward tracebacks of a node and of the nodes whose backward made it."""
    metadata = node.metadata
    if TRACEBACK not in metadata:
        _warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information."
        )
        return
    _warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        f"{''.join(metadata[TRACEBACK])}"
    )
    child, parent = node, metadata.get(PARENT)
    while parent is not None:
        metadata = parent.metadata
        if TRACEBACK not in metadata:
            _warn(
                f"\n\nPrevious calculation was induced by {parent.name()}. No forward pass "
                "information available."
            )
            return
        _warn(
            f"\n\nPrevious calculation was induced by {parent.name()}. Traceback of forward call "
            f"that induced the previous calculation (of {child.name()}):\n"
            f"{''.join(metadata[TRACEBACK])}"
        )
        child, parent = parent, metadata.get(PARENT)


def _warn(text: str) -> None:
    """A warning; where warnings are errors, on stderr, so that the true error is the one raised."""
    try:
        warnings.warn(text, UserWarning, stacklevel=4)
    except UserWarning as warning:
        print(warning, file=sys.stderr)
