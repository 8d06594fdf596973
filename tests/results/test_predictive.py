"""Prediction at new data against the exact predictive distribution, in standard errors of independent draws."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from scipy import stats

import bayeskit as bk
from bayeskit.errors import DataError
from bayeskit.model import forward_sampling
from bayeskit.results.predicted_together import predicted_together
from bayeskit.results.predictive import ensure_posterior_predictive, predict

DRAWS = 4000
RNG = np.random.default_rng(7)
X = np.column_stack([np.ones(15), RNG.normal(size=15)])
Y = X @ np.array([1.0, -0.7]) + 0.5 * RNG.normal(size=15)
X_NEW = np.array([[1.0, -2.0], [1.0, 0.0], [1.0, 4.0]])


def regression(noise: float = 0.5) -> pm.Model:
    with pm.Model(coords={"feature": ["one", "x"], "row": np.arange(15)}) as model:
        x = pm.Data("x", X, dims=("row", "feature"))
        w = pm.Normal("w", 0.0, 3.0, dims="feature")
        line = pm.Deterministic("line", x @ w, dims="row")
        pm.Normal("y", line, noise, observed=Y, dims="row")
    return model


def regression_posterior(noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    cov = np.linalg.inv(X.T @ X / noise**2 + np.eye(2) / 9.0)
    return cov @ X.T @ Y / noise**2, cov


def flat(draws: np.ndarray) -> np.ndarray:
    return draws.reshape(-1, *draws.shape[2:])


def assert_moments(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
    """Mean and variance within five standard errors; that of the variance is taken from the draws."""
    error = np.sqrt(variance / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * error)
    squares = (draws - mean) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - variance) < 5 * squares.std(axis=0) / math.sqrt(len(draws)))


def assert_uniform(u: np.ndarray) -> None:
    """Mean 1/2 with variance 1/12, and mean square of 2u − 1 equal to 1/3 with variance 4/45."""
    assert np.all(np.abs(u.mean(axis=0) - 0.5) < 5 * math.sqrt(1 / 12 / len(u)))
    assert np.all(np.abs(((2 * u - 1) ** 2).mean(axis=0) - 1 / 3) < 5 * math.sqrt(4 / 45 / len(u)))


@pytest.fixture(scope="module")
def fitted() -> bk.Posterior:
    return bk.infer(regression(), draws=DRAWS, random_seed=3, progressbar=False)


def test_regression_at_new_rows(fitted: bk.Posterior) -> None:
    new = fitted.predict({"x": X_NEW}, coords={"row": [100, 101, 102]}, random_seed=4)
    assert new["y"].dims == ("chain", "draw", "row")
    assert list(new.coords["row"].to_numpy()) == [100, 101, 102]
    mean, cov = regression_posterior()
    spread = np.einsum("ij,jk,ik->i", X_NEW, cov, X_NEW) + 0.25
    assert_moments(flat(new["y"].to_numpy()), X_NEW @ mean, spread)


def test_a_deterministic_at_new_rows(fitted: bk.Posterior) -> None:
    new = fitted.predict({"x": X_NEW}, coords={"row": [0, 1, 2]}, var_names=["line"], random_seed=4)
    assert set(new.data_vars) == {"line"}
    w = fitted.tree["posterior"]["w"].to_numpy()
    np.testing.assert_allclose(new["line"].to_numpy(), w @ X_NEW.T, rtol=1e-12, atol=1e-12)


def test_the_same_number_of_rows_needs_no_coords(fitted: bk.Posterior) -> None:
    shifted = X + np.array([0.0, 1.0])
    new = fitted.predict({"x": shifted}, random_seed=4)
    mean, cov = regression_posterior()
    spread = np.einsum("ij,jk,ik->i", shifted, cov, shifted) + 0.25
    assert_moments(flat(new["y"].to_numpy()), shifted @ mean, spread)


def test_the_model_is_left_as_it_was(fitted: bk.Posterior) -> None:
    fitted.predict({"x": X_NEW}, coords={"row": [0, 1, 2]}, random_seed=4)
    model = fitted.model
    assert np.array_equal(model["x"].get_value(), X)
    assert list(model.coords["row"]) == list(range(15))
    assert fitted.tree["posterior"].sizes["row"] == 15
    again = bk.infer(model, draws=40, random_seed=3, progressbar=False)
    assert again.log_evidence.value == fitted.log_evidence.value


def test_the_same_seed_gives_the_same_prediction(fitted: bk.Posterior) -> None:
    first, second, other = (
        fitted.predict({"x": X_NEW}, coords={"row": [0, 1, 2]}, random_seed=seed)["y"].to_numpy() for seed in (4, 4, 5)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_the_posterior_predictive_of_the_data(fitted: bk.Posterior) -> None:
    mean, cov = regression_posterior()
    spread = np.einsum("ij,jk,ik->i", X, cov, X) + 0.25
    assert_moments(flat(fitted.posterior_predictive(random_seed=5)["y"].to_numpy()), X @ mean, spread)
    assert "posterior_predictive" in fitted.tree


def test_the_prior_predictive_of_the_data(fitted: bk.Posterior) -> None:
    drawn = fitted.prior_predictive(draws=2000, random_seed=5)["y"].to_numpy()
    spread = np.einsum("ij,ij->i", X, X) * 9.0 + 0.25
    assert_moments(flat(drawn), np.zeros(15), spread)


def test_normal_inverse_gamma_predicts_student_t() -> None:
    with pm.Model() as model:
        x = pm.Data("x", X)
        v = pm.InverseGamma("v", 3.0, 2.0)
        w = pm.Normal("w", 0.0, 3 * pt.sqrt(v), shape=2)
        pm.Normal("y", x @ w, pt.sqrt(v), observed=Y, shape=x.shape[0])
    post = bk.infer(model, draws=DRAWS, random_seed=3, progressbar=False)
    new = flat(post.predict({"x": X_NEW}, random_seed=4)["y"].to_numpy())
    precision = X.T @ X + np.eye(2) / 9.0
    mean = np.linalg.solve(precision, X.T @ Y)
    a, b = 3.0 + len(Y) / 2, 2.0 + (Y @ Y - mean @ precision @ mean) / 2
    scale = np.sqrt(b / a * (1 + np.einsum("ij,jk,ik->i", X_NEW, np.linalg.inv(precision), X_NEW)))
    assert_uniform(stats.t(df=2 * a, loc=X_NEW @ mean, scale=scale).cdf(new))


def test_beta_binomial_at_another_number_of_trials() -> None:
    with pm.Model() as model:
        trials = pm.Data("trials", np.array([5, 9, 3]))
        pm.Binomial("y", n=trials, p=pm.Beta("p", 2.0, 3.0), observed=[2, 3, 3])
    post = bk.infer(model, draws=DRAWS, random_seed=3, progressbar=False)
    new = flat(post.predict({"trials": np.array([10, 100, 1])}, random_seed=4)["y"].to_numpy())
    exact = stats.betabinom(np.array([10, 100, 1]), 2 + 8, 3 + 9)
    assert_moments(new.astype(float), exact.mean(), exact.var())


def test_gamma_poisson_at_another_exposure() -> None:
    with pm.Model(coords={"site": ["a", "b"]}) as model:
        exposure = pm.Data("exposure", np.array([1.0, 2.0]), dims="site")
        rate = pm.Gamma("rate", 2.0, 1.0, dims="site")
        pm.Poisson("y", rate * exposure, observed=[3, 8], dims="site")
    post = bk.infer(model, draws=DRAWS, random_seed=3, progressbar=False)
    new = post.predict({"exposure": np.array([10.0, 0.5])}, random_seed=4)["y"]
    assert list(new.coords["site"].to_numpy()) == ["a", "b"]
    shape, rate_n = np.array([5.0, 10.0]), np.array([2.0, 3.0])
    exact = stats.nbinom(shape, rate_n / (rate_n + np.array([10.0, 0.5])))
    assert_moments(flat(new.to_numpy()).astype(float), exact.mean(), exact.var())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.predict({"z": X_NEW}), "'z'"),
        (lambda p: p.predict({"w": np.zeros(2)}), "'w'"),
        (lambda p: p.predict({"x": np.ones((3, 5))}, coords={"row": [0, 1, 2]}), "x"),
        (lambda p: p.predict({"x": np.ones(3)}), "x"),
        (lambda p: p.predict({"x": X_NEW}, var_names=["nothing"], coords={"row": [0, 1, 2]}), "nothing"),
        (lambda p: p.predict({"x": [["a", "b"]]}, coords={"row": [0]}), "x"),
    ],
    ids=["unknown name", "a random variable", "wrong width", "wrong rank", "unknown variable", "text"],
)
def test_wrong_new_data_are_refused(fitted: bk.Posterior, call: Callable[[bk.Posterior], object], words: str) -> None:
    with pytest.raises(bk.BayeskitError) as error:
        call(fitted)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert np.array_equal(fitted.model["x"].get_value(), X)


def with_missing_entries(kind: str) -> tuple[pm.Model, np.ndarray]:
    """A line in x, values of which are missing; and the variance of a new value, given the line."""
    x, missing = X[:, 1], np.arange(15) < 3
    with warnings.catch_warnings(), pm.Model() as model:
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        line = pm.Normal("a", 0.0, 3.0) + pm.Normal("b", 0.0, 3.0) * pm.Data("x", x)
        if kind == "response":
            pm.Normal("y", line, 0.5, observed=np.ma.masked_array(Y, missing))
        elif kind == "pairs":
            both, gone = np.column_stack([Y, Y]), np.column_stack([missing, ~missing & (np.arange(15) < 5)])
            covariance = 0.25 * np.array([[1.0, 0.6], [0.6, 1.0]])
            pm.MvNormal("y", pt.stack([line, line], axis=1), covariance, observed=np.ma.masked_array(both, gone))
        else:
            z = pm.Normal("z", line, 0.5, observed=np.ma.masked_array(Y, missing))
            pm.Normal("y", 2.0 * z, 0.1, observed=2.0 * Y)
    return model, np.full(15, 4.0 * 0.25 + 0.01 if kind == "covariate" else 0.25)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["response", "pairs", "covariate"])
def test_missing_entries_are_drawn_anew_at_new_data(kind: str) -> None:
    """Given the line of each draw, y is Normal about it at the new x, whether its old value was missing or not."""
    model, variance = with_missing_entries(kind)
    post = bk.infer(model, draws=1000, random_seed=3, progressbar=False)
    new = post.predict({"x": X[:, 1] + 50.0}, random_seed=4)
    a, b = (post.tree["posterior"][n].to_numpy().ravel()[:, None] for n in "ab")
    line = (a + b * (X[:, 1] + 50.0)) * (2.0 if kind == "covariate" else 1.0)
    drawn = flat(new["y"].to_numpy())
    residuals = (drawn if kind != "pairs" else drawn[..., 0]) - line
    assert_moments(residuals, np.zeros(15), variance)
    kept = post.predict(var_names=["y"], random_seed=4)["y"]
    assert kept.shape == new["y"].shape


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["counts", "ones", "response", "covariate"])
def test_without_new_data_masked_data_are_predicted_as_they_were_observed(kind: str) -> None:
    if kind in ("response", "covariate"):
        model = with_missing_entries(kind)[0]
    else:
        masked = np.ma.masked_array([1, 0, 1, 0], [False, True, False, True])
        with warnings.catch_warnings(), pm.Model() as model:
            warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
            if kind == "counts":
                pm.Poisson("y", pm.Gamma("r", 2.0, 1.0), observed=masked)
            else:
                pm.Bernoulli("y", pm.Beta("r", 2.0, 1.0), observed=masked)
    post = bk.infer(model, draws=400, random_seed=3, progressbar=False)
    drawn = post.predict(random_seed=4)
    assert {str(rv.name) for rv in model.observed_RVs} <= set(drawn.data_vars) and "y" in drawn
    assert not any(str(name).endswith("_unobserved") for name in drawn.data_vars)
    assert drawn.equals(post.posterior_predictive(random_seed=4))


def test_a_leaf_is_predicted_at_new_data_and_where_it_is_named() -> None:
    with pm.Model() as model:
        a, x = pm.Normal("a", 0.0, 1.0), pm.Data("x", np.zeros(3))
        pm.StudentT("next", 3.0, mu=a, sigma=1.0)
        pm.Normal("y", a + x, 1.0, observed=np.ones(3), shape=x.shape)
    post = bk.infer(model, draws=400, random_seed=3, progressbar=False)
    assert set(post.predict(random_seed=4).data_vars) == {"y"}
    assert set(post.predict({"x": np.zeros(2)}, random_seed=4).data_vars) == {"y", "next"}
    assert set(post.predict(var_names=["next"], random_seed=4).data_vars) == {"next"}


def groups(start: int, index: Callable[[pt.TensorVariable, pt.TensorVariable], pt.TensorVariable]) -> bk.Posterior:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0, shape=3)
        mean = index(mu, pm.Data("where", np.array([0, 0, 1, 1, 2, 2]) + start))
        pm.Normal("y", mean, 1.0, observed=np.arange(6.0), shape=mean.shape)
    return bk.infer(model, draws=40, random_seed=3, progressbar=False)


@pytest.mark.parametrize(
    ("start", "index"),
    [
        (0, lambda mu, where: mu[where]),
        (1, lambda mu, where: mu[where - 1]),
        (0, lambda mu, where: pt.take(mu, where)),
        (0, lambda mu, where: pt.stack([mu, mu])[:, where][1]),
        (0, lambda mu, where: mu[where[0]] + pt.zeros(where.shape)),
    ],
    ids=["codes", "codes from one", "take", "a column", "a scalar"],
)
def test_an_index_of_new_rows_starts_at_the_first(start: int, index: Callable[..., pt.TensorVariable]) -> None:
    post = groups(start, index)
    assert post.predict({"where": [start + 2, start]}, random_seed=1)["y"].sizes["y_dim_0"] == 2
    with pytest.raises(bk.BayeskitError, match="an index that follows from the new values of where is -1"):
        post.predict({"where": [start - 1, start]})
    with pytest.raises(bk.BayeskitError, match="not all whole numbers"):
        post.predict({"where": [start + 0.5, start]})
    with pytest.raises(bk.BayeskitError, match="do not fit the model"):
        post.predict({"where": [start + 3, start]})


def test_a_bound_of_a_slice_is_no_count_from_the_end() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0, shape=3)
        mean = pm.Deterministic("mean", mu[: pm.Data("last", np.array(2))].sum())
        pm.Normal("y", mean, 1.0, observed=1.0)
    post = bk.infer(model, draws=40, random_seed=3, progressbar=False)
    drawn = post.predict({"last": 3}, var_names=["mean"])["mean"]
    assert np.allclose(drawn, post.tree["posterior"]["mu"].sum("mu_dim_0"))
    with pytest.raises(bk.BayeskitError, match="an index that follows from the new values of last is -1"):
        post.predict({"last": -1}, var_names=["mean"])


def test_who_counts_from_the_end_may_go_on() -> None:
    post = groups(-1, lambda mu, where: mu[where])
    first, last = (post.tree["posterior"]["mu"].to_numpy()[..., k] for k in (0, 2))
    mean = post.predict({"where": [-1, 0]}, random_seed=1)["y"].mean(("chain", "draw"))
    assert abs(mean[0] - last.mean()) < 5 / math.sqrt(40)
    assert abs(mean[1] - first.mean()) < 5 / math.sqrt(40)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_new_data_are_finite(fitted: bk.Posterior, value: float) -> None:
    with pytest.raises(bk.BayeskitError, match="'x' are not all finite"):
        fitted.predict({"x": np.full((15, 2), value)})


PLACES, NEW = ["a", "b", "c"], ["u", "v"]


@pytest.fixture(scope="module")
def labelled() -> bk.Posterior:
    with pm.Model(coords={"row": PLACES, "feature": ["p", "q"]}) as model:
        x = pm.Data("x", np.arange(6.0).reshape(3, 2), dims=("row", "feature"))
        z = pm.Data("z", np.arange(3.0), dims="row")
        slope = pm.Normal("slope", dims="feature")
        pm.Normal("y", x @ slope + z, 1.0, observed=np.arange(3.0), dims="row")
    return bk.infer(model, draws=100, random_seed=1, progressbar=False)


ROWS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("data", "labels"),
    [
        ({"x": ROWS, "z": pd.Series([1.0, 2.0], index=NEW)}, NEW),
        ({"x": pd.DataFrame(ROWS, index=NEW), "z": [1.0, 2.0]}, NEW),
        ({"x": pd.DataFrame(ROWS, index=NEW, columns=["p", "q"]), "z": pd.Series([1.0, 2.0], index=NEW)}, NEW),
        ({"x": ROWS, "z": xr.DataArray([1.0, 2.0], coords={"row": NEW})}, NEW),
        ({"x": xr.DataArray(ROWS.T, coords={"feature": ["p", "q"], "row": NEW}), "z": [1.0, 2.0]}, NEW),
        ({"x": ROWS, "z": pd.Series([1.0, 2.0])}, [0, 1]),
        ({"x": ROWS, "z": xr.DataArray([1.0, 2.0], dims="row")}, [0, 1]),
        ({"z": pd.Series([1.0, 2.0, 3.0], index=["u", "v", "w"])}, ["u", "v", "w"]),  # as many rows as before
        ({"z": [1.0, 2.0, 3.0]}, PLACES),
    ],
)
def test_labels_that_come_with_new_data_are_kept(labelled: bk.Posterior, data: Any, labels: list[Any]) -> None:
    found = labelled.predict(data, random_seed=1)["y"]
    assert found["row"].to_numpy().tolist() == labels
    # The numbers are those of the same data without labels.
    bare = {"x": ROWS, "z": [1.0, 2.0]} if "x" in data else {"z": [1.0, 2.0, 3.0]}
    np.testing.assert_allclose(found, labelled.predict(bare, random_seed=1)["y"], rtol=0, atol=1e-12)
    assert labelled.model.coords["row"] == tuple(PLACES)


def test_coords_that_are_given_come_first(labelled: bk.Posterior) -> None:
    data = {"x": pd.DataFrame(ROWS, index=NEW), "z": [1.0, 2.0]}
    found = labelled.predict(data, coords={"row": ["k", "l"]}, random_seed=1)["y"]
    assert found["row"].to_numpy().tolist() == ["k", "l"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": pd.DataFrame(ROWS, columns=["q", "p"]), "z": [1.0, 2.0]}, "'feature' in another order than p, q"),
        (
            {"x": xr.DataArray(ROWS, coords={"row": NEW, "feature": ["q", "p"]}), "z": [1.0, 2.0]},
            "another order than p, q",
        ),
        (
            {"x": pd.DataFrame(ROWS, index=NEW), "z": pd.Series([1.0, 2.0], index=["v", "u"])},
            "different labels along 'row'",
        ),
    ],
)
def test_labels_that_contradict_are_refused(labelled: bk.Posterior, data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        labelled.predict(data)


def test_a_length_that_is_fixed_is_told_with_its_mending() -> None:
    for dims in (None, "row"):
        with pm.Model(coords={"row": PLACES}) as model:
            x = pm.Data("x", np.arange(3.0), dims=dims)
            pm.Normal("y", pm.Normal("b") * x, 1.0, observed=np.arange(3.0), dims=dims)
        post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
        if dims:  # what the error advises
            assert post.predict({"x": [1.0, 2.0]})["y"].sizes["row"] == 2
            assert "note" not in post.predict({"x": [1.0]}).attrs
            continue
        assert post.predict({"x": [1.0]}).attrs["note"].startswith("one new row of x was given to all 3 entries of y")
        assert "note" not in post.predict({"x": [1.0, 2.0, 3.0]}).attrs
        with pytest.raises(DataError, match="y keeps the length that it was observed with: give it dims that x has"):
            post.predict({"x": [1.0, 2.0]})


def test_an_unknown_group_is_not_taken_for_another_number_of_rows() -> None:
    with pm.Model() as model:
        group = pm.Data("group", np.array([0, 1, 1]))
        pm.Normal("y", pm.Normal("b", shape=2)[group], 1.0, observed=np.arange(3.0))
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    with pytest.raises(DataError, match="of none that the model was fitted with"):
        post.predict({"group": [0, 2]})


@pytest.mark.slow
def test_series_are_drawn_for_all_draws_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """AR(2) with a constant: mean and covariance of each step follow from those before; the draws are independent."""
    coords = {"step": [f"t{k}" for k in range(8)]}
    with pm.Model(coords=coords) as model:
        rho = pm.Normal("rho", shape=3)
        start = pm.Normal.dist(1.0, 2.0)
        pm.AR("y", rho, pm.HalfNormal("sigma"), constant=True, init_dist=start, observed=np.zeros(8), dims="step")
    values, sd = np.array([0.4, 0.6, -0.3]), 0.7
    posterior = {"rho": np.broadcast_to(values, (4, 1000, 3)), "sigma": np.full((4, 1000), sd)}
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset(posterior)})
    made, make = [], forward_sampling._random_function
    monkeypatch.setattr(forward_sampling, "_random_function", lambda *a, **k: made.append(a[0]) or make(*a, **k))
    found = ensure_posterior_predictive(model, tree, random_seed=1)["y"]
    assert [[v.ndim for v in inputs] for inputs in made] == [[2, 1]]  # of rho and sigma, a dim of draws before theirs
    assert found.dims == ("chain", "draw", "step") and list(found["step"].to_numpy()) == coords["step"]
    # The first two are drawn by themselves: no step leads to the second.
    lag = values[1] * np.eye(8, k=-1) + values[2] * np.eye(8, k=-2)
    lag[:2] = 0.0
    step = np.linalg.inv(np.eye(8) - lag)
    mean = step @ np.r_[1.0, 1.0, np.full(6, values[0])]
    covariance = step @ np.diag(np.r_[4.0, 4.0, np.full(6, sd**2)]) @ step.T
    drawn = flat(found.to_numpy())
    assert_moments(drawn, mean, np.diag(covariance))
    scores = np.linalg.solve(np.linalg.cholesky(covariance), (drawn - mean).T)
    assert np.all(np.abs(np.corrcoef(scores) - np.eye(8)) < 5 / math.sqrt(len(drawn)))
    neighbours = np.mean(scores[:, 1:] * scores[:, :-1])  # of one draw and the next
    assert abs(neighbours) < 5 / math.sqrt(scores.size)
    fresh = xr.DataTree.from_dict({"posterior": dict_to_dataset(posterior)})
    again = ensure_posterior_predictive(model, fresh, random_seed=1)["y"]
    xr.testing.assert_identical(again, found)


def mixed() -> None:
    """Counts, categories, a multivariate and a censored normal under parameters that are drawn."""
    mu = pm.Normal("mu", 0, 1, shape=3)
    pm.Poisson("counts", pm.math.exp(mu), observed=[1, 2, 0])
    pm.Categorical("states", pm.math.softmax(mu), observed=[0, 2, 1, 1])
    pm.MvNormal("pairs", mu[:2], np.array([[1.0, 0.6], [0.6, 1.0]]), observed=np.zeros((4, 2)))
    pm.Censored("cut", pm.Normal.dist(mu[0], 1.0), lower=-0.5, upper=None, observed=[0.3, -0.5])


def one_after_the_other() -> None:
    """Its first observed variable depends on nothing that has draws, its second on the first."""
    first = pm.Normal("first", 0.0, 1.0, observed=[0.5, 1.0])
    pm.Normal("second", first + pm.Normal("mu", 0, 1), 0.5, observed=[0.1, 1.4])


def parts() -> None:
    """The component that an observation comes from is drawn inside of it, with shares that are known."""
    centers = pm.Normal("centers", [-4.0, 4.0], 1.0, shape=2)
    component = [pm.Normal.dist(centers[k], 0.5) for k in range(2)]
    pm.Mixture("y", [0.3, 0.7], component, observed=np.array([-4.0, 4.1, 3.9]))


@pytest.mark.slow
@pytest.mark.parametrize("body", [mixed, one_after_the_other, parts], ids=lambda body: body.__name__)
def test_draws_made_together_are_distributed_as_those_of_pymc(body: Callable[[], None]) -> None:
    """Means, spreads, and products of neighbours within a data set and from one to the next, in standard errors."""
    with pm.Model() as model:
        body()
    rng = np.random.default_rng(11)
    drawn = {str(rv.name): rng.normal([-4, 4] if rv.name == "centers" else 0.0, 1.0, (2, 400, *rv.shape.eval()))
             for rv in model.free_RVs}  # fmt: skip
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset(drawn)})
    together = predicted_together(model, tree, 1)
    assert together is not None
    apart = predict(model, tree, {}, random_seed=2)
    assert set(together.data_vars) == set(apart.data_vars)
    for name, values in apart.data_vars.items():
        assert together[name].dims == values.dims and together[name].dtype == values.dtype
        theirs, ours = (d.reshape(800, -1).astype(float) for d in (values.to_numpy(), together[name].to_numpy()))
        middle = theirs.mean(axis=0)
        for statistic in (
            lambda d: d,
            lambda d, middle=middle: (d - middle) ** 2,
            lambda d, middle=middle: (d - middle) * np.roll(d - middle, 1, axis=1),
            lambda d, middle=middle: (d - middle) * np.roll(d - middle, 1, axis=0),
        ):
            first, second = statistic(theirs), statistic(ours)
            error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 800)
            assert np.all(np.abs(first.mean(axis=0) - second.mean(axis=0)) < 5 * error + 1e-12)


def test_large_data_are_left_to_pymc() -> None:
    """Their draws together would be fifty times as many numbers for each operation of the graph."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=np.zeros(20_000))
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"mu": np.zeros((1, 3))})})
    assert predicted_together(model, tree, 1) is None
    assert ensure_posterior_predictive(model, tree, random_seed=1)["y"].shape == (1, 3, 20_000)


def test_entries_that_are_missing_are_left_to_pymc() -> None:
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=[0.3, np.nan, 0.9])
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    assert predicted_together(model, post.tree, 1) is None
    assert post.posterior_predictive(random_seed=1)["y"].shape == (*post.tree["posterior"]["mu"].shape, 3)


def test_a_process_at_new_places_is_said_to_have_no_past() -> None:
    x = np.linspace(0.0, 1.0, 12)
    with pm.Model() as model:
        places, factor = pm.Data("X", x[:, None]), pm.Data("factor", 2.0)
        process = pm.gp.Marginal(cov_func=pm.gp.cov.Matern32(1, 1.5), mean_func=pm.gp.mean.Constant(factor))
        process.marginal_likelihood("y", places, 5 + 0 * x, sigma=0.1)
    post = bk.infer(model, draws=40, random_seed=1, progressbar=False)
    assert "y at new X was drawn given the parameters alone" in post.predict({"X": [[0.5]]}).attrs["note"]
    for given in ({"X": x[:, None]}, {"factor": 3.0}):
        assert "note" not in post.predict(given).attrs


MATRIX = np.array([[1.0, 0.3], [0.3, 2.0]])


@pytest.mark.parametrize("kind", ["scale", "matrix", "errors"])
def test_what_is_no_process_has_no_note(kind: str) -> None:
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        if kind == "errors":
            pm.MvNormal("y", np.zeros(4), cov=pt.diag(pm.Data("e", np.ones(4)) ** 2), observed=rng.normal(size=4))
        else:
            held = pm.Data("e", MATRIX if kind == "matrix" else 1.5)
            covariance = held if kind == "matrix" else held * MATRIX
            pm.MvNormal("y", np.zeros(2), cov=covariance, observed=rng.normal(size=(6, 2)))
    post = bk.infer(model, draws=40, random_seed=1, progressbar=False)
    new = {"scale": 2.0, "matrix": 2 * MATRIX, "errors": np.full(4, 2.0)}[kind]
    assert "note" not in post.predict({"e": new}).attrs


@pytest.mark.parametrize("white", [False, True])
def test_values_of_a_process_are_not_those_at_other_places(white: bool) -> None:
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 10.0, 12))
    y, new = np.sin(x) + 0.3 * rng.normal(size=12), np.array([2.5, 5.0, 8.0])

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        distance = math.sqrt(3.0) * np.abs(a[:, None] - b) / 1.5
        return (1.0 + distance) * np.exp(-distance)

    with pm.Model() as model:
        places, others = pm.Data("X", x[:, None]), pm.Data("X_new", [[1.0], [2.0]])
        process = pm.gp.Latent(cov_func=pm.gp.cov.Matern32(1, 1.5))
        values = process.prior("f", X=places, reparameterize=white)
        pm.Normal("y", values, 0.3, observed=y)
        process.conditional("f_new", others)
    post = bk.infer(model, random_seed=1, progressbar=False)
    for given in (new[:, None], x[:, None] + 0.5):  # of another length, and of the same
        with pytest.raises(DataError, match=r"f was inferred with other values of X .* gp\.conditional"):
            post.predict({"X": given})
    assert post.predict({"X": x[:, None]}, random_seed=1).sizes["y_dim_0"] == 12
    drawn = post.predict({"X_new": new[:, None]}, var_names=["f_new"], random_seed=1)["f_new"].values.reshape(-1, 3)
    gain = np.linalg.solve(kernel(x, x) + 0.09 * np.eye(12), kernel(x, new)).T
    sd = np.sqrt(np.diag(kernel(new, new) - gain @ kernel(x, new)))
    assert np.all(np.abs(drawn.mean(axis=0) - gain @ y) < 5 * sd / math.sqrt(len(drawn)) + 1e-4)  # PyMC's jitter
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=5 / math.sqrt(2 * len(drawn)))
