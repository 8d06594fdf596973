"""Jobs in copies of this process, and in this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bayeskit.graphs.copies import CopyEnded, can_copy, in_copies

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made by fork")


def waited(marker: Path, here: bool) -> None:
    """Until another process has left its mark, at most a minute."""
    for _ in range(6000):
        if not here or marker.exists():
            break
        time.sleep(0.01)


def job_of(marker: Path, in_copy: Callable[[], object]) -> Callable[[int], tuple[int, int]]:
    """A job doubled, and the process that did it; this process waits for the other. No process could be sent it."""
    here = os.getpid()

    def doubled(job: int) -> tuple[int, int]:
        if os.getpid() != here:
            marker.touch()
            in_copy()
        waited(marker, os.getpid() == here)
        return 2 * job, os.getpid()

    return doubled


def test_both_have_a_share_and_every_job_is_done_once(tmp_path: Path) -> None:
    with in_copies(job_of(tmp_path / "mark", lambda: None), range(40), 2) as results:
        found = list(results)
    assert sorted(double for double, _ in found) == [2 * job for job in range(40)]
    assert len({process for _, process in found}) == 2


def test_what_a_copy_raises_is_raised_here(tmp_path: Path) -> None:
    def failing() -> None:
        raise ZeroDivisionError("in a copy")

    with (
        pytest.raises(ZeroDivisionError, match="in a copy"),
        in_copies(job_of(tmp_path / "mark", failing), range(9), 3) as results,
    ):
        list(results)


def test_a_copy_that_is_killed_is_missed(tmp_path: Path) -> None:
    def killed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(CopyEnded), in_copies(job_of(tmp_path / "mark", killed), range(9), 2) as results:
        list(results)


def test_copies_end_with_the_block(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    with in_copies(job_of(tmp_path / "mark", lambda: time.sleep(60)), range(9), 2) as results:
        next(results)
        assert len(set(multiprocessing.active_children()) - before) == 1
    assert not set(multiprocessing.active_children()) - before


def test_there_is_no_copy_where_a_thread_may_hold_a_lock() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        assert not can_copy()
    finally:
        ended.set()
        thread.join()
