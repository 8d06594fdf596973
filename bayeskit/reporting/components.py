"""Mixtures: the density over a histogram, or contours of the components with points coloured by responsibility.

More than two columns are shown in the plane of the two leading principal axes of the standardised data: a projection of
a Gaussian is a Gaussian. A mixture of another kind is shown by what does not depend on labels, how probable it is that
two rows have the same component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from bayeskit.reporting.latent_states import LatentStates
from bayeskit.reporting.records import BLUE, COLOURS, INK, MUTED, Picture, blend, subplots, to_picture
from bayeskit.results.records import Posterior
from bayeskit.results.tree import observed_data

__all__ = ["Components", "allocation_picture", "component_picture", "gaussian_components", "same_component"]

GRID = {1: 400, 2: 110}
SHARES = (0.9, 0.5)  # of a component's mass, inside its contours
FEW, MOST_PAIRED = 3, 60  # rows between which a matrix of pairs is drawn
WRITTEN = 12  # rows up to which its numbers are written


@dataclass(frozen=True)
class Components:
    """A Gaussian mixture of K components in one or two dimensions."""

    labels: tuple[str, ...]  # of the axes
    names: tuple[str, ...]  # of the components, as the tables of the page have them
    projected: bool  # whether the axes are principal ones
    y: np.ndarray  # (rows, dimensions)
    responsibilities: np.ndarray  # (rows, K)
    weights: np.ndarray  # (draws, K)
    mean: np.ndarray  # (draws, K, dimensions)
    covariance: np.ndarray  # (draws, K, dimensions, dimensions)

    def densities(self, points: np.ndarray) -> np.ndarray:
        """Density of each component at points of shape (points, dimensions), for each draw: (draws, K, points)."""
        whiten = np.linalg.inv(np.linalg.cholesky(self.covariance))
        z = whiten @ points.T - whiten @ self.mean[..., None]
        log_scale = 0.5 * np.linalg.slogdet(2 * np.pi * self.covariance)[1]
        return np.exp(-0.5 * np.einsum("nkip,nkip->nkp", z, z) - log_scale[..., None])


def gaussian_components(post: Posterior, states: LatentStates) -> Components | None:
    """The components of a mixture, projected where there are more than two columns; None where it is not Gaussian."""
    if states.kind != "independent" or states.weights is None or len(states.entries) != len(states.y):
        return None
    y = states.y[:, None] if states.y.ndim == 1 else states.y
    size = y.shape[1]
    if states.family == "Normal":
        mean, sd = (np.broadcast_to(p.reshape(*p.shape[:2], -1), (*p.shape[:2], size)) for p in states.parameters)
        covariance = sd[..., None] ** 2 * np.eye(size)
    elif states.family == "MvNormal":
        mean, covariance, *_ = states.parameters
        covariance = covariance.reshape(*covariance.shape[:2], size, size)
    else:
        return None
    observed: Any = post.tree["observed_data"][states.observed]
    named = observed.ndim == 2 and observed.dims[1] in observed.coords
    numbered = [states.observed] if size == 1 else [f"{states.observed} {k + 1}" for k in range(size)]
    labels = tuple(map(str, observed[observed.dims[1]].to_numpy() if named else numbered))
    if size > 2:
        scale = np.where(y.std(axis=0) > 0, y.std(axis=0), 1.0)
        _, _, axes = np.linalg.svd((y - y.mean(axis=0)) / scale, full_matrices=False)
        project = (axes[:2] / scale).T
        covariance = project.T @ covariance @ project
        mean, y = (mean - y.mean(axis=0)) @ project, (y - y.mean(axis=0)) @ project
        labels = ("first principal axis", "second principal axis")
    responsibilities = states.probabilities[states.entries]
    return Components(labels, states.labels, size > 2, y, responsibilities, states.weights, mean, covariance)


def component_picture(components: Components) -> Picture:
    """The mixture over the data."""
    if components.y.shape[1] == 1:
        figure, (above, below) = subplots(2, 1, figsize=(7.4, 4.4), sharex=True, height_ratios=[2.4, 1.0])
        _draw_line(above, below, components)
        name = components.labels[0]
        alt = f"Histogram of {name} under the density of the mixture, and the responsibilities of the components."
        caption = f"Histogram of {name} and the posterior mean of its density, of each component times its weight "
        caption += "and of all together; beneath, the probability of each component at every value."
        return to_picture(figure, alt=alt, caption=caption)
    figure, plane = subplots(figsize=(6.4, 5.0))
    _draw_plane(plane, components)
    columns = "the two leading principal axes of the standardised columns"
    where = f"the plane of {columns if components.projected else ' and '.join(components.labels)}"
    caption = f"The rows in {where}, in the colours of the components, mixed as these are responsible. "
    caption += "Contours hold half and nine tenths of a component's posterior mean density."
    return to_picture(figure, alt=f"Rows of the data and contours of the components in {where}.", caption=caption)


def _draw_line(above: Axes, below: Axes, components: Components) -> None:
    y = components.y[:, 0]
    margin = 0.08 * (y.max() - y.min() or 1.0)
    grid = np.linspace(y.min() - margin, y.max() + margin, GRID[1])
    weighted = components.weights[..., None] * components.densities(grid[:, None])
    # Rules for the width of bins take the sd of all rows, which is far more than that of a component.
    bins = int(np.clip(2 * np.sqrt(len(y)), 5, 60))
    above.hist(y, bins=bins, density=True, color=MUTED, alpha=0.35, label="data")
    share = np.mean(weighted / np.maximum(weighted.sum(axis=1, keepdims=True), 1e-300), axis=0)
    for k, colour in enumerate(COLOURS[: weighted.shape[1]]):
        above.plot(grid, weighted[:, k].mean(axis=0), color=colour, label=f"component {components.names[k]}")
        below.plot(grid, share[k], color=colour)
    above.plot(grid, weighted.sum(axis=1).mean(axis=0), color=INK, linewidth=1.8, label="mixture")
    above.set_ylabel("density")
    above.legend(loc="best")
    below.set(ylim=(-0.03, 1.03), ylabel="probability", xlabel=components.labels[0])
    below.margins(x=0)


def _draw_plane(axes: Axes, components: Components) -> None:
    y = components.y
    margin = 0.12 * np.where(np.ptp(y, axis=0) > 0, np.ptp(y, axis=0), 1.0)
    sides = np.linspace(y.min(axis=0) - margin, y.max(axis=0) + margin, GRID[2])
    first, second = np.meshgrid(sides[:, 0], sides[:, 1])
    density = components.densities(np.stack([first.ravel(), second.ravel()], axis=1)).mean(axis=0)
    dots: dict[str, Any] = {"s": 16, "linewidths": 0.3, "edgecolors": "white", "alpha": 0.9}
    axes.scatter(y[:, 0], y[:, 1], c=blend(components.responsibilities), rasterized=len(y) > 2000, **dots)
    handles: list[Any] = []
    for k, values in enumerate(density):
        if levels := _levels(values):
            style: dict[str, Any] = {"colors": COLOURS[k], "linestyles": ["--", "-"][-len(levels) :], "linewidths": 1.3}
            axes.contour(first, second, values.reshape(first.shape), levels, **style)
        weight = components.weights[:, k].mean()
        handles += axes.plot(
            [], [], "o-", color=COLOURS[k], markersize=4, label=f"component {components.names[k]} ({weight:.0%})"
        )
    axes.legend(handles=handles, loc="best")
    axes.set(xlabel=components.labels[0], ylabel=components.labels[1])


def _levels(density: np.ndarray) -> list[float]:
    """The levels above which a density on a grid has these shares of its mass, rising."""
    ordered = np.sort(density)[::-1]
    total = np.cumsum(ordered)
    if total[-1] <= 0:
        return []
    return sorted({float(ordered[np.searchsorted(total, share * total[-1])]) for share in SHARES})


def same_component(post: Posterior) -> tuple[str, str, np.ndarray, np.ndarray] | None:
    """How probable it is that two rows have the same component, which does not depend on labels.

    The name of the finite variable, what the labels are, the probabilities (rows, rows) and the labels of the rows.
    None where no finite variable stands for the rows of the data, or there are too many of them.
    """
    categorical = [rv for rv in post.model.free_RVs if type(rv.owner.op).__name__ == "CategoricalRV" and rv.ndim == 1]
    found = [str(rv.name) for rv in categorical if rv.name in post.tree["posterior"]]
    if len(found) != 1:
        return None
    draws: Any = post.tree["posterior"][found[0]]
    dim = draws.dims[-1]
    rows = draws.sizes[dim]
    observed = [v for v in observed_data(post.tree).data_vars.values() if v.dims[:1] == (dim,)]
    if not FEW <= rows <= MOST_PAIRED or not observed:
        return None
    values = draws.to_numpy().reshape(-1, rows)
    states = values[:, :, None] == np.arange(values.max() + 1)
    pairs = np.einsum("nik,njk->ij", states, states, dtype=float) / len(values)
    labels, what = draws[dim].to_numpy(), str(dim)
    if np.array_equal(labels, np.arange(rows)) and observed[0].ndim == 1:  # rows without names
        labels, what = observed[0].to_numpy(), str(observed[0].name)
    return found[0], what, pairs, labels


def allocation_picture(name: str, what: str, pairs: np.ndarray, labels: np.ndarray) -> Picture:
    """The matrix of pairs of rows, in the order in which those that belong together stand together."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    order = leaves_list(linkage(1 - pairs[np.triu_indices(len(pairs), 1)], "average"))
    shown = pairs[np.ix_(order, order)]
    side = min(2.2 + 0.34 * len(pairs), 6.0)
    figure, axes = subplots(figsize=(side + 0.9, side))
    shades = LinearSegmentedColormap.from_list("shades", ["white", BLUE])
    image = axes.imshow(shown, cmap=shades, vmin=0, vmax=1)
    if len(pairs) <= WRITTEN:
        for i, j in np.ndindex(*shown.shape):
            colour = "white" if shown[i, j] > 0.6 else INK
            axes.text(j, i, f"{shown[i, j]:.2f}", ha="center", va="center", color=colour, fontsize=8)
    ticks = np.arange(0, len(pairs), max(1, len(pairs) // 20))
    text = [str(labels[order[t]]) for t in ticks]
    axes.set(xticks=ticks, xticklabels=text, yticks=ticks, yticklabels=text, xlabel=what, ylabel=what)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, shrink=0.8, label="probability")
    caption = f"How probable it is that two rows have the same {name}, rows that belong together side by side. "
    caption += "Unlike the components themselves, this does not depend on how they are labelled."
    return to_picture(figure, alt=f"Matrix of the probabilities that two rows have the same {name}.", caption=caption)
