"""``evidence``: every estimator against closed forms and numerical integrals, refusals by name, one convention."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse

ALL = ("exact", "quadrature", "bridge", "laplace", "importance", "smc", "nested")
ESTIMATED = ("bridge", "laplace", "importance", "smc")
HEADS = 31
SEEDED = {"random_seed": 1, "progressbar": False}


def coin(heads: int = HEADS) -> pm.Model:
    with pm.Model() as model:
        pm.Binomial("heads", 50, pm.Beta("p", 2.0, 2.0), observed=heads)
    return model


def of_coin(heads: int = HEADS) -> float:
    return float(stats.betabinom(50, 2, 2).logpmf(heads))


@cache
def every_estimate_of_the_coin() -> bk.SecondOpinion:
    return bk.evidence(coin(), ALL, draws=1_000, **SEEDED)


@pytest.mark.slow
def test_every_estimator_finds_the_evidence_of_a_coin() -> None:
    table = every_estimate_of_the_coin().table
    assert tuple(table.index) == ALL
    assert table.at["exact", "log_evidence"] == pytest.approx(of_coin(), abs=1e-9)
    for name in (*ESTIMATED, "nested"):
        row = table.loc[name]
        assert row["label"] == "estimated"
        assert abs(row["log_evidence"] - of_coin()) < 4 * row["error"] < 1.0
    assert every_estimate_of_the_coin().verdict == "agree"
    assert every_estimate_of_the_coin().density == "the density of the model as written"


def test_what_an_estimator_costs_is_counted() -> None:
    table = every_estimate_of_the_coin().table
    assert table.loc["importance", "evaluations"] >= 1_000
    assert table.loc["smc", "evaluations"] >= 1_000
    assert table.loc["nested", "evaluations"] >= 1_000
    assert (table["seconds"] >= 0).all()


def test_a_refusal_is_a_row_with_its_reason() -> None:
    row = every_estimate_of_the_coin().table.loc["quadrature"]
    assert math.isnan(row["log_evidence"]) and row["error"] == math.inf
    assert "every variable has a closed form" in row["reason"]


def logistic() -> pm.Model:
    """The intercept's variance goes out in closed form; the slope stays."""
    with pm.Model() as model:
        w = pm.Normal("w", 0.0, 1.5)
        s = pm.InverseGamma("s", 3.0, 2.0)
        pm.Normal("z", 0.0, pm.math.sqrt(s), observed=[0.3, -1.0])
        pm.Bernoulli("y", logit_p=w * pm.math.stack([-1.0, 0.5, 2.0]), observed=[0, 1, 1])
    return model


def of_logistic() -> float:
    def density(w: float) -> float:
        p = special.expit(w * np.array([-1.0, 0.5, 2.0]))
        return float(stats.norm(0, 1.5).pdf(w) * (1 - p[0]) * p[1] * p[2])

    first = math.log(integrate.quad(density, -20, 20, epsabs=1e-13)[0])
    return first + float(stats.multivariate_t(np.zeros(2), np.eye(2) * 2 / 3, df=6).logpdf([0.3, -1.0]))


@pytest.mark.slow
def test_what_has_a_closed_form_is_integrated_out_first() -> None:
    opinion = bk.evidence(logistic(), ("exact", "quadrature", *ESTIMATED), draws=1_000, **SEEDED)
    assert opinion.verdict == "agree"
    assert opinion.density == "the density of w, s integrated out"
    assert "w has no closed form" in opinion.table.at["exact", "reason"]
    assert opinion.table.at["quadrature", "log_evidence"] == pytest.approx(of_logistic(), abs=1e-6)
    for name in ESTIMATED:
        row = opinion.table.loc[name]
        assert abs(row["log_evidence"] - of_logistic()) < 4 * row["error"] < 1.0


def test_of_a_posterior_its_own_evidence_is_the_row_of_its_method() -> None:
    posterior = bk.infer(coin(), draws=1_000, **SEEDED)
    opinion = bk.evidence(posterior, draws=1_000, random_seed=2)
    assert list(opinion.table.index) == ["exact", "bridge", "laplace", "importance"]
    assert opinion.table.at["exact", "log_evidence"] == posterior.log_evidence.value
    assert opinion.verdict == "agree"


def test_a_posterior_is_asked_with_its_own_data() -> None:
    with pm.Model() as model:
        pm.Binomial("heads", 50, pm.Beta("p", 2.0, 2.0), observed=pm.Data("k", HEADS))
    posterior = bk.infer(model, draws=1_000, **SEEDED)
    pm.set_data({"k": 3}, model=model)
    assert bk.evidence(posterior, random_seed=1).verdict == "agree"
    other = bk.infer(analyse(model), draws=1_000, **SEEDED)
    assert other.log_evidence.value == pytest.approx(of_coin(3), abs=1e-9)


def test_a_wrong_number_is_found_out() -> None:
    posterior = bk.infer(coin(), draws=1_000, **SEEDED)
    wrong = bk.Posterior(**{**vars(posterior), "log_evidence": bk.LogEvidence(of_coin() + 0.5, 1e-12, "exact")})
    assert bk.evidence(wrong, ("exact", "bridge"), **SEEDED).verdict.startswith("disagree by")


def labelled(**transform: object) -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 3.0, shape=2, initval=[-2.0, 2.0], **transform)
        y = [-2.1, -1.8, -2.4, 1.9, 2.2, 2.0]
        pm.NormalMixture("y", [0.5, 0.5], mean, 0.5, observed=y)
    return model


@cache
def of_labelled() -> float:
    y = np.array([-2.1, -1.8, -2.4, 1.9, 2.2, 2.0])
    grid = np.linspace(-6, 6, 241)  # the trapezoidal rule in steps of a fifth of the least posterior sd
    first, second = np.meshgrid(grid, grid, indexing="ij")
    total = stats.norm(0, 3).logpdf(first) + stats.norm(0, 3).logpdf(second)
    for value in y:
        total += np.logaddexp(*(stats.norm(m, 0.5).logpdf(value) for m in (first, second))) - math.log(2.0)
    return float(special.logsumexp(total)) + 2 * math.log(grid[1] - grid[0])


@pytest.mark.slow
@pytest.mark.parametrize("transform", [{}, {"transform": ordered}])
def test_all_are_over_all_labellings_and_a_normalised_prior(transform: dict[str, object]) -> None:
    opinion = bk.evidence(labelled(**transform), ESTIMATED, draws=1_000, **SEEDED)
    for name in ESTIMATED:
        row = opinion.table.loc[name]
        assert not row["reason"]
        assert abs(row["log_evidence"] - of_labelled()) < 4 * row["error"] + 1e-3 < 1.0
    assert "labelling" in opinion.convention or "order" in opinion.convention


def test_a_discrete_variable_is_named() -> None:
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.3)
        pm.Normal("y", 2.0 * z, 1.0, observed=1.5)
    opinion = bk.evidence(model, ("exact", "bridge", "smc"), **SEEDED)
    assert all("z is discrete" in opinion.table.at[name, "reason"] for name in ("bridge", "smc"))
    assert opinion.verdict == "only exact has a number"


def test_an_improper_prior_has_no_evidence_by_any_estimator() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=[1.0, 2.0])
    opinion = bk.evidence(model, ALL, draws=1_000, **SEEDED)
    assert opinion.verdict == "no estimator has a number"
    assert opinion.table["reason"].str.len().min() > 0


def test_an_unknown_estimator_is_refused() -> None:
    with pytest.raises(bk.BayeskitError, match="'harmonic'; it must be of exact, quadrature, bridge"):
        bk.evidence(coin(), ("harmonic",))
