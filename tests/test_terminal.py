"""Ctrl-C ends what runs, whatever a library does with it."""

from __future__ import annotations

import ast
import ctypes
import logging
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.marginal_likelihood.estimators import Target, first_estimate
from bayeskit.model.unconstrained import evaluations_counted
from bayeskit.quadrature.nodes_ahead import NodesAhead
from bayeskit.terminal import counted_aloud, interruptible, let_alarms_through, warnings_of

ROOT = Path(__file__).resolve().parents[1]


def catches() -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def makes_another_of_it() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException as error:
        raise ImportError("cannot import") from error


def catches_all() -> None:
    with suppress(BaseException):
        signal.raise_signal(signal.SIGINT)


def is_called_back_by_c() -> None:
    raises = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    raises()
    for _ in range(10_000):  # it comes again
        time.sleep(0.01)


@pytest.mark.parametrize("library", [catches, makes_another_of_it, catches_all, is_called_back_by_c])
def test_an_interrupt_comes_out_as_one(library: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interruptible(), interruptible():
        library()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert sys.unraisablehook is hook
    assert capsys.readouterr().err == ""


def test_without_an_interrupt_nothing_changes() -> None:
    with pytest.raises(ZeroDivisionError), interruptible():
        raise ZeroDivisionError
    with interruptible():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_handlers_and_other_threads_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = []

    def listen() -> None:
        with interruptible():
            heard.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=listen)
    thread.start()
    thread.join()
    assert heard == [signal.default_int_handler]
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("own"))
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard[1:] == ["own"]


@pytest.mark.slow
def test_nothing_but_the_command_line_catches_an_interrupt() -> None:
    found = []
    for path in sorted((ROOT / "bayeskit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                caught = "BaseException" if node.type is None else ast.unparse(node.type)
                if any(name in caught for name in ("BaseException", "KeyboardInterrupt", "_Interrupt")):
                    found.append((path.relative_to(ROOT).as_posix(), caught))
    assert found == [("bayeskit/cli/__init__.py", "KeyboardInterrupt")]


class Alarm(Exception):
    """Of a handler below."""


def rings(*_: object) -> None:
    raise Alarm("time is up")


class Bell:
    """An object that can be called, and one with a method that can."""

    def __call__(self, *_: object) -> None:
        raise Alarm("time is up")

    def ring(self, *_: object) -> None:
        raise Alarm("time is up")


def swallows(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:
        let_alarms_through(error)


def says_it_in_other_words() -> None:
    try:
        signal.raise_signal(signal.SIGTERM)
    except Alarm as error:
        raise ValueError("in other words") from error


def at_the_first_call() -> Callable[[np.ndarray], np.ndarray]:
    """A density while which an alarm goes off, once."""
    called: list[int] = []

    def density(points: np.ndarray) -> np.ndarray:
        called.append(len(points))
        if len(called) == 1:
            signal.raise_signal(signal.SIGTERM)
        return points[:, 0].astype(float)

    return density


def by_an_estimator() -> None:
    space: Any = SimpleNamespace(log_density=at_the_first_call())
    first_estimate(Target(space, 1, np.zeros((4, 100, 1))))


def beside_nodes() -> None:
    NodesAhead().at(np.zeros((1, 1), dtype=np.int64), at_the_first_call(), None)


@pytest.mark.parametrize("handler", [rings, partial(rings, 1), Bell(), Bell().ring, partial(Bell(), 1)])
@pytest.mark.parametrize("work", [says_it_in_other_words, by_an_estimator, beside_nodes])
def test_an_alarm_is_no_failure(handler: Callable[..., None], work: Callable[[], None]) -> None:
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with pytest.raises(Alarm):
            swallows(work)
        try:
            signal.raise_signal(signal.SIGTERM)
        except Alarm:  # what fails now has it for a context
            swallows(lambda: 1 / 0)
    finally:
        signal.signal(signal.SIGTERM, before)
    swallows(lambda: 1 / 0)


def test_every_except_of_all_lets_alarms_through() -> None:
    """First thing, but where a copy of this process hands on what it caught."""
    found = []
    for path in sorted((ROOT / "bayeskit").rglob("*.py")):
        text = path.read_text()
        assert "suppress(Exception" not in text
        for node in ast.walk(ast.parse(text)) if "except Exception" in text else ():
            if isinstance(node, ast.ExceptHandler) and ast.unparse(node.type or node) == "Exception":
                first = ast.unparse(node.body[0])
                found += [path.relative_to(ROOT).as_posix()] * (first != f"let_alarms_through({node.name})")
    assert found == ["bayeskit/graphs/copies.py"]


def test_warnings_of_one_of_several_models_name_it(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("bayeskit")
    with warnings_of("100% line"):
        logger.warning("%s draws: %d %% diverged", "NUTS", 3)
    logger.warning("after")
    assert [record.getMessage() for record in caplog.records] == ["100% line: NUTS draws: 3 % diverged", "after"]


@pytest.mark.parametrize(("bar", "seconds", "seen"), [(True, 0.8, True), (True, 0.0, False), (False, 0.3, False)])
def test_what_takes_long_says_how_far_it_is(
    bar: bool, seconds: float, seen: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bayeskit.terminal.draws_rich_bars", lambda: True)
    monkeypatch.setattr("bayeskit.terminal.PATIENT", 0.1)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the captured stream for a terminal
    done = 1234
    with counted_aloud("quadrature", lambda: done, "evaluations of the density", bar):
        time.sleep(seconds)
    out = "".join(capsys.readouterr())
    assert ("1,234 evaluations of the density" in out and "quadrature" in out) == seen


def test_what_is_evaluated_by_a_method_is_counted_around_it() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Cauchy("m", 0.0, 1.0), 1.0, observed=[0.3])
    with evaluations_counted() as count:
        bk.infer(model, draws=10, random_seed=0)
    assert count.number > 50
