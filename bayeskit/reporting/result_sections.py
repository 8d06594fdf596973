"""What else was asked of a posterior or of models, each answer as a section: its tables, its picture and its notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from bayeskit.errors import OptionError
from bayeskit.reporting.compared_models import collection_picture
from bayeskit.reporting.records import Section, Table, frame_table

__all__ = ["result_section"]

# By the names of their classes: the title of the section, and the tables that it shows.
ANSWERS = {
    "CrossValidation": ("Cross-validation", ("table",)),
    "InformationCriteria": ("Information criteria", ("table",)),
    "OrderHypothesis": ("A hypothesis", ()),
    "PointNull": ("A point tested", ()),
    "Robustness": ("Robustness to a prior", ("table",)),
    "SecondOpinion": ("A second opinion on the evidence", ("table",)),
    "Selection": ("Which predictors?", ("inclusion", "models", "coefficients")),
    "Sensitivity": ("Sensitivity to priors", ("table",)),
    "Sequential": ("As the data arrived", ("table",)),
}


def result_section(result: Any, number: int) -> Section:
    """One answer; an OptionError where it is of no known kind."""
    kind = type(result).__name__
    if kind not in ANSWERS or not type(result).__module__.startswith("bayeskit."):
        raise OptionError(f"results has a {kind}; a page can show {', '.join(ANSWERS)}")
    title, names = ANSWERS[kind]
    tables = tuple(_table(getattr(result, name), name if len(names) > 1 else "") for name in names)
    drawn = result.plot(backend="matplotlib") if hasattr(result, "plot") else None
    pictures = () if drawn is None else (collection_picture(drawn, f"{title}: picture of the table."),)
    key = f"{kind.lower()}-{number}"
    if not tables:
        return Section(key, title, text=str(result), pictures=pictures)
    verdict = getattr(result, "verdict", "")
    said = (*([f"The estimates {verdict}."] if verdict else []), *getattr(result, "notes", ()))
    return Section(key, title, said, tables=tables, pictures=pictures)


def _table(frame: pd.DataFrame, caption: str) -> Table:
    """A table whose rows have names; of what grows with the data the last of each model."""
    if "observations" in frame:
        frame = frame[frame["observations"] == frame["observations"].max()]
    if isinstance(frame.index, pd.RangeIndex) or "observations" in frame:
        frame = frame.set_index("model" if "model" in frame else str(frame.columns[0]))
    shown = frame.map(lambda value: ", ".join(map(str, value)) if isinstance(value, tuple | list) else value)
    table = frame_table(shown, str(frame.index.name or "name").replace("_", " "), caption)
    return replace(table, rows=tuple((str(first), *rest) for first, *rest in table.rows))
