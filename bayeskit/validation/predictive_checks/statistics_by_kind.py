r"""Test statistics T(y) of one column of data, by its kind: what is looked at, and what it says in its tail.

Residuals (y − m) / s are taken where the entries are predicted to differ, for there the mean structure hides what is
wrong with the noise. Their m and s are the mean and standard deviation of an entry over data sets of *one* draw of the
parameters θ, of which ``repeated`` has several. For the posterior has seen the observed y and no replicated one: by the
moments of the posterior predictive, where entries have parameters of their own, observed residuals of a right model are
small. Given θ the observed data are like the replicated ones, whatever θ has seen, and both tails say something. Where
there is one data set a draw and no model to draw more, the moments are those of the posterior predictive, and only
large values are looked at.

.. math:: \text{lag-1} = \frac{\sum_t (r_t - \bar r)(r_{t+1} - \bar r)}{\sum_t (r_t - \bar r)^2}

The distance of PIT is Kolmogorov's, of the ranks u of the entries among the replicated ones (randomised in ties) from
uniform ones. It is looked at where all entries are predicted alike: else PIT values of a right model may lie too near
to one half, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayeskit.validation.predictive_checks.columns import Column
from bayeskit.validation.predictive_checks.data_kinds import DataKind
from bayeskit.validation.predictive_checks.residuals import IN_CACHE, observed_residuals, replicated_residuals

__all__ = ["Measured", "Statistic", "column_pit", "statistics_of"]

SERIES = 8  # rows from which on neighbours, and the PIT, are looked at
SHARES = 8  # categories whose shares are looked at
PIT_ELEMENTS = 2_000_000  # ranks held in memory


@dataclass(frozen=True)
class Statistic:
    """A test statistic: its value for each of many data sets, and what it says where the observed one is extreme.

    ``above`` and ``below`` are what is said of the data and what that suggests; {values} is what they are called, and
    {law} their distribution in the model. Without ``below`` a small value says nothing.
    """

    name: str
    plural: str
    of: Callable[[np.ndarray], np.ndarray]  # data sets, or residuals of them, along the first axis
    above: tuple[str, str]
    below: tuple[str, str] | None
    residual: bool = False


@dataclass(frozen=True)
class Measured:
    """A statistic of the observed data, and those of replicated ones.

    A realised one has an observed value for each of several draws of the parameters, and beside it, along the second
    axis, those of data replicated from that draw. Of the others there is one observed value, and one row.
    """

    statistic: Statistic
    observed: np.ndarray  # (parameters,)
    replicated: np.ndarray  # (parameters, data sets)
    two_sided: bool


def _over(function: Callable[..., np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of all entries of a data set."""
    return lambda values: function(values, axis=(1, 2))


def _repeats(values: np.ndarray) -> np.ndarray:
    """The share of rows that are as the one before."""
    return (values[:, 1:] == values[:, :-1]).mean(axis=(1, 2))


def _autocorrelation(residuals: np.ndarray) -> np.ndarray:
    """At lag one along the rows."""
    found = np.zeros(len(residuals))
    for rows in np.array_split(np.arange(len(residuals)), max(1, residuals.size // IN_CACHE)):
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
    lambda values: (values == 0).mean(axis=(1, 2)),
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
    _over(np.std),
    ("about their predictions {values} vary more than {law}", "overdispersion, or noise that is set too small"),
    ("about their predictions {values} vary less than {law}", "underdispersion, or noise that is set too large"),
    residual=True,
)
FARTHEST = Statistic(
    "largest residual",
    "largest residuals",
    lambda residuals: np.abs(residuals).max(axis=(1, 2)),
    (
        "one of {values} lies farther from its prediction than the model allows",
        "outliers, or tails heavier than {law}'s",
    ),
    (
        "all of {values} lie nearer to their predictions than the model has it",
        "noise that is set too large, or tails lighter than {law}'s",
    ),
    residual=True,
)
NEIGHBOURS = Statistic(
    "lag-1",
    "lag-1 autocorrelations",
    _autocorrelation,
    ("neighbouring rows are more alike than in the model", "rows that depend on their neighbours, or a missing trend"),
    ("neighbouring rows are less alike than in the model", "rows that alternate, or that make up for the one before"),
    residual=True,
)
REPEATS = Statistic(
    "repeats",
    "shares of rows that are as the one before",
    _repeats,
    ("neighbouring rows are the same more often than in the model", "rows that depend on their neighbours"),
    ("neighbouring rows are the same less often than in the model", "rows that alternate"),
)
BY_KIND: dict[DataKind, tuple[Statistic, ...]] = {
    "continuous": (MEAN, SPREAD, LEAST, MOST),
    "count": (MEAN, SPREAD, LEAST, MOST, ZEROS),
    "binary": (ONES,),
    "category": (),
}


def statistics_of(column: Column, rng: np.random.Generator) -> Iterator[Measured]:
    """The statistics that suit a column, of its observed data and of every replicated data set."""
    found = list(_suiting(column))
    residual = [statistic for statistic in found if statistic.residual]
    repeated = column.repeated() if residual and column.differing else None
    realised = {} if repeated is None else _realised(residual, column.observed, repeated)
    for statistic in found:
        if statistic.name in realised:
            yield realised[statistic.name]
            continue
        data = column.residuals if statistic.residual else (column.observed[None], column.replicated)
        observed, replicated = (statistic.of(values.reshape(-1, *column.observed.shape)) for values in data)
        two_sided = statistic.below is not None and not (statistic.residual and column.differing)
        yield Measured(statistic, observed.astype(float), replicated[None].astype(float), two_sided)
    if column.kind in ("continuous", "count") and column.size >= SERIES and not column.differing:
        pit, of_replicated = column_pit(column, rng)
        shape = ("{values} do not lie in their predictive distributions as draws of them", "another shape than {law}'s")
        distance = Statistic("PIT", "distances of PIT from uniform", _from_uniform, shape, None)
        yield Measured(distance, _from_uniform(pit[None]), _from_uniform(of_replicated)[None], two_sided=False)


def _realised(statistics: Sequence[Statistic], observed: np.ndarray, repeated: np.ndarray) -> dict[str, Measured]:
    """Statistics of residuals given each of several draws of the parameters, by their names."""
    own: dict[str, list[float]] = {statistic.name: [] for statistic in statistics}
    others: dict[str, list[np.ndarray]] = {statistic.name: [] for statistic in statistics}
    for sets in repeated:
        of_observed, of_replicated = observed_residuals(observed, sets)[None], replicated_residuals(observed, sets)
        for statistic in statistics:
            own[statistic.name].append(float(statistic.of(of_observed)[0]))
            others[statistic.name].append(statistic.of(of_replicated))
    return {s.name: Measured(s, np.array(own[s.name]), np.array(others[s.name]), two_sided=True) for s in statistics}


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
        lambda values: (values == code).mean(axis=(1, 2)),
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
