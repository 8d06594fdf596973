"""Results that are pickled, in a checkpoint: a line for each, found again by its mark."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import cloudpickle

from bayeskit.errors import OptionError
from bayeskit.jobs.checkpoint import add_line, finished
from bayeskit.terminal import let_alarms_through

__all__ = ["add_pickled", "pickled_lines", "unpickled"]


def pickled_lines(path: Path, of: Mapping[str, Any]) -> dict[str, bytes]:
    """What a checkpoint holds, by mark, the first of each; load only files that you trust.

    Raises
    ------
    OptionError
        If the file cannot be read, is of another run, or does not hold what was written.
    """
    held: dict[str, bytes] = {}
    for line, row in enumerate(finished(path, of), 2):
        try:
            value = base64.b64decode(row["value"], validate=True)
            if row["run"] != _run(of):
                raise ValueError("it is of another run")
            if hashlib.sha256(value).hexdigest() != row["sha256"]:
                raise ValueError("it does not hold what was written")
            held.setdefault(str(row["mark"]), value)
        except (KeyError, TypeError, ValueError) as error:
            raise OptionError(f"the checkpoint {path}, line {line}: {error}; remove it") from error
    return held


def add_pickled(file: TextIO, of: Mapping[str, Any], name: str, mark: str, value: Any) -> None:
    """One more result, which is on the disk when this returns."""
    try:
        held = cloudpickle.dumps(value)
    except Exception as error:  # whatever a function of somebody else's holds on to
        let_alarms_through(error)
        raise OptionError(f"checkpoint: the result of {name} cannot be pickled: {error}") from error
    digest = hashlib.sha256(held).hexdigest()
    text = base64.b64encode(held).decode()
    add_line(file, {"of": name, "run": _run(of), "mark": mark, "sha256": digest, "value": text})


def _run(of: Mapping[str, Any]) -> str:
    """What each line is of: two runs that wrote to one file would leave lines of both."""
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]


def unpickled(held: bytes) -> Any:
    """A result, or an OptionError if this environment cannot read it."""
    try:
        return cloudpickle.loads(held)
    except Exception as error:
        let_alarms_through(error)
        raise OptionError(f"the checkpoint cannot be read with the packages of this environment: {error}") from error
