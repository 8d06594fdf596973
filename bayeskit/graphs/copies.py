"""Jobs side by side in copies of this process, which hold all that it has prepared: there in milliseconds, on Linux.

A process that is started anew (:mod:`bayeskit.graphs.processes`) imports for seconds before its first job. A copy, made
by ``fork``, has what this one has imported and compiled. It has only the thread that made it, though: a lock that
another thread held stays locked in it for ever. :func:`can_copy` is false where there are other threads than those
which end, or give their locks back, before a fork: OpenBLAS's and jemalloc's have handlers for it.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from bayeskit.graphs.processes import end_with_parent

__all__ = ["CopyEnded", "can_copy", "in_copies"]

THREADS = Path("/proc/self/task")
PREPARED = "jemalloc_bg_thd"  # of pyarrow, which pandas imports


class CopyEnded(Exception):
    """A copy ended before its time, by itself or for want of memory."""


def can_copy() -> bool:
    """Whether a copy of this process works: Linux, and no thread that a fork does not know of."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    try:
        names = [(thread / "comm").read_text().strip() for thread in THREADS.iterdir()]
    except OSError:
        return False
    pools = [pool for pool in ThreadpoolController().info() if pool["internal_api"] == "openblas"]
    known = sum(pool["num_threads"] - 1 for pool in pools if pool.get("threading_layer") == "pthreads")
    return len(names) - names.count(PREPARED) <= 1 + known


@contextmanager
def in_copies[Job, Result](
    function: Callable[[Job], Result], jobs: Sequence[Job], processes: int
) -> Iterator[Iterator[Result]]:
    """The result of each job as it comes, of this process and its copies, which end with the block.

    The copies are made on entry. Each takes the next job when it is done with one, so none waits for another. Results
    have to be picklable; function and jobs need not be.

    Raises
    ------
    CopyEnded
        If a copy is killed.
    """
    context = multiprocessing.get_context("fork")
    taken = context.Value("q", 0)
    copies: list[Any] = []
    connections: list[Connection] = []
    try:
        for _ in range(min(processes, len(jobs)) - 1):
            here, there = context.Pipe(duplex=False)
            copies.append(context.Process(target=_serve, args=(function, jobs, taken, there)))
            connections.append(here)
            with warnings.catch_warnings():
                # Python warns of every fork where there is a thread; which ones there are was asked.
                warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                copies[-1].start()
            there.close()
        yield _results(function, jobs, taken, connections)
    finally:
        for copy in copies:
            copy.terminate()
        for copy in copies:
            copy.join()


def _next(taken: Any) -> int:
    """The number of the next job, which nobody else has."""
    with taken.get_lock():
        number: int = taken.value
        taken.value = number + 1
    return number


def _serve(function: Callable[[Any], Any], jobs: Sequence[Any], taken: Any, results: Connection) -> None:
    """In a copy: jobs until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which ends its copies
    gc.freeze()  # a walk over what is shared would write to it, and so copy it
    end_with_parent()
    try:
        while (number := _next(taken)) < len(jobs):
            results.send((function(jobs[number]), None))
        results.send(None)
    except Exception as error:  # it is raised in the first process
        results.send((None, error))


def _results(
    function: Callable[[Any], Any], jobs: Sequence[Any], taken: Any, connections: Sequence[Connection]
) -> Iterator[Any]:
    """By this process; what the copies have found meanwhile between two jobs, and at the end."""
    running = list(connections)
    left = True
    while left or running:
        ready = wait(running, 0 if left else None)
        for connection in [one for one in running if one in ready]:
            try:
                received = connection.recv()
            except EOFError as error:
                raise CopyEnded("a copy of the process ended before its time") from error
            if received is None:
                running.remove(connection)
                continue
            found, failure = received
            if failure is not None:
                raise failure
            yield found
        number = _next(taken) if left else len(jobs)
        left = number < len(jobs)
        if left:
            yield function(jobs[number])
