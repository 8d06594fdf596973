"""Latent coordinates of the rows of a table, as a principal component analysis shows them: points and loadings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from pytensor.graph.traversal import ancestors

from bayeskit.reporting.records import INK, MUTED, Picture, subplots, to_picture
from bayeskit.results.records import Posterior

__all__ = ["Projection", "latent_projection", "projection_picture"]

MOST_LABELS = 60  # rows up to which each point is labelled


@dataclass(frozen=True)
class Projection:
    """Posterior means and sds of the first two latent coordinates of each row, and the columns' loadings on them."""

    name: str  # of the latent variable
    dim: str  # its second
    mean: np.ndarray  # (rows, 2)
    sd: np.ndarray  # (rows, 2)
    labels: np.ndarray  # of the rows
    loadings: np.ndarray | None  # (columns, 2): posterior means
    columns: tuple[str, ...]


def latent_projection(post: Posterior) -> Projection | None:
    """The latent coordinates of a model of a table, if it has at least two of them for each row.

    None where no latent variable has the dims (row, component) with the rows of the one observed variable.
    """
    model = post.model
    if len(model.observed_RVs) != 1:
        return None
    observed = model.observed_RVs[0]
    dims = model.named_vars_to_dims
    above = set(ancestors([observed]))
    rows = dims.get(observed.name, ())[:1]
    found = [rv for rv in model.free_RVs if rv in above and rv.ndim == 2 and rv.dtype.startswith("float")]
    found = [rv for rv in found if len(of := dims.get(rv.name, ())) == 2 and of[0] in (rows or of)]
    if len(found) != 1:
        return None
    name = str(found[0].name)
    draws = post.tree["posterior"][name]
    row, component = (str(d) for d in dims[name])
    if draws.sizes[component] < 2:
        return None
    first = draws.isel({component: [0, 1]}).transpose("chain", "draw", row, component).to_numpy()
    mean, sd = first.mean(axis=(0, 1)), first.std(axis=(0, 1))
    return Projection(name, component, mean, sd, draws[row].to_numpy(), *_loadings(post, component, row))


def _loadings(post: Posterior, component: str, row: str) -> tuple[np.ndarray | None, tuple[str, ...]]:
    posterior: Any = post.tree["posterior"]
    for variable in posterior.data_vars.values():
        others = [d for d in variable.dims if d not in ("chain", "draw", component)]
        if component in variable.dims and len(others) == 1 and others[0] != row:
            values = variable.isel({component: [0, 1]}).mean(("chain", "draw")).transpose(others[0], component)
            return values.to_numpy(), tuple(map(str, values[others[0]].to_numpy()))
    return None, ()


def projection_picture(projection: Projection) -> Picture:
    """The rows as points with one sd about them, and the columns as arrows."""
    figure, axes = subplots(figsize=(6.2, 5.0))
    _draw(axes, projection)
    arrows = "; arrows are the loadings of the columns, scaled to the picture" if projection.columns else ""
    alt = f"Rows of the data in the plane of the first two entries of {projection.name}."
    caption = f"Posterior means of {projection.name}, one point a row, with one posterior sd{arrows}."
    return to_picture(figure, alt=alt, caption=caption)


def _draw(axes: Axes, projection: Projection) -> None:
    mean, sd = projection.mean, projection.sd
    style: dict[str, Any] = {"fmt": "o", "markersize": 3.0, "elinewidth": 0.4, "alpha": 0.7}
    axes.errorbar(mean[:, 0], mean[:, 1], xerr=sd[:, 0], yerr=sd[:, 1], **style)
    if len(mean) <= MOST_LABELS:
        for (x, y), label in zip(mean, projection.labels, strict=True):
            axes.annotate(str(label), (x, y), xytext=(2, 2), textcoords="offset points", fontsize=6)
    if projection.loadings is not None:
        length = np.hypot(*projection.loadings.T).max()
        scale = 0.9 * np.abs(mean).max() / length if length > 0 else 1.0
        for (x, y), column in zip(projection.loadings * scale, projection.columns, strict=True):
            axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.0})
            offset, side = ((3, 2), "left") if x >= 0 else ((-3, 2), "right")
            axes.annotate(column, (x, y), xytext=offset, textcoords="offset points", color=INK, ha=side)
    axes.axhline(0, color=MUTED, linewidth=0.5, zorder=0)
    axes.axvline(0, color=MUTED, linewidth=0.5, zorder=0)
    axes.set(xlabel=f"{projection.name}, first {projection.dim}", ylabel=f"{projection.name}, second {projection.dim}")
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
