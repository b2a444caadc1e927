"""Anomaly detection: rule N1 and point 61."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.semantics.common import back, f64, leaf, watch


@contextmanager
def detecting(lib: Any, **options: Any) -> Iterator[list[str]]:
    """Anomaly detection, with the texts of the warnings after the one on entry."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with lib.autograd.detect_anomaly(**options):
            assert "Anomaly Detection has been enabled" in str(caught[0].message)
            try:
                yield texts
            finally:
                texts += [str(w.message) for w in caught[1:]]


def failing(lib: Any, error: Exception) -> Any:
    class Failing(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise error

    return Failing


def test_detection_is_switched_on_and_back(lib: Any) -> None:
    assert not lib.is_anomaly_enabled()
    with detecting(lib):
        assert lib.is_anomaly_enabled()
        assert lib.is_anomaly_check_nan_enabled()
        with lib.autograd.set_detect_anomaly(True, check_nan=False):
            assert not lib.is_anomaly_check_nan_enabled()
        assert lib.is_anomaly_check_nan_enabled()
        with lib.autograd.set_detect_anomaly(False):
            assert not lib.is_anomaly_enabled()
        assert lib.is_anomaly_enabled()
    assert not lib.is_anomaly_enabled()


def test_a_failure_is_reported_with_its_forward_line(lib: Any) -> None:
    t = leaf(lib)
    with detecting(lib) as texts:
        y = failing(lib, ValueError("mine")).apply(t)  # the line that is named
        with pytest.raises(ValueError, match="mine"):
            back(y)
    (text,) = texts
    assert text.startswith("Error detected in FailingBackward. Traceback of forward call")
    assert "the line that is named" in text


def test_a_failure_without_forward_information(lib: Any) -> None:
    y = failing(lib, ValueError("mine")).apply(leaf(lib))
    with detecting(lib) as texts:
        with pytest.raises(ValueError, match="mine"):
            back(y)
    (text,) = texts
    assert "Error detected in FailingBackward. No forward pass information available" in text


def test_nan_in_a_gradient(lib: Any) -> None:
    t = leaf(lib, [0.0])
    with detecting(lib) as texts:
        y = t.sqrt() * 0
        phrase = "Function 'SqrtBackward0' returned nan values in its 0th output"
        with pytest.raises(RuntimeError, match=phrase):
            back(y)
    assert "Error detected in SqrtBackward0" in texts[0]
    with detecting(lib, check_nan=False) as texts:
        back(t.sqrt() * 0)
    assert not texts


def test_nan_in_a_later_output(lib: Any) -> None:
    class Second(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g * float("nan")

    with detecting(lib):
        y = Second.apply(leaf(lib), leaf(lib))
        with pytest.raises(RuntimeError, match="'SecondBackward' returned nan values in its 1th"):
            back(y)


def test_nodes_made_in_backward_name_their_parent(lib: Any) -> None:
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return failing(lib, ValueError("second")).apply(g * 2 * x)

    t = leaf(lib)
    with detecting(lib) as texts:
        y = Twice.apply(t)
        (g,) = lib.autograd.grad(y, t, f64(lib, [1.0] * 3), create_graph=True)
        with pytest.raises(ValueError, match="second"):
            back(g)
    assert "Error detected in FailingBackward" in texts[0]
    assert "TwiceBackward" in texts[1]
    assert len(texts) == 2


def test_reports_go_to_stderr_where_warnings_are_errors(
    lib: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.detect_anomaly():
            y = failing(lib, ValueError("mine")).apply(leaf(lib))
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match="mine"):
                back(y)
    assert "Error detected in FailingBackward" in capfd.readouterr().err


def test_detection_is_of_the_whole_process(lib: Any) -> None:
    seen: list[Any] = []

    def work() -> None:
        seen.append(lib.is_anomaly_enabled())
        seen.append("traceback_" in (leaf(lib) * 2).grad_fn.metadata)

    with detecting(lib):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [True, True]


def test_tracebacks_are_metadata(lib: Any) -> None:
    with detecting(lib):
        y = leaf(lib) * 2
    assert y.grad_fn.metadata is y.grad_fn.metadata
    assert any("test_anomaly" in line for line in y.grad_fn.metadata["traceback_"])
    assert (leaf(lib) * 2).grad_fn.metadata == {}


def test_metadata_does_not_leak(lib: Any) -> None:
    with detecting(lib):
        t = leaf(lib)
        y = (t * t)[1:].exp()
        y.grad_fn.metadata["own"] = [1]
        alive = watch(y.grad_fn)
        back(y, retain_graph=True)
        lib.autograd.grad(y, t, f64(lib, [1.0, 1.0]), create_graph=True)
    del y
    gc.collect()
    assert alive() is None


def test_values_are_the_same(lib: Any) -> None:
    t, want = leaf(lib), leaf(lib)
    with detecting(lib):
        b = t * t
        b[1:].mul_(3)
        back(b.exp())
    c = want * want
    c[1:].mul_(3)
    back(c.exp())
    assert t.grad.tolist() == want.grad.tolist()
