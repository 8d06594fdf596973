"""What surrounds the making and the running of graphs: the garbage collector, threads, and warnings of NumPy."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytensor
from scipy.linalg import LinAlgWarning
from threadpoolctl import ThreadpoolController

__all__ = ["available_cpus", "lightly", "on_one_thread", "silently"]


@contextmanager
def lightly() -> Iterator[None]:
    """Build graphs without Python's cyclic garbage collector, PyTensor's record of where each variable was made, and C.

    Building graphs makes thousands of short-lived objects, each thousand of which sets off a walk through the million
    that ``import pymc`` leaves behind: half of the time of a small model. And where PyMC asks for an initial point,
    PyTensor compiles C, a second or two for each operation that it has not met before, to run it once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        # PyTensor also reads the source line of every frame for each variable it makes, for its error messages.
        with pytensor.config.change_flags(traceback__limit=0, cxx=""):
            yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Linear algebra on one thread.

    For many small matrices, and for chains that run side by side, more threads only wait for each other: where another
    process keeps a core busy, eight schools took seventy seconds on two threads and one second on one.
    """
    with _threads().limit(limits=1, user_api="blas"):
        yield


def available_cpus() -> int:
    """CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def silently() -> Iterator[None]:
    """Evaluate where a density may overflow or a matrix be singular: the result says so, by not being finite."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
