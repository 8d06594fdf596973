"""Replicated categories beside the observed ones: the share of each, by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from matplotlib.figure import Figure
from pymc.distributions.distribution import PartialObservedRV

from bayeskit.errors import ModelError
from bayeskit.model.snapshot import written_down
from bayeskit.queries.class_rows import find_classes
from bayeskit.reporting.records import BLUE, ORANGE, interval_probability, subplots

__all__ = ["MAX_CATEGORIES", "category_figure", "category_labels"]

MAX_CATEGORIES = 30
LONGEST = 18  # letters of a name that are shown
LEVEL = 80  # letters of all names together that are written side by side


@written_down
def category_labels(model: pm.Model) -> dict[str, tuple[str, ...]]:
    """The names of the categories of every observed Categorical variable; none where the model has only codes."""
    found = {}
    for rv in model.observed_RVs:
        inner = rv.owner.inputs[0] if isinstance(rv.owner.op, PartialObservedRV) else rv
        if type(inner.owner.op).__name__ == "CategoricalRV":
            try:
                found[str(rv.name)] = tuple(map(str, find_classes(model, str(rv.name)).labels))
            except ModelError:
                found[str(rv.name)] = ()
    return found


def category_figure(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    """Bars of the mean shares of replicated categories with their intervals, and the observed shares."""
    codes, drawn = observed.to_numpy().ravel(), predicted.transpose("chain", "draw", ...).to_numpy()
    drawn = drawn.reshape(drawn.shape[0] * drawn.shape[1], -1)
    labels = list(observed.attrs["labels"])
    labels += [str(k) for k in range(len(labels), int(max(codes.max(), drawn.max())) + 1)]
    places = np.arange(len(labels))
    shares = np.stack([(drawn == k).mean(axis=1) for k in places])
    tail = (1 - interval_probability()) / 2
    low, high = np.quantile(shares, [tail, 1 - tail], axis=1)
    texts = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in labels]
    figure, axes = subplots(figsize=(7.4, 2.9))
    axes.bar(places, shares.mean(axis=1), width=0.6, color=BLUE, alpha=0.3)
    axes.vlines(places, low, high, color=BLUE, linewidth=2)
    axes.plot(places, [(codes == k).mean() for k in places], "o", color=ORANGE, markersize=5)
    upright: dict[str, Any] = {"rotation": 90} if sum(map(len, texts)) > LEVEL else {}
    axes.set_xticks(places, texts, **upright)
    axes.set(xlabel=name, ylabel="share", ylim=(0, None))
    percent = f"{100 * interval_probability():g} %"
    return (
        figure,
        f"The share of each category in replicated data (blue, with {percent} intervals) and observed (orange).",
    )
