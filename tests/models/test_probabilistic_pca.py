"""Probabilistic PCA and factor analysis: start, prior, collapsed density with missing entries, maximum, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from pymc.distributions.shape_utils import change_dist_size
from pytensor.graph.replace import vectorize_graph
from scipy import linalg, optimize, stats
from sklearn.decomposition import PCA, FactorAnalysis

import bayeskit as bk
from bayeskit.catalogue.starts import fit_factors
from bayeskit.datasets import Variable, example_data, prepare
from bayeskit.elimination.collapsed_model import collapse
from bayeskit.elimination.plan import analyse
from bayeskit.errors import DataError, OptionError
from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.models import load_model

MODULE = load_model("probabilistic_pca")


def build(y: np.ndarray, **options: Any) -> pm.Model:
    return MODULE.build(xr.Dataset({"y": (("row", "column"), np.asarray(y, dtype=float))}), **options)


def simulated(rows: int, columns: int = 5, components: int = 2, *, missing: float = 0.0, seed: int = 0) -> np.ndarray:
    """Rows of a factor model with unequal noise; some entries missing at random."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(columns, components))
    noise = rng.uniform(0.4, 0.9, size=columns)
    y = 3 + rng.normal(size=(rows, components)) @ loadings.T + noise * rng.normal(size=(rows, columns))
    return np.where(rng.uniform(size=y.shape) < missing, np.nan, y)


def loadings_of(model: pm.Model, point: dict[str, np.ndarray]) -> np.ndarray:
    free = [model[n] for n in ("diagonal_square", "below")]
    return compile_small(free, model["loadings"])(*[point[str(v.name)] for v in free])


def start_of(model: pm.Model) -> dict[str, np.ndarray]:
    return {str(rv.name): np.asarray(v) for rv, v in model.rvs_to_initial_values.items() if v is not None}


def covariance_of(model: pm.Model, point: dict[str, np.ndarray]) -> np.ndarray:
    loadings = loadings_of(model, point)
    return loadings @ loadings.T + np.diag(np.broadcast_to(point["sigma"] ** 2, len(loadings)))


def log_likelihood(y: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Of the observed entries, row by row."""
    total = 0.0
    for row in y:
        seen = ~np.isnan(row)
        if seen.any():
            total += stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen])
    return total


def standard(y: np.ndarray) -> np.ndarray:
    return (y - np.nanmean(y, axis=0)) / np.nanstd(y, axis=0)


# --- the start --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("components", [1, 2, 3])
def test_complete_data_start_at_the_closed_form_of_tipping_and_bishop(components: int) -> None:
    y = standard(simulated(60))
    model = build(y, components=components)
    values, vectors = np.linalg.eigh(y.T @ y / len(y))
    noise = values[:-components].mean()
    spread = vectors[:, -components:] * (values[-components:] - noise) @ vectors[:, -components:].T
    found = covariance_of(model, start_of(model))
    assert found == pytest.approx(spread + noise * np.eye(5), abs=1e-8)
    # scikit-learn divides by n - 1, the maximum of the likelihood by n.
    assert found == pytest.approx(PCA(components).fit(y).get_covariance() * 59 / 60, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "shared"), [(0.0, True), (0.0, False), (0.2, True), (0.2, False)])
def test_the_likelihood_is_no_higher_near_the_start(missing: float, shared: bool) -> None:
    y = standard(simulated(80, missing=missing))
    loadings, noise = fit_factors(y, 2, shared=shared)
    assert np.ptp(noise) == pytest.approx(0.0) if shared else np.ptp(noise) > 0.05

    def at(loadings: np.ndarray, noise: np.ndarray) -> float:
        """The likelihood with the mean at its own maximum, which is linear in the observed entries."""
        covariance = loadings @ loadings.T + np.diag(noise**2)
        precision, right = np.zeros((5, 5)), np.zeros(5)
        for row in y:
            seen = ~np.isnan(row)
            inverse = np.linalg.inv(covariance[np.ix_(seen, seen)])
            precision[np.ix_(seen, seen)] += inverse
            right[seen] += inverse @ row[seen]
        return log_likelihood(y, np.linalg.solve(precision, right), covariance)

    best, rng = at(loadings, noise), np.random.default_rng(3)
    for size in (0.3, 0.1, 0.03):
        for _ in range(6):
            factor = np.exp(size * rng.normal(size=1 if shared else 5))
            # EM over missing entries stops short of the maximum by less than this.
            assert at(loadings + size * rng.normal(size=loadings.shape), noise * factor) <= best + 1e-3


def test_factor_analysis_starts_at_the_maximum_of_scikit_learn() -> None:
    y = standard(simulated(200, columns=7, seed=1))
    model = build(y, components=2, noise="each")
    reference = FactorAnalysis(2, tol=1e-7, max_iter=10_000, svd_method="lapack").fit(y)
    found = covariance_of(model, start_of(model))
    assert found == pytest.approx(reference.get_covariance(), abs=1e-4)
    assert log_likelihood(y, np.zeros(7), found) >= 200 * reference.score(y) - 1e-6


def test_start_of_columns_that_are_constant_or_missing() -> None:
    y = simulated(30)
    y[:, 1] = 2.0
    for shared in (True, False):
        loadings, noise = fit_factors(y - 2, 2, shared=shared)
        assert np.isfinite(loadings).all()
        assert (noise > 0).all()
    y[:, 1] = np.nan
    loadings, noise = fit_factors(y, 2, shared=False)
    assert loadings[1] == pytest.approx(0.0)
    assert noise[1] == pytest.approx(1.0)


# --- the prior --------------------------------------------------------------------------------------------------------


def test_the_prior_of_the_loadings_is_that_of_independent_normal_entries() -> None:
    """E W Wᵀ and the variance of its entries, which no choice of the triangular rows may change."""
    model = build(simulated(20), components=3, loading_scale=0.5)
    many = {rv: change_dist_size(rv, (20_000,), expand=True) for rv in (model["below"], model["diagonal_square"])}
    prior = pm.draw(vectorize_graph(model["loadings"], many), random_seed=1, mode=small_mode())
    assert prior.shape == (20_000, 5, 3)
    product = prior @ prior.transpose(0, 2, 1) / 0.25
    assert product.mean(axis=0) == pytest.approx(3 * np.eye(5), abs=0.1)
    # For independent entries: 2K on the diagonal, K elsewhere.
    assert product.var(axis=0) == pytest.approx(3 * np.eye(5) + 3, abs=0.4)


# --- the collapsed density --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "rows", "missing"),
    [
        ({}, 9, 0.0),
        ({}, 60, 0.1),
        ({"noise": "each"}, 9, 0.3),
        ({"noise": "each"}, 60, 0.0),
        ({"standardise": False}, 9, 0.3),
        ({"relevance": True}, 60, 0.0),
    ],
)
def test_collapsed_density_against_the_covariance_of_the_observed_entries(
    options: dict[str, Any], rows: int, missing: float
) -> None:
    columns, components = 4, 2
    y = 10 * simulated(rows, columns, missing=missing)
    if missing:
        y[4] = np.nan
    model = build(y, components=components, mean_scale=3.0, noise_scale=2.0, loading_scale=1.3, **options)
    analysis = analyse(model)
    assert {"mu", "z"}.isdisjoint(analysis.plan.remaining)
    space = Unconstrained(collapse(analysis))
    point = np.random.default_rng(5).normal(size=space.size) * 0.4
    values = {n: v[0] for n, v in space.backward(point).items()}
    relevance, noise = "relevance" in options, np.broadcast_to(values["sigma"], columns)
    shift, unit = np.zeros(columns), np.ones(columns)
    if options.get("standardise", True):
        shift, unit = np.nanmean(y, axis=0), np.nanstd(y, axis=0)
    loadings = loadings_of(model, values)
    # The table as one long vector, row by row: the rows share the means.
    covariance = np.kron(np.eye(rows), loadings @ loadings.T + np.diag(noise**2))
    covariance += np.kron(np.ones((rows, rows)), 9.0 * np.eye(columns))
    units = np.tile(unit, rows)
    seen = ~np.isnan(y.ravel())
    covariance = (covariance * np.outer(units, units))[np.ix_(seen, seen)]
    expected = stats.multivariate_normal(np.tile(shift, rows)[seen], covariance).logpdf(y.ravel()[seen])
    scale = values["scale"] if relevance else np.full(components, 1.3)
    lower = np.tril_indices(columns, -1, components)
    expected += stats.norm(scale=scale[lower[1]]).logpdf(values["below"]).sum()
    square = values["diagonal_square"]
    expected += stats.gamma([1.0, 0.5], scale=2 * scale**2).logpdf(square).sum() + np.log(square).sum()
    expected += np.sum(stats.halfnorm(scale=2).logpdf(values["sigma"]) + np.log(values["sigma"]))
    if relevance:
        expected += np.sum(stats.halfcauchy(scale=1.3).logpdf(scale) + np.log(scale))
    assert space.log_density(point)[0] == pytest.approx(expected, rel=1e-9)


def mode_of(model: pm.Model) -> dict[str, np.ndarray]:
    """The highest point of the collapsed density on the unconstrained scale, from a start that is not the solution."""
    space = Unconstrained(bk.collapse(model))
    away = space.start + np.random.default_rng(7).normal(size=space.size) * 0.3
    found = optimize.minimize(lambda x: [-part for part in space.value_and_gradient(x)], away, jac=True)
    return {n: v[0] for n, v in space.backward(found.x).items()}


# --- the maximum ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_subspace_approaches_that_of_the_closed_form_as_rows_are_added() -> None:
    angles = []
    for rows in (20, 700):
        y = simulated(rows, columns=4)
        y -= y.mean(axis=0)
        model = build(y, components=2, standardise=False)
        principal = np.linalg.eigh(y.T @ y)[1][:, -2:]
        angles.append(float(linalg.subspace_angles(loadings_of(model, mode_of(model)), principal).max()))
    assert angles[0] > 2 * angles[1]
    assert angles[1] < 0.01


@pytest.mark.slow
def test_factor_analysis_at_its_mode_has_the_covariance_of_scikit_learn() -> None:
    y = simulated(80, columns=4)
    y -= y.mean(axis=0)
    model = build(y, components=1, noise="each", standardise=False, loading_scale=100, noise_scale=100)
    reference = FactorAnalysis(1, tol=1e-7, max_iter=10_000, svd_method="lapack").fit(y)
    assert covariance_of(model, mode_of(model)) == pytest.approx(reference.get_covariance(), rel=0.05, abs=0.03)


# --- the posterior with missing entries -------------------------------------------------------------------------------


@pytest.mark.slow
def test_missing_entries_are_predicted_in_units_of_the_data() -> None:
    """The conditional mean of each missing entry given its row, at loadings that the data determine well."""
    y = 100 + 10 * simulated(40, columns=4, components=1)
    y[0, 1] = y[7] = y[9, 2:] = np.nan
    model = build(y, components=1)
    labels = ["0, 1", *(f"7, {p}" for p in range(4)), "9, 2", "9, 3"]
    assert list(model.coords["missing_entry"]) == labels
    assert model["y"].eval(mode=small_mode()).shape == (np.isfinite(y).sum(),)
    point = start_of(model)
    at = {
        n: (("chain", "draw", *(f"{n}_{k}" for k in range(v.ndim))), np.tile(v, (1, 1500, *(1,) * v.ndim)))
        for n, v in point.items()
    }
    drawn = bk.recover(model, xr.Dataset(at), random_seed=1)["posterior"]["y_unobserved"][0].to_numpy()
    unit, shift = np.nanstd(y, axis=0), np.nanmean(y, axis=0)
    covariance = covariance_of(model, point) * np.outer(unit, unit)
    expected = []
    for n, p in np.argwhere(np.isnan(y)):
        seen = ~np.isnan(y[n])
        weights = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, p])
        expected.append(shift[p] + weights @ (y[n] - shift)[seen])
    assert drawn.mean(axis=0) == pytest.approx(expected, abs=1.5)
    assert drawn.std(axis=0)[1:5] == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.1)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_too_many_components_are_refused() -> None:
    with pytest.raises(OptionError, match="components is 7; it must be below the number of columns, 7"):
        MODULE.build(example_data(MODULE.EXAMPLE, MODULE.VARIABLES), components=7)


def test_a_column_without_entries_has_no_sd_but_can_be_left_as_it_is() -> None:
    y = simulated(6)
    y[:, 2] = np.nan
    with pytest.raises(DataError, match="column '2' is missing throughout and has no sd to standardise it by"):
        build(y)
    space = Unconstrained(bk.collapse(build(y, standardise=False)))
    assert np.isfinite(space.log_density(space.start)[0])


def test_data_that_say_nothing_are_refused() -> None:
    with pytest.raises(DataError, match="every entry of 'y' is missing"):
        build(np.full((3, 4), np.nan))
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["3", "?"]})
    with pytest.raises(DataError, match=r"column 'b', row 2: '\?' is not a number"):
        prepare(table, MODULE.VARIABLES, {"y": ("a", "b")})
    with pytest.raises(DataError, match="column 'b', row 2: inf is infinite"):
        prepare(table.assign(b=[1.0, np.inf]), MODULE.VARIABLES, {"y": ("a", "b")})


@pytest.mark.parametrize("kind", ["real", "positive", "count"])
def test_variables_say_whether_entries_may_be_missing(kind: Any) -> None:
    table = pd.DataFrame({"y": [1, None, 3]})
    read = prepare(table, {"y": Variable(kind=kind, missing=True)})["y"]
    np.testing.assert_array_equal(read, [1.0, np.nan, 3.0])
    with pytest.raises(DataError, match="column 'y', row 2: the value is missing"):
        prepare(table, {"y": Variable(kind=kind)})
    with pytest.raises(DataError, match="every entry of 'y' is missing; the model needs at least one"):
        prepare(table.assign(y=np.nan), {"y": Variable(kind=kind, missing=True)})
