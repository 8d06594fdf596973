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
from pathlib import Path
from threading import Thread

import pytest

from bayeskit.terminal import interruptible, warnings_of

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


def test_nothing_but_the_command_line_catches_an_interrupt() -> None:
    found = []
    for path in sorted((ROOT / "bayeskit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                caught = "BaseException" if node.type is None else ast.unparse(node.type)
                if any(name in caught for name in ("BaseException", "KeyboardInterrupt", "_Interrupt")):
                    found.append((path.relative_to(ROOT).as_posix(), caught))
    assert found == [("bayeskit/cli/__init__.py", "KeyboardInterrupt")]


def test_warnings_of_one_of_several_models_name_it(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("bayeskit")
    with warnings_of("100% line"):
        logger.warning("%s draws: %d %% diverged", "NUTS", 3)
    logger.warning("after")
    assert [record.getMessage() for record in caplog.records] == ["100% line: NUTS draws: 3 % diverged", "after"]
