"""Independent blocks, answered apart: against sums of integrals over one rate each.

The oracles know nothing of blocks: each evidence is a sum of integrals of SciPy's densities.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import ImputationWarning
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.independence import independent_blocks
from bayeskit.elimination.plan import analyse
from bayeskit.inference import methods
from bayeskit.model.part import NotApart, part_of

COUNTS = np.random.default_rng(1).poisson([[2.0], [5.0]], size=(2, 12))
MEASURED = np.random.default_rng(2).normal(1.0, 0.5, size=9)
SUCCESSES = 7  # of ten


def three_blocks() -> pm.Model:
    """Two rates without a closed form, a proportion that has one, a prediction and a Deterministic of two blocks."""
    with pm.Model(coords={"row": range(12)}) as model:
        first = pm.LogNormal("first", 0.0, 1.0)
        second = pm.HalfNormal("second", 4.0)
        share = pm.Beta("share", 2.0, 2.0)
        pm.Poisson("a", first, observed=COUNTS[0], dims="row")
        pm.Poisson("b", second, observed=COUNTS[1])
        pm.Binomial("c", 10, share, observed=SUCCESSES)
        pm.Deterministic("ratio", second / first)
        pm.Normal("prediction", first - second, 0.1)
    return model


def log_integral(prior: stats.rv_continuous, counts: np.ndarray) -> tuple[float, float]:
    """The log evidence of counts of one rate, and the mean of that rate, by trapezoids over its logarithm."""
    log_rate = np.linspace(-8.0, 4.0, 801)  # of half as many the sum is the same to 1e-13
    rate = np.exp(log_rate)
    log_density = prior.logpdf(rate) + log_rate + stats.poisson.logpmf(counts[:, None], rate).sum(axis=0)
    density = np.exp(log_density + 30)
    total = density.sum() * (log_rate[1] - log_rate[0])
    return math.log(total) - 30, float(density @ rate / density.sum())


@cache
def of_first() -> tuple[float, float]:
    return log_integral(stats.lognorm(1.0), COUNTS[0])


@cache
def of_second() -> tuple[float, float]:
    return log_integral(stats.halfnorm(0, 4.0), COUNTS[1])


SHARE = stats.betabinom(10, 2, 2).logpmf(SUCCESSES)


@pytest.fixture(scope="module")
def posterior() -> bk.Posterior:
    return bk.infer(three_blocks(), random_seed=1)


def test_evidences_of_blocks_are_added_and_their_bounds_too(posterior: bk.Posterior) -> None:
    evidence = posterior.log_evidence
    assert posterior.method == evidence.label == "quadrature"
    assert [p.method for p in posterior.blocks] == ["quadrature", "quadrature", "exact"]
    assert abs(evidence.value - (of_first()[0] + of_second()[0] + SHARE)) < evidence.error + 1e-9
    assert evidence.error == pytest.approx(sum(p.log_evidence.error for p in posterior.blocks))
    assert evidence.error < 1e-7


def test_a_method_that_somebody_added_answers_blocks_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan names it as its record does; a table of methods beside the records knew only those of this library."""
    exact, quadrature = methods.METHODS[:2]
    added = replace(quadrature, name="lattice", title="sums over a lattice")
    monkeypatch.setattr(methods, "METHODS", (exact, added))
    plan = str(bk.explain(three_blocks()))
    assert "first by sums over a lattice; second by sums over a lattice; share in closed form" in plan


def test_draws_marginals_and_summary_are_as_of_one_model(posterior: bk.Posterior) -> None:
    draws = posterior.tree["posterior"]
    assert list(draws.data_vars) == ["first", "second", "share", "prediction", "ratio"]
    assert dict(draws.sizes) == {"chain": 4, "draw": 1000}
    np.testing.assert_allclose(draws["ratio"], draws["second"] / draws["first"])
    assert float((draws["prediction"] - draws["first"] + draws["second"]).std()) == pytest.approx(0.1, rel=0.05)
    assert abs(np.corrcoef(draws["first"].values.ravel(), draws["second"].values.ravel())[0, 1]) < 0.06
    for name, mean in (("first", of_first()[1]), ("second", of_second()[1]), ("share", 9 / 14)):
        assert float(posterior.marginal(name).mean()) == pytest.approx(mean, abs=1e-6)
        sd = float(draws[name].std())
        assert float(draws[name].mean()) == pytest.approx(mean, abs=4 * sd / math.sqrt(4000))
    table = posterior.summary()
    assert table.loc["share", "label"] == "exact"
    assert table.loc["first", "mean"] == pytest.approx(of_first()[1], abs=1e-6)
    assert posterior.tree["observed_data"]["a"].dims == ("row",)


def test_explain_says_which_blocks_there_are() -> None:
    plan = bk.explain(three_blocks())
    assert plan.method == "quadrature"
    assert "3 independent blocks" in plan.outlook
    assert "first by quadrature; second by quadrature; share in closed form" in plan.outlook


def test_the_same_seed_gives_the_same_draws_and_identical_blocks_have_different_ones() -> None:
    with pm.Model() as model:
        for name in "ab":
            pm.Poisson(f"y_{name}", pm.LogNormal(name, 0.0, 1.0), observed=COUNTS[0])
    one, two = (bk.infer(model, draws=200, random_seed=3) for _ in range(2))
    a, b = (one.tree["posterior"][n].values.ravel() for n in "ab")
    np.testing.assert_array_equal(a, two.tree["posterior"]["a"].values.ravel())
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.3
    # Two blocks alike are no components of a mixture: nothing is divided by the number of their orders.
    assert abs(one.log_evidence.value - 2 * of_first()[0]) < one.log_evidence.error + 1e-9


def test_a_potential_couples_and_a_deterministic_does_not() -> None:
    def blocks(*, potential: bool) -> int:
        with pm.Model() as model:
            a, b = (pm.LogNormal(name, 0.0, 1.0) for name in "ab")
            pm.Poisson("y", a, observed=COUNTS[0])
            pm.Poisson("x", b, observed=COUNTS[1])
            pm.Deterministic("sum", a + b)
            if potential:
                pm.Potential("tie", -((a - b) ** 2))
        return len(independent_blocks(analyse(model)))

    assert blocks(potential=False) == 2
    assert blocks(potential=True) == 0


def test_what_is_known_once_shared_numbers_are_is_no_block() -> None:
    with pm.Model() as model:
        shared = pm.HalfNormal("shared", 1.0)
        for k, name in enumerate("ab"):
            pm.Poisson(f"y_{name}", pm.LogNormal(name, 0.0, shared), observed=COUNTS[k])
    assert independent_blocks(analyse(model)) == ()


def test_a_shared_likelihood_and_a_shared_length_keep_blocks_together() -> None:
    with pm.Model() as one_likelihood:
        a, b = (pm.LogNormal(name, 0.0, 1.0) for name in "ab")
        pm.Poisson("y", pt.stack([a, b])[:, None], observed=COUNTS)
    assert independent_blocks(analyse(one_likelihood)) == ()
    with pm.Model() as a_length:
        a = pm.LogNormal("a", 0.0, 1.0, shape=2)
        b = pm.LogNormal("b", 0.0, 1.0, shape=a.shape)
        pm.Poisson("y", a, observed=COUNTS[0, :2])
    with pytest.raises(NotApart, match="made of a"):
        part_of(a_length, {"b"})


def test_missing_entries_stay_with_those_that_are_there() -> None:
    holed = np.ma.masked_array(COUNTS[0].astype(float), mask=np.arange(12) == 3)
    with pm.Model() as model:
        with pytest.warns(ImputationWarning):
            pm.Poisson("y", pm.LogNormal("a", 0.0, 1.0), observed=holed)
        pm.Poisson("x", pm.HalfNormal("b", 4.0), observed=COUNTS[1])
    post = bk.infer(model, draws=400, random_seed=1)
    expected = log_integral(stats.lognorm(1.0), np.delete(COUNTS[0], 3))[0] + of_second()[0]
    assert abs(post.log_evidence.value - expected) < post.log_evidence.error + 1e-9
    assert [tuple(rv.name for rv in p.model.free_RVs) for p in post.blocks] == [("a", "y_unobserved"), ("b",)]
    assert np.array_equal(np.delete(post.tree["posterior"]["y"].values, 3, axis=-1)[0, 0], np.delete(COUNTS[0], 3))


def test_a_potential_in_a_block_and_data_that_nothing_governs_are_counted_once() -> None:
    with pm.Model() as model:
        a, b = pm.LogNormal("a", 0.0, 1.0), pm.HalfNormal("b", 4.0)
        pm.Poisson("y", a, observed=COUNTS[0])
        pm.Potential("more", pm.logp(pm.Poisson.dist(b), COUNTS[1]).sum())
        pm.Normal("noise", 0.0, 1.0, observed=MEASURED)
    post = bk.infer(model, draws=100, random_seed=1)
    expected = of_first()[0] + of_second()[0] + stats.norm.logpdf(MEASURED).sum()
    assert abs(post.log_evidence.value - expected) < post.log_evidence.error + 1e-9
    assert "the Potential more has no normaliser" in post.log_evidence.convention


@pytest.mark.slow
def test_a_forced_method_is_that_of_every_block() -> None:
    quadrature = bk.infer(three_blocks(), method="quadrature", draws=100)
    assert [p.method for p in quadrature.blocks] == ["quadrature", "quadrature", "exact"]
    importance = bk.infer(three_blocks(), method="importance", draws=100, random_seed=1)
    assert [p.method for p in importance.blocks] == ["importance", "importance", "exact"]
    errors = [p.log_evidence.error for p in importance.blocks]
    assert importance.log_evidence.label == "estimated"
    assert importance.log_evidence.error == pytest.approx(math.hypot(*errors[:2]), abs=1e-10)
    off = importance.log_evidence.value - (of_first()[0] + of_second()[0] + SHARE)
    assert abs(off) < 4 * importance.log_evidence.error
    with pytest.raises(bk.BayeskitError, match="no exact answer: first"):
        bk.infer(three_blocks(), method="exact")


def test_what_is_said_of_every_block_is_said_once() -> None:
    post = bk.infer(three_blocks(), draws=100, random_seed=1, sampler={"tune": 200})
    assert post.plan.notes == ("no sampler was needed: its options tune were not used",)


def test_other_data_are_those_of_the_blocks(posterior: bk.Posterior) -> None:
    moved = bk.infer(posterior.analysis.with_data({"a": COUNTS[1]}), draws=100, random_seed=1)
    expected = log_integral(stats.lognorm(1.0), COUNTS[1])[0] + of_second()[0] + SHARE
    assert abs(moved.log_evidence.value - expected) < moved.log_evidence.error + 1e-9


def test_the_density_of_a_point_is_that_of_its_block(posterior: bk.Posterior) -> None:
    found = bk.savage_dickey(posterior, "first", at=1.5)
    log_likelihood = stats.poisson(1.5).logpmf(COUNTS[0]).sum()
    expected = log_likelihood - of_first()[0]  # of posterior to prior density: the likelihood over the evidence
    assert found.log_bayes_factor == pytest.approx(expected, abs=1e-6)
    both = bk.savage_dickey(posterior, ["first", "second"], at=[1.5, 4.0])
    expected += stats.poisson(4.0).logpmf(COUNTS[1]).sum() - of_second()[0]
    assert both.log_bayes_factor == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_the_evidence_changes_with_a_prior_as_its_block_does(posterior: bk.Posterior) -> None:
    table = posterior.sensitivity().table
    assert len(table) == 6
    step = 1e-4
    moved = [log_integral(stats.lognorm(1.0 + h), COUNTS[0])[0] for h in (-step, step)]
    assert table.loc["first.sigma", "derivative"] == pytest.approx((moved[1] - moved[0]) / (2 * step), abs=1e-6)
    moved = [stats.betabinom(10, 2 + h, 2).logpmf(SUCCESSES) for h in (-step, step)]
    assert table.loc["share.alpha", "derivative"] == pytest.approx((moved[1] - moved[0]) / (2 * step), abs=1e-6)


@pytest.mark.slow
def test_one_number_in_several_blocks_moves_all_of_them() -> None:
    with pm.Model() as model:
        scale = pm.Data("scale", 1.0)
        for k, name in enumerate("ab"):
            pm.Poisson(f"y_{name}", pm.LogNormal(name, 0.0, scale), observed=COUNTS[k])
    table = bk.infer(model, draws=100, random_seed=1).sensitivity().table
    step = 1e-4
    moved = [sum(log_integral(stats.lognorm(1.0 + h), y)[0] for y in COUNTS) for h in (-step, step)]
    assert table.loc["scale", "derivative"] == pytest.approx((moved[1] - moved[0]) / (2 * step), abs=1e-6)


@pytest.mark.slow
def test_what_only_a_sampler_answers_is_sampled_beside_the_rest() -> None:
    with pm.Model() as model:
        pm.Poisson("y", pm.LogNormal("a", 0.0, 1.0), observed=COUNTS[0])
        number = pm.Poisson("number", 6.0)
        pm.Normal("x", number, 1.0, observed=7.0)
    post = bk.infer(model, draws=401, random_seed=1, sampler={"tune": 200, "chains": 2})
    assert [p.method for p in post.blocks] == ["quadrature", "nuts"]
    assert post.method == "nuts"
    assert dict(post.tree["posterior"].sizes) == {"chain": 2, "draw": 201}
    assert post.diagnostics is not None
    assert math.isnan(post.log_evidence.value)
    assert "number is discrete" in post.log_evidence.reason
    assert float(post.marginal("a").mean()) == pytest.approx(of_first()[1], abs=1e-6)
    weights = stats.poisson(6).pmf(np.arange(40)) * stats.norm(np.arange(40), 1).pdf(7)
    mean = np.arange(40) @ weights / weights.sum()
    assert float(post.tree["posterior"]["number"].mean()) == pytest.approx(mean, abs=0.25)
    found = bk.savage_dickey(post, "a", at=1.5)
    assert found.log_bayes_factor == pytest.approx(stats.poisson(1.5).logpmf(COUNTS[0]).sum() - of_first()[0], abs=1e-6)
