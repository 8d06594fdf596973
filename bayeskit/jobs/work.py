"""Results of jobs in the order of the jobs: one after another here, or on a cluster, and kept in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from bayeskit.jobs.checkpoint import appending
from bayeskit.jobs.clients import current_client, require_client
from bayeskit.jobs.on_cluster import on_cluster, willing_client
from bayeskit.jobs.pickled_lines import add_pickled, pickled_lines, unpickled
from bayeskit.terminal import watched

__all__ = ["HERE", "Work"]


@dataclass(frozen=True, eq=False)
class Work:
    """Where jobs are done: by the workers of a ``client``, or of the current one, else here, one after another.

    ``of`` is what a ``checkpoint`` has to be of; with the mark of a job it has to say all that a result depends on.
    """

    client: Any = None
    checkpoint: str | PathLike[str] | None = None
    of: Mapping[str, Any] = field(default_factory=dict)
    bar: bool = False

    def results[Job, Result](
        self,
        prepare: Callable[[Any], Callable[[Job], Result]],
        source: Any,
        jobs: Mapping[str, Job],
        what: str,
        own: Callable[[Job], Result] | None = None,
    ) -> list[Result]:
        """``prepare(source)(job)`` for each job, by its mark, in their order; what the checkpoint holds is not done.

        Here they are done by ``own``, where what is to be prepared is there already.
        """
        path = None if self.checkpoint is None else Path(fspath(self.checkpoint))
        held = {} if path is None else pickled_lines(path, self.of)
        found: dict[str, Any] = {mark: unpickled(held[mark]) for mark in jobs if mark in held}
        left = {mark: job for mark, job in jobs.items() if mark not in found}
        client = require_client(self.client)
        if client is None and len(left) > 1:
            client = willing_client(current_client(), (prepare, source, left))
        with nullcontext() if path is None else appending(path, self.of) as file:
            coming = _results(client, prepare, source, left, what, own)
            for mark, result in watched(coming, what, self.bar, len(left)):
                if file is not None:
                    add_pickled(file, self.of, what, mark, result)
                found[mark] = result
        return [found[mark] for mark in jobs]


HERE = Work()


def _results(
    client: Any, prepare: Callable[[Any], Any], source: Any, left: Mapping[str, Any], what: str, own: Any
) -> Iterator[tuple[str, Any]]:
    if client is not None and left:
        tasks: Sequence[Any] = list(left.items())
        yield from on_cluster(client, _marked, (prepare, source), tasks, f"bayeskit-{'-'.join(what.split())}")
    elif left:
        function = own or prepare(source)
        for mark, job in left.items():
            yield mark, function(job)


def _marked(given: tuple[Callable[[Any], Any], Any]) -> Callable[[tuple[str, Any]], tuple[str, Any]]:
    prepare, source = given
    function = prepare(source)
    return lambda task: (task[0], function(task[1]))
