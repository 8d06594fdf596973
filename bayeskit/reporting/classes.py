"""Class probabilities over two features: where a classifier draws its boundaries, and how sure it is.

With two features the plane is theirs. With more it is that of the two leading discriminant directions, in which the
classes lie furthest apart relative to their spread (Fisher 1936; Rao 1948): with within-class covariance S and the
directions W, a point z of the plane stands for x = x̄ + S W (Wᵀ S W)⁻¹ z, the row that has these coordinates and nothing
else to tell the classes apart. Where features are whole numbers a point of the plane is no row, and the rows alone are
drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from bayeskit.errors import BayeskitError
from bayeskit.queries.class_rows import Classes, find_classes, whole_rows
from bayeskit.queries.classification import classify
from bayeskit.reporting.records import COLOURS, INK, MUTED, Picture, to_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayeskit.results.records import Posterior

__all__ = ["ClassPlane", "class_picture", "class_plane"]

GRID = 121
MOST_CLASSES = 10
MOST_ROWS = 2000
MARKERS = "os^Dv<>Ph*"
RIDGE = 1e-6  # of the within-class variances, for columns that do not vary


@dataclass(frozen=True)
class ClassPlane:
    """Rows in a plane, and the class probabilities over it.

    Attributes
    ----------
    labels : tuple of str
    axes : tuple of str
        What the two axes are.
    points : numpy.ndarray of shape (rows, 2)
    codes : numpy.ndarray of shape (rows,)
        The observed classes.
    certainty : numpy.ndarray of shape (rows,)
        Probability of the observed class of each row, the row itself among the data.
    grid : tuple of two arrays
        Along the axes.
    probability : numpy.ndarray of shape (GRID, GRID, classes) or None
        Over the plane; None where a point of it is no row.
    features : int
    """

    labels: tuple[str, ...]
    axes: tuple[str, str]
    points: np.ndarray
    codes: np.ndarray
    certainty: np.ndarray
    grid: tuple[np.ndarray, np.ndarray]
    probability: np.ndarray | None
    features: int


def class_plane(post: Posterior) -> ClassPlane | None:
    """The plane of a classifier's features, with the posterior class probabilities.

    Returns
    -------
    ClassPlane or None
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
    down, up, titles = _plane(table.astype(float), codes, names, len(classes.labels))
    centre = table.mean(axis=0)
    points = (table[chosen] - centre) @ down if up is not None else table[chosen].astype(float)
    margin = 0.08 * np.ptp(points, axis=0)
    ends = zip(points.min(axis=0) - margin, points.max(axis=0) + margin, strict=True)
    first, second = (np.linspace(low, high, GRID) for low, high in ends)
    judged = table[chosen].astype(float)
    if not whole:
        mesh = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
        judged = np.concatenate([judged, mesh if up is None else centre + mesh @ up])
    starts = np.cumsum([0, *(v.shape[1] for v in columns.values())])
    new = {n: _shaped(classes, n, judged[:, a:b]) for n, a, b in zip(columns, starts[:-1], starts[1:], strict=True)}
    try:
        found = classify(post, new)["probability"].to_numpy()
    except BayeskitError:
        return None
    count = len(chosen)
    certainty = found[np.arange(count), codes[chosen]]
    probability = None if whole else found[count:].reshape(GRID, GRID, -1)
    labels = tuple(str(label) for label in classes.labels)
    return ClassPlane(labels, titles, points, codes[chosen], certainty, (first, second), probability, table.shape[1])


def _shaped(classes: Classes, name: str, values: np.ndarray) -> np.ndarray:
    width = next(f.width for f in classes.features if f.name == name)
    return values[:, 0] if width is None else values


def _table(post: Posterior, classes: Classes) -> tuple[np.ndarray, dict[str, np.ndarray], list[str]]:
    """The observed classes and, in their order, the columns of every feature and their names."""
    observed = whole_rows(
        post.model, {str(n): v.to_numpy() for n, v in post.tree["observed_data"].to_dataset().items()}
    )
    codes = observed[classes.label].astype(int)
    columns, names = {}, []
    for feature in classes.features:
        values = observed[feature.name].reshape(len(codes), -1)
        columns[feature.name] = values
        own = [str(c) for c in feature.columns] or [
            feature.name if values.shape[1] == 1 else f"{feature.name}[{k}]" for k in range(values.shape[1])
        ]
        names += own
    return codes, columns, names


def _plane(
    table: np.ndarray, codes: np.ndarray, names: list[str], count: int
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, str]]:
    """Directions down to the plane, of shape (features, 2), the way up again, and the names of its axes."""
    if table.shape[1] == 2:
        return np.eye(2), None, (names[0], names[1])
    means = np.stack([table[codes == k].mean(axis=0) for k in range(count) if np.any(codes == k)])
    sizes = np.array([np.sum(codes == k) for k in range(count) if np.any(codes == k)])
    within = np.cov((table - _by_class(table, codes)).T, bias=True)
    spread = np.diag(within).copy()
    within += np.diag(RIDGE * np.where(spread > 0, spread, 1.0) + 1e-12 * max(spread.max(), 1.0))
    between = np.cov(means.T, fweights=sizes, bias=True) if len(means) > 1 else np.zeros_like(within)
    values, vectors = linalg.eigh(between, within)
    down = vectors[:, np.argsort(values)[::-1][:2]]
    down = down * np.sign(down[np.abs(down).argmax(axis=0), [0, 1]])
    # With two classes there is one discriminant direction; the second has then no class in it, only spread.
    up = np.linalg.solve(down.T @ within @ down, (within @ down).T)
    return down, up, ("first discriminant direction", "second discriminant direction")


def _by_class(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    result = np.empty_like(table)
    for k in np.unique(codes):
        result[codes == k] = table[codes == k].mean(axis=0)
    return result


def class_picture(plane: ClassPlane) -> Picture:
    """The rows by class, over the probability of the most probable class and the boundaries between them."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.6, 4.8), layout="constrained")
    _draw(axes, plane)
    where = (
        "the features"
        if plane.features == 2
        else f"the two leading discriminant directions of {plane.features} features"
    )
    shown = (
        "Shading says which class is the most probable and how sure that is; lines are where a class has probability "
        "0.5 (bold), 0.8 and 0.95"
        if plane.probability is not None
        else "There is no shading, because a point between rows of whole numbers is no row"
    )
    cut = (
        "; a point of it stands for the row there that nothing else tells apart"
        if plane.probability is not None and plane.features > 2
        else ""
    )
    return to_picture(
        figure,
        alt=f"Rows of {len(plane.labels)} classes in the plane of {where}, with class probabilities.",
        caption=f"Rows by class in the plane of {where}{cut}. {shown}. Ringed: rows whose own class has probability "
        "below one half.",
    )


def _draw(axes: Axes, plane: ClassPlane) -> None:
    from matplotlib.colors import to_rgb

    colours = np.array([to_rgb(c) for c in COLOURS])
    first, second = plane.grid
    if plane.probability is not None:
        image = _shading(plane.probability, colours)
        extent = (first[0], first[-1], second[0], second[-1])
        axes.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation="bilinear", zorder=0)
        for k in range(plane.probability.shape[2]):
            own = plane.probability[:, :, k]
            levels = [level for level in (0.5, 0.8, 0.95) if own.min() < level < own.max()]
            if levels:
                widths = [{0.5: 1.3, 0.8: 0.7, 0.95: 0.4}[level] for level in levels]
                axes.contour(first, second, own, levels=levels, colors=[COLOURS[k]], linewidths=widths, zorder=1)
    for k, label in enumerate(plane.labels):
        mine = plane.codes == k
        axes.plot(
            *plane.points[mine].T, MARKERS[k], color=COLOURS[k], markersize=4.5, markeredgecolor="white",
            markeredgewidth=0.5, label=label, zorder=3, rasterized=len(plane.points) > 500,
        )  # fmt: skip
    doubtful = plane.certainty < 0.5
    axes.plot(*plane.points[doubtful].T, "o", color="none", markeredgecolor=INK, markersize=9, zorder=4)
    axes.set_xlim(first[0], first[-1])
    axes.set_ylim(second[0], second[-1])
    axes.set_xlabel(plane.axes[0], parse_math=False)
    axes.set_ylabel(plane.axes[1], parse_math=False)
    axes.tick_params(colors=MUTED)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _shading(probability: np.ndarray, colours: np.ndarray) -> Any:
    """White where every class is as probable as another, the colour of a class where it is certain."""
    count = probability.shape[2]
    certainty = (probability.max(axis=2, keepdims=True) - 1 / count) / (1 - 1 / count)
    mixed = np.einsum("ijk,kc->ijc", probability, colours[:count])
    return 1 - 0.4 * certainty * (1 - mixed)
