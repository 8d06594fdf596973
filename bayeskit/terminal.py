"""What a person at a terminal sees of the libraries below: bars only where somebody watches, no logging chatter."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

__all__ = ["draws_rich_bars", "is_terminal", "quiet"]


def is_terminal() -> bool:
    """Whether standard error is a terminal (or a notebook, which draws its own bars)."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def draws_rich_bars() -> bool:
    """Whether a bar of rich is seen: in a notebook without ipywidgets it would be a warning for each step instead."""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets") is not None)


@contextmanager
def quiet(least: int = logging.ERROR) -> Iterator[None]:
    """Keep PyMC's "Sampling: [y]" and the deprecations of libraries inside libraries away from the user.

    Parameters
    ----------
    least : int
        Level from which PyMC's messages are shown; it calls a small effective sample size an error.
    """
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(max(level, least))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            # LAPACK's potri has no compiled form in PyTensor; calling it from Python costs nothing that counts.
            warnings.filterwarnings("ignore", message="Numba will use object mode", category=UserWarning)
            # Only the starting point is compiled with PyTensor's own linker; the density is not.
            warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS", category=UserWarning)
            # Of a long density: it runs in several loops.
            warnings.filterwarnings("ignore", message="Loop fusion failed", category=UserWarning)
            yield
    finally:
        logger.setLevel(level)
