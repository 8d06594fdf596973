"""Posterior predictive checks, by the plot that suits the data; by group and along time, where there are such."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from bayeskit.reporting.categories import category_figure
from bayeskit.reporting.check_plots import (
    distribution_figure,
    interval_figure,
    rootogram_figure,
    value_figure,
    words_figure,
)
from bayeskit.reporting.figures import no_histogram
from bayeskit.reporting.records import Picture, to_picture
from bayeskit.reporting.residual_checks import residual_figure
from bayeskit.reporting.time_checks import time_figure
from bayeskit.results.records import Posterior
from bayeskit.validation.predictive_checks.columns import Column
from bayeskit.validation.predictive_checks.data_kinds import MAX_CATEGORIES, data_kind, in_columns, is_time
from bayeskit.validation.predictive_checks.replicated_data import replicated_data
from bayeskit.validation.predictive_checks.row_groups import in_time, row_groups
from bayeskit.validation.predictive_checks.statistics_by_kind import SERIES

__all__ = ["check_pictures", "generator", "kind_of_check"]

MAX_PICTURES = 3  # variables that have some
MAX_FACETS = 6
MAX_DRAWS = 1000
MAX_ROWS = 2000
MAX_INTERVALS = 80
FEW = 12
MAX_COUNT = 60
SAMPLE = ("chain", "draw")


@dataclass(frozen=True, eq=False)
class _Checked:
    """An observed variable and replicated ones, some of its rows where there are many."""

    name: str
    observed: xr.DataArray
    predicted: xr.DataArray
    groups: dict[str, tuple[np.ndarray, tuple[str, ...]]]
    timed: bool

    def columns(self) -> tuple[dict[str, xr.DataArray], dict[str, xr.DataArray]]:
        """Observed and replicated columns by their names; all values as one where there are too many."""
        both = [in_columns(self.observed), in_columns(self.predicted, SAMPLE)]
        if len(both[0]) > MAX_FACETS:
            both = [{"": self.observed}, {"": self.predicted}]
        named = [{f"{self.name}{label}": values for label, values in of.items()} for of in both]
        return named[0], named[1]

    def arrays(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The same as arrays, all draws along the first axis."""
        observed, predicted = self.columns()
        drawn = {n: v.transpose(*SAMPLE, *observed[n].dims).to_numpy() for n, v in predicted.items()}
        return {n: (observed[n].to_numpy(), v.reshape(v.shape[0] * v.shape[1], *v.shape[2:])) for n, v in drawn.items()}

    def rows(self) -> tuple[str, np.ndarray]:
        """The dim of the rows of a column, and their labels."""
        values = next(iter(self.columns()[0].values()))
        dim = values.dims[0]
        labels = values[dim].to_numpy() if dim in values.coords else np.arange(len(values))
        if labels.dtype.kind == "M":
            labels = pd.DatetimeIndex(labels).strftime("%Y-%m-%d").to_numpy().astype(object)
        return "row" if str(dim).startswith(f"{self.name}_dim_") else str(dim), labels


def kind_of_check(observed: xr.DataArray, predicted: xr.DataArray) -> str:
    """Which plot suits the observed values.

    Categories, and zeros and ones: the share of each. One value: the predictive distribution with the value marked.
    Few values, or counts that are predicted to differ from row to row (each has its own trials or exposure): an
    interval for each. Small counts: a rootogram; large ones, and measurements so rounded that most are there twice or
    so close together that a density estimate would show spikes: distribution functions. Else densities.
    """
    values = observed.to_numpy()
    if "labels" in observed.attrs and max(values.max(), predicted.max()) < MAX_CATEGORIES:
        return "category"
    if values.size == 1:
        return "value"
    if values.size <= FEW:
        return "interval"
    if values.dtype.kind not in "biu":
        # Rounded: fewer than half the values of some column are distinct.
        rounded = any(2 * np.unique(column).size < column.size for column in values.reshape(len(values), -1).T)
        narrow = any(no_histogram(v) for v in (values, predicted.to_numpy()))
        return "ecdf" if rounded or narrow else "kde"
    if data_kind(values, predicted.to_numpy(), labelled=False) == "binary":
        return "binary"
    # Predictions differ from row to row where they do by more than a tenth of their own spread.
    if values.size <= MAX_INTERVALS and predicted.mean(SAMPLE).std() > 0.1 * predicted.std(SAMPLE).mean():
        return "interval"
    return "rootogram" if values.max() - values.min() <= MAX_COUNT else "ecdf"


def check_pictures(post: Posterior, note: str = "") -> tuple[Picture, ...]:
    """Predictive checks of each observed variable, with a note on each.

    The first by the plot of :func:`kind_of_check`; then along time, by group, and the residuals, where there are such.
    Of a variable with many values, a random selection of rows is shown, and fewer replicated data sets are drawn.
    """
    found = replicated_data(post, random_seed=post.random_seed)
    rng = generator(post)
    pictures: list[Picture] = []
    for name in found.names[:MAX_PICTURES]:
        observed = found.observed[name]
        if name in found.labels:
            observed = observed.assign_attrs(labels=found.labels[name])
        groups = row_groups(post.model, name, len(observed)) if observed.ndim == 1 else {}
        whole = _Checked(name, observed, found.predicted[name], groups, in_time(post.model, name))
        pictures += _pictures_of(_selected(whole, rng), rng)
    return tuple(replace(p, caption=f"{p.caption} {note}".strip()) for p in pictures)


def generator(post: Posterior) -> np.random.Generator:
    """A stream of its own: with the posterior's seed alone, noise would repeat the numbers that made the draws."""
    return np.random.default_rng(np.random.SeedSequence(post.random_seed, spawn_key=(1,)))


def _selected(whole: _Checked, rng: np.random.Generator) -> _Checked:
    """A random selection of the rows of large data, and at most so many draws."""
    step = max(1, whole.predicted.sizes["chain"] * whole.predicted.sizes["draw"] // MAX_DRAWS)
    predicted = whole.predicted.isel(draw=slice(None, None, step))
    if whole.observed.ndim == 0 or whole.observed.shape[0] <= MAX_ROWS:
        return replace(whole, predicted=predicted)
    total = len(whole.observed)
    rows = np.sort(rng.choice(total, MAX_ROWS, replace=False))
    kept = {whole.observed.dims[0]: rows}
    observed = whole.observed.isel(kept).assign_attrs(shown=f" {MAX_ROWS:,} of {total:,} rows.")
    groups = {n: (codes[rows], labels) for n, (codes, labels) in whole.groups.items()}
    return replace(whole, observed=observed, predicted=predicted.isel(kept), groups=groups)


def _pictures_of(of: _Checked, rng: np.random.Generator) -> Iterator[Picture]:
    for what, (figure, words) in _figures_of(of, rng):
        words += of.observed.attrs.get("shown", "")
        yield to_picture(figure, alt=f"{what} of {of.name}. {words}", caption=f"{of.name}. {words}")


def _figures_of(of: _Checked, rng: np.random.Generator) -> Iterator[tuple[str, tuple[Figure, str]]]:
    """What is drawn of a variable, and what that is."""
    what = "Posterior predictive check"
    if share := np.mean(~np.isfinite(of.predicted.to_numpy())):
        yield what, words_figure(f"{100 * share:.2g} % of the replicated values are not finite")
        return
    kind = kind_of_check(of.observed, of.predicted)
    yield what, _figure(kind, of)
    if of.observed.ndim == 0 or len(of.observed) < SERIES or kind in ("category", "value"):
        return
    dim, labels = of.rows()
    arrays = of.arrays()
    matrix = any(values.ndim > 1 for values, _ in arrays.values())
    if (of.timed or is_time(of.observed, dim)) and not matrix and kind != "binary":
        yield "Predictive band along time", time_figure(arrays, labels, dim)
    for group, (codes, called) in of.groups.items():
        yield f"Means by {group}", _by_group(of, group, codes, called)
    if of.observed.ndim == 2 and matrix:
        yield f"Means by {of.observed.dims[1]}", _by_column(of)
    if kind != "binary":
        numbers = data_kind(of.observed.to_numpy(), of.predicted.to_numpy(), labelled=False)
        shaped = ((n, y.reshape(len(y), -1), r.reshape(len(r), len(y), -1)) for n, (y, r) in arrays.items())
        columns = [Column(n, numbers, y, r) for n, y, r in shaped]
        yield "Residuals", residual_figure(columns, labels, dim, rng)


def _figure(kind: str, of: _Checked) -> tuple[Figure, str]:
    if kind in ("category", "binary"):
        return category_figure(of.arrays(), of.observed.attrs.get("labels") or ("0", "1")[: 2 * (kind == "binary")])
    if kind == "value":
        return value_figure(of.name, of.observed, of.predicted)
    if kind == "interval":
        return interval_figure(of.name, of.observed, of.predicted)
    if kind == "rootogram":
        return rootogram_figure(*of.columns())
    return distribution_figure(kind, *of.columns())


def _by_group(of: _Checked, group: str, codes: np.ndarray, called: tuple[str, ...]) -> tuple[Figure, str]:
    """The predictive interval of the mean of each group, and its observed mean; the first of many groups."""
    present = np.unique(codes)
    shown = present[:MAX_INTERVALS]
    shares = (codes[:, None] == shown) / (codes[:, None] == shown).sum(axis=0)
    names = [called[k] if 0 <= k < len(called) else str(k) for k in shown]
    return _means(of, group, names, shares, len(present) - len(shown))


def _by_column(of: _Checked) -> tuple[Figure, str]:
    """The same of the columns of a matrix of many."""
    dim = of.observed.dims[1]
    labels = of.observed[dim].to_numpy() if dim in of.observed.coords else np.arange(of.observed.shape[1])
    rows, columns = of.observed.shape
    shares = np.tile(np.eye(columns)[:, :MAX_INTERVALS] / rows, (rows, 1))
    return _means(of, str(dim), [*map(str, labels[:MAX_INTERVALS])], shares, columns - MAX_INTERVALS)


def _means(of: _Checked, group: str, names: list[str], shares: np.ndarray, hidden: int) -> tuple[Figure, str]:
    """Intervals of means: of the flattened entries, the share that each has in the mean of each group."""
    drawn = of.predicted.transpose(*SAMPLE, *of.observed.dims).to_numpy()
    means = [v.reshape(*shape, -1) @ shares for v, shape in ((of.observed.to_numpy(), ()), (drawn, drawn.shape[:2]))]
    observed, predicted = xr.DataArray(means[0], {group: names}, [group]), xr.DataArray(means[1], dims=[*SAMPLE, group])
    figure, _ = interval_figure(f"mean of {of.name}", observed, predicted.assign_coords({group: names}))
    rest = f" {hidden:,} more are not shown." if hidden > 0 else ""
    words = "the 50 % and wider predictive interval of each mean (blue), and the observed one (orange)"
    return figure, f"By {group}: {words}.{rest}"
