"""Curves of log Bayes factors over numbers of priors: against closed forms and SciPy's integrals."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.comparison.robustness_curve import robustness
from bayeskit.errors import ModelError, OptionError

Y = np.array([1.2, 0.4, 2.2])
GRID = np.geomspace(0.1, 100.0, 7)


def null() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.5, observed=Y)
    return model


def effect(sd: float = 2.0) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, sd), 1.5, observed=Y)
    return model


def effect_evidence(sd: float) -> float:
    return float(stats.multivariate_normal(np.zeros(3), 2.25 * np.eye(3) + sd**2).logpdf(Y))


def test_a_normal_mean_against_a_point() -> None:
    curve = robustness({"null": null(), "effect": effect()}, "mu.sigma", GRID, random_seed=1)
    assert curve.parameter == "mu.sigma" and curve.chosen == {"effect": 2.0}
    rows = curve.table[curve.table["model"] == "effect"]
    expected = [effect_evidence(v) - effect_evidence(0.0) for v in GRID]
    np.testing.assert_allclose(rows["log_bayes_factor"], expected, atol=1e-10)
    assert list(rows["value"]) == list(GRID) and set(rows["label"]) == {"exact"}
    assert rows["log_bayes_factor_error"].max() < 1e-10
    assert (curve.table[curve.table["model"] == "null"]["log_bayes_factor"] == 0.0).all()
    crossing = next(note for note in curve.notes if "changes its side" in note)
    assert 1.0 < float(crossing.split()[-1]) < 10.0
    assert "mu.sigma, chosen as 2 in effect" in str(curve)


def test_the_value_as_written_is_the_evidence_as_it_is() -> None:
    compared = bk.compare({"null": null(), "effect": effect()}, loo=False, random_seed=1)
    curve = compared.robustness("mu.sigma", [2.0, 1.0])
    (row,) = curve.table.query("value == 2.0 and model == 'effect'").to_dict("records")
    assert row["log_evidence"] == compared.table.at["effect", "log_evidence"]


def test_a_value_that_is_given_twice_and_values_without_a_number() -> None:
    curve = robustness({"null": null(), "effect": effect()}, "mu.sigma", [1.0, 1.0, 2.0, 1e300], random_seed=1)
    rows = curve.table[curve.table["model"] == "effect"].set_index("value")["log_bayes_factor"]
    assert list(rows.index) == [1.0, 2.0, 1e300]
    np.testing.assert_allclose(rows[[1.0, 2.0]], [effect_evidence(v) - effect_evidence(0.0) for v in (1.0, 2.0)])
    assert np.isnan(rows[1e300]) == any("no number at 1 value" in note for note in curve.notes)


def test_a_coin_whose_prior_has_one_container() -> None:
    with pm.Model() as model:
        strength = pm.Data("strength", 1.0)
        pm.Binomial("y", 10, pm.Beta("p", strength, strength), observed=7)
    curve = robustness([model], "strength", GRID)
    expected = [stats.betabinom(10, v, v).logpmf(7) for v in GRID]
    np.testing.assert_allclose(curve.table["log_evidence"], expected, atol=1e-9)
    assert model["strength"].get_value() == 1.0


def test_quadrature() -> None:
    counts = np.array([2, 0, 5])

    def evidence(scale: float) -> float:
        def density(r: float) -> float:
            log_prior = -0.5 * (r / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi))
            return math.exp(7 * r - 3 * math.exp(r) - math.log(2 * 120) + log_prior)

        return math.log(integrate.quad(density, -30, 5, epsabs=0, epsrel=1e-12, limit=500, points=[0, 1])[0])

    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("r", 0.0, 1.0)), observed=counts)
    values = np.geomspace(0.3, 4.0, 5)
    table = robustness([bk.infer(model, random_seed=1)], "r.sigma", values).table
    assert set(table["label"]) == {"quadrature"} and table["error"].max() < 1e-6
    for value, found, error in zip(values, table["log_evidence"], table["error"], strict=True):
        assert abs(found - evidence(value)) < error + 1e-9


@pytest.mark.slow
def test_draws_carry_to_values_nearby() -> None:
    sampled = bk.infer(effect(), method="nuts", random_seed=5, progressbar=False)
    curve = robustness({"null": null(), "effect": sampled}, "mu.sigma", [0.05, 1.5, 2.0, 8.0])
    rows = curve.table[curve.table["model"] == "effect"].set_index("value")
    for value in (1.5, 2.0, 8.0):
        row = rows.loc[value]
        assert row["label"] == "estimated"
        assert abs(row["log_evidence"] - effect_evidence(value)) < 4 * row["error"] < 0.1
    assert math.isnan(rows.loc[0.05, "log_evidence"])
    assert any("effect" in note and "Pareto k" in note for note in curve.notes)


def test_one_entry_of_an_array() -> None:
    with pm.Model() as model:
        w = pm.Normal("w", [0.0, 1.0], 2.0)
        pm.Normal("y", w[0] + w[1] * np.array([0.0, 1.0, 2.0]), 1.5, observed=Y)
    table = robustness([model], "w.mu[1]", [0.0, 3.0]).table
    x = np.stack([np.ones(3), [0.0, 1.0, 2.0]], axis=1)
    expected = [stats.multivariate_normal(x @ [0, v], 2.25 * np.eye(3) + 4 * x @ x.T).logpdf(Y) for v in (0.0, 3.0)]
    np.testing.assert_allclose(table["log_evidence"], expected, atol=1e-9)
    with pytest.raises(OptionError, match="2 different numbers"):
        robustness([model], "w.mu", [0.0])
    with pytest.raises(OptionError, match="no such entry"):
        robustness([model], "w.mu[5]", [0.0])


def test_a_number_that_the_proof_has_to_know() -> None:
    """The prior of a rate on (0, upper): a Gamma integral cut off there."""
    with pm.Model() as model:
        pm.Poisson("y", pm.Uniform("rate", 0.0, 6.0), observed=3)
    table = robustness([model], "rate.upper", [2.0, 6.0, 20.0]).table
    expected = [math.log(special.gammainc(4.0, u) / u) for u in (2.0, 6.0, 20.0)]
    np.testing.assert_allclose(table["log_evidence"], expected, atol=1e-7)


@pytest.mark.parametrize(
    ("parameter", "grid", "message"),
    [
        ("mu.sigma", [-1.0, 1.0], "mu.sigma cannot be -1"),
        ("mu.sigma", [np.nan], "finite numbers"),
        ("mu.sigma", [], "one or more"),
        ("mu.sigma", "wide", "are not numbers"),
        ("mu.width", [1.0], "effect has mu.mu, mu.sigma"),
    ],
)
def test_what_is_refused(parameter: str, grid: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        robustness({"effect": effect()}, parameter, grid, random_seed=1)


def test_data_are_no_number_of_a_prior() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 2.0), 1.5, observed=pm.Data("data", Y))
    with pytest.raises(OptionError, match="the data that the model is to explain"):
        robustness([model], "data", [1.0])
    with pytest.raises(ModelError, match="no model"):
        robustness({}, "mu.sigma", [1.0])


@pytest.mark.slow
def test_a_t_test_over_the_scale_of_its_effect_under_a_shared_improper_prior() -> None:
    def model(effect: bool) -> pm.Model:
        with pm.Model() as model:
            sigma = pm.HalfFlat("sigma")
            pm.Potential("jeffreys", -pm.math.log(sigma))
            delta = pm.Cauchy("delta", 0.0, 0.707) if effect else 0.0
            pm.Normal("y", delta * sigma, sigma, observed=Y)
        return model

    def log_bayes_factor(scale: float) -> float:
        t, n = Y.mean() / Y.std(ddof=1) * math.sqrt(3), 3
        pieces = [(-np.inf, -1), (-1, 0), (0, 1), (1, 4), (4, np.inf)]
        values = [
            integrate.quad(lambda d: stats.nct.pdf(t, n - 1, d * math.sqrt(n)) * stats.cauchy.pdf(d, 0, scale), *piece)[
                0
            ]
            for piece in pieces
        ]
        return math.log(sum(values) / stats.t(n - 1).pdf(t))

    compared = bk.compare({"null": model(False), "effect": model(True)}, shared=("sigma",), loo=False, random_seed=1)
    rows = compared.robustness("delta.beta", [0.4, 1.0, 1.5]).table.query("model == 'effect'")
    for value, found in zip(rows["value"], rows["log_bayes_factor"], strict=True):
        assert found == pytest.approx(log_bayes_factor(value), abs=1e-6)
