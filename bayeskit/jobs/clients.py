"""Which Dask cluster does the work: the one that is given, or the one that Dask itself would take."""

from __future__ import annotations

import sys
from typing import Any

from bayeskit.errors import OptionError

__all__ = ["current_client", "is_lazy", "require_client"]


def require_client(client: Any) -> Any:
    """The ``client`` given, or None; an OptionError if it is none, or is closed."""
    if client is None:
        return None
    distributed = sys.modules.get("distributed")
    if distributed is None or not isinstance(client, distributed.Client):
        raise OptionError(f"client is {type(client).__name__}; it must be a dask.distributed.Client")
    if client.asynchronous:
        raise OptionError("client is asynchronous; give one that was made without asynchronous=True")
    if client.status != "running":
        raise OptionError(f"client is {client.status}: connect to a scheduler that runs, Client(address)")
    return client


def current_client() -> Any:
    """The client that Dask computes with where none is named; None where there is none, and in a task of a worker."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        distributed.get_worker()
        return None  # a task that waits for others takes the place of one of them
    except ValueError:
        pass
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    return client if client.status == "running" and not client.asynchronous else None


def is_lazy(data: Any) -> bool:
    """Whether these are data of Dask: an array, a table, a Dataset of its arrays, or a delayed value."""
    dask = sys.modules.get("dask")
    return bool(dask and dask.is_dask_collection(data))
