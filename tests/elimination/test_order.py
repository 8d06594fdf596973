"""The order of elimination that leaves the fewest numbers, against SciPy's integrals over what is left."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk

X = np.random.default_rng(1).normal(size=(9, 3))
Y = X @ [1.0, -0.5, 2.0] + np.random.default_rng(2).normal(size=9)


def times(*, factor_first: bool) -> pm.Model:
    """A factor and the loadings that it is multiplied by: either is Normal given the other."""
    with pm.Model() as model:
        if factor_first:
            factor = pm.Normal("factor", 1.0, 1.0)
        loadings = pm.Normal("loadings", 0.0, 1.0, shape=3)
        if not factor_first:
            factor = pm.Normal("factor", 1.0, 1.0)
        pm.Normal("y", factor * (X @ loadings), 1.0, observed=Y)
    return model


@pytest.mark.parametrize("factor_first", [True, False])
def test_the_longer_of_two_that_are_multiplied_goes(factor_first: bool) -> None:
    post = bk.infer(times(factor_first=factor_first), draws=100, random_seed=1)
    assert [(s.variables, s.given) for s in post.plan.eliminated] == [(("loadings",), ("factor",))]
    assert post.plan.remaining == ("factor",)

    def density(a: float) -> float:
        covariance = np.eye(9) + a**2 * X @ X.T
        squares = Y @ np.linalg.solve(covariance, Y) + (a - 1) ** 2
        return math.exp(20 - 0.5 * (squares + np.linalg.slogdet(covariance)[1] + 10 * math.log(2 * math.pi)))

    expected = math.log(integrate.quad(density, -9, 11, epsabs=0, epsrel=1e-11, limit=200)[0]) - 20
    assert abs(post.log_evidence.value - expected) < post.log_evidence.error + 1e-9


def test_precisions_of_all_rows_go_before_a_slope() -> None:
    """A Student-t regression as a scale mixture: given the slope, each precision is Gamma."""
    x = X[:, 0]
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 2.0)
        precision = pm.Gamma("precision", 2.0, 2.0, shape=9)
        pm.Normal("y", slope * x, tau=precision, observed=Y)
    post = bk.infer(model, draws=1000, random_seed=1)
    assert [(s.variables, s.family, s.given) for s in post.plan.eliminated] == [(("precision",), "gamma", ("slope",))]
    assert "no longer quadratic" in post.plan.refusals[0].reason
    # Student's t of four degrees of freedom: the variance is 2 / chi-squared of four degrees, times two.
    constant = 9 * stats.t(4).logpdf(0.0) + stats.norm(0, 2).logpdf(0.0)

    def density(b: float) -> float:
        return math.exp(constant - 2.5 * np.log1p((Y - b * x) ** 2 / 4).sum() - b**2 / 8 + 20)

    near = {"epsabs": 0, "epsrel": 1e-11, "limit": 300, "points": [0.0, 1.0]}
    total, first = (integrate.quad(lambda b, k=k: b**k * density(b), -16, 16, **near)[0] for k in (0, 1))
    assert abs(post.log_evidence.value - (math.log(total) - 20)) < post.log_evidence.error + 1e-9
    assert float(post.marginal("slope").mean()) == pytest.approx(first / total, abs=1e-7)

    def mean_of_first(b: float) -> float:
        return density(b) * 2.5 / (2 + (Y[0] - b * x[0]) ** 2 / 2)

    expected = integrate.quad(mean_of_first, -16, 16, **near)[0] / total
    drawn = post.tree["posterior"]["precision"].values[..., 0]
    assert float(drawn.mean()) == pytest.approx(expected, abs=5 * drawn.std() / math.sqrt(1000))


def test_one_precision_stays_where_it_is_shorter_than_the_weights() -> None:
    with pm.Model() as model:
        weights = pm.Normal("weights", 0.0, 1.0, shape=3)
        precision = pm.Gamma("precision", 2.0, 2.0)
        pm.Normal("y", X @ weights, tau=precision, observed=Y)
    assert bk.explain(model).remaining == ("precision",)


@pytest.mark.parametrize("process_first", [True, False])
def test_weights_of_the_mean_go_before_a_process_in_the_log_scale(process_first: bool) -> None:
    with pm.Model() as model:
        weights = None if process_first else pm.Normal("weights", 0.0, 5.0, shape=3)
        sd, persistence = pm.HalfNormal("sd", 0.3), pm.Beta("persistence", 5.0, 1.0)
        start = pm.Normal.dist(0.0, 1.0)
        level = pm.AR("level", [persistence], sd, init_dist=start, constant=False, steps=8)
        weights = pm.Normal("weights", 0.0, 5.0, shape=3) if weights is None else weights
        pm.Normal("y", X @ weights, pm.math.exp(level / 2), observed=Y)
    plan = bk.explain(model)
    assert [s.variables for s in plan.eliminated] == [("weights",)]
    assert set(plan.remaining) == {"sd", "persistence", "level"}


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["switch", "power", "sum"])
def test_rates_of_groups_go_before_a_factor_that_some_rows_have(spelling: str) -> None:
    rng = np.random.default_rng(3)
    shop, promoted = rng.integers(3, size=30), rng.integers(2, size=30)
    sold = rng.poisson(np.array([2.0, 5.0, 9.0])[shop] * np.where(promoted, 1.5, 1.0))
    with pm.Model() as model:
        rate, lift = pm.Gamma("rate", 2.0, 0.5, shape=3), pm.Gamma("lift", 2.0, 1.0)
        times = {
            "switch": lambda: pm.math.switch(promoted > 0, lift, 1.0),
            "power": lambda: lift**promoted,
            "sum": lambda: promoted * lift + (1 - promoted),
        }[spelling]()
        pm.Poisson("sold", rate[shop] * times, observed=sold)
    post = bk.infer(model, draws=100, random_seed=1)
    assert post.plan.remaining == ("lift",)
    constant = -special.gammaln(sold + 1.0).sum()

    def density(each: float) -> float:
        """p(sold | lift) p(lift), of each shop a Gamma integral."""
        total = constant + promoted @ sold * math.log(each) + math.log(each) - each
        for k in range(3):
            own = shop == k
            shape, inverse = 2.0 + sold[own].sum(), 0.5 + np.where(promoted[own], each, 1.0).sum()
            total += special.gammaln(shape) - shape * math.log(inverse) + 2.0 * math.log(0.5)
        return math.exp(total + 70)

    expected = math.log(integrate.quad(density, 1e-3, 20, epsabs=0, epsrel=1e-11, limit=300, points=[1.0, 2.0])[0]) - 70
    assert post.log_evidence.value == pytest.approx(expected, abs=1e-7)
