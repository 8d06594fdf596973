"""Jobs of one kind in processes of their own, each of which prepares once what all of its jobs need."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from pathlib import Path
from typing import Any

import cloudpickle

from bayeskit.errors import InferenceError, OptionError
from bayeskit.graphs.processes import in_processes
from bayeskit.terminal import let_alarms_through

__all__ = ["in_prepared_processes"]


def in_prepared_processes[Job, Result](
    prepare: Callable[[Any], Callable[[Job], Result]],
    source: Any,
    jobs: Sequence[Job],
    processes: int,
    own: Callable[[Job], Result] | None = None,
) -> Iterator[Result]:
    """``prepare(source)(job)`` for each job, as it comes; ``prepare`` is a function of a module.

    With ``own``, which is ``prepare(source)`` of this process, it takes part.

    Raises
    ------
    OptionError
        If the source, which functions of users may be part of, cannot be sent to a process.
    InferenceError
        If a process ends before its time.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source"
        try:
            path.write_bytes(cloudpickle.dumps(source))
        except Exception as error:  # whatever a function of somebody else's holds on to
            let_alarms_through(error)
            raise OptionError(f"processes: the model or a function cannot be sent to them: {error}") from error
        try:
            for _, result in in_processes(partial(_in_process, prepare, str(path)), jobs, processes, own):
                yield result
        except BrokenProcessPool as error:
            advice = 'call it under `if __name__ == "__main__":`, or with processes=1'
            raise InferenceError(f"a process ended before its time; in a script, {advice}") from error


def _in_process(prepare: Callable[[Any], Callable[[Any], Any]], path: str, job: Any) -> Any:
    return _prepared(prepare, path)(job)


@cache
def _prepared(prepare: Callable[[Any], Callable[[Any], Any]], path: str) -> Callable[[Any], Any]:
    """Once in each process."""
    return prepare(cloudpickle.loads(Path(path).read_bytes()))
