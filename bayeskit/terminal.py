"""Between a person at a terminal and the libraries: bars where somebody watches, no chatter, a Ctrl-C that ends it."""

from __future__ import annotations

import logging
import signal
import sys
import traceback
import warnings
from _thread import interrupt_main
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from threading import Timer, current_thread, main_thread
from types import CodeType, FrameType
from typing import NoReturn

__all__ = [
    "counted_aloud",
    "draws_rich_bars",
    "interruptible",
    "is_terminal",
    "let_alarms_through",
    "logged_from",
    "quiet",
    "warnings_of",
    "watched",
]

PATIENT = 2.0  # seconds before a bar is drawn


def is_terminal() -> bool:
    """Whether standard error is a terminal (or a notebook, which draws its own bars)."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """Whether a kernel runs this; that ``ipykernel`` was imported says little, for other libraries import it, too."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def draws_rich_bars() -> bool:
    """Whether a bar of rich is seen: in a notebook without ipywidgets it would be a warning for each step instead."""
    return sys.stderr.isatty() or (_in_notebook() and find_spec("ipywidgets") is not None)


def watched[T](items: Iterable[T], description: str, bar: bool, number: int | None = None) -> Iterable[T]:
    """Items that take long each, under a bar where one is seen; their ``number`` where they are still to be made."""
    number = len(items) if number is None and isinstance(items, Sized) else number
    if not bar or number is None or number < 2 or not draws_rich_bars():
        return items
    from rich.progress import track

    return track(items, description=description, total=number, transient=True)


@contextmanager
def counted_aloud(description: str, number: Callable[[], int], what: str, bar: bool) -> Iterator[None]:
    """What takes long without a known end, under how much was done so far, once it has taken ``PATIENT`` seconds."""
    if not bar or not draws_rich_bars():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class SoFar(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: object) -> Text:
            return Text(f"{number():,} {what}")

    console = Console(stderr=sys.stderr.isatty())
    progress = Progress(
        SpinnerColumn(), TextColumn(description), SoFar(), TimeElapsedColumn(), console=console, transient=True
    )
    progress.add_task(description, total=None)
    begun = Timer(PATIENT, progress.start)
    begun.daemon = True
    begun.start()
    try:
        yield
    finally:
        begun.cancel()
        begun.join()  # it may be about to start
        progress.stop()


@contextmanager
def quiet(least: int = logging.ERROR) -> Iterator[None]:
    """Keep PyMC's "Sampling: [y]" and the deprecations of libraries inside libraries away from the user.

    Parameters
    ----------
    least : int
        Level from which PyMC's messages are shown; it calls a small effective sample size an error.
    """
    with logged_from("pymc", least), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        # LAPACK's potri has no compiled form in PyTensor; calling it from Python costs nothing that counts.
        warnings.filterwarnings("ignore", message="Numba will use object mode", category=UserWarning)
        # Only the starting point is compiled with PyTensor's own linker; the density is not.
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS", category=UserWarning)
        # Of a long density: it runs in several loops.
        warnings.filterwarnings("ignore", message="Loop fusion failed", category=UserWarning)
        yield


@contextmanager
def logged_from(name: str, least: int) -> Iterator[None]:
    """Show messages of a logger from some level on only."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(max(level, least))
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def warnings_of(name: str) -> Iterator[None]:
    """Put a name before what the logger ``bayeskit`` warns of: of several models, which one."""

    def named(record: logging.LogRecord) -> bool:
        record.msg, record.args = f"{name}: {record.getMessage()}", ()
        return True

    logger = logging.getLogger("bayeskit")
    logger.addFilter(named)
    try:
        yield
    finally:
        logger.removeFilter(named)


class _Interrupt(BaseException):
    """Ctrl-C, under a name that no library catches."""


def let_alarms_through(error: BaseException) -> None:
    """Raise what a signal's handler raised, if it is this error or what this one came of: an alarm is no failure.

    The first line of every ``except Exception``, but for those that raise what they caught. Not what was handled before
    the ``try``, in whose ``except`` all that is raised now has it for a context: it was caught by a frame around that.
    """
    known = [signal.getsignal(number) for number in signal.valid_signals()]
    handlers = {_code(handler) for handler in known} - {None}
    around: set[FrameType] = set()
    frame = error.__traceback__.tb_frame.f_back if error.__traceback__ else None
    while frame is not None:
        around.add(frame)
        frame = frame.f_back
    at: BaseException | None = error
    while at is not None and not (at.__traceback__ and at.__traceback__.tb_frame in around):
        if any(f.f_code in handlers for f, _ in traceback.walk_tb(at.__traceback__)):
            raise at from at.__cause__  # whoever set it wants nothing else
        at = at.__cause__ or at.__context__


def _code(handler: object) -> CodeType | None:
    """What runs where a signal's handler is called: a function, a method, a partial or an object that can be called."""
    while isinstance(handler, partial):
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__"):
        handler = type(handler).__call__
    return getattr(handler, "__code__", None)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end what runs here, as ``KeyboardInterrupt``, also where a library would not.

    nutpie and PyMC catch that one and return arrays that are partly empty, or go on to the next chain; and what is
    raised where C calls Python back is printed and forgotten: it comes again a moment later. Only the main thread hears
    signals; who handles this one in a way of their own is left to it.
    """
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came: list[object] = []
    forgotten = sys.unraisablehook

    def interrupt(*what: object) -> NoReturn:
        came.append(what)
        raise _Interrupt

    def remember(lost: sys.UnraisableHookArgs) -> None:
        Timer(0.05, interrupt_main).start() if lost.exc_type is _Interrupt else forgotten(lost)

    try:
        sys.unraisablehook = remember
        signal.signal(signal.SIGINT, interrupt)
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = forgotten
        if came:
            raise KeyboardInterrupt from None
