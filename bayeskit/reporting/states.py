"""A series over its observed states: each run of a state as a band, and what the state emits on average as a line.

It is drawn for models with a container of state codes, ``state_code``, and a matrix of transitions between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bayeskit.reporting.records import COLOURS, INK, MUTED, Picture, label_rows, subplots, to_picture
from bayeskit.results.records import Posterior
from bayeskit.results.tree import observed_data

__all__ = ["StateSeries", "state_picture", "state_series"]

CODE = "_code"
MOST_PANELS = 3
MOST_ROWS = 5000
MOST_STATES = 10


@dataclass(frozen=True)
class StateSeries:
    """Rows with a state and one or several series."""

    states: tuple[str, ...]
    codes: np.ndarray  # of the rows
    begins: np.ndarray  # whether a row begins a sequence
    labels: np.ndarray  # of the rows
    names: tuple[str, ...]  # of the series
    values: np.ndarray  # (rows, series)
    means: np.ndarray | None  # (states, series): of what each state emits, where the model has it as a variable


def state_series(post: Posterior) -> StateSeries | None:
    """The observed states of a chain and the series that they emit; None where there are none, or too many."""
    model = post.model
    pairs = {dims for dims in model.named_vars_to_dims.values() if len(dims) == 2 and dims[1] == f"next_{dims[0]}"}
    dim = next((d for d, _ in pairs if f"{d}{CODE}" in model.named_vars and model.coords.get(d) is not None), None)
    if dim is None or len(model.coords[dim]) > MOST_STATES:
        return None
    codes = np.asarray(post.tree["constant_data"][f"{dim}{CODE}"]).astype(int)
    (row,) = model.named_vars_to_dims[f"{dim}{CODE}"]
    observed = observed_data(post.tree)
    series = [v for v in observed.data_vars.values() if v.ndim == 2 and v.dims[0] == row]
    if not series or not 2 <= codes.size <= MOST_ROWS:
        return None
    names, values, means = [], [], []
    for variable in series:
        columns = str(variable.dims[1])
        names += [str(name) for name in variable[columns].to_numpy()]
        values.append(variable.to_numpy().astype(float))
        means.append(_means(post, dim, columns))
    labels = observed[row].to_numpy()
    following = set(observed["step"].to_numpy().tolist()) if "step" in observed.coords else set()
    begins = np.array([label not in following for label in labels.tolist()])
    table = np.concatenate(values, axis=1)[:, :MOST_PANELS]
    together = None if any(m is None for m in means) else np.concatenate(means, axis=1)[:, :MOST_PANELS]
    states = tuple(str(s) for s in model.coords[dim])
    return StateSeries(states, codes, begins, labels, tuple(names[:MOST_PANELS]), table, together)


def _means(post: Posterior, dim: str, columns: str) -> Any:
    """Posterior means of the variable that says what each state emits on average: a mean or a rate."""
    posterior = post.tree["posterior"]
    for name in ("mu", "rate"):
        if name in posterior and posterior[name].dims[2:] == (dim, columns):
            return posterior[name].mean(("chain", "draw")).to_numpy()
    return None


def state_picture(series: StateSeries) -> Picture:
    """One panel a series, over bands of the states."""
    count = len(series.names)
    figure, panels = subplots(count, 1, figsize=(7.4, 0.9 + 2.0 * count), sharex=True, squeeze=False)
    for k, axes in enumerate(panels[:, 0]):
        _draw(axes, series, k)
    panels[-1, 0].set_xlabel("row")
    label_rows(panels[-1, 0], series.labels)
    panels[0, 0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(len(series.states), 5))
    mean = ", with the posterior mean of what each state emits" if series.means is not None else ""
    alt = f"{', '.join(series.names)} row by row, over bands of the observed states {', '.join(series.states)}."
    return to_picture(figure, alt=alt, caption=f"The series over its observed states{mean}.")


def _draw(axes: Axes, series: StateSeries, column: int) -> None:
    changes = np.flatnonzero((np.diff(series.codes) != 0) | series.begins[1:]) + 1
    edges = np.concatenate([[0], changes, [len(series.codes)]])
    named: set[int] = set()
    for start, stop in pairwise(edges):
        state = int(series.codes[start])
        label = None if state in named else series.states[state]
        named.add(state)
        axes.axvspan(start - 0.5, stop - 0.5, color=COLOURS[state], alpha=0.18, linewidth=0, label=label)
        if series.means is not None:
            axes.hlines(series.means[state, column], start - 0.5, stop - 0.5, color=COLOURS[state], linewidth=1.6)
    # From each beginning to the next; a sequence whose rows do not stand together is drawn in its parts.
    for start, stop in pairwise(np.unique([0, *np.flatnonzero(series.begins), len(series.codes)])):
        rows = np.arange(start, stop)
        axes.plot(rows, series.values[rows, column], color=INK, linewidth=0.8, marker=".", markersize=2.5)
    for start in np.flatnonzero(series.begins)[1:]:
        axes.axvline(start - 0.5, color=MUTED, linewidth=0.8, linestyle=":")
    axes.set(ylabel=series.names[column], xlim=(-0.5, len(series.codes) - 0.5))
