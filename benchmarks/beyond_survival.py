"""Lifetimes, changepoints, mixtures and populations, with log densities by hand: see :mod:`beyond_references`."""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from beyond_references import Case, Moments, Values, interval, ordered, positive, real, total, unit
from scipy import special, stats

__all__ = ["OTHERS"]

Array = np.ndarray
norm, halfnorm = stats.norm.logpdf, stats.halfnorm.logpdf


def lifetimes(seed: int, shape: float) -> tuple[Array, Array, Array]:
    """Times that end at three, a covariate, and whether an end was seen."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=35)
    times = np.exp(0.5 + 0.5 * x) * rng.weibull(shape, 35)
    return np.minimum(times, 3.0), x, 1.0 * (times < 3.0)


def exponential_survival() -> Case:
    t, x, seen = lifetimes(41, 1.0)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        pm.Censored("t", pm.Exponential.dist(scale=pt.exp(a + b * x)), lower=None, upper=3.0, observed=t)

    def density(v: Values) -> Array:
        eta = v["a"] + v["b"] * x
        return total(norm(v["a"], 0, 2), norm(v["b"], 0, 2), -seen * eta - t * np.exp(-eta))

    return Case(model, {"a": real(), "b": real()}, density)


def weibull_survival() -> Case:
    t, x, seen = lifetimes(42, 1.5)
    with pm.Model() as model:
        a, b, shape = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2), pm.Gamma("shape", 2, 1)
        pm.Censored("t", pm.Weibull.dist(shape, pt.exp(a + b * x)), lower=None, upper=3.0, observed=t)

    def density(v: Values) -> Array:
        k, scale = v["shape"], np.exp(v["a"] + v["b"] * x)
        data = np.where(
            seen > 0, stats.weibull_min.logpdf(t, k, scale=scale), stats.weibull_min.logsf(t, k, scale=scale)
        )
        return total(norm(v["a"], 0, 2), norm(v["b"], 0, 2), stats.gamma.logpdf(k, 2), data)

    return Case(model, {"a": real(), "b": real(), "shape": positive()}, density, steps=72)


def log_normal_survival() -> Case:
    t, x, seen = lifetimes(43, 1.5)
    with pm.Model() as model:
        a, b, sigma = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2), pm.HalfNormal("sigma", 2)
        pm.Censored("t", pm.LogNormal.dist(a + b * x, sigma), lower=None, upper=3.0, observed=t)

    def density(v: Values) -> Array:
        z = (np.log(t) - v["a"] - v["b"] * x) / v["sigma"]
        data = np.where(seen > 0, norm(z) - np.log(v["sigma"] * t), special.log_ndtr(-z))
        return total(norm(v["a"], 0, 2), norm(v["b"], 0, 2), halfnorm(v["sigma"], 0, 2), data)

    return Case(model, {"a": real(), "b": real(), "sigma": positive()}, density, steps=72)


def weibull_frailties() -> Case:
    """Gamma frailties of six groups, integrated in closed form given the shape of the hazard."""
    rng = np.random.default_rng(44)
    group = np.repeat(np.arange(6), 5)
    t = (rng.exponential(size=30) / rng.gamma(2, 0.5, 6)[group]) ** (1 / 1.4)
    with pm.Model() as model:
        shape, scale, spread = pm.Gamma("shape", 4, 3), pm.LogNormal("scale", 0, 1), pm.Gamma("spread", 2, 1)
        frailty = pm.Gamma("frailty", spread, spread, shape=6)
        pm.Weibull("t", shape, scale * frailty[group] ** (-1 / shape), observed=t)
    member = np.eye(6)[group]

    def density(v: Values) -> tuple[Array, Moments]:
        k, s = v["shape"], v["spread"]
        hazard = (t / v["scale"]) ** k
        a, b = s + member.sum(axis=0), s + hazard @ member
        data = s * np.log(s) - special.gammaln(s) + special.gammaln(a) - a * np.log(b)
        alone = np.log(k / v["scale"]) + (k - 1) * np.log(t / v["scale"])
        prior = stats.gamma.logpdf(k, 4, scale=1 / 3), stats.lognorm.logpdf(v["scale"], 1), stats.gamma.logpdf(s, 2)
        return total(*prior, data, alone), {"frailty": (a / b, a * (a + 1) / b**2)}

    return Case(model, {"shape": positive(), "scale": positive(), "spread": positive()}, density, steps=72)


COUNTS = np.random.default_rng(45).poisson(np.repeat([4.0, 1.0, 3.0], [14, 16, 10]))
CUMULATED = np.concatenate([[0], np.cumsum(COUNTS)])


def segments(log_rate: Array, low: Array, high: Array) -> Array:
    """Log likelihood of COUNTS between places, without their factorials; rates are (S, 1), places (k,)."""
    return (CUMULATED[high] - CUMULATED[low]) * log_rate - (high - low) * np.exp(log_rate)


def one_changepoint() -> Case:
    """Log-normal rates before and after a step of unknown place."""
    n = len(COUNTS)
    with pm.Model() as model:
        place = pm.DiscreteUniform("place", 1, n - 1)
        log_rate = pm.Normal("log_rate", 0.5, 1, shape=2)
        pm.Poisson("y", pt.exp(pt.where(np.arange(n) < place, log_rate[0], log_rate[1])), observed=COUNTS)
    places = np.arange(1, n)
    constant = special.gammaln(COUNTS + 1).sum() + np.log(n - 1)

    def density(v: Values) -> tuple[Array, Moments]:
        first, second = v["log_rate"][:, [0]], v["log_rate"][:, [1]]
        each = segments(first, 0 * places, places) + segments(second, places, 0 * places + n)
        log_sum, share = special.logsumexp(each, axis=1), special.softmax(each, axis=1)
        moments = (share @ places)[:, None], (share @ places**2)[:, None]
        return total(norm(v["log_rate"], 0.5, 1)) + log_sum - constant, {"place": moments}

    return Case(model, {"log_rate": real(2)}, density)


def two_changepoints() -> Case:
    """Gamma rates about two steps in order: exact, by a sum over pairs of places."""
    n = len(COUNTS)
    with pm.Model() as model:
        first = pm.DiscreteUniform("first", 1, n - 2)
        second = pm.DiscreteUniform("second", first + 1, n - 1)
        rate = pm.Gamma("rate", 2, 1, shape=3)
        t = np.arange(n)
        which = pt.cast(t >= first, "int64") + pt.cast(t >= second, "int64")
        pm.Poisson("y", rate[which], observed=COUNTS)
    pairs = np.array([(a, b) for a, b in itertools.combinations(range(1, n), 2) if a <= n - 2])
    ends = np.column_stack([np.zeros(len(pairs), int), pairs, np.full(len(pairs), n)])
    a = 2 + np.diff(CUMULATED[ends], axis=1)
    b = 1 + np.diff(ends, axis=1)
    logs = np.sum(special.gammaln(a) - a * np.log(b), axis=1) - np.log(n - 2) - np.log(n - 1 - pairs[:, 0])
    log_sum, share = special.logsumexp(logs), special.softmax(logs)
    known = {
        "first": (share @ pairs[:, :1], share @ pairs[:, :1] ** 2),
        "second": (share @ pairs[:, 1:], share @ pairs[:, 1:] ** 2),
        "rate": (share @ (a / b), share @ (a * (a + 1) / b**2)),
    }

    def density(v: Values) -> tuple[Array, Moments]:
        # Of no number: that of a standard Normal beside what is known.
        wide = {name: tuple(np.tile(m, (len(v["_none"]), 1)) for m in both) for name, both in known.items()}
        return total(norm(v["_none"])) + log_sum - special.gammaln(COUNTS + 1).sum(), wide

    return Case(model, {"_none": real()}, density)


def two_normals() -> Case:
    """A mixture whose means are in order by PyMC's transform."""
    rng = np.random.default_rng(14)
    y = np.concatenate([rng.normal(-1.5, 0.7, 12), rng.normal(1.5, 0.7, 20)])
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 3, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
        weight, sigma = pm.Beta("weight", 2, 2), pm.HalfNormal("sigma", 1)
        pm.NormalMixture("y", pt.stack([weight, 1 - weight]), mean, sigma, observed=y)

    def density(v: Values) -> Array:
        low, high = (norm(y, v["mean"][:, [k]], v["sigma"]) for k in (0, 1))
        data = np.logaddexp(np.log(v["weight"]) + low, np.log1p(-v["weight"]) + high)
        prior = norm(v["mean"], 0, 3), stats.beta.logpdf(v["weight"], 2, 2), halfnorm(v["sigma"], 0, 1)
        return total(*prior, data) + np.log(2)  # a density of pairs in order is twice that of all pairs

    return Case(
        model, {"mean": ordered(2), "weight": unit(), "sigma": positive()}, density, start=(-1.0, 0.7, 0.0, -0.5)
    )


def recaptures() -> Case:
    """A population of which some were marked, and some of these caught again."""
    marked, caught, again = 32, 28, 11
    with pm.Model() as model:
        size = pm.DiscreteUniform("size", 49, 300)
        p = pm.Beta("p", 2, 2, shape=2)
        pm.Binomial("marked", size, p[0], observed=marked)
        pm.Binomial("caught", size, p[1], observed=caught)
        pm.HyperGeometric("again", N=size, k=marked, n=caught, observed=again)
    sizes = np.arange(49, 301)
    each = stats.hypergeom.logpmf(again, sizes, marked, caught) - np.log(len(sizes))

    def density(v: Values) -> tuple[Array, Moments]:
        p = v["p"]
        log_p = stats.binom.logpmf(marked, sizes, p[:, [0]]) + stats.binom.logpmf(caught, sizes, p[:, [1]]) + each
        log_sum, share = special.logsumexp(log_p, axis=1), special.softmax(log_p, axis=1)
        moments = (share @ sizes)[:, None], (share @ sizes**2)[:, None]
        return total(stats.beta.logpdf(p, 2, 2)) + log_sum, {"size": moments}

    return Case(model, {"p": unit(2)}, density, steps=120)


def unequal_catchability() -> Case:
    """Individuals caught on some of five occasions, with capture probabilities of their own; N is known."""
    counts = np.array([0] * 9 + [1] * 8 + [2] * 6 + [3] * 4 + [4] * 2 + [5])
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 1.5), pm.HalfNormal("sigma", 1)
        ability = pm.Normal("ability", mu, sigma, shape=len(counts))
        pm.Binomial("y", 5, logit_p=ability, observed=counts)
    z = np.linspace(-8, 8, 129)
    log_weight = norm(z) + np.log(z[1] - z[0])
    which = np.bincount(counts)

    def density(v: Values) -> Array:
        x = v["mu"] + v["sigma"] * z
        alone = log_weight - 5 * np.logaddexp(0, x)
        each = np.stack([special.logsumexp(alone + k * x, axis=1) for k in range(6)], axis=1)
        data = (each + np.log(special.comb(5, np.arange(6)))) @ which
        return total(norm(v["mu"], 0, 1.5), halfnorm(v["sigma"], 0, 1)) + data

    return Case(model, {"mu": real(), "sigma": positive()}, density)


def truncated_correlation() -> Case:
    """A correlation under a uniform prior, of pairs with known variances."""
    rng = np.random.default_rng(13)
    x = rng.normal(size=20)
    y = 0.6 * x + 0.8 * rng.normal(size=20)
    with pm.Model() as model:
        rho = pm.Uniform("rho", -1, 1)
        pm.Normal("y", rho * x, pt.sqrt(1 - rho**2), observed=y)
    return Case(
        model,
        {"rho": interval(-1, 1)},
        lambda v: total(np.full_like(v["rho"], -np.log(2)), norm(y, v["rho"] * x, np.sqrt(1 - v["rho"] ** 2))),
    )


OTHERS = (
    exponential_survival,
    weibull_survival,
    log_normal_survival,
    weibull_frailties,
    one_changepoint,
    two_changepoints,
    two_normals,
    recaptures,
    unequal_catchability,
    truncated_correlation,
)
