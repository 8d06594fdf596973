"""Hidden Markov models: the series in the colours of its most probable states, over the states' probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bayeskit.reporting.latent_states import LatentStates
from bayeskit.reporting.records import COLOURS, MUTED, Picture, label_rows, subplots, to_picture
from bayeskit.results.records import Posterior

__all__ = ["DecodedSeries", "decoded_series", "decoding_picture"]

MOST_SEQUENCES = 4
MOST_STEPS = 20_000
LOCATED = ("Normal", "Poisson")  # families whose first parameter is the mean
FEW = 400  # steps up to which the dots are large


@dataclass(frozen=True)
class DecodedSeries:
    """One sequence of a hidden Markov model."""

    name: str  # of the observed variable
    sequence: str  # its label; empty where there is but one
    x: np.ndarray  # where the steps are drawn
    labels: str  # what x is
    ticks: np.ndarray | None  # labels of the steps, where these are drawn at their numbers
    y: np.ndarray  # NaN where there is no observation
    probabilities: np.ndarray  # (steps, K)
    levels: np.ndarray | None  # (K,): posterior means of what each state emits
    states: tuple[str, ...]  # their labels


def decoded_series(post: Posterior, states: LatentStates) -> tuple[DecodedSeries, ...]:
    """The sequences of a hidden Markov model, the first of them; none where the model is not one of a single series."""
    if states.kind != "chain" or states.y.ndim != 1 or states.probabilities.ndim > 3:
        return ()
    shape = states.probabilities.shape[:-1]
    if shape[-1] > MOST_STEPS:
        return ()
    values = np.full(int(np.prod(shape)), np.nan)
    values[states.entries] = states.y
    table = values.reshape(-1, shape[-1])
    probabilities = states.probabilities.reshape(-1, *states.probabilities.shape[-2:])
    z: Any = post.tree["posterior"][states.name]
    dims = [str(d) for d in z.dims[2:]]
    names, steps, ticks = z[dims[0]].to_numpy(), z[dims[-1]].to_numpy(), None
    if steps.dtype.kind not in "iuf":
        ticks, steps = steps, np.arange(shape[-1])
    levels = None
    if states.family in LOCATED and states.parameters[0].ndim == 2:
        levels = states.parameters[0].mean(axis=0)
    found = []
    for k in range(min(len(table), MOST_SEQUENCES)):
        # Steps after the last observation of a padded sequence are no part of it.
        stop = len(steps) if len(table) == 1 else int(np.flatnonzero(~np.isnan(table[k]))[-1]) + 1
        name = "" if len(table) == 1 else str(names[k])
        y, p = table[k, :stop], probabilities[k, :stop]
        found.append(DecodedSeries(states.observed, name, steps[:stop], dims[-1], ticks, y, p, levels, states.labels))
    return tuple(found)


def decoding_picture(series: DecodedSeries) -> Picture:
    """The series over the probabilities of its states."""
    figure, (above, below) = subplots(2, 1, figsize=(7.4, 4.2), sharex=True, height_ratios=[2.4, 1.0])
    _draw_series(above, series)
    _draw_probabilities(below, series)
    which = f"Sequence {series.sequence}: " if series.sequence else ""
    level = "; horizontal lines are the posterior means of the states" if series.levels is not None else ""
    alt = f"{series.name} by {series.labels}, coloured by its most probable state, over the states' probabilities."
    caption = f"{which}{series.name} in the colours of the most probable state of each step{level}; beneath, the "
    caption += "probabilities of the states given all observations, averaged over the posterior."
    return to_picture(figure, alt=alt, caption=caption)


def _draw_series(axes: Axes, series: DecodedSeries) -> None:
    best = np.argmax(series.probabilities, axis=1)
    edges = _edges(series.x)
    line = {"linewidth": 0.6, "drawstyle": "steps-mid"} if series.levels is None else {"linewidth": 0.7}
    axes.plot(series.x, series.y, color=MUTED, **line)
    size = 3.5 if len(series.x) <= FEW else 1.2
    for k in range(series.probabilities.shape[1]):
        chosen = best == k
        points = series.x[chosen], series.y[chosen]
        axes.plot(*points, "o", color=COLOURS[k], markersize=size, label=f"state {series.states[k]}")
        if series.levels is not None and chosen.any():
            level = np.full(chosen.sum(), series.levels[k])
            axes.hlines(level, edges[:-1][chosen], edges[1:][chosen], color=COLOURS[k], linewidth=2.0)
    axes.set_ylabel(series.name)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(series.probabilities.shape[1], 5))


def _draw_probabilities(axes: Axes, series: DecodedSeries) -> None:
    edges = _edges(series.x)
    bottom = np.zeros(len(series.x))
    for k, values in enumerate(series.probabilities.T):
        axes.stairs(bottom + values, edges, baseline=bottom, fill=True, color=COLOURS[k], alpha=0.75, linewidth=0)
        bottom = bottom + values
    axes.set(ylim=(0, 1), xlim=(edges[0], edges[-1]), ylabel="probability", xlabel=series.labels)
    if series.ticks is not None:
        label_rows(axes, series.ticks[: len(series.x)])


def _edges(x: np.ndarray) -> np.ndarray:
    """The borders between steps."""
    if len(x) == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    middle = x[:-1] + (x[1:] - x[:-1]) / 2
    return np.concatenate([[x[0] - (x[1] - x[0]) / 2], middle, [x[-1] + (x[-1] - x[-2]) / 2]])
