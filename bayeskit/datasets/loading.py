"""Read a table: the user's file (CSV, Parquet or netCDF, told by its ending), or a data set that ships with bayeskit.

A CSV file has one header line; commas, semicolons or tabs between fields; comment lines that begin with ``#`` above
the header; and, with semicolons, possibly decimal commas.

The data sets that ship are real, small, each with the source of its numbers: a CSV file in ``tables/`` that opens with
three comment lines, ``# title:``, ``# source:`` and ``# columns:``. To add one, add its file.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from bayeskit.arguments import checked
from bayeskit.datasets.labels import is_whole_number
from bayeskit.datasets.preparing import prepare, refuse_twice
from bayeskit.datasets.schema import Example, Variable
from bayeskit.errors import DataError

__all__ = ["describe_example", "example_data", "list_examples", "load_example", "load_table", "require_table"]

# A number with a sign or a zero that its value does not need, where a field of a CSV file may begin.
PADDED = re.compile(r"""(?:^|[,;\t"'\s])(?:\+|-?0(?=[0-9])|-0(?=[,;\t"'\s]|$))""", re.MULTILINE)
TABLES = files(__package__) / "tables"


@checked
def load_table(path: str | Path) -> pd.DataFrame | xr.Dataset:
    """Read a table from a file.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.txt``, ``.dat``, ``.parquet``, ``.pq``, ``.nc``, ``.nc4`` or ``.netcdf``.

    Returns
    -------
    pandas.DataFrame or xarray.Dataset
        A Dataset, loaded into memory, from netCDF; a DataFrame from the others. A column of a CSV file is text where
        numbers would lose what is written: the zeros of "001", or that "1" and "1.0" are two labels.

    Raises
    ------
    DataError
        If the file is missing, is a directory, cannot be read, is not a table of its format, is empty, or has two
        columns of the same name.
    """
    path = require_table(path)
    try:
        suffix = path.suffix.lower()
        if suffix not in READERS:
            known = ", ".join(suffix for suffix in READERS if suffix)
            raise DataError(f"{path.name} ends in {path.suffix!r}, which is not read; save the table as one of {known}")
        if path.stat().st_size == 0:
            raise _is_empty(path)
        return READERS[suffix](path)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {_one_line(error.strerror or error)}") from error


def require_table(given: str | Path) -> Path:
    """The path of a table, which is there and no directory: what can be said before anything else is done."""
    path = Path(given)
    try:
        if path.is_dir():
            raise DataError(f"{path} is a directory; name a CSV, Parquet or netCDF file")
        if not path.exists():
            raise DataError(f"there is no file {given}; check the name and the directory")
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {_one_line(error.strerror or error)}") from error
    return path


def _read_csv(path: Path) -> pd.DataFrame:
    skipped, header, text = _csv_header(path)
    separator = max(",;\t", key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=separator, skipinitialspace=True))]
    refuse_twice([name for name in names if name], path.name)
    # Semicolons are what a spreadsheet writes where the comma is the decimal sign.
    decimal = "," if separator == ";" and re.search(r"\d,\d", text) and not re.search(r"\d\.\d", text) else "."
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would lose their last fields with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            options = {"index_col": False, "skipinitialspace": True, "low_memory": False, "encoding": "utf-8-sig"}
            table = pd.read_csv(path, sep=separator, decimal=decimal, skiprows=skipped, **options)
    except pd.errors.ParserWarning:
        what = f"{path.name} has rows with more fields than the header has names ({len(names)})"
        advice = "give each column a name, or quote fields that contain the separator"
        raise DataError(f"{what}; {advice}") from None
    except (ValueError, csv.Error) as error:
        raise DataError(f"{path.name} is not a CSV table: {_one_line(error)}; mend that line") from error
    table = _with_its_texts(table, path, {**options, "sep": separator, "skiprows": skipped}, decimal)
    table.columns = pd.Index(names)
    return table


def _with_its_texts(table: pd.DataFrame, path: Path, options: dict[str, Any], decimal: str) -> pd.DataFrame:
    """A table in which texts that would become another text, or one number with another, are still texts.

    As labels, "001" and "1" are two; as numbers they are read from text as well.
    """
    kinds = [dtype.kind if isinstance(dtype, np.dtype) else "O" for dtype in table.dtypes]
    whole = any(kind in "iu" for kind in kinds)  # else the file need not be read again for that
    padded = "iu" if whole and PADDED.search(path.read_text(encoding="utf-8-sig")) else ""
    # Only whole numbers are labels.
    asked = [k for k, kind in enumerate(kinds) if kind in "b" + padded or (kind == "f" and _whole(table.iloc[:, k]))]
    if not asked:
        return table
    texts = pd.read_csv(path, **options, usecols=asked, dtype=str)
    columns = dict(enumerate(table.iloc[:, k] for k in range(table.shape[1])))
    for k, (_, column) in zip(asked, texts.items(), strict=True):
        written = column.str.strip()
        different = written.dropna().unique()
        several = len(different) > table.iloc[:, k].nunique()
        if several or (kinds[k] in "iu" and not all(map(is_whole_number, different))):
            columns[k] = written if decimal == "." else written.str.replace(decimal, ".")
    return pd.concat(columns, axis=1)


def _whole(column: pd.Series) -> bool:
    present = column.dropna().to_numpy()
    return bool(present.size and np.all(present == np.floor(present)))


def _csv_header(path: Path) -> tuple[int, str, str]:
    """How many lines come before the header, the header, and the first lines below it."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = [file.readline(1_000_000).rstrip("\n") for _ in range(1000)]
    except UnicodeDecodeError:
        raise DataError(f"{path.name} is not a text file in UTF-8; save the table as CSV in UTF-8") from None
    if any("\0" in line for line in lines):
        raise DataError(f"{path.name} is not a text file; save the table as CSV in UTF-8")
    # A ``#`` means a comment only above the header: below it, it may be part of a label.
    first = next((k for k, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if first is None:
        raise _is_empty(path)
    return first, lines[first], "\n".join(lines[first + 1 :])


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        contents = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path.name} is not a Parquet file: {_one_line(error)}; save the table again") from error
    refuse_twice(contents.column_names, path.name)
    table = contents.to_pandas()
    if not isinstance(table.index, pd.RangeIndex):
        table = table.reset_index()
    table.columns = table.columns.map(str)
    refuse_twice(list(table.columns), path.name)
    return table


def _read_netcdf(path: Path) -> xr.Dataset:
    try:
        return xr.load_dataset(path)
    except (OSError, ValueError) as error:
        # xarray's own message runs over many lines about the packages it could have used.
        raise DataError(f"{path.name} is not a netCDF file that xarray can read; save the data set again") from error


def _is_empty(path: Path) -> DataError:
    return DataError(f"{path.name} is empty; the model needs a table with a header and at least one row")


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


READERS = dict.fromkeys((".csv", ".tsv", ".txt", ".dat", ""), _read_csv)
READERS |= dict.fromkeys((".parquet", ".pq"), _read_parquet) | dict.fromkeys((".nc", ".nc4", ".netcdf"), _read_netcdf)


def list_examples() -> tuple[str, ...]:
    """The names of the data sets that ship with bayeskit, sorted."""
    return tuple(sorted(entry.name.removesuffix(".csv") for entry in TABLES.iterdir() if entry.name.endswith(".csv")))


@checked
def describe_example(name: str) -> dict[str, str]:
    """What a shipped data set is and where its numbers come from: its ``title``, ``source`` and ``columns``."""
    if name not in list_examples():
        raise DataError(f"no example data set {name!r}; there are {', '.join(list_examples())}")
    lines = (TABLES / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    comments = (line[1:].partition(":") for line in lines if line.startswith("#"))
    return {key.strip(): text.strip() for key, _, text in comments}


@checked
def load_example(name: str) -> pd.DataFrame:
    """Load a data set that ships with bayeskit, one of :func:`list_examples`.

    Its description is in ``.attrs``, under the keys of :func:`describe_example`.
    """
    about = describe_example(name)
    with as_file(TABLES / f"{name}.csv") as path:
        table = load_table(path)
    table.attrs = about
    return table


@checked
def example_data(example: Example, variables: Mapping[str, Variable]) -> xr.Dataset:
    """A model's ``EXAMPLE`` with its ``VARIABLES``, ready for its ``build``."""
    return prepare(load_example(example.dataset), variables, example.columns)
