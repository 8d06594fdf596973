"""Regressions beyond conjugacy, with log densities by hand: see :mod:`beyond_references`."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from beyond_references import Case, Values, cauchy, positive, real, total, unit
from scipy import special, stats

__all__ = ["REGRESSIONS"]

Array = np.ndarray
norm, halfnorm = stats.norm.logpdf, stats.halfnorm.logpdf


def design(rows: int, columns: int, seed: int) -> tuple[Array, np.random.Generator]:
    """A column of ones beside Normal covariates, and a generator for the rest."""
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(rows), rng.normal(size=(rows, columns - 1))]), rng


def poisson(y: Array, log_rate: Array) -> Array:
    return y * log_rate - np.exp(log_rate) - special.gammaln(y + 1)


def logistic() -> Case:
    x, rng = design(30, 3, 1)
    y = rng.binomial(1, special.expit(x @ [0.3, 1.0, -1.0]))
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=x @ pm.Normal("w", 0, 2.5, shape=3), observed=y)
    signs = 2 * y - 1
    return Case(model, {"w": real(3)}, lambda v: total(norm(v["w"], 0, 2.5), special.log_expit(signs * (v["w"] @ x.T))))


def separated_logistic() -> Case:
    """Classes that a line separates, under the Cauchy priors of Gelman and others (2008)."""
    x = np.linspace(-1, 1, 12)
    signs = np.where(x > 0, 1, -1)
    with pm.Model() as model:
        intercept, slope = pm.Cauchy("intercept", 0, 10), pm.Cauchy("slope", 0, 2.5)
        pm.Bernoulli("y", logit_p=intercept + slope * x, observed=(signs + 1) // 2)

    def density(v: Values) -> Array:
        prior = stats.cauchy.logpdf(v["intercept"], 0, 10), stats.cauchy.logpdf(v["slope"], 0, 2.5)
        return total(*prior, special.log_expit(signs * (v["intercept"] + v["slope"] * x)))

    return Case(model, {"intercept": cauchy(10), "slope": cauchy(2.5)}, density)


def softmax() -> Case:
    x, rng = design(40, 2, 2)
    logits = np.hstack([np.zeros((40, 1)), x @ [[0.5, -0.5], [1.0, -1.0]]])
    y = np.array([rng.choice(3, p=p) for p in special.softmax(logits, axis=1)])
    with pm.Model() as model:
        w = pm.Normal("w", 0, 2, shape=4)
        eta = pt.concatenate([pt.zeros((40, 1)), x @ w.reshape((2, 2))], axis=1)
        pm.Categorical("y", logit_p=eta, observed=y)

    def density(v: Values) -> Array:
        eta = np.einsum("rc,sck->srk", x, v["w"].reshape(-1, 2, 2))
        eta = np.concatenate([np.zeros_like(eta[..., :1]), eta], axis=2)
        return total(norm(v["w"], 0, 2), eta[:, np.arange(40), y] - special.logsumexp(eta, axis=2))

    return Case(model, {"w": real(4)}, density)


def poisson_with_exposure() -> Case:
    x, rng = design(25, 4, 3)
    exposure = rng.uniform(0.5, 5, 25)
    y = rng.poisson(exposure * np.exp(x @ [0.2, 0.5, -0.4, 0.1]))
    with pm.Model() as model:
        pm.Poisson("y", pt.exp(x @ pm.Normal("w", 0, 2, shape=4)) * exposure, observed=y)
    offset = np.log(exposure)
    return Case(
        model, {"w": real(4)}, lambda v: total(norm(v["w"], 0, 2), poisson(y, v["w"] @ x.T + offset)), points=2**20
    )


def negative_binomial_with_exposure() -> Case:
    x, rng = design(40, 2, 4)
    exposure = rng.uniform(0.5, 3, 40)
    mean = exposure * np.exp(x @ [1.0, 0.5])
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
    with pm.Model() as model:
        w, alpha = pm.Normal("w", 0, 2, shape=2), pm.Gamma("alpha", 2, 0.5)
        pm.NegativeBinomial("y", mu=pt.exp(x @ w) * exposure, alpha=alpha, observed=y)

    def density(v: Values) -> Array:
        mu = exposure * np.exp(v["w"] @ x.T)
        data = stats.nbinom.logpmf(y, v["alpha"], v["alpha"] / (v["alpha"] + mu))
        return total(norm(v["w"], 0, 2), stats.gamma.logpdf(v["alpha"], 2, scale=2), data)

    return Case(model, {"w": real(2), "alpha": positive()}, density, steps=72)


def ordered_logistic() -> Case:
    """Cutpoints a first one and gaps, so that no order is left to a transform."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=50)
    y = np.searchsorted([-1.0, 0.3, 1.5], 1.2 * x + rng.logistic(size=50))
    with pm.Model() as model:
        slope, first = pm.Normal("slope", 0, 2), pm.Normal("first", 0, 3)
        gap = pm.Exponential("gap", 1.0, shape=2)
        cuts = pt.concatenate([first[None], first + pt.cumsum(gap)])
        pm.OrderedLogistic("y", eta=slope * x, cutpoints=cuts, observed=y)

    def density(v: Values) -> Array:
        cuts = np.hstack([v["first"], v["first"] + np.cumsum(v["gap"], axis=1)])
        ends = np.hstack([np.full_like(v["first"], -np.inf), cuts, np.full_like(v["first"], np.inf)])
        eta = v["slope"] * x
        share = special.expit(ends[:, y + 1] - eta) - special.expit(ends[:, y] - eta)
        prior = norm(v["slope"], 0, 2), norm(v["first"], 0, 3), stats.expon.logpdf(v["gap"])
        return total(*prior, np.log(share))

    return Case(model, {"slope": real(), "first": real(), "gap": positive(2)}, density)


def probit() -> Case:
    x, rng = design(35, 3, 6)
    y = rng.binomial(1, stats.norm.cdf(x @ [-0.2, 0.8, 0.5]))
    with pm.Model() as model:
        w = pm.Normal("w", 0, 1.5, shape=3)
        pm.Bernoulli("y", p=pm.math.invprobit(x @ w), observed=y)
    signs = 2 * y - 1
    return Case(model, {"w": real(3)}, lambda v: total(norm(v["w"], 0, 1.5), special.log_ndtr(signs * (v["w"] @ x.T))))


def complementary_log_log() -> Case:
    """Beetles of Bliss (1935): deaths by dose, under the complementary log-log link."""
    dose = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
    n, killed = np.array([59, 60, 62, 56, 63, 59, 62, 60]), np.array([6, 13, 18, 28, 52, 53, 61, 60])
    x = (dose - dose.mean()) * 10
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 3), pm.Normal("b", 0, 5)
        pm.Binomial("y", n=n, p=1 - pt.exp(-pt.exp(a + b * x)), observed=killed)

    def density(v: Values) -> Array:
        rate = np.exp(v["a"] + v["b"] * x)
        data = special.xlogy(killed, -np.expm1(-rate)) - (n - killed) * rate + np.log(special.comb(n, killed))
        return total(norm(v["a"], 0, 3), norm(v["b"], 0, 5), data)

    return Case(model, {"a": real(), "b": real()}, density)


def student_t() -> Case:
    x, rng = design(40, 2, 7)
    y = x @ [1.0, 2.0] + 0.5 * rng.standard_t(3, 40)
    with pm.Model() as model:
        w, sigma, nu = pm.Normal("w", 0, 5, shape=2), pm.HalfNormal("sigma", 2), pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=x @ w, sigma=sigma, observed=y)

    def density(v: Values) -> Array:
        prior = norm(v["w"], 0, 5), halfnorm(v["sigma"], 0, 2), stats.gamma.logpdf(v["nu"], 2, scale=10)
        return total(*prior, stats.t.logpdf(y, v["nu"], v["w"] @ x.T, v["sigma"]))

    return Case(model, {"w": real(2), "sigma": positive(), "nu": positive()}, density)


def zero_inflated_poisson() -> Case:
    x, rng = design(40, 2, 8)
    y = rng.poisson(np.exp(x @ [0.8, 0.4])) * rng.binomial(1, 0.7, 40)
    with pm.Model() as model:
        w, psi = pm.Normal("w", 0, 2, shape=2), pm.Beta("psi", 2, 2)
        pm.ZeroInflatedPoisson("y", psi=psi, mu=pt.exp(x @ w), observed=y)

    def density(v: Values) -> Array:
        log_rate = v["w"] @ x.T
        some = np.log(v["psi"]) + poisson(y, log_rate)
        data = np.where(y == 0, np.logaddexp(np.log1p(-v["psi"]), some), some)
        return total(norm(v["w"], 0, 2), stats.beta.logpdf(v["psi"], 2, 2), data)

    return Case(model, {"w": real(2), "psi": unit()}, density)


def hurdle_poisson() -> Case:
    x, rng = design(40, 2, 9)
    rate = np.exp(x @ [0.7, 0.5])
    positives = np.array([next(k for k in iter(lambda r=r: rng.poisson(r), None) if k > 0) for r in rate])
    y = positives * rng.binomial(1, 0.6, 40)
    with pm.Model() as model:
        w, psi = pm.Normal("w", 0, 2, shape=2), pm.Beta("psi", 1, 1)
        pm.HurdlePoisson("y", psi=psi, mu=pt.exp(x @ w), observed=y)

    def density(v: Values) -> Array:
        log_rate = v["w"] @ x.T
        some = np.log(v["psi"]) + poisson(y, log_rate) - np.log(-np.expm1(-np.exp(log_rate)))
        return total(norm(v["w"], 0, 2), np.where(y == 0, np.log1p(-v["psi"]), some))

    return Case(model, {"w": real(2), "psi": unit()}, density)


def censored_regression() -> Case:
    """Tobit: values below zero are seen as zero."""
    x, rng = design(40, 2, 10)
    y = np.maximum(x @ [0.5, 1.0] + rng.normal(size=40), 0.0)
    with pm.Model() as model:
        w, sigma = pm.Normal("w", 0, 3, shape=2), pm.HalfNormal("sigma", 2)
        pm.Censored("y", pm.Normal.dist(x @ w, sigma), lower=0.0, upper=None, observed=y)

    def density(v: Values) -> Array:
        mean = v["w"] @ x.T
        data = np.where(y > 0, norm(y, mean, v["sigma"]), special.log_ndtr(-mean / v["sigma"]))
        return total(norm(v["w"], 0, 3), halfnorm(v["sigma"], 0, 2), data)

    return Case(model, {"w": real(2), "sigma": positive()}, density)


def dose_response() -> Case:
    """The logistic curve of four parameters."""
    dose = np.repeat(np.linspace(-2, 2, 9), 2)
    y = 1 + 4 * special.expit(2 * (dose - 0.3)) + 0.3 * np.random.default_rng(11).normal(size=18)
    with pm.Model() as model:
        bottom, height = pm.Normal("bottom", 0, 3), pm.HalfNormal("height", 5)
        middle, hill, sigma = pm.Normal("middle", 0, 1.5), pm.LogNormal("hill", 0, 1), pm.HalfNormal("sigma", 1)
        pm.Normal("y", bottom + height * pm.math.sigmoid(hill * (dose - middle)), sigma, observed=y)

    def density(v: Values) -> Array:
        mean = v["bottom"] + v["height"] * special.expit(v["hill"] * (dose - v["middle"]))
        prior = norm(v["bottom"], 0, 3), halfnorm(v["height"], 0, 5), norm(v["middle"], 0, 1.5)
        scales = stats.lognorm.logpdf(v["hill"], 1), halfnorm(v["sigma"], 0, 1)
        return total(*prior, *scales, norm(y, mean, v["sigma"]))

    numbers = {"bottom": real(), "height": positive(), "middle": real(), "hill": positive(), "sigma": positive()}
    return Case(model, numbers, density)


def michaelis_menten() -> Case:
    """Velocities of an enzyme treated with puromycin (Treloar 1974)."""
    x = np.repeat([0.02, 0.06, 0.11, 0.22, 0.56, 1.10], 2)
    y = np.array([76, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200]) / 100
    with pm.Model() as model:
        top, half, sigma = pm.HalfNormal("top", 4), pm.HalfNormal("half", 0.5), pm.HalfNormal("sigma", 0.5)
        pm.Normal("y", top * x / (half + x), sigma, observed=y)

    def density(v: Values) -> Array:
        prior = halfnorm(v["top"], 0, 4), halfnorm(v["half"], 0, 0.5), halfnorm(v["sigma"], 0, 0.5)
        return total(*prior, norm(y, v["top"] * x / (v["half"] + x), v["sigma"]))

    return Case(model, {"top": positive(), "half": positive(), "sigma": positive()}, density, start=(0.8, -3.0, -2.0))


def beta_regression() -> Case:
    x, rng = design(30, 2, 12)
    mean = special.expit(x @ [0.3, 0.7])
    y = rng.beta(8 * mean, 8 * (1 - mean))
    with pm.Model() as model:
        w, kappa = pm.Normal("w", 0, 2, shape=2), pm.Gamma("kappa", 2, 0.1)
        mu = pm.math.sigmoid(x @ w)
        pm.Beta("y", mu * kappa, (1 - mu) * kappa, observed=y)

    def density(v: Values) -> Array:
        mu = special.expit(v["w"] @ x.T)
        prior = norm(v["w"], 0, 2), stats.gamma.logpdf(v["kappa"], 2, scale=10)
        return total(*prior, stats.beta.logpdf(y, mu * v["kappa"], (1 - mu) * v["kappa"]))

    return Case(model, {"w": real(2), "kappa": positive()}, density, steps=72)


REGRESSIONS = (
    logistic,
    separated_logistic,
    softmax,
    poisson_with_exposure,
    negative_binomial_with_exposure,
    ordered_logistic,
    probit,
    complementary_log_log,
    student_t,
    zero_inflated_poisson,
    hurdle_poisson,
    censored_regression,
    dose_response,
    michaelis_menten,
    beta_regression,
)
