"""Writing a page whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bayeskit.errors import OptionError

__all__ = ["check_writable", "write_page"]


def check_writable(path: Path) -> None:
    """Make sure that a page can be put there, before anything is computed; nothing is left behind.

    Raises
    ------
    OptionError
        One line that says what stands in the way.
    """
    if path.is_dir():
        raise OptionError(
            f"cannot write the report {path}: that is a folder; name a file in it, such as {path / 'report.html'}"
        )
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        # Asking for permission is not enough: root is always told yes, even on a read-only file system.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OptionError(_message(path, error)) from error


def write_page(path: Path, page: str) -> Path:
    """Write a page beside its place and move it there, so that a reader never finds half a page.

    Raises
    ------
    OptionError
        If it cannot be written; nothing is left behind.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(page)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes a file that only its owner can read
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OptionError(_message(path, error)) from error
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _message(path: Path, error: OSError) -> str:
    return f"cannot write the report {path}: {error.strerror or error}; name a file in a folder you can write to"
