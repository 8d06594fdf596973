"""Files are written whole or not at all, where nothing or a regular file is: what is left after each failure."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bayeskit.errors import OptionError
from bayeskit.reporting import files
from bayeskit.reporting.files import check_writable, replacing


def written(path: Path, text: str = "new") -> None:
    with replacing(path, "the table") as temporary:
        temporary.write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_new_file_and_its_folders_and_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    for text in ("first", "second"):
        written(path, text)
        assert path.read_text() == text
    assert names(tmp_path) == ["a", "a/b", "a/b/page.html"]


def test_a_folder_may_be_written(tmp_path: Path) -> None:
    with replacing(tmp_path / "store", "the store") as temporary:
        temporary.mkdir()
        (temporary / "x").write_text("1")
    assert names(tmp_path) == ["store", "store/x"]


def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "page.html").write_text("old")
    for link, target in (("link", "elsewhere/page.html"), ("dangling", "elsewhere/new.html"), ("chain", "link")):
        (tmp_path / link).symlink_to(target)
        written(tmp_path / link, link)
        assert os.readlink(tmp_path / link) == target
        assert (tmp_path / link).read_text() == link
    assert names(tmp_path / "elsewhere") == ["new.html", "page.html"]


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/full")
    (tmp_path / "file").write_text("in the way")
    before = names(tmp_path)
    for path in ("pipe", "loop", "device", ".", "file/page.html", "a\0b", "x" * 300):
        for refuse in (check_writable, lambda path, what: written(path)):
            with pytest.raises(OptionError, match="cannot write the table") as caught:
                refuse(tmp_path / path, "the table")
            assert "\n" not in str(caught.value)
    assert names(tmp_path) == before
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR((tmp_path / "device").stat().st_mode)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond a thousand bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    for path in (tmp_path / "page.html", tmp_path / "a" / "b" / "page.html"):
        with full_disk(), pytest.raises(OptionError, match="File too large"):
            written(path, "x" * 10_000)
    assert names(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, ValueError])
def test_what_ends_the_writing_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "page.html").write_text("old")
    for path in (tmp_path / "page.html", tmp_path / "a" / "page.html"):
        with pytest.raises(error), replacing(path, "the table") as temporary:
            temporary.write_text("half")
            raise error
    assert names(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"


def test_a_killed_process_leaves_its_target_alone(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    code = (  # the file alone: its package imports PyMC
        "import os, runpy, signal, sys; from pathlib import Path\n"
        "with runpy.run_path(sys.argv[1])['replacing'](Path(sys.argv[2]), 'x') as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, files.__file__, str(tmp_path / "page.html")])
    assert done.returncode == -9
    assert (tmp_path / "page.html").read_text() == "old"
    (beside,) = {*names(tmp_path)} - {"page.html"}
    assert beside.startswith(".") and beside.endswith(".part")


def test_a_file_that_must_not_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file system answers that is read-only; root is told yes where permissions say no."""
    (tmp_path / "page.html").write_text("old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    for place in ("pathlib.Path.open", "tempfile.TemporaryFile", "pathlib.Path.mkdir", "os.replace"):
        with monkeypatch.context() as patched:
            patched.setattr(place, refuse)
            with pytest.raises(OptionError, match="Read-only file system"):
                written(tmp_path / "page.html")
    assert names(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"
