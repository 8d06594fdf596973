r"""Test statistics T(y) of one column of data, by its kind: what is looked at, and what it says in its tail.

With m and s the mean and standard deviation of an entry over all other data sets, r = (y − m) / s are residuals.
Statistics of them are taken where the entries are predicted to differ, for there the mean structure hides what is wrong
with the noise. But the posterior has seen the observed y and no replicated one: where entries have parameters of their
own, observed residuals of a right model are small, and neighbouring ones less alike. So only large values of these say
something:

.. math:: \text{lag-1} = \frac{\sum_t (r_t - \bar r)(r_{t+1} - \bar r)}{\sum_t (r_t - \bar r)^2}

The distance of PIT is Kolmogorov's, of the ranks u of the entries among the replicated ones (randomised in ties) from
uniform ones. It is looked at where all entries are predicted alike: else PIT values of a right model may lie too near
to one half, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeskit.validation.predictive_checks.data_kinds import DataKind

__all__ = ["Column", "Statistic", "column_pit", "statistics_of"]

DIFFERING = 0.1  # spread of predicted means, in predictive standard deviations, from which on entries differ
SERIES = 8  # rows from which on neighbours, and the PIT, are looked at
SHARES = 8  # categories whose shares are looked at
PIT_ELEMENTS = 2_000_000  # ranks held in memory
IN_CACHE = 200_000  # numbers that are worked on at once: of ten times as many, most time is that of memory


@dataclass(frozen=True, eq=False)
class Column:
    """One column of an observed variable: its rows (first axis), and as many data sets of it as there are draws."""

    name: str
    kind: DataKind
    observed: np.ndarray  # (rows, others)
    replicated: np.ndarray  # (draws, rows, others)
    labels: tuple[str, ...] = ()  # of categories

    @property
    def size(self) -> int:
        return self.observed.size

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The predictive mean and standard deviation of each entry; one where all replicated values are the same."""
        spread = self.replicated.std(axis=0)
        return self.replicated.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def residuals(self, values: np.ndarray) -> np.ndarray:
        """In predictive standard deviations, of the observed data, or of the replicated ones."""
        if values is self.replicated:
            return self._replicated_residuals
        mean, spread = self.moments
        return (values - mean) / spread

    @cached_property
    def _replicated_residuals(self) -> np.ndarray:
        """Of each replicated data set against the observed and all other ones, as the observed is against these.

        Were it one of those that its own mean is of, its residuals would be smaller than observed ones: by a twentieth
        of 40 data sets. Of a hundred thousand rows and 208 data sets that called a right model overdispersed.
        """
        mean, _ = self.moments
        own, number = self.observed - mean, len(self.replicated)
        deviations = self.replicated - mean
        squares = np.einsum("drk,drk->rk", deviations, deviations) + own**2
        for part in np.array_split(deviations, max(1, deviations.size // IN_CACHE)):
            centers = (own - part) / number
            spread = np.sqrt(np.maximum((squares - part * part) / number - centers * centers, 0.0))
            part -= centers
            np.divide(part, spread, out=part, where=spread > 0)
        return deviations

    @property
    def differing(self) -> bool:
        """Whether the entries are predicted to differ from each other, in their means or in their spread."""
        mean, spread = self.moments
        # Of few data sets the moments differ by chance: their variances, s²/R and about s²/2R, are no difference.
        noise = np.mean(spread**2) / len(self.replicated)
        return bool(max(mean.var() - noise, spread.var() - noise / 2) > (DIFFERING * np.mean(spread)) ** 2)

    @property
    def sorted(self) -> bool:
        """Whether the rows are in the order of their values, or each value is in one block: neighbours are alike."""
        if self.observed.shape[1] > 1:
            return False
        steps = np.diff(self.observed[:, 0])
        blocks = np.count_nonzero(steps) + 1 == np.unique(self.observed).size
        return bool(np.all(steps >= 0) or np.all(steps <= 0) or (self.kind == "category" and blocks))


@dataclass(frozen=True)
class Statistic:
    """A test statistic: its value for each of many data sets, and what it says where the observed one is extreme.

    ``above`` and ``below`` are what is said of the data and what that suggests; {values} is what they are called, and
    {law} their distribution in the model. Without ``below`` a small value says nothing.
    """

    name: str
    plural: str
    of: Callable[[np.ndarray, Column], np.ndarray]
    above: tuple[str, str]
    below: tuple[str, str] | None


def _over(function: Callable[..., np.ndarray]) -> Callable[[np.ndarray, Column], np.ndarray]:
    """A function of all entries of a data set."""
    return lambda values, column: function(values, axis=(1, 2))


def _neighbours(values: np.ndarray, column: Column) -> np.ndarray:
    """The lag-1 autocorrelation of residuals along the rows; of categories, the share that are as the one before."""
    if column.kind == "category":
        return (values[:, 1:] == values[:, :-1]).mean(axis=(1, 2))
    found, residuals = np.zeros(len(values)), column.residuals(values)
    for rows in np.array_split(np.arange(len(values)), max(1, residuals.size // IN_CACHE)):
        some = residuals[rows] - residuals[rows].mean(axis=1, keepdims=True)
        products, squares = np.einsum("drk,drk->d", some[:, 1:], some[:, :-1]), np.einsum("drk,drk->d", some, some)
        found[rows] = np.divide(products, squares, out=np.zeros(len(rows)), where=squares > 0)
    return found


LEVEL = "a level that the model does not follow"
MEAN = Statistic(
    "mean",
    "means",
    _over(np.mean),
    ("{values} are larger on average than the model predicts", LEVEL),
    ("{values} are smaller on average than the model predicts", LEVEL),
)
VALUE = Statistic(
    "value",
    "values",
    _over(np.mean),
    ("the value is larger than the model predicts", LEVEL),
    ("the value is smaller than the model predicts", LEVEL),
)
SPREAD = Statistic(
    "sd",
    "standard deviations",
    _over(np.std),
    ("{values} vary more than {law}", "overdispersion"),
    ("{values} vary less than {law}", "underdispersion"),
)
LEAST = Statistic(
    "min",
    "minima",
    _over(np.min),
    ("the smallest of {values} is larger than the model predicts", "a lower bound, or a lower tail that is lighter"),
    ("the smallest of {values} is smaller than the model predicts", "an outlier, or a lower tail heavier than {law}'s"),
)
MOST = Statistic(
    "max",
    "maxima",
    _over(np.max),
    ("the largest of {values} is larger than the model predicts", "an outlier, or an upper tail heavier than {law}'s"),
    ("the largest of {values} is smaller than the model predicts", "an upper bound, or an upper tail that is lighter"),
)
ZEROS = Statistic(
    "zeros",
    "shares of zeros",
    lambda values, column: (values == 0).mean(axis=(1, 2)),
    ("{values} are zero more often than {law} gives", "zero inflation, or overdispersion"),
    ("{values} are zero less often than {law} gives", "too few zeros for {law}"),
)
ONES = Statistic(
    "ones",
    "shares of ones",
    _over(np.mean),
    ("ones are more frequent than the model predicts", LEVEL),
    ("ones are less frequent than the model predicts", LEVEL),
)
RESIDUAL_SPREAD = Statistic(
    "residual sd",
    "standard deviations of residuals",
    lambda values, column: column.residuals(values).std(axis=(1, 2)),
    ("about their predictions {values} vary more than {law}", "overdispersion"),
    None,
)
FARTHEST = Statistic(
    "largest residual",
    "largest residuals",
    lambda values, column: np.abs(column.residuals(values)).max(axis=(1, 2)),
    (
        "one of {values} lies farther from its prediction than the model allows",
        "outliers, or tails heavier than {law}'s",
    ),
    None,
)
NEIGHBOURS = Statistic(
    "lag-1",
    "lag-1 autocorrelations",
    _neighbours,
    ("neighbouring rows are more alike than in the model", "rows that depend on their neighbours, or a missing trend"),
    None,
)
REPEATS = Statistic(
    "repeats",
    "shares of rows that are as the one before",
    _neighbours,
    ("neighbouring rows are the same more often than in the model", "rows that depend on their neighbours"),
    ("neighbouring rows are the same less often than in the model", "rows that alternate"),
)
BY_KIND: dict[DataKind, tuple[Statistic, ...]] = {
    "continuous": (MEAN, SPREAD, LEAST, MOST),
    "count": (MEAN, SPREAD, LEAST, MOST, ZEROS),
    "binary": (ONES,),
    "category": (),
}


def statistics_of(column: Column, rng: np.random.Generator) -> Iterator[tuple[Statistic, float, np.ndarray]]:
    """The statistics that suit a column: each with its observed value, and that of every replicated data set."""
    found = list(_suiting(column))
    for statistic in found:
        observed, replicated = (statistic.of(v, column) for v in (column.observed[None], column.replicated))
        yield statistic, float(observed[0]), np.asarray(replicated, dtype=float)
    if column.kind in ("continuous", "count") and column.size >= SERIES and not column.differing:
        pit, of_replicated = column_pit(column, rng)
        shape = ("{values} do not lie in their predictive distributions as draws of them", "another shape than {law}'s")
        distance = Statistic("PIT", "distances of PIT from uniform", lambda v, c: _from_uniform(v), shape, None)
        yield distance, float(_from_uniform(pit[None])[0]), _from_uniform(of_replicated)


def _suiting(column: Column) -> Iterator[Statistic]:
    if column.size == 1 and column.kind != "category":
        yield VALUE
        return
    yield from BY_KIND[column.kind]
    if column.kind == "category":
        codes = np.union1d(column.observed, column.replicated).astype(int)
        yield from (_share(k, column.labels) for k in codes[:SHARES])
    if column.kind in ("continuous", "count") and column.differing:
        yield from (RESIDUAL_SPREAD, FARTHEST)
    if column.observed.shape[0] >= SERIES and not column.sorted:
        yield REPEATS if column.kind == "category" else NEIGHBOURS


def _share(code: int, labels: tuple[str, ...]) -> Statistic:
    label = labels[code] if 0 <= code < len(labels) else str(code)
    return Statistic(
        f"share of {label}",
        f"shares of {label}",
        lambda values, column: (values == code).mean(axis=(1, 2)),
        (f"{label} is more frequent than the model predicts", LEVEL),
        (f"{label} is less frequent than the model predicts", LEVEL),
    )


def column_pit(column: Column, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The PIT of the observed entries, and those of replicated data sets, by their ranks; fewer draws of large data."""
    draws = len(column.replicated)
    kept = np.linspace(0, draws - 1, min(draws, max(200, PIT_ELEMENTS // column.size))).round().astype(int)
    drawn, data = column.replicated[kept].reshape(len(kept), -1), column.observed.ravel()
    below, equal = (drawn < data).sum(axis=0), (drawn == data).sum(axis=0)
    pit = (below + rng.random(data.size) * (equal + 1)) / (len(kept) + 1)
    least, most = (ranks.T for ranks in _ranks(np.ascontiguousarray(drawn.T)))
    return pit, (least - 1 + rng.random(drawn.shape) * (most - least + 1)) / len(kept)


def _ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest rank that each value of a row may have: SciPy's, of one sorting instead of two."""
    order = np.argsort(values, axis=1)
    ascending, number = np.take_along_axis(values, order, axis=1), np.arange(1, values.shape[1] + 1)
    new = np.diff(ascending, axis=1) > 0
    one = np.ones((len(values), 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.hstack([one, new]), number, 0), axis=1)
    last = np.minimum.accumulate(np.where(np.hstack([new, one]), number, number[-1:])[:, ::-1], axis=1)[:, ::-1]
    least, most = np.empty(values.shape), np.empty(values.shape)
    np.put_along_axis(least, order, first, axis=1)
    np.put_along_axis(most, order, last, axis=1)
    return least, most


def _from_uniform(pit: np.ndarray) -> np.ndarray:
    """Kolmogorov's distance of the values in each row from a uniform distribution."""
    values, number = np.sort(pit, axis=1), pit.shape[1]
    steps = np.arange(number + 1) / number
    return np.maximum((steps[1:] - values).max(axis=1), (values - steps[:-1]).max(axis=1))
