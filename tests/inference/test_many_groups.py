"""Hierarchies of many groups by quadrature over their scale, against the sum over it of the closed form given it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk

SCALES = {"HalfNormal": stats.halfnorm(scale=2.0), "Exponential": stats.expon(scale=0.5)}


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "groups", "tau"), [("HalfNormal", 100, 0.0), ("Exponential", 300, 0.1)])
def test_groups_that_may_be_one(prior: str, groups: int, tau: float) -> None:
    """The density of log τ falls by one a unit only: it counts down to τ = 1e-12, where in θ nothing is left of it."""
    rng = np.random.default_rng(groups)
    error = rng.uniform(0.5, 2.0, groups)
    y = 3.0 + tau * rng.normal(size=groups) + error * rng.normal(size=groups)
    with pm.Model() as model:
        theta = pm.Normal("theta", pm.Normal("mu", 0.0, 10.0), getattr(pm, prior)("tau", 2.0), shape=groups)
        pm.Normal("y", theta, error, observed=y)
    posterior = bk.infer(model, draws=400, random_seed=4)
    log_tau = np.arange(-40.0, 4.0, 0.02)
    variance = error**2 + np.exp(2 * log_tau)[:, None]
    precision = (1 / variance).sum(axis=1) + 0.01
    mean = (y / variance).sum(axis=1) / precision
    density = -0.5 * (np.log(2 * np.pi * variance).sum(axis=1) + np.log(100.0 * precision))
    density += -0.5 * ((y - mean[:, None]) ** 2 / variance).sum(axis=1) - 0.005 * mean**2
    density += SCALES[prior].logpdf(np.exp(log_tau)) + log_tau
    evidence = np.logaddexp.reduce(density) + np.log(0.02)
    assert posterior.method == "quadrature"
    assert abs(posterior.log_evidence.value - evidence) < posterior.log_evidence.error < 1e-8
    weights = np.exp(density - evidence) * 0.02
    found = posterior.marginal("mu")
    assert found.mean() == pytest.approx(weights @ mean, rel=1e-7)
    shrunk = 1 - error[0] ** 2 / variance[:, 0]
    centre = shrunk * y[0] + (1 - shrunk) * mean
    first = posterior.marginal("theta")
    assert np.ravel(first.mean())[0] == pytest.approx(weights @ centre, rel=1e-7)
    square = shrunk * error[0] ** 2 + (1 - shrunk) ** 2 / precision + centre**2
    assert np.ravel(first.std())[0] == pytest.approx(np.sqrt(weights @ square - (weights @ centre) ** 2), rel=1e-6)
    drawn = posterior.tree["posterior"]["mu"].to_numpy().ravel()
    assert abs(drawn.mean() - weights @ mean) < 5 * drawn.std() / np.sqrt(len(drawn))


@pytest.mark.slow
def test_groups_of_groups() -> None:
    """Their band is wider than a diagonal, and has no factor in θ where the lower scale is near zero."""
    regions, schools, pupils, error = 64, 3, 2, 0.1
    rng = np.random.default_rng(26)
    y = 1.0 + rng.normal(size=(regions, 1, 1)) + error * rng.normal(size=(regions, schools, pupils))
    with pm.Model() as model:
        upper, lower = pm.HalfNormal("upper", 1.0), pm.HalfNormal("lower", 0.5)
        region = pm.Normal("region", pm.Normal("mu", 0.0, 5.0), upper, shape=regions)
        school = pm.Normal("school", region[:, None], lower, shape=(regions, schools))
        pm.Normal("y", school[..., None], error, observed=y)
    posterior = bk.infer(model, draws=40, random_seed=4)
    # Orthogonal contrasts within schools, among those of a region, among regions, and the mean of all.
    log_upper, log_lower = np.linspace(-1.0, 1.0, 401)[:, None], np.arange(-25.0, 0.0, 0.02)
    means, of_regions = y.mean(axis=2), y.mean(axis=(1, 2))
    within = error**2 + pupils * np.exp(2 * log_lower)
    among = within + schools * pupils * np.exp(2 * log_upper)
    whole = y.size * 25.0 + among
    squares = pupils * ((means - of_regions[:, None]) ** 2).sum()
    between = schools * pupils * ((of_regions - y.mean()) ** 2).sum()
    density = (
        stats.norm.logpdf((y - means[..., None]), scale=error).sum() + means.size * np.log(2 * np.pi * error**2) / 2
    )
    density = density - ((regions * (schools - 1)) * np.log(2 * np.pi * within) + squares / within) / 2
    density = density - ((regions - 1) * np.log(2 * np.pi * among) + between / among) / 2
    density += stats.norm.logpdf(np.sqrt(y.size) * y.mean(), scale=np.sqrt(whole))
    for log_scale, prior in ((log_upper, 1.0), (log_lower, 0.5)):
        density = density + stats.halfnorm.logpdf(np.exp(log_scale), scale=prior) + log_scale
    evidence = np.logaddexp.reduce(density, axis=None) + np.log(0.005 * 0.02)
    assert posterior.method == "quadrature"
    assert abs(posterior.log_evidence.value - evidence) < 1e-8
    weights = np.exp(density - evidence) * 0.005 * 0.02
    for name, log_scale in (("lower", log_lower), ("upper", log_upper)):
        expected = (weights * np.exp(log_scale)).sum()
        assert posterior.marginal(name).mean() == pytest.approx(expected, rel=1e-6)
