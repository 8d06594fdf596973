"""Functions compiled by numba: arithmetic as it is written, and a version for caches that hold what they call.

A function that does not say so takes its floating-point options from whatever function numba is compiling when it is
first called, and is kept on disk like that. PyTensor compiles its graphs with sums reordered: a compensated sum first
called from one of them lost its compensation, and gave nan for −∞, in every process after it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import generate_fallback_impl

__all__ = ["as_it_is", "as_written", "own", "source_version"]


def as_it_is(op: Op, node: Apply, **kwargs: Any) -> tuple[Any, None]:
    """For numba an operation whose ``perform`` is library calls and nothing else: run by Python, as it is.

    PyTensor would warn that this is no machine code. Register it with ``register_funcify_and_cache_key``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return generate_fallback_impl(op, node=node, **kwargs), None


def as_written(*files: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function whose sums keep their order and in which ∞ and nan are what they are; cached on disk.

    Functions should be called with one layout of their arguments only: where two processes compile two versions at the
    same time, numba's cache may give the one under the name of the other. ``files`` are those of the functions that it
    calls, directly or not, beside its own: numba's cache does not notice when one of those has changed.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher: Any = numba.njit(cache=True, fastmath=False, error_model="python")(function)
        if files and hasattr(dispatcher, "_cache"):  # not where numba is switched off
            index = dispatcher._cache._cache_file
            index._source_stamp = (*index._source_stamp, source_version(*files))
        return dispatcher

    return compiled


@numba.njit
def own(value):  # type: ignore[no-untyped-def]
    """A copy in C order that may be written into, which is the one layout that :func:`as_written` functions have.

    A constant of a graph is a type of its own, that none may write into: for it all that a function calls would be
    compiled again. A Matérn process and its gradient take a third of the time at a cold start (30 s and 11, once each).
    """
    return np.ascontiguousarray(value).copy()


def source_version(*files: str) -> int:
    """A number that changes with the source: PyTensor keeps compiled code, and does not notice what it calls."""
    return int(sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:12], 16)
