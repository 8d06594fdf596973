"""Hierarchies beyond conjugacy, with log densities by hand: see :mod:`beyond_references`.

What belongs to one group is integrated by the trapezoid rule in its standardised effect.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from beyond_references import Case, Moments, Values, positive, real, total, unit
from scipy import special, stats

__all__ = ["GROUPS"]

Array = np.ndarray
norm, halfnorm = stats.norm.logpdf, stats.halfnorm.logpdf
Z = np.linspace(-8, 8, 129)
LOG_WEIGHT = stats.norm.logpdf(Z) + np.log(Z[1] - Z[0])


def summed(log_terms: Array, effect: Array) -> tuple[Array, tuple[Array, Array]]:
    """Of log weights and values at nodes, (S, groups, nodes): log sums over nodes, and E[x], E[x²] of each group."""
    log_sum = special.logsumexp(log_terms, axis=2)
    share = np.exp(log_terms - log_sum[..., None])
    return log_sum, (np.sum(share * effect, axis=2), np.sum(share * effect**2, axis=2))


def normal_effects(
    mean: Array, sd: Array, log_likelihood: Callable[[Array], Array]
) -> tuple[Array, tuple[Array, Array]]:
    """Of effects mean + sd z that are Normal before the data; the likelihood is of (S, groups, nodes)."""
    effect = mean[..., None] + sd[..., None] * Z
    log_likelihoods = log_likelihood(effect)
    return summed(LOG_WEIGHT + log_likelihoods, np.broadcast_to(effect, log_likelihoods.shape))


def logistic_intercepts() -> Case:
    rng = np.random.default_rng(21)
    n, y = np.full(8, 7), rng.binomial(7, special.expit(0.5 + rng.normal(size=8)))
    group = np.repeat(np.arange(8), n)
    seen = np.concatenate([np.arange(7) < k for k in y]).astype(int)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        effect = pm.Normal("effect", mu, tau, shape=8)
        pm.Bernoulli("y", logit_p=effect[group], observed=seen)

    def density(v: Values) -> tuple[Array, Moments]:
        data = lambda b: y[:, None] * b - n[:, None] * np.logaddexp(0, b)  # noqa: E731
        log_sum, moments = normal_effects(v["mu"], v["tau"], data)
        return total(norm(v["mu"], 0, 2), halfnorm(v["tau"], 0, 1), log_sum), {"effect": moments}

    return Case(model, {"mu": real(), "tau": positive()}, density, steps=140)


def logistic_intercepts_and_slope() -> Case:
    """Offsets about the mean, times their scale, and a slope that all groups share."""
    rng = np.random.default_rng(22)
    group, x = np.repeat(np.arange(6), 8), rng.normal(size=48)
    y = rng.binomial(1, special.expit(-0.3 + 0.8 * x + rng.normal(size=6)[group]))
    with pm.Model() as model:
        mu, slope, tau = pm.Normal("mu", 0, 2), pm.Normal("slope", 0, 2), pm.Exponential("tau", 1)
        offset = pm.Normal("offset", 0, 1, shape=6)
        pm.Bernoulli("y", logit_p=mu + tau * offset[group] + slope * x, observed=y)
    signs, x = (2 * y - 1).reshape(6, 8), x.reshape(6, 8)

    def density(v: Values) -> tuple[Array, Moments]:
        effect, slope = v["mu"][..., None] + v["tau"][..., None] * Z, v["slope"][..., None]
        data = sum(special.log_expit(signs[:, [k]] * (effect + slope * x[:, [k]])) for k in range(8))
        log_sum, moments = summed(LOG_WEIGHT + data, np.broadcast_to(Z, data.shape))
        prior = norm(v["mu"], 0, 2), norm(v["slope"], 0, 2), stats.expon.logpdf(v["tau"])
        return total(*prior, log_sum), {"offset": moments}

    return Case(model, {"mu": real(), "slope": real(), "tau": positive()}, density, steps=44, reach=3.6)


def poisson_slopes() -> Case:
    rng = np.random.default_rng(23)
    group, x = np.repeat(np.arange(6), 6), np.tile(np.linspace(-1, 1, 6), 6)
    y = rng.poisson(np.exp(1.0 + (0.5 + 0.5 * rng.normal(size=6))[group] * x))
    with pm.Model() as model:
        a, mu, tau = pm.Normal("a", 0, 2), pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        slope = pm.Normal("slope", mu, tau, shape=6)
        pm.Poisson("y", pt.exp(a + slope[group] * x), observed=y)
    sums = np.array([(y * x)[group == g].sum() for g in range(6)])[:, None]
    constant = special.gammaln(y + 1).sum()

    def density(v: Values) -> tuple[Array, Moments]:
        rate = lambda b: sum(np.exp(v["a"][..., None] + b * u) for u in x[:6])  # noqa: E731
        log_sum, moments = normal_effects(v["mu"], v["tau"], lambda b: sums * b - rate(b))
        prior = norm(v["a"], 0, 2), norm(v["mu"], 0, 2), halfnorm(v["tau"], 0, 1)
        return total(*prior, log_sum) + v["a"][:, 0] * y.sum() - constant, {"slope": moments}

    return Case(model, {"a": real(), "mu": real(), "tau": positive()}, density, steps=44, reach=3.6)


def poisson_intercepts_and_slopes() -> Case:
    """Lines of five groups; given means and sds, each by Gauss-Hermite about its own mode."""
    rng = np.random.default_rng(24)
    group, x = np.repeat(np.arange(5), 6), np.tile(np.linspace(-1, 1, 6), 5)
    y = rng.poisson(np.exp((1 + 0.5 * rng.normal(size=5))[group] + (0.6 + 0.4 * rng.normal(size=5))[group] * x))
    with pm.Model() as model:
        mean, sd = pm.Normal("mean", 0, 2, shape=2), pm.HalfNormal("sd", 1, shape=2)
        z = pm.Normal("z", 0, 1, shape=(2, 5))
        level, slope = (mean[k] + sd[k] * z[k] for k in (0, 1))
        pm.Poisson("y", pt.exp(level[group] + slope[group] * x), observed=y)
    nodes, weights = np.polynomial.hermite_e.hermegauss(13)
    pair = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    log_weight = np.log(np.outer(weights, weights)).ravel() + np.sum(pair**2, axis=1) / 2
    rows, y = np.column_stack([np.ones(6), x[:6]]), y.reshape(5, 6)

    def density(v: Values) -> Array:
        mean, columns = v["mean"], rows * v["sd"][:, None]  # (S, 6, 2)
        base, z = mean @ rows.T, np.zeros((len(mean), 5, 2))
        for _ in range(12):
            rate = np.exp(base[:, None] + np.einsum("srk,sgk->sgr", columns, z))
            curved = np.einsum("srk,sgr,srl->sgkl", columns, rate, columns) + np.eye(2)
            uphill = np.einsum("srk,sgr->sgk", columns, y - rate) - z
            step = np.linalg.solve(curved, uphill[..., None])[..., 0]
            z = z + step / np.maximum(1, np.abs(step).max(axis=2, keepdims=True))
        factor = np.linalg.cholesky(np.linalg.inv(curved))
        at = z[:, :, None] + np.einsum("sgkl,nl->sgnk", factor, pair)
        eta = base[:, None, None] + np.einsum("srk,sgnk->sgnr", columns, at)
        inner = np.sum(y[:, None] * eta - np.exp(eta), axis=3) + np.sum(norm(at), axis=3) + log_weight
        log_volume = np.log(np.diagonal(factor, axis1=2, axis2=3)).sum(axis=2)
        prior = norm(mean, 0, 2), halfnorm(v["sd"], 0, 1)
        return total(*prior, special.logsumexp(inner, axis=2) + log_volume) - special.gammaln(y + 1).sum()

    return Case(model, {"mean": real(2), "sd": positive(2)}, density, points=2**16)


def gamma_intercepts() -> Case:
    """Durations under a Gamma likelihood with a log link."""
    rng = np.random.default_rng(25)
    group = np.repeat(np.arange(6), 5)
    y = rng.gamma(3.0, np.exp(0.5 + 0.6 * rng.normal(size=6))[group] / 3.0)
    with pm.Model() as model:
        mu, tau, shape = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), pm.Gamma("shape", 2, 0.5)
        effect = pm.Normal("effect", mu, tau, shape=6)
        pm.Gamma("y", shape, shape * pt.exp(-effect[group]), observed=y)
    sums = np.array([y[group == g].sum() for g in range(6)])[:, None]

    def density(v: Values) -> tuple[Array, Moments]:
        k = v["shape"][..., None]
        log_sum, moments = normal_effects(v["mu"], v["tau"], lambda b: -5 * k * b - k * sums * np.exp(-b))
        alone = v["shape"] * np.log(v["shape"]) - special.gammaln(v["shape"]) + (v["shape"] - 1) * np.log(y)
        prior = norm(v["mu"], 0, 2), halfnorm(v["tau"], 0, 1), stats.gamma.logpdf(v["shape"], 2, scale=2)
        return total(*prior, log_sum, alone), {"effect": moments}

    return Case(model, {"mu": real(), "tau": positive(), "shape": positive()}, density, steps=44, reach=3.6)


def beta_binomial_groups() -> Case:
    """Shares of groups about a mean, with a precision: each is Beta given these two."""
    n, y = np.array([20, 20, 19, 24, 26, 22, 17]), np.array([0, 1, 3, 4, 5, 9, 4])
    with pm.Model() as model:
        mean, precision = pm.Beta("mean", 2, 2), pm.Gamma("precision", 2, 0.1)
        share = pm.Beta("share", mean * precision, (1 - mean) * precision, shape=7)
        pm.Binomial("y", n, share, observed=y)

    def density(v: Values) -> tuple[Array, Moments]:
        a, b = v["mean"] * v["precision"] + y, (1 - v["mean"]) * v["precision"] + n - y
        data = special.betaln(a, b) - special.betaln(a - y, b - n + y) + np.log(special.comb(n, y))
        prior = stats.beta.logpdf(v["mean"], 2, 2), stats.gamma.logpdf(v["precision"], 2, scale=10)
        first = a / (a + b)
        return total(*prior, data), {"share": (first, first * (a + 1) / (a + b + 1))}

    return Case(model, {"mean": unit(), "precision": positive()}, density)


def binomial_meta_analysis() -> Case:
    """Two arms of six studies: baselines of their own, effects about a mean effect."""
    rng = np.random.default_rng(26)
    n, base = rng.integers(20, 60, size=(2, 6)), rng.normal(-1, 0.5, 6)
    y = rng.binomial(n, special.expit(np.stack([base, base - 0.6 + 0.3 * rng.normal(size=6)])))
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 0.5)
        baseline, effect = pm.Normal("baseline", -1, 1, shape=6), pm.Normal("effect", mu, tau, shape=6)
        pm.Binomial("control", n[0], logit_p=baseline, observed=y[0])
        pm.Binomial("treated", n[1], logit_p=baseline + effect, observed=y[1])
    at = -1 + Z[:, None]  # baselines
    control = y[0] * at - n[0] * np.logaddexp(0, at)

    def density(v: Values) -> tuple[Array, Moments]:
        effect = v["mu"][..., None] + v["tau"][..., None] * Z[::2]  # (S, 1, nodes)
        logs = []
        for g in range(6):
            eta = at[None] + effect
            inner = y[1][g] * eta - n[1][g] * np.logaddexp(0, eta) + (control[:, g] + LOG_WEIGHT)[:, None]
            logs.append(special.logsumexp(inner, axis=1))
        terms = np.stack(logs, axis=1) + LOG_WEIGHT[::2] + np.log(2)
        log_sum, moments = summed(terms, np.broadcast_to(effect, terms.shape))
        constant = np.log(special.comb(n, y)).sum()
        return total(norm(v["mu"], 0, 1), halfnorm(v["tau"], 0, 0.5), log_sum) + constant, {"effect": moments}

    return Case(model, {"mu": real(), "tau": positive()}, density, steps=60)


def robust_effects() -> Case:
    """Eight schools with effects of a Student t."""
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]) / 10
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18]) / 10
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1)
        effect = pm.StudentT("effect", nu=4, mu=mu, sigma=tau, shape=8)
        pm.Normal("y", effect, error, observed=y)
    z = np.sinh(np.linspace(-7, 7, 401))
    log_weight = stats.t.logpdf(z, 4) + np.log(np.sqrt(1 + z**2) * 14 / 400)

    def density(v: Values) -> tuple[Array, Moments]:
        effect = v["mu"][..., None] + v["tau"][..., None] * z
        terms = log_weight + norm(y[:, None], effect, error[:, None])
        log_sum, moments = summed(terms, np.broadcast_to(effect, terms.shape))
        return total(norm(v["mu"], 0, 1), halfnorm(v["tau"], 0, 1), log_sum), {"effect": moments}

    return Case(model, {"mu": real(), "tau": positive()}, density, steps=80)


def item_response() -> Case:
    """Rasch: twelve persons, five items, a scale of abilities."""
    rng = np.random.default_rng(27)
    y = rng.binomial(1, special.expit(rng.normal(size=(12, 1)) - np.linspace(-1, 1, 5)))
    with pm.Model() as model:
        scale, difficulty = pm.HalfNormal("scale", 1), pm.Normal("difficulty", 0, 2, shape=5)
        ability = pm.Normal("ability", 0, 1, shape=12)
        pm.Bernoulli("y", logit_p=scale * ability[:, None] - difficulty, observed=y)
    right, z = y.sum(axis=1), Z[::3]

    def density(v: Values) -> Array:
        theta = v["scale"] * z
        all_wrong = -sum(np.logaddexp(0, theta - v["difficulty"][:, [k]]) for k in range(5)) + LOG_WEIGHT[::3]
        each = special.logsumexp(all_wrong[:, None] + theta[:, None] * np.arange(6)[:, None], axis=2) + np.log(3)
        data = each[:, right] @ np.ones(12) - v["difficulty"] @ y.sum(axis=0)
        return total(halfnorm(v["scale"], 0, 1), norm(v["difficulty"], 0, 2)) + data

    return Case(model, {"scale": positive(), "difficulty": real(5)}, density, points=2**18)


def errors_in_variables() -> Case:
    """A line through points whose x is seen with error: both are Normal given slope and scales."""
    rng = np.random.default_rng(28)
    true = rng.normal(1.0, 1.0, 20)
    w, y = true + 0.5 * rng.normal(size=20), 0.5 + 1.2 * true + 0.4 * rng.normal(size=20)
    with pm.Model() as model:
        a, b, m = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2), pm.Normal("m", 0, 2)
        sigma, tau = pm.HalfNormal("sigma", 1), pm.HalfNormal("tau", 2)
        x = pm.Normal("x", m, tau, shape=20)
        pm.Normal("w", x, 0.5, observed=w)
        pm.Normal("y", a + b * x, sigma, observed=y)

    def density(v: Values) -> Array:
        w_variance, shared = v["tau"] ** 2 + 0.25, v["b"] * v["tau"] ** 2
        slope = shared / w_variance
        left = np.sqrt(v["sigma"] ** 2 + v["b"] * shared - slope * shared)
        data = norm(w, v["m"], np.sqrt(w_variance)) + norm(y, v["a"] + v["b"] * v["m"] + slope * (w - v["m"]), left)
        prior = norm(v["a"], 0, 2), norm(v["b"], 0, 2), norm(v["m"], 0, 2)
        return total(*prior, halfnorm(v["sigma"], 0, 1), halfnorm(v["tau"], 0, 2), data)

    numbers = {"a": real(), "b": real(), "m": real(), "sigma": positive(), "tau": positive()}
    return Case(model, numbers, density)


GROUPS = (
    logistic_intercepts,
    logistic_intercepts_and_slope,
    poisson_slopes,
    poisson_intercepts_and_slopes,
    gamma_intercepts,
    beta_binomial_groups,
    binomial_meta_analysis,
    robust_effects,
    item_response,
    errors_in_variables,
)
