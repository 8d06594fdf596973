r"""Test statistics T(y) of one column of data, by its kind: what is looked at, and what it says in its tail.

Residuals (y − m) / s are taken where the entries are predicted to differ, for there the mean structure hides what is
wrong with the noise. Their m and s are the mean and standard deviation of an entry over data sets of *one* draw of the
parameters θ, of which ``repeated`` has several. For the posterior has seen the observed y and no replicated one: by the
moments of the posterior predictive, where entries have parameters of their own, observed residuals of a right model are
small. Given θ the observed data are like the replicated ones, whatever θ has seen, and both tails say something. Where
there is one data set a draw and no model to draw more, the moments are those of the posterior predictive, and only
large values are looked at.

.. math:: \text{lag-1} = \frac{\sum_t (r_t - \bar r)(r_{t+1} - \bar r)}{\sum_t (r_t - \bar r)^2}

Given θ residuals are looked at in the order of their predictions, too: whether like predictions err alike, and whether
the noise grows with them. The predictions are means over all data sets, the observed one among them, so that they
are the same for each, and the order tells none apart.

The distance of PIT from uniform is looked at where all entries are predicted alike: else PIT values of a right model
may lie too near to one half, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayeskit.validation.predictive_checks.columns import Column
from bayeskit.validation.predictive_checks.data_kinds import DataKind
from bayeskit.validation.predictive_checks.pit_distance import column_pit, distance_from_uniform
from bayeskit.validation.predictive_checks.residuals import IN_CACHE, observed_residuals, replicated_residuals

__all__ = ["Measured", "Statistic", "statistics_of"]

SERIES = 8  # rows from which on neighbours, and the PIT, are looked at
SHARES = 8  # categories whose shares are looked at


@dataclass(frozen=True)
class Statistic:
    """A test statistic: its value for each of many data sets, and what it says where the observed one is extreme.

    ``above`` and ``below`` are what is said of the data and what that suggests; {values} is what they are called, and
    {law} their distribution in the model. Without ``below`` a small value says nothing. Residuals are in the order of
    the rows, or, ``by_prediction``, of what is predicted.
    """

    name: str
    plural: str
    of: Callable[[np.ndarray], np.ndarray]  # data sets, or residuals of them, along the first axis
    above: tuple[str, str]
    below: tuple[str, str] | None
    residual: bool = False
    by_prediction: bool = False
    in_unit: bool = False  # whether it is measured in the unit of the data


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


def _growth(residuals: np.ndarray) -> np.ndarray:
    """The correlation of their sizes with their places in the order of the rows."""
    sizes = np.abs(residuals).mean(axis=2)
    sizes -= sizes.mean(axis=1, keepdims=True)
    places = np.arange(sizes.shape[1]) - (sizes.shape[1] - 1) / 2
    lengths = np.linalg.norm(sizes, axis=1) * np.linalg.norm(places)
    return np.divide(sizes @ places, lengths, out=np.zeros(len(sizes)), where=lengths > 0)


LEVEL = "a level that the model does not follow"
MEAN = Statistic(
    "mean",
    "means",
    _over(np.mean),
    ("{values} are larger on average than the model predicts", LEVEL),
    ("{values} are smaller on average than the model predicts", LEVEL),
    in_unit=True,
)
VALUE = Statistic(
    "value",
    "values",
    _over(np.mean),
    ("the value is larger than the model predicts", LEVEL),
    ("the value is smaller than the model predicts", LEVEL),
    in_unit=True,
)
SPREAD = Statistic(
    "sd",
    "standard deviations",
    _over(np.std),
    ("{values} vary more than {law}", "overdispersion"),
    ("{values} vary less than {law}", "underdispersion"),
    in_unit=True,
)
LEAST = Statistic(
    "min",
    "minima",
    _over(np.min),
    ("the smallest of {values} is larger than the model predicts", "a lower bound, or a lower tail that is lighter"),
    ("the smallest of {values} is smaller than the model predicts", "an outlier, or a lower tail heavier than {law}'s"),
    in_unit=True,
)
MOST = Statistic(
    "max",
    "maxima",
    _over(np.max),
    ("the largest of {values} is larger than the model predicts", "an outlier, or an upper tail heavier than {law}'s"),
    ("the largest of {values} is smaller than the model predicts", "an upper bound, or an upper tail that is lighter"),
    in_unit=True,
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
CURVE = Statistic(
    "lag-1 by prediction",
    "lag-1 autocorrelations in the order of the predictions",
    _autocorrelation,
    ("{values} with like predictions err in the same direction", "an effect that is curved, or another link"),
    ("{values} with like predictions err in opposite directions", "rows that make up for each other"),
    residual=True,
    by_prediction=True,
)
GROWTH = Statistic(
    "spread by prediction",
    "correlations of the size of residuals with the order of the predictions",
    _growth,
    ("{values} vary more than {law} where larger ones are predicted", "noise that grows with the level"),
    ("{values} vary less than {law} where larger ones are predicted", "noise that is smaller at higher levels"),
    residual=True,
    by_prediction=True,
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
        if statistic.name in realised or statistic.by_prediction:
            continue
        data = column.residuals if statistic.residual else (column.observed[None], column.replicated)
        observed, replicated = (statistic.of(values.reshape(-1, *column.observed.shape)) for values in data)
        two_sided = statistic.below is not None and not (statistic.residual and column.differing)
        yield Measured(statistic, observed.astype(float), replicated[None].astype(float), two_sided)
    if column.kind in ("continuous", "count") and column.size >= SERIES and not column.differing:
        pit, of_replicated = column_pit(column, rng)
        shape = ("{values} do not lie in their predictive distributions as draws of them", "another shape than {law}'s")
        distance = Statistic("PIT", "distances of PIT from uniform", distance_from_uniform, shape, None)
        yield Measured(
            distance, distance_from_uniform(pit[None]), distance_from_uniform(of_replicated)[None], two_sided=False
        )


def _realised(statistics: Sequence[Statistic], observed: np.ndarray, repeated: np.ndarray) -> dict[str, Measured]:
    """Statistics of residuals given each of several draws of the parameters, by their names."""
    own: dict[str, list[float]] = {statistic.name: [] for statistic in statistics}
    others: dict[str, list[np.ndarray]] = {statistic.name: [] for statistic in statistics}
    for sets in repeated:
        residuals = observed_residuals(observed, sets)[None], replicated_residuals(observed, sets)
        order = np.argsort((observed + sets.sum(axis=0)).ravel(), kind="stable")
        by_prediction = tuple(of.reshape(len(of), -1, 1)[:, order] for of in residuals)
        for statistic in statistics:
            of_observed, of_replicated = by_prediction if statistic.by_prediction else residuals
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
    if column.kind != "category" and column.differing and column.size >= SERIES:
        yield from (CURVE, GROWTH) if column.kind != "binary" else (CURVE,)
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
