r"""A hidden Markov model: a series whose distribution depends on a state that is not seen and that tends to stay.

.. math::

   z_1 \sim \mathrm{Categorical}(\pi), \qquad z_t \mid z_{t-1} = i \sim \mathrm{Categorical}(A_i), \qquad
   A_i \sim \mathrm{Dirichlet}(a_{i1}, \ldots, a_{iK})

with :math:`a_{ij} = a` and, on the diagonal, :math:`a_{ii} = a + b`. The first state has equal probabilities
(``initial="uniform"``), :math:`\pi \sim \mathrm{Dirichlet}(a_0, \ldots, a_0)`, or the stationary distribution of the
chain, :math:`\pi A = \pi`. Given :math:`z_t = k`,

* ``normal``: :math:`y_t \sim \mathrm{Normal}(\mu_k, \sigma_k^2)`, with :math:`\mu_k \sim \mathrm{Normal}(m, s_m^2 u^2)`
  and :math:`\sigma_k^2 \sim \mathrm{InverseGamma}(\nu / 2, \nu s^2 u^2 / 2)`;
* ``poisson``: :math:`y_t \sim \mathrm{Poisson}(\lambda_k)`, with
  :math:`\lambda_k \sim \mathrm{Gamma}(\gamma, \gamma / r)`, of mean :math:`r`;
* ``categorical``: :math:`y_t \sim \mathrm{Categorical}(\phi_k)`, with
  :math:`\phi_k \sim \mathrm{Dirichlet}(e, \ldots, e)`; the categories are numbered from 0.

With ``standardise``, :math:`m` and :math:`u` are the mean and sd of the series and :math:`r` its mean, so that the
priors are in the scale of the data; without it they are 0, 1 and 1. The parameters are in units of y either way.

**Several sequences**, named by the column ``sequence``, share the parameters and are independent given them; the rows
of each are in its order, and need not stand together. Their lengths may differ: the chain is then written for all of
them at the length of the longest, and steps after the end of a sequence have no observation, which changes nothing
before the end. A **missing observation** (NaN) is a step without one, too, and is predicted, as ``y_unobserved``.

The prior is the same for every state, so that each of the K! labellings has the same posterior; chains start in one of
them, at the groups that k-means finds. Given the parameters, the states are summed out by the forward algorithm, and
come back with their exact (smoothed) probabilities. The evidence has no closed form; it compares numbers of states.

The free variables are ``transition`` of dims ``("state", "next_state")``; ``initial`` of dims ``("state",)`` where it
is unknown (a Deterministic where it is stationary); ``mean`` and ``variance``, or ``rate``, of dims ``("state",)``, or
``probability`` of dims ``("state", "category")``; and ``z``, of dims ``("row",)`` for one sequence and
``("sequence", "step")`` for several. With missing entries, ``y`` has the dim ``observed_row`` and ``y_unobserved`` the
dim ``missing_row``.

The example is the yearly number of great earthquakes in the world.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.catalogue.starts import group_rows, group_steps, location_and_scale
from bayeskit.datasets.checking import check_values
from bayeskit.datasets.labels import column_name
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import DataError, OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the series; entries may be missing", missing=True),
    "sequence": Variable(kind="category", required=False, doc="the sequence of each row; one where not given"),
}

EXAMPLE = Example("earthquakes", {"y": "count", "row": "year"}, {"states": 2, "emissions": "poisson"})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    states: Annotated[int, Range(2, 50)] = 2,
    emissions: Literal["normal", "poisson", "categorical"] = "normal",
    initial: Literal["uniform", "dirichlet", "stationary"] = "uniform",
    concentration: Positive = 1.0,
    persistence: Annotated[float, Range(low=0)] = 0.0,
    standardise: bool = True,
    mean_scale: Positive = 1.0,
    spread: Positive = 0.5,
    degrees_of_freedom: Positive = 3.0,
    rate_shape: Positive = 1.0,
    categories: Annotated[int, Range(2, 1000)] | None = None,
    category_concentration: Positive = 1.0,
) -> pm.Model:
    """Build the hidden Markov model.

    Parameters
    ----------
    data : xarray.Dataset
        ``y``, and where there are several sequences ``sequence``, with dims ``("row",)``; missing entries of y are NaN.
    states : int
        Number K of states, at most the number of rows.
    emissions : {"normal", "poisson", "categorical"}
        The distribution of y given the state.
    initial : {"uniform", "dirichlet", "stationary"}
        The first state of a sequence: equal probabilities, unknown ones, or those of the stationary chain.
    concentration : float
        Prior transitions from each state to each state; also of an unknown initial distribution.
    persistence : float
        As many more transitions from each state to itself.
    standardise : bool
        Priors of normal and Poisson emissions from the mean of y, in its sds (counts: its mean), or in units of y.
    mean_scale, spread : float
        Prior sd of the states' means, and prior guess s of the sd within a state, for normal emissions.
    degrees_of_freedom, rate_shape : float
        Twice the shape of the inverse Gamma prior of normal variances; shape of the Gamma prior of Poisson rates.
    categories : int or None
        Number of categories, where some may not have been seen; otherwise all from 0 to the largest have to be there.
    category_concentration : float
        As many emissions of each category in each state as the prior is worth.
    """
    series, categories = _read(data, states, emissions, categories)
    with pm.Model(coords=_coords(data, series, states, categories)) as model:
        transition = _transition(series, states, concentration, persistence)
        first = _initial(initial, transition, concentration, series.labels[series.step == 0], states)
        chain = _chain(first, transition, series)
        emission, parameters = _emissions(
            series, states, emissions, categories, standardise=standardise, mean_scale=mean_scale, spread=spread,
            nu=degrees_of_freedom, shape=rate_shape, concentration=category_concentration,
        )  # fmt: skip
        _observe(series, chain, emission, parameters)
    return model


@dataclass(frozen=True)
class _Series:
    """The rows, the sequence of each and its place there from 0, and a state for each to start from."""

    y: np.ndarray
    seen: np.ndarray
    names: Any
    sequence: np.ndarray
    step: np.ndarray
    labels: np.ndarray

    def of_rows(self, chain: Any, rows: Any = slice(None)) -> Any:
        """The states at some rows; the chain has dims (row,) for one sequence and (sequence, step) for several."""
        return chain[rows] if len(self.names) == 1 else chain[self.sequence[rows], self.step[rows]]


def _read(data: xr.Dataset, states: int, emissions: str, categories: int | None) -> tuple[_Series, int | None]:
    """The series of a table, and the number of categories of categorical emissions; refused where it has no model."""
    y, column = data["y"].to_numpy(), column_name(data["y"])
    seen = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(y.size, dtype=bool)
    if states > seen.sum():
        raise OptionError(f"option states is {states}; it can be at most the number of observations, {seen.sum()}")
    if emissions != "normal":
        y = check_values(y, "count", column, missing=True)
    if emissions == "categorical":
        categories = _categories(y[seen], column, categories)
    elif categories is not None:
        raise OptionError(f"option categories is {categories} but has no effect here; set emissions=categorical too")
    names, sequence = np.array([0]), np.zeros(y.size, dtype=np.int64)
    if "sequence" in data:
        names, sequence = np.unique(data["sequence"].to_numpy(), return_inverse=True)
    step = _steps(sequence)
    if step.max() == 0:
        raise DataError("no sequence has two rows, so that no transition was seen; a mixture is the model of such data")
    return _Series(y, seen, names, sequence, step, _groups(y, seen, states, categories)), categories


def _coords(data: xr.Dataset, series: _Series, states: int, categories: int | None) -> dict[str, Any]:
    state = np.arange(1, states + 1)
    coords: dict[str, Any] = {"row": np.arange(series.y.size), **row_coords(data), "state": state, "next_state": state}
    if len(series.names) > 1:
        coords |= {"sequence": series.names, "step": np.arange(series.step.max() + 1)}
    if categories is not None:
        coords["category"] = np.arange(categories)
    return coords


def _categories(y: np.ndarray, column: str, declared: int | None) -> int:
    """How many categories there are; every one was seen, or there were declared to be more."""
    count = int(y.max()) + 1
    if declared is not None:
        if count > declared:
            raise DataError(
                f"column {column!r} has the category {count - 1}, but option categories is {declared}: they are "
                f"numbered from 0; set categories={count}, or correct the column"
            )
        return declared
    absent = np.setdiff1d(np.arange(max(count, 2)), y)
    if absent.size:
        raise DataError(
            f"column {column!r} never has the category {absent[0]}, of 0 to {max(count, 2) - 1}; number the categories "
            f"from 0 without gaps, or set categories={max(count, 2)} to say that it is one"
        )
    return count


def _steps(sequence: np.ndarray) -> np.ndarray:
    """The place of each row in its sequence, from 0."""
    order = np.argsort(sequence, kind="stable")
    begins = np.searchsorted(sequence[order], sequence[order])
    place = np.empty(sequence.size, dtype=np.int64)
    place[order] = np.arange(sequence.size) - begins
    return place


def _pairs(sequence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that follow another of their sequence, and those before them."""
    order = np.argsort(sequence, kind="stable")
    inside = sequence[order[1:]] == sequence[order[:-1]]
    return order[1:][inside], order[:-1][inside]


def _groups(y: np.ndarray, seen: np.ndarray, states: int, categories: int | None) -> np.ndarray:
    """A state for each row to start from; a missing one has that of the last observation before it."""
    if categories is None:
        labels = group_rows(y[seen].astype(float)[:, None], states)
    else:
        labels = group_steps(y[seen].astype(np.int64), categories, states)
    last = np.maximum.accumulate(np.where(seen, np.cumsum(seen) - 1, 0))
    return labels[last]


def _transition(series: _Series, states: int, concentration: float, persistence: float) -> Any:
    """The transition matrix, which starts at the shares of the transitions between the starting states."""
    prior = np.full((states, states), concentration) + persistence * np.eye(states)
    follows, before = _pairs(series.sequence)
    start = np.ones((states, states))
    np.add.at(start, (series.labels[before], series.labels[follows]), 1.0)
    start /= start.sum(axis=1, keepdims=True)
    return pm.Dirichlet("transition", prior, dims=("state", "next_state"), initval=start)


def _initial(kind: str, transition: Any, concentration: float, first: np.ndarray, states: int) -> Any:
    if kind == "uniform":
        return np.full(states, 1 / states)
    if kind == "dirichlet":
        start = (np.bincount(first, minlength=states) + 1.0) / (len(first) + states)
        return pm.Dirichlet("initial", np.full(states, concentration), dims="state", initval=start)
    # π (I − A + 1 1ᵀ) = 1ᵀ: the rows of I − A add up to nothing, and π to one.
    system = np.eye(states) - transition + np.ones((states, states))
    return pm.Deterministic("initial", pt.linalg.solve(system.T, np.ones(states)), dims="state")


def _chain(first: Any, transition: Any, series: _Series) -> Any:
    """The states, with dims (row,) for one sequence or (sequence, step); padded at the end with the last state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pymc_extras.distributions.timeseries import DiscreteMarkovChain

    sequences, steps = len(series.names), int(series.step.max()) + 1
    start = np.zeros((sequences, steps), dtype=np.int64)
    start[series.sequence, series.step] = series.labels
    if sequences == 1:
        dist = pm.Categorical.dist(p=first)
        return DiscreteMarkovChain("z", P=transition, init_dist=dist, dims="row", steps=steps - 1, initval=start[0])
    dist = pm.Categorical.dist(p=first, shape=(sequences,))
    return DiscreteMarkovChain(
        "z", P=transition, init_dist=dist, dims=("sequence", "step"), shape=(sequences, steps), initval=start
    )


def _emissions(
    series: _Series, states: int, kind: str, categories: int | None, *,
    standardise: bool, mean_scale: float, spread: float, nu: float, shape: float, concentration: float,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The distribution of an observation, and its parameters in each state."""
    values, group = series.y[series.seen], series.labels[series.seen]
    size = np.bincount(group, minlength=states)
    if kind == "categorical":
        count = np.zeros((states, categories or 0))
        np.add.at(count, (group, values.astype(np.int64)), 1.0)
        start = (count + 1.0) / (count + 1.0).sum(axis=1, keepdims=True)
        prior = np.full((states, categories or 0), concentration)
        return pm.Categorical, [pm.Dirichlet("probability", prior, dims=("state", "category"), initval=start)]
    total = np.bincount(group, values, states)
    if kind == "poisson":
        rate = max(float(np.mean(values)), 1e-3) if standardise else 1.0
        start = (total + shape) / (size + shape / rate)
        return pm.Poisson, [pm.Gamma("rate", shape, shape / rate, dims="state", initval=start)]
    centre, unit = (float(v[0]) for v in location_and_scale(values[:, None])) if standardise else (0.0, 1.0)
    start = total / size
    squares = np.bincount(group, (values - start[group]) ** 2, states)
    mean = pm.Normal("mean", centre, mean_scale * unit, dims="state", initval=start)
    guess = nu * (spread * unit) ** 2
    variance = pm.InverseGamma("variance", nu / 2, guess / 2, dims="state", initval=(squares + guess) / (size + nu))
    return pm.Normal, [mean, pt.sqrt(variance)]


def _observe(series: _Series, chain: Any, emission: Any, parameters: list[Any]) -> None:
    """What each state emits; rows without an observation are predicted, as a variable of their own."""
    y, seen = series.y, series.seen
    if seen.all():
        emission("y", *[p[series.of_rows(chain)] for p in parameters], observed=y, dims="row")
        return
    model = pm.modelcontext(None)
    for name, dim, present in (("y", "observed_row", seen), ("y_unobserved", "missing_row", ~seen)):
        rows = np.flatnonzero(present)
        model.add_coord(dim, np.asarray(model.coords["row"])[rows])
        z = series.of_rows(chain, rows)
        emission(name, *[p[z] for p in parameters], observed=y[rows] if name == "y" else None, dims=dim)
