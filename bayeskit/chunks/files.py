"""The files that a path stands for: all below a folder, with what the names of its folders say of their rows."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from bayeskit.errors import DataError

__all__ = ["DataFile", "files_of", "is_parquet"]

SUFFIXES = (".parquet", ".pq", ".parq")
LAKES = {"_delta_log": "Delta Lake", ".hoodie": "Apache Hudi"}
NONE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class DataFile:
    """A file or a store, and the columns that it has by its place: of ``year=2024/part-0.parquet`` the year."""

    path: Path
    columns: Mapping[str, int | str] = field(default_factory=dict)


def files_of(pattern: str) -> list[DataFile]:
    """What a path, a folder or a pattern stands for, in sorted order; a DataError where there is none.

    Of a folder these are all Parquet files in it and in its folders. Where folders are called ``name=value``, below
    the folder given or the wildcard, all their rows have the value in a column of that name: a number where all values
    are integers, as Spark, pandas and Arrow have it.
    """
    path = Path(pattern)
    if _is_folder(path):
        return _with_columns(path, _below(path))
    if path.exists():
        return [DataFile(path)]
    found = [Path(p) for p in glob.glob(pattern, recursive=True)] if glob.has_magic(pattern) else []
    if not found:
        raise DataError(f"there is no file {pattern}")
    wild = next(k for k, part in enumerate(path.parts) if glob.has_magic(part))
    # A folder of which "**" gives the files too is read once.
    files = {file for one in found for file in (_below(one) if _is_folder(one) else [one])}
    return _with_columns(Path(*path.parts[:wild]), sorted(files))


def is_parquet(path: Path) -> bool:
    """Whether it is a file of Parquet, by its name or else by its first bytes, as those of Hive have no suffix."""
    if path.suffix.lower() in SUFFIXES:
        return True
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _is_folder(path: Path) -> bool:
    store = path.suffix == ".zarr" or (path / "zarr.json").exists() or (path / ".zgroup").exists()
    return path.is_dir() and not store


def _below(folder: Path) -> list[Path]:
    """All Parquet files in a folder and its folders; a DataError where something else would be left out."""
    try:
        found = sorted(_walked(folder))
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror or error}") from error
    if not found:
        raise DataError(f"the folder {folder} has no Parquet files")
    return found


def _walked(folder: Path) -> Iterator[Path]:
    def raised(error: OSError) -> None:
        raise error

    for place, folders, names in os.walk(folder, onerror=raised):
        here = Path(place)
        # Such are notes of who wrote the files, and what was never finished: nobody reads them as data.
        folders[:] = [name for name in folders if "=" in name or not name.startswith(("_", "."))]
        for name in folders:
            if (here / name).is_symlink():
                raise DataError(f"{here / name} in a folder of data is a link to another folder: give that by its path")
            if not _is_folder(here / name):
                raise DataError(f"{here / name} in a folder of data is a Zarr store: give that by its path")
        for name in names:
            if name.startswith(("_", ".")) or name.lower().endswith(".crc"):
                if name.lower().endswith(SUFFIXES) and not name.startswith("._"):  # which macOS keeps of a file
                    raise DataError(f"{here / name} is called as what is no data: call it otherwise, or move it")
                continue
            if not is_parquet(here / name):
                raise DataError(
                    f"{here / name} in a folder of data is no Parquet file: give the others as a pattern, "
                    f'"{folder}/**/*.parquet", or move it elsewhere'
                )
            yield here / name


def _with_columns(base: Path, files: Iterable[Path]) -> list[DataFile]:
    """Files with the columns that the folders between them and ``base`` name."""
    own: dict[Path, dict[str, str]] = {}
    for file in files:
        folders = file.parent.relative_to(base).parts
        _require_no_lake(base, folders)
        pairs = [part.partition("=") for part in folders if "=" in part]
        own[file] = {unquote(name): unquote(value) for name, _, value in pairs}
        if "" in own[file]:
            raise DataError(f"{file} lies in a folder whose name has nothing before its '='")
    first, names = next((file, set(columns)) for file, columns in own.items())
    for file, columns in own.items():
        if columns.keys() != names:
            raise DataError(
                f"{file} lies in folders of {_said(columns)}, and {first} in folders of {_said(names)}: give them apart"
            )
        for name, value in columns.items():
            if value in ("", NONE):
                raise DataError(f"{file} has no {name!r}, as its folder says: leave it out")
    numbers = {n for n in names if all(_is_integer(columns[n]) for columns in own.values())}
    return [DataFile(f, {n: int(v) if n in numbers else v for n, v in columns.items()}) for f, columns in own.items()]


def _require_no_lake(base: Path, folders: tuple[str, ...]) -> None:
    """That no log beside the files says that some of them were replaced or deleted."""
    for depth in range(len(folders) + 1):
        here = base.joinpath(*folders[:depth])
        for name, lake in LAKES.items():
            if (here / name).exists():
                raise DataError(
                    f"{here} is a table of {lake}, in which files stay that are of it no more: read it with its "
                    "library, and give the tables"
                )


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18


def _said(names: Iterable[str]) -> str:
    return ", ".join(f"{name}=…" for name in names) or "no such names"
