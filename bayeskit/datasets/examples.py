"""The data sets that ship with bayeskit: real, small, each with the source of its numbers.

Each is a CSV file in ``tables/`` that opens with three comment lines: ``# title:``, ``# source:`` and ``# columns:``.
To add one, add its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from bayeskit.datasets.loading import load_table
from bayeskit.datasets.preparing import prepare
from bayeskit.datasets.schema import Example, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["describe_example", "example_data", "list_examples", "load_example"]

TABLES = files(__package__) / "tables"


def list_examples() -> tuple[str, ...]:
    """The names of the data sets that ship with bayeskit, sorted."""
    names = (entry.name for entry in TABLES.iterdir())
    return tuple(sorted(name.removesuffix(".csv") for name in names if name.endswith(".csv")))


def describe_example(name: str) -> dict[str, str]:
    """What a shipped data set is and where its numbers come from.

    Parameters
    ----------
    name : str
        One of :func:`list_examples`.

    Returns
    -------
    dict of str to str
        With the keys ``title``, ``source`` and ``columns``.

    Raises
    ------
    DataError
        If there is no such data set.
    """
    _check_name(name)
    lines = (TABLES / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    comments = (line[1:].partition(":") for line in lines if line.startswith("#"))
    return {key.strip(): text.strip() for key, _, text in comments}


def load_example(name: str) -> pd.DataFrame:
    """Load a data set that ships with bayeskit.

    Parameters
    ----------
    name : str
        One of :func:`list_examples`.

    Returns
    -------
    pandas.DataFrame
        Its description is in ``.attrs``, under the keys of :func:`describe_example`.

    Raises
    ------
    DataError
        If there is no such data set.
    """
    about = describe_example(name)
    with as_file(TABLES / f"{name}.csv") as path:
        table = load_table(path)
    table.attrs = about
    return table


def example_data(example: Example, variables: Mapping[str, Variable]) -> xr.Dataset:
    """The example of a model, ready for its ``build``.

    Parameters
    ----------
    example : Example
        The model's ``EXAMPLE``.
    variables : mapping of str to Variable
        The model's ``VARIABLES``.

    Returns
    -------
    xarray.Dataset
    """
    return prepare(load_example(example.dataset), variables, example.columns)


def _check_name(name: str) -> None:
    if name not in list_examples():
        raise DataError(f"no example data set {name!r}; there are {', '.join(list_examples())}")
