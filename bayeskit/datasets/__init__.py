"""Data for the models: small real data sets that ship with bayeskit, and the loading and checking of the user's own.

A table (CSV, Parquet, netCDF, a DataFrame or a Dataset) becomes, by :func:`prepare`, the ``xarray.Dataset`` with the
dims that a model's ``VARIABLES`` ask for. Whatever cannot be used is refused in one line: what, where, what to do.
"""

from __future__ import annotations

from bayeskit.datasets.checking import check_data
from bayeskit.datasets.loading import describe_example, example_data, list_examples, load_example, load_table
from bayeskit.datasets.preparing import parse_columns, prepare
from bayeskit.datasets.schema import Example, Option, Positive, Range, Variable

__all__ = [
    "Example",
    "Option",
    "Positive",
    "Range",
    "Variable",
    "check_data",
    "describe_example",
    "example_data",
    "list_examples",
    "load_example",
    "load_table",
    "parse_columns",
    "prepare",
]
