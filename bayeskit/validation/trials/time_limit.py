"""A limit of processor time on what a sampler of somebody else's does.

A slice sampler steps out along the tails of a horseshoe for longer than all other samplers take on all references.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import NoReturn

__all__ = ["at_most"]

AGAIN = 1.0  # seconds after which it is raised again, where a library went on


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError in what runs here, once this process has spent so many seconds of its processors on it.

    Only the main thread hears signals, and Windows has none of this kind: elsewhere there is no limit. A library that
    is in machine code for long hears them when it comes back.
    """
    known = getattr(signal, "SIGPROF", None)
    if seconds is None or known is None or current_thread() is not main_thread():
        yield
        return

    def stop(*_: object) -> NoReturn:
        raise TimeoutError(f"it took more than {seconds:g} s of processor time")

    before = signal.signal(known, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(known, before)
