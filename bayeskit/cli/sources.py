"""What models were built from, in words and as records, and that no result is written over it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeskit.errors import OptionError

if TYPE_CHECKING:
    from bayeskit.cli.specification import BuiltModel

__all__ = ["about_model", "columns_of", "heading_of", "introduced", "require_free", "source_of"]

STANDARDISED = "Features are standardised: weights are for features in sds (standardise=false: in their own units)."


def columns_of(texts: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """The columns that were named, by the variables that they are."""
    from bayeskit.datasets import parse_columns

    return parse_columns(",".join(texts)) if texts else {}


def source_of(built: BuiltModel) -> dict[str, Any]:
    """What a model was built from, as a record."""
    return {"model": built.name, "data": built.data, "columns": built.columns, "options": built.options}


def heading_of(built: BuiltModel) -> str:
    """What a model was built from, in a line."""
    options = ", ".join(f"{name}={value}" for name, value in built.options.items())
    source = "" if built.name.startswith(built.data) else f": {built.data}"  # a model file may hold its data
    return f"{built.name}{source}{f' ({options})' if options else ''}"


def introduced(built: BuiltModel) -> list[str]:
    """What a model was built from, and in what units its weights are."""
    return [heading_of(built), *([STANDARDISED] if built.standardised else [])]


def about_model(built: BuiltModel) -> list[str]:
    """What a report begins with: the model, its data, its options, and which column is which variable."""
    named = {name: column if isinstance(column, str) else "+".join(column) for name, column in built.columns.items()}
    columns = ", ".join(f"{name}={column}" for name, column in named.items())
    return [*introduced(built), *([f"Columns: {columns}."] if columns else [])]


def require_free(path: Path | None, what: str, read: Iterable[str | None]) -> None:
    """That a file can be written, and is none of those that are read: tables, and models by their specifications."""
    from bayeskit.reporting.files import check_writable

    if path is None:
        return
    for source in filter(os.path.exists, (text.partition(":")[0] for text in read if text)):
        if path.exists() and path.samefile(source):
            raise OptionError(f"cannot write {what} {path}: {source} is read; name another file")
    check_writable(path, what)
