"""Averages over models: moments against the conjugate algebra written here, draws against their shares, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import optimize, special, stats

import bayeskit as bk
from bayeskit.comparison.comparison import Comparison
from bayeskit.errors import DataError, ModelError, OptionError

X = np.linspace(-1.0, 1.0, 12)
Y = 0.4 + 0.7 * X + np.random.default_rng(3).normal(0.0, 0.8, 12)
NOISE, PRIOR = 0.8, 1.5
ODDS = {"mean": 2.0, "line": 1.0, "curve": 1.0}
DEGREES = {"mean": 0, "line": 1, "curve": 2}


def polynomial(degree: int, observed: str = "y", rows: bool = True) -> pm.Model:
    with pm.Model(coords={"row": np.arange(12)} if rows else None) as model:
        x = pm.Data("x", X, dims="row" if rows else None)
        mean = pm.Normal("level", 0.0, PRIOR) + 0.0 * x
        for power, name in enumerate(("slope", "bend")[:degree], 1):
            mean = mean + pm.Normal(name, 0.0, PRIOR) * x**power
        pm.Deterministic("at_two", mean[0] * 2.0)
        pm.Normal(observed, mean, NOISE, observed=Y, dims="row" if rows else None)
    return model


@cache
def comparison() -> Comparison:
    posteriors = {name: bk.infer(polynomial(degree), draws=1000, random_seed=1) for name, degree in DEGREES.items()}
    return bk.compare(posteriors, prior_odds=ODDS, loo=False)


def closed_form(degree: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, posterior means and covariance of the coefficients, from the formulas of a conjugate regression."""
    design = X[:, None] ** np.arange(degree + 1)
    cov = np.linalg.inv(design.T @ design / NOISE**2 + np.eye(degree + 1) / PRIOR**2)
    marginal = stats.multivariate_normal(np.zeros(12), NOISE**2 * np.eye(12) + PRIOR**2 * design @ design.T)
    return float(marginal.logpdf(Y)), cov @ design.T @ Y / NOISE**2, cov


def weights() -> np.ndarray:
    """Posterior probabilities in the order of DEGREES."""
    log = [math.log(ODDS[name]) + closed_form(degree)[0] for name, degree in DEGREES.items()]
    return special.softmax(log)


def test_moments_of_the_mixture_are_those_of_the_closed_forms() -> None:
    w, forms = weights(), [closed_form(degree) for degree in DEGREES.values()]
    means = np.array([0.0, forms[1][1][1], forms[2][1][1]])
    variances = np.array([0.0, forms[1][2][1, 1], forms[2][2][1, 1]])
    mean = w @ means
    found = comparison().average("slope", missing=0.0, random_seed=1)["mixture"]
    assert float(found["mean"]) == pytest.approx(mean, abs=1e-10)
    assert float(found["sd"]) == pytest.approx(math.sqrt(w @ (variances + means**2) - mean**2), abs=1e-10)
    assert found.attrs["label"] == "exact" and float(found["mean_error"]) < 1e-10
    order = list(found["model"].to_numpy())
    np.testing.assert_allclose(found["weight"], [w[list(DEGREES).index(name)] for name in order], atol=1e-12)


def test_draws_come_from_each_model_in_its_share_and_are_its_own() -> None:
    tree = comparison().average("slope", missing=0.0, draws=1000, random_seed=2)
    origin, slope = (v.to_numpy().ravel() for v in (tree["sample_stats"]["model"], tree["posterior"]["slope"]))
    assert tree["posterior"]["slope"].dims == ("chain", "draw") and tree["posterior"].sizes["chain"] == 4
    for name, share in zip(DEGREES, weights(), strict=True):
        assert abs((origin == name).sum() - 1000 * share) < 1
        taken = slope[origin == name]
        if name == "mean":
            assert np.all(taken == 0.0)
        else:
            own = comparison().posteriors[name].tree["posterior"]["slope"].to_numpy().ravel()
            assert len(np.unique(taken)) == len(taken) and np.isin(taken, own).all()
    again = comparison().average("slope", missing=0.0, draws=1000, random_seed=2)
    assert again.equals(tree)


def test_a_deterministic_is_averaged_from_draws_with_its_monte_carlo_error() -> None:
    """At the first x the mean is level − slope + bend, and the Deterministic is twice that."""
    w, row = weights(), np.array([1.0, -1.0, 1.0])
    forms = [closed_form(degree) for degree in DEGREES.values()]
    means = np.array([2 * row[: d + 1] @ form[1] for d, form in enumerate(forms)])
    variances = np.array([4 * row[: d + 1] @ form[2] @ row[: d + 1] for d, form in enumerate(forms)])
    found = comparison().average("at_two", random_seed=1)["mixture"]
    assert found.attrs["label"] == "estimated"
    sd = math.sqrt(w @ (variances + (means - w @ means) ** 2))
    assert abs(float(found["mean"]) - w @ means) < 4 * float(found["mean_error"]) < 0.1
    assert abs(float(found["sd"]) - sd) < 4 * float(found["sd_error"]) < 0.1


def test_errors_of_log_evidences_reach_the_moments() -> None:
    """Against differences of the moments when one log evidence is moved."""
    table = comparison().table.copy()
    table["error"], table["label"] = [0.01, 0.02, 0.03], "estimated"
    given = replace(comparison(), table=table)

    def moments(shift: np.ndarray) -> np.ndarray:
        w = special.softmax(np.log(table["posterior_probability"].to_numpy()) + shift)
        found = given.average("slope", missing=0.0, draws=4, random_seed=1)["mixture"]
        m, s = found["model_mean"].to_numpy(), found["model_sd"].to_numpy()
        return np.array([w @ m, np.sqrt(w @ (s**2 + (m - w @ m) ** 2))])

    step = 1e-5
    slopes = np.array([(moments(step * e) - moments(-step * e)) / (2 * step) for e in np.eye(3)])
    expected = np.sqrt(((slopes * table["error"].to_numpy()[:, None]) ** 2).sum(axis=0))
    found = given.average("slope", missing=0.0, random_seed=1)["mixture"]
    assert found.attrs["label"] == "estimated"
    np.testing.assert_allclose([float(found["mean_error"]), float(found["sd_error"])], expected, rtol=1e-5)


def test_predictions_are_the_mixture_of_the_predictive_distributions() -> None:
    at = np.array([0.5, 3.0])
    tree = comparison().predict({"x": at}, random_seed=4)
    w = weights()
    means, variances = np.empty((3, 2)), np.empty((3, 2))
    for k, degree in enumerate(DEGREES.values()):
        _, mean, cov = closed_form(degree)
        design = at[:, None] ** np.arange(degree + 1)
        means[k], variances[k] = design @ mean, np.einsum("ij,jk,ik->i", design, cov, design) + NOISE**2
    draws = tree["predictions"]["y"].to_numpy().reshape(-1, 2)
    mean = w @ means
    sd = np.sqrt(w @ (variances + (means - mean) ** 2))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), 4 * sd / math.sqrt(len(draws)))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.15)


@pytest.mark.slow
def test_stacking_weights_are_best_for_the_leave_one_out_densities() -> None:
    """The exact densities of a left-out observation, and the weights that maximise the sum of their logs."""
    log = np.empty((12, 3))
    for k, degree in enumerate(DEGREES.values()):
        design = X[:, None] ** np.arange(degree + 1)
        cov = NOISE**2 * np.eye(12) + PRIOR**2 * design @ design.T
        precision = np.linalg.inv(cov)
        variance = 1 / np.diag(precision)
        log[:, k] = stats.norm(Y - variance * (precision @ Y), np.sqrt(variance)).logpdf(Y)
    best = optimize.minimize(
        lambda z: -special.logsumexp(log + special.log_softmax(z), axis=1).sum(), np.zeros(3), tol=1e-10
    )
    found = comparison().average("level", weights="stacking", random_seed=1)["mixture"]
    given = found["weight"].sel(model=list(DEGREES)).to_numpy()
    np.testing.assert_allclose(given, special.softmax(best.x), atol=0.05)
    assert found["weight_error"].isnull().all() and found.attrs["label"] == "estimated"
    assert "stacking weights have none" in found.attrs["notes"]


def test_what_cannot_be_averaged_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"mean: there is no 'slope'; the models share level, at_two; .*missing=0.0"):
        comparison().average("slope")
    with pytest.raises(ModelError, match=r"no model has draws of 'other'; the models share level, at_two"):
        comparison().average("other", missing=0.0)
    with pytest.raises(OptionError, match=r"90,000 draws need more of .* than its 1,000; ask for \d+,\d+ at most"):
        comparison().average("level", draws=90_000)
    with pytest.raises(DataError, match=r"'z' is a pm.Data container of none of the models; they have: x"):
        comparison().predict({"z": [1.0]})
    with pytest.raises(DataError, match=r"line: .*x.* 2 dimension|mean: .*x.* 2 dimension|curve: .*x.* 2 dimension"):
        comparison().predict({"x": np.ones((2, 2))})


@pytest.mark.slow
def test_models_of_different_predictions_are_refused() -> None:
    line = comparison().posteriors["line"]
    other = bk.compare({"line": line, "curve": polynomial(2, "strength")}, loo=False, random_seed=1)
    with pytest.raises(ModelError, match=r"predict different variables: .*strength in curve"):
        other.predict({"x": [1.0]})
    with pm.Model() as fixed:
        pm.Normal("y", pm.Normal("level", 0.0, 1.0), NOISE, observed=Y)
    own = bk.infer(fixed, draws=1000, random_seed=1)
    loose = bk.compare({"fixed": own, "line": line}, loo=False)
    again = loose.predict(draws=1000, random_seed=1)["posterior_predictive"]["y"]
    assert again.dims == ("chain", "draw", "row") and again.shape == (4, 250, 12)
    with pytest.raises(ModelError, match=r"'y' is not the same in all models .*row: 2.*12"):
        loose.predict({"x": [0.0, 1.0]})


def test_a_quantity_of_other_shape_or_labels_is_refused() -> None:
    def grouped(labels: list[str]) -> pm.Model:
        with pm.Model(coords={"group": labels}) as model:
            mu = pm.Normal("mu", 0.0, 1.0, dims="group")
            pm.Normal("y", mu[np.arange(12) % len(labels)], 1.0, observed=Y)
        return model

    posteriors = {name: bk.infer(grouped(list(name)), draws=100, random_seed=1) for name in ("ab", "abc", "ba")}
    with pytest.raises(ModelError, match=r"'mu' is not the same in all models .*group: 2.*group: 3|group: 3.*group: 2"):
        bk.compare({n: posteriors[n] for n in ("ab", "abc")}, loo=False).average("mu")
    with pytest.raises(ModelError, match="'mu' has other labels along 'group' in"):
        bk.compare({n: posteriors[n] for n in ("ab", "ba")}, loo=False).average("mu")
    same = bk.compare({"one": posteriors["ab"], "two": posteriors["ab"]}, loo=False).average("mu", random_seed=1)
    assert same["mixture"]["mean"].dims == ("group",) and same["posterior"].sizes["group"] == 2


@pytest.mark.slow
def test_a_posterior_without_its_model_is_averaged_but_neither_stacked_nor_predicted(tmp_path: Path) -> None:
    comparison().posteriors["line"].save(tmp_path / "line.nc")
    loaded = bk.load(tmp_path / "line.nc")
    mixed = bk.compare({"line": loaded, "curve": comparison().posteriors["curve"]}, loo=False)
    given = bk.compare({n: comparison().posteriors[n] for n in ("line", "curve")}, loo=False)
    means = [float(c.average("slope", random_seed=1)["mixture"]["mean"]) for c in (mixed, given)]
    assert means[0] == pytest.approx(means[1], abs=1e-12)
    assert mixed.inclusion().at["bend", "models"] == 1
    for asked in (lambda: mixed.predict({"x": [0.0]}), lambda: mixed.average("slope", weights="stacking")):
        with pytest.raises(ModelError, match=r"line: .*needs the model.*loaded without it"):
            asked()


def test_inclusion_sums_over_the_models_that_have_the_term() -> None:
    w = dict(zip(DEGREES, weights(), strict=True))
    table = comparison().inclusion()
    assert list(table.index) == ["slope", "bend"] or set(table.index) == {"slope", "bend"}
    odds = {"slope": (w["line"] + w["curve"]) / w["mean"], "bend": w["curve"] / (w["mean"] + w["line"])}
    prior = {"slope": 2 / 2, "bend": 1 / 3}
    for term, of in odds.items():
        assert table.at[term, "posterior_probability"] == pytest.approx(of / (1 + of), abs=1e-12)
        assert table.at[term, "prior_probability"] == pytest.approx(prior[term] / (1 + prior[term]), abs=1e-12)
        assert table.at[term, "log_bayes_factor"] == pytest.approx(math.log(of / prior[term]), abs=1e-10)
    named = comparison().inclusion({"any": ["line", "curve"]})
    assert named.at["any", "log_bayes_factor"] == pytest.approx(table.at["slope", "log_bayes_factor"], abs=1e-12)
    matched = comparison().inclusion(matched=True)
    exact = {name: closed_form(degree)[0] for name, degree in DEGREES.items()}
    assert matched.at["slope", "log_bayes_factor"] == pytest.approx(exact["line"] - exact["mean"], abs=1e-9)
    assert matched.at["bend", "log_bayes_factor"] == pytest.approx(exact["curve"] - exact["line"], abs=1e-9)


def test_errors_of_inclusion_are_those_of_moved_evidences() -> None:
    table = comparison().table.copy()
    table["error"], table["label"] = [0.01, 0.02, 0.03], "estimated"
    found = replace(comparison(), table=table).inclusion({"slope": ["line", "curve"]})
    prior = table["prior_probability"].to_numpy()
    inside = table.index.isin(["line", "curve"])

    def odds(shift: np.ndarray) -> float:
        joint = prior * np.exp(table["log_bayes_factor"].to_numpy() + shift)
        return float(np.log(joint[inside].sum() / joint[~inside].sum()))

    slopes = np.array([(odds(1e-5 * e) - odds(-1e-5 * e)) / 2e-5 for e in np.eye(3)])
    expected = math.hypot(*(slopes * table["error"].to_numpy()))
    assert found.at["slope", "log_bayes_factor_error"] == pytest.approx(expected, rel=1e-6)
    p = found.at["slope", "posterior_probability"]
    assert found.at["slope", "posterior_probability_error"] == pytest.approx(p * (1 - p) * expected, rel=1e-6)


def test_inclusion_of_unknown_or_common_terms_is_refused() -> None:
    with pytest.raises(ModelError, match=r"slope: no model 'cubic' in this comparison; it has"):
        comparison().inclusion({"slope": ["cubic"]})
    with pytest.raises(ModelError, match="level: every model has it"):
        comparison().inclusion({"level": list(DEGREES)})
    with pytest.raises(ModelError, match="slope: no model has it"):
        comparison().inclusion({"slope": []})
    two = bk.compare({n: comparison().posteriors[n] for n in ("mean", "curve")}, loo=False)
    with pytest.raises(ModelError, match="slope: no two models differ in it alone"):
        two.inclusion(matched=True)
    same = bk.compare({"a": comparison().posteriors["mean"], "b": polynomial(0)}, loo=False, random_seed=1)
    with pytest.raises(ModelError, match="every model has the same free variables"):
        same.inclusion()


@pytest.mark.slow
def test_draws_that_are_not_to_be_relied_on_are_named_in_the_average() -> None:
    sampled = bk.infer(polynomial(1), method="nuts", draws=400, sampler={"tune": 300}, random_seed=1, progressbar=False)
    found = sampled.diagnostics
    assert found is not None
    stuck = replace(sampled, diagnostics=replace(found, max_r_hat=1.7, max_r_hat_of="slope", relabelled=None))
    mixed = bk.compare({"line": stuck, "mean": comparison().posteriors["mean"]}, loo=False)
    notes = mixed.average("slope", missing=0.0, random_seed=1)["mixture"].attrs["notes"]
    assert "line: the chains disagree (R-hat 1.700 for slope)" in notes
