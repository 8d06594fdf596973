"""What surrounds the making and the running of graphs: the garbage collector, threads, and warnings of NumPy."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import pytensor
from scipy.linalg import LinAlgWarning
from threadpoolctl import ThreadpoolController

__all__ = ["available_cpus", "lightly", "on_one_thread", "silently"]


@dataclass
class _Shared:
    """Settings of the whole process: the first thread to need them makes them, the last to leave puts back what was.

    Were each thread to put back what it found, one would find, and leave behind, the settings of another.
    """

    make: Callable[[], AbstractContextManager[None]]
    users: int = 0
    lock: Any = field(default_factory=Lock)
    made: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def used(self) -> Iterator[None]:
        with self.lock:
            if not self.users:
                self.made.enter_context(self.make())
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    self.made.close()


@contextmanager
def _light() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        # PyTensor also reads the source line of every frame for each variable it makes, for its error messages.
        with pytensor.config.change_flags(traceback__limit=0, cxx=""):
            yield
    finally:
        if enabled:
            gc.enable()


_LIGHT = _Shared(_light)


@contextmanager
def lightly() -> Iterator[None]:
    """Build graphs without Python's cyclic garbage collector, PyTensor's record of where each variable was made, and C.

    Building graphs makes thousands of short-lived objects, each thousand of which sets off a walk through the million
    that ``import pymc`` leaves behind: half of the time of a small model. And where PyMC asks for an initial point,
    PyTensor compiles C, a second or two for each operation that it has not met before, to run it once.
    """
    with _LIGHT.used():
        yield


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


_ALONE = _Shared(lambda: _threads().limit(limits=1, user_api="blas"))


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Linear algebra on one thread.

    For many small matrices, and for chains that run side by side, more threads only wait for each other: where another
    process keeps a core busy, eight schools took seventy seconds on two threads and one second on one.
    """
    with _ALONE.used():
        yield


def available_cpus() -> int:
    """CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def silently() -> Iterator[None]:
    """Evaluate where a density may overflow or a matrix be singular: the result says so, by not being finite."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
