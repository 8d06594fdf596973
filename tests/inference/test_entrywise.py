"""Whole answers in which a variable is integrated entry by entry, against dense integration in NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.results.records import Posterior

pytestmark = pytest.mark.slow("one inference of each spelling")

GROUP = np.repeat(np.arange(6), 3)
COUNTS = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 0, 0, 1, 8, 9, 7, 2, 3, 2])
EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
HALF = stats.halfnorm()
ERRORS = 4.5  # Monte Carlo standard errors: some twenty moments, a false alarm has a probability below 2e-4


def groups(spelling: str, counts: Any = COUNTS, group: Any = GROUP) -> pm.Model:
    """Counts of groups with Normal effects on the log scale; the sd is unknown."""
    with pm.Model(coords={"group": list("abcdef")}) as model:
        s = pm.HalfNormal("s", 1.0)
        if spelling == "centred":
            b = pm.Normal("b", 1.0, s, dims="group")
        else:
            b = pm.Deterministic("b", 1.0 + s * pm.Normal("z", 0, 1, dims="group"), dims="group")
        pm.Poisson("y", pt.exp(b[group]), observed=counts)
    return model


@functools.cache
def counted(spelling: str) -> Posterior:
    return bk.infer(groups(spelling), random_seed=4, draws=1_000)


def dense(
    counts: np.ndarray = COUNTS, group: np.ndarray = GROUP, prior: Any = HALF
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, and mean and sd of the effects, on a grid of log s and of effects in their sds, to 1e-12."""
    u, log_s = np.linspace(-9, 9, 361), np.linspace(-26, 2.5, 400)
    s = np.exp(log_s)
    b = 1.0 + s[:, None] * u
    weight = stats.norm.pdf(u) * (u[1] - u[0])
    total, moments = prior.logpdf(s) + log_s, []
    for k in range(6):
        y = counts[group == k]
        likelihood = np.exp(y.sum() * b - len(y) * np.exp(b) - special.gammaln(y + 1).sum()) * weight
        area = likelihood.sum(axis=1)
        total = total + np.log(area)
        moments.append([(likelihood * b**p).sum(axis=1) / area for p in (1, 2)])
    mass = np.exp(total - total.max())
    value = float(np.log(mass.sum() * (log_s[1] - log_s[0])) + total.max())
    first, second = (np.array([np.average(m[p], weights=mass) for m in moments]) for p in (0, 1))
    return value, first, np.sqrt(second - first**2)


@pytest.mark.parametrize("spelling", ["centred", "not centred"])
def test_the_evidence_and_the_effects_are_those_of_dense_integration(spelling: str) -> None:
    post = counted(spelling)
    value, mean, sd = dense()
    assert post.method == post.log_evidence.label == "quadrature"
    assert post.log_evidence.error < 2e-6
    assert abs(float(post.log_evidence) - value) <= post.log_evidence.error + 1e-9
    draws = post.tree["posterior"].dataset["b"].to_numpy().reshape(-1, 6)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), ERRORS * sd / np.sqrt(len(draws)))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.08)


def test_the_plan_says_what_is_done_in_either_spelling() -> None:
    for spelling, name in (("centred", "b"), ("not centred", "z")):
        plan = counted(spelling).plan
        assert plan.remaining == ("s",)
        assert [step.variables for step in plan.eliminated] == [(name,)]
        assert f"1. {name}: entrywise quadrature given s" in str(plan)
        assert "integrated out entry by entry" in str(plan)
        assert "closed form" not in plan.outlook
        assert str(bk.explain(groups(spelling)).eliminated) == str(plan.eliminated)


def test_other_methods_go_by_the_variable_itself() -> None:
    plan = counted("centred").plan
    assert plan.method == "quadrature"
    assert set(bk.collapse(groups("centred")).named_vars) >= {"s", "b"}
    with pytest.raises(bk.BayeskitError, match="no exact answer"):
        bk.infer(groups("centred"), method="exact")


def test_other_data_and_other_groups_are_integrated_anew() -> None:
    counts, group = np.roll(COUNTS, 2), np.roll(GROUP, 1)
    with pm.Model(coords={"group": list("abcdef")}) as model:
        held, of = pm.Data("counts", COUNTS), pm.Data("of", GROUP)
        s = pm.LogNormal("s", 0.0, 0.5)  # few nodes
        b = pm.Normal("b", 1.0, s, dims="group")
        pm.Poisson("y", pt.exp(b[of]), observed=held)
    analysis = analyse(model)
    for found, data in ((analysis, ()), (analysis.with_data({"counts": counts, "of": group}), (counts, group))):
        evidence = bk.infer(found, random_seed=4, draws=4).log_evidence
        assert float(evidence) == pytest.approx(dense(*data, prior=stats.lognorm(0.5))[0], abs=evidence.error + 1e-8)


def test_a_meta_analysis_with_heavy_tailed_effects() -> None:
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 10)
        effects = pm.StudentT("effects", nu=4, mu=8.0, sigma=tau, shape=8)
        pm.Normal("y", effects, ERROR, observed=EFFECT)
    post = bk.infer(model, random_seed=5, draws=1_000)
    # Twice as many points on each axis: the same value to 1e-10.
    u, log_tau = np.linspace(-9, 9, 361), np.linspace(-20, 8, 200)[:, None]
    z, tau = np.sinh(u), np.exp(log_tau)
    weight = stats.t.pdf(z, 4) * np.cosh(u) * (u[1] - u[0])
    total, moments = stats.halfcauchy.logpdf(tau[:, 0], 0, 10) + log_tau[:, 0], []
    for y, error in zip(EFFECT, ERROR, strict=True):
        effect = 8.0 + tau * z
        density = stats.norm.pdf(y, effect, error) * weight
        area = density.sum(axis=1)
        total = total + np.log(area)
        moments.append([(density * effect**p).sum(axis=1) / area for p in (1, 2)])
    mass = np.exp(total - total.max())
    value = np.log(mass.sum() * (log_tau[1, 0] - log_tau[0, 0])) + total.max()
    assert post.log_evidence.label == "quadrature"
    assert float(post.log_evidence) == pytest.approx(value, abs=post.log_evidence.error + 2e-8)
    first, second = (np.array([np.average(m[p], weights=mass) for m in moments]) for p in (0, 1))
    sd = np.sqrt(second - first**2)
    draws = post.tree["posterior"].dataset["effects"].to_numpy().reshape(-1, 8)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - first), ERRORS * sd / np.sqrt(len(draws)))
