"""Jobs on a Dask cluster: each runs again where its worker ended, and what goes wrong is said in one line."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

import cloudpickle

from bayeskit.errors import BayeskitError, InferenceError, OptionError
from bayeskit.terminal import let_alarms_through

__all__ = ["alone_in_process", "finished_futures", "on_cluster", "pickled", "result_of", "sent", "willing_client"]

PATIENCE = 60.0  # seconds for a worker to say whether it can unpack something
# Of a job Dask says that it ends its workers once four have ended that it lay with, whether or not it was begun, and
# from then on each time. It is tried again as often as this, where no other was done meanwhile, and in all.
DEATHS, ALL_DEATHS = 6, 50


def on_cluster[Job, Result](
    client: Any, prepare: Callable[[Any], Callable[[Job], Result]], source: Any, jobs: Sequence[Job], what: str
) -> Iterator[Result]:
    """``prepare(source)(job)`` for each job, as it comes; each worker prepares once.

    ``what`` names the tasks on Dask's dashboard. A job must depend on nothing but its arguments: where a worker ends,
    it runs again on another.
    """
    token = uuid4().hex[:12]
    prepared = sent(client, _Prepared(pickled((prepare, source))), f"{what}-source-{token}")
    names = {
        client.submit(
            _answer, prepared, pickled(job), key=f"{what}-{token}-{number}", pure=False
        ): f"{what} {number + 1}"
        for number, job in enumerate(jobs)
    }
    for future in finished_futures(client, names):
        yield result_of(client, future, names[future])


def pickled(value: Any) -> bytes:
    """What a task unpacks itself: where Dask did, a module that a worker lacks would end one after another."""
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:  # whatever a function of somebody else's holds on to
        let_alarms_through(error)
        raise OptionError(f"client: the model or a function cannot be sent to workers: {error}") from error


def willing_client(client: Any, given: Any) -> Any:
    """The current client, where nobody named one, if what is ``given`` can be sent to its workers; else None."""
    if client is None:
        return None
    try:
        with quiet_cluster():
            client.submit(_can_unpack, pickled(given), pure=False).result(timeout=PATIENCE)
    except Exception as error:
        let_alarms_through(error)
        return None
    return client


def _can_unpack(held: bytes) -> bool:
    return cloudpickle.loads(held) is not None


def sent(client: Any, value: Any, key: str) -> Any:
    """A future of a value, which may hold functions of a script; it is made anew where the worker that has it ends."""
    return client.submit(cloudpickle.loads, pickled(value), key=key)


def finished_futures(client: Any, names: Mapping[Any, str]) -> Iterator[Any]:
    """Futures as they finish; an error names the one that failed, or says that the cluster is gone."""
    from distributed import KilledWorker, as_completed

    deaths: Counter[Any] = Counter()
    in_vain: dict[Any, tuple[int, int]] = {}  # how many were done at the last death, and deaths since more were
    done = 0
    try:
        with quiet_cluster():
            with client.as_current():
                going = as_completed(list(names))
            for future in going:
                if future.status == "error" and isinstance(future.exception(), KilledWorker):
                    deaths[future.key] += 1
                    before, times = in_vain.get(future.key, (done, 0))
                    in_vain[future.key] = (done, times + 1 if before == done else 1)
                    if in_vain[future.key][1] > DEATHS or deaths[future.key] > ALL_DEATHS:
                        raise InferenceError(
                            f"{names[future]}: each worker that took it ended; if memory was short, make chunks "
                            "smaller, or give workers more"
                        )
                    client.retry([future])
                    going.add(future)
                    continue
                if future.status != "finished":
                    result_of(client, future, names[future])  # its error
                done += 1
                yield future
    finally:
        if client.status == "running":
            client.cancel([f for f in names if f.status == "pending"])


def result_of(client: Any, future: Any, name: str = "a worker") -> Any:
    """What a job gave; its error in words."""
    try:
        with quiet_cluster():
            return future.result()
    except BayeskitError:
        raise
    except Exception as error:
        let_alarms_through(error)
        text = str(error).splitlines()[0] if str(error) else ""
        if client.status != "running" or future.status in ("cancelled", "lost"):
            raise InferenceError(
                f"the connection to the Dask scheduler at {_address(client)} was lost, or its workers were restarted; "
                "connect to one that runs, and call again: with checkpoint=, what was finished is kept"
            ) from error
        if isinstance(error, ModuleNotFoundError):
            raise OptionError(
                f"client: the workers have no module {error.name!r}; install it there, send it by client.upload_file, "
                "or define what needs it in the script itself"
            ) from error
        raise InferenceError(f"{name} failed: {type(error).__name__}: {text}") from error


@contextmanager
def quiet_cluster() -> Iterator[None]:
    """Without what Dask logs of connections that were lost: what the caller needs to know is an error's."""
    loggers = [logging.getLogger(f"distributed.{part}") for part in ("client", "core", "comm", "utils", "batched")]

    def silent(_: logging.LogRecord) -> bool:
        return False

    for logger in loggers:
        logger.addFilter(silent)  # one for each call: several threads may be in this at once
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(silent)


def alone_in_process() -> Any:
    """A lock that one thread of this process holds at a time: PyTensor's rewriting is not made for several."""
    from dask.utils import SerializableLock

    return SerializableLock("bayeskit")


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", None) or "its address")


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What jobs need, prepared by the first of them in each process; what is sent to another is the source."""

    held: bytes

    @cached_property
    def function(self) -> Callable[[Any], Any]:
        prepare, source = cloudpickle.loads(self.held)
        found: Callable[[Any], Any] = prepare(source)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Prepared, (self.held,)


def _answer(prepared: _Prepared, job: bytes) -> Any:
    with alone_in_process():
        return prepared.function(cloudpickle.loads(job))
