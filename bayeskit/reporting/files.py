"""Files that hold a result: written whole or not at all, where there is nothing yet or in place of a regular file.

Devices, pipes and folders are refused, before anything is computed; a symbolic link is followed, and stays.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from bayeskit.errors import OptionError

__all__ = ["REPORT", "check_writable", "replacing"]

REPORT = "the report"  # what an error calls a page
PAGES = (".html", ".htm", "")  # another name would promise another kind of file


def check_writable(path: Path, what: str) -> Path:
    """Where the file is to be, links followed, once it is sure that it can be put there; else an error names it."""
    if what == REPORT and path.suffix.lower() not in PAGES:
        raise OptionError(f"cannot write {what} {path}: it is a page of HTML; name it {path.stem}.html")
    try:
        target = folder = Path(os.path.realpath(path))
        if target.is_file():
            target.open("r+b").close()
        elif os.path.lexists(target):
            raise OSError(f"that is {'a folder' if target.is_dir() else 'no regular file'}")
        while not folder.parent.exists():
            folder = folder.parent
        # Asking for permission is not enough: root is always told yes, even on a read-only file system.
        with tempfile.TemporaryFile(dir=folder.parent):
            return target
    except (OSError, ValueError) as error:  # the second for characters that no name has
        raise _unwritten(path, what, error) from error


@contextmanager
def replacing(path: Path, what: str) -> Iterator[Path]:
    """A place beside ``path`` to write a file or a folder to, which is moved there at the end; errors leave nothing.

    Folders that are missing are made. ``what`` is what an :class:`~bayeskit.errors.OptionError` calls the file.
    """
    target = check_writable(path, what)
    temporary, made = target.with_name(f".{uuid4().hex}.part"), [f for f in target.parents if not f.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, target)
        made = []
    except OSError as error:
        raise _unwritten(path, what, error) from error
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink()
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


def _unwritten(path: Path, what: str, error: Exception) -> OptionError:
    reason = getattr(error, "strerror", None) or error
    return OptionError(f"cannot write {what} {path}: {reason}; name a file in a folder you can write to")
