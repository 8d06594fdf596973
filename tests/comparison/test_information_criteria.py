"""AIC and BIC against maxima of the likelihood in closed form."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import optimize, stats

import bayeskit as bk
from bayeskit.comparison.information_criteria import information_criteria
from bayeskit.errors import ModelError

RNG = np.random.default_rng(7)
X = np.linspace(-1.0, 1.0, 20)
Y = 0.3 + 0.8 * X + RNG.normal(0.0, 0.5, size=20)


def polynomial(degree: int) -> pm.Model:
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=degree + 1)
        sigma = pm.HalfNormal("sigma", 0.1)
        pm.Normal("y", np.vander(X, degree + 1) @ slopes, sigma, observed=Y)
    return model


def test_polynomials_whose_likelihood_is_highest_at_least_squares() -> None:
    table = information_criteria({d: polynomial(d) for d in (0, 1, 2)} | {}, random_seed=1).table  # type: ignore[arg-type]
    for degree in (0, 1, 2):
        residual = Y - np.polyval(np.polyfit(X, Y, degree), X)
        log_likelihood = stats.norm(0.0, residual.std()).logpdf(residual).sum()
        row, p = table.loc[str(degree)], degree + 2
        assert abs(row["log_likelihood"] - log_likelihood) < 1e-8
        assert (row["parameters"], row["observations"]) == (p, 20)
        assert abs(row["aic"] - (2 * p - 2 * log_likelihood)) < 1e-8
        assert abs(row["bic"] - (p * np.log(20) - 2 * log_likelihood)) < 1e-8
        assert 0 <= row["error"] < 1e-8
    assert table["bic"].is_monotonic_increasing


def test_probabilities_that_sum_to_one_count_one_less() -> None:
    counts = RNG.multinomial(10, [0.2, 0.3, 0.5], size=4)
    with pm.Model() as model:
        pm.Multinomial("y", 10, pm.Dirichlet("p", [4.0, 4.0, 4.0]), observed=counts)
    row = bk.information_criteria(model, random_seed=1).table.loc["model"]
    share = counts.sum(axis=0) / 40
    assert abs(row["log_likelihood"] - stats.multinomial(10, share).logpmf(counts).sum()) < 1e-8
    assert (row["parameters"], row["observations"]) == (2, 4)


def test_states_are_summed_out() -> None:
    y = np.array([-2.1, -1.8, -2.4, -2.0, 1.9, 2.2, 1.7])
    with pm.Model() as model:
        share = pm.Beta("share", 1.0, 1.0)
        z = pm.Bernoulli("z", share, shape=7)
        pm.Normal("y", pm.Normal("mean", 0.0, 5.0, shape=2)[z], 1.0, observed=y)

    def negative(at: np.ndarray) -> float:
        share = 1 / (1 + np.exp(-at[0]))
        both = (1 - share) * stats.norm(at[1], 1).pdf(y) + share * stats.norm(at[2], 1).pdf(y)
        return -float(np.log(both).sum())

    best = optimize.minimize(negative, [0.0, -2.0, 2.0], method="BFGS", options={"gtol": 1e-9})
    row = information_criteria(model, random_seed=1).table.loc["model"]
    assert abs(row["log_likelihood"] + best.fun) < 1e-5
    assert (row["parameters"], row["observations"]) == (3, 7)


def test_what_has_no_count_or_no_maximum() -> None:
    with pm.Model() as schools:
        effects = pm.Normal("effects", pm.Normal("mean"), pm.HalfNormal("spread"), shape=5)
        pm.Normal("y", effects, 1.0, observed=Y[:5])
    with pytest.raises(ModelError, match="mean, spread enter the likelihood through the prior of others only"):
        information_criteria(schools)
    with pm.Model() as idle:
        pm.Normal("idle")
        pm.Normal("y", pm.Normal("m"), 1.0, observed=Y)
    with pytest.raises(ModelError, match="idle does not enter the likelihood"):
        information_criteria(idle)
    with pm.Model() as twice:
        pm.Normal("y", pm.Normal("a") + pm.Normal("b"), 1.0, observed=Y)
    with pytest.raises(ModelError, match="has no maximum of its own"):
        information_criteria(twice, random_seed=1)
    with pm.Model() as silent:
        pm.Poisson("y", pm.Exponential("rate", 1.0), observed=[0, 0, 0])
    with pytest.raises(ModelError, match="highest at the end of the support of rate"):
        information_criteria(silent, random_seed=1)
    with pm.Model() as other:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=Y + 1)
    with pytest.raises(ModelError, match="do not explain the same data"):
        information_criteria([polynomial(0), other])
    with pytest.raises(ModelError, match="there are no models"):
        information_criteria([])


def test_it_reads_well() -> None:
    text = str(information_criteria({"flat": polynomial(0)}, random_seed=1))
    assert "p counts free numbers, n observations (entry)" in text


def test_shared_improper_priors_have_no_part_in_it() -> None:
    models = {}
    for name, mean in (("flat", 0.0), ("line", X)):
        with pm.Model() as models[name]:
            sigma2 = pm.HalfFlat("sigma2")
            pm.Potential("jeffreys", -pt.log(sigma2))
            slope = pm.Normal("slope", 0.0, pt.sqrt(sigma2)) if name == "line" else 0.0
            pm.Normal("y", pm.Flat("mu") + slope * mean, pt.sqrt(sigma2), observed=Y)
    with pytest.raises(ModelError, match=r"jeffreys.*shared="):
        information_criteria(models, random_seed=1)
    table = information_criteria(models, shared=("mu", "sigma2"), random_seed=1).table
    compared = bk.compare(models, shared=("mu", "sigma2"), loo=False, random_seed=1)
    assert information_criteria(compared, random_seed=1).table.equals(table)
    for name, degree in (("flat", 0), ("line", 1)):
        residual = Y - np.polyval(np.polyfit(X, Y, degree), X)
        log_likelihood = stats.norm(0.0, residual.std()).logpdf(residual).sum()
        assert abs(table.at[name, "aic"] - (2 * (degree + 2) - 2 * log_likelihood)) < 1e-8
