"""What a long run has finished, in a file of JSON lines: written as it comes, and read when the run goes on.

The first line says what is run; a file of something else is refused. A last line that was cut off is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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
    _require_file(path)
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
    _require_file(path)
    with ExitStack() as opened:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held = opened.enter_context(path.open("a+b"))
            _require_alone(held, path)
            held.seek(0)
            whole = held.read().rfind(b"\n") + 1
            held.truncate(whole)
            file = opened.enter_context(path.open("a", encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise OptionError(f"{WHAT} {path} cannot be written: {error}") from error
        if not whole:
            add_line(file, of)
        yield file  # what fails there is no fault of this file


def _require_file(path: Path) -> None:
    """That it may be one; a device or a pipe would be read without end."""
    if path == Path():
        raise OptionError("checkpoint is empty, or the folder '.': give the path of a file")
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no file on a disk"
        raise OptionError(f"{WHAT} {path} cannot be written: it is {kind}; give the path of a file")


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
    text = json.dumps(line) + "\n"
    try:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):  # which would try again to write
            file.close()
        raise OptionError(f"{WHAT} {file.name} cannot be written: {error}") from error
