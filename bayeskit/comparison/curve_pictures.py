"""Pictures of curves: Bayes factors against a number of a prior, or against the observations that had arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeskit.comparison.canvas import Canvas, NamedCurve, spans
from bayeskit.results.picture_style import picture_style

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

    from bayeskit.comparison.prequential_scores import Sequential
    from bayeskit.comparison.robustness_curve import Robustness

__all__ = ["draw_robustness", "draw_sequential"]

SIZE = (6.2, 3.0)  # inches


def draw_robustness(robustness: Robustness, backend: str | None) -> PlotCollection:
    """Log Bayes factors against the number of a prior, and the values that were chosen; of one model, its evidence."""
    table = robustness.table.sort_values("value", kind="stable")
    models, x = list(dict.fromkeys(robustness.table["model"])), np.unique(table["value"])
    canvas = Canvas(("robustness",), SIZE, backend)
    (panel,) = canvas.panels
    with picture_style():
        if len(models) == 1:
            lines, y = _lines(table, models, "log_evidence", "error"), "log evidence, nats"
        else:
            lines = _lines(table, models[1:], "log_bayes_factor", "log_bayes_factor_error")
            y = "log Bayes factor, nats"
            panel.level(0.0)
        panel.curves(x, lines)
        top = max((float(np.nanmax(line.y)) for line in lines if np.isfinite(line.y).any()), default=0.0)
        for value in dict.fromkeys(robustness.chosen.values()):
            panel.mark(value, f"chosen: {value:g}", top)
        band = "; bands: ±2 se, or the bound" if _wide(lines) else ""
        against = f", against {models[0]}" if len(models) > 1 else ""
        panel.name(f"Robustness to {robustness.parameter}{against}", x=f"{robustness.parameter}{band}", y=y)
    return canvas.collection


def draw_sequential(sequential: Sequential, backend: str | None) -> PlotCollection:
    """Log Bayes factors and posterior probabilities after each block; of one model, its evidence."""
    table = sequential.table.sort_values("observations", kind="stable")
    models, x = list(dict.fromkeys(sequential.table["model"])), np.unique(table["observations"]).astype(float)
    several = len(models) > 1
    names = ("log_bayes_factor", "posterior_probability") if several else ("log_evidence",)
    canvas = Canvas(names, (SIZE[0] * (1.6 if several else 1.0), SIZE[1]), backend)
    with picture_style():
        if not several:
            lines = _lines(table, models, "log_evidence", "error")
            canvas.panels[0].curves(x, lines)
            canvas.panels[0].name("As data arrive", x="observations", y="log evidence, nats")
            return canvas.collection
        lines = _lines(table, models[1:], "log_bayes_factor", "log_bayes_factor_error")
        factors, probabilities = canvas.panels
        factors.level(0.0)
        factors.curves(x, lines)
        band = "; bands: ±2 se, or the bound" if _wide(lines) else ""
        factors.name(f"Log Bayes factor against {models[0]}", x=f"observations{band}", y="nats")
        probabilities.curves(x, _lines(table, models, "posterior_probability", None), limits=(-0.06, 1.06))
        probabilities.name("Posterior probability", x="observations")
    return canvas.collection


def _lines(table: pd.DataFrame, models: Sequence[str], column: str, error: str | None) -> list[NamedCurve]:
    """A curve a model: all but the first of several are numbered from one, and keep their colours."""
    every = list(dict.fromkeys(table["model"]))
    result = []
    for model in models:
        own = table[table["model"] == model]
        half = np.zeros(len(own)) if error is None else spans(own[error].to_numpy(dtype=float), list(own["label"]))
        half = np.where(np.isfinite(half), half, 0.0)
        result.append(NamedCurve(str(model), own[column].to_numpy(dtype=float), half, every.index(model)))
    return result


def _wide(lines: Sequence[NamedCurve]) -> bool:
    """Whether a band can be seen."""
    known = [(line.y[np.isfinite(line.y)], line.half) for line in lines]
    return any(y.size and half.max() > 0.005 * (np.ptp(y) or 1.0) for y, half in known)
