"""Pictures of comparisons: evidences, probabilities and Bayes factors of models, estimators, sensitivities, terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeskit.comparison.canvas import Canvas, Panel, spans
from bayeskit.results.picture_style import picture_style

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

    from bayeskit.comparison.agreement import SecondOpinion
    from bayeskit.comparison.comparison import Comparison
    from bayeskit.comparison.prior_sensitivity import Sensitivity
    from bayeskit.comparison.subsets.selection import Selection

__all__ = ["draw_comparison", "draw_dots", "draw_second_opinion", "draw_selection", "draw_sensitivity"]

MOST = 12  # models, terms or hyperparameters in a picture
ROW, LEAST = 0.34, 1.5  # inches
KINDS = ("evidence", "probability", "bayes_factors")


def draw_comparison(comparison: Comparison, kind: str | None, backend: str | None) -> PlotCollection:
    """One of the kinds, or all side by side; see :meth:`bayeskit.Comparison.plot`."""
    kinds = (kind,) if kind else KINDS
    table = comparison.table.head(MOST)
    more = f", best {MOST} of {len(comparison.table)}" if len(comparison.table) > MOST else ""
    height = max(LEAST, ROW * len(table) + 0.8)
    canvas = Canvas(kinds, ((5.2 if kind else 4.2) * len(kinds), height), backend)
    draw = {"evidence": _evidences, "probability": _probabilities, "bayes_factors": _bayes_factors}
    with picture_style():
        for name, panel in zip(kinds, canvas.panels, strict=True):
            draw[name](panel, table, more)
    return canvas.collection


def draw_dots(
    title: str, what: str, table: pd.DataFrame, column: str, backend: str | None, digits: int = 3, **options: Any
) -> PlotCollection:
    """One number of each row of a table, with its error; the rows that have none say why, by their ``reason``."""
    shown = table.head(MOST)
    more = f", {MOST} of {len(table)}" if len(table) > MOST else ""
    values = shown[column].to_numpy(dtype=float)
    half = spans(shown["error"].to_numpy(dtype=float), list(shown["label"]))
    reasons = shown["reason"] if "reason" in shown else pd.Series("", index=shown.index)
    texts = [
        f"{value:.{digits}g} {label}".replace("-", "−") if np.isfinite(value) else _cut(reason)
        for value, label, reason in zip(values, shown["label"], reasons, strict=True)
    ]
    canvas = Canvas((column,), (6.2, max(LEAST, ROW * len(shown) + 0.8)), backend)
    with picture_style():
        names = [" · ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in shown.index]
        canvas.panels[0].dots(names, values, half, texts, **options)
        canvas.panels[0].name(f"{title}{more}", x=what + _bars(values, half))
    return canvas.collection


def draw_second_opinion(opinion: SecondOpinion, backend: str | None) -> PlotCollection:
    """The estimates of one log evidence."""
    return draw_dots(f"The estimates {opinion.verdict}", "log p(y), nats", opinion.table, "log_evidence", backend, 7)


def draw_sensitivity(sensitivity: Sensitivity, backend: str | None) -> PlotCollection:
    """Changes when a number of a prior doubles, where that can be said."""
    table = sensitivity.table.dropna(subset=["elasticity"])
    errors = table["error"] * np.abs(table["value"]) * np.log(2)
    what = f"change of {sensitivity.of} when the number doubles, to first order, nats"
    return draw_dots("Sensitivity", what, table.assign(error=errors), "elasticity", backend, start=0.0)


def draw_selection(selection: Selection, backend: str | None) -> PlotCollection:
    """Probabilities of inclusion, the prior ones as circles."""
    table = selection.inclusion.sort_values("probability", ascending=False, kind="stable").assign(label=selection.label)
    hollow = table["prior_probability"].to_numpy(dtype=float)[:MOST]
    options = {"start": 0.0, "limits": (0.0, 1.0), "hollow": hollow}
    return draw_dots("Probability of inclusion", "circles: prior", table, "probability", backend, **options)


def _evidences(panel: Panel, table: pd.DataFrame, more: str) -> None:
    values = table["log_evidence"].to_numpy(dtype=float)
    half = spans(table["error"].to_numpy(dtype=float), list(table["label"]))
    texts = [f"{value:.2f} {label}".replace("-", "−") for value, label in zip(values, table["label"], strict=True)]
    panel.dots(list(map(str, table.index)), values, half, texts)
    panel.name(f"Log evidence{more}", x="log p(y), nats" + _bars(values, half))


def _probabilities(panel: Panel, table: pd.DataFrame, more: str) -> None:
    values, prior = (table[f"{of}_probability"].to_numpy(dtype=float) for of in ("posterior", "prior"))
    half = spans(table["posterior_probability_error"].to_numpy(dtype=float), list(table["label"]))
    texts = [f"{value:.3f}" if value >= 5e-4 else f"{value:.1e}".replace("-", "−") for value in values]
    panel.dots(list(map(str, table.index)), values, half, texts, limits=(0.0, 1.0), start=0.0, hollow=prior)
    panel.name(f"Posterior probability{more}", x="dots: posterior, circles: prior" + _bars(np.array([0, 1]), half))


def _bayes_factors(panel: Panel, table: pd.DataFrame, more: str) -> None:
    values = table["log_evidence"].to_numpy(dtype=float)
    panel.matrix(list(map(str, table.index)), values[:, None] - values[None, :])
    panel.name(f"Log Bayes factor{more}", x="of the row against the column, nats")


def _bars(values: np.ndarray, half: np.ndarray) -> str:
    """What a bar is, where one can be seen."""
    seen = half[np.isfinite(half)]
    length = np.ptp(values[np.isfinite(values)]) if np.isfinite(values).any() else 0.0
    return "; bars: ±2 se, or the bound" if seen.size and seen.max() > 0.005 * length else ""


def _cut(reason: str, most: int = 40) -> str:
    text = f"none: {reason}" if reason else "none"
    return text if len(text) <= most else f"{text[: most - 1]}…"
