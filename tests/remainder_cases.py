"""Models of which something remains when the closed forms are used up, with independent marginal likelihoods.

``log_marginal`` is log p(y | φ) by a textbook formula in SciPy, and ``priors`` the SciPy priors of φ; neither touches
bayeskit. Rows without them are for the identities that every collapsed model must satisfy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import linalg, special, stats

__all__ = ["REMAINDERS", "Remainder"]

RNG = np.random.default_rng(20240611)


@dataclass(frozen=True)
class Remainder:
    """One model: what remains, and where known log p(y | φ) and the priors of φ (one a scalar entry, in order)."""

    name: str
    body: Callable[[], Any]
    remaining: tuple[str, ...]
    log_marginal: Callable[..., float] | None = None
    priors: tuple[Any, ...] = field(default=())
    batched: bool = False  # log_marginal takes arrays

    def build(self) -> pm.Model:
        with pm.Model() as model, warnings.catch_warnings():
            # PyMC announces every imputation; the row about missing data means it
            warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
            self.body()
        return model

    def __str__(self) -> str:
        return self.name


def normal_data(y: np.ndarray, mean: Any, covariance: np.ndarray) -> float:
    """log Normal(y; mean, covariance)."""
    factor, failed = linalg.lapack.dpotrf(covariance, lower=1)  # asked 300,000 times: no checks
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    white, _ = linalg.lapack.dtrtrs(factor, y - mean, lower=1)
    return float(-0.5 * white @ white - np.log(np.diag(factor)).sum() - 0.5 * len(y) * np.log(2 * np.pi))


# -- eight schools (Rubin 1981) ----------------------------------------------------------------------------------------
EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(effect: np.ndarray) -> Callable[[float], float]:
    return lambda tau: normal_data(effect, 0.0, np.diag(ERROR**2 + tau**2) + 25.0)


def schools_centred(prior: Callable[[], Any], effect: np.ndarray = EFFECT) -> Callable[[], None]:
    def body() -> None:
        mu, tau = pm.Normal("mu", 0.0, 5.0), prior()
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, ERROR, observed=effect)

    return body


def schools_noncentred() -> None:
    mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
    z = pm.Normal("z", 0.0, 1.0, shape=8)
    theta = pm.Deterministic("theta", mu + tau * z)
    pm.Normal("y", theta, ERROR, observed=effect_of(EFFECT))


def effect_of(values: np.ndarray) -> np.ndarray:
    return values


ALIKE = 4.0 + 0.2 * np.arange(8)  # far less spread than the standard errors: the posterior of tau touches zero

# -- regression --------------------------------------------------------------------------------------------------------
X = RNG.normal(size=(30, 2))
Y = 3.0 + X @ np.array([1.0, -0.5]) + 0.7 * RNG.normal(size=30)
GROUP = np.arange(30) % 2
DESIGN = np.column_stack([np.ones(30), X])
TIME = np.linspace(0.0, 3.0, 30)


def regression(noise: Callable[[], Any], scale: Callable[[], Any] | None = None) -> Callable[[], None]:
    def body() -> None:
        sigma = noise()
        tau = 1.0 if scale is None else scale()
        intercept = pm.Normal("intercept", 0.0, 10.0)
        weights = pm.Normal("weights", 0.0, tau, shape=2)
        pm.Normal("y", intercept + pt.dot(X, weights), sigma, observed=Y)

    return body


def regression_marginal(sigma: Any, tau: Any = 1.0) -> Any:
    scales, which = np.unique(np.broadcast_to(tau, np.shape(sigma)), return_inverse=True)
    matrices = 100.0 + scales[:, None, None] ** 2 * (X @ X.T)
    return noisy_normal(Y, matrices, which.reshape(np.shape(sigma)), 1.0, np.asarray(sigma) ** 2)


def half_normal() -> Any:
    return pm.HalfNormal("sigma", 1.0)


def half_cauchy_scale() -> Any:
    return pm.HalfCauchy("tau", 1.0)


def group_noise() -> Any:
    return pm.HalfNormal("sigma", 1.0, shape=2)[GROUP]


def group_noise_marginal(one: Any, two: Any) -> Any:
    noise = np.where(GROUP == 0, np.asarray(one)[..., None], np.asarray(two)[..., None])
    return low_rank_normal(Y, noise**2, DESIGN, np.array([100.0, 1.0, 1.0]))


def variance_spelled() -> Any:
    return pt.sqrt(pm.LogNormal("sigma", 0.0, 1.0))


def precision_spelled() -> None:
    precision = pm.Gamma("precision", 2.0, 1.0)
    weights = pm.Normal("weights", 0.0, 1.0, shape=3)
    pm.Normal("y", pt.dot(DESIGN, weights), tau=precision, observed=Y)


def scaled_weights() -> None:
    tau = pm.HalfNormal("tau", 1.0, shape=2)
    z = pm.Normal("z", 0.0, 1.0, shape=2)
    pm.Normal("y", pt.dot(X, tau * z), 0.8, observed=Y - 3.0)


def heteroscedastic() -> None:
    a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
    weights = pm.Normal("weights", 0.0, 2.0, shape=3)
    pm.Normal("y", pt.dot(DESIGN, weights), pt.exp(a + b * X[:, 0]), observed=Y)


def heteroscedastic_marginal(a: Any, b: Any) -> Any:
    log_sd = np.asarray(a)[..., None] + np.asarray(b)[..., None] * X[:, 0]
    with np.errstate(over="ignore"):
        return low_rank_normal(Y, np.exp(2 * log_sd), DESIGN, np.full(3, 4.0))


def decay(noise: Callable[[], Any]) -> Callable[[], None]:
    def body() -> None:
        rate, sigma = pm.HalfNormal("rate", 1.0), noise()
        weights = pm.Normal("weights", 0.0, 2.0, shape=2)
        pm.Normal("y", weights[0] + weights[1] * pt.exp(-rate * TIME), sigma, observed=Y)

    return body


def decay_marginal(rate: Any, sigma: Any = 0.8) -> Any:
    rates, which = np.unique(rate, return_inverse=True)
    curve = np.exp(-rates[:, None] * TIME)
    matrices = 4.0 * (1.0 + curve[:, :, None] * curve[:, None, :])
    return noisy_normal(Y, matrices, which.reshape(np.shape(rate)), 1.0, np.asarray(sigma) ** 2)


def lognormal_data() -> None:
    sigma = pm.HalfNormal("sigma", 1.0)
    weights = pm.Normal("weights", 0.0, 1.0, shape=3)
    pm.LogNormal("y", pt.dot(DESIGN, weights), sigma, observed=np.exp(Y / 4.0))


def lognormal_marginal(sigma: float) -> float:
    covariance = sigma**2 * np.eye(30) + DESIGN @ DESIGN.T
    return normal_data(Y / 4.0, 0.0, covariance) - float(np.sum(Y / 4.0))


def missing_data() -> None:
    sigma = pm.HalfNormal("sigma", 1.0)
    weights = pm.Normal("weights", 0.0, 1.0, shape=3)
    holes = np.ma.masked_array(Y, mask=np.arange(30) % 7 == 3)
    pm.Normal("y", pt.dot(DESIGN, weights), sigma, observed=holes)


def missing_marginal(sigma: float) -> float:
    seen = np.arange(30) % 7 != 3
    return normal_data(Y[seen], 0.0, (sigma**2 * np.eye(30) + DESIGN @ DESIGN.T)[np.ix_(seen, seen)])


def vector_data() -> None:
    scale = pm.HalfNormal("scale", 1.0)
    mean = pm.MvNormal("mean", np.zeros(2), np.eye(2))
    pm.MvNormal("y", mean, scale**2 * np.array([[1.0, 0.4], [0.4, 2.0]]), observed=X[:12])


def vector_marginal(scale: float) -> float:
    within = scale**2 * np.array([[1.0, 0.4], [0.4, 2.0]])
    covariance = np.kron(np.eye(12), within) + np.kron(np.ones((12, 12)), np.eye(2))
    return normal_data(X[:12].ravel(), 0.0, covariance)


# -- chains ------------------------------------------------------------------------------------------------------------
LEVEL = (np.cumsum(0.5 * RNG.normal(size=25)) + 0.4 * RNG.normal(size=25))[:9]


def local_level(spelling: str, size: int = 9) -> Callable[[], None]:
    data = np.resize(LEVEL, size)

    def body() -> None:
        step, noise = pm.HalfNormal("step", 1.0), pm.HalfNormal("noise", 1.0)
        if spelling == "walk":
            first = pm.Normal.dist(0.0, 2.0)
            state = pm.GaussianRandomWalk("state", sigma=step, init_dist=first, steps=size - 1)
        else:
            first, moves = pm.Normal("first", 0.0, 2.0), pm.Normal("moves", 0.0, 1.0, shape=size - 1)
            state = first + pt.concatenate([[0.0], step * pt.cumsum(moves)])
        pm.Normal("y", state, noise, observed=data)

    return body


def local_level_marginal(step: Any, noise: Any) -> Any:
    when, (steps, which) = np.arange(9), np.unique(step, return_inverse=True)
    matrices = 4.0 + steps[:, None, None] ** 2 * np.minimum.outer(when, when)
    return noisy_normal(LEVEL, matrices, which.reshape(np.shape(step)), 1.0, np.asarray(noise) ** 2)


def autoregression() -> None:
    rho = pm.Uniform("rho", -1.0, 1.0)
    state = pm.AR("state", rho=[rho], sigma=0.5, init_dist=pm.Normal.dist(0.0, 1.0), steps=8)
    pm.Normal("y", state, 0.4, observed=LEVEL)


def autoregression_marginal(rho: float) -> float:
    move = np.eye(9) - np.diag(np.full(8, rho), -1)
    root = np.linalg.solve(move, np.diag(np.r_[1.0, np.full(8, 0.5)]))
    return normal_data(LEVEL, 0.0, root @ root.T + 0.16 * np.eye(9))


# -- Gaussian processes ------------------------------------------------------------------------------------------------
PLACE = np.linspace(0.0, 4.0, 5)[:, None]
CURVE = np.sin(PLACE[:, 0]) + 0.2 * RNG.normal(size=5)


def process(spelling: str, *, scaled: bool = False) -> Callable[[], None]:
    def body() -> None:
        length = pm.Gamma("length", 3.0, 2.0)
        amplitude = pm.HalfNormal("amplitude", 1.0) if scaled else 1.0
        noise = pm.HalfNormal("noise", 1.0) if spelling == "marginal" else 0.3
        covariance = amplitude**2 * pm.gp.cov.ExpQuad(1, length)
        if spelling == "marginal":
            pm.gp.Marginal(cov_func=covariance).marginal_likelihood("y", PLACE, CURVE, sigma=noise, jitter=0.0)
            return
        matrix = covariance(PLACE) + 1e-9 * np.eye(5)
        if spelling == "latent":
            values = pm.MvNormal("values", np.zeros(5), matrix)
        else:
            values = pt.linalg.cholesky(matrix) @ pm.Normal("white", 0.0, 1.0, shape=5)
        pm.Normal("y", values, noise, observed=CURVE)

    return body


def process_marginal(length: Any, amplitude: Any = 1.0, noise: Any = 0.3) -> Any:
    length, amplitude, noise = (np.asarray(v, dtype=float) for v in (length, amplitude, noise))
    scales, which = np.unique(length, return_inverse=True)
    kernels = np.exp(-0.5 * ((PLACE - PLACE.T) / scales[:, None, None]) ** 2)
    return noisy_normal(CURVE, kernels, which.reshape(length.shape), amplitude**2, noise**2)


def low_rank_normal(y: np.ndarray, noise: np.ndarray, design: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """log Normal(y; 0, diag(noise) + D diag(prior) Dᵀ) for noise or prior of every point, by Woodbury's identity.

    With R = D diag(prior)^½ the determinant is Π noise · |I + Rᵀ diag(noise)⁻¹ R|. Where the noise is next to
    nothing, so is the density.
    """
    with np.errstate(all="ignore"):
        root = design * np.sqrt(prior)[..., None, :]
        inner = np.eye(design.shape[1]) + np.einsum("...nj,...n,...nk->...jk", root, 1 / noise, root)
        fine = np.max(np.abs(inner), axis=(-2, -1)) < 1e12
        inner = np.where(fine[..., None, None], inner, np.eye(design.shape[1]))
        linear = np.einsum("...nj,...n->...j", root, y / noise)
        solved = np.linalg.solve(inner, linear[..., None])[..., 0]
        # The residuals at the mean of the weights, and the distance of that mean from zero: nothing cancels.
        residual = y - np.einsum("...nj,...j->...n", root, solved)
        square = np.sum(residual**2 / noise, axis=-1) + np.sum(solved**2, axis=-1)
        determinant = np.sum(np.log(2 * np.pi * noise), axis=-1) + np.linalg.slogdet(inner)[1]
    return np.where(fine, -0.5 * (square + determinant), -np.inf)


def noisy_normal(y: np.ndarray, matrices: np.ndarray, which: Any, scale: Any, variance: Any) -> Any:
    """log Normal(y; 0, c M + v I) for c and v of every point and its M, the one with number ``which``, by eigenvalues.

    Where c M + v I is singular to working precision, nothing.
    """
    values, vectors = np.linalg.eigh(matrices)
    squares = np.einsum("gij,i->gj", vectors, y) ** 2
    spread = np.asarray(scale)[..., None] * values[which] + np.asarray(variance)[..., None]
    with np.errstate(all="ignore"):
        terms = -0.5 * (squares[which] / spread + np.log(2 * np.pi * spread))
    return np.where(spread.min(axis=-1) > 1e-14 * spread.max(axis=-1), np.sum(terms, axis=-1), -np.inf)


# -- conjugate pairs with unknown hyperparameters ----------------------------------------------------------------------
COUNTS = np.array([1, 3, 2, 7, 9, 4])
EXPOSURE = np.array([1.0, 2.0, 1.0, 3.0, 2.0, 1.5])
WINS = np.array([1, 3, 2, 7, 5])


def gamma_poisson() -> None:
    a, b = pm.HalfNormal("a", 2.0), pm.HalfNormal("b", 2.0)
    rate = pm.Gamma("rate", a, b, shape=6)
    pm.Poisson("y", rate * EXPOSURE, observed=COUNTS)


def gamma_poisson_marginal(a: Any, b: Any) -> Any:
    a, b = (np.asarray(v, dtype=float)[..., None] for v in (a, b))
    return stats.nbinom(a, b / (b + EXPOSURE)).logpmf(COUNTS).sum(axis=-1)


def beta_binomial() -> None:
    a, b = pm.HalfNormal("a", 2.0), pm.HalfNormal("b", 2.0)
    chance = pm.Beta("chance", a, b, shape=5)
    pm.Binomial("y", 10, chance, observed=WINS)


def beta_binomial_marginal(a: Any, b: Any) -> Any:
    a, b = (np.asarray(v, dtype=float)[..., None] for v in (a, b))
    return stats.betabinom(10, a, b).logpmf(WINS).sum(axis=-1)


def dirichlet_multinomial() -> None:
    a = pm.Gamma("a", 2.0, 1.0)
    shares = pm.Dirichlet("shares", a * np.ones(3))
    pm.Multinomial("y", 10, shares, observed=[1, 3, 6])


def dirichlet_multinomial_marginal(a: float) -> float:
    return float(stats.dirichlet_multinomial([a, a, a], 10).logpmf([1, 3, 6]))


def precision_rate() -> None:
    rate = pm.HalfNormal("rate", 2.0)
    precision = pm.Gamma("precision", 2.0, rate, shape=3)
    pm.Normal("y", 0.0, tau=precision[np.arange(30) % 3], observed=Y - 3.0)


def precision_rate_marginal(rate: float) -> float:
    total = 0.0
    for k in range(3):
        y = (Y - 3.0)[np.arange(30) % 3 == k]
        a, b = 2.0 + len(y) / 2, rate + 0.5 * np.sum(y**2)
        total += 2.0 * np.log(rate) - special.gammaln(2.0) + special.gammaln(a) - a * np.log(b)
        total -= 0.5 * len(y) * np.log(2 * np.pi)
    return float(total)


def scaled_decay() -> None:
    rate = pm.HalfNormal("rate", 1.0)
    variance = pm.InverseGamma("variance", 2.0, 1.0)
    weights = pm.Normal("weights", 0.0, pt.sqrt(variance), shape=2)
    pm.Normal("y", weights[0] + weights[1] * pt.exp(-rate * TIME), pt.sqrt(variance), observed=Y)


def scaled_decay_marginal(rate: float) -> float:
    basis = np.column_stack([np.ones(30), np.exp(-rate * TIME)])
    shape = (np.eye(30) + basis @ basis.T) * 1.0 / 2.0
    return float(stats.multivariate_t(np.zeros(30), shape, df=4).logpdf(Y))


# -- mixed -------------------------------------------------------------------------------------------------------------
def heavy_weight() -> None:
    slope = pm.StudentT("slope", nu=3.0, mu=0.0, sigma=1.0)
    intercept = pm.Normal("intercept", 0.0, 10.0)
    pm.Normal("y", intercept + slope * X[:, 0], 0.8, observed=Y)


def heavy_weight_marginal(slope: float) -> float:
    return normal_data(Y - slope * X[:, 0], 0.0, 0.64 * np.eye(30) + 100.0)


def leaf() -> None:
    sigma = pm.HalfNormal("sigma", 1.0)
    mu = pm.Normal("mu", 0.0, 2.0)
    pm.Normal("y", mu, sigma, observed=Y[:6] - 3.0)
    pm.Exponential("unseen", 1.0 / sigma)


def leaf_marginal(sigma: float) -> float:
    return normal_data(Y[:6] - 3.0, 0.0, sigma**2 * np.eye(6) + 4.0)


def two_blocks() -> None:
    one, two = pm.HalfNormal("one", 1.0), pm.HalfNormal("two", 1.0)
    pm.Normal("y1", pm.Normal("m1", 0.0, 2.0), one, observed=Y[:6] - 3.0)
    pm.Normal("y2", pm.Normal("m2", 0.0, 2.0), two, observed=Y[6:12] - 3.0)


def two_blocks_marginal(one: Any, two: Any) -> Any:
    blocks, which = np.full((1, 6, 6), 4.0), np.zeros(np.shape(one), dtype=int)
    parts = [(Y[:6] - 3.0, one), (Y[6:12] - 3.0, two)]
    return sum(noisy_normal(y, blocks, which, 1.0, np.asarray(sd) ** 2) for y, sd in parts)


def varying() -> None:
    mu = pm.Normal("mu", 0.0, 5.0, shape=2)
    # Three numbers, whose logarithms have light tails: a tenth of the nodes that half-normal ones would take.
    tau = pm.LogNormal("tau", 0.0, 0.5, shape=2)
    sigma = pm.LogNormal("sigma", 0.0, 0.5)
    which = np.arange(12) % 3
    a = pm.Normal("a", mu[0], tau[0], shape=3)
    b = pm.Normal("b", mu[1], tau[1], shape=3)
    pm.Normal("y", a[which] + b[which] * X[:12, 0], sigma, observed=Y[:12])


def varying_marginal(one: Any, two: Any, sigma: Any) -> Any:
    which = np.arange(12) % 3
    same, cross = which[:, None] == which, np.outer(X[:12, 0], X[:12, 0])
    pairs, number = np.unique(np.asarray(one) + 1j * np.asarray(two), return_inverse=True)
    first, second = (part[:, None, None] ** 2 for part in (pairs.real, pairs.imag))
    matrices = 25.0 * (1 + cross) + same * (first + second * cross)
    return noisy_normal(Y[:12], matrices, number.reshape(np.shape(one)), np.ones_like(sigma), np.asarray(sigma) ** 2)


def cauchy_location() -> None:
    pm.StudentT("y", nu=4.0, mu=pm.Cauchy("mu", 0.0, 1.0), sigma=1.0, observed=Y[:5])


def cauchy_location_marginal(mu: Any) -> Any:
    return stats.t.logpdf(Y[:5], 4.0, np.asarray(mu)[..., None]).sum(axis=-1)


# -- not for quadrature ------------------------------------------------------------------------------------------------
def many_plates() -> None:
    tau, sigma = pm.HalfNormal("tau", 1.0), pm.HalfNormal("sigma", 1.0)
    mu = pm.Normal("mu", 0.0, 5.0)
    which = np.arange(400) % 100
    theta = pm.Normal("theta", mu, tau, shape=100)
    pm.Normal("y", theta[which], sigma, observed=np.resize(Y, 400))


def components() -> None:
    loadings = pm.Normal("loadings", 0.0, 1.0, shape=(4, 2))
    sigma = pm.HalfNormal("sigma", 1.0)
    scores = pm.Normal("scores", 0.0, 1.0, shape=(40, 2))
    mu = pm.Normal("mu", 0.0, 10.0, shape=4)
    pm.Normal("y", mu + pt.dot(scores, loadings.T), sigma, observed=RNG_MATRIX)


RNG_MATRIX = np.random.default_rng(7).normal(size=(40, 4))


def one_scale_each() -> None:
    tau, sigma = pm.HalfCauchy("tau", 1.0, shape=2), pm.HalfNormal("sigma", 1.0)
    prior = pm.HalfNormal("prior", 1.0)
    weights = pm.Normal("weights", 0.0, tau * prior, shape=2)
    pm.Normal("y", 3.0 + pt.dot(X, weights), sigma, observed=Y)


def cauchy(scale: float) -> Any:
    return stats.halfcauchy(scale=scale)


HALF = stats.halfnorm()

# -- directions of unknown concentration (Mardia and Jupp 2000) --------------------------------------------------------
HEADING = np.array([0.4, 1.3, -0.2, 0.9, 2.6, 1.1])
HERD = np.array([0, 0, 1, 1, 1, 0])


def directions() -> None:
    mu = pm.VonMises("mu", np.array([0.5, -1.0]), 1.5, shape=2)
    pm.VonMises("y", mu[HERD], pm.Gamma("kappa", 2.0, 0.5), observed=HEADING)


def directions_marginal(kappa: float) -> float:
    """Π_g I₀(|1.5 e^{im_g} + κ Σ e^{iy}|) / I₀(1.5) / (2π I₀(κ))ⁿ."""

    def log_bessel(x: float) -> float:
        return float(np.log(special.i0e(x)) + x)

    total = -len(HEADING) * (np.log(2 * np.pi) + log_bessel(kappa))
    for herd, centre in enumerate((0.5, -1.0)):
        resultant = abs(1.5 * np.exp(1j * centre) + kappa * np.exp(1j * HEADING[herd == HERD]).sum())
        total += log_bessel(resultant) - log_bessel(1.5)
    return float(total)


REMAINDERS: tuple[Remainder, ...] = (
    Remainder(
        "directions, unknown concentration", directions, ("kappa",), directions_marginal, (stats.gamma(2, scale=2),)
    ),
    Remainder(
        "eight schools, centred",
        schools_centred(lambda: pm.HalfCauchy("tau", 5.0)),
        ("tau",),
        schools(EFFECT),
        (cauchy(5),),
    ),
    Remainder("eight schools, non-centred", schools_noncentred, ("tau",), schools(EFFECT), (cauchy(5),)),
    Remainder(
        "eight schools, uniform",
        schools_centred(lambda: pm.Uniform("tau", 0.0, 30.0)),
        ("tau",),
        schools(EFFECT),
        (stats.uniform(0, 30),),
    ),
    Remainder(
        "no spread between groups",
        schools_centred(lambda: pm.HalfCauchy("tau", 5.0), ALIKE),
        ("tau",),
        schools(ALIKE),
        (cauchy(5),),
    ),
    Remainder(
        "regression, half-normal noise", regression(half_normal), ("sigma",), regression_marginal, (HALF,), batched=True
    ),
    Remainder(
        "regression, log-normal variance",
        regression(variance_spelled),
        ("sigma",),
        lambda v: regression_marginal(v**0.5),
        (stats.lognorm(1.0),),
        batched=True,
    ),
    Remainder(
        "regression, precision",
        precision_spelled,
        ("precision",),
        lambda p: normal_data(Y, 0.0, np.eye(30) / p + DESIGN @ DESIGN.T),
        (stats.gamma(2.0),),
    ),
    Remainder(
        "regression, ridge learnt",
        regression(half_normal, half_cauchy_scale),
        ("sigma", "tau"),
        regression_marginal,
        (HALF, cauchy(1)),
        batched=True,
    ),
    Remainder(
        "regression, noise by group",
        regression(group_noise),
        ("sigma",),
        group_noise_marginal,
        (HALF, HALF),
        batched=True,
    ),
    Remainder(
        "regression, scaled weights",
        scaled_weights,
        ("tau",),
        lambda a, b: low_rank_normal(Y - 3.0, np.full(30, 0.64), X, np.stack([a, b], axis=-1) ** 2),
        (HALF, HALF),
        batched=True,
    ),
    Remainder(
        "regression, heteroscedastic",
        heteroscedastic,
        ("a", "b"),
        heteroscedastic_marginal,
        (stats.norm(), stats.norm()),
        batched=True,
    ),
    Remainder("decay", decay(half_normal), ("rate", "sigma"), decay_marginal, (HALF, HALF), batched=True),
    Remainder("log-normal data", lognormal_data, ("sigma",), lognormal_marginal, (HALF,)),
    Remainder("missing data", missing_data, ("sigma",), missing_marginal, (HALF,)),
    Remainder("vectors of unknown scale", vector_data, ("scale",), vector_marginal, (HALF,)),
    Remainder(
        "local level, random walk",
        local_level("walk"),
        ("step", "noise"),
        local_level_marginal,
        (HALF, HALF),
        batched=True,
    ),
    Remainder(
        "local level, sum of moves",
        local_level("sum"),
        ("step", "noise"),
        local_level_marginal,
        (HALF, HALF),
        batched=True,
    ),
    Remainder("autoregression", autoregression, ("rho",), autoregression_marginal, (stats.uniform(-1, 2),)),
    Remainder(
        "process, latent",
        process("latent", scaled=True),
        ("length", "amplitude"),
        process_marginal,
        (stats.gamma(3, scale=0.5), HALF),
        batched=True,
    ),
    Remainder(
        "process, white",
        process("white", scaled=True),
        ("length", "amplitude"),
        process_marginal,
        (stats.gamma(3, scale=0.5), HALF),
        batched=True,
    ),
    Remainder(
        "process, marginal",
        process("marginal"),
        ("length", "noise"),
        lambda length, noise: process_marginal(length, noise=noise),
        (stats.gamma(3, scale=0.5), HALF),
        batched=True,
    ),
    Remainder(
        "Gamma-Poisson",
        gamma_poisson,
        ("a", "b"),
        gamma_poisson_marginal,
        (stats.halfnorm(scale=2), stats.halfnorm(scale=2)),
        batched=True,
    ),
    Remainder(
        "Beta-Binomial",
        beta_binomial,
        ("a", "b"),
        beta_binomial_marginal,
        (stats.halfnorm(scale=2), stats.halfnorm(scale=2)),
        batched=True,
    ),
    Remainder(
        "Dirichlet-Multinomial", dirichlet_multinomial, ("a",), dirichlet_multinomial_marginal, (stats.gamma(2.0),)
    ),
    Remainder(
        "precisions of unknown rate", precision_rate, ("rate",), precision_rate_marginal, (stats.halfnorm(scale=2),)
    ),
    Remainder("decay, conjugate noise", scaled_decay, ("rate",), scaled_decay_marginal, (HALF,)),
    Remainder("heavy-tailed weight", heavy_weight, ("slope",), heavy_weight_marginal, (stats.t(3.0),)),
    Remainder("a leaf", leaf, ("sigma",), leaf_marginal, (HALF,)),
    Remainder("two blocks", two_blocks, ("one", "two"), two_blocks_marginal, (HALF, HALF), batched=True),
    Remainder(
        "varying intercepts and slopes",
        varying,
        ("tau", "sigma"),
        varying_marginal,
        (stats.lognorm(0.5), stats.lognorm(0.5), stats.lognorm(0.5)),
        batched=True,
    ),
    Remainder(
        "Cauchy location, nothing eliminated",
        cauchy_location,
        ("mu",),
        cauchy_location_marginal,
        (stats.cauchy(),),
        batched=True,
    ),
    Remainder("a hundred plates", many_plates, ("tau", "sigma")),
    Remainder("a long chain", local_level("walk", 300), ("step", "noise")),
    Remainder("principal components", components, ("loadings", "sigma")),
    Remainder("one scale a coefficient", one_scale_each, ("tau", "sigma", "prior")),
)
