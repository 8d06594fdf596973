"""What else was asked of a posterior or of models, each answer as a section: its tables, its picture and its notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayeskit.errors import OptionError
from bayeskit.reporting.compared_models import collection_picture
from bayeskit.reporting.records import Section, Table, frame_table

__all__ = ["result_sections"]

VALUES = 15  # of a curve that a table has
OF_LAST = "After the last block of the data; the log score is that of this block, predicted from what came before it."

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


def result_sections(results: Mapping[str, Any] | Sequence[Any]) -> tuple[Section, ...]:
    """A section each, by the titles that were given; an OptionError where one is of no known kind."""
    given = results.items() if isinstance(results, Mapping) else ((None, result) for result in results)
    return tuple(_section(title, result, number) for number, (title, result) in enumerate(given, 1))


def _section(given: str | None, result: Any, number: int) -> Section:
    kind = type(result).__name__
    if kind not in ANSWERS or not type(result).__module__.startswith("bayeskit."):
        raise OptionError(f"results has a {kind}; a page can show {', '.join(ANSWERS)}")
    title, names = ANSWERS[kind]
    tables = tuple(_table(getattr(result, name), name if len(names) > 1 else "") for name in names)
    drawn = result.plot(backend="matplotlib") if hasattr(result, "plot") and _curve_known(result) else None
    pictures = () if drawn is None else (collection_picture(drawn, f"{title}: picture of the table."),)
    key = f"{kind.lower()}-{number}"
    if not tables:
        return Section(key, given or title, text=str(result), pictures=pictures)
    verdict = getattr(result, "verdict", "")
    said = (
        *([f"The estimates {verdict}."] if verdict else []),
        *([OF_LAST] if kind == "Sequential" else []),
        *getattr(result, "notes", ()),
    )
    return Section(key, given or title, said, tables=tables, pictures=pictures)


def _curve_known(result: Any) -> bool:
    """Points of several numbers have no picture."""
    return getattr(result, "tested", ...) is not None


def _table(frame: pd.DataFrame, caption: str) -> Table:
    """A table whose rows have names; of a curve some values, and of what grows with the data the last of each model."""
    if {"value", "model"} <= set(frame.columns):
        return _curve_table(frame)
    if "observations" in frame and "model" in frame:
        frame = frame[frame["observations"] == frame["observations"].max()].set_index("model")
        errors = frame.pop("log_score_error")  # "its error", which has to stand beside it
        frame.insert(frame.columns.get_loc("log_score") + 1, "log_score_error", errors)
    elif isinstance(frame.index, pd.RangeIndex):
        frame = frame.set_index(str(frame.columns[0]))
    shown = frame.map(lambda value: ", ".join(map(str, value)) if isinstance(value, tuple | list) else value)
    table = frame_table(shown, str(frame.index.name or "name").replace("_", " "), caption)
    rows = (
        ("; ".join(map(str, first)) if isinstance(first, tuple) else str(first), *rest) for first, *rest in table.rows
    )
    return replace(table, rows=tuple(rows))


def _curve_table(frame: pd.DataFrame) -> Table:
    """Log Bayes factors, a column a model, at some of the values; of one model, its log evidence."""
    models = list(dict.fromkeys(frame["model"]))
    column = "log_bayes_factor" if len(models) > 1 else "log_evidence"
    of = models[1:] or models
    wide = frame.pivot(index="value", columns="model", values=column)[of]
    kept = np.unique(np.linspace(0, len(wide) - 1, min(VALUES, len(wide))).round().astype(int))
    errors = frame["log_bayes_factor_error" if len(models) > 1 else "error"].max()
    what = f"Log Bayes factor against {models[0]}" if len(models) > 1 else "Log evidence"
    caption = f"{what}: errors at most {errors:.1e}, {' or '.join(dict.fromkeys(frame['label']))}"
    rows = tuple((float(value), *map(float, row)) for value, *row in wide.iloc[kept].itertuples())
    return Table(("value", *map(str, of)), rows, caption, f"{len(kept)} of {len(wide)} values.", named=True)
