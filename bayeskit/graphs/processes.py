"""Jobs side by side in processes of their own, which end with the one that started them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from threading import Thread, current_thread, main_thread
from typing import Any

__all__ = ["end_with_parent", "in_processes"]

AHEAD = 2  # jobs given to each process, so that it need not wait for the next


def in_processes[Job, Result](
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int, own: Callable[[Job], Result] | None = None
) -> Iterator[tuple[Job, Result]]:
    """Each job with its result as it comes; with one worker in this process, in their order.

    With ``own``, which is the function for this process, it takes part: one process fewer is started, each of which
    imports for seconds, and jobs shorter than that are done before it is there.

    Function, jobs and results have to be picklable. A script that asks for more than one worker has to do so under
    ``if __name__ == "__main__":``, as always with :mod:`multiprocessing`; without, a ``BrokenProcessPool`` is raised.
    """
    if workers == 1:
        yield from ((job, (own or function)(job)) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process that has threads may hang
    level, others = logging.root.manager.disable, set(multiprocessing.active_children())
    number = min(workers, len(jobs)) - (own is not None)
    pool = ProcessPoolExecutor(number, context, initializer=_start_worker, initargs=(level,))
    try:
        # A process that is being started would meet Ctrl-C with a traceback: it is left to this one to end them all.
        heard = current_thread() is main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if heard else None
        submitted = {pool.submit(function, job): job for job in jobs} if own is None else {}
        started = [] if own is None else [pool.submit(_ready, function) for _ in range(number)]
        if heard:
            signal.signal(signal.SIGINT, before)
        for future in as_completed(submitted):
            yield submitted[future], future.result()
        if own is not None:
            yield from _shared(pool, function, jobs, own, started)
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _shared[Job, Result](
    pool: ProcessPoolExecutor,
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    own: Callable[[Job], Result],
    started: Sequence[Future[None]],
) -> Iterator[tuple[Job, Result]]:
    """The jobs by the processes of a pool and by this one; none is given to a pool that is not there yet."""
    waiting, running = deque(jobs), dict[Future[Result], Job]()
    while waiting or running:
        if ready := [future for future in started if future.done()]:
            ready[0].result()  # an error, if the process ended before its time
            while waiting and len(running) < AHEAD * len(started):
                job = waiting.popleft()
                running[pool.submit(function, job)] = job
        for future in [future for future in running if future.done()]:
            yield running.pop(future), future.result()
        if waiting:
            job = waiting.popleft()
            yield job, own(job)
        elif running:
            wait(running, return_when=FIRST_COMPLETED)


def _ready(function: Callable[..., object]) -> None:
    """That a process has imported what the function needs."""


def _start_worker(logging_disabled: int) -> None:
    """As quiet as the process that started it, and not to outlive it."""
    logging.disable(logging_disabled)
    end_with_parent()


def end_with_parent() -> None:
    """Have this process end with the one that started it, however that ends."""

    def wait(parent: Any) -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, args=[multiprocessing.parent_process()], daemon=True).start()
