"""What a long run has finished, in a file of JSON lines: written as it comes, and read when the run goes on.

The first line says what is run; a file of something else is refused. A last line that was cut off is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TextIO

from bayeskit.errors import OptionError

__all__ = ["add_line", "appending", "finished"]

WHAT = "the checkpoint"


def finished(path: Path, of: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of a run that the file holds; none if there is no file yet.

    Raises
    ------
    OptionError
        If the file cannot be read, or is of another run: it says what differs.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = text.split("\n")[:-1]
        if text and not lines:
            raise ValueError("it has no whole line; remove it, or name another file")
        header, *rows = [json.loads(line) for line in lines] or [dict(of)]
    except (OSError, ValueError) as error:
        raise OptionError(f"{WHAT} {path} cannot be read: {error}") from error
    known = json.loads(json.dumps(of))
    if not isinstance(header, dict) or header.keys() != known.keys():
        raise OptionError(f"{path} is no checkpoint of such a run: name another file")
    if differs := [name for name in known if header[name] != known[name]]:
        (name, *_) = differs
        said = f": {header[name]!r} there, {known[name]!r} here" if len(f"{header[name]}{known[name]}") < 80 else ""
        raise OptionError(f"{path} is of another run, with another {name}{said}; name another file, or remove it")
    return rows


@contextmanager
def appending(path: Path, of: Mapping[str, Any]) -> Iterator[TextIO]:
    """The file, open for lines after those that are whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as held:
            _require_alone(held, path)
            held.seek(0)
            whole = held.read().rfind(b"\n") + 1
            held.truncate(whole)
            with path.open("a", encoding="utf-8") as file:
                if not whole:
                    add_line(file, of)
                yield file
    except OSError as error:
        raise OptionError(f"{WHAT} {path} cannot be written: {error}") from error


def _require_alone(file: IO[Any], path: Path) -> None:
    """That no other run writes to the file; on Windows nobody says."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OptionError(
            f"{WHAT} {path} is being written by another run; wait for it, or name another file"
        ) from error


def add_line(file: TextIO, line: Mapping[str, Any]) -> None:
    """One line, which is on the disk when this returns."""
    file.write(json.dumps(line) + "\n")
    file.flush()
    os.fsync(file.fileno())
