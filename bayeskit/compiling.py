"""Compiling small PyTensor graphs in milliseconds.

These graphs have tens of nodes and are evaluated a handful of times. PyTensor's default rewrites and its numba
compilation take seconds a model; without them, NumPy does the heavy lifting all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

__all__ = ["compile_small", "small_mode"]


def small_mode() -> Mode:
    """The Python linker and no rewrites."""
    return Mode(linker="py", optimizer=RewriteDatabaseQuery(include=()))


def compile_small(inputs: Sequence[Variable], outputs: Any, **options: Any) -> Any:
    """A function of ``inputs``, compiled without rewrites for the Python linker.

    Parameters
    ----------
    inputs : sequence of tensor
    outputs : tensor or sequence of tensor
    **options
        Passed to :func:`pytensor.function`.
    """
    return pytensor.function(list(inputs), outputs, mode=small_mode(), on_unused_input="ignore", **options)
