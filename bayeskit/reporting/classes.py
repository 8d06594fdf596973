"""Class probabilities over two features: where a classifier draws its boundaries, and how sure it is.

With two features the plane is theirs. With more it is that of the two leading discriminant directions, in which the
classes lie furthest apart relative to their spread (Fisher 1936; Rao 1948): with within-class covariance S and the
directions W, a point z of the plane stands for x = x̄ + S W (Wᵀ S W)⁻¹ z, the row that has these coordinates and nothing
else to tell the classes apart. Where features are whole numbers a point of the plane is no row, and the rows alone are
drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import linalg

from bayeskit.errors import BayeskitError
from bayeskit.queries.class_rows import Classes, find_classes, whole_rows
from bayeskit.queries.classification import classify
from bayeskit.reporting.records import COLOURS, INK, MUTED, Picture, blend, subplots, to_picture
from bayeskit.results.records import Posterior

__all__ = ["ClassPlane", "class_picture", "class_plane"]

GRID = 121
MOST_CLASSES = 10
MOST_ROWS = 2000
MARKERS = "os^Dv<>Ph*"
LINES = {0.5: 1.3, 0.8: 0.7, 0.95: 0.4}  # probabilities of which there is a line, and its width
RIDGE = 1e-6  # of the within-class variances, for columns that do not vary


@dataclass(frozen=True)
class ClassPlane:
    """Rows in a plane, and the class probabilities over it."""

    labels: tuple[str, ...]
    axes: tuple[str, str]  # what the two are
    points: np.ndarray  # (rows, 2)
    codes: np.ndarray  # the observed classes of the rows
    certainty: np.ndarray  # probability of the observed class of each row, the row itself among the data
    grid: tuple[np.ndarray, np.ndarray]  # along the axes
    probability: np.ndarray | None  # (GRID, GRID, classes), over the plane; None where a point of it is no row
    features: int


def class_plane(post: Posterior) -> ClassPlane | None:
    """The plane of a classifier's features, with the posterior class probabilities.

    None where the model has no class, too few features, or its posterior is not exact.
    """
    if post.method != "exact":
        return None
    try:
        classes = find_classes(post.model)
    except BayeskitError:
        return None
    if not classes.features or classes.covariates or len(classes.labels) > MOST_CLASSES:
        return None
    codes, columns, names = _table(post, classes)
    table = np.concatenate(list(columns.values()), axis=1)
    if table.shape[1] < 2 or len(table) < 2:
        return None
    chosen = np.linspace(0, len(table) - 1, min(len(table), MOST_ROWS)).astype(int)
    whole = any(not f.normal for f in classes.features)
    down, up, titles = _plane(table.astype(float), codes, names)
    centre = table.mean(axis=0)
    points = (table[chosen] - centre) @ down if up is not None else table[chosen].astype(float)
    margin = 0.08 * np.ptp(points, axis=0)
    ends = zip(points.min(axis=0) - margin, points.max(axis=0) + margin, strict=True)
    first, second = (np.linspace(low, high, GRID) for low, high in ends)
    judged = table[chosen].astype(float)
    if not whole:
        mesh = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
        judged = np.concatenate([judged, mesh if up is None else centre + mesh @ up])
    parts = np.split(judged, np.cumsum([v.shape[1] for v in columns.values()])[:-1], axis=1)
    new = {f.name: p[:, 0] if f.width is None else p for f, p in zip(classes.features, parts, strict=True)}
    try:
        found = classify(post, new)["probability"].to_numpy()
    except BayeskitError:
        return None
    count = len(chosen)
    certainty = found[np.arange(count), codes[chosen]]
    probability = None if whole else found[count:].reshape(GRID, GRID, -1)
    labels = tuple(str(label) for label in classes.labels)
    return ClassPlane(labels, titles, points, codes[chosen], certainty, (first, second), probability, table.shape[1])


def _table(post: Posterior, classes: Classes) -> tuple[np.ndarray, dict[str, np.ndarray], list[str]]:
    """The observed classes and, in their order, the columns of every feature and their names."""
    values = {str(n): v.to_numpy() for n, v in post.tree["observed_data"].to_dataset().items()}
    observed = whole_rows(post.model, values)
    codes = observed[classes.label].astype(int)
    columns = {f.name: observed[f.name].reshape(len(codes), -1) for f in classes.features}
    names: list[str] = []
    for feature in classes.features:
        width = columns[feature.name].shape[1]
        numbered = [feature.name] if width == 1 else [f"{feature.name}[{k}]" for k in range(width)]
        names += map(str, feature.columns or numbered)
    return codes, columns, names


def _plane(
    table: np.ndarray, codes: np.ndarray, names: list[str]
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, str]]:
    """Directions down to the plane, of shape (features, 2), the way up again, and the names of its axes."""
    if table.shape[1] == 2:
        return np.eye(2), None, (names[0], names[1])
    _, own, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    means = np.stack([table[own == k].mean(axis=0) for k in range(len(sizes))])
    within = np.cov((table - means[own]).T, bias=True)
    spread = np.diag(within).copy()
    within += np.diag(RIDGE * np.where(spread > 0, spread, 1.0) + 1e-12 * max(spread.max(), 1.0))
    between = np.cov(means.T, fweights=sizes, bias=True) if len(means) > 1 else np.zeros_like(within)
    values, vectors = linalg.eigh(between, within)
    down = vectors[:, np.argsort(values)[::-1][:2]]
    down = down * np.sign(down[np.abs(down).argmax(axis=0), [0, 1]])
    # With two classes there is one discriminant direction; the second has then no class in it, only spread.
    up = np.linalg.solve(down.T @ within @ down, (within @ down).T)
    return down, up, ("first discriminant direction", "second discriminant direction")


def class_picture(plane: ClassPlane) -> Picture:
    """The rows by class, over the probability of the most probable class and the boundaries between them."""
    figure, axes = subplots(figsize=(6.6, 4.8))
    _draw(axes, plane)
    where, cut = "the features", ""
    shown = "There is no shading, because a point between rows of whole numbers is no row"
    if plane.features > 2:
        where = f"the two leading discriminant directions of {plane.features} features"
    if plane.probability is not None:
        shown = "Shading says which class is the most probable and how sure that is; lines are where a class has "
        shown += "probability 0.5 (bold), 0.8 and 0.95"
        cut = "; a point of it stands for the row there that nothing else tells apart" if plane.features > 2 else ""
    alt = f"Rows of {len(plane.labels)} classes in the plane of {where}, with class probabilities."
    ringed = "Ringed: rows whose own class has probability below one half."
    return to_picture(figure, alt=alt, caption=f"Rows by class in the plane of {where}{cut}. {shown}. {ringed}")


def _draw(axes: Axes, plane: ClassPlane) -> None:
    first, second = plane.grid
    if plane.probability is not None:
        image = _shading(plane.probability)
        extent = (first[0], first[-1], second[0], second[-1])
        axes.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation="bilinear", zorder=0)
        for own, colour in zip(np.moveaxis(plane.probability, 2, 0), COLOURS, strict=False):
            widths = {level: width for level, width in LINES.items() if own.min() < level < own.max()}
            if widths:
                axes.contour(first, second, own, [*widths], colors=[colour], linewidths=[*widths.values()], zorder=1)
    for k, label in enumerate(plane.labels):
        mine = plane.codes == k
        style: dict[str, Any] = {"markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.5, "zorder": 3}
        points, rasterized = plane.points[mine].T, len(plane.points) > 500
        axes.plot(*points, MARKERS[k], color=COLOURS[k], label=label, rasterized=rasterized, **style)
    doubtful = plane.certainty < 0.5
    axes.plot(*plane.points[doubtful].T, "o", color="none", markeredgecolor=INK, markersize=9, zorder=4)
    axes.set(xlim=first[[0, -1]], ylim=second[[0, -1]], xlabel=plane.axes[0], ylabel=plane.axes[1])
    axes.tick_params(colors=MUTED)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _shading(probability: np.ndarray) -> np.ndarray:
    """White where every class is as probable as another, the colour of a class where it is certain."""
    count = probability.shape[2]
    certainty = (probability.max(axis=2, keepdims=True) - 1 / count) / (1 - 1 / count)
    return np.asarray(1 - 0.4 * certainty * (1 - blend(probability)))
