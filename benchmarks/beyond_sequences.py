"""Series and processes beyond conjugacy, with log densities by hand: see :mod:`beyond_references`.

A latent chain of order one is summed over a grid of its standardised value, step by step; Normal data by their
covariance.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from beyond_references import Case, Values, interval, positive, real, total, unit
from scipy import special, stats

__all__ = ["SEQUENCES"]

Array = np.ndarray
norm, halfnorm = stats.norm.logpdf, stats.halfnorm.logpdf
Z = np.linspace(-6, 6, 73)


def chain(phi: Array, log_likelihood: Array) -> Array:
    """log p(y) of a chain z' = phi z + sqrt(1 - phi²) e, z Normal, from log likelihoods (S, steps, grid)."""
    left = np.sqrt(1 - phi**2)[..., None]
    log_move = -0.5 * ((Z - phi[..., None] * Z[:, None]) / left) ** 2
    move = special.softmax(log_move, axis=2)  # near one or minus one too, where the step of the grid is wider
    height = log_likelihood.max(axis=2)
    likelihood = np.exp(log_likelihood - height[..., None])
    mass = stats.norm.pdf(Z) * (Z[1] - Z[0]) * likelihood[:, 0]
    log_sum = height.sum(axis=1)
    for step in range(1, log_likelihood.shape[1]):
        mass = np.einsum("si,sij->sj", mass, move) * likelihood[:, step]
        size = mass.sum(axis=1)
        mass, log_sum = mass / size[:, None], log_sum + np.log(size)
    return log_sum + np.log(mass.sum(axis=1))


def autoregression(steps: int, phi: float, seed: int) -> tuple[Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=steps)
    for t in range(1, steps):
        z[t] = phi * z[t - 1] + np.sqrt(1 - phi**2) * z[t]
    return z, rng


def stochastic_volatility() -> Case:
    z, rng = autoregression(25, 0.8, 31)
    y = np.exp((-1 + 0.8 * z) / 2) * rng.normal(size=25)
    with pm.Model() as model:
        mu, phi, sd = pm.Normal("mu", -1, 1), pm.Beta("phi", 5, 2), pm.HalfNormal("sd", 1)
        innovation = pt.sqrt(1 - phi**2)
        z = pm.AR("z", rho=pt.stack([phi]), sigma=innovation, init_dist=pm.Normal.dist(0, 1), steps=24)
        pm.Normal("y", 0, pt.exp((mu + sd * z) / 2), observed=y)

    def density(v: Values) -> Array:
        half = (v["mu"][..., None] + v["sd"][..., None] * Z) / 2
        data = norm(y[:, None] * np.exp(-half)) - half
        return total(norm(v["mu"], -1, 1), stats.beta.logpdf(v["phi"], 5, 2), halfnorm(v["sd"], 0, 1)) + chain(
            v["phi"], data
        )

    return Case(model, {"mu": real(), "phi": unit(), "sd": positive()}, density, steps=32, reach=3.3)


def counts_of_an_autoregression() -> Case:
    z, rng = autoregression(25, 0.7, 32)
    y = rng.poisson(np.exp(1 + 0.6 * z))
    with pm.Model() as model:
        mu, phi, sd = pm.Normal("mu", 0, 2), pm.Uniform("phi", -1, 1), pm.HalfNormal("sd", 1)
        innovation = sd * pt.sqrt(1 - phi**2)
        x = pm.AR("x", rho=pt.stack([phi]), sigma=innovation, init_dist=pm.Normal.dist(0, sd), steps=24)
        pm.Poisson("y", pt.exp(mu + x), observed=y)

    def density(v: Values) -> Array:
        log_rate = v["mu"][..., None] + v["sd"][..., None] * Z
        data = y[:, None] * log_rate - np.exp(log_rate) - special.gammaln(y + 1)[:, None]
        return total(norm(v["mu"], 0, 2), halfnorm(v["sd"], 0, 1)) - np.log(2) + chain(v["phi"], data)

    return Case(model, {"mu": real(), "phi": interval(-1, 1), "sd": positive()}, density, steps=32, reach=3.3)


def log_normal_density(y: Array, covariance: Array) -> Array:
    """Of Normal data with mean zero, one covariance a point."""
    factor = np.linalg.cholesky(covariance)
    z = np.linalg.solve(factor, np.broadcast_to(y[:, None], (len(factor), len(y), 1)))[..., 0]
    log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * np.sum(z**2, axis=1) - log_det - len(y) * np.log(2 * np.pi) / 2


def local_level() -> Case:
    rng = np.random.default_rng(33)
    y = np.cumsum(0.4 * rng.normal(size=30)) + 0.6 * rng.normal(size=30)
    with pm.Model() as model:
        q, r = pm.HalfNormal("q", 1), pm.HalfNormal("r", 1)
        level = pm.GaussianRandomWalk("level", sigma=q, init_dist=pm.Normal.dist(0, 2), steps=29)
        pm.Normal("y", level, r, observed=y)
    steps, eye = np.minimum.outer(np.arange(30), np.arange(30)), np.eye(30)

    def density(v: Values) -> Array:
        q, r = v["q"][..., None], v["r"][..., None]
        data = log_normal_density(y, 4.0 + q**2 * steps + r**2 * eye)
        return total(halfnorm(v["q"], 0, 1), halfnorm(v["r"], 0, 1)) + data

    return Case(model, {"q": positive(), "r": positive()}, density, steps=120)


def local_trend() -> Case:
    """A level whose slope wanders as well, of a quarterly pattern beside it."""
    rng = np.random.default_rng(34)
    t = np.arange(24)
    y = 0.2 * t + np.array([1.0, -0.5, 0.3, -0.8])[t % 4] + 0.4 * rng.normal(size=24)
    with pm.Model() as model:
        q, s, r = pm.HalfNormal("q", 0.5), pm.HalfNormal("s", 0.2), pm.HalfNormal("r", 1)
        slope = pm.GaussianRandomWalk("slope", sigma=s, init_dist=pm.Normal.dist(0, 1), steps=23)
        jump = pm.Normal("jump", 0, q, shape=24)
        quarter = pm.Normal("quarter", 0, 1, shape=4)
        pm.Normal("y", pt.cumsum(slope + jump) + quarter[t % 4], r, observed=y)
    add, steps = np.tril(np.ones((24, 24))), np.minimum.outer(t, t)
    fixed = add @ np.ones((24, 24)) @ add.T + (t[:, None] % 4 == t % 4)

    def density(v: Values) -> Array:
        q, s, r = (v[name][..., None] ** 2 for name in ("q", "s", "r"))
        covariance = fixed + s * (add @ steps @ add.T) + q * (add @ add.T) + r * np.eye(24)
        prior = halfnorm(v["q"], 0, 0.5), halfnorm(v["s"], 0, 0.2), halfnorm(v["r"], 0, 1)
        return total(*prior) + log_normal_density(y, covariance)

    return Case(model, {"q": positive(), "s": positive(), "r": positive()}, density, steps=36)


def gaussian_process_counts() -> Case:
    """Counts whose log rate is a Gaussian process of unknown height and length."""
    rng = np.random.default_rng(35)
    x = np.linspace(0, 3, 12)
    y = rng.poisson(np.exp(1 + np.sin(2 * x)))
    apart = np.abs(x[:, None] - x)
    with pm.Model() as model:
        height, length = pm.HalfNormal("height", 1), pm.LogNormal("length", 0, 0.5)
        covariance = height**2 * (pt.exp(-0.5 * (apart / length) ** 2) + 1e-4 * np.eye(12))
        f = pm.MvNormal("f", np.ones(12), covariance)
        pm.Poisson("y", pt.exp(f), observed=y)

    def density(v: Values) -> Array:
        length = np.maximum(v["length"], 1e-9)[..., None]
        factor = np.linalg.cholesky(np.exp(-0.5 * (apart / length) ** 2) + 1e-4 * np.eye(12))
        f = 1 + v["height"] * np.einsum("sij,sj->si", factor, v["_white"])
        prior = halfnorm(v["height"], 0, 1), stats.lognorm.logpdf(v["length"], 0.5), norm(v["_white"])
        return total(*prior, y * f - np.exp(f) - special.gammaln(y + 1))

    numbers = {"height": positive(), "length": positive(), "_white": real(12)}
    return Case(model, numbers, density)


def gaussian_process_classes() -> Case:
    """Yes and no along a line, of a Matérn process that is known but for its mean."""
    rng = np.random.default_rng(36)
    x = np.sort(rng.uniform(0, 4, 12))
    y = (np.sin(2 * x) + 0.5 * rng.normal(size=12) > 0).astype(int)
    apart = np.abs(x[:, None] - x)
    covariance = 2.0 * (1 + np.sqrt(3) * apart) * np.exp(-np.sqrt(3) * apart)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        f = pm.MvNormal("f", mean + np.zeros(12), covariance)
        pm.Bernoulli("y", logit_p=f, observed=y)
    factor, signs = np.linalg.cholesky(covariance), 2 * y - 1

    def density(v: Values) -> Array:
        f = v["mean"] + v["_white"] @ factor.T
        return total(norm(v["mean"]), norm(v["_white"]), special.log_expit(signs * f))

    return Case(model, {"mean": real(), "_white": real(12)}, density)


SEQUENCES = (
    stochastic_volatility,
    counts_of_an_autoregression,
    local_level,
    local_trend,
    gaussian_process_counts,
    gaussian_process_classes,
)
