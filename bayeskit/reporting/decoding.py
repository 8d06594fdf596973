"""Hidden Markov models: the series in the colours of its most probable states, over the states' probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskit.reporting.latent_states import LatentStates
from bayeskit.reporting.records import COLOURS, MUTED, Picture, to_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayeskit.results.records import Posterior

__all__ = ["DecodedSeries", "decoded_series", "decoding_pictures"]

MOST_SEQUENCES = 4
MOST_STEPS = 20_000
LOCATED = ("Normal", "Poisson")  # families whose first parameter is the mean
TICKS = 8
FEW = 400  # steps up to which the dots are large


@dataclass(frozen=True)
class DecodedSeries:
    """One sequence of a hidden Markov model.

    Attributes
    ----------
    name : str
        Of the observed variable.
    sequence : str
        Label of the sequence; empty where there is but one.
    x : numpy.ndarray of shape (steps,)
        Where the steps are drawn.
    labels : str
        What x is.
    ticks : numpy.ndarray of shape (steps,) or None
        Labels of the steps, where these are drawn at their numbers.
    y : numpy.ndarray of shape (steps,)
        NaN where there is no observation.
    probabilities : numpy.ndarray of shape (steps, K)
    levels : numpy.ndarray of shape (K,) or None
        Posterior means of what each state emits.
    """

    name: str
    sequence: str
    x: np.ndarray
    labels: str
    ticks: np.ndarray | None
    y: np.ndarray
    probabilities: np.ndarray
    levels: np.ndarray | None


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
    names = z[dims[0]].to_numpy() if len(dims) == 2 and dims[0] in z.coords else np.arange(len(table))
    steps = z[dims[-1]].to_numpy() if dims[-1] in z.coords else np.arange(shape[-1])
    ticks = None
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
        part = DecodedSeries(
            states.observed, name, steps[:stop], dims[-1], ticks, table[k, :stop], probabilities[k, :stop], levels
        )
        found.append(part)
    return tuple(found)


def decoding_pictures(series: tuple[DecodedSeries, ...]) -> tuple[Picture, ...]:
    """One picture a sequence."""
    return tuple(_picture(s) for s in series)


def _picture(series: DecodedSeries) -> Picture:
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7.4, 4.2), layout="constrained", sharex=True, height_ratios=[2.4, 1.0]
    )
    _draw_series(above, series)
    _draw_probabilities(below, series)
    which = f"Sequence {series.sequence}: " if series.sequence else ""
    level = "; horizontal lines are the posterior means of the states" if series.levels is not None else ""
    return to_picture(
        figure,
        alt=f"{series.name} by {series.labels}, coloured by its most probable state, over the states' probabilities.",
        caption=f"{which}{series.name} in the colours of the most probable state of each step{level}; beneath, the "
        "probabilities of the states given all observations, averaged over the posterior.",
    )


def _draw_series(axes: Axes, series: DecodedSeries) -> None:
    best = np.argmax(series.probabilities, axis=1)
    edges = _edges(series.x)
    if series.levels is None:
        axes.plot(series.x, series.y, color=MUTED, linewidth=0.6, drawstyle="steps-mid")
    else:
        axes.plot(series.x, series.y, color=MUTED, linewidth=0.7)
    size = 3.5 if len(series.x) <= FEW else 1.2
    for k in range(series.probabilities.shape[1]):
        chosen = best == k
        label = f"state {k + 1}"
        axes.plot(series.x[chosen], series.y[chosen], "o", color=COLOURS[k], markersize=size, label=label)
        if series.levels is not None and chosen.any():
            axes.hlines(
                np.full(chosen.sum(), series.levels[k]), edges[:-1][chosen], edges[1:][chosen], color=COLOURS[k],
                linewidth=2.0,
            )  # fmt: skip
    axes.set_ylabel(series.name, parse_math=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(series.probabilities.shape[1], 5))


def _draw_probabilities(axes: Axes, series: DecodedSeries) -> None:
    edges = _edges(series.x)
    bottom = np.zeros(len(series.x))
    for k, values in enumerate(series.probabilities.T):
        axes.stairs(bottom + values, edges, baseline=bottom, fill=True, color=COLOURS[k], alpha=0.75, linewidth=0)
        bottom = bottom + values
    axes.set_ylim(0, 1)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylabel("probability")
    axes.set_xlabel(series.labels, parse_math=False)
    if series.ticks is not None:
        shown = np.unique(np.linspace(0, len(series.x) - 1, TICKS).astype(int))
        axes.set_xticks(shown, [str(series.ticks[t]) for t in shown])


def _edges(x: np.ndarray) -> np.ndarray:
    """The borders between steps."""
    if len(x) == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    middle = x[:-1] + (x[1:] - x[:-1]) / 2
    return np.concatenate([[x[0] - (x[1] - x[0]) / 2], middle, [x[-1] + (x[-1] - x[-2]) / 2]])
