"""Jobs on a Dask cluster: each runs again where its worker ended, and what goes wrong is said in one line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from uuid import uuid4

import cloudpickle

from bayeskit.errors import BayeskitError, InferenceError, OptionError
from bayeskit.terminal import let_alarms_through

__all__ = ["alone_in_process", "finished_futures", "on_cluster", "sent"]

DEATHS = 3  # times that a job is tried again of which Dask says that it ends its workers, after its own four


def on_cluster[Job, Result](
    client: Any, prepare: Callable[[Any], Callable[[Job], Result]], source: Any, jobs: Sequence[Job], what: str
) -> Iterator[Result]:
    """``prepare(source)(job)`` for each job, as it comes; each worker prepares once.

    ``what`` names the tasks on Dask's dashboard. A job must depend on nothing but its arguments: where a worker ends,
    it runs again on another.
    """
    token = uuid4().hex[:12]
    prepared = sent(client, _Prepared(prepare, source), f"{what}-source-{token}")
    names = {
        client.submit(_answer, prepared, job, key=f"{what}-{token}-{number}", pure=False): f"{what} {number + 1}"
        for number, job in enumerate(jobs)
    }
    for future in finished_futures(client, names):
        yield result_of(client, future)


def sent(client: Any, value: Any, key: str) -> Any:
    """A future of a value, which may hold functions of a script; it is made anew where the worker that has it ends."""
    try:
        held = cloudpickle.dumps(value)
    except Exception as error:  # whatever a function of somebody else's holds on to
        let_alarms_through(error)
        raise OptionError(f"client: the model or a function cannot be sent to workers: {error}") from error
    return client.submit(cloudpickle.loads, held, key=key)


def finished_futures(client: Any, names: Mapping[Any, str]) -> Iterator[Any]:
    """Futures as they finish; an error names the one that failed, or says that the cluster is gone."""
    from distributed import KilledWorker, as_completed

    deaths = 0
    try:
        with quiet_cluster():
            with client.as_current():
                going = as_completed(list(names))
            for future in going:
                if future.status == "error" and isinstance(future.exception(), KilledWorker):
                    if (deaths := deaths + 1) > DEATHS:
                        raise InferenceError(
                            f"{names[future]}: each worker that took it ended; if memory was short, make chunks "
                            "smaller, or give workers more"
                        )
                    client.retry([future])
                    going.add(future)
                    continue
                if future.status != "finished":
                    result_of(client, future)  # its error
                yield future
    finally:
        if client.status == "running":
            client.cancel([f for f in names if f.status == "pending"])


def result_of(client: Any, future: Any) -> Any:
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
                f"the connection to the Dask scheduler at {_address(client)} was lost; connect to one that runs, and "
                "call again: with checkpoint=, what was finished is kept"
            ) from error
        if isinstance(error, ModuleNotFoundError):
            raise OptionError(
                f"client: the workers have no module {error.name!r}; install it there, send it by client.upload_file, "
                "or define what needs it in the script itself"
            ) from error
        raise InferenceError(f"a worker failed: {type(error).__name__}: {text}") from error


@contextmanager
def quiet_cluster() -> Iterator[None]:
    """Without what Dask logs of connections that were lost: what the caller needs to know is an error's."""
    loggers = [logging.getLogger(f"distributed.{part}") for part in ("client", "core", "comm", "utils", "batched")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def alone_in_process() -> Any:
    """A lock that one thread of this process holds at a time: PyTensor's rewriting is not made for several."""
    from dask.utils import SerializableLock

    return SerializableLock("bayeskit")


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", None) or "its address")


class _Prepared:
    """What jobs need, prepared by the first of them in each process: what is sent to another is the source."""

    def __init__(self, prepare: Callable[[Any], Any], source: Any) -> None:
        self.given = prepare, source

    @cached_property
    def function(self) -> Callable[[Any], Any]:
        prepare, source = self.given
        return prepare(source)

    def __reduce__(self) -> Any:
        return _unpacked, (cloudpickle.dumps(self.given),)


def _unpacked(held: bytes) -> _Prepared:
    return _Prepared(*cloudpickle.loads(held))


def _answer(prepared: Any, job: Any) -> Any:
    with alone_in_process():
        return prepared.function(job)
