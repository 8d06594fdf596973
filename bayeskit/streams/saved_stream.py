"""A stream in a file: a line that says what it is, a digest of the rest, and the rest."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import cloudpickle

from bayeskit.chunks.sums import ChunkSum
from bayeskit.errors import DataError, ModelError
from bayeskit.reporting.files import replacing
from bayeskit.terminal import let_alarms_through

__all__ = ["read_stream", "write_stream"]

WHAT = "the stream"
HEAD = b"bayeskit stream "
VERSION = 3


def write_stream(state: Mapping[str, Any], total: ChunkSum, path: str | PathLike[str]) -> Path:
    """Write what a stream holds, ``total`` of which are the sums of all rows; nothing is left where that fails."""
    target = Path(fspath(path))
    told = None if total.template is None else total.template.told
    try:
        held = cloudpickle.dumps((dict(state), total, told))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ModelError(f"{WHAT} cannot be saved, for its build cannot be pickled: {error}") from error
    with replacing(target, WHAT) as temporary:
        temporary.write_bytes(HEAD + f"{VERSION}\n{hashlib.sha256(held).hexdigest()}\n".encode() + held)
    return target


def read_stream(path: str | PathLike[str]) -> dict[str, Any]:
    """What a stream held; a DataError where the file is none, of another version, or not as it was written.

    A ModelError where the builder is another one by now: it may be found by its name.
    """
    source = Path(fspath(path))
    try:
        first, digest, held = source.read_bytes().split(b"\n", 2)
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{source} is no stream of bayeskit, or is cut off") from error
    if not first.startswith(HEAD):
        raise DataError(f"{source} is no stream of bayeskit")
    if first != HEAD + str(VERSION).encode():
        version = first[len(HEAD) :].decode(errors="replace")
        raise DataError(f"{source} is a stream of version {version}, and this bayeskit reads version {VERSION}")
    if hashlib.sha256(held).hexdigest().encode() != digest:
        raise DataError(f"{source} is damaged: it does not hold what was written; go back to a copy of it")
    try:
        state, total, told = cloudpickle.loads(held)
        found: dict[str, Any] = dict(state)
    except Exception as error:
        let_alarms_through(error)
        raise DataError(f"{source} cannot be read with the packages of this environment: {error}") from error
    if total.template is not None and (why := total.template.other_than(told)):
        raise ModelError(
            f"{source} was saved with another build: {why}; give it the build that it had, or begin a new stream"
        )
    return found
