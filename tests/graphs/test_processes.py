"""Jobs in processes of their own, and in this one."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from bayeskit.graphs.processes import in_processes


def doubled(marker: Path, job: int) -> tuple[int, int]:
    """The job doubled, and the process that did it, which leaves a mark."""
    marker.touch()
    return 2 * job, os.getpid()


def ready(marker: Path, function: object) -> None:
    """That another process is there."""
    marker.touch()


def doubled_later(marker: Path, job: int) -> tuple[int, int]:
    """The same a while after another process is there; after a minute without."""
    for _ in range(600):
        time.sleep(0.1)
        if marker.exists():
            break
    return 2 * job, os.getpid()


@pytest.mark.parametrize("shared", [False, True])
def test_this_process_takes_part_and_waits_for_no_other(shared: bool, tmp_path: Path) -> None:
    """Short jobs are done before another process is there; it has a share of those that take long."""
    marker, jobs = tmp_path / "mark", range(8)
    own = partial(doubled_later if shared else doubled, marker if shared else tmp_path / "own")
    if shared:  # the first of them ends when another process is there
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bayeskit.graphs.processes._ready", partial(ready, marker))
            found = dict(in_processes(partial(doubled, marker), jobs, 2, own))
    else:
        found = dict(in_processes(partial(doubled, marker), jobs, 2, own))
    assert {job: double for job, (double, _) in found.items()} == {job: 2 * job for job in jobs}
    processes = {process for _, process in found.values()}
    assert os.getpid() in processes
    assert len(processes) == 1 + shared


def failing(job: int) -> int:
    raise ZeroDivisionError(str(job))


def test_an_error_here_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError, match="0"):
        list(in_processes(failing, range(3), 2, failing))
