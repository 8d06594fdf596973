"""Jobs side by side in processes of their own, which end with the one that started them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from threading import Thread, current_thread, main_thread
from typing import Any

__all__ = ["in_processes"]


def in_processes[Job, Result](
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int
) -> Iterator[tuple[Job, Result]]:
    """Each job with its result as it comes; with one worker in this process, in their order.

    Function, jobs and results have to be picklable. A script that asks for more than one worker has to do so under
    ``if __name__ == "__main__":``, as always with :mod:`multiprocessing`; without, a ``BrokenProcessPool`` is raised.
    """
    if workers == 1:
        yield from ((job, function(job)) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process that has threads may hang
    level, others = logging.root.manager.disable, set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, initializer=_start_worker, initargs=(level,))
    try:
        # A process that is being started would meet Ctrl-C with a traceback: it is left to this one to end them all.
        heard = current_thread() is main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if heard else None
        submitted = {pool.submit(function, job): job for job in jobs}
        if heard:
            signal.signal(signal.SIGINT, before)
        for future in as_completed(submitted):
            yield submitted[future], future.result()
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _start_worker(logging_disabled: int) -> None:
    """As quiet as the process that started it, and not to outlive it."""

    def end_with(parent: Any) -> None:
        parent.join()
        os._exit(1)

    logging.disable(logging_disabled)
    Thread(target=end_with, args=[multiprocessing.parent_process()], daemon=True).start()
